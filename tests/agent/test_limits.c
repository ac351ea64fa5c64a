/* SPDX-License-Identifier: MIT */
/*
 * Limits: by control group where there is one, else by rlimits, else an error that names what
 * cannot be enforced.
 */
#include "tap.h"

#include <dirent.h>

#include "box.h"

/* No group of ours may be left behind: their names carry a mark of DIR, so only this test's
 * count. */
static int groups_below(const char *path, const char *prefix, int depth)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char sub[1024];
	int n = 0;

	while (d && (e = readdir(d))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			n++;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		if (depth)
			n += groups_below(sub, prefix, depth - 1);
	}
	if (d)
		closedir(d);
	return n;
}

static bool no_group_left(void *arg)
{
	uint32_t h = 2166136261u;
	char prefix[32];

	(void)arg;
	for (const char *p = proc.dir; *p; p++)
		h = (h ^ (uint8_t)*p) * 16777619u;
	snprintf(prefix, sizeof(prefix), "berth.%x.", h);
	return groups_below("/sys/fs/cgroup", prefix, 6) == 0;
}

static void need_group(void)
{
	begin(0, NULL);
	if (run_worker(&c, "probe",
		       &(struct opts){.memory = 1 << 28, .pids = 50, .cpus_milli = 500},
		       ARGV("exit", "0"), &s) < 0) {
		end();
		TEST_REQUIRE("cgroup", "no control group can be made here");
	}
	ASSERT_EQ(run_wait(&c, "probe", 0, &s), WIRE_S_EXITED);
}

