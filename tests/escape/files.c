/* SPDX-License-Identifier: MIT */
/*
 * files.c: attempts on the files that berth itself carries: copies in and out, input files,
 * artifacts. The worker prepares the sandbox; then the caller asks for something harmless.
 */
#include "bait.h"

enum { RACES = 150 };

TEST(each_row_has_its_test)
{
	ROWS_FILES(X_HAS_TEST)
}

static void need_wall(void)
{
	OK(berth_sandbox_start(box(), &E));
	OK(berth_sandbox_info(box(), &wall, &E));
	if (!walled())
		SKIP("the sandbox has no wall");
}

/* A guest's operation in the sandbox's home, which must succeed. */
static void prepare(const char *fmt, ...)
{
	struct berth_exec_request q;
	struct berth_exec_result r;
	char line[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (home_size("worker") == 0)
		OK(berth_copy_in(box(), conf.worker, NULL, "worker", &E));
	berth_exec_request_init(&q);
	q.command = ops("prepare", line);
	OK(berth_exec(box(), &q, &r, &E));
	if (r.exit_code != 0)
		FAIL("%s: exit code %d", line, r.exit_code);
}

/* Starts a guest that swaps two names of the home until it is killed; its caller's pid. */
static pid_t start_swapping(const char *a, const char *b)
{
	struct berth_exec_request q;
	struct berth_exec_result r;
	char line[512], byte;
	int fds[2];
	pid_t pid;

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		berth_exec_request_init(&q);
		snprintf(line, sizeof(line), "swap %s %s", a, b);
		q.command = ops("swap", line);
		q.stdout_fd = fds[1];
		berth_exec(box(), &q, &r, &E);
		_exit(0);
	}
	close(fds[1]);
	ASSERT_EQ(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static void stop_swapping(pid_t pid)
{
	kill(pid, SIGKILL);
	exit_of(pid);
	await_gone("swap");
}

/* ── what came out, what was written ──────────────────────────────────────────────────────── */

static unsigned regular_files;

static int only_mine(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	regular_files++;
	if (strcmp(text_of(path), "mine") != 0)
		FAIL("%s came out with \"%.60s\"", path, text_of(path));
	tap_.checks++;
	return 0;
}

static char planted_at[PATH_MAX];

static int is_planted(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type;
	/* The upper layer of a view is the execution's own. */
	if (strcmp(path + ftw->base, "planted") == 0 && !strstr(path, "/up/a/"))
		snprintf(planted_at, sizeof(planted_at), "%s", path);
	return 0;
}

/* Looked for from outside, in the records and in the host's folders. */
static void nothing_planted(void)
{
	static const char *const dirs[] = {"/etc", "/usr/bin", "/", "/run", "/usr", "/tmp"};
	char path[PATH_MAX + 64];

	planted_at[0] = '\0';
	snprintf(path, sizeof(path), "%s/local/shared/berth", conf.state);
	nftw(path, is_planted, 32, FTW_PHYS);
	snprintf(path, sizeof(path), "%s/local/bait", conf.state);
	nftw(path, is_planted, 32, FTW_PHYS);
	nftw(bait.dir, is_planted, 32, FTW_PHYS);
	ASSERT_STREQ(planted_at, "");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		snprintf(path, sizeof(path), "%s/planted", dirs[i]);
		ASSERT_EQ(access(path, F_OK), -1);
	}
}

/* ── races ────────────────────────────────────────────────────────────────────────────────── */

static const char *const targets[] = {"/run/berth", "/proc/self/cwd", "/proc/1/root", "/etc"};

TEST_TIMEOUT(copy_out_race, 180)
{
	char rel[64], local[64];
	pid_t pid;

	bait_up();
	need_wall();
	for (size_t t = 0; t < sizeof(targets) / sizeof(*targets) - 1; t++) {
		prepare("mkdir out-%zu", t);
		prepare("mkdir out-%zu/a", t);
		prepare("write out-%zu/a/init.lock mine", t);
		prepare("link %s out-%zu/b", targets[t], t);
		{
			char a[32], b[32];

			snprintf(a, sizeof(a), "out-%zu/a", t);
			snprintf(b, sizeof(b), "out-%zu/b", t);
			pid = start_swapping(a, b);
		}
		for (int i = 0; i < RACES; i++) {
			snprintf(local, sizeof(local), "got-%zu-%d", t, i);
			snprintf(rel, sizeof(rel), i % 2 ? "out-%zu/a/init.lock" : "out-%zu/a", t);
			(void)berth_copy_out(box(), NULL, rel, local, &E);
			nftw(local, only_mine, 32, FTW_PHYS);
		}
		stop_swapping(pid);
	}
	/* The race was one: some copies found the file. */
	ASSERT_GT(regular_files, 0u);
	bait_is_intact();
	bait_down();
}

TEST_TIMEOUT(copy_in_race, 180)
{
	char rel[64], a[32], b[32];
	unsigned came = 0;
	pid_t pid;

	bait_up();
	need_wall();
	put_text("planted", "planted");
	for (size_t t = 0; t < sizeof(targets) / sizeof(*targets); t++) {
		prepare("mkdir in-%zu", t);
		prepare("mkdir in-%zu/a", t);
		prepare("link %s in-%zu/b", targets[t], t);
		snprintf(a, sizeof(a), "in-%zu/a", t);
		snprintf(b, sizeof(b), "in-%zu/b", t);
		pid = start_swapping(a, b);
		snprintf(rel, sizeof(rel), "in-%zu/a/planted", t);
		for (int i = 0; i < RACES; i++)
			came += berth_copy_in(box(), "planted", NULL, rel, &E) == 0;
		stop_swapping(pid);
	}
	ASSERT_GT(came, 0u);
	nothing_planted();
	host_is_unchanged();
	bait_is_intact();
	bait_down();
}

TEST_TIMEOUT(view_race, 120)
{
	struct berth_status st;
	unsigned came = 0;
	char line[64];

	bait_up();
	need_wall();
	put_text("planted", "planted");
	for (size_t t = 0; t < sizeof(targets) / sizeof(*targets); t++) {
		char id[32];
		const char *dir = new_artifact(targets[t] + strlen(targets[t]) - 3);
		struct berth_deploy_request q;

		ASSERT_OK(mkdir(in(dir, "a"), 0755));
		ASSERT_OK(symlink(targets[t], in(dir, "b")));
		snprintf(id, sizeof(id), "view-race-%zu", t);
		request(&q, id, "swap a b");
		q.dir = dir;
		start_request(&q);
		await_ready(id);
		for (int i = 0; i < RACES; i++)
			came += berth_copy_in(box(), "planted", id, "a/planted", &E) == 0;
		snprintf(line, sizeof(line), "out-of-view-%zu", t);
		for (int i = 0; i < 20; i++)
			(void)berth_copy_out(box(), id, "a/hostname", line, &E);
		ASSERT_EQ(access(line, F_OK), -1);
		cancel(id, 0, &st);
	}
	ASSERT_GT(came, 0u);
	bait_is_intact();
	nothing_planted();
	bait_down();
}

/* ── names ────────────────────────────────────────────────────────────────────────────────── */

TEST_TIMEOUT(copy_names, 120)
{
	static const char *const out[] = {"/etc/shadow",
					  "../../../../etc/shadow",
					  "/run/berth",
					  "/run/berth/init.lock",
					  "/proc/1/environ",
					  "/proc/1/root/etc/passwd",
					  "/proc/1/mem",
					  "/proc/self/cwd",
					  "/proc/self/cwd/init.lock",
					  "/proc/self/fd/3",
					  "/proc/self/fd/4",
					  "/proc/self/fd/5",
					  "/proc/self/fd/6",
					  "/proc/thread-self/cwd/init.lock",
					  "/dev/fd/3",
					  "/dev/fd/4",
					  "/proc/self/root/run/berth/init.lock",
					  "to-records",
					  "to-records/init.lock",
					  "to-cwd/init.lock"};
	static const char *const into[] = {"/etc/planted",
					   "/usr/bin/planted",
					   "/planted",
					   "/run/planted",
					   "/run/berth/planted",
					   "/proc/self/cwd/planted",
					   "/proc/sys/kernel/core_pattern",
					   "/proc/1/root/etc/planted",
					   "/proc/self/fd/3/planted",
					   "/dev/fd/4/planted",
					   "to-records/planted",
					   "to-cwd/planted",
					   "to-etc/planted",
					   "../../etc/planted",
					   "/proc/sysrq-trigger",
					   "/proc/1/oom_score_adj"};
	static const char *const below[] = {"../journal",   "../../init.lock",      "..",
					    "/etc/passwd",  "/run/berth/init.lock", "to/init.lock",
					    "cwd/init.lock"};
	struct berth_deploy_request q;
	const char *dir = new_artifact("names");

	bait_up();
	need_wall();
	put_text("planted", "planted");
	prepare("link /run/berth to-records");
	prepare("link /proc/self/cwd to-cwd");
	prepare("link /etc to-etc");
	for (size_t i = 0; i < sizeof(out) / sizeof(*out); i++) {
		SUBTEST("out %s", out[i])
		{
			char local[32];
			struct stat st;

			snprintf(local, sizeof(local), "out-%zu", i);
			/* A link that is copied as a link shows nothing. */
			if (berth_copy_out(box(), NULL, out[i], local, &E) == 0)
				ASSERT(lstat(local, &st) == 0 && S_ISLNK(st.st_mode));
			else
				ASSERT(lstat(local, &st) < 0 || S_ISDIR(st.st_mode));
		}
	}
	for (size_t i = 0; i < sizeof(into) / sizeof(*into); i++) {
		SUBTEST("in %s", into[i])
		ASSERT_LT(berth_copy_in(box(), "planted", NULL, into[i], &E), 0);
	}
	ASSERT_OK(symlink("/run/berth", in(dir, "to")));
	ASSERT_OK(symlink("/proc/self/cwd", in(dir, "cwd")));
	request(&q, "names", "pause");
	q.dir = dir;
	start_request(&q);
	for (size_t i = 0; i < sizeof(below) / sizeof(*below); i++) {
		SUBTEST("of an execution %s", below[i])
		{
			ASSERT_LT(berth_copy_out(box(), "names", below[i], "below", &E), 0);
			ASSERT_EQ(access("below", F_OK), -1);
			ASSERT_LT(berth_copy_in(box(), "planted", "names", below[i], &E), 0);
		}
	}
	end_it("names");
	nothing_planted();
	host_is_unchanged();
	bait_is_intact();
	bait_down();
}

TEST(copy_out_links)
{
	bait_up();
	need_wall();
	prepare("mkdir evil");
	prepare("link %s evil/x", bait.dir);
	prepare("link %s evil/y", bait.secret);
	OK(berth_copy_out(box(), NULL, "evil", "got", &E));
	prepare("remove evil/x");
	prepare("remove evil/y");
	prepare("mkdir evil/x");
	prepare("write evil/x/secret overwritten");
	prepare("write evil/x/planted planted");
	prepare("write evil/y overwritten");
	/* Into the same folder, with the link of the first time in the way. */
	(void)berth_copy_out(box(), NULL, "evil/.", "got", &E);
	bait_is_intact();
	(void)berth_copy_out(box(), NULL, "evil/y", "got/y", &E);
	bait_is_intact();
	(void)berth_copy_out(box(), NULL, "evil", "got", &E);
	bait_is_intact();
	nothing_planted();
	bait_down();
}

TEST(input_file)
{
	static const char *const paths[] = {"records/planted", "cwd/planted",     "up/planted",
					    "etc/planted",     "bait/planted",    "file",
					    "../planted",      "a/../../planted", "/etc/planted"};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	const char *dir = new_artifact("linked");
	char id[32];

	bait_up();
	need_wall();
	ASSERT_OK(mkdir(in(dir, "a"), 0755));
	ASSERT_OK(symlink("/run/berth", in(dir, "records")));
	ASSERT_OK(symlink("/proc/self/cwd", in(dir, "cwd")));
	ASSERT_OK(symlink("../../../..", in(dir, "up")));
	ASSERT_OK(symlink("/etc", in(dir, "etc")));
	ASSERT_OK(symlink(bait.dir, in(dir, "bait")));
	ASSERT_OK(symlink(bait.secret, in(dir, "file")));
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		SUBTEST("%s", paths[i])
		{
			int rc;

			snprintf(id, sizeof(id), "input-%zu", i);
			request(&q, id, "try fds");
			q.dir = dir;
			q.input_kind = BERTH_INPUT_FILE;
			q.input_path = paths[i];
			q.input = "planted";
			q.input_len = 7;
			memset(&r, 0, sizeof(r));
			rc = berth_deploy(box(), &q, &r, &E);
			/* The last name may be a link: then it is replaced, in the view. */
			if (strcmp(paths[i], "file") == 0 && rc == 0) {
				bait_is_intact();
			} else {
				ASSERT(rc < 0 || r.status.state == BERTH_FAILED);
			}
		}
	}
	nothing_planted();
	bait_is_intact();
	bait_down();
}

