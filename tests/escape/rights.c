/* SPDX-License-Identifier: MIT */
/*
 * rights.c: attempts to get other uids, capabilities, or the kernel's own settings.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attempt.h"

static void line_is(const char *status, const char *key, const char *want)
{
	const char *p = strstr(status, key);
	char got[64] = "(absent)";

	if (p)
		sscanf(p + strlen(key), " %63s", got);
	tried();
	if (strcmp(got, want) != 0)
		got_out("%s %s, not %s", key, got, want);
}

void attempt_status_bits(void)
{
	static const char *const sets[] = {
		"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};
	char buf[8192];

	if (slurp("/proc/self/status", buf, sizeof(buf)) <= 0)
		broken("/proc/self/status: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		line_is(buf, sets[i], "0000000000000000");
	line_is(buf, "\nNoNewPrivs:", "1");
	line_is(buf, "\nSeccomp:", "2");
	line_is(buf, "\nTracerPid:", "0");
	tried();
	if (getuid() == 0 || geteuid() == 0 || getgid() == 0 || getegid() == 0)
		got_out("it is uid %u, gid %u", geteuid(), getegid());
}

void attempt_become_uid(void)
{
	unsigned ids[] = {0,
			  1,
			  65534,
			  (unsigned)atoi(arg("base")),
			  (unsigned)atoi(arg("base")) + 1,
			  (unsigned)atoi(arg("caller"))};

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		unsigned id = ids[i];

		if (id == getuid())
			continue;
		refused("setuid", syscall(SYS_setuid, id), EINVAL);
		refused("setreuid", syscall(SYS_setreuid, id, id), EINVAL);
		refused("setresuid", syscall(SYS_setresuid, id, id, id), EINVAL);
		syscall(SYS_setfsuid, id);
		tried();
		if ((unsigned)syscall(SYS_setfsuid, -1) == id)
			got_out("setfsuid %u", id);
		refused("setgid", syscall(SYS_setgid, id), EINVAL);
		refused("setregid", syscall(SYS_setregid, id, id), EINVAL);
		refused("setresgid", syscall(SYS_setresgid, id, id, id), EINVAL);
	}
}

void attempt_groups(void)
{
	gid_t list[64], zero = 0;
	int n = getgroups(64, list);

	tried();
	for (int i = 0; i < n; i++) {
		if (list[i] != getgid())
			got_out("the supplementary group %u was left", list[i]);
	}
	refused("setgroups 0", syscall(SYS_setgroups, 1L, &zero), EINVAL);
	refused("setgroups none", syscall(SYS_setgroups, 0L, NULL), 0);
}

void attempt_capset(void)
{
	struct {
		uint32_t version;
		int pid;
	} head = {0x20080522, 0};
	struct {
		uint32_t effective, permitted, inheritable;
	} all[2] = {{~0u, ~0u, ~0u}, {0x1ff, 0x1ff, 0x1ff}};
	char buf[8192];

	refused("capset", syscall(SYS_capset, &head, all), 0);
	for (int cap = 0; cap <= 40; cap++)
		refused("an ambient capability", prctl(PR_CAP_AMBIENT, 2 /* raise */, cap, 0, 0),
			EINVAL);
	refused("keep caps and setuid", prctl(PR_SET_SECUREBITS, 0x10, 0, 0, 0), 0);
	if (slurp("/proc/self/status", buf, sizeof(buf)) > 0)
		line_is(buf, "\nCapEff:", "0000000000000000");
}

/* ── setuid files ─────────────────────────────────────────────────────────────────────────── */

static unsigned found_setuid;

