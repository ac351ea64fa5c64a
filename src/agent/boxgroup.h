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
 * parent, because groups with processes in them, as ours, cannot have limits below them; only the
 * root can), sets the limits on NAME/x and moves this process into NAME/init of each.
 * Where the controllers are in v1 hierarchies, v2 is left alone.
 *
 * NAME/x belongs to the caller still; owner_gid may make groups in it and move processes into
 * them: x and its cgroup.procs, tasks, cgroup.threads, cgroup.subtree_control become writable for
 * that group, and in v2 NAME/cgroup.procs, the common ancestor that the kernel asks for. The files
 * with the limits do not. So the caller can remove all of it as well. owner_gid must be a group
 * of this sandbox alone. owner_uid being the caller itself (uids=single): nothing is given.
 *
 * Before NAME is made in a hierarchy its absolute path is appended as a line to the file "groups"
 * in base_dirfd. To remove the groups of a sandbox, of a life that ended in any way: for each line,
 * end what lives there (cgroup.kill if there is such a file, else the pids in cgroup.procs of all
 * groups below), rmdir all groups below it and then itself, depth first, again for as long as it is
 * EBUSY (up to a second: the kernel lets go of a process a moment after its end), ENOENT being
 * fine; then the file "groups". A NAME that is there already is taken over when it cannot be
 * removed; its limits become what was asked.
 *
 * Called once, by stage, which has one thread: as root in the host's user namespace; for an ordinary
 * user inside U1 (the caller is uid 0 there). owner_uid and owner_gid are ids of the user namespace
 * the call is made in. /sys/fs/cgroup and /proc are the host's, whichever mount namespace it is.
 * The cgroup namespace must stay the host's for init, too (no bwrap --unshare-all).
 *
 * enter (may be NULL): asked to be in the v2 group of this directory as fork_into() is, in a child
 * that goes on as the caller; -1: it could not, and the process moves itself, which the kernel makes
 * wait.
 *
 * ret_x_fds: an O_RDONLY|O_DIRECTORY|O_CLOEXEC fd of NAME/x per hierarchy, -1 where there is none;
 * owned by caller. 0; -1 and *f when a limit that was asked for cannot be set (the message says
 * which and the way out); then no group is left. Without limits, having no usable hierarchy at
 * all is no failure: all fds are -1 then.
 */
int boxgroup_make(int base_dirfd, const char *name, const struct boxgroup_limits *limits,
		  uid_t owner_uid, gid_t owner_gid, int (*enter)(int dir),
		  int ret_x_fds[AGENT_GROUPS], struct agent_fail *f);

#endif
