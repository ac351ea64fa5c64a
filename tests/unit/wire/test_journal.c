/* SPDX-License-Identifier: MIT */
/*
 * Journals as bytes: known answers, journals torn at every byte and changed at every bit, and the
 * two ways to read one (from the file, from a STATUS reply).
 */
#include "wire/journal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bytes.h"

static const uint8_t boot[16] = {0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7,
				 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf};
static const uint8_t inc[16] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
				0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};

/* A whole journal: head, SPEC, two STATEs, TERMINAL, the rest of the reserve. */
enum { N_ENTRIES = 4, FILE_SIZE = JOURNAL_FIRST + 1024 };
static uint8_t file[FILE_SIZE];
static size_t start[N_ENTRIES + 1];
static const struct {
	uint32_t type;
	const char *payload;
	size_t n;
} entries[N_ENTRIES] = {
	{JOURNAL_SPEC, "the spec, 21 bytes   ", 21},
	{JOURNAL_STATE, "starting", 8},
	{JOURNAL_STATE, "running\0", 8}, /* ends with a 0 */
	{JOURNAL_TERMINAL, "the end", 7},
};

static void build(void)
{
	size_t at = JOURNAL_FIRST;

	memset(file, 0, sizeof(file));
	journal_head(file, boot, inc, 1234);
	for (size_t i = 0; i < N_ENTRIES; i++) {
		start[i] = at;
		at += journal_entry(file + at, sizeof(file) - at, entries[i].type,
				    entries[i].payload, entries[i].n);
	}
	start[N_ENTRIES] = at;
}

TEST(known_head)
{
	uint8_t head[JOURNAL_FIRST];

	memset(head, 0xee, sizeof(head));
	journal_head(head, boot, inc, 0x0102030405060708);
	ASSERT_HEX(head, 64,
		   "62657274686a310a  01000000 00020000  b0b1b2b3b4b5b6b7b8b9babbbcbdbebf"
		   "101112131415161718191a1b1c1d1e1f  0807060504030201 0000000000000000");
	for (size_t i = 64; i < sizeof(head); i++)
		ASSERT_EQ(head[i], 0);
}

TEST(known_entries)
{
	uint8_t out[64];

	/* The checksums were computed with XXH3_64bits of libxxhash, apart from this code. */
	ASSERT_EQ(journal_entry(out, sizeof(out), JOURNAL_STATE, "abc", 3), 24);
	ASSERT_HEX(out, 24, "03000000 02000000 6162630000000000 1155f5e31ed41f02");
	ASSERT_EQ(journal_entry(out, sizeof(out), JOURNAL_TERMINAL, "12345678", 8), 24);
	ASSERT_HEX(out, 24, "08000000 03000000 3132333435363738 c3bb895afc2ed044");
	ASSERT_EQ(journal_entry(out, sizeof(out), JOURNAL_SPEC, "123456789", 9), 32);
	ASSERT_HEX(out, 32, "09000000 01000000 31323334353637383900000000000000 20385c1adffb0edc");
}

TEST(known_long_entry)
{
	/* Above 240 bytes XXH3 takes another way. */
	uint8_t payload[1000], out[1024 + 16];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)i;
	ASSERT_EQ(journal_entry(out, sizeof(out), JOURNAL_SPEC, payload, sizeof(payload)), 1016);
	ASSERT_HEX(out + 1008, 8, "c1618a0ac68bd98d");
}

TEST(entry_sizes)
{
	uint8_t payload[64] = {1}, out[128];

	for (size_t n = 1; n <= sizeof(payload); n++) {
		size_t want = 8 + (n + 7) / 8 * 8 + 8;

		ASSERT_EQ(journal_entry_size(n), want);
		for (size_t cap = 0; cap <= want + 1; cap++) {
			memset(out, 0xee, sizeof(out));
			ASSERT_EQ(journal_entry(out, cap, 1, payload, n), cap >= want ? want : 0);
			for (size_t i = cap >= want ? want : 0; i < sizeof(out); i++)
				ASSERT_EQ(out[i], 0xee);
		}
	}
	ASSERT_EQ(journal_entry(out, sizeof(out), 1, payload, 0), 0);
	ASSERT_EQ(journal_entry(out, SIZE_MAX, 1, payload, JOURNAL_ENTRY_MAX + 1), 0);
}

