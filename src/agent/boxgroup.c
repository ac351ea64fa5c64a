/* SPDX-License-Identifier: MIT */
/*
 * boxgroup.c: makes the control groups of one isolated sandbox, before it begins.
 *
 * Invariants: what is about to be made stands in the file "groups" first, so a kill at any instant
 * leaves nothing that cannot be found; a limit that was asked for holds, or the call fails and
 * leaves nothing; without such limits a hierarchy that cannot be used is left out. Only stage
 * uses it: init and all else of the sandbox see the directory NAME/x by an fd and may not change
 * the limits there.
 *
 * In hybrid mode v2 is left alone although it has cgroup.kill: the end of init ends everything in
 * its PID namespace, and entering a v2 group was measured to wait 13 ms for the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/boxgroup.h"
#include "agent/hier.h"

#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE   1
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#define PERIOD_US      100000
#define QUOTA_MIN_US   1000 /* the kernel's least */
#define REMOVE_WAIT_MS 200
#define UNLIMITED      INT64_MAX

#define WAY_OUT                                                                              \
	"start berth by \"systemd-run --user --scope\", in a service with Delegate=yes and " \
	"DelegateSubgroup=, or as root"

struct place {
	int parent, top, init, x; /* top: NAME; all fds or -1 */
	bool moved;               /* we are in init */
};

struct box {
	struct hier h;
	const char *name;
	const struct boxgroup_limits *limits;
	uid_t uid;
	gid_t gid;
	int list; /* the file "groups" */
	bool v2;
	int (*enter)(int dir);
	struct place at[AGENT_GROUPS];
};

static int64_t asked(const struct box *b, int g)
{
	return g == GROUP_MEMORY ? b->limits->memory
	       : g == GROUP_PIDS ? b->limits->pids
	       : g == GROUP_CPU  ? b->limits->cpus_milli
				 : 0;
}

static int first_asked(const struct box *b)
{
	for (int g = GROUP_MEMORY; g <= GROUP_CPU; g++) {
		if (asked(b, g))
			return g;
	}
	return -1;
}

/* The absolute path behind an fd, for people and for the list. */
static const char *path_of(int fd, char *buf, size_t cap)
{
	char link[32];
	ssize_t n;

	fmt(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, buf, cap - 1);
	buf[n < 0 ? 0 : n] = '\0';
	return buf;
}

/* ---- directories ---- */

static int note(const struct box *b, int parent)
{
	char path[AGENT_PATH_MAX], line[2 * AGENT_PATH_MAX];

	path_of(parent, path, sizeof(path));
	if (path[0] != '/')
		return -1;
	return write_all(
		b->list, line,
		fmt(line, sizeof(line), "%s/%s\n", strcmp(path, "/") ? path : "", b->name));
}

static int make_dir(int parent, const char *name)
{
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void drop(const struct box *b, struct place *p)
{
	int *fds[] = {&p->top, &p->init, &p->x}, back;

	/* Where we came from: the parent may have no room for processes. */
	if (p->moved && (back = hier_open_entry(b->h.own[p - b->at], b->v2)) >= 0) {
		(void)!write(back, "0", 1);
		close(back);
	}
	p->moved = false;
	if (p->parent >= 0)
		hier_remove(p->parent, b->name, REMOVE_WAIT_MS);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	p->parent = -1;
}

static int make_dirs(const struct box *b, struct place *p, int parent)
{
	p->parent = parent;
	if (note(b, parent) < 0)
		return -1;
	/* What an earlier life left: gone, or else taken over. */
	if (mkdirat(parent, b->name, 0755) < 0 && errno == EEXIST)
		hier_remove(parent, b->name, 0);
	p->top = make_dir(parent, b->name);
	if (p->top >= 0 && p == &b->at[GROUP_MEMORY])
		hier_put(p->top, "memory.use_hierarchy", 1); /* kernels before 5.11 */
	p->init = p->top < 0 ? -1 : make_dir(p->top, "init");
	p->x = p->init < 0 ? -1 : make_dir(p->top, "x");
	return p->x < 0 ? -1 : 0;
}

/* ---- giving ---- */

static int give_file(const struct box *b, int dir, const char *name, mode_t mode)
{
	if (fchownat(dir, name, (uid_t)-1, b->gid, 0) < 0 || fchmodat(dir, name, mode, 0) < 0)
		return errno == ENOENT ? 0 : -1; /* v1 and v2 have different files */
	return 0;
}

static int give(const struct box *b, const struct place *p)
{
	static const char *const files[] = {"cgroup.procs", "tasks", "cgroup.threads",
					    "cgroup.subtree_control"};

	if (b->uid == geteuid())
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (give_file(b, p->x, files[i], 0664) < 0)
			return -1;
	}
	if (b->v2 && give_file(b, p->top, "cgroup.procs", 0664) < 0)
		return -1;
	return give_file(b, p->x, ".", 0775);
}

