/* SPDX-License-Identifier: MIT */
/*
 * Clocks and the one format in which times are shown. No time zones, no locale, no static state.
 */
#include "base/time.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

int64_t now_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t now_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

int64_t now_wall_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / NS_PER_MS;
}

int64_t deadline_from_ms(int64_t timeout_ms)
{
	int64_t ns;

	if (timeout_ms < 0 || MUL_OVERFLOWS(timeout_ms, NS_PER_MS, &ns) ||
	    ADD_OVERFLOWS(ns, now_mono_ns(), &ns))
		return INT64_MAX;
	return ns;
}

int deadline_poll_ms(int64_t deadline_mono_ns)
{
	int64_t left;

	if (deadline_mono_ns == INT64_MAX)
		return -1;
	left = deadline_mono_ns - now_mono_ns();
	if (left <= 0)
		return 0;
	left = (left + NS_PER_MS - 1) / NS_PER_MS;
	return left > INT_MAX ? INT_MAX : (int)left;
}

/* The civil date of a day number since 1970-01-01 (Howard Hinnant's days_from_civil, backwards). */
static void civil_from_days(int64_t days, int *year, unsigned *month, unsigned *day)
{
	int64_t z = days + 719468; /* since 0000-03-01 */
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	unsigned doe = (unsigned)(z - era * 146097);
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned mp = (5 * doy + 2) / 153;

	*day = doy - (153 * mp + 2) / 5 + 1;
	*month = mp < 10 ? mp + 3 : mp - 9;
	*year = (int)(yoe + era * 400) + (*month <= 2);
}

const char *format_rfc3339_ms(int64_t wall_ms, char buf[TIME_RFC3339_SIZE])
{
	const int64_t min = INT64_C(-62167219200000), max = INT64_C(253402300799999);
	int64_t ms = wall_ms < min ? min : wall_ms > max ? max : wall_ms;
	int64_t day_ms = 86400000;
	int64_t days = (ms >= 0 ? ms : ms - day_ms + 1) / day_ms;
	unsigned rest = (unsigned)(ms - days * day_ms), month, day;
	char wide[64];
	int year;

	civil_from_days(days, &year, &month, &day);
	snprintf(wide, sizeof(wide), "%04d-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, day,
		 rest / 3600000, rest / 60000 % 60, rest / 1000 % 60, rest % 1000);
	__builtin_memcpy(buf, wide, TIME_RFC3339_SIZE - 1);
	buf[TIME_RFC3339_SIZE - 1] = '\0';
	return buf;
}
