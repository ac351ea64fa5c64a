/* SPDX-License-Identifier: MIT */
/* berth cancel: ends the whole tree and prints the state that was really reached. */
#include "cli/cli.h"

static int64_t grace_ms = -1;
const struct cli_opt cancel_options[] = {
	{.name = "grace",
	 .kind = OPT_DURATION,
	 .flags = OPT_ZERO,
	 .arg = "DUR",
	 .deflt = "the recorded one",
	 .help = "between TERM and KILL; 0 kills at once",
	 .value = &grace_ms},
	{0},
};

int cmd_cancel(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st = {0};
	int r = check_id(cli.args[0]);

	if (!r)
		r = cli_open(0);
	if (r)
		return r;
	if (berth_cancel(cli.sandbox, cli.args[0], grace_ms, &st, &err) < 0)
		return cli_fail(&err);
	r = print_state(&st);
	if (r)
		return r;
	if (st.state == BERTH_PROVIDER_UNAVAILABLE)
		return 5;
	return berth_state_terminal((int)st.state) ? 0 : 1;
}
