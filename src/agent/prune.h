/* SPDX-License-Identifier: MIT */
#ifndef AGENT_PRUNE_H
#define AGENT_PRUNE_H

#include "agent/agent.h"

/*
 * Removes what dead processes have left under tmp/: directories whose lock nobody holds, files
 * older than ten minutes. *bytes (may be NULL) grows by what that freed. For init, once, in a child
 * that nobody waits for; and for PRUNE.
 */
void prune_tmp(uint64_t *bytes);

#endif
