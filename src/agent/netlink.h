/* SPDX-License-Identifier: MIT */
/* netlink.h: requests to rtnetlink, many in one write, without a library. */
#ifndef AGENT_NETLINK_H
#define AGENT_NETLINK_H

#include <linux/netlink.h>

#include "agent/agent.h"

#define NETLINK_BUF 16384u

/* Requests on their way. Big: keep it static or in a function that calls little. */
struct netlink {
	int fd;       /* owned */
	uint32_t seq; /* of the last request */
	size_t start; /* of the request that is being written */
	size_t len;
	unsigned waiting; /* requests in buf */
	_Alignas(8) uint8_t buf[NETLINK_BUF];
};

/* An rtnetlink socket of the present network namespace, CLOEXEC; groups: RTMGRP_… or 0. -1. */
int netlink_socket(unsigned groups);

/* Starts a batch on fd (taken). */
void netlink_init(struct netlink *nl, int fd);
void netlink_done(struct netlink *nl);

/*
 * One request: begin, attributes, end. What does not fit is sent by netlink_end() before. The
 * kernel's refusals EEXIST (it is there already) are no failures; others come back from
 * netlink_end() or netlink_flush() as -1 with errno, and the rest of the batch is done all the
 * same.
 */
void netlink_begin(struct netlink *nl, uint16_t type, uint16_t flags, const void *body, size_t n);
void netlink_attr(struct netlink *nl, uint16_t type, const void *p, size_t n);
void netlink_attr_u32(struct netlink *nl, uint16_t type, uint32_t v);
size_t netlink_nest(struct netlink *nl, uint16_t type);
void netlink_nest_end(struct netlink *nl, size_t nest);
int netlink_end(struct netlink *nl);
int netlink_flush(struct netlink *nl);

/* Called with each message of a dump or of a notice. */
typedef int netlink_fn(const struct nlmsghdr *h, void *arg);
/* Asks for a dump and gives each answer to fn until the end; -1 when fn or the kernel said so. */
int netlink_dump(int fd, uint16_t type, const void *body, size_t n, netlink_fn *fn, void *arg);
/* Gives what can be read without waiting to fn. 0; -1 with errno (ENOBUFS: some were lost). */
int netlink_read(int fd, netlink_fn *fn, void *arg);

/* The attribute of this type in n bytes at p; NULL: none. *ret_n: bytes of what is returned. */
const void *netlink_find(const void *p, size_t n, uint16_t type, size_t *ret_n);

#endif
