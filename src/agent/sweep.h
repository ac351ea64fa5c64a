/* SPDX-License-Identifier: MIT */
/* sweep.h: signals for a whole tree of processes. Part of tree.c's business that supervisors
 * and sessions use directly. */
#ifndef AGENT_SWEEP_H
#define AGENT_SWEEP_H

#include "agent/agent.h"

/* Everything below this process gets signo, at this level. kill_fd: cgroup.kill at
 * LEVEL_CGROUP, else -1. For signals other than SIGKILL each process
 * gets it once; SIGCONT follows SIGTERM. SIGKILL may have to be repeated until tree_reap() says
 * so. */
void tree_signal(int level, int kill_fd, int signo);

/* Reaps all that has ended. Calls seen (may be NULL) for each. True when no child is left at
 * all. */
bool tree_reap(void (*seen)(void *ctx, pid_t pid, int status, const struct rusage *ru), void *ctx);

/* Ends all that is below this process by KILL and waits until nothing is left. */
void tree_end(int level, int kill_fd);

/* KILLs what is below this process and is none of the agent's own, until none is left or a while is
 * over: for an init that ends where no namespace ends with it. */
void tree_end_strangers(void);

/* Has this child (alive or a zombie) executed anything since its fork? True when it cannot be
 * told. */
bool proc_executed(pid_t pid);

/* ppid and state of a process from /proc/PID/stat; false when it is gone. */
bool proc_stat(pid_t pid, pid_t *ret_ppid, char *ret_state);

#endif
