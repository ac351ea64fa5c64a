/* SPDX-License-Identifier: MIT */
/* Status, wait, read, follow, cancel, list and remove over records that no agent made. */
#include "synthetic.h"

#include "base/time.h"
#include "core/record.h"
#include "torture.h"

static struct berth_status status_of(struct berth_sandbox *s, const char *id)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st;

	if (berth_status(s, id, &st, &err) < 0)
		FAIL("%s: %s", id, err.message);
	return st;
}

TEST(an_id_without_a_record_is_not_found)
{
	struct berth_sandbox *s = syn_sandbox();
	struct berth_status st;
	struct berth_error err = BERTH_ERROR_INIT;

	ASSERT_EQ(berth_status(s, "nobody", &st, &err), BERTH_E_NOT_FOUND);
	ASSERT_STREQ(err.message, "no execution \"nobody\" in syn:s");
	syn_make("other", 1);
	ASSERT_EQ(berth_status(s, "nobody", &st, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(berth_wait(s, "nobody", -1, &st, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(berth_cancel(s, "nobody", -1, &st, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(berth_remove(s, "nobody", &err), BERTH_E_NOT_FOUND);
	syn_close(s);
}

TEST(states_follow_from_journal_and_lock)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn gone = syn_make("gone", 1), old = syn_make("old", 1),
		   ended = syn_make("ended", 1), runs = syn_make("runs", 1);
	struct syn_super super;
	struct berth_status st;

	syn_make("none", 1);
	st = status_of(s, "none");
	ASSERT_EQ(st.state, BERTH_FAILED);
	ASSERT_STREQ(st.phase, "launch");
	syn_state(&gone, WIRE_S_RUNNING);
	st = status_of(s, "gone");
	ASSERT_EQ(st.state, BERTH_UNKNOWN);
	ASSERT_STREQ(st.message, "supervisor gone");
	ASSERT(st.is_final);
	syn_state(&old, WIRE_S_RUNNING);
	old.head[16] ^= 1; /* another boot */
	st = status_of(s, "old");
	ASSERT_EQ(st.state, BERTH_UNKNOWN);
	ASSERT_STREQ(st.message, "host rebooted");
	syn_state(&ended, WIRE_S_RUNNING);
	syn_output(&ended, 1, "hello", 5);
	syn_terminal(&ended, WIRE_S_EXITED, 200);
	st = status_of(s, "ended");
	ASSERT_EQ(st.state, BERTH_EXITED);
	ASSERT_EQ(st.exit_code, 200);
	ASSERT_EQ(st.stdout_bytes, 5u);
	ASSERT_EQ(st.started_ms, 1700000000123);
	ASSERT_EQ(st.finished_ms, 1700000001456);
	ASSERT_STREQ(st.mode, "job");
	ASSERT_STREQ(st.containment, "pidns");
	ASSERT_STREQ(st.stdout_hash, "xxh3-128:ab000000000000000000000000000000");
	ASSERT_EQ(strlen(st.artifact), 64u);
	syn_state(&runs, WIRE_S_RUNNING);
	super = syn_supervise(&runs);
	st = status_of(s, "runs");
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT(!st.is_final);
	syn_reap(&super);
	ASSERT_EQ(status_of(s, "runs").state, BERTH_UNKNOWN);
	syn_close(s);
}

TEST(damaged_records_are_errors_and_no_lies)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("short", 1);
	struct berth_status st;
	struct berth_error err = BERTH_ERROR_INIT;

	ASSERT_OK(ftruncate(r.jfd, 100));
	ASSERT_EQ(berth_status(s, "short", &st, &err), BERTH_E_IO);
	ASSERT_CONTAINS(err.message, "damaged");
	r = syn_make("magic", 1);
	r.head[0] ^= 1;
	ASSERT_EQ(berth_status(s, "magic", &st, &err), BERTH_E_IO);
	r = syn_make("link", 1);
	ASSERT_OK(unlinkat(r.dirfd, "journal", 0));
	ASSERT_OK(symlinkat("/etc/passwd", r.dirfd, "journal"));
	ASSERT_EQ(berth_status(s, "link", &st, &err), BERTH_E_IO);
	ASSERT_OK(mkdir("berth/x/empty", 0700));
	ASSERT_EQ(berth_status(s, "empty", &st, &err), BERTH_E_NOT_FOUND);
	syn_close(s);
}

/* ── waiting ────────────────────────────────────────────────────────────────────────────── */

/* Runs the rest in a child, so that the test can give orders while a call blocks. */
struct waiter {
	pid_t pid;
	int fd; /* tells how the call ended */
};

struct wait_end {
	int rc;
	struct berth_status st;
};

static struct waiter wait_in_child(const char *id, int64_t timeout_ms)
{
	struct waiter w;
	int fds[2];

	ASSERT_EQ(fd_pipe(fds, 0), 0);
	w.pid = ASSERT_OK(fork());
	if (w.pid == 0) {
		struct wait_end e = {.rc = 1};
		struct berth_sandbox *s = NULL;

		if (core_context_new("state", syn_drivers, 1, &syn_b, NULL) < 0 ||
		    berth_sandbox_open(syn_b, "syn:s", NULL, 0, &s, NULL) < 0)
			_exit(1);
		e.rc = berth_wait(s, id, timeout_ms, &e.st, NULL);
		_exit(write(fds[1], &e, sizeof(e)) != (ssize_t)sizeof(e));
	}
	close(fds[1]);
	w.fd = fds[0];
	return w;
}

static struct wait_end waiter_end(struct waiter *w)
{
	struct wait_end e;
	int status;

	ASSERT_EQ(read(w->fd, &e, sizeof(e)), (ssize_t)sizeof(e));
	close(w->fd);
	waitpid(w->pid, &status, 0);
	return e;
}

static bool still_waits(const struct waiter *w)
{
	struct pollfd p = {.fd = w->fd, .events = POLLIN};

	return poll(&p, 1, 30) == 0;
}

TEST(wait_sees_the_end_and_nothing_before)
{
	struct syn r = syn_make("w", 1);
	struct syn_super super;
	struct waiter w;
	struct wait_end e;

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	w = wait_in_child("w", -1);
	syn_tell(&super, "oe");
	ASSERT(still_waits(&w));
	syn_tell(&super, "x");
	e = waiter_end(&w);
	ASSERT_EQ(e.rc, 0);
	ASSERT_EQ(e.st.state, BERTH_EXITED);
	ASSERT_EQ(e.st.exit_code, 5);
	ASSERT_EQ(e.st.stdout_bytes, 10u);
	syn_reap(&super);
}

TEST(wait_sees_a_supervisor_die)
{
	struct syn r = syn_make("w", 1);
	struct syn_super super;
	struct waiter w;
	struct wait_end e;

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	w = wait_in_child("w", -1);
	ASSERT(still_waits(&w));
	syn_tell(&super, "d");
	e = waiter_end(&w);
	ASSERT_EQ(e.rc, 0);
	ASSERT_EQ(e.st.state, BERTH_UNKNOWN);
	ASSERT_STREQ(e.st.message, "supervisor gone");
	syn_reap(&super);
}

TEST(wait_has_a_time_limit)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("w", 1);
	struct syn_super super;
	struct berth_status st = {0};
	int64_t before = now_mono_ns();

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	ASSERT_EQ(berth_wait(s, "w", 40, &st, NULL), BERTH_E_TIMEOUT);
	ASSERT_GE((now_mono_ns() - before) / NS_PER_MS, 40);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT_EQ(berth_wait(s, "w", 0, &st, NULL), BERTH_E_TIMEOUT);
	syn_reap(&super);
	syn_close(s);
}

TEST(wait_for_one_without_a_control_socket_yet)
{
	struct syn r = syn_make("w", 1);
	struct syn_super super;
	struct waiter w;
	struct wait_end e;

	super = syn_supervise(&r); /* no STATE entry: starting */
	ASSERT_OK(renameat(r.dirfd, "control", r.dirfd, "later"));
	w = wait_in_child("w", -1);
	ASSERT(still_waits(&w));
	ASSERT_OK(renameat(r.dirfd, "later", r.dirfd, "control"));
	syn_tell(&super, "x");
	e = waiter_end(&w);
	ASSERT_EQ(e.rc, 0);
	ASSERT_EQ(e.st.state, BERTH_EXITED);
	syn_reap(&super);
}

TEST(cancel_returns_what_was_reached)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("c", 1);
	struct syn_super super;
	struct berth_status st = {0};

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	ASSERT_EQ(berth_cancel(s, "c", 0, &st, NULL), 0);
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	ASSERT_EQ(berth_cancel(s, "c", -1, &st, NULL), 0);
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	ASSERT_EQ(berth_signal(s, "c", SIGUSR1, NULL), BERTH_E_CONFLICT);
	syn_reap(&super);
	syn_close(s);
}

/* ── reading ────────────────────────────────────────────────────────────────────────────── */

/* Twenty bytes of head, a gap up to 90, ten bytes of ring (tail_cap 20, length 100). */
static struct syn with_gap(const char *id, bool sealed)
{
	struct syn r = syn_make(id, 1);
	char ring[20];
	int fd;

	syn_state(&r, WIRE_S_RUNNING);
	syn_output(&r, 1, "HHHHHHHHHHhhhhhhhhhh", 20);
	for (int i = 0; i < 20; i++) /* offset o is at o mod 20: 80…99 are kept */
		ring[i] = (char)('a' + i);
	fd = ASSERT_OK(openat(r.dirfd, "stdout.tail", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ASSERT_EQ(write(fd, ring, 20), 20);
	close(fd);
	r.len[1] = 100;
	syn_word(&r, 1, 0, 100);
	syn_word(&r, 1, 1, 20);
	syn_word(&r, 1, 2, 80);
	syn_word(&r, 1, 3, 20);
	if (sealed)
		syn_terminal(&r, WIRE_S_EXITED, 0);
	return r;
}

TEST(reads_follow_the_rules_of_gaps)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = with_gap("g", true);
	struct berth_read_result res;
	char buf[200];

	ASSERT_EQ(berth_read(s, "g", BERTH_STDOUT, 0, buf, sizeof(buf), &res, NULL), 0);
	ASSERT_EQ(res.n, 20u);
	ASSERT_EQ(res.next_offset, 20u);
	ASSERT(!res.eof && res.truncated && !res.interrupted);
	ASSERT_MEMEQ(buf, 20, "HHHHHHHHHHhhhhhhhhhh", 20);
	ASSERT_EQ(berth_read(s, "g", BERTH_STDOUT, 20, buf, sizeof(buf), &res, NULL), 0);
	ASSERT(res.has_gap);
	ASSERT_EQ(res.gap_from, 20u);
	ASSERT_EQ(res.gap_to, 80u);
	ASSERT_EQ(res.offset, 80u);
	ASSERT_EQ(res.next_offset, 100u);
	ASSERT(res.eof && res.has_total);
	ASSERT_EQ(res.total, 100u);
	ASSERT_MEMEQ(buf, res.n, "abcdefghijklmnopqrst", 20);
	ASSERT_EQ(berth_read(s, "g", BERTH_STDOUT, 95, buf, 3, &res, NULL), 0);
	ASSERT_MEMEQ(buf, res.n, "pqr", 3);
	ASSERT(!res.eof && res.truncated);
	ASSERT_EQ(berth_read(s, "g", BERTH_STDOUT, 1000, buf, 3, &res, NULL), 0);
	ASSERT_EQ(res.n, 0u);
	ASSERT_EQ(res.next_offset, 1000u);
	ASSERT_EQ(berth_read(s, "g", BERTH_STDERR, 0, buf, 3, &res, NULL), 0);
	ASSERT(res.eof);
	ASSERT_EQ(berth_read(s, "g", (enum berth_output)3, 0, buf, 3, &res, NULL), BERTH_E_INVALID);
	syn_done(&r);
	syn_close(s);
}

TEST(a_stopped_sandbox_still_gives_its_output)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("i", 1);
	struct berth_read_result res;
	struct berth_status st;
	char buf[10];

	syn_state(&r, WIRE_S_RUNNING);
	syn_output(&r, 1, "abc", 3);
	syn_status = BERTH_SANDBOX_STOPPED;
	ASSERT_EQ(berth_read(s, "i", BERTH_STDOUT, 0, buf, sizeof(buf), &res, NULL), 0);
	ASSERT_EQ(res.n, 3u);
	ASSERT(res.interrupted && !res.eof);
	st = status_of(s, "i");
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_STREQ(st.provider_state, "stopped");
	syn_close(s);
}

/* ── following ──────────────────────────────────────────────────────────────────────────── */

struct seen {
	char text[3][4096];
	size_t n[3];
	uint64_t from, to;
	int gaps, stop_after;
};

static int see(void *arg, enum berth_output stream, const void *p, size_t n)
{
	struct seen *x = arg;

	ASSERT_LE(x->n[stream] + n, sizeof(x->text[0]));
	memcpy(x->text[stream] + x->n[stream], p, n);
	x->n[stream] += n;
	return x->stop_after && x->n[stream] >= (size_t)x->stop_after ? 77 : 0;
}

static void see_gap(void *arg, enum berth_output stream, uint64_t from, uint64_t to)
{
	struct seen *x = arg;

	x->from = from;
	x->to = to;
	x->gaps++;
}

static struct berth_follow follow_into(struct seen *x)
{
	struct berth_follow f;

	memset(x, 0, sizeof(*x));
	berth_follow_init(&f);
	f.data = see;
	f.gap = see_gap;
	f.arg = x;
	return f;
}

TEST(follow_gets_every_byte_and_the_state)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("f", 1);
	struct syn_super super;
	struct seen x;
	struct berth_follow f = follow_into(&x);
	struct berth_status st = {0};

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	syn_tell(&super, "ooeoeeox");
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), 0);
	ASSERT_EQ(st.state, BERTH_EXITED);
	ASSERT_MEMEQ(x.text[1], x.n[1], "0123456789012345678901234567890123456789", 40);
	ASSERT_MEMEQ(x.text[2], x.n[2], "errerrerr", 9);
	ASSERT_EQ(f.offset[1], 40u);
	ASSERT_EQ(f.offset[2], 9u);
	ASSERT_EQ(x.gaps, 0);
	/* Again, from the middle, with nobody there any more. */
	f = follow_into(&x);
	f.streams = 1u << BERTH_STDOUT;
	f.offset[1] = 35;
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), 0);
	ASSERT_MEMEQ(x.text[1], x.n[1], "56789", 5);
	ASSERT_EQ(x.n[2], 0u);
	syn_reap(&super);
	syn_close(s);
}

