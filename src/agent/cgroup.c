/* SPDX-License-Identifier: MIT */
/*
 * cgroup.c: the control group of one execution: v1 hierarchies where the controllers are there,
 * v2 where they are there; a v2 directory for cgroup.kill.
 *
 * Groups are made below the directories that were handed in (--group: an isolated sandbox, whose
 * own limits stand there), else under the agent's own group (v2: or under its parent, when
 * processes in our own forbid controllers below it). Invariants: a group is made before anything
 * else of a launch is changed, so what cannot be enforced is an error and not a surprise; only the
 * worker enters it, never a supervisor; its name carries a mark of DIR, so that an init cleans up
 * behind its own supervisors and nobody else's. With groups handed in, every execution has one,
 * with limits of its own or not: its usage is counted there, and an end by the sandbox's limit is
 * seen there. Guests share one group, "guests", which stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/cgroup.h"
#include "agent/hier.h"
#include "agent/limits.h"

#define PERIOD_US      100000
#define REMOVE_WAIT_MS 20 /* the kernel lets go of the last task a moment after it was reaped */
#define GUESTS         "guests"

/* Where groups are made. Found on first use; with groups handed in, those. */
static struct {
	bool found;
	struct hier h;
} base;

static void find_base(void)
{
	if (base.found)
		return;
	base.found = true;
	if (!agent.groups_given) {
		hier_find(&base.h);
		return;
	}
	for (int i = 0; i < AGENT_GROUPS; i++)
		base.h.own[i] = agent.group_fds[i];
	base.h.up = -1;
}

static void forget_base(void)
{
	if (!agent.groups_given)
		hier_close(&base.h);
	base.found = false;
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

static int add_dir(struct group *g, int parent, bool v2)
{
	struct group_dir *d = &g->dirs[g->n];

	if (mkdirat(parent, g->name, 0755) < 0 && errno != EEXIST)
		return -1;
	d->parent = fcntl(parent, F_DUPFD_CLOEXEC, 3);
	d->dir = openat(parent, g->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d->entry = d->dir < 0 ? -1 : hier_open_entry(d->dir, v2);
	if (d->entry < 0) {
		int err = errno;

		if (!g->shared)
			unlinkat(parent, g->name, AT_REMOVEDIR);
		close(d->parent);
		if (d->dir >= 0)
			close(d->dir);
		errno = err;
		return -1;
	}
	d->v2 = v2;
	g->n++;
	g->any = true;
	return d->dir;
}

/* The v1 directory of a controller; hierarchies that carry two controllers have it once. */
static int v1_dir(struct group *g, int c)
{
	if (base.h.own[c] < 0)
		return -1;
	for (size_t i = 0; i < g->n; i++) {
		if (hier_same(g->dirs[i].parent, base.h.own[c]))
			return g->dirs[i].dir;
	}
	return add_dir(g, base.h.own[c], false);
}

/* A v2 group below which these controllers are on. */
static int v2_parent(const bool asked[GROUP_V2])
{
	int tries[2] = {base.h.own[GROUP_V2], base.h.up};

	errno = ENOENT;
	for (int t = 0; t < 2; t++) {
		bool ok = t == 1 || agent.groups_given ? tries[t] >= 0 : hier_divisible(tries[t]);

		for (int i = GROUP_MEMORY; ok && i <= GROUP_CPU; i++)
			ok = !asked[i] || hier_enable(tries[t], hier_names[i]) == 0;
		if (ok)
			return tries[t];
	}
	return -1;
}

static int watch_memory(struct group *g, int dir)
{
	char line[48];
	int control, r;

	g->memory = dir;
	if (g->v2) {
		/* The kernel ends all of it at once, where it can; else we do when we hear of it. */
		hier_put(dir, "memory.oom.group", 1);
		g->oom = openat(dir, "memory.events", O_RDONLY | O_CLOEXEC);
		return g->oom;
	}
	g->oom = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	control = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	if (g->oom < 0 || control < 0)
		return -1;
	fmt(line, sizeof(line), "%d %d", g->oom, control);
	r = write_file_at(dir, "cgroup.event_control", line, strlen(line));
	close(control);
	return r;
}

static int set_memory(struct group *g, int dir, int64_t limit)
{
	if (hier_put(dir, g->v2 ? "memory.max" : "memory.limit_in_bytes", limit) < 0)
		return -1;
	/* Where swap is not counted, the limit stands all the same. */
	if (g->v2)
		hier_put(dir, "memory.swap.max", 0);
	else
		hier_put(dir, "memory.memsw.limit_in_bytes", limit);
	return 0;
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
	return hier_put(dir, "cpu.cfs_period_us", PERIOD_US) < 0
		       ? -1
		       : hier_put(dir, "cpu.cfs_quota_us", quota);
}

/* One controller: its directory, the limit that was asked for, and what is to be seen there. */
static int set_one(struct group *g, int c, const struct spec *s)
{
	int dir = g->v2 ? g->dirs[0].dir : v1_dir(g, c);

	/* Below handed-in groups a controller may be missing in v2 without a word of mkdir(). */
	if (dir < 0 ||
	    (g->v2 && c != GROUP_CPUACCT && !hier_has(dir, "cgroup.controllers", hier_names[c])))
		return -1;
	switch (c) {
	case GROUP_MEMORY:
		if (s->memory && set_memory(g, dir, s->memory) < 0)
			return -1;
		return watch_memory(g, dir);
	case GROUP_PIDS:
		g->pids = dir;
		return s->pids ? hier_put(dir, "pids.max", s->pids) : 0;
	case GROUP_CPU:
		return set_cpu(g, dir, s->cpus_milli);
	default:
		g->cpuacct = dir;
		return 0;
	}
}

static int cannot(struct group *g, int c, struct agent_fail *f)
{
	int err = errno;
	bool none = base.h.own[c] < 0 && !g->v2;

	group_remove(g);
	group_close(g);
	if (none)
		return fail(
			f, WIRE_E_UNSUPPORTED, "limits", 0,
			"the limit on %s needs a control group, and this sandbox has none for it",
			hier_names[c]);
	return fail(f, WIRE_E_UNSUPPORTED, "limits", err,
		    "the limit on %s needs a control group, which cannot be made: %m",
		    hier_names[c]);
}

/* v1: stands in the sandbox's group itself, below the sandbox's limit. */
static bool enter_box(struct group *g, int c)
{
	struct group_dir *d = &g->dirs[g->n];

	d->entry = hier_open_entry(base.h.own[c], false);
	if (d->entry < 0)
		return false;
	d->parent = d->dir = -1;
	d->box = base.h.own[c];
	d->v2 = false;
	g->n++;
	g->any = true;
	return true;
}

static bool is_inside(const struct group *g, int hierarchy)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct group_dir *d = &g->dirs[i];

		if (hier_same(d->parent >= 0 ? d->parent : d->box, hierarchy))
			return true;
	}
	return false;
}

