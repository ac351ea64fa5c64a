/* SPDX-License-Identifier: MIT */
/*
 * Published ports: sockets that listen outside, handed in at the start or sent with PUBLISH, and
 * served inside by a forwarding child. Servers run in this program, on sockets that were made in the
 * sandbox's network namespace, which has nothing but its loopback.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "run.h"
#include "walled.h"

#define INSIDE 4111

static struct agent_proc proc;
static struct client c;
static bool walled;

/* ---- sockets ---- */

static struct sockaddr_in v4(uint32_t address, int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(address)};
}

static int listener(uint32_t address, int port)
{
	struct sockaddr_in a = v4(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	ASSERT_GE(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ASSERT_OK(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	ASSERT_OK(listen(fd, 1024));
	return fd;
}

static int listener6(int port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6,
				 .sin6_port = htons((uint16_t)port),
				 .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT_GE(fd, 0);
	ASSERT_OK(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	ASSERT_OK(listen(fd, 1024));
	return fd;
}

static int port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	ASSERT_OK(getsockname(fd, (struct sockaddr *)&a, &n));
	return ntohs(a.sin_port);
}

/* A listening socket in the sandbox's network namespace. */
static int inside(int family, int port)
{
	char path[64];
	int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), theirs, fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", proc.pid);
	theirs = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_OK(setns(theirs, CLONE_NEWNET));
	fd = family == AF_INET6 ? listener6(port) : listener(INADDR_LOOPBACK, port);
	ASSERT_OK(setns(own, CLONE_NEWNET));
	close(own);
	close(theirs);
	return fd;
}

static int dial(int port)
{
	struct sockaddr_in a = v4(INADDR_LOOPBACK, port);
	struct timeval limit = {20, 0};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT_GE(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	ASSERT_OK(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

static int take(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	int got;

	ASSERT_EQ(poll(&p, 1, 10000), 1);
	got = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	ASSERT_GE(got, 0);
	return got;
}

static void say(int fd, const char *text)
{
	ASSERT_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* What comes until its end, or until there are n bytes (static). */
static const char *heard(int fd, size_t n)
{
	static char text[4096];
	size_t have = 0;
	ssize_t r = 1;

	while (have < n && have < sizeof(text) - 1 && r > 0) {
		struct pollfd p = {fd, POLLIN, 0};

		r = poll(&p, 1, 10000) == 1
			    ? read(fd, text + have,
				   n - have < sizeof(text) - 1 - have ? n - have
								      : sizeof(text) - 1 - have)
			    : -1;
		have += r > 0 ? (size_t)r : 0;
	}
	text[have] = '\0';
	return r < 0 ? "(failed)" : text;
}

/* ---- the agent ---- */

/* @outside: handed in at the start for port INSIDE; -1: none. */
static void begin(int outside)
{
	char word[32];
	struct walled_opts o = {.net = true, .fds = &outside, .n_fds = outside >= 0};
	const char *const options[] = {"--port", word, NULL};

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	snprintf(word, sizeof(word), "%d=%d", INSIDE, outside);
	o.options = outside >= 0 ? options : NULL;
	walled = true;
	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, "box", &o), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

/* The forwarding child; 0: none. */
static pid_t forwarder(void)
{
	return child_named(proc.pid, "berth-ports");
}

/* ---- many bytes ---- */

static uint8_t pattern(uint64_t at, unsigned seed)
{
	return (uint8_t)(at * 131 + (at >> 8) * 7 + (at >> 16) + seed);
}

#define PIECE 65536u

/* Writes n bytes of a pattern and then its end. */
static int source(int fd, uint64_t n, unsigned seed)
{
	static uint8_t piece[PIECE];
	uint64_t at = 0;

	while (at < n) {
		size_t want = n - at < PIECE ? (size_t)(n - at) : PIECE, sent = 0;

		for (size_t i = 0; i < want; i++)
			piece[i] = pattern(at + i, seed);
		while (sent < want) {
			ssize_t r = send(fd, piece + sent, want - sent, MSG_NOSIGNAL);

			if (r <= 0)
				return 2;
			sent += (size_t)r;
		}
		at += want;
	}
	return shutdown(fd, SHUT_WR) < 0 ? 3 : 0;
}

/* Reads a pattern to its end: exactly n bytes, all right. */
static int check(int fd, uint64_t n, unsigned seed)
{
	static uint8_t piece[PIECE];
	uint64_t at = 0;
	ssize_t r;

	while ((r = read(fd, piece, sizeof(piece))) > 0) {
		for (ssize_t i = 0; i < r; i++) {
			if (piece[i] != pattern(at + (uint64_t)i, seed))
				return 4;
		}
		at += (uint64_t)r;
	}
	return r < 0 ? 5 : at == n ? 0 : 6;
}

static pid_t in_child(int (*fn)(int fd, uint64_t n, unsigned seed), int fd, uint64_t n,
		      unsigned seed)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn(fd, n, seed));
	return pid;
}

static void ended_well(pid_t pid)
{
	int status = -1;

	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

TEST_TIMEOUT(bytes_go_both_ways_at_once, 120)
{
	const uint64_t n = 100u << 20;
	int outside = listener(INADDR_LOOPBACK, 0), server, out, in;
	pid_t pids[4];

	begin(outside);
	server = inside(AF_INET, INSIDE);
	out = dial(port_of(outside));
	in = take(server);
	pids[0] = in_child(source, out, n, 1);
	pids[1] = in_child(source, in, n, 2);
	pids[2] = in_child(check, out, n, 2);
	pids[3] = in_child(check, in, n, 1);
	for (int i = 0; i < 4; i++)
		ended_well(pids[i]);
	close(out);
	close(in);
	close(server);
	close(outside);
	end();
}

TEST_TIMEOUT(one_direction_may_end_first, 60)
{
	int outside = listener(INADDR_LOOPBACK, 0), server, out, in;

	begin(outside);
	server = inside(AF_INET, INSIDE);
	/* From outside: the answer comes after the end of the question. */
	out = dial(port_of(outside));
	say(out, "question");
	ASSERT_OK(shutdown(out, SHUT_WR));
	in = take(server);
	ASSERT_STREQ(heard(in, 100), "question");
	say(in, "answer");
	ASSERT_STREQ(heard(out, 6), "answer");
	say(in, ", more");
	close(in);
	ASSERT_STREQ(heard(out, 100), ", more");
	close(out);
	/* From inside. */
	out = dial(port_of(outside));
	in = take(server);
	say(in, "bye");
	ASSERT_OK(shutdown(in, SHUT_WR));
	ASSERT_STREQ(heard(out, 100), "bye");
	say(out, "still here");
	ASSERT_STREQ(heard(in, 10), "still here");
	close(out);
	ASSERT_STREQ(heard(in, 100), "");
	close(in);
	close(server);
	close(outside);
	end();
}

/* Until nothing is taken for a while. */
static uint64_t fill(int fd, uint64_t max)
{
	static uint8_t piece[PIECE];
	struct pollfd p = {fd, POLLOUT, 0};
	uint64_t at = 0;

	while (at < max && poll(&p, 1, 500) == 1) {
		ssize_t r;

		for (size_t i = 0; i < PIECE; i++)
			piece[i] = pattern(at + i, 9);
		r = send(fd, piece, max - at < PIECE ? (size_t)(max - at) : PIECE,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		at += r > 0 ? (uint64_t)r : 0;
	}
	return at;
}

TEST_TIMEOUT(a_slow_reader_holds_its_writer_up_and_nobody_else, 60)
{
	const uint64_t n = 256u << 20;
	int outside = listener(INADDR_LOOPBACK, 0), server, out, in, other, otherin;
	uint64_t taken;

	begin(outside);
	server = inside(AF_INET, INSIDE);
	out = dial(port_of(outside));
	in = take(server);
	/* What the kernel's own buffers hold, on both sides, and one piece of ours. */
	taken = fill(in, n);
	ASSERT_LT(taken, n / 4);
	other = dial(port_of(outside));
	otherin = take(server);
	say(other, "ping");
	ASSERT_STREQ(heard(otherin, 4), "ping");
	say(otherin, "pong");
	ASSERT_STREQ(heard(other, 4), "pong");
	/* And the other direction of the slow one. */
	say(out, "go on");
	ASSERT_STREQ(heard(in, 5), "go on");
	ASSERT_OK(shutdown(in, SHUT_WR));
	ASSERT_EQ(check(out, taken, 9), 0);
	close(out);
	close(in);
	close(other);
	close(otherin);
	close(server);
	close(outside);
	end();
}

TEST_TIMEOUT(a_hundred_at_once, 60)
{
	enum { N = 100 };
	int outside = listener(INADDR_LOOPBACK, 0), server, out[N], in[N];
	char text[32];

	begin(outside);
	server = inside(AF_INET, INSIDE);
	for (int i = 0; i < N; i++) {
		out[i] = dial(port_of(outside));
		snprintf(text, sizeof(text), "%06d", i);
		say(out[i], text);
	}
	for (int i = 0; i < N; i++) {
		in[i] = take(server);
		say(in[i], heard(in[i], 6));
	}
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "%06d", i);
		ASSERT_STREQ(heard(out[i], 6), text);
	}
	for (int i = 0; i < N; i++) {
		close(in[i]);
		ASSERT_STREQ(heard(out[i], 1), "");
		close(out[i]);
	}
	close(server);
	close(outside);
	end();
}

/* More than it takes at once wait their turn in the queue; none is lost. */
TEST_TIMEOUT(more_than_it_takes_wait, 120)
{
	enum { N = 1100 };
	int outside = listener(INADDR_LOOPBACK, 0), server;
	static int out[N];
	struct rlimit r;

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &r));
	r.rlim_cur = r.rlim_max < 4096 ? r.rlim_max : 4096;
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &r));
	if (r.rlim_cur < 2 * N + 200)
		SKIP("too few open files are allowed");
	begin(outside);
	server = inside(AF_INET, INSIDE);
	for (int i = 0; i < N; i++) {
		char text[16];

		out[i] = dial(port_of(outside));
		snprintf(text, sizeof(text), "%06d", i);
		say(out[i], text);
	}
	/* Each that ends makes room for one that waits. */
	for (int i = 0; i < N; i++) {
		int in = take(server), which = atoi(heard(in, 6));

		say(in, "x");
		close(in);
		ASSERT(which >= 0 && which < N && out[which] >= 0);
		ASSERT_STREQ(heard(out[which], 2), "x");
		close(out[which]);
		out[which] = -1;
	}
	close(server);
	close(outside);
	end();
}

