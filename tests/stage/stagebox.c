/* SPDX-License-Identifier: MIT */
/* stagebox.c: see stagebox.h. */
#include "stagebox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define DEADLINE_MS 20000

const char *const box_kinds[BOX_KINDS] = {"root", "user", "single"};

unsigned box_slot;

static char agent[600], world[512];

__attribute__((constructor)) static void choose_slot(void)
{
	box_slot = (unsigned)getpid() % 1024;
}

/* ---- the world of an ordinary user ---- */

static int copy_file(const char *from, const char *to, const char *more)
{
	static char text[1 << 20];
	int in = open(from, O_RDONLY | O_CLOEXEC),
	    out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	ssize_t n = 0;

	while (out >= 0 && in >= 0 && (n = read(in, text, sizeof(text))) > 0) {
		if (write(out, text, (size_t)n) != n)
			n = -1;
	}
	if (n == 0 && more && write(out, more, strlen(more)) != (ssize_t)strlen(more))
		n = -1;
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return n == 0 && out >= 0 ? chmod(to, 0755) : -1;
}

static int own_etc(const char *name, const char *old, const char *more)
{
	char path[600], etc[64];

	snprintf(path, sizeof(path), "%s/etc.%s", world, name);
	snprintf(etc, sizeof(etc), "/etc/%s", name);
	if (copy_file(old ? old : "/dev/null", path, more) < 0)
		return -1;
	if (access(etc, F_OK) < 0 && close(open(etc, O_CREAT | O_WRONLY, 0644)) < 0)
		return -1;
	return mount(path, etc, NULL, MS_BIND, NULL);
}

/* As on an ordinary machine, where it is open to everybody. */
static int own_tun(void)
{
	if (access("/dev/net", F_OK) < 0)
		return 0;
	if (mount("tun", "/dev/net", "tmpfs", 0, "mode=755") < 0)
		return -1;
	return mknod("/dev/net/tun", S_IFCHR | 0666, makedev(10, 200)) < 0
		       ? -1
		       : chmod("/dev/net/tun", 0666);
}

