/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_ATTEMPT_H
#define BERTH_TESTS_ATTEMPT_H
/*
 * attempt.h: what the attempts share. An attempt is a function that tries everything that belongs
 * to its row of rows.h; each try is counted, and each that gets through is told by got_out(). An
 * attempt that tried nothing has not held.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rows.h"

/* Exit codes of an attempt. */
enum { HELD = 0, ESCAPED = 10, NOTHING_TRIED = 11, BROKEN = 98 };

#define X(name, flags, what, why, expected) void attempt_##name(void);
ROWS_INSIDE(X)
#undef X

/* The value of the argument key=value, "" when it was not given. */
const char *arg(const char *key);
bool arg_is(const char *key, const char *value);
/* The bait's secret: put together here, so that it is in no command line. */
const char *needle(void);

/* One try, whatever came of it. */
void tried(void);
/* This try got through. Told in one line each. */
void got_out(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Something that a reader of a failure wants to know. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * The result of a call that must have been refused for want of rights: EPERM, EACCES, ENOSYS or one
 * more errno that is as good here (0: none). Anything else got past the check of rights.
 */
void refused(const char *what, long r, int also);
/* Paths that must not open. What opens is closed again. */
void unreadable(const char *path);
void unwritable(const char *path);
/* Directories that must not be listed, or have nothing in them. */
void unlistable(const char *path);
/* Up to cap - 1 bytes of a file, NUL behind; -1 when it does not open. */
ssize_t slurp(const char *path, char *buf, size_t cap);
bool has_bytes(const char *buf, size_t n, const char *text);

/* Calls fn(pid) for every process of /proc but itself. */
void each_process(void (*fn)(pid_t pid));
/* Is it this process, or one that it started? */
bool own_process(pid_t pid);

/* Runs fn(arg) in a child, at most 10 s; its wait status. */
int in_fork(int (*fn)(void *), void *arg);

#endif
