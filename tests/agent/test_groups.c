/* SPDX-License-Identifier: MIT */
/*
 * An isolated sandbox in its control groups: the sandbox's limits and an execution's own, which of
 * them ended something, usage, guests; and that no group stays. The groups are made by
 * boxgroup.c, as stage makes them; the agent is a walled one.
 */
#include "tap.h"

#include <dirent.h>

#include "agent/boxgroup.h"
#include "agent/hier.h"
#include "run.h"
#include "walled.h"

static struct agent_proc proc;
static struct client c;
static struct state s;
static struct hier home; /* where this test was before */
static char name[64];
static int x[AGENT_GROUPS];
static bool v2;

/* ---- a sandbox in groups ---- */

static void start_box(void)
{
	static char words[AGENT_GROUPS][32];
	const char *options[2 * AGENT_GROUPS + 1];
	size_t n = 0, n_fds = 0;
	int fds[AGENT_GROUPS];
	struct walled_opts o = {.options = options, .fds = fds};

	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (x[i] < 0)
			continue;
		snprintf(words[i], sizeof(words[i]), "%s=%d", *hier_names[i] ? hier_names[i] : "v2",
			 x[i]);
		options[n++] = "--group";
		options[n++] = words[i];
		fds[n_fds++] = x[i];
	}
	options[n] = NULL;
	o.n_fds = n_fds;
	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, "box", &o), 0);
	ASSERT_OK(client_open(&c, proc.dir));
}

static void begin(const struct boxgroup_limits *limits)
{
	struct agent_fail f;

	TEST_REQUIRE("root", "own ids need root");
	hier_find(&home);
	v2 = hier_pure_v2(&home);
	snprintf(name, sizeof(name), "berth-test.%d", getpid());
	if (boxgroup_make(AT_FDCWD, name, limits, WALLED_UID, WALLED_UID, NULL, x, &f) < 0)
		DIAG("%s", f.message);
	if (x[v2 ? GROUP_V2 : GROUP_MEMORY] <= 0)
		TEST_REQUIRE("cgroup-memory", "no control group can be made here");
	start_box();
}

static int x_of(int g)
{
	return x[v2 ? GROUP_V2 : g];
}

/* Back to where we were, so that the groups are empty. */
static void leave(void)
{
	for (int i = 0; i < AGENT_GROUPS; i++) {
		int fd = x[i] < 0 ? -1 : hier_open_entry(home.own[i], v2);

		if (x[i] < 0)
			continue;
		ASSERT_EQ(write(fd, "0", 1), 1);
		close(fd);
	}
}

static int subgroups(int dir)
{
	char path[64];
	struct dirent **list;
	int n, found = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	n = scandir(path, &list, NULL, NULL);
	for (int i = 0; i < n; i++) {
		found += list[i]->d_type == DT_DIR && list[i]->d_name[0] != '.' &&
			 strcmp(list[i]->d_name, "guests") != 0;
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return found;
}

static bool none_left(void *arg)
{
	(void)arg;
	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (x[i] >= 0 && subgroups(x[i]) > 0)
			return false;
	}
	return true;
}

