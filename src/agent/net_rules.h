/* SPDX-License-Identifier: MIT */
/* net_rules.h: what a sandbox's network namespace may reach, as data, and how it gets in there. */
#ifndef AGENT_NET_RULES_H
#define AGENT_NET_RULES_H

#include "agent/net.h"
#include "agent/netlink.h"

/* What net_enter() hands to the helper: the user and the network namespace, a netlink socket of it,
 * and last a socket that may speak on tap0, which may be missing. */
enum { NET_USERNS, NET_NETNS, NET_ROUTES, NET_SPEAKER, NET_HANDED };
/* net_watch_event() with a netlink socket of the sandbox's network (borrowed). */
int net_watch_with(int fd, int routes, bool public_only);
/* Modes egress and public. */
bool net_has_slirp(const struct net_plan *plan);
/* Makes tap0, its address, the routes and the rules in the present network namespace. */
int net_rules_make(const struct net_plan *plan, struct agent_fail *f);
/* Brings lo up. */
int net_rules_lo(struct agent_fail *f);
/*
 * A socket that may send frames on tap0 (CLOEXEC, owned by caller; -1: the kernel has none), and
 * the one frame it is for: where the sandbox's address lives. libslirp asks for that only when it
 * has something to deliver, and keeps the first datagram back until something else happens.
 */
int net_rules_speaker(void);
void net_rules_announce(int fd);
/* Appends a request that makes p unreachable. As netlink_end(). */
int net_rules_deny(struct netlink *nl, const struct net_prefix *p);
/* Is p inside what net=egress (and net=public) denies anyway? */
bool net_rules_covers(const struct net_prefix *p, bool public_only);
/* False: the kernel has no IPv6; nothing of it can be set, nothing can leave by it. */
bool net_rules_has_v6(void);

/* From an RTM_NEWADDR: what must be denied because of it; how many (0 to 2). */
size_t net_rules_host(const struct nlmsghdr *h, struct net_prefix ret[2]);

#endif
