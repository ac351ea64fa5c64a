/* SPDX-License-Identifier: MIT */
/*
 * Vector of strings. Invariants: items[len] is NULL; cap is 0 (the shared empty vector, never
 * written) or > len; every string is malloc'ed and owned.
 */
#include "base/strv.h"

#include <stdarg.h>
#include <string.h>

#include <berth/error.h>

#include "base/alloc.h"

char *strv_empty[1];

void strv_init(struct strv *v, size_t max)
{
	*v = (struct strv)STRV_INIT(max);
}

void strv_free_items(char **items)
{
	if (!items)
		return;
	for (char **p = items; *p; p++)
		free(*p);
	free(items);
}

void strv_done(struct strv *v)
{
	if (v->cap)
		strv_free_items(v->items);
	strv_init(v, v->max);
}

static int grow(struct strv *v)
{
	size_t cap = v->cap ? v->cap * 2 : 8;
	char **items;

	if (v->len >= v->max)
		return BERTH_E_TOO_LARGE;
	if (v->len + 1 < v->cap)
		return 0;
	items = mem_reallocarray(v->cap ? v->items : NULL, cap, sizeof(*items));
	if (!items)
		return BERTH_E_NOMEM;
	items[v->len] = NULL;
	v->items = items;
	v->cap = cap;
	return 0;
}

int strv_take(struct strv *v, char *s)
{
	int r = s ? grow(v) : BERTH_E_NOMEM;

	if (r < 0) {
		free(s);
		return r;
	}
	v->items[v->len++] = s;
	v->items[v->len] = NULL;
	return 0;
}

int strv_add(struct strv *v, const char *s)
{
	return strv_take(v, mem_strdup(s));
}

int strv_addn(struct strv *v, const char *s, size_t len)
{
	if (len && memchr(s, '\0', len))
		return BERTH_E_INVALID;
	return strv_take(v, mem_strndup(s, len));
}

int strv_addf(struct strv *v, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		return BERTH_E_INTERNAL;
	text = mem_alloc((size_t)n + 1);
	if (!text)
		return BERTH_E_NOMEM;
	va_start(args, fmt);
	vsnprintf(text, (size_t)n + 1, fmt, args);
	va_end(args);
	return strv_take(v, TAKE_PTR(text));
}

int strv_add_all(struct strv *v, char *const *items)
{
	int r = 0;

	for (size_t i = 0; items[i] && r == 0; i++)
		r = strv_add(v, items[i]);
	return r;
}

bool strv_contains(const struct strv *v, const char *s)
{
	for (size_t i = 0; i < v->len; i++) {
		if (strcmp(v->items[i], s) == 0)
			return true;
	}
	return false;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *v)
{
	if (v->len > 1)
		qsort(v->items, v->len, sizeof(*v->items), compare);
}

/* Index of NAME=…, or len. */
static size_t env_find(const struct strv *v, const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < v->len; i++) {
		if (strncmp(v->items[i], name, n) == 0 && v->items[i][n] == '=')
			break;
	}
	return i;
}

int strv_env_set(struct strv *v, const char *name, const char *value)
{
	auto_free char *entry = mem_printf("%s=%s", name, value);
	size_t i = env_find(v, name, strlen(name));

	if (!entry)
		return BERTH_E_NOMEM;
	if (i == v->len)
		return strv_take(v, TAKE_PTR(entry));
	free(v->items[i]);
	v->items[i] = TAKE_PTR(entry);
	return 0;
}

const char *strv_env_get(const struct strv *v, const char *name)
{
	size_t n = strlen(name), i = env_find(v, name, n);

	return i < v->len ? v->items[i] + n + 1 : NULL;
}

char **strv_detach(struct strv *v)
{
	char **items = v->cap ? v->items : mem_zalloc(1, sizeof(*items));

	if (items)
		strv_init(v, v->max);
	return items;
}
