/* SPDX-License-Identifier: MIT */
/*
 * relay.c: bytes from one place to another: the commands `connect` and `call`, and the verb
 * CONNECT.
 *
 * One process per direction, blocking: neither direction can hold up the other, and the caller's
 * descriptions keep their flags (O_NONBLOCK on somebody's terminal is bad manners). Bytes are read
 * and written, never spliced: a splice that waits for a socket holds the lock of the pipe, and the
 * caller at its other end then hangs in a read or write that it asked not to wait. Invariants:
 * every byte that arrived is passed on before an end is; no process of a relay outlives the relay.
 *
 * Not here: what the frames say, but for their headers (`call` must know which one is the last).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/afs.h"

#define RELAY_BUF  (256u * 1024u)
#define CONNECT_MS 10000

static uint8_t relay_buf[RELAY_BUF];

/* ---- pumping ---- */

/* Takes what there is from one fd to the other: bytes moved, 0 at the end, -1. */
static ssize_t pump_some(int from, int to)
{
	ssize_t n = RETRY_EINTR(read(from, relay_buf, sizeof(relay_buf)));

	if (n > 0 && write_all(to, relay_buf, (size_t)n) < 0)
		return -1;
	return n;
}

/* Until the end of from. 0, or -1 when to takes no more (or from is broken). */
static int pump(int from, int to)
{
	ssize_t n;

	do
		n = pump_some(from, to);
	while (n > 0);
	return n < 0 ? -1 : 0;
}

/* The same, ending too when nobody reads to any more. 0: end of from. */
static int pump_watched(int from, int to)
{
	for (;;) {
		struct pollfd p[2] = {{from, POLLIN, 0}, {to, 0, 0}};
		ssize_t n;

		if (RETRY_EINTR(poll(p, 2, -1)) < 0 || p[1].revents)
			return -1;
		if (!p[0].revents)
			continue;
		n = pump_some(from, to);
		if (n <= 0)
			return (int)n;
	}
}

/* A child that ends with its parent. */
static pid_t fork_tied(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	RETRY_EINTR(waitpid(pid, NULL, 0));
}

/* ---- to init ---- */

static void say(const char *a, const char *b, const char *c)
{
	char line[AGENT_PATH_MAX + 256];

	if (join3(line, sizeof(line) - 2, a, b, c)) {
		size_t n = strlen(line);

		line[n++] = '\n';
		write_all(2, line, n);
	}
}

static int connect_socket(int dirfd)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), e;

	fmt(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/init.sock", dirfd);
	if (s < 0 || RETRY_EINTR(connect(s, (struct sockaddr *)&a, sizeof(a))) == 0)
		return s;
	if (errno == ENOENT && faccessat(AT_FDCWD, "/proc/self", F_OK, 0) < 0 &&
	    fchdir(dirfd) == 0) {
		memcpy(a.sun_path, "init.sock", 10); /* no /proc here */
		if (RETRY_EINTR(connect(s, (struct sockaddr *)&a, sizeof(a))) == 0)
			return s;
	}
	e = errno;
	close(s);
	errno = e;
	return -1;
}

/* A connection to the init of dir, which is started when it may be. -1 after a message. */
static int reach_init(const char *dir, bool start)
{
	struct agent_fail f = {0};
	int dirfd, s = -1;

	/* Three times: an init that ends just now has let us in or started another. */
	for (int i = 0; i < 3; i++) {
		dirfd = openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dirfd >= 0) {
			s = connect_socket(dirfd);
			close(dirfd);
		}
		if (s >= 0)
			return s;
		if (!start) {
			say("berth-agent: no init runs in ", dir, "");
			return -1;
		}
		if (init_start(dir, &f) < 0) {
			say("berth-agent: ", f.message, "");
			return -1;
		}
	}
	say("berth-agent: the init of ", dir, " does not answer");
	return -1;
}

/* ---- connect ---- */

struct relay_args {
	bool start, text;
	const char *dir;
	char **rest;
};

