/* SPDX-License-Identifier: MIT */
/* berth deploy: upload, install, launch, and return as soon as the worker runs or has ended. */
#include <string.h>

#include "cli/cli.h"

const struct cli_opt deploy_only_options[] = {
	{.name = "id",
	 .kind = OPT_STRING,
	 .arg = "ID",
	 .help = "the caller's name for the execution (required)",
	 .value = &deploy_values.id},
	{0},
};

int cmd_deploy(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_deploy_request req;
	struct berth_deploy_result res = {0};
	struct deploy_parts parts = {0};
	int r;

	if (!deploy_values.id)
		return cli_usage(NULL, "no --id given");
	r = deploy_request(&req, &parts);
	if (!r)
		r = cli_open(BERTH_OPEN_START);
	if (!r && berth_deploy(cli.sandbox, &req, &res, &err) < 0) {
		if (err.code == BERTH_E_TIMEOUT && !*err.hint)
			berth_error_hint(&err, "berth status %s", req.id);
		r = cli_fail(&err);
	} else if (!r) {
		r = print_deploy(&res);
	}
	deploy_parts_done(&parts);
	return r;
}