int box_world(void)
{
	char ids[64], user[64], group[64];

	if (!getcwd(world, sizeof(world)) || chmod(".", 0755) < 0)
		return -1;
	snprintf(agent, sizeof(agent), "%s/agent", world);
	snprintf(ids, sizeof(ids), "boxuser:%u:65536\n", USER_BASE);
	snprintf(user, sizeof(user), "boxuser:x:%u:%u::/nonexistent:/bin/sh\n", USER_UID, USER_UID);
	snprintf(group, sizeof(group), "boxuser:x:%u:\n", USER_UID);
	if (copy_file(agent_binary(), agent, NULL) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	if (own_etc("passwd", "/etc/passwd", user) < 0 ||
	    own_etc("group", "/etc/group", group) < 0 || own_etc("subuid", NULL, ids) < 0 ||
	    own_etc("subgid", NULL, ids) < 0)
		return -1;
	return own_tun();
}

int box_make(struct stagebox *b, enum box_kind kind, const char *name)
{
	char state[450];

	*b = (struct stagebox){.kind = kind,
			       .base = kind == BOX_ROOT   ? ROOT_BASE
				       : kind == BOX_USER ? USER_BASE
							  : USER_UID};
	snprintf(state, sizeof(state), "%.400s/state-%s", world, box_kinds[kind]);
	if (mkdir(state, 0700) < 0 && errno != EEXIST)
		return -1;
	if (kind != BOX_ROOT && chown(state, USER_UID, USER_UID) < 0)
		return -1;
	snprintf(b->dir, sizeof(b->dir), "%.440s/%.64s", state, name);
	snprintf(b->berth, sizeof(b->berth), "%.511s/berth", b->dir);
	/* What a test that failed has left. */
	for (int i = 0; i < 8 && (b->init = box_find_init(b)) > 0; i++) {
		if (box_kill(b) < 0)
			return -1;
	}
	if (mkdir(b->dir, 0700) < 0)
		return -1;
	return kind == BOX_ROOT ? 0 : chown(b->dir, USER_UID, USER_UID);
}

/* ---- starting ---- */

void box_argv(const struct stagebox *b, const char *const *options, int ready, const char **argv)
{
	static char base[16], number[16];
	const char *words[] = {agent,        "stage",
			       "--bwrap",    "/usr/bin/bwrap",
			       "--agent",    agent,
			       "--hostname", "stagebox",
			       "--ids",      b->kind == BOX_SINGLE ? "single" : "range"};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		argv[n++] = words[i];
	snprintf(number, sizeof(number), "%d", ready);
	argv[n++] = "--ready";
	argv[n++] = number;
	if (b->kind != BOX_SINGLE) {
		snprintf(base, sizeof(base), "%u", b->base);
		argv[n++] = "--base";
		argv[n++] = base;
		argv[n++] = "--gbase";
		argv[n++] = base;
	}
	if (b->kind == BOX_USER) {
		argv[n++] = "--newuidmap";
		argv[n++] = "/usr/bin/newuidmap";
		argv[n++] = "--newgidmap";
		argv[n++] = "/usr/bin/newgidmap";
	}
	for (; options && *options; options++)
		argv[n++] = *options;
	argv[n] = NULL;
}

int box_become(const struct stagebox *b)
{
	gid_t groups[] = {USER_UID, 29};

	if (b->kind == BOX_ROOT)
		return setgroups(2, groups);
	return setgroups(2, groups) < 0 || setresgid(USER_UID, USER_UID, USER_UID) < 0 ||
			       setresuid(USER_UID, USER_UID, USER_UID) < 0
		       ? -1
		       : 0;
}

static void read_line(int fd, char *buf, size_t cap)
{
	struct pollfd p = {fd, POLLIN, 0};
	ssize_t n = poll(&p, 1, DEADLINE_MS) > 0 ? read(fd, buf, cap - 1) : 0;

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

int box_start(struct stagebox *b, const char *const *options)
{
	const char *argv[64];
	int ready[2], said = memfd_create("said", MFD_CLOEXEC);
	ssize_t n;
	pid_t pid;

	b->init = 0;
	if (said < 0 || pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		fcntl(ready[1], F_SETFD, 0);
		dup2(said, 2);
		box_argv(b, options, ready[1], argv);
		if (chdir(b->dir) == 0 && box_become(b) == 0)
			execv(argv[0], (char *const *)(uintptr_t)argv);
		dprintf(2, "cannot run %s: %s", argv[0], strerror(errno));
		_exit(127);
	}
	close(ready[1]);
	read_line(ready[0], b->line, sizeof(b->line));
	close(ready[0]);
	if (pid > 0 && strcmp(b->line, "ready") == 0)
		b->init = box_find_init(b);
	if (pid > 0) {
		if (b->init)
			kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	n = pread(said, b->said, sizeof(b->said) - 1, 0);
	b->said[n > 0 ? n : 0] = '\0';
	close(said);
	return b->init > 0 ? 0 : -1;
}

int box_erase(struct stagebox *b)
{
	char base[16];
	const char *range[] = {agent,     "erase",  "--ids",
			       "range",   "--base", base,
			       "--gbase", base,     strrchr(b->dir, '/') + 1,
			       NULL};
	const char *user[] = {agent,
			      "erase",
			      "--ids",
			      "range",
			      "--base",
			      base,
			      "--gbase",
			      base,
			      "--newuidmap",
			      "/usr/bin/newuidmap",
			      "--newgidmap",
			      "/usr/bin/newgidmap",
			      strrchr(b->dir, '/') + 1,
			      NULL};
	const char *single[] = {agent, "erase", "--ids", "single", strrchr(b->dir, '/') + 1, NULL};
	const char **argv = b->kind == BOX_ROOT ? range : b->kind == BOX_USER ? user : single;
	int status = -1;
	pid_t pid;

	snprintf(base, sizeof(base), "%u", b->base);
	pid = fork();
	if (pid == 0) {
		*strrchr(b->dir, '/') = '\0'; /* the parent's copy stays as it is */
		if (chdir(b->dir) == 0 && box_become(b) == 0)
			execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- inside ---- */

static int enter(pid_t pid)
{
	/* The user namespace last: until then the rights of the host's root are there. */
	static const char *const names[] = {"net", "uts", "ipc", "pid", "mnt", "user"};
	int fds[6];
	char path[64];

	for (size_t i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, names[i]);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[i] < 0)
			return -1;
	}
	for (size_t i = 0; i < 6; i++) {
		if (setns(fds[i], 0) < 0)
			return -1;
	}
	return 0;
}

static void run_inside(pid_t init, uid_t uid, const char *script, int out)
	__attribute__((noreturn));
static void run_inside(pid_t init, uid_t uid, const char *script, int out)
{
	int status, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid;

	if (enter(init) < 0 || (pid = fork()) < 0)
		_exit(126);
	if (pid > 0) {
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 125);
	}
	dup2(null, 0);
	dup2(out, 1);
	dup2(out, 2);
	syscall(SYS_close_range, 3u, ~0u, 0);
	setgroups(0, NULL); /* refused with one uid */
	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 || chdir("/") < 0)
		_exit(124);
	clearenv();
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
	execl("/bin/sh", "sh", "-c", script, NULL);
	_exit(127);
}

int box_sh(const struct stagebox *b, uid_t uid, const char *script, char *out, size_t cap)
{
	int fd = memfd_create("out", MFD_CLOEXEC), status = -1;
	pid_t pid = fork();
	ssize_t n;

	if (pid == 0)
		run_inside(b->init, uid, script, fd);
	if (pid > 0)
		waitpid(pid, &status, 0);
	n = pread(fd, out, cap - 1, 0);
	n = n > 0 ? n : 0;
	out[n] = '\0';
	if (n > 0 && out[n - 1] == '\n')
		out[n - 1] = '\0';
	close(fd);
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- processes ---- */

const char *status_field(pid_t pid, const char *name)
{
	static char text[4096];
	char path[64], *p;
	size_t n = strlen(name);
	int fd;
	ssize_t r;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[r > 0 ? r : 0] = '\0';
	for (p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, name, n) != 0 || p[n] != ':')
			continue;
		p += n + 1;
		p += strspn(p, " \t");
		p[strcspn(p, "\n")] = '\0';
		return p;
	}
	return "";
}

