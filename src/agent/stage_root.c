/* SPDX-License-Identifier: MIT */
/*
 * stage_root.c: the root directory of an isolated sandbox, in one of three ways: the host's system
 * by the lists of stage_list.c; an image (--rootfs) under a copy-on-write overlay; or, where the
 * kernel has no overlay for us, the entries of the image one by one, read-only.
 *
 * Invariants: nothing of the host or of the image is changed: what is written goes to a tmpfs or
 * into the overlay. No link of an image is followed out of it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/stage.h"

/* ---- mount points ---- */

int file_at(int dir, const char *leaf)
{
	int fd = openat(dir, leaf, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : close(fd);
}

int make_point(int root, const char *path, bool dir)
{
	char part[256];
	int at = dup(root), next, r = 0, e;

	for (const char *p = path + 1, *end; r == 0 && *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '/');
		fmt(part, sizeof(part), "%.*s", (int)(end - p), p);
		if (!*end && !dir) {
			r = file_at(at, part);
			break;
		}
		r = mkdir_at(at, part, 0755);
		next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		e = errno;
		close(at);
		errno = e;
		at = next;
		r = next < 0 ? -1 : r;
	}
	e = errno;
	if (at >= 0)
		close(at);
	errno = e;
	return r;
}

/* Is it there already, as the kind that is wanted? */
static bool image_has(int low, const char *path, bool dir)
{
	int fd = open_beneath(low, path + 1, O_PATH | (dir ? O_DIRECTORY : 0), 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* A directory of ours would hide a link of the image that has this name. */
static bool image_has_link(int low, const char *path)
{
	char part[AGENT_PATH_MAX];
	struct stat st;
	int fd;

	for (const char *end = path + 1; *end; end++) {
		end = strchrnul(end, '/');
		fmt(part, sizeof(part), "%.*s", (int)(end - path - 1), path + 1);
		fd = open_beneath(low, part, O_PATH | O_NOFOLLOW, 0);
		if (fd < 0 || fstat(fd, &st) < 0)
			return errno != ENOENT;
		close(fd);
		if (S_ISLNK(st.st_mode))
			return true;
		if (!*end)
			break;
	}
	return false;
}

/* What the host's system has comes with it. */
static bool is_of_system(const char *path)
{
	for (size_t i = 0; i < stage_n_system; i++) {
		size_t n = strlen(stage_system[i].name);

		if (strncmp(path + 1, stage_system[i].name, n) == 0 &&
		    (path[n + 1] == '/' || !path[n + 1]))
			return true;
	}
	return false;
}

/* For one --ro or --rw. low: the image, -1: the host's system. */
static int make_path_point(int root, int low, size_t i)
{
	const char *path = stage.o.paths[i].path;
	char name[64];
	struct stat st;
	bool dir;

	fmt(name, sizeof(name), "%s/p%zu", stage_place, i);
	if (stat(name, &st) < 0)
		return stage_no(NULL, errno, "cannot look at %s: %m", path);
	dir = S_ISDIR(st.st_mode);
	/* What lies below /tmp is made there (mount_tmp): that is another file system. */
	if (strncmp(path, "/tmp/", 5) == 0 || (low < 0 && is_of_system(path)) ||
	    (low >= 0 && image_has(low, path, dir)))
		return 0;
	if (low >= 0 && image_has_link(low, path))
		return stage_no("name another path", 0,
				"there is no room for %s: it leads through a link of the image",
				path);
	if (make_point(root, path, dir) < 0)
		return stage_no("name another path", errno, "cannot make the mount point %s: %m",
				path);
	return 0;
}

/* The sandbox's own mount points, those of --ro and --rw, and its own files. */
static int fill(int root, int low)
{
	static const char *const dirs[] = {"/proc",      "/dev",       "/tmp", "/app",
					   "/home/user", "/run/berth", "/etc"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (make_point(root, dirs[i], true) < 0)
			return stage_no(NULL, errno, "cannot make %s of the sandbox: %m", dirs[i]);
	}
	if (make_point(root, "/run/berth-agent", false) < 0)
		return stage_no(NULL, errno, "cannot make /run of the sandbox: %m");
	for (size_t i = 0; i < stage.o.n_paths; i++) {
		if (make_path_point(root, low, i) < 0)
			return -1;
	}
	return etc_make(root);
}

/* ---- entries ---- */

/* A link stays one where what it leads to can be seen. */
static bool link_stays(const char *from, const char *target)
{
	char path[48], real[AGENT_PATH_MAX];
	ssize_t n;
	int fd;

	if (target[0] != '/' && !strchr(target, '/'))
		return true;
	fd = open(from, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return true; /* it leads nowhere: inside, too */
	fmt(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, real, sizeof(real) - 1);
	close(fd);
	return n > 5 && strncmp(real, "/usr/", 5) == 0;
}

/* Shows the entry `from` (absolute) as name below to: as the link that it is, or bound. */
static int show(const char *from, int to, const char *name, bool image)
{
	char target[AGENT_PATH_MAX];
	struct stat st;
	ssize_t n;
	int r;

	if (lstat(from, &st) < 0)
		return errno == ENOENT || errno == EACCES || errno == ENOTDIR ? 0 : -1;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(from, target, sizeof(target) - 1);
		if (n < 0)
			return -1;
		target[n] = '\0';
		if (image || link_stays(from, target))
			return symlinkat(target, to, name) < 0 && errno != EEXIST ? -1 : 0;
		if (stat(from, &st) < 0)
			return 0;
	}
	if (S_ISDIR(st.st_mode))
		r = mkdirat(to, name, 0755) < 0 && errno != EEXIST ? -1 : 0;
	else if (S_ISREG(st.st_mode))
		r = file_at(to, name);
	else
		return 0;
	return r < 0 ? -1 : bind_path(from, to, name);
}

static int cannot_show(const char *from)
{
	return stage_no(NULL, errno, "cannot bind %s into the sandbox: %m", from);
}

/* ---- the host's system ---- */

static int show_matching(int etc, const char *name)
{
	char from[AGENT_PATH_MAX];
	struct dirscan d;
	const char *found;
	uint8_t type;
	int fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	if (fd < 0)
		return cannot_show("/etc");
	dirscan_init(&d, fd);
	while (r == 0 && (found = dirscan_next(&d, &type))) {
		if (strncmp(found, name, strlen(name) - 1) != 0)
			continue;
		join3(from, sizeof(from), "/etc/", found, "");
		if (show(from, etc, found, false) < 0)
			r = cannot_show(from);
	}
	close(fd);
	return r;
}

static int show_etc_entry(int root, int etc, const char *name)
{
	char from[128], dir[128];
	const char *slash = strrchr(name, '/');
	struct stat st;

	if (name[strlen(name) - 1] == '*')
		return show_matching(etc, name);
	join3(from, sizeof(from), "/etc/", name, "");
	if (slash) {
		if (lstat(from, &st) < 0)
			return 0;
		fmt(dir, sizeof(dir), "/etc/%.*s", (int)(slash - name), name);
		if (make_point(root, dir, true) < 0)
			return cannot_show(from);
	}
	if (show(from, etc, name, false) < 0)
		return cannot_show(from);
	return 0;
}

static int show_host(int root)
{
	int etc, r = 0;

	for (size_t i = 0; i < stage_n_system; i++) {
		char from[16];

		join3(from, sizeof(from), "/", stage_system[i].name, "");
		if (show(from, root, stage_system[i].name, false) < 0)
			return cannot_show(from);
	}
	etc = openat(root, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (etc < 0)
		return cannot_show("/etc");
	for (size_t i = 0; r == 0 && i < stage_n_etc; i++)
		r = show_etc_entry(root, etc, stage_etc[i].name);
	close(etc);
	return r;
}

/* ---- an image without an overlay ---- */

static bool is_own(const char *name, const char *const *own)
{
	for (; *own; own++) {
		if (strcmp(name, *own) == 0)
			return true;
	}
	return false;
}

/* Every entry of the directory `from` but these, into the directory to. */
static int show_all(const char *from, int to, const char *const *own)
{
	char path[AGENT_PATH_MAX];
	struct dirscan d;
	const char *name;
	uint8_t type;
	int fd = open(from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : cannot_show(from);
	dirscan_init(&d, fd);
	while (r == 0 && (name = dirscan_next(&d, &type))) {
		if (is_own(name, own))
			continue;
		if (!join3(path, sizeof(path), from, "/", name) || show(path, to, name, true) < 0)
			r = cannot_show(path);
	}
	close(fd);
	return r;
}

static int show_image(int root)
{
	static const char *const top[] = {"proc", "dev", "tmp", "app", "home",
					  "run",  "sys", "etc", NULL};
	static const char *const files[] = {"passwd",        "group",       "hosts", "hostname",
					    "nsswitch.conf", "resolv.conf", NULL};
	char from[64];
	int etc, r;

	fmt(from, sizeof(from), "%s/low", stage_place);
	if (show_all(from, root, top) < 0)
		return -1;
	etc = openat(root, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (etc < 0)
		return cannot_show("/etc");
	fmt(from, sizeof(from), "%s/low/etc", stage_place);
	r = show_all(from, etc, files);
	close(etc);
	return r;
}

/*
 * What is ours is a layer above the image, and the image is never written. What the sandbox changes
 * goes into the folder root/ and comes before both.
 */
static bool mount_overlay(void)
{
	char options[256], target[64];

	fmt(target, sizeof(target), "%s/s", stage_place);
	fmt(options, sizeof(options),
	    "lowerdir=%s/skel:%s/low,upperdir=%s/root/up,workdir=%s/root/wk%s", stage_place,
	    stage_place, stage_place, stage_place, stage.root ? "" : ",userxattr");
	return mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options) == 0;
}

static int image_make(int place)
{
	int skel = openat(place, "skel", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int low = openat(place, "low", O_PATH | O_DIRECTORY | O_CLOEXEC), r;

	if (skel < 0 || low < 0)
		return stage_no("rootfs=DIR", errno, "cannot open the image: %m");
	r = fill(skel, low);
	close(low);
	if (r == 0 && !(stage.root_rw = mount_overlay())) {
		r = renameat(place, "skel", place, "s") < 0
			    ? stage_no(NULL, errno, "cannot make the sandbox's root: %m")
			    : show_image(skel);
	}
	close(skel);
	return r;
}

int root_make(int place)
{
	int root, r;

	if (stage.o.rootfs)
		return image_make(place);
	root = openat(place, "s", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return stage_no(NULL, errno, "cannot open the sandbox's root: %m");
	r = fill(root, -1) < 0 ? -1 : show_host(root);
	close(root);
	return r;
}
