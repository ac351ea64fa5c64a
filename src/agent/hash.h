/* SPDX-License-Identifier: MIT */
/*
 * hash.h: XXH3-128 as a stream, so that xxhash.h is compiled once for the whole agent.
 */
#ifndef AGENT_HASH_H
#define AGENT_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_STATE_SIZE 576u

struct hash {
	_Alignas(64) uint8_t state[HASH_STATE_SIZE];
};

void hash_init(struct hash *h);
void hash_add(struct hash *h, const void *p, size_t n);
/* The hash so far, canonical (big endian), as XXH128_canonicalFromHash writes it. More may be added
 * afterwards. */
void hash_get(const struct hash *h, uint8_t ret[16]);

#endif
