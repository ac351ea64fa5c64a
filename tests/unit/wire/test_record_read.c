/* SPDX-License-Identifier: MIT */
/*
 * Planned reads: the rules of `logs --json` one by one, and a model of the writer (head file, ring,
 * live area, in the order the protocol page gives) that is read in every way at small sizes, also
 * while it writes.
 */
#include "wire/journal.h"

#include "bytes.h"

static struct record_status status_of(int state, struct journal_stream out)
{
	struct record_status st;

	memset(&st, 0, sizeof(st));
	st.state = state;
	st.out = out;
	return st;
}

enum { EOF_ = 1, TRUNC = 2, INTR = 4, TAIL = 8, GAP = 16, NOTOTAL = 32 };

static const struct {
	const char *what;
	int state;
	struct journal_stream s; /* length, gap_from, gap_to, tail_cap */
	uint64_t offset, max;
	uint64_t want_offset, want_n, want_file;
	unsigned flags;
} cases[] = {
	/* no limit reached: all in the head file */
	{"head, whole", WIRE_S_RUNNING, {10, 0, 0, 0}, 0, 100, 0, 10, 0, 0},
	{"head, a part", WIRE_S_RUNNING, {10, 0, 0, 0}, 2, 3, 2, 3, 2, TRUNC},
	{"head, the last byte", WIRE_S_EXITED, {10, 0, 0, 0}, 9, 1, 9, 1, 9, EOF_},
	{"head, not the last byte", WIRE_S_EXITED, {10, 0, 0, 0}, 0, 9, 0, 9, 0, TRUNC},
	{"nothing asked", WIRE_S_EXITED, {10, 0, 0, 0}, 3, 0, 3, 0, 3, TRUNC},
	{"nothing asked at the end", WIRE_S_EXITED, {10, 0, 0, 0}, 10, 0, 10, 0, 10, EOF_},
	{"at the end, running", WIRE_S_RUNNING, {10, 0, 0, 0}, 10, 9, 10, 0, 10, 0},
	{"at the end, ended", WIRE_S_FAILED, {10, 0, 0, 0}, 10, 9, 10, 0, 10, EOF_},
	{"past the end, running", WIRE_S_RUNNING, {10, 0, 0, 0}, 11, 9, 11, 0, 11, 0},
	{"past the end, ended", WIRE_S_EXITED, {10, 0, 0, 0}, 1000, 9, 1000, 0, 1000, EOF_},
	{"the last offset there is",
	 WIRE_S_EXITED,
	 {10, 0, 0, 0},
	 UINT64_MAX,
	 UINT64_MAX,
	 UINT64_MAX,
	 0,
	 UINT64_MAX,
	 EOF_},
	{"empty, starting", WIRE_S_STARTING, {0, 0, 0, 0}, 0, 9, 0, 0, 0, 0},
	{"empty, ended", WIRE_S_CANCELLED, {0, 0, 0, 0}, 0, 9, 0, 0, 0, EOF_},
	{"as long as can be",
	 WIRE_S_RUNNING,
	 {UINT64_MAX, 0, 0, 0},
	 1,
	 UINT64_MAX,
	 1,
	 UINT64_MAX - 1,
	 1,
	 0},
	/* each terminal state has an EOF, the others have none */
	{"timed out", WIRE_S_TIMED_OUT, {1, 0, 0, 0}, 1, 1, 1, 0, 1, EOF_},
	{"exhausted", WIRE_S_RESOURCE_EXHAUSTED, {1, 0, 0, 0}, 1, 1, 1, 0, 1, EOF_},
	{"unknown, data", WIRE_S_UNKNOWN, {10, 0, 0, 0}, 0, 9, 0, 9, 0, TRUNC | INTR | NOTOTAL},
	{"unknown, at the end", WIRE_S_UNKNOWN, {10, 0, 0, 0}, 10, 9, 10, 0, 10, INTR | NOTOTAL},
	{"unavailable",
	 WIRE_S_PROVIDER_UNAVAILABLE,
	 {10, 0, 0, 0},
	 10,
	 9,
	 10,
	 0,
	 10,
	 INTR | NOTOTAL},
	/* a ring was begun at 6 and not overwritten: 6 in the head, 4 in the ring of 5 */
	{"head before a ring", WIRE_S_RUNNING, {10, 6, 6, 5}, 0, 100, 0, 6, 0, TRUNC},
	{"the ring's first byte", WIRE_S_RUNNING, {10, 6, 6, 5}, 6, 100, 6, 4, 1, TAIL},
	{"to the seam", WIRE_S_EXITED, {11, 6, 6, 5}, 7, 100, 7, 3, 2, TAIL | TRUNC},
	{"from the seam", WIRE_S_EXITED, {11, 6, 6, 5}, 10, 100, 10, 1, 0, TAIL | EOF_},
	/* overwritten: 6 in the head, 6 … 17 gone, 17 … 22 in the ring of 5 */
	{"head, up to the gap", WIRE_S_EXITED, {22, 6, 17, 5}, 4, 100, 4, 2, 4, TRUNC},
	{"at the gap", WIRE_S_EXITED, {22, 6, 17, 5}, 6, 100, 17, 3, 2, TAIL | GAP | TRUNC},
	{"inside the gap", WIRE_S_EXITED, {22, 6, 17, 5}, 16, 1, 17, 1, 2, TAIL | GAP | TRUNC},
	{"inside, nothing asked",
	 WIRE_S_EXITED,
	 {22, 6, 17, 5},
	 9,
	 0,
	 17,
	 0,
	 2,
	 TAIL | GAP | TRUNC},
	{"behind the gap", WIRE_S_EXITED, {22, 6, 17, 5}, 17, 100, 17, 3, 2, TAIL | TRUNC},
	{"behind the seam", WIRE_S_EXITED, {22, 6, 17, 5}, 20, 100, 20, 2, 0, TAIL | EOF_},
	{"at the end of a ring", WIRE_S_EXITED, {22, 6, 17, 5}, 22, 100, 22, 0, 2, TAIL | EOF_},
	/* a full disk without a ring: behind the gap the head file goes on at the same offset */
	{"full disk, before", WIRE_S_EXITED, {30, 10, 20, 0}, 0, 100, 0, 10, 0, TRUNC},
	{"full disk, inside", WIRE_S_EXITED, {30, 10, 20, 0}, 10, 100, 20, 10, 20, GAP | EOF_},
	{"full disk, behind", WIRE_S_EXITED, {30, 10, 20, 0}, 25, 2, 25, 2, 25, TRUNC},
	{"full disk to the end", WIRE_S_EXITED, {30, 10, 30, 0}, 5, 100, 5, 5, 5, TRUNC},
	{"nothing but a gap", WIRE_S_EXITED, {30, 10, 30, 0}, 10, 100, 30, 0, 30, GAP | EOF_},
	{"gap from the start", WIRE_S_EXITED, {30, 0, 30, 0}, 0, 100, 30, 0, 30, GAP | EOF_},
	/* a gap that is ahead of the length, as a reader may see it while the ring is written */
	{"gap ahead, in the head", WIRE_S_RUNNING, {22, 6, 25, 5}, 4, 100, 4, 2, 4, TRUNC},
	{"gap ahead, inside", WIRE_S_RUNNING, {22, 6, 25, 5}, 18, 100, 22, 0, 2, TAIL | GAP},
	/* a length that is ahead of the gap: the ring cannot hold more than its size */
	{"length ahead", WIRE_S_RUNNING, {22, 6, 8, 5}, 8, 100, 17, 3, 2, TAIL | GAP | TRUNC},
	{"length ahead, no gap yet",
	 WIRE_S_RUNNING,
	 {22, 6, 6, 5},
	 6,
	 100,
	 17,
	 3,
	 2,
	 TAIL | GAP | TRUNC},
	/* nonsense from a record that somebody wrote over */
	{"gap backwards", WIRE_S_EXITED, {10, 6, 3, 0}, 0, 100, 0, 10, 0, EOF_},
	{"gap behind the end", WIRE_S_EXITED, {10, 50, 60, 0}, 0, 100, 0, 10, 0, EOF_},
	{"everything at most",
	 WIRE_S_EXITED,
	 {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
	 0,
	 UINT64_MAX,
	 0,
	 UINT64_MAX,
	 0,
	 EOF_},
};

TEST(rules)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%s", cases[i].what)
		{
			struct record_status st = status_of(cases[i].state, cases[i].s);
			struct record_read r;
			unsigned f = cases[i].flags;

			memset(&r, 0xa5, sizeof(r));
			record_read_plan(&st, WIRE_STDOUT, cases[i].offset, cases[i].max, &r);
			CHECK(r.offset == cases[i].want_offset);
			CHECK(r.n == cases[i].want_n);
			CHECK(r.next == r.offset + r.n);
			CHECK(r.file_offset == cases[i].want_file);
			CHECK_EQ(r.eof, !!(f & EOF_));
			CHECK_EQ(r.truncated, !!(f & TRUNC));
			CHECK_EQ(r.interrupted, !!(f & INTR));
			CHECK_EQ(r.has_total, !(f & NOTOTAL));
			CHECK(!r.has_total || r.total == cases[i].s.length);
			CHECK_EQ(r.from_tail, !!(f & TAIL));
			CHECK_EQ(r.has_gap, !!(f & GAP));
			if (r.has_gap)
				CHECK(r.gap_from == cases[i].s.gap_from && r.gap_to == r.offset);
			else
				CHECK(r.gap_from == 0 && r.gap_to == 0);
		}
	}
}

