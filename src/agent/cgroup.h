/* SPDX-License-Identifier: MIT */
/* cgroup.h: groups of this agent as a whole. */
#ifndef AGENT_CGROUP_H
#define AGENT_CGROUP_H

#include <stdbool.h>

/* Removes groups of ended executions that a killed supervisor could not remove. patient: waits
 * a little for the kernel. */
void groups_sweep(bool patient);

#endif
