/* SPDX-License-Identifier: MIT */
/*
 * Growable byte buffer. Invariants: data[len] is NUL; len <= max; cap is 0 (the shared empty
 * string, never written) or > len. Growth doubles, so n appends cost O(n).
 */
#include "base/strbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <berth/error.h>

#include "base/alloc.h"

char strbuf_empty[1];

void strbuf_init(struct strbuf *b, size_t max)
{
	*b = (struct strbuf)STRBUF_INIT(max);
}

void strbuf_done(struct strbuf *b)
{
	if (b->cap)
		free(b->data);
	strbuf_init(b, b->max);
}

static int fail(struct strbuf *b, int code)
{
	if (!b->error)
		b->error = code;
	return b->error;
}

int strbuf_reserve(struct strbuf *b, size_t more)
{
	size_t need, cap;
	char *data;

	if (b->error)
		return b->error;
	if (ADD_OVERFLOWS(b->len, more, &need) || need > b->max || need == SIZE_MAX)
		return fail(b, BERTH_E_TOO_LARGE);
	if (need < b->cap)
		return 0;
	cap = MAX_OF(b->cap, (size_t)64);
	while (cap <= need) {
		if (MUL_OVERFLOWS(cap, 2, &cap)) {
			cap = need + 1;
			break;
		}
	}
	if (b->max < SIZE_MAX)
		cap = MIN_OF(cap, b->max + 1);
	data = mem_realloc(b->cap ? b->data : NULL, cap);
	if (!data)
		return fail(b, BERTH_E_NOMEM);
	data[b->len] = '\0';
	b->data = data;
	b->cap = cap;
	return 0;
}

void strbuf_advance(struct strbuf *b, size_t n)
{
	if (n == 0)
		return;
	b->len += n;
	b->data[b->len] = '\0';
}

int strbuf_add(struct strbuf *b, const void *bytes, size_t len)
{
	if (len == 0)
		return b->error;
	if (strbuf_reserve(b, len) < 0)
		return b->error;
	memcpy(b->data + b->len, bytes, len);
	strbuf_advance(b, len);
	return 0;
}

int strbuf_adds(struct strbuf *b, const char *s)
{
	return strbuf_add(b, s, strlen(s));
}

int strbuf_addc(struct strbuf *b, char c)
{
	return strbuf_add(b, &c, 1);
}

int strbuf_vaddf(struct strbuf *b, const char *fmt, va_list args)
{
	size_t room = b->cap ? b->cap - b->len : 0;
	va_list again;
	int n;

	if (b->error)
		return b->error;
	va_copy(again, args);
	n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, args);
	if (n >= 0 && (size_t)n >= room) {
		if (b->cap)
			b->data[b->len] = '\0';
		if (strbuf_reserve(b, (size_t)n) == 0)
			vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
	}
	va_end(again);
	if (n < 0)
		return fail(b, BERTH_E_INTERNAL);
	if (!b->error)
		strbuf_advance(b, (size_t)n);
	return b->error;
}

int strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = strbuf_vaddf(b, fmt, args);
	va_end(args);
	return r;
}

void strbuf_truncate(struct strbuf *b, size_t len)
{
	if (len >= b->len)
		return;
	b->len = len;
	b->data[len] = '\0';
}

void strbuf_consume(struct strbuf *b, size_t n)
{
	n = MIN_OF(n, b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

void strbuf_reset(struct strbuf *b)
{
	strbuf_truncate(b, 0);
	b->error = 0;
}

int strbuf_error(const struct strbuf *b)
{
	return b->error;
}

char *strbuf_detach(struct strbuf *b, size_t *ret_len)
{
	char *data;

	if (b->error)
		return NULL;
	data = b->cap ? b->data : mem_strdup("");
	if (!data)
		return NULL;
	if (ret_len)
		*ret_len = b->len;
	strbuf_init(b, b->max);
	return data;
}
