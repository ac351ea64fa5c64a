/* SPDX-License-Identifier: MIT */
/* exec.h: what the two files of EXEC share. */
#ifndef AGENT_EXEC_H
#define AGENT_EXEC_H

#include "agent/agent.h"

/* SIGCHLD and SIGTERM as a non-blocking signalfd; both are blocked from the first call on. -1 and
 * errno. */
int exec_signals(void);
/* Runs the command below this process. As a handler. */
int exec_here(struct conn *c, const uint8_t *p, size_t n);
/* The same in a process among the guests (exec_guest.c). */
int exec_among_guests(struct conn *c, const uint8_t *p, size_t n);

#endif
