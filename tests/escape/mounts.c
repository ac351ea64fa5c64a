/* SPDX-License-Identifier: MIT */
/*
 * mounts.c: attempts on mounts, roots and namespaces.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attempt.h"
#include "numbers.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* A directory of its own to mount on. */
static const char *spot(void)
{
	static char path[64];

	if (!*path) {
		snprintf(path, sizeof(path), "/tmp/spot.XXXXXX");
		if (!mkdtemp(path))
			broken("%s: %s", path, strerror(errno));
	}
	return path;
}

void attempt_mount_fs(void)
{
	static const char *const types[] = {"tmpfs",    "proc",        "sysfs",  "cgroup",
					    "cgroup2",  "devtmpfs",    "bpf",    "securityfs",
					    "debugfs",  "tracefs",     "mqueue", "devpts",
					    "configfs", "binfmt_misc", "ramfs",  "nsfs"};
	char what[64];

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		snprintf(what, sizeof(what), "mount %s", types[i]);
		refused(what, mount("none", spot(), types[i], 0, NULL), 0);
	}
	refused("mount overlay", mount("none", spot(), "overlay", 0, "lowerdir=/usr:/etc"), 0);
	refused("mount ext4", mount("/dev/vda", spot(), "ext4", MS_RDONLY, NULL), 0);
	refused("mount fuse",
		mount("none", spot(), "fuse", 0, "fd=0,rootmode=40000,user_id=0,group_id=0"), 0);
}

void attempt_mount_bind(void)
{
	refused("bind /", mount("/", spot(), NULL, MS_BIND | MS_REC, NULL), 0);
	refused("bind /usr", mount("/usr", spot(), NULL, MS_BIND, NULL), 0);
	refused("bind itself", mount(spot(), spot(), NULL, MS_BIND, NULL), 0);
	refused("move /tmp", mount("/tmp", spot(), NULL, MS_MOVE, NULL), 0);
	refused("make / shared", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL), 0);
}

void attempt_remount_rw(void)
{
	static const char *const paths[] = {"/",    "/usr", "/proc",      "/proc/sys",
					    "/dev", "/app", "/etc/passwd"};
	char what[64];

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		snprintf(what, sizeof(what), "remount %s", paths[i]);
		refused(what, mount(NULL, paths[i], NULL, MS_REMOUNT | MS_BIND, NULL), ENOENT);
		refused(what, mount(NULL, paths[i], NULL, MS_REMOUNT, NULL), ENOENT);
	}
}

void attempt_umount_all(void)
{
	static char buf[131072];
	char *save = NULL, what[300];

	if (slurp("/proc/self/mountinfo", buf, sizeof(buf)) <= 0)
		broken("/proc/self/mountinfo: %s", strerror(errno));
	for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char target[256];

		if (sscanf(line, "%*s %*s %*s %*s %255s", target) != 1)
			continue;
		snprintf(what, sizeof(what), "umount %s", target);
		refused(what, umount2(target, MNT_DETACH), 0);
	}
}

void attempt_mount_new_api(void)
{
	char attr[32] = {0};
	long fd;

	fd = syscall(NR_fsopen, "tmpfs", 0);
	refused("fsopen", fd, 0);
	refused("fspick", syscall(NR_fspick, AT_FDCWD, "/", 0), 0);
	refused("open_tree", syscall(NR_open_tree, AT_FDCWD, "/usr", 1 /* clone */), 0);
	refused("move_mount", syscall(NR_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, spot(), 0), 0);
	/* fsmount of what is none: EBADF would be the call's own word. */
	refused("fsmount", syscall(NR_fsmount, -1, 0, 0), 0);
	refused("mount_setattr", syscall(NR_mount_setattr, AT_FDCWD, "/usr", 0, attr, sizeof(attr)),
		0);
}

void attempt_pivot_root(void)
{
	refused("pivot_root", syscall(SYS_pivot_root, "/tmp", spot()), 0);
	refused("pivot_root .", syscall(SYS_pivot_root, ".", "."), 0);
}

void attempt_chroot(void)
{
	refused("chroot", chroot(spot()), 0);
	refused("chroot /proc/1/root", chroot("/proc/1/root"), ENOENT);
}

void attempt_read_only_system(void)
{
	static const char *const dirs[] = {"/",    "/usr",  "/usr/bin", "/bin",  "/lib",  "/etc",
					   "/run", "/home", "/app/..",  "/proc", "/sbin", "/lib64"};
	char path[128];
	int fd;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		snprintf(path, sizeof(path), "%s/berth-attempt", dirs[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		tried();
		if (fd < 0)
			continue;
		got_out("%s was made", path);
		close(fd);
		unlink(path);
	}
	unwritable("/usr/bin/env");
	unwritable("/etc/passwd");
	unwritable("/etc/resolv.conf");
	unwritable("/etc/hosts");
	unwritable("/etc/ld.so.cache");
	tried();
	if (chmod("/usr/bin/env", 0755) == 0)
		got_out("chmod of /usr/bin/env");
	/* A link to what is not there: it must fail for the place, so it does no harm. */
	tried();
	if (symlink("x", "/etc/berth-attempt") == 0) {
		got_out("a link in /etc");
		unlink("/etc/berth-attempt");
	}
	tried();
	if (link("/usr/bin/env", "/tmp/env-link") == 0 || link("/usr/bin/env", "env-link") == 0)
		got_out("a hard link to /usr/bin/env");
	unlink("/tmp/env-link");
	unlink("env-link");
}

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = {{"mnt", CLONE_NEWNS},        {"uts", CLONE_NEWUTS},  {"ipc", CLONE_NEWIPC},
	      {"user", CLONE_NEWUSER},     {"pid", CLONE_NEWPID},  {"net", CLONE_NEWNET},
	      {"cgroup", CLONE_NEWCGROUP}, {"time", CLONE_NEWTIME}};

void attempt_unshare_each(void)
{
	char what[64];

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
		snprintf(what, sizeof(what), "unshare %s", spaces[i].name);
		refused(what, syscall(SYS_unshare, spaces[i].flag), 0);
		snprintf(what, sizeof(what), "unshare user and %s", spaces[i].name);
		refused(what, syscall(SYS_unshare, spaces[i].flag | CLONE_NEWUSER), 0);
	}
}

