/* SPDX-License-Identifier: MIT */
/*
 * The control groups of an isolated sandbox: made, limited, given, removed; in whatever the machine
 * has: v1 hierarchies, or v2 alone (tests/uml runs this there, also as an ordinary user to whom a
 * part of the tree was delegated).
 */
#include "tap.h"

#include <dirent.h>
#include <grp.h>
#include <sys/mman.h>

#include "agent/boxgroup.h"
#include "agent/hier.h"

#define OWNER 1879048192u /* where berth's own ranges of ids begin */

static char name[64];
static int here, x[AGENT_GROUPS];
static struct agent_fail f;

static uid_t owner(void)
{
	return geteuid() ? geteuid() : OWNER;
}

static bool pure_v2(void)
{
	struct hier h;
	bool v2;

	hier_find(&h);
	v2 = hier_pure_v2(&h);
	hier_close(&h);
	return v2;
}

/* The directory where the limit of this controller stands. */
static int x_of(int g)
{
	return pure_v2() ? x[GROUP_V2] : x[g];
}

static void begin(void)
{
	here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_GE(here, 0);
	snprintf(name, sizeof(name), "berth-test.%d", getpid());
	for (int i = 0; i < AGENT_GROUPS; i++)
		x[i] = -1;
}

static void read_text(int dir, const char *file, char *buf, size_t cap)
{
	ssize_t n = read_file_at(dir, file, buf, cap);

	if (n < 0)
		buf[0] = '\0';
	while (n > 0 && buf[n - 1] == '\n')
		buf[--n] = '\0';
}

/* ---- what boxgroup.h says about removing, done by the letter ---- */

static void kill_in(const char *dir)
{
	char path[1024], text[65536];
	DIR *d = opendir(dir);
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/cgroup.kill", dir);
	if (write_file_at(AT_FDCWD, path, "1", 1) == 0) {
		closedir(d);
		return;
	}
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	read_text(AT_FDCWD, path, text, sizeof(text));
	for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n"))
		kill((pid_t)atoi(p), SIGKILL);
	while (d && (e = readdir(d))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		kill_in(path);
	}
	if (d)
		closedir(d);
}

static void remove_one(const char *path)
{
	for (int i = 0; i < 1000; i++) {
		if (rmdir(path) == 0 || errno == ENOENT)
			return;
		ASSERT_EQ(errno, EBUSY);
		usleep(1000);
	}
	FAIL("%s stays busy", path);
}

static void remove_below(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[1024];

	while (d && (e = readdir(d))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		remove_below(path);
	}
	if (d)
		closedir(d);
	remove_one(dir);
}

static int remove_as_described(void)
{
	char line[1024];
	FILE *list = fopen("groups", "r");
	int n = 0;

	while (list && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = '\0';
		ASSERT_EQ(line[0], '/');
		kill_in(line);
		remove_below(line);
		n++;
	}
	if (list)
		fclose(list);
	unlink("groups");
	return n;
}

/* Directories of our name, wherever there are groups. */
static int count_named(const char *dir, int depth)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[1024];
	int n = 0;

	while (d && (e = readdir(d))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		n += strcmp(e->d_name, name) == 0;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (depth)
			n += count_named(path, depth - 1);
	}
	if (d)
		closedir(d);
	return n;
}

static int left(void)
{
	return count_named("/sys/fs/cgroup", 6);
}

/* ---- making ---- */

/* Makes the groups in a child, which stays in them; its pid. The fds come by /proc. */
struct made {
	int r;
	int fds[AGENT_GROUPS];
	struct agent_fail f;
};

