/* SPDX-License-Identifier: MIT */
/*
 * The agent's file system helpers: staying inside a directory (with openat2() and without),
 * removing, copying, and layers made
 * by comparing a copy with its tree.
 */
#include "tap.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "agent/afs.h"

static int here;

static void write_at(int dirfd, const char *path, const char *text)
{
	int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	ASSERT_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void begin(void)
{
	here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_GE(here, 0);
	agent.dirfd = here;
}

static int open_dir(const char *path)
{
	int fd = openat(here, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	return fd;
}

/* ---- staying inside ---- */

/* From now on this process has a kernel without openat2(). */
static void forbid_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 437, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	ASSERT_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	ASSERT_OK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

static void make_wall(void)
{
	ASSERT_OK(mkdir("in", 0755));
	ASSERT_OK(mkdir("in/a", 0755));
	ASSERT_OK(mkdir("in/a/b", 0755));
	ASSERT_OK(mkdir("in/..data", 0755));
	write_at(here, "in/a/b/f", "inside");
	write_at(here, "in/..data/x", "inside");
	write_at(here, "outside", "outside");
	ASSERT_OK(symlink("..", "in/up"));
	ASSERT_OK(symlink("/", "in/root"));
	ASSERT_OK(symlink("../outside", "in/leak"));
	ASSERT_OK(symlink("a/b", "in/short"));
}

static int beneath(int dir, const char *path)
{
	int fd = open_beneath(dir, path, O_RDONLY, 0);
	char buf[16] = "";

	if (fd < 0)
		return -errno;
	ASSERT_EQ(read(fd, buf, sizeof(buf)), 6);
	ASSERT_STREQ(buf, "inside");
	close(fd);
	return 0;
}

static void check_wall(bool links_are_followed)
{
	static const char *const out[] = {
		"../outside",      "..",   "/etc/passwd",         "a/../../outside", "up/outside",
		"root/etc/passwd", "leak", "a/b/../../../outside"};
	char buf[AGENT_PATH_MAX];
	const char *leaf;
	int dir = open_dir("in"), fd;

	ASSERT_EQ(beneath(dir, "a/b/f"), 0);
	ASSERT_EQ(beneath(dir, "a//b/./f"), 0);
	ASSERT_EQ(beneath(dir, "..data/x"), 0);
	ASSERT_EQ(beneath(dir, "short/f"), links_are_followed ? 0 : -ENOTDIR);
	ASSERT_EQ(beneath(dir, "a/none"), -ENOENT);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		int r = beneath(dir, out[i]);

		if (r != -EXDEV && r != -ELOOP && r != -ENOTDIR)
			FAIL("%s: %d", out[i], r);
		fd = open_beneath(dir, out[i], O_WRONLY | O_CREAT, 0644);
		ASSERT_LT(fd, 0);
	}
	fd = open_parent_beneath(dir, "new/er/leaf", true, buf, &leaf);
	ASSERT_GE(fd, 0);
	ASSERT_STREQ(leaf, "leaf");
	ASSERT_OK(faccessat(here, "in/new/er", F_OK, 0));
	close(fd);
	ASSERT_LT(open_parent_beneath(dir, "not/made/leaf", false, buf, &leaf), 0);
	ASSERT_EQ(errno, ENOENT);
	ASSERT_LT(open_parent_beneath(dir, "up/made/leaf", true, buf, &leaf), 0);
	ASSERT_LT(open_parent_beneath(dir, "a/../../made/leaf", true, buf, &leaf), 0);
	ASSERT_LT(open_parent_beneath(dir, "/made/leaf", true, buf, &leaf), 0);
	ASSERT_LT(faccessat(here, "made", F_OK, 0), 0);
	ASSERT_LT(open_parent_beneath(dir, "", true, buf, &leaf), 0);
	ASSERT_LT(open_parent_beneath(dir, "a/..", true, buf, &leaf), 0);
	ASSERT_EQ(errno, EINVAL);
	close(dir);
}

TEST(inside_with_openat2)
{
	begin();
	make_wall();
	check_wall(true);
}

TEST(inside_without_openat2)
{
	begin();
	make_wall();
	forbid_openat2();
	check_wall(false);
}

/* ---- directories ---- */

TEST(mkdir_p_and_scan)
{
	static char seen[3000];
	struct dirscan d;
	const char *name;
	char buf[64];
	uint8_t type;
	int fd, n = 0;

	begin();
	ASSERT_OK(mkdir_p_at(here, "a/b//c/", 0755));
	ASSERT_OK(mkdir_p_at(here, "a/b/c", 0755));
	write_at(here, "a/f", "x");
	ASSERT_LT(mkdir_p_at(here, "a/f", 0755), 0);
	ASSERT_LT(mkdir_p_at(here, "a/f/g", 0755), 0);
	ASSERT_OK(mkdir_at(here, "a", 0755));
	ASSERT_LT(mkdir_at(here, "a/f", 0755), 0);
	fd = open_dir("a/b/c");
	for (int i = 0; i < 3000; i++) {
		snprintf(buf, sizeof(buf), "file-with-a-name-of-some-length-%d", i);
		ASSERT_OK(mknodat(fd, buf, S_IFREG | 0644, 0));
	}
	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type))) {
		int i = atoi(strrchr(name, '-') + 1);

		ASSERT(type == DT_REG || type == DT_UNKNOWN);
		ASSERT_EQ(seen[i]++, 0);
		n++;
	}
	ASSERT_EQ(d.err, 0);
	ASSERT_EQ(n, 3000);
	close(fd);
}

