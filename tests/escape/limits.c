/* SPDX-License-Identifier: MIT */
/*
 * limits.c: attempts to use up what others need. Where a limit cannot be enforced it is asserted
 * that berth says so instead of running without it.
 */
#include "bait.h"

TEST(each_row_has_its_test)
{
	ROWS_LIMITS(X_HAS_TEST)
}

static void need_wall(void)
{
	OK(berth_sandbox_start(box(), &E));
	OK(berth_sandbox_info(box(), &wall, &E));
	if (!walled())
		SKIP("the sandbox has no wall");
}

/* A sandbox of its own with keys more. NULL: it cannot be, and the error names what. */
static struct berth_sandbox *limited(const char *name, const char *keys, const char *names)
{
	static char spec[512];
	struct berth_sandbox *s;

	snprintf(spec, sizeof(spec), "%.400s&%s", spec_for(name), keys);
	OK(berth_sandbox_open(context(), spec, NULL, BERTH_OPEN_START, &s, &E));
	if (berth_sandbox_start(s, &E) == 0)
		return s;
	if (E.code != BERTH_E_UNSUPPORTED && E.code != BERTH_E_UNAVAILABLE)
		FAIL("%s: %s", keys, E.message);
	ASSERT_CONTAINS(E.message, names);
	berth_sandbox_close(s);
	return NULL;
}

