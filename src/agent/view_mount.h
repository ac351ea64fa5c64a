/* SPDX-License-Identifier: MIT */
/*
 * view_mount.h: what install.c, files.c and store.c need of views beside view.h.
 */
#ifndef AGENT_VIEW_MOUNT_H
#define AGENT_VIEW_MOUNT_H

#include "agent/store.h"
#include "agent/view.h"

/* Can an overlay be mounted here (in a namespace of our own)? Tried once per boot, remembered in
 * store/overlay. */
bool view_overlay_works(void);

/* An overlay of a tree and maybe a layer. */
struct overlay {
	const void *tree, *layer; /* hex digits; layer NULL: none */
	const char *upper, *work; /* relative to DIR; work NULL: read only, upper (when not NULL) on
				     top of the others */
	bool userxattr;           /* in a user namespace */
	bool is_volatile;         /* nothing in it needs to reach the disk */
};
/* Mounts it at target. The cwd is DIR. 0 or -1, errno. */
int overlay_mount(const struct overlay *o, const char *target);

/* Copies a tree and maybe a layer (NULL: none) into the directory dst. *ret_how: "reflink" or
 * "copy". 0 or -1, errno. */
int store_copy(const void *tree, const void *layer, int dst, const char **ret_how);

/* The process whose namespace a view is mounted in. */
struct view_child {
	pid_t pid; /* 0: none */
	int sock;
};

/* What must stay as long as the fd of view_reach() is used. */
struct view_hold {
	int lock; /* -1: none */
	struct tmpdir work;
	struct view_child child;
};

/* An fd of the root of a record's view, for reading (and with rw for writing) from a connection
 * child, whatever the record's state. Returns it, or -1 and *f. On success close the fd, then call
 * view_release(). */
int view_reach(struct wire_slice id, bool rw, struct view_hold *ret_hold, struct agent_fail *f);
void view_release(struct view_hold *h);

#endif
