/* SPDX-License-Identifier: MIT */
/* clock.h: the sandbox's own end: when it has been idle for long enough, and when it expires. */
#ifndef AGENT_CLOCK_H
#define AGENT_CLOCK_H

#include "agent/agent.h"

struct init_options;

/* ---- in init ---- */

/* Before the first fork. */
int clock_start(const struct init_options *o, struct agent_fail *f);
void clock_idle_event(void);
void clock_expiry_event(void);
/* This child of ours has ended. */
void clock_saw(pid_t pid);

/* ---- in any process ---- */

/* A connection child begins or ends a request. */
void clock_busy(bool on);
/* Something that counts as work was still going on now. */
void clock_worked(void);
/* Has STOP begun? Waits where an idle sandbox is just having its last look: whoever asks is seen
 * there. */
bool clock_stopping(void);
/* IDLE_MS and EXPIRES_MS, where they are set. */
void clock_info(struct wire_w *w);

#endif
