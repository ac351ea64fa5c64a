/* SPDX-License-Identifier: MIT */
/* conn.h: what the connection child's files share beside agent.h. */
#ifndef AGENT_CONN_H
#define AGENT_CONN_H

#include <stdarg.h>

#include "agent/agent.h"

/* Serves one stream until it ends. */
void conn_serve(int fd);
/* conn_recv() that does not wait: 2 when no whole frame is there yet. */
int conn_try(struct conn *c, uint8_t *type, const uint8_t **p, size_t *n);
/* Reaps whatever has ended below this connection child. */
void conn_reap(void);
/* fail() with a va_list. */
int fail_va(struct agent_fail *f, const char *text, va_list *args);

/* The socket that came with the bytes of this request (SCM_RIGHTS), owned by the caller from now
 * on; -1: none. */
int conn_take_fd(struct conn *c);

/* Message kinds to init over agent.initfd (one SEQPACKET message; the fds travel with it). */
enum init_msg {
	INIT_MSG_DRAIN = 'D',     /* up to two pipe ends: read into nothing until they end */
	INIT_MSG_END = 'E',       /* STOP is through: end, for `cause` */
	INIT_MSG_CONN = 'C',      /* the sender has taken a stream over from a connection child */
	INIT_MSG_SESSIONS = 'X',  /* end what EXEC runs in the other connection children */
	INIT_MSG_GUESTS = 'G',    /* make the guests' namespaces (guests.c) */
	INIT_MSG_NO_GUESTS = 'g', /* end the guests */
	INIT_MSG_PORT =
		'P', /* a listening socket for `port`, and a pipe for the answer (ports.c) */
};

struct init_message {
	char kind;
	char cause; /* the first letter of it */
	uint16_t port;
	int32_t pid; /* of the sender */
};

#endif