TEST_TIMEOUT(nobody_listens_inside, 60)
{
	int outside = listener(INADDR_LOOPBACK, 0), out, server, in;
	char byte;

	begin(outside);
	for (int i = 0; i < 3; i++) {
		out = dial(port_of(outside));
		ASSERT_EQ(read(out, &byte, 1), -1);
		ASSERT_EQ(errno, ECONNRESET);
		close(out);
	}
	/* Somebody on ::1 alone is somebody. */
	server = inside(AF_INET6, INSIDE);
	out = dial(port_of(outside));
	in = take(server);
	say(out, "six");
	ASSERT_STREQ(heard(in, 3), "six");
	/* One that is reset inside is reset outside. */
	ASSERT_OK(setsockopt(in, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
			     sizeof(struct linger)));
	close(in);
	ASSERT_EQ(read(out, &byte, 1), -1);
	ASSERT_EQ(errno, ECONNRESET);
	close(out);
	close(server);
	close(outside);
	end();
}

static bool no_forwarder(void *arg)
{
	(void)arg;
	return forwarder() == 0;
}

static void status_of(pid_t pid, char *text, size_t cap)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, cap - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fd);
}

TEST_TIMEOUT(who_serves, 90)
{
	int outside = listener(INADDR_LOOPBACK, 0), server, out, in;
	char status[4096], want[64], byte;
	pid_t pid;

	begin(outside);
	server = inside(AF_INET, INSIDE);
	ASSERT_EQ(forwarder(), 0); /* nobody, until somebody comes */
	out = dial(port_of(outside));
	in = take(server);
	pid = forwarder();
	ASSERT_GT(pid, 0);
	status_of(pid, status, sizeof(status));
	snprintf(want, sizeof(want), "Uid:\t%u\t%u\t%u\t%u\n", WALLED_UID + 1, WALLED_UID + 1,
		 WALLED_UID + 1, WALLED_UID + 1);
	ASSERT_CONTAINS(status, want);
	ASSERT_CONTAINS(status, "CapPrm:\t0000000000000000\n");
	ASSERT_CONTAINS(status, "CapEff:\t0000000000000000\n");
	ASSERT_CONTAINS(status, "CapBnd:\t0000000000000000\n");
	ASSERT_CONTAINS(status, "NoNewPrivs:\t1\n");
	/* Killed: its connections are gone, the next ones are served. */
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_LE(read(out, &byte, 1), 0);
	close(out);
	close(in);
	out = dial(port_of(outside));
	in = take(server);
	say(in, "again");
	ASSERT_STREQ(heard(out, 5), "again");
	ASSERT_NE(forwarder(), pid);
	/* It stays as long as one is open, and goes a while after the last; then init watches. */
	close(in);
	close(out);
	{
		int64_t until = client_now_ms() + 20000;

		while (!client_until(no_forwarder, NULL))
			ASSERT_LT(client_now_ms(), until);
	}
	out = dial(port_of(outside));
	in = take(server);
	say(in, "later");
	ASSERT_STREQ(heard(out, 5), "later");
	close(in);
	close(out);
	close(server);
	close(outside);
	end();
}

