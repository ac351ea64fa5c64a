/* SPDX-License-Identifier: MIT */
/*
 * net.c: the network of an isolated sandbox: what the host is, the namespace, and what init hears.
 *
 * Invariants: nothing of the host's network is changed; the socket that hears of the host's
 * addresses does so before the first one is asked for. What the sandbox may reach stands in
 * net_rules.c, its way out in net_slirp.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/net.h"
#include "agent/net_rules.h"

static const char *const mode_names[] = {
	[NET_NONE] = "none",
	[NET_EGRESS] = "egress",
	[NET_PUBLIC] = "public",
	[NET_HOST] = "host",
};

bool net_mode_parse(const char *text, enum net_mode *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(mode_names); i++) {
		if (strcmp(text, mode_names[i]) == 0) {
			*ret = (enum net_mode)i;
			return true;
		}
	}
	return false;
}

const char *net_mode_name(enum net_mode m)
{
	return mode_names[m];
}

bool net_has_slirp(const struct net_plan *plan)
{
	return plan->mode == NET_EGRESS || plan->mode == NET_PUBLIC;
}

/* ---- the host's addresses ---- */

static int plan_add(struct net_plan *plan, const struct net_prefix *p)
{
	if (net_rules_covers(p, plan->mode == NET_PUBLIC))
		return 0;
	if (plan->n_hosts == NET_HOSTS_MAX) {
		errno = E2BIG;
		return -1;
	}
	plan->hosts[plan->n_hosts++] = *p;
	return 0;
}

static int on_address(const struct nlmsghdr *h, void *arg)
{
	struct net_prefix p[2];
	size_t n = net_rules_host(h, p);

	for (size_t i = 0; i < n; i++) {
		if (plan_add(arg, &p[i]) < 0)
			return -1;
	}
	return 0;
}

/* Whole ranges can be the host's own as well: `ip route add local …`. */
static int on_route(const struct nlmsghdr *h, void *arg)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	size_t n, head = NLMSG_SPACE(sizeof(*m));
	struct net_prefix p;
	const void *to;

	if (h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < head || m->rtm_type != RTN_LOCAL)
		return 0;
	p = (struct net_prefix){.family = m->rtm_family, .bits = m->rtm_dst_len};
	to = netlink_find(RTM_RTA(m), h->nlmsg_len - head, RTA_DST, &n);
	if (to && n <= sizeof(p.addr))
		memcpy(p.addr, to, n);
	return plan_add(arg, &p);
}

static int ask_routes(struct net_plan *plan, int fd, uint8_t family)
{
	struct rtmsg m = {.rtm_family = family, .rtm_type = RTN_LOCAL};
	int one = 1;

	/* So that the kernel gives those of this type and not the whole Internet. */
	setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	return netlink_dump(fd, RTM_GETROUTE, &m, sizeof(m), on_route, plan);
}

