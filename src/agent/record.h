/* SPDX-License-Identifier: MIT */
/*
 * record.h: records as the agent reads them, and STATUS replies made of them.
 */
#ifndef AGENT_RECORD_H
#define AGENT_RECORD_H

#include "agent/agent.h"
#include "wire/journal.h"

/* A record opened for reading. The lock is asked before the bytes are read: a free lock and no
 * TERMINAL is then an end without a
 * word, and not a race. */
struct record {
	int dirfd, jfd;
	const uint8_t *map; /* the whole journal, shared mapping */
	size_t size;
	bool held, same_boot, same_inc;
	struct journal j;
};

/* 0, or -1 and *f (NOT_FOUND when there is none). */
int record_load(int64_t kind, struct wire_slice id, struct record *ret, struct agent_fail *f);
/* The same for an open record directory, which stays the caller's. */
int record_load_at(int dirfd, struct record *ret, struct agent_fail *f);
void record_unload(struct record *r);
/* Is nobody left who holds it? One whose end is written has a keeper that lets go of the lock
 * next: that
 * is waited for. */
bool record_let_go(struct record *r);
void record_status_of(const struct record *r, struct record_status *ret);

enum { REPLY_SPEC = 1, REPLY_ENV = 2, REPLY_EXISTED = 4 };
/* Sends a STATUS reply in a frame of this type. 0 or -1 (stream broken). */
int record_reply(struct conn *c, uint8_t type, struct wire_slice id, const struct record *r,
		 unsigned what);

#endif
