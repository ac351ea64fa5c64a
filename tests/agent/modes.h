/* SPDX-License-Identifier: MIT */
/*
 * modes.h: the ways in which a view can be made, each an agent to start: with overlays as root,
 * with overlays in a user namespace, as a copy that is bound to its place, as a copy where it lies.
 */
#ifndef TESTS_AGENT_MODES_H
#define TESTS_AGENT_MODES_H

#include "client.h"

struct mode {
	const char *name, *view; /* view: as a status says it */
	uid_t uid;
	const char *options[4];
};
extern const struct mode modes[4];

#define EACH_MODE(m)                                                                          \
	for (const struct mode *m = modes; m < modes + sizeof(modes) / sizeof(modes[0]); m++) \
	SUBTEST("%s", m->name)

/* Starts the agent of a mode; a->uid is set from it. As agent_start(); -1 too when the file system
 * that the mode wants cannot be made. */
int mode_start(struct agent_proc *a, const struct mode *m);

#endif
