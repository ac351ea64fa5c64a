/* SPDX-License-Identifier: MIT */
/*
 * helpers.c: the other things that a hostile worker does, each an operation for one of the driver's
 * tests. They say `R` when they stand, and their findings in one line.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"
#include "helpers.h"

static void ready(void)
{
	if (write(1, "R", 1) != 1)
		_exit(97);
}

static _Noreturn int help_pause(char **argv)
{
	(void)argv;
	ready();
	for (;;)
		pause();
}

/* Everything that it does to fd 1 beside writing must change nothing that was written. */
static int help_forge_output(char **argv)
{
	int fd;

	(void)argv;
	dprintf(1, "one\n");
	fd = open("/proc/self/fd/1", O_WRONLY | O_TRUNC | O_CLOEXEC);
	dprintf(fd >= 0 ? fd : 1, "two\n");
	close(fd);
	fd = open("/dev/stdout", O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC);
	dprintf(fd >= 0 ? fd : 1, "three\n");
	close(fd);
	if (ftruncate(1, 0) == 0)
		dprintf(1, "truncated\n");
	if (lseek(1, 0, SEEK_SET) == 0)
		dprintf(1, "sought\n");
	if (pwrite(1, "forged", 6, 0) == 6)
		dprintf(1, "written\n");
	if (fallocate(1, 3 /* punch a hole, keep the size */, 0, 3) == 0)
		dprintf(1, "punched\n");
	if (unlink("/dev/stdout") == 0 || rename("/dev/stdout", "/dev/x") == 0)
		dprintf(1, "removed\n");
	if (fchmod(1, 0777) == 0 && truncate("/proc/self/fd/1", 0) == 0)
		dprintf(1, "truncated by its path\n");
	dprintf(1, "four\n");
	return 0;
}

/* Swaps A and B until it is ended. */
static int help_swap(char **argv)
{
	ready();
	for (;;) {
		if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2 /* exchange */) <
			    0 &&
		    errno != ENOENT)
			broken("%s: %s", argv[0], strerror(errno));
	}
}

static int help_mkdir(char **argv)
{
	return mkdir(argv[0], 0755) == 0 || errno == EEXIST ? 0 : 1;
}

static int help_close(char **argv)
{
	return chmod(argv[0], 0) == 0 ? 0 : 1;
}

static int help_link(char **argv)
{
	unlink(argv[1]);
	return symlink(argv[0], argv[1]) == 0 ? 0 : 1;
}

static int help_write(char **argv)
{
	int fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd >= 0 && write(fd, argv[1], strlen(argv[1])) == (ssize_t)strlen(argv[1]) ? 0 : 1;
}

static int help_cat(char **argv)
{
	static char buf[1 << 16];
	ssize_t n = slurp(argv[0], buf, sizeof(buf));

	if (n < 0)
		return 1;
	return write(1, buf, (size_t)n) == n ? 0 : 1;
}

static int help_remove(char **argv)
{
	return unlink(argv[0]) == 0 || rmdir(argv[0]) == 0 ? 0 : 1;
}

/* What was given as stdin, and whatever a path through it leads to. */
static int help_walk_stdin(char **argv)
{
	static const char *const paths[] = {"/proc/self/fd/0/.",
					    "/proc/self/fd/0/secret",
					    "/proc/self/fd/0/../secret",
					    "/proc/self/fd/0/etc/shadow",
					    "/proc/self/fd/0/../etc/shadow",
					    "/proc/self/fd/0/../../../../../../etc/shadow"};
	struct stat st;
	char byte;

	(void)argv;
	if (fstat(0, &st) < 0)
		broken("stdin: %s", strerror(errno));
	dprintf(1, "mode %o\n", st.st_mode & S_IFMT);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd >= 0)
			dprintf(1, "opened %s\n", paths[i]);
		close(fd);
	}
	if (fchdir(0) == 0)
		dprintf(1, "changed into it\n");
	if (openat(0, "..", O_PATH) >= 0)
		dprintf(1, "opened ..\n");
	if (recv(0, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != ENOTSOCK)
		dprintf(1, "it is a socket\n");
	return 0;
}

/* Is it in the tree that it sees, or does .. lead from its working directory to somewhere else? */
static int help_where(char **argv)
{
	char up[4096] = ".";
	struct stat st, root, before = {0};
	char cwd[4096];

	(void)argv;
	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/' || strncmp(cwd, "(unreachable)", 13) == 0) {
		dprintf(1, "a working directory without a path\n");
		return 1;
	}
	for (int depth = 0; depth < 60; depth++) {
		if (stat(up, &st) < 0)
			broken("%s: %s", up, strerror(errno));
		if (depth && st.st_ino == before.st_ino && st.st_dev == before.st_dev)
			break;
		before = st;
		strcat(up, "/..");
	}
	if (stat("/", &root) < 0 || root.st_ino != st.st_ino || root.st_dev != st.st_dev) {
		dprintf(1, "its top is another than /\n");
		return 1;
	}
	dprintf(1, "inside\n");
	return 0;
}

/* ── burning ──────────────────────────────────────────────────────────────────────────────── */

