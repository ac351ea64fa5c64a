/* SPDX-License-Identifier: MIT */
/*
 * forward.c: connections of published ports, from outside to a port inside.
 *
 * A child of init that has nothing but the listening sockets: no capabilities, no DIR, and what it
 * opens itself is inside, where its network namespace is. Invariants: bytes are read and written,
 * never spliced; of each direction at most CHUNK bytes are held, and while the far side does not
 * take them nothing more is read; an end of one direction is passed on behind its last byte and
 * leaves the other alone; what breaks on one side is reset on the other. It does not look at what
 * it carries.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/ports.h"

#define LINKS_MAX  1024u
#define CHUNK      65536u
#define READS_MAX  4 /* chunks of one direction before the others have a turn */
#define ACCEPT_MAX 16
#define LINGER_MS  10000 /* without connections */
#define AGAIN_MS   100
#define SPARE_FDS  16

struct side {
	int fd;
	uint8_t *held; /* read from fd and not yet taken by the other; mapped when first needed */
	size_t at, len;
	bool eof;    /* fd has said that nothing more comes */
	bool passed; /* and the other side has been told */
	bool watched;
	uint32_t events;
};

enum link_state { FREE, CONNECTING, OPEN };

struct link {
	struct side side[2]; /* 0: outside, 1: inside */
	int state, family, port;
};

static struct link links[LINKS_MAX];
static struct {
	int epfd;
	unsigned used, max; /* links that are not free; how many there may be */
	bool listening;
	const struct forward_port *ports;
	size_t n_ports;
	atomic_int *open;
} self;

#define TAG_LISTEN ((uint64_t)1 << 32)

static void listen_on(bool on)
{
	if (self.listening == on)
		return;
	self.listening = on;
	for (size_t i = 0; i < self.n_ports; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u64 = TAG_LISTEN | i};

		epoll_ctl(self.epfd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, self.ports[i].fd, &e);
	}
}

/* ---- a link's end ---- */

static void close_side(struct side *s, bool reset)
{
	struct linger now = {1, 0};

	if (s->fd >= 0) {
		if (reset)
			setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(s->fd);
	}
	if (s->held)
		agent_unmap(s->held, CHUNK);
	*s = (struct side){.fd = -1};
}

static void close_link(struct link *l, bool reset)
{
	close_side(&l->side[0], reset);
	close_side(&l->side[1], reset);
	l->state = FREE;
	self.used--;
	clock_worked(); /* before it does not count any more: clock.c */
	atomic_fetch_sub(self.open, 1);
	atomic_fetch_sub(&agent.shared->forwards, 1);
	listen_on(true);
}

/* ---- what is waited for ---- */

static uint32_t wanted(const struct link *l, int i)
{
	const struct side *s = &l->side[i], *other = &l->side[!i];

	if (l->state == CONNECTING)
		return i == 1 ? EPOLLOUT : 0;
	return (s->eof || s->len ? 0 : (uint32_t)EPOLLIN) | (other->len ? (uint32_t)EPOLLOUT : 0);
}

static void watch(struct link *l, int i)
{
	struct side *s = &l->side[i];
	struct epoll_event e = {.events = wanted(l, i)};
	/* A side that we have shut and that has shut itself hangs up all the time: out of the loop
	 * with it while there is nothing to do for it. */
	bool want = e.events || !l->side[!i].passed || l->state == CONNECTING;

	e.data.u64 = (uint64_t)(l - links) << 1 | (unsigned)i;
	if (want && !s->watched)
		epoll_ctl(self.epfd, EPOLL_CTL_ADD, s->fd, &e);
	else if (want && s->events != e.events)
		epoll_ctl(self.epfd, EPOLL_CTL_MOD, s->fd, &e);
	else if (!want && s->watched)
		epoll_ctl(self.epfd, EPOLL_CTL_DEL, s->fd, &e);
	s->watched = want;
	s->events = e.events;
}

/* ---- bytes ---- */

/* As much as the socket takes now: how much, or -1 when it is broken. */
static ssize_t give(int fd, const uint8_t *p, size_t n)
{
	ssize_t r;

	do
		r = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	return r < 0 && errno == EAGAIN ? 0 : r;
}

static bool hold(struct side *s, const uint8_t *p, size_t n)
{
	if (!s->held)
		s->held = agent_map(CHUNK);
	if (!s->held)
		return false;
	memcpy(s->held, p, n);
	s->at = 0;
	s->len = n;
	return true;
}

/* One read and its write. 1: there may be more; 0: not now; -1: broken. */
static int carry(struct side *from, struct side *to)
{
	static uint8_t piece[CHUNK];
	ssize_t n, r;

	if (from->len) {
		r = give(to->fd, from->held + from->at, from->len);
		if (r < 0)
			return -1;
		from->at += (size_t)r;
		from->len -= (size_t)r;
		return from->len ? 0 : 1;
	}
	n = from->eof ? 0 : recv(from->fd, piece, sizeof(piece), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0) {
		from->eof = true;
		return 0;
	}
	r = give(to->fd, piece, (size_t)n);
	if (r < 0 || (r < n && !hold(from, piece + r, (size_t)(n - r))))
		return -1;
	return r == n;
}

