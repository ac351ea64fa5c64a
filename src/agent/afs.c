/* SPDX-License-Identifier: MIT */
/*
 * afs.c: directories, removal, locks and names for the agent's store.
 *
 * Invariants: nothing allocates; recursion is bounded, whatever depth a worker has made
 * (remove_tree_at moves what is too deep up to its top and goes on there); no function follows a
 * link that it has not been told to follow. Copies are in copy.c.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/walls.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef F_OFD_GETLK
#define F_OFD_GETLK  36
#define F_OFD_SETLK  37
#define F_OFD_SETLKW 38
#endif

#define RM_DEPTH 32 /* levels of recursion: 4.3 KiB of stack and one fd each */

/* What getdents64 returns; musl's struct dirent agrees, but only inside readdir(). */
struct raw_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

void dirscan_init(struct dirscan *d, int fd)
{
	d->fd = fd;
	d->err = 0;
	d->pos = d->end = 0;
	if (lseek(fd, 0, SEEK_SET) < 0)
		d->err = errno;
}

const char *dirscan_next(struct dirscan *d, uint8_t *ret_type)
{
	const struct raw_dirent *e;
	long n;

	for (;;) {
		if (d->err)
			return NULL;
		if (d->pos == d->end) {
			n = syscall(SYS_getdents64, d->fd, d->buf, sizeof(d->buf));
			if (n <= 0) {
				d->err = n < 0 ? errno : 0;
				return NULL;
			}
			d->pos = 0;
			d->end = (size_t)n;
		}
		e = (const void *)(d->buf + d->pos);
		d->pos += e->reclen;
		if (e->name[0] == '.' && (!e->name[1] || (e->name[1] == '.' && !e->name[2])))
			continue;
		*ret_type = e->type;
		return e->name;
	}
}

int mkdir_at(int dirfd, const char *name, mode_t mode)
{
	struct stat st;

	if (mkdirat(dirfd, name, mode) == 0)
		return 0;
	if (errno != EEXIST || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return 0;
	errno = EEXIST;
	return -1;
}

int mkdir_p_at(int dirfd, const char *path, mode_t mode)
{
	char buf[AGENT_PATH_MAX];
	struct stat st;
	size_t n = strlen(path);

	if (mkdirat(dirfd, path, mode) == 0)
		return 0;
	if (errno == EEXIST) {
		if (fstatat(dirfd, path, &st, 0) == 0 && S_ISDIR(st.st_mode))
			return 0;
		errno = ENOTDIR;
		return -1;
	}
	if (errno != ENOENT || n >= sizeof(buf))
		return -1;
	memcpy(buf, path, n + 1);
	for (size_t i = 1; i < n; i++) {
		if (buf[i] != '/' || buf[i - 1] == '/')
			continue;
		buf[i] = '\0';
		if (mkdirat(dirfd, buf, mode) < 0 && errno != EEXIST)
			return -1;
		buf[i] = '/';
	}
	return mkdirat(dirfd, path, mode) < 0 && errno != EEXIST ? -1 : 0;
}

/* chmod through the inode itself, so that a name swapped for a link meanwhile leads nowhere. */
static void make_accessible(int dirfd, const char *name)
{
	char proc[40];
	int fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	fmt(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	if (fchmodat(AT_FDCWD, proc, 0700, 0) < 0) {
		/* then the next removal in it fails, and that is what is reported */
	}
	close(fd);
}

static void count_bytes(int dirfd, const char *name, uint64_t *bytes)
{
	struct stat st;

	if (bytes && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
	    st.st_nlink == 1)
		*bytes += (uint64_t)st.st_blocks * 512u;
}

/* unlinkat() that counts. A directory that forbids it is opened up once. */
static int rm_file(int dirfd, const char *name, uint64_t *bytes)
{
	count_bytes(dirfd, name, bytes);
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EACCES && fchmod(dirfd, 0700) == 0 && unlinkat(dirfd, name, 0) == 0)
		return 0;
	return -1;
}

struct rm {
	int top; /* what is too deep is moved here */
	uint64_t *bytes;
};

static int rm_dir(const struct rm *r, int parent, const char *name, int depth);

static int rm_entry(const struct rm *r, int dirfd, const char *name, uint8_t type, int depth)
{
	char up[36] = "rm.";

	if (type != DT_DIR) {
		if (rm_file(dirfd, name, r->bytes) == 0)
			return 0;
		if (type != DT_UNKNOWN || (errno != EISDIR && errno != EPERM))
			return -1;
	}
	if (depth < RM_DEPTH)
		return rm_dir(r, dirfd, name, depth + 1);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	random_name(up + 3);
	if (renameat(dirfd, name, r->top, up) == 0)
		return 0;
	if (errno != EACCES)
		return -1;
	make_accessible(dirfd, name); /* moving a directory changes its "..": it must be writable */
	fchmod(dirfd, 0700);
	return renameat(dirfd, name, r->top, up);
}

/* Removes what is in fd, once through. Returns the number of entries met, or -1. */
static long rm_pass(const struct rm *r, int fd, int depth)
{
	struct dirscan d;
	const char *name;
	uint8_t type;
	long n = 0;

	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type))) {
		if (rm_entry(r, fd, name, type, depth) < 0)
			return -1;
		n++;
	}
	errno = d.err;
	return d.err ? -1 : n;
}

