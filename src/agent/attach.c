/* SPDX-License-Identifier: MIT */
/*
 * attach.c: WATCH CANCEL SIGNAL STDIN STDIN_CLOSE RESIZE for callers that come over init's
 * socket: passed on to the supervisor, and
 * its answer back. When there is no supervisor the record answers.
 *
 * Invariant: a supervisor that hangs up has ended or is ending; its lock is asked, never a
 * timeout. (The kernel may close the socket of a
 * killed process a moment before its lock falls: that moment is waited out.)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/attach.h"
#include "agent/record.h"

#define SETTLE_TRIES 200 /* of 1 ms: how long a killed supervisor may take to let go of its lock */

int attach_open(int dirfd)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r, err;

	if (fd < 0)
		return -1;
	/* An id of 128 bytes does not fit sun_path with its folder: through the fd. */
	fmt(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/control", dirfd);
	do
		r = connect(fd, (struct sockaddr *)&a, sizeof(a));
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

int attach_send(int fd, uint8_t type, const void *p, size_t n)
{
	uint8_t h[WIRE_FRAME_HEADER] = {0};

	wire_put_u32(h, (uint32_t)n);
	h[4] = type;
	if (write_all(fd, h, sizeof(h)) < 0)
		return -1;
	return n ? write_all(fd, p, n) : 0;
}

/* 1: fd has something; 0: the caller has hung up. */
static int wait_either(struct conn *c, int fd)
{
	struct pollfd p[2] = {{fd, POLLIN, 0}, {c->fd, POLLRDHUP, 0}};

	for (;;) {
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents)
			return 1;
		if (p[1].revents)
			return 0;
	}
}

int attach_relay(struct conn *c, int fd)
{
	uint8_t h[WIRE_FRAME_HEADER], type;
	uint32_t len;

	if (!wait_either(c, fd)) {
		c->broken = true;
		return -1;
	}
	if (read_full(fd, h, sizeof(h)) != (ssize_t)sizeof(h) ||
	    wire_frame_header(h, &type, &len) < 0 || !buf_need(&c->out, len) ||
	    read_full(fd, c->out.p, len) != (ssize_t)len)
		return 0;
	return conn_send(c, type, c->out.p, len) < 0 ? -1 : 1;
}

int attach_settled(struct conn *c, int64_t kind, struct wire_slice id, unsigned what)
{
	struct agent_fail f;
	struct record r;
	int ret;

	for (int i = 0;; i++) {
		struct timespec ms = {0, 1000000};

		if (record_load(kind, id, &r, &f) < 0)
			return conn_fail(c, &f);
		if (r.j.terminal.p || !r.held || i == SETTLE_TRIES)
			break;
		record_unload(&r);
		nanosleep(&ms, NULL);
	}
	if (r.held && !r.j.terminal.p)
		ret = conn_error(c, WIRE_E_UNAVAILABLE, NULL, 0, "the supervisor does not answer");
	else
		ret = record_reply(c, WIRE_OK, id, &r, what);
	record_unload(&r);
	return ret;
}

int attach_request(struct conn *c, uint8_t type, const uint8_t *p, size_t n, bool status)
{
	int64_t kind = wire_find_int(p, n, WK_KIND, WIRE_KIND_EXECUTION);
	struct wire_slice id;
	int dirfd, fd, r = 0;

	wire_find(p, n, WK_ID, &id);
	dirfd = record_open(kind, id);
	if (dirfd < 0)
		return conn_error(c, errno == ENOENT ? WIRE_E_NOT_FOUND : WIRE_E_IO, NULL, 0,
				  "no %s \"%.*s\"",
				  kind == WIRE_KIND_SESSION ? "session" : "execution", (int)id.n,
				  id.p);
	fd = attach_open(dirfd);
	close(dirfd);
	if (fd >= 0) {
		if (attach_send(fd, type, p, n) == 0)
			r = attach_relay(c, fd);
		close(fd);
	}
	if (r < 0)
		return -1;
	if (r > 0)
		return 0;
	if (status)
		return attach_settled(c, kind, id, 0);
	return conn_error(c, WIRE_E_CONFLICT, NULL, 0, "\"%.*s\" has ended", (int)id.n, id.p);
}

int verb_watch(struct conn *c, const uint8_t *p, size_t n)
{
	return attach_request(c, WIRE_WATCH, p, n, true);
}

int verb_cancel(struct conn *c, const uint8_t *p, size_t n)
{
	return attach_request(c, WIRE_CANCEL, p, n, true);
}

int verb_signal(struct conn *c, const uint8_t *p, size_t n)
{
	return attach_request(c, WIRE_SIGNAL, p, n, false);
}

int verb_stdin_close(struct conn *c, const uint8_t *p, size_t n)
{
	return attach_request(c, WIRE_STDIN_CLOSE, p, n, false);
}

int verb_resize(struct conn *c, const uint8_t *p, size_t n)
{
	return attach_request(c, WIRE_RESIZE, p, n, false);
}

int verb_stdin(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t kind = wire_find_int(p, n, WK_KIND, WIRE_KIND_EXECUTION);
	uint8_t id[SPEC_ID_MAX];
	struct wire_slice s;
	int dirfd, fd = -1, r;
	bool ok;

	wire_find(p, n, WK_ID, &s);
	memcpy(id, s.p, s.n);
	s.p = id;
	dirfd = record_open(kind, s);
	if (dirfd >= 0) {
		fd = attach_open(dirfd);
		close(dirfd);
	}
	ok = fd >= 0 && attach_send(fd, WIRE_STDIN, p, n) == 0;
	while ((r = conn_recv_data(c, &p, &n)) == 1)
		ok = ok && attach_send(fd, WIRE_DATA, p, n) == 0;
	if (r == 2) {
		ok = ok && attach_send(fd, WIRE_END, NULL, 0) == 0;
		r = ok ? attach_relay(c, fd) : 0;
	}
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return -1;
	if (r > 0)
		return 0;
	return conn_error(c, dirfd < 0 ? WIRE_E_NOT_FOUND : WIRE_E_CONFLICT, NULL, 0, "\"%.*s\" %s",
			  (int)s.n, s.p, dirfd < 0 ? "does not exist" : "has ended");
}
