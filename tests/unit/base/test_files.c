/* SPDX-License-Identifier: MIT */
/* Descriptors, locks, whole I/O, files, paths and trees. */
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/time.h"

#include "tap.h"
#include "torture.h"

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	ASSERT_GE(fd, 0);
	ASSERT_EQ(write_full(fd, text, strlen(text)), 0);
	close(fd);
}

static char *get(const char *path)
{
	char *data = NULL;

	ASSERT_EQ(read_file(AT_FDCWD, path, 1 << 20, &data, NULL, NULL), 0);
	return data;
}

TEST(closes_and_moves)
{
	int fd = -1, kept;

	errno = 3;
	fd_close(&fd);
	ASSERT_EQ(errno, 3);
	ASSERT_EQ(fd_close_checked(-1), 0);
	kept = open("/dev/null", O_RDONLY);
	ASSERT_EQ(fd_move_above_2(kept), kept);
	ASSERT_EQ(fcntl(kept, F_GETFD), FD_CLOEXEC);
	close(0);
	ASSERT_EQ(open("/dev/null", O_RDONLY), 0);
	fd = fd_move_above_2(0);
	ASSERT_GT(fd, 2);
	ASSERT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ASSERT_EQ(fcntl(0, F_GETFD), -1);
	ASSERT_EQ(fd_close_checked(fd), 0);
	ASSERT_EQ(fd_close_checked(fd), -EBADF);
	ASSERT_EQ(fd_move_above_2(12345), -EBADF);
}

TEST(pipes_are_cloexec_and_above_2)
{
	int p[2];

	close(0);
	ASSERT_EQ(fd_pipe(p, O_NONBLOCK), 0);
	for (int i = 0; i < 2; i++) {
		ASSERT_GT(p[i], 2);
		ASSERT_EQ(fcntl(p[i], F_GETFD), FD_CLOEXEC);
		ASSERT((fcntl(p[i], F_GETFL) & O_NONBLOCK) != 0);
		ASSERT_EQ(fd_set_nonblock(p[i], false), 0);
		ASSERT((fcntl(p[i], F_GETFL) & O_NONBLOCK) == 0);
	}
	ASSERT_EQ(fcntl(0, F_GETFD), -1); /* the hole is as it was */
	ASSERT_EQ(fd_set_nonblock(12345, true), -EBADF);
}

TEST(sanitizes_stdio)
{
	close(0);
	close(1);
	ASSERT_EQ(fd_sanitize_stdio(), 0);
	ASSERT_EQ(fcntl(0, F_GETFD), 0);
	ASSERT_EQ(fcntl(1, F_GETFD), 0);
	ASSERT_EQ(fd_sanitize_stdio(), 0);
}

TEST(locks_are_asked_without_being_taken)
{
	int a = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int b = open("lock", O_RDWR | O_CLOEXEC);
	int c = open("lock", O_RDWR | O_CLOEXEC);

	ASSERT_EQ(fd_lock_test(b), 0);
	ASSERT_EQ(fd_lock(a, true), 0);
	ASSERT_EQ(fd_lock_test(b), 1);
	ASSERT_EQ(fd_lock_test(a), 0); /* one's own is none */
	ASSERT_EQ(fd_lock(b, true), -EAGAIN);
	ASSERT_EQ(fd_lock(b, false), -EAGAIN);
	ASSERT_EQ(fd_unlock(a), 0);
	ASSERT_EQ(fd_lock_test(b), 0);
	ASSERT_EQ(fd_lock(b, true), 0); /* asking had taken nothing */
	ASSERT_EQ(fd_unlock(b), 0);
	ASSERT_EQ(fd_lock(a, false), 0);
	ASSERT_EQ(fd_lock(b, false), 0);
	ASSERT_EQ(fd_lock_test(c), 1);
	close(a);
	close(b);
	ASSERT_EQ(fd_lock_test(c), 0);
}

