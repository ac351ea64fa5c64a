/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_SYNTHETIC_H
#define BERTH_TESTS_SYNTHETIC_H
/*
 * Records that no agent made: written entry by entry in the test's own directory, and a small
 * supervisor process that holds the lock, answers WATCH on the control socket, and does what the
 * test tells it over a pipe.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "core/core.h"
#include "core/provider.h"
#include "tap.h"
#include "wire/journal.h"
#include "wire/spec.h"

/* ── a driver whose berth directory is ./berth ──────────────────────────────────────────── */

static enum berth_sandbox_status syn_status = BERTH_SANDBOX_RUNNING;

static int syn_attach(const struct berth_sandbox_spec *spec, void **ret, struct berth_error *err)
{
	*ret = NULL;
	return 0;
}
static void syn_release(void *h)
{
}
static int syn_info(void *h, struct berth_provider_info *ret, struct berth_error *err)
{
	ret->status = syn_status;
	return 0;
}
static int syn_home(void *h, char *home, size_t cap, struct berth_error *err)
{
	return getcwd(home, cap) ? 0 : -1;
}
static int syn_open_dir(void *h, const char *dir, int *ret, struct berth_error *err)
{
	*ret = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? berth_fail(err, BERTH_E_NOT_FOUND, "no %s", dir) : 0;
}
static int syn_open_agent(void *h, const char *dir, struct berth_stream *ret,
			  struct berth_error *err)
{
	return berth_fail(err, BERTH_E_UNAVAILABLE, "no agent here");
}
static const struct berth_provider_ops syn_ops = {
	.abi = BERTH_PROVIDER_ABI,
	.name = "syn",
	.attach = syn_attach,
	.release = syn_release,
	.info = syn_info,
	.home = syn_home,
	.open_dir = syn_open_dir,
	.open_agent = syn_open_agent,
};
static const struct berth_provider_ops *const syn_drivers[] = {&syn_ops};

static struct berth *syn_b;

static struct berth_sandbox *syn_sandbox(void)
{
	struct berth_sandbox *s = NULL;

	ASSERT_EQ(core_context_new("state", syn_drivers, 1, &syn_b, NULL), 0);
	ASSERT_EQ(berth_sandbox_open(syn_b, "syn:s", NULL, 0, &s, NULL), 0);
	return s;
}

static void syn_close(struct berth_sandbox *s)
{
	berth_sandbox_close(s);
	berth_free(syn_b);
}

/* ── records ────────────────────────────────────────────────────────────────────────────── */

struct syn {
	int dirfd, jfd;
	off_t end;
	uint8_t *head; /* mapped */
	uint64_t len[3];
};

