/* SPDX-License-Identifier: MIT */
/*
 * Everything that is said: error lines, hints, JSON objects, the words for a state, the status
 * file. The objects and their field names are the contract of berth(1).
 *
 * Messages come from the library, which keeps environment values and input out of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "base/time.h"
#include "cli/cli.h"

int print_json(struct strbuf *b, struct json *j)
{
	struct berth_error err = BERTH_ERROR_INIT;
	int r = json_finish(j);

	if (r < 0) {
		berth_fail(&err, r, "cannot make the answer");
		cli.json = false; /* an error object would not come out either */
		return cli_fail(&err);
	}
	fwrite(b->data, 1, b->len, stdout);
	putchar('\n');
	return 0;
}

/* ── errors ─────────────────────────────────────────────────────────────────────────────────── */

static void json_error(struct json *j, const struct berth_error *err)
{
	json_object(j);
	json_kv_str(j, "type", berth_error_id(err->code));
	json_kv_str(j, "message", err->message);
	json_end(j);
}

static void report_json(const struct berth_error *err)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(SMALL_FILE_MAX);
	struct json j = JSON_INIT(&b);

	json_object(&j);
	json_key(&j, "error");
	json_error(&j, err);
	json_end(&j);
	if (json_finish(&j) < 0)
		return;
	status_file_write(b.data, b.len);
	if (cli.json && !(cli.verb && (cli.verb->flags & VERB_STREAMS)))
		printf("%s\n", b.data);
}

static void error_lines(const struct berth_error *err)
{
	progress_clear();
	fflush(stdout);
	fprintf(stderr, "berth: %s%s%s\n", cli.what, *cli.what ? ": " : "", err->message);
	cli_hint("%s", err->hint);
}

static int exit_code(int code)
{
	int e = berth_error_exit_code(code);
	unsigned flags = cli.verb ? cli.verb->flags : 0;

	if (flags & VERB_STREAMS)
		return e == 2 ? 2 : 125;
	if (e == 1 && ((flags & VERB_WATCHES) || cli.watching))
		return 125;
	return e;
}

int cli_fail(const struct berth_error *err)
{
	error_lines(err);
	report_json(err);
	return exit_code(err->code);
}

int cli_usage(const char *hint, const char *fmt, ...)
{
	struct berth_error err = BERTH_ERROR_INIT;
	va_list args;

	va_start(args, fmt);
	berth_failv(&err, BERTH_E_INVALID, fmt, args);
	va_end(args);
	if (hint)
		berth_error_hint(&err, "%s", hint);
	else
		berth_error_hint(&err, "berth help%s%s", *cli.what ? " " : "", cli.what);
	return cli_fail(&err);
}

