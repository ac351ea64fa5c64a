/* SPDX-License-Identifier: MIT */
/*
 * conn.c: frames over one stream socket, and the loop of a connection child with its table of
 * verbs.
 *
 * Invariants: a request gets exactly one final OK or ERROR, sent by its handler or, when the
 * handler forgot, by the loop; after
 * a protocol error nothing more is read. It does not know what a verb means.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/clock.h"
#include "agent/conn.h"

#define READ_AHEAD 65536u
#define KEEP       (2 * READ_AHEAD)

/* ---- receiving ---- */

static void drop_passed(struct conn *c)
{
	if (c->passed >= 0)
		close(c->passed);
	c->passed = -1;
}

int conn_take_fd(struct conn *c)
{
	int fd = c->passed;

	c->passed = -1;
	return fd;
}

static int broken(struct conn *c)
{
	c->broken = true;
	return -1;
}

/* Keeps the one fd that may come with bytes: what an earlier one was for has not asked for it. */
static void keep_passed(struct conn *c, struct msghdr *m)
{
	struct cmsghdr *h = CMSG_FIRSTHDR(m);

	if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
	    h->cmsg_len < CMSG_LEN(sizeof(int)))
		return;
	drop_passed(c);
	memcpy(&c->passed, CMSG_DATA(h), sizeof(int));
}

/* read() that takes an fd along. */
static ssize_t take(struct conn *c, int flags)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec v = {c->in.p + c->in_end, c->in.cap - c->in_end};
	/* Exactly one: the kernel closes what has no room here. */
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t r = recvmsg(c->fd, &m, flags | MSG_CMSG_CLOEXEC);

	if (r >= 0)
		keep_passed(c, &m);
	return r;
}

/* Makes at least n bytes available at in_start. 1, 0 (closed before the first byte), -1. */
static int fill(struct conn *c, size_t n)
{
	size_t have = c->in_end - c->in_start;

	if (have >= n)
		return 1;
	if (c->in_start) {
		memmove(c->in.p, c->in.p + c->in_start, have);
		c->in_start = 0;
		c->in_end = have;
	}
	if (!buf_need(&c->in, n < READ_AHEAD ? READ_AHEAD : n))
		return broken(c);
	while (c->in_end < n) {
		ssize_t r = take(c, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0 && (r < 0 || c->in_end))
			return broken(c);
		if (r == 0)
			return 0;
		c->in_end += (size_t)r;
	}
	return 1;
}

int conn_recv(struct conn *c, uint8_t *type, const uint8_t **p, size_t *n)
{
	uint32_t len;
	int r = c->broken ? -1 : fill(c, WIRE_FRAME_HEADER);

	if (r <= 0)
		return r;
	if (wire_frame_header(c->in.p + c->in_start, type, &len) < 0)
		return broken(c);
	r = fill(c, WIRE_FRAME_HEADER + (size_t)len);
	if (r <= 0)
		return broken(c);
	*p = c->in.p + c->in_start + WIRE_FRAME_HEADER;
	*n = len;
	c->in_start += WIRE_FRAME_HEADER + (size_t)len;
	if (*type != WIRE_DATA && *type != WIRE_DATA2 && !wire_fields_valid(*p, *n))
		return broken(c);
	return 1;
}

int conn_try(struct conn *c, uint8_t *type, const uint8_t **p, size_t *n)
{
	size_t have = c->in_end - c->in_start, want = WIRE_FRAME_HEADER;
	uint32_t len;
	ssize_t r;

	if (have >= want) {
		if (wire_frame_header(c->in.p + c->in_start, type, &len) < 0)
			return broken(c);
		want += len;
	}
	if (have >= want)
		return conn_recv(c, type, p, n);
	if (c->in_start) {
		memmove(c->in.p, c->in.p + c->in_start, have);
		c->in_start = 0;
		c->in_end = have;
	}
	if (!buf_need(&c->in, want < READ_AHEAD ? READ_AHEAD : want))
		return broken(c);
	r = take(c, MSG_DONTWAIT);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return 2;
	if (r <= 0)
		return r == 0 && !have ? 0 : broken(c);
	c->in_end += (size_t)r;
	return conn_try(c, type, p, n);
}

