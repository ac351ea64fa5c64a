/* SPDX-License-Identifier: MIT */
#ifndef BERTH_FUZZ_H
#define BERTH_FUZZ_H
/*
 * What the fuzz targets share. A target asserts what must hold of every input; assert() itself may
 * be compiled out.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                            \
	do {                                                                                  \
		if (!(cond)) {                                                                \
			fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                              \
		}                                                                             \
	} while (0)

static inline void *fuzz_alloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		abort();
	return p;
}

#endif