TEST(the_stream_that_was_asked)
{
	struct record_status st = status_of(WIRE_S_EXITED, (struct journal_stream){10, 0, 0, 0});
	struct record_read r;

	st.err.length = 3;
	record_read_plan(&st, WIRE_STDOUT, 0, 100, &r);
	ASSERT_EQ(r.n, 10);
	record_read_plan(&st, WIRE_STDERR, 0, 100, &r);
	ASSERT_EQ(r.n, 3);
}

TEST(validity)
{
	struct record_status st = status_of(WIRE_S_RUNNING, (struct journal_stream){22, 6, 17, 5});
	struct journal_stream fresh = st.out;
	struct record_read r;

	record_read_plan(&st, WIRE_STDOUT, 18, 2, &r);
	ASSERT(r.from_tail && record_read_valid(&r, &fresh));
	fresh.gap_to = 18;
	ASSERT(record_read_valid(&r, &fresh));
	fresh.gap_to = 19;
	ASSERT(!record_read_valid(&r, &fresh));
	r.n = 0; /* nothing was read, nothing can be wrong */
	ASSERT(record_read_valid(&r, &fresh));
	record_read_plan(&st, WIRE_STDOUT, 0, 3, &r);
	fresh.gap_to = UINT64_MAX; /* the head is never overwritten */
	ASSERT(record_read_valid(&r, &fresh));
}

