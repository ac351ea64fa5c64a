/* SPDX-License-Identifier: MIT */
/*
 * stage_left.c: what a stage that was killed may leave: a bubblewrap that waits for ever.
 *
 * Between its clone and its first word to the child, the death of bubblewrap's parent leaves the
 * child waiting for that word. So stage holds a lock on the file "staging" in the sandbox's folder,
 * which bubblewrap inherits and init lets go of (--staging): held without anybody starting the sandbox (the
 * library sees to that) it is such a child, and is ended: found by its uid, or, where that is the
 * caller's, by the open file.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/stage.h"

#define LEFT_WAIT_MS 5000

static int read_start_at(int dirfd, const char *path, char *buf, size_t cap)
{
	int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read_full(fd, buf, cap - 1);

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? 0 : -1;
}

/* The real uid of a process; -1: it is gone. */
static int64_t uid_of(int proc, const char *pid)
{
	char path[64], text[1024], *at;

	fmt(path, sizeof(path), "%s/status", pid);
	if (read_start_at(proc, path, text, sizeof(text)) < 0 || !(at = strstr(text, "\nUid:")))
		return -1;
	return (int64_t)strtoul(at + 6, NULL, 10);
}

/* Has the process whose /proc directory this is the file open? */
static bool has_open(int proc, const char *pid, const struct stat *file)
{
	char path[64];
	struct dirscan d;
	struct stat st;
	const char *name;
	uint8_t type;
	bool found = false;
	int fd;

	fmt(path, sizeof(path), "%s/fd", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	dirscan_init(&d, fd);
	while (!found && (name = dirscan_next(&d, &type)))
		found = fstatat(fd, name, &st, 0) == 0 && st.st_dev == file->st_dev &&
			st.st_ino == file->st_ino;
	close(fd);
	return found;
}

static bool is_left(int proc, const char *pid, const struct stat *file)
{
	int64_t uid;

	if (stage.o.single)
		return has_open(proc, pid, file);
	/* Of an ordinary user's sandbox the open files cannot be seen, but the uid; and a process
	 * may be ended by who owns the user namespace that it is in. */
	uid = uid_of(proc, pid);
	return uid == stage.o.base || uid == stage.o.base + 1;
}

static void end_holders(const struct stat *file)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (proc < 0)
		return;
	dirscan_init(&d, proc);
	while ((name = dirscan_next(&d, &type))) {
		pid_t pid = (pid_t)strtol(name, NULL, 10);

		if (pid > 1 && pid != getpid() && is_left(proc, name, file))
			kill(pid, SIGKILL);
	}
	close(proc);
}

int left_lock(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int64_t end = now_ms() + LEFT_WAIT_MS;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return stage_no(NULL, errno, "cannot open %s: %m", name);
	while (ofd_lock(fd, F_WRLCK, false) < 0) {
		if ((errno != EAGAIN && errno != EACCES) || now_ms() > end) {
			stage_no(NULL, errno, "a process that was left behind cannot be ended: %m");
			close(fd);
			return -1;
		}
		end_holders(&st);
		poll(NULL, 0, 1); /* the kernel tells nobody when the last copy is closed */
	}
	return fd;
}