TEST(parse_whole)
{
	struct journal j;

	build();
	wire_put_u64(file + 128, 11);
	wire_put_u64(file + 136, 12);
	wire_put_u64(file + 144, 13);
	wire_put_u64(file + 152, 14);
	wire_put_u64(file + 160, 21);
	wire_put_u64(file + 168, 22);
	wire_put_u64(file + 176, 23);
	wire_put_u64(file + 184, 24);
	ASSERT_EQ(journal_parse(file, sizeof(file), &j), 0);
	ASSERT_MEMEQ(j.boot, 16, boot, 16);
	ASSERT_MEMEQ(j.incarnation, 16, inc, 16);
	ASSERT_EQ(j.reserved_ms, 1234);
	ASSERT_MEMEQ(j.spec.p, j.spec.n, entries[0].payload, entries[0].n);
	ASSERT_MEMEQ(j.state.p, j.state.n, entries[2].payload, entries[2].n);
	ASSERT_MEMEQ(j.terminal.p, j.terminal.n, entries[3].payload, entries[3].n);
	ASSERT_EQ(j.end, start[N_ENTRIES]);
	ASSERT_EQ(j.out.length, 11);
	ASSERT_EQ(j.out.gap_from, 12);
	ASSERT_EQ(j.out.gap_to, 13);
	ASSERT_EQ(j.out.tail_cap, 14);
	ASSERT_EQ(j.err.length, 21);
	ASSERT_EQ(j.err.gap_from, 22);
	ASSERT_EQ(j.err.gap_to, 23);
	ASSERT_EQ(j.err.tail_cap, 24);
}

/* Mapped or copied, aligned or not. */
TEST(live_at_any_alignment)
{
	uint8_t *m = malloc(JOURNAL_FIRST + 8);
	struct journal_stream s;

	ASSERT_NOT_NULL(m);
	for (size_t shift = 0; shift < 8; shift++) {
		journal_head(m + shift, boot, inc, 0);
		wire_put_u64(m + shift + 128, UINT64_MAX);
		wire_put_u64(m + shift + 160, 77);
		wire_put_u64(m + shift + 184, UINT64_C(0x8000000000000001));
		journal_live(m + shift, WIRE_STDOUT, &s);
		ASSERT(s.length == UINT64_MAX && s.tail_cap == 0);
		journal_live(m + shift, WIRE_STDERR, &s);
		ASSERT(s.length == 77 && s.tail_cap == UINT64_C(0x8000000000000001));
	}
	free(m);
}

/* Entries of a torn file that are as they were written. */
static size_t intact(const uint8_t *torn, size_t n)
{
	size_t i = 0;

	while (i < N_ENTRIES && start[i + 1] <= n &&
	       memcmp(torn + start[i], file + start[i], start[i + 1] - start[i]) == 0)
		i++;
	return i;
}

static void assert_entries(const uint8_t *p, size_t n, size_t want)
{
	uint8_t *m = exact(p, n);
	struct journal j;
	const int last_state = want > 2 ? 2 : (int)want - 1;

	ASSERT_EQ(journal_parse(m, n, &j), 0);
	ASSERT_EQ(j.end, start[want]);
	if (want > 0)
		ASSERT_MEMEQ(j.spec.p, j.spec.n, entries[0].payload, entries[0].n);
	else
		ASSERT(!j.spec.p && j.spec.n == 0);
	if (want > 1)
		ASSERT_MEMEQ(j.state.p, j.state.n, entries[last_state].payload,
			     entries[last_state].n);
	else
		ASSERT(!j.state.p && j.state.n == 0);
	if (want > 3)
		ASSERT_MEMEQ(j.terminal.p, j.terminal.n, entries[3].payload, entries[3].n);
	else
		ASSERT(!j.terminal.p && j.terminal.n == 0);
	free(m);
}

