/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_FOLLOW_H
#define BERTH_CORE_FOLLOW_H
#include "core/record.h"

/* berth_follow() over a source that is open already (sessions). */
int follow_source(struct source *src, struct berth_follow *f, struct berth_error *err) attr_warn_unused;

#endif
