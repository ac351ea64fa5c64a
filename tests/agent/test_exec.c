/* SPDX-License-Identifier: MIT */
/*
 * EXEC and durable sessions: stdio, ptys, time-outs, what is left in the background, callers
 * that go away.
 */
#include "tap.h"

#include <sys/wait.h>

#include "box.h"
#include "walled.h"

/* Who runs the agent: root, somebody else, or init behind walls, where guests are at home. */
static const char *const whose[] = {"root", "user", "walls"};
static bool walled;

static void begin_as(size_t who)
{
	walled = who == 2;
	if (!walled) {
		begin(who ? 54321 : 0, NULL);
		return;
	}
	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, "walled", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

#define USERS(ident, seconds)                   \
	static void body_##ident(void);         \
	TEST_TIMEOUT(ident, seconds)            \
	{                                       \
		for (size_t u = 0; u < 3; u++)  \
			SUBTEST("%s", whose[u]) \
			{                       \
				begin_as(u);    \
				body_##ident(); \
				end();          \
			}                       \
	}                                       \
	static void body_##ident(void)

static struct wire_w *exec_begin(struct client *on, const char *const *argv)
{
	struct wire_w *w = client_begin(on, WIRE_EXEC);

	for (; *argv; argv++)
		wire_w_str(w, WK_ARG, *argv);
	return w;
}

/* EXEC of the test worker. Returns client_code(). */
static int exec_worker(const char *const *ops)
{
	const char *argv[32] = {worker_binary()};

	for (size_t i = 0; ops[i] && i < 30; i++)
		argv[i + 1] = ops[i];
	exec_begin(&c, argv);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	return client_code(&c);
}

static void new_mark(char mark[32])
{
	static int n;

	snprintf(mark, 32, "mark-%d-%d", getpid(), n++);
}

USERS(streams_and_codes, 60)
{
	for (int i = 0; i < 256; i += 15) {
		char number[16];

		snprintf(number, sizeof(number), "%d", i);
		ASSERT_EQ(exec_worker(ARGV("out", "one", "err", "two", "exit", number)), 0);
		ASSERT_EQ(client_int(&c, WK_STATE, 0), WIRE_S_EXITED);
		ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), i);
		ASSERT_MEMEQ(c.data, c.data_len, "one", 3);
		ASSERT_MEMEQ(c.data2, c.data2_len, "two", 3);
		ASSERT(client_int(&c, WK_MAX_RSS, 0) > 0);
	}
	ASSERT_EQ(exec_worker(ARGV("raise", "KILL")), 0);
	ASSERT_EQ(client_int(&c, WK_SIGNO, 0), SIGKILL);
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), -1);
}

USERS(cannot_start, 60)
{
	struct wire_w *w;

	exec_begin(&c, ARGV("no-such-command"));
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), WIRE_E_NOT_FOUND);
	ASSERT_EQ(client_int(&c, WK_ERRNO, 0), ENOENT);
	ASSERT_STREQ(client_str(&c, WK_STAGE), "exec");
	exec_begin(&c, ARGV("/etc/passwd"));
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_ERRNO, 0), EACCES);
	w = exec_begin(&c, ARGV("true"));
	wire_w_str(w, WK_WORKDIR, "not/here");
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_STREQ(client_str(&c, WK_STAGE), "workdir");
	client_begin(&c, WIRE_EXEC);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), WIRE_E_INVALID);
	ASSERT_EQ(exec_worker(ARGV("exit", "0")), 0);
}

USERS(environment_and_workdir, 60)
{
	struct wire_w *w;
	char home[512];

	ASSERT_EQ(exec_worker(ARGV("getenv", "HOME")), 0);
	snprintf(home, sizeof(home), "%s", proc.home);
	ASSERT_CONTAINS((char *)c.data, home);
	w = exec_begin(&c, ARGV("/bin/sh", "-c", "echo \"$V|$LANG|$TMPDIR\"; pwd"));
	wire_w_str(w, WK_ENV, "V=first");
	wire_w_str(w, WK_ENV, "V=a b=c");
	wire_w_str(w, WK_WORKDIR, "/");
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_CONTAINS((char *)c.data, "a b=c|");
	ASSERT_CONTAINS((char *)c.data, "\n/\n");
}

