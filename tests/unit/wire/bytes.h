/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_WIRE_BYTES_H
#define BERTH_TESTS_WIRE_BYTES_H
/*
 * Helpers of the wire tests: bytes written down as hex, and copies in memory of exactly their size,
 * so that AddressSanitizer sees a read behind the end.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* A SUBTEST in a loop: the counter does not change between its sigsetjmp and a jump back. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wclobbered"
#endif

/* Hex digits to bytes; blanks are skipped. Returns the number of bytes. */
__attribute__((unused)) static size_t unhex(const char *hex, uint8_t *out, size_t cap)
{
	size_t n = 0;
	int high = -1;

	for (; *hex; hex++) {
		int c = tolower((unsigned char)*hex), v;

		if (isspace(c))
			continue;
		v = isdigit(c) ? c - '0' : c - 'a' + 10;
		if (v < 0 || v > 15 || (high >= 0 && n == cap))
			abort();
		if (high < 0) {
			high = v;
		} else {
			out[n++] = (uint8_t)(high << 4 | v);
			high = -1;
		}
	}
	if (high >= 0)
		abort();
	return n;
}

#define ASSERT_HEX(p, n, hex)                                      \
	do {                                                       \
		uint8_t want_[2048];                               \
		size_t want_n_ = unhex(hex, want_, sizeof(want_)); \
		ASSERT_MEMEQ(p, n, want_, want_n_);                \
	} while (0)

/* A copy of exactly n bytes; freed by the caller. Never NULL. */
__attribute__((unused)) static uint8_t *exact(const void *p, size_t n)
{
	uint8_t *m = malloc(n ? n : 1);

	if (!m)
		abort();
	if (n)
		memcpy(m, p, n);
	return m;
}

#define SLICE_IS(s, lit) ASSERT_MEMEQ((s).p ? (const void *)(s).p : "", (s).n, lit, sizeof(lit) - 1)

#endif
