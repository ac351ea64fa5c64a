/* SPDX-License-Identifier: MIT */
/*
 * sweep.c: signals for a whole tree of processes.
 *
 * Invariants: kill(-1) is only called where getpid() == 1; outside a PID namespace a process is
 * only signalled through a pidfd, after
 * its parent has been looked up again behind the pidfd, so a reused pid is never hit. At the
 * subreaper level there is no promise that a
 * storm of forks converges; each round ends what the one before had found, and orphans come to us.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/sweep.h"

#define TREE_MAX        (1u << 18) /* processes looked at in one round */
#define PIDS            (1u << 22) /* PID_MAX_LIMIT of 64-bit kernels */
#define ROUNDS_MAX      64
#define STRANGER_ROUNDS 2000 /* of 1 ms and a look */
#define PF_FORKNOEXEC   0x40 /* the kernel's: forked and not yet executed anything */

struct member {
	pid_t pid, parent;
	bool done;
};

struct members {
	struct member *v;
	size_t n;
};

bool proc_stat(pid_t pid, pid_t *ret_ppid, char *ret_state)
{
	char path[32], buf[512], *p;

	fmt(path, sizeof(path), "/proc/%d/stat", pid);
	/* The title may hold anything, ") S 1" too: the last ')' ends it. A full buffer is no
	 * error: the fields we want stand early. */
	ssize_t n = read_file_at(AT_FDCWD, path, buf, sizeof(buf));

	if (n <= 0 || !(p = strrchr(buf, ')')) || p[1] != ' ' || !p[2])
		return false;
	*ret_state = p[2];
	*ret_ppid = (pid_t)strtol(p + 3, NULL, 10);
	return true;
}

bool proc_executed(pid_t pid)
{
	char path[32], buf[512], *p;

	fmt(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_file_at(AT_FDCWD, path, buf, sizeof(buf)) <= 0 || !(p = strrchr(buf, ')')))
		return true;
	/* Behind the title: state ppid pgrp session tty tpgid flags. */
	for (int field = 0; field < 7 && p; field++)
		p = strchr(p + 1, ' ');
	return !p || !(strtoul(p, NULL, 10) & PF_FORKNOEXEC);
}

static void add(struct members *m, pid_t pid, pid_t parent)
{
	if (m->n < TREE_MAX)
		m->v[m->n++] = (struct member){pid, parent, false};
}

/* Children of one thread, from /proc/PID/task/TID/children. False when the kernel has no such
 * file. */
static bool children_of_thread(struct members *m, pid_t pid, const char *tid)
{
	char path[64], buf[4096];
	size_t have = 0;
	ssize_t r;
	int fd;

	fmt(path, sizeof(path), "/proc/%d/task/%s/children", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT || access("/proc/self/task", F_OK) < 0;
	while ((r = read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		char *p = buf, *sp;

		buf[have + (size_t)r] = '\0';
		for (; (sp = strchr(p, ' ')); p = sp + 1)
			add(m, (pid_t)strtol(p, NULL, 10), pid);
		have = strlen(p);
		memmove(buf, p, have);
	}
	close(fd);
	return true;
}

static void children_of(struct members *m, pid_t pid)
{
	struct dirscan d;
	const char *tid;
	char path[32];
	uint8_t type;
	int fd;

	fmt(path, sizeof(path), "/proc/%d/task", pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((tid = dirscan_next(&d, &type)))
		children_of_thread(m, pid, tid);
	close(fd);
}

/* Without CONFIG_PROC_CHILDREN: one pass over /proc for each generation. */
static void scan_generation(struct members *m, size_t from, size_t to)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type))) {
		pid_t pid = (pid_t)strtol(name, NULL, 10), ppid;
		char state;

		if (pid <= 0 || !proc_stat(pid, &ppid, &state))
			continue;
		for (size_t i = from; i < to; i++) {
			if (m->v[i].pid == ppid)
				add(m, pid, ppid);
		}
	}
	close(fd);
}

static bool have_children_files(void)
{
	static int have = -1;

	if (have < 0)
		have = access("/proc/thread-self/children", F_OK) == 0;
	return have;
}

/* A bit for every pid that a kernel can give (PID_MAX_LIMIT): a storm is not made longer by how we
 * look for its members. Pages that hold no bit are never made. */
static bool mark(uint8_t *bits, pid_t pid)
{
	uint8_t bit = (uint8_t)(1u << (pid & 7));

	if (pid <= 0 || (unsigned)pid >= PIDS || bits[pid >> 3] & bit)
		return false;
	bits[pid >> 3] |= bit;
	return true;
}