static int rm_dir(const struct rm *r, int parent, const char *name, int depth)
{
	struct rm here = *r;
	long n = 1;
	int fd, e;

	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES) {
		make_accessible(parent, name);
		fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (here.top < 0)
		here.top = fd;
	/* Passes, because what is moved up comes in behind the scan; something else that adds files
	 * for ever is not our business. */
	for (int pass = 0; n > 0 && pass < 100000; pass++) {
		n = rm_pass(&here, fd, depth);
		if (n < 0)
			break;
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
			close(fd);
			return 0;
		}
		if (errno == EACCES && depth > 0 && fchmod(parent, 0700) == 0 &&
		    unlinkat(parent, name, AT_REMOVEDIR) == 0) {
			close(fd);
			return 0;
		}
		if (errno != ENOTEMPTY && errno != EEXIST)
			break;
	}
	e = errno;
	close(fd);
	errno = e;
	return -1;
}

int remove_tree_at(int dirfd, const char *name, uint64_t *bytes)
{
	struct rm r = {.top = -1, .bytes = bytes};
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (!S_ISDIR(st.st_mode)) {
		count_bytes(dirfd, name, bytes);
		return unlinkat(dirfd, name, 0) < 0 && errno != ENOENT ? -1 : 0;
	}
	return rm_dir(&r, dirfd, name, 0);
}

/* Kernels without openat2(): component by component, no links, no "..". */
static int walk_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	char name[256];
	int fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3), next, e;

	for (;;) {
		size_t n = strcspn(path, "/");
		bool last;

		if (fd < 0)
			return -1;
		last = path[n + strspn(path + n, "/")] == '\0';
		errno = *path == '/' || (n == 2 && path[0] == '.' && path[1] == '.') ? EXDEV
			: n >= sizeof(name)                                          ? ENAMETOOLONG
										     : 0;
		if (errno)
			break;
		memcpy(name, path, n);
		name[n] = '\0';
		next = openat(fd, n ? name : ".",
			      last ? flags | O_NOFOLLOW | O_CLOEXEC
				   : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			      mode);
		e = errno;
		close(fd);
		errno = e;
		if (last)
			return next;
		fd = next;
		path += n + strspn(path + n, "/");
	}
	e = errno;
	close(fd);
	errno = e;
	return -1;
}

/* openat() whose path is resolved so. */
static int open_resolved(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0,
		.resolve = resolve,
	};
	long fd;

	/* EAGAIN: a rename somewhere raced with "..": the kernel asks to try again. */
	for (int i = 0; i < 64; i++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return (int)fd;
}

int open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	int fd = open_resolved(dirfd, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return walk_beneath(dirfd, path, flags, mode);
	return fd;
}

int open_plain(int dirfd, const char *path, int flags, mode_t mode)
{
	int fd = open_resolved(dirfd, path, flags, mode, RESOLVE_NO_MAGICLINKS);

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return openat(dirfd, path, flags | O_CLOEXEC, mode);
	return fd;
}

/* For a worker, or by one. */
static int make_dir(int dirfd, const char *name)
{
	if (mkdirat(dirfd, name, 0755) < 0)
		return errno == EEXIST ? 0 : -1;
	return wall_give_at(dirfd, name);
}

typedef int open_fn(int dirfd, const char *path, int flags, mode_t mode);

