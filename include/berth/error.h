/* SPDX-License-Identifier: MIT */
#ifndef BERTH_ERROR_H
#define BERTH_ERROR_H
/*
 * How berth's functions fail.
 *
 * A function returns 0 when it is done, a positive value for a condition that its comment names,
 * or a negative BERTH_E_ code. In that last case it has filled in the caller's struct berth_error
 * (a NULL pointer is allowed where the details do not matter). The struct lives with the caller
 * and nothing here allocates, so reporting a failure cannot fail.
 *
 *	struct berth_error err = BERTH_ERROR_INIT;
 *
 *	if (berth_…(…, &err) < 0)
 *		fprintf(stderr, "prog: %s\n", err.message);
 */
#include <stdarg.h>
#include <stddef.h>

#include <berth/base.h>

/*
 * The one list of errors: X(NAME, code, id, text, HTTP status, exit code of the CLI).
 * The id is what `--json` and the HTTP API print as "type"; some codes share one.
 */
#define BERTH_ERROR_MAP(X)                                                                \
	X(BERTH_E_INVALID, -1, "invalid_request", "invalid request", 400, 2)              \
	X(BERTH_E_AUTH, -2, "authentication_error", "not authenticated", 401, 1)          \
	X(BERTH_E_PERM, -3, "permission_error", "not permitted", 403, 1)                  \
	X(BERTH_E_NOT_FOUND, -4, "not_found", "not found", 404, 3)                        \
	X(BERTH_E_METHOD, -5, "method_not_allowed", "method not allowed", 405, 1)         \
	X(BERTH_E_CONFLICT, -6, "conflict", "conflict", 409, 4)                           \
	X(BERTH_E_PRECONDITION, -7, "precondition_failed", "precondition failed", 412, 1) \
	X(BERTH_E_TOO_LARGE, -8, "too_large", "too large", 413, 1)                        \
	X(BERTH_E_RATE_LIMITED, -9, "rate_limited", "rate limited", 429, 1)               \
	X(BERTH_E_INTERNAL, -10, "internal", "internal error", 500, 1)                    \
	X(BERTH_E_UNSUPPORTED, -11, "not_implemented", "not supported", 501, 1)           \
	X(BERTH_E_UNAVAILABLE, -12, "unavailable", "unavailable", 503, 5)                 \
	X(BERTH_E_NOMEM, -13, "internal", "out of memory", 500, 1)                        \
	X(BERTH_E_IO, -14, "internal", "input/output error", 500, 1)                      \
	X(BERTH_E_PROTOCOL, -15, "internal", "protocol error", 500, 1)                    \
	X(BERTH_E_TIMEOUT, -16, "unavailable", "timed out", 503, 5)

enum berth_error_code {
	BERTH_OK = 0,
#define BERTH_ERROR_ENUM_(name, code, id, text, http, exit) name = (code),
	BERTH_ERROR_MAP(BERTH_ERROR_ENUM_)
#undef BERTH_ERROR_ENUM_
};

#define BERTH_ERROR_MESSAGE_MAX 512
#define BERTH_ERROR_HINT_MAX    256

/*
 * One failure. @message is one line without a newline, @hint is empty or says how to mend it; both
 * are valid UTF-8 without control bytes. @sys_errno is the errno behind it, or 0.
 */
struct berth_error {
	int code;
	int sys_errno;
	char message[BERTH_ERROR_MESSAGE_MAX];
	char hint[BERTH_ERROR_HINT_MAX];
};

/* "No error": what a struct must be before its first use. */
#define BERTH_ERROR_INIT     \
	{                    \
		0, 0, "", "" \
	}

BERTH_BEGIN_DECLS

/*
 * The row of BERTH_ERROR_MAP for @code. An unknown code reads as BERTH_E_INTERNAL. The strings are
 * static.
 */
BERTH_PUBLIC const char *berth_error_id(int code);
BERTH_PUBLIC const char *berth_error_text(int code);
BERTH_PUBLIC int berth_error_http_status(int code);
BERTH_PUBLIC int berth_error_exit_code(int code);

/* The code whose name is @id (the first row that has it), or 0 when no row has it. */
BERTH_PUBLIC int berth_error_from_id(const char *id);

/* Back to "no error". @err may be NULL. */
BERTH_PUBLIC void berth_error_reset(struct berth_error *err);

/*
 * Fills *err in (message by printf rules, hint emptied, sys_errno 0) and returns @code, so that
 * failing is one statement: return berth_fail(err, BERTH_E_NOT_FOUND, "no execution %s", id);
 * @err may be NULL. Too long a message is cut at a character boundary and ends in "…"; a control
 * byte becomes '?', a newline a space, and what is no UTF-8 becomes '?'. Arguments may point into
 * *err itself. errno is kept.
 */
BERTH_PUBLIC int berth_fail(struct berth_error *err, int code, const char *fmt, ...)
	BERTH_PRINTF(3, 4);
BERTH_PUBLIC int berth_failv(struct berth_error *err, int code, const char *fmt, va_list args)
	BERTH_PRINTF(3, 0);

/*
 * The same for a failed system call: ": " and the text of @errno_value are appended and sys_errno
 * is set. @code 0 chooses by errno: ENOMEM is BERTH_E_NOMEM, everything else BERTH_E_IO.
 */
BERTH_PUBLIC int berth_fail_errno(struct berth_error *err, int code, int errno_value,
				  const char *fmt, ...) BERTH_PRINTF(4, 5);

/* Out of memory, with the usual message. Returns BERTH_E_NOMEM. */
BERTH_PUBLIC int berth_fail_nomem(struct berth_error *err);

/*
 * Puts context and ": " before the message: once per layer at most. Returns err->code, or
 * BERTH_E_INTERNAL when @err is NULL (keep the code yourself then).
 */
BERTH_PUBLIC int berth_error_prefix(struct berth_error *err, const char *fmt, ...)
	BERTH_PRINTF(2, 3);

/* Sets the hint. Returns err->code; @err may be NULL (then BERTH_E_INTERNAL). */
BERTH_PUBLIC int berth_error_hint(struct berth_error *err, const char *fmt, ...) BERTH_PRINTF(2, 3);

/*
 * The text of an errno in English ("No such file or directory"), whatever the locale; "Unknown
 * error" for numbers that have none. Static.
 */
BERTH_PUBLIC const char *berth_errno_text(int errno_value);

BERTH_END_DECLS

#endif
