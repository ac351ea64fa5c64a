/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_STRBUF_H
#define BERTH_BASE_STRBUF_H
/*
 * A growable buffer of bytes with a maximum that it gets at birth.
 *
 * @data is always NUL-terminated (the NUL is not counted in @len) and never NULL, so it can be
 * passed wherever a string is wanted; it may hold NULs of its own.
 *
 * Appending returns 0, BERTH_E_TOO_LARGE (the maximum would be passed) or BERTH_E_NOMEM; on failure
 * the buffer is unchanged and remembers the code: a run of appends can be made without looking and
 * checked once with strbuf_error(). After the first failure every append fails with that code.
 */
#include <stdarg.h>

#include "base/attr.h"
#include "base/cleanup.h"

struct strbuf {
	char *data;
	size_t len;
	size_t cap; /* allocated bytes; 0 while data is the static empty string */
	size_t max; /* largest len */
	int error;
};

extern char strbuf_empty[];

/* For declarations: auto(strbuf) struct strbuf b = STRBUF_INIT(PATH_BUF_MAX); */
#define STRBUF_INIT(maximum)                           \
	{                                              \
		.data = strbuf_empty, .max = (maximum) \
	}

void strbuf_init(struct strbuf *b, size_t max);
/* Frees; the buffer is empty and usable afterwards. */
void strbuf_done(struct strbuf *b);
BERTH_DEFINE_AUTO(strbuf, struct strbuf, strbuf_done);

int strbuf_add(struct strbuf *b, const void *bytes, size_t len);
int strbuf_adds(struct strbuf *b, const char *s);
int strbuf_addc(struct strbuf *b, char c);
int strbuf_addf(struct strbuf *b, const char *fmt, ...) attr_printf(2, 3);
int strbuf_vaddf(struct strbuf *b, const char *fmt, va_list args) attr_printf(2, 0);

/* Room for @more bytes after len, for reading into &b->data[b->len]; then strbuf_advance(). */
int strbuf_reserve(struct strbuf *b, size_t more) attr_warn_unused;
/* Counts @n bytes that were written into reserved room. */
void strbuf_advance(struct strbuf *b, size_t n);

/* Cuts to @len bytes (no-op when shorter). */
void strbuf_truncate(struct strbuf *b, size_t len);
/* Removes the first @n bytes. */
void strbuf_consume(struct strbuf *b, size_t n);
/* Empties it and forgets the error; keeps the memory. */
void strbuf_reset(struct strbuf *b);
/* 0, or the code of the first append that failed. */
int strbuf_error(const struct strbuf *b) attr_warn_unused;

/*
 * Gives the bytes away: NUL-terminated, owned by caller, free with free(); the buffer is empty
 * afterwards. NULL without memory (only possible when it was empty) or when an append had failed.
 * @ret_len may be NULL.
 */
char *strbuf_detach(struct strbuf *b, size_t *ret_len) attr_warn_unused;

#endif
