/* SPDX-License-Identifier: MIT */
/*
 * limits.c: a limit holds and is named, or is refused before anything runs: never silently ignored.
 */
#include "conf.h"

/* Deploys; true when the host has the means, else the refusal names the missing one. */
static bool limited(struct berth_deploy_request *q)
{
	struct berth_deploy_result r;
	struct berth_status st;
	int rc;

	memset(&r, 0, sizeof(r));
	rc = berth_deploy(box(), q, &r, &E);
	if (rc == 0) {
		ASSERT_NE(r.status.state, BERTH_FAILED);
		return true;
	}
	if (rc != BERTH_E_UNSUPPORTED)
		FAIL("deploy: %d: %s", rc, E.message);
	ASSERT_CONTAINS(E.message, "control group");
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), q->id, &st, &E));
	return false;
}

static bool has_limit(const struct berth_status *st, const char *name)
{
	for (size_t i = 0; i < st->n_hits; i++) {
		if (strcmp(st->hits[i].name, name) == 0 && st->hits[i].count > 0)
			return true;
	}
	return false;
}

#define NEEDS_CGROUP(q)                                                                        \
	do {                                                                                   \
		if (!limited(q))                                                               \
			TEST_REQUIRE("cgroup-limits", "refused as it must be: %s", E.message); \
	} while (0)

CASE(memory, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	run("before-memory", "exit 0", &st);
	request(&q, "memory", "spawn daemon { nullio up pause } ready eat 200 exit 0");
	q.limits.memory_bytes = 48 << 20;
	NEEDS_CGROUP(&q);
	finish("memory", &st);
	ASSERT_EQ(st.state, BERTH_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(st.resource, "memory");
	ASSERT_EQ(st.limit, 48 << 20);
	ASSERT_EQ(st.signo, SIGKILL);
	assert_gone("memory");
}

CASE(memory_of_a_child, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	/* The main process is not the one that the kernel kills; the execution ends all the
	 * same. */
	request(&q, "memory-child", "spawn fork { eat 200 pause } ready pause");
	q.limits.memory_bytes = 48 << 20;
	NEEDS_CGROUP(&q);
	finish("memory-child", &st);
	ASSERT_EQ(st.state, BERTH_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(st.resource, "memory");
	assert_gone("memory-child");
}

CASE(memory_that_is_enough, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "memory-ok", "eat 20 exit 3");
	q.limits.memory_bytes = 200 << 20;
	NEEDS_CGROUP(&q);
	finish("memory-ok", &st);
	ASSERT_EXITED(&st, 3);
	ASSERT_EQ(st.n_hits, 0u);
}

CASE(a_kill_by_others_is_no_memory_limit, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "no-oom", "raise KILL");
	q.limits.memory_bytes = 200 << 20;
	NEEDS_CGROUP(&q);
	finish("no-oom", &st);
	ASSERT_ENDED(&st, BERTH_EXITED, -1, SIGKILL);
	ASSERT_STREQ(st.resource, "");
}

CASE(pids, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "pids", "storm 1000 ready pause");
	q.limits.pids = 40;
	NEEDS_CGROUP(&q);
	await_ready("pids");
	ASSERT_LE(processes_with(mark_of("pids"), NULL), 41u);
	status_of("pids", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	cancel("pids", 0, &st);
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	assert_gone("pids");
	ASSERT(has_limit(&st, "pids"));
	ASSERT_CONTAINS(text_out("pids", BERTH_STDERR), "Resource temporarily unavailable");
}

CASE(cpus, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "cpus", "burnms 150 exit 0");
	q.limits.cpus_milli = 250;
	NEEDS_CGROUP(&q);
	finish("cpus", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_GE(st.finished_ms - st.started_ms, 350);
}

CASE_TIMEOUT(cpu_time, RUNS, 60)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "cpu-time", "ready burn");
	q.limits.cpu_time_ms = 1000;
	start_request(&q);
	finish("cpu-time", &st);
	ASSERT_EQ(st.state, BERTH_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(st.resource, "cpu");
	ASSERT_EQ(st.limit, 1000);
	ASSERT(st.signo == SIGXCPU || st.signo == SIGKILL || st.signo == SIGTERM);
	ASSERT_LE(st.user_ms + st.system_ms, 3000);
	assert_gone("cpu-time");
	request(&q, "cpu-time-ok", "burnms 100 exit 2");
	q.limits.cpu_time_ms = 5000;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 2);
}

CASE(file_size, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "file-size", "bigfile big 10000000 exit 0");
	q.limits.file_size_bytes = 100000;
	run_request(&q, &st);
	ASSERT_EQ(st.state, BERTH_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(st.resource, "file_size");
	ASSERT_EQ(st.limit, 100000);
	ASSERT_EQ(st.signo, SIGXFSZ);
	/* One that handles it goes on. Output is no file of the worker: it is not limited by
	 * this. */
	request(&q, "file-size-2", "ignore XFSZ bigfile big 10000000 rand 1 1 500000 exit 4");
	q.limits.file_size_bytes = 100000;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 4);
	ASSERT_EQ(st.stdout_bytes, 500000u + strlen("write File too large\n"));
}

CASE(open_files, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "open-files", "openfds 1000 exit 5");
	q.limits.open_files = 50;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 5);
	ASSERT_CONTAINS(text_out("open-files", BERTH_STDOUT), "opened 47 ");
}

CASE(none_are_none, RUNS)
{
	struct berth_status st;

	run("free", "openfds 500 bigfile big 3000000 eat 30 storm 60 exit 6", &st);
	ASSERT_EXITED(&st, 6);
	ASSERT_CONTAINS(text_out("free", BERTH_STDOUT), "opened 500 all");
	ASSERT_EQ(st.n_hits, 0u);
	assert_gone("free");
}

CASE(limits_are_of_one_execution, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "tight", "ready pause");
	q.limits.open_files = 20;
	start_request(&q);
	await_ready("tight");
	run("loose", "openfds 300", &st);
	ASSERT_CONTAINS(text_out("loose", BERTH_STDOUT), "opened 300 all");
	end_it("tight");
}
