/* SPDX-License-Identifier: MIT */
/*
 * boxgroup.h: the control groups of an isolated sandbox, made by stage outside of it.
 */
#ifndef AGENT_BOXGROUP_H
#define AGENT_BOXGROUP_H

#include "agent/agent.h"

/* Of the whole sandbox, set on NAME/x; 0: none. */
struct boxgroup_limits {
	int64_t memory;     /* bytes, swap included where the kernel counts it */
	int64_t pids;       /* processes and threads */
	int64_t cpus_milli; /* thousandths of a cpu */
};

/*
 * Makes NAME/{init,x} in every hierarchy that can be used, below the caller's own group (v2: its
 * parent when ours holds processes), sets the limits on NAME/x, gives x and its
 * cgroup.procs, tasks, cgroup.subtree_control to owner_uid:owner_gid, and moves this process into
 * NAME/init of every hierarchy. The absolute path of each directory is appended as a line to the
 * file "groups" in base_dirfd *before* the directory is made (the file is begun anew by this
 * call). Directories of an earlier life that are there already are taken over.
 *
 * Called once, by stage: as root in the host's user namespace; for an ordinary user inside U1 (the
 * caller is uid 0 there). owner_uid and owner_gid are ids of the user namespace the call is made
 * in. The mount namespace is ours already or still the host's; /sys/fs/cgroup is the host's.
 *
 * ret_x_fds: an O_RDONLY|O_DIRECTORY|O_CLOEXEC fd of NAME/x per hierarchy, -1 where there is none.
 * 0; -1 and *f when a limit that was asked for cannot be set (the message says which and the way
 * out). Without limits, having no usable hierarchy at all is no failure: all fds are -1 then.
 */
int boxgroup_make(int base_dirfd, const char *name, const struct boxgroup_limits *limits,
		  uid_t owner_uid, gid_t owner_gid, int ret_x_fds[AGENT_GROUPS],
		  struct agent_fail *f);

#endif
