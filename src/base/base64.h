/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_BASE64_H
#define BERTH_BASE_BASE64_H
/* Base64 of RFC 4648, with padding, without line breaks. */
#include <sys/types.h>

#include "base/attr.h"

/* Characters that @len bytes become, without a NUL. */
#define BASE64_LEN(len) (((len) + 2) / 3 * 4)

/* Writes BASE64_LEN(len) characters and no NUL; returns that number. */
size_t base64_encode(const void *bytes, size_t len, char *ret_text);
/*
 * Strict: whole quads, right padding, no other characters, unused bits zero. Writes at most
 * len / 4 * 3 bytes; @ret_bytes may be @text itself. The number of bytes or -EINVAL.
 */
ssize_t base64_decode(const char *text, size_t len, void *ret_bytes) attr_warn_unused;

#endif
