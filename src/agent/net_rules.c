/* SPDX-License-Identifier: MIT */
/*
 * net_rules.c: what a sandbox may reach, as data, and how the kernel is told.
 *
 * Two walls, and a packet has to pass both.
 *
 * The routes say where it may go. They are looked up in a main table that ends in a default route
 * over the gateway, with an unreachable route for each range that is out of reach: a program gets
 * EHOSTUNREACH at once. But a socket that names the device (SO_BINDTODEVICE, IP_PKTINFO,
 * IP_MULTICAST_IF: all of them free for everybody) makes Linux take an unroutable destination as
 * being on the link, and multicast and limited broadcast are not looked up at all then.
 *
 * So the link carries nothing but what was routed: tap0 passes only frames for the gateway's MAC
 * (TUNSETTXFILTER), the one neighbour with that MAC is `gateway`, entered by hand, and ARP is asked
 * for nobody else. The resolver is reached over the gateway too, by two rules that want port 53:
 * libslirp 4.7 refuses its other ports, but it is a name for the host's resolver, which often is
 * the host itself, and nothing promises that.
 *
 * Invariants: everything is there before slirp4netns gets the device; it changes afterwards only by
 * net_watch_event(), which adds. What it does not do: filter by port beyond the resolver, or count.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/net_rules.h"

#define MTU            65520u
#define RESOLVER_TABLE 53u

/* An address of slirp's network that it gives to nothing: a packet for the gateway itself is
 * refused. Its own 10.0.2.2 would answer with a DHCP server and a TFTP server. */
static const uint8_t gateway[4] = {10, 0, 2, 1};
static const uint8_t slirp_host[4] = {10, 0, 2, 2};
static const uint8_t resolver[4] = {10, 0, 2, 3};
static const uint8_t address[4] = {10, 0, 2, 100};
/* slirp's own MAC: what the answers to its ARP questions are sent to. */
static const uint8_t gateway_mac[6] = {0x52, 0x55, 10, 0, 2, 2};
/* Of tap0, the same everywhere: each link has this one end. */
static const uint8_t own_mac[6] = {0x02, 'b', 'e', 'r', 't', 'h'};
/* tap0 lets nothing to this one through. */
static const uint8_t no_mac[6] = {0x02, 0, 0, 0, 0, 1};

/* Out of reach with net=egress, and why. */
static const struct net_prefix egress_denied[] = {
	{AF_INET, 8, {0}},         /* "this host": some systems connect to themselves */
	{AF_INET, 24, {10, 0, 2}}, /* slirp's own network: aliases of the host */
	/* A socket that names tap0 does not find the sandbox's own, and slirp would find the host's. */
	{AF_INET, 8, {127}},
	{AF_INET, 10, {100, 64}},          /* carrier NAT, metadata 100.100.100.200, VPN meshes */
	{AF_INET, 16, {169, 254}},         /* link-local, metadata 169.254.169.254 */
	{AF_INET, 32, {168, 63, 129, 16}}, /* the platform's own channel on Azure */
	{AF_INET, 24, {192, 0, 0}},        /* IETF protocols; metadata 192.0.0.192 */
	{AF_INET, 4, {224}},               /* multicast */
	{AF_INET, 4, {240}},               /* reserved, limited broadcast */
	/* slirp's IPv6 is off and tap0 has none; this stands should anything ever add some. */
	{AF_INET6, 0, {0}},
	{AF_INET6, 10, {0xfe, 0x80}},          /* link-local */
	{AF_INET6, 10, {0xfe, 0xc0}},          /* site-local */
	{AF_INET6, 7, {0xfc}},                 /* unique local, metadata fd00:ec2::254 */
	{AF_INET6, 8, {0xff}},                 /* multicast */
	{AF_INET6, 96, {0}},                   /* IPv4 in other clothes: compatible, */
	{AF_INET6, 96, {0, 0x64, 0xff, 0x9b}}, /* NAT64, */
	{AF_INET6, 48, {0, 0x64, 0xff, 0x9b, 0, 1}},
	{AF_INET6, 16, {0x20, 0x02}}, /* 6to4, */
	{AF_INET6, 32, {0x20, 0x01}}, /* Teredo */
};

/* Besides with net=public: no private range. */
static const struct net_prefix public_denied[] = {
	{AF_INET, 8, {10}},
	{AF_INET, 12, {172, 16}},
	{AF_INET, 16, {192, 168}},
	{AF_INET, 15, {198, 18}}, /* benchmarks of networks */
};

/* ---- addresses ---- */