USERS(stdin_bytes, 60)
{
	size_t n = 3 << 20;
	char *bytes = malloc(n), want[64];
	uint64_t h = 0xcbf29ce484222325;
	struct wire_w *w;

	ASSERT_NOT_NULL(bytes);
	for (size_t i = 0; i < n; i++) {
		bytes[i] = (char)(i * 7 + i / 256);
		h = (h ^ (uint8_t)bytes[i]) * 0x100000001b3;
	}
	w = exec_begin(&c, ARGV(worker_binary(), "hashin"));
	wire_w_int(w, WK_STDIN, 1);
	client_end(&c);
	client_data(&c, bytes, n);
	client_begin(&c, WIRE_STDIN_CLOSE);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	snprintf(want, sizeof(want), "%zu %016llx", n, (unsigned long long)h);
	ASSERT_CONTAINS((char *)c.data, want);
	/* A command that does not read its stdin is no reason to hang. */
	w = exec_begin(&c, ARGV(worker_binary(), "closein", "exit", "0"));
	wire_w_int(w, WK_STDIN, 1);
	client_end(&c);
	client_data(&c, bytes, n);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	free(bytes);
}

USERS(big_output, 60)
{
	ASSERT_EQ(exec_worker(ARGV("fill", "1", "120", "20000000", "fill", "2", "121", "1000000")),
		  0);
	ASSERT_EQ(c.data_len, 20000000u);
	ASSERT_EQ(c.data2_len, 1000000u);
	ASSERT(c.data[0] == 'x' && c.data[19999999] == 'x' && c.data2[5] == 'y');
}

USERS(time_outs, 60)
{
	struct wire_w *w;
	char mark[32];
	int64_t t = client_now_ms();

	new_mark(mark);
	w = exec_begin(&c, ARGV(worker_binary(), "mark", mark, "spawn", "daemon", "{", "ignore",
				"TERM", "up", "pause", "}", "pause"));
	wire_w_int(w, WK_TIMEOUT_MS, 100);
	wire_w_int(w, WK_GRACE_MS, 200);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	t = client_now_ms() - t;
	ASSERT_EQ(client_int(&c, WK_TIMED_OUT, 0), 1);
	ASSERT_EQ(client_int(&c, WK_STATE, 0), WIRE_S_TIMED_OUT);
	ASSERT_EQ(client_int(&c, WK_SIGNO, 0), SIGTERM);
	ASSERT_GE(t, 299);
	ASSERT_LT(t, 5000);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
}

/* The command ends, what it left lives on, may write into the pipes that nobody reads, and a
 * later session's end is not its own. */
USERS(background_lives_on, 60)
{
	char mark[32], other[32];
	struct client d;
	pid_t pid;

	new_mark(mark);
	new_mark(other);
	ASSERT_EQ(exec_worker(ARGV("mark", mark, "spawn", "fork", "{", "up", "chatter", "1", "}",
				   "exit", "3")),
		  0);
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 3);
	ASSERT_EQ(marked(mark, &pid, 1), 1);
	/* On the same stream: a command that is ended because its caller goes away. */
	exec_begin(&c, ARGV(worker_binary(), "mark", other, "ready", "pause"));
	client_end(&c);
	ASSERT_EQ(client_call(&c, WIRE_DATA, NULL, NULL), WIRE_DATA);
	client_close(&c);
	ASSERT(marked_until(other, 0));
	ASSERT_EQ(marked(mark, NULL, 0), 1);
	ASSERT_OK(kill(pid, 0));
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	client_close(&d);
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT(marked_until(mark, 0));
}

