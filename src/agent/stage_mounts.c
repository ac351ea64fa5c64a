/* SPDX-License-Identifier: MIT */
/*
 * stage_mounts.c: the folder of a sandbox, and the place where its parts are put together.
 *
 * The parts may lie where only the caller can go (a state folder of mode 0700), and bubblewrap runs
 * with the sandbox's ids. So everything is bound, while the caller's rights are there, below one
 * tmpfs that anybody may enter, in a mount namespace that ends with this process: bubblewrap takes
 * it from there into the sandbox.
 *
 * Invariants: nothing is mounted in the host's namespace. What the sandbox may only read is
 * read-only, nosuid and nodev before it enters the namespace of the sandbox, which locks it so.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/stage.h"

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef MOUNT_ATTR_RDONLY
#define MOUNT_ATTR_RDONLY 1
#define MOUNT_ATTR_NOSUID 2
#define MOUNT_ATTR_NODEV  4
struct mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

const char *stage_place;

/* ---- the folder ---- */

/* u::rwx, u:CALLER:rwx, g::---, mask::rwx, o::---, as the kernel wants it in an xattr. */
static size_t acl_text(uint8_t *b)
{
	static const struct {
		uint16_t tag, perm;
		uint32_t id;
	} entries[] = {
		{0x01, 7, UINT32_MAX}, {0x02, 7, U1_CALLER},  {0x04, 0, UINT32_MAX},
		{0x10, 7, UINT32_MAX}, {0x20, 0, UINT32_MAX},
	};
	const uint32_t version = 2;

	memcpy(b, &version, 4);
	memcpy(b + 4, entries, sizeof(entries));
	return 4 + sizeof(entries);
}

/* The caller has none of the ids inside, but reads the records. */
static int give_caller_access(int fd)
{
	uint8_t acl[64];
	size_t n = acl_text(acl);

	if (fsetxattr(fd, "system.posix_acl_access", acl, n, 0) < 0 ||
	    fsetxattr(fd, "system.posix_acl_default", acl, n, 0) < 0)
		return stage_no(
			"a file system with POSIX ACLs for the state folder (mount -o acl), "
			"or uids=single",
			errno, "cannot set an ACL on the sandbox's records: %m");
	return 0;
}

static int make_owned(const char *name, mode_t mode, uid_t uid, gid_t gid, bool acl)
{
	struct stat st;
	int fd, r = 0;

	if (mkdir(name, 0700) < 0 && errno != EEXIST)
		return stage_no(NULL, errno, "cannot make %s: %m", name);
	fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		r = stage_no(NULL, errno, "cannot open %s: %m", name);
	else if ((st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) < 0)
		r = stage_no(NULL, errno, "cannot give %s to the sandbox: %m", name);
	else if ((st.st_mode & 07777) != mode && !acl && fchmod(fd, mode) < 0)
		r = stage_no(NULL, errno, "cannot change the mode of %s: %m", name);
	else if (acl)
		r = give_caller_access(fd);
	if (fd >= 0)
		close(fd);
	return r;
}

int folder_make(void)
{
	const struct stage_options *o = &stage.o;
	bool acl = !stage.root && !o->single;
	uid_t init = o->single ? U1_CALLER : U1_INIT, worker = o->single ? U1_CALLER : U1_WORKER;
	gid_t ginit = init, gworker = worker;

	if (stage.root) {
		init = (uid_t)o->base;
		worker = init + 1;
		ginit = (gid_t)o->gbase;
		gworker = ginit + 1;
	}
	if (make_owned("berth", 0700, init, ginit, acl) < 0 ||
	    make_owned("home", 0700, worker, gworker, false) < 0)
		return -1;
	if (o->rootfs && (mkdir_p_at(AT_FDCWD, "root/up", 0755) < 0 ||
			  mkdir_p_at(AT_FDCWD, "root/wk", 0755) < 0))
		return stage_no(NULL, errno, "cannot make root: %m");
	return 0;
}

/* ---- the place ---- */

int bind_path(const char *from, int dirfd, const char *name)
{
	char to[AGENT_PATH_MAX];

	if (*name)
		fmt(to, sizeof(to), "/proc/self/fd/%d/%s", dirfd, name);
	else
		fmt(to, sizeof(to), "/proc/self/fd/%d", dirfd);
	return mount(from, to, NULL, MS_BIND | MS_REC, NULL);
}

/* What can be covered in our own mount namespace: neither the working directory nor anything else
 * that is still needed lies below it by path. */
