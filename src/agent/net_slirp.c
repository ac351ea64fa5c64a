/* SPDX-License-Identifier: MIT */
/*
 * net_slirp.c: the process that becomes slirp4netns.
 *
 * Invariants: it never has host uid 0, and ends when the last writer of its exit pipe does, which
 * is the sandbox's init; it runs with its own sandbox (a file system of /etc and /run alone, no
 * capability over anything of the sandbox) and its own seccomp filter, both of which work here
 * because it is uid 0 of U1; /run is emptied for it, so that no service's socket is in its reach; it has no fd of the stage's. Nobody waits for it: a helper between,
 * which ends when slirp4netns serves, tells of its failure. It does not configure the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/net_rules.h"
#include "agent/spawn.h"

#define SLIRP_FILES  8192u  /* sockets of one sandbox on the host, at most */
#define SLIRP_STDERR 65536u /* bytes that slirp4netns may say in its whole life */

/* What the helper has, under fixed numbers, which stand in the command line as text. */
enum { FD_RELEASE = 3, FD_EXIT, FD_READY, FD_REPORT, FD_USERNS, FD_NETNS, FD_WATCH, FD_END };

/* Makes fds[i] be FD_RELEASE + i, whatever they were; only for a process that has nothing else. */
static int renumber(int *fds, int n)
{
	for (int i = 0; i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_END + n);
		if (fds[i] < 0)
			return -1;
	}
	for (int i = 0; i < n; i++) {
		if (dup3(fds[i], FD_RELEASE + i, O_CLOEXEC) < 0)
			return -1;
		close(fds[i]);
	}
	return 0;
}

/* What the stage hands over. 1: there it is, the last one being -1 when it is missing; 0: the stage
 * has ended; -1. */
static int receive(int fds[NET_HANDED])
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(NET_HANDED * sizeof(int))];
	} control;
	char byte;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	ssize_t n = RETRY_EINTR(recvmsg(FD_RELEASE, &m, MSG_CMSG_CLOEXEC));

	if (n <= 0)
		return (int)n;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_len < CMSG_LEN(NET_SPEAKER * sizeof(int)))
		return -1;
	fds[NET_SPEAKER] = -1;
	memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return 1;
}

