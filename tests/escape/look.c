/* SPDX-License-Identifier: MIT */
/*
 * look.c: attempts that look around: files, processes and devices that are not the sandbox's. They
 * read and open, and change nothing where something opens.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attempt.h"

void attempt_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	struct stat st;

	if (!d)
		broken("/proc/self/fd: %s", strerror(errno));
	while ((e = readdir(d))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || fd == dirfd(d))
			continue;
		tried();
		if (fd > 2)
			got_out("fd %d is open", fd);
		else if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
			got_out("fd %d has the mode %o", fd, st.st_mode);
	}
	closedir(d);
}

/* Every path that the driver knows something at: files=A:B:C. */
static void each_path(const char *key, void (*fn)(const char *path))
{
	char buf[8192], *save = NULL;

	snprintf(buf, sizeof(buf), "%s", arg(key));
	for (char *p = strtok_r(buf, ":", &save); p; p = strtok_r(NULL, ":", &save))
		fn(p);
}

void attempt_bait_files(void)
{
	each_path("files", unreadable);
	each_path("files", unwritable);
}

static void state_path(const char *path)
{
	unlistable(path);
	unreadable(path);
}

void attempt_state_folder(void)
{
	each_path("state", state_path);
}

void attempt_host_homes(void)
{
	DIR *d = opendir("/home");
	struct dirent *e;

	unlistable("/root");
	each_path("homes", unlistable);
	tried();
	while (d && (e = readdir(d))) {
		if (e->d_name[0] != '.' && strcmp(e->d_name, "user") != 0)
			got_out("/home has %s", e->d_name);
	}
	if (d)
		closedir(d);
	else if (!arg_is("wall", "none"))
		got_out("there is no /home");
}

void attempt_host_shadow(void)
{
	unreadable("/etc/shadow");
	unreadable("/etc/shadow-");
	unreadable("/etc/gshadow");
	unreadable("/etc/sudoers");
	unreadable("/etc/ssh/ssh_host_ed25519_key");
	unreadable("/etc/ssh/ssh_host_rsa_key");
	unreadable("/etc/ssl/private");
	unreadable("/etc/machine-id");
	unwritable("/etc/passwd");
}

void attempt_host_var_and_run(void)
{
	static const char *const dirs[] = {"/var", "/srv", "/mnt", "/media", "/boot", "/opt"};
	DIR *d = opendir("/run");
	struct dirent *e;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		unlistable(dirs[i]);
	tried();
	while (d && (e = readdir(d))) {
		if (e->d_name[0] != '.' && strncmp(e->d_name, "berth", 5) != 0)
			got_out("/run has %s", e->d_name);
	}
	if (d)
		closedir(d);
	unlistable("/run/berth");
}

/* ── the walk ─────────────────────────────────────────────────────────────────────────────── */

static unsigned long walked;

static int look_into(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	static char buf[1 << 20];
	ssize_t n;

	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode) || st->st_size > 1 << 20)
		return 0;
	walked++;
	n = slurp(path, buf, sizeof(buf));
	if (n > 0 && has_bytes(buf, (size_t)n, needle()))
		got_out("the secret is in %s", path);
	return 0;
}

static void walk_from(const char *dir)
{
	tried();
	nftw(dir, look_into, 32, FTW_PHYS | FTW_MOUNT);
}

static void walk_process(pid_t pid)
{
	static const char *const names[] = {"root", "cwd"};
	char path[64];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s/.", pid, names[i]);
		if (access(path, R_OK) == 0)
			walk_from(path);
	}
}

void attempt_needle_walk(void)
{
	static const char *const top[] = {"/app", "/home", "/tmp", "/run",   "/etc", "/dev",
					  "/var", "/root", "/mnt", "/media", "/srv", "/opt"};

	/* By hand and not from /: mounts are not crossed, so each of them is named. */
	for (size_t i = 0; i < sizeof(top) / sizeof(*top) && !arg_is("wall", "none"); i++)
		walk_from(top[i]);
	each_path("walk", walk_from);
	walk_from("/home/user");
	walk_from("/dev/shm");
	walk_from("/run/berth");
	if (arg_is("wall", "none"))
		return; /* the whole machine is too much */
	walk_from("..");
	each_process(walk_process);
	note("%lu files", walked);
}

/* ── the records ──────────────────────────────────────────────────────────────────────────── */

