/* SPDX-License-Identifier: MIT */
/*
 * network.c: attempts on the network, as far as they are the wall's. What is reachable with which
 * net= has its own tests (tests/net).
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "attempt.h"

static bool unix_connects(const char *path, size_t n)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	bool yes = false;

	if (n > sizeof(a.sun_path))
		return false;
	memcpy(a.sun_path, path, n);
	for (int i = 0; i < 3 && !yes; i++) {
		int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		yes = fd >= 0 &&
		      connect(fd, (void *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) == 0;
		close(fd);
	}
	return yes;
}

void attempt_abstract_socket(void)
{
	char name[108] = "";
	int n = snprintf(name + 1, sizeof(name) - 1, "%s", arg("abstract"));

	tried();
	if (unix_connects(name, (size_t)n + 1))
		got_out("the abstract socket %s answers", name + 1);
}

void attempt_path_socket(void)
{
	static const char *const paths[] = {"/run/docker.sock",
					    "/var/run/docker.sock",
					    "/run/dbus/system_bus_socket",
					    "/run/systemd/private",
					    "/run/containerd/containerd.sock",
					    "/tmp/.X11-unix/X0",
					    "/run/berth/init.sock",
					    "/dev/log"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		tried();
		if (unix_connects(paths[i], strlen(paths[i]) + 1))
			got_out("%s answers", paths[i]);
	}
	tried();
	if (unix_connects(arg("socket"), strlen(arg("socket")) + 1))
		got_out("the host's socket answers");
}

void attempt_only_lo(void)
{
	char buf[8192], *save = NULL;
	int n = 0;

	for (struct if_nameindex *list = if_nameindex(), *i = list; i && i->if_name; i++) {
		tried();
		if (strcmp(i->if_name, "lo") != 0)
			got_out("there is an interface %s", i->if_name);
	}
	if (slurp("/proc/net/route", buf, sizeof(buf)) > 0) {
		for (char *l = strtok_r(buf, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
			n++;
		tried();
		if (n > 1)
			got_out("there are %d routes", n - 1);
	}
}

/* One netlink request; what the kernel says of it. */
static int netlink(uint16_t type, uint16_t flags, const void *body, size_t n)
{
	struct {
		uint32_t len;
		uint16_t type, flags;
		uint32_t seq, pid;
		char body[128];
	} m = {.len = (uint32_t)(16 + n), .type = type, .flags = (uint16_t)(flags | 5), .seq = 1};
	struct {
		uint16_t family, pad;
		uint32_t pid, groups;
	} to = {16, 0, 0, 0};
	int fd = socket(16 /* AF_NETLINK */, SOCK_RAW | SOCK_CLOEXEC, 0), error = -1;
	char back[512];

	if (fd < 0)
		return errno;
	memcpy(m.body, body, n);
	if (sendto(fd, &m, m.len, 0, (void *)&to, sizeof(to)) < 0)
		error = -errno;
	else if (recv(fd, back, sizeof(back), 0) >= 20)
		memcpy(&error, back + 16, 4);
	close(fd);
	return -error;
}

static void netlink_refused(const char *what, uint16_t type, uint16_t flags, const void *body,
			    size_t n)
{
	int e = netlink(type, flags, body, n);

	errno = e;
	refused(what, e ? -1 : 0, EAFNOSUPPORT);
}

void attempt_routes(void)
{
	/* rtmsg: an unreachable default in table main; with the priority of nobody. */
	struct {
		uint8_t family, dst_len, src_len, tos, table, protocol, scope, type;
		uint32_t flags;
	} route = {AF_INET, 0, 0, 0, 254, 4, 0, 7, 0};
	struct {
		uint8_t family, prefix, flags, scope;
		uint32_t index;
		uint16_t len, type;
		uint8_t address[4];
	} address = {AF_INET, 32, 0, 0, 1, 8, 2, {127, 9, 9, 9}};
	struct {
		uint8_t family, pad;
		uint16_t type;
		int32_t index;
		uint32_t flags, change;
	} link = {0, 0, 0, 1, 0, 1};
	struct ifreq r = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	netlink_refused("RTM_NEWROUTE", 24, 0x400, &route, sizeof(route));
	netlink_refused("RTM_DELROUTE", 25, 0, &route, sizeof(route));
	netlink_refused("RTM_NEWADDR", 20, 0x400, &address, sizeof(address));
	netlink_refused("RTM_NEWLINK", 16, 0, &link, sizeof(link));
	netlink_refused("RTM_NEWRULE", 32, 0x400, &route, sizeof(route));
	if (fd < 0)
		return;
	refused("SIOCSIFFLAGS", ioctl(fd, SIOCSIFFLAGS, &r), 0);
	r.ifr_mtu = 1400;
	refused("SIOCSIFMTU", ioctl(fd, SIOCSIFMTU, &r), 0);
	close(fd);
}

static bool tcp_connects(const char *address, int port)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	struct pollfd p = {fd, POLLOUT, 0};
	socklen_t n = sizeof(error);
	bool yes;

	inet_pton(AF_INET, address, &in4.sin_addr);
	yes = fd >= 0 && connect(fd, (void *)&in4, sizeof(in4)) == 0;
	if (fd >= 0 && !yes && errno == EINPROGRESS && poll(&p, 1, 3000) == 1)
		yes = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == 0;
	close(fd);
	return yes;
}

void attempt_host_ports(void)
{
	char buf[1024], *save = NULL;

	snprintf(buf, sizeof(buf), "%s", arg("addresses"));
	for (char *a = strtok_r(buf, ",", &save); a; a = strtok_r(NULL, ",", &save)) {
		tried();
		if (tcp_connects(a, atoi(arg("port"))))
			got_out("%s port %s answers", a, arg("port"));
	}
}

void attempt_low_ports(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	refused("SO_MARK", setsockopt(fd, SOL_SOCKET, 36, &one, sizeof(one)), 0);
	refused("SO_RCVBUFFORCE", setsockopt(fd, SOL_SOCKET, 33, &one, sizeof(one)), 0);
	refused("SO_DEBUG", setsockopt(fd, SOL_SOCKET, 1, &one, sizeof(one)), 0);
	refused("IP_TRANSPARENT", setsockopt(fd, IPPROTO_IP, 19, &one, sizeof(one)), 0);
	close(fd);
}