/* ── a model of the writer ───────────────────────────────────────────────────────────────────────
 */

struct model {
	struct journal_stream live;
	uint64_t limit; /* L; 0: none */
	uint8_t head[256], tail[128];
	unsigned stop; /* steps until it stops inside a write; for readers that look meanwhile */
	bool stopped;
};

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 7 + offset / 32 + 1);
}

/* One store that others can see; false when the writer is to stand still before it. */
static bool step(struct model *m)
{
	if (m->stop == 0)
		m->stopped = true;
	else
		m->stop--;
	return !m->stopped;
}

static void model_write(struct model *m, uint64_t n)
{
	uint64_t cap = m->limit / 2, head_max = m->limit ? m->limit - cap : UINT64_MAX;
	uint64_t from = m->live.length, to = from + n;

	for (uint64_t o = from; o < to && o < head_max; o++) {
		if (!step(m))
			return;
		m->head[o] = byte_at(o);
	}
	if (to > head_max && m->live.gap_from == 0) {
		if (!step(m))
			return;
		m->live.gap_from = m->live.gap_to = head_max;
		if (!step(m))
			return;
		m->live.tail_cap = cap;
	}
	if (to > head_max && to - head_max > cap) {
		if (!step(m))
			return;
		m->live.gap_to = to - cap;
	}
	/* Only what stays is written. */
	for (uint64_t o = from > to - cap ? from : to - cap; to > head_max && o < to; o++) {
		if (o < head_max)
			continue;
		if (!step(m))
			return;
		m->tail[o % cap] = byte_at(o);
	}
	if (!step(m))
		return;
	m->live.length = to;
}

/* The bytes that a plan names are the bytes of the stream. */
static bool bytes_true(const struct model *m, const struct record_read *r)
{
	const uint8_t *file = r->from_tail ? m->tail : m->head;

	for (size_t i = 0; i < r->n; i++) {
		if (file[r->file_offset + i] != byte_at(r->offset + i))
			return false;
	}
	return true;
}