static void record_path(const char *dir)
{
	char path[PATH_MAX];

	unlistable(dir);
	snprintf(path, sizeof(path), "%.2000s/%.128s", dir, arg("id"));
	unlistable(path);
	for (size_t i = 0; i < 6; i++) {
		static const char *const names[] = {"journal", "stdout",  "stderr",
						    "input",   "control", "init.lock"};

		snprintf(path, sizeof(path), "%.2000s/%.128s/%s", dir, arg("id"), names[i]);
		unreadable(path);
		unwritable(path);
	}
}

void attempt_own_record(void)
{
	each_path("records", record_path);
}

static void record_writes(const char *dir)
{
	char path[PATH_MAX], to[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%.2000s/forged", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	tried();
	if (fd >= 0) {
		got_out("%s was made", path);
		close(fd);
		unlink(path);
	}
	tried();
	if (mkdir(path, 0700) == 0) {
		got_out("the directory %s was made", path);
		rmdir(path);
	}
	tried();
	if (symlink("/etc/passwd", path) == 0) {
		got_out("the link %s was made", path);
		unlink(path);
	}
	if (arg_is("wall", "none"))
		return;
	snprintf(path, sizeof(path), "%.2000s/%.128s", dir, arg("id"));
	snprintf(to, sizeof(to), "%.2000s/%.128s-2", dir, arg("id"));
	tried();
	if (rename(path, to) == 0)
		got_out("%s was renamed", path);
	snprintf(path, sizeof(path), "%.2000s/%.128s/journal", dir, arg("id"));
	tried();
	if (unlink(path) == 0)
		got_out("%s was removed", path);
}

void attempt_own_record_written(void)
{
	each_path("records", record_writes);
}

static void socket_path(const char *dir)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), at;

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	tried();
	at = open(dir, O_PATH | O_CLOEXEC);
	snprintf(path, sizeof(path), "%.2000s/init.sock", dir);
	if (at >= 0)
		snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/init.sock", at);
	else
		snprintf(a.sun_path, sizeof(a.sun_path), "%.100s/init.sock", dir);
	if (fd >= 0 && (connect(fd, (void *)&a, sizeof(a)) == 0 || errno == EPROTOTYPE))
		got_out("%s answers", path);
	close(at);
	close(fd);
}

void attempt_init_socket(void)
{
	each_path("records", socket_path);
}

static void agent_paths(void (*fn)(const char *path))
{
	fn("/run/berth-agent");
	fn("/proc/1/exe");
	each_path("agents", fn);
}

void attempt_agent_binary(void)
{
	agent_paths(unwritable);
}

/* An empty file may stand where it was. */
static void no_bytes(const char *path)
{
	char buf[64];
	ssize_t n = slurp(path, buf, sizeof(buf));

	tried();
	if (n > 0)
		got_out("%s was read: %zd bytes", path, n);
}

void attempt_agent_binary_read(void)
{
	agent_paths(no_bytes);
}

/* ── processes ────────────────────────────────────────────────────────────────────────────── */

static const char *proc_name;
static int proc_flags;

static void open_of_process(pid_t pid)
{
	char path[64], target[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, proc_name);
	tried();
	fd = open(path, proc_flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0) {
		/* /proc/N/maps opens for a kernel thread, and then has nothing. */
		if (!(strcmp(proc_name, "maps") == 0 && read(fd, target, sizeof(target)) <= 0))
			got_out("%s was opened", path);
		close(fd);
	}
	if (readlink(path, target, sizeof(target)) >= 0)
		got_out("%s can be read", path);
}

static void each_process_open(const char *name, int flags)
{
	proc_name = name;
	proc_flags = flags;
	each_process(open_of_process);
}

void attempt_proc_root(void)
{
	each_process_open("root", O_RDONLY);
	each_process_open("root/.", O_PATH);
	each_process_open("root/etc/passwd", O_RDONLY);
}

void attempt_proc_cwd(void)
{
	each_process_open("cwd", O_RDONLY);
	each_process_open("cwd/.", O_PATH);
	each_process_open("exe", O_RDONLY);
}

void attempt_proc_fd(void)
{
	char name[16];

	each_process_open("fd", O_RDONLY);
	each_process_open("fdinfo", O_RDONLY);
	for (int fd = 0; fd < 64; fd++) {
		snprintf(name, sizeof(name), "fd/%d", fd);
		each_process_open(name, O_RDONLY);
	}
}

void attempt_proc_map_files(void)
{
	each_process_open("map_files", O_RDONLY);
	each_process_open("maps", O_RDONLY);
	each_process_open("ns/mnt", O_RDONLY);
	each_process_open("ns/user", O_RDONLY);
}