/* Does the process, as it is now, have anything that this one has not? */
static void compare_with_own(pid_t pid, const char *name)
{
	char path[64], own[8192], its[8192];
	static const char *const keys[] = {
		"\nUid:", "\nGid:", "\nCapPrm:", "\nCapEff:", "\nGroups:"};

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (slurp("/proc/self/status", own, sizeof(own)) <= 0 || slurp(path, its, sizeof(its)) <= 0)
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const char *a = strstr(own, keys[i]), *b = strstr(its, keys[i]);
		size_t n = a ? strcspn(a + 1, "\n") + 1 : 0;

		if (a && b && strncmp(a, b, n) != 0)
			got_out("%s has%.*s", name, (int)n, b);
	}
}

static void run_setuid(const char *path, char *const argv[])
{
	char *const env[] = {"LD_PRELOAD=/tmp/evil.so", "LD_LIBRARY_PATH=/tmp",
			     "LD_AUDIT=/tmp/evil.so",   "PATH=/tmp:/usr/bin",
			     "GCONV_PATH=/tmp",         NULL};
	const struct itimerval soon = {.it_value = {0, 300000}};
	int fds[2], status = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC), quiet;
	pid_t pid;
	char byte;

	if (pipe2(fds, O_CLOEXEC) < 0)
		broken("pipe: %s", strerror(errno));
	quiet = fcntl(null, F_DUPFD_CLOEXEC, 10);
	pid = fork();
	if (pid == 0) {
		/* Some of them wait for a password that nobody types. */
		setitimer(ITIMER_REAL, &soon, NULL);
		dup2(null, 0);
		dup2(quiet, 1);
		dup2(quiet, 2);
		execve(path, argv, env);
		_exit(127);
	}
	/* The pipe closes at its execve: from there on its rights are the new ones. */
	close(fds[1]);
	tried();
	if (read(fds[0], &byte, 1) == 0)
		compare_with_own(pid, path);
	close(fds[0]);
	close(null);
	close(quiet);
	waitpid(pid, &status, 0);
}

static int look_for_setuid(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char *const plain[] = {(char *)path, (char *)"--help", NULL};
	struct statvfs v;

	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode) || !(st->st_mode & (S_ISUID | S_ISGID)))
		return 0;
	found_setuid++;
	tried();
	if (statvfs(path, &v) == 0 && !(v.f_flag & ST_NOSUID))
		got_out("%s lies on a mount without nosuid", path);
	run_setuid(path, plain);
	return 0;
}

void attempt_setuid_files(void)
{
	static char *const commands[][6] = {
		{"/usr/bin/su", "-c", "id", "root", NULL},
		{"/usr/bin/mount", "-t", "tmpfs", "none", "/tmp", NULL},
		{"/usr/bin/umount", "/tmp", NULL},
		{"/usr/bin/newuidmap", "1", "0", "0", "1", NULL},
		{"/usr/bin/newgrp", "root", NULL},
		{"/usr/bin/chsh", "-s", "/bin/sh", "root", NULL},
		{"/usr/bin/ping", "-c1", "-W1", "127.0.0.1", NULL},
		{"/usr/bin/passwd", "-S", "root", NULL},
		{"/usr/bin/pkexec", "true", NULL},
		{"/usr/bin/sudo", "-n", "true", NULL},
	};

	tried();
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (access(commands[i][0], X_OK) == 0)
			run_setuid(commands[i][0], commands[i]);
	}
	nftw("/usr/bin", look_for_setuid, 16, FTW_PHYS);
	nftw("/usr/sbin", look_for_setuid, 16, FTW_PHYS);
	nftw("/usr/lib", look_for_setuid, 16, FTW_PHYS);
	nftw("/usr/libexec", look_for_setuid, 16, FTW_PHYS);
	note("%u setuid files", found_setuid);
}

