/* SPDX-License-Identifier: MIT */
/* init.h: what others ask of init, and what they do for it. */
#ifndef AGENT_INIT_H
#define AGENT_INIT_H

#include "agent/agent.h"

/* One message of enum init_msg without fds. */
int init_tell(char kind);
/* Fills agent.hash. */
int agent_find_hash(void);
/* Cancels every execution and session with this cause and waits until all are sealed; ends what
 * EXEC has started. Blocks. grace -1: the
 * recorded ones. */
void stop_everything(const char *cause, int64_t grace);

#endif
