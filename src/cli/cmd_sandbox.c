/* SPDX-License-Identifier: MIT */
/* berth sandbox start|stop|destroy|info|ls. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "base/time.h"
#include "cli/cli.h"

static int64_t attempts = 3, delay_ms = 250;
const struct cli_opt destroy_options[] = {
	{.name = "attempts",
	 .kind = OPT_COUNT,
	 .arg = "N",
	 .deflt = "3",
	 .help = "how often it is tried",
	 .value = &attempts},
	{.name = "delay",
	 .kind = OPT_DURATION,
	 .flags = OPT_ZERO,
	 .arg = "DUR",
	 .deflt = "250ms",
	 .help = "between two attempts",
	 .value = &delay_ms},
	{0},
};

/* "PROVIDER:NAME" in its two halves. */
static void split_name(const char *full, char provider[64], const char **ret_name)
{
	const char *colon = strchr(full, ':');

	snprintf(provider, 64, "%.*s", colon ? (int)MIN_OF(colon - full, (ptrdiff_t)63) : 0, full);
	*ret_name = colon ? colon + 1 : full;
}

static void json_time(struct json *j, const char *key, int64_t ms)
{
	char buf[TIME_RFC3339_SIZE];

	json_kv_str(j, key, ms ? format_rfc3339_ms(ms, buf) : NULL);
}

/* Takes "4111=http://127.0.0.1:32801 …" apart: calls fn with each port and its URL. */
static void each_port(const char *ports, void (*fn)(void *arg, const char *port, const char *url),
		      void *arg)
{
	char text[sizeof(((struct berth_provider_info *)NULL)->ports)];
	char *word, *save = NULL;

	snprintf(text, sizeof(text), "%s", ports);
	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(word, '=');

		if (!eq)
			continue;
		*eq = '\0';
		fn(arg, word, eq + 1);
	}
}

static void json_port(void *arg, const char *port, const char *url)
{
	json_kv_str(arg, port, url);
}

static void info_json(struct json *j, const char *full, const struct berth_provider_info *i)
{
	char provider[64];
	const char *name;

	split_name(full, provider, &name);
	json_object(j);
	json_kv_str(j, "provider", provider);
	json_kv_str(j, "name", name);
	json_kv_str(j, "sandboxId", i->id);
	if (*i->resource_id)
		json_kv_str(j, "providerResourceId", i->resource_id);
	json_kv_str(j, "status", berth_sandbox_status_name((int)i->status));
	json_time(j, "createdAt", i->created_ms);
	if (i->expires_ms)
		json_time(j, "expiresAt", i->expires_ms);
	if (i->idle_minutes)
		json_kv_int(j, "idleMinutes", i->idle_minutes);
	json_kv_object(j, "ports");
	each_port(i->ports, json_port, j);
	json_end(j);
	if (*i->isolation)
		json_kv_str(j, "isolation", i->isolation);
	if (*i->net)
		json_kv_str(j, "net", i->net);
	if (*i->uids)
		json_kv_str(j, "uids", i->uids);
	json_kv_str(j, "containment", i->containment);
	json_kv_bool(j, "recordsProtected", i->records_protected);
	if (*i->message)
		json_kv_str(j, "message", i->message);
	json_end(j);
}

static int print_info_json(const char *full, const struct berth_provider_info *i)
{
	struct strbuf b;
	struct json j = JSON_INIT(&b);
	int r;

	strbuf_init(&b, SMALL_FILE_MAX);
	info_json(&j, full, i);
	r = print_json(&b, &j);
	strbuf_done(&b);
	return r;
}

static void line(const char *name, const char *value)
{
	if (*value)
		printf("%-12s %s\n", name, value);
}

static void line_port(void *arg, const char *port, const char *url)
{
	(void)arg;
	printf("%-12s %s at %s\n", "port", port, url);
}

static void print_info_human(const char *full, const struct berth_provider_info *i)
{
	char when[TIME_RFC3339_SIZE];

	line("sandbox", full);
	line("id", i->id);
	line("resource", i->resource_id);
	line("status", berth_sandbox_status_name((int)i->status));
	line("message", i->message);
	if (i->created_ms)
		line("created", format_rfc3339_ms(i->created_ms, when));
	if (i->expires_ms)
		line("expires", format_rfc3339_ms(i->expires_ms, when));
	if (i->idle_minutes)
		printf("%-12s after %" PRId64 " idle minutes\n", "stops", i->idle_minutes);
	line("isolation", i->isolation);
	line("net", i->net);
	line("uids", i->uids);
	each_port(i->ports, line_port, NULL);
	line("containment", i->containment);
	line("records", i->records_protected ? "protected" : "not protected from workers");
}