static void drop(struct berth_sandbox *s)
{
	struct berth_destroy_result r;

	OK(berth_sandbox_destroy(s, 3, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	berth_sandbox_close(s);
}

/* False: limits of an execution cannot be had here, and it was told so. */
static bool start_limited(struct berth_sandbox *s, struct berth_deploy_request *q)
{
	struct berth_deploy_result r;

	memset(&r, 0, sizeof(r));
	if (berth_deploy(s, q, &r, &E) == 0)
		return true;
	ASSERT_EQ(E.code, BERTH_E_UNSUPPORTED);
	ASSERT_CONTAINS(E.message, "control group");
	return false;
}

static void bomb_is_held(struct berth_sandbox *s, const char *id, unsigned most)
{
	struct berth_status st;
	int64_t t;

	await_bytes_in(s, id, BERTH_STDOUT, 10);
	ASSERT_LE(processes_with(mark_of(id), NULL), most);
	t = now_ms();
	OK(berth_cancel(s, id, 100, &st, &E));
	ASSERT_LE(now_ms() - t, 3000);
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	assert_gone(id);
}

TEST_TIMEOUT(fork_bomb, 60)
{
	struct berth_deploy_request q;
	struct berth_sandbox *s;

	need_wall();
	request(&q, "fork-bomb", "fork-bomb");
	q.limits.pids = 64;
	if (start_limited(box(), &q))
		bomb_is_held(box(), "fork-bomb", 64);
	s = limited("forks", "pids=96", "control group");
	if (!s)
		return;
	request(&q, "fork-bomb-2", "fork-bomb");
	OK(berth_deploy(s, &q, &(struct berth_deploy_result){0}, &E));
	bomb_is_held(s, "fork-bomb-2", 96);
	drop(s);
}

static void memory_ended(struct berth_sandbox *s, const char *id)
{
	struct berth_status st;

	OK(berth_wait(s, id, 30000, &st, &E));
	ASSERT_EQ(st.state, BERTH_RESOURCE_EXHAUSTED);
	ASSERT_STREQ(st.resource, "memory");
	assert_gone(id);
}

TEST_TIMEOUT(memory_bomb, 90)
{
	struct berth_deploy_request q;
	struct berth_sandbox *s;

	need_wall();
	request(&q, "memory-bomb", "memory-bomb self");
	q.limits.memory_bytes = 64 << 20;
	if (start_limited(box(), &q))
		memory_ended(box(), "memory-bomb");
	request(&q, "memory-bomb-2", "memory-bomb child");
	q.limits.memory_bytes = 64 << 20;
	if (start_limited(box(), &q))
		memory_ended(box(), "memory-bomb-2");
	s = limited("memory", "memory=96M", "control group");
	if (!s)
		return;
	request(&q, "memory-bomb-3", "memory-bomb self");
	OK(berth_deploy(s, &q, &(struct berth_deploy_result){0}, &E));
	memory_ended(s, "memory-bomb-3");
	/* The sandbox itself is none the worse for it. */
	request(&q, "memory-after", "try fds");
	OK(berth_deploy(s, &q, &(struct berth_deploy_result){0}, &E));
	drop(s);
}

/* ── fillers ──────────────────────────────────────────────────────────────────────────────── */

/* What a filler said: the errno, and how many of what. */
static void filled(const char *id, const char *line, const char *unit, int *ret_errno, long *ret_n)
{
	struct berth_status st;
	const char *out;
	char want[32];

	run(id, line, &st);
	ASSERT_EXITED(&st, 0);
	out = text_out(id, BERTH_STDOUT);
	snprintf(want, sizeof(want), "errno %%d %s %%ld", unit);
	ASSERT_EQ(sscanf(out, want, ret_errno, ret_n), 2);
	DIAG("%s: %s", line, out);
}

/* Not more than half of the machine's memory in total, whatever the machine. */
static long half_of_memory_mb(void)
{
	return sysconf(_SC_PHYS_PAGES) / 2 * (sysconf(_SC_PAGESIZE) / 1024) / 1024;
}

TEST_TIMEOUT(tmp_filler, 120)
{
	int e = 0;
	long mb = 0;
	char line[64];

	need_wall();
	snprintf(line, sizeof(line), "fill /tmp %ld", half_of_memory_mb() + 64);
	filled("fill-tmp", line, "MB", &e, &mb);
	ASSERT_EQ(e, ENOSPC);
	ASSERT_LE(mb, half_of_memory_mb());
}

TEST_TIMEOUT(inode_filler, 120)
{
	int e = 0;
	long n = 0;

	need_wall();
	filled("fill-inodes", "inodes /tmp 2000000", "files", &e, &n);
	ASSERT_EQ(e, ENOSPC);
}

TEST_TIMEOUT(shm_filler, 120)
{
	static const char *const closed[] = {"/dev", "/app/..", "/run", "/home", "/etc"};
	struct berth_status st;
	int e = 0;
	long mb = 0;
	char line[64], id[32];

	need_wall();
	/* That a tmpfs is full at its size is shown with /tmp; here its size is looked at. */
	run("size-shm", "size /dev/shm", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_EQ(sscanf(text_out("size-shm", BERTH_STDOUT), "MB %ld", &mb), 1);
	ASSERT_GT(mb, 0);
	ASSERT_LE(mb, half_of_memory_mb());
	for (size_t i = 0; i < sizeof(closed) / sizeof(*closed); i++) {
		snprintf(id, sizeof(id), "fill-%zu", i);
		snprintf(line, sizeof(line), "fill %s 64", closed[i]);
		filled(id, line, "MB", &e, &mb);
		ASSERT(e == EACCES || e == EROFS);
		ASSERT_EQ(mb, 0);
	}
}

TEST_TIMEOUT(home_filler, 120)
{
	struct berth_sandbox *s;
	struct berth_deploy_request q;
	struct berth_status st;

	need_wall();
	s = limited("disk", "disk=32M", "quota");
	if (!s)
		return; /* told so, by name */
	request(&q, "fill-home", "fill /home/user 128");
	OK(berth_deploy(s, &q, &(struct berth_deploy_result){0}, &E));
	OK(berth_wait(s, "fill-home", 60000, &st, &E));
	ASSERT_EXITED(&st, 0);
	drop(s);
}

/* ── output ───────────────────────────────────────────────────────────────────────────────── */

static int64_t on_disk;

static int add_blocks(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path, (void)ftw;
	if (type == FTW_F)
		on_disk += (int64_t)st->st_blocks * 512;
	return 0;
}

TEST_TIMEOUT(log_bomb, 120)
{
	struct berth_deploy_request q;
	struct berth_status st;
	char path[PATH_MAX + 64];
	int64_t before;

	need_wall();
	snprintf(path, sizeof(path), "%s/local/shared", conf.state);
	run("before-log-bomb", "try fds", &st);
	on_disk = 0;
	nftw(path, add_blocks, 32, FTW_PHYS);
	before = on_disk;
	request(&q, "log-bomb", "flood 100");
	q.limits.output_bytes = 1 << 20;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_EQ(st.stdout_bytes, 100u << 20);
	ASSERT_EQ(st.stderr_bytes, 100u << 20);
	on_disk = 0;
	nftw(path, add_blocks, 32, FTW_PHYS);
	ASSERT_GT(before, 0);
	ASSERT_LE(on_disk - before, 4 << 20);
}
