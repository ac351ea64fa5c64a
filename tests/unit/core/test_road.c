/* SPDX-License-Identifier: MIT */
/* Roads against a scripted other end: a child process that reads what it must and sends what it is
 * told, cut at any byte. */
#include "tap.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/time.h"
#include "core/road.h"
#include "torture.h"

/* A conversation of the other end, as bytes. */
struct script {
	uint8_t bytes[8192];
	struct wire_w w;
};

static void script_init(struct script *s)
{
	wire_w_init(&s->w, s->bytes, sizeof(s->bytes));
}

static void add_hello(struct script *s, int64_t proto)
{
	static const uint8_t incarnation[16] = "incarnation 1234", boot[16] = "boot";
	size_t pos = wire_w_frame_begin(&s->w, WIRE_HELLO);

	wire_w_int(&s->w, WK_PROTO, proto);
	wire_w_str(&s->w, WK_AGENT, "abc");
	wire_w_str(&s->w, WK_MACHINE, "x86_64");
	wire_w_bytes(&s->w, WK_INCARNATION, incarnation, 16);
	wire_w_bytes(&s->w, WK_BOOT, boot, 16);
	wire_w_frame_end(&s->w, pos);
}

static void add_data(struct script *s, const char *text)
{
	size_t pos = wire_w_frame_begin(&s->w, WIRE_DATA);

	wire_w_raw(&s->w, text, strlen(text));
	wire_w_frame_end(&s->w, pos);
}

static void add_ok(struct script *s, int64_t next)
{
	size_t pos = wire_w_frame_begin(&s->w, WIRE_OK);

	wire_w_int(&s->w, WK_NEXT, next);
	wire_w_frame_end(&s->w, pos);
}

static void add_error(struct script *s, int code, const char *message)
{
	size_t pos = wire_w_frame_begin(&s->w, WIRE_ERROR);

	wire_w_int(&s->w, WK_CODE, code);
	wire_w_str(&s->w, WK_MESSAGE, message);
	wire_w_str(&s->w, WK_STAGE, "exec");
	wire_w_str(&s->w, WK_NEED, "tree");
	wire_w_int(&s->w, WK_ERRNO, ENOENT);
	wire_w_frame_end(&s->w, pos);
}

/* The other end: sends n bytes (at once, or one by one), then closes or stays until we close. */
struct peer {
	pid_t pid;
	int fd;
};

static struct peer peer_start(const void *bytes, size_t n, bool one_by_one, bool stay,
			      bool read_all)
{
	struct peer p;
	int pair[2];
	char buf[65536];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	p.pid = ASSERT_OK(fork());
	if (p.pid == 0) {
		const uint8_t *q = bytes;

		close(pair[0]);
		signal(SIGPIPE, SIG_IGN);
		for (size_t i = 0; one_by_one && i < n; i++) {
			if (write(pair[1], q + i, 1) < 0)
				_exit(0);
		}
		if (!one_by_one && n && write(pair[1], q, n) < 0)
			_exit(0);
		if (!stay)
			shutdown(pair[1], SHUT_WR);
		if (stay && !read_all) {
			struct pollfd f = {.fd = pair[1], .events = POLLRDHUP};

			poll(&f, 1, -1);
		}
		while (read(pair[1], buf, sizeof(buf)) > 0)
			;
		_exit(0);
	}
	close(pair[1]);
	p.fd = pair[0];
	return p;
}

static void peer_end(struct peer *p)
{
	int status;

	kill(p->pid, SIGKILL);
	waitpid(p->pid, &status, 0);
}

static struct road *road_to(const struct peer *p)
{
	struct berth_stream stream = {.rfd = p->fd, .wfd = p->fd, .pidfd = -1};
	struct road *r = NULL;

	ASSERT_EQ(road_over(&stream, &r, NULL), 0);
	ASSERT_EQ(stream.rfd, -1);
	return r;
}

/* One READ and its whole answer; *got counts bytes of DATA. */
static int one_read(struct road *r, size_t *got, int64_t *next, struct berth_error *err)
{
	uint8_t buf[64], type = 0;
	struct wire_slice v;
	struct wire_w w;
	int rc;

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_ID, "x");
	rc = road_request(r, WIRE_READ, &w, err);
	while (rc == 0 && type != WIRE_OK) {
		rc = road_recv(r, &type, &v, deadline_from_ms(5000), err);
		if (rc == 0 && type == WIRE_DATA)
			*got += v.n;
	}
	if (rc == 0)
		*next = wire_find_int(v.p, v.n, WK_NEXT, -1);
	return rc;
}

static void whole_script(struct script *s)
{
	script_init(s);
	add_hello(s, 1);
	add_data(s, "hello ");
	add_data(s, "");
	add_data(s, "world");
	add_ok(s, 11);
}

