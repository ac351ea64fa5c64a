/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_ALLOC_H
#define BERTH_BASE_ALLOC_H
/*
 * malloc and friends with one hook for tests: "fail the Nth from now". base, wire and core allocate
 * through these, so that every failure path can be walked. The memory is malloc's: free() frees it.
 */
#include <stddef.h>

#include "base/attr.h"

/* NULL with errno ENOMEM when there is no memory. A size of 0 gives a pointer that can be freed. */
void *mem_alloc(size_t size) attr_malloc attr_warn_unused;
/* Zeroed; NULL also when count * size overflows. */
void *mem_zalloc(size_t count, size_t size) attr_malloc attr_warn_unused;
/* As realloc(3); on NULL the old block is untouched. */
void *mem_realloc(void *p, size_t size) attr_warn_unused;
/* Room for @count elements of @size; NULL also on overflow. */
void *mem_reallocarray(void *p, size_t count, size_t size) attr_warn_unused;
/* Copies; @s must not be NULL. */
char *mem_strdup(const char *s) attr_malloc attr_warn_unused;
/* A NUL-terminated copy of the first @len bytes (the source may hold NULs; it need not end). */
char *mem_strndup(const void *s, size_t len) attr_malloc attr_warn_unused;
void *mem_dup(const void *p, size_t len) attr_malloc attr_warn_unused;
/* NULL only without memory. */
char *mem_printf(const char *fmt, ...) attr_printf(1, 2) attr_malloc attr_warn_unused;

/*
 * Test hook: the @nth allocation from now (1 = the next) and all after it fail; 0 switches it off.
 * Not for threads.
 */
void mem_fail_from(unsigned long nth);
/* How many allocations there were since the hook was set; how many of them were made to fail. */
unsigned long mem_count(void);
unsigned long mem_failed(void);

#endif