USERS(caller_goes_away, 60)
{
	char mark[32];

	new_mark(mark);
	exec_begin(&c,
		   ARGV(worker_binary(), "mark", mark, "ignore", "TERM", "ignore", "HUP", "spawn",
			"daemon", "{", "ignore", "TERM", "up", "pause", "}", "ready", "pause"));
	client_end(&c);
	ASSERT_EQ(client_call(&c, WIRE_DATA, NULL, NULL), WIRE_DATA);
	ASSERT_EQ(marked(mark, NULL, 0), 2);
	client_close(&c);
	ASSERT(marked_until(mark, 0));
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

/* Its connection child is killed: nobody is left to end the command but the kernel. */
USERS(connection_child_dies, 60)
{
	char mark[32];
	pid_t pid;

	new_mark(mark);
	exec_begin(&c, ARGV(worker_binary(), "mark", mark, "ready", "pause"));
	client_end(&c);
	ASSERT_EQ(client_call(&c, WIRE_DATA, NULL, NULL), WIRE_DATA);
	ASSERT_EQ(marked(mark, &pid, 1), 1);
	ASSERT_NE(parent_of(pid), proc.pid);
	ASSERT_OK(kill(parent_of(pid), SIGKILL));
	ASSERT(marked_until(mark, 0));
	client_close(&c);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

/* A caller that reads nothing stalls the output, not the time-out. */
USERS(caller_does_not_read, 60)
{
	char mark[32];
	struct wire_w *w;

	new_mark(mark);
	w = exec_begin(&c, ARGV(worker_binary(), "mark", mark, "ignore", "TERM", "chatter", "1"));
	wire_w_int(w, WK_TIMEOUT_MS, 200);
	wire_w_int(w, WK_GRACE_MS, 0);
	client_end(&c);
	ASSERT_EQ(client_send(&c), 0);
	ASSERT(marked_until(mark, 1));
	ASSERT(marked_until(mark, 0));
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_TIMED_OUT, 0), 1);
}

USERS(signals_and_terminal, 60)
{
	struct wire_w *w;

	/* A pty: the command sees a terminal of the asked size, its signals and its end of
	 * input. */
	w = exec_begin(&c, ARGV("/bin/sh", "-c",
				"stty size; tty >/dev/null && echo is-tty; read x; echo \"got "
				"$x\"; cat; exit 6"));
	wire_w_int(w, WK_COLS, 97);
	wire_w_int(w, WK_ROWS, 31);
	wire_w_int(w, WK_STDIN, 1);
	client_end(&c);
	client_data(&c, "typed\n", 6);
	client_begin(&c, WIRE_STDIN_CLOSE);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	ASSERT_CONTAINS((char *)c.data, "31 97");
	ASSERT_CONTAINS((char *)c.data, "is-tty");
	ASSERT_CONTAINS((char *)c.data, "got typed");
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 6);
	/* SIGNAL in the middle. */
	exec_begin(&c, ARGV(worker_binary(), "ready", "pause"));
	client_end(&c);
	ASSERT_EQ(client_call(&c, WIRE_DATA, NULL, NULL), WIRE_DATA);
	wire_w_int(client_begin(&c, WIRE_SIGNAL), WK_SIGNO, SIGINT);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_SIGNO, 0), SIGINT);
}

USERS(stop_ends_sessions, 60)
{
	char mark[32];
	struct client d;

	new_mark(mark);
	exec_begin(&c, ARGV(worker_binary(), "mark", mark, "ignore", "TERM", "ready", "pause"));
	client_end(&c);
	ASSERT_EQ(client_call(&c, WIRE_DATA, NULL, NULL), WIRE_DATA);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	wire_w_str(client_begin(&d, WIRE_STOP), WK_CAUSE, "stopped");
	client_end(&d);
	client_call(&d, 0, NULL, NULL);
	ASSERT_EQ(client_code(&d), 0);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
	client_close(&d);
	ASSERT_EQ(waitpid(proc.pid, NULL, 0), proc.pid);
	proc.pid = -1;
}

/* ---- durable sessions ---- */