static void syn_boot(uint8_t ret[16])
{
	char text[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	ASSERT_GE(read(fd, text, sizeof(text) - 1), 36);
	close(fd);
	for (char *p = text; *p && n < 32; p++) {
		unsigned v = *p >= 'a' ? (unsigned)(*p - 'a' + 10) : (unsigned)(*p - '0');

		if (*p == '-' || *p == '\n')
			continue;
		ret[n / 2] = (uint8_t)(n % 2 ? ret[n / 2] | v : v << 4);
		n++;
	}
}

static void syn_entry(struct syn *r, uint32_t type, const struct wire_w *w)
{
	uint8_t buf[8192];
	size_t n = journal_entry(buf, sizeof(buf), type, w->p, w->len);

	ASSERT_GT(n, 0u);
	ASSERT_EQ(pwrite(r->jfd, buf, n, r->end), (ssize_t)n);
	r->end += (off_t)n;
}

static void syn_state(struct syn *r, int state)
{
	uint8_t buf[256];
	struct wire_w w;

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_int(&w, JK_STATE, state);
	wire_w_int(&w, JK_TIME_MS, 1700000000123);
	wire_w_str(&w, JK_CONTAINMENT, "pidns");
	syn_entry(r, JOURNAL_STATE, &w);
}

static void syn_terminal(struct syn *r, int state, int exit_code)
{
	uint8_t buf[512], hash[16] = {0xab};
	struct wire_w w;

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_int(&w, JK_STATE, state);
	wire_w_int(&w, JK_TIME_MS, 1700000001456);
	if (exit_code >= 0)
		wire_w_int(&w, JK_EXIT_CODE, exit_code);
	wire_w_int(&w, JK_OUT_LEN, (int64_t)r->len[1]);
	wire_w_int(&w, JK_ERR_LEN, (int64_t)r->len[2]);
	wire_w_bytes(&w, JK_OUT_HASH, hash, 16);
	wire_w_bytes(&w, JK_ERR_HASH, hash, 16);
	if (wire_get_u64(r->head + JOURNAL_LIVE + 8) != wire_get_u64(r->head + JOURNAL_LIVE + 16))
		wire_w_bytes(&w, JK_OUT_GAP, r->head + JOURNAL_LIVE + 8, 16);
	syn_entry(r, JOURNAL_TERMINAL, &w);
}

/* A record with a spec, nothing else. */
static struct syn syn_make(const char *id, int64_t wall_ms)
{
	uint8_t head[JOURNAL_FIRST], boot[16], incarnation[16] = "inc", buf[512];
	struct syn r = {.end = JOURNAL_FIRST};
	char path[300];
	struct wire_w w;

	mkdir("berth", 0700);
	mkdir("berth/x", 0700);
	snprintf(path, sizeof(path), "berth/x/%s", id);
	ASSERT_OK(mkdir(path, 0700));
	r.dirfd = ASSERT_OK(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	r.jfd = ASSERT_OK(openat(r.dirfd, "journal", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	syn_boot(boot);
	journal_head(head, boot, incarnation, wall_ms);
	ASSERT_EQ(pwrite(r.jfd, head, sizeof(head), 0), (ssize_t)sizeof(head));
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, SK_ID, id);
	wire_w_str(&w, SK_MODE, "job");
	wire_w_str(&w, SK_ARG, "prog");
	wire_w_str(&w, SK_ARG, "");
	wire_w_str(&w, SK_ARG, id);
	wire_w_str(&w, SK_TREE, "0123456789012345678901234567890123456789012345678901234567890123");
	syn_entry(&r, JOURNAL_SPEC, &w);
	ASSERT_OK(ftruncate(r.jfd, r.end + JOURNAL_RESERVE));
	r.head = mmap(NULL, JOURNAL_FIRST, PROT_READ | PROT_WRITE, MAP_SHARED, r.jfd, 0);
	ASSERT(r.head != MAP_FAILED);
	return r;
}

static void syn_done(struct syn *r)
{
	munmap(r->head, JOURNAL_FIRST);
	close(r->jfd);
	close(r->dirfd);
}

static void syn_word(struct syn *r, int stream, int word, uint64_t v)
{
	uint64_t *p = (uint64_t *)(void *)(r->head + JOURNAL_LIVE + 32 * (stream - 1) + 8 * word);

	__atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

/* Output as the supervisor writes it: the file first, then the length. */
static void syn_output(struct syn *r, int stream, const void *p, size_t n)
{
	int fd = ASSERT_OK(openat(r->dirfd, stream == 2 ? "stderr" : "stdout",
				  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));

	ASSERT_EQ(write(fd, p, n), (ssize_t)n);
	close(fd);
	r->len[stream] += n;
	syn_word(r, stream, 0, r->len[stream]);
}

/* ── a supervisor ───────────────────────────────────────────────────────────────────────── */

struct syn_super {
	pid_t pid;
	int fd; /* orders: one byte each; closed: it goes on */
};

struct syn_conn {
	int fd;
	bool watching, terminal_only, hello;
	int64_t out, err, state;
};

static void syn_send(int fd, const struct wire_w *w)
{
	if (send(fd, w->p, w->len, MSG_NOSIGNAL) < 0)
		_exit(9);
}

static void syn_reply(struct syn *r, int fd, int state)
{
	uint8_t buf[2048];
	struct wire_w w;
	size_t pos;

	wire_w_init(&w, buf, sizeof(buf));
	pos = wire_w_frame_begin(&w, WIRE_OK);
	wire_w_str(&w, WK_ID, "x");
	wire_w_bytes(&w, WK_LIVE, r->head, JOURNAL_FIRST);
	wire_w_int(&w, WK_HELD, 1);
	wire_w_int(&w, WK_SAMEBOOT, 1);
	wire_w_frame_end(&w, pos);
	syn_send(fd, &w);
	(void)state;
}

static bool syn_news(struct syn *r, const struct syn_conn *c, int state)
{
	if (wire_state_is_terminal(state))
		return true;
	return !c->terminal_only &&
	       ((int64_t)r->len[1] != c->out || (int64_t)r->len[2] != c->err || state != c->state);
}

/* One frame; false at the end. */
static bool syn_frame(struct syn *r, struct syn_conn *c, int *state)
{
	uint8_t head[WIRE_FRAME_HEADER], body[4096], buf[256], type;
	uint32_t n;
	struct wire_w w;
	size_t pos;

	if (recv(c->fd, head, sizeof(head), MSG_WAITALL) != (ssize_t)sizeof(head) ||
	    wire_frame_header(head, &type, &n) < 0 || n > sizeof(body) ||
	    (n && recv(c->fd, body, n, MSG_WAITALL) != (ssize_t)n))
		return false;
	if (type == WIRE_HELLO) {
		wire_w_init(&w, buf, sizeof(buf));
		pos = wire_w_frame_begin(&w, WIRE_HELLO);
		wire_w_int(&w, WK_PROTO, 1);
		wire_w_frame_end(&w, pos);
		syn_send(c->fd, &w);
	} else if (type == WIRE_CANCEL) {
		*state = WIRE_S_CANCELLED;
		syn_terminal(r, WIRE_S_CANCELLED, -1);
		syn_reply(r, c->fd, *state);
	} else if (type == WIRE_WATCH) {
		c->watching = true;
		c->terminal_only = wire_find_int(body, n, WK_TERMINAL_ONLY, 0) != 0;
		c->out = wire_find_int(body, n, WK_KNOWN_OUT, 0);
		c->err = wire_find_int(body, n, WK_KNOWN_ERR, 0);
		c->state = wire_find_int(body, n, WK_KNOWN_STATE, 0);
	}
	return true;
}

/* Orders: 'o' ten bytes on stdout, 'e' three on stderr, 'x' exited(5), 'd' dies without a word. */
static void syn_order(struct syn *r, char order, int *state)
{
	switch (order) {
	case 'o':
		syn_output(r, 1, "0123456789", 10);
		break;
	case 'e':
		syn_output(r, 2, "err", 3);
		break;
	case 'x':
		*state = WIRE_S_EXITED;
		syn_terminal(r, WIRE_S_EXITED, 5);
		break;
	default:
		_exit(0);
	}
}

static void syn_serve(struct syn *r, int listener, int orders)
{
	struct syn_conn c[16];
	struct pollfd p[18];
	size_t n = 0;
	int state = WIRE_S_RUNNING;

	for (;;) {
		bool done = wire_state_is_terminal(state);
		char order;

		for (size_t i = 0; i < n; i++) {
			if (c[i].watching && syn_news(r, &c[i], state)) {
				c[i].watching = false;
				syn_reply(r, c[i].fd, state);
			}
			p[2 + i] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
		}
		if (done) {
			unlinkat(r->dirfd, "control", 0);
			_exit(0);
		}
		p[0] = (struct pollfd){.fd = orders, .events = POLLIN};
		p[1] = (struct pollfd){.fd = listener, .events = POLLIN};
		if (poll(p, 2 + n, -1) < 0)
			_exit(8);
		for (size_t i = 0; i < n; i++) {
			if (p[2 + i].revents && !syn_frame(r, &c[i], &state)) {
				close(c[i].fd);
				c[i] = (struct syn_conn){.fd = -1};
			}
		}
		if (p[1].revents && n < 16)
			c[n++] = (struct syn_conn){.fd = accept(listener, NULL, NULL)};
		if (p[0].revents) {
			if (read(orders, &order, 1) != 1)
				orders = -1;
			else
				syn_order(r, order, &state);
		}
	}
}

/* Starts it: holds the lock when this returns. The record is written by the child from now on. */
static struct syn_super syn_supervise(struct syn *r)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct syn_super s;
	int listener, ready[2], orders[2];
	char byte;

	listener = ASSERT_OK(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/control", r->dirfd);
	ASSERT_OK(bind(listener, (struct sockaddr *)&sun, sizeof(sun)));
	ASSERT_OK(listen(listener, 16));
	ASSERT_EQ(fd_pipe(ready, 0), 0);
	ASSERT_EQ(fd_pipe(orders, 0), 0);
	s.pid = ASSERT_OK(fork());
	if (s.pid == 0) {
		char path[64];
		int fd;

		close(orders[1]);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", r->jfd);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || fd_lock(fd, true) < 0)
			_exit(7);
		if (write(ready[1], "r", 1) != 1)
			_exit(6);
		syn_serve(r, listener, orders[0]);
	}
	close(listener);
	close(ready[1]);
	close(orders[0]);
	ASSERT_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	s.fd = orders[1];
	return s;
}

static void syn_tell(const struct syn_super *s, const char *orders)
{
	ASSERT_EQ(write(s->fd, orders, strlen(orders)), (ssize_t)strlen(orders));
}

static void syn_reap(struct syn_super *s)
{
	int status;

	close(s->fd);
	kill(s->pid, SIGKILL);
	waitpid(s->pid, &status, 0);
}

#endif