/* ---- PUBLISH ---- */

/* A request of this type with an fd along; fd -1: without. Returns client_code(). */
static int request(uint8_t type, int port, int fd)
{
	struct wire_w *w = client_begin(&c, type);
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = {.buf = {0}};
	struct msghdr m = {.msg_iovlen = 1};
	struct iovec v;
	size_t n;

	if (type == WIRE_PUBLISH)
		wire_w_int(w, WK_PORT, port);
	client_end(&c);
	v.iov_base = (void *)(uintptr_t)client_built(&c, &n);
	v.iov_len = n;
	m.msg_iov = &v;
	if (fd >= 0) {
		struct cmsghdr *h;

		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(int));
	}
	ASSERT_EQ(sendmsg(c.fd, &m, MSG_NOSIGNAL), (ssize_t)n);
	client_reset(&c);
	client_call(&c, 0, NULL, NULL);
	return client_code(&c);
}

static int count_fds(pid_t pid)
{
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void refused(int port, int fd, int code, const char *why)
{
	ASSERT_EQ(request(WIRE_PUBLISH, port, fd), code);
	ASSERT_CONTAINS(client_str(&c, WK_MESSAGE), why);
	if (fd >= 0)
		close(fd);
}

static bool published(int port)
{
	struct wire_r r;
	struct wire_slice v;
	uint16_t key;
	int64_t n;

	ASSERT_EQ(request(WIRE_INFO, 0, -1), 0);
	wire_r_init(&r, c.p, c.n);
	while (wire_r_next(&r, &key, &v)) {
		if (key == WK_PORT && wire_slice_int(v, &n) && n == port)
			return true;
	}
	return false;
}

static void publish_and_use(void)
{
	int server = walled ? inside(AF_INET, 5222) : listener(INADDR_LOOPBACK, 0);
	int port = walled ? 5222 : port_of(server), outside = listener(INADDR_LOOPBACK, 0);
	int out, in;

	ASSERT(!published(port));
	ASSERT_EQ(request(WIRE_PUBLISH, port, outside), 0);
	ASSERT(published(port));
	/* Ours is a copy: init has its own. */
	in = port_of(outside);
	close(outside);
	for (int i = 0; i < 3; i++) {
		out = dial(in);
		int got = take(server);

		say(out, "hello");
		ASSERT_STREQ(heard(got, 5), "hello");
		say(got, "world");
		ASSERT_STREQ(heard(out, 5), "world");
		close(got);
		close(out);
	}
	/* While a child serves the first, a second is published. */
	refused(port, listener(INADDR_LOOPBACK, 0), WIRE_E_CONFLICT, "published already");
	close(server);
}

static void publish_what_is_none(void)
{
	int fds = count_fds(proc.pid), pipefd[2], udp, tcp;
	struct sockaddr_in a = v4(INADDR_LOOPBACK, 0);

	refused(6000, -1, WIRE_E_INVALID, "no socket");
	refused(0, listener(INADDR_LOOPBACK, 0), WIRE_E_INVALID, "no valid port");
	refused(70000, listener(INADDR_LOOPBACK, 0), WIRE_E_INVALID, "no valid port");
	refused(6000, open("/etc/passwd", O_RDONLY | O_CLOEXEC), WIRE_E_INVALID, "not a socket");
	refused(6000, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), WIRE_E_INVALID,
		"not a socket");
	ASSERT_OK(pipe2(pipefd, O_CLOEXEC));
	refused(6000, pipefd[0], WIRE_E_INVALID, "not a socket");
	close(pipefd[1]);
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(bind(udp, (struct sockaddr *)&a, sizeof(a)));
	refused(6000, udp, WIRE_E_INVALID, "not a TCP socket");
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipefd));
	refused(6000, pipefd[0], WIRE_E_INVALID, "not a TCP socket");
	close(pipefd[1]);
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(bind(tcp, (struct sockaddr *)&a, sizeof(a)));
	refused(6000, tcp, WIRE_E_INVALID, "not a listening socket");
	refused(6000, listener(INADDR_ANY, 0), WIRE_E_INVALID, "not bound to a loopback");
	ASSERT(!published(6000));
	/* Not more; there may have been one of a forwarding child that has ended meanwhile. */
	ASSERT_LE(count_fds(proc.pid), fds);
	/* One that comes with another request is closed with it: nobody listens any more. */
	{
		int fd = listener(INADDR_LOOPBACK, 0), s = socket(AF_INET, SOCK_STREAM, 0);

		a.sin_port = htons((uint16_t)port_of(fd));
		ASSERT_EQ(request(WIRE_INFO, 0, fd), 0);
		close(fd);
		ASSERT_EQ(request(WIRE_INFO, 0, -1), 0);
		ASSERT_EQ(connect(s, (struct sockaddr *)&a, sizeof(a)), -1);
		ASSERT_EQ(errno, ECONNREFUSED);
		close(s);
	}
}

