/* SPDX-License-Identifier: MIT */
/*
 * tree.h: artifacts made up in memory, and their way through UNPACK. The agent does not compute SHA-256, so contents are named here by
 * XXH3-128 twice: a name of the right length that is the same exactly when the contents are.
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
	size_t sent;		/* files that the last tree_unpack() was asked for */
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
void tree_contents(struct tree *t, struct client *c, const uint8_t *bits, size_t n, enum client_hash how);
/* All of it. Returns client_code(): 0 done. */
int tree_unpack(struct tree *t, struct client *c, enum client_hash how);

#endif
