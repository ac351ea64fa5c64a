/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_UPLOAD_H
#define BERTH_CORE_UPLOAD_H
/*
 * An artifact's way into a sandbox: UNPACK, of which only what the sandbox does not have by content
 * is sent.
 */
#include "core/artifact.h"
#include "core/progress.h"
#include "core/road.h"

enum upload_result {
	UPLOAD_DONE = 0,
	UPLOAD_CHANGED = 1, /* a file is not any more what was hashed: load the artifact again; *err
			       names it */
	UPLOAD_REFUSED = 2, /* the sandbox could not take it (disk full …): *err says why */
};

/*
 * Brings the tree to the sandbox; when it is there already nothing is sent. What is stored under a
 * hash is that content: each file is looked at before and hashed again while it is sent, and one
 * that differs ends the upload before the sandbox has named anything. A stream that breaks is
 * tried again a few times; then it is the failure. An enum upload_result or a negative code.
 */
int upload_artifact(struct berth_sandbox *s, const struct artifact *a, const struct progress *p,
		    struct berth_error *err) attr_warn_unused;

/* For tests: called before each file is read for sending. */
extern void (*upload_test_hook)(const char *path);

#endif
