/* SPDX-License-Identifier: MIT */
/*
 * limits.c: rlimits of a worker, and the kernel's own bounds on what can be executed, asked
 * before anything is launched.
 *
 * It does not know control groups (cgroup.c). The stack limit that counts is that of this
 * process: the worker inherits it.
 */
#include <errno.h>
#include <string.h>

#include "agent/limits.h"

#define STRING_MAX (128u * 1024)      /* MAX_ARG_STRLEN, with the NUL */
#define TOTAL_CAP  (6u * 1024 * 1024) /* 3/4 of _STK_LIM */
#define TOTAL_MIN  (128u * 1024)      /* ARG_MAX: always granted */

static void put(struct spawn *sp, int resource, int64_t soft, int64_t hard)
{
	struct spawn_rlimit *r = &sp->rlimits[sp->n_rlimits];
	struct rlimit now;

	r->resource = resource;
	r->value = (struct rlimit){(rlim_t)soft, (rlim_t)hard};
	/* A hard limit that is lower already is kept: raising it may be forbidden, and it holds
	 * anyhow. */
	if (getrlimit(resource, &now) == 0) {
		r->value.rlim_max =
			r->value.rlim_max < now.rlim_max ? r->value.rlim_max : now.rlim_max;
		r->value.rlim_cur =
			r->value.rlim_cur < now.rlim_max ? r->value.rlim_cur : now.rlim_max;
	}
	sp->n_rlimits++;
}

void limits_fill(const struct spec *s, const struct group *g, struct spawn *sp)
{
	int64_t seconds = (s->cpu_time_ms + 999) / 1000;

	/* One second above for whoever ignores SIGXCPU. With a group the tree is counted, and
	 * these stand behind it. */
	if (s->cpu_time_ms)
		put(sp, RLIMIT_CPU, seconds, seconds + 1);
	if (s->file_size)
		put(sp, RLIMIT_FSIZE, s->file_size, s->file_size);
	if (s->open_files)
		put(sp, RLIMIT_NOFILE, s->open_files, s->open_files);
	group_fill(g, sp);
}

static size_t total_max(void)
{
	struct rlimit r;
	size_t n = TOTAL_CAP;

	if (getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur / 4 < n)
		n = (size_t)(r.rlim_cur / 4);
	return n < TOTAL_MIN ? TOTAL_MIN : n;
}

static int too_long(const char *what, const char *name, size_t n, struct agent_fail *f)
{
	return fail(f, WIRE_E_TOO_LARGE, "exec", E2BIG,
		    "%s%s has %zu bytes; the kernel takes at most %u in one string", what, name,
		    n - 1, STRING_MAX - 1);
}

int limits_exec(char *const *argv, char *const *envp, struct agent_fail *f)
{
	size_t total = strlen(argv[0]) + 1, max = total_max(), args = 0, n;
	char name[96];

	for (size_t i = 0; argv[i]; i++) {
		n = strlen(argv[i]) + 1;
		fmt(name, sizeof(name), "%zu", i);
		if (n > STRING_MAX)
			return too_long("argument ", name, n, f);
		args += n + sizeof(char *);
	}
	total += args;
	for (size_t i = 0; envp[i]; i++) {
		n = strlen(envp[i]) + 1;
		if (n > STRING_MAX) {
			size_t k = strcspn(envp[i], "=");

			fmt(name, sizeof(name), "%.*s", (int)(k < 80 ? k : 80), envp[i]);
			return too_long("environment variable ", name, n, f);
		}
		total += n + sizeof(char *);
	}
	if (total > max)
		return fail(f, WIRE_E_TOO_LARGE, "exec", E2BIG,
			    "arguments (%zu bytes) and environment (%zu bytes) are too large "
			    "together; the kernel takes %zu",
			    args, total - args, max);
	return 0;
}
