/* SPDX-License-Identifier: MIT */
/*
 * journal.h: the record of an execution as bytes, and the pure rules that turn it into a state and
 * into reads. Layout and rules: docs/protocol/agent.md, "The record". No I/O, no allocation.
 */
#ifndef WIRE_JOURNAL_H
#define WIRE_JOURNAL_H

#include "wire/frame.h"

#define JOURNAL_MAGIC   "berthj1\n"
#define JOURNAL_VERSION 1u
#define JOURNAL_FIRST   512u /* offset of the first entry */
#define JOURNAL_LIVE    128u /* offset of the live area of stdout; stderr 32 bytes later */
#define JOURNAL_RESERVE \
	4096u /* zeros written after SPEC at reservation: STATE entries and TERMINAL */
#define JOURNAL_ENTRY_MAX (WIRE_CONTROL_MAX)

enum journal_type { JOURNAL_SPEC = 1, JOURNAL_STATE = 2, JOURNAL_TERMINAL = 3 };

/*
 * Keys of STATE and TERMINAL entries. Only the last STATE and the first TERMINAL are looked at, so
 * an entry repeats what an earlier STATE said and what still holds (containment, view, started).
 */
enum journal_key {
	JK_STATE = 1,       /* wire_state */
	JK_TIME_MS = 2,     /* wall clock */
	JK_CONTAINMENT = 3, /* "pidns" "cgroup" "subreaper" */
	JK_VIEW = 4,        /* "overlay" "reflink" "copy" "none" */
	JK_EXIT_CODE = 5,
	JK_SIGNAL = 6,   /* number */
	JK_PHASE = 7,    /* "startup" "execution" "launch" */
	JK_RESOURCE = 8, /* "cpu" "memory" "file_size" */
	JK_LIMIT = 9,
	JK_MESSAGE = 10, /* one line, at most 500 bytes */
	JK_USER_MS = 11,
	JK_SYSTEM_MS = 12,
	JK_MAX_RSS = 13,   /* bytes */
	JK_LIMIT_HIT = 14, /* repeated: name, NUL, 8 bytes count */
	JK_OUT_LEN = 15,
	JK_ERR_LEN = 16,
	JK_OUT_HASH = 17, /* XXH3-128, 16 bytes canonical */
	JK_ERR_HASH = 18,
	JK_OUT_GAP = 19, /* 16 bytes: from, to (u64 LE) */
	JK_ERR_GAP = 20,
	JK_STARTED_MS = 21, /* when the worker ran; repeated in TERMINAL */
	JK_ERRNO = 22,
	/* In a STATE `starting`: "exec", from here on it may have run. */
	JK_STAGE = 23, /* launch failures: "view" "workdir" "exec" … */
};

/* One output stream as the live area or the seal describes it. */
struct journal_stream {
	uint64_t length;
	uint64_t gap_from, gap_to; /* equal: no gap */
	/* Ring size; 0: everything kept is in the head file, at its own offset. */
	uint64_t tail_cap;
};
/*
 * The writer sets gap_from = gap_to = H before tail_cap, and tail_cap before the first byte goes
 * into the ring; so with tail_cap > 0 bytes before gap_from are in the head file and bytes from
 * gap_to on are in the ring.
 */

/* Writes the 512-byte head. boot and incarnation have 16 bytes. */
void journal_head(uint8_t head[JOURNAL_FIRST], const uint8_t boot[16],
		  const uint8_t incarnation[16], int64_t wall_ms);
/* Bytes that an entry with this payload takes in the file. */
size_t journal_entry_size(size_t payload);
/* Writes one entry; returns its size, or 0 when cap is too small or the payload is empty or above
 * JOURNAL_ENTRY_MAX. */
size_t journal_entry(uint8_t *out, size_t cap, uint32_t type, const void *payload, size_t n);
/* Adds a field ENTRY to a message: the type and the payload of one entry. Nothing when v is absent. */
void journal_put_entry(struct wire_w *w, uint32_t type, struct wire_slice v);

