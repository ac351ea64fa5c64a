/* SPDX-License-Identifier: MIT */
/*
 * walls.h: what an isolated sandbox has between its workers and the agent (init --walled).
 *
 * There, init is PID 1 in a user namespace that was made for this sandbox alone: inner uid 0, which
 * is an unprivileged uid of the host, with all capabilities inside. Whatever the agent starts
 * for others, and whatever files it makes for them, is the worker's: another uid, no capabilities,
 * no_new_privs, a seccomp filter, and a mount namespace in which DIR is not mounted. Without
 * agent.walled every function here does nothing and succeeds.
 */
#ifndef AGENT_WALLS_H
#define AGENT_WALLS_H

#include "agent/agent.h"

/*
 * In a child that is about to execute somebody's command, after everything that needs rights:
 * bounding and ambient sets, securebits (locked), supplementary groups, gid, uid, all
 * capabilities, no_new_privs, in this order (the first ones want rights that the uid takes away).
 * System calls only (the child may share our memory). It resets PR_SET_PDEATHSIG: set that after
 * it. 0, or -1 and errno.
 */
int wall_drop(void);
/* The last step before execve: the seccomp filter. 0, or -1 and errno. */
int wall_filter(void);
/*
 * In a mount namespace of our own: takes DIR out of sight. The cwd and fds of this process
 * keep working. 0, or -1 and errno.
 */
int wall_hide(void);
/*
 * File requests act with the worker's rights: while on, effective uid, gid and capabilities of
 * this process are the worker's. Pairs do not nest. Ends the process when it cannot be done. Keeps
 * errno, and PR_SET_PDEATHSIG but for a moment.
 */
void wall_as_worker(bool on);
/* What a file request has opened outside of views: false and EACCES when it is something of DIR or
 * of /proc, where a worker's link may lead the agent, whose /proc is not the worker's. */
bool wall_reaches(int fd);
/* Opens a directory that a worker may have named or made: as a worker, where one could have gone
 * itself. Not walled: a plain openat(). */
int wall_open_dir(int base, const char *path);

/* Gives a file or directory, or a pipe or terminal, to the worker. 0, or -1 and errno. */
int wall_give(int fd);
int wall_give_at(int dirfd, const char *name);
/* The same for the first directory of a tree that is made for workers (0755): what is made in it
 * inherits nothing from DIR's access control lists. */
int wall_give_root(int dirfd, const char *name);
/* Sets the mode that --shared wants for a record's file or directory, whatever the umask has made
 * of it. 0, or -1 and errno. */
int wall_share(int fd);
int wall_share_at(int dirfd, const char *name);

/* For agent.in_userns. */
bool wall_in_userns(void);

#endif
