/* SPDX-License-Identifier: MIT */
/*
 * The agent for aarch64, under qemu: what it runs are this machine's own programs (execve leaves the
 * emulator). Namespaces cannot be made through the emulator, and it refuses PR_SET_CHILD_SUBREAPER, so
 * that a double fork is found by its control group only, where there is one.
 */
#include "tap.h"

#include "run.h"

static struct agent_proc proc;
static struct client c;
static struct state s;

static void begin(void)
{
	const char *agent = getenv("BERTH_AGENT_AARCH64");
	char cwd[256], path[300];
	FILE *f;

	TEST_REQUIRE("qemu-aarch64", "no qemu-aarch64-static");
	if (!agent || access(agent, X_OK) < 0)
		SKIP("no agent for aarch64 was built");
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(path, sizeof(path), "%s/berth-agent", cwd);
	f = fopen(path, "we");
	ASSERT_NOT_NULL(f);
	fprintf(f, "#!/bin/sh\nexec qemu-aarch64-static %s \"$@\"\n", agent);
	ASSERT_EQ(fclose(f), 0);
	ASSERT_OK(chmod(path, 0755));
	setenv("BERTH_AGENT", path, 1);
	ASSERT_EQ(agent_start(&proc, "box", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

TEST_TIMEOUT(executions, 120)
{
	const char *how = tap_env_lists_("BERTH_HAVE", "cgroup2") ? "daemon" : "fork";
	size_t n;
	uint64_t gap;
	char *text;

	begin();
	ASSERT(run_worker(&c, "a", NULL, ARGV("out", "hello", "exit", "3"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 3);
	text = run_read(&c, "a", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_STREQ(text, "hello");
	free(text);
	ASSERT_EQ(run_worker(&c, "b", NULL,
			     ARGV("mark", "on-aarch64", "spawn", how, "{", "up", "pause", "}",
				  "ready", "pause"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "b", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_cancel(&c, "b", 0, -1, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(marked("on-aarch64", NULL, 0), 0);
	ASSERT(run_worker(&c, "c", &(struct opts){.timeout_ms = 100}, ARGV("pause"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "c", 0, &s), WIRE_S_TIMED_OUT);
	ASSERT_EQ(run_launch(&c, "d", NULL, ARGV("no-such-command"), &s), WIRE_S_FAILED);
	ASSERT(run_worker(&c, "e", &(struct opts){.input = "bytes", .input_len = 5}, ARGV("cat"),
			  &s) > 0);
	ASSERT_EQ(run_wait(&c, "e", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.out.length, 5u);
	end();
}

TEST_TIMEOUT(sessions, 120)
{
	begin();
	wire_w_str(client_begin(&c, WIRE_EXEC), WK_ARG, worker_binary());
	wire_w_str(&c.w, WK_ARG, "out");
	wire_w_str(&c.w, WK_ARG, "text");
	wire_w_str(&c.w, WK_ARG, "exit");
	wire_w_str(&c.w, WK_ARG, "7");
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 7);
	ASSERT_MEMEQ(c.data, c.data_len, "text", 4);
	client_begin(&c, WIRE_INFO);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_STREQ(client_str(&c, WK_MACHINE), "aarch64");
	end();
}

TEST_MAIN()