int print_sandbox(struct berth_sandbox *s)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_provider_info info = {0};

	if (berth_sandbox_info(s, &info, &err) < 0)
		return cli_fail(&err);
	if (cli.json)
		return print_info_json(berth_sandbox_name(s), &info);
	print_info_human(berth_sandbox_name(s), &info);
	return 0;
}

int cmd_sandbox_start(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	int r = cli_open(BERTH_OPEN_START);

	if (r)
		return r;
	if (berth_sandbox_start(cli.sandbox, &err) < 0)
		return cli_fail(&err);
	return print_sandbox(cli.sandbox);
}

int cmd_sandbox_stop(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	int r = cli_open(0);

	if (r)
		return r;
	if (berth_sandbox_stop(cli.sandbox, &err) < 0)
		return cli_fail(&err);
	return print_sandbox(cli.sandbox);
}

int cmd_sandbox_info(void)
{
	int r = cli_open(0);

	return r ? r : print_sandbox(cli.sandbox);
}

static const char *destroyed_word(enum berth_destroyed s)
{
	switch (s) {
	case BERTH_DESTROYED:
		return "destroyed";
	case BERTH_DESTROY_UNSUPPORTED:
		return "unsupported";
	default:
		return "exhausted";
	}
}

static int destroyed_json(const struct berth_destroy_result *res)
{
	struct strbuf b;
	struct json j = JSON_INIT(&b);
	int r;

	strbuf_init(&b, SMALL_FILE_MAX);
	json_object(&j);
	json_kv_str(&j, "state", destroyed_word(res->state));
	json_kv_int(&j, "attempts", res->attempts);
	if (*res->message)
		json_kv_str(&j, "message", res->message);
	json_end(&j);
	r = print_json(&b, &j);
	strbuf_done(&b);
	return r;
}

int cmd_sandbox_destroy(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_destroy_result res = {0};
	int r;

	if (attempts > 1000)
		return cli_usage(NULL, "--attempts: more than 1000 are not supported");
	r = cli_open(0);
	if (r)
		return r;
	if (berth_sandbox_destroy(cli.sandbox, (int)attempts, delay_ms, &res, &err) < 0)
		return cli_fail(&err);
	if (cli.json) {
		r = destroyed_json(&res);
		if (r)
			return r;
	} else {
		printf("%s %s%s%s\n", cli_sandbox_name(), destroyed_word(res.state),
		       *res.message ? ": " : "", res.message);
	}
	return res.state == BERTH_DESTROYED ? 0 : 1;
}

/* ── ls ─────────────────────────────────────────────────────────────────────────────────────── */

struct listing {
	bool head;
	int failed;
};

static void row(const char *full, const char *status, const char *isolation, const char *id)
{
	printf("%-28s %-12s %-10s %s\n", full, status, isolation, id);
}

/* One sandbox that cannot be asked is shown as what it is, and does not hide the others. */
static int on_sandbox(void *arg, const char *spec)
{
	struct listing *l = arg;
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_provider_info info = {0};
	struct berth_sandbox *s = NULL;
	int r = berth_sandbox_open(cli.berth, spec, NULL, 0, &s, &err);

	if (!r)
		r = berth_sandbox_info(s, &info, &err);
	berth_sandbox_close(s);
	if (r == BERTH_E_NOT_FOUND)
		return 0; /* gone meanwhile */
	if (r < 0) {
		info = (struct berth_provider_info){.status = BERTH_SANDBOX_ERROR};
		snprintf(info.message, sizeof(info.message), "%.255s", err.message);
	}
	if (cli.json) {
		l->failed = print_info_json(spec, &info);
		return l->failed ? 1 : 0;
	}
	if (!l->head)
		row("SANDBOX", "STATUS", "ISOLATION", "ID");
	l->head = true;
	row(spec, berth_sandbox_status_name((int)info.status),
	    *info.isolation ? info.isolation : "-", info.id);
	return 0;
}

int cmd_sandbox_ls(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct listing l = {0};
	int r = cli_open_context();

	if (r)
		return r;
	r = berth_sandbox_list(cli.berth, on_sandbox, &l, &err);
	if (l.failed)
		return l.failed;
	return r < 0 ? cli_fail(&err) : 0;
}
