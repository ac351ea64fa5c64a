/* SPDX-License-Identifier: MIT */
/*
 * exec.c: one command in the sandbox, byte for byte, with its code; guests that may leave something
 * behind; files in and out.
 */
#include "conf.h"

#define EXECS (BERTH_CAP_EXECUTE | BERTH_CAP_STREAM)

/* The worker lies in the sandbox's home for these cases. */
static void bring_worker(void)
{
	if (home_size("worker") == 0)
		OK(berth_copy_in(box(), conf.worker, NULL, "worker", &E));
}

struct exec_io {
	struct bytes out, err;
	struct berth_exec_result r;
};

static void drain_both(int out_fd, int err_fd, struct exec_io *x)
{
	static char buf[65536];

	while (out_fd >= 0 || err_fd >= 0) {
		struct pollfd p[2] = {{out_fd, POLLIN, 0}, {err_fd, POLLIN, 0}};

		ASSERT_GT(poll(p, 2, 30000), 0);
		for (int i = 0; i < 2; i++) {
			int *fd = i ? &err_fd : &out_fd;
			ssize_t n;

			if (*fd < 0 || !p[i].revents)
				continue;
			n = read(*fd, buf, sizeof(buf));
			if (n > 0)
				bytes_add(i ? &x->err : &x->out, buf, (size_t)n);
			else
				*fd = -1;
		}
	}
}

static char *last_out, *last_err;

/* Runs it in a child process (so that its output can be read here) and returns what berth_exec
 * did. */
static int exec_request(struct berth_exec_request *q, struct exec_io *x)
{
	struct report {
		int rc;
		struct berth_exec_result r;
		struct berth_error e;
	} rep;
	int o[2], e[2], back[2];
	pid_t pid;

	/* What the last call gave is over with this one. */
	free(last_out);
	free(last_err);
	memset(x, 0, sizeof(*x));
	bytes_add(&x->out, "", 0);
	bytes_add(&x->err, "", 0);
	ASSERT_OK(pipe2(o, O_CLOEXEC));
	ASSERT_OK(pipe2(e, O_CLOEXEC));
	ASSERT_OK(pipe2(back, O_CLOEXEC));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		memset(&rep, 0, sizeof(rep));
		q->stdout_fd = o[1];
		q->stderr_fd = e[1];
		close(o[0]);
		close(e[0]);
		rep.rc = berth_exec(box(), q, &rep.r, &rep.e);
		_exit(write(back[1], &rep, sizeof(rep)) == (ssize_t)sizeof(rep) ? 0 : 1);
	}
	close(o[1]);
	close(e[1]);
	close(back[1]);
	drain_both(o[0], e[0], x);
	ASSERT_EQ(read(back[0], &rep, sizeof(rep)), (ssize_t)sizeof(rep));
	waitpid(pid, NULL, 0);
	close(o[0]);
	close(e[0]);
	close(back[0]);
	last_out = x->out.p;
	last_err = x->err.p;
	x->r = rep.r;
	E = rep.e;
	return rep.rc;
}

static void exec_init(struct berth_exec_request *q, const char *mark, const char *what)
{
	bring_worker();
	berth_exec_request_init(q);
	q->command = ops(mark, what);
}

static void exec_ok(const char *mark, const char *what, struct exec_io *x)
{
	struct berth_exec_request q;

	exec_init(&q, mark, what);
	OK(exec_request(&q, x));
	ASSERT(!x->r.timed_out && !x->r.detached);
}

CASE(codes_and_signals, EXECS)
{
	static const int codes[] = {0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255};
	static const int signals[] = {SIGTERM, SIGKILL, SIGSEGV, SIGHUP, SIGUSR1};
	struct exec_io x;
	char what[32];

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		snprintf(what, sizeof(what), "exit %d", codes[i]);
		exec_ok("codes", what, &x);
		ASSERT_EQ(x.r.exit_code, codes[i]);
		ASSERT_EQ(x.r.signo, 0);
	}
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		snprintf(what, sizeof(what), "raise %d", signals[i]);
		exec_ok("codes", what, &x);
		ASSERT_EQ(x.r.exit_code, -1);
		ASSERT_EQ(x.r.signo, signals[i]);
	}
}