/* All descendants of this process, parents first. m->v[0] is this process itself. */
static void collect(struct members *m)
{
	size_t at = 0;

	m->n = 0;
	add(m, getpid(), 0);
	while (at < m->n) {
		size_t end = m->n;

		if (!have_children_files())
			scan_generation(m, at, end);
		for (; at < end; at++) {
			if (have_children_files())
				children_of(m, m->v[at].pid);
		}
	}
}

static void signal_member(const struct member *v, int signo)
{
	int fd = (int)syscall(SYS_pidfd_open, v->pid, 0u);
	pid_t ppid;
	char state;

	if (fd < 0)
		return;
	if (proc_stat(v->pid, &ppid, &state) && (ppid == v->parent || ppid == getpid()) &&
	    state != 'Z') {
		syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0u);
		if (signo == SIGTERM)
			syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0u);
	}
	close(fd);
}

/* One signal each: rounds until a round finds nobody new, so that what was forked meanwhile
 * gets it too. */
static void sweep(int signo)
{
	uint8_t *seen = agent_map(PIDS / 8);
	struct members now = {.v = agent_map(TREE_MAX * sizeof(struct member))};
	bool fresh = seen && now.v;

	for (int round = 0; fresh && round < ROUNDS_MAX; round++) {
		fresh = false;
		collect(&now);
		for (size_t i = 1; i < now.n; i++) {
			if (!mark(seen, now.v[i].pid))
				continue;
			fresh = true;
			signal_member(&now.v[i], signo);
		}
	}
	agent_unmap(seen, PIDS / 8);
	agent_unmap(now.v, TREE_MAX * sizeof(struct member));
}

/* One of the agent's own: the same program. Whom we may not ask about is one, too: nothing else
 * here is hidden from us. */
static bool is_agent(pid_t pid, const struct stat *own)
{
	char path[32];
	struct stat st;

	fmt(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st) < 0)
		return errno != ENOENT;
	return st.st_dev == own->st_dev && st.st_ino == own->st_ino;
}

/* True when one was alive. */
static bool kill_strangers(struct members *m, const struct stat *own)
{
	bool any = false;

	collect(m);
	for (size_t i = 1; i < m->n; i++) {
		pid_t ppid;
		char state;

		if (!proc_stat(m->v[i].pid, &ppid, &state) || state == 'Z' ||
		    is_agent(m->v[i].pid, own))
			continue;
		any = true;
		signal_member(&m->v[i], SIGKILL);
	}
	return any;
}

void tree_end_strangers(void)
{
	struct members m = {.v = agent_map(TREE_MAX * sizeof(struct member))};
	struct stat own;

	/* Whoever is killed takes a moment, and hands us its children. */
	if (m.v && stat("/proc/self/exe", &own) == 0) {
		for (int round = 0; round < STRANGER_ROUNDS && kill_strangers(&m, &own); round++)
			poll(NULL, 0, 1);
	}
	agent_unmap(m.v, TREE_MAX * sizeof(struct member));
}

void tree_signal(int level, int kill_fd, int signo)
{
	if (level == LEVEL_PIDNS) {
		/* Outside a PID namespace of our own this would take the machine down. */
		if (getpid() != 1)
			abort();
		kill(-1, signo);
		if (signo == SIGTERM)
			kill(-1, SIGCONT);
		return;
	}
	/* What has moved itself out of the group is still below us. */
	if (signo == SIGKILL && kill_fd >= 0)
		(void)!write(kill_fd, "1", 1);
	sweep(signo);
}

bool tree_reap(void (*seen)(void *ctx, pid_t pid, int status, const struct rusage *ru), void *ctx)
{
	struct rusage ru;
	int status;
	pid_t pid;

	for (;;) {
		pid = wait4(-1, &status, WNOHANG, &ru);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return true; /* ECHILD */
		if (pid == 0)
			return false;
		if (seen)
			seen(ctx, pid, status, &ru);
	}
}

void tree_end(int level, int kill_fd)
{
	siginfo_t si;

	while (!tree_reap(NULL, NULL)) {
		tree_signal(level, kill_fd, SIGKILL);
		if (tree_reap(NULL, NULL))
			return;
		/* Until something ends: each end brings us its orphans. What cannot be killed
		 * (D state) is waited for. */
		waitid(P_ALL, 0, &si, WEXITED | WNOWAIT);
	}
}