TEST(an_answer_arrives_in_any_pieces)
{
	struct script s;

	whole_script(&s);
	for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
		struct peer p = peer_start(s.bytes, s.w.len, one_by_one, true, true);
		struct road *r = road_to(&p);
		size_t got = 0;
		int64_t next = 0;

		ASSERT_EQ(one_read(r, &got, &next, NULL), 0);
		ASSERT_EQ(got, 11u);
		ASSERT_EQ(next, 11);
		ASSERT_EQ(r->hello.proto, 1);
		ASSERT_STREQ(r->hello.agent, "abc");
		ASSERT_STREQ(r->hello.machine, "x86_64");
		ASSERT_MEMEQ(r->hello.incarnation, 16, "incarnation 1234", 16);
		ASSERT(!r->broken && !r->asked);
		road_put(r);
		peer_end(&p);
	}
}

TEST_TIMEOUT(a_cut_at_every_byte_is_never_an_answer, 60)
{
	struct script s;

	whole_script(&s);
	for (size_t cut = 0; cut < s.w.len; cut++) {
		struct peer p = peer_start(s.bytes, cut, false, false, true);
		struct road *r = road_to(&p);
		struct berth_error err = BERTH_ERROR_INIT;
		size_t got = 0;
		int64_t next = -7;
		int rc = one_read(r, &got, &next, &err);

		if (rc != BERTH_E_UNAVAILABLE || next != -7 || got > 11 || !r->broken)
			FAIL("cut at %zu: %d (%s), %zu bytes", cut, rc, err.message, got);
		ASSERT(!r->error.remote);
		road_put(r);
		peer_end(&p);
	}
	CHECK(true);
}

TEST_TIMEOUT(every_changed_byte_is_survived, 60)
{
	struct script s, changed;

	whole_script(&s);
	for (size_t i = 0; i < s.w.len * 2; i++) {
		struct peer p;
		struct road *r;
		size_t got = 0;
		int64_t next = 0;
		int rc;

		changed = s;
		changed.bytes[i / 2] ^= i % 2 ? 0xff : 0x01;
		p = peer_start(changed.bytes, s.w.len, false, false, true);
		r = road_to(&p);
		rc = one_read(r, &got, &next, NULL);
		if (rc > 0 || (rc < 0 && !r->broken && !r->error.remote))
			FAIL("byte %zu: %d", i / 2, rc);
		road_put(r);
		peer_end(&p);
	}
	CHECK(true);
}

TEST(an_error_leaves_the_road_usable)
{
	struct script s;
	struct peer p;
	struct road *r;
	struct berth_error err = BERTH_ERROR_INIT;
	size_t got = 0;
	int64_t next = 0;

	script_init(&s);
	add_hello(&s, 1);
	add_error(&s, WIRE_E_PRECONDITION, "no\ntree");
	add_data(&s, "abc");
	add_ok(&s, 3);
	p = peer_start(s.bytes, s.w.len, false, true, true);
	r = road_to(&p);
	ASSERT_EQ(one_read(r, &got, &next, &err), BERTH_E_PRECONDITION);
	ASSERT_STREQ(err.message, "no tree");
	ASSERT_EQ(err.sys_errno, ENOENT);
	ASSERT(r->error.remote && !r->broken);
	ASSERT_EQ(r->error.code, WIRE_E_PRECONDITION);
	ASSERT_STREQ(r->error.stage, "exec");
	ASSERT_STREQ(r->error.need, "tree");
	ASSERT_EQ(one_read(r, &got, &next, &err), 0);
	ASSERT_EQ(got, 3u);
	road_put(r);
	peer_end(&p);
}

TEST(an_older_agent_is_told_apart)
{
	struct script s;
	struct peer p;
	struct road *r;
	struct berth_error err = BERTH_ERROR_INIT;
	size_t got = 0;
	int64_t next;

	script_init(&s);
	add_hello(&s, 0);
	add_ok(&s, 0);
	p = peer_start(s.bytes, s.w.len, false, true, true);
	r = road_to(&p);
	ASSERT_EQ(one_read(r, &got, &next, &err), BERTH_E_UNSUPPORTED);
	ASSERT_CONTAINS(err.message, "protocol 0");
	road_put(r);
	peer_end(&p);

	script_init(&s);
	add_error(&s, WIRE_E_UNSUPPORTED, "no common version");
	p = peer_start(s.bytes, s.w.len, false, true, true);
	r = road_to(&p);
	ASSERT_EQ(road_hello(r, deadline_from_ms(5000), &err), BERTH_E_UNSUPPORTED);
	ASSERT_CONTAINS(err.message, "no common version");
	ASSERT(r->broken);
	road_put(r);
	peer_end(&p);
}

TEST(what_is_no_agent_is_a_protocol_error)
{
	static const char *const others[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
					     "SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
					     "\0\0\0\0\0\1\0\0"};

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct peer p =
			peer_start(others[i], i == 2 ? 8 : strlen(others[i]), false, true, true);
		struct road *r = road_to(&p);
		struct berth_error err = BERTH_ERROR_INIT;
		size_t got = 0;
		int64_t next;

		ASSERT_EQ(one_read(r, &got, &next, &err), BERTH_E_PROTOCOL);
		road_put(r);
		peer_end(&p);
	}
}

