/* SPDX-License-Identifier: MIT */
/*
 * view.h: the writable directory that one execution runs in (implemented in view.c, called by the
 * supervisor and by install).
 */
#ifndef AGENT_VIEW_H
#define AGENT_VIEW_H

#include "agent/agent.h"

struct view {
	const char *level; /* static: "overlay" "reflink" "copy" "none" */
	int rootfd;        /* O_DIRECTORY (not O_PATH) fd of the view's root as the worker sees it,
			      CLOEXEC; owned by the caller */
	char root[AGENT_PATH_MAX]; /* the same as an absolute path */
};

/*
 * Makes the view of s (tree, layer, input of kind file) for the record at recfd (x/ID, the names
 * `up` `wk` `view` in it are the view's). Called in the supervisor, cwd DIR. own_mnt: this process
 * has a mount namespace of its own whose propagation is already private; in_userns: it belongs to a
 * user namespace (userxattr). The bytes of a file input are in recfd/`input`.
 *
 * Without SK_TREE: level "none", rootfd a dup of agent.homefd (and no input of kind file).
 *  0: done, *ret filled.
 *  1: this needs a copy that may take long (of the tree, or of a large input into a view that is
 *     mounted already): call view_copy() in a child, then view_open() here.
 * -1: *f (code, stage "view" or "input", err, message).
 */
int view_make(const struct spec *s, int recfd, bool own_mnt, bool in_userns, struct view *ret,
	      struct agent_fail *f);
/* The long part, run in a forked child of the supervisor that may be killed at any time: fills
 * recfd/`view` (and the input). 0, or -1 and *f. */
int view_copy(const struct spec *s, int recfd, struct agent_fail *f);
/* After view_copy() ended well, in the supervisor: bind-mounts on agent.app with own_mnt; fills *ret.
 * 0, or -1 and *f. Says "reflink" or "copy" (view_copy leaves the word behind where only view.c
 * knows). */
int view_open(const struct spec *s, int recfd, bool own_mnt, bool in_userns, struct view *ret,
	      struct agent_fail *f);

/* ERROR PRECONDITION's NEED of a spec: "tree", "layer", or NULL when the store has both (or none is
 * asked for). */
const char *view_need(const struct spec *s);

/*
 * LAUNCH against PRUNE: call store_hold(F_RDLCK) (store.h) before view_need() and close its fd when
 * the record is visible under its id. PRUNE takes the same lock exclusively, so what view_need()
 * has seen stays until the record says that it is used.
 */

#endif