/* ---- limits ---- */

static int put_max(int dir, const char *file, int64_t v)
{
	return v == UNLIMITED ? write_file_at(dir, file, "max", 3) : hier_put(dir, file, v);
}

static int set_memory(const struct box *b, int dir, int64_t v)
{
	if (b->v2) {
		/* A kernel that does not count swap has no such file: the limit stands. */
		put_max(dir, "memory.swap.max", v == UNLIMITED ? v : 0);
		return put_max(dir, "memory.max", v);
	}
	if (v == UNLIMITED) {
		hier_put(dir, "memory.memsw.limit_in_bytes", -1);
		return hier_put(dir, "memory.limit_in_bytes", -1);
	}
	/* Neither may be above the other on the way: twice. */
	hier_put(dir, "memory.memsw.limit_in_bytes", v);
	if (hier_put(dir, "memory.limit_in_bytes", v) < 0)
		return -1;
	hier_put(dir, "memory.memsw.limit_in_bytes", v);
	return 0;
}

static int set_cpu(const struct box *b, int dir, int64_t milli)
{
	int64_t quota = milli == UNLIMITED ? -1 : milli * PERIOD_US / 1000;
	char line[64];

	if (quota >= 0 && quota < QUOTA_MIN_US)
		quota = QUOTA_MIN_US;
	if (!b->v2)
		return hier_put(dir, "cpu.cfs_period_us", PERIOD_US) < 0
			       ? -1
			       : hier_put(dir, "cpu.cfs_quota_us", quota);
	if (quota < 0)
		return write_file_at(dir, "cpu.max", "max", 3);
	return write_file_at(dir, "cpu.max", line,
			     fmt(line, sizeof(line), "%lld %d", (long long)quota, PERIOD_US));
}

/* The limit, or none: a group that was taken over may have an old one. */
static int set_limit(const struct box *b, int g, int dir)
{
	int64_t v = asked(b, g) ? asked(b, g) : UNLIMITED;

	switch (g) {
	case GROUP_MEMORY:
		return set_memory(b, dir, v);
	case GROUP_PIDS:
		if (v == UNLIMITED)
			return write_file_at(dir, "pids.max", "max", 3);
		return hier_put(dir, "pids.max", v);
	case GROUP_CPU:
		return set_cpu(b, dir, v);
	default:
		return 0;
	}
}

/* ---- failures ---- */

static int cannot_make(const struct box *b, int g, int parent, int err, struct agent_fail *f)
{
	char path[AGENT_PATH_MAX];

	if (!b->v2)
		return fail(f, WIRE_E_UNSUPPORTED, "limits", err,
			    "the limit on %s needs a control group below %s, which cannot be "
			    "made: %m",
			    hier_names[g], path_of(parent, path, sizeof(path)));
	return fail(f, WIRE_E_UNSUPPORTED, "limits", err,
		    "the limit on %s needs a control group below %s, which cannot be made: %m "
		    "(%s)",
		    hier_names[g], path_of(parent, path, sizeof(path)), WAY_OUT);
}

