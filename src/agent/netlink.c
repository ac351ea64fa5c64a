/* SPDX-License-Identifier: MIT */
/*
 * netlink.c: requests to rtnetlink in batches, dumps and notices.
 *
 * Invariants: a batch is at most BATCH_MAX requests, so that even a refusal of each fits the
 * socket's queue; only the last one asks for an answer, refusals come unasked; nothing is
 * allocated. It knows nothing of what the requests are about.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/netlink.h"

#define BATCH_MAX   64u
#define REQUEST_MAX 512u /* no request here is longer */
/* The kernel fills as much as the largest buffer that a socket was ever read with, up to this; a
 * smaller one next time would lose the rest. */
#define ANSWER_MAX 32768u

int netlink_socket(unsigned groups)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

void netlink_init(struct netlink *nl, int fd)
{
	nl->fd = fd;
	nl->seq = 0;
	nl->start = nl->len = 0;
	nl->waiting = 0;
}

void netlink_done(struct netlink *nl)
{
	if (nl->fd >= 0)
		close(nl->fd);
	nl->fd = -1;
}

static struct nlmsghdr *header_at(struct netlink *nl, size_t at)
{
	return (struct nlmsghdr *)(void *)(nl->buf + at);
}

static void put(struct netlink *nl, const void *p, size_t n)
{
	size_t room = NLMSG_ALIGN(n);

	memset(nl->buf + nl->len, 0, room);
	if (n)
		memcpy(nl->buf + nl->len, p, n);
	nl->len += room;
}

void netlink_begin(struct netlink *nl, uint16_t type, uint16_t flags, const void *body, size_t n)
{
	struct nlmsghdr h = {.nlmsg_type = type,
			     .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
			     .nlmsg_seq = ++nl->seq};

	nl->start = nl->len;
	put(nl, &h, sizeof(h));
	put(nl, body, n);
}

void netlink_attr(struct netlink *nl, uint16_t type, const void *p, size_t n)
{
	struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + n), .nla_type = type};

	put(nl, &a, sizeof(a));
	put(nl, p, n);
}

void netlink_attr_u32(struct netlink *nl, uint16_t type, uint32_t v)
{
	netlink_attr(nl, type, &v, sizeof(v));
}

size_t netlink_nest(struct netlink *nl, uint16_t type)
{
	size_t at = nl->len;

	netlink_attr(nl, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void netlink_nest_end(struct netlink *nl, size_t nest)
{
	((struct nlattr *)(void *)(nl->buf + nest))->nla_len = (uint16_t)(nl->len - nest);
}

int netlink_end(struct netlink *nl)
{
	header_at(nl, nl->start)->nlmsg_len = (uint32_t)(nl->len - nl->start);
	nl->waiting++;
	return nl->waiting < BATCH_MAX && nl->len + REQUEST_MAX <= sizeof(nl->buf)
		       ? 0
		       : netlink_flush(nl);
}

/* Reads the kernel's answers up to the one for the last request. The errno of the first refusal,
 * or 0. */
static int answers(struct netlink *nl)
{
	_Alignas(8) uint8_t in[8192];
	int err = 0;

	for (;;) {
		ssize_t n = recv(nl->fd, in, sizeof(in), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		for (struct nlmsghdr *h = (void *)in; NLMSG_OK(h, (size_t)n);
		     h = NLMSG_NEXT(h, n)) {
			const struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			if (e->error && e->error != -EEXIST && !err)
				err = -e->error;
			if (h->nlmsg_seq == nl->seq)
				return err;
		}
	}
}

int netlink_flush(struct netlink *nl)
{
	ssize_t n;
	int err;

	if (nl->waiting == 0)
		return 0;
	header_at(nl, nl->start)->nlmsg_flags |= NLM_F_ACK;
	do
		n = send(nl->fd, nl->buf, nl->len, 0);
	while (n < 0 && errno == EINTR);
	err = n < 0 ? errno : answers(nl);
	nl->len = nl->start = 0;
	nl->waiting = 0;
	errno = err;
	return err ? -1 : 0;
}

/* ---- reading ---- */

/* 0: go on; 1: the dump is over; -1 with errno. seq 0: notices, which have no end. */
static int take(const uint8_t *in, size_t left, uint32_t seq, netlink_fn *fn, void *arg)
{
	for (const struct nlmsghdr *h = (const void *)in; NLMSG_OK(h, left);
	     h = NLMSG_NEXT(h, left)) {
		if (seq && h->nlmsg_seq == seq) {
			if (h->nlmsg_type == NLMSG_DONE)
				return 1;
			if (h->nlmsg_type == NLMSG_ERROR) {
				errno = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
				return errno ? -1 : 1;
			}
		}
		if (h->nlmsg_type >= NLMSG_MIN_TYPE && fn(h, arg) < 0)
			return -1;
	}
	return 0;
}

int netlink_dump(int fd, uint16_t type, const void *body, size_t n, netlink_fn *fn, void *arg)
{
	_Alignas(8) uint8_t io[ANSWER_MAX];
	struct nlmsghdr h = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(n),
			     .nlmsg_type = type,
			     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			     .nlmsg_seq = 0x62657274};
	ssize_t r;
	int end = 0;

	memset(io, 0, NLMSG_SPACE(n));
	memcpy(io, &h, sizeof(h));
	memcpy(io + NLMSG_HDRLEN, body, n);
	if (send(fd, io, h.nlmsg_len, 0) < 0)
		return -1;
	while (end == 0) {
		r = recv(fd, io, sizeof(io), 0);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		end = take(io, (size_t)r, h.nlmsg_seq, fn, arg);
	}
	return end < 0 ? -1 : 0;
}

int netlink_read(int fd, netlink_fn *fn, void *arg)
{
	_Alignas(8) uint8_t in[ANSWER_MAX];

	for (;;) {
		ssize_t r = recv(fd, in, sizeof(in), MSG_DONTWAIT);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return errno == EAGAIN ? 0 : -1;
		if (take(in, (size_t)r, 0, fn, arg) < 0)
			return -1;
	}
}

const void *netlink_find(const void *p, size_t n, uint16_t type, size_t *ret_n)
{
	const uint8_t *at = p;

	while (n >= sizeof(struct nlattr)) {
		const struct nlattr *a = (const void *)at;
		size_t step = NLA_ALIGN(a->nla_len);

		if (a->nla_len < sizeof(*a) || a->nla_len > n)
			return NULL;
		if ((a->nla_type & NLA_TYPE_MASK) == type) {
			*ret_n = a->nla_len - sizeof(*a);
			return a + 1;
		}
		if (step >= n)
			return NULL;
		at += step;
		n -= step;
	}
	return NULL;
}
