/* SPDX-License-Identifier: MIT */
/*
 * Moving recorded output. From file to file in the kernel (copy_file_range, sendfile), from file to
 * pipe by splice (no copy at all: the pages go by reference, and they never change, because a head
 * file only grows), else by large reads. It waits with poll() before each step, so a reader that
 * does not read cannot keep us from hearing cancel_fd.
 */
#include "core/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/nosig.h"

#define STEP_FILE (8u << 20) /* between two looks at cancel_fd */
#define STEP_PIPE (1u << 20) /* splice takes what fits */
#define STEP_READ (256u << 10)

void sink_memory(struct sink *k, void *buf, size_t cap)
{
	*k = (struct sink){.kind = SINK_MEMORY, .fd = -1, .cancel_fd = -1, .buf = buf, .cap = cap};
}

void sink_call(struct sink *k, int (*data)(void *, enum berth_output, const void *, size_t),
	       void *arg, enum berth_output stream)
{
	*k = (struct sink){.kind = SINK_CALL,
			   .fd = -1,
			   .cancel_fd = -1,
			   .data = data,
			   .arg = arg,
			   .stream = stream};
}

void sink_fd(struct sink *k, int fd, int cancel_fd)
{
	struct stat st;

	*k = (struct sink){.kind = SINK_OTHER, .fd = fd, .cancel_fd = cancel_fd};
	if (fstat(fd, &st) < 0)
		return;
	if (S_ISREG(st.st_mode))
		k->kind = SINK_FILE;
	else if (S_ISFIFO(st.st_mode))
		k->kind = SINK_PIPE;
}

static int cancelled(struct berth_error *err)
{
	return berth_fail(err, BERTH_E_TIMEOUT, "the wait was ended");
}

/* Until the fd takes something. */
static int wait_room(struct sink *k, struct berth_error *err)
{
	struct pollfd p[2] = {
		{.fd = k->kind == SINK_FILE ? -1 : k->fd, .events = POLLOUT},
		{.fd = k->cancel_fd, .events = POLLIN},
	};

	if (k->kind == SINK_FILE && k->cancel_fd < 0)
		return 0;
	if (RETRY_EINTR(poll(p, 2, k->kind == SINK_FILE ? 0 : -1)) < 0)
		return berth_fail_errno(err, 0, errno, "poll");
	return p[1].revents ? cancelled(err) : 0;
}

static int write_failed(int errnum, struct berth_error *err)
{
	return berth_fail_errno(err, BERTH_E_IO, errnum, "writing output");
}

/* One write that does not block where that can be had. */
static ssize_t write_once(struct sink *k, const void *p, size_t n)
{
	ssize_t w = -1;

	if (k->kind == SINK_OTHER) {
		w = send(k->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (w < 0 &&
		    errno == ENOTSOCK) /* a terminal, a device: small steps, poll() said yes */
			w = write(k->fd, p, MIN_OF(n, (size_t)4096));
		return w;
	}
	/* After POLLOUT a pipe has room for PIPE_BUF; vmsplice would give away memory that we
	 * reuse. */
	return write(k->fd, p, k->kind == SINK_PIPE ? MIN_OF(n, (size_t)4096) : n);
}

static int write_all(struct sink *k, const uint8_t *p, size_t n, struct berth_error *err)
{
	auto(nosig) struct nosig guard;
	int rc;

	nosig_begin(&guard);
	while (n > 0) {
		ssize_t w;

		rc = wait_room(k, err);
		if (rc < 0)
			return rc;
		w = write_once(k, p, n);
		if (w < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (w < 0)
			return write_failed(errno, err);
		p += w;
		n -= (size_t)w;
		k->moved += (uint64_t)w;
	}
	return 0;
}

int sink_bytes(struct sink *k, const void *p, size_t n, struct berth_error *err)
{
	int rc;

	switch (k->kind) {
	case SINK_MEMORY:
		if (n > k->cap - k->n)
			return berth_fail(err, BERTH_E_INTERNAL, "more output than was asked for");
		memcpy(k->buf + k->n, p, n);
		k->n += n;
		break;
	case SINK_CALL:
		rc = k->data(k->arg, k->stream, p, n);
		if (rc != 0)
			return rc;
		break;
	case SINK_FILE:
	case SINK_PIPE:
	case SINK_OTHER:
		return write_all(k, p, n, err);
	}
	k->moved += n;
	return 0;
}

static int short_file(struct berth_error *err)
{
	return berth_fail(err, BERTH_E_IO, "recorded output is shorter than its record says");
}

/* Through memory. */
static int file_by_reads(struct sink *k, int fd, uint64_t offset, uint64_t n,
			 struct berth_error *err)
{
	size_t cap = (size_t)MIN_OF(n, (uint64_t)STEP_READ);
	auto_free uint8_t *buf = mem_alloc(cap);
	int rc = 0;

	if (!buf)
		return berth_fail_nomem(err);
	while (rc == 0 && n > 0) {
		ssize_t got = RETRY_EINTR(
			pread(fd, buf, (size_t)MIN_OF(n, (uint64_t)cap), (off_t)offset));

		if (got < 0)
			return berth_fail_errno(err, 0, errno, "reading recorded output");
		if (got == 0)
			return short_file(err);
		rc = sink_bytes(k, buf, (size_t)got, err);
		offset += (uint64_t)got;
		n -= (uint64_t)got;
	}
	return rc;
}

static ssize_t move_once(struct sink *k, int fd, off64_t *offset, uint64_t n)
{
	ssize_t w;

	if (k->kind == SINK_PIPE)
		return splice(fd, offset, k->fd, NULL, (size_t)MIN_OF(n, (uint64_t)STEP_PIPE),
			      SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	w = copy_file_range(fd, offset, k->fd, NULL, (size_t)MIN_OF(n, (uint64_t)STEP_FILE), 0);
	if (w < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
		w = sendfile(k->fd, fd, offset, (size_t)MIN_OF(n, (uint64_t)STEP_FILE));
	return w;
}

static bool not_here(int errnum)
{
	return errnum == EINVAL || errnum == ENOSYS || errnum == EOPNOTSUPP || errnum == EBADF ||
	       errnum == EXDEV || errnum == EPERM;
}

static int file_by_moves(struct sink *k, int fd, uint64_t offset, uint64_t n,
			 struct berth_error *err)
{
	off64_t at = (off64_t)offset;
	auto(nosig) struct nosig guard;
	int rc;

	nosig_begin(&guard);
	while (n > 0) {
		ssize_t w;

		rc = wait_room(k, err);
		if (rc < 0)
			return rc;
		w = move_once(k, fd, &at, n);
		if (w < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (w < 0 && not_here(errno)) {
			k->slow = true;
			return file_by_reads(k, fd, (uint64_t)at, n, err);
		}
		if (w < 0)
			return write_failed(errno, err);
		if (w == 0)
			return short_file(err);
		n -= (uint64_t)w;
		k->moved += (uint64_t)w;
	}
	return 0;
}

int sink_file(struct sink *k, int fd, uint64_t offset, uint64_t n, struct berth_error *err)
{
	if (n == 0)
		return 0;
	if (k->slow || k->kind == SINK_MEMORY || k->kind == SINK_CALL || k->kind == SINK_OTHER)
		return file_by_reads(k, fd, offset, n, err);
	return file_by_moves(k, fd, offset, n, err);
}
