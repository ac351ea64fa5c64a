/* SPDX-License-Identifier: MIT */
/* util.c: see util.h. Measures and prints; knows nothing of berth. */
#include "util.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void samples_add(struct samples *s, double v)
{
	if (s->n >= BENCH_SAMPLES_MAX)
		die("too many samples");
	s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double samples_median(const struct samples *s)
{
	struct samples c = *s;

	if (c.n == 0)
		die("no samples");
	qsort(c.v, c.n, sizeof(c.v[0]), by_value);
	return c.n % 2 ? c.v[c.n / 2] : (c.v[c.n / 2 - 1] + c.v[c.n / 2]) / 2;
}

double timed_run(const char *const *argv, const char *out, int want)
{
	posix_spawn_file_actions_t fa;
	double begin;
	pid_t pid;
	int st, e;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&fa, 1, out ? out : "/dev/null",
					 O_WRONLY | O_CREAT | O_TRUNC, 0600);
	begin = now_ms();
	e = posix_spawnp(&pid, argv[0], &fa, NULL, (char **)(uintptr_t)argv, environ);
	if (e != 0)
		die("%s: %s", argv[0], strerror(e));
	if (waitpid(pid, &st, 0) != pid)
		die("waitpid failed");
	begin = now_ms() - begin;
	posix_spawn_file_actions_destroy(&fa);
	if (!WIFEXITED(st) || WEXITSTATUS(st) != want)
		die("%s %s: status %x, wanted exit %d", argv[0], argv[1] ? argv[1] : "",
		    (unsigned)st, want);
	return begin;
}

void shell(const char *fmt, ...)
{
	char line[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line))
		die("line too long");
	if (system(line) != 0)
		die("failed: %s", line);
}

long pss_kb(long pid)
{
	char path[64], line[256];
	long kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %ld kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

void row_print_head(void)
{
	printf("%-46s %12s  %-26s %12s %8s  %-14s %s\n", "what (median)", "berth", "yardstick", "",
	       "ratio", "goal", "");
}

void row_print(const struct row *r)
{
	double ratio = r->yardstick > 0 ? r->value / r->yardstick : 0;
	double judged = r->goal_ratio ? ratio : r->value;
	int ok = r->more ? judged >= r->goal : judged <= r->goal;
	char value[32], yard[32], rat[16], goal[32];

	snprintf(value, sizeof(value), "%.2f %s", r->value, r->unit);
	snprintf(yard, sizeof(yard), "%.2f %s", r->yardstick, r->unit);
	snprintf(rat, sizeof(rat), "%.2f", ratio);
	snprintf(goal, sizeof(goal), "-");
	if (r->goal > 0)
		snprintf(goal, sizeof(goal), "%s %.4g %s", r->more ? ">=" : "<=", r->goal,
			 r->goal_ratio ? "x" : r->unit);
	printf("%-46s %12s  %-26s %12s %8s  %-14s %s\n", r->what, value,
	       r->yardstick_name ? r->yardstick_name : "-", r->yardstick > 0 ? yard : "-",
	       ratio > 0 ? rat : "-", goal,
	       r->goal <= 0 ? ""
	       : ok         ? "holds"
			    : "FALLS SHORT");
	fflush(stdout);
}