TEST(follow_tells_gaps)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = with_gap("g", true);
	struct seen x;
	struct berth_follow f = follow_into(&x);
	struct berth_status st;

	ASSERT_EQ(berth_follow(s, "g", &f, &st, NULL), 0);
	ASSERT_EQ(x.gaps, 1);
	ASSERT_EQ(x.from, 20u);
	ASSERT_EQ(x.to, 80u);
	ASSERT_EQ(x.n[1], 40u);
	ASSERT_EQ(f.offset[1], 100u);
	f = follow_into(&x);
	f.offset[1] = 50;
	ASSERT_EQ(berth_follow(s, "g", &f, &st, NULL), 0);
	ASSERT_EQ(x.from, 50u);
	ASSERT_EQ(x.to, 80u);
	ASSERT_EQ(x.n[1], 20u);
	syn_done(&r);
	syn_close(s);
}

TEST(follow_ends_when_the_supervisor_does)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("f", 1);
	struct syn_super super;
	struct seen x;
	struct berth_follow f = follow_into(&x);
	struct berth_status st = {0};

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	syn_tell(&super, "od");
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), 0);
	ASSERT_EQ(st.state, BERTH_UNKNOWN);
	ASSERT_EQ(x.n[1], 10u);
	syn_reap(&super);
	syn_close(s);
}

