/* SPDX-License-Identifier: MIT */
/*
 * walls.c: SIGKILL of what stands between an isolated sandbox and the host: init, the keeper of the
 * guests, the network's helper, the children of init. What must end with each of them ends, what
 * must not goes on, and the next start, stop or destroy finds a whole sandbox.
 */
#include "fault/procs.h"

static void walled_only(void)
{
	struct berth_provider_info info;

	local_only();
	OK(berth_sandbox_start(box(), &E));
	OK(berth_sandbox_info(box(), &info, &E));
	if (strcmp(info.isolation, "bwrap") != 0)
		SKIP("the sandbox has no wall");
	if (geteuid() != 0)
		SKIP("it takes root to see the processes of other uids");
}

/* First host uid of a sandbox, from its record. */
static unsigned uid_base(const char *name)
{
	char path[PATH_MAX + 64];
	const char *p;

	snprintf(path, sizeof(path), "%s/local/%s/sandbox", conf.state, name);
	p = strstr(text_of(path), "uid_base=");
	ASSERT_NOT_NULL(p);
	return (unsigned)strtoul(p + 9, NULL, 10);
}

static bool is_of(pid_t pid, unsigned base)
{
	char path[64], buf[4096], state = 0;
	const char *p;
	unsigned uid = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	p = strstr(buf, "\nUid:");
	if (!p || sscanf(p + 5, "%u", &uid) != 1)
		return false;
	parent_of(pid, &state);
	return uid >= base && uid < base + 8 && state != 'Z';
}

/* Every process of a sandbox whose name begins so (NULL: any); how many, at most cap of them. */
static size_t processes_of(unsigned base, const char *name, pid_t *ret, size_t cap)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[300], comm[64];
	size_t n = 0;

	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid <= 1 || !is_of(pid, base))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		slurp_at(AT_FDCWD, path, comm, sizeof(comm));
		if ((!name || strncmp(comm, name, strlen(name)) == 0) && n < cap)
			ret[n++] = pid;
	}
	if (d)
		closedir(d);
	return n;
}

/* Its numbers, from the host's inwards; how many. */
static size_t numbers_of(pid_t pid, int *ret, size_t cap)
{
	char path[64], buf[4096], *p, *end;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	p = strstr(buf, "\nNSpid:");
	for (p = p ? p + 7 : NULL; p && n < cap && *p != '\n'; p = end) {
		ret[n] = (int)strtol(p, &end, 10);
		if (end == p)
			break;
		n++;
	}
	return n;
}

/* PID 1 of the sandbox's own PID namespace, one below ours. */
static pid_t init_of(unsigned base)
{
	pid_t agents[64];
	size_t n = processes_of(base, "berth-", agents, 64), depth;
	int own[8], its[8];

	depth = numbers_of(getpid(), own, 8);
	for (size_t i = 0; i < n; i++) {
		if (numbers_of(agents[i], its, 8) == depth + 1 && its[depth] == 1)
			return agents[i];
	}
	FAIL("no init among %zu agents of uid %u", n, base);
}

/* PID 1 of the PID namespace that a process is in. */
static pid_t first_of_namespace(pid_t pid, unsigned base)
{
	pid_t agents[64];
	size_t n = processes_of(base, "berth-", agents, 64);
	char path[64], mine[64] = "", its[64];
	int numbers[8];
	size_t depth;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	ASSERT_OK((int)readlink(path, mine, sizeof(mine) - 1));
	for (size_t i = 0; i < n; i++) {
		memset(its, 0, sizeof(its));
		snprintf(path, sizeof(path), "/proc/%d/ns/pid", agents[i]);
		if (readlink(path, its, sizeof(its) - 1) < 0 || strcmp(its, mine) != 0)
			continue;
		depth = numbers_of(agents[i], numbers, 8);
		if (depth && numbers[depth - 1] == 1)
			return agents[i];
	}
	return 0;
}