static pid_t make_in_child(const struct boxgroup_limits *limits)
{
	struct made *m =
		mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int told[2];
	char path[64], c;
	pid_t pid;

	ASSERT_OK(pipe(told));
	pid = fork();
	if (pid == 0) {
		m->r = boxgroup_make(here, name, limits, owner(), owner(), NULL, m->fds, &m->f);
		(void)!write(told[1], "x", 1);
		pause();
		_exit(0);
	}
	close(told[1]);
	ASSERT_EQ(read(told[0], &c, 1), 1);
	close(told[0]);
	f = m->f;
	for (int i = 0; i < AGENT_GROUPS && m->r == 0; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, m->fds[i]);
		x[i] = m->fds[i] < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ASSERT_EQ(m->fds[i] < 0, x[i] < 0);
	}
	if (m->r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	munmap(m, sizeof(*m));
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ASSERT_GT(remove_as_described(), 0);
	ASSERT_EQ(left(), 0);
}

static const struct boxgroup_limits all_limits = {64 << 20, 20, 500};

/* The groups, or a skip where there are no rights to make any. */
static pid_t make_all_limits(void)
{
	pid_t pid;

	begin();
	pid = make_in_child(&all_limits);
	if (pid < 0) {
		DIAG("%s", f.message);
		ASSERT_EQ(left(), 0);
		if (geteuid() && !getenv("BERTH_TEST_DELEGATED"))
			SKIP("this user has no control group");
		TEST_REQUIRE("cgroup-memory", "no control group can be made here");
	}
	ASSERT_GT(pid, 0);
	return pid;
}

/* ---- what the owner may do ---- */

static void become_owner(void)
{
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(OWNER, OWNER, OWNER) < 0 ||
			       setresuid(OWNER, OWNER, OWNER) < 0))
		_exit(99);
}