void attempt_file_capabilities(void)
{
	/* VFS_CAP_REVISION_2, effective, everything; and revision 3 with a root uid of ours. */
	static const char two[20] = "\1\0\0\2\377\377\377\377\0\0\0\0\377\377\377\377\0\0\0\0";
	static const char three[24] =
		"\1\0\0\3\377\377\377\377\0\0\0\0\377\377\377\377\0\0\0\0\350\3\0\0";
	int fd = open("cap-file", O_RDWR | O_CREAT | O_CLOEXEC, 0700);

	if (fd < 0)
		broken("cap-file: %s", strerror(errno));
	refused("capabilities v2", fsetxattr(fd, "security.capability", two, sizeof(two), 0),
		ENOTSUP);
	refused("capabilities v3", fsetxattr(fd, "security.capability", three, sizeof(three), 0),
		ENOTSUP);
	refused("chown to root", fchown(fd, 0, 0), EINVAL);
	refused("chown to init", fchown(fd, (uid_t)atoi(arg("base")), (gid_t)-1), EINVAL);
	refused("chgrp to root", fchown(fd, (uid_t)-1, 0), EINVAL);
	close(fd);
	unlink("cap-file");
}

static void copy_self(const char *to)
{
	static char buf[1 << 20];
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ssize_t n;

	while ((n = read(in, buf, sizeof(buf))) > 0) {
		if (write(fd, buf, (size_t)n) != n)
			break;
	}
	fchmod(fd, 06755);
	close(in);
	close(fd);
}

void attempt_own_setuid(void)
{
	static const char *const dirs[] = {"/tmp", "/home/user", "."};
	struct statvfs v;
	char path[128];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		char *const argv[] = {path, (char *)"nothing", NULL};

		snprintf(path, sizeof(path), "%s/setuid-copy", dirs[i]);
		copy_self(path);
		run_setuid(path, argv);
		tried();
		if (statvfs(path, &v) == 0 && !(v.f_flag & ST_NOSUID))
			got_out("%s lies on a mount without nosuid", path);
		unlink(path);
	}
}

/* ── settings of the kernel ───────────────────────────────────────────────────────────────── */

/* Some files open for anyone, and look at the right when something is written: their own value. */
static void write_its_value(const char *path)
{
	char value[4096];
	ssize_t n = slurp(path, value, sizeof(value));
	int fd;

	tried();
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (n <= 0 || write(fd, value, (size_t)n) >= 0 || (errno != EPERM && errno != EACCES))
		got_out("%s was opened for writing%s", path, n > 0 ? " and written" : "");
	close(fd);
}

static int try_to_write(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	/* A trigger on the pressure of the machine is a way of reading it, and one's own. */
	if (type == FTW_F && S_ISREG(st->st_mode) && strncmp(path, "/proc/pressure/", 15) != 0)
		write_its_value(path);
	return 0;
}

void attempt_sysctls(void)
{
	nftw("/proc/sys", try_to_write, 32, FTW_PHYS);
}

void attempt_proc_files(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[300];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) > 0 || strcmp(e->d_name, "self") == 0 ||
		    strcmp(e->d_name, "thread-self") == 0 || strcmp(e->d_name, "sys") == 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%s", e->d_name);
		nftw(path, try_to_write, 32, FTW_PHYS);
	}
	if (d)
		closedir(d);
	unwritable("/proc/sysrq-trigger");
	unwritable("/proc/timer_list");
	unreadable("/proc/kcore");
	unreadable("/proc/kmsg");
}

void attempt_kernel_handlers(void)
{
	static const char *const paths[] = {"/proc/sys/kernel/core_pattern",
					    "/proc/sys/kernel/modprobe",
					    "/proc/sys/kernel/hotplug",
					    "/proc/sys/kernel/poweroff_cmd",
					    "/proc/sys/fs/binfmt_misc/register",
					    "/proc/sys/fs/binfmt_misc/status",
					    "/proc/sys/kernel/usermodehelper/bset",
					    "/proc/sys/vm/overcommit_memory",
					    "/proc/sys/kernel/panic",
					    "/sys/kernel/uevent_helper",
					    "/proc/sys/kernel/ns_last_pid",
					    "/proc/sys/kernel/yama/ptrace_scope"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		write_its_value(paths[i]);
}
