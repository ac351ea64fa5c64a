/* SPDX-License-Identifier: MIT */
/*
 * berth cp SRC DST: one side is in the sandbox, as :PATH (from its home) or ID:REL (in an
 * execution's working view). As with docker cp, what has a '/' before its first ':' is local; where
 * the copy lands is the library's to say (berth_copy_in).
 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"

struct side {
	bool remote;
	char id[BERTH_ID_MAX + 1]; /* "": from the home */
	const char *path;
};

static int parse_side(const char *arg, struct side *ret)
{
	size_t n = strcspn(arg, ":/");
	char buf[80];

	*ret = (struct side){.path = arg};
	if (arg[n] != ':')
		return 0;
	ret->remote = true;
	ret->path = arg[n + 1] ? arg + n + 1 : ".";
	if (!n)
		return 0;
	if (n > BERTH_ID_MAX)
		return cli_usage(NULL, "\"%s\" is no execution id", cli_shown(arg, buf));
	memcpy(ret->id, arg, n);
	if (!valid_execution_id(ret->id))
		return cli_usage("a local file with a colon is written ./NAME",
				 "\"%s\" is no execution id", cli_shown(ret->id, buf));
	return 0;
}

int cmd_cp(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct side from, to;
	int r = parse_side(cli.args[0], &from);

	if (!r)
		r = parse_side(cli.args[1], &to);
	if (r)
		return r;
	if (from.remote == to.remote)
		return cli_usage("the sandbox side is :PATH, or ID:REL",
				 from.remote ? "both sides are in the sandbox"
					     : "neither side is in the sandbox");
	r = cli_open(BERTH_OPEN_START);
	if (r)
		return r;
	if (from.remote)
		r = berth_copy_out(cli.sandbox, *from.id ? from.id : NULL, from.path, to.path,
				   &err);
	else
		r = berth_copy_in(cli.sandbox, from.path, *to.id ? to.id : NULL, to.path, &err);
	return r < 0 ? cli_fail(&err) : print_ok();
}
