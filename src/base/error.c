/* SPDX-License-Identifier: MIT */
/*
 * The error object. Invariants: nothing here allocates or changes errno; a message is always one
 * line of valid UTF-8, whatever bytes came in; a cut is at a character boundary and visible.
 * It does not print: that is main-level code's business.
 */
#include <berth/error.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/text.h"

struct error_row {
	const char *name;
	int code;
	const char *id;
	const char *text;
	int http;
	int exit;
};

static const struct error_row error_rows[] = {
#define ROW(name, code, id, text, http, exit) {#name, code, id, text, http, exit},
	BERTH_ERROR_MAP(ROW)
#undef ROW
};

const char *berth_version(void)
{
	return BERTH_VERSION;
}

static const struct error_row *error_row(int code)
{
	static const struct error_row internal = {
		"BERTH_E_INTERNAL", BERTH_E_INTERNAL, "internal", "internal error", 500, 1};

	for (size_t i = 0; i < ARRAY_LEN(error_rows); i++) {
		if (error_rows[i].code == code)
			return &error_rows[i];
	}
	return &internal;
}

const char *berth_error_id(int code)
{
	return error_row(code)->id;
}

const char *berth_error_text(int code)
{
	return error_row(code)->text;
}

int berth_error_http_status(int code)
{
	return error_row(code)->http;
}

int berth_error_exit_code(int code)
{
	return error_row(code)->exit;
}

int berth_error_from_id(const char *id)
{
	for (size_t i = 0; i < ARRAY_LEN(error_rows); i++) {
		if (strcmp(error_rows[i].id, id) == 0)
			return error_rows[i].code;
	}
	return 0;
}

const char *berth_errno_text(int errno_value)
{
	const char *text = errno_value > 0 ? strerrordesc_np(errno_value) : NULL;

	return text ? text : "Unknown error";
}

void berth_error_reset(struct berth_error *err)
{
	if (!err)
		return;
	err->code = 0;
	err->sys_errno = 0;
	err->message[0] = '\0';
	err->hint[0] = '\0';
}

/* Formats into a buffer of its own first: the arguments may point into the error that is set. */
attr_printf(3, 0) static void format_line(char *out, size_t size, const char *fmt, va_list args)
{
	char raw[2 * BERTH_ERROR_MESSAGE_MAX];
	int n = vsnprintf(raw, sizeof(raw), fmt, args);

	if (n < 0)
		raw[0] = '\0';
	text_one_line(out, size, raw, n >= (int)sizeof(raw));
}

int berth_failv(struct berth_error *err, int code, const char *fmt, va_list args)
{
	int saved_errno = errno;

	if (err) {
		format_line(err->message, sizeof(err->message), fmt, args);
		err->code = code;
		err->sys_errno = 0;
		err->hint[0] = '\0';
	}
	errno = saved_errno;
	return code;
}

int berth_fail(struct berth_error *err, int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	berth_failv(err, code, fmt, args);
	va_end(args);
	return code;
}

int berth_fail_errno(struct berth_error *err, int code, int errno_value, const char *fmt, ...)
{
	char what[BERTH_ERROR_MESSAGE_MAX];
	int saved_errno = errno;
	va_list args;

	if (errno_value < 0)
		errno_value = -errno_value;
	if (code == 0)
		code = errno_value == ENOMEM ? BERTH_E_NOMEM : BERTH_E_IO;
	if (err) {
		/* Room for the reason is kept: a long path must not hide it. */
		va_start(args, fmt);
		format_line(what, sizeof(what) - 64, fmt, args);
		va_end(args);
		berth_fail(err, code, "%s: %s", what, berth_errno_text(errno_value));
		err->sys_errno = errno_value;
	}
	errno = saved_errno;
	return code;
}

int berth_fail_nomem(struct berth_error *err)
{
	berth_fail(err, BERTH_E_NOMEM, "out of memory");
	if (err)
		err->sys_errno = ENOMEM;
	return BERTH_E_NOMEM;
}

int berth_error_prefix(struct berth_error *err, const char *fmt, ...)
{
	char prefix[BERTH_ERROR_MESSAGE_MAX];
	char raw[2 * BERTH_ERROR_MESSAGE_MAX + 2];
	int saved_errno = errno;
	va_list args;

	if (!err)
		return BERTH_E_INTERNAL;
	va_start(args, fmt);
	format_line(prefix, sizeof(prefix), fmt, args);
	va_end(args);
	snprintf(raw, sizeof(raw), "%s: %s", prefix, err->message);
	text_one_line(err->message, sizeof(err->message), raw, false);
	errno = saved_errno;
	return err->code;
}

int berth_error_hint(struct berth_error *err, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (!err)
		return BERTH_E_INTERNAL;
	va_start(args, fmt);
	format_line(err->hint, sizeof(err->hint), fmt, args);
	va_end(args);
	errno = saved_errno;
	return err->code;
}
