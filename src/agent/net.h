/* SPDX-License-Identifier: MIT */
/*
 * net.h: the network of an isolated sandbox: a network namespace of its own, slirp4netns as its
 * way out, and everything that belongs to the host out of reach.
 *
 * How the stage uses it, in this order (mode host does nothing but net_plan_init):
 *
 *   net_plan_init    the host's user and network namespace: what must not be reached
 *   net_tun_share    root only: own mount namespace, still the host's user namespace
 *   net_slirp_fork   U1, still the host's network namespace: the helper that will be slirp4netns
 *   net_enter        U2: the network namespace, its device and its routes; lets slirp4netns go
 *   exec             init inherits plan.exit_fd (--exit-fd) and plan.watch_fd (--net-watch)
 *
 * What holds, whatever a worker's socket asks for (docs/network.md has the reasons): a packet
 * leaves the namespace only through the one gateway, because tap0 takes frames for the gateway's
 * MAC alone and nothing answers ARP; and it goes to the gateway only when the routes say so, which
 * nobody without CAP_NET_ADMIN changes. So neither SO_BINDTODEVICE nor IP_PKTINFO nor
 * MSG_DONTROUTE, nor multicast or broadcast, gets around an unreachable route.
 */
#ifndef AGENT_NET_H
#define AGENT_NET_H

#include "agent/agent.h"

#define NET_DEVICE     "tap0"
#define NET_ADDRESS    "10.0.2.100"
#define NET_RESOLVER   "10.0.2.3" /* slirp4netns: goes to the host's first IPv4 resolver */
#define NET_HOSTS_MAX  16384u     /* addresses of one host: kube-proxy makes thousands */
#define NET_RESOLV_MAX 4096u

enum net_mode {
	NET_NONE,   /* own loopback, nothing else */
	NET_EGRESS, /* everything but the host, link-local and metadata addresses */
	NET_PUBLIC, /* besides, no private range */
	NET_HOST,   /* the host's network: no wall at all */
};

/* A range of addresses: family AF_INET or AF_INET6, the first `bits` bits of addr. */
struct net_prefix {
	uint8_t family, bits;
	uint8_t addr[16];
};

struct net_plan {
	enum net_mode mode;
	/* Host, broadcast and local ranges of the host; owned by the plan, lives as long as the
	 * process. */
	struct net_prefix *hosts;
	size_t n_hosts;
	/* For init; -1 where the mode has none. CLOEXEC: stage clears it before its exec. */
	/* Set it before net_slirp_fork() where init will not have CAP_NET_ADMIN over the network
	 * (uids=single: bubblewrap makes one more user namespace): the helper stays then, and does
	 * what net_watch_event() is for; watch_fd becomes -1. */
	bool watch_outside;
	int watch_fd;                /* tells of addresses that the host gets later */
	int exit_fd;                 /* slirp4netns ends when the last copy of it is closed */
	int release_fd;              /* of this file: the helper waits at its other end */
	char resolv[NET_RESOLV_MAX]; /* the sandbox's /etc/resolv.conf, NUL-terminated */
	size_t resolv_len;
};

/* "none" "egress" "public" "host"; false: none of them. */
bool net_mode_parse(const char *text, enum net_mode *ret);
const char *net_mode_name(enum net_mode m);

/*
 * Fills *plan. Call it in the host's network namespace, before any unshare. Asks the kernel for
 * every address of the host (egress and public only) and keeps the socket that hears of new ones;
 * makes the text of resolv.conf (mode host: the host's own file). 0, or -1 and *f.
 */
int net_plan_init(struct net_plan *plan, enum net_mode mode, struct agent_fail *f);

/*
 * Lets uids that are not the host's root open /dev/net/tun, where its mode does not: puts a node
 * of its own over /dev/net in this mount namespace, which must be the stage's own (private or
 * slave). Needs the host's root; nothing to do for an ordinary user or in modes none and host.
 * 0, or -1 and *f.
 */
int net_tun_share(const struct net_plan *plan, struct agent_fail *f);

/*
 * Forks what will be slirp4netns: a process that waits for net_enter() and then execs slirp_path
 * for the namespaces of this process. Call it in U1 as uid 0 of U1 (root: host uid H+2), in the
 * host's network namespace, with a /proc and the host's /etc and /run; after the stage has entered
 * the group where slirp4netns shall be counted. It is in a session of its own and not the caller's
 * child (nothing to reap), has /dev/null as stdio and none of the caller's fds but these two:
 * net_ready_fd (borrowed; close yours afterwards): gets one '1' when the network works, and is
 * closed without it when it will not; then a line "net: WHY" stands on the caller's stderr.
 * plan->exit_fd is its leash. When the caller ends before net_enter(), the helper ends too.
 * Nothing to do in modes none and host (plan->exit_fd stays -1; net_ready_fd gets its '1').
 * 0, or -1 and *f.
 */
int net_slirp_fork(struct net_plan *plan, const char *slirp_path, int net_ready_fd,
		   struct agent_fail *f);

/*
 * The network namespace: call it in U2 with all capabilities there, with the user namespace of the
 * sandbox entered for good. Unshares, brings lo up; egress and public: makes tap0 with its address,
 * routes and rules, then lets slirp4netns go. From here on no packet can reach what is forbidden,
 * whether slirp4netns is there already or not. Mode host: nothing. 0, or -1 and *f.
 */
int net_enter(struct net_plan *plan, struct agent_fail *f);

/*
 * init: fd (--net-watch) is readable. Reads what is there and makes every new address of the host
 * unreachable; never blocks. public_only: --public-only, whose routes cover private addresses
 * already. 0; -1: fd is of no use any more (take it out of the loop).
 */
int net_watch_event(int fd, bool public_only);

#endif
