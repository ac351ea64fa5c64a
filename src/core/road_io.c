/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a road: buffered non-blocking writing and reading with deadlines.
 *
 * Invariants: in_pos <= in_len <= in_cap and out_pos <= out_len <= out_cap; the fds are ours and
 * non-blocking; while we write we read, too, so that two full pipes cannot wait for each other. It
 * knows nothing of frames.
 */
#include "core/road_private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/time.h"
#include "core/nosig.h"

int road_in_room(struct road *r, size_t need, struct berth_error *err)
{
	uint8_t *p;
	size_t have = r->in_len - r->in_pos, cap;

	if (r->in_pos && (have == 0 || r->in_cap - r->in_pos < need)) {
		memmove(r->in, r->in + r->in_pos, have);
		r->in_pos = 0;
		r->in_len = have;
	}
	if (r->in_cap - r->in_pos >= need && r->in_cap)
		return 0;
	cap = MAX_OF(need, (size_t)ROAD_IN_FIRST);
	p = mem_realloc(r->in, cap);
	if (!p) {
		r->broken = true;
		return berth_fail_nomem(err);
	}
	r->in = p;
	r->in_cap = cap;
	return 0;
}

int road_out_add(struct road *r, const void *p, size_t n, struct berth_error *err)
{
	size_t cap = r->out_cap;
	uint8_t *q;

	if (r->out_pos && r->out_pos == r->out_len)
		r->out_pos = r->out_len = 0;
	if (r->call && (n > ROAD_CALL_MAX || r->out_len > ROAD_CALL_MAX - n))
		return road_break(
			r, err, BERTH_E_TOO_LARGE,
			"the request is too long for a sandbox that can only run commands "
			"(more than %u MiB)",
			ROAD_CALL_MAX >> 20);
	if (r->out_cap - r->out_len < n) {
		cap = MAX_OF(r->out_len + n, cap + cap / 2);
		cap = MAX_OF(cap, (size_t)4096);
		q = mem_realloc(r->out, cap);
		if (!q) {
			r->broken = true;
			return berth_fail_nomem(err);
		}
		r->out = q;
		r->out_cap = cap;
	}
	if (n)
		memcpy(r->out + r->out_len, p, n);
	r->out_len += n;
	return 0;
}

/* One write of both parts; the number of bytes or -errno. */
static ssize_t write_some(struct road *r, const void *p, size_t n)
{
	struct iovec iov[2] = {{r->out + r->out_pos, r->out_len - r->out_pos}, {(void *)p, n}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t w;

	if (iov[0].iov_len == 0) {
		msg.msg_iov++;
		msg.msg_iovlen--;
	} else if (n == 0) {
		msg.msg_iovlen--;
	}
	if (r->wfd_socket) {
		w = RETRY_EINTR(sendmsg(r->stream.wfd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT));
		if (w >= 0 || errno != ENOTSOCK)
			return w >= 0 ? w : -errno;
		r->wfd_socket = false;
	}
	auto(nosig) struct nosig guard;
	nosig_begin(&guard);
	w = RETRY_EINTR(writev(r->stream.wfd, msg.msg_iov, (int)msg.msg_iovlen));
	return w >= 0 ? w : -errno;
}

/* One read into the buffer: 1 something came or the end, 0 nothing now, or a failure. */
static int read_some(struct road *r, struct berth_error *err)
{
	ssize_t n;
	int rc = road_in_room(r, r->in_len - r->in_pos + 1, err);

	if (rc < 0)
		return rc;
	n = RETRY_EINTR(read(r->stream.rfd, r->in + r->in_len, r->in_cap - r->in_len));
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0 && errno == ECONNRESET)
		n = 0;
	if (n < 0) {
		r->broken = true;
		return berth_fail_errno(err, BERTH_E_IO, errno, "reading from the sandbox");
	}
	if (n == 0)
		r->rfd_eof = true;
	r->in_len += (size_t)n;
	return 1;
}