CASE(streams_byte_for_byte, EXECS)
{
	struct exec_io x;
	uint8_t all[256];
	char *want = malloc(3000000);

	ASSERT_NOT_NULL(want);
	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	exec_ok("streams", "bytes256 1 rand 2 6 100000", &x);
	ASSERT_MEMEQ(x.out.p, x.out.n, all, 256);
	pattern_fill(6, 0, want, 100000);
	ASSERT_EQ(x.err.n, 100000u);
	ASSERT(memcmp(x.err.p, want, 100000) == 0);
	exec_ok("streams", "rand 1 7 3000000 exit 5", &x);
	pattern_fill(7, 0, want, 3000000);
	ASSERT_EQ(x.out.n, 3000000u);
	ASSERT(memcmp(x.out.p, want, 3000000) == 0);
	ASSERT_EQ(x.r.exit_code, 5);
	free(want);
}

CASE(stdin_and_its_end, EXECS)
{
	struct berth_exec_request q;
	struct exec_io x;
	char *data = malloc(2000000);
	int fd = ASSERT_OK(open("data", O_RDWR | O_CREAT | O_CLOEXEC, 0600));

	ASSERT_NOT_NULL(data);
	exec_ok("no-stdin", "cat out end", &x);
	ASSERT_STREQ(x.out.p, "end");
	pattern_fill(2, 0, data, 2000000);
	ASSERT_EQ(write(fd, data, 2000000), 2000000);
	ASSERT_OK((int)lseek(fd, 0, SEEK_SET));
	exec_init(&q, "stdin", "cat");
	q.stdin_fd = fd;
	OK(exec_request(&q, &x));
	ASSERT_EQ(x.out.n, 2000000u);
	ASSERT(memcmp(x.out.p, data, 2000000) == 0);
	/* One that does not read it all. */
	ASSERT_OK((int)lseek(fd, 0, SEEK_SET));
	exec_init(&q, "stdin", "take 5 exit 3");
	q.stdin_fd = fd;
	OK(exec_request(&q, &x));
	ASSERT_EQ(x.r.exit_code, 3);
	ASSERT_EQ(x.out.n, 5u);
	close(fd);
	free(data);
}

CASE(env_and_workdir, EXECS)
{
	struct berth_exec_request q;
	struct exec_io x;

	exec_init(&q, "env", "getenv A getenv HOME out : getenv CALLERS");
	setenv("CALLERS", "no", 1);
	q.env = (const char *const[]){"A=a b\n=", NULL};
	OK(exec_request(&q, &x));
	ASSERT(strncmp(x.out.p, "a b\n=/", 6) == 0);
	ASSERT_CONTAINS(x.out.p, ":(unset)");
	exec_ok("mk", "mkdir wd write wd/f text", &x);
	ASSERT_EQ(x.r.exit_code, 0);
	OK(berth_copy_in(box(), conf.worker, NULL, "wd/worker", &E));
	exec_init(&q, "wd", "read f");
	q.workdir = "wd";
	OK(exec_request(&q, &x));
	ASSERT_STREQ(x.out.p, "text");
	exec_init(&q, "wd", "exit 0");
	q.workdir = "no/such/dir";
	ASSERT_LT(exec_request(&q, &x), 0);
	ASSERT_CONTAINS(E.message, "no/such/dir");
}

CASE(what_cannot_be_started, EXECS)
{
	struct berth_exec_request q;
	struct exec_io x;

	exec_init(&q, "nope", "");
	q.command = (const char *const[]){"no-such-command-here", NULL};
	ASSERT_EQ(exec_request(&q, &x), BERTH_E_NOT_FOUND);
	ASSERT_EQ(E.sys_errno, ENOENT);
	ASSERT_CONTAINS(E.message, "no-such-command-here");
	q.command = (const char *const[]){"/", NULL};
	ASSERT_EQ(exec_request(&q, &x), BERTH_E_PERM);
	ASSERT_EQ(E.sys_errno, EACCES);
	q.command = (const char *const[]){NULL};
	ASSERT_EQ(exec_request(&q, &x), BERTH_E_INVALID);
}

CASE(a_timeout_reaches_everything, EXECS)
{
	struct berth_exec_request q;
	struct exec_io x;
	int64_t t;

	exec_init(&q, "late", "spawn daemon { nullio up pause } spawn setsid { up pause } pause");
	q.timeout_ms = 250;
	t = now_ms();
	OK(exec_request(&q, &x));
	t = now_ms() - t;
	ASSERT(x.r.timed_out);
	ASSERT_GE(t, 245);
	ASSERT_LE(t, 1500);
	assert_gone("late");
	exec_init(&q, "deaf", "spawn daemon { ignore TERM nullio up pause } ignore TERM pause");
	q.timeout_ms = 100;
	q.grace_ms = 100;
	OK(exec_request(&q, &x));
	ASSERT(x.r.timed_out);
	ASSERT_EQ(x.r.signo, SIGKILL);
	assert_gone("deaf");
	exec_init(&q, "in-time", "exit 124");
	q.timeout_ms = 20000;
	OK(exec_request(&q, &x));
	ASSERT(!x.r.timed_out);
	ASSERT_EQ(x.r.exit_code, 124);
}

