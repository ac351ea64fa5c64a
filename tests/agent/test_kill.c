/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL to the supervisor, to init and to the connection child, at any moment: no state that
 * lies, no process left behind, no id that
 * cannot be explained.
 */
#include "tap.h"

#include <sys/wait.h>

#include "box.h"

static pid_t start_tree(const char *id)
{
	pid_t pids[8];

	ASSERT_EQ(run_worker(&c, id, NULL,
			     ARGV("mark", box_mark, "ignore", "TERM", "spawn", "daemon", "{",
				  "ignore", "TERM", "up", "pause", "}", "ready", "pause"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, id, 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(marked(box_mark, pids, 8), 2);
	for (int i = 0; i < 2; i++) {
		pid_t sup = supervisor_of(pids[i]);

		if (sup > 1 && sup != proc.pid)
			return sup;
	}
	FAIL("no supervisor above the workers");
	return -1;
}

LEVELS(supervisor, 60)
{
	pid_t sup = start_tree("a");
	struct client w;

	/* Somebody waits while it happens. */
	ASSERT_EQ(client_open(&w, proc.dir), 0);
	struct wire_w *q = client_begin(&w, WIRE_WATCH);

	wire_w_str(q, WK_ID, "a");
	wire_w_int(q, WK_TERMINAL_ONLY, 1);
	client_end(&w);
	ASSERT_EQ(client_send(&w), 0);
	ASSERT_OK(kill(sup, SIGKILL));
	client_call(&w, 0, NULL, NULL);
	ASSERT_EQ(run_take(&w, &s), WIRE_S_UNKNOWN);
	ASSERT_STREQ(s.message, "supervisor gone");
	client_close(&w);
	ASSERT(marked_until(box_mark, 0));
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_UNKNOWN);
	ASSERT_EQ(run_cancel(&c, "a", 0, -1, &s), WIRE_S_UNKNOWN);
	/* The id is taken, explained, and free again after FORGET. */
	ASSERT_EQ(run_worker(&c, "a", NULL, ARGV("exit", "0"), &s), WIRE_S_UNKNOWN);
	ASSERT(s.existed);
	ASSERT_EQ(run_simple(&c, WIRE_FORGET, "a", 0, 0, 0), 0);
	ASSERT(run_worker(&c, "a", NULL, ARGV("exit", "0"), &s) > 0);
	ASSERT(!s.existed);
}

LEVELS(init, 60)
{
	pid_t sup = start_tree("a");

	agent_kill(&proc);
	client_close(&c);
	ASSERT_OK(kill(sup, 0));
	ASSERT_EQ(marked(box_mark, NULL, 0), 2);
	ASSERT_EQ(agent_restart(&proc, l->options), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_RUNNING);
	ASSERT(s.held && !s.same_inc);
	ASSERT_EQ(run_cancel(&c, "a", 0, 50, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(marked(box_mark, NULL, 0), 0);
}

LEVELS(init_and_supervisor, 60)
{
	pid_t sup = start_tree("a");

	agent_kill(&proc);
	ASSERT_OK(kill(sup, SIGKILL));
	client_close(&c);
	ASSERT(marked_until(box_mark, 0));
	ASSERT_EQ(agent_restart(&proc, l->options), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_UNKNOWN);
}

/* All keepers at once: at the levels without a kernel that ends the tree, the main process at
 * least dies with its supervisor. */
LEVELS(everything_above, 60)
{
	pid_t sup = start_tree("a"), guard = parent_of(sup), pids[4];
	int n;

	if (strcmp(l->name, "pidns") == 0)
		guard = -1;
	kill(proc.pid, SIGSTOP);
	if (guard > 1 && guard != proc.pid)
		ASSERT_OK(kill(guard, SIGKILL));
	ASSERT_OK(kill(sup, SIGKILL));
	agent_kill(&proc);
	client_close(&c);
	/* What had left the tree of the main process is out of reach then: named in the docs. */
	ASSERT(marked_until(box_mark, guard > 1 ? 1 : 0));
	n = marked(box_mark, pids, 4);
	for (int i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	ASSERT_EQ(agent_restart(&proc, l->options), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_UNKNOWN);
}

/* Two inits: one wins, the other says so. */
LEVELS(second_init, 60)
{
	struct agent_proc other = proc;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl(agent_binary(), "berth-agent", "init", other.dir, (char *)NULL);
		_exit(99);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(WEXITSTATUS(status), 1);
	(void)l;
	ASSERT(run_worker(&c, "a", NULL, ARGV("exit", "0"), &s) > 0);
}

/* The last child of init: the connection child of the last connection. */
static pid_t last_child(pid_t of)
{
	char path[64], buf[4096], *p, *save = NULL;
	pid_t last = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", of, of);
	f = fopen(path, "re");
	if (!f)
		return -1;
	buf[fread(buf, 1, sizeof(buf) - 1, f)] = '\0';
	fclose(f);
	for (p = strtok_r(buf, " ", &save); p; p = strtok_r(NULL, " ", &save))
		last = (pid_t)atoi(p); /* in the order in which they were made */
	return last;
}

/* Whatever happened: what the record says now is true, stays true, and the id can be used again. */
static void check_truth(const char *id, bool will_run)
{
	int64_t give_up = client_now_ms() + 10000;
	int state;

	do
		state = run_status(&c, id, 0, &s);
	while ((state == WIRE_S_STARTING || (state < 0 && will_run)) && client_now_ms() < give_up);
	if (will_run)
		ASSERT_EQ(state, WIRE_S_RUNNING);
	if (state < 0) {
		ASSERT_EQ(s.code, WIRE_E_NOT_FOUND);
		ASSERT(marked_until(box_mark, 0));
	} else if (state == WIRE_S_RUNNING) {
		ASSERT_EQ(run_cancel(&c, id, 0, 0, &s), WIRE_S_CANCELLED);
		ASSERT_EQ(marked(box_mark, NULL, 0), 0);
	} else {
		ASSERT_EQ(state, WIRE_S_FAILED);
		ASSERT_STREQ(s.phase, "launch");
		ASSERT(marked_until(box_mark, 0));
	}
	if (state >= 0)
		ASSERT_EQ(run_simple(&c, WIRE_FORGET, id, 0, 0, 0), 0);
	ASSERT(run_worker(&c, id, NULL, ARGV("exit", "0"), &s) > 0);
	/* What is not there yet may be on its way, by a supervisor whose maker was killed. */
	if (s.existed && state < 0)
		check_truth(id, false);
	else
		ASSERT(!s.existed);
}

/* One LAUNCH whose connection child (or caller) is gone after us microseconds. */
static void launch_and_lose(const char *id, bool kill_child, long us)
{
	struct client d;
	struct timespec ts = {0, us * 1000};
	struct wire_w *w;
	size_t at;
	pid_t child;

	ASSERT_EQ(client_open(&d, proc.dir), 0);
	child = last_child(proc.pid);
	ASSERT_GT(child, 0);
	w = client_begin(&d, WIRE_LAUNCH);
	at = wire_w_begin(w, WK_SPEC);
	wire_w_str(w, SK_ID, id);
	wire_w_str(w, SK_ARG, worker_binary());
	wire_w_str(w, SK_ARG, "mark");
	wire_w_str(w, SK_ARG, box_mark);
	wire_w_str(w, SK_ARG, "pause");
	wire_w_end(w, at);
	client_end(&d);
	ASSERT_EQ(client_send(&d), 0);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	if (kill_child)
		kill(child, SIGKILL);
	client_close(&d);
}

LEVELS(connection_child_in_a_launch, 120)
{
	for (long us = 0; us < 3000; us += l->uid ? 300 : 100) {
		char id[32];

		snprintf(id, sizeof(id), "k%ld", us);
		launch_and_lose(id, true, us);
		check_truth(id, false);
	}
}

LEVELS(caller_in_a_launch, 120)
{
	for (long us = 0; us < 3000; us += l->uid ? 600 : 300) {
		char id[32];

		snprintf(id, sizeof(id), "c%ld", us);
		launch_and_lose(id, false, us);
		check_truth(id, true); /* a caller that is gone had its whole request taken */
	}
}

/* A frame cut off anywhere ends its stream and nothing else. */
LEVELS(torn_requests, 60)
{
	struct opts o = {.input = "0123456789", .input_len = 10};
	const uint8_t *bytes;
	struct client d;
	size_t n;

	ASSERT_EQ(client_open(&d, proc.dir), 0);
	ASSERT(run_worker(&d, "whole", &o, ARGV("exit", "0"), &s) > 0);
	client_close(&d);
	for (size_t cut = 1; cut < 120; cut += 7) {
		struct wire_w *w;
		size_t at;

		ASSERT_EQ(client_open(&d, proc.dir), 0);
		w = client_begin(&d, WIRE_LAUNCH);
		at = wire_w_begin(w, WK_SPEC);
		wire_w_str(w, SK_ID, "torn");
		wire_w_str(w, SK_ARG, "/bin/true");
		wire_w_int(w, SK_INPUT_KIND, 1);
		wire_w_int(w, SK_INPUT_LEN, 10);
		wire_w_end(w, at);
		client_end(&d);
		client_data(&d, "0123456789", 10);
		bytes = client_built(&d, &n);
		ASSERT_EQ(write(d.fd, bytes, cut < n ? cut : n), (ssize_t)(cut < n ? cut : n));
		client_close(&d);
	}
	/* Nonsense, too. */
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	ASSERT_EQ(write(d.fd, "\1\0\0\0\x20\xff\0\0x", 9), 9);
	ASSERT_EQ(client_recv(&d, &(uint8_t){0}, &bytes, &n) <= 0, 1);
	client_close(&d);
	ASSERT_EQ(run_status(&c, "torn", 0, &s), -1);
	ASSERT_EQ(s.code, WIRE_E_NOT_FOUND);
	ASSERT(run_worker(&c, "torn", NULL, ARGV("exit", "0"), &s) > 0);
	(void)l;
}

TEST_MAIN()