static bool parse(int argc, char **argv, bool call, struct relay_args *ret)
{
	int i;

	*ret = (struct relay_args){0};
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--start") == 0)
			ret->start = true;
		else if (call && strcmp(argv[i], "--text") == 0)
			ret->text = true;
		else
			return false;
	}
	if (i >= argc || (!call && i + 1 != argc))
		return false;
	ret->dir = argv[i];
	ret->rest = argv + i + 1;
	signal(SIGPIPE, SIG_IGN);
	return true;
}

int connect_main(int argc, char **argv)
{
	struct relay_args a;
	pid_t pid;
	int s, r;

	if (!parse(argc, argv, false, &a)) {
		say("usage: berth-agent connect [--start] DIR", "", "");
		return 2;
	}
	s = reach_init(a.dir, a.start);
	if (s < 0)
		return 1;
	pid = fork_tied();
	if (pid == 0) {
		pump(0, s);
		shutdown(s, SHUT_WR);
		_exit(0);
	}
	if (pid < 0) {
		say("berth-agent: ", err_text(errno), "");
		return 1;
	}
	r = pump_watched(s, 1);
	end_child(pid);
	return r < 0;
}

/* ---- call: base64 ---- */

static int digit_value(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
				      : -1;
}

/* The arguments, joined, decoded into memory of our own. False when they are no base64. */
static bool decode_args(char **args, struct buf *b, size_t *ret_n)
{
	uint32_t acc = 0;
	unsigned bits = 0;
	size_t n = 0, room = 0;

	for (char **a = args; *a; a++)
		room += strlen(*a);
	if (!buf_need(b, room + 1))
		return false;
	for (; *args; args++) {
		for (const char *p = *args; *p; p++) {
			int v = digit_value(*p);

			if (*p == '=' || *p == '\n' || *p == '\r' || *p == ' ')
				continue;
			if (v < 0)
				return false;
			acc = acc << 6 | (uint32_t)v;
			bits += 6;
			if (bits >= 8) {
				bits -= 8;
				b->p[n++] = (uint8_t)(acc >> bits);
			}
		}
	}
	*ret_n = n;
	return true;
}

/* Where answers go: as they are, or as one line of base64. */
struct answer {
	bool text;
	uint8_t carry[3];
	size_t n_carry;
};

static void encode3(const uint8_t in[3], size_t n, char out[4])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t v =
		(uint32_t)in[0] << 16 | (n > 1 ? (uint32_t)in[1] << 8 : 0) | (n > 2 ? in[2] : 0u);

	out[0] = digits[v >> 18];
	out[1] = digits[v >> 12 & 63];
	out[2] = n > 1 ? digits[v >> 6 & 63] : '=';
	out[3] = n > 2 ? digits[v & 63] : '=';
}

static int answer_write(struct answer *a, const uint8_t *p, size_t n)
{
	char out[4096];
	size_t len = 0;

	if (!a->text)
		return write_all(1, p, n);
	for (size_t i = 0; i < n; i++) {
		a->carry[a->n_carry++] = p[i];
		if (a->n_carry < 3)
			continue;
		encode3(a->carry, 3, out + len);
		a->n_carry = 0;
		len += 4;
		if (len == sizeof(out)) {
			if (write_all(1, out, len) < 0)
				return -1;
			len = 0;
		}
	}
	return write_all(1, out, len);
}

static int answer_end(struct answer *a)
{
	char out[5];
	size_t n = 0;

	if (!a->text)
		return 0;
	if (a->n_carry) {
		encode3(a->carry, a->n_carry, out);
		n = 4;
	}
	out[n++] = '\n';
	return write_all(1, out, n);
}

/* ---- call: sending ---- */

/* Follows frames in passing. */
struct frames {
	uint8_t head[WIRE_FRAME_HEADER];
	size_t have;           /* of the header */
	uint32_t left;         /* of the payload */
	uint8_t last, request; /* type of the last frame; of the first from 0x20 up */
	bool any, bad;
};

