/* SPDX-License-Identifier: MIT */
/*
 * berth cp SRC DST: one side is in the sandbox, as :PATH (from its home) or ID:REL (in an
 * execution's working view). As with docker cp, what has a '/' before its first ':' is local.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/path.h"
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

static bool is_dir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* The last component of a path that may end in slashes; "" for "/", "." and "..". Owned. */
static char *last_name(const char *path)
{
	auto_free char *normal = path_normalize(path);
	const char *base;

	if (!normal)
		return NULL;
	base = path_basename(normal);
	if (!strcmp(base, ".") || !strcmp(base, ".."))
		base = "";
	return mem_strdup(base);
}

/* As cp(1): into an existing directory goes a new entry; "DIR/" says the same of one to come. */
static char *target(const char *src, const char *dst, bool local)
{
	size_t len = strlen(dst);
	auto_free char *name = NULL;

	if (!(len && dst[len - 1] == '/') && !(local && is_dir(dst)))
		return mem_strdup(dst);
	name = last_name(src);
	if (!name)
		return NULL;
	return *name ? path_join(dst, name) : mem_strdup(dst);
}

int cmd_cp(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	auto_free char *dst = NULL;
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
	dst = target(from.path, to.path, from.remote);
	if (!dst) {
		berth_fail_nomem(&err);
		return cli_fail(&err);
	}
	r = cli_open(BERTH_OPEN_START);
	if (r)
		return r;
	if (from.remote)
		r = berth_copy_out(cli.sandbox, *from.id ? from.id : NULL, from.path, dst, &err);
	else
		r = berth_copy_in(cli.sandbox, from.path, *to.id ? to.id : NULL, dst, &err);
	return r < 0 ? cli_fail(&err) : print_ok();
}