int conn_recv_data(struct conn *c, const uint8_t **p, size_t *n)
{
	uint8_t type;
	int r = conn_recv(c, &type, p, n);

	if (r <= 0)
		return broken(c);
	if (type == WIRE_DATA)
		return 1;
	return type == WIRE_END ? 2 : broken(c);
}

int conn_skip_data(struct conn *c)
{
	const uint8_t *p;
	size_t n;
	int r;

	do
		r = conn_recv_data(c, &p, &n);
	while (r == 1);
	return r == 2 ? 0 : -1;
}

bool conn_gone(struct conn *c)
{
	struct pollfd p = {c->fd, POLLRDHUP, 0};

	return c->broken || (poll(&p, 1, 0) > 0 && p.revents);
}

/* ---- sending ---- */

static int send_iov(struct conn *c, struct iovec *v, int n)
{
	while (n && !c->broken) {
		ssize_t r = writev(c->fd, v, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return broken(c);
		for (; n && (size_t)r >= v->iov_len; v++, n--)
			r -= (ssize_t)v->iov_len;
		if (n) {
			v->iov_base = (char *)v->iov_base + r;
			v->iov_len -= (size_t)r;
		}
	}
	return c->broken ? -1 : 0;
}

static void header(uint8_t h[WIRE_FRAME_HEADER], uint8_t type, size_t n)
{
	memset(h, 0, WIRE_FRAME_HEADER);
	wire_put_u32(h, (uint32_t)n);
	h[4] = type;
}

int conn_send(struct conn *c, uint8_t type, const void *p, size_t n)
{
	uint8_t h[WIRE_FRAME_HEADER];
	struct iovec v[2] = {{h, sizeof(h)}, {(void *)(uintptr_t)p, n}};

	header(h, type, n);
	if (type == WIRE_OK || type == WIRE_ERROR)
		c->replied = true;
	return send_iov(c, v, n ? 2 : 1);
}

int conn_data(struct conn *c, uint8_t type, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n) {
		size_t k = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;

		if (conn_send(c, type, b, k) < 0)
			return -1;
		b += k;
		n -= k;
	}
	return 0;
}

