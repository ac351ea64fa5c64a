/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_RANDOM_H
#define BERTH_BASE_RANDOM_H
/* Random bytes from the kernel (getrandom). */
#include "base/attr.h"

/* Fills @buf. It blocks only before the machine's pool is ready, early in boot, and cannot fail. */
void random_bytes(void *buf, size_t len);

/*
 * A name of @len characters from a-z0-9 that begins with a letter, and a NUL: for ids and temporary
 * files. 16 characters hold 82 bits. @ret_text has len + 1 bytes. Returns ret_text.
 */
char *random_name(char *ret_text, size_t len);

#endif