TEST(cut_off_at_every_byte)
{
	struct journal j;

	build();
	for (size_t n = 0; n < JOURNAL_FIRST; n++) {
		uint8_t *m = exact(file, n);

		ASSERT_EQ(journal_parse(m, n, &j), -1);
		ASSERT_EQ(journal_from_head(m, n, &j), -1);
		free(m);
	}
	for (size_t n = JOURNAL_FIRST; n <= sizeof(file); n++)
		assert_entries(file, n, intact(file, n));
}

/* The space was zeros before: what a write that stopped at any byte leaves. */
TEST(torn_at_every_byte_in_the_reserve)
{
	build();
	for (size_t n = JOURNAL_FIRST; n <= start[N_ENTRIES]; n++) {
		uint8_t torn[FILE_SIZE] = {0};

		memcpy(torn, file, n);
		assert_entries(torn, sizeof(torn), intact(torn, sizeof(torn)));
	}
}

/* Pages come to the disk in any order: an entry whose beginning is missing. */
TEST(torn_at_the_front)
{
	build();
	for (size_t n = JOURNAL_FIRST; n < start[N_ENTRIES]; n++) {
		uint8_t torn[FILE_SIZE];

		memcpy(torn, file, sizeof(torn));
		for (size_t from = JOURNAL_FIRST; from <= n; from++)
			torn[from] = 0;
		assert_entries(torn, sizeof(torn), intact(torn, sizeof(torn)));
	}
}