TEST(follow_stops_where_it_is_told)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("f", 1);
	struct syn_super super;
	struct seen x;
	struct berth_follow f = follow_into(&x);
	struct berth_status st = {0};
	int fds[2];

	syn_state(&r, WIRE_S_RUNNING);
	syn_output(&r, 1, "now", 3);
	super = syn_supervise(&r);
	f.until_current = true;
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), 0);
	ASSERT_EQ(x.n[1], 3u);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	/* A callback that has had enough. */
	f = follow_into(&x);
	x.stop_after = 2;
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), 77);
	/* Somebody outside. */
	ASSERT_EQ(fd_pipe(fds, 0), 0);
	ASSERT_EQ(write(fds[1], "x", 1), 1);
	f = follow_into(&x);
	f.cancel_fd = fds[0];
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), BERTH_E_TIMEOUT);
	ASSERT_EQ(f.offset[1], 3u);
	f = follow_into(&x);
	f.data = NULL;
	ASSERT_EQ(berth_follow(s, "f", &f, &st, NULL), BERTH_E_INVALID);
	syn_reap(&super);
	syn_close(s);
}

/* ── into fds ───────────────────────────────────────────────────────────────────────────── */

enum fd_kind { TO_FILE, TO_APPEND, TO_PIPE, TO_SOCKET, TO_NULL };
static const char *const fd_kinds[] = {"file", "append", "pipe", "socket", "null"};

