/* SPDX-License-Identifier: MIT */
/*
 * copy_out.c: berth_copy_out(): from a sandbox to here.
 *
 * Invariants: the sandbox is not trusted with our file system. Below DST every directory is opened
 * by its name from its parent, never through a link; names come one at a time and may not be "",
 * ".", "..", nor hold a '/'; a file is written under a temporary name and renamed when its hash was
 * right, so nothing is written through what was there. What was copied before a failure stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/random.h"
#include "base/time.h"
#include "core/copy.h"

/* Entries of one directory that are held at once. */
#define LISTED_MAX 4000000u

struct listed {
	char *name, *target;
	struct copy_stat st;
};

struct listing {
	struct listed *v;
	size_t n, cap;
};

static void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].target);
	}
	free(l->v);
}
BERTH_DEFINE_AUTO(listing, struct listing, listing_done);

static int fail_local(struct copier *c, int e, const char *what, const char *path)
{
	int code = e == EACCES || e == EPERM                                  ? BERTH_E_PERM
		   : e == EEXIST || e == ELOOP || e == ENOTDIR || e == EISDIR ? BERTH_E_CONFLICT
									      : 0;

	return berth_fail_errno(c->err, code, e, "cannot %s \"%s\"", what, path);
}

static bool name_is_safe(struct wire_slice v)
{
	return v.n > 0 && v.n <= 255 && wire_slice_is_text(v) && !memchr(v.p, '/', v.n) &&
	       !(v.n == 1 && v.p[0] == '.') && !(v.n == 2 && v.p[0] == '.' && v.p[1] == '.');
}

static int listing_add(struct copier *c, struct listing *l, struct wire_slice event)
{
	struct wire_slice name, target = {0};
	struct listed e = {0};

	if (!wire_find(event.p, event.n, WK_NAME, &name) || !name_is_safe(name))
		return berth_fail(c->err, BERTH_E_PROTOCOL,
				  "the sandbox listed a name that is none");
	if (wire_find(event.p, event.n, WK_TARGET, &target) && !wire_slice_is_text(target))
		return berth_fail(c->err, BERTH_E_PROTOCOL, "the sandbox listed a link to nowhere");
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 32;
		struct listed *v =
			cap > LISTED_MAX ? NULL : mem_reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return berth_fail_nomem(c->err);
		l->v = v;
		l->cap = cap;
	}
	e.st.kind = (enum copy_kind)wire_find_int(event.p, event.n, WK_TYPE, COPY_OTHER);
	e.st.mode = (unsigned)wire_find_int(event.p, event.n, WK_MODE, 0) & 0777;
	e.st.mtime_ns = wire_find_int(event.p, event.n, WK_MTIME_NS, 0);
	e.name = mem_strndup(name.p, name.n);
	e.target = mem_strndup(target.p, target.n);
	l->v[l->n++] = e;
	return e.name && e.target ? 0 : berth_fail_nomem(c->err);
}

static int list_remote(struct copier *c, const char *remote, struct listing *l)
{
	uint8_t buf[COPY_FIELDS_MAX];
	struct wire_slice v;
	struct wire_w w;
	uint8_t type;
	int r;

	copy_fields(c, &w, buf, sizeof(buf), remote);
	r = road_request(c->road, WIRE_LS, &w, c->err);
	while (r == 0) {
		r = road_recv(c->road, &type, &v, deadline_from_ms(COPY_STALL_MS), c->err);
		if (r == 0 && type == WIRE_OK)
			return 0;
		if (r == 0 && type == WIRE_EVENT)
			r = listing_add(c, l, v);
	}
	return r;
}

static void set_times(int64_t mtime_ns, struct timespec ts[2])
{
	int64_t sec = mtime_ns / NS_PER_SEC, ns = mtime_ns % NS_PER_SEC;

	if (ns < 0) {
		sec--;
		ns += NS_PER_SEC;
	}
	ts[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
	ts[1] = (struct timespec){.tv_sec = sec, .tv_nsec = ns};
}

/* DATA into fd; the mode and mtime of the OK into *ret. */
static int receive(struct copier *c, int fd, const char *shown, struct copy_stat *ret)
{
	XXH128_canonical_t sum;
	struct wire_slice v, sent;
	XXH3_state_t state;
	uint8_t type;
	int r;

	XXH3_128bits_reset(&state);
	for (;;) {
		r = road_recv(c->road, &type, &v, deadline_from_ms(COPY_STALL_MS), c->err);
		if (r < 0)
			return r;
		if (type == WIRE_OK)
			break;
		if (type != WIRE_DATA)
			continue;
		XXH3_128bits_update(&state, v.p, v.n);
		r = write_full(fd, v.p, v.n);
		if (r < 0)
			return fail_local(c, -r, "write", shown);
	}
	XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(&state));
	if (!wire_find(v.p, v.n, WK_XXH128, &sent) || sent.n != sizeof(sum.digest) ||
	    memcmp(sent.p, sum.digest, sent.n) != 0)
		return berth_fail(c->err, BERTH_E_PROTOCOL, "\"%s\" did not arrive as it was sent",
				  shown);
	ret->mode = (unsigned)wire_find_int(v.p, v.n, WK_MODE, ret->mode) & 0777;
	ret->mtime_ns = wire_find_int(v.p, v.n, WK_MTIME_NS, ret->mtime_ns);
	return 0;
}

