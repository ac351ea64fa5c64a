/* SPDX-License-Identifier: MIT */
/* The status object, byte for byte, and the words of states and signals. */
#include "tap.h"

#include "core/execution.h"

static const struct {
	const char *name;
	struct berth_status st;
	const char *want;
} cases[] = {
	{"running",
	 {.state = BERTH_RUNNING,
	  .id = "a",
	  .exit_code = -1,
	  .mode = "worker",
	  .started_ms = 1700000000123,
	  .containment = "pidns",
	  .view = "overlay"},
	 "{\"state\":\"running\",\"executionId\":\"a\",\"sandbox\":\"local:x\",\"mode\":\"worker\","
	 "\"startedAt\":\"2023-11-14T22:13:20.123Z\",\"stdoutBytes\":0,\"stderrBytes\":0,"
	 "\"containment\":\"pidns\",\"view\":\"overlay\"}"},
	{"exited",
	 {.state = BERTH_EXITED,
	  .id = "a",
	  .exit_code = 0,
	  .started_ms = 1,
	  .finished_ms = 2,
	  .has_usage = true,
	  .user_ms = 3,
	  .system_ms = 4,
	  .max_rss_bytes = 5,
	  .hits = {{"pids", 6}},
	  .n_hits = 1,
	  .stdout_bytes = UINT64_MAX,
	  .has_hashes = true,
	  .stdout_hash = "xxh3-128:0",
	  .stderr_hash = "xxh3-128:1",
	  .artifact = "abc"},
	 "{\"state\":\"exited\",\"executionId\":\"a\",\"sandbox\":\"local:x\",\"exitCode\":0,"
	 "\"startedAt\":\"1970-01-01T00:00:00.001Z\",\"finishedAt\":\"1970-01-01T00:00:00.002Z\","
	 "\"usage\":{\"userMs\":3,\"systemMs\":4,\"maxRssBytes\":5},\"limitsHit\":{\"pids\":6},"
	 "\"stdoutBytes\":18446744073709551615,\"stderrBytes\":0,\"stdoutHash\":\"xxh3-128:0\","
	 "\"stderrHash\":\"xxh3-128:1\",\"artifact\":\"abc\"}"},
	{"signal",
	 {.state = BERTH_EXITED, .id = "a", .exit_code = -1, .signo = 11},
	 "{\"state\":\"exited\",\"executionId\":\"a\",\"sandbox\":\"local:x\",\"signal\":"
	 "\"SIGSEGV\"}"},
	{"failed",
	 {.state = BERTH_FAILED,
	  .id = "a",
	  .exit_code = -1,
	  .phase = "upload",
	  .message = "a \"quote\" \xff"},
	 "{\"state\":\"failed\",\"executionId\":\"a\",\"sandbox\":\"local:x\",\"phase\":\"upload\","
	 "\"message\":\"a \\\"quote\\\" \xef\xbf\xbd\"}"},
	{"exhausted",
	 {.state = BERTH_RESOURCE_EXHAUSTED,
	  .id = "a",
	  .exit_code = -1,
	  .signo = 9,
	  .resource = "memory",
	  .limit = 1048576},
	 "{\"state\":\"resource_exhausted\",\"executionId\":\"a\",\"sandbox\":\"local:x\","
	 "\"signal\":\"SIGKILL\",\"resource\":\"memory\",\"limit\":1048576}"},
	{"unavailable",
	 {.state = BERTH_PROVIDER_UNAVAILABLE,
	  .id = "a",
	  .exit_code = -1,
	  .provider_state = "stopped",
	  .message = "m"},
	 "{\"state\":\"provider_unavailable\",\"executionId\":\"a\",\"sandbox\":\"local:x\","
	 "\"providerState\":\"stopped\",\"message\":\"m\"}"},
};

TEST(status_objects_are_exact)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%s", cases[i].name)
		{
			char *json = NULL;

			ASSERT_EQ(berth_status_json("local:x", &cases[i].st, &json, NULL), 0);
			ASSERT_STREQ(json, cases[i].want);
			free(json);
		}
	}
}

TEST(what_is_no_state_is_refused)
{
	struct berth_status st = {.state = 0};
	char *json = NULL;

	ASSERT_EQ(berth_status_json("local:x", &st, &json, NULL), BERTH_E_INVALID);
	ASSERT_NULL(json);
	ASSERT_NULL(berth_state_name(0));
	ASSERT_NULL(berth_state_name(10));
	ASSERT_NULL(berth_state_name(-1));
	ASSERT_STREQ(berth_sandbox_status_name(BERTH_SANDBOX_STOPPED), "stopped");
	/* a driver of somebody else's may say anything */
	ASSERT_STREQ(berth_sandbox_status_name(0), "error");
	ASSERT_STREQ(berth_sandbox_status_name(-1), "error");
	ASSERT_STREQ(berth_sandbox_status_name(BERTH_SANDBOX_ERROR + 1), "error");
}

TEST(states_and_signals_have_words)
{
	static const char *const names[] = {"starting",  "running",
					    "exited",    "cancelled",
					    "timed_out", "resource_exhausted",
					    "failed",    "provider_unavailable",
					    "unknown"};
	int terminal = 0;

	for (int i = 1; i <= 9; i++) {
		ASSERT_STREQ(berth_state_name(i), names[i - 1]);
		terminal += berth_state_terminal(i);
	}
	ASSERT_EQ(terminal, 5);
	for (int sig = 1; sig <= 64; sig++) {
		const char *name = berth_signal_name(sig);

		if (sig == 32 || sig == 33) /* the C library's own */
			continue;
		ASSERT_EQ(berth_signal_number(name), sig);
	}
	ASSERT_EQ(berth_signal_number("TERM"), 15);
	ASSERT_EQ(berth_signal_number("72"), -1);
	ASSERT_NOT_NULL(berth_signal_name(72));
}

TEST_MAIN()
