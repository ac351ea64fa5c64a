/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_HEX_H
#define BERTH_BASE_HEX_H
/* Lower-case hexadecimal. */
#include "base/attr.h"

/* 2 * len digits and a NUL into @ret_text. Returns ret_text. */
char *hex_encode(const void *bytes, size_t len, char *ret_text);
/* Exactly 2 * len digits (either case) from @text, which need not end there. 0 or -EINVAL. */
int hex_decode(const char *text, void *ret_bytes, size_t len) attr_warn_unused;

#endif
