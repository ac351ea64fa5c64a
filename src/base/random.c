/* SPDX-License-Identifier: MIT */
/* Random bytes and names. There is no fallback to anything that could be guessed: it aborts. */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *buf, size_t len)
{
	unsigned char *p = buf;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			abort();
		p += n;
		len -= (size_t)n;
	}
}

char *random_name(char *ret_text, size_t len)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char pool[32];
	size_t have = 0;

	for (size_t i = 0; i < len;) {
		unsigned range = i == 0 ? 26 : 36;
		unsigned byte;

		if (have == 0) {
			random_bytes(pool, sizeof(pool));
			have = sizeof(pool);
		}
		byte = pool[--have];
		if (byte < 256 / range * range) /* the rest would favour the first letters */
			ret_text[i++] = set[byte % range];
	}
	ret_text[len] = '\0';
	return ret_text;
}
