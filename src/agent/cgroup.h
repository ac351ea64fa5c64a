/* SPDX-License-Identifier: MIT */
/* cgroup.h: groups of this agent as a whole. */
#ifndef AGENT_CGROUP_H
#define AGENT_CGROUP_H

/* Removes groups of ended executions that a killed supervisor could not remove. */
void groups_sweep(void);

#endif