/* Puts the directory at fd (or the file) to where path names it, below an empty /run. */
static int put_back(int fd, const char *path, bool is_file)
{
	char from[32];
	int made = -1;

	fmt(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (is_file)
		made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (is_file ? made < 0 : mkdir_p_at(AT_FDCWD, path, 0755) < 0)
		return -1;
	if (made >= 0)
		close(made);
	return mount(from, path, NULL, MS_BIND, NULL);
}

/*
 * /run is where the sockets of the host's services are, and slirp4netns keeps it for the sake of
 * resolv.conf, which often is a link into it. Only the directory that has it is left: the directory
 * and not the file, since whoever writes a new one renames it over the old.
 */
static int empty_run(void)
{
	char real[PATH_MAX], *slash;
	int fd = -1, r;
	bool is_file = false;

	if (unshare(CLONE_NEWNS) < 0)
		return -1;
	if (realpath("/etc/resolv.conf", real) && strncmp(real, "/run/", 5) == 0) {
		slash = strrchr(real, '/');
		is_file = slash == real + 4;
		if (!is_file)
			*slash = '\0';
		fd = open(real, O_PATH | O_CLOEXEC);
	}
	r = mount("berth-run", "/run", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "mode=0755,size=16k");
	if (r == 0 && fd >= 0)
		r = put_back(fd, real, is_file);
	if (fd >= 0)
		close(fd);
	return r;
}

static void exec_slirp(const char *path, int ready, int said) attr_noreturn;
static void exec_slirp(const char *path, int ready, int said)
{
	/* The numbers are FD_…; the device is there and set up, so no --configure. */
	static const char *const argv[] = {
		"slirp4netns",
		"--mtu=65520",
		"--disable-host-loopback",
		"--enable-sandbox",
		"--enable-seccomp",
		"--exit-fd=4",
		"--ready-fd=5",
		"--userns-path=/proc/self/fd/7",
		"--netns-type=path",
		"/proc/self/fd/8",
		NET_DEVICE,
		NULL,
	};
	static const char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	struct rlimit files = {SLIRP_FILES, SLIRP_FILES}, hard, size = {SLIRP_STDERR, SLIRP_STDERR};

	if (getrlimit(RLIMIT_NOFILE, &hard) == 0 && hard.rlim_max < files.rlim_max)
		files.rlim_cur = files.rlim_max = hard.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signals_default();
	/* A sandbox can make it complain for ever; it writes into no other file than this. */
	setrlimit(RLIMIT_FSIZE, &size);
	signal(SIGXFSZ, SIG_IGN);
	dup3(ready, FD_READY, O_CLOEXEC);
	dup2(said, 2);
	for (int fd = FD_EXIT; fd < FD_END; fd++)
		fcntl(fd, F_SETFD, fd == FD_REPORT || fd == FD_WATCH ? FD_CLOEXEC : 0);
	execve(path, (char *const *)argv, (char *const *)envp);
	/* Where its own words would stand. */
	char line[AGENT_MESSAGE_MAX];

	(void)!write_all(2, line, fmt(line, sizeof(line), "cannot execute %s: %m\n", path));
	_exit(127);
}

/* The last line of what slirp4netns has said, with no end of line. */
static const char *last_words(int said, char *buf, size_t cap)
{
	off_t end = lseek(said, 0, SEEK_END),
	      from = end > (off_t)cap - 1 ? end - (off_t)cap + 1 : 0;
	ssize_t n = pread(said, buf, cap - 1, from);
	char *line;

	while (n > 0 && buf[n - 1] == '\n')
		n--;
	if (n <= 0)
		return "it said nothing";
	buf[n] = '\0';
	line = strrchr(buf, '\n');
	return line ? line + 1 : buf;
}

static void complain(const char *why)
{
	char line[AGENT_MESSAGE_MAX];

	(void)!write_all(2, line, fmt(line, sizeof(line), "net: slirp4netns: %s\n", why));
	_exit(1);
}

/* Until slirp4netns serves, or has ended. */
static void await_slirp(pid_t pid, int ready, int said, int speaker)
{
	char byte, text[AGENT_MESSAGE_MAX];

	if (RETRY_EINTR(read(ready, &byte, 1)) == 1) {
		if (speaker >= 0)
			net_rules_announce(speaker);
		(void)!write_all(FD_REPORT, "1", 1);
		return;
	}
	/* It has closed that without a word: it is about to end, or has. */
	kill(pid, SIGKILL);
	(void)RETRY_EINTR(waitpid(pid, NULL, 0));
	complain(last_words(said, text, sizeof(text)));
}

/* Instead of init: as long as the sandbox lives. */
static void watch_hosts(int routes, bool public_only)
{
	struct pollfd p[] = {{.fd = FD_EXIT}, {.fd = FD_WATCH, .events = POLLIN}};
	int keep[] = {FD_EXIT, FD_WATCH, routes};

	fds_keep(keep, ARRAY_LEN(keep));
	close(2);
	while (RETRY_EINTR(poll(p, ARRAY_LEN(p), -1)) > 0 && !p[0].revents) {
		if (net_watch_with(FD_WATCH, routes, public_only) < 0)
			p[1].fd = -1;
	}
}

/* The helper: the grandchild of the stage. Its fds are FD_RELEASE, FD_EXIT, FD_REPORT, FD_WATCH. */
static void helper(const struct net_plan *plan, const char *path) attr_noreturn;
static void helper(const struct net_plan *plan, const char *path)
{
	int got[NET_HANDED], ready[2], said;
	pid_t pid;
	int r = receive(got);

	if (r == 0)
		_exit(0);
	said = memfd_create("slirp4netns", MFD_CLOEXEC);
	if (r < 0 || said < 0 || pipe2(ready, O_CLOEXEC) < 0)
		complain(err_text(errno));
	if (empty_run() < 0)
		complain("cannot hide /run from it");
	close(FD_RELEASE);
	/* Above FD_END all of them, so that none is overwritten. */
	pid = fork();
	if (pid == 0) {
		if (dup3(got[NET_USERNS], FD_USERNS, O_CLOEXEC) < 0 ||
		    dup3(got[NET_NETNS], FD_NETNS, O_CLOEXEC) < 0)
			_exit(127);
		exec_slirp(path, ready[1], said);
	}
	if (pid < 0)
		complain(err_text(errno));
	close(ready[1]);
	await_slirp(pid, ready[0], said, got[NET_SPEAKER]);
	if (plan->watch_outside)
		watch_hosts(got[NET_ROUTES], plan->mode == NET_PUBLIC);
	_exit(0);
}

static void start_helper(const struct net_plan *plan, const char *path, int leash, int report,
			 int release) attr_noreturn;
static void start_helper(const struct net_plan *plan, const char *path, int leash, int report,
			 int release)
{
	/* FD_READY and the namespaces come later: their places are kept by other copies. */
	int fds[] = {release, leash, report, report, report, report, plan->watch_fd}, null;

	if (fork() != 0)
		_exit(0);
	setsid();
	signals_default();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    renumber(fds, (int)ARRAY_LEN(fds)) < 0)
		_exit(1);
	for (int i = 0; i < (int)ARRAY_LEN(fds); i++)
		fds[i] = FD_RELEASE + i;
	if (!plan->watch_outside)
		close(FD_WATCH);
	fds_keep(fds, ARRAY_LEN(fds));
	(void)!chdir("/");
	helper(plan, path);
}

int net_slirp_fork(struct net_plan *plan, const char *slirp_path, int net_ready_fd,
		   struct agent_fail *f)
{
	int leash[2] = {-1, -1}, talk[2] = {-1, -1};
	pid_t pid = -1;

	if (!net_has_slirp(plan)) {
		(void)!write_all(net_ready_fd, "1", 1);
		return 0;
	}
	if (access(slirp_path, X_OK) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot execute %s: %m",
			    slirp_path);
	if (pipe2(leash, O_CLOEXEC) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) == 0)
		pid = fork();
	if (pid == 0)
		start_helper(plan, slirp_path, leash[0], net_ready_fd, talk[1]);
	if (pid < 0)
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot start slirp4netns: %m");
	else
		(void)RETRY_EINTR(waitpid(pid, NULL, 0));
	close(leash[0]);
	close(talk[1]);
	plan->exit_fd = leash[1];
	plan->release_fd = talk[0];
	if (plan->watch_outside) {
		close(plan->watch_fd);
		plan->watch_fd = -1;
	}
	return pid < 0 ? -1 : 0;
}
