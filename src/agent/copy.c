/* SPDX-License-Identifier: MIT */
/*
 * copy.c: copies of files and trees for views and layers where no overlay can be mounted.
 *
 * Invariants: a copy shares no inode with its source (a reflink is a copy); no link is followed on
 * either side, because every step is relative to a directory fd with O_NOFOLLOW. Not copied:
 * owners (behind walls all of it is the worker's), extended attributes, hard links among files, sockets, devices.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/walls.h"

#define COPY_DEPTH 400 /* 4.5 KiB of stack and two fds each */
/* A whiteout where the kernel refuses character devices 0:0 (before 5.8, not root): a link to what
 * no link of an artifact says. */
#define WHITEOUT_LINK "/\001berth: removed by the install\001"

static uint8_t buf[256 * 1024];

int copy_bytes(int from, int to)
{
	bool range = true;
	ssize_t n;

	if (ioctl(to, FICLONE, from) == 0)
		return 1;
	for (;;) {
		if (range) {
			n = copy_file_range(from, NULL, to, NULL, 1u << 30, 0);
			if (n > 0)
				continue;
			/* Some file systems have none of it, some say 0 for files that have
			 * contents (procfs): read then. */
			range = false;
			if (n < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS &&
			    errno != EOPNOTSUPP && errno != EPERM && errno != EINTR)
				return -1;
		}
		n = RETRY_EINTR(read(from, buf, sizeof(buf)));
		if (n == 0)
			return 0;
		if (n < 0 || write_all(to, buf, (size_t)n) < 0)
			return -1;
	}
}

static int copy_file(int src, int dst, const char *name, const struct stat *st,
		     struct copy_stat *cs)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
	int in, out = -1, r = -1, e;

	in = openat(src, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0)
		return -1;
	out = openat(dst, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		goto done;
	if (st->st_size > 0) {
		r = copy_bytes(in, out);
		if (r < 0)
			goto done;
		cs->any = true;
		cs->all_reflinked = cs->all_reflinked && r == 1;
	}
	r = wall_give(out) < 0 || fchmod(out, st->st_mode & 0777) < 0 || futimens(out, ts) < 0 ? -1
											       : 0;
done:
	e = errno;
	close(in);
	if (out >= 0)
		close(out);
	errno = e;
	return r;
}

