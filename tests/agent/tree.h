/* SPDX-License-Identifier: MIT */
/*
 * tree.h: artifacts made up in memory, and their way through UNPACK. The agent does not compute
 * SHA-256, so contents are named here by XXH3-128 twice: a name of the right length that is the
 * same exactly when the contents are.
 */
#ifndef TESTS_AGENT_TREE_H
#define TESTS_AGENT_TREE_H

#include "client.h"
#include "wire/manifest.h"

struct tree_entry {
	char type;
	bool executable;
	char *path, *target;
	uint8_t *content;
	size_t size;
	int64_t mtime_ns;
	uint8_t sha[32];
};

struct tree {
	struct tree_entry *e;
	size_t n, cap;
	uint8_t *manifest;
	size_t manifest_len;
	char hex[65];
	size_t sent; /* files that the last tree_unpack() was asked for */
	uint64_t sent_bytes;
};

#define TREE_MTIME INT64_C(1700000000123456789)

void tree_dir(struct tree *t, const char *path);
void tree_file(struct tree *t, const char *path, const void *content, size_t n, bool executable);
/* The same with the text of a C string. */
void tree_text(struct tree *t, const char *path, const char *text);
void tree_link(struct tree *t, const char *path, const char *target);
/* Sorts, writes the manifest and names the tree. To be called again after changes. */
void tree_finish(struct tree *t);
void tree_free(struct tree *t);

/* Builds the request and the manifest in c (not sent). */
void tree_request(struct tree *t, struct client *c);
/* Builds the contents that these bits ask for, and END. Sets t->sent. */
void tree_contents(struct tree *t, struct client *c, const uint8_t *bits, size_t n,
		   enum client_hash how);
/* All of it. Returns client_code(): 0 done. */
int tree_unpack(struct tree *t, struct client *c, enum client_hash how);

/* ---- executions ---- */

/* How to launch; unset members are left out of the spec. */
struct launch_opts {
	const char *layer, *workdir, *input_path;
	const void *input; /* with input_path: a file, else stdin */
	size_t input_len;
	bool has_input, durable;
};
/* LAUNCH of `sh -c SCRIPT` in the tree (NULL: none). Returns client_code(); the STATUS reply is in
 * c. */
int launch_sh(struct client *c, const char *id, const char *tree_hex, const char *script,
	      const struct launch_opts *o);
/* Waits until it has ended. Returns the wire_state, or -1. *exit_code (may be NULL) is -1 when it
 * has none. */
int launch_wait(struct client *c, const char *id, int *exit_code);
/* launch_sh() and launch_wait(): the exit code; -1 when it did not exit (then message tells). */
int launch_run(struct client *c, const char *id, const char *tree_hex, const char *script,
	       const struct launch_opts *o);
/* Of the last STATUS reply: the journal's last message (static), "" when there is none; the view's
 * level. */
const char *launch_message(const struct client *c);
const char *launch_view(const struct client *c);
int launch_state(const struct client *c);
/* What it wrote to stdout (static). */
const char *launch_stdout(struct client *c, const char *id);
int launch_cancel(struct client *c, const char *id);
int launch_forget(struct client *c, const char *id);

/* ---- files ---- */

/* base NULL: in the sandbox. All return client_code(). */
int file_put(struct client *c, const char *base, const char *path, const void *p, size_t n,
	     unsigned mode);
/* Contents in c->data (NUL-terminated). */
int file_get(struct client *c, const char *base, const char *path);
/* STAT MKDIR SYMLINK REMOVE LS by type, with up to one more field of integer or text (key 0: none).
 */
int file_op(struct client *c, uint8_t type, const char *base, const char *path, uint16_t key,
	    int64_t v, const char *text);
/* LS: names, sorted, joined by spaces (static). */
const char *file_names(struct client *c, const char *base, const char *path);

#endif