/* Reads all of it from offset on in pieces; returns the number of bytes delivered. */
static uint64_t read_all(const struct model *m, int state, uint64_t offset, uint64_t max)
{
	uint64_t got = 0, len = m->live.length;
	struct record_status st = status_of(state, m->live);
	struct record_read r;

	do {
		record_read_plan(&st, WIRE_STDOUT, offset, max, &r);
		ASSERT(r.n <= max && r.next == r.offset + r.n);
		ASSERT(bytes_true(m, &r));
		ASSERT(record_read_valid(&r, &m->live));
		ASSERT(!r.from_tail || r.file_offset + r.n <= m->live.tail_cap);
		ASSERT_EQ(r.has_gap, r.offset != offset);
		if (r.has_gap)
			ASSERT(r.gap_from <= offset && r.gap_to == r.offset);
		ASSERT(r.truncated == (r.next < len));
		ASSERT(r.eof == (wire_state_is_terminal(state) && r.next >= len));
		ASSERT(r.next > offset || r.next >= len); /* it gets on */
		got += r.n;
		offset = r.next;
	} while (r.truncated);
	return got;
}

/* Bytes at or behind offset that a stream of this length keeps. */
static uint64_t kept_from(uint64_t limit, uint64_t length, uint64_t offset)
{
	uint64_t n = 0, cap = limit / 2, head = limit - cap;

	for (uint64_t o = offset; o < length; o++)
		n += limit == 0 || o < head || o >= length - cap || length <= limit;
	return n;
}

TEST_TIMEOUT(every_byte_that_is_kept_is_read, 60)
{
	static const uint64_t chunks[] = {1, 2, 3, 7, 50};

	for (uint64_t limit = 0; limit <= 13; limit++) {
		for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
			struct model m = {.limit = limit, .stop = UINT32_MAX};

			for (uint64_t len = 0; len <= 60; len += chunks[c]) {
				if (len > 0)
					model_write(&m, chunks[c]);
				ASSERT_EQ(m.live.length, len);
				for (uint64_t off = 0; off <= len + 1; off += off < 20 ? 1 : 5) {
					uint64_t want = kept_from(limit, len, off);

					ASSERT_EQ(read_all(&m, WIRE_S_EXITED, off, 1), want);
					ASSERT_EQ(read_all(&m, WIRE_S_EXITED, off, 4), want);
					ASSERT_EQ(read_all(&m, WIRE_S_RUNNING, off, 1000), want);
				}
			}
		}
	}
}

/*
 * A reader plans at one instant of the writer, copies bytes at a later one, asks whether they are
 * valid at a third. When it is told so, they are true. Every triple of instants of two writes.
 */
TEST_TIMEOUT(reads_beside_a_writer, 120)
{
	enum { STEPS = 40 };
	static struct model at[STEPS];
	unsigned long valid = 0, refused = 0;

	for (uint64_t limit = 1; limit <= 9; limit++) {
		for (uint64_t before = 0; before <= 14; before++) {
			unsigned n = 0;

			for (n = 0; n < STEPS; n++) {
				struct model *m = &at[n];

				*m = (struct model){.limit = limit, .stop = UINT32_MAX};
				model_write(m, before);
				m->stop = n;
				model_write(m, 3);
				if (!m->stopped)
					model_write(m, 5);
				if (!m->stopped)
					break;
			}
			ASSERT_LT(n, STEPS);
			for (unsigned plan = 0; plan <= n; plan++) {
				struct record_status st = status_of(WIRE_S_RUNNING, at[plan].live);

				for (uint64_t off = 0; off <= before + 8; off++) {
					struct record_read r;

					record_read_plan(&st, WIRE_STDOUT, off, 100, &r);
					for (unsigned look = plan; look <= n; look++) {
						bool ok = bytes_true(&at[look], &r);

						/* at the worst moment to ask: at once */
						bool v = record_read_valid(&r, &at[look].live);

						if (v && !ok)
							FAIL("limit %d, before %d, plan %u, look "
							     "%u, "
							     "offset %d: false bytes called valid",
							     (int)limit, (int)before, plan, look,
							     (int)off);
						valid += v && r.n > 0;
						refused += !v;
					}
				}
			}
		}
	}
	ASSERT_GT(valid, 1000);
	ASSERT_GT(refused, 1000);
}

TEST_MAIN()