/* Waits until there is none of them: each by its pidfd, with a deadline for all. */
static void await_none(unsigned base, const char *name)
{
	int64_t end = now_ms() + 10000;
	pid_t pid = 0;

	while (processes_of(base, name, &pid, 1) && now_ms() < end) {
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);
		struct pollfd p = {fd, POLLIN, 0};

		if (fd >= 0)
			poll(&p, 1, 1000);
		close(fd);
	}
	ASSERT_EQ(processes_of(base, name, &pid, 1), 0u);
}

static int exec_says(const char *mark, const char *line)
{
	struct berth_exec_request q;
	struct berth_exec_result r;

	if (home_size("worker") == 0)
		OK(berth_copy_in(box(), conf.worker, NULL, "worker", &E));
	berth_exec_request_init(&q);
	q.command = ops(mark, line);
	q.timeout_ms = 20000;
	OK(berth_exec(box(), &q, &r, &E));
	return r.exit_code;
}

static int next_exec(void *arg)
{
	use_box(arg);
	return exec_says("next", "exit 6");
}

TEST_TIMEOUT(init_takes_all_with_it, 60)
{
	static const char *const ids[] = {"with-1", "with-2", "with-3"};
	struct berth_status st;
	unsigned base;
	pid_t init;

	walled_only();
	use_box("headless-walls");
	start_ready(ids[0], "ready pause");
	start_ready(ids[1], "spawn daemon { ignore TERM up pause } ready chatter 1");
	start_ready(ids[2], "spawn setsid { up pause } storm 20 ready pause");
	ASSERT_EQ(exec_says("with-guest", "spawn daemon { nullio up pause } exit 0"), 0);
	base = uid_base("headless-walls");
	init = init_of(base);
	kill_and_wait(init);
	await_none(base, NULL);
	for (size_t i = 0; i < 3; i++) {
		finish(ids[i], &st);
		ASSERT_EQ(st.state, BERTH_UNKNOWN);
		ASSERT(st.message[0] != '\0');
		DIAG("%s: %s", ids[i], st.message);
	}
	/* Whoever starts something next, starts the sandbox. */
	ASSERT_EQ(exit_of(in_child(next_exec, (void *)(uintptr_t) "headless-walls")), 6);
	OK(berth_sandbox_destroy(box(), 3, -1, &(struct berth_destroy_result){0}, &E));
	ASSERT_EQ(processes_of(base, NULL, &init, 1), 0u);
}

