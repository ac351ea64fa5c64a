/* SPDX-License-Identifier: MIT */
/* berth_copy_in() and berth_copy_out(): round trips, names as docker cp has them, and links that
 * lead out. */
#include "deploytest.h"

static char home[PATH_MAX]; /* of the sandbox: isolation=none has it here */

static void start(void)
{
	sandbox();
	OK(berth_sandbox_start(S, &E));
	ASSERT_NOT_NULL(getcwd(home, sizeof(home) - 32));
	strcat(home, "/state/local/t/home");
	ASSERT_EQ(access(home, F_OK), 0);
}

static int in(const char *local, const char *remote)
{
	berth_error_reset(&E);
	return berth_copy_in(S, local, NULL, remote, &E);
}

static int out(const char *remote, const char *local)
{
	berth_error_reset(&E);
	return berth_copy_out(S, NULL, remote, local, &E);
}

static int shell(const char *fmt, ...)
{
	char cmd[2 * PATH_MAX + 1000];
	va_list args;

	va_start(args, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, args);
	va_end(args);
	return system(cmd);
}

/* Names, types, modes, mtimes (of directories only when dir_times), targets and contents of two
 * trees. */
static void same_tree(const char *a, const char *b, bool dir_times)
{
	static const char list[] = "(cd '%s' && find . -mindepth 1 ! -type d -printf '%%P %%y %%m "
				   "%%T@ %%l\\n' | sort && "
				   "find . -mindepth 1 -type d -printf '%%P %%m %s\\n' | sort && "
				   "find . -type f -exec cksum {} + | sort -k3) >%s.list";
	const char *times = dir_times ? "%T@" : "";

	ASSERT_EQ(shell(list, a, times, "a"), 0);
	ASSERT_EQ(shell(list, b, times, "b"), 0);
	ASSERT_EQ(shell("diff a.list b.list >&2"), 0);
}

static void make_tree(const char *name)
{
	ASSERT_EQ(shell("mkdir -p %s/sub/deeper %s/empty && cd %s && echo one >one && echo '#!' "
			">run && chmod 755 run && "
			": >zero && head -c 3000000 /dev/urandom >big && echo two >sub/two && "
			"chmod 600 sub/two && "
			"touch \"$(printf 'a\\nb')\" -- -rf ' ' \"$(printf '\\377\\001')\" ..data "
			"&& ln -s one link && "
			"ln -s /nowhere dangling && ln -s ../one sub/up && chmod 711 sub/deeper && "
			"chmod 555 empty && "
			"touch -d '2001-02-03 04:05:06.789012345' one sub/two sub/deeper sub empty "
			"&& touch -h -d @1234567890 link",
			name, name, name),
		  0);
}

TEST(tree_there_and_back)
{
	char inside[PATH_MAX + 8];

	start();
	make_tree("t");
	OK(in("t", "t2"));
	snprintf(inside, sizeof(inside), "%s/t2", home);
	same_tree("t", inside, true);
	OK(out("t2", "back"));
	same_tree("t", "back", true);
	/* onto what is there: the same again, but for the times of directories that were written
	 * into */
	OK(out("t2/.", "back"));
	same_tree("t", "back", false);
	OK(in("t/.", "t2"));
	same_tree("t", inside, false);
}

TEST(file_there_and_back)
{
	struct stat st;

	start();
	put("f", "contents\n");
	ASSERT_OK(chmod("f", 0751));
	ASSERT_OK(utimensat(AT_FDCWD, "f", (struct timespec[]){{1, 2}, {1000000001, 5}}, 0));
	OK(in("f", "new/dir/g"));
	OK(out("new/dir/g", "made/too/h"));
	ASSERT_STREQ(slurp("made/too/h"), "contents\n");
	ASSERT_OK(stat("made/too/h", &st));
	ASSERT_EQ(st.st_mode & 07777, 0751);
	ASSERT_EQ(st.st_mtim.tv_sec, 1000000001);
	ASSERT_EQ(st.st_mtim.tv_nsec, 5);
	ASSERT_EQ(shell("find made -name '.berth-*' | grep . >&2; test $? = 1"), 0);
}

/* ── names ───────────────────────────────────────────────────────────────────────────────────── */

struct name_case {
	const char *src, *dst, *made; /* made: where the contents "F" are then; NULL: conflict */
};