/* Waits until something can be done. *ret_ready: poll events of wfd << 8 | of rfd. */
static int wait_ready(struct road *r, bool reading, bool writing, int64_t deadline_ns,
		      unsigned *ret_ready, struct berth_error *err)
{
	struct pollfd p[3] = {
		{.fd = reading && !r->rfd_eof ? r->stream.rfd : -1, .events = POLLIN},
		{.fd = writing ? r->stream.wfd : -1, .events = POLLOUT},
		{.fd = r->cancel_fd, .events = POLLIN},
	};
	int n = RETRY_EINTR(poll(p, 3, deadline_poll_ms(deadline_ns)));

	if (n < 0)
		return road_break(r, err, BERTH_E_IO, "poll: %s", berth_errno_text(errno));
	if (n == 0 && deadline_poll_ms(deadline_ns) == 0)
		return road_break(r, err, BERTH_E_TIMEOUT, "no answer from the sandbox in time");
	if (p[2].revents) {
		r->error.cancelled = true;
		return road_break(r, err, BERTH_E_TIMEOUT, "the wait was ended");
	}
	*ret_ready = (unsigned)(p[0].revents & 0xff) | (unsigned)(p[1].revents & 0xff) << 8;
	return 0;
}

/* After a write has found the other end gone: what it said before it went is worth more than EPIPE.
 */
static int peer_gone(struct road *r, int errnum, struct berth_error *err)
{
	int rc;

	while (!r->rfd_eof && (rc = read_some(r, err)) != 0) {
		if (rc < 0)
			return rc;
		if (r->in_len - r->in_pos > ROAD_EARLY_MAX)
			break;
	}
	r->error.sys_errno = errnum;
	return 1;
}

int road_send_all(struct road *r, const void *p, size_t n, int64_t deadline_ns,
		  struct berth_error *err)
{
	unsigned ready;
	int rc;

	while (r->out_pos < r->out_len || n > 0) {
		ssize_t w = write_some(r, p, n);

		if (w > 0) {
			size_t head = MIN_OF((size_t)w, r->out_len - r->out_pos);

			r->error.sent = true;
			r->out_pos += head;
			p = (const uint8_t *)p + ((size_t)w - head);
			n -= (size_t)w - head;
			continue;
		}
		if (w == -EPIPE || w == -ECONNRESET || w == -ENOTCONN)
			return peer_gone(r, (int)-w, err);
		if (w < 0 && w != -EAGAIN) {
			r->broken = true;
			return berth_fail_errno(err, BERTH_E_IO, (int)-w, "writing to the sandbox");
		}
		rc = wait_ready(r, r->in_len - r->in_pos < ROAD_EARLY_MAX, true, deadline_ns,
				&ready, err);
		if (rc < 0)
			return rc;
		if (ready & 0xff) {
			rc = read_some(r, err);
			if (rc < 0)
				return rc;
			if (road_early_error(r))
				return 1;
		}
	}
	r->out_pos = r->out_len = 0;
	return 0;
}

int road_fill(struct road *r, int64_t deadline_ns, struct berth_error *err)
{
	unsigned ready;
	int rc;

	for (;;) {
		if (r->rfd_eof)
			return 0;
		rc = read_some(r, err);
		if (rc != 0)
			return rc < 0 ? rc : 0;
		rc = wait_ready(r, true, false, deadline_ns, &ready, err);
		if (rc < 0)
			return rc;
	}
}

int road_pump(struct road *r, struct berth_error *err)
{
	int rc = 0;

	while (r->out_pos < r->out_len) {
		ssize_t w = write_some(r, NULL, 0);

		if (w == -EAGAIN)
			break;
		if (w == -EPIPE || w == -ECONNRESET || w == -ENOTCONN) {
			r->out_pos = r->out_len; /* the reader finds the end, or the reason */
			break;
		}
		if (w < 0) {
			r->broken = true;
			return berth_fail_errno(err, BERTH_E_IO, (int)-w, "writing to the sandbox");
		}
		r->error.sent = true;
		r->out_pos += (size_t)w;
	}
	if (r->out_pos == r->out_len)
		r->out_pos = r->out_len = 0;
	if (!r->rfd_eof && r->in_len - r->in_pos < ROAD_EARLY_MAX)
		rc = read_some(r, err);
	return rc < 0 ? rc : 0;
}

int road_pass_fd(struct road *r, int fd, struct berth_error *err)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {r->out + r->out_pos, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (RETRY_EINTR(sendmsg(r->stream.wfd, &msg, MSG_NOSIGNAL)) != 1)
		return road_break(r, err, BERTH_E_IO, "passing a socket to the sandbox: %s",
				  berth_errno_text(errno));
	r->error.sent = true;
	r->out_pos++;
	return 0;
}

size_t road_pending(const struct road *r)
{
	return r->out_len - r->out_pos;
}
