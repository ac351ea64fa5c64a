/* SPDX-License-Identifier: MIT */
/*
 * hash.c: the agent's only copy of XXH3-128. Optimised for speed although the agent is built for
 * size: every byte of output and of an artifact goes through it. Does no I/O and allocates nothing.
 */
#pragma GCC optimize("O3")

#define XXH_INLINE_ALL
#define XXH_NO_STDLIB
#include <xxhash.h>

#include "agent/hash.h"

_Static_assert(sizeof(XXH3_state_t) == HASH_STATE_SIZE, "HASH_STATE_SIZE");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(struct hash), "alignment of struct hash");

void hash_init(struct hash *h)
{
	XXH3_128bits_reset((XXH3_state_t *)(void *)h->state);
}

void hash_add(struct hash *h, const void *p, size_t n)
{
	if (n)
		XXH3_128bits_update((XXH3_state_t *)(void *)h->state, p, n);
}

void hash_get(const struct hash *h, uint8_t ret[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c,
				 XXH3_128bits_digest((const XXH3_state_t *)(const void *)h->state));
	__builtin_memcpy(ret, c.digest, sizeof(c.digest));
}
