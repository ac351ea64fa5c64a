/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_COPY_H
#define BERTH_CORE_COPY_H
/*
 * What copying in (copy_in.c) and out (copy_out.c) share: paths of the sandbox and where a copy
 * lands.
 *
 * Names, as `docker cp` has them:
 *  - SRC is a file or a link: DST is an existing directory, or ends in '/': into it, under SRC's
 * name. Else DST is its name, and what is there is replaced (never written through).
 *  - SRC is a directory: DST is an existing directory: a directory of SRC's name is made in it;
 * with SRC ending in "/." (or naming ".", ".." or "/") what is in SRC goes right into DST. DST is
 * not there: it is made, with what is in SRC. DST is anything else: BERTH_E_CONFLICT.
 *  - Directories that are there already are filled up and keep their mode and mtime; missing
 * parents of DST are made. A link is copied as a link; with a '/' behind it, what it points to.
 * Permission bits (0777) and mtimes are kept, owners are not. Other file types are BERTH_E_INVALID
 * and named.
 */
#include "core/road.h"

#define COPY_STALL_MS 120000

enum copy_kind {
	COPY_NOTHING = 0,
	COPY_FILE = 'f',
	COPY_DIR = 'd',
	COPY_LINK = 'l',
	COPY_OTHER = '?'
};

struct copy_stat {
	enum copy_kind kind;
	unsigned mode; /* 0777 at most */
	int64_t mtime_ns;
};

struct copier {
	struct road *road;
	const char *id;     /* of the execution whose view it is; NULL: from the home */
	uint8_t *buf;       /* WIRE_DATA_MAX bytes */
	bool into_existing; /* SRC, a directory, goes right into a directory that is there */
	struct berth_error *err;
};

/* Gets the road and the buffer. Freed with copier_done(). */
int copier_init(struct copier *c, struct berth_sandbox *s, const char *id, const char *remote,
		struct berth_error *err) attr_warn_unused;
void copier_done(struct copier *c);
BERTH_DEFINE_AUTO(copier, struct copier, copier_done);

/* Begins the fields of a request about a path. */
void copy_fields(struct copier *c, struct wire_w *w, void *buf, size_t cap, const char *path);
/* Room for the fields of one request: a path, a link's target and numbers. */
#define COPY_FIELDS_MAX (2 * 4352 + 512)

/* COPY_NOTHING when there is none. */
int copy_remote_stat(struct copier *c, const char *path, bool follow,
		     struct copy_stat *ret) attr_warn_unused;

/* Does this name the inside of a directory: "", ".", "..", "/", or an end in "/."? */
bool copy_means_inside(const char *src) attr_pure;
bool copy_ends_in_slash(const char *path) attr_pure;
/*
 * Where SRC lands by the rules above. *ret is owned by caller, free with free(). BERTH_E_CONFLICT:
 * a directory onto a file, or a file onto "file/".
 */
int copy_target(const char *src, enum copy_kind src_kind, const char *dst, enum copy_kind dst_kind,
		char **ret, struct berth_error *err) attr_warn_unused;

/* COPY_OTHER in words. */
int copy_fail_type(struct berth_error *err, const char *path);

#endif