TEST(every_changed_bit_is_seen)
{
	build();
	for (size_t bit = JOURNAL_FIRST * 8; bit < start[N_ENTRIES] * 8; bit++) {
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
		size_t hit = 0;

		while (start[hit + 1] <= bit / 8)
			hit++;
		assert_entries(file, sizeof(file), hit);
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

TEST(heads_of_others)
{
	struct journal j, before;

	build();
	memset(&j, 0x5a, sizeof(j));
	before = j;
	for (size_t i = 0; i < 16; i++) { /* magic, version, first */
		file[i] ^= 1;
		ASSERT_EQ(journal_parse(file, sizeof(file), &j), -1);
		ASSERT_MEMEQ(&j, sizeof(j), &before, sizeof(before));
		file[i] ^= 1;
	}
	for (size_t i = 56; i < JOURNAL_FIRST; i++) { /* reserved: for the future */
		file[i] ^= 0xff;
		ASSERT_EQ(journal_parse(file, sizeof(file), &j), 0);
		file[i] ^= 0xff;
	}
}

TEST(lengths_that_lie)
{
	static const uint32_t lies[] = {1,
					9,
					64,
					JOURNAL_ENTRY_MAX,
					JOURNAL_ENTRY_MAX + 1,
					INT32_MAX,
					0x80000000u,
					UINT32_MAX - 7,
					UINT32_MAX};

	build();
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		wire_put_u32(file + start[1], lies[i]);
		assert_entries(file, sizeof(file), 1);
	}
}

/* A right checksum does not help an entry that must not be. */
TEST(entries_that_are_empty_or_too_long)
{
	static const size_t lengths[] = {0, JOURNAL_ENTRY_MAX, JOURNAL_ENTRY_MAX + 8};
	size_t size = JOURNAL_FIRST + journal_entry_size(JOURNAL_ENTRY_MAX + 8);
	uint8_t *m = calloc(1, size);
	struct journal j;

	ASSERT_NOT_NULL(m);
	for (size_t i = 0; i < 3; i++) {
		uint8_t *e = m + JOURNAL_FIRST;
		size_t body = 8 + lengths[i];

		memset(m, 0, size);
		journal_head(m, boot, inc, 0);
		wire_put_u32(e, (uint32_t)lengths[i]);
		wire_put_u32(e + 4, JOURNAL_SPEC);
		wire_put_u64(e + body, XXH3_64bits(e, body));
		ASSERT_EQ(journal_parse(m, size, &j), 0);
		if (lengths[i] == JOURNAL_ENTRY_MAX) {
			ASSERT_EQ(j.spec.n, JOURNAL_ENTRY_MAX);
			ASSERT_EQ(j.end, JOURNAL_FIRST + body + 8);
		} else {
			ASSERT_NULL(j.spec.p);
			ASSERT_EQ(j.end, JOURNAL_FIRST);
		}
	}
	free(m);
}

static void add(size_t *at, uint32_t type, const char *payload)
{
	size_t n = journal_entry(file + *at, sizeof(file) - *at, type, payload, strlen(payload));

	ASSERT_GT(n, 0);
	*at += n;
}

TEST(which_entry_counts)
{
	size_t at = JOURNAL_FIRST;
	struct journal j;

	memset(file, 0, sizeof(file));
	journal_head(file, boot, inc, 1);
	add(&at, JOURNAL_SPEC, "first spec");
	add(&at, 99, "of the future");
	add(&at, JOURNAL_SPEC, "second spec");
	add(&at, 0, "type 0");
	add(&at, JOURNAL_STATE, "state 1");
	add(&at, JOURNAL_STATE, "state 2");
	add(&at, JOURNAL_TERMINAL, "first end");
	add(&at, JOURNAL_STATE, "after the end");
	add(&at, JOURNAL_TERMINAL, "second end");
	ASSERT_EQ(journal_parse(file, sizeof(file), &j), 0);
	SLICE_IS(j.spec, "first spec");
	SLICE_IS(j.state, "state 2");
	SLICE_IS(j.terminal, "first end");
	ASSERT_EQ(j.end, at);
}

TEST(from_a_status_reply)
{
	uint8_t entry[64];
	struct journal j, k;

	build();
	ASSERT_EQ(journal_parse(file, sizeof(file), &j), 0);
	ASSERT_EQ(journal_from_head(file, JOURNAL_FIRST, &k), 0);
	ASSERT_EQ(k.end, JOURNAL_FIRST);
	journal_feed(&k, (struct wire_slice){NULL, 0});
	journal_feed(&k, (struct wire_slice){(const uint8_t *)"\1\0\0\0", 4}); /* no payload */
	journal_feed(&k, (struct wire_slice){(const uint8_t *)"\1\0\0", 3});
	ASSERT_NULL(k.spec.p);
	for (size_t i = 0; i < N_ENTRIES; i++) {
		uint8_t *m;

		wire_put_u32(entry, entries[i].type);
		memcpy(entry + 4, entries[i].payload, entries[i].n);
		m = exact(entry, 4 + entries[i].n);
		journal_feed(&k, (struct wire_slice){m, 4 + entries[i].n});
		if (i == 0)
			ASSERT_MEMEQ(k.spec.p, k.spec.n, j.spec.p, j.spec.n);
		if (i == 2)
			ASSERT_MEMEQ(k.state.p, k.state.n, j.state.p, j.state.n);
		if (i == 3)
			ASSERT_MEMEQ(k.terminal.p, k.terminal.n, j.terminal.p, j.terminal.n);
		free(m);
	}
	ASSERT_MEMEQ(k.boot, 16, j.boot, 16);
	ASSERT_EQ(k.reserved_ms, j.reserved_ms);
}

TEST(known_keys)
{
	static const int keys[] = {
		JK_STATE,   JK_TIME_MS,   JK_CONTAINMENT, JK_VIEW,    JK_EXIT_CODE, JK_SIGNAL,
		JK_PHASE,   JK_RESOURCE,  JK_LIMIT,       JK_MESSAGE, JK_USER_MS,   JK_SYSTEM_MS,
		JK_MAX_RSS, JK_LIMIT_HIT, JK_OUT_LEN,     JK_ERR_LEN, JK_OUT_HASH,  JK_ERR_HASH,
		JK_OUT_GAP, JK_ERR_GAP,   JK_STARTED_MS,  JK_ERRNO,   JK_STAGE,
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		CHECK_EQ(keys[i], (int)i + 1);
	ASSERT_EQ(JOURNAL_SPEC, 1);
	ASSERT_EQ(JOURNAL_STATE, 2);
	ASSERT_EQ(JOURNAL_TERMINAL, 3);
}

TEST_MAIN()
