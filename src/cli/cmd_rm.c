/* SPDX-License-Identifier: MIT */
/* berth rm and berth prune: records, and what no record uses. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"

static int64_t older_ms;
const struct cli_opt prune_options[] = {
	{.name = "older-than",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "every ended one",
	 .help = "only records that ended at least this long ago",
	 .value = &older_ms},
	{0},
};

int cmd_rm(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	int r = check_id(cli.args[0]);

	if (!r)
		r = cli_open(0);
	if (r)
		return r;
	if (berth_remove(cli.sandbox, cli.args[0], &err) < 0)
		return cli_fail(&err);
	if (!cli.json && !cli.quiet)
		puts(cli.args[0]);
	return print_ok();
}

int cmd_prune(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_prune_result res = {0};
	char buf[24];
	int r = cli_open(0);

	if (r)
		return r;
	if (berth_prune(cli.sandbox, older_ms, &res, &err) < 0)
		return cli_fail(&err);
	if (!cli.json && !cli.quiet)
		printf("removed %" PRIu64 " records, %" PRIu64 " artifacts, %" PRIu64
		       " installs, %s\n",
		       res.records, res.artifacts, res.installs, show_bytes(res.bytes, buf));
	return print_ok();
}