/* A frozen init answers nobody; destroy must not need it. */
TEST_TIMEOUT(init_stopped_and_the_sandbox_destroyed, 60)
{
	struct berth_destroy_result r;
	unsigned base;
	pid_t init;

	walled_only();
	use_box("frozen");
	start_ready("frozen-1", "spawn daemon { ignore TERM up pause } ready pause");
	base = uid_base("frozen");
	init = init_of(base);
	ASSERT_OK(kill(init, SIGSTOP));
	OK(berth_sandbox_destroy(box(), 3, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	ASSERT_EQ(processes_of(base, NULL, &init, 1), 0u);
}

TEST_TIMEOUT(the_keeper_of_the_guests, 60)
{
	struct berth_status st;
	pid_t guest = 0, keeper;
	unsigned base;

	walled_only();
	base = uid_base("shared");
	start_ready("not-a-guest", "ready pause");
	ASSERT_EQ(exec_says("kept", "spawn daemon { nullio up pause } exit 0"), 0);
	ASSERT_EQ(processes_with(mark_of("kept"), &guest), 1u);
	keeper = first_of_namespace(guest, base);
	ASSERT_GT(keeper, 1);
	ASSERT_NE(keeper, init_of(base));
	kill_and_wait(keeper);
	await_gone("kept");
	/* Executions are none of its business; the next guest gets another. */
	status_of("not-a-guest", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT_EQ(exec_says("kept-2", "spawn daemon { nullio up pause } exit 4"), 4);
	ASSERT_EQ(processes_with(mark_of("kept-2"), &guest), 1u);
	ASSERT_NE(first_of_namespace(guest, base), keeper);
	kill_and_wait(guest);
	end_it("not-a-guest");
}

TEST_TIMEOUT(every_agent_but_init_and_the_supervisor, 60)
{
	pid_t agents[64], init, sup;
	struct berth_status st;
	unsigned base;
	size_t n;

	walled_only();
	use_box("bereft");
	start_ready("bereft-1", "block USR1 ready await USR1 out end exit 5");
	ASSERT_EQ(exec_says("bereft-guest", "spawn daemon { nullio up pause } exit 0"), 0);
	base = uid_base("bereft");
	sup = supervisor_of("bereft-1");
	n = processes_of(base, "berth-", agents, 64);
	ASSERT_GE(n, 2u);
	init = init_of(base);
	for (size_t i = 0; i < n; i++) {
		if (agents[i] != init && agents[i] != sup)
			kill_and_wait(agents[i]);
	}
	status_of("bereft-1", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT_EQ(exit_of(in_child(next_exec, (void *)(uintptr_t) "bereft")), 6);
	OK(berth_signal(box(), "bereft-1", SIGUSR1, &E));
	finish("bereft-1", &st);
	ASSERT_EXITED(&st, 5);
	OK(berth_sandbox_destroy(box(), 3, -1, &(struct berth_destroy_result){0}, &E));
	ASSERT_EQ(processes_of(base, NULL, &init, 1), 0u);
}

TEST_TIMEOUT(the_helper_of_the_network, 60)
{
	struct berth_sandbox *s;
	struct berth_status st;
	struct berth_deploy_request q;
	unsigned base;
	pid_t slirp = 0;

	walled_only();
	TEST_REQUIRE("slirp4netns", "net=egress needs slirp4netns");
	OK(berth_sandbox_open(context(), "local:online?net=egress", NULL, BERTH_OPEN_START, &s,
			      &E));
	OK(berth_sandbox_start(s, &E));
	base = uid_base("online");
	ASSERT_EQ(processes_of(base, "slirp4netns", &slirp, 1), 1u);
	request(&q, "online-1", "block USR1 ready await USR1 exit 5");
	OK(berth_deploy(s, &q, &(struct berth_deploy_result){0}, &E));
	await_bytes_in(s, "online-1", BERTH_STDOUT, 1);
	kill_and_wait(slirp);
	/* What runs loses its network and nothing else. */
	OK(berth_status(s, "online-1", &st, &E));
	ASSERT_EQ(st.state, BERTH_RUNNING);
	OK(berth_signal(s, "online-1", SIGUSR1, &E));
	OK(berth_wait(s, "online-1", 10000, &st, &E));
	ASSERT_EXITED(&st, 5);
	/* The next life has one again, and the end leaves none. */
	OK(berth_sandbox_stop(s, &E));
	OK(berth_sandbox_start(s, &E));
	ASSERT_EQ(processes_of(base, "slirp4netns", &slirp, 1), 1u);
	OK(berth_sandbox_destroy(s, 3, -1, &(struct berth_destroy_result){0}, &E));
	await_none(base, NULL);
	berth_sandbox_close(s);
}

TEST_TIMEOUT(init_and_the_helper_of_the_network, 60)
{
	struct berth_sandbox *s;
	unsigned base;

	walled_only();
	TEST_REQUIRE("slirp4netns", "net=egress needs slirp4netns");
	OK(berth_sandbox_open(context(), "local:orphan?net=egress", NULL, BERTH_OPEN_START, &s,
			      &E));
	OK(berth_sandbox_start(s, &E));
	base = uid_base("orphan");
	kill_and_wait(init_of(base));
	/* It hears of the end of init by a pipe, from nobody else. */
	await_none(base, "slirp4netns");
	OK(berth_sandbox_destroy(s, 3, -1, &(struct berth_destroy_result){0}, &E));
	berth_sandbox_close(s);
}
