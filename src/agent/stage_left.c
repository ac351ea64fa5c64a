/* SPDX-License-Identifier: MIT */
/*
 * stage_left.c: what a stage that was killed may leave: a bubblewrap that waits for ever.
 *
 * Between its clone and its first word to the child, the death of bubblewrap's parent leaves the
 * child waiting for that word. So stage holds a lock on the file "staging" in the sandbox's folder,
 * which bubblewrap inherits and init lets go of (--staging): held without anybody starting the sandbox (the
 * library sees to that) it is such a child, and whoever has the file open is ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/stage.h"

#define LEFT_WAIT_MS 5000

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

		if (pid > 1 && pid != getpid() && has_open(proc, name, file))
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
