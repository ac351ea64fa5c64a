/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_PARSE_H
#define BERTH_BASE_PARSE_H
/*
 * Text from outside to values. The whole string must match: no leading or trailing space, no sign
 * unless said. 0 on success, -EINVAL when it is not of that form, -ERANGE when it is but does not
 * fit; outputs are untouched on failure. The caller makes the message: it knows the option's name.
 */
#include "base/attr.h"

/* Decimal digits, optional '-' for the signed one; within [min, max]. */
int parse_int(const char *s, int64_t min, int64_t max, int64_t *ret) attr_warn_unused;
int parse_uint(const char *s, uint64_t min, uint64_t max, uint64_t *ret) attr_warn_unused;

/*
 * "250ms", "10s", "5m", "2h"; a bare number is seconds; fractions are allowed ("0.05", "1.5h").
 * Zero is allowed and negative values are -ERANGE ("Zero or less is a usage error" is for the
 * caller, as --delay and --grace differ). What is finer than the unit of the result is rounded up,
 * so that a positive duration never becomes 0. At most DURATION_MAX_MS.
 */
int parse_duration_ms(const char *s, int64_t *ret_ms) attr_warn_unused;
int parse_duration_ns(const char *s, int64_t *ret_ns) attr_warn_unused;

/* Bytes, or a number with K, M or G (1024, either case); fractions with a unit ("1.5G"). */
int parse_size(const char *s, uint64_t *ret) attr_warn_unused;

/* A positive decimal such as "2" or "0.5", in thousandths (for --cpus). */
int parse_milli(const char *s, uint64_t *ret) attr_warn_unused;

/* [A-Za-z0-9][A-Za-z0-9._-]{0,127} */
bool valid_execution_id(const char *s) attr_pure;
/* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
bool valid_sandbox_name(const char *s) attr_pure;
/* [A-Za-z_][A-Za-z0-9_]*, of @len bytes */
bool valid_env_name(const char *s, size_t len) attr_pure;
/* Well-formed UTF-8 of @len bytes (no surrogates, nothing above U+10FFFF, no overlong forms). */
bool valid_utf8(const void *s, size_t len) attr_pure;
/*
 * Length of the well-formed UTF-8 sequence at @s (1-4), or 0 when the bytes there begin none.
 * @len > 0 bytes can be looked at.
 */
size_t utf8_sequence(const void *s, size_t len) attr_pure;

#endif
