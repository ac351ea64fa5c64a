/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_ROAD_PRIVATE_H
#define BERTH_CORE_ROAD_PRIVATE_H
/* Between road.c (frames), road_io.c (bytes) and road_call.c (commands). */
#include "core/road.h"

/* First size of the receive buffer: a pipe's worth times four, one system call each. */
#define ROAD_IN_FIRST (256u * 1024)
/* What is sent is gathered up to this, then written. */
#define ROAD_OUT_GATHER (64u * 1024)
/* Received while sending, before we stop looking: more than the largest DATA frame. */
#define ROAD_EARLY_MAX ((1u << 20) + (64u << 10))

int road_break(struct road *r, struct berth_error *err, int code, const char *fmt, ...)
	attr_printf(4, 5);

/* Appends to what is to be sent. */
int road_out_add(struct road *r, const void *p, size_t n, struct berth_error *err) attr_warn_unused;
/*
 * Writes everything buffered and then @n bytes of @p. 1: the other end is gone or has sent an
 * ERROR; what it said is in the receive buffer, and the rest is not sent.
 */
int road_send_all(struct road *r, const void *p, size_t n, int64_t deadline_ns,
		  struct berth_error *err) attr_warn_unused;
/* Waits for and receives some bytes (at least one, or the end: r->rfd_eof). */
int road_fill(struct road *r, int64_t deadline_ns, struct berth_error *err) attr_warn_unused;
/* Room for a frame of @need bytes in the receive buffer. */
int road_in_room(struct road *r, size_t need, struct berth_error *err) attr_warn_unused;

/* Is there a complete ERROR frame among what was received? */
bool road_early_error(const struct road *r);

/* Runs the request so far as a command; its answer is then in the receive buffer. */
int road_call_run(struct road *r, int64_t deadline_ns, struct berth_error *err) attr_warn_unused;

#endif