static const struct name_case names[] = {
	{"file", "new", "new"},          {"file", "dir", "dir/file"},
	{"file", "dir/", "dir/file"},    {"file", "dir/new", "dir/new"},
	{"file", "no/", "no/file"},      {"file", "other", "other"},
	{"file", "other/", NULL},        {"file", ".", "file"},
	{"./file", "dir/.", "dir/file"}, {"tree", "new", "new/f"},
	{"tree/", "new/", "new/f"},      {"tree", "dir", "dir/tree/f"},
	{"tree/", "dir", "dir/tree/f"},  {"tree/.", "dir", "dir/f"},
	{"tree/.", "new", "new/f"},      {"tree", "other", NULL},
	{"tree/.", "other", NULL},       {"a/../tree", "dir", "dir/tree/f"},
};

/* The home has berth's own directory in it, too: only what is ours goes. */
static void prepare(const char *src_root, const char *dst_root)
{
	const char *roots[] = {src_root, dst_root};

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(shell("cd '%s' && rm -rf a tree file new dir other no", roots[i]), 0);
	ASSERT_EQ(shell("cd '%s' && mkdir a tree && printf F >file && printf F >tree/f", src_root),
		  0);
	ASSERT_EQ(shell("cd '%s' && mkdir dir && printf old >other", dst_root), 0);
}

static void check_name(const struct name_case *c, bool inward)
{
	char local[PATH_MAX], made[2 * PATH_MAX], cwd[PATH_MAX];
	int r;

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	if (inward)
		prepare("here", home);
	else
		prepare(home, "here");
	SUBTEST("%s: %s to %s", inward ? "in" : "out", c->src, c->dst)
	{
		snprintf(local, sizeof(local), "here/%s", inward ? c->src : c->dst);
		r = inward ? in(local, c->dst) : out(c->src, local);
		if (c->made) {
			snprintf(made, sizeof(made), "%s/%s", inward ? home : "here", c->made);
			if (r < 0)
				FAIL("%s", E.message);
			ASSERT_STREQ(slurp(made), "F");
		} else {
			snprintf(made, sizeof(made), "%s/other", inward ? home : "here");
			ASSERT_EQ(r, BERTH_E_CONFLICT);
			ASSERT_STREQ(slurp(made), "old");
		}
	}
}

TEST_TIMEOUT(names_of_docker_cp, 60)
{
	start();
	ASSERT_OK(mkdir("here", 0755));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		check_name(&names[i], true);
		/* "." is the test's own directory there; the home has berth's directory in it */
		check_name(&names[i], false);
	}
}

/* What was there keeps its mode: copying into /tmp must not change /tmp. */
TEST(directories_that_are_there_keep_their_mode)
{
	struct stat st;
	char path[PATH_MAX + 8];

	start();
	ASSERT_EQ(shell("mkdir -m 700 t && echo x >t/f && mkdir -m 777 there && chmod 1777 there "
			"&& mkdir -m 750 '%s/there'",
			home),
		  0);
	OK(in("t/.", "there"));
	snprintf(path, sizeof(path), "%s/there", home);
	ASSERT_OK(stat(path, &st));
	ASSERT_EQ(st.st_mode & 07777, 0750);
	OK(in("t", "fresh"));
	OK(out("fresh/.", "there"));
	ASSERT_OK(stat("there", &st));
	ASSERT_EQ(st.st_mode & 07777, 01777);
	ASSERT_STREQ(slurp("there/f"), "x\n");
}

/* ── links ───────────────────────────────────────────────────────────────────────────────────── */

TEST(links_are_not_written_through)
{
	start();
	ASSERT_OK(mkdir("outside", 0755));
	put("outside/victim", "untouched");
	ASSERT_EQ(shell("mkdir -p t/d && echo new >t/victim && echo new >t/d/victim"), 0);
	/* out: a file's place is a link, a directory's place is a link */
	OK(in("t", "t"));
	ASSERT_EQ(shell("mkdir dst && ln -s ../outside/victim dst/victim"), 0);
	OK(out("t/.", "dst"));
	ASSERT_STREQ(slurp("outside/victim"), "untouched");
	ASSERT_STREQ(slurp("dst/victim"), "new\n");
	ASSERT_EQ(shell("rm -rf dst && mkdir dst && ln -s ../outside dst/d"), 0);
	ASSERT_EQ(out("t/.", "dst"), BERTH_E_CONFLICT);
	ASSERT_STREQ(slurp("outside/victim"), "untouched");
	/* in: the same on the other side */
	ASSERT_EQ(shell("mkdir '%s/dst' && ln -s \"$PWD/outside/victim\" '%s/dst/victim'", home,
			home),
		  0);
	OK(in("t/.", "dst"));
	ASSERT_STREQ(slurp("outside/victim"), "untouched");
	ASSERT_EQ(shell("rm -rf '%s/dst' && mkdir '%s/dst' && ln -s \"$PWD/outside\" '%s/dst/d'",
			home, home, home),
		  0);
	ASSERT_EQ(in("t/.", "dst"), BERTH_E_CONFLICT);
	ASSERT_STREQ(slurp("outside/victim"), "untouched");
	ASSERT_EQ(access("outside/d", F_OK), -1);
}