/* By the list: no path leads up from x. */
static void remove_groups(void)
{
	char line[1024];
	FILE *list = fopen("groups", "r");

	ASSERT(list != NULL);
	while (fgets(line, sizeof(line), list)) {
		char *slash = strrchr(line, '/');
		int parent;

		line[strcspn(line, "\n")] = '\0';
		*slash = '\0';
		ASSERT_STREQ(slash + 1, name);
		parent = open(*line ? line : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ASSERT_OK(hier_remove(parent, name, 1000));
		ASSERT_EQ(faccessat(parent, name, F_OK, 0), -1);
		close(parent);
	}
	fclose(list);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
	ASSERT(client_until(none_left, NULL));
	leave();
	remove_groups();
}

/* EXEC of the test worker, to its end. Returns client_code(). */
static int exec_on(struct client *on, const char *const *ops)
{
	struct wire_w *w = client_begin(on, WIRE_EXEC);

	wire_w_str(w, WK_ARG, worker_binary());
	for (; *ops; ops++)
		wire_w_str(w, WK_ARG, *ops);
	client_end(on);
	client_call(on, 0, NULL, NULL);
	return client_code(on);
}

#define ENDS(id, want)                                      \
	do {                                                \
		ASSERT_EQ(run_wait(&c, id, 0, &s), (want)); \
	} while (0)

/* ---- tests ---- */

TEST_TIMEOUT(memory_of_the_sandbox, 60)
{
	begin(&(struct boxgroup_limits){.memory = 64 << 20});
	ASSERT(run_worker(&c, "main", NULL, ARGV("eat", "200", "out", "alive", "pause"), &s) > 0);
	ENDS("main", WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "memory");
	ASSERT_EQ(s.st.limit, 64 << 20);
	ASSERT_EQ(s.st.signo, SIGKILL);
	/* A child that is killed ends the execution, though its parent would go on. */
	ASSERT(run_launch(&c, "child", NULL,
			  ARGV("/bin/sh", "-c", "\"$0\" eat 200; exec sleep 100", worker_binary()),
			  &s) > 0);
	ENDS("child", WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "memory");
	ASSERT_EQ(s.st.limit, 64 << 20);
	ASSERT(run_worker(&c, "small", NULL, ARGV("eat", "8", "exit", "5"), &s) > 0);
	ENDS("small", WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 5);
	end();
}

/* Which limit it was: the execution's own, or the sandbox's. */
TEST_TIMEOUT(memory_of_an_execution, 60)
{
	begin(&(struct boxgroup_limits){.memory = 96 << 20});
	ASSERT(run_worker(&c, "own", &(struct opts){.memory = 32 << 20}, ARGV("eat", "60", "pause"),
			  &s) > 0);
	ENDS("own", WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_EQ(s.st.limit, 32 << 20);
	ASSERT(run_worker(&c, "box", &(struct opts){.memory = 512 << 20},
			  ARGV("eat", "200", "pause"), &s) > 0);
	ENDS("box", WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_EQ(s.st.limit, 96 << 20);
	end();
}

/* Without a limit on the sandbox an execution may have one all the same. */
TEST_TIMEOUT(limits_of_an_execution_alone, 60)
{
	begin(&(struct boxgroup_limits){0});
	ASSERT(run_worker(&c, "a",
			  &(struct opts){.memory = 32 << 20, .pids = 10, .cpus_milli = 500},
			  ARGV("eat", "60", "pause"), &s) > 0);
	ENDS("a", WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_EQ(s.st.limit, 32 << 20);
	ASSERT(run_worker(&c, "b", &(struct opts){.pids = 10},
			  ARGV("storm", "100", "out", "on", "exit", "4"), &s) > 0);
	ENDS("b", WIRE_S_EXITED);
	ASSERT_EQ(s.st.n_hits, 1u);
	ASSERT(run_worker(&c, "c", &(struct opts){.cpu_time_ms = 300},
			  ARGV("spawn", "fork", "{", "up", "burn", "}", "spawn", "setsid", "{",
			       "up", "burn", "}", "pause"),
			  &s) > 0);
	ENDS("c", WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(s.resource, "cpu");
	end();
}

TEST_TIMEOUT(a_memory_bomb_in_a_guest, 60)
{
	struct client other;

	begin(&(struct boxgroup_limits){.memory = 64 << 20});
	ASSERT_OK(client_open(&other, proc.dir));
	ASSERT_EQ(run_worker(&c, "calm", NULL, ARGV("ready", "pause"), &s), WIRE_S_RUNNING);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(exec_on(&other, ARGV("eat", "300", "exit", "0")), 0);
		ASSERT_EQ(client_int(&other, WK_SIGNO, 0), SIGKILL);
	}
	/* Init, the supervisor and what was small have been spared. */
	ASSERT_EQ(run_status(&c, "calm", 0, &s), WIRE_S_RUNNING);
	ASSERT_EQ(exec_on(&other, ARGV("out", "hello", "exit", "3")), 0);
	ASSERT_EQ(client_int(&other, WK_EXIT_CODE, -1), 3);
	ASSERT_EQ(run_cancel(&c, "calm", 0, 1000, &s), WIRE_S_CANCELLED);
	client_close(&other);
	end();
}

/* In a sandbox that has no memory left no group can be made either: that must not be a way to run
 * outside of its limit. */
TEST_TIMEOUT(a_full_sandbox, 60)
{
	begin(&(struct boxgroup_limits){.memory = 4096});
	for (int i = 0; i < 3; i++) {
		/* Killed, or refused before it ran. */
		if (exec_on(&c, ARGV("eat", "60", "exit", "0")) == 0)
			ASSERT_EQ(client_int(&c, WK_SIGNO, 0), SIGKILL);
	}
	run_worker(&c, "x", NULL, ARGV("eat", "60", "exit", "0"), &s);
	/* -1: refused, and no record. */
	ASSERT_NE(run_wait(&c, "x", 0, &s), WIRE_S_EXITED);
	end();
}

static bool pids_at_most(void *arg)
{
	return hier_get(x_of(GROUP_PIDS), "pids.current", "") <= *(int *)arg;
}

TEST_TIMEOUT(fork_bombs, 90)
{
	const char *bomb = "b() { b | b & }; b; while :; do b; done 2>/dev/null";
	struct client other;
	int one = 1;

	begin(&(struct boxgroup_limits){.pids = 40});
	ASSERT_EQ(run_launch(&c, "bomb", NULL, ARGV("/bin/sh", "-c", bomb), &s), WIRE_S_RUNNING);
	ASSERT(client_until(pids_at_most, &(int){40}));
	ASSERT_EQ(run_cancel(&c, "bomb", 0, 0, &s), WIRE_S_CANCELLED);
	ASSERT(client_until(pids_at_most, &(int){0}));
	/* As a guest, ended by the end of its caller. */
	ASSERT_OK(client_open(&other, proc.dir));
	struct wire_w *w = client_begin(&other, WIRE_EXEC);

	wire_w_str(w, WK_ARG, "/bin/sh");
	wire_w_str(w, WK_ARG, "-c");
	wire_w_str(w, WK_ARG, bomb);
	client_end(&other);
	client_send(&other);
	for (int i = 0; i < 100; i++)
		ASSERT_LE(hier_get(x_of(GROUP_PIDS), "pids.current", ""), 40);
	client_close(&other);
	ASSERT(client_until(pids_at_most, &one));
	ASSERT(run_worker(&c, "after", NULL, ARGV("exit", "0"), &s) > 0);
	ENDS("after", WIRE_S_EXITED);
	end();
}

TEST_TIMEOUT(pids_of_the_sandbox_are_told, 60)
{
	begin(&(struct boxgroup_limits){.pids = 12});
	ASSERT(run_worker(&c, "a", NULL, ARGV("storm", "100", "out", "on", "exit", "4"), &s) > 0);
	ENDS("a", WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 4);
	if (!v2) { /* newer kernels count in v2 where the limit stands */
		ASSERT_EQ(s.st.n_hits, 1u);
		ASSERT_MEMEQ(s.st.hits[0].name.p, s.st.hits[0].name.n, "pids", 4);
	}
	end();
}

TEST_TIMEOUT(cpus_of_the_sandbox, 60)
{
	struct opts o = {.timeout_ms = 1500};
	int64_t from, used;

	begin(&(struct boxgroup_limits){.cpus_milli = 200});
	from = client_now_ms();
	ASSERT(run_worker(&c, "a", &o, ARGV("burn"), &s) > 0);
	ASSERT(run_worker(&c, "b", &o, ARGV("burn"), &s) > 0);
	ENDS("a", WIRE_S_TIMED_OUT);
	used = s.st.user_ms + s.st.system_ms;
	ENDS("b", WIRE_S_TIMED_OUT);
	used += s.st.user_ms + s.st.system_ms;
	/* A fifth of the time, and what a slow machine's ticks make of it. */
	ASSERT_LT(used, (client_now_ms() - from) / 5 + 300);
	ASSERT_GT(used, 100);
	end();
}

/* From the group: of the whole tree, whoever has reaped it. */
TEST_TIMEOUT(usage, 60)
{
	begin(&(struct boxgroup_limits){0});
	ASSERT(run_launch(&c, "a", NULL,
			  ARGV("/bin/sh", "-c", "\"$0\" eat 30 & \"$0\" eat 30 & wait; exit 3",
			       worker_binary()),
			  &s) > 0);
	ENDS("a", WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 3);
	ASSERT_GT(s.st.max_rss, 20 << 20);
	ASSERT_LT(s.st.max_rss, 200 << 20);
	ASSERT_GT(s.st.user_ms + s.st.system_ms, 0);
	/* The next one has its own numbers. */
	ASSERT(run_worker(&c, "b", NULL, ARGV("exit", "0"), &s) > 0);
	ENDS("b", WIRE_S_EXITED);
	ASSERT_LT(s.st.max_rss, 20 << 20);
	ASSERT_GE(s.st.max_rss, 0);
	end();
}

TEST_TIMEOUT(group_of_a_killed_supervisor, 60)
{
	pid_t pid;

	begin(&(struct boxgroup_limits){0});
	ASSERT_EQ(run_worker(&c, "a", NULL, ARGV("mark", "groups-killed", "ready", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	ASSERT_EQ(marked("groups-killed", &pid, 1), 1);
	ASSERT_OK(kill(supervisor_of(pid), SIGKILL));
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_UNKNOWN);
	ASSERT(marked_until("groups-killed", 0));
	end();
}

TEST_MAIN()
