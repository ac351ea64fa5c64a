/* SPDX-License-Identifier: MIT */
/* modes.c: see modes.h. */
#include "modes.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

const struct mode modes[4] = {
	{"overlay", "overlay", 0, {NULL}},
	{"user", "overlay", 54321, {NULL}},
	{"bound copy", "copy", 0, {NULL}},
	{"copy", "copy", 0, {"--level", "subreaper", NULL}},
};

/* A file system that cannot hold another overlay's upper directory, as in many containers:
 * ./merged. */
static int on_an_overlay(void)
{
	static const char *const dirs[] = {"lower", "upper", "work", "merged"};

	for (int i = 0; i < 4; i++) {
		if (mkdir(dirs[i], 0755) < 0 && errno != EEXIST)
			return -1;
	}
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	return mount("overlay", "merged", "overlay", 0,
		     "lowerdir=lower,upperdir=upper,workdir=work");
}

int mode_start(struct agent_proc *a, const struct mode *m)
{
	bool bound = strcmp(m->name, "bound copy") == 0;

	*a = (struct agent_proc){.uid = m->uid};
	if (bound && on_an_overlay() < 0)
		return -1;
	return agent_start(a, bound ? "merged/home" : m->name, m->options);
}