void cli_note(const char *fmt, ...)
{
	va_list args;

	if (cli.quiet)
		return;
	progress_clear();
	fflush(stdout);
	fprintf(stderr, "berth: %s: ", cli.what);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

void cli_hint(const char *fmt, ...)
{
	char text[BERTH_ERROR_HINT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (*text)
		fprintf(stderr, "hint: %s\n", text);
}

const char *cli_shown(const char *arg, char buf[80])
{
	size_t n = strcspn(arg, "=");

	snprintf(buf, 80, "%.*s%s", (int)MIN_OF(n, (size_t)64), arg,
		 arg[n]   ? "=…"
		 : n > 64 ? "…"
			  : "");
	return buf;
}

/* ── the status file ────────────────────────────────────────────────────────────────────────── */

int status_file_open(void)
{
	if (!cli.status_file)
		return 0;
	cli.status_fd =
		open(cli.status_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	if (cli.status_fd >= 0)
		return 0;
	const char *path = cli.status_file;
	int e = errno;

	cli.status_file = NULL;
	return cli_usage(NULL, "--status-file %s: %s", path, berth_errno_text(e));
}

void status_file_write(const char *json, size_t len)
{
	int r;

	if (!cli.status_file)
		return;
	if (cli.status_fd < 0)
		cli.status_fd = open(cli.status_file,
				     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	if (cli.status_fd < 0)
		return; /* a usage error is on its way out, and was printed */
	r = write_full(cli.status_fd, json, len);
	if (!r)
		r = write_full(cli.status_fd, "\n", 1);
	if (r < 0)
		fprintf(stderr, "berth: %s: --status-file %s: %s\n", cli.what, cli.status_file,
			berth_errno_text(-r));
	cli.status_file = NULL; /* once */
}

void status_file_state(const struct berth_status *st)
{
	auto_free char *text = NULL;

	if (cli.status_file && !berth_status_json(cli_sandbox_name(), st, &text, NULL))
		status_file_write(text, strlen(text));
}

/* ── states ─────────────────────────────────────────────────────────────────────────────────── */

static int end_code(const struct berth_status *st)
{
	if (st->exit_code >= 0)
		return st->exit_code;
	return st->signo > 0 ? 128 + st->signo : 125;
}

int state_exit_code(const struct berth_status *st)
{
	switch (st->state) {
	case BERTH_EXITED:
	case BERTH_CANCELLED:
	case BERTH_RESOURCE_EXHAUSTED:
		return end_code(st);
	case BERTH_TIMED_OUT:
		return 124;
	case BERTH_FAILED:
		if (st->exec_errno == ENOENT || st->exec_errno == ENOTDIR)
			return 127;
		return st->exec_errno ? 126 : 125;
	case BERTH_PROVIDER_UNAVAILABLE:
		return cli.verb && (cli.verb->flags & VERB_STREAMS) ? 125 : 5;
	default:
		return 125;
	}
}

static void end_words(const struct berth_status *st, char *buf, size_t cap)
{
	if (st->signo > 0)
		snprintf(buf, cap, " (%s)", berth_signal_name(st->signo));
	else if (st->exit_code >= 0)
		snprintf(buf, cap, " (exit code %d)", st->exit_code);
	else
		*buf = '\0';
}

const char *state_words(const struct berth_status *st, char *buf, size_t cap)
{
	const char *name = berth_state_name((int)st->state);
	char end[48], more[640] = "";

	end_words(st, end, sizeof(end));
	if (*st->phase)
		snprintf(more, sizeof(more), " in %s", st->phase);
	else if (*st->resource)
		snprintf(more, sizeof(more), " of %s", st->resource);
	snprintf(buf, cap, "%s%s%s%s%s", name ? name : "?", more, end, *st->message ? ": " : "",
		 st->message);
	return buf;
}

int print_state(const struct berth_status *st)
{
	auto_free char *text = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	char words[1024];

	if (!cli.json) {
		printf("%s %s\n", st->id, state_words(st, words, sizeof(words)));
		return 0;
	}
	if (berth_status_json(cli_sandbox_name(), st, &text, &err) < 0)
		return cli_fail(&err);
	printf("%s\n", text);
	return 0;
}

void state_error(const struct berth_status *st, struct berth_error *ret)
{
	char words[1024];

	berth_error_reset(ret);
	if (st->state == BERTH_FAILED && *st->phase)
		berth_fail(ret, BERTH_E_INTERNAL, "%s failed: %s", st->phase,
			   *st->message ? st->message : "no reason is known");
	else if (st->state == BERTH_PROVIDER_UNAVAILABLE)
		berth_fail(ret, BERTH_E_UNAVAILABLE, "%s", state_words(st, words, sizeof(words)));
	else
		berth_fail(ret, BERTH_E_INTERNAL, "%s", state_words(st, words, sizeof(words)));
}

/* ── answers ────────────────────────────────────────────────────────────────────────────────── */

static void json_time(struct json *j, const char *key, int64_t ms)
{
	char buf[TIME_RFC3339_SIZE];

	json_kv_str(j, key, ms ? format_rfc3339_ms(ms, buf) : NULL);
}

/* 0 when it runs or has run; the exit code of deploy otherwise. */
static int deploy_code(const struct berth_status *st)
{
	if (st->state == BERTH_PROVIDER_UNAVAILABLE)
		return 5;
	if (st->state == BERTH_FAILED || st->state == BERTH_UNKNOWN)
		return 1;
	return st->state == BERTH_TIMED_OUT && !strcmp(st->phase, "startup") ? 1 : 0;
}

static int deploy_json(const struct berth_deploy_result *r, int code)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(SMALL_FILE_MAX);
	auto_free char *status = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	struct json j = JSON_INIT(&b);

	if (berth_status_json(cli_sandbox_name(), &r->status, &status, &err) < 0)
		return cli_fail(&err);
	json_object(&j);
	json_kv_str(&j, "sandbox", cli_sandbox_name());
	json_kv_str(&j, "sandboxId", r->sandbox_id);
	json_kv_str(&j, "executionId", r->status.id);
	if (r->expires_ms)
		json_time(&j, "expiresAt", r->expires_ms);
	json_key(&j, "status");
	json_raw(&j, status, strlen(status));
	if (code) {
		state_error(&r->status, &err);
		json_key(&j, "error");
		json_error(&j, &err);
	}
	json_end(&j);
	return print_json(&b, &j);
}

int print_deploy(const struct berth_deploy_result *r)
{
	int code = deploy_code(&r->status), printed = 0;

	progress_clear();
	if (cli.json)
		printed = deploy_json(r, code);
	else if (!code)
		printed = print_state(&r->status);
	if (code) {
		struct berth_error err = BERTH_ERROR_INIT;

		state_error(&r->status, &err);
		error_lines(&err);
	}
	return printed ? printed : code;
}

int print_ok(void)
{
	if (cli.json)
		puts("{\"ok\":true}");
	return 0;
}

const char *show_bytes(uint64_t n, char buf[24])
{
	static const char units[] = "KMGTPE";
	double v = (double)n;
	int u = -1;

	while (v >= 1000 && u < 5) {
		v /= 1024;
		u++;
	}
	if (u < 0)
		snprintf(buf, 24, "%llu B", (unsigned long long)n);
	else
		snprintf(buf, 24, "%.1f %cB", v, units[u]);
	return buf;
}
