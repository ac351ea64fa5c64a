/* SPDX-License-Identifier: MIT */
/*
 * berth wait: blocks until the state is final, prints it, and exits as the worker did. Ending the
 * waiting (a signal, --timeout) never touches the execution.
 */
#include <stdio.h>

#include "cli/cli.h"

static bool wake;
static int64_t timeout_ms = -1;
const struct cli_opt wait_options[] = {
	{.name = "timeout",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "none",
	 .help = "stop waiting after this time (exit 124); the execution goes on",
	 .value = &timeout_ms},
	{.name = "wake",
	 .kind = OPT_FLAG,
	 .help = "resume a stopped sandbox; never creates one",
	 .value = &wake},
	{0},
};

int cmd_wait(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st = {0};
	int r = check_id(cli.args[0]), printed;

	if (!r)
		r = cli_open(wake ? BERTH_OPEN_WAKE : 0);
	if (r)
		return r;
	r = berth_wait(cli.sandbox, cli.args[0], timeout_ms, &st, &err);
	if (r < 0 && (r != BERTH_E_TIMEOUT || !st.state))
		return cli_fail(&err);
	printed = print_state(&st);
	if (printed)
		return printed;
	if (r == BERTH_E_TIMEOUT) {
		cli_note("%s has not ended: the time is over", cli.args[0]);
		return 124;
	}
	return state_exit_code(&st);
}
