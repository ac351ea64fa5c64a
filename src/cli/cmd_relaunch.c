/* SPDX-License-Identifier: MIT */
/* berth relaunch: the recorded command, environment and input under a new id. */
#include <string.h>

#include "base/limits.h"
#include "cli/cli.h"

static struct {
	const char *id, *stdin_file, *input;
	bool no_input;
	int64_t input_limit;
} o = {.input_limit = INPUT_DEFAULT_MAX};

const struct cli_opt relaunch_options[] = {
	{.name = "id",
	 .kind = OPT_STRING,
	 .arg = "NEW",
	 .help = "the new id (required)",
	 .value = &o.id},
	{.name = "stdin",
	 .kind = OPT_STRING,
	 .flags = OPT_ONCE | OPT_FILE,
	 .arg = "FILE|-",
	 .help = "this on stdin instead of the recorded input",
	 .value = &o.stdin_file},
	{.name = "input",
	 .kind = OPT_STRING,
	 .flags = OPT_ONCE,
	 .arg = "REL=FILE",
	 .help = "this file instead of the recorded input",
	 .value = &o.input},
	{.name = "no-input",
	 .kind = OPT_FLAG,
	 .help = "no input, whatever was recorded",
	 .value = &o.no_input},
	{.name = "input-limit",
	 .kind = OPT_SIZE,
	 .arg = "SIZE",
	 .deflt = "16M",
	 .help = "more input than this is an error",
	 .value = &o.input_limit},
	{0},
};

static int check(void)
{
	int r = check_id(cli.args[0]);

	if (r)
		return r;
	if (!o.id)
		return cli_usage(NULL, "no --id given for the new execution");
	r = check_id(o.id);
	if (r)
		return r;
	if (!strcmp(o.id, cli.args[0]))
		return cli_usage(NULL, "--id %s is the execution itself; another id is wanted",
				 o.id);
	if (o.no_input && (o.stdin_file || o.input))
		return cli_usage(NULL, "--no-input excludes --stdin and --input");
	return 0;
}

static int relaunch(const struct request_env *env, const struct request_input *input)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_deploy_result res = {0};
	struct berth_relaunch_request req = {
		.size = sizeof(req),
		.id = cli.args[0],
		.new_id = o.id,
		.env = (const char *const *)env->items,
		.input_given = o.no_input || o.stdin_file || o.input,
		.input_kind = input->kind,
		.input_path = input->path,
		.input = input->data ? input->data : "",
		.input_len = input->len,
		.input_limit = o.input_limit,
	};

	if (berth_relaunch(cli.sandbox, &req, &res, &err) < 0) {
		if (err.code == BERTH_E_TIMEOUT && !*err.hint)
			berth_error_hint(&err, "berth status %s", o.id);
		return cli_fail(&err);
	}
	return print_deploy(&res);
}

int cmd_relaunch(void)
{
	struct request_env env = {0};
	struct request_input input = {0};
	int r = check();

	if (!r)
		r = request_env(&env_uses, &env);
	if (!r)
		r = request_input(o.stdin_file, o.input, o.input_limit, &input);
	if (!r)
		r = cli_open(BERTH_OPEN_START);
	if (!r)
		r = relaunch(&env, &input);
	request_env_done(&env);
	request_input_done(&input);
	return r;
}