static void kill_marked(const char *id)
{
	pid_t pid;

	while (processes_with(mark_of(id), &pid)) {
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);
		struct pollfd p = {fd, POLLIN, 0};

		kill(pid, SIGKILL);
		if (fd >= 0)
			poll(&p, 1, 5000);
		close(fd);
	}
}

CASE(what_it_leaves_in_the_background_lives_on, EXECS)
{
	struct exec_io x;
	int64_t t = now_ms();

	/* It holds the pipes, as `nohup server &` does; the exit is told all the same. */
	exec_ok("server", "spawn daemon { ignore HUP up pause } out started exit 3", &x);
	ASSERT_EQ(x.r.exit_code, 3);
	ASSERT_STREQ(x.out.p, "started");
	ASSERT_LE(now_ms() - t, 5000);
	ASSERT_EQ(processes_with(mark_of("server"), NULL), 1u);
	/* It may go on writing: nobody listens and nothing happens to it. */
	exec_ok("writer",
		"spawn daemon { block USR1 up await USR1 rand 1 1 300000 rand 2 1 300000 "
		"append ~/wrote x pause } exit 0",
		&x);
	{
		pid_t pid = 0;
		int64_t end = now_ms() + 10000;

		ASSERT_EQ(processes_with(mark_of("writer"), &pid), 1u);
		kill(pid, SIGUSR1);
		while (home_size("wrote") == 0 && now_ms() < end)
			;
		ASSERT_EQ(home_size("wrote"), 1u);
	}
	kill_marked("server");
	kill_marked("writer");
}

static int exec_and_wait(void *arg)
{
	struct berth_exec_request q;
	struct berth_exec_result r;

	exec_init(&q, "callers", "spawn setsid { ignore TERM up pause } ready ignore TERM pause");
	q.stdout_fd = *(int *)arg;
	berth_exec(box(), &q, &r, &E);
	return 0;
}

CASE(it_ends_with_its_caller, EXECS)
{
	int fds[2];
	pid_t pid, left = 0;
	char byte;

	ASSERT_OK(pipe(fds));
	bring_worker();
	pid = in_child(exec_and_wait, &fds[1]);
	ASSERT_EQ(read(fds[0], &byte, 1), 1);
	ASSERT_GE(processes_with(mark_of("callers"), NULL), 2u);
	kill(pid, SIGKILL);
	exit_of(pid);
	/* Each of them dies; that is what their pidfds say. */
	for (int i = 0; i < 10 && processes_with(mark_of("callers"), &left); i++) {
		int fd = (int)syscall(SYS_pidfd_open, left, 0);
		struct pollfd p = {fd, POLLIN, 0};

		if (fd >= 0)
			ASSERT_EQ(poll(&p, 1, 10000), 1);
		close(fd);
	}
	assert_gone("callers");
}

CASE(signals_pass, EXECS)
{
	struct berth_exec_control c = {.what = 's', .a = SIGUSR2};
	struct berth_exec_request q;
	struct exec_io x;
	int fds[2];

	ASSERT_EQ(sizeof(c), 4u);
	ASSERT_OK(pipe(fds));
	exec_init(&q, "control", "trap USR1 block USR2 await USR2 out came exit 4");
	q.control_fd = fds[0];
	ASSERT_EQ(write(fds[1], &c, sizeof(c)), 4);
	/* Sent before the worker blocks it, it ends the worker: both are right, silence is not. */
	OK(exec_request(&q, &x));
	ASSERT((x.r.exit_code == 4 && strcmp(x.out.p, "came") == 0) || x.r.signo == SIGUSR2);
	close(fds[0]);
	close(fds[1]);
}

CASE(a_terminal, EXECS)
{
	struct berth_exec_request q;
	struct exec_io x;

	exec_init(&q, "tty", "tty err onstderr");
	q.cols = 97;
	q.rows = 31;
	OK(exec_request(&q, &x));
	ASSERT_CONTAINS(x.out.p, "tty 111 97x31");
	ASSERT_CONTAINS(x.out.p, "onstderr");
	ASSERT_EQ(x.err.n, 0u);
}

