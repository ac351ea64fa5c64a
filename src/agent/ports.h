/* SPDX-License-Identifier: MIT */
/* ports.h: published ports: sockets that listen outside and are served inside. */
#ifndef AGENT_PORTS_H
#define AGENT_PORTS_H

#include "agent/agent.h"

struct init_options;

/* NULL when fd is what can be published: a TCP socket that listens on a loopback address. Else
 * what it is instead ("not a socket" …; static). */
const char *port_socket_wrong(int fd);

/* ---- in init ---- */

int ports_start(const struct init_options *o, struct agent_fail *f);
/* PUBLISH: takes the socket; the answer, one byte, goes into `reply`. Both are owned by this. */
void ports_publish(int port, int fd, int reply);
/* Somebody has connected to the socket at index. */
void ports_event(unsigned index);
/* This child of ours has ended. */
void ports_saw(pid_t pid);

/* ---- in a connection child ---- */

/* PORT fields, of all that are published now. */
void ports_info(struct wire_w *w);

/* ---- forward.c ---- */

struct forward_port {
	int fd, port;
};
/*
 * Serves these sockets until nobody has been connected for a while: what a forwarding child does.
 * *open counts its connections (so does agent.shared->forwards). The caller has closed everything
 * else and given its rights away.
 */
void forward_main(const struct forward_port *ports, size_t n, atomic_int *open) attr_noreturn;

#endif
