/* SPDX-License-Identifier: MIT */
/*
 * walls.c: who the workers of an isolated sandbox are, and what they do not see.
 *
 * Invariants: a worker's real, effective and saved ids are the worker's, it has no capability in
 * any set and can get none by execve; a process that acts as a worker keeps init's real and saved
 * ids, so no worker can signal or trace it meanwhile. What a spawn child calls are system calls
 * and nothing else: it shares our memory, and libc would change the ids of "all threads". Not here:
 * the filter's rules (seccomp.c), and who makes the namespaces that all this stands in (stage.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/seccomp.h"
#include "agent/walls.h"

/* Of 32 bits, where the first ones took 16. */
#ifdef SYS_setresuid32
#define NR_SETRESUID SYS_setresuid32
#define NR_SETRESGID SYS_setresgid32
#define NR_SETGROUPS SYS_setgroups32
#else
#define NR_SETRESUID SYS_setresuid
#define NR_SETRESGID SYS_setresgid
#define NR_SETGROUPS SYS_setgroups
#endif

#define SAME         ((uid_t)-1)
#define PROC_SUPER   0x9fa0
#define CAPS_AT_MOST 64
#define LOCKED_FOREVER                                                          \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | \
	 SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |                \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* ---- ids and capabilities ---- */

struct caps {
	struct __user_cap_header_struct head;
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};

static int caps_get(struct caps *c)
{
	memset(c, 0, sizeof(*c));
	c->head.version = _LINUX_CAPABILITY_VERSION_3;
	return (int)syscall(SYS_capget, &c->head, c->data);
}

static int caps_drop(void)
{
	struct caps none = {.head.version = _LINUX_CAPABILITY_VERSION_3};

	return (int)syscall(SYS_capset, &none.head, none.data);
}

/* Nothing that is executed later can have a capability. Wants CAP_SETPCAP: before the uid. */
static int close_off(void)
{
	for (int cap = 0; cap < CAPS_AT_MOST; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)
			break; /* the kernel knows no more */
		return -1;
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -1;
	return prctl(PR_SET_SECUREBITS, LOCKED_FOREVER, 0, 0, 0);
}

/* A user namespace that was made without the help of newgidmap forbids it; then the single uid in
 * it is the caller's, and so are the groups. */
static int drop_groups(void)
{
	if (syscall(NR_SETGROUPS, 0, NULL) == 0)
		return 0;
	return errno == EPERM && syscall(SYS_geteuid) == (long)agent.worker_uid ? 0 : -1;
}

int wall_drop(void)
{
	uid_t u = agent.worker_uid;
	gid_t g = agent.worker_gid;

	if (!agent.walled)
		return 0;
	if (close_off() < 0 || drop_groups() < 0 || syscall(NR_SETRESGID, g, g, g) < 0 ||
	    syscall(NR_SETRESUID, u, u, u) < 0 || caps_drop() < 0)
		return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int wall_filter(void)
{
	return agent.walled ? seccomp_load() : 0;
}

static int become(bool worker)
{
	struct caps c;

	/* Out of the uid first, for the rights to change the gid; into it last. */
	if (worker && syscall(NR_SETRESGID, SAME, agent.worker_gid, SAME) < 0)
		return -1;
	if (syscall(NR_SETRESUID, SAME, worker ? agent.worker_uid : getuid(), SAME) < 0)
		return -1;
	if (!worker && syscall(NR_SETRESGID, SAME, getgid(), SAME) < 0)
		return -1;
	/* Where worker and init share a uid, its change changes nothing. */
	if (caps_get(&c) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(c.data); i++)
		c.data[i].effective = worker ? 0 : c.data[i].permitted;
	return (int)syscall(SYS_capset, &c.head, c.data);
}

void wall_as_worker(bool on)
{
	int e = errno, sig = 0;

	if (!agent.walled)
		return;
	prctl(PR_GET_PDEATHSIG, &sig);
	/* A request that would act with other rights than it should is not acted on at all. */
	if (become(on) < 0)
		_exit(1);
	if (sig)
		prctl(PR_SET_PDEATHSIG, sig);
	errno = e;
}

/* ---- what a worker sees ---- */

int wall_hide(void)
{
	return agent.walled ? umount2(agent.dir, MNT_DETACH) : 0;
}

/* The id of the mount that an fd is on, as /proc says it; -1. */
static int mount_of(int fd)
{
	char name[48], text[512], *p;

	fmt(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	if (read_file_at(AT_FDCWD, name, text, sizeof(text)) < 0)
		return -1;
	p = strstr(text, "mnt_id:");
	return p ? atoi(p + 7) : -1;
}

bool wall_reaches(int fd)
{
	struct statfs fs;
	int ours;

	if (!agent.walled)
		return true;
	ours = mount_of(agent.dirfd);
	if (ours >= 0 && mount_of(fd) != ours && fstatfs(fd, &fs) == 0 && fs.f_type != PROC_SUPER)
		return true;
	errno = EACCES;
	return false;
}

int wall_open_dir(int base, const char *path)
{
	int fd;

	if (!agent.walled)
		return openat(base, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	wall_as_worker(true);
	fd = open_plain(base, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0 && !wall_reaches(fd)) {
		close(fd);
		fd = -1;
		errno = EACCES;
	}
	wall_as_worker(false);
	return fd;
}

/* ---- whose files are whose ---- */

int wall_give(int fd)
{
	return agent.walled ? fchown(fd, agent.worker_uid, agent.worker_gid) : 0;
}

int wall_give_at(int dirfd, const char *name)
{
	return agent.walled ? fchownat(dirfd, name, agent.worker_uid, agent.worker_gid,
				       AT_SYMLINK_NOFOLLOW)
			    : 0;
}

int wall_give_root(int dirfd, const char *name)
{
	int fd, r;

	if (!agent.walled)
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* DIR's lists name a uid of outside, for records. There may be none. */
	fremovexattr(fd, "system.posix_acl_default");
	fremovexattr(fd, "system.posix_acl_access");
	r = fchmod(fd, 0755) < 0 ? -1 : wall_give(fd);
	close(fd);
	return r;
}

int wall_share(int fd)
{
	struct stat st;

	if (agent.file_mode == 0600)
		return 0;
	if (fstat(fd, &st) < 0)
		return -1;
	return fchmod(fd, S_ISDIR(st.st_mode) ? agent.dir_mode : agent.file_mode);
}

int wall_share_at(int dirfd, const char *name)
{
	return agent.file_mode == 0600 ? 0 : fchmodat(dirfd, name, agent.file_mode, 0);
}

/* ---- facts ---- */

bool wall_in_userns(void)
{
	char text[256], first[64];
	size_t n = 0;

	if (read_file_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) < 0)
		return false;
	/* Numbers with any number of blanks between them. */
	for (const char *p = text; *p && n < sizeof(first) - 1; p++) {
		if (*p != ' ' || (n && first[n - 1] != ' '))
			first[n++] = *p;
	}
	first[n] = '\0';
	return strcmp(first, "0 0 4294967295\n") != 0;
}
