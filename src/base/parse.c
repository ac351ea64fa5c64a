/* SPDX-License-Identifier: MIT */
/*
 * Text to values: strict, without locale, without undefined overflow. It makes no messages.
 */
#include "base/parse.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/time.h"

__extension__ typedef unsigned __int128 u128;

#define FRACTION_DIGITS 18
#define FRACTION_ONE    UINT64_C(1000000000000000000)

/* "12.345": digits, optionally a point and digits. */
struct decimal {
	uint64_t whole;
	uint64_t fraction; /* in 1 / FRACTION_ONE, rounded up */
	bool has_fraction;
	bool overflow;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static uint64_t parse_whole(const char **p, bool *overflow)
{
	uint64_t v = 0;

	for (; is_digit(**p); (*p)++) {
		if (MUL_OVERFLOWS(v, (uint64_t)10, &v) ||
		    ADD_OVERFLOWS(v, (uint64_t)(**p - '0'), &v))
			*overflow = true;
	}
	return v;
}

static uint64_t parse_fraction(const char **p)
{
	uint64_t v = 0, scale = FRACTION_ONE / 10;
	bool rest = false;

	for (; is_digit(**p); (*p)++) {
		if (scale > 0)
			v += (uint64_t)(**p - '0') * scale;
		else
			rest = rest || **p != '0';
		scale /= 10;
	}
	return v + rest;
}

/* False when there is no decimal at *p. */
static bool parse_decimal(const char **p, struct decimal *ret)
{
	struct decimal d = {0};
	bool digits = is_digit(**p);

	d.whole = parse_whole(p, &d.overflow);
	if (**p == '.' && is_digit((*p)[1])) {
		(*p)++;
		d.has_fraction = true;
		d.fraction = parse_fraction(p);
		digits = true;
	}
	*ret = d;
	return digits;
}

/* @d times @unit, rounded up, at most @max. */
static int scale_decimal(const struct decimal *d, uint64_t unit, uint64_t max, uint64_t *ret)
{
	u128 v = (u128)d->whole * unit;

	v += ((u128)d->fraction * unit + FRACTION_ONE - 1) / FRACTION_ONE;
	if (d->overflow || v > max)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

int parse_uint(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	bool overflow = false;
	const char *p = s;
	uint64_t v = parse_whole(&p, &overflow);

	if (p == s || *p)
		return -EINVAL;
	if (overflow || v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_int(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = s[0] == '-';
	uint64_t magnitude;
	int64_t v;
	int r = parse_uint(s + negative, 0, UINT64_MAX, &magnitude);

	if (r < 0)
		return r;
	if (magnitude > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	if (negative)
		v = magnitude ? -(int64_t)(magnitude - 1) - 1 : 0;
	else
		v = (int64_t)magnitude;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

static int parse_duration(const char *s, int64_t per_second, int64_t *ret)
{
	static const struct {
		const char *suffix;
		unsigned seconds; /* 0: a millisecond */
	} units[] = {{"", 1}, {"s", 1}, {"ms", 0}, {"m", 60}, {"h", 3600}};
	const char *p = s[0] == '-' ? s + 1 : s;
	int64_t max = DURATION_MAX_MS * (per_second / 1000);
	struct decimal d;
	uint64_t v;
	size_t i;
	int r;

	if (!parse_decimal(&p, &d))
		return -EINVAL;
	for (i = 0; i < ARRAY_LEN(units) && strcmp(p, units[i].suffix) != 0; i++)
		;
	if (i == ARRAY_LEN(units))
		return -EINVAL;
	if (s[0] == '-')
		return -ERANGE;
	r = scale_decimal(&d,
			  units[i].seconds ? units[i].seconds * (uint64_t)per_second
					   : (uint64_t)per_second / 1000,
			  (uint64_t)max, &v);
	if (r == 0)
		*ret = (int64_t)v;
	return r;
}

int parse_duration_ms(const char *s, int64_t *ret_ms)
{
	return parse_duration(s, 1000, ret_ms);
}

int parse_duration_ns(const char *s, int64_t *ret_ns)
{
	return parse_duration(s, NS_PER_SEC, ret_ns);
}

int parse_size(const char *s, uint64_t *ret)
{
	static const char units[] = "KMG";
	const char *p = s[0] == '-' ? s + 1 : s, *unit;
	uint64_t factor = 1;
	struct decimal d;

	if (!parse_decimal(&p, &d))
		return -EINVAL;
	if (*p) {
		unit = strchr(units, is_alpha(*p) ? *p & ~0x20 : '?');
		if (!unit || p[1])
			return -EINVAL;
		factor = UINT64_C(1) << (10 * (unit - units + 1));
	} else if (d.has_fraction) {
		return -EINVAL;
	}
	if (s[0] == '-')
		return -ERANGE;
	return scale_decimal(&d, factor, INT64_MAX, ret);
}

int parse_milli(const char *s, uint64_t *ret)
{
	const char *p = s[0] == '-' ? s + 1 : s;
	struct decimal d;

	if (!parse_decimal(&p, &d) || *p)
		return -EINVAL;
	if (s[0] == '-' || (d.whole == 0 && d.fraction == 0))
		return -ERANGE;
	return scale_decimal(&d, 1000, INT64_MAX, ret);
}

static bool valid_name(const char *s, size_t max)
{
	size_t n;

	if (!is_digit(s[0]) && !is_alpha(s[0]))
		return false;
	for (n = 1; s[n]; n++) {
		if (n >= max)
			return false;
		if (!is_digit(s[n]) && !is_alpha(s[n]) && s[n] != '.' && s[n] != '_' && s[n] != '-')
			return false;
	}
	return true;
}

bool valid_execution_id(const char *s)
{
	return valid_name(s, EXECUTION_ID_MAX);
}

bool valid_sandbox_name(const char *s)
{
	return valid_name(s, SANDBOX_NAME_MAX);
}

bool valid_env_name(const char *s, size_t len)
{
	if (len == 0 || is_digit(s[0]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(s[i]) && !is_alpha(s[i]) && s[i] != '_')
			return false;
	}
	return true;
}

size_t utf8_sequence(const void *s, size_t len)
{
	const unsigned char *p = s;
	/* The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF.
	 */
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (len < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

bool valid_utf8(const void *s, size_t len)
{
	const unsigned char *p = s;

	while (len > 0) {
		size_t n = utf8_sequence(p, len);

		if (n == 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}
