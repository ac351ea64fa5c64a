/* SPDX-License-Identifier: MIT */
/*
 * copy_in.c: berth_copy_in(): from here into a sandbox.
 *
 * Invariants: below SRC no link is followed; a directory is made in the sandbox before anything is
 * put into it, and the agent refuses one that is a link there, so nothing is written through a
 * link. Directories that were made get their mode and mtime when they are full. What was copied
 * before a failure stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/time.h"
#include "core/copy.h"

static struct copy_stat local_stat(const struct stat *st)
{
	enum copy_kind kind = S_ISREG(st->st_mode)   ? COPY_FILE
			      : S_ISDIR(st->st_mode) ? COPY_DIR
			      : S_ISLNK(st->st_mode) ? COPY_LINK
						     : COPY_OTHER;

	return (struct copy_stat){kind, st->st_mode & 0777,
				  (int64_t)st->st_mtim.tv_sec * NS_PER_SEC + st->st_mtim.tv_nsec};
}

static int fail_local(struct copier *c, int e, const char *what, const char *path)
{
	int code = e == EACCES || e == EPERM ? BERTH_E_PERM : 0;

	return berth_fail_errno(c->err, code, e, "cannot %s \"%s\"", what, path);
}

static int send_contents(struct copier *c, int fd, const char *shown)
{
	XXH128_canonical_t sum;
	uint8_t buf[64];
	XXH3_state_t state;
	struct wire_w w;
	ssize_t n;

	XXH3_128bits_reset(&state);
	while ((n = RETRY_EINTR(read(fd, c->buf, WIRE_DATA_MAX))) > 0) {
		int r;

		XXH3_128bits_update(&state, c->buf, (size_t)n);
		c->road->send_deadline = deadline_from_ms(COPY_STALL_MS);
		r = road_data(c->road, c->buf, (size_t)n, c->err);
		if (r < 0)
			return r;
	}
	if (n < 0) {
		c->road->broken = true; /* without END the other side drops what it has */
		return fail_local(c, errno, "read", shown);
	}
	XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(&state));
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_bytes(&w, WK_XXH128, sum.digest, sizeof(sum.digest));
	return road_end(c->road, &w, c->err);
}

static int put_file(struct copier *c, int fd, const struct copy_stat *st, const char *shown,
		    const char *remote)
{
	uint8_t buf[COPY_FIELDS_MAX];
	struct wire_w w;
	int r;

	copy_fields(c, &w, buf, sizeof(buf), remote);
	wire_w_int(&w, WK_MODE, st->mode);
	wire_w_int(&w, WK_MTIME_NS, st->mtime_ns);
	r = road_request(c->road, WIRE_PUT, &w, c->err);
	if (r == 0)
		r = send_contents(c, fd, shown);
	if (r == 0)
		r = road_final(c->road, deadline_from_ms(COPY_STALL_MS), NULL, c->err);
	return r;
}

static int put_link(struct copier *c, int dirfd, const char *name, const struct copy_stat *st,
		    const char *shown, const char *remote)
{
	uint8_t buf[COPY_FIELDS_MAX];
	char target[PATH_MAX];
	struct wire_w w;
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

	if (n < 0)
		return fail_local(c, errno, "read the link", shown);
	copy_fields(c, &w, buf, sizeof(buf), remote);
	wire_w_bytes(&w, WK_TARGET, target, (size_t)n);
	wire_w_int(&w, WK_MTIME_NS, st->mtime_ns);
	return road_ask(c->road, WIRE_SYMLINK, &w, deadline_from_ms(COPY_STALL_MS), NULL, c->err);
}

/* full: the directory is complete and gets what it had; else it is made so that it can be filled.
 */
static int put_dir(struct copier *c, const struct copy_stat *st, const char *remote, bool full)
{
	uint8_t buf[COPY_FIELDS_MAX];
	struct wire_w w;

	copy_fields(c, &w, buf, sizeof(buf), remote);
	wire_w_int(&w, WK_MODE, full ? st->mode : st->mode | 0700);
	wire_w_int(&w, WK_PARENTS, 1);
	if (full)
		wire_w_int(&w, WK_MTIME_NS, st->mtime_ns);
	return road_ask(c->road, WIRE_MKDIR, &w, deadline_from_ms(COPY_STALL_MS), NULL, c->err);
}

