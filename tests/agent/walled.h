/* SPDX-License-Identifier: MIT */
/*
 * walled.h: an agent behind walls without stage and bwrap: init --walled as PID 1 of user, PID,
 * mount and (when asked) network namespaces of its own, inner uid 0 on WALLED_UID and the workers'
 * 1000 on WALLED_UID + 1 of the host. The file system is the host's but for DIR, which is a
 * mount of its own, and /proc. Only for root: TEST_REQUIRE("root", …) first.
 */
#ifndef TESTS_AGENT_WALLED_H
#define TESTS_AGENT_WALLED_H

#include "client.h"

#define WALLED_UID 1878982656u /* below the first one that berth itself gives to a sandbox */

struct walled_opts {
	const char *const *options; /* more words for init, NULL-terminated; may be NULL */
	const int *fds;             /* stay open in it, by the same numbers */
	size_t n_fds;
	bool net; /* a network namespace of its own, lo up */
	/* One uid for all of it, as where an ordinary user has no others (uids=single): the inner
	 * 1000 on WALLED_UID; init has its capabilities nevertheless. Its DIR is NAME/in then, a
	 * mount of NAME/berth, which itself is covered: below the mount there is nothing. */
	bool single;
};

/* Makes NAME/{berth,home,app} below the working directory and starts it; waits until it is ready.
 * 0, or -1 (it could not be started; what it said is on stderr). Ends by agent_stop() or
 * agent_kill(); dies with the calling process. */
int walled_start(struct agent_proc *a, const char *name, const struct walled_opts *o);
/* The same over the directories of an earlier start. */
int walled_restart(struct agent_proc *a, const struct walled_opts *o);
/* What init said at the last start that failed (static). */
const char *walled_said(void);

#endif
