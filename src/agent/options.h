/* SPDX-License-Identifier: MIT */
/* options.h: the command line of init. */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "agent/agent.h"

#define PORTS_MAX 64

struct init_port {
	int port; /* inside the sandbox */
	int fd;   /* listens outside of it */
};

struct init_options {
	const char *dir;
	bool background; /* --daemon */
	int readyfd;     /* --ready FD: one line when it listens; -1 */
	int exitfd;   /* --exit-fd FD: held open for the network's helper, which ends with it; -1 */
	int netwatch; /* --net-watch FD: a netlink socket of the host's network; -1 */
	int staging;  /* --staging FD: the lock of this start, let go of when init listens; -1 */
	int64_t idle_ms;    /* --idle-ms N: without work for so long it stops; 0: never */
	int64_t expires_ms; /* --expires-ms N: wall clock; then it ends for good; 0: never */
	bool public_only;   /* --public-only: with --net-watch, what net=public means */
	struct init_port ports[PORTS_MAX]; /* --port PORT=FD */
	size_t n_ports;
};

/* Fills *ret and the facts of `agent` that options set. -1: usage. */
int init_options_parse(int argc, char **argv, struct init_options *ret);
/* Every fd that options handed in, for fds_keep(); at most 4 + AGENT_GROUPS + PORTS_MAX. */
size_t init_options_fds(const struct init_options *o, int *ret);

#endif