static bool inside(const struct net_prefix *p, const struct net_prefix *range)
{
	size_t whole = range->bits / 8;
	uint8_t mask = (uint8_t)(0xff00 >> range->bits % 8);

	return p->family == range->family && p->bits >= range->bits &&
	       memcmp(p->addr, range->addr, whole) == 0 &&
	       (range->bits % 8 == 0 || ((p->addr[whole] ^ range->addr[whole]) & mask) == 0);
}

bool net_rules_covers(const struct net_prefix *p, bool public_only)
{
	for (size_t i = 0; i < ARRAY_LEN(egress_denied); i++) {
		/* IPv6 as a whole is there as a last resort only: something more exact would
		 * win over it. */
		if (egress_denied[i].bits && inside(p, &egress_denied[i]))
			return true;
	}
	for (size_t i = 0; public_only && i < ARRAY_LEN(public_denied); i++) {
		if (inside(p, &public_denied[i]))
			return true;
	}
	return false;
}

static size_t take_address(uint8_t family, const void *p, size_t n, struct net_prefix *ret)
{
	size_t want = family == AF_INET ? 4 : 16;

	if (!p || n != want)
		return 0;
	*ret = (struct net_prefix){.family = family, .bits = (uint8_t)(8 * want)};
	memcpy(ret->addr, p, want);
	return 1;
}

size_t net_rules_host(const struct nlmsghdr *h, struct net_prefix ret[2])
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	size_t n, got, head = NLMSG_SPACE(sizeof(*m));
	const void *attrs = IFA_RTA(m), *p;

	if (h->nlmsg_type != RTM_NEWADDR || h->nlmsg_len < head ||
	    (m->ifa_family != AF_INET && m->ifa_family != AF_INET6))
		return 0;
	/* With a peer IFA_ADDRESS is the peer's. */
	p = netlink_find(attrs, h->nlmsg_len - head, IFA_LOCAL, &n);
	if (!p)
		p = netlink_find(attrs, h->nlmsg_len - head, IFA_ADDRESS, &n);
	got = take_address(m->ifa_family, p, p ? n : 0, &ret[0]);
	p = netlink_find(attrs, h->nlmsg_len - head, IFA_BROADCAST, &n);
	return got + take_address(m->ifa_family, p, p ? n : 0, &ret[got]);
}

bool net_rules_has_v6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != EAFNOSUPPORT;
}

/* ---- requests ---- */

