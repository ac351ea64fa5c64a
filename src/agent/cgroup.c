/* SPDX-License-Identifier: MIT */
/*
 * cgroup.c: the control group of one execution: v1 hierarchies where the controllers are there,
 * v2 where they are there; a v2 directory
 * for cgroup.kill.
 *
 * Groups are made under the agent's own group (v2: or under its parent, when processes in our
 * own forbid controllers below it). Invariants: a
 * group is made before anything else of a launch is changed, so what cannot be enforced is an
 * error and not a surprise; only
 * the worker enters it, never a supervisor; its name carries a mark of DIR, so that an init
 * cleans up behind its own supervisors and nobody
 * else's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/cgroup.h"
#include "agent/limits.h"

#define PERIOD_US 100000
#define REMOVE_TRIES \
	20 /* of 1 ms: the kernel lets go of the last task a moment after it was reaped */

enum ctl { CTL_MEMORY, CTL_PIDS, CTL_CPU, CTL_CPUACCT, CTL_N };
static const char *const ctl_names[CTL_N] = {"memory", "pids", "cpu", "cpuacct"};

/* Where this process' own groups are: directory fds, -1 when there is none. Found on first use. */
static struct {
	bool found;
	int v1[CTL_N];
	int v2, v2_up; /* own group, and its parent */
} base;

/* ---- finding ---- */

/* Is word one of the comma-separated list? */
static bool in_list(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, word, n) == 0 && (p[n] == '\0' || p[n] == ','))
			return true;
	}
	return false;
}

/* Our path in the hierarchy of this controller ("": v2), from /proc/self/cgroup. */
static bool own_path(char *text, const char *controller, char *path, size_t cap)
{
	for (char *line = text, *end; *line; line = end + 1) {
		char *list, *at;
		size_t n;

		end = strchr(line, '\n');
		if (!end)
			return false;
		list = strchr(line, ':');
		at = list && list < end ? strchr(list + 1, ':') : NULL;
		if (!at || at > end)
			continue;
		*at = '\0';
		n = (size_t)(end - at - 1);
		bool hit = *controller ? in_list(list + 1, controller) : list[1] == '\0';

		*at = ':';
		if (!hit || n >= cap)
			continue;
		memcpy(path, at + 1, n);
		path[n] = '\0';
		return true;
	}
	return false;
}