static void enter(pid_t pid)
{
	char path[64];

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, spaces[i].name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		tried();
		if (fd < 0)
			continue;
		refused(path, syscall(SYS_setns, fd, 0), 0);
		close(fd);
	}
}

void attempt_setns_each(void)
{
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);

	enter(getpid());
	enter(1);
	each_process(enter);
	for (size_t i = 0; fd >= 0 && i < sizeof(spaces) / sizeof(*spaces); i++)
		refused("setns by a pidfd", syscall(SYS_setns, fd, spaces[i].flag), 0);
	close(fd);
}

/* The child of a clone that got through ends at once. */
static long raw_clone(unsigned long flags)
{
	long r = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	int e = errno;

	if (r == 0)
		_exit(0);
	if (r > 0)
		waitpid((pid_t)r, NULL, 0);
	errno = e;
	return r;
}

void attempt_clone_newuser(void)
{
	char what[64];

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
		if (spaces[i].flag == CLONE_NEWTIME)
			continue; /* one of clone's signal bits */
		snprintf(what, sizeof(what), "clone %s", spaces[i].name);
		refused(what, raw_clone(spaces[i].flag), 0);
		snprintf(what, sizeof(what), "clone user and %s", spaces[i].name);
		refused(what, raw_clone(spaces[i].flag | CLONE_NEWUSER), 0);
	}
}

void attempt_clone3_newuser(void)
{
	uint64_t a[11] = {0};
	long r;

	for (size_t i = 0; i <= sizeof(spaces) / sizeof(*spaces); i++) {
		a[0] = i < sizeof(spaces) / sizeof(*spaces) ? spaces[i].flag : 0;
		a[4] = SIGCHLD;
		r = syscall(NR_clone3, a, 64L);
		if (r == 0)
			_exit(0);
		if (r > 0)
			waitpid((pid_t)r, NULL, 0);
		/* Not EPERM: a C library must take it for an old kernel and go on with clone. */
		tried();
		if (r >= 0 || errno != ENOSYS)
			got_out("clone3 said %ld %s", r, r < 0 ? strerror(errno) : "");
	}
}

void attempt_open_by_handle(void)
{
	struct {
		unsigned bytes;
		int type;
		unsigned char data[128];
	} h = {.bytes = 128};
	int at = open("/usr", O_RDONLY | O_CLOEXEC), mount_id;

	if (syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &h, &mount_id, 0) < 0) {
		/* Made by hand: ext4's, inode 2, the root of the file system. */
		h.bytes = 8;
		h.type = 1;
		memset(h.data, 0, sizeof(h.data));
		h.data[0] = 2;
	}
	refused("open_by_handle_at", syscall(SYS_open_by_handle_at, at, &h, O_RDONLY), 0);
	h.bytes = 8;
	h.type = 1;
	memset(h.data, 0, sizeof(h.data));
	h.data[0] = 2;
	refused("open_by_handle_at of inode 2", syscall(SYS_open_by_handle_at, at, &h, O_RDONLY),
		0);
	close(at);
}

void attempt_mknod_device(void)
{
	static const struct {
		const char *name;
		mode_t type;
		unsigned major, minor;
	} devices[] = {
		{"mem", S_IFCHR, 1, 1},     {"kmsg", S_IFCHR, 1, 11},  {"null", S_IFCHR, 1, 3},
		{"vda", S_IFBLK, 254, 0},   {"sda", S_IFBLK, 8, 0},    {"loop0", S_IFBLK, 7, 0},
		{"fuse", S_IFCHR, 10, 229}, {"tun", S_IFCHR, 10, 200}, {"tty0", S_IFCHR, 4, 0}};
	static const char *const dirs[] = {"/tmp", "/dev/shm", "/home/user", "."};
	char path[128];
	struct stat st;

	for (size_t d = 0; d < sizeof(dirs) / sizeof(*dirs); d++) {
		for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
			snprintf(path, sizeof(path), "%s/dev-%s", dirs[d], devices[i].name);
			refused(path,
				mknod(path, devices[i].type | 0600,
				      makedev(devices[i].major, devices[i].minor)),
				ENOENT);
		}
		if (stat("/", &st) == 0) {
			snprintf(path, sizeof(path), "%s/dev-root", dirs[d]);
			refused(path, mknod(path, S_IFBLK | 0600, st.st_dev), ENOENT);
		}
	}
}

void attempt_overlay_whiteout(void)
{
	refused("trusted.overlay.opaque", setxattr(".", "trusted.overlay.opaque", "y", 1, 0),
		ENOTSUP);
	refused("trusted.overlay.redirect", setxattr(".", "trusted.overlay.redirect", "/etc", 4, 0),
		ENOTSUP);
	refused("security.capability",
		setxattr(".", "security.capability",
			 "\1\0\0\2\377\377\377\377\0\0\0\0\377\377\377\377\0\0\0\0", 20, 0),
		ENOTSUP);
}
