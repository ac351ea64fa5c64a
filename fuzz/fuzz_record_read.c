/* SPDX-License-Identifier: MIT */
/*
 * A read, planned out of a live area that anybody may have written over. Input: u8 state, then u64
 * length, gap_from, gap_to, tail_cap, offset, max.
 */
#include "wire/journal.h"

#include <string.h>

#include "fuzz.h"

enum { INPUT_BYTES = 1 + 6 * 8 };

static void check_plan(const struct record_status *st, uint64_t offset, uint64_t max,
		       const struct record_read *r)
{
	const struct journal_stream *s = &st->out;
	bool certain = st->state != WIRE_S_UNKNOWN && st->state != WIRE_S_PROVIDER_UNAVAILABLE;

	MUST(r->n <= max && r->next == r->offset + r->n && r->next >= r->offset);
	MUST(r->offset >= offset && r->has_gap == (r->offset > offset));
	MUST(r->n == 0 || (r->offset < s->length && r->n <= s->length - r->offset));
	MUST(!r->has_gap || (r->gap_from <= offset && r->gap_to == r->offset &&
			     r->gap_to <= s->length && r->gap_from < r->gap_to));
	/* All from one file: the ring's part does not pass its seam, the head's not the ring. */
	MUST(!r->from_tail ||
	     (s->tail_cap > 0 && r->file_offset < s->tail_cap &&
	      r->n <= s->tail_cap - r->file_offset && r->file_offset == r->offset % s->tail_cap));
	MUST(r->from_tail || r->file_offset == r->offset);
	MUST(r->from_tail || s->tail_cap == 0 || r->n == 0 || r->next <= s->gap_from);
	MUST(r->truncated == (r->next < s->length));
	MUST(r->interrupted == !certain && r->has_total == certain && r->total == s->length);
	MUST(r->eof == (wire_state_is_terminal(st->state) && r->next >= s->length));
	/* It gets on wherever there is something to get. */
	MUST(max == 0 || r->next > offset || offset >= s->length);
	/* What is behind the end stays there. */
	MUST(offset < s->length || (r->n == 0 && r->next == offset && !r->has_gap));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record_status st;
	struct record_read r, err;
	uint64_t v[6];

	if (size < INPUT_BYTES)
		return 0;
	for (size_t i = 0; i < 6; i++)
		v[i] = wire_get_u64(data + 1 + i * 8);
	memset(&st, 0, sizeof(st));
	st.state = data[0] % 16;
	st.out = (struct journal_stream){v[0], v[1], v[2], v[3]};
	memset(&r, 0xa5, sizeof(r));
	record_read_plan(&st, WIRE_STDOUT, v[4], v[5], &r);
	check_plan(&st, v[4], v[5], &r);
	MUST(record_read_valid(&r, &st.out) || (r.from_tail && st.out.gap_to > r.offset));
	st.err = st.out;
	memset(&st.out, 0, sizeof(st.out));
	record_read_plan(&st, WIRE_STDERR, v[4], v[5], &err);
	MUST(err.offset == r.offset && err.n == r.n && err.file_offset == r.file_offset);
	return 0;
}