static void route(struct netlink *nl, const struct net_prefix *to, uint8_t type, uint32_t table)
{
	struct rtmsg m = {.rtm_family = to->family,
			  .rtm_dst_len = to->bits,
			  .rtm_table = (uint8_t)table,
			  .rtm_protocol = RTPROT_STATIC,
			  .rtm_scope = RT_SCOPE_UNIVERSE,
			  .rtm_type = type};

	netlink_begin(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	if (to->bits)
		netlink_attr(nl, RTA_DST, to->addr, to->family == AF_INET ? 4 : 16);
}

int net_rules_deny(struct netlink *nl, const struct net_prefix *p)
{
	route(nl, p, RTN_UNREACHABLE, RT_TABLE_MAIN);
	return netlink_end(nl);
}

static int over_gateway(struct netlink *nl, const struct net_prefix *to, uint32_t table,
			uint32_t device)
{
	struct rtmsg *m;

	route(nl, to, RTN_UNICAST, table);
	m = (struct rtmsg *)(void *)(nl->buf + nl->start + NLMSG_HDRLEN);
	m->rtm_flags = RTNH_F_ONLINK; /* no network of its own on the link */
	netlink_attr(nl, RTA_GATEWAY, gateway, sizeof(gateway));
	netlink_attr_u32(nl, RTA_OIF, device);
	return netlink_end(nl);
}

/* Packets of one protocol to one address (port 0: any) find their way in table, or nowhere. */
static int rule(struct netlink *nl, uint32_t order, const uint8_t to[4], uint8_t protocol,
		uint16_t port, uint32_t table)
{
	struct fib_rule_hdr h = {.family = AF_INET,
				 .dst_len = 32,
				 .table = (uint8_t)table,
				 .action = table ? FR_ACT_TO_TBL : FR_ACT_UNREACHABLE};
	struct fib_rule_port_range ports = {.start = port, .end = port};

	netlink_begin(nl, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &h, sizeof(h));
	netlink_attr(nl, FRA_DST, to, 4);
	netlink_attr_u32(nl, FRA_PRIORITY, order);
	netlink_attr(nl, FRA_IP_PROTO, &protocol, 1);
	if (port)
		netlink_attr(nl, FRA_DPORT_RANGE, &ports, sizeof(ports));
	return netlink_end(nl);
}

static int neighbour(struct netlink *nl, const uint8_t ip[4], const uint8_t mac[6], uint32_t device)
{
	struct ndmsg m = {
		.ndm_family = AF_INET, .ndm_ifindex = (int)device, .ndm_state = NUD_PERMANENT};

	netlink_begin(nl, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &m, sizeof(m));
	netlink_attr(nl, NDA_DST, ip, 4);
	netlink_attr(nl, NDA_LLADDR, mac, 6);
	return netlink_end(nl);
}

/* Nobody is asked for by ARP: what is not a neighbour by hand fails at once. */
static int no_arp(struct netlink *nl, uint32_t device)
{
	static const char cache[] = "arp_cache";
	struct ndtmsg m = {.ndtm_family = AF_INET};
	size_t nest;

	netlink_begin(nl, RTM_SETNEIGHTBL, 0, &m, sizeof(m));
	netlink_attr(nl, NDTA_NAME, cache, sizeof(cache));
	nest = netlink_nest(nl, NDTA_PARMS);
	netlink_attr_u32(nl, NDTPA_IFINDEX, device);
	netlink_attr_u32(nl, NDTPA_MCAST_PROBES, 0);
	netlink_attr_u32(nl, NDTPA_UCAST_PROBES, 0);
	netlink_attr_u32(nl, NDTPA_APP_PROBES, 0);
	netlink_nest_end(nl, nest);
	return netlink_end(nl);
}

static int link_up(struct netlink *nl, uint32_t device, uint32_t mtu, bool v6)
{
	struct ifinfomsg m = {.ifi_index = (int)device, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
	uint8_t none = IN6_ADDR_GEN_MODE_NONE;
	size_t nest, inner;

	netlink_begin(nl, RTM_NEWLINK, 0, &m, sizeof(m));
	if (mtu) {
		netlink_attr_u32(nl, IFLA_MTU, mtu);
		netlink_attr(nl, IFLA_ADDRESS, own_mac, sizeof(own_mac));
	}
	if (mtu && v6) {
		/* No link-local address by itself. */
		nest = netlink_nest(nl, IFLA_AF_SPEC);
		inner = netlink_nest(nl, AF_INET6);
		netlink_attr(nl, IFLA_INET6_ADDR_GEN_MODE, &none, 1);
		netlink_nest_end(nl, inner);
		netlink_nest_end(nl, nest);
	}
	return netlink_end(nl);
}

static int own_address(struct netlink *nl, uint32_t device)
{
	struct ifaddrmsg m = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = device};

	netlink_begin(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	netlink_attr(nl, IFA_LOCAL, address, sizeof(address));
	netlink_attr(nl, IFA_ADDRESS, address, sizeof(address));
	return netlink_end(nl);
}

/* ---- making it ---- */

/* tap0, which stays without an open file: slirp4netns opens it by its name. Its index, or 0. */
static uint32_t make_device(struct agent_fail *f)
{
	struct ifreq r = {.ifr_name = NET_DEVICE};
	struct {
		struct tun_filter head;
		uint8_t mac[6];
	} only = {.head = {.count = 1}};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC), err;
	uint32_t index = 0;

	memcpy(only.mac, gateway_mac, sizeof(only.mac));
	r.ifr_flags = IFF_TAP | IFF_NO_PI;
	if (fd < 0) {
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot open /dev/net/tun: %m");
		return 0;
	}
	if (ioctl(fd, TUNSETIFF, &r) == 0 && ioctl(fd, TUNSETTXFILTER, &only) >= 0 &&
	    ioctl(fd, TUNSETPERSIST, 1) == 0)
		index = if_nametoindex(NET_DEVICE);
	err = errno;
	close(fd);
	if (!index)
		fail(f, WIRE_E_UNAVAILABLE, "net", err,
		     "cannot make the device " NET_DEVICE ": %m");
	return index;
}

/* The numbers in order: each may be refused by a kernel that lacks it, and the message says so. */
static int make_rules(struct netlink *nl, uint32_t device)
{
	static const struct net_prefix to_resolver = {AF_INET, 32, {10, 0, 2, 3}};

	if (over_gateway(nl, &to_resolver, RESOLVER_TABLE, device) < 0 ||
	    rule(nl, 10, resolver, IPPROTO_UDP, 53, RESOLVER_TABLE) < 0 ||
	    rule(nl, 11, resolver, IPPROTO_TCP, 53, RESOLVER_TABLE) < 0 ||
	    rule(nl, 12, slirp_host, IPPROTO_UDP, 0, 0) < 0 ||
	    rule(nl, 13, slirp_host, IPPROTO_TCP, 0, 0) < 0)
		return -1;
	return netlink_flush(nl);
}

static int make_link(struct netlink *nl, uint32_t device, bool v6)
{
	if (link_up(nl, device, MTU, v6) < 0 || own_address(nl, device) < 0 ||
	    no_arp(nl, device) < 0 || neighbour(nl, gateway, gateway_mac, device) < 0 ||
	    neighbour(nl, slirp_host, no_mac, device) < 0 ||
	    neighbour(nl, resolver, no_mac, device) < 0)
		return -1;
	return netlink_flush(nl);
}

/* IPv6 first, whose refusals are none of ours: where it cannot be set it cannot be used. */
static void deny_v6(struct netlink *nl, const struct net_plan *plan)
{
	for (size_t i = 0; i < ARRAY_LEN(egress_denied); i++) {
		if (egress_denied[i].family == AF_INET6)
			(void)net_rules_deny(nl, &egress_denied[i]);
	}
	for (size_t i = 0; i < plan->n_hosts; i++) {
		if (plan->hosts[i].family == AF_INET6)
			(void)net_rules_deny(nl, &plan->hosts[i]);
	}
	(void)netlink_flush(nl);
}

static int deny_list(struct netlink *nl, const struct net_prefix *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i].family == AF_INET && net_rules_deny(nl, &p[i]) < 0)
			return -1;
	}
	return 0;
}