/* Where groups were handed in nothing runs outside of one of them, which would be outside of the
 * sandbox's limit: a sandbox that is full is one where no group can be made. v1: then it stands in
 * the sandbox's own; v2 allows no process there. 0, or -1 and errno. */
static int complete(struct group *g)
{
	int why = errno;

	for (int c = 0; agent.groups_given && c < GROUP_V2; c++) {
		if (base.h.own[c] >= 0 && !is_inside(g, base.h.own[c]) && !enter_box(g, c))
			return -1;
	}
	if (!agent.groups_given || base.h.own[GROUP_V2] < 0 || is_inside(g, base.h.own[GROUP_V2]))
		return 0;
	errno = why ? why : EAGAIN;
	return -1;
}

static int outside(struct group *g, struct agent_fail *f)
{
	int err = errno;

	if (!g->shared)
		group_remove(g);
	group_close(g);
	return fail(f, WIRE_E_UNAVAILABLE, "limits", err,
		    "cannot enter the control groups of the sandbox: %m");
}

/* Limits in v1 hierarchies where memory or pids or cpu are there, else in v2. What was only
 * wanted, to look at, may be missing. */
static int make_limits(const struct spec *s, const bool asked[GROUP_V2], const bool want[GROUP_V2],
		       struct group *g, struct agent_fail *f)
{
	bool all_v1 = !hier_pure_v2(&base.h);
	int parent;

