/* SPDX-License-Identifier: MIT */
/*
 * spawn.h: starting one command in this process' own tree.
 */
#ifndef AGENT_SPAWN_H
#define AGENT_SPAWN_H

#include <sys/resource.h>

#include "agent/agent.h"

#define SPAWN_GROUPS_MAX  6
#define SPAWN_RLIMITS_MAX 4

struct spawn_rlimit {
	int resource;
	struct rlimit value;
};

struct spawn {
	/* from argv_make(): there is a spare slot before argv[0] (for `sh FILE` on ENOEXEC) */
	char **argv;
	char **envp;
	int cwdfd;        /* directory to start in */
	int in, out, err; /* become 0, 1, 2; all >= 3 */
	/* it dies with this process, whoever ends it: for levels without a kernel that sees to
	 * it */
	bool tied;
	bool tty;                     /* in is a terminal: make it the controlling one */
	int groups[SPAWN_GROUPS_MAX]; /* fds of cgroup.procs (v1: tasks) files to enter */
	size_t n_groups;
	/* The directory of groups[0], when that is a v2 group; 0: none. spawn_start() has the clone enter
	 * it, where the kernel can: a process that moves itself waits for a grace period. */
	int into;
	struct spawn_rlimit rlimits[SPAWN_RLIMITS_MAX];
	size_t n_rlimits;
};

/* The pid, once the command has been executed; -1 and *f (stage "fork" "parent" "group" "limits"
 * "workdir" "stdio" "privileges" "filter" "exec", errno) when it could not be. The command is
 * looked up as execvp does, with envp's PATH, from cwdfd; behind walls with the worker's rights,
 * and its pipes and terminal are the worker's (walls.h). Nothing but 0, 1, 2 is handed over. */
pid_t spawn(const struct spawn *s, struct agent_fail *f);

/*
 * The same without standing still until the command has been executed. The pid, and in
 * *ret_report a non-blocking fd that becomes readable
 * when spawn_outcome() has an answer: 0 executed (or the child is dead: reap it), -1 and *f it
 * failed, 1 not known yet.
 */
pid_t spawn_start(const struct spawn *s, int *ret_report, struct agent_fail *f);
int spawn_outcome(int report, struct agent_fail *f);

/* fork() into a v2 group, whose directory is dir: unlike a process that moves itself, it waits for
 * nothing. -1 and errno, too, where the kernel or a filter has no such call. */
pid_t fork_into(int dir);

/* Closes every fd from 3 up but these (n of them, any order, -1 allowed). */
void fds_keep(const int *keep, size_t n);
/* Undoes what the agent does to signals: for every process that is about to execute something
 * else. */
void signals_default(void);
/* SIGPIPE and SIGXFSZ ignored, everything else at its default, nothing blocked. */
void signals_agent(void);

#endif