TEST(a_lock_lives_as_long_as_its_holder)
{
	int probe = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600), ready[2], hold[2], status;
	char byte;
	pid_t pid;

	ASSERT_EQ(fd_pipe(ready, 0), 0);
	ASSERT_EQ(fd_pipe(hold, 0), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open("lock", O_RDWR);

		close(hold[1]);
		if (fd_lock(fd, true) != 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	ASSERT_EQ(read_full(ready[0], &byte, 1), 1);
	ASSERT_EQ(fd_lock_test(probe), 1);
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(fd_lock_test(probe), 0);
	ASSERT_EQ(fd_lock_wait(probe, true), 0);
}

TEST(reads_and_writes_whole)
{
	char buf[100] = "";
	int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ASSERT_EQ(write_full(fd, "hello", 5), 0);
	ASSERT_EQ(pwrite_full(fd, "J", 1, 0), 0);
	ASSERT_EQ(pread_full(fd, buf, 100, 0), 5);
	ASSERT_STREQ(buf, "Jello");
	ASSERT_EQ(pread_full(fd, buf, 100, 3), 2);
	ASSERT_EQ(pread_full(fd, buf, 100, 50), 0);
	ASSERT_EQ(pread_full(fd, buf, 100, -1), -EINVAL);
	ASSERT_EQ(pwrite_full(fd, buf, 1, -1), -EINVAL);
	ASSERT_EQ(read_full(fd, buf, 10), 0);
	ASSERT_EQ(read_full(12345, buf, 1), -EBADF);
	ASSERT_EQ(write_full(12345, buf, 1), -EBADF);
	ASSERT_EQ(write_full(12345, buf, 0), 0);
}

/* Both ends non-blocking, more bytes than the pipe holds, pieces of odd sizes. */
TEST(waits_on_nonblocking_ends)
{
	static char in[300001], out[300001];
	int p[2], status;
	pid_t pid;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i % 251);
	ASSERT_EQ(fd_pipe(p, O_NONBLOCK), 0);
	pid = fork();
	if (pid == 0)
		_exit(write_full(p[1], in, sizeof(in)) != 0);
	close(p[1]);
	ASSERT_EQ(read_full(p[0], out, sizeof(out)), (ssize_t)sizeof(out));
	ASSERT(memcmp(in, out, sizeof(in)) == 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

TEST(wait_readable_has_a_deadline)
{
	int p[2];
	int64_t start = now_mono_ns();

	ASSERT_EQ(fd_pipe(p, 0), 0);
	ASSERT_EQ(wait_readable(p[0], deadline_from_ms(20)), 0);
	ASSERT_GE(now_mono_ns() - start, 20 * NS_PER_MS);
	ASSERT_EQ(write(p[1], "x", 1), 1);
	ASSERT_EQ(wait_readable(p[0], INT64_MAX), 1);
	ASSERT_EQ(wait_readable(12345, INT64_MAX), -EBADF);
}

TEST(copies_by_every_road)
{
	static char in[3000007], out[sizeof(in)];
	int s[2], p[2], status;
	pid_t pid;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7 / 5);
	int from = open("from", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ASSERT_EQ(write_full(from, in, sizeof(in)), 0);
	SUBTEST("file to file")
	{
		int to = open("to", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		ASSERT_EQ(lseek(from, 0, SEEK_SET), 0);
		ASSERT_EQ(copy_fd(from, to, -1), (int64_t)sizeof(in));
		ASSERT_EQ(pread_full(to, out, sizeof(out), 0), (ssize_t)sizeof(out));
		ASSERT(memcmp(in, out, sizeof(in)) == 0);
		ASSERT_EQ(lseek(from, 0, SEEK_CUR), (off_t)sizeof(in));
		ASSERT_EQ(copy_fd(from, to, -1), 0);
		close(to);
	}
	SUBTEST("a part of a file, appending")
	{
		int to = open("part", O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600);

		ASSERT_EQ(lseek(from, 10, SEEK_SET), 10);
		ASSERT_EQ(copy_fd(from, to, 100), 100);
		ASSERT_EQ(copy_fd(from, to, 0), 0);
		ASSERT_EQ(lseek(from, 0, SEEK_CUR), 110);
		ASSERT_EQ(pread_full(to, out, sizeof(out), 0), 100);
		ASSERT(memcmp(in + 10, out, 100) == 0);
		close(to);
	}
	SUBTEST("file to pipe to socket to file")
	{
		ASSERT_EQ(lseek(from, 0, SEEK_SET), 0);
		ASSERT_EQ(fd_pipe(p, 0), 0);
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
		pid = fork();
		if (pid == 0) {
			if (fork() == 0) {
				close(p[0]);
				_exit(copy_fd(from, p[1], -1) != (int64_t)sizeof(in));
			}
			close(p[1]);
			_exit(copy_fd(p[0], s[1], -1) != (int64_t)sizeof(in));
		}
		close(p[0]);
		close(p[1]);
		close(s[1]);
		int to = open("end", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		ASSERT_EQ(copy_fd(s[0], to, -1), (int64_t)sizeof(in));
		ASSERT_EQ(pread_full(to, out, sizeof(out), 0), (ssize_t)sizeof(out));
		ASSERT(memcmp(in, out, sizeof(in)) == 0);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		ASSERT_EQ(status, 0);
		close(to);
	}
	SUBTEST("a file that has no size")
	{
		int proc = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
		int to = open("proc", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		ASSERT_GT(copy_fd(proc, to, -1), 100);
		close(proc);
		close(to);
	}
	ASSERT_EQ(copy_fd(12345, from, -1), -EBADF);
	ASSERT_EQ(copy_fd(from, 12345, 0), 0);
}

TEST(copy_tells_a_full_disk)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	int from = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	ASSERT_EQ(copy_fd(from, full, 100000), -ENOSPC);
	ASSERT_EQ(write_full(full, "x", 1), -ENOSPC);
}

TEST(reads_files_bounded)
{
	struct berth_error err = BERTH_ERROR_INIT;
	char *data = NULL;
	size_t len = 99;

	put("f", "12345");
	ASSERT_EQ(read_file(AT_FDCWD, "f", 5, &data, &len, &err), 0);
	ASSERT_STREQ(data, "12345");
	ASSERT_EQ(len, 5);
	free(data);
	data = NULL;
	ASSERT_EQ(read_file(AT_FDCWD, "f", 4, &data, &len, &err), BERTH_E_TOO_LARGE);
	ASSERT_STREQ(err.message, "f is larger than 4 bytes");
	ASSERT_NULL(data);
	ASSERT_EQ(read_file(AT_FDCWD, "nothing", 4, &data, &len, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(err.sys_errno, ENOENT);
	ASSERT_EQ(read_file(AT_FDCWD, ".", 4, &data, &len, &err), BERTH_E_IO);
	ASSERT_EQ(err.sys_errno, EISDIR);
	ASSERT_EQ(read_file(AT_FDCWD, "/proc/self/stat", 4096, &data, &len, &err), 0);
	ASSERT_GT(len, 20);
	free(data);
	put("empty", "");
	ASSERT_EQ(read_file(AT_FDCWD, "empty", 0, &data, &len, &err), 0);
	ASSERT_STREQ(data, "");
	ASSERT_EQ(len, 0);
	free(data);
}

static size_t entries(const char *dir)
{
	auto_closedir DIR *d = opendir(dir);
	size_t n = 0;

	ASSERT_NOT_NULL(d);
	while (readdir(d))
		n++;
	return n - 2;
}

TEST(writes_files_atomically)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct stat st;
	char *data;

	umask(077);
	ASSERT_EQ(mkdir("d", 0700), 0);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "d/f", "one", 3, 0644, WRITE_FILE_SYNC, &err), 0);
	ASSERT_EQ(stat("d/f", &st), 0);
	ASSERT_EQ(st.st_mode & 07777, 0644); /* whatever the umask */
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "d/f", "two", 3, 0600, 0, &err), 0);
	data = get("d/f");
	ASSERT_STREQ(data, "two");
	free(data);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "d/f", "x", 1, 0600, WRITE_FILE_EXCLUSIVE, &err),
		  BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message, "cannot write d/f: File exists");
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "d/g", "x", 1, 0600, WRITE_FILE_EXCLUSIVE, &err), 0);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "no/f", "x", 1, 0600, 0, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "d/", "x", 1, 0600, 0, &err), BERTH_E_IO);
	ASSERT_EQ(mkdir("d/sub", 0700), 0);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "d/sub", "x", 1, 0600, 0, &err), BERTH_E_IO);
	ASSERT_EQ(entries("d"), 3); /* f, g, sub: no temporary file stayed */
}