	for (int i = 0; i < GROUP_CPUACCT; i++)
		all_v1 = all_v1 && (!want[i] || base.h.own[i] >= 0);
	parent = all_v1 ? -1 : v2_parent(asked);
	errno = 0;
	if (parent >= 0 && add_dir(g, parent, true) >= 0)
		g->v2 = true;
	else if (parent >= 0 && agent.groups_given)
		return outside(g, f);
	/* Before the others: cpuacct may be the same hierarchy, and has a group of its own. */
	if (agent.groups_given && !g->v2 && !asked[GROUP_CPU] && base.h.own[GROUP_CPU] >= 0)
		enter_box(g, GROUP_CPU);
	for (int c = 0; c < GROUP_V2; c++) {
		errno = 0;
		if (want[c] && set_one(g, c, s) < 0 && asked[c] && c != GROUP_CPUACCT)
			return cannot(g, c, f);
	}
	return complete(g) < 0 ? outside(g, f) : 0;
}

static void make_kill(struct group *g)
{
	int own = base.h.own[GROUP_V2];
	int dir = g->v2 ? g->dirs[0].dir : own >= 0 ? add_dir(g, own, true) : -1;

	/* A directory without the file (before 5.14) is of no use. */
	g->kill = dir < 0 ? -1 : openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	g->kill_dir = g->kill < 0 ? -1 : dir;
}

/* The guests' group of a sandbox: made when the first one comes. */
static int open_guests(struct group *g)
{
	g->shared = true;
	errno = 0;
	fmt(g->name, sizeof(g->name), "%s", GUESTS);
	if (base.h.own[GROUP_V2] >= 0)
		add_dir(g, base.h.own[GROUP_V2], true);
	for (int c = 0; c < GROUP_V2; c++)
		v1_dir(g, c);
	return complete(g);
}

void group_fill(const struct group *g, struct spawn *s)
{
	for (size_t i = 0; i < g->n; i++)
		s->groups[i] = g->dirs[i].entry;
	s->n_groups = g->n;
	s->into = g->n && g->dirs[0].v2 ? g->dirs[0].dir : 0;
}

int guest_groups(struct spawn *s)
{
	static struct group guests = GROUP_NONE;

	if (!agent.groups_given)
		return 0;
	find_base();
	if (!guests.any && open_guests(&guests) < 0) {
		int err = errno;

		group_close(&guests);
		errno = err;
		return -1;
	}
	if (s)
		group_fill(&guests, s);
	return 0;
}

int group_make(const struct spec *s, bool want_kill, struct group *ret, struct agent_fail *f)
{
	bool asked[GROUP_V2] = {s->memory > 0, s->pids > 0, s->cpus_milli > 0, s->cpu_time_ms > 0};
	bool any = asked[GROUP_MEMORY] || asked[GROUP_PIDS] || asked[GROUP_CPU] ||
		   asked[GROUP_CPUACCT];
	bool given = agent.groups_given, want[GROUP_V2];
	char mark[32];
	uint64_t r;

	*ret = (struct group)GROUP_NONE;
	if (!any && !want_kill && !given)
		return 0;
	find_base();
	if (!any && given && s->kind == WIRE_KIND_SESSION) {
		return open_guests(ret) < 0 ? outside(ret, f) : 0;
	}
	for (int c = 0; c < GROUP_V2; c++)
		want[c] = asked[c] || (given && c != GROUP_CPU);
	prefix(mark, sizeof(mark));
	random_bytes(&r, sizeof(r));
	fmt(ret->name, sizeof(ret->name), "%s%llx", mark, (unsigned long long)r);
	if ((any || given) && make_limits(s, asked, want, ret, f) < 0)
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
		ret[n++] = g->dirs[i].entry;
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

void group_remove(struct group *g)
{
	for (size_t i = 0; i < g->n && !g->shared; i++) {
		if (g->dirs[i].parent >= 0)
			hier_remove(g->dirs[i].parent, g->name, REMOVE_WAIT_MS);
	}
}

static void sweep_dir(int dir, const char *mark, int wait_ms)
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
			hier_remove(dir, name, wait_ms); /* EBUSY in the end: it still runs */
	}
	close(fd);
}

void groups_sweep(bool patient)
{
	int wait_ms = patient ? REMOVE_WAIT_MS : 0;
	char mark[32];

	find_base();
	prefix(mark, sizeof(mark));
	for (int i = 0; i < AGENT_GROUPS; i++)
		sweep_dir(base.h.own[i], mark, wait_ms);
	sweep_dir(base.h.up, mark, wait_ms);
	forget_base(); /* the children of init close what they do not know */
}
