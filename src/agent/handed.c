/* SPDX-License-Identifier: MIT */
/*
 * handed.c: the fds that init was started with.
 *
 * What crosses the wall of a sandbox at its start is exactly what the options name, and each of it
 * can do only what its option is for: a directory of the host as "ready pipe", or one fd more than
 * was said, would be a way out. Nothing is repaired here: a wrong fd is an error at the start.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/init.h"
#include "agent/options.h"
#include "agent/ports.h"

static bool is_fifo(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* One of a pair: it has an address of no name, as its peer has. */
static bool is_pair(int fd)
{
	struct {
		sa_family_t family;
		char rest[126];
	} a;
	socklen_t n = sizeof(a);

	return getpeername(fd, (struct sockaddr *)&a, &n) == 0 && a.family == AF_UNIX &&
	       n == sizeof(a.family);
}

static bool is_netlink(int fd)
{
	int v = 0;
	socklen_t n = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &v, &n) == 0 && v == AF_NETLINK;
}

static bool is_dir(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static int refuse(struct agent_fail *f, const char *option, int fd, const char *what)
{
	return fail(f, WIRE_E_INVALID, "options", 0, "%s: fd %d is not %s", option, fd, what);
}

static int check_kinds(const struct init_options *o, struct agent_fail *f)
{
	const char *why;

	if (o->readyfd >= 0 && !is_fifo(o->readyfd))
		return refuse(f, "--ready", o->readyfd, "a pipe");
	if (o->exitfd >= 0 && !is_fifo(o->exitfd) && !is_pair(o->exitfd))
		return refuse(f, "--exit-fd", o->exitfd, "a pipe");
	if (o->netwatch >= 0 && !is_netlink(o->netwatch))
		return refuse(f, "--net-watch", o->netwatch, "a netlink socket");
	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (agent.group_fds[i] >= 0 && !is_dir(agent.group_fds[i]))
			return refuse(f, "--group", agent.group_fds[i], "a directory");
	}
	for (size_t i = 0; i < o->n_ports; i++) {
		why = port_socket_wrong(o->ports[i].fd);
		if (why)
			return fail(f, WIRE_E_INVALID, "options", 0, "--port %d: fd %d is %s",
				    o->ports[i].port, o->ports[i].fd, why);
	}
	return 0;
}

static int check_others(const int *fds, size_t n, struct agent_fail *f)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), extra = -1;
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (dir < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "options", errno, "/proc/self/fd: %m");
	dirscan_init(&d, dir);
	while (extra < 0 && (name = dirscan_next(&d, &type))) {
		int fd = (int)strtol(name, NULL, 10);
		bool known = fd < 3 || fd == dir;

		for (size_t i = 0; i < n; i++)
			known = known || fds[i] == fd;
		if (!known)
			extra = fd;
	}
	close(dir);
	if (extra < 0)
		return 0;
	return fail(f, WIRE_E_INVALID, "options", 0, "fd %d was handed in, but no option names it",
		    extra);
}

int handed_check(const struct init_options *o, struct agent_fail *f)
{
	int fds[4 + AGENT_GROUPS + PORTS_MAX];
	size_t n = init_options_fds(o, fds);

	if (agent.walled && check_others(fds, n, f) < 0)
		return -1;
	if (agent.walled && check_kinds(o, f) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0 && fcntl(fds[i], F_SETFD, FD_CLOEXEC) < 0)
			return fail(f, WIRE_E_INVALID, "options", errno, "fd %d: %m", fds[i]);
	}
	return 0;
}
