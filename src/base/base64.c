/* SPDX-License-Identifier: MIT */
/* Base64. Decoding is strict: every text has one meaning, and every meaning one text. */
#include "base/base64.h"

#include <errno.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *bytes, size_t len, char *ret_text)
{
	const unsigned char *p = bytes;
	char *out = ret_text;

	for (; len >= 3; len -= 3, p += 3) {
		unsigned v = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];

		*out++ = alphabet[v >> 18];
		*out++ = alphabet[v >> 12 & 63];
		*out++ = alphabet[v >> 6 & 63];
		*out++ = alphabet[v & 63];
	}
	if (len) {
		unsigned v = (unsigned)p[0] << 16 | (len == 2 ? (unsigned)p[1] << 8 : 0);

		*out++ = alphabet[v >> 18];
		*out++ = alphabet[v >> 12 & 63];
		*out++ = len == 2 ? alphabet[v >> 6 & 63] : '=';
		*out++ = '=';
	}
	return (size_t)(out - ret_text);
}

/* 0-63, or 64 for other characters. */
static unsigned value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	return c == '+' ? 62 : c == '/' ? 63 : 64;
}

ssize_t base64_decode(const char *text, size_t len, void *ret_bytes)
{
	unsigned char *out = ret_bytes;
	size_t pad = 0;

	if (len % 4)
		return -EINVAL;
	if (len && text[len - 1] == '=')
		pad = text[len - 2] == '=' ? 2 : 1;
	for (size_t i = 0; i < len; i += 4) {
		size_t skip = i + 4 == len ? pad : 0;
		unsigned v = 0;

		for (size_t k = 0; k < 4; k++) {
			unsigned c = k >= 4 - skip ? 0 : value_of(text[i + k]);

			if (c == 64)
				return -EINVAL;
			v = v << 6 | c;
		}
		if (v & ((1u << (8 * skip)) - 1))
			return -EINVAL; /* bits that no encoder writes */
		*out++ = (unsigned char)(v >> 16);
		if (skip < 2)
			*out++ = (unsigned char)(v >> 8);
		if (skip < 1)
			*out++ = (unsigned char)v;
	}
	return out - (unsigned char *)ret_bytes;
}
