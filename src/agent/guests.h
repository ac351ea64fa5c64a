/* SPDX-License-Identifier: MIT */
/*
 * guests.h: where the guests of an isolated sandbox live: one PID and mount namespace for all that
 * EXEC and sessions start, so that what one leaves in the background is seen by the next, and no
 * execution by any of them. Only with agent.walled.
 */
#ifndef AGENT_GUESTS_H
#define AGENT_GUESTS_H

#include "agent/agent.h"

/*
 * In a connection child: forks a process into the guests' namespaces, which are made when there are
 * none. 0 in the child, whose cwd is DIR, whose /proc shows the guests, and whose agent.homefd is
 * home as they see it; its pid in the parent; -1 and *f. sibling: it becomes a child of init, not
 * ours. Later forks of the parent go where they went before.
 */
pid_t guests_fork(bool sibling, struct agent_fail *f);

/* In init: makes the keeper, unless there is one or the sandbox is being stopped. */
void guests_make(void);
/* In init: this child of ours has ended and is about to be reaped. */
void guests_saw(pid_t pid);
/* In init: ends the keeper and with it every guest. */
void guests_kill(void);
/* In any process: has init end the guests, and waits until they are gone (a few seconds at most). */
void guests_end(void);

#endif
