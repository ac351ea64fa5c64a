/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_FOLLOW_H
#define BERTH_CORE_FOLLOW_H
/*
 * The steps of berth_follow(), for who has a source open already and other things to wait for.
 * The positions in the caller's struct advance with the bytes that were given out.
 */
#include "core/record.h"

/* berth_follow() over a source that is open already (sessions). */
int follow_source(struct source *src, struct berth_follow *f,
		  struct berth_error *err) attr_warn_unused;
/* Moves what there is now, as src->st has it. sinks: by stream, made by follow_init_sinks(). */
int follow_move(struct source *src, struct berth_follow *f, struct sink sinks[3],
		struct berth_error *err) attr_warn_unused;
/* Makes the sinks of both streams from the caller's fds and callback; nothing is owned. */
void follow_init_sinks(const struct berth_follow *f, struct sink sinks[3]);
/* Is there more in the record than was moved? */
bool follow_behind(const struct source *src, const struct berth_follow *f);

#endif