CASE(fifty_in_a_row_leave_nothing, EXECS)
{
	struct exec_io x;

	for (int i = 0; i < 50; i++) {
		exec_ok("row", "out x exit 1", &x);
		ASSERT_EQ(x.r.exit_code, 1);
		assert_gone("row");
	}
}

static int count_all(void *arg, const struct berth_record *r)
{
	(void)r;
	++*(int *)arg;
	return 0;
}

CASE(sessions_are_not_executions, EXECS)
{
	struct exec_io x;
	struct berth_status st;
	int before = 0, after = 0;

	run("listed", "exit 0", &st);
	OK(berth_list(box(), count_all, &before, &E));
	exec_ok("unlisted", "exit 0", &x);
	OK(berth_list(box(), count_all, &after, &E));
	ASSERT_EQ(before, after);
}

/* ── durable sessions ─────────────────────────────────────────────────────────────────────── */

struct attached {
	const char *session;
	bool attach;
	int in, out, control;
	int writer; /* our end of in: a copy in the child would keep it from ever ending */
};

static int attach_session(void *arg)
{
	struct attached *a = arg;
	struct berth_exec_request q;
	struct berth_exec_result r;

	if (a->writer > 0)
		close(a->writer);
	exec_init(&q, "session", "ready upper out END exit 9");
	q.session = a->session;
	q.attach = a->attach;
	q.stdin_fd = a->in;
	q.stdout_fd = a->out;
	q.control_fd = a->control;
	if (a->attach)
		q.command = NULL;
	if (berth_exec(box(), &q, &r, &E) != 0) {
		fprintf(stderr, "# attach: %s\n", E.message);
		return 90;
	}
	return r.detached ? 91 : r.exit_code;
}

static void want_text(int fd, const char *want)
{
	char buf[256];
	size_t n = 0;

	while (n < strlen(want)) {
		struct pollfd p = {fd, POLLIN, 0};
		ssize_t r;

		ASSERT_EQ(poll(&p, 1, 10000), 1);
		r = read(fd, buf + n, strlen(want) - n);
		ASSERT_GT(r, 0);
		n += (size_t)r;
	}
	buf[n] = '\0';
	ASSERT_STREQ(buf, want);
}

CASE(a_session_outlives_its_callers, EXECS)
{
	int in_fds[2], out_fds[2], in2[2], out2[2];
	struct attached a = {.session = "durable", .control = -1};
	pid_t pid;

	bring_worker();
	ASSERT_OK(pipe2(in_fds, O_CLOEXEC));
	ASSERT_OK(pipe2(out_fds, O_CLOEXEC));
	a.in = in_fds[0];
	a.out = out_fds[1];
	a.writer = in_fds[1];
	pid = in_child(attach_session, &a);
	want_text(out_fds[0], "R");
	ASSERT_EQ(write(in_fds[1], "one\n", 4), 4);
	want_text(out_fds[0], "ONE\n");
	kill(pid, SIGKILL);
	ASSERT_EQ(exit_of(pid), 1000 + SIGKILL);
	ASSERT_GE(processes_with(mark_of("session"), NULL), 1u);
	/* The next caller sees what was written and goes on typing. */
	ASSERT_OK(pipe2(in2, O_CLOEXEC));
	ASSERT_OK(pipe2(out2, O_CLOEXEC));
	a.in = in2[0];
	a.out = out2[1];
	a.writer = in2[1];
	a.attach = true;
	pid = in_child(attach_session, &a);
	close(in2[0]);
	ASSERT_EQ(write(in2[1], "two\n", 4), 4);
	{
		char seen[256];
		size_t n = 0;

		seen[0] = '\0';
		while (!strstr(seen, "TWO\n")) {
			struct pollfd p = {out2[0], POLLIN, 0};
			ssize_t r;

			ASSERT_EQ(poll(&p, 1, 10000), 1);
			r = read(out2[0], seen + n, sizeof(seen) - 1 - n);
			ASSERT_GT(r, 0);
			n += (size_t)r;
			seen[n] = '\0';
		}
	}
	close(in2[1]);
	ASSERT_EQ(exit_of(pid), 9);
	want_text(out2[0], "END");
	assert_gone("session");
}

