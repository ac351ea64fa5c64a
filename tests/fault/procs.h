/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_PROCS_H
#define BERTH_TESTS_PROCS_H
/*
 * procs.h: the processes of a local sandbox, found from outside, and ended. For root, or for
 * sandboxes whose processes have the caller's uid.
 */
#include "conformance/conf.h"

static UNUSED void local_only(void)
{
	if (strncmp(conf.template, "local:", 6) != 0)
		SKIP("the faults are those of local processes");
}

static UNUSED void kill_and_wait(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {fd, POLLIN, 0};

	kill(pid, SIGKILL);
	if (fd >= 0)
		poll(&p, 1, 10000);
	close(fd);
}

/* By its name: behind walls its file is not to be seen, and not to be asked for by everybody. */
static bool is_agent(pid_t pid)
{
	char path[64], comm[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	slurp_at(AT_FDCWD, path, comm, sizeof(comm));
	return strcmp(comm, "berth-agent\n") == 0;
}

/* The supervisor of a running execution: the nearest agent above its worker. */
static UNUSED pid_t supervisor_of(const char *id)
{
	pid_t pid = 0;
	char state;

	ASSERT_GE(processes_with(mark_of(id), &pid), 1u);
	for (int i = 0; i < 40 && pid > 1 && !is_agent(pid); i++)
		pid = parent_of(pid, &state);
	ASSERT_GT(pid, 1);
	return pid;
}

/* The locks of this run's sandboxes: inodes, as a path depends on who looks. */
static ino_t lock_inodes[64];
static size_t n_locks;

static int add_lock(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_F && strcmp(path + ftw->base, "init.lock") == 0 && n_locks < 64)
		lock_inodes[n_locks++] = st->st_ino;
	return 0;
}

static bool has_lock_open(pid_t pid)
{
	char path[64];
	DIR *d;
	struct dirent *e;
	struct stat st;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		if (fstatat(dirfd(d), e->d_name, &st, 0) < 0 || !S_ISREG(st.st_mode))
			continue;
		for (size_t i = 0; i < n_locks; i++)
			found = found || lock_inodes[i] == st.st_ino;
	}
	if (d)
		closedir(d);
	return found;
}

/* init: the agent that has the sandbox's lock. 0: there is none. */
static UNUSED pid_t find_init(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	n_locks = 0;
	nftw(conf.state, add_lock, 32, FTW_PHYS);
	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 1 && is_agent(pid) && has_lock_open(pid))
			found = pid;
	}
	if (d)
		closedir(d);
	return found;
}

#endif
