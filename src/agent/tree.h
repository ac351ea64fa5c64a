/* SPDX-License-Identifier: MIT */
/*
 * tree.h: making a level at which a whole tree of processes can be ended, ending it, and
 * tree_run(): one command, its output to
 * a sink, everything it started ended with it.
 */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include "agent/agent.h"

/* How the process that owns a tree is kept together with it. */
struct tree_level {
	int level; /* enum agent_level */
	bool own_mnt, in_userns;
};

/*
 * Forks the owner of a tree at the best level: returns 0 in the child (namespaces made,
 * propagation private, /proc its own), the pid in the
 * parent, -1 and errno. sibling: the child becomes a child of init (or whoever our parent is),
 * not ours. have_kill: a v2 group to
 * kill exists, so LEVEL_CGROUP is better than LEVEL_SUBREAPER. At these two levels the child is
 * an ordinary process that still has to become a
 * subreaper.
 */
pid_t tree_fork(bool sibling, bool have_kill, struct tree_level *ret);
/* The same without namespaces. */
pid_t tree_fork_plain(bool sibling, bool have_kill, struct tree_level *ret);
/* True when PID and mount namespaces can be made here (found out once per init). */
bool tree_have_pidns(void);

struct tree_cmd {
	char *const *argv;
	char *const *envp;
	/* Runs in the process that will own the tree, inside its namespaces (own_mnt,
	 * in_userns: see view.h), before the command is
	 * started. Returns an fd of the directory to start in (owned by tree_run), or -1 and
	 * *f. NULL: cwdfd is used. */
	int (*setup)(void *ctx, bool own_mnt, bool in_userns, struct agent_fail *f);
	int cwdfd; /* borrowed; used when setup is NULL */
	/* Output, in the caller's process; stream WIRE_STDOUT or WIRE_STDERR. Nonzero: end the
	 * tree by KILL (cancelled). */
	int (*sink)(void *ctx, int stream, const uint8_t *p, size_t n);
	void *ctx;
	/* when this hangs up (POLLRDHUP, POLLHUP, POLLERR) the tree is ended by KILL; -1: none */
	int watch_fd;
	int64_t deadline; /* now_ms() clock; 0: none. TERM, grace, KILL */
	int64_t grace_ms;
	bool own_ns; /* true: best level (pid and mount namespace where they can be made) */
};

struct tree_result {
	bool started; /* the command was executed; else fail says why not */
	bool timed_out, cancelled;
	int status; /* wait status of the main process, when started */
	int64_t user_ms, system_ms, max_rss;
	struct agent_fail fail;
};

/* In new PID and mount namespaces: nothing mounted from now on is seen outside; their own /proc, and
 * with walls their own terminals. 0, or -1 and errno. */
int tree_own_mounts(void);

/* Runs c to its end: returns when nothing of the tree is alive. 0, and *ret; -1 only when it
 * could not be begun (ret->fail). stdin is
 * /dev/null. Must be called in a connection child. */
int tree_run(const struct tree_cmd *c, struct tree_result *ret);

#endif