/* The way out comes last. */
static int make_routes(struct netlink *nl, const struct net_plan *plan, uint32_t device)
{
	static const struct net_prefix everywhere = {.family = AF_INET};
	static const struct net_prefix to_slirp = {AF_INET, 32, {10, 0, 2, 2}};

	if (deny_list(nl, egress_denied, ARRAY_LEN(egress_denied)) < 0 ||
	    deny_list(nl, plan->hosts, plan->n_hosts) < 0 ||
	    (plan->mode == NET_PUBLIC &&
	     deny_list(nl, public_denied, ARRAY_LEN(public_denied)) < 0) ||
	    netlink_flush(nl) < 0)
		return -1;
	/* slirp asks for our MAC from 10.0.2.2: where the host's rp_filter is inherited, the
	 * question must have a way back. */
	if (over_gateway(nl, &to_slirp, RT_TABLE_MAIN, device) < 0 ||
	    over_gateway(nl, &everywhere, RT_TABLE_MAIN, device) < 0)
		return -1;
	return netlink_flush(nl);
}

int net_rules_speaker(void)
{
	struct sockaddr_ll a = {.sll_family = AF_PACKET};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	a.sll_ifindex = (int)if_nametoindex(NET_DEVICE);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void net_rules_announce(int fd)
{
	struct attr_packed {
		struct ethhdr eth;
		struct arphdr arp;
		uint8_t from_mac[6], from[4], to_mac[6], to[4];
	} a = {.eth = {.h_proto = htons(ETH_P_ARP)},
	       .arp = {.ar_hrd = htons(ARPHRD_ETHER),
		       .ar_pro = htons(ETH_P_IP),
		       .ar_hln = 6,
		       .ar_pln = 4,
		       .ar_op = htons(ARPOP_REPLY)}};

	memcpy(a.eth.h_dest, gateway_mac, 6);
	memcpy(a.eth.h_source, own_mac, 6);
	memcpy(a.from_mac, own_mac, 6);
	memcpy(a.from, address, 4);
	memcpy(a.to_mac, gateway_mac, 6);
	memcpy(a.to, slirp_host, 4);
	(void)!send(fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static struct netlink requests;

int net_rules_lo(struct agent_fail *f)
{
	struct netlink *nl = &requests;
	int r;

	netlink_init(nl, netlink_socket(0));
	r = nl->fd < 0 || link_up(nl, 1, 0, false) < 0 || netlink_flush(nl) < 0 ? -1 : 0;
	if (r < 0)
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot bring lo up: %m");
	netlink_done(nl);
	return r;
}

int net_rules_make(const struct net_plan *plan, struct agent_fail *f)
{
	struct netlink *nl = &requests;
	bool v6 = net_rules_has_v6();
	uint32_t device = make_device(f);
	int r = -1;

	if (!device)
		return -1;
	netlink_init(nl, netlink_socket(0));
	if (nl->fd < 0 || make_link(nl, device, v6) < 0) {
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot set up " NET_DEVICE ": %m");
		goto out;
	}
	if (make_rules(nl, device) < 0) {
		fail(f, WIRE_E_UNAVAILABLE, "net", errno,
		     "cannot set routing rules (Linux 4.17 with CONFIG_IP_MULTIPLE_TABLES): %m");
		goto out;
	}
	if (v6)
		deny_v6(nl, plan);
	r = make_routes(nl, plan, device);
	if (r < 0)
		fail(f, WIRE_E_UNAVAILABLE, "net", errno, "cannot set routes: %m");
out:
	netlink_done(nl);
	return r;
}