/* The socket hears of changes before it asks, so that nothing falls in between. */
static int find_hosts(struct net_plan *plan, struct agent_fail *f)
{
	struct ifaddrmsg all = {.ifa_family = AF_UNSPEC};
	int routes = -1, r;

	plan->hosts = agent_map(NET_HOSTS_MAX * sizeof(plan->hosts[0]));
	plan->watch_fd = netlink_socket(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
	routes = netlink_socket(0);
	r = !plan->hosts || plan->watch_fd < 0 || routes < 0 ||
			    netlink_dump(plan->watch_fd, RTM_GETADDR, &all, sizeof(all), on_address,
					 plan) < 0 ||
			    ask_routes(plan, routes, AF_INET) < 0 ||
			    (net_rules_has_v6() && ask_routes(plan, routes, AF_INET6) < 0)
		    ? -1
		    : 0;
	if (r < 0)
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot list the host's addresses: %m");
	if (routes >= 0)
		close(routes);
	return r;
}

/* ---- names ---- */

static void resolv_add(struct net_plan *plan, const char *p, size_t n)
{
	if (plan->resolv_len + n + 1 > sizeof(plan->resolv))
		return;
	memcpy(plan->resolv + plan->resolv_len, p, n);
	plan->resolv_len += n;
	plan->resolv[plan->resolv_len] = '\0';
}

static bool is_word(const char *line, size_t n, const char *word)
{
	size_t w = strlen(word);

	return n > w && memcmp(line, word, w) == 0 && (line[w] == ' ' || line[w] == '\t');
}

/* Of the host's file: all of it (host), how names are completed and asked for (egress), or nothing:
 * the names of an inner network are no business of a sandbox that cannot reach it (public). */
static void resolv_copy(struct net_plan *plan)
{
	char text[NET_RESOLV_MAX];
	ssize_t n = read_file_at(AT_FDCWD, "/etc/resolv.conf", text, sizeof(text));
	const char *line = text, *end;

	for (; n > 0; line = end) {
		size_t len = strcspn(line, "\n");

		if (line[len] == '\0' && len == 0)
			return;
		end = line + len + (line[len] == '\n');
		if (plan->mode == NET_HOST || is_word(line, len, "search") ||
		    is_word(line, len, "domain") || is_word(line, len, "options")) {
			resolv_add(plan, line, len);
			resolv_add(plan, "\n", 1);
		}
	}
}

static void make_resolv(struct net_plan *plan)
{
	static const char none[] = "# net=none: there is nobody to ask\n";
	static const char ours[] = "nameserver " NET_RESOLVER "\n";

	if (plan->mode == NET_NONE)
		resolv_add(plan, none, sizeof(none) - 1);
	if (net_has_slirp(plan))
		resolv_add(plan, ours, sizeof(ours) - 1);
	if (plan->mode == NET_EGRESS || plan->mode == NET_HOST)
		resolv_copy(plan);
}

int net_plan_init(struct net_plan *plan, enum net_mode mode, struct agent_fail *f)
{
	memset(plan, 0, sizeof(*plan));
	plan->mode = mode;
	plan->watch_fd = plan->exit_fd = plan->release_fd = -1;
	make_resolv(plan);
	return net_has_slirp(plan) ? find_hosts(plan, f) : 0;
}

/* ---- /dev/net/tun ---- */

int net_tun_share(const struct net_plan *plan, struct agent_fail *f)
{
	static const char node[] = "/dev/net/tun";
	struct stat st;

	if (!net_has_slirp(plan))
		return 0;
	if (stat(node, &st) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "net", errno,
			    "net=%s needs /dev/net/tun (modprobe tun): %m",
			    net_mode_name(plan->mode));
	if ((st.st_mode & 06) == 06)
		return 0;
	if (geteuid() != 0)
		return fail(f, WIRE_E_UNAVAILABLE, "net", EACCES,
			    "net=%s needs /dev/net/tun to be open to all (chmod 666 by root): %m",
			    net_mode_name(plan->mode));
	if (mount("berth-tun", "/dev/net", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=4k") <
		    0 ||
	    mknod(node, S_IFCHR | 0666, makedev(10, 200)) < 0 || chmod(node, 0666) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "net", errno,
			    "cannot make a /dev/net/tun for the sandbox: %m");
	return 0;
}

/* ---- the sandbox's side ---- */

static int release(struct net_plan *plan, struct agent_fail *f)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(NET_HANDED * sizeof(int))];
	} control = {0};
	int fds[NET_HANDED] = {open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC),
			       open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), netlink_socket(0),
			       net_rules_speaker()};
	size_t len = (size_t)(NET_HANDED - (fds[NET_SPEAKER] < 0)) * sizeof(int);
	char byte = '1';
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = (socklen_t)CMSG_SPACE(len)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	ssize_t n = -1;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = (socklen_t)CMSG_LEN(len);
	memcpy(CMSG_DATA(c), fds, len);
	if (fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0)
		n = RETRY_EINTR(sendmsg(plan->release_fd, &m, MSG_NOSIGNAL));
	if (n != 1)
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot start slirp4netns: %m");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	close(plan->release_fd);
	plan->release_fd = -1;
	return n == 1 ? 0 : -1;
}

int net_enter(struct net_plan *plan, struct agent_fail *f)
{
	if (plan->mode == NET_HOST)
		return 0;
	if (unshare(CLONE_NEWNET) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "net", errno,
			    "cannot make a network namespace: %m");
	if (net_rules_lo(f) < 0)
		return -1;
	if (!net_has_slirp(plan))
		return 0;
	if (net_rules_make(plan, f) < 0)
		return -1;
	return release(plan, f);
}

/* ---- init ---- */

struct news {
	struct netlink nl;
	bool public_only;
};

static int on_news(const struct nlmsghdr *h, void *arg)
{
	struct news *news = arg;
	struct net_prefix p[2];
	size_t n = net_rules_host(h, p);

	for (size_t i = 0; i < n; i++) {
		if (net_rules_covers(&p[i], news->public_only))
			continue;
		/* One that is refused (IPv6 may be off in here) must not end the watch. */
		(void)net_rules_deny(&news->nl, &p[i]);
	}
	return 0;
}

/* After notices were lost: asks for all addresses; the answers come as further events. */
static int ask_again(int fd)
{
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg m;
	} ask = {.h = {.nlmsg_len = sizeof(ask),
		       .nlmsg_type = RTM_GETADDR,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};

	return send(fd, &ask, sizeof(ask), MSG_DONTWAIT) == sizeof(ask) ? 0 : -1;
}

int net_watch_with(int fd, int routes, bool public_only)
{
	static struct news news;
	int r;

	news.public_only = public_only;
	netlink_init(&news.nl, routes);
	r = netlink_read(fd, on_news, &news);
	if (r < 0 && errno == ENOBUFS)
		r = ask_again(fd);
	(void)netlink_flush(&news.nl);
	return r;
}

int net_watch_event(int fd, bool public_only)
{
	int routes = netlink_socket(0), r;

	if (routes < 0)
		return 0; /* fd stays readable: the next turn tries again */
	r = net_watch_with(fd, routes, public_only);
	close(routes);
	return r;
}