USERS(durable_session, 60)
{
	struct opts o = {.kind = WIRE_KIND_SESSION, .stdin_open = 1};
	struct wire_w *w;
	size_t n;
	uint64_t gap;
	char *text;

	ASSERT_EQ(run_worker(&c, "sess", &o, ARGV("ready", "upper"), &s), WIRE_S_RUNNING);
	/* Not among the executions. */
	ASSERT_EQ(run_status(&c, "sess", 0, &s), -1);
	for (int i = 0; i < 2; i++) {
		/* Sent twice, as after a lost stream: taken once. */
		w = client_begin(&c, WIRE_STDIN);
		wire_w_str(w, WK_ID, "sess");
		wire_w_int(w, WK_KIND, WIRE_KIND_SESSION);
		wire_w_int(w, WK_OFFSET, 0);
		client_end(&c);
		client_data(&c, i ? "hello again" : "hello", i ? 11 : 5);
		client_begin(&c, WIRE_END);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_int(&c, WK_NEXT, -1), i ? 11 : 5);
	}
	/* Past what was taken. */
	w = client_begin(&c, WIRE_STDIN);
	wire_w_str(w, WK_ID, "sess");
	wire_w_int(w, WK_KIND, WIRE_KIND_SESSION);
	wire_w_int(w, WK_OFFSET, 500);
	client_end(&c);
	client_data(&c, "x", 1);
	client_begin(&c, WIRE_END);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), WIRE_E_INVALID);
	ASSERT_EQ(run_simple(&c, WIRE_STDIN_CLOSE, "sess", WIRE_KIND_SESSION, 0, 0), 0);
	ASSERT_EQ(run_wait(&c, "sess", WIRE_KIND_SESSION, &s), WIRE_S_EXITED);
	text = run_read(&c, "sess", WIRE_KIND_SESSION, WIRE_STDOUT, &n, &gap);
	ASSERT_STREQ(text, "RHELLO AGAIN");
	free(text);
}

/* Its caller dies: no EOF, no hang-up; somebody else goes on typing. */
USERS(durable_session_pty, 60)
{
	struct opts o = {.kind = WIRE_KIND_SESSION, .cols = 80, .rows = 24, .stdin_open = 1};
	struct wire_w *w;
	size_t n;
	uint64_t gap;
	char *text;

	ASSERT_EQ(
		run_launch(&c, "tty", &o,
			   ARGV("/bin/sh", "-c",
				"stty -echo; stty size; read a; stty size; echo \"[$a]\"; exit 8"),
			   &s),
		WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "tty", WIRE_KIND_SESSION, WIRE_STDOUT, 7, &s),
		  WIRE_S_RUNNING);
	client_close(&c);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	w = client_begin(&c, WIRE_RESIZE);
	wire_w_str(w, WK_ID, "tty");
	wire_w_int(w, WK_KIND, WIRE_KIND_SESSION);
	wire_w_int(w, WK_COLS, 132);
	wire_w_int(w, WK_ROWS, 43);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	w = client_begin(&c, WIRE_STDIN);
	wire_w_str(w, WK_ID, "tty");
	wire_w_int(w, WK_KIND, WIRE_KIND_SESSION);
	client_end(&c);
	client_data(&c, "abc\n", 4);
	client_begin(&c, WIRE_END);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	ASSERT_EQ(run_wait(&c, "tty", WIRE_KIND_SESSION, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 8);
	text = run_read(&c, "tty", WIRE_KIND_SESSION, WIRE_STDOUT, &n, &gap);
	ASSERT_CONTAINS(text, "24 80");
	ASSERT_CONTAINS(text, "43 132");
	ASSERT_CONTAINS(text, "[abc]");
	free(text);
}

USERS(durable_session_background, 60)
{
	struct opts o = {.kind = WIRE_KIND_SESSION};
	char mark[32];
	pid_t pid;

	new_mark(mark);
	ASSERT(run_worker(&c, "bg", &o,
			  ARGV("mark", mark, "spawn", "setsid", "{", "up", "chatter", "1", "}",
			       "exit", "0"),
			  &s) > 0);
	ASSERT_EQ(run_wait(&c, "bg", WIRE_KIND_SESSION, &s), WIRE_S_EXITED);
	/* It goes on writing into a pipe that init empties: the record does not grow any more. */
	ASSERT_EQ(marked(mark, &pid, 1), 1);
	ASSERT_EQ(run_simple(&c, WIRE_FORGET, "bg", WIRE_KIND_SESSION, 0, 0), 0);
	ASSERT_EQ(marked(mark, NULL, 0), 1);
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT(marked_until(mark, 0));
	/* A cancel reaches the background too. */
	new_mark(mark);
	ASSERT_EQ(run_worker(&c, "bg2", &o,
			     ARGV("mark", mark, "spawn", "daemon", "{", "up", "pause", "}", "ready",
				  "pause"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "bg2", WIRE_KIND_SESSION, WIRE_STDOUT, 1, &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "bg2", WIRE_KIND_SESSION, -1, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
}

TEST_MAIN()
