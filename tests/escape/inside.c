/* SPDX-License-Identifier: MIT */
/*
 * inside.c: runs every attempt of the list from the inside, as an execution and as a guest of exec,
 * and looks at the bait and at the host afterwards. Without the wall (--spec with isolation=none)
 * it shows instead that the attempts marked TEETH get through.
 */
#include "bait.h"

struct row {
	const char *name;
	unsigned flags;
};
#define X(name, flags, what, why, expected) {#name, flags},
static const struct row rows[] = {ROWS_INSIDE(X)};
#undef X

static bool applies(const struct row *r)
{
	return !(r->flags & NO_NET) || strcmp(wall.net, "none") == 0;
}

static void held(const struct row *r, int code, const char *out, const char *err)
{
	if (code != 0 || !strstr(out, "held "))
		FAIL("%s: exit code %d\n%s%s", r->name, code, out, err);
	tap_.checks++;
	bait_is_intact();
	/* An attempt on the host's ports is seen there whatever the worker says. */
	nobody_connected();
}

static bool needs_wall(void)
{
	if (!walled())
		SKIP("the sandbox has no wall");
	return true;
}

/* A guest on a terminal, with its caller; it lives as long as that. */
static pid_t guest_on_a_terminal(void)
{
	struct berth_exec_request q;
	struct berth_exec_result r;
	int fds[2];
	char byte;
	pid_t pid;

	OK(berth_copy_in(box(), conf.worker, NULL, "worker", &E));
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		berth_exec_request_init(&q);
		q.command = ops("on-a-terminal", "pause");
		q.stdout_fd = fds[1];
		q.cols = 80;
		q.rows = 24;
		_exit(berth_exec(box(), &q, &r, &E) < 0 ? 99 : 0);
	}
	close(fds[1]);
	ASSERT_EQ(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

TEST_TIMEOUT(of_an_execution, 300)
{
	struct berth_status st;
	char id[64];
	pid_t typist;

	bait_up();
	needs_wall();
	/* Another execution and a guest are in the same sandbox, with the secret. */
	start_victim(box(), "victim");
	typist = guest_on_a_terminal();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!applies(&rows[i]))
			continue;
		SUBTEST("%s", rows[i].name)
		{
			snprintf(id, sizeof(id), "try-%s", rows[i].name);
			run(id, attempt_line(rows[i].name, id, "execution"), &st);
			ASSERT_EQ(st.state, BERTH_EXITED);
			held(&rows[i], st.exit_code, text_out(id, BERTH_STDOUT),
			     text_out(id, BERTH_STDERR));
			assert_gone(id);
			status_of("victim", &st);
			ASSERT_EQ(st.state, BERTH_RUNNING);
		}
	}
	ASSERT_EQ(waitpid(typist, NULL, WNOHANG), 0);
	kill(typist, SIGKILL);
	waitpid(typist, NULL, 0);
	end_it("victim");
	host_is_unchanged();
	bait_down();
}

/* Runs it as a guest; what it said on both streams. */
static int guest(const char *mark, const char *line, struct bytes *out)
{
	struct berth_exec_request q;
	struct berth_exec_result r;
	int fds[2], status;
	char buf[65536];
	ssize_t n;
	pid_t pid;

	if (home_size("worker") == 0)
		OK(berth_copy_in(box(), conf.worker, NULL, "worker", &E));
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		berth_exec_request_init(&q);
		q.command = ops(mark, line);
		q.stdout_fd = q.stderr_fd = fds[1];
		q.timeout_ms = 40000;
		if (berth_exec(box(), &q, &r, &E) < 0) {
			dprintf(fds[1], "exec: %s\n", E.message);
			_exit(99);
		}
		_exit(r.exit_code >= 0 ? r.exit_code : 128 + r.signo);
	}
	close(fds[1]);
	bytes_add(out, "", 0);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		bytes_add(out, buf, (size_t)n);
	close(fds[0]);
	ASSERT_OK(waitpid(pid, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

TEST_TIMEOUT(of_a_guest, 300)
{
	struct berth_status st;

	bait_up();
	needs_wall();
	start_victim(box(), "guests-victim");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!applies(&rows[i]))
			continue;
		SUBTEST("%s", rows[i].name)
		{
			char mark[64];
			struct bytes out = {0};
			int code;

			snprintf(mark, sizeof(mark), "guest-%s", rows[i].name);
			code = guest(mark, attempt_line(rows[i].name, mark, "guest"), &out);
			held(&rows[i], code, out.p, "");
			free(out.p);
			status_of("guests-victim", &st);
			ASSERT_EQ(st.state, BERTH_RUNNING);
		}
	}
	end_it("guests-victim");
	host_is_unchanged();
	bait_down();
}

/* The attempts are worth something: without the wall they get through. */
TEST_TIMEOUT(teeth, 120)
{
	struct berth_status st;
	char id[64];

	bait_up();
	if (walled())
		SKIP("the sandbox has a wall");
	if (geteuid() != 0)
		SKIP("only root gets everywhere");
	TEST_REQUIRE("cgroup-pids", "no control groups to get to");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!(rows[i].flags & TEETH))
			continue;
		SUBTEST("%s", rows[i].name)
		{
			snprintf(id, sizeof(id), "bite-%s", rows[i].name);
			run(id, attempt_line(rows[i].name, id, "execution"), &st);
			if (st.exit_code != 10)
				FAIL("%s: exit code %d\n%s", rows[i].name, st.exit_code,
				     text_out(id, BERTH_STDOUT));
			tap_.checks++;
			bait_is_intact();
		}
	}
	bait_down();
}