static int send_file(struct conn *c, int fd, uint64_t off, size_t n)
{
	off_t at = (off_t)off;

	while (n) {
		ssize_t r = sendfile(c->fd, fd, &at, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return broken(c);
		n -= (size_t)r;
	}
	return 0;
}

int conn_data_file(struct conn *c, uint8_t type, int fd, uint64_t off, uint64_t n)
{
	while (n) {
		size_t k = n < WIRE_DATA_MAX ? (size_t)n : WIRE_DATA_MAX;
		uint8_t h[WIRE_FRAME_HEADER];

		header(h, type, k);
		if (send(c->fd, h, sizeof(h), MSG_MORE | MSG_NOSIGNAL) != (ssize_t)sizeof(h))
			return broken(c);
		if (send_file(c, fd, off, k) < 0)
			return -1;
		off += k;
		n -= k;
	}
	return 0;
}

struct wire_w *conn_begin_sized(struct conn *c, uint8_t type, size_t room)
{
	if (!buf_need(&c->out, room + WIRE_FRAME_HEADER))
		c->broken = true; /* conn_end says so */
	wire_w_init(&c->w, c->out.p, c->out.cap);
	wire_w_frame_begin(&c->w, type);
	return &c->w;
}

struct wire_w *conn_begin(struct conn *c, uint8_t type)
{
	return conn_begin_sized(c, type, 65536);
}

int conn_end(struct conn *c)
{
	struct iovec v;

	if (c->broken || !wire_w_ok(&c->w))
		return broken(c);
	wire_w_frame_end(&c->w, 0);
	if (c->out.p[4] == WIRE_OK || c->out.p[4] == WIRE_ERROR)
		c->replied = true;
	v = (struct iovec){c->out.p, c->w.len};
	return send_iov(c, &v, 1);
}

int conn_ok(struct conn *c)
{
	return conn_send(c, WIRE_OK, NULL, 0);
}

int conn_fail(struct conn *c, const struct agent_fail *f)
{
	struct wire_w *w = conn_begin(c, WIRE_ERROR);

	wire_w_int(w, WK_CODE, f->code ? f->code : WIRE_E_INTERNAL);
	wire_w_str(w, WK_MESSAGE, f->message);
	wire_w_str(w, WK_STAGE, f->stage);
	if (f->err)
		wire_w_int(w, WK_ERRNO, f->err);
	return conn_end(c);
}

int conn_error(struct conn *c, int code, const char *stage, int err, const char *text, ...)
{
	struct agent_fail f = {.code = code, .err = err, .stage = stage};
	va_list args;

	va_start(args, text);
	fail_va(&f, text, &args);
	va_end(args);
	return conn_fail(c, &f);
}

void conn_trim(struct conn *c)
{
	if (c->in_start == c->in_end)
		c->in_start = c->in_end = 0;
	if (c->in.cap > KEEP && c->in_end <= KEEP)
		buf_trim(&c->in, KEEP);
	if (c->out.cap > KEEP)
		buf_trim(&c->out, KEEP);
}

/* ---- the loop ---- */

/* What a request must have before its handler sees it. */
enum need { NEED_NOTHING = 0, NEED_ID = 1 };

struct verb {
	const char *name;
	verb_fn *handler;
	enum need need;
	bool data; /* DATA… END follow the request: skipped when it is refused here */
};

static const struct verb verbs[] = {
	[WIRE_LAUNCH] = {"LAUNCH", verb_launch, NEED_NOTHING, false},
	[WIRE_STATUS] = {"STATUS", verb_status, NEED_ID, false},
	[WIRE_LIST] = {"LIST", verb_list, NEED_NOTHING, false},
	[WIRE_READ] = {"READ", verb_read, NEED_ID, false},
	[WIRE_WATCH] = {"WATCH", verb_watch, NEED_ID, false},
	[WIRE_CANCEL] = {"CANCEL", verb_cancel, NEED_ID, false},
	[WIRE_SIGNAL] = {"SIGNAL", verb_signal, NEED_ID, false},
	[WIRE_STDIN] = {"STDIN", verb_stdin, NEED_ID, true},
	[WIRE_STDIN_CLOSE] = {"STDIN_CLOSE", verb_stdin_close, NEED_ID, false},
	[WIRE_RESIZE] = {"RESIZE", verb_resize, NEED_ID, false},
	[WIRE_EXEC] = {"EXEC", verb_exec, NEED_NOTHING, false},
	[WIRE_PUT] = {"PUT", verb_put, NEED_NOTHING, false},
	[WIRE_GET] = {"GET", verb_get, NEED_NOTHING, false},
	[WIRE_STAT] = {"STAT", verb_stat, NEED_NOTHING, false},
	[WIRE_LS] = {"LS", verb_ls, NEED_NOTHING, false},
	[WIRE_MKDIR] = {"MKDIR", verb_mkdir, NEED_NOTHING, false},
	[WIRE_SYMLINK] = {"SYMLINK", verb_symlink, NEED_NOTHING, false},
	[WIRE_REMOVE] = {"REMOVE", verb_remove, NEED_NOTHING, false},
	[WIRE_CONNECT] = {"CONNECT", verb_connect, NEED_NOTHING, false},
	[WIRE_HAVE] = {"HAVE", verb_have, NEED_NOTHING, false},
	[WIRE_UNPACK] = {"UNPACK", verb_unpack, NEED_NOTHING, false},
	[WIRE_INSTALL] = {"INSTALL", verb_install, NEED_NOTHING, false},
	[WIRE_PRUNE] = {"PRUNE", verb_prune, NEED_NOTHING, false},
	[WIRE_FORGET] = {"FORGET", verb_forget, NEED_ID, false},
	[WIRE_INFO] = {"INFO", verb_info, NEED_NOTHING, false},
	[WIRE_PUBLISH] = {"PUBLISH", verb_publish, NEED_NOTHING, false},
	[WIRE_STOP] = {"STOP", verb_stop, NEED_NOTHING, false},
};

static int refuse(struct conn *c, const struct verb *v, int code, const char *why)
{
	if (v && v->data && conn_skip_data(c) < 0)
		return -1;
	return conn_error(c, code, NULL, 0, "%s%s%s", v ? v->name : "", v ? ": " : "", why);
}

static int dispatch(struct conn *c, uint8_t type, const uint8_t *p, size_t n)
{
	const struct verb *v = type < ARRAY_LEN(verbs) && verbs[type].name ? &verbs[type] : NULL;
	struct wire_slice id;
	int r;

	c->replied = false;
	if (!v)
		return refuse(c, NULL, WIRE_E_UNSUPPORTED, "this agent does not know that request");
	if (!v->handler)
		return refuse(c, v, WIRE_E_UNSUPPORTED, "not built into this agent");
	if (v->need == NEED_ID && (!wire_find(p, n, WK_ID, &id) || !spec_id_valid(id.p, id.n)))
		return refuse(c, v, WIRE_E_INVALID, "no valid id");
	clock_busy(true);
	r = v->handler(c, p, n);
	clock_busy(false);
	if (r == 0 && !c->replied && !c->broken)
		return conn_error(c, WIRE_E_INTERNAL, NULL, 0, "%s: no answer was made", v->name);
	return c->broken ? -1 : r;
}

/* What a caller of EXEC had under way when the command ended: no request, no answer. */
static bool stray(uint8_t type, const uint8_t *p, size_t n)
{
	struct wire_slice id;

	if (type == WIRE_DATA)
		return true;
	return (type == WIRE_STDIN_CLOSE || type == WIRE_SIGNAL || type == WIRE_RESIZE) &&
	       !wire_find(p, n, WK_ID, &id);
}

static int hello(struct conn *c, const uint8_t *p, size_t n)
{
	struct wire_w *w;

	if (wire_find_int(p, n, WK_PROTO, 0) < 1) {
		conn_error(c, WIRE_E_UNSUPPORTED, NULL, 0, "no protocol version in common");
		return -1;
	}
	w = conn_begin(c, WIRE_HELLO);
	wire_w_int(w, WK_PROTO, WIRE_PROTO_VERSION);
	wire_w_str(w, WK_AGENT, agent.hash);
	wire_w_bytes(w, WK_INCARNATION, agent.incarnation, sizeof(agent.incarnation));
	wire_w_str(w, WK_MACHINE, agent.machine);
	wire_w_bytes(w, WK_BOOT, agent.boot, sizeof(agent.boot));
	return conn_end(c);
}

void conn_serve(int fd)
{
	static struct conn c = {.passed = -1};
	const uint8_t *p;
	uint8_t type;
	size_t n;

	c.fd = fd;
	if (conn_recv(&c, &type, &p, &n) != 1)
		return;
	if (type != WIRE_HELLO) {
		conn_error(&c, WIRE_E_PROTOCOL, NULL, 0, "a stream begins with HELLO");
		return;
	}
	if (hello(&c, p, n) < 0)
		return;
	for (bool after_exec = false; conn_recv(&c, &type, &p, &n) == 1;) {
		if (after_exec && stray(type, p, n))
			continue;
		after_exec = type == WIRE_EXEC;
		if (dispatch(&c, type, p, n) < 0)
			return;
		/* It came for a request that is done; one that is here already may be meant. */
		if (c.in_start == c.in_end)
			drop_passed(&c);
		conn_trim(&c);
		conn_reap();
	}
}