TEST(evil_artifact)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	struct stat s;
	const char *dir = new_artifact("evil");

	bait_up();
	need_wall();
	ASSERT_OK(symlink(bait.dir, in(dir, "abs")));
	ASSERT_OK(symlink("../../../../../../run/berth", in(dir, "up")));
	ASSERT_OK(symlink("/proc/1/root", in(dir, "root")));
	ASSERT_OK(symlink("worker", in(dir, "..link")));
	ASSERT_OK(mkdir(in(dir, "..dir"), 0755));
	put_text(in(dir, "..dir/...."), "mine");
	put_text(in(dir, " \n\\..\\"), "mine");
	put_bytes(in(dir, "setuid"), "mine", 4, 06755);
	ASSERT_OK(mkdir(in(dir, "sticky"), 0755));
	ASSERT_OK(chmod(in(dir, "sticky"), 07777));
	request(&q, "evil", attempt_line("needle_walk", "evil", "execution"));
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	OK(berth_copy_out(box(), "evil", "setuid", "setuid", &E));
	ASSERT_OK(stat("setuid", &s));
	ASSERT_EQ(s.st_mode & 06000, 0u);
	OK(berth_copy_out(box(), "evil", "..dir/....", "dots", &E));
	ASSERT_STREQ(text_of("dots"), "mine");
	/* What is neither file, directory nor link does not get in at all. */
	ASSERT_OK(mkfifo(in(dir, "fifo"), 0600));
	request(&q, "fifo", "try fds");
	q.dir = dir;
	FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
	ASSERT_CONTAINS(E.message, "fifo");
	bait_is_intact();
	nothing_planted();
	bait_down();
}

TEST(store_poisoned)
{
	struct berth_deploy_request q;
	struct berth_status st;
	const char *dir = new_artifact("poison");

	bait_up();
	need_wall();
	put_text(in(dir, "data"), "clean");
	put_text(in(dir, "gone"), "clean");
	request(&q, "poison-1", "write data poisoned");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	request(&q, "poison-2", "remove gone");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	request(&q, "poison-3", "write worker poisoned");
	q.dir = dir;
	run_request(&q, &st); /* ETXTBSY or its own copy */
	request(&q, "poison-4", "cat data");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("poison-4", BERTH_STDOUT), "clean");
	request(&q, "poison-5", "cat gone");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_of(in(dir, "data")), "clean");
	bait_down();
}