CASE(attach_needs_a_session, EXECS)
{
	struct berth_exec_request q;
	struct berth_exec_result r;

	exec_init(&q, "x", "");
	q.session = "no-such-session";
	q.attach = true;
	q.command = NULL;
	FAILS(BERTH_E_NOT_FOUND, berth_exec(box(), &q, &r, &E));
	ASSERT_CONTAINS(E.message, "no-such-session");
}

/* ── files in and out ─────────────────────────────────────────────────────────────────────── */

CASE(a_tree_there_and_back, EXECS)
{
	const char *dir = new_artifact("tree");
	struct stat st;
	struct timespec t[2] = {{1000000000, 0}, {1234567890, 123000000}};
	char target[64] = "";
	char *big = malloc(5000000);

	ASSERT_NOT_NULL(big);
	pattern_fill(12, 0, big, 5000000);
	put_bytes(in(dir, "big"), big, 5000000, 0640);
	put_bytes(in(dir, "exec"), "x", 1, 0755);
	put_bytes(in(dir, "empty"), "", 0, 0600);
	ASSERT_OK(mkdir(in(dir, "emptydir"), 0750));
	ASSERT_OK(mkdir(in(dir, "a"), 0755));
	put_text(in(dir, "a/b\nc \xff"), "awkward");
	ASSERT_OK(symlink("/etc/hostname", in(dir, "link")));
	ASSERT_OK(utimensat(AT_FDCWD, in(dir, "exec"), t, 0));
	OK(berth_copy_in(box(), dir, NULL, "copied", &E));
	OK(berth_copy_out(box(), NULL, "copied", "back", &E));
	ASSERT_OK(lstat("back/big", &st));
	ASSERT_EQ(st.st_size, 5000000);
	ASSERT_EQ(st.st_mode & 07777, 0640u);
	{
		char *got = malloc(5000001);
		size_t n = slurp_at(AT_FDCWD, "back/big", got, 5000001);

		ASSERT_EQ(n, 5000000u);
		ASSERT(memcmp(got, big, n) == 0);
		free(got);
	}
	ASSERT_OK(lstat("back/exec", &st));
	ASSERT_EQ(st.st_mode & 07777, 0755u);
	ASSERT_EQ(st.st_mtim.tv_sec, 1234567890);
	ASSERT_EQ(st.st_mtim.tv_nsec, 123000000);
	ASSERT_OK(lstat("back/empty", &st));
	ASSERT_EQ(st.st_size, 0);
	ASSERT_OK(lstat("back/emptydir", &st));
	ASSERT(S_ISDIR(st.st_mode));
	ASSERT_STREQ(text_of("back/a/b\nc \xff"), "awkward");
	ASSERT_OK((int)readlink("back/link", target, sizeof(target) - 1));
	ASSERT_STREQ(target, "/etc/hostname");
	free(big);
}

CASE(links_are_not_written_through, EXECS)
{
	put_text("victim", "untouched");
	put_text("evil", "evil");
	ASSERT_OK(mkdir("dest", 0755));
	ASSERT_OK(symlink("../victim", "dest/out"));
	OK(berth_copy_in(box(), "evil", NULL, "src-evil", &E));
	(void)berth_copy_out(box(), NULL, "src-evil", "dest/out", &E);
	ASSERT_STREQ(text_of("victim"), "untouched");
}

CASE(copies_that_cannot_be, EXECS)
{
	FAILS(BERTH_E_NOT_FOUND, berth_copy_out(box(), NULL, "no/such/file", "x", &E));
	ASSERT_CONTAINS(E.message, "no/such/file");
	ASSERT_LT(berth_copy_in(box(), "no-such-local", NULL, "x", &E), 0);
	ASSERT_CONTAINS(E.message, "no-such-local");
	put_text("f", "x");
	FAILS(BERTH_E_NOT_FOUND, berth_copy_in(box(), "f", "no-such-id", "x", &E));
	ASSERT_EQ(access("x", F_OK), -1);
}

CASE(a_copy_replaces_at_once, EXECS)
{
	struct exec_io x;

	put_text("one", "first version");
	put_text("two", "second");
	OK(berth_copy_in(box(), "one", NULL, "deep/er/file", &E));
	OK(berth_copy_in(box(), "two", NULL, "deep/er/file", &E));
	exec_ok("cat", "read deep/er/file ls deep/er", &x);
	ASSERT_MEMEQ(x.out.p, x.out.n, "second\x04\0\0\0file", 14);
}