TEST(link_itself_or_what_it_points_to)
{
	char target[64] = "";

	start();
	ASSERT_EQ(shell("mkdir d && echo x >d/f && ln -s d l"), 0);
	OK(in("l", "l1"));
	OK(in("l/", "l2"));
	OK(out("l1", "back"));
	ASSERT_OK(readlink("back", target, sizeof(target) - 1));
	ASSERT_STREQ(target, "d");
	OK(out("l2/f", "f"));
	ASSERT_STREQ(slurp("f"), "x\n");
}

/* ── an execution's own directory ────────────────────────────────────────────────────────────── */

TEST(view_of_an_execution)
{
	struct berth_deploy_request q =
		request("v", "echo made >by-worker; ln -s /etc link; ln -s .. up; cat >/dev/null");
	struct berth_deploy_result r;

	start();
	make_art();
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "";
	OK(berth_deploy(S, &q, &r, &E));
	wait_exit("v", 0);
	OK(berth_copy_out(S, "v", "by-worker", "bw", &E));
	ASSERT_STREQ(slurp("bw"), "made\n");
	OK(berth_copy_out(S, "v", ".", "all", &E));
	ASSERT_STREQ(slurp("all/data"), "the data\n");
	put("x", "put");
	OK(berth_copy_in(S, "x", "v", "sub/x", &E));
	OK(berth_copy_out(S, "v", "sub/x", "y", &E));
	ASSERT_STREQ(slurp("y"), "put");
	FAILS(BERTH_E_INVALID, berth_copy_out(S, "v", "../../x", "z", &E));
	FAILS(BERTH_E_INVALID, berth_copy_out(S, "v", "/etc/passwd", "z", &E));
	ASSERT_LT(berth_copy_out(S, "v", "link/passwd", "z", &E), 0);
	ASSERT_LT(berth_copy_out(S, "v", "up/journal", "z", &E), 0);
	ASSERT_LT(berth_copy_in(S, "x", "v", "link/berth-test-x", &E), 0);
	ASSERT_EQ(access("z", F_OK), -1);
	ASSERT_EQ(access("/etc/berth-test-x", F_OK), -1);
	FAILS(BERTH_E_NOT_FOUND, berth_copy_out(S, "nobody", "data", "z", &E));
	FAILS(BERTH_E_INVALID, berth_copy_out(S, "no/body", "data", "z", &E));
}

TEST(view_of_a_running_execution)
{
	struct berth_deploy_request q =
		request("v", "echo made >by-worker; until [ -s go ]; do sleep 0.02; done; cat go");
	struct berth_deploy_result r;

	start();
	make_art();
	OK(berth_deploy(S, &q, &r, &E));
	put("go", "gone\n");
	OK(berth_copy_in(S, "go", "v", "go", &E));
	wait_exit("v", 0);
	ASSERT_STREQ(output("v", BERTH_STDOUT), "gone\n");
	OK(berth_copy_out(S, "v", "by-worker", "bw", &E));
	ASSERT_STREQ(slurp("bw"), "made\n");
}

/* ── refusals ────────────────────────────────────────────────────────────────────────────────── */

TEST(what_cannot_be_copied)
{
	start();
	FAILS(BERTH_E_INVALID, berth_copy_in(S, "nowhere", NULL, "x", &E));
	ASSERT_CONTAINS(E.message, "nowhere");
	FAILS(BERTH_E_NOT_FOUND, berth_copy_out(S, NULL, "nowhere", "x", &E));
	ASSERT_CONTAINS(E.message, "nowhere");
	ASSERT_OK(mkdir("d", 0755));
	ASSERT_OK(mkfifo("d/fifo", 0600));
	FAILS(BERTH_E_INVALID, berth_copy_in(S, "d", NULL, "x", &E));
	ASSERT_CONTAINS(E.message, "d/fifo");
	ASSERT_EQ(shell("mkfifo '%s/pipe'", home), 0);
	FAILS(BERTH_E_INVALID, berth_copy_out(S, NULL, "pipe", "y", &E));
	ASSERT_CONTAINS(E.message, "pipe");
	put("f", "x");
	ASSERT_LT(berth_copy_out(S, NULL, "pipe", "f/g", &E), 0);
	/* the road is still good for the next one */
	OK(in("f", "x2"));
}

TEST_MAIN()
