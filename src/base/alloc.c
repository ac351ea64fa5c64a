/* SPDX-License-Identifier: MIT */
/*
 * Allocation with a test hook. Without the hook it is malloc plus one predictable branch. It keeps
 * no list: leaks are the sanitizer's business.
 */
#include "base/alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	unsigned long fail_from; /* 0: off */
	unsigned long count;
	unsigned long failed;
} hook;

void mem_fail_from(unsigned long nth)
{
	hook.fail_from = nth;
	hook.count = 0;
	hook.failed = 0;
}

unsigned long mem_count(void)
{
	return hook.count;
}

unsigned long mem_failed(void)
{
	return hook.failed;
}

static bool must_fail(void)
{
	hook.count++;
	if (likely(hook.fail_from == 0) || hook.count < hook.fail_from)
		return false;
	hook.failed++;
	errno = ENOMEM;
	return true;
}

void *mem_alloc(size_t size)
{
	return must_fail() ? NULL : malloc(size ? size : 1);
}

void *mem_zalloc(size_t count, size_t size)
{
	if (must_fail())
		return NULL;
	return count && size ? calloc(count, size) : calloc(1, 1);
}

void *mem_realloc(void *p, size_t size)
{
	return must_fail() ? NULL : realloc(p, size ? size : 1);
}

void *mem_reallocarray(void *p, size_t count, size_t size)
{
	size_t total;

	if (MUL_OVERFLOWS(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return mem_realloc(p, total);
}

void *mem_dup(const void *p, size_t len)
{
	void *copy = mem_alloc(len);

	if (copy && len)
		memcpy(copy, p, len);
	return copy;
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

char *mem_strndup(const void *s, size_t len)
{
	char *copy;

	if (len == SIZE_MAX) {
		errno = ENOMEM;
		return NULL;
	}
	copy = mem_alloc(len + 1);
	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		return NULL;
	text = mem_alloc((size_t)n + 1);
	if (!text)
		return NULL;
	va_start(args, fmt);
	vsnprintf(text, (size_t)n + 1, fmt, args);
	va_end(args);
	return text;
}
