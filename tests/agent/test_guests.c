/* SPDX-License-Identifier: MIT */
/*
 * Guests of an isolated sandbox: one PID namespace for all of them, out of sight of it the
 * executions; its keeper; the stream that EXEC lends away; and what init takes at its start.
 * (What EXEC and sessions do, walls or not, is test_exec.c's.)
 */
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "run.h"
#include "walled.h"

static struct agent_proc proc;
static struct client c;
static struct state s;

static void begin(void)
{
	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, "box", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

static void exec_begin(struct client *on, const char *const *argv)
{
	struct wire_w *w = client_begin(on, WIRE_EXEC);

	for (; *argv; argv++)
		wire_w_str(w, WK_ARG, *argv);
	client_end(on);
}

/* EXEC of a shell script: its exit code, -1 when it has none. What it wrote is in on->data. */
static int sh(struct client *on, const char *script)
{
	exec_begin(on, ARGV("/bin/sh", "-c", script));
	client_call(on, 0, NULL, NULL);
	if (on->final == WIRE_ERROR)
		tap_diag("EXEC: %s", client_str(on, WK_MESSAGE));
	return client_code(on) == 0 ? (int)client_int(on, WK_EXIT_CODE, -1) : -1;
}

/* Of the last sh(). */
static const char *said(const struct client *on)
{
	return on->data_len ? (const char *)on->data : "";
}

static void new_mark(char mark[32])
{
	static int n;

	snprintf(mark, 32, "mark-%d-%d", getpid(), n++);
}

static bool is_gone(void *arg)
{
	return kill(*(pid_t *)arg, 0) < 0 && errno == ESRCH;
}

/* The keeper, as the host sees it; 0: none. */
static pid_t keeper(void)
{
	return child_named(proc.pid, "berth-guests");
}

/* ---- one place for all of them ---- */

TEST_TIMEOUT(a_background_process_is_seen_by_the_next, 60)
{
	char mark[32], script[200];
	struct client d;
	int pid;

	begin();
	new_mark(mark);
	snprintf(script, sizeof(script), "%s mark %s up pause >/dev/null 2>&1 & echo $!",
		 worker_binary(), mark);
	ASSERT_EQ(sh(&c, script), 0);
	pid = atoi(said(&c));
	ASSERT_GT(pid, 1);
	ASSERT(marked_until(mark, 1));
	/* Another stream, and the same one. */
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	snprintf(script, sizeof(script), "tr '\\0' ' ' </proc/%d/cmdline", pid);
	ASSERT_EQ(sh(&d, script), 0);
	ASSERT_CONTAINS(said(&d), mark);
	client_close(&d);
	ASSERT_EQ(sh(&c, script), 0);
	ASSERT_CONTAINS(said(&c), mark);
	/* Its parent is the keeper, and that reaps it. */
	snprintf(script, sizeof(script), "grep PPid: /proc/%d/status", pid);
	ASSERT_EQ(sh(&c, script), 0);
	ASSERT_STREQ(said(&c), "PPid:\t1\n");
	snprintf(script, sizeof(script), "kill -9 %d", pid);
	ASSERT_EQ(sh(&c, script), 0);
	ASSERT(marked_until(mark, 0));
	snprintf(script, sizeof(script), "while kill -0 %d 2>/dev/null; do :; done", pid);
	ASSERT_EQ(sh(&c, script), 0);
	end();
}

TEST_TIMEOUT(executions_and_guests_do_not_meet, 60)
{
	struct opts session = {.kind = WIRE_KIND_SESSION};
	char mark[32], guest[32], script[256];
	uint64_t gap;
	size_t n;
	char *text;

	begin();
	new_mark(mark);
	new_mark(guest);
	ASSERT_EQ(run_worker(&c, "x1", NULL, ARGV("mark", mark, "up", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_STREQ(s.containment, "pidns");
	ASSERT_EQ(run_worker(&c, "s1", &session, ARGV("mark", guest, "up", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT(marked_until(mark, 1));
	ASSERT(marked_until(guest, 1));
	/* A session is a guest as what EXEC starts is; an execution is not there. */
	ASSERT_EQ(sh(&c, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), 0);
	ASSERT_CONTAINS(said(&c), guest);
	ASSERT_LACKS(said(&c), mark);
	/* After an EXEC the stream's launches are what they were before. */
	ASSERT(run_launch(&c, "x2", NULL,
			  ARGV("/bin/sh", "-c", "cat /proc/[0-9]*/cmdline; echo $$"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "x2", 0, &s), WIRE_S_EXITED);
	ASSERT_STREQ(s.containment, "pidns");
	text = run_read(&c, "x2", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_NOT_NULL(text);
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	ASSERT_LACKS(text, guest);
	ASSERT_LACKS(text, mark);
	free(text);
	/* Everything that a guest can signal is a guest. */
	snprintf(script, sizeof(script), "kill -9 -1");
	sh(&c, script);
	ASSERT(marked_until(guest, 0));
	ASSERT_EQ(run_status(&c, "x1", 0, &s), WIRE_S_RUNNING);
	ASSERT_EQ(marked(mark, NULL, 0), 1);
	end();
}

/* init, its other children and what they have open are not there for a guest. */
TEST_TIMEOUT(a_guest_sees_no_init, 60)
{
	begin();
	ASSERT_EQ(sh(&c, "cat /proc/1/comm; ls /proc/1/fd"), 2);
	ASSERT_STREQ(said(&c), "berth-guests\n");
	ASSERT_EQ(sh(&c, "readlink /proc/1/cwd || readlink /proc/1/root || "
			 "cat /proc/1/environ || kill -9 1 || kill -STOP 1"),
		  1);
	ASSERT_STREQ(said(&c), "");
	ASSERT_EQ(sh(&c, "ls /proc/self/fd | tr '\\n' ' '"), 0);
	ASSERT_STREQ(said(&c), "0 1 2 3 ");
	/* A guest's parent, which has the stream, is no more open to it. */
	ASSERT_EQ(sh(&c, "ls /proc/$PPID/fd || readlink /proc/$PPID/cwd || kill -9 $PPID"), 1);
	ASSERT_STREQ(said(&c), "");
	end();
}

TEST_TIMEOUT(a_guest_writes_to_its_own_streams, 60)
{
	begin();
	ASSERT_EQ(sh(&c,
		     "echo one >/dev/stdout; echo two >/proc/self/fd/1; echo three >/dev/stderr; "
		     "umask; touch here && stat -c %u:%g here"),
		  0);
	ASSERT_STREQ(said(&c), "one\ntwo\n0022\n1000:1000\n");
	ASSERT_MEMEQ(c.data2, c.data2_len, "three\n", 6);
	end();
}

/* ---- the keeper ---- */

TEST_TIMEOUT(a_killed_keeper_is_replaced, 60)
{
	struct opts session = {.kind = WIRE_KIND_SESSION};
	char mark[32];
	struct client d;
	pid_t first, second;

	begin();
	new_mark(mark);
	ASSERT_EQ(keeper(), 0); /* nobody has asked for it */
	ASSERT_EQ(sh(&c, "true"), 0);
	first = keeper();
	ASSERT_GT(first, 0);
	ASSERT_EQ(run_worker(&c, "s1", &session, ARGV("mark", mark, "up", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	exec_begin(&d, ARGV(worker_binary(), "mark", mark, "ready", "pause"));
	ASSERT_EQ(client_call(&d, WIRE_DATA, NULL, NULL), WIRE_DATA);
	ASSERT_OK(kill(first, SIGKILL));
	/* Everybody dies with it; a caller that was in the middle hears that its stream has ended. */
	ASSERT(marked_until(mark, 0));
	client_call(&d, 0, NULL, NULL);
	ASSERT_EQ(client_code(&d), -1);
	client_close(&d);
	ASSERT_EQ(run_wait(&c, "s1", WIRE_KIND_SESSION, &s), WIRE_S_UNKNOWN);
	/* The next one finds a new place. */
	ASSERT_EQ(sh(&c, "echo here"), 0);
	ASSERT_STREQ(said(&c), "here\n");
	second = keeper();
	ASSERT_GT(second, 0);
	ASSERT_NE(second, first);
	ASSERT(client_until(is_gone, &first));
	/* Killed and asked for at once, again and again: a command that was caught by it may be
	 * gone with its stream, but nobody is refused. */
	for (int i = 0; i < 30; i++) {
		pid_t pid = keeper();

		ASSERT_OK(kill(pid, SIGKILL));
		if (sh(&c, "exit 3") == 3)
			continue;
		ASSERT_EQ(c.final, 0);
		client_close(&c);
		ASSERT_EQ(client_open(&c, proc.dir), 0);
		ASSERT_EQ(sh(&c, "exit 3"), 3);
	}
	end();
}

TEST_TIMEOUT(stop_ends_the_guests, 60)
{
	char mark[32], path[300], word[16] = "";
	struct client d;
	FILE *f;
	pid_t k;

	begin();
	new_mark(mark);
	/* In the background, and deaf. */
	exec_begin(&c, ARGV(worker_binary(), "mark", mark, "spawn", "daemon", "{", "ignore", "TERM",
			    "up", "pause", "}", "exit", "0"));
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	ASSERT_EQ(marked(mark, NULL, 0), 1);
	k = keeper();
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	wire_w_str(client_begin(&d, WIRE_STOP), WK_CAUSE, "stopped");
	client_end(&d);
	client_call(&d, 0, NULL, NULL);
	ASSERT_EQ(client_code(&d), 0);
	ASSERT_EQ(marked(mark, NULL, 0), 0); /* with the answer, not after it */
	ASSERT(client_until(is_gone, &k));
	client_close(&d);
	ASSERT_EQ(waitpid(proc.pid, NULL, 0), proc.pid);
	/* Why it ended is said until it begins again. */
	snprintf(path, sizeof(path), "%s/ended", proc.dir);
	f = fopen(path, "re");
	ASSERT_NOT_NULL(f);
	ASSERT_EQ(fread(word, 1, sizeof(word) - 1, f), 7);
	fclose(f);
	ASSERT_STREQ(word, "stopped");
	ASSERT_EQ(walled_restart(&proc, NULL), 0);
	ASSERT_EQ(access(path, F_OK), -1);
	client_close(&c);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(sh(&c, "true"), 0);
	end();
}

static bool nothing_runs(void *arg)
{
	(void)arg;
	client_begin(&c, WIRE_INFO);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	return client_int(&c, WK_RUNNING, -1) == 0;
}

TEST_TIMEOUT(two_hundred_at_once, 120)
{
	enum { N = 200 };
	static struct client many[N];
	char text[32];

	begin();
	for (int i = 0; i < N; i++) {
		struct wire_w *w;

		ASSERT_EQ(client_open(&many[i], proc.dir), 0);
		snprintf(text, sizeof(text), "number %d", i);
		w = client_begin(&many[i], WIRE_EXEC);
		wire_w_str(w, WK_ARG, "/bin/sh");
		wire_w_str(w, WK_ARG, "-c");
		wire_w_str(w, WK_ARG, "echo \"$0\"; read x; echo \"$x\"; exit 7");
		wire_w_str(w, WK_ARG, text);
		wire_w_int(w, WK_STDIN, 1);
		client_end(&many[i]);
		ASSERT_EQ(client_send(&many[i]), 0);
	}
	/* All of them run at the same time: the first is not told to end before the last has begun. */
	for (int i = 0; i < N; i++) {
		ASSERT_EQ(client_call(&many[i], WIRE_DATA, NULL, NULL), WIRE_DATA);
		snprintf(text, sizeof(text), "number %d\n", i);
		ASSERT_MEMEQ(many[i].p, many[i].n, text, strlen(text));
	}
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "line %d\n", i);
		client_data(&many[i], text, strlen(text));
		client_call(&many[i], 0, NULL, NULL);
		ASSERT_EQ(client_int(&many[i], WK_EXIT_CODE, -1), 7);
		ASSERT_MEMEQ(many[i].data, many[i].data_len, text, strlen(text));
		client_close(&many[i]);
	}
	ASSERT(client_until(nothing_runs, NULL));
	end();
}

/* A guest that stops whatever it may signal, all the time, holds up who has its ids, but not the
 * time-outs of others. */
TEST_TIMEOUT(a_guest_cannot_hold_a_deadline_up, 60)
{
	char mark[32], script[128];
	pid_t pid;

	begin();
	new_mark(mark);
	snprintf(script, sizeof(script),
		 "sh -c 'while :; do kill -STOP -1; done' %s >/dev/null 2>&1 &", mark);
	ASSERT_EQ(sh(&c, script), 0);
	ASSERT(marked_until(mark, 1));
	ASSERT_EQ(marked(mark, &pid, 1), 1);
	for (int i = 0; i < 30; i++) {
		struct wire_w *w = client_begin(&c, WIRE_EXEC);
		int64_t t = client_now_ms();

		wire_w_str(w, WK_ARG, "true");
		wire_w_int(w, WK_TIMEOUT_MS, 50);
		wire_w_int(w, WK_GRACE_MS, 0);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_code(&c), 0);
		ASSERT_LT(client_now_ms() - t, 5000);
	}
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT(marked_until(mark, 0));
	ASSERT_EQ(sh(&c, "exit 2"), 2);
	end();
}

/* ---- the stream ---- */

/* What a caller had on its way to a command that has ended, and what follows: the guest read some
 * of it ahead, and the rest of the stream is in step. */
TEST_TIMEOUT(what_follows_on_the_stream_is_kept, 60)
{
	static char big[3000000];
	char copy[300];
	struct wire_w *w;
	struct stat st;

	begin();
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('a' + i % 26);
	for (int i = 0; i < 10; i++) {
		w = client_begin(&c, WIRE_EXEC);
		wire_w_str(w, WK_ARG, "/bin/sh");
		wire_w_str(w, WK_ARG, "-c");
		wire_w_str(w, WK_ARG, i % 2 ? "head -c 9 >/dev/null; exit 4" : "exit 4");
		wire_w_int(w, WK_STDIN, 1);
		client_end(&c);
		/* Of other sizes each time: the cut falls elsewhere. */
		for (int k = 0; k < 40; k++)
			client_data(&c, big, (size_t)(1000 + i * 7777));
		client_begin(&c, WIRE_STDIN_CLOSE);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 4);
		w = client_begin(&c, WIRE_PUT);
		wire_w_str(w, WK_PATH, "put-behind");
		client_end(&c);
		client_data(&c, big, sizeof(big));
		client_data_end(&c, big, sizeof(big), CLIENT_RIGHT);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_code(&c), 0);
	}
	snprintf(copy, sizeof(copy), "%s/put-behind", proc.home);
	ASSERT_OK(stat(copy, &st));
	ASSERT_EQ(st.st_size, sizeof(big));
	ASSERT_EQ(st.st_uid, WALLED_UID + 1);
	end();
}

/* ---- what init takes at its start ---- */

static int listener(int type, uint32_t address, bool listening)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	ASSERT_GE(fd, 0);
	ASSERT_OK(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	if (listening)
		ASSERT_OK(listen(fd, 16));
	return fd;
}

static void refused(const char *option, int fd, const char *why)
{
	char word[32], number[32];
	struct walled_opts o = {.fds = &fd, .n_fds = 1};
	const char *const options[] = {option, word, NULL};

	snprintf(word, sizeof(word), "%s%d",
		 strcmp(option, "--port") == 0    ? "4111="
		 : strcmp(option, "--group") == 0 ? "memory="
						  : "",
		 fd);
	o.options = option ? options : NULL;
	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, "box", &o), -1);
	ASSERT_CONTAINS(walled_said(), why);
	snprintf(number, sizeof(number), "fd %d", fd);
	ASSERT_CONTAINS(walled_said(), number);
	close(fd);
}

TEST_TIMEOUT(a_wrong_fd_is_an_error_at_the_start, 60)
{
	int pipefd[2], dir;

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	refused("--port", open("/etc/passwd", O_RDONLY | O_CLOEXEC), "not a socket");
	refused("--port", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "not a socket");
	refused("--port", listener(SOCK_DGRAM, INADDR_LOOPBACK, false), "not a TCP socket");
	refused("--port", listener(SOCK_STREAM, INADDR_LOOPBACK, false), "not a listening socket");
	refused("--port", listener(SOCK_STREAM, INADDR_ANY, true), "not bound to a loopback");
	refused("--exit-fd", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "not a pipe");
	refused("--exit-fd", listener(SOCK_STREAM, INADDR_LOOPBACK, true), "not a pipe");
	refused("--net-watch", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		"not a netlink socket");
	ASSERT_OK(pipe2(pipefd, O_CLOEXEC));
	refused("--group", pipefd[0], "not a directory");
	close(pipefd[1]);
	/* And one that nobody has named. */
	dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	{
		struct walled_opts o = {.fds = &dir, .n_fds = 1};
		char number[32];

		snprintf(number, sizeof(number), "fd %d was handed in", dir);
		TEST_REQUIRE("userns", "a sandbox with walls");
		ASSERT_EQ(walled_start(&proc, "box", &o), -1);
		ASSERT_CONTAINS(walled_said(), number);
	}
	close(dir);
}

/* The network's helper ends when the other end of --exit-fd is closed: init has it open from its
 * start to its end, and nobody else in the sandbox has. */
TEST_TIMEOUT(the_exit_fd_is_open_until_init_ends, 60)
{
	int pipefd[2];
	char number[16], path[64], target[64], byte;
	struct walled_opts o;
	struct pollfd p;

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	ASSERT_OK(pipe2(pipefd, O_CLOEXEC));
	snprintf(number, sizeof(number), "%d", pipefd[1]);
	o = (struct walled_opts){
		.options = ARGV("--exit-fd", number), .fds = &pipefd[1], .n_fds = 1};
	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, "box", &o), 0);
	close(pipefd[1]);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(sh(&c, "true"), 0);
	ASSERT_EQ(run_worker(&c, "x1", NULL, ARGV("up", "pause"), &s), WIRE_S_RUNNING);
	for (int fd = 0; fd < 3; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", proc.pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		ASSERT_GT(n, 0);
		target[n] = '\0';
		ASSERT_STREQ(target, "/dev/null");
	}
	p = (struct pollfd){pipefd[0], POLLIN, 0};
	ASSERT_EQ(poll(&p, 1, 0), 0);
	/* Even killed, with its children about to follow: the end is seen at once. */
	ASSERT_OK(kill(proc.pid, SIGKILL));
	ASSERT_EQ(poll(&p, 1, 10000), 1);
	ASSERT_EQ(read(pipefd[0], &byte, 1), 0);
	client_close(&c);
	agent_kill(&proc);
}

TEST_MAIN()
