/* SPDX-License-Identifier: MIT */
/*
 * Executions from LAUNCH to their terminal state, at every level of ending a tree, as root and
 * as an ordinary user: states, exit codes,
 * signals, trees, time-outs, cancels, ids.
 */
#include "tap.h"

#include <sys/wait.h>

#include "box.h"

LEVELS(exits, 60)
{
	size_t n;
	uint64_t gap;
	char *text;

	/* Some memory, since the kernel's count of very little may still be none. */
	ASSERT_GE(run_worker(&c, "a", NULL, ARGV("eat", "4", "err", "world", "exit", "3"), &s),
		  WIRE_S_RUNNING);
	ASSERT_STREQ(s.containment, l->name);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT(s.st.has_exit_code && !s.st.has_signal && !s.held);
	ASSERT_EQ(s.st.exit_code, 3);
	ASSERT_STREQ(s.containment, l->name);
	ASSERT(s.st.started_ms > 0 && s.st.finished_ms >= s.st.started_ms);
	ASSERT(s.st.has_usage && s.st.max_rss > 0 && s.st.has_hashes);
	text = run_read(&c, "a", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_STREQ(text, "ate 4\n");
	ASSERT_EQ(client_int(&c, WK_EOF, 0), 1);
	free(text);
	text = run_read(&c, "a", 0, WIRE_STDERR, &n, &gap);
	ASSERT_STREQ(text, "world");
	free(text);
	/* Nobody told the watcher before it was true: a status from the record says the same. */
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT(s.has_spec && s.st.exit_code == 3);
}

LEVELS(every_exit_code, 120)
{
	for (int code = 0; code < 256; code += l->uid ? 51 : 5) {
		char id[16], number[16];

		snprintf(id, sizeof(id), "x%d", code);
		snprintf(number, sizeof(number), "%d", code);
		ASSERT(run_worker(&c, id, NULL, ARGV("exit", number), &s) >= WIRE_S_RUNNING);
		ASSERT_EQ(run_wait(&c, id, 0, &s), WIRE_S_EXITED);
		ASSERT_EQ(s.st.exit_code, code);
		ASSERT(!s.st.has_signal);
	}
}

LEVELS(signals_of_its_own, 120)
{
	for (int signo = 1; signo < 65; signo++) {
		char id[16], number[16];

		if (signo == SIGCHLD || signo == SIGCONT || signo == SIGURG || signo == SIGWINCH ||
		    signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU ||
		    (l->uid && signo % 7))
			continue;
		snprintf(id, sizeof(id), "s%d", signo);
		snprintf(number, sizeof(number), "%d", signo);
		ASSERT(run_worker(&c, id, NULL, ARGV("raise", number), &s) >= WIRE_S_RUNNING);
		ASSERT_EQ(run_wait(&c, id, 0, &s), WIRE_S_EXITED);
		ASSERT(s.st.has_signal && !s.st.has_exit_code);
		ASSERT_EQ(s.st.signo, signo);
	}
}

/* What a fresh process finds: no signal ignored or blocked, no fd but 0, 1, 2, stdin at its end. */
LEVELS(clean_start, 60)
{
	size_t n;
	uint64_t gap;
	char *text;

	ASSERT(run_worker(&c, "sigs", NULL, ARGV("sigs"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "sigs", 0, &s), WIRE_S_EXITED);
	text = run_read(&c, "sigs", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_CONTAINS(text, "SigIgn:\t0000000000000000");
	ASSERT_CONTAINS(text, "SigBlk:\t0000000000000000");
	free(text);
	ASSERT(run_worker(&c, "fds", NULL, ARGV("fds"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "fds", 0, &s), WIRE_S_EXITED);
	text = run_read(&c, "fds", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_CONTAINS(text, "0 /dev/null");
	ASSERT_LACKS(text, "\n3 ");
	free(text);
}

LEVELS(failed_launches, 60)
{
	static const struct {
		const char *command, *workdir, *stage, *text;
		int err;
	} cases[] = {
		{"no-such-command-here", NULL, "exec", "no such command in PATH", ENOENT},
		{"/no/such/file", NULL, "exec", "/no/such/file", ENOENT},
		{"/etc/passwd", NULL, "exec", "Permission denied", EACCES},
		{"/etc", NULL, "exec", "Permission denied", EACCES},
		{"true", "no/such/dir", "workdir", "no/such/dir", ENOENT},
		{"true", "file", "workdir", "file", ENOTDIR},
		{"./bad-interpreter", NULL, "exec", "interpreter", ENOENT},
	};
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/file", proc.home);
	f = fopen(path, "w");
	ASSERT_NOT_NULL(f);
	fclose(f);
	snprintf(path, sizeof(path), "%s/bad-interpreter", proc.home);
	f = fopen(path, "w");
	ASSERT_NOT_NULL(f);
	fputs("#!/no/such/shell\n", f);
	fclose(f);
	ASSERT_OK(chmod(path, 0755));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct opts o = {.workdir = cases[i].workdir};
		char id[16];

		snprintf(id, sizeof(id), "f%zu", i);
		ASSERT_EQ(run_launch(&c, id, &o, ARGV(cases[i].command), &s), WIRE_S_FAILED);
		ASSERT_STREQ(s.phase, "launch");
		ASSERT_STREQ(s.stage, cases[i].stage);
		ASSERT_CONTAINS(s.message, cases[i].text);
		ASSERT_EQ(s.st.sys_errno, cases[i].err);
		ASSERT_EQ(run_status(&c, id, 0, &s), WIRE_S_FAILED);
	}
}

/* A script without a magic number is read by the shell, as execvp does it. */
LEVELS(script_without_magic, 60)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/script", proc.home);
	f = fopen(path, "w");
	ASSERT_NOT_NULL(f);
	fputs("exit $(($1 + 1))\n", f);
	fclose(f);
	ASSERT_OK(chmod(path, 0755));
	ASSERT(run_launch(&c, "a", NULL, ARGV("./script", "6"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 7);
}

static void new_mark(char mark[32])
{
	static int n;

	snprintf(mark, 32, "mark-%d-%d", getpid(), n++);
}

/* ---- trees ---- */

LEVELS(background_ends_with_main, 60)
{
	static const char *const ways[] = {"fork", "setsid", "double", "daemon"};
	struct opts o = {.grace_set = true, .grace_ms = 20000};
	char mark[32];

	for (size_t i = 0; i < 4; i++) {
		new_mark(mark);
		ASSERT(run_worker(&c, ways[i], &o,
				  ARGV("spawn", ways[i], "{", "up", "pause", "}", "mark", mark,
				       "exit", "4"),
				  &s) > 0);
		ASSERT_EQ(run_wait(&c, ways[i], 0, &s), WIRE_S_EXITED);
		ASSERT_EQ(s.st.exit_code, 4);
		ASSERT_EQ(marked(mark, NULL, 0), 0);
	}
}

LEVELS(grace_is_for_the_whole_tree, 60)
{
	struct opts o = {.grace_set = true, .grace_ms = 300};
	char mark[32];
	int64_t t = client_now_ms();

	new_mark(mark);
	/* The leader ends at once on TERM; what ignores TERM has the whole grace, and is
	 * running until then. */
	ASSERT_EQ(run_worker(&c, "a", &o,
			     ARGV("spawn", "setsid", "{", "ignore", "TERM", "up", "pause", "}",
				  "mark", mark, "ready", "pause"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	t = client_now_ms();
	ASSERT_EQ(run_cancel(&c, "a", 0, -1, &s), WIRE_S_CANCELLED);
	t = client_now_ms() - t;
	ASSERT_GE(t, 290);
	ASSERT_LT(t, 3000);
	ASSERT(s.st.has_signal);
	ASSERT_EQ(s.st.signo, SIGTERM);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
}

LEVELS(cancel_ignored_term, 60)
{
	struct opts o = {.grace_set = true, .grace_ms = 200};

	ASSERT_EQ(run_worker(&c, "a", &o, ARGV("ignore", "TERM", "ready", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "a", 0, -1, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(s.st.signo, SIGKILL);
	/* Grace 0 is KILL at once. */
	ASSERT_EQ(run_worker(&c, "b", NULL, ARGV("pause"), &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "b", 0, 0, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(s.st.signo, SIGKILL);
}

LEVELS(cancel_reaches_the_stopped, 60)
{
	char mark[32];

	new_mark(mark);
	ASSERT_EQ(run_worker(&c, "a", NULL, ARGV("mark", mark, "ready", "stop", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "a", 0, 20000, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(s.st.signo, SIGTERM);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
}

LEVELS(cancel_with_exit_code, 60)
{
	/* Its own answer to TERM is told, and the cause stays cancel. */
	ASSERT_EQ(run_worker(&c, "a", NULL,
			     ARGV("block", "TERM", "ready", "await", "TERM", "out", "bye", "exit",
				  "9"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "a", 0, -1, &s), WIRE_S_CANCELLED);
	ASSERT(s.st.has_exit_code && !s.st.has_signal);
	ASSERT_EQ(s.st.exit_code, 9);
	ASSERT_EQ(s.st.out.length, 4);
	/* Cancel of what has ended shows the state it ended in. */
	ASSERT_EQ(run_worker(&c, "b", NULL, ARGV("exit", "5"), &s) > 0, 1);
	ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(run_cancel(&c, "b", 0, -1, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 5);
}

/* Cancels racing with an exit: each ends in one of two truths, and a second look finds the same. */
LEVELS(cancel_against_exit, 120)
{
	int seen[2] = {0, 0};

	for (int i = 0; i < 40; i++) {
		char id[16], ms[16];
		struct state again;
		int state;

		snprintf(id, sizeof(id), "r%d", i);
		snprintf(ms, sizeof(ms), "%d", i % 8);
		ASSERT(run_launch(&c, id, NULL, ARGV(worker_binary(), "burnms", ms, "exit", "6"),
				  &s) > 0);
		state = run_cancel(&c, id, 0, -1, &s);
		ASSERT(state == WIRE_S_EXITED || state == WIRE_S_CANCELLED);
		if (state == WIRE_S_EXITED)
			ASSERT_EQ(s.st.exit_code, 6);
		seen[state == WIRE_S_CANCELLED]++;
		ASSERT_EQ(run_status(&c, id, 0, &again), state);
		ASSERT_EQ(again.st.exit_code, s.st.exit_code);
		ASSERT_EQ(again.st.signo, s.st.signo);
	}
	DIAG("%d exited, %d cancelled", seen[0], seen[1]);
}

LEVELS(signal_verb_reaches_the_tree, 60)
{
	char mark[32];

	new_mark(mark);
	ASSERT_EQ(run_worker(&c, "a", NULL,
			     ARGV("spawn", "setsid", "{", "up", "pause", "}", "mark", mark, "trap",
				  "USR1", "ready", "reap", "exit", "2"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_simple(&c, WIRE_SIGNAL, "a", 0, WK_SIGNO, SIGUSR1), 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 2);
	ASSERT_EQ(run_simple(&c, WIRE_SIGNAL, "a", 0, WK_SIGNO, SIGUSR1), WIRE_E_CONFLICT);
	ASSERT_EQ(run_simple(&c, WIRE_SIGNAL, "none", 0, WK_SIGNO, SIGUSR1), WIRE_E_NOT_FOUND);
}

LEVELS(many_processes, 120)
{
	char mark[32];

	new_mark(mark);
	ASSERT_EQ(run_worker(&c, "a", NULL, ARGV("mark", mark, "storm", "100", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT(marked_until(mark, 101) || marked(mark, NULL, 0) >= 100);
	ASSERT_EQ(run_cancel(&c, "a", 0, 0, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
}

/* A title with a space and a parenthesis does not break the reading of /proc/PID/stat. */
LEVELS(strange_title, 60)
{
	char mark[32];

	new_mark(mark);
	ASSERT_EQ(run_worker(&c, "a", NULL,
			     ARGV("mark", mark, "spawn", "daemon", "{", "title", "a) S 1 (b",
				  "ignore", "TERM", "up", "pause", "}", "ready", "pause"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "a", 0, 50, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
}

/* ---- time-outs ---- */

LEVELS(execution_timeout, 60)
{
	static const int64_t ms[] = {1, 50, 300};

	for (size_t i = 0; i < 3; i++) {
		struct opts o = {.timeout_ms = ms[i]};
		char id[16];
		int64_t took;

		snprintf(id, sizeof(id), "t%zu", i);
		ASSERT(run_worker(&c, id, &o, ARGV("pause"), &s) > 0);
		ASSERT_EQ(run_wait(&c, id, 0, &s), WIRE_S_TIMED_OUT);
		ASSERT_STREQ(s.phase, "execution");
		took = s.st.finished_ms - s.st.started_ms;
		ASSERT_GE(took, ms[i] - 1);
		ASSERT_LT(took, ms[i] + 500);
	}
}

LEVELS(timeout_kills_after_grace, 60)
{
	struct opts o = {.timeout_ms = 50, .grace_set = true, .grace_ms = 100};

	ASSERT(run_worker(&c, "a", &o, ARGV("ignore", "TERM", "pause"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_TIMED_OUT);
	ASSERT_GE(s.st.finished_ms - s.st.started_ms, 149);
	/* Main exits in time, its background does not: that is an exit. */
	o.timeout_ms = 300;
	o.grace_ms = 600;
	ASSERT(run_worker(&c, "b", &o,
			  ARGV("spawn", "fork", "{", "ignore", "TERM", "up", "pause", "}", "exit",
			       "1"),
			  &s) > 0);
	ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 1);
}

/* ---- ids ---- */

static bool is_there(void *path)
{
	return access(path, F_OK) == 0;
}

LEVELS(same_id_twenty_at_once, 60)
{
	int fds[2];
	char path[512];
	int launched = 0, existed = 0;
	struct stat st;

	ASSERT_OK(pipe(fds));
	snprintf(path, sizeof(path), "%s/ran", proc.home);
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		ASSERT_GE(pid, 0);
		if (pid == 0) {
			struct client mine;
			char result = 'e';

			if (client_open(&mine, proc.dir) == 0 &&
			    run_worker(&mine, "dup", NULL, ARGV("append", "~/ran", "x", "pause"),
				       &s) == WIRE_S_RUNNING)
				result = s.existed ? 'x' : 'l';
			(void)!write(fds[1], &result, 1);
			_exit(0);
		}
	}
	close(fds[1]);
	for (int i = 0; i < 20; i++) {
		char r = 0;

		ASSERT_EQ(read(fds[0], &r, 1), 1);
		launched += r == 'l';
		existed += r == 'x';
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	ASSERT_EQ(launched, 1);
	ASSERT_EQ(existed, 19);
	/* "running" is said before the worker has done anything. */
	ASSERT(client_until(is_there, path));
	ASSERT_EQ(run_cancel(&c, "dup", 0, 0, &s), WIRE_S_CANCELLED);
	ASSERT_OK(stat(path, &st));
	ASSERT_LE(st.st_size, 1);
	ASSERT_EQ(run_worker(&c, "dup", NULL, ARGV("pause"), &s), WIRE_S_CANCELLED);
	ASSERT(s.existed && s.has_spec);
}

LEVELS(refused_before_anything_changes, 60)
{
	static const char *const bad[] = {"", "-a", ".a", "a/b", "a b", "..", "\303\244"};
	char long_id[200];
	struct opts o = {.input = "too long", .input_len = 8};
	struct wire_w *w;
	size_t at;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ASSERT_EQ(run_worker(&c, bad[i], &o, ARGV("exit", "0"), &s), -1);
		ASSERT_EQ(s.code, WIRE_E_INVALID);
	}
	memset(long_id, 'a', sizeof(long_id));
	long_id[129] = '\0';
	ASSERT_EQ(run_worker(&c, long_id, NULL, ARGV("exit", "0"), &s), -1);
	ASSERT_EQ(s.code, WIRE_E_INVALID);
	long_id[128] = '\0';
	ASSERT(run_worker(&c, long_id, NULL, ARGV("exit", "0"), &s) > 0);
	ASSERT_EQ(run_wait(&c, long_id, 0, &s), WIRE_S_EXITED);
	/* An input that is not as long as the spec says: the id stays free. */
	w = client_begin(&c, WIRE_LAUNCH);
	at = wire_w_begin(w, WK_SPEC);
	wire_w_str(w, SK_ID, "short");
	wire_w_str(w, SK_ARG, "true");
	wire_w_int(w, SK_INPUT_KIND, SPEC_INPUT_STDIN);
	wire_w_int(w, SK_INPUT_LEN, 100);
	wire_w_end(w, at);
	client_end(&c);
	client_data(&c, "only this", 9);
	client_begin(&c, WIRE_END);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), WIRE_E_INVALID);
	ASSERT_EQ(run_status(&c, "short", 0, &s), -1);
	ASSERT_EQ(s.code, WIRE_E_NOT_FOUND);
	/* A tree that is not there. */
	o.tree = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	ASSERT_EQ(run_worker(&c, "need", &o, ARGV("exit", "0"), &s), -1);
	ASSERT_EQ(s.code, WIRE_E_PRECONDITION);
	ASSERT_STREQ(s.need, "tree");
	/* The stream is in step after all of that. */
	ASSERT(run_worker(&c, "short", NULL, ARGV("exit", "0"), &s) > 0);
}

LEVELS(kernel_bounds_have_names, 60)
{
	static char arg[131073], small[5000];
	const char *argv[1502] = {worker_binary(), "exit", "0", arg};
	struct opts o = {0};

	memset(arg, 'x', sizeof(arg) - 1);
	ASSERT_EQ(run_launch(&c, "a", NULL, argv, &s), -1);
	ASSERT_EQ(s.code, WIRE_E_TOO_LARGE);
	ASSERT_CONTAINS(s.message, "argument 3");
	arg[131071] = '\0';
	ASSERT(run_launch(&c, "a", NULL, argv, &s) > 0);
	memcpy(arg, "NAME=", 5);
	arg[131071] = 'x';
	o.env = ARGV(arg);
	ASSERT_EQ(run_worker(&c, "b", &o, ARGV("exit", "0"), &s), -1);
	ASSERT_CONTAINS(s.message, "NAME has");
	/* Many that each fit. */
	memset(small, 'y', sizeof(small) - 1);
	for (size_t i = 3; i < 1400; i++)
		argv[i] = small;
	argv[1400] = NULL;
	ASSERT_EQ(run_launch(&c, "c", NULL, argv, &s), -1);
	ASSERT_EQ(s.code, WIRE_E_TOO_LARGE);
	ASSERT_CONTAINS(s.message, "too large together");
	ASSERT_EQ(run_status(&c, "c", 0, &s), -1);
}

/* ---- the sandbox's end ---- */

LEVELS(stop_seals_everything, 60)
{
	struct client w;
	char mark[32];

	new_mark(mark);
	ASSERT_EQ(run_worker(&c, "a", NULL, ARGV("mark", mark, "pause"), &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_worker(&c, "b", &(struct opts){.kind = WIRE_KIND_SESSION},
			     ARGV("mark", mark, "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(client_open(&w, proc.dir), 0);
	wire_w_str(client_begin(&w, WIRE_STOP), WK_CAUSE, "idle");
	client_end(&w);
	client_call(&w, 0, NULL, NULL);
	ASSERT_EQ(client_code(&w), 0);
	client_close(&w);
	ASSERT_EQ(marked(mark, NULL, 0), 0);
	ASSERT_EQ(waitpid(proc.pid, NULL, 0), proc.pid);
	proc.pid = -1;
	client_close(&c);
	ASSERT_EQ(agent_restart(&proc, l->options), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_CANCELLED);
	ASSERT_STREQ(s.message, "idle");
	ASSERT(!s.same_inc && s.same_boot);
}

TEST_MAIN()
