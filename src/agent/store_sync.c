/* SPDX-License-Identifier: MIT */
/*
 * store_sync.c: what of the store may not have reached the disk.
 *
 * Nothing that somebody waits for is fsynced. `store/dirty` holds the boot id from before the first
 * new content until a background process has called syncfs() and seen that nothing came after it.
 * When the machine boots with that file of another boot still there, every content in store/b is
 * suspect and thrown away (trees and layers have markers of their own); it is sent again. The file
 * is fsynced once per boot and sync cycle, contents never one by one.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/store.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* The file: 16 bytes boot id, 16 bytes that change with each user. Users hold a read lock on it
 * while they add contents. */
#define DIRTY "store/dirty"

static int drop_contents(void)
{
	struct tmpdir t;
	char aside[64];
	int r;

	if (tmpdir_make(&t, 'd') < 0)
		return -1;
	join3(aside, sizeof(aside), t.name, "/b", "");
	r = renameat(agent.dirfd, "store/b", agent.dirfd, aside);
	if (r == 0 || errno == ENOENT)
		r = mkdir_at(agent.dirfd, "store/b", 0755);
	tmpdir_drop(&t);
	return r;
}

/* Makes the file say this boot. fd holds the write lock. */
static int take_over(int fd, const uint8_t *old, ssize_t n)
{
	uint8_t now[32];

	if (n == 32 && memcmp(old, agent.boot, 16) != 0 && drop_contents() < 0)
		return -1;
	memcpy(now, agent.boot, 16);
	random_bytes(now + 16, 16);
	if (pwrite(fd, now, sizeof(now), 0) != (ssize_t)sizeof(now))
		return -1;
	/* The name must be there after a power failure, too: one fsync of the file takes its
	 * directory along on ext4, not everywhere. */
	if (fsync(fd) < 0)
		return -1;
	fd = openat(agent.dirfd, "store", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	return 0;
}

int store_dirty_begin(void)
{
	uint8_t old[32];
	struct stat st;
	ssize_t n;
	int fd;

	for (int i = 0; i < 100; i++) {
		fd = openat(agent.dirfd, DIRTY, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ofd_lock(fd, F_RDLCK, true) < 0)
			break;
		n = pread(fd, old, sizeof(old), 0);
		if (n == 32 && memcmp(old, agent.boot, 16) == 0 && fstat(fd, &st) == 0 &&
		    st.st_nlink > 0) {
			random_bytes(old + 16, 16);
			if (pwrite(fd, old + 16, 16, 16) != 16)
				break;
			return fd;
		}
		/* Upgrading deadlocks between two: let go first. */
		if (ofd_lock(fd, F_UNLCK, true) < 0 || ofd_lock(fd, F_WRLCK, true) < 0)
			break;
		n = pread(fd, old, sizeof(old), 0);
		if (fstat(fd, &st) == 0 && st.st_nlink > 0 &&
		    !(n == 32 && memcmp(old, agent.boot, 16) == 0) && take_over(fd, old, n) < 0)
			break;
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static void sync_marker(char dir, const char *hexd)
{
	struct tmpdir t;

	if (store_look(dir, hexd) == STORE_NONE || tmpdir_make(&t, 's') < 0)
		return;
	store_mark(&t, dir, hexd, true);
	tmpdir_drop(&t);
}

/* Runs until what was new when it began, and what came meanwhile, is on the disk. */
static void sync_store(char dir, const char *hexd)
{
	int lock = openat(agent.dirfd, "store/sync.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int fd = openat(agent.dirfd, DIRTY, O_RDWR | O_CLOEXEC);
	uint8_t before[32], after[32];

	if (lock < 0 || syncfs(agent.dirfd) < 0)
		return;
	sync_marker(dir, hexd);
	if (fd < 0 || ofd_lock(lock, F_WRLCK, false) < 0)
		return; /* another one is at it and will see that something came */
	do {
		if (pread(fd, before, 32, 0) != 32 || syncfs(agent.dirfd) < 0 ||
		    pread(fd, after, 32, 0) != 32)
			return;
	} while (memcmp(before, after, 32) != 0);
	/* Somebody is adding: that one's own process will come here. */
	if (ofd_lock(fd, F_WRLCK, false) < 0 || pread(fd, after, 32, 0) != 32 ||
	    memcmp(before, after, 32) != 0)
		return;
	unlinkat(agent.dirfd, DIRTY, 0);
}

/* Lets go of the connection and everything else that this process has by accident. */
static void close_others(void)
{
	if (agent.dirfd != 3) {
		if (dup3(agent.dirfd, 3, O_CLOEXEC) < 0)
			_exit(1);
		agent.dirfd = 3;
	}
	if (syscall(SYS_close_range, 4u, ~0u, 0u) == 0)
		return;
	for (int fd = 4; fd < 4096; fd++)
		close(fd);
}

/* Waits to become init's child and ends with it: a sandbox that was stopped, or is being removed,
 * has nobody at work in it. */
static void tie_to_init(void)
{
	for (int i = 0; i < 1000 && getppid() != agent.init_pid; i++)
		poll(NULL, 0, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent.init_pid)
		_exit(0);
}

void store_dirty_end(int fd, char dir, const void *hexd)
{
	char name[STORE_HEX + 1];
	int reaper = 0;
	pid_t pid;

	if (fd >= 0)
		close(fd);
	memcpy(name, hexd, STORE_HEX);
	name[STORE_HEX] = '\0';
	/* Twice, so that it is init's child, which reaps it; and not ours, should we have been made
	 * a subreaper. */
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			close_others();
			tie_to_init();
			sync_store(dir, name);
		}
		_exit(0);
	}
	if (pid > 0)
		RETRY_EINTR(waitpid(pid, NULL, 0));
	prctl(PR_SET_CHILD_SUBREAPER, reaper);
}