/* Bytes of p that end the first frame that ends in it (or n). *ret_end: a frame ends there. */
static size_t frames_feed(struct frames *f, const uint8_t *p, size_t n, bool *ret_end)
{
	size_t i = 0, part;

	*ret_end = false;
	part = WIRE_FRAME_HEADER - f->have;
	if (part) {
		if (part > n)
			part = n;
		memcpy(f->head + f->have, p, part);
		f->have += part;
		i = part;
		if (f->have < WIRE_FRAME_HEADER)
			return i;
		f->bad = f->bad || wire_frame_header(f->head, &f->last, &f->left) < 0;
		f->any = true;
		if (!f->request && f->last >= 0x20)
			f->request = f->last;
	}
	part = n - i < f->left ? n - i : f->left;
	i += part;
	f->left -= (uint32_t)part;
	if (f->left == 0) {
		f->have = 0;
		*ret_end = true;
	}
	return i;
}

static void frames_pass(struct frames *f, const uint8_t *p, size_t n)
{
	bool end;

	while (n && !f->bad) {
		size_t k = frames_feed(f, p, n, &end);

		p += k;
		n -= k;
	}
}

/*
 * Does the agent wait for more than was given? Then it must be told that nothing comes. Otherwise
 * the stream stays open: an agent whose caller has closed ends what it does for it.
 */
static bool must_shut_down(const struct frames *f)
{
	if (f->bad || f->have || !f->request)
		return true;
	return f->request == WIRE_UNPACK || f->request == WIRE_PUT || f->request == WIRE_STDIN ||
	       (f->request == WIRE_LAUNCH && f->last == WIRE_DATA);
}

static void send_hello(int s)
{
	uint8_t frame[64];
	struct wire_w w;
	size_t at;

	wire_w_init(&w, frame, sizeof(frame));
	at = wire_w_frame_begin(&w, WIRE_HELLO);
	wire_w_int(&w, WK_PROTO, WIRE_PROTO_VERSION);
	wire_w_frame_end(&w, at);
	write_all(s, frame, w.len);
}

static int send_part(int s, struct frames *f, const uint8_t *p, size_t n)
{
	/* HELLO may be left out: the first frame tells. Byte 4 of a header is the type. */
	if (!f->any && f->have <= 4 && f->have + n > 4 && p[4 - f->have] != WIRE_HELLO)
		send_hello(s);
	frames_pass(f, p, n);
	return write_all(s, p, n);
}

/* The child: the caller's frames to the agent. */
static void send_frames(int s, const struct buf *args, size_t n)
{
	struct frames f = {0};
	ssize_t k;

	if (args->p) {
		send_part(s, &f, args->p, n);
	} else {
		/* The first bytes together, so that the first frame's type is in them. */
		k = read_full(0, relay_buf, WIRE_FRAME_HEADER);
		while (k > 0 && send_part(s, &f, relay_buf, (size_t)k) == 0)
			k = RETRY_EINTR(read(0, relay_buf, sizeof(relay_buf)));
	}
	if (must_shut_down(&f))
		shutdown(s, SHUT_WR);
	_exit(0);
}

/* ---- call: receiving ---- */

/* Passes frames on until the final one. 0, or -1 when the stream ended before. */
static int receive_frames(int s, struct answer *a)
{
	struct frames f = {0};

	for (;;) {
		struct pollfd p[2] = {{s, POLLIN, 0}, {1, 0, 0}};
		size_t at = 0;
		ssize_t n;

		if (RETRY_EINTR(poll(p, 2, -1)) < 0 || p[1].revents)
			return -1;
		if (!p[0].revents)
			continue;
		n = RETRY_EINTR(read(s, relay_buf, sizeof(relay_buf)));
		if (n <= 0)
			return -1;
		while (at < (size_t)n && !f.bad) {
			bool end;
			size_t k = frames_feed(&f, relay_buf + at, (size_t)n - at, &end);

			if (answer_write(a, relay_buf + at, k) < 0)
				return -1;
			at += k;
			if (end && (f.last == WIRE_OK || f.last == WIRE_ERROR))
				return 0;
		}
		if (f.bad)
			return -1;
	}
}

