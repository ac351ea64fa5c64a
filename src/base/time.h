/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_TIME_H
#define BERTH_BASE_TIME_H
/*
 * Clocks. Deadlines use the monotonic or the boottime clock (which goes on while the machine is
 * suspended); the wall clock is only for showing.
 */
#include "base/attr.h"

#define NS_PER_US  INT64_C(1000)
#define NS_PER_MS  INT64_C(1000000)
#define NS_PER_SEC INT64_C(1000000000)

int64_t now_mono_ns(void);
int64_t now_boot_ns(void);
/* Milliseconds since 1970, UTC. */
int64_t now_wall_ms(void);

/* @timeout_ms from now on the monotonic clock; INT64_MAX for a negative one ("for ever"). */
int64_t deadline_from_ms(int64_t timeout_ms);
/* Time left for poll(2): 0 when past, -1 for INT64_MAX; rounded up, so that it never spins. */
int deadline_poll_ms(int64_t deadline_mono_ns);

#define TIME_RFC3339_SIZE 25
/*
 * "2026-01-31T23:59:59.123Z" of @wall_ms into @buf. Years 0 to 9999; outside of that the nearest
 * end. Needs no time zone data and no locale.
 */
const char *format_rfc3339_ms(int64_t wall_ms, char buf[TIME_RFC3339_SIZE]);

#endif
