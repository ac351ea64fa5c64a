/* SPDX-License-Identifier: MIT */
/*
 * control.c: the supervisor's side of `control`: WATCH CANCEL SIGNAL STDIN STDIN_CLOSE RESIZE,
 * from up to CTL_MAX connections at once.
 *
 * Invariants: nothing here blocks; a peer that breaks the protocol or does not read its one
 * small answer loses its connection and nothing
 * else. Requests are small (CTL_REQUEST); only the DATA of STDIN is longer, and it goes from
 * the socket into the worker's
 * stdin without being kept: what does not fit stays in the socket, which is the sender's
 * backpressure.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/session.h"
#include "agent/super.h"

#define CTL_MAX     1024u
#define CTL_REQUEST 512u
#define FEED_CHUNK  16384u

enum ctl_mode { CTL_FREE, CTL_REQUESTS, CTL_WATCHING, CTL_STDIN };

struct ctl {
	int fd;
	uint8_t mode;
	bool terminal_only;
	bool refused;  /* STDIN: the bytes are dropped, and the answer is an error */
	uint16_t have; /* bytes in buf */
	int64_t known_out, known_err, known_state;
	int64_t due;   /* end of the wait; 0: none */
	uint64_t at;   /* STDIN: position of the next byte */
	uint32_t left; /* STDIN: bytes of the current DATA frame still to come */
	uint8_t buf[CTL_REQUEST + WIRE_FRAME_HEADER];
};

static struct ctl table[CTL_MAX];
static unsigned used;  /* table entries ever used */
static int spare = -1; /* closed to be able to accept and refuse when fds run out */

static void drop(struct ctl *c)
{
	close(c->fd);
	*c = (struct ctl){.mode = CTL_FREE};
}