TEST(silence_ends_at_the_deadline)
{
	struct peer p = peer_start(NULL, 0, false, true, true);
	struct road *r = road_to(&p);
	struct berth_error err = BERTH_ERROR_INIT;
	int64_t before = now_mono_ns(), took;

	ASSERT_EQ(road_ask(r, WIRE_INFO, NULL, deadline_from_ms(50), NULL, &err), BERTH_E_TIMEOUT);
	took = (now_mono_ns() - before) / NS_PER_MS;
	ASSERT_GE(took, 50);
	ASSERT(r->broken && !r->error.cancelled && r->error.sent);
	ASSERT_EQ(road_request(r, WIRE_INFO, NULL, &err), BERTH_E_INTERNAL);
	road_put(r);
	peer_end(&p);
}

TEST(cancel_fd_ends_a_wait)
{
	struct peer p = peer_start(NULL, 0, false, true, true);
	struct road *r = road_to(&p);
	struct berth_error err = BERTH_ERROR_INIT;
	int fds[2];

	ASSERT_EQ(fd_pipe(fds, 0), 0);
	ASSERT_EQ(write(fds[1], "x", 1), 1);
	r->cancel_fd = fds[0];
	ASSERT_EQ(road_ask(r, WIRE_INFO, NULL, INT64_MAX, NULL, &err), BERTH_E_TIMEOUT);
	ASSERT(r->error.cancelled);
	road_put(r);
	peer_end(&p);
}

/* The other end stops reading and has sent its ERROR: many megabytes must not hang. */
TEST(an_error_stops_a_long_sending)
{
	static uint8_t block[1 << 20];
	struct script s;
	struct peer p;
	struct road *r;
	struct berth_error err = BERTH_ERROR_INIT;
	int rc;

	script_init(&s);
	add_hello(&s, 1);
	add_error(&s, WIRE_E_IO, "disk full");
	p = peer_start(s.bytes, s.w.len, false, true, false);
	r = road_to(&p);
	rc = road_request(r, WIRE_PUT, NULL, &err);
	for (int i = 0; rc == 0 && i < 64; i++)
		rc = road_data(r, block, sizeof(block), &err);
	ASSERT_EQ(rc, BERTH_E_IO);
	ASSERT_STREQ(err.message, "disk full");
	ASSERT(r->broken && r->error.remote);
	road_put(r);
	peer_end(&p);
}

TEST(a_peer_that_takes_nothing_is_a_timeout)
{
	static uint8_t block[1 << 20];
	struct peer p = peer_start(NULL, 0, false, true, false);
	struct road *r = road_to(&p);
	struct berth_error err = BERTH_ERROR_INIT;
	int rc = road_request(r, WIRE_PUT, NULL, &err);

	r->send_deadline = deadline_from_ms(50);
	for (int i = 0; rc == 0 && i < 64; i++)
		rc = road_data(r, block, sizeof(block), &err);
	ASSERT_EQ(rc, BERTH_E_TIMEOUT);
	road_put(r);
	peer_end(&p);
}

/* Pipes instead of a socket: the default action of SIGPIPE would end this test. */
TEST(a_broken_pipe_raises_no_signal)
{
	struct berth_stream stream;
	struct berth_error err = BERTH_ERROR_INIT;
	struct road *r = NULL;
	sigset_t pending;
	int in[2], out[2];

	ASSERT_EQ(fd_pipe(in, 0), 0);
	ASSERT_EQ(fd_pipe(out, 0), 0);
	signal(SIGPIPE, SIG_DFL);
	stream = (struct berth_stream){.rfd = in[0], .wfd = out[1], .pidfd = -1};
	ASSERT_EQ(road_over(&stream, &r, &err), 0);
	close(in[1]);
	close(out[0]);
	ASSERT_EQ(road_ask(r, WIRE_INFO, NULL, deadline_from_ms(5000), NULL, &err),
		  BERTH_E_UNAVAILABLE);
	sigpending(&pending);
	ASSERT(!sigismember(&pending, SIGPIPE));
	road_put(r);
}

TEST(requests_have_their_bounds)
{
	struct peer p = peer_start(NULL, 0, false, true, true);
	struct road *r = road_to(&p);
	struct berth_error err = BERTH_ERROR_INIT;
	uint8_t small[4];
	struct wire_w w;

	wire_w_init(&w, small, sizeof(small));
	wire_w_str(&w, WK_ID, "does not fit");
	ASSERT_EQ(road_request(r, WIRE_STATUS, &w, &err), BERTH_E_TOO_LARGE);
	road_put(r);
	peer_end(&p);
}

static int tortured(void *arg)
{
	const struct peer *from = arg;
	struct peer p = {.fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 3)};
	struct berth_stream stream = {.rfd = p.fd, .wfd = p.fd, .pidfd = -1};
	struct road *r = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	int rc = road_over(&stream, &r, &err);

	/* Nobody answers: a full run ends at its deadline. */
	if (rc == 0)
		rc = road_ask(r, WIRE_INFO, NULL, deadline_from_ms(1), NULL, &err);
	road_put(r);
	return rc == BERTH_E_TIMEOUT ? 0 : rc;
}

TEST(roads_survive_every_missing_allocation)
{
	struct peer p = peer_start(NULL, 0, false, true, true);

	torture(tortured, &p);
	peer_end(&p);
}

TEST_MAIN()