/* One line of mountinfo: opens our group there when it is this controller's mount. */
static int open_group(char *line, const char *controller, const char *path)
{
	char *field[5], *dash = strstr(line, " - "), *type, *options, full[2 * AGENT_PATH_MAX];
	size_t root;

	if (!dash)
		return -1;
	*dash = '\0';
	type = dash + 3;
	options = strrchr(type, ' ');
	field[0] = line;
	for (int i = 1; i < 5; i++) {
		field[i] = strchr(field[i - 1], ' ');
		if (!field[i])
			return -1;
		*field[i]++ = '\0';
	}
	if (!options ||
	    (*controller ? strncmp(type, "cgroup ", 7) != 0 || !in_list(options + 1, controller)
			 : strncmp(type, "cgroup2 ", 8) != 0))
		return -1;
	if (strchr(field[4], ' '))
		*strchr(field[4], ' ') = '\0';
	/* The mount may show a part of the hierarchy only. */
	root = strcmp(field[3], "/") == 0 ? 0 : strlen(field[3]);
	if (strncmp(path, field[3], root) != 0)
		root = 0;
	fmt(full, sizeof(full), "%s%s", field[4], path + root);
	return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static char mounts[131072]; /* /proc/self/mountinfo */

static int find_group(char *cgroups, const char *controller)
{
	char path[AGENT_PATH_MAX], line[3 * AGENT_PATH_MAX];
	int fd = -1;

	if (!own_path(cgroups, controller, path, sizeof(path)))
		return -1;
	if (!mounts[0] &&
	    read_file_at(AT_FDCWD, "/proc/self/mountinfo", mounts, sizeof(mounts)) < 0)
		return -1;
	for (const char *p = mounts, *end; fd < 0 && (end = strchr(p, '\n')); p = end + 1) {
		if ((size_t)(end - p) >= sizeof(line))
			continue;
		memcpy(line, p, (size_t)(end - p));
		line[end - p] = '\0';
		fd = open_group(line, controller, path);
	}
	return fd;
}

static void find_base(void)
{
	static char cgroups[8192];

	if (base.found)
		return;
	base.found = true;
	base.v2 = base.v2_up = -1;
	for (int i = 0; i < CTL_N; i++)
		base.v1[i] = -1;
	if (read_file_at(AT_FDCWD, "/proc/self/cgroup", cgroups, sizeof(cgroups)) < 0)
		return;
	for (int i = 0; i < CTL_N; i++)
		base.v1[i] = find_group(cgroups, ctl_names[i]);
	base.v2 = find_group(cgroups, "");
	if (base.v2 >= 0)
		base.v2_up = openat(base.v2, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void forget_base(void)
{
	int *fds[] = {&base.v1[0], &base.v1[1], &base.v1[2], &base.v1[3], &base.v2, &base.v2_up};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
	}
	base.found = false;
	mounts[0] = '\0';
}

/* The mark of DIR in the names of its groups. */
static void prefix(char *buf, size_t cap)
{
	uint32_t h = 2166136261u;

	for (const char *p = agent.dir; *p; p++)
		h = (h ^ (uint8_t)*p) * 16777619u;
	fmt(buf, cap, "berth.%x.", h);
}

/* ---- making ---- */

static int put(int dir, const char *file, int64_t v)
{
	char text[32];

	return write_file_at(dir, file, text, fmt(text, sizeof(text), "%lld", (long long)v));
}

static int add_dir(struct group *g, int parent)
{
	struct group_dir *d = &g->dirs[g->n];

	if (mkdirat(parent, g->name, 0755) < 0 && errno != EEXIST)
		return -1;
	d->parent = fcntl(parent, F_DUPFD_CLOEXEC, 3);
	d->dir = openat(parent, g->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d->procs = d->dir < 0 ? -1 : openat(d->dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (d->procs < 0) {
		int err = errno;

		unlinkat(parent, g->name, AT_REMOVEDIR);
		close(d->parent);
		if (d->dir >= 0)
			close(d->dir);
		errno = err;
		return -1;
	}
	g->n++;
	g->any = true;
	return d->dir;
}

/* The v1 directory of a controller; hierarchies that carry two controllers have it once. */
static int v1_dir(struct group *g, enum ctl c)
{
	struct stat want, have;

	if (base.v1[c] < 0 || fstat(base.v1[c], &want) < 0)
		return -1;
	for (size_t i = 0; i < g->n; i++) {
		if (fstat(g->dirs[i].parent, &have) == 0 && have.st_dev == want.st_dev &&
		    have.st_ino == want.st_ino)
			return g->dirs[i].dir;
	}
	return add_dir(g, base.v1[c]);
}

static bool v2_has(int dir, const char *file, const char *controllers)
{
	char text[512];
	ssize_t n = read_file_at(dir, file, text, sizeof(text));

	for (ssize_t i = 0; i < n; i++) {
		if (text[i] == ' ' || text[i] == '\n')
			text[i] = ',';
	}
	return n > 0 && in_list(text, controllers);
}

/* A v2 group below which these controllers are on. */
static int v2_parent(const bool want[CTL_N])
{
	int tries[2] = {base.v2, base.v2_up};

	for (int t = 0; t < 2; t++) {
		bool ok = tries[t] >= 0;

		for (int i = CTL_MEMORY; ok && i <= CTL_CPU; i++) {
			char on[16];

			if (!want[i] || v2_has(tries[t], "cgroup.subtree_control", ctl_names[i]))
				continue;
			fmt(on, sizeof(on), "+%s", ctl_names[i]);
			ok = write_file_at(tries[t], "cgroup.subtree_control", on, strlen(on)) == 0;
		}
		if (ok)
			return tries[t];
	}
	return -1;
}

static int set_memory(struct group *g, int dir, int64_t limit)
{
	char line[48];
	int control;

	g->memory = dir;
	if (g->v2) {
		if (put(dir, "memory.max", limit) < 0)
			return -1;
		/* No swap accounting, or no oom.group: the limit stands all the same. */
		put(dir, "memory.swap.max", 0);
		put(dir, "memory.oom.group", 1);
		g->oom = openat(dir, "memory.events", O_RDONLY | O_CLOEXEC);
		return g->oom;
	}
	if (put(dir, "memory.limit_in_bytes", limit) < 0)
		return -1;
	put(dir, "memory.memsw.limit_in_bytes", limit);
	g->oom = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	control = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	if (g->oom < 0 || control < 0)
		return -1;
	fmt(line, sizeof(line), "%d %d", g->oom, control);
	control = write_file_at(dir, "cgroup.event_control", line, strlen(line)) < 0
			  ? -1
			  : (close(control), 0);
	return control;
}

static int set_cpu(struct group *g, int dir, int64_t milli)
{
	int64_t quota = milli * PERIOD_US / 1000;
	char line[64];

	quota = quota < 1000 ? 1000 : quota; /* the kernel's least */
	if (g->v2)
		return write_file_at(
			dir, "cpu.max", line,
			fmt(line, sizeof(line), "%lld %d", (long long)quota, PERIOD_US));
	return put(dir, "cpu.cfs_period_us", PERIOD_US) < 0 ? -1
							    : put(dir, "cpu.cfs_quota_us", quota);
}

static int set_one(struct group *g, enum ctl c, const struct spec *s)
{
	int dir = g->v2 ? g->dirs[0].dir : v1_dir(g, c);

	if (dir < 0)
		return -1;
	switch (c) {
	case CTL_MEMORY:
		return set_memory(g, dir, s->memory);
	case CTL_PIDS:
		g->pids = dir;
		return put(dir, "pids.max", s->pids);
	case CTL_CPU:
		return set_cpu(g, dir, s->cpus_milli);
	default:
		g->cpuacct = dir;
		return 0;
	}
}

static int cannot(struct group *g, enum ctl c, struct agent_fail *f)
{
	int err = errno;
	bool none = base.v1[c] < 0 && !g->v2;

	group_remove(g);
	group_close(g);
	if (none)
		return fail(
			f, WIRE_E_UNSUPPORTED, "limits", 0,
			"the limit on %s needs a control group, and this sandbox has none for it",
			ctl_names[c]);
	return fail(f, WIRE_E_UNSUPPORTED, "limits", err,
		    "the limit on %s needs a control group, which cannot be made: %m",
		    ctl_names[c]);
}

/* Limits in v1 hierarchies where memory or pids or cpu are there, else in v2. */
static int make_limits(const struct spec *s, const bool want[CTL_N], struct group *g,
		       struct agent_fail *f)
{
	int parent = v2_parent(want);
	bool all_v1 = true;

	for (int i = 0; i < CTL_CPUACCT; i++)
		all_v1 = all_v1 && (!want[i] || base.v1[i] >= 0);
	if (!all_v1 && parent >= 0 && add_dir(g, parent) >= 0)
		g->v2 = true;
	for (enum ctl c = 0; c < CTL_N; c++) {
		errno = 0;
		if (want[c] && set_one(g, c, s) < 0 && c != CTL_CPUACCT)
			return cannot(g, c, f);
	}
	return 0;
}

static void make_kill(struct group *g)
{
	int dir = g->v2 ? g->dirs[0].dir : base.v2 >= 0 ? add_dir(g, base.v2) : -1;

	/* A directory without the file (before 5.14) is of no use. */
	g->kill = dir < 0 ? -1 : openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	g->kill_dir = g->kill < 0 ? -1 : dir;
}

int group_make(const struct spec *s, bool want_kill, struct group *ret, struct agent_fail *f)
{
	bool want[CTL_N] = {s->memory > 0, s->pids > 0, s->cpus_milli > 0, s->cpu_time_ms > 0};
	bool any = want[CTL_MEMORY] || want[CTL_PIDS] || want[CTL_CPU] || want[CTL_CPUACCT];
	char mark[32];
	uint64_t r;

	*ret = (struct group)GROUP_NONE;
	if (!any && !want_kill)
		return 0;
	find_base();
	prefix(mark, sizeof(mark));
	random_bytes(&r, sizeof(r));
	fmt(ret->name, sizeof(ret->name), "%s%llx", mark, (unsigned long long)r);
	if (any && make_limits(s, want, ret, f) < 0)
		return -1;
	if (want_kill)
		make_kill(ret);
	return 0;
}

size_t group_fds(const struct group *g, int ret[GROUP_FDS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		ret[n++] = g->dirs[i].parent;
		ret[n++] = g->dirs[i].dir;
		ret[n++] = g->dirs[i].procs;
	}
	ret[n++] = g->kill;
	ret[n++] = g->oom;
	return n;
}

void group_close(struct group *g)
{
	int fds[GROUP_FDS_MAX];
	size_t n = group_fds(g, fds);

	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	*g = (struct group)GROUP_NONE;
}

/* The kernel lets go of a group's last task a moment after it has been reaped. */
static void remove_dir(int parent, const char *name, int tries)
{
	struct timespec ms = {0, 1000000};

	while (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno == EBUSY && --tries > 0)
		nanosleep(&ms, NULL);
}

void group_remove(struct group *g)
{
	for (size_t i = 0; i < g->n; i++)
		remove_dir(g->dirs[i].parent, g->name, REMOVE_TRIES);
}

static void sweep_dir(int dir, const char *mark, int tries)
{
	int fd = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type))) {
		if (strncmp(name, mark, strlen(mark)) == 0)
			remove_dir(dir, name, tries); /* EBUSY in the end: it still runs */
	}
	close(fd);
}

void groups_sweep(bool patient)
{
	int tries = patient ? REMOVE_TRIES : 1;
	char mark[32];

	find_base();
	prefix(mark, sizeof(mark));
	for (int i = 0; i < CTL_N; i++)
		sweep_dir(base.v1[i], mark, tries);
	sweep_dir(base.v2, mark, tries);
	sweep_dir(base.v2_up, mark, tries);
	forget_base(); /* the children of init close what they do not know */
}

/* ---- reading ---- */

/* The number behind "word " in a file; -1 when there is none. */
static int64_t get(int dir, const char *file, const char *word)
{
	char text[4096];
	size_t n = strlen(word);

	if (dir < 0 || read_file_at(dir, file, text, sizeof(text)) < 0)
		return -1;
	if (!n)
		return strtoll(text, NULL, 10);
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0 && p[n] == ' ')
			return strtoll(p + n, NULL, 10);
	}
	return -1;
}

int64_t group_oom_kills(const struct group *g)
{
	return get(g->memory, g->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

int64_t group_pids_hits(const struct group *g)
{
	return get(g->pids, "pids.events", "max");
}

int64_t group_cpu_us(const struct group *g, int64_t *ret_user, int64_t *ret_system)
{
	int64_t tick = 1000000 / sysconf(_SC_CLK_TCK), user, system, all;

	if (g->v2) {
		user = get(g->cpuacct, "cpu.stat", "user_usec");
		system = get(g->cpuacct, "cpu.stat", "system_usec");
		all = get(g->cpuacct, "cpu.stat", "usage_usec");
	} else {
		user = get(g->cpuacct, "cpuacct.stat", "user") * tick;
		system = get(g->cpuacct, "cpuacct.stat", "system") * tick;
		all = get(g->cpuacct, "cpuacct.usage", "");
		all = all < 0 ? -1 : all / 1000;
	}
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