static void temporary_name(char name[24])
{
	memcpy(name, ".berth-", 7);
	random_name(name + 7, 12);
}

static int get_file(struct copier *c, const char *remote, int dirfd, const char *name,
		    const char *shown, struct copy_stat st)
{
	uint8_t buf[COPY_FIELDS_MAX];
	struct timespec ts[2];
	auto_close int fd = -1;
	char temp[24];
	struct wire_w w;
	int r;

	copy_fields(c, &w, buf, sizeof(buf), remote);
	temporary_name(temp);
	fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_local(c, errno, "write", shown);
	r = road_request(c->road, WIRE_GET, &w, c->err);
	if (r == 0)
		r = receive(c, fd, shown, &st);
	set_times(st.mtime_ns, ts);
	if (r == 0 && (fchmod(fd, st.mode) < 0 || futimens(fd, ts) < 0 ||
		       renameat(dirfd, temp, dirfd, name) < 0))
		r = fail_local(c, errno, "write", shown);
	if (r < 0)
		unlinkat(dirfd, temp, 0);
	return r;
}

static int make_link(struct copier *c, int dirfd, const char *name, const char *shown,
		     const char *target, int64_t mtime_ns)
{
	struct timespec ts[2];
	char temp[24];

	temporary_name(temp);
	set_times(mtime_ns, ts);
	if (symlinkat(target, dirfd, temp) < 0)
		return fail_local(c, errno, "make the link", shown);
	if (utimensat(dirfd, temp, ts, AT_SYMLINK_NOFOLLOW) == 0 &&
	    renameat(dirfd, temp, dirfd, name) == 0)
		return 0;
	fail_local(c, errno, "make the link", shown);
	unlinkat(dirfd, temp, 0);
	return c->err ? c->err->code : BERTH_E_IO;
}

static int get_children(struct copier *c, const char *remote, int fd, const char *shown,
			unsigned depth);

/* nofollow: O_NOFOLLOW, or 0 for the directory that the caller named. */
static int get_dir(struct copier *c, const char *remote, int dirfd, const char *name, int nofollow,
		   const char *shown, const struct copy_stat *st, unsigned depth)
{
	auto_close int fd = -1;
	struct timespec ts[2];
	bool made = mkdirat(dirfd, name, 0700) == 0;
	int r;

	if (!made && errno != EEXIST)
		return fail_local(c, errno, "make the directory", shown);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | nofollow);
	if (fd < 0)
		return fail_local(c, errno, "open the directory", shown);
	r = get_children(c, remote, fd, shown, depth);
	set_times(st->mtime_ns, ts);
	/* A directory that was there keeps what it had. */
	if (r == 0 && made && (fchmod(fd, st->mode) < 0 || futimens(fd, ts) < 0))
		r = fail_local(c, errno, "set the mode of", shown);
	return r;
}

static int get_entry(struct copier *c, const struct listed *e, const char *remote, int dirfd,
		     const char *shown, unsigned depth)
{
	switch (e->st.kind) {
	case COPY_FILE:
		return get_file(c, remote, dirfd, e->name, shown, e->st);
	case COPY_DIR:
		return get_dir(c, remote, dirfd, e->name, O_NOFOLLOW, shown, &e->st, depth);
	case COPY_LINK:
		return make_link(c, dirfd, e->name, shown, e->target, e->st.mtime_ns);
	default:
		return copy_fail_type(c->err, remote);
	}
}

