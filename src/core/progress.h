/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_PROGRESS_H
#define BERTH_CORE_PROGRESS_H
/*
 * The caller's progress callback on its way through a deploy. A zeroed one tells nobody.
 */
#include <berth/berth.h>

struct progress {
	void (*fn)(void *arg, const struct berth_progress *p);
	void *arg;
};

static inline void progress_bytes(const struct progress *p, const char *phase, uint64_t done,
				  uint64_t total)
{
	struct berth_progress b = {.phase = phase, .done = done, .total = total};

	if (p && p->fn)
		p->fn(p->arg, &b);
}

static inline void progress_text(const struct progress *p, const char *phase, const void *text,
				 size_t len)
{
	struct berth_progress b = {.phase = phase, .text = (const char *)text, .text_len = len};

	if (p && p->fn)
		p->fn(p->arg, &b);
}

#endif