TEST(a_full_disk_leaves_the_old_file)
{
	struct rlimit small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
	static char big[5000];
	char *data;

	signal(SIGXFSZ, SIG_IGN);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "f", "old", 3, 0600, 0, NULL), 0);
	ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "f", big, sizeof(big), 0600, 0, NULL), BERTH_E_IO);
	data = get("f");
	ASSERT_STREQ(data, "old");
	free(data);
	ASSERT_EQ(entries("."), 1);
}

static int use_files(void *arg)
{
	auto_free char *data = NULL;

	if (write_file_atomic(AT_FDCWD, "dir/torture", arg, 3, 0600, 0, NULL) < 0)
		return -1;
	return read_file(AT_FDCWD, "dir/torture", 10, &data, NULL, NULL);
}

TEST(files_survive_allocation_failure)
{
	ASSERT_EQ(mkdir("dir", 0700), 0);
	torture(use_files, (void *)"abc");
	ASSERT_EQ(entries("dir"), 1);
}

TEST(paths_join_and_normalize)
{
	static const char *const joins[][3] = {
		{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"},       {"", "b", "b"},
		{"a", "", "a"},    {"/", "b", "/b"},   {"a", "../b", "a/../b"},
	};
	static const char *const norms[][2] = {
		{"", "."},
		{".", "."},
		{"/", "/"},
		{"//", "/"},
		{"a", "a"},
		{"a/", "a"},
		{"./a", "a"},
		{"a/./b", "a/b"},
		{"a//b", "a/b"},
		{"a/..", "."},
		{"a/../b", "b"},
		{"..", ".."},
		{"../..", "../.."},
		{"../a", "../a"},
		{"a/../..", ".."},
		{"/..", "/"},
		{"/../a", "/a"},
		{"/a/../../b", "/b"},
		{"a/b/../c", "a/c"},
		{"...", "..."},
		{"..a/b", "..a/b"},
		{"a/b/../..", "."},
		{"../a/..", ".."},
		{"/a/b/", "/a/b"},
		{"../../a/../b", "../../b"},
	};

	for (size_t i = 0; i < ARRAY_LEN(joins); i++) {
		SUBTEST("join %s + %s", joins[i][0], joins[i][1])
		{
			char *p = path_join(joins[i][0], joins[i][1]);

			ASSERT_STREQ(p, joins[i][2]);
			free(p);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(norms); i++) {
		SUBTEST("normalize %s", norms[i][0])
		{
			char *p = path_normalize(norms[i][0]);

			ASSERT_STREQ(p, norms[i][1]);
			free(p);
		}
	}
	ASSERT_STREQ(path_basename("a/b"), "b");
	ASSERT_STREQ(path_basename("b"), "b");
	ASSERT_STREQ(path_basename("a/"), "");
}

TEST(paths_that_stay_inside)
{
	static const char *const inside[] = {"a",    "a/b",    ".",          "./a",
					     "a/..", "a/../b", "..data/x",   "...",
					     "a//b", "a/",     "a/b/../../c"};
	static const char *const outside[] = {
		"",  "/", "/a", "..", "../x", "a/../..", "a/../../x", "./..", "a/b/../../../c",
		"//"};

	for (size_t i = 0; i < ARRAY_LEN(inside); i++)
		SUBTEST("%s is inside", inside[i])
	ASSERT(path_stays_inside(inside[i]));
	for (size_t i = 0; i < ARRAY_LEN(outside); i++)
		SUBTEST("%s is not", outside[i])
	ASSERT(!path_stays_inside(outside[i]));
}

typedef int (*open_fn)(int dirfd, const char *rel, int flags, mode_t mode);

static void check_beneath(open_fn fn, bool links)
{
	int root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

#define OPENS(rel)                                         \
	do {                                               \
		fd = fn(root, rel, O_RDONLY, 0);           \
		ASSERT_GE(fd, 0);                          \
		ASSERT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC); \
		close(fd);                                 \
	} while (0)
	OPENS("a/f");
	OPENS("./a//f");
	OPENS("a/../a/f");
	OPENS(".");
	OPENS("..data");
	ASSERT_EQ(fn(root, "../secret", O_RDONLY, 0), -EXDEV);
	ASSERT_EQ(fn(root, "a/../../secret", O_RDONLY, 0), -EXDEV);
	ASSERT_EQ(fn(root, "/etc/passwd", O_RDONLY, 0), -EXDEV);
	ASSERT_LT(fn(root, "out/secret", O_RDONLY, 0), 0);
	ASSERT_LT(fn(root, "abs", O_RDONLY, 0), 0);
	ASSERT_LT(fn(root, "up", O_RDONLY, 0), 0);
	ASSERT_EQ(fn(root, "no", O_RDONLY, 0), -ENOENT);
	ASSERT_EQ(fn(root, "a/f/x", O_RDONLY, 0), -ENOTDIR);
	ASSERT_EQ(fn(root, "", O_RDONLY, 0), -ENOENT);
	if (links) {
		OPENS("in");
		OPENS("dir/f");
	} else {
		ASSERT_EQ(fn(root, "in", O_RDONLY, 0), -ELOOP);
		ASSERT_EQ(fn(root, "dir/f", O_RDONLY, 0), -ELOOP);
	}
	fd = fn(root, "a/new", O_WRONLY | O_CREAT | O_EXCL, 0640);
	ASSERT_GE(fd, 0);
	close(fd);
	ASSERT_EQ(fn(root, "a/new", O_WRONLY | O_CREAT | O_EXCL, 0640), -EEXIST);
	ASSERT_EQ(unlinkat(root, "a/new", 0), 0);
	/* Creating through a link that leaves is the classic one. */
	ASSERT_LT(fn(root, "up", O_WRONLY | O_CREAT | O_TRUNC, 0600), 0);
	ASSERT_LT(fn(root, "out/made", O_WRONLY | O_CREAT, 0600), 0);
	ASSERT_EQ(access("outside/made", F_OK), -1);
	char *secret = get("secret");

	ASSERT_STREQ(secret, "s");
	free(secret);
	close(root);
#undef OPENS
}

TEST(open_beneath_cannot_leave)
{
	char cwd[PATH_MAX];

	ASSERT_EQ(mkdir_p(AT_FDCWD, "root/a", 0755), 0);
	ASSERT_EQ(mkdir("outside", 0755), 0);
	put("root/a/f", "x");
	put("root/..data", "x");
	put("secret", "s");
	put("outside/secret", "s");
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	ASSERT_EQ(symlink("a/f", "root/in"), 0);
	ASSERT_EQ(symlink("a", "root/dir"), 0);
	ASSERT_EQ(symlink("../outside", "root/out"), 0);
	ASSERT_EQ(symlink("/etc/passwd", "root/abs"), 0);
	ASSERT_EQ(symlink("../secret", "root/up"), 0);
	SUBTEST("openat2")
	check_beneath(open_beneath, true);
	SUBTEST("openat2 without links")
	check_beneath(open_beneath_nolinks, false);
	SUBTEST("walked")
	check_beneath(open_beneath_walk, false);
}

TEST(mkdir_p_makes_parents)
{
	struct stat st;

	ASSERT_EQ(mkdir_p(AT_FDCWD, "a/b//c/", 0755), 0);
	ASSERT_EQ(stat("a/b/c", &st), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "a/b/c", 0755), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "a", 0755), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "/", 0755), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, ".", 0755), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "x/../y/z", 0755), 0);
	ASSERT_EQ(stat("y/z", &st), 0);
	ASSERT_EQ(symlink("a", "link"), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "link/new/er", 0755), 0);
	ASSERT_EQ(stat("a/new/er", &st), 0);
	put("file", "");
	ASSERT_EQ(mkdir_p(AT_FDCWD, "file", 0755), -ENOTDIR);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "file/x", 0755), -ENOTDIR);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "", 0755), -ENOENT);
	ASSERT_EQ(symlink("nowhere", "dangling"), 0);
	ASSERT_LT(mkdir_p(AT_FDCWD, "dangling", 0755), 0);
}

