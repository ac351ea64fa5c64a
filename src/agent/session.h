/* SPDX-License-Identifier: MIT */
/* session.h: ptys, and pipes that init goes on emptying. */
#ifndef AGENT_SESSION_H
#define AGENT_SESSION_H

#include "agent/agent.h"

/* Master (non-blocking) and slave of a new pty. 0 or -1 and *f (stage "pty"). */
int pty_open(int64_t cols, int64_t rows, int *ret_master, int *ret_slave, struct agent_fail *f);
void pty_resize(int fd, int64_t cols, int64_t rows);
/* Gives up to two read ends (-1 allowed) to init, which reads them into nothing until they end. */
void pipes_hand_over(const int *fds, size_t n);

#endif