static int get_children(struct copier *c, const char *remote, int fd, const char *shown,
			unsigned depth)
{
	auto(listing) struct listing l = {0};
	int r;

	if (depth > TREE_DEPTH_MAX)
		return berth_fail(c->err, BERTH_E_INVALID,
				  "\"%s\": more than %d directories inside each other", remote,
				  TREE_DEPTH_MAX);
	r = list_remote(c, remote, &l);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		auto_free char *from = path_join(remote, l.v[i].name);
		auto_free char *to = path_join(shown, l.v[i].name);

		r = from && to ? get_entry(c, &l.v[i], from, fd, to, depth + 1)
			       : berth_fail_nomem(c->err);
	}
	return r;
}

static int remote_link_target(struct copier *c, const char *remote, char **ret)
{
	uint8_t buf[COPY_FIELDS_MAX];
	struct wire_slice reply, target;
	struct wire_w w;
	int r;

	copy_fields(c, &w, buf, sizeof(buf), remote);
	r = road_ask(c->road, WIRE_STAT, &w, deadline_from_ms(COPY_STALL_MS), &reply, c->err);
	if (r < 0)
		return r;
	if (!wire_find(reply.p, reply.n, WK_TARGET, &target) || !wire_slice_is_text(target))
		return berth_fail(c->err, BERTH_E_PROTOCOL, "\"%s\" is no link any more", remote);
	*ret = mem_strndup(target.p, target.n);
	return *ret ? 0 : berth_fail_nomem(c->err);
}

/* A path as its directory and its last component. What ends in ".." is itself, seen from here. */
static int split(const char *target, char **ret_dir, char **ret_name)
{
	auto_free char *path = path_normalize(target);
	const char *base = path ? path_basename(path) : "";

	if (!path)
		return BERTH_E_NOMEM;
	if (strcmp(path, "/") == 0) {
		*ret_dir = mem_strdup("/");
		*ret_name = mem_strdup(".");
	} else if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
		*ret_dir = mem_strdup(".");
		*ret_name = mem_strdup(path);
	} else {
		size_t n = (size_t)(base - path);

		*ret_dir = n ? mem_strndup(path, n) : mem_strdup(".");
		*ret_name = mem_strdup(base);
	}
	return *ret_dir && *ret_name ? 0 : BERTH_E_NOMEM;
}

/* The directory that DST lies in, made when it is not there. The caller's own path: links in it
 * mean what they mean. */
static int open_parent(struct copier *c, const char *target, int *ret_fd, char **ret_name)
{
	auto_free char *dir = NULL;
	int r, fd;

	if (split(target, &dir, ret_name) < 0)
		return berth_fail_nomem(c->err);
	r = mkdir_p(AT_FDCWD, dir, 0777);
	if (r < 0)
		return fail_local(c, -r, "make the directory", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail_local(c, errno, "open the directory", dir);
	*ret_fd = fd;
	return 0;
}

static int get_any(struct copier *c, const char *remote, const struct copy_stat *st,
		   const char *target)
{
	auto_free char *name = NULL, *link = NULL;
	auto_close int fd = -1;
	int r = open_parent(c, target, &fd, &name);

	if (r < 0)
		return r;
	switch (st->kind) {
	case COPY_FILE:
		return get_file(c, remote, fd, name, target, *st);
	case COPY_DIR:
		return get_dir(c, remote, fd, name, c->into_existing ? 0 : O_NOFOLLOW, target, st,
			       0);
	case COPY_LINK:
		r = remote_link_target(c, remote, &link);
		return r < 0 ? r : make_link(c, fd, name, target, link, st->mtime_ns);
	default:
		return copy_fail_type(c->err, remote);
	}
}

int berth_copy_out(struct berth_sandbox *s, const char *id, const char *remote, const char *local,
		   struct berth_error *err)
{
	auto(copier) struct copier c = {0};
	auto_free char *target = NULL;
	enum copy_kind there = COPY_NOTHING;
	struct copy_stat src;
	struct stat st;
	int r;

	if (stat(*local ? local : ".", &st) == 0)
		there = S_ISDIR(st.st_mode) ? COPY_DIR : COPY_FILE;
	if ((r = copier_init(&c, s, id, remote, err)) < 0 ||
	    (r = copy_remote_stat(&c, remote,
				  copy_ends_in_slash(remote) || copy_means_inside(remote), &src)) <
		    0)
		return r;
	if (src.kind == COPY_NOTHING)
		return berth_fail(err, BERTH_E_NOT_FOUND, "there is no \"%s\" in the sandbox",
				  remote);
	r = copy_target(remote, src.kind, local, there, &target, err);
	if (r < 0)
		return r;
	c.into_existing = there == COPY_DIR && strcmp(target, *local ? local : ".") == 0;
	return get_any(&c, remote, &src, target);
}
