/* SPDX-License-Identifier: MIT */
/* Hexadecimal, lower case out, either case in. */
#include "base/hex.h"

#include <errno.h>

char *hex_encode(const void *bytes, size_t len, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = bytes;

	for (size_t i = 0; i < len; i++) {
		ret_text[2 * i] = digits[p[i] >> 4];
		ret_text[2 * i + 1] = digits[p[i] & 15];
	}
	ret_text[2 * len] = '\0';
	return ret_text;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int hex_decode(const char *text, void *ret_bytes, size_t len)
{
	unsigned char *out = ret_bytes;

	for (size_t i = 0; i < len; i++) {
		int high = digit(text[2 * i]);
		int low = high < 0 ? -1 : digit(text[2 * i + 1]);

		if (low < 0)
			return -EINVAL;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}
