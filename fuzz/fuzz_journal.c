/* SPDX-License-Identifier: MIT */
/*
 * A journal. Checksums keep a fuzzer out, so the input has two forms, by its first byte:
 * even: bytes of the file behind a valid head, as they are;
 * odd: 64 bytes of live area, then entries as {u8 type, u16 length, payload}, which are written
 * with journal_entry(), parsed, and turned into a status under all facts.
 */
#include "wire/journal.h"

#include <string.h>

#include "fuzz.h"

enum { LIVE_BYTES = 64 };

static void check_text(struct wire_slice v)
{
	MUST(v.n <= JOURNAL_MESSAGE_MAX && wire_slice_is_text(v));
	MUST(v.n == 0 || (!memchr(v.p, '\n', v.n) && !memchr(v.p, '\r', v.n)));
}

static void check_status(const struct journal *j, const struct journal_facts *f)
{
	struct record_status st;
	bool final;

	memset(&st, 0xa5, sizeof(st));
	record_status(j, f, &st);
	final = wire_state_is_terminal(st.state) || st.state == WIRE_S_UNKNOWN;
	MUST(st.state >= WIRE_S_STARTING && st.state <= WIRE_S_UNKNOWN);
	MUST(st.state != WIRE_S_PROVIDER_UNAVAILABLE);
	/* Nobody holds the lock: it is over, one way or the other. */
	MUST(f->held || final);
	MUST(st.sealed == (j->terminal.p != NULL));
	MUST(!wire_state_is_terminal(st.state) || st.sealed || st.state == WIRE_S_FAILED);
	MUST(st.state != WIRE_S_UNKNOWN || st.message.n > 0);
	MUST(st.exit_code >= 0 && st.exit_code <= 255 && st.signo >= 0 && st.signo <= 64);
	MUST(st.n_hits <= JOURNAL_HITS_MAX);
	check_text(st.message);
	check_text(st.phase);
	check_text(st.resource);
	check_text(st.containment);
	check_text(st.view);
	check_text(st.stage);
	for (size_t i = 0; i < st.n_hits; i++)
		MUST(st.hits[i].name.n > 0 && wire_slice_is_text(st.hits[i].name));
}

static void check_all_facts(const struct journal *j)
{
	for (unsigned bits = 0; bits < 16; bits++) {
		struct journal_facts f = {bits & 1, bits & 2, bits & 4, bits & 8};

		check_status(j, &f);
	}
}

/* The same record, through the fields of a STATUS reply. */
static void check_same(const struct journal *a, const struct journal *b)
{
	MUST(a->spec.n == b->spec.n && a->state.n == b->state.n && a->terminal.n == b->terminal.n);
	MUST(a->out.length == b->out.length && a->err.tail_cap == b->err.tail_cap);
	MUST(a->spec.n == 0 || memcmp(a->spec.p, b->spec.p, a->spec.n) == 0);
	MUST(a->state.n == 0 || memcmp(a->state.p, b->state.p, a->state.n) == 0);
	MUST(a->terminal.n == 0 || memcmp(a->terminal.p, b->terminal.p, a->terminal.n) == 0);
}

static void whole_entries(uint8_t *file, size_t cap, const uint8_t *data, size_t size)
{
	struct journal fed, parsed;
	size_t at = JOURNAL_FIRST;
	uint8_t *entries = fuzz_alloc(size * 2), *e = entries;

	if (size >= LIVE_BYTES) {
		memcpy(file + JOURNAL_LIVE, data, LIVE_BYTES);
		data += LIVE_BYTES, size -= LIVE_BYTES;
	}
	MUST(journal_from_head(file, JOURNAL_FIRST, &fed) == 0);
	while (size > 3) {
		size_t n = wire_get_u16(data + 1), wrote;

		n = n > size - 3 ? size - 3 : n;
		wrote = journal_entry(file + at, cap - at, data[0], data + 3, n);
		MUST(wrote == (n > 0 ? journal_entry_size(n) : 0));
		at += wrote;
		wire_put_u32(e, data[0]);
		memcpy(e + 4, data + 3, n);
		journal_feed(&fed, (struct wire_slice){e, n + 4});
		e += n + 4;
		data += 3 + n, size -= 3 + n;
	}
	MUST(journal_parse(file, cap, &parsed) == 0 && parsed.end == at);
	check_same(&fed, &parsed);
	check_all_facts(&parsed);
	MUST(journal_parse(file, at, &parsed) == 0 && parsed.end == at);
	if (at > JOURNAL_FIRST)
		MUST(journal_parse(file, at - 1, &parsed) == 0 && parsed.end < at);
	free(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t id[16] = {1};
	size_t cap = JOURNAL_FIRST + (size < 2 ? 0 : size - 1) * 8 + 64;
	uint8_t *file;
	struct journal j;

	if (size == 0)
		return 0;
	file = fuzz_alloc(cap);
	memset(file, 0, cap);
	journal_head(file, id, id, 7);
	if (data[0] & 1) {
		whole_entries(file, cap, data + 1, size - 1);
	} else {
		memcpy(file + JOURNAL_FIRST, data + 1, size - 1);
		MUST(journal_parse(file, JOURNAL_FIRST + size - 1, &j) == 0);
		MUST(j.end >= JOURNAL_FIRST && j.end <= JOURNAL_FIRST + size - 1 && j.end % 8 == 0);
		check_all_facts(&j);
	}
	if (journal_parse(data, size, &j) == 0)
		check_all_facts(&j);
	free(file);
	return 0;
}
