/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_TORTURE_H
#define BERTH_TESTS_TORTURE_H
/*
 * Allocation torture: runs @fn with the first allocation failing, then with the second, … until it
 * runs through without one. @fn returns 0 when it succeeded and negative when it failed, checks
 * its own invariants, and must leak nothing (the sanitizer build looks). What it returns must be
 * negative when an allocation failed, or positive when it could do without it.
 */
#include "base/alloc.h"

#include "tap.h"

#define TORTURE_MAX 100000

static inline void torture(int (*fn)(void *arg), void *arg)
{
	unsigned long nth;

	for (nth = 1; nth < TORTURE_MAX; nth++) {
		unsigned long failed;
		int r;

		mem_fail_from(nth);
		r = fn(arg);
		failed = mem_failed();
		mem_fail_from(0);
		if (failed == 0) {
			ASSERT_EQ(r, 0);
			break;
		}
		if (r == 0) {
			DIAG("allocation %lu failed and nobody noticed", nth);
			ASSERT_LT(r, 0);
		}
	}
	ASSERT_GT(nth, 1ul); /* it allocated at least once */
	ASSERT_LT(nth, (unsigned long)TORTURE_MAX);
}

#endif
