/* SPDX-License-Identifier: MIT */
/* attach.h: talking to a supervisor from a connection child. */
#ifndef AGENT_ATTACH_H
#define AGENT_ATTACH_H

#include "agent/agent.h"

/* Connects to `control` in the record directory. fd, or -1 and errno. */
int attach_open(int dirfd);
/* Waits on fd for one frame of a supervisor and passes it on to c as the final answer. 1:
 * passed on; 0: the supervisor hung up without one; -1:
 * c is gone. */
int attach_relay(struct conn *c, int fd);
/* The same request to the supervisor and its answer back, or, when it is gone, a STATUS reply
 * from the record (watch and
 * cancel) or ERROR CONFLICT (the others). */
int attach_request(struct conn *c, uint8_t type, const uint8_t *p, size_t n, bool status);
/* STATUS reply of an execution whose supervisor is gone or going. what: REPLY_ flags. */
int attach_settled(struct conn *c, int64_t kind, struct wire_slice id, unsigned what);
/* Sends a frame on any socket. */
int attach_send(int fd, uint8_t type, const void *p, size_t n);

#endif