#define BIG (3u << 20)

/* Reads everything on the other end and compares. */
static pid_t check_reader(int fd, int close_fd)
{
	pid_t pid = ASSERT_OK(fork());

	if (pid == 0) {
		uint8_t buf[65536];
		uint64_t at = 0;
		ssize_t n;

		close(close_fd);
		while ((n = read(fd, buf, sizeof(buf))) > 0) {
			for (ssize_t i = 0; i < n; i++, at++) {
				if (buf[i] != (uint8_t)(at * 7 + at / 251))
					_exit(1);
			}
		}
		_exit(at == BIG ? 0 : 2);
	}
	return pid;
}

TEST(follow_writes_to_every_kind_of_fd)
{
	static uint8_t bytes[BIG];
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("big", 1);

	for (uint64_t i = 0; i < BIG; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	syn_state(&r, WIRE_S_RUNNING);
	syn_output(&r, 1, bytes, BIG);
	syn_terminal(&r, WIRE_S_EXITED, 0);
	for (int kind = TO_FILE; kind <= TO_NULL; kind++) {
		SUBTEST("%s", fd_kinds[kind])
		{
			struct berth_follow f;
			struct berth_status st;
			int fd[2] = {-1, -1}, status = 0;
			pid_t pid = 0;

			if (kind == TO_PIPE)
				ASSERT_EQ(fd_pipe(fd, 0), 0);
			else if (kind == TO_SOCKET)
				ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd));
			else
				fd[1] = ASSERT_OK(open(kind == TO_NULL ? "/dev/null" : "out",
						       O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC |
							       (kind == TO_APPEND ? O_APPEND : 0),
						       0600));
			if (fd[0] >= 0) {
				pid = check_reader(fd[0], fd[1]);
				close(fd[0]);
			}
			berth_follow_init(&f);
			f.streams = 1u << BERTH_STDOUT;
			f.fd_out[1] = fd[1];
			ASSERT_EQ(berth_follow(s, "big", &f, &st, NULL), 0);
			ASSERT_EQ(f.offset[1], BIG);
			if (kind == TO_FILE || kind == TO_APPEND) {
				lseek(fd[1], 0, SEEK_SET);
				pid = check_reader(fd[1], -1);
			}
			close(fd[1]);
			if (pid)
				waitpid(pid, &status, 0);
			ASSERT_EQ(status, 0);
		}
	}
	syn_close(s);
}

