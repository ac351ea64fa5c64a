/* SPDX-License-Identifier: MIT */
/*
 * tree.h: making a level at which a whole tree of processes can be ended, ending it, and tree_run(): one command, its output to
 * a sink, everything it started ended with it.
 */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include "agent/agent.h"

struct tree_cmd {
	char *const *argv;
	char *const *envp;
	/* Runs in the process that will own the tree, inside its namespaces (own_mnt, in_userns: see view.h), before the command is
	 * started. Returns an fd of the directory to start in (owned by tree_run), or -1 and *f. NULL: cwdfd is used. */
	int (*setup)(void *ctx, bool own_mnt, bool in_userns, struct agent_fail *f);
	int cwdfd;			/* borrowed; used when setup is NULL */
	/* Output, in the caller's process; stream WIRE_STDOUT or WIRE_STDERR. Nonzero: end the tree by KILL (cancelled). */
	int (*sink)(void *ctx, int stream, const uint8_t *p, size_t n);
	void *ctx;
	int watch_fd;			/* when this hangs up (POLLRDHUP, POLLHUP, POLLERR) the tree is ended by KILL; -1: none */
	int64_t deadline;		/* now_ms() clock; 0: none. TERM, grace, KILL */
	int64_t grace_ms;
	bool own_ns;			/* true: best level (pid and mount namespace where they can be made) */
};

struct tree_result {
	bool started;			/* the command was executed; else fail says why not */
	bool timed_out, cancelled;
	int status;			/* wait status of the main process, when started */
	int64_t user_ms, system_ms, max_rss;
	struct agent_fail fail;
};

/* Runs c to its end: returns when nothing of the tree is alive. 0, and *ret; -1 only when it could not be begun (ret->fail). stdin is
 * /dev/null. Must be called in a connection child. */
int tree_run(const struct tree_cmd *c, struct tree_result *ret);

#endif