/* Moves what there is from side i to the other. False when the link is broken. */
static bool move(struct link *l, int i)
{
	struct side *from = &l->side[i], *to = &l->side[!i];
	int r = 1;

	for (int k = 0; k < READS_MAX && r > 0 && !(from->eof && !from->len); k++)
		r = carry(from, to);
	if (r < 0)
		return false;
	if (from->eof && !from->len && !from->passed) {
		shutdown(to->fd, SHUT_WR);
		from->passed = true;
	}
	return true;
}

/* ---- inside ---- */

static int dial(int family, int port)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons((uint16_t)port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return -1;
	r = family == AF_INET ? connect(fd, (struct sockaddr *)&a4, sizeof(a4))
			      : connect(fd, (struct sockaddr *)&a6, sizeof(a6));
	if (r == 0 || errno == EINPROGRESS)
		return fd;
	close(fd);
	return -1;
}

/* Tries the next of 127.0.0.1 and ::1. False when there is none. */
static bool dial_next(struct link *l)
{
	close_side(&l->side[1], false);
	while (l->side[1].fd < 0 && l->family != AF_INET6) {
		l->family = l->family == AF_UNSPEC ? AF_INET : AF_INET6;
		l->side[1].fd = dial(l->family, l->port);
	}
	return l->side[1].fd >= 0;
}

/* The inner side is connected, or has failed. False when nobody is there. */
static bool connected(struct link *l)
{
	int err = 0, one = 1;
	socklen_t n = sizeof(err);

	if (getsockopt(l->side[1].fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0 || err)
		return dial_next(l);
	for (int i = 0; i < 2; i++)
		setsockopt(l->side[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	l->state = OPEN;
	return true;
}

/* ---- events ---- */

static void on_link(unsigned index, int i, uint32_t events)
{
	struct link *l = &links[index];
	bool ok = true;

	if (l->state == FREE)
		return; /* closed by an event of its other side */
	if (l->state == CONNECTING && i == 1)
		ok = connected(l);
	else if (l->state == CONNECTING)
		ok = !(events & (EPOLLERR | EPOLLHUP));
	if (ok && l->state == OPEN)
		ok = move(l, 0) && move(l, 1);
	if (!ok || (l->side[0].passed && l->side[1].passed)) {
		close_link(l, !ok);
		return;
	}
	watch(l, 0);
	watch(l, 1);
}

static void begin_link(int fd, int port)
{
	unsigned i = 0;

	while (links[i].state != FREE)
		i++;
	links[i] = (struct link){.state = CONNECTING, .family = AF_UNSPEC, .port = port};
	links[i].side[0].fd = fd;
	links[i].side[1].fd = -1;
	self.used++;
	atomic_fetch_add(self.open, 1);
	atomic_fetch_add(&agent.shared->forwards, 1);
	if (!dial_next(&links[i])) {
		close_link(&links[i], true);
		return;
	}
	watch(&links[i], 0);
	watch(&links[i], 1);
	if (self.used == self.max)
		listen_on(false);
}

static void on_listener(size_t index)
{
	for (int i = 0; i < ACCEPT_MAX && self.used < self.max; i++) {
		int fd = accept4(self.ports[index].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			begin_link(fd, self.ports[index].port);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		/* There is too little of something: others must give it back first. */
		if (self.used)
			listen_on(false);
		else
			poll(NULL, 0, AGAIN_MS);
		return;
	}
}

static void raise_limit(void)
{
	struct rlimit r;

	self.max = LINKS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	if (r.rlim_max > 2 * LINKS_MAX + AGENT_PORTS + SPARE_FDS)
		r.rlim_cur = 2 * LINKS_MAX + AGENT_PORTS + SPARE_FDS;
	else
		r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if (r.rlim_cur < 2 * LINKS_MAX + AGENT_PORTS + SPARE_FDS)
		self.max = r.rlim_cur > AGENT_PORTS + SPARE_FDS + 2
				   ? (unsigned)(r.rlim_cur - AGENT_PORTS - SPARE_FDS) / 2
				   : 1;
}

void forward_main(const struct forward_port *ports, size_t n, atomic_int *open)
{
	struct epoll_event ev[64];
	int64_t idle_since = now_ms();
	int got;

	self.ports = ports;
	self.n_ports = n;
	self.open = open;
	self.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (self.epfd < 0)
		_exit(1);
	raise_limit();
	listen_on(true);
	for (;;) {
		int64_t left = self.used ? -1 : idle_since + LINGER_MS - now_ms();

		if (!self.used && left <= 0)
			_exit(0);
		got = epoll_wait(self.epfd, ev, ARRAY_LEN(ev), (int)left);
		if (got > 0)
			idle_since = now_ms();
		for (int i = 0; i < got; i++) {
			if (!(ev[i].data.u64 & TAG_LISTEN))
				on_link((unsigned)(ev[i].data.u64 >> 1), (int)(ev[i].data.u64 & 1),
					ev[i].events);
		}
		/* After the links: a place that one of them has left is not met by an event that
		 * was meant for it. */
		for (int i = 0; i < got; i++) {
			if (ev[i].data.u64 & TAG_LISTEN)
				on_listener((size_t)(ev[i].data.u64 & ~TAG_LISTEN));
		}
	}
}
