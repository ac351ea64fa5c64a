/* SPDX-License-Identifier: MIT */
/*
 * Whole reads, writes, copies and files. Every loop ends by end of file, an error or its bound;
 * EAGAIN is waited out with poll(), so the functions behave the same on non-blocking descriptors.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/time.h"

int wait_readable(int fd, int64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (;;) {
		int ms = deadline_poll_ms(deadline_ns);
		int n = poll(&p, 1, ms);

		if (n < 0)
			return -errno;
		if (n > 0)
			return p.revents & POLLNVAL ? -EBADF : 1;
		if (ms >= 0 && deadline_poll_ms(deadline_ns) == 0)
			return 0;
	}
}

/* True when the operation that set errno should be tried again. */
static bool again(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN)
		return false;
	return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

/* @offset -1: from the file offset. */
static ssize_t read_loop(int fd, char *buf, size_t len, off_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = offset < 0 ? read(fd, buf + done, len - done)
				       : pread(fd, buf + done, len - done, offset + (off_t)done);

		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (!again(fd, POLLIN))
			return -errno;
	}
	return (ssize_t)done;
}

static int write_loop(int fd, const char *buf, size_t len, off_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = offset < 0 ? write(fd, buf + done, len - done)
				       : pwrite(fd, buf + done, len - done, offset + (off_t)done);

		if (n == 0)
			return -EIO; /* no kernel file does that; looping on it would be worse */
		if (n > 0)
			done += (size_t)n;
		else if (!again(fd, POLLOUT))
			return -errno;
	}
	return 0;
}

ssize_t read_full(int fd, void *buf, size_t len)
{
	return read_loop(fd, buf, len, -1);
}

ssize_t pread_full(int fd, void *buf, size_t len, off_t offset)
{
	return offset < 0 ? -EINVAL : read_loop(fd, buf, len, offset);
}

int write_full(int fd, const void *buf, size_t len)
{
	return write_loop(fd, buf, len, -1);
}

int pwrite_full(int fd, const void *buf, size_t len, off_t offset)
{
	return offset < 0 ? -EINVAL : write_loop(fd, buf, len, offset);
}

/* The buffer is full: is there one more byte? 0 at end of file, -EFBIG, or -errno. */
static int expect_eof(int fd)
{
	char byte;
	ssize_t n = read_full(fd, &byte, 1);

	return n < 0 ? (int)n : n > 0 ? -EFBIG : 0;
}

int read_to_strbuf(int fd, struct strbuf *b)
{
	for (;;) {
		size_t left = b->max - b->len;
		size_t room = b->cap ? b->cap - b->len - 1 : 0;
		size_t chunk = MIN_OF(left, room ? room : (size_t)4096);
		ssize_t n;

		if (b->error)
			return b->error == BERTH_E_NOMEM ? -ENOMEM : -EFBIG;
		if (left == 0)
			return expect_eof(fd);
		if (strbuf_reserve(b, chunk) < 0)
			return -ENOMEM;
		n = read(fd, b->data + b->len, chunk);
		if (n == 0)
			return 0;
		if (n > 0)
			strbuf_advance(b, (size_t)n);
		else if (!again(fd, POLLIN))
			return -errno;
	}
}

enum copy_road {
	COPY_RANGE,
	COPY_SENDFILE,
	COPY_SPLICE,
	COPY_ROADS,
};

static ssize_t copy_by(enum copy_road road, int from, int to, size_t len)
{
	switch (road) {
	case COPY_RANGE:
		return copy_file_range(from, NULL, to, NULL, len, 0);
	case COPY_SENDFILE:
		return sendfile(to, from, NULL, len);
	case COPY_SPLICE:
		return splice(from, NULL, to, NULL, len, SPLICE_F_MOVE);
	default:
		errno = ENOSYS;
		return -1;
	}
}

/* Both ends may be the one that is not ready. */
static bool copy_again(int from, int to)
{
	return errno == EINTR || (errno == EAGAIN && again(from, POLLIN) && again(to, POLLOUT));
}

/* Moves bytes by one road until the end, *left bytes, or an error (-errno). */
static int copy_road(enum copy_road road, int from, int to, int64_t *left, int64_t *total)
{
	while (*left != 0) {
		size_t len = *left < 0 || *left > (1 << 30) ? (size_t)1 << 30 : (size_t)*left;
		ssize_t n = copy_by(road, from, to, len);

		if (n == 0)
			return 0;
		if (n > 0) {
			*total += n;
			*left -= *left > 0 ? n : 0;
		} else if (!copy_again(from, to)) {
			return -errno;
		}
	}
	return 0;
}