TEST(a_reader_that_is_gone_is_epipe)
{
	static uint8_t bytes[BIG];
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("big", 1);
	struct berth_follow f;
	struct berth_status st;
	struct berth_error err = BERTH_ERROR_INIT;
	int fd[2];

	signal(SIGPIPE, SIG_DFL);
	syn_state(&r, WIRE_S_RUNNING);
	syn_output(&r, 1, bytes, BIG);
	syn_terminal(&r, WIRE_S_EXITED, 0);
	ASSERT_EQ(fd_pipe(fd, 0), 0);
	close(fd[0]);
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.fd_out[1] = fd[1];
	ASSERT_EQ(berth_follow(s, "big", &f, &st, &err), BERTH_E_IO);
	ASSERT_EQ(err.sys_errno, EPIPE);
	ASSERT_EQ(f.offset[1], 0u);
	syn_close(s);
}

TEST(a_reader_that_does_not_read_does_not_stop_a_cancel)
{
	static uint8_t bytes[BIG];
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("big", 1);
	struct berth_follow f;
	struct berth_status st;
	int fd[2], cancel[2], status;
	pid_t pid;

	syn_state(&r, WIRE_S_RUNNING);
	syn_output(&r, 1, bytes, BIG);
	ASSERT_EQ(fd_pipe(fd, 0), 0);
	ASSERT_EQ(fd_pipe(cancel, 0), 0);
	pid = ASSERT_OK(fork());
	if (pid == 0) { /* cancels when the pipe is full, or at least has something in it */
		struct pollfd p = {.fd = fd[0], .events = POLLIN};

		_exit(poll(&p, 1, 5000) != 1 || write(cancel[1], "x", 1) != 1);
	}
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.fd_out[1] = fd[1];
	f.cancel_fd = cancel[0];
	ASSERT_EQ(berth_follow(s, "big", &f, &st, NULL), BERTH_E_TIMEOUT);
	ASSERT_GT(f.offset[1], 0u);
	ASSERT_LT(f.offset[1], BIG);
	waitpid(pid, &status, 0);
	ASSERT_EQ(status, 0);
	syn_close(s);
}

