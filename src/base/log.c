/* SPDX-License-Identifier: MIT */
/*
 * Log lines on stderr. One line is one write(2). It never fails visibly: there is nobody to tell.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define LINE_MAX_BYTES 4096 /* PIPE_BUF: what one write puts into a pipe in one piece */

static enum log_level current_level = LOG_LEVEL_NORMAL;
static const char *program = "berth";

void log_set_level(enum log_level level)
{
	current_level = level;
}

enum log_level log_get_level(void)
{
	return current_level;
}

void log_set_name(const char *name)
{
	program = name;
}

static void put_line(const char *prefix, const char *fmt, va_list args) attr_printf(2, 0);
static void put_line(const char *prefix, const char *fmt, va_list args)
{
	char raw[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
	int saved_errno = errno;
	int head = snprintf(line, 64, "%s: ", prefix);
	size_t at = (size_t)(head < 63 ? head : 63);
	int n = vsnprintf(raw, sizeof(raw), fmt, args);

	if (n >= 0) {
		text_one_line(line + at, sizeof(line) - at, raw, n >= (int)sizeof(raw));
		at += strlen(line + at);
		line[at++] = '\n';
		(void)!write(STDERR_FILENO, line, at);
	}
	errno = saved_errno;
}

void log_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put_line(program, fmt, args);
	va_end(args);
}

void log_hint(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put_line("hint", fmt, args);
	va_end(args);
}

void log_info(const char *fmt, ...)
{
	va_list args;

	if (current_level < LOG_LEVEL_NORMAL)
		return;
	va_start(args, fmt);
	put_line(program, fmt, args);
	va_end(args);
}

void log_verbose(const char *fmt, ...)
{
	va_list args;

	if (current_level < LOG_LEVEL_VERBOSE)
		return;
	va_start(args, fmt);
	put_line(program, fmt, args);
	va_end(args);
}
