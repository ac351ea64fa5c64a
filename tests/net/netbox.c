/* SPDX-License-Identifier: MIT */
/*
 * netbox.c: runs a command in the network of an isolated sandbox, and in nothing else of one: what
 * the stage does around agent/net.h, by hand. For looking at the network alone.
 *
 *   netbox MODE SLIRP CMD [ARG…]        as root
 *
 * The command has the uid of a worker and no capability; slirp4netns ends with netbox, which stays
 * and plays init: it hears of the host's new addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/net.h"

#define FIRST 1900000000u /* far from the ranges that berth gives out */

static void die(const char *what)
{
	fprintf(stderr, "netbox: %s: %s\n", what, strerror(errno));
	exit(99);
}

static void write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

/* A user namespace whose maps a process that stays behind writes; then uid 0 in it. */
static void enter_userns(const char *map)
{
	int go[2], status;
	char byte;
	pid_t self = getpid(), pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		die("pipe");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		write_map(self, "uid_map", map);
		write_map(self, "gid_map", map);
		_exit(0);
	}
	if (unshare(CLONE_NEWUSER) < 0)
		die("unshare(CLONE_NEWUSER)");
	prctl(PR_SET_DUMPABLE, 1);
	if (write(go[1], "1", 1) != 1 || waitpid(pid, &status, 0) != pid || status != 0)
		die("maps");
	close(go[0]);
	close(go[1]);
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		die("uid 0");
	prctl(PR_SET_DUMPABLE, 1);
}

static void need(int r, const struct agent_fail *f)
{
	if (r == 0)
		return;
	fprintf(stderr, "netbox: %s\n", f->message);
	exit(98);
}

static void wait_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte;

	if (poll(&p, 1, 10000) != 1)
		die("slirp4netns is not ready after 10 s");
	if (read(fd, &byte, 1) != 1)
		exit(97); /* it has said why */
	close(fd);
}

static void worker(char **argv)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 ||
	    setresuid(1000, 1000, 1000) < 0)
		die("uid 1000");
	/* After the ids, which reset it: nothing in here outlives the one that plays init. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	syscall(SYS_close_range, 3, ~0u, 0);
	signal(SIGPIPE, SIG_DFL);
	execvp(argv[0], argv);
	die(argv[0]);
}

/* init's part: new addresses of the host, and the end. */
static int serve(pid_t pid, const struct net_plan *plan)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), status;
	struct pollfd p[2] = {{.fd = pidfd, .events = POLLIN},
			      {.fd = plan->watch_fd, .events = POLLIN}};

	while (poll(p, 2, -1) >= 0 && !p[0].revents) {
		if (p[1].revents && net_watch_event(plan->watch_fd, plan->mode == NET_PUBLIC) < 0)
			die("net_watch_event");
	}
	if (waitpid(pid, &status, 0) != pid)
		die("wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	static struct net_plan plan;
	struct agent_fail f = {0};
	enum net_mode mode;
	char map[128];
	int ready[2];
	pid_t pid;

	if (argc < 4 || !net_mode_parse(argv[1], &mode) || pipe2(ready, O_CLOEXEC) < 0) {
		fputs("usage: netbox MODE SLIRP CMD [ARG...]\n", stderr);
		return 2;
	}
	need(net_plan_init(&plan, mode, &f), &f);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		die("unshare(CLONE_NEWNS)");
	need(net_tun_share(&plan, &f), &f);
	snprintf(map, sizeof(map), "0 %u 1\n1 %u 1\n2 %u 1\n", FIRST + 2, FIRST, FIRST + 1);
	enter_userns(map);
	need(net_slirp_fork(&plan, argv[2], ready[1], &f), &f);
	close(ready[1]);
	enter_userns("0 1 1\n1000 2 1\n");
	need(net_enter(&plan, &f), &f);
	wait_ready(ready[0]);
	pid = fork();
	if (pid == 0)
		worker(argv + 3);
	return serve(pid, &plan);
}