static int mount_place(void)
{
	static const char *const places[] = {"/mnt", "/media", "/srv", "/opt", "/home", "/var"};
	int err = ENOENT;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (mount("berth", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m") ==
		    0) {
			stage_place = places[i];
			return 0;
		}
		if (errno != ENOENT && errno != ENOTDIR)
			err = errno;
	}
	return stage_no(err == EPERM || err == EACCES ? ids_why_not() : NULL, err,
			"cannot mount a tmpfs at /mnt: %m");
}

/* Before the place covers anything: every source as an fd of this namespace. */
struct sources {
	int home, berth, agent, root, rootfs, paths[STAGE_PATHS_MAX];
};

static int open_source(const char *path, int *ret)
{
	*ret = open(path, O_PATH | O_CLOEXEC);
	if (*ret < 0)
		return stage_no("name a path that exists", errno, "cannot open %s: %m", path);
	return 0;
}

/* The sandbox's ids execute it, and whether they may, its mode says. */
static int check_agent(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0555) != 0555)
		return stage_no("chmod 755", 0, "%s must be a file that anybody may execute",
				stage.o.agent);
	return 0;
}

static int open_sources(struct sources *s)
{
	const struct stage_options *o = &stage.o;

	if (open_source("home", &s->home) < 0 || open_source("berth", &s->berth) < 0 ||
	    open_source(o->agent, &s->agent) < 0 || open_source(o->bwrap, &stage.bwrapfd) < 0 ||
	    check_agent(s->agent) < 0)
		return -1;
	if (o->rootfs &&
	    (open_source("root", &s->root) < 0 || open_source(o->rootfs, &s->rootfs) < 0))
		return -1;
	for (size_t i = 0; i < o->n_paths; i++) {
		if (open_source(o->paths[i].path, &s->paths[i]) < 0)
			return -1;
	}
	return 0;
}

/* The mount points of what --ro and --rw name below /tmp. */
static int tmp_points(const struct sources *s, int place)
{
	int tmp = openat(place, "t/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC), r = 0;
	struct stat st;

	for (size_t i = 0; r == 0 && i < stage.o.n_paths; i++) {
		const char *path = stage.o.paths[i].path;

		if (strncmp(path, "/tmp/", 5) != 0)
			continue;
		r = fstat(s->paths[i], &st) < 0 ? -1
						: make_point(tmp, path + 4, S_ISDIR(st.st_mode));
		if (r < 0)
			stage_no(NULL, errno, "cannot make the mount point %s: %m", path);
	}
	if (tmp >= 0)
		close(tmp);
	return r;
}

/* /tmp and /dev/shm: memory, both within one size. */
static int mount_tmp(const struct sources *s, int place)
{
	int64_t size = stage.o.tmp_size, inodes;
	char path[64], options[96];
	struct sysinfo si;

	if (size <= 0 && sysinfo(&si) == 0)
		size = (int64_t)si.totalram * (int64_t)si.mem_unit / 4;
	inodes = size / 8192 < 4096 ? 4096 : size / 8192; /* kernel memory: about 1 kB each */
	fmt(path, sizeof(path), "%s/t", stage_place);
	fmt(options, sizeof(options), "mode=755,size=%lld,nr_inodes=%lld", (long long)size,
	    (long long)inodes);
	if (mount("tmp", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ||
	    fchmodat(place, "t", 0755, 0) < 0 || mkdirat(place, "t/tmp", 0777) < 0 ||
	    fchmodat(place, "t/tmp", 01777, 0) < 0 || mkdirat(place, "t/shm", 0777) < 0 ||
	    fchmodat(place, "t/shm", 01777, 0) < 0)
		return stage_no(NULL, errno, "cannot make /tmp: %m");
	return tmp_points(s, place);
}

/* A /dev with what every program expects, terminals of its own, and no other device. bubblewrap's own
 * would be one user namespace more with uids=single: it mounts terminals as uid 0 only. */
static int mount_dev(int place)
{
	static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
	static const struct {
		const char *name, *target;
	} links[] = {
		{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"core", "/proc/kcore"},       {"ptmx", "pts/ptmx"},
	};
	char path[64], from[32], name[32];

	fmt(path, sizeof(path), "%s/dev", stage_place);
	if (mount("dev", path, "tmpfs", MS_NOSUID, "mode=755,size=64k") < 0 ||
	    mkdirat(place, "dev/pts", 0755) < 0 || mkdirat(place, "dev/shm", 0755) < 0)
		return stage_no(NULL, errno, "cannot make /dev: %m");
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		join3(name, sizeof(name), "dev/", links[i].name, "");
		if (symlinkat(links[i].target, place, name) < 0)
			return stage_no(NULL, errno, "cannot make /%s: %m", name);
	}
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		join3(from, sizeof(from), "/dev/", devices[i], "");
		join3(name, sizeof(name), "dev/", devices[i], "");
		if (file_at(place, name) < 0 || bind_path(from, place, name) < 0)
			return stage_no(NULL, errno, "cannot bind %s: %m", from);
	}
	fmt(path, sizeof(path), "%s/dev/pts", stage_place);
	if (mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC,
		  "newinstance,ptmxmode=0666,mode=620") < 0)
		return stage_no(NULL, errno, "cannot mount terminals: %m");
	fmt(path, sizeof(path), "%s/dev", stage_place);
	if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL) < 0)
		return stage_no(NULL, errno, "cannot make /dev read-only: %m");
	return 0;
}

