/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_STRV_H
#define BERTH_BASE_STRV_H
/*
 * A growable vector of strings that is always NULL-terminated: @items can be given to execve(2).
 * It owns its strings. Adding returns 0, BERTH_E_TOO_LARGE (more than @max strings) or
 * BERTH_E_NOMEM; on failure the vector is unchanged.
 */
#include "base/attr.h"
#include "base/cleanup.h"

struct strv {
	char **items; /* never NULL; items[len] is NULL */
	size_t len;
	size_t cap;
	size_t max;
};

extern char *strv_empty[];

#define STRV_INIT(maximum)                            \
	{                                             \
		.items = strv_empty, .max = (maximum) \
	}

void strv_init(struct strv *v, size_t max);
void strv_done(struct strv *v);
BERTH_DEFINE_AUTO(strv, struct strv, strv_done);

/* Copies @s. */
int strv_add(struct strv *v, const char *s) attr_warn_unused;
/* Copies @len bytes; they must hold no NUL (BERTH_E_INVALID). */
int strv_addn(struct strv *v, const char *s, size_t len) attr_warn_unused;
int strv_addf(struct strv *v, const char *fmt, ...) attr_printf(2, 3) attr_warn_unused;
/* Takes @s (malloc'ed) on success and on failure; NULL is BERTH_E_NOMEM. */
int strv_take(struct strv *v, char *s) attr_warn_unused;
/* Copies every string of a NULL-terminated array. On failure some may have been added. */
int strv_add_all(struct strv *v, char *const *items) attr_warn_unused;

/* Is @s among them? */
bool strv_contains(const struct strv *v, const char *s) attr_pure;
/* Sorts by bytes. */
void strv_sort(struct strv *v);

/* NAME=value vectors: sets NAME (replacing it in place), finds its value (borrowed, or NULL). */
int strv_env_set(struct strv *v, const char *name, const char *value) attr_warn_unused;
const char *strv_env_get(const struct strv *v, const char *name);

/* Gives the array away: NULL-terminated, owned by caller, free with strv_free_items(). */
char **strv_detach(struct strv *v) attr_warn_unused;
/* Frees a detached array and its strings; NULL is fine. */
void strv_free_items(char **items);

#endif