static int cannot_set(const struct box *b, int g, int err, struct agent_fail *f)
{
	return fail(f, WIRE_E_UNSUPPORTED, "limits", err,
		    "the limit on %s cannot be set to %lld: %m", hier_names[g],
		    (long long)asked(b, g));
}

static int no_hierarchy(int g, struct agent_fail *f)
{
	return fail(f, WIRE_E_UNSUPPORTED, "limits", 0,
		    "the limit on %s needs a control group, and no cgroup file system with this "
		    "controller is mounted here",
		    hier_names[g]);
}

static int in_use(const struct box *b, int own, struct agent_fail *f)
{
	char path[AGENT_PATH_MAX];

	return fail(f, WIRE_E_UNSUPPORTED, "limits", 0,
		    "the limit on %s needs a control group of our own, and %s has processes in it "
		    "and nothing above it (%s)",
		    hier_names[first_asked(b)], path_of(own, path, sizeof(path)), WAY_OUT);
}

/* ---- one hierarchy ---- */

static int move(const struct box *b, struct place *p)
{
	int fd, err;

	if (b->v2 && b->enter && b->enter(p->init) == 0) {
		p->moved = true;
		return 0;
	}
	fd = hier_open_entry(p->init, b->v2);
	p->moved = fd >= 0 && write(fd, "0", 1) == 1;
	err = errno;
	if (fd >= 0)
		close(fd);
	errno = err;
	return p->moved ? 0 : -1;
}

/* v1: one hierarchy, which may have a place already (two controllers in one). */
static int make_v1(struct box *b, int g, struct agent_fail *f)
{
	struct place *p = &b->at[g];
	bool shared = false;

	if (b->h.own[g] < 0)
		return asked(b, g) ? no_hierarchy(g, f) : 0;
	for (int i = 0; i < g && !shared; i++) {
		if (b->at[i].parent >= 0 && hier_same(b->h.own[i], b->h.own[g])) {
			p = &b->at[i];
			shared = true;
		}
	}
	if (!shared && (make_dirs(b, p, b->h.own[g]) < 0 || give(b, p) < 0)) {
		int err = errno;

		drop(b, p);
		return asked(b, g) ? cannot_make(b, g, b->h.own[g], err, f) : 0;
	}
	if (set_limit(b, g, p->x) < 0 && asked(b, g))
		return cannot_set(b, g, errno, f);
	if (!shared && move(b, p) < 0) {
		int err = errno;

		drop(b, p);
		return asked(b, g) ? cannot_make(b, g, b->h.own[g], err, f) : 0;
	}
	return 0;
}

/* v2: turns on what can be had below parent; what was asked for must be. */
static int enable_below(const struct box *b, int parent, struct agent_fail *f)
{
	char path[AGENT_PATH_MAX];

	for (int g = GROUP_MEMORY; g <= GROUP_CPU; g++) {
		if (hier_enable(parent, hier_names[g]) == 0 || !asked(b, g))
			continue;
		int err = errno;

		path_of(parent, path, sizeof(path));
		if (!hier_has(parent, "cgroup.controllers", hier_names[g]))
			return fail(f, WIRE_E_UNSUPPORTED, "limits", 0,
				    "the limit on %s needs a control group with this controller, "
				    "and %s has none to give (%s)",
				    hier_names[g], path, WAY_OUT);
		return fail(f, WIRE_E_UNSUPPORTED, "limits", err,
			    "the limit on %s needs a control group of our own, and %s cannot be "
			    "divided: %m (%s)",
			    hier_names[g], path, WAY_OUT);
	}
	return 0;
}

static int fill_v2(struct box *b, struct place *p, struct agent_fail *f)
{
	for (int g = GROUP_MEMORY; g <= GROUP_CPU; g++) {
		/* Without x/…/subtree_control an execution cannot have a limit of its own;
		 * this is for preflight of that one to say. */
		if (hier_enable(p->top, hier_names[g]) == 0)
			hier_enable(p->x, hier_names[g]);
		if (set_limit(b, g, p->x) < 0 && asked(b, g))
			return cannot_set(b, g, errno, f);
	}
	return 0;
}