int call_main(int argc, char **argv)
{
	struct buf args = {0};
	struct answer answer = {0};
	struct relay_args a;
	size_t n = 0;
	pid_t pid;
	int s, r;

	if (!parse(argc, argv, true, &a)) {
		say("usage: berth-agent call [--start] [--text] DIR [BASE64...]", "", "");
		return 2;
	}
	if (a.rest[0] && !decode_args(a.rest, &args, &n)) {
		say("berth-agent: the arguments are no base64", "", "");
		return 2;
	}
	s = reach_init(a.dir, a.start);
	if (s < 0)
		return 1;
	pid = fork_tied();
	if (pid == 0)
		send_frames(s, &args, n);
	if (pid < 0) {
		say("berth-agent: ", err_text(errno), "");
		return 1;
	}
	answer.text = a.text;
	r = receive_frames(s, &answer);
	end_child(pid);
	if (answer_end(&answer) < 0)
		r = -1;
	return r < 0;
}

/* ---- CONNECT ---- */

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A numeric address; names are for callers that have a resolver. */
static socklen_t address_of(const char *host, uint16_t port, union address *a)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, host, &a->in.sin_addr) == 1) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		return sizeof(a->in);
	}
	if (inet_pton(AF_INET6, host, &a->in6.sin6_addr) == 1) {
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_port = htons(port);
		return sizeof(a->in6);
	}
	return 0;
}

/* A connected socket (blocking), or -1 and errno; ends when the caller has gone. */
static int connect_to(struct conn *c, const char *host, uint16_t port)
{
	union address a;
	socklen_t len = address_of(host, port, &a), size = sizeof(int);
	int64_t end = now_ms() + CONNECT_MS;
	int s, e = 0, one = 1;

	s = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s < 0)
		return -1;
	e = connect(s, &a.sa, len) < 0 ? errno : 0;
	if (e == EINPROGRESS) {
		/* A half-closed caller is fine: it has sent all that it will. */
		struct pollfd p[2] = {{s, POLLOUT, 0}, {c->fd, 0, 0}};
		int64_t left = end - now_ms();
		int r = RETRY_EINTR(poll(p, 2, left > 0 ? (int)left : 0));

		e = r == 0 ? ETIMEDOUT : p[1].revents ? ECONNABORTED : 0;
		if (e == 0 && getsockopt(s, SOL_SOCKET, SO_ERROR, &e, &size) < 0)
			e = errno;
	}
	if (e == 0 && fcntl(s, F_SETFL, 0) == 0) {
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		return s;
	}
	close(s);
	errno = e;
	return -1;
}

/* Both directions until both have ended, or one has broken. */
static void relay_both(struct conn *c, int s)
{
	bool ok = write_all(s, c->in.p + c->in_start, c->in_end - c->in_start) == 0;
	pid_t pid;

	c->in_start = c->in_end = 0;
	pid = ok ? fork_tied() : -1;
	if (pid == 0) {
		int r = pump(c->fd, s);

		shutdown(s, r < 0 ? SHUT_RDWR : SHUT_WR);
		_exit(r < 0);
	}
	if (pid < 0)
		return;
	/* Watched, because a server that never closes must not keep this for a caller that has
	 * gone. */
	if (pump_watched(s, c->fd) < 0) {
		end_child(pid);
		return;
	}
	shutdown(c->fd, SHUT_WR);
	RETRY_EINTR(waitpid(pid, NULL, 0));
}

int verb_connect(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t port = wire_find_int(p, n, WK_PORT, 0);
	struct wire_slice h = {0};
	char host[64] = "127.0.0.1";
	union address a;
	int s;

	if (port < 1 || port > 65535)
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "PORT must be 1 to 65535");
	if (wire_find(p, n, WK_HOST, &h) && !slice_str(h, host, sizeof(host)))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "HOST must be an address");
	if (strcmp(host, "localhost") == 0)
		memcpy(host, "127.0.0.1", 10);
	if (!address_of(host, (uint16_t)port, &a))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "HOST must be an address");
	s = connect_to(c, host, (uint16_t)port);
	if (s < 0 && errno == ECONNREFUSED && !h.n)
		s = connect_to(c, "::1", (uint16_t)port);
	if (s < 0)
		return conn_error(c, WIRE_E_UNAVAILABLE, "connect", errno,
				  "cannot connect to %s port %d: %m", host, (int)port);
	if (conn_ok(c) == 0)
		relay_both(c, s);
	close(s);
	return -1; /* the stream was the connection's */
}