TEST(remove_tree_removes_and_follows_nothing)
{
	ASSERT_EQ(mkdir_p(AT_FDCWD, "t/a/b/c", 0755), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "keep/inner", 0755), 0);
	put("keep/inner/f", "x");
	put("t/f", "x");
	put("t/a/b/g\nodd", "x");
	ASSERT_EQ(symlink("../keep", "t/link"), 0);
	ASSERT_EQ(symlink("../../keep/inner", "t/a/link"), 0);
	ASSERT_EQ(mkfifo("t/a/fifo", 0600), 0);
	ASSERT_EQ(remove_tree(AT_FDCWD, "t"), 0);
	ASSERT_EQ(access("t", F_OK), -1);
	ASSERT_EQ(access("keep/inner/f", F_OK), 0);
	ASSERT_EQ(remove_tree(AT_FDCWD, "t"), 0); /* gone is fine */
	ASSERT_EQ(symlink("keep", "link"), 0);
	ASSERT_EQ(remove_tree(AT_FDCWD, "link"), 0);
	ASSERT_EQ(access("keep/inner/f", F_OK), 0);
	put("file", "");
	ASSERT_EQ(remove_tree(AT_FDCWD, "file"), 0);
	ASSERT_EQ(entries("."), 1);
}

/* Deeper than PATH_MAX, than the stack of levels, and than the descriptors that there are. */
TEST(remove_tree_of_any_depth)
{
	struct rlimit few = {.rlim_cur = 64, .rlim_max = 1024};
	int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 3000; i++) {
		int next;

		ASSERT_EQ(mkdirat(dir, "deep", 0755), 0);
		next = openat(dir, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ASSERT_GE(next, 0);
		close(dir);
		dir = next;
		close(openat(dir, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	close(dir);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	ASSERT_EQ(remove_tree(AT_FDCWD, "deep"), 0);
	ASSERT_EQ(entries("."), 0);
}

TEST(remove_tree_mends_modes)
{
	ASSERT_EQ(mkdir_p(AT_FDCWD, "t/a/b", 0755), 0);
	put("t/a/b/f", "x");
	put("t/a/f", "x");
	if (getuid() == 0) {
		/* root passes every mode check: act as somebody else */
		ASSERT_EQ(chmod(".", 0777), 0);
		ASSERT_EQ(system("chown -R 65534:65534 t"), 0);
		ASSERT_EQ(chown(".", 65534, 65534), 0);
		ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
	}
	ASSERT_EQ(chmod("t/a/b", 0), 0);
	ASSERT_EQ(chmod("t/a", 0500), 0);
	ASSERT_EQ(remove_tree(AT_FDCWD, "t"), 0);
	ASSERT_EQ(access("t", F_OK), -1);
}

TEST(remove_tree_tells_what_it_cannot)
{
	int status;
	pid_t pid;

	TEST_REQUIRE("root", "needs a mount");
	ASSERT_EQ(mkdir_p(AT_FDCWD, "t/a/mnt", 0755), 0);
	ASSERT_EQ(mkdir_p(AT_FDCWD, "t/b/c", 0755), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("t", "t/a/mnt", "tmpfs", 0, NULL) < 0)
			_exit(9);
		_exit(remove_tree(AT_FDCWD, "t") == -EBUSY ? 0 : 1);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(access("t/b", F_OK), -1); /* the rest is gone */
	ASSERT_EQ(access("t/a/mnt", F_OK), 0);
}

TEST_MAIN()