static void begin_plain(void)
{
	walled = false;
	proc = (struct agent_proc){.uid = 0};
	ASSERT_EQ(agent_start(&proc, "plain", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

/* Where outside and inside are one network, a port must not be served by itself. */
static void publish_itself(void)
{
	int fd = listener(INADDR_LOOPBACK, 0), port = port_of(fd);

	if (walled) {
		/* Another network: the same number is another port. */
		ASSERT_EQ(request(WIRE_PUBLISH, port, fd), 0);
		close(fd);
	} else {
		refused(port, fd, WIRE_E_INVALID, "that port itself");
	}
}

TEST_TIMEOUT(publish, 60)
{
	SUBTEST("walls")
	{
		begin(-1);
		publish_and_use();
		publish_what_is_none();
		publish_itself();
		end();
	}
	SUBTEST("none")
	{
		begin_plain();
		publish_and_use();
		publish_what_is_none();
		publish_itself();
		end();
	}
}

TEST_TIMEOUT(as_many_as_there_is_room_for, 60)
{
	begin(-1);
	for (int i = 0; i < 64; i++) {
		int fd = listener(INADDR_LOOPBACK, 0);

		ASSERT_EQ(request(WIRE_PUBLISH, 7000 + i, fd), 0);
		close(fd);
	}
	refused(7999, listener(INADDR_LOOPBACK, 0), WIRE_E_UNAVAILABLE, "too many");
	ASSERT(published(7000) && published(7063) && !published(7999));
	end();
}

TEST_MAIN()