/* ── many ───────────────────────────────────────────────────────────────────────────────── */

static char listed[512];

static int list_fn(void *arg, const struct berth_record *r)
{
	ASSERT_EQ(r->n_command, 3u);
	ASSERT_STREQ(r->command[0], "prog");
	ASSERT_STREQ(r->command[1], "");
	ASSERT_STREQ(r->command[2], r->status.id);
	ASSERT_NULL(r->command[3]);
	strcat(strcat(listed, r->status.id), " ");
	return *(int *)arg;
}

TEST(lists_are_newest_first)
{
	struct berth_sandbox *s = syn_sandbox();
	int go_on = 0, stop = 5;

	ASSERT_EQ(berth_list(s, list_fn, &go_on, NULL), 0);
	ASSERT_STREQ(listed, "");
	syn_make("b", 2000);
	syn_make("a", 3000);
	syn_make("d", 1000);
	syn_make("c", 1000);
	ASSERT_OK(mkdir("berth/x/.tmp", 0700));
	ASSERT_OK(mkdir("berth/x/no-journal", 0700));
	ASSERT_EQ(berth_list(s, list_fn, &go_on, NULL), 0);
	ASSERT_STREQ(listed, "a b c d ");
	listed[0] = '\0';
	ASSERT_EQ(berth_list(s, list_fn, &stop, NULL), 5);
	ASSERT_STREQ(listed, "a ");
	syn_close(s);
}

TEST(only_what_has_ended_is_removed)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = syn_make("r", 1);
	struct syn_super super;
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st;

	syn_state(&r, WIRE_S_RUNNING);
	super = syn_supervise(&r);
	ASSERT_EQ(berth_remove(s, "r", &err), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message, "execution \"r\" has not ended");
	syn_reap(&super);
	ASSERT_EQ(berth_remove(s, "r", &err), 0);
	ASSERT_EQ(berth_status(s, "r", &st, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(access("berth/x/r", F_OK), -1);
	syn_close(s);
}

/* ── torture ────────────────────────────────────────────────────────────────────────────── */

static int ask_everything(void *arg)
{
	struct berth_sandbox *s = NULL;
	struct berth *b = NULL;
	struct berth_status st;
	struct berth_read_result res;
	struct seen x;
	struct berth_follow f = follow_into(&x);
	char buf[64];
	uint8_t *p = NULL;
	size_t n;
	int go_on = 0, rc;

	listed[0] = '\0';
	rc = core_context_new("/state", syn_drivers, 1, &b, NULL);
	if (rc == 0)
		rc = berth_sandbox_open(b, "syn:s", NULL, 0, &s, NULL);
	if (rc == 0)
		rc = berth_status(s, "g", &st, NULL);
	if (rc == 0)
		rc = berth_read(s, "g", BERTH_STDOUT, 80, buf, sizeof(buf), &res, NULL);
	if (rc == 0)
		rc = berth_follow(s, "g", &f, &st, NULL);
	if (rc == 0)
		rc = berth_list(s, list_fn, &go_on, NULL);
	if (rc == 0)
		rc = record_fetch(s, "g", WIRE_KIND_EXECUTION, &p, &n, NULL);
	free(p);
	berth_sandbox_close(s);
	berth_free(b);
	return rc;
}

TEST(asking_survives_every_missing_allocation)
{
	struct syn r = with_gap("g", true);

	torture(ask_everything, NULL);
	syn_done(&r);
}

TEST(a_fetched_record_is_a_status_reply)
{
	struct berth_sandbox *s = syn_sandbox();
	struct syn r = with_gap("g", true);
	struct berth_status st;
	uint8_t *p = NULL;
	size_t n = 0;
	struct wire_slice spec;

	ASSERT_EQ(record_fetch(s, "g", WIRE_KIND_EXECUTION, &p, &n, NULL), 0);
	ASSERT_EQ(status_from_reply((struct wire_slice){p, n}, false, &st, NULL), 0);
	ASSERT_EQ(st.state, BERTH_EXITED);
	ASSERT_STREQ(st.id, "g");
	ASSERT_EQ(st.stdout_bytes, 100u);
	spec = reply_spec((struct wire_slice){p, n});
	ASSERT_GT(spec.n, 0u);
	ASSERT_EQ(status_from_reply((struct wire_slice){p, 20}, false, &st, NULL),
		  BERTH_E_PROTOCOL);
	free(p);
	syn_done(&r);
	syn_close(s);
}

TEST_MAIN()