static int make_v2_below(struct box *b, int parent, bool enable, struct agent_fail *f)
{
	struct place *p = &b->at[GROUP_V2];
	int r, g = first_asked(b);

	if (enable && enable_below(b, parent, f) < 0)
		return -1;
	if (make_dirs(b, p, parent) < 0 || give(b, p) < 0 || move(b, p) < 0)
		r = cannot_make(b, g < 0 ? GROUP_MEMORY : g, parent, errno, f);
	else
		r = fill_v2(b, p, f);
	if (r < 0)
		drop(b, p);
	return r;
}

/* Below our own group when it is the root, else below its parent; without limits that were asked
 * for also below our own: the processes and cpu of the sandbox can be told there, no more. */
static int make_v2(struct box *b, struct agent_fail *f)
{
	int own = b->h.own[GROUP_V2];
	bool must = first_asked(b) >= 0;

	if (hier_divisible(own))
		return make_v2_below(b, own, true, f) < 0 && must ? -1 : 0;
	if (b->h.up >= 0 && make_v2_below(b, b->h.up, true, f) == 0)
		return 0;
	if (must)
		return b->h.up >= 0 ? -1 : in_use(b, own, f);
	make_v2_below(b, own, false, f);
	return 0;
}

/* ---- all ---- */

static int make_all(struct box *b, struct agent_fail *f)
{
	b->v2 = hier_pure_v2(&b->h);
	if (b->v2)
		return make_v2(b, f);
	for (int g = 0; g < GROUP_V2; g++) {
		if (make_v1(b, g, f) < 0)
			return -1;
	}
	return 0;
}

/*
 * The directory as the root of a mount of its own, which is mounted nowhere: ".." stays there. An fd
 * of a mount of the host leads up to the host's root, whatever the root of who follows it, and this
 * one goes into the sandbox. Kernels before 5.2 cannot; init lets no path of others start there.
 */
static int detached(int dir)
{
	int tree = (int)syscall(SYS_open_tree, dir, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH),
	    fd;

	if (tree < 0)
		return fcntl(dir, F_DUPFD_CLOEXEC, 3);
	fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(tree);
	return fd;
}

/* The fd of x for each controller; a hierarchy with two has two. */
static void hand_out(struct box *b, int ret[AGENT_GROUPS])
{
	for (int g = 0; g < AGENT_GROUPS; g++) {
		const struct place *p = &b->at[g];

		for (int i = 0; i < g && p->parent < 0; i++) {
			if (b->at[i].parent >= 0 && hier_same(b->h.own[i], b->h.own[g]))
				p = &b->at[i];
		}
		ret[g] = p->parent < 0 ? -1 : detached(p->x);
	}
	for (int g = 0; g < AGENT_GROUPS; g++) {
		struct place *p = &b->at[g];

		if (p->parent < 0)
			continue;
		close(p->top);
		close(p->init);
		close(p->x);
	}
}

int boxgroup_make(int base_dirfd, const char *name, const struct boxgroup_limits *limits,
		  uid_t owner_uid, gid_t owner_gid, int (*enter)(int dir),
		  int ret_x_fds[AGENT_GROUPS], struct agent_fail *f)
{
	struct box b = {
		.name = name, .limits = limits, .uid = owner_uid, .gid = owner_gid, .enter = enter};
	int r;

	for (int i = 0; i < AGENT_GROUPS; i++)
		b.at[i] = (struct place){-1, -1, -1, -1, false};
	b.list = openat(base_dirfd, "groups", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (b.list < 0)
		return fail(f, WIRE_E_IO, "limits", errno, "the file \"groups\": %m");
	hier_find(&b.h);
	r = make_all(&b, f);
	if (r == 0)
		hand_out(&b, ret_x_fds);
	else
		for (int i = 0; i < AGENT_GROUPS; i++)
			drop(&b, &b.at[i]);
	hier_close(&b.h);
	close(b.list);
	return r;
}