/* Makes the directories of buf, one after the other, and opens the last one. */
static int make_by(open_fn *open_it, int dirfd, char *buf)
{
	int at = fcntl(dirfd, F_DUPFD_CLOEXEC, 3), next, e;

	for (char *p = buf; *p && at >= 0;) {
		size_t n = strcspn(p, "/");
		char saved = p[n];

		p[n] = '\0';
		/* Up and down through the whole path each time, so that ".." and links mean what
		 * they mean in a path. */
		next = open_it(dirfd, *buf ? buf : "/", O_RDONLY | O_DIRECTORY, 0);
		if (next < 0 && errno == ENOENT && n && make_dir(at, p) == 0)
			next = open_it(dirfd, buf, O_RDONLY | O_DIRECTORY, 0);
		e = errno;
		p[n] = saved;
		close(at);
		errno = e;
		at = next;
		p += n + strspn(p + n, "/");
	}
	return at;
}

int open_parent_beneath(int dirfd, const char *path, bool make, char *buf, const char **ret_leaf)
{
	size_t n = strlen(path);
	char *slash;
	int fd;

	while (n > 0 && path[n - 1] == '/')
		n--;
	if (n == 0 || n >= AGENT_PATH_MAX) {
		errno = n ? ENAMETOOLONG : EINVAL;
		return -1;
	}
	memcpy(buf, path, n);
	buf[n] = '\0';
	slash = strrchr(buf, '/');
	*ret_leaf = slash ? slash + 1 : buf;
	if (strcmp(*ret_leaf, ".") == 0 || strcmp(*ret_leaf, "..") == 0) {
		errno = EINVAL;
		return -1;
	}
	if (!slash)
		return openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (slash > buf && slash[-1] == '/')
		slash--;
	if (slash == buf) {
		errno = EXDEV;
		return -1;
	}
	*slash = '\0';
	fd = open_beneath(dirfd, buf, O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 && errno == ENOENT && make ? make_by(open_beneath, dirfd, buf) : fd;
}

int open_dir_plain(int dirfd, char *path, bool make)
{
	int fd = open_plain(dirfd, path, O_RDONLY | O_DIRECTORY, 0);

	return fd < 0 && errno == ENOENT && make ? make_by(open_plain, dirfd, path) : fd;
}

int ofd_lock(int fd, short type, bool wait)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET};

	return RETRY_EINTR(fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l));
}

int ofd_held(int fd, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET};

	if (fcntl(fd, F_OFD_GETLK, &l) < 0)
		return -1;
	return l.l_type != F_UNLCK;
}

/* 1: made and locked; 0: PRUNE took it for an empty leftover before it was locked; -1. */
static int tmpdir_try(struct tmpdir *t)
{
	struct stat st;

	random_name(t->name + 6);
	if (mkdirat(agent.dirfd, t->name, 0700) < 0 &&
	    (errno != ENOENT || mkdir_at(agent.dirfd, "tmp", 0700) < 0 ||
	     mkdirat(agent.dirfd, t->name, 0700) < 0))
		return -1;
	t->fd = openat(agent.dirfd, t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->fd < 0)
		return errno == ENOENT ? 0 : -1;
	/* A write lock wants a fd open for writing, which a directory has not: a read lock says as
	 * much to F_OFD_GETLK. */
	if (ofd_lock(t->fd, F_RDLCK, false) < 0 || fstat(t->fd, &st) < 0)
		return -1;
	if (st.st_nlink > 0)
		return 1;
	close(t->fd);
	t->fd = -1;
	return 0;
}

int tmpdir_make(struct tmpdir *t, char kind)
{
	int r = 0, e;

	t->fd = -1;
	memcpy(t->name, "tmp/?.", 6);
	t->name[4] = kind;
	for (int i = 0; i < 1000 && r == 0; i++)
		r = tmpdir_try(t);
	if (r > 0)
		return 0;
	e = r < 0 ? errno : EIO;
	tmpdir_drop(t);
	errno = e;
	return -1;
}

void tmpdir_drop(struct tmpdir *t)
{
	if (t->fd < 0)
		return;
	remove_tree_at(agent.dirfd, t->name, NULL);
	close(t->fd);
	t->fd = -1;
}

bool join3(char *buf, size_t cap, const char *a, const char *b, const char *c)
{
	size_t na = strlen(a), nb = strlen(b), nc = strlen(c);

	if (na + nb + nc >= cap)
		return false;
	memcpy(buf, a, na);
	memcpy(buf + na, b, nb);
	memcpy(buf + na + nb, c, nc + 1);
	return true;
}