/* A parsed journal; slices borrow from the bytes. */
struct journal {
	uint8_t boot[16], incarnation[16];
	int64_t reserved_ms;
	struct journal_stream out, err; /* from the live area */
	struct wire_slice spec;         /* payload of SPEC; n = 0 when absent */
	struct wire_slice state;        /* payload of the last STATE before any TERMINAL */
	struct wire_slice terminal; /* payload of the first TERMINAL; p = NULL when there is none */
	size_t end;                 /* offset behind the last good entry: where the next one goes */
};

/* Parses head and entries. 0, or -1 when the head is none of ours. Torn entries end the list
 * silently. */
int journal_parse(const void *p, size_t n, struct journal *ret);
/* The same from the parts of a STATUS reply: the 512-byte head, then feed each WK_ENTRY (u32 type +
 * payload). */
int journal_from_head(const void *head, size_t n, struct journal *ret);
void journal_feed(struct journal *j, struct wire_slice entry);
/* The live area of one stream (wire_stream) from the first 512 bytes, which may be mapped and
 * change meanwhile. */
void journal_live(const void *head, int stream, struct journal_stream *ret);

/* What the lock and the machine say beside the journal. */
struct journal_facts {
	bool held; /* F_OFD_GETLK says that somebody holds it */
	bool same_boot;
	bool same_incarnation; /* only meaningful where the sandbox's life is its init's */
	bool init_is_life;     /* the sandbox's executions cannot outlive its init */
	bool init_gone;        /* nobody holds init.lock; only meaningful where that is so */
};

#define JOURNAL_MESSAGE_MAX 500u
#define JOURNAL_HITS_MAX    8u

/*
 * A state as CLI.md prints it, in numbers. Strings are bytes borrowed from the journal or static,
 * without NUL and line breaks, at most JOURNAL_MESSAGE_MAX bytes.
 */
struct record_status {
	int state; /* wire_state */
	bool has_exit_code, has_signal, has_usage, has_limit;
	bool sealed; /* a TERMINAL entry is there: lengths, gaps and hashes are final */
	int exit_code, signo;
	int sys_errno; /* JK_ERRNO of a failed launch, with stage; 0: none */
	struct wire_slice phase, resource, message, containment, view, stage;
	int64_t limit, started_ms, finished_ms; /* 0: not known */
	int64_t user_ms, system_ms, max_rss;
	struct {
		struct wire_slice name;
		int64_t count;
	} hits[JOURNAL_HITS_MAX];
	size_t n_hits;
	struct journal_stream out, err;
	bool has_hashes;
	uint8_t out_hash[16], err_hash[16];
};

/*
 * The rules of "The record". Always succeeds: what cannot be known is WIRE_S_UNKNOWN with a
 * message. A TERMINAL entry is the truth whether or not somebody still holds the lock.
 */
void record_status(const struct journal *j, const struct journal_facts *f,
		   struct record_status *ret);

/* One read of one stream, planned. */
struct record_read {
	uint64_t offset; /* where data begins (behind a gap when the asked offset is inside one) */
	uint64_t next;   /* offset + n */
	size_t n;        /* bytes to read now; all from one file, contiguous */
	bool from_tail;  /* STREAM.tail, else STREAM */
	uint64_t file_offset;
	bool eof, truncated, interrupted, has_gap, has_total;
	uint64_t total, gap_from, gap_to;
};

/*
 * Plans a read of at most max bytes from offset, by the rules of CLI.md (`logs --json`): a read
 * stops at gap.from; one that starts at or inside the gap reports it (whole: what a reader missed
 * begins at the larger of its offset and gap_from) and begins at gap.to; past the end: empty, next
 * = offset. A read that would cross the ring's seam, or go from the head file to the ring, is cut
 * there. total is the length now; it is known (has_total) but for states that are not certain
 * (unknown, provider_unavailable), whose reads are interrupted. eof: terminal and next has reached
 * the length. truncated: bytes were written behind next, kept or not. st is the status at that
 * moment. After reading, the caller asks record_read_valid() with fresh live data; a file that ends
 * early (a machine that lost power) is the caller's to notice.
 */
void record_read_plan(const struct record_status *st, int stream, uint64_t offset, uint64_t max,
		      struct record_read *ret);
/* False when the ring was overwritten meanwhile and the read must be planned anew. */
bool record_read_valid(const struct record_read *r, const struct journal_stream *fresh);

#endif