static void environ_of(pid_t pid)
{
	static char buf[262144];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	tried();
	n = slurp(path, buf, sizeof(buf));
	if (n > 0 && (pid == 1 || has_bytes(buf, (size_t)n, needle())))
		got_out("%s has %zd bytes%s", path, n,
			has_bytes(buf, (size_t)n, needle()) ? ", the secret among them" : "");
}

void attempt_proc_environ(void)
{
	each_process(environ_of);
}

void attempt_proc_mem(void)
{
	each_process_open("mem", O_RDONLY);
	each_process_open("mem", O_RDWR);
	each_process_open("auxv", O_RDONLY);
	each_process_open("syscall", O_RDONLY);
}

void attempt_proc_1_write(void)
{
	static const char *const names[] = {
		"oom_score_adj", "oom_adj", "coredump_filter", "comm",           "timerslack_ns",
		"uid_map",       "gid_map", "setgroups",       "projid_map",     "loginuid",
		"attr/current",  "sched",   "clear_refs",      "timens_offsets", "task/1/comm"};
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int fd;

		/* Some open for anyone, and look at the right when something is written. */
		snprintf(path, sizeof(path), "/proc/1/%s", names[i]);
		tried();
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0 && write(fd, "0\n", 2) >= 0)
			got_out("%s was written", path);
		close(fd);
	}
}

static void foreign_process(pid_t pid)
{
	static char buf[65536];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	n = slurp(path, buf, sizeof(buf));
	tried();
	if (n > 0 && has_bytes(buf, (size_t)n, arg("nonce")) &&
	    !(*arg("mine") && has_bytes(buf, (size_t)n, arg("mine"))))
		got_out("process %d is another's: %s", pid, buf);
}

void attempt_other_processes(void)
{
	char buf[4096], *save = NULL;

	each_process(foreign_process);
	snprintf(buf, sizeof(buf), "%s", arg("pids"));
	for (char *p = strtok_r(buf, ":", &save); p; p = strtok_r(NULL, ":", &save)) {
		char path[64], cmd[4096];
		ssize_t n;

		/* A number may be taken in here, too; whose it is says its command line. */
		tried();
		snprintf(path, sizeof(path), "/proc/%s/cmdline", p);
		n = slurp(path, cmd, sizeof(cmd));
		if (n > 0 && has_bytes(cmd, (size_t)n, "pause"))
			got_out("the host's process %s is there", p);
	}
}

/* ── devices and the like ─────────────────────────────────────────────────────────────────── */

static int look_at_device(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	static const char *const fine[] = {"null",    "zero", "full", "random",
					   "urandom", "tty",  "ptmx", "console"};

	(void)type, (void)ftw;
	if (S_ISBLK(st->st_mode))
		got_out("%s is a block device", path);
	if (!S_ISCHR(st->st_mode) || strncmp(path, "/dev/pts/", 9) == 0)
		return 0;
	tried();
	for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++) {
		if (strcmp(path + 5, fine[i]) == 0 && strcmp(fine[i], "console") != 0)
			return 0;
	}
	got_out("%s is a device", path);
	return 0;
}

void attempt_devices(void)
{
	static const char *const names[] = {
		"mem",    "kmem",      "port",        "kmsg",  "console",
		"fuse",   "net/tun",   "kvm",         "loop0", "loop-control",
		"sda",    "vda",       "tty0",        "input", "bus/usb",
		"uinput", "vhost-net", "userfaultfd", "cuse",  "btrfs-control"};
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "/dev/%s", names[i]);
		unreadable(path);
		unwritable(path);
	}
	nftw("/dev", look_at_device, 32, FTW_PHYS);
}

void attempt_sysfs(void)
{
	unlistable("/sys");
	unreadable("/sys/kernel/uevent_helper");
	unwritable("/sys/kernel/uevent_helper");
	unreadable("/sys/kernel/debug");
	unreadable("/sys/firmware");
	unreadable("/sys/power/state");
}

void attempt_cgroups(void)
{
	static char buf[65536];
	char *line, *save = NULL;

	unlistable("/sys/fs/cgroup");
	if (slurp("/proc/self/mountinfo", buf, sizeof(buf)) > 0) {
		tried();
		if (strstr(buf, " - cgroup"))
			got_out("a cgroup file system is mounted");
	}
	if (slurp("/proc/self/cgroup", buf, sizeof(buf)) < 0)
		return;
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *path = strrchr(line, ':');

		tried();
		/* Without groups of its own it is in the caller's: then the way to it is the host's. */
		if (path && strcmp(path, ":/") != 0 && arg_is("groups", "yes"))
			got_out("/proc/self/cgroup says %s", line);
	}
}