TEST(remove_counts_what_it_frees)
{
	uint64_t bytes = 0;
	static char block[8192];
	struct stat st;
	int fd;

	begin();
	ASSERT_OK(mkdir_p_at(here, "t/u/v", 0755));
	fd = open("t/u/one", O_WRONLY | O_CREAT, 0644);
	ASSERT_EQ(write(fd, block, sizeof(block)), 8192);
	fsync(fd);
	close(fd);
	fd = open("t/two", O_WRONLY | O_CREAT, 0644);
	ASSERT_EQ(write(fd, block, sizeof(block)), 8192);
	fsync(fd);
	close(fd);
	ASSERT_OK(link("t/two", "kept")); /* frees nothing */
	ASSERT_OK(symlink("../kept", "t/l"));
	ASSERT_OK(symlink("/", "t/u/root"));
	ASSERT_OK(remove_tree_at(here, "t", &bytes));
	ASSERT_LT(stat("t", &st), 0);
	ASSERT_OK(stat("kept", &st));
	ASSERT_GE(bytes, 8192);
	ASSERT_LT(bytes, 16384);
	ASSERT_OK(remove_tree_at(here, "t", NULL)); /* gone already */
	ASSERT_OK(symlink("kept", "link"));
	ASSERT_OK(remove_tree_at(here, "link", NULL));
	ASSERT_OK(stat("kept", &st));
}

TEST(locks_on_temporary_directories)
{
	struct tmpdir t, u;
	int fd;

	begin();
	ASSERT_OK(tmpdir_make(&t, 'x'));
	ASSERT_OK(tmpdir_make(&u, 'x'));
	fd = open_dir(t.name);
	ASSERT_EQ(ofd_held(fd, F_WRLCK), 1);
	close(t.fd);
	ASSERT_EQ(ofd_held(fd, F_WRLCK), 0);
	close(fd);
	write_at(u.fd, "f", "x");
	tmpdir_drop(&u);
	ASSERT_EQ(u.fd, -1);
	ASSERT_LT(access(u.name, F_OK), 0);
	tmpdir_drop(&u);
}

/* ---- copies and layers ---- */

/* Lines that tell everything of a directory that a copy keeps, sorted. */
static char *describe(const char *path)
{
	static char out[2][1 << 20];
	static int turn;
	char cmd[600];
	char *s = out[turn++ % 2];
	FILE *p;

	snprintf(cmd, sizeof(cmd),
		 "cd %s && find . -mindepth 1 \\( -type f -printf '%%P f %%m %%T@ ' -exec "
		 "sha256sum -z {} \\; -printf '\\n' -o"
		 " -type l -printf '%%P l %%l\\n' -o -printf '%%P %%y %%m\\n' \\) | LC_ALL=C sort",
		 path);
	p = popen(cmd, "r");
	s[p ? fread(s, 1, sizeof(out[0]) - 1, p) : 0] = '\0';
	if (p)
		pclose(p);
	return s;
}

static void copy(const char *from, const char *to, unsigned flags)
{
	struct copy_stat cs = {.all_reflinked = true};
	int a = open_dir(from), b;

	ASSERT_OK(mkdir_at(here, to, 0755));
	b = open_dir(to);
	ASSERT_OK(copy_tree(a, b, flags, &cs));
	close(a);
	close(b);
}

TEST(copy_keeps_what_counts)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, {1234567, 89}};
	struct stat st;

	begin();
	ASSERT_OK(mkdir_p_at(here, "a/d/empty", 0755));
	write_at(here, "a/d/f", "contents");
	ASSERT_OK(chmod("a/d/f", 04755));
	ASSERT_OK(utimensat(here, "a/d/f", ts, 0));
	write_at(here, "a/zero", "");
	ASSERT_OK(symlink("/nowhere", "a/l"));
	ASSERT_OK(mkfifo("a/pipe", 0600));
	ASSERT_OK(chmod("a/d", 0700));
	copy("a", "b", 0);
	ASSERT_OK(chmod("a/d/f", 0755)); /* setuid is not carried */
	ASSERT_STREQ(describe("b"), describe("a"));
	ASSERT_CONTAINS(describe("b"), "d/f f 755 1234567.0000000890");
	ASSERT_OK(stat("b/d/f", &st));
	ASSERT_EQ(st.st_nlink, 1);
	/* Over something: links on the way are replaced, not followed. */
	ASSERT_OK(mkdir("c", 0755));
	ASSERT_OK(mkdir("victim", 0755));
	ASSERT_OK(symlink("../victim", "c/d"));
	ASSERT_OK(symlink("../victim/file", "c/zero"));
	ASSERT_OK(mkdir_p_at(here, "c/l/was/dir", 0755));
	copy("a", "c", 0);
	ASSERT_STREQ(describe("c"), describe("a"));
	ASSERT_STREQ(describe("victim"), "");
}

