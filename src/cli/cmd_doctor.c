/* SPDX-License-Identifier: MIT */
/* berth doctor: what this host can and cannot do. It exits 0 when it could look. */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "cli/cli.h"

struct report {
	struct json *j;
	bool all_ok;
};

static void on_check(void *arg, const struct berth_check *c)
{
	struct report *rep = arg;
	struct json *j = rep->j;

	rep->all_ok = rep->all_ok && c->ok;
	if (!cli.json) {
		printf("%-4s %-24s %s\n", c->ok ? "ok" : "no", c->name, c->detail ? c->detail : "");
		if (!c->ok && c->hint)
			printf("%-4s %-24s hint: %s\n", "", "", c->hint);
		return;
	}
	json_object(j);
	json_kv_str(j, "name", c->name);
	json_kv_bool(j, "ok", c->ok);
	json_kv_str(j, "detail", c->detail);
	if (!c->ok && c->hint)
		json_kv_str(j, "hint", c->hint);
	json_end(j);
}

int cmd_doctor(void)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(SMALL_FILE_MAX);
	struct berth_error err = BERTH_ERROR_INIT;
	struct json j = JSON_INIT(&b);
	struct report rep = {.j = &j, .all_ok = true};
	int r = cli_open_context();

	if (r)
		return r;
	json_object(&j);
	json_kv_array(&j, "checks");
	if (berth_doctor(cli.berth, on_check, &rep, &err) < 0)
		return cli_fail(&err);
	json_end(&j);
	json_kv_bool(&j, "ok", rep.all_ok);
	json_end(&j);
	return cli.json ? print_json(&b, &j) : 0;
}