/* As init does for an execution: a child of NAME/init enters a new group below x. */
static int enter_sub(int dir, const char *sub)
{
	int fd, r;

	if (mkdirat(dir, sub, 0755) < 0 && errno != EEXIST)
		return -1;
	fd = openat(dir, sub, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = hier_open_entry(fd, pure_v2());
	if (r < 0)
		return -1;
	return write(r, "0", 1) == 1 ? fd : -1;
}

/* NAME/init of every hierarchy, by the list: no path leads there from x. */
static bool enter_init(void)
{
	char line[1024], path[1100];
	FILE *list = fopen("groups", "r");
	bool ok = list != NULL;

	while (ok && fgets(line, sizeof(line), list)) {
		int dir, fd;

		line[strcspn(line, "\n")] = '\0';
		snprintf(path, sizeof(path), "%s/init", line);
		dir = open(path, O_RDONLY | O_DIRECTORY);
		if (dir < 0)
			continue; /* noted, and not made after all */
		fd = hier_open_entry(dir, pure_v2());
		ok = write(fd, "0", 1) == 1;
	}
	return ok;
}

/* Runs fn as the owner, in a child that entered NAME/init before. Its exit status. */
static int as_owner(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (!enter_init())
			_exit(98);
		become_owner();
		_exit(fn());
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- tests ---- */

TEST(made_and_removed)
{
	pid_t pid = make_all_limits();
	char text[4096], want[80];

	if (pure_v2()) {
		read_text(x_of(GROUP_MEMORY), "memory.max", text, sizeof(text));
		ASSERT_STREQ(text, "67108864");
		read_text(x_of(GROUP_CPU), "cpu.max", text, sizeof(text));
		ASSERT_STREQ(text, "50000 100000");
		ASSERT(hier_has(x[GROUP_V2], "cgroup.subtree_control", "memory"));
	} else {
		read_text(x_of(GROUP_MEMORY), "memory.limit_in_bytes", text, sizeof(text));
		ASSERT_STREQ(text, "67108864");
		read_text(x_of(GROUP_CPU), "cpu.cfs_quota_us", text, sizeof(text));
		ASSERT_STREQ(text, "50000");
		ASSERT_EQ(x[GROUP_V2], -1);
		ASSERT_GE(x[GROUP_CPUACCT], 0);
	}
	read_text(x_of(GROUP_PIDS), "pids.max", text, sizeof(text));
	ASSERT_STREQ(text, "20");
	/* The process itself is in init, which has no limits. */
	snprintf(text, sizeof(text), "/proc/%d/cgroup", pid);
	read_text(AT_FDCWD, text, text, sizeof(text));
	snprintf(want, sizeof(want), "/%s/init", name);
	ASSERT_CONTAINS(text, want);
	end(pid);
}

static int owner_tries(void)
{
	static const struct {
		int g;
		const char *v1, *v2;
	} files[] = {
		{GROUP_MEMORY, "memory.limit_in_bytes", "memory.max"},
		{GROUP_PIDS, "pids.max", "pids.max"},
		{GROUP_CPU, "cpu.cfs_quota_us", "cpu.max"},
		{GROUP_MEMORY, "../memory.limit_in_bytes", "../memory.max"},
		{GROUP_PIDS, "../pids.max", "../pids.max"},
	};
	int g[3] = {GROUP_MEMORY, GROUP_PIDS, GROUP_CPU};

	for (size_t i = 0; i < 5; i++) {
		int fd = openat(x_of(files[i].g), pure_v2() ? files[i].v2 : files[i].v1, O_WRONLY);

		if (geteuid() == OWNER && (fd >= 0 || errno != EACCES))
			return 10 + (int)i;
	}
	for (size_t i = 0; i < 3; i++) {
		int dir = x_of(g[i]), sub;

		if (fchmodat(dir, "pids.max", 0666, 0) == 0 && geteuid() == OWNER)
			return 21;
		sub = enter_sub(dir, "a");
		if (sub < 0)
			return 30 + (int)i;
		/* Its own below it: limits of one execution. */
		if (g[i] == GROUP_PIDS && hier_put(sub, "pids.max", 5) < 0)
			return 40;
	}
	return 0;
}

/* A directory of the host's mount would lead up to the host's root, out of any sandbox. */
TEST(nothing_leads_up_from_x)
{
	struct stat a, b;
	pid_t pid;

	if (geteuid())
		SKIP("wants CAP_SYS_ADMIN here");
	pid = make_all_limits();
	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (x[i] < 0)
			continue;
		ASSERT_OK(fstat(x[i], &a));
		ASSERT_OK(fstatat(x[i], "../../..", &b, 0));
		CHECK_EQ(a.st_ino, b.st_ino);
		CHECK_EQ(a.st_dev, b.st_dev);
	}
	end(pid);
}

TEST(the_owner_uses_x_and_cannot_raise_its_limits)
{
	pid_t pid = make_all_limits();

	ASSERT_EQ(as_owner(owner_tries), 0);
	end(pid);
}

/* Every process forks for as long as it lives. */
static int fork_storm(void)
{
	if (enter_sub(x_of(GROUP_PIDS), "a") < 0)
		return 90;
	if (fork() == 0) {
		for (;;)
			(void)!fork();
	}
	while (hier_get(x_of(GROUP_PIDS), "pids.events", "max") <= 0 &&
	       hier_get(x_of(GROUP_PIDS), "pids.current", "") < 20)
		usleep(100);
	return 0;
}

static int forks_of_one(void)
{
	int n = 0, hold[2];

	if (enter_sub(x_of(GROUP_PIDS), "a") < 0 || pipe(hold) < 0)
		return 90;
	while (n < 80) {
		pid_t pid = fork();

		if (pid == 0) {
			char c;

			close(hold[1]);
			_exit((int)read(hold[0], &c, 1));
		}
		if (pid < 0)
			break;
		n++;
	}
	return n;
}

static int eats(void)
{
	size_t n = 200u << 20;

	if (enter_sub(x_of(GROUP_MEMORY), "a") < 0)
		return 90;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	return 1;
}

TEST(limits_hold)
{
	pid_t pid = make_all_limits();
	int sub;

	ASSERT_EQ(as_owner(forks_of_one), 19);
	ASSERT_EQ(as_owner(eats), 1000 + SIGKILL);
	sub = openat(x_of(GROUP_MEMORY), "a", O_RDONLY | O_DIRECTORY);
	ASSERT_EQ(hier_get(sub, pure_v2() ? "memory.events" : "memory.oom_control", "oom_kill"), 1);
	ASSERT_EQ(kill(pid, 0), 0); /* what is in init has been spared */
	end(pid);
}

TEST(a_fork_bomb_is_held_and_ended)
{
	pid_t pid = make_all_limits();
	int64_t most = 0;

	ASSERT_EQ(as_owner(fork_storm), 0);
	for (int i = 0; i < 50; i++) {
		int64_t now = hier_get(x_of(GROUP_PIDS), "pids.current", "");

		most = now > most ? now : most;
		ASSERT_LE(now, 20);
	}
	DIAG("at most %jd processes", (intmax_t)most);
	end(pid);
}

/* Whatever of it has been done when the maker is killed, the list leads to all of it. */
TEST_TIMEOUT(killed_in_the_middle, 60)
{
	int with_groups = 0, whole = 0;

	end(make_all_limits());
	/* On a busy machine it takes longer until there is something to leave. */
	for (int us = 0; us < 3000 || (!with_groups && us < 1000000); us += us < 3000 ? 40 : 5000) {
		pid_t pid = fork();

		if (pid == 0) {
			int r = boxgroup_make(here, name, &all_limits, owner(), owner(), NULL, x,
					      &f);

			_exit(r == 0 ? 0 : 1);
		}
		usleep((useconds_t)us);
		kill(pid, SIGKILL);
		int status;

		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		with_groups += left() > 0;
		whole += WIFEXITED(status);
		remove_as_described();
		ASSERT_EQ(left(), 0);
	}
	DIAG("%d left groups, %d were through", with_groups, whole);
	ASSERT_GT(with_groups, 0);
}

/* An earlier life's group that cannot go yet has the limits of the new one. */
TEST(what_is_there_is_taken_over)
{
	pid_t pid = make_all_limits(), second;
	char text[64];

	second = make_in_child(&(struct boxgroup_limits){.pids = 7});
	ASSERT_GT(second, 0);
	read_text(x_of(GROUP_PIDS), "pids.max", text, sizeof(text));
	ASSERT_STREQ(text, "7");
	read_text(x_of(GROUP_MEMORY), pure_v2() ? "memory.max" : "memory.limit_in_bytes", text,
		  sizeof(text));
	ASSERT(strcmp(text, "67108864") != 0);
	read_text(x_of(GROUP_CPU), pure_v2() ? "cpu.max" : "cpu.cfs_quota_us", text, sizeof(text));
	ASSERT_STREQ(text, pure_v2() ? "max 100000" : "-1");
	kill(second, SIGKILL);
	waitpid(second, NULL, 0);
	end(pid);
}

/* Nothing can be made by a user who owns no group. */
TEST(without_rights)
{
	static const struct {
		struct boxgroup_limits limits;
		const char *name;
	} cases[] = {
		{{.memory = 1 << 26}, "memory"},
		{{.pids = 10}, "pids"},
		{{.cpus_milli = 500}, "cpu"},
	};
	pid_t pid;

	if (geteuid())
		SKIP("root is needed to become a user without rights");
	begin();
	ASSERT_OK(chmod(".", 0777));
	ASSERT_OK(setresuid(54321, 54321, 54321));
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(make_in_child(&cases[i].limits), -1);
		ASSERT_EQ(f.code, WIRE_E_UNSUPPORTED);
		ASSERT_CONTAINS(f.message, "the limit on ");
		ASSERT_CONTAINS(f.message, cases[i].name);
		DIAG("%s", f.message);
		ASSERT_EQ(left(), 0);
	}
	/* No limits: no groups, and no failure. */
	pid = make_in_child(&(struct boxgroup_limits){0});
	ASSERT_GT(pid, 0);
	for (int i = 0; i < AGENT_GROUPS; i++)
		ASSERT_EQ(x[i], -1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ASSERT_EQ(left(), 0);
}

TEST_MAIN()
