/* SPDX-License-Identifier: MIT */
/*
 * cgroup_read.c: what has happened in the group of an execution, and who is in it.
 *
 * Invariants: what the kernel does not say is -1 and never a guess; nothing here changes a group
 * (signals go to processes).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/hier.h"
#include "agent/limits.h"

/* Limits from here on are none: v1 says "none" by the largest number of pages. */
#define NO_LIMIT     (INT64_MAX / 2)
#define CHARGE_BATCH (256 * 1024)

/* ---- reading ---- */

static int64_t oom_kills(const struct group *g)
{
	return hier_get(g->memory, g->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

/* The memory limit of the sandbox, on the group above; 0: none. */
static int64_t box_limit(const struct group *g)
{
	int64_t v = -1;

	for (size_t i = 0; agent.groups_given && i < g->n; i++) {
		if (g->dirs[i].dir == g->memory)
			v = hier_get(g->dirs[i].parent,
				     g->v2 ? "memory.max" : "memory.limit_in_bytes", "");
	}
	return v < 0 || v > NO_LIMIT ? 0 : v;
}

/* Did the execution's own limit stop it, too? In v1 the failure counters do not count on every
 * kernel (6.18); but who was stopped there has been as large as it, to one batch of charges. */
static bool own_was_hit(const struct group *g, int64_t own)
{
	return g->v2 ? hier_get(g->memory, "memory.events", "oom") > 0
		     : group_memory_peak(g) >= own - CHARGE_BATCH;
}

bool group_oom(const struct group *g, int64_t own, int64_t *ret_limit)
{
	int64_t box;

	if (g->memory < 0 || oom_kills(g) <= 0)
		return false;
	box = box_limit(g);
	if (own && (!box || own_was_hit(g, own)))
		*ret_limit = own;
	else if (box)
		*ret_limit = box;
	else
		return false; /* the machine had no more: nobody's limit */
	return true;
}

int64_t group_memory_peak(const struct group *g)
{
	return hier_get(g->memory, g->v2 ? "memory.peak" : "memory.max_usage_in_bytes", "");
}

int64_t group_pids_hits(const struct group *g)
{
	return hier_get(g->pids, "pids.events", "max");
}

/* v1 counts in ns, but tells user and system apart in ticks only: their ratio is taken. */
static int64_t v1_cpu_us(int dir, int64_t *ret_user, int64_t *ret_system)
{
	int64_t user = hier_get(dir, "cpuacct.stat", "user");
	int64_t system = hier_get(dir, "cpuacct.stat", "system");
	int64_t all = hier_get(dir, "cpuacct.usage", "");

	if (user < 0 || system < 0 || all < 0)
		return -1;
	all /= 1000;
	*ret_system = user + system
			      ? (int64_t)((double)all * (double)system / (double)(user + system))
			      : 0;
	*ret_user = all - *ret_system;
	return all;
}

int64_t group_cpu_us(const struct group *g, int64_t *ret_user, int64_t *ret_system)
{
	int64_t user, system, all;

	if (!g->v2)
		return v1_cpu_us(g->cpuacct, ret_user, ret_system);
	user = hier_get(g->cpuacct, "cpu.stat", "user_usec");
	system = hier_get(g->cpuacct, "cpu.stat", "system_usec");
	all = hier_get(g->cpuacct, "cpu.stat", "usage_usec");
	if (user < 0 || system < 0 || all < 0)
		return -1;
	*ret_user = user;
	*ret_system = system;
	return all;
}

/* ---- members ---- */

#define MEMBERS_TEXT (1u << 20)

/* Calls each (may be NULL) for every pid in the group; returns how many. */
static size_t each_member(const struct group *g,
			  void (*each)(const struct group *g, pid_t pid, int signo), int signo)
{
	char *text = g->kill_dir < 0 ? NULL : agent_map(MEMBERS_TEXT);
	size_t n = 0;

	if (text && read_file_at(g->kill_dir, "cgroup.procs", text, MEMBERS_TEXT) > 0) {
		for (char *p = text, *end; (end = strchr(p, '\n')); p = end + 1) {
			pid_t pid = (pid_t)strtol(p, NULL, 10);

			n++;
			if (each && pid > 0)
				each(g, pid, signo);
		}
	}
	agent_unmap(text, MEMBERS_TEXT);
	return n;
}

/* Behind a pidfd the pid is looked up once more: a number that has been given to somebody else
 * is not in the group. */
static void signal_one(const struct group *g, pid_t pid, int signo)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0u);
	char path[32], text[4096];

	fmt(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (fd >= 0 && read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	    strstr(text, g->name)) {
		syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0u);
		if (signo == SIGTERM)
			syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0u);
	}
	if (fd >= 0)
		close(fd);
}

size_t group_signal(const struct group *g, int signo)
{
	return each_member(g, signal_one, signo);
}

size_t group_members(const struct group *g)
{
	return each_member(g, NULL, 0);
}
