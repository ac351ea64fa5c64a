/* SPDX-License-Identifier: MIT */
/*
 * berth ps: every execution of the sandbox, newest first. With --json one state object per line,
 * with the command added as `command`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "base/strv.h"
#include "base/time.h"
#include "cli/cli.h"

struct row {
	char *id, *state, *started, *command;
};

struct rows {
	struct row *items;
	size_t n, cap;
	int failed; /* exit code of what went wrong while printing */
};

static int row_json(struct rows *rows, const struct berth_record *rec)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(JSON_OUT_MAX);
	auto_free char *status = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	struct json j = JSON_INIT(&b);
	size_t len;

	if (berth_status_json(cli_sandbox_name(), &rec->status, &status, &err) < 0) {
		rows->failed = cli_fail(&err);
		return 1;
	}
	len = strlen(status);
	json_array(&j);
	for (size_t i = 0; i < rec->n_command; i++)
		json_str(&j, rec->command[i]);
	json_end(&j);
	if (json_finish(&j) < 0 || len < 2 || status[len - 1] != '}') {
		puts(status);
		return 0;
	}
	printf("%.*s,\"command\":%s}\n", (int)(len - 1), status, b.data);
	return 0;
}

/* One line that can be pasted into a shell, without control characters. */
static char *command_line(const struct berth_record *rec)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(4096);

	for (size_t i = 0; i < rec->n_command && b.len < 200; i++) {
		const char *s = rec->command[i];
		bool plain = *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789_-+=./:,@%") == strlen(s);

		strbuf_adds(&b, i ? " " : "");
		strbuf_adds(&b, plain ? "" : "'");
		for (size_t n = 0; n < 120 && s[n]; n++)
			strbuf_addc(&b, (unsigned char)s[n] < ' ' || s[n] == 127 ? '?' : s[n]);
		strbuf_adds(&b, plain ? "" : "'");
	}
	return b.len ? strbuf_detach(&b, NULL) : strdup("");
}

static int row_add(struct rows *rows, const struct berth_record *rec)
{
	char words[1024], when[TIME_RFC3339_SIZE];
	int64_t ms = rec->status.started_ms;

	if (rows->n == rows->cap) {
		size_t cap = rows->cap ? rows->cap * 2 : 64;
		struct row *p = reallocarray(rows->items, cap, sizeof(*p));

		if (!p)
			return BERTH_E_NOMEM;
		rows->items = p;
		rows->cap = cap;
	}
	rows->items[rows->n++] = (struct row){
		.id = strdup(rec->status.id),
		.state = strdup(state_words(&rec->status, words, 61)),
		.started = strdup(ms ? format_rfc3339_ms(ms, when) : "-"),
		.command = command_line(rec),
	};
	return 0;
}

static int on_record(void *arg, const struct berth_record *rec)
{
	return cli.json ? row_json(arg, rec) : row_add(arg, rec);
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

static void print_rows(const struct rows *rows)
{
	int id = 9, state = 5;

	for (size_t i = 0; i < rows->n; i++) {
		id = MAX_OF(id, (int)strlen(or_empty(rows->items[i].id)));
		state = MAX_OF(state, (int)strlen(or_empty(rows->items[i].state)));
	}
	printf("%-*s  %-*s  %-24s  %s\n", id, "EXECUTION", state, "STATE", "STARTED", "COMMAND");
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *w = &rows->items[i];

		printf("%-*s  %-*s  %-24s  %s\n", id, or_empty(w->id), state, or_empty(w->state),
		       or_empty(w->started), or_empty(w->command));
	}
}

static void rows_done(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		free(rows->items[i].id);
		free(rows->items[i].state);
		free(rows->items[i].started);
		free(rows->items[i].command);
	}
	free(rows->items);
}

int cmd_ps(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct rows rows = {0};
	int r = cli_open(0);

	if (r)
		return r;
	r = berth_list(cli.sandbox, on_record, &rows, &err);
	if (rows.failed) {
		r = rows.failed;
	} else if (r < 0) {
		if (!err.code)
			berth_fail_nomem(&err);
		r = cli_fail(&err);
	} else if (!cli.json) {
		print_rows(&rows);
	}
	rows_done(&rows);
	return r;
}
