/* SPDX-License-Identifier: MIT */
/* output.h: one output stream of an execution, from its pipe to its record. */
#ifndef AGENT_OUTPUT_H
#define AGENT_OUTPUT_H

#include "agent/agent.h"
#include "wire/journal.h"

struct output {
	int stream;        /* WIRE_STDOUT or WIRE_STDERR */
	int recfd;         /* the record, borrowed */
	int pipe;          /* read end, non-blocking; -1 at EOF */
	int head, tail;    /* files, made on the first byte; -1 */
	uint64_t len;      /* every byte the worker wrote */
	uint64_t head_cap; /* bytes kept in the head file; UINT64_MAX: no limit */
	uint64_t tail_cap; /* size of the ring */
	uint64_t gap_from, gap_to;
	bool ringed;    /* the ring is in use: gap_from..gap_to is its boundary, even when empty */
	uint64_t *live; /* 4 words of the mapped journal */
	mode_t mode;    /* of the files, whatever the umask; 0600 until somebody changes it */
};

/* limit -1: none. live: the words of this stream in the mapped journal. */
void output_init(struct output *o, int stream, int recfd, int pipe, int64_t limit, uint8_t *live);
/* Takes what is in the pipe, at most max bytes. 1: there may be more now; 0: empty; -1: EOF
 * (pipe is closed and -1). */
int output_pump(struct output *o, size_t max);
/* Gives the buffer's pages back. */
void output_idle(void);
/* XXH3-128 over every byte, canonical. */
void output_hash(const struct output *o, uint8_t ret[16]);

#endif