static void send_frame(struct ctl *c, struct wire_w *w)
{
	ssize_t r;

	wire_w_frame_end(w, 0);
	do
		r = send(c->fd, w->p, w->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	if (!wire_w_ok(w) || r != (ssize_t)w->len)
		drop(c);
}

static void reply_ok(struct ctl *c)
{
	uint8_t b[16];
	struct wire_w w;

	wire_w_init(&w, b, sizeof(b));
	wire_w_frame_begin(&w, WIRE_OK);
	send_frame(c, &w);
}

static void reply_error(struct ctl *c, int code, const char *text)
{
	uint8_t b[256];
	struct wire_w w;

	wire_w_init(&w, b, sizeof(b));
	wire_w_frame_begin(&w, WIRE_ERROR);
	wire_w_int(&w, WK_CODE, code);
	wire_w_str(&w, WK_MESSAGE, text);
	send_frame(c, &w);
}

static void reply_status(struct super *s, struct ctl *c)
{
	uint8_t b[8192];
	struct wire_w w;

	wire_w_init(&w, b, sizeof(b));
	wire_w_frame_begin(&w, WIRE_OK);
	wire_w_str(&w, WK_ID, s->id);
	wire_w_bytes(&w, WK_LIVE, s->head, JOURNAL_FIRST);
	if (s->state_len)
		journal_put_entry(&w, JOURNAL_STATE,
				  (struct wire_slice){s->state_entry, s->state_len});
	if (s->terminal_len)
		journal_put_entry(&w, JOURNAL_TERMINAL,
				  (struct wire_slice){s->terminal_entry, s->terminal_len});
	wire_w_int(&w, WK_HELD, s->state != ST_TERMINAL);
	wire_w_int(&w, WK_SAMEBOOT, 1);
	wire_w_int(&w, WK_SAMEINC, 1);
	c->mode = CTL_REQUESTS;
	c->due = 0;
	send_frame(c, &w);
}

/* ---- watching ---- */

static bool news(const struct super *s, const struct ctl *c)
{
	if (s->state == ST_TERMINAL)
		return true;
	if (c->terminal_only)
		return false;
	return super_wire_state(s) != c->known_state || (int64_t)s->out[0].len != c->known_out ||
	       (int64_t)s->out[1].len != c->known_err;
}

void control_notify(struct super *s)
{
	int64_t now = now_ms();

	for (unsigned i = 0; i < used; i++) {
		struct ctl *c = &table[i];

		if (c->mode == CTL_WATCHING && (news(s, c) || (c->due && now >= c->due)))
			reply_status(s, c);
	}
}

int64_t control_due(const struct super *s)
{
	int64_t due = 0;

	(void)s;
	for (unsigned i = 0; i < used; i++) {
		if (table[i].due && (!due || table[i].due < due))
			due = table[i].due;
	}
	return due;
}

static void watch(struct super *s, struct ctl *c, const uint8_t *p, size_t n)
{
	int64_t wait = wire_find_int(p, n, WK_WAIT_MS, -1);

	c->known_out = wire_find_int(p, n, WK_KNOWN_OUT, -1);
	c->known_err = wire_find_int(p, n, WK_KNOWN_ERR, -1);
	c->known_state = wire_find_int(p, n, WK_KNOWN_STATE, WIRE_S_NONE);
	c->terminal_only = wire_find_int(p, n, WK_TERMINAL_ONLY, 0) == 1;
	c->due = wait < 0 ? 0 : now_ms() + wait;
	c->mode = CTL_WATCHING;
	if (news(s, c) || wait == 0)
		reply_status(s, c);
}

static const char *cause_message(const uint8_t *p, size_t n)
{
	struct wire_slice v;

	if (!wire_find(p, n, WK_CAUSE, &v))
		return NULL;
	return slice_eq(v, "idle")      ? "idle"
	       : slice_eq(v, "expired") ? "expired"
					: "sandbox stopped";
}

static void cancel(struct super *s, struct ctl *c, const uint8_t *p, size_t n)
{
	int64_t wait = wire_find_int(p, n, WK_WAIT_MS, -1);

	super_reap(s); /* an exit that has happened comes first */
	s->ask_grace = wire_find_int(p, n, WK_GRACE_MS, s->l->spec.grace_ms);
	s->ask_message = cause_message(p, n);
	/* Watching first: the end may come at once. */
	c->mode = CTL_WATCHING;
	c->terminal_only = true;
	c->due = wait < 0 ? 0 : now_ms() + wait;
	super_raise(s, EV_CANCEL);
	s->dirty = true;
}

static void send_signal(struct super *s, struct ctl *c, const uint8_t *p, size_t n)
{
	int64_t signo = wire_find_int(p, n, WK_SIGNO, 0);

	if (signo < 1 || signo > 64) {
		reply_error(c, WIRE_E_INVALID, "SIGNAL: no such signal");
		return;
	}
	super_reap(s);
	if (s->state == ST_RUNNING || s->state == ST_STOPPING)
		super_signal(s, (int)signo);
	reply_ok(c);
}

/* ---- stdin ---- */

static void begin_stdin(struct super *s, struct ctl *c, const uint8_t *p, size_t n)
{
	int64_t at = wire_find_int(p, n, WK_OFFSET, 0);

	c->mode = CTL_STDIN;
	c->at = (uint64_t)at;
	c->left = 0;
	c->refused = at < 0 || (uint64_t)at > s->in_taken || !(s->l->spec.stdin_open || s->tty);
}

static void end_stdin(struct super *s, struct ctl *c)
{
	uint8_t b[64];
	struct wire_w w;

	c->mode = CTL_REQUESTS;
	if (c->refused) {
		reply_error(c, WIRE_E_INVALID,
			    "STDIN: this offset is past what was taken, or stdin is not open");
		return;
	}
	wire_w_init(&w, b, sizeof(b));
	wire_w_frame_begin(&w, WIRE_OK);
	wire_w_int(&w, WK_NEXT, (int64_t)s->in_taken);
	send_frame(c, &w);
}

static void close_in(struct super *s)
{
	if (s->in >= 0)
		close(s->in);
	s->in = -1;
	s->in_waits = false;
}

static void close_stdin(struct super *s, struct ctl *c)
{
	if (s->tty && s->in >= 0)
		(void)!write(s->in, "\4", 1); /* EOF, as typed */
	else if (s->l->spec.stdin_open)
		close_in(s);
	reply_ok(c);
}

static void wait_writable(struct super *s)
{
	if (s->in_waits)
		return;
	s->in_waits = true;
	super_watch_fd(s, EPOLL_CTL_ADD, s->in, EPOLLOUT, super_tag(SRC_IN, 0));
}

/* Bytes the worker takes of n at p: those it cannot take any more are gone, and count as taken.
 * -1: it is full. */
static ssize_t give(struct super *s, const uint8_t *p, size_t n)
{
	ssize_t r;

	if (s->in < 0)
		return (ssize_t)n;
	do
		r = write(s->in, p, n);
	while (r < 0 && errno == EINTR);
	if (r >= 0 || errno == EAGAIN)
		return r;
	close_in(s);
	return (ssize_t)n;
}

/* Moves bytes of the current DATA frame. 1: go on; 0: nothing more now; -1: dropped. */
static int move(struct super *s, unsigned index)
{
	static uint8_t piece[FEED_CHUNK];
	struct ctl *c = &table[index];
	size_t want = c->left < FEED_CHUNK ? c->left : FEED_CHUNK;
	ssize_t n = recv(c->fd, piece, want, MSG_PEEK | MSG_DONTWAIT), skip, r;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : (drop(c), -1);
	if (n == 0) {
		drop(c);
		return -1;
	}
	if (c->refused) {
		skip = n;
	} else {
		skip = c->at >= s->in_taken ? 0 : (ssize_t)(s->in_taken - c->at);
		skip = skip < n ? skip : n;
		r = skip < n ? give(s, piece + skip, (size_t)(n - skip)) : 0;
		if (r < 0) {
			/* Level-triggered input would spin while the worker's pipe is full. */
			super_watch_fd(s, EPOLL_CTL_MOD, c->fd, EPOLLRDHUP,
				       super_tag(SRC_CONN, index));
			wait_writable(s);
			if (!skip)
				return 0;
			r = 0;
		}
		s->in_taken += (uint64_t)r;
		skip += r;
	}
	n = recv(c->fd, piece, (size_t)skip, MSG_DONTWAIT);
	if (n != skip) {
		drop(c);
		return -1;
	}
	c->at += (uint64_t)n;
	c->left -= (uint32_t)n;
	return 1;
}

void control_feed(struct super *s)
{
	if (s->in >= 0 && s->in_waits)
		super_watch_fd(s, EPOLL_CTL_DEL, s->in, 0, 0);
	s->in_waits = false;
	for (unsigned i = 0; i < used; i++) {
		if (table[i].mode != CTL_STDIN)
			continue;
		super_watch_fd(s, EPOLL_CTL_MOD, table[i].fd, EPOLLIN | EPOLLRDHUP,
			       super_tag(SRC_CONN, i));
	}
}

/* ---- requests ---- */

static void hello(struct ctl *c)
{
	uint8_t b[256];
	struct wire_w w;

	wire_w_init(&w, b, sizeof(b));
	wire_w_frame_begin(&w, WIRE_HELLO);
	wire_w_int(&w, WK_PROTO, WIRE_PROTO_VERSION);
	wire_w_str(&w, WK_AGENT, agent.hash);
	wire_w_bytes(&w, WK_INCARNATION, agent.incarnation, sizeof(agent.incarnation));
	wire_w_str(&w, WK_MACHINE, agent.machine);
	wire_w_bytes(&w, WK_BOOT, agent.boot, sizeof(agent.boot));
	send_frame(c, &w);
}

static void request(struct super *s, struct ctl *c, uint8_t type, const uint8_t *p, size_t n)
{
	switch (type) {
	case WIRE_HELLO:
		hello(c);
		break;
	case WIRE_WATCH:
		watch(s, c, p, n);
		break;
	case WIRE_CANCEL:
		cancel(s, c, p, n);
		break;
	case WIRE_SIGNAL:
		send_signal(s, c, p, n);
		break;
	case WIRE_STDIN:
		begin_stdin(s, c, p, n);
		break;
	case WIRE_STDIN_CLOSE:
		close_stdin(s, c);
		break;
	case WIRE_RESIZE:
		if (s->tty)
			pty_resize(s->in, wire_find_int(p, n, WK_COLS, 0),
				   wire_find_int(p, n, WK_ROWS, 0));
		reply_ok(c);
		break;
	default:
		reply_error(c, WIRE_E_UNSUPPORTED, "a supervisor does not know that request");
	}
}

/* Reads until buf has n bytes. 1, 0 (not yet), -1 (dropped). */
static int gather(struct ctl *c, size_t n)
{
	while (c->have < n) {
		ssize_t r = recv(c->fd, c->buf + c->have, n - c->have, MSG_DONTWAIT);

		if (r < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (r <= 0) {
			drop(c);
			return -1;
		}
		c->have = (uint16_t)(c->have + r);
	}
	return 1;
}

/* One step. 1: there may be more; 0: wait; -1: gone. */
static int step(struct super *s, unsigned index)
{
	struct ctl *c = &table[index];
	uint8_t type;
	uint32_t len;
	int r;

	if (c->mode == CTL_STDIN && c->left)
		return move(s, index);
	r = gather(c, WIRE_FRAME_HEADER);
	if (r <= 0)
		return r;
	if (wire_frame_header(c->buf, &type, &len) < 0 || c->mode == CTL_WATCHING) {
		drop(c); /* also a second request before the answer of the first */
		return -1;
	}
	if (c->mode == CTL_STDIN && type == WIRE_DATA) {
		c->have = 0;
		c->left = len;
		return 1;
	}
	if (len > CTL_REQUEST || (c->mode == CTL_STDIN && type != WIRE_END)) {
		drop(c);
		return -1;
	}
	r = gather(c, WIRE_FRAME_HEADER + len);
	if (r <= 0)
		return r;
	c->have = 0;
	if (!wire_fields_valid(c->buf + WIRE_FRAME_HEADER, len)) {
		drop(c);
		return -1;
	}
	if (c->mode == CTL_STDIN)
		end_stdin(s, c);
	else
		request(s, c, type, c->buf + WIRE_FRAME_HEADER, len);
	return c->mode == CTL_FREE ? -1 : c->mode != CTL_WATCHING && s->state != ST_TERMINAL;
}

void control_event(struct super *s, unsigned index, uint32_t events)
{
	struct ctl *c = &table[index];

	if (c->mode == CTL_FREE)
		return;
	if (events & EPOLLIN) {
		while (step(s, index) == 1)
			;
	}
	/* Half closed is closed: callers keep their side open while they wait. */
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) && c->mode != CTL_FREE)
		drop(c);
}

void control_poll(struct super *s)
{
	for (unsigned i = 0; i < used; i++)
		control_event(s, i, EPOLLIN);
}

void control_add(struct super *s, int fd)
{
	unsigned i;

	for (i = 0; i < used && table[i].mode != CTL_FREE; i++)
		;
	if (i == CTL_MAX) {
		close(fd);
		return;
	}
	if (i == used)
		used++;
	table[i] = (struct ctl){.fd = fd, .mode = CTL_REQUESTS};
	super_watch_fd(s, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, super_tag(SRC_CONN, i));
}

void control_accept(struct super *s)
{
	int fd;

	if (spare < 0)
		spare = fcntl(s->epfd, F_DUPFD_CLOEXEC, 3);
	while ((fd = accept4(s->l->listenfd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		control_add(s, fd);
	if (errno != EMFILE && errno != ENFILE)
		return;
	close(spare);
	fd = accept4(s->l->listenfd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	spare = fcntl(s->epfd, F_DUPFD_CLOEXEC, 3);
}