static _Noreturn int help_fork_bomb(char **argv)
{
	unsigned n = 0;

	(void)argv;
	signal(SIGTERM, SIG_IGN);
	for (;;) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			setsid();
			signal(SIGHUP, SIG_IGN);
			/* Each of them goes on until the limit is reached, and never waits. */
			for (unsigned i = 0; i < 1000 && fork() >= 0; i++)
				;
			for (;;)
				pause();
		}
		n++;
		if (n > 100000)
			break;
	}
	dprintf(1, "R%s\n", strerror(errno));
	for (;;)
		pause();
}

static int help_memory_bomb(char **argv)
{
	const size_t step = 1 << 20;

	if (argv[0] && strcmp(argv[0], "child") == 0) {
		/* It is not the main process that dies. */
		pid_t pid = fork();

		if (pid > 0) {
			waitpid(pid, NULL, 0);
			for (;;)
				pause();
		}
	}
	for (size_t i = 0; i < 65536; i++) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		if (p == MAP_FAILED)
			return 3;
		memset(p, (int)i | 1, step);
	}
	return 4;
}

/* Writes into DIR/fill until it fails, at most MB megabytes: "errno N MB M". */
static int help_fill(char **argv)
{
	static char block[1 << 20];
	char path[256];
	unsigned mb = 0, most = (unsigned)atoi(argv[1]);
	int fd, e = 0;

	snprintf(path, sizeof(path), "%s/fill", argv[0]);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	memset(block, 0xa5, sizeof(block));
	if (fd < 0)
		e = errno;
	for (; !e && mb < most; mb++) {
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			e = errno ? errno : ENOSPC;
	}
	unlink(path);
	dprintf(1, "errno %d MB %u\n", e, mb);
	return 0;
}

/* The same with empty files: "errno N files M". */
static int help_inodes(char **argv)
{
	char path[256];
	unsigned n = 0, most = (unsigned)atoi(argv[1]);
	int e = 0;

	snprintf(path, sizeof(path), "%s/inodes", argv[0]);
	mkdir(path, 0700);
	if (chdir(path) < 0)
		e = errno;
	for (; !e && n < most; n++) {
		int fd;

		snprintf(path, sizeof(path), "%u", n);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			e = errno;
		close(fd);
	}
	dprintf(1, "errno %d files %u\n", e, n);
	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%u", i);
		unlink(path);
	}
	return 0;
}

/* The size of the file system that it is on: "MB N". */
static int help_size(char **argv)
{
	struct statvfs v;

	if (statvfs(argv[0], &v) < 0)
		broken("%s: %s", argv[0], strerror(errno));
	dprintf(1, "MB %lu\n", (unsigned long)(v.f_blocks * v.f_frsize >> 20));
	return 0;
}

static int help_flood(char **argv)
{
	static char block[1 << 16];
	long mb = atol(argv[0]);

	memset(block, 'f', sizeof(block));
	for (long i = 0; i < mb * 16; i++) {
		if (write(1, block, sizeof(block)) < 0 || write(2, block, sizeof(block)) < 0)
			return 97;
	}
	return 0;
}

/* Everything that might stay behind, in ways that hold on. */
static int help_cling(char **argv)
{
	int fds[2];
	char byte;

	(void)argv;
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (int kind = 0; kind < 5; kind++) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			broken("pipe: %s", strerror(errno));
		if (fork() == 0) {
			sigset_t all;

			sigfillset(&all);
			if (kind != 0)
				setsid();
			if (kind >= 2 && fork() > 0)
				_exit(0);
			if (kind == 3)
				sigprocmask(SIG_BLOCK, &all, NULL);
			if (kind == 4)
				prctl(PR_SET_DUMPABLE, 0);
			close(fds[1]);
			if (kind == 2)
				kill(getpid(), SIGSTOP);
			for (;;)
				pause();
		}
		close(fds[1]);
		/* A stopped one never closes it. */
		if (kind != 2)
			(void)!read(fds[0], &byte, 1);
		close(fds[0]);
	}
	ready();
	for (;;)
		pause();
}

static const struct {
	const char *name;
	int args;
	int (*fn)(char **argv);
} helps[] = {
	{"pause", 0, help_pause},
	{"forge-output", 0, help_forge_output},
	{"swap", 2, help_swap},
	{"mkdir", 1, help_mkdir},
	{"close", 1, help_close},
	{"link", 2, help_link},
	{"write", 2, help_write},
	{"cat", 1, help_cat},
	{"remove", 1, help_remove},
	{"walk-stdin", 0, help_walk_stdin},
	{"where", 0, help_where},
	{"fork-bomb", 0, help_fork_bomb},
	{"memory-bomb", 0, help_memory_bomb},
	{"fill", 2, help_fill},
	{"inodes", 2, help_inodes},
	{"size", 1, help_size},
	{"flood", 1, help_flood},
	{"cling", 0, help_cling},
};

int help_by(int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < sizeof(helps) / sizeof(*helps); i++) {
		if (strcmp(helps[i].name, argv[0]) == 0 && argc > helps[i].args)
			return helps[i].fn(argv + 1);
	}
	dprintf(2, "attempts: no operation \"%s\"\n", argc > 0 ? argv[0] : "");
	return BROKEN;
}