static int put_any(struct copier *c, int dirfd, const char *name, bool follow, const char *shown,
		   const char *remote, unsigned depth);

static int put_children(struct copier *c, int fd, const char *shown, const char *remote,
			unsigned depth)
{
	auto_closedir DIR *dir = fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (!dir) {
		close(fd);
		return fail_local(c, errno, "read", shown);
	}
	if (depth > TREE_DEPTH_MAX)
		return berth_fail(c->err, BERTH_E_INVALID,
				  "\"%s\": more than %d directories inside each other", shown,
				  TREE_DEPTH_MAX);
	while (r == 0 && (errno = 0, d = readdir(dir))) {
		auto_free char *s = NULL, *t = NULL;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		s = path_join(shown, d->d_name);
		t = path_join(remote, d->d_name);
		r = s && t ? put_any(c, fd, d->d_name, false, s, t, depth + 1)
			   : berth_fail_nomem(c->err);
	}
	return r == 0 && errno ? fail_local(c, errno, "read", shown) : r;
}

static int put_tree(struct copier *c, int dirfd, const char *name, int nofollow,
		    const struct copy_stat *st, const char *shown, const char *remote,
		    unsigned depth)
{
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | nofollow);
	/* What SRC itself goes right into may be reached through a link. */
	struct copy_stat there = {.kind = c->into_existing ? COPY_DIR : COPY_NOTHING};
	bool make;
	int r = 0;

	if (fd < 0)
		return fail_local(c, errno, "read", shown);
	if (depth || !c->into_existing)
		r = copy_remote_stat(c, remote, false, &there);
	make = there.kind != COPY_DIR;
	if (r == 0 && make)
		r = put_dir(c, st, remote, false);
	if (r == 0)
		r = put_children(c, TAKE_FD(fd), shown, remote, depth);
	/* A directory that was there keeps what it had. */
	return r == 0 && make ? put_dir(c, st, remote, true) : r;
}

static int put_any(struct copier *c, int dirfd, const char *name, bool follow, const char *shown,
		   const char *remote, unsigned depth)
{
	int nofollow = follow ? 0 : O_NOFOLLOW;
	auto_close int fd = -1;
	struct copy_stat cs;
	struct stat st;

	if (fstatat(dirfd, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return fail_local(c, errno, "find", shown);
	cs = local_stat(&st);
	switch (cs.kind) {
	case COPY_DIR:
		return put_tree(c, dirfd, name, nofollow, &cs, shown, remote, depth);
	case COPY_LINK:
		return put_link(c, dirfd, name, &cs, shown, remote);
	case COPY_FILE:
		fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | nofollow);
		if (fd < 0)
			return fail_local(c, errno, "read", shown);
		return put_file(c, fd, &cs, shown, remote);
	default:
		return copy_fail_type(c->err, shown);
	}
}

int berth_copy_in(struct berth_sandbox *s, const char *local, const char *id, const char *remote,
		  struct berth_error *err)
{
	auto(copier) struct copier c = {0};
	auto_free char *target = NULL;
	bool follow = copy_ends_in_slash(local) || copy_means_inside(local);
	struct copy_stat dst;
	struct stat st;
	int r;

	if (fstatat(AT_FDCWD, *local ? local : ".", &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return berth_fail_errno(err, errno == ENOENT ? BERTH_E_INVALID : 0, errno,
					"cannot find \"%s\"", local);
	if ((r = copier_init(&c, s, id, remote, err)) < 0 ||
	    (r = copy_remote_stat(&c, remote, true, &dst)) < 0 ||
	    (r = copy_target(local, local_stat(&st).kind, remote, dst.kind, &target, err)) < 0)
		return r;
	c.into_existing = dst.kind == COPY_DIR && strcmp(target, *remote ? remote : ".") == 0;
	return put_any(&c, AT_FDCWD, *local ? local : ".", follow, local, target, 0);
}
