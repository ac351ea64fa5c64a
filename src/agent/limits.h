/* SPDX-License-Identifier: MIT */
/* limits.h: what an execution may use: rlimits, a control group where one is needed, and the
 * kernel's own bounds. */
#ifndef AGENT_LIMITS_H
#define AGENT_LIMITS_H

#include "agent/agent.h"
#include "agent/spawn.h"

#define GROUP_DIRS_MAX 5 /* v1: memory, pids, cpu, cpuacct; v2 */

/* The group of one execution (cgroup.c): one directory in each hierarchy that is needed. */
struct group {
	bool any;
	bool v2;       /* the limits stand in the v2 directory */
	bool shared;   /* the guests': it stays when one of them ends */
	char name[64]; /* of the directories */
	struct group_dir {
		/* the agent's own group, or the sandbox's; the directory; and the file by which
		 * a process enters it */
		int parent, dir, entry;
		int box; /* parent is -1: the sandbox's group itself is entered, borrowed */
		bool v2;
	} dirs[GROUP_DIRS_MAX];
	size_t n;
	int memory, pids, cpuacct; /* fds out of dirs, -1: no such limit */
	int kill;                  /* the file cgroup.kill of a v2 directory */
	int kill_dir;              /* that directory (one of dirs) */
	int oom; /* readable (eventfd) or POLLPRI (memory.events) when the memory limit was hit */
};

#define GROUP_FDS_MAX (3 * GROUP_DIRS_MAX + 2)
#define GROUP_NONE                                                                             \
	{                                                                                      \
		.memory = -1, .pids = -1, .cpuacct = -1, .kill = -1, .kill_dir = -1, .oom = -1 \
	}

/*
 * Makes the group that s needs, when it needs one (memory, pids, cpus; cpu time where there can
 * be one). Where groups were handed in (agent.groups_given), every execution gets one below them,
 * to be counted there; a session without limits gets the guests' one. want_kill: a v2 directory
 * for LEVEL_CGROUP. 0 (ret->any says whether there is one), or -1 and *f naming the limit that
 * cannot be enforced.
 */
int group_make(const struct spec *s, bool want_kill, struct group *ret, struct agent_fail *f);
void group_close(struct group *g);
/* All its fds, for fds_keep(); returns how many. */
size_t group_fds(const struct group *g, int ret[GROUP_FDS_MAX]);
/* Removes the directories (empty by now). */
void group_remove(struct group *g);
/* What has happened in it so far, -1 when that cannot be known: how often a fork was refused, and
 * µs of CPU (all; *ret_user and *ret_system are untouched on failure). */
int64_t group_pids_hits(const struct group *g);
int64_t group_cpu_us(const struct group *g, int64_t *ret_user, int64_t *ret_system);
/* The most memory that was charged to it at once, file cache included; -1: not known. */
int64_t group_memory_peak(const struct group *g);
/* Did the OOM killer end something in it because of a limit: own (the execution's, 0: none), or
 * that of the sandbox? *ret_limit says which; untouched when not. */
bool group_oom(const struct group *g, int64_t own, int64_t *ret_limit);

/* LEVEL_CGROUP: sends signo (not SIGKILL: that is cgroup.kill's) to all in the group, once
 * each. How many are in it; 0 also when there is
 * no such group. */
size_t group_signal(const struct group *g, int signo);
size_t group_members(const struct group *g);

/* The guests' group of an isolated sandbox, where groups were handed in: what EXEC and installs start
 * goes there. Fills s->groups and s->into; s NULL: only opens it. The fds stay open in this process,
 * and are borrowed. Call it before fds are closed by a list. 0; -1 and errno: it cannot be entered,
 * and nothing may be started outside of it. */
int guest_groups(struct spawn *s);
/* The same with any group. */
void group_fill(const struct group *g, struct spawn *s);

/* rlimits of s for the worker, and its groups. */
void limits_fill(const struct spec *s, const struct group *g, struct spawn *sp);
/* The kernel's bounds on argv and envp: 0, or -1 and *f naming what is too large. */
int limits_exec(char *const *argv, char *const *envp, struct agent_fail *f);

#endif
