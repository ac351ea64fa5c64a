/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H
/*
 * Lines on stderr for programs: "berth: …". Only main-level code and the CLI use it; the library
 * is silent and returns errors. One line is one write(2), so lines of several processes do not mix;
 * control bytes are replaced, so that no message can forge a second line.
 */
#include "base/attr.h"

enum log_level {
	LOG_LEVEL_QUIET, /* errors only (-q) */
	LOG_LEVEL_NORMAL,
	LOG_LEVEL_VERBOSE, /* -v */
};

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* Name before the colon, default "berth". Kept for ever: give a literal. */
void log_set_name(const char *name);

/* Always shown. */
void log_error(const char *fmt, ...) attr_printf(1, 2);
/* Shown unless quiet. */
void log_info(const char *fmt, ...) attr_printf(1, 2);
/* Shown when verbose. */
void log_verbose(const char *fmt, ...) attr_printf(1, 2);
/* "hint: …" without the name, always shown. */
void log_hint(const char *fmt, ...) attr_printf(1, 2);

#endif