static int copy_link(int src, int dst, const char *name, unsigned flags)
{
	char target[4096];
	ssize_t n = readlinkat(src, name, target, sizeof(target) - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	if ((flags & COPY_LAYER) && strcmp(target, WHITEOUT_LINK) == 0)
		return 0;
	return symlinkat(target, dst, name) < 0 ? -1 : wall_give_at(dst, name);
}

static bool is_opaque(int fd)
{
	char v;

	return (fgetxattr(fd, "trusted.overlay.opaque", &v, 1) == 1 && v == 'y') ||
	       (fgetxattr(fd, "user.overlay.opaque", &v, 1) == 1 && v == 'y');
}

static int copy_level(int src, int dst, unsigned flags, struct copy_stat *cs, int depth);

static int copy_dir(int src, int dst, const char *name, const struct stat *st, unsigned flags,
		    struct copy_stat *cs, int depth)
{
	int in, out = -1, r = -1, e;

	in = openat(src, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0)
		return -1;
	if ((flags & COPY_LAYER) && is_opaque(in) && remove_tree_at(dst, name, NULL) < 0)
		goto done;
	if (mkdir_at(dst, name, 0700) < 0)
		goto done;
	out = openat(dst, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		goto done;
	r = copy_level(in, out, flags, cs, depth + 1);
	if (r == 0)
		r = wall_give(out) < 0 ? -1 : fchmod(out, st->st_mode & 0777);
done:
	e = errno;
	close(in);
	if (out >= 0)
		close(out);
	errno = e;
	return r;
}

/* Makes room for what is not a directory, or for a directory where dst has none. */
static int make_room(int dst, const char *name, bool dir)
{
	struct stat st;

	if (fstatat(dst, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	return dir && S_ISDIR(st.st_mode) ? 0 : remove_tree_at(dst, name, NULL);
}

static int copy_entry(int src, int dst, const char *name, unsigned flags, struct copy_stat *cs,
		      int depth)
{
	struct stat st;

	if (fstatat(src, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (make_room(dst, name, S_ISDIR(st.st_mode)) < 0)
		return -1;
	if (S_ISREG(st.st_mode))
		return copy_file(src, dst, name, &st, cs);
	if (S_ISDIR(st.st_mode))
		return copy_dir(src, dst, name, &st, flags, cs, depth);
	if (S_ISLNK(st.st_mode))
		return copy_link(src, dst, name, flags);
	if (S_ISFIFO(st.st_mode))
		return mkfifoat(dst, name, st.st_mode & 0777) < 0 ? -1 : wall_give_at(dst, name);
	return 0; /* whiteouts (a character device 0:0) have removed what was there; the rest is
		     left out */
}

static int copy_level(int src, int dst, unsigned flags, struct copy_stat *cs, int depth)
{
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (depth > COPY_DEPTH) {
		errno = ENAMETOOLONG;
		return -1;
	}
	dirscan_init(&d, src);
	while ((name = dirscan_next(&d, &type))) {
		if (copy_entry(src, dst, name, flags, cs, depth) < 0)
			return -1;
	}
	errno = d.err;
	return d.err ? -1 : 0;
}

int copy_tree(int src, int dst, unsigned flags, struct copy_stat *cs)
{
	return copy_level(src, dst, flags, cs, 0);
}

/* ---- the difference ---- */

static int diff_level(int tree, int full, int depth);

static int whiteout(int dirfd, const char *name)
{
	if (mknodat(dirfd, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	return errno == EPERM ? symlinkat(WHITEOUT_LINK, dirfd, name) : -1;
}

/* 1 same, 0 different, -1. */
static int same_bytes(int a, int b)
{
	const size_t half = sizeof(buf) / 2;

	for (;;) {
		ssize_t n = read_full(a, buf, half), k = read_full(b, buf + half, half);

		if (n < 0 || k < 0)
			return -1;
		if (n != k || memcmp(buf, buf + half, (size_t)n) != 0)
			return 0;
		if (n == 0)
			return 1;
	}
}

static int same_file(int tree, int full, const char *name, const struct stat *a,
		     const struct stat *b)
{
	int x, y, r;

	if (a->st_size != b->st_size || (a->st_mode & 0777) != (b->st_mode & 0777) ||
	    a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec)
		return 0;
	x = openat(tree, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	y = openat(full, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	r = x < 0 || y < 0 ? -1 : same_bytes(x, y);
	if (x >= 0)
		close(x);
	if (y >= 0)
		close(y);
	return r;
}

static int same_link(int tree, int full, const char *name)
{
	char a[4096], b[4096];
	ssize_t n = readlinkat(tree, name, a, sizeof(a)), k = readlinkat(full, name, b, sizeof(b));

	return n < 0 || k < 0 ? -1 : n == k && memcmp(a, b, (size_t)n) == 0;
}

static int diff_dir(int tree, int full, const char *name, const struct stat *a,
		    const struct stat *b, int depth)
{
	int x = openat(tree, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int y = openat(full, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = x < 0 || y < 0 ? -1 : diff_level(x, y, depth + 1), e = errno;

	if (x >= 0)
		close(x);
	if (y >= 0)
		close(y);
	errno = e;
	if (r < 0 || (a->st_mode & 0777) != (b->st_mode & 0777))
		return r;
	return unlinkat(full, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY && errno != EEXIST ? -1
											       : 0;
}

static int diff_entry(int tree, int full, const char *name, int depth)
{
	struct stat a, b;
	int same = 0;

	if (fstatat(tree, name, &a, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (fstatat(full, name, &b, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? whiteout(full, name) : -1;
	if ((a.st_mode & S_IFMT) != (b.st_mode & S_IFMT))
		return 0;
	if (S_ISDIR(a.st_mode))
		return diff_dir(tree, full, name, &a, &b, depth);
	if (S_ISREG(a.st_mode))
		same = same_file(tree, full, name, &a, &b);
	else if (S_ISLNK(a.st_mode))
		same = same_link(tree, full, name);
	return same > 0 ? unlinkat(full, name, 0) : same;
}

static int diff_level(int tree, int full, int depth)
{
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (depth > COPY_DEPTH) {
		errno = ENAMETOOLONG;
		return -1;
	}
	dirscan_init(&d, tree);
	while ((name = dirscan_next(&d, &type))) {
		if (diff_entry(tree, full, name, depth) < 0)
			return -1;
	}
	errno = d.err;
	return d.err ? -1 : 0;
}

int copy_diff(int tree, int full)
{
	return diff_level(tree, full, 0);
}