static bool is_ours(const struct stagebox *b, pid_t pid)
{
	char *end;
	unsigned long uid = strtoul(status_field(pid, "Uid"), &end, 10);

	if (uid == USER_UID && b->kind != BOX_ROOT) /* slirp4netns, and what maps ids */
		return *status_field(pid, "State") != 'Z';
	if (b->kind == BOX_SINGLE)
		return false;
	return uid >= b->base && uid < (unsigned long)b->base + 8 && *end &&
	       *status_field(pid, "State") != 'Z';
}

static size_t each(const struct stagebox *b, pid_t *ret_init)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0 || !is_ours(b, pid))
			continue;
		n++;
		/* PID 1 of its namespace: "NSpid: 4711 1" */
		if (ret_init && strcmp(status_field(pid, "Name"), "berth-agent") == 0 &&
		    strstr(status_field(pid, "NSpid"), "\t1"))
			*ret_init = pid;
	}
	if (d)
		closedir(d);
	return n;
}

size_t box_processes(const struct stagebox *b)
{
	return each(b, NULL);
}

pid_t box_find_init(const struct stagebox *b)
{
	pid_t pid = 0;

	each(b, &pid);
	return pid;
}

static bool none_left(void *arg)
{
	return box_processes(arg) == 0;
}

int box_kill(struct stagebox *b)
{
	if (b->init > 0)
		kill(b->init, SIGKILL);
	b->init = 0;
	return client_until(none_left, b) ? 0 : -1;
}