/* A name in the place for something to be bound at: made before the place is read-only. */
static int make_name(int place, const char *name, int like)
{
	struct stat st;
	int fd;

	if (like >= 0 && fstat(like, &st) < 0)
		return stage_no(NULL, errno, "cannot look at %s: %m", name);
	if (like < 0 || S_ISDIR(st.st_mode)) {
		if (mkdirat(place, name, 0755) == 0)
			return 0;
	} else {
		fd = openat(place, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd >= 0)
			return close(fd);
	}
	return stage_no(NULL, errno, "cannot make %s/%s: %m", stage_place, name);
}

static int make_names(const struct sources *s, int place)
{
	static const char *const dirs[] = {"s", "t", "dev", "home", "berth", "root", "low", "skel"};
	const struct stage_options *o = &stage.o;
	char name[8];

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (make_name(place, dirs[i], -1) < 0)
			return -1;
	}
	for (size_t i = 0; i < o->n_paths; i++) {
		fmt(name, sizeof(name), "p%zu", i);
		if (make_name(place, name, s->paths[i]) < 0)
			return -1;
	}
	return make_name(place, "agent", s->agent);
}

static int bind_fd(int fd, int place, const char *name)
{
	char from[48];

	fmt(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (bind_path(from, place, name) < 0)
		return stage_no(NULL, errno, "cannot bind %s: %m", name);
	return 0;
}

static int bind_paths(const struct sources *s, int place, bool rw)
{
	char name[8];

	for (size_t i = 0; i < stage.o.n_paths; i++) {
		fmt(name, sizeof(name), "p%zu", i);
		if (stage.o.paths[i].rw == rw && bind_fd(s->paths[i], place, name) < 0)
			return -1;
	}
	return 0;
}

/* Everything but the overlay, which must stay as it is. */
static int read_only(int place)
{
	struct mount_attr ro = {.attr_set =
					MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV},
			  rw = {.attr_clr = MOUNT_ATTR_RDONLY};

	/* Without the system call (before Linux 5.12) bubblewrap's --ro-bind does it. */
	if (syscall(SYS_mount_setattr, place, "", AT_EMPTY_PATH | AT_RECURSIVE, &ro, sizeof(ro)) <
	    0)
		return errno == ENOSYS ? 0
				       : stage_no(NULL, errno,
						  "cannot make the host's system read-only: %m");
	if (stage.root_rw && syscall(SYS_mount_setattr, place, "s", 0, &rw, sizeof(rw)) < 0)
		return stage_no(NULL, errno, "cannot make the root writable: %m");
	return 0;
}

int mounts_private(void)
{
	static const char chrooted[] =
		"/ is no mount point, as in a chroot, where the kernel makes no user namespaces; "
		"enter it with pivot_root, or isolation=none, which isolates nothing";

	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
		return 0;
	if (errno == EINVAL)
		return stage_no(chrooted, errno,
				"cannot make the mounts of the new namespace our own: %m");
	/* A user namespace may be allowed and yet give no rights: Ubuntu's AppArmor. */
	return stage_no(errno == EPERM || errno == EACCES ? ids_why_not() : NULL, errno,
			"cannot make the mounts of the new namespace our own: %m");
}

int mounts_make(void)
{
	const struct stage_options *o = &stage.o;
	struct sources s = {0};
	int place;

	if (open_sources(&s) < 0 || mount_place() < 0)
		return -1;
	place = open(stage_place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0)
		return stage_no(NULL, errno, "cannot open %s: %m", stage_place);
	if (make_names(&s, place) < 0 || bind_fd(s.agent, place, "agent") < 0 ||
	    bind_paths(&s, place, false) < 0)
		return -1;
	if (o->rootfs &&
	    (bind_fd(s.rootfs, place, "low") < 0 || bind_fd(s.root, place, "root") < 0))
		return -1;
	if (root_make(place) < 0 || read_only(place) < 0 || mount_tmp(&s, place) < 0 ||
	    mount_dev(place) < 0 || bind_fd(s.home, place, "home") < 0 ||
	    bind_fd(s.berth, place, "berth") < 0)
		return -1;
	return bind_paths(&s, place, true);
}
