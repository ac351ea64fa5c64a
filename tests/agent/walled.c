/* SPDX-License-Identifier: MIT */
/* walled.c: see walled.h. Keeps nothing but the last complaint. */
#include "walled.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[1024];

const char *walled_said(void)
{
	return said;
}

static int put(pid_t pid, const char *file, const char *text)
{
	char path[64];
	int fd, r;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	r = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	if (fd >= 0)
		close(fd);
	return r;
}

static int map_ids(pid_t pid, bool single)
{
	char map[64];

	if (single)
		snprintf(map, sizeof(map), "1000 %u 1\n", WALLED_UID);
	else
		snprintf(map, sizeof(map), "0 %u 1\n1000 %u 1\n", WALLED_UID, WALLED_UID + 1);
	return put(pid, "uid_map", map) < 0 || put(pid, "gid_map", map) < 0 ? -1 : 0;
}

static int lo_up(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int e = s < 0 ? -1 : ioctl(s, SIOCSIFFLAGS, &r);

	if (s >= 0)
		close(s);
	return e;
}

/* Fds that a test program happens to have are not for init, which would complain. */
static void keep_fds(const struct walled_opts *o, int ready)
{
	for (int fd = 3; fd < 1024; fd++) {
		bool keep = fd == ready;

		for (size_t i = 0; o && i < o->n_fds; i++)
			keep = keep || o->fds[i] == fd;
		if (!keep)
			close(fd);
		else
			fcntl(fd, F_SETFD, 0);
	}
}

/* All capabilities of the namespace, for a program that no uid 0 executes. */
static int keep_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, caps) < 0)
		return -1;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		caps[i].effective = caps[i].inheritable = caps[i].permitted;
	if (syscall(SYS_capset, &head, caps) < 0)
		return -1;
	for (int i = 0; i < 64; i++) {
		if (caps[i / 32].permitted >> i % 32 & 1 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) < 0)
			return -1;
	}
	return 0;
}

/* DIR as init is told it (static). */
static const char *dir_inside(const struct agent_proc *a, bool single)
{
	static char in[300];

	if (!single)
		return a->dir;
	snprintf(in, sizeof(in), "%.*s/in", (int)(strlen(a->dir) - 6), a->dir);
	return in;
}

static int mount_dir(const struct agent_proc *a, bool single)
{
	if (mount(a->dir, dir_inside(a, single), NULL, MS_BIND, NULL) < 0)
		return -1;
	return single ? mount("none", a->dir, "tmpfs", 0, "size=4k,mode=0755") : 0;
}

static int take_ids(bool single)
{
	uid_t id = single ? 1000 : 0;

	if (single)
		prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
		return -1;
	return single ? keep_caps() : 0;
}

static void enter(const struct agent_proc *a, const struct walled_opts *o, int err)
{
	const char *what = NULL;

	dup2(err, 2);
	if (take_ids(o && o->single) < 0)
		what = "ids";
	else if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		 mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ||
		 mount_dir(a, o && o->single) < 0)
		what = "mounts";
	else if (o && o->net && lo_up() < 0)
		what = "lo";
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!what)
		return;
	fprintf(stderr, "walled: %s: %s\n", what, strerror(errno));
	_exit(126);
}

static void exec_init(const struct agent_proc *a, const struct walled_opts *o, int ready, int err)
{
	static char app[300], home[300], number[12];
	const char *argv[64] = {agent_binary(), "init", "--walled", "--worker", "1000:1000",
				"--app",        app,    "--ready",  number};
	const char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			     home,
			     "USER=user",
			     "TMPDIR=/tmp",
			     "LANG=C.UTF-8",
			     NULL};
	size_t n = 9;

	enter(a, o, err);
	snprintf(app, sizeof(app), "%.*s/app", (int)(strlen(a->dir) - 6), a->dir);
	snprintf(home, sizeof(home), "HOME=%s", a->home);
	snprintf(number, sizeof(number), "%d", ready);
	for (const char *const *p = o ? o->options : NULL; p && *p && n < 62; p++)
		argv[n++] = *p;
	argv[n] = dir_inside(a, o && o->single);
	keep_fds(o, ready);
	execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
	fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* One line over the ready pipe says how it went. */
static bool is_ready(int ready)
{
	struct pollfd p = {ready, POLLIN, 0};
	char *line = said;
	ssize_t n;

	said[0] = '\0';

	if (poll(&p, 1, 10000) <= 0)
		return false;
	n = read(ready, line, sizeof(said) - 1);
	line[n > 0 ? n : 0] = '\0';
	return strcmp(line, "ready\n") == 0;
}

static pid_t begin(const struct agent_proc *a, const struct walled_opts *o, int ready, int err)
{
	unsigned long flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
			      CLONE_NEWUTS | SIGCHLD | (o && o->net ? CLONE_NEWNET : 0);
	int go[2];
	char byte;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		return -1;
	pid = (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(126);
		exec_init(a, o, ready, err);
	}
	close(go[0]);
	if (pid > 0 && (map_ids(pid, o && o->single) < 0 || write(go[1], "x", 1) != 1))
		perror("# walled: cannot map ids");
	close(go[1]);
	return pid;
}

int walled_restart(struct agent_proc *a, const struct walled_opts *o)
{
	int fds[2], err = memfd_create("said", MFD_CLOEXEC);
	ssize_t n;
	bool ok;

	if (err < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	a->pid = begin(a, o, fds[1], err);
	close(fds[1]);
	ok = a->pid > 0 && is_ready(fds[0]);
	close(fds[0]);
	if (!ok) {
		agent_kill(a);
		/* What could not even say that has said something else. */
		n = said[0] ? 0 : pread(err, said, sizeof(said) - 1, 0);
		said[n > 0 ? (size_t)n : strlen(said)] = '\0';
		fprintf(stderr, "# init --walled did not become ready: %s\n", said);
	}
	close(err);
	return ok ? 0 : -1;
}

static int make(const char *path, uid_t uid, mode_t mode)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return -1;
	return chmod(path, mode) < 0 || chown(path, uid, uid) < 0 ? -1 : 0;
}

int walled_start(struct agent_proc *a, const char *name, const struct walled_opts *o)
{
	char cwd[128], base[200], app[256];

	if (!getcwd(cwd, sizeof(cwd)))
		return -1;
	*a = (struct agent_proc){.pid = -1};
	snprintf(base, sizeof(base), "%s/%.60s", cwd, name);
	snprintf(a->dir, sizeof(a->dir), "%s/berth", base);
	snprintf(a->home, sizeof(a->home), "%s/home", base);
	snprintf(app, sizeof(app), "%s/app", base);
	if (chmod(".", 0755) < 0 || make(base, 0, 0755) < 0 || make(a->dir, WALLED_UID, 0700) < 0 ||
	    make(a->home, o && o->single ? WALLED_UID : WALLED_UID + 1, 0755) < 0 ||
	    make(app, WALLED_UID, 0755) < 0 ||
	    make(dir_inside(a, o && o->single), WALLED_UID, 0700) < 0) {
		fprintf(stderr, "# cannot make %s: %s\n", base, strerror(errno));
		return -1;
	}
	return walled_restart(a, o);
}
