/* SPDX-License-Identifier: MIT */
/*
 * hier.h: where this process stands in every hierarchy of control groups, and what one can do
 * with a directory of one.
 */
#ifndef AGENT_HIER_H
#define AGENT_HIER_H

#include "agent/agent.h"

/* The controllers of v1 hierarchies by enum agent_group; "" for v2. */
extern const char *const hier_names[AGENT_GROUPS];

/* The group that this process is in, per hierarchy: O_DIRECTORY fds, -1 where there is no such
 * hierarchy. A v1 hierarchy with two controllers has two fds. */
struct hier {
	int own[AGENT_GROUPS];
	int up; /* the parent of own[GROUP_V2]; -1 when that is the top of what is mounted */
};

/* Looks at /proc/self/cgroup and /proc/self/mountinfo. Owned by caller, hier_close(). */
void hier_find(struct hier *ret);
void hier_close(struct hier *h);

/* Are both fds the same directory? */
bool hier_same(int a, int b);
/* Is v2 what limits are made of here: are none of the four controllers in a v1 hierarchy? */
bool hier_pure_v2(const struct hier *h);

/* v2: may groups below dir have controllers while a process (ours) is in dir itself? Of the true
 * root only. The kernel would turn pids and cpu on below others, too, but then nothing can enter. */
bool hier_divisible(int dir);
/* v2: does this controller stand in the file ("cgroup.controllers", "cgroup.subtree_control")? */
bool hier_has(int dir, const char *file, const char *controller);
/* v2: turns the controller on for the groups below dir. 0 (also when it was on), or -1, errno. */
int hier_enable(int dir, const char *controller);

/* Writes a number into a file of a group. 0, or -1 and errno. */
int hier_put(int dir, const char *file, int64_t v);
/* The number behind "WORD " in a file of a group (word "": the file's only one); -1: none. "max"
 * is -1, too. */
int64_t hier_get(int dir, const char *file, const char *word);

/* Opens the file by which a process moves itself into the group: write "0" into it. In v1 that is
 * `tasks`, which a process of one thread may use and for which the kernel stops nobody (a write
 * into cgroup.procs was measured to wait 13 ms for a grace period). -1 and errno. */
int hier_open_entry(int dir, bool v2);

/*
 * Removes the group name below dir, groups in it first. A group is busy for a moment after its last
 * process was reaped: waits up to wait_ms for that. 0 (also when there was none), or -1 and errno
 * (EBUSY: something lives in it).
 */
int hier_remove(int dir, const char *name, int wait_ms);

#endif