TEST_TIMEOUT(memory, 60)
{
	struct opts o = {.memory = 32 << 20};

	need_group();
	ASSERT(run_worker(&c, "main", &o, ARGV("eat", "200", "out", "alive", "pause"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "main", 0, &s), WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "memory");
	ASSERT_EQ(s.st.limit, 32 << 20);
	ASSERT_EQ(s.st.signo, SIGKILL);
	/* A child that is killed ends the execution, though its parent would go on. */
	ASSERT(run_launch(&c, "child", &o,
			  ARGV("/bin/sh", "-c", "\"$0\" eat 200; exec sleep 100", worker_binary()),
			  &s) > 0);
	ASSERT_EQ(run_wait(&c, "child", 0, &s), WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "memory");
	/* Below the limit: nothing. */
	ASSERT(run_worker(&c, "small", &o, ARGV("eat", "8", "exit", "5"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "small", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 5);
	ASSERT(client_until(no_group_left, NULL));
	end();
}

TEST_TIMEOUT(pids, 60)
{
	struct opts o = {.pids = 10};

	need_group();
	ASSERT(run_worker(&c, "a", &o, ARGV("storm", "100", "out", "on", "exit", "4"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 4);
	ASSERT_EQ(s.st.n_hits, 1u);
	ASSERT_MEMEQ(s.st.hits[0].name.p, s.st.hits[0].name.n, "pids", 4);
	ASSERT_GT(s.st.hits[0].count, 0);
	ASSERT(run_worker(&c, "b", &o, ARGV("exit", "0"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.n_hits, 0u);
	ASSERT(client_until(no_group_left, NULL));
	end();
}

TEST_TIMEOUT(cpus, 60)
{
	struct opts o = {.cpus_milli = 100, .timeout_ms = 1500};

	need_group();
	ASSERT(run_worker(&c, "a", &o, ARGV("burn"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_TIMED_OUT);
	ASSERT_LT(s.st.user_ms + s.st.system_ms, 450);
	end();
}

TEST_TIMEOUT(cpu_time_of_a_tree, 60)
{
	struct opts o = {.cpu_time_ms = 300};

	need_group();
	ASSERT(run_worker(&c, "a", &o,
			  ARGV("spawn", "fork", "{", "up", "burn", "}", "spawn", "setsid", "{",
			       "up", "burn", "}", "pause"),
			  &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "cpu");
	ASSERT_EQ(s.st.limit, 300);
	end();
}

/* Without a group: each process, in whole seconds. As the ordinary user that cannot make one. */
TEST_TIMEOUT(cpu_time_by_rlimit, 60)
{
	struct opts o = {.cpu_time_ms = 200};

	begin(54321, NULL);
	ASSERT(run_worker(&c, "a", &o, ARGV("burn"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "cpu");
	ASSERT_EQ(s.st.signo, SIGXCPU);
	ASSERT(run_worker(&c, "b", &o, ARGV("ignore", "XCPU", "burn"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_EQ(s.st.signo, SIGKILL);
	/* The same signals without the limit, or by somebody else's hand, are exits. */
	ASSERT(run_worker(&c, "c", NULL, ARGV("raise", "XCPU"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "c", 0, &s), WIRE_S_EXITED);
	ASSERT(run_worker(&c, "d", &o, ARGV("raise", "KILL"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "d", 0, &s), WIRE_S_EXITED);
	end();
}

TEST_TIMEOUT(file_size_and_open_files, 60)
{
	struct opts o = {.file_size = 10000};
	char *text;
	size_t n;
	uint64_t gap;

	for (uid_t u = 0; u < 54322; u += 54321) {
		begin(u, NULL);
		o = (struct opts){.file_size = 10000};
		ASSERT(run_worker(&c, "a", &o, ARGV("bigfile", "~/big", "200000", "exit", "0"),
				  &s) > 0);
		ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_RESOURCE_EXHAUSTED);
		ASSERT_STREQ(s.resource, "file_size");
		ASSERT_EQ(s.st.signo, SIGXFSZ);
		/* The limit is the worker's, not its record's. */
		ASSERT(run_worker(&c, "b", &o, ARGV("fill", "1", "120", "50000"), &s) > 0);
		ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_EXITED);
		ASSERT_EQ(s.st.out.length, 50000u);
		ASSERT_EQ(s.st.out.gap_to, 0u);
		o = (struct opts){.open_files = 20};
		ASSERT(run_launch(&c, "c", &o, ARGV("/bin/sh", "-c", "ulimit -n; ulimit -Hn"), &s) >
		       0);
		ASSERT_EQ(run_wait(&c, "c", 0, &s), WIRE_S_EXITED);
		text = run_read(&c, "c", 0, WIRE_STDOUT, &n, &gap);
		ASSERT_STREQ(text, "20\n20\n");
		free(text);
		end();
	}
}

/* Asked before anything is changed; the message names the limit. */
TEST_TIMEOUT(what_cannot_be_enforced, 60)
{
	static const struct {
		struct opts o;
		const char *name;
	} cases[] = {
		{{.memory = 1 << 26}, "memory"},
		{{.pids = 10}, "pids"},
		{{.cpus_milli = 500}, "cpu"},
	};

	begin(54321, NULL);
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(run_worker(&c, "a", &cases[i].o, ARGV("exit", "0"), &s), -1);
		ASSERT_EQ(s.code, WIRE_E_UNSUPPORTED);
		ASSERT_CONTAINS(s.message, cases[i].name);
		ASSERT_EQ(run_status(&c, "a", 0, &s), -1);
	}
	end();
}

/* A killed supervisor leaves no group either, once an init looks. */
TEST_TIMEOUT(group_of_a_killed_supervisor, 60)
{
	pid_t pid;

	need_group();
	ASSERT_EQ(run_worker(&c, "a", &(struct opts){.memory = 1 << 26},
			     ARGV("mark", "limits-killed", "ready", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(marked("limits-killed", &pid, 1), 1);
	ASSERT_OK(kill(supervisor_of(pid), SIGKILL));
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_UNKNOWN);
	ASSERT(marked_until("limits-killed", 0));
	end();
	ASSERT(client_until(no_group_left, NULL));
}

TEST_MAIN()