TEST(copy_reads_what_has_no_size)
{
	int in = open("/proc/self/status", O_RDONLY), out;
	struct stat st;

	begin();
	out = open("out", O_RDWR | O_CREAT, 0644);
	ASSERT_EQ(copy_bytes(in, out), 0);
	ASSERT_OK(fstat(out, &st));
	ASSERT_GT(st.st_size, 100);
}

TEST(layers_of_an_overlay)
{
	begin();
	ASSERT_OK(mkdir_p_at(here, "tree/gone/with/all", 0755));
	ASSERT_OK(mkdir_p_at(here, "tree/replaced/old", 0755));
	write_at(here, "tree/removed", "x");
	write_at(here, "tree/kept", "kept");
	write_at(here, "tree/changed", "old");
	ASSERT_OK(mkdir_p_at(here, "layer/replaced/new", 0755));
	write_at(here, "layer/changed", "new");
	if (mknod("layer/removed", S_IFCHR, makedev(0, 0)) < 0)
		SKIP("no whiteouts here");
	ASSERT_OK(mknod("layer/gone", S_IFCHR, makedev(0, 0)));
	if (setxattr("layer/replaced", "user.overlay.opaque", "y", 1, 0) < 0)
		SKIP("no extended attributes here");
	copy("tree", "view", 0);
	copy("layer", "view", COPY_LAYER);
	ASSERT_OK(mkdir_p_at(here, "want/replaced/new", 0755));
	copy("tree", "want", 0);
	ASSERT_OK(remove_tree_at(here, "want/replaced/old", NULL));
	ASSERT_OK(remove_tree_at(here, "want/gone", NULL));
	ASSERT_OK(remove_tree_at(here, "want/removed", NULL));
	ASSERT_OK(remove_tree_at(here, "want/changed", NULL));
	ASSERT_OK(link("layer/changed", "want/changed"));
	ASSERT_LACKS(describe("view"), "removed");
	ASSERT_STREQ(describe("view"), describe("want"));
}

/* A change of a random tree by random steps; deterministic. */
static unsigned seed;

static unsigned roll(unsigned n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % n;
}

static void random_path(char *buf, size_t cap, const char *top)
{
	size_t n = (size_t)snprintf(buf, cap, "%s", top);

	for (unsigned depth = 1 + roll(3); depth > 0; depth--)
		n += (size_t)snprintf(buf + n, cap - n, "/%c", 'a' + (int)roll(4));
}

static void random_step(const char *top)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, {(time_t)roll(3), 0}};
	char path[200], text[32], parent[200];
	struct stat st;

	random_path(path, sizeof(path), top);
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
	snprintf(text, sizeof(text), "%u", roll(3));
	switch (roll(8)) {
	case 0:
	case 1:
	case 2: { /* few texts, sizes and times, so that they often agree in part */
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);

		if (fd >= 0) {
			ASSERT_EQ(write(fd, text, 1), 1);
			futimens(fd, ts);
			close(fd);
		}
		break;
	}
	case 3:
		mkdir(path, 0755);
		break;
	case 4:
		(void)!symlink(text, path);
		break;
	case 5:
		remove_tree_at(here, path, NULL);
		break;
	case 6:
		if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
			chmod(path, S_ISDIR(st.st_mode) || roll(2) ? 0755 : 0644);
		break;
	default:
		if (strcmp(parent, top) != 0)
			(void)!rename(parent, path);
		else
			(void)!rename("base/a", path);
		break;
	}
}

static void check_difference(unsigned number)
{
	int tree, full;

	seed = number;
	ASSERT_OK(mkdir("base", 0755));
	for (int i = 0; i < 40; i++)
		random_step("base");
	copy("base", "full", 0);
	for (int i = (int)roll(20); i > 0; i--)
		random_step("full");
	copy("full", "want", 0);
	tree = open_dir("base");
	full = open_dir("full");
	ASSERT_OK(copy_diff(tree, full));
	close(tree);
	close(full);
	copy("base", "view", 0);
	copy("full", "view", COPY_LAYER);
	if (strcmp(describe("view"), describe("want")) != 0) {
		DIAG("seed %u", number);
		ASSERT_STREQ(describe("view"), describe("want"));
	}
	remove_tree_at(here, "base", NULL);
	remove_tree_at(here, "full", NULL);
	remove_tree_at(here, "want", NULL);
	remove_tree_at(here, "view", NULL);
}

TEST_TIMEOUT(difference_and_tree_make_the_whole, 120)
{
	begin();
	for (unsigned i = 1; i <= 60; i++)
		check_difference(i);
}

/* Nobody may make device nodes: the same with the other kind of whiteout. */
TEST_TIMEOUT(difference_without_device_nodes, 120)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mknodat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	begin();
	ASSERT_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	ASSERT_OK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
	for (unsigned i = 1; i <= 30; i++)
		check_difference(i);
}

TEST_MAIN()
