/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_PATTERN_H
#define BERTH_TESTS_PATTERN_H
/*
 * Pseudo-random bytes that the worker writes and the tests expect. The byte at an offset depends on
 * the seed and the offset alone, so any piece of a stream can be checked without the rest.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

static inline void pattern_fill(uint64_t seed, uint64_t offset, void *buf, size_t n)
{
	uint8_t *p = buf;

	while (n > 0) {
		uint64_t w = pattern_word(seed, offset / 8);
		size_t skip = (size_t)(offset % 8), k = 8 - skip < n ? 8 - skip : n;

		memcpy(p, (const uint8_t *)&w + skip, k);
		p += k, n -= k, offset += k;
	}
}

#endif