static int copy_buffered(int from, int to, int64_t *left, int64_t *total)
{
	auto_free char *buf = mem_alloc(COPY_CHUNK);

	if (!buf)
		return -ENOMEM;
	while (*left != 0) {
		size_t len = *left < 0 || *left > COPY_CHUNK ? (size_t)COPY_CHUNK : (size_t)*left;
		ssize_t n = read(from, buf, len);
		int r;

		if (n == 0)
			break;
		if (n < 0 && again(from, POLLIN))
			continue;
		if (n < 0)
			return -errno;
		r = write_full(to, buf, (size_t)n);
		if (r < 0)
			return r;
		*total += n;
		*left -= *left > 0 ? n : 0;
	}
	return 0;
}

/* Errors that say "not this way between these two", not "it failed". */
static bool wrong_road(int r)
{
	return r == -EINVAL || r == -ENOSYS || r == -EXDEV || r == -EOPNOTSUPP || r == -EBADF ||
	       r == -EPERM || r == -ESPIPE || r == -EOVERFLOW;
}

int64_t copy_fd(int from, int to, int64_t max)
{
	int64_t total = 0, left = max < 0 ? -1 : max;
	int r;

	for (enum copy_road road = COPY_RANGE; road < COPY_ROADS; road++) {
		int64_t before = total;

		r = copy_road(road, from, to, &left, &total);
		/* Files of /proc read as empty by copy_file_range: an end at once is asked again.
		 */
		if (r == 0 && (total > before || left == 0))
			return total;
		if (r < 0 && !wrong_road(r))
			return r;
	}
	r = copy_buffered(from, to, &left, &total);
	return r < 0 ? r : total;
}

int read_file(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len,
	      struct berth_error *err)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(max);
	auto_close int fd = RETRY_EINTR(openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
	struct stat st;
	char *data;
	int r;

	if (fd < 0)
		return berth_fail_errno(err, errno == ENOENT ? BERTH_E_NOT_FOUND : 0, errno,
					"cannot open %s", path);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    (size_t)st.st_size <= max && strbuf_reserve(&b, (size_t)st.st_size) < 0)
		return berth_fail_nomem(err);
	r = read_to_strbuf(fd, &b);
	if (r == -EFBIG)
		return berth_fail(err, BERTH_E_TOO_LARGE, "%s is larger than %zu bytes", path, max);
	if (r < 0)
		return berth_fail_errno(err, 0, r, "cannot read %s", path);
	data = strbuf_detach(&b, ret_len);
	if (!data)
		return berth_fail_nomem(err);
	*ret_data = data;
	return 0;
}

/* The directory that holds @path, and the last component. */
static int open_parent(int dirfd, const char *path, const char **ret_name)
{
	const char *name = path_basename(path);
	auto_free char *dir = NULL;
	int fd;

	if (*name == '\0')
		return -EISDIR;
	dir = mem_strndup(path, (size_t)(name - path));
	if (!dir)
		return -ENOMEM;
	fd = RETRY_EINTR(openat(dirfd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	*ret_name = name;
	return fd < 0 ? -errno : fd;
}

/* Puts the complete temporary file in its place. 0 or -errno. */
static int publish(int dir, const char *tmp, const char *name, int flags)
{
	if (!(flags & WRITE_FILE_EXCLUSIVE))
		return renameat(dir, tmp, dir, name) < 0 ? -errno : 0;
	if (linkat(dir, tmp, dir, name, 0) < 0)
		return -errno;
	unlinkat(dir, tmp, 0);
	return 0;
}

static int write_tmp(int fd, const void *data, size_t len, mode_t mode, int flags)
{
	int r = write_full(fd, data, len);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return -errno;
	if ((flags & WRITE_FILE_SYNC) && fsync(fd) < 0)
		return -errno;
	/* A file system that cannot has its own order. */
	if (flags & WRITE_FILE_SOON)
		(void)!sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	return 0;
}

int write_file_atomic(int dirfd, const char *path, const void *data, size_t len, mode_t mode,
		      int flags, struct berth_error *err)
{
	auto_close int dir = -1;
	auto_close int fd = -1;
	const char *name;
	char tmp[32] = ".tmp-";
	int r;

	dir = open_parent(dirfd, path, &name);
	if (dir < 0)
		return berth_fail_errno(err, dir == -ENOENT ? BERTH_E_NOT_FOUND : 0, dir,
					"cannot open the directory of %s", path);
	random_name(tmp + 5, 16);
	fd = RETRY_EINTR(openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	if (fd < 0)
		return berth_fail_errno(err, 0, errno, "cannot write %s", path);
	r = write_tmp(fd, data, len, mode, flags);
	if (r == 0)
		r = fd_close_checked(TAKE_FD(fd)); /* NFS and quotas tell late */
	if (r == 0)
		r = publish(dir, tmp, name, flags);
	if (r < 0) {
		unlinkat(dir, tmp, 0);
		return berth_fail_errno(err, r == -EEXIST ? BERTH_E_CONFLICT : 0, r,
					"cannot write %s", path);
	}
	if ((flags & WRITE_FILE_SYNC) && fsync(dir) < 0)
		return berth_fail_errno(err, 0, errno, "cannot sync the directory of %s", path);
	return 0;
}
