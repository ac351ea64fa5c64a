/* SPDX-License-Identifier: MIT */
/*
 * hier.c: finds the control groups of this process, v1 and v2, and handles their directories.
 *
 * Invariants: nothing is changed by looking; an fd is never -1 by mistake of a path's form only
 * (names may have colons and commas; a mount may show a part of a hierarchy). It knows no limits
 * and no executions (cgroup.c), and no sandboxes (boxgroup.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/hier.h"

#define CGROUP2_MAGIC 0x63677270
#define DEPTH_MAX     8 /* of groups below one that is removed */

const char *const hier_names[AGENT_GROUPS] = {
	[GROUP_MEMORY] = "memory",   [GROUP_PIDS] = "pids", [GROUP_CPU] = "cpu",
	[GROUP_CPUACCT] = "cpuacct", [GROUP_V2] = "",
};

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

static int find_group(char *cgroups, const char *mounts, const char *controller)
{
	char path[AGENT_PATH_MAX], line[3 * AGENT_PATH_MAX];
	int fd = -1;

	if (!own_path(cgroups, controller, path, sizeof(path)))
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

/* Above the mount's top there is another file system. */
static int open_up(int own)
{
	int fd = own < 0 ? -1 : openat(own, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd >= 0 && (fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_MAGIC)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

#define MOUNTS_MAX  131072u /* /proc/self/mountinfo */
#define CGROUPS_MAX 8192u   /* /proc/self/cgroup */

void hier_find(struct hier *ret)
{
	char *mounts = agent_map(MOUNTS_MAX), *cgroups = agent_map(CGROUPS_MAX);
	bool known = mounts && cgroups &&
		     read_file_at(AT_FDCWD, "/proc/self/mountinfo", mounts, MOUNTS_MAX) >= 0 &&
		     read_file_at(AT_FDCWD, "/proc/self/cgroup", cgroups, CGROUPS_MAX) >= 0;

	for (int i = 0; i < AGENT_GROUPS; i++)
		ret->own[i] = known ? find_group(cgroups, mounts, hier_names[i]) : -1;
	ret->up = open_up(ret->own[GROUP_V2]);
	agent_unmap(mounts, MOUNTS_MAX);
	agent_unmap(cgroups, CGROUPS_MAX);
}

void hier_close(struct hier *h)
{
	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (h->own[i] >= 0)
			close(h->own[i]);
		h->own[i] = -1;
	}
	if (h->up >= 0)
		close(h->up);
	h->up = -1;
}

bool hier_same(int a, int b)
{
	struct stat x, y;

	return a >= 0 && b >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

bool hier_pure_v2(const struct hier *h)
{
	return h->own[GROUP_V2] >= 0 && h->own[GROUP_MEMORY] < 0 && h->own[GROUP_PIDS] < 0 &&
	       h->own[GROUP_CPU] < 0 && h->own[GROUP_CPUACCT] < 0;
}

/* ---- files of a group ---- */

bool hier_has(int dir, const char *file, const char *controller)
{
	char text[512];
	ssize_t n = read_file_at(dir, file, text, sizeof(text));

	for (ssize_t i = 0; i < n; i++) {
		if (text[i] == ' ' || text[i] == '\n')
			text[i] = ',';
	}
	return n > 0 && in_list(text, controller);
}

bool hier_divisible(int dir)
{
	return dir >= 0 && faccessat(dir, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;
}

int hier_enable(int dir, const char *controller)
{
	char on[16];

	if (hier_has(dir, "cgroup.subtree_control", controller))
		return 0;
	return write_file_at(dir, "cgroup.subtree_control", on,
			     fmt(on, sizeof(on), "+%s", controller));
}

int hier_put(int dir, const char *file, int64_t v)
{
	char text[32];

	return write_file_at(dir, file, text, fmt(text, sizeof(text), "%lld", (long long)v));
}

int64_t hier_get(int dir, const char *file, const char *word)
{
	char text[4096];
	size_t n = strlen(word);

	if (dir < 0 || read_file_at(dir, file, text, sizeof(text)) < 0)
		return -1;
	if (!n)
		return text[0] >= '0' && text[0] <= '9' ? strtoll(text, NULL, 10) : -1;
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0 && p[n] == ' ')
			return strtoll(p + n, NULL, 10);
	}
	return -1;
}

int hier_open_entry(int dir, bool v2)
{
	return openat(dir, v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC);
}

/* ---- removing ---- */

static int remove_group(int dir, const char *name, int *wait_ms)
{
	struct timespec ms = {0, 1000000};

	while (unlinkat(dir, name, AT_REMOVEDIR) < 0) {
		if (errno == ENOENT)
			return 0;
		if (errno != EBUSY || *wait_ms <= 0)
			return -1;
		--*wait_ms;
		nanosleep(&ms, NULL);
	}
	return 0;
}

/* Groups below first: only directories count, the files are the kernel's. */
static int remove_below(int dir, const char *name, int *wait_ms, int depth)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirscan d;
	const char *sub;
	uint8_t type;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	dirscan_init(&d, fd);
	while (depth < DEPTH_MAX && (sub = dirscan_next(&d, &type))) {
		if (type == DT_DIR)
			remove_below(fd, sub, wait_ms, depth + 1);
	}
	close(fd);
	return remove_group(dir, name, wait_ms);
}

int hier_remove(int dir, const char *name, int wait_ms)
{
	/* One without groups in it, which is nearly every one, goes at once. */
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return remove_below(dir, name, &wait_ms, 0);
}
