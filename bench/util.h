/* SPDX-License-Identifier: MIT */
/*
 * util.h: clock, medians, processes and the table of the benchmarks. A failure of the machinery
 * ends the program with a message: a number that was not measured is not printed.
 */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_SAMPLES_MAX 512

struct samples {
	double v[BENCH_SAMPLES_MAX];
	size_t n;
};

/* Milliseconds on CLOCK_MONOTONIC. */
double now_ms(void);
void samples_add(struct samples *s, double v);
double samples_median(const struct samples *s);

/* Prints a message (printf-like) and exits 1. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Runs argv with stdout and stderr into /dev/null, or into the file out when it is not NULL;
 * returns the milliseconds from before the spawn until it has been waited for. Ends the program
 * when the exit status is not want. */
double timed_run(const char *const *argv, const char *out, int want);
/* The same from a printf-like shell line; for set-up, not for timing. */
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* kB of PSS of one process, 0 when it is gone. */
long pss_kb(long pid);

/* A row: what was measured, its unit, its goal (0: none), and its yardstick (0: none). Whether larger is
 * better is said by `more`. goal_ratio: the goal is a ratio to the yardstick instead of an
 * absolute. */
struct row {
	const char *what, *unit, *yardstick_name;
	double value, yardstick, goal;
	int more, goal_ratio;
};
void row_print_head(void);
void row_print(const struct row *r);

#endif
