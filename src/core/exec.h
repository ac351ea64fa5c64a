/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_EXEC_H
#define BERTH_CORE_EXEC_H
/* Between exec.c (guests that end with their caller) and session.c (durable ones). */
#include "core/core.h"
#include "core/launch.h"
#include "core/road.h"

/* What the caller's control_fd said. */
struct exec_order {
	uint8_t what; /* 's' signal, 'w' window, 'd' detach */
	int signo;
	unsigned cols, rows;
};

/* Reads the caller's orders, whatever pieces they come in. */
struct exec_control {
	int fd; /* -1: none, or ended */
	uint8_t bytes[4];
	size_t n;
	unsigned cols;
};

/* Next order of what can be read now: 1, 0 none, or a failure. At its end the fd is forgotten. */
int exec_control_next(struct exec_control *c, struct exec_order *ret,
		      struct berth_error *err) attr_warn_unused;

/* ctrl-p ctrl-q in what is typed. */
struct exec_keys {
	bool on;
	bool held; /* a ctrl-p is kept back */
};
/* Filters @n bytes into @out (n + 1 bytes of room); *ret_n of them remain. True: detach. */
bool exec_keys_filter(struct exec_keys *k, const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n);

/* A failed launch as the public error: BERTH_E_NOT_FOUND or BERTH_E_PERM with sys_errno when the
 * command itself was it. */
int exec_launch_error(int sys_errno, const char *message, struct berth_error *err);

/* One STDIN_CLOSE, SIGNAL or RESIZE of an EXEC. */
int exec_send_order(struct road *r, const struct exec_order *o,
		    struct berth_error *err) attr_warn_unused;

/* exec with req->session set: launches it (or attaches) and stays with it. */
int session_exec(struct berth_sandbox *s, const struct berth_exec_request *req, struct launch *l,
		 struct berth_exec_result *ret, struct berth_error *err) attr_warn_unused;

#endif
