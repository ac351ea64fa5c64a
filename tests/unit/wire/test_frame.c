/* SPDX-License-Identifier: MIT */
/*
 * Frames and fields: known answers for the frozen part, writers that are too small at every size,
 * and readers of bytes that were cut off or lie.
 */
#include "wire/frame.h"

#include "bytes.h"

static uint8_t buf[4096];

static struct wire_w writer(void)
{
	struct wire_w w;

	wire_w_init(&w, buf, sizeof(buf));
	return w;
}

/* The frozen part of the protocol, byte by byte. These lines never change. */
TEST(known_hello)
{
	struct wire_w w = writer();
	size_t f = wire_w_frame_begin(&w, WIRE_HELLO);

	wire_w_int(&w, WK_PROTO, 1);
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len, "0e000000 01 00 0000  0100 08000000 0100000000000000");
}

TEST(known_hello_of_the_agent)
{
	static const uint8_t id[16] = {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf};
	struct wire_w w = writer();
	size_t f = wire_w_frame_begin(&w, WIRE_HELLO);

	wire_w_int(&w, WK_PROTO, 1);
	wire_w_str(&w, WK_AGENT, "ab12");
	wire_w_bytes(&w, WK_INCARNATION, id, sizeof(id));
	wire_w_str(&w, WK_MACHINE, "x86_64");
	wire_w_bytes(&w, WK_BOOT, id, sizeof(id));
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len,
		   "50000000 01 00 0000  0100 08000000 0100000000000000  0200 04000000 61623132"
		   "0300 10000000 a00102030405060708090a0b0c0d0eaf  0400 06000000 7838365f3634"
		   "0500 10000000 a00102030405060708090a0b0c0d0eaf");
}

TEST(known_ok_and_error)
{
	struct wire_w w = writer();
	size_t f = wire_w_frame_begin(&w, WIRE_OK);

	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len, "00000000 02 00 0000");
	w = writer();
	f = wire_w_frame_begin(&w, WIRE_ERROR);
	wire_w_int(&w, WK_CODE, WIRE_E_NOT_FOUND);
	wire_w_str(&w, WK_MESSAGE, "no");
	wire_w_str(&w, WK_STAGE, "exec");
	wire_w_int(&w, WK_ERRNO, 2);
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len,
		   "2e000000 03 00 0000  0a00 08000000 0400000000000000  0b00 02000000 6e6f"
		   "0c00 04000000 65786563  0d00 08000000 0200000000000000");
}

TEST(known_status_and_stop)
{
	struct wire_w w = writer();
	size_t f = wire_w_frame_begin(&w, WIRE_STATUS);

	wire_w_str(&w, WK_ID, "job-1");
	wire_w_int(&w, WK_KIND, WIRE_KIND_SESSION);
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len,
		   "19000000 21 00 0000  1400 05000000 6a6f622d31  1500 08000000 0200000000000000");
	w = writer();
	f = wire_w_frame_begin(&w, WIRE_STOP);
	wire_w_str(&w, WK_CAUSE, "idle");
	wire_w_int(&w, WK_GRACE_MS, 0);
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len,
		   "18000000 39 00 0000  6d00 04000000 69646c65  2d00 08000000 0000000000000000");
}

TEST(known_status_reply)
{
	struct wire_w w = writer();
	size_t f = wire_w_frame_begin(&w, WIRE_OK);
	static const uint8_t entry[] = {2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 'x', 'y'};

	wire_w_str(&w, WK_ID, "a");
	wire_w_bytes(&w, WK_LIVE, "live", 4);
	wire_w_bytes(&w, WK_ENTRY, entry, sizeof(entry));
	wire_w_int(&w, WK_HELD, 1);
	wire_w_int(&w, WK_SAMEBOOT, 1);
	wire_w_int(&w, WK_SAMEINC, 0);
	wire_w_int(&w, WK_EXISTED, -1);
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len,
		   "5b000000 02 00 0000  1400 01000000 61  1700 04000000 6c697665"
		   "1800 0c000000 02000000 0100 02000000 7879"
		   "1900 08000000 0100000000000000  1a00 08000000 0100000000000000"
		   "1d00 08000000 0000000000000000  1b00 08000000 ffffffffffffffff");
}

TEST(known_nested)
{
	struct wire_w w = writer();
	size_t f = wire_w_frame_begin(&w, WIRE_LAUNCH), s = wire_w_begin(&w, WK_SPEC);

	wire_w_str(&w, 1, "id");
	wire_w_str(&w, 4, "");
	wire_w_str(&w, 5, NULL);
	wire_w_end(&w, s);
	wire_w_frame_end(&w, f);
	ASSERT_HEX(buf, w.len,
		   "14000000 20 00 0000  1600 0e000000  0100 02000000 6964  0400 00000000");
}

/* In the order of their numbers, which never change. */
TEST(known_numbers)
{
	static const int requests[] = {
		WIRE_LAUNCH, WIRE_STATUS,  WIRE_LIST,   WIRE_READ,        WIRE_WATCH,
		WIRE_CANCEL, WIRE_SIGNAL,  WIRE_STDIN,  WIRE_STDIN_CLOSE, WIRE_RESIZE,
		WIRE_EXEC,   WIRE_PUT,     WIRE_GET,    WIRE_STAT,        WIRE_LS,
		WIRE_MKDIR,  WIRE_SYMLINK, WIRE_REMOVE, WIRE_CONNECT,     WIRE_HAVE,
		WIRE_UNPACK, WIRE_INSTALL, WIRE_PRUNE,  WIRE_FORGET,      WIRE_INFO,
		WIRE_STOP,
	};
	static const int parts[] = {WIRE_HELLO, WIRE_OK,  WIRE_ERROR, WIRE_DATA,
				    WIRE_DATA2, WIRE_END, WIRE_EVENT};
	static const int errors[] = {
		WIRE_E_INVALID,      WIRE_E_AUTH,     WIRE_E_PERM,         WIRE_E_NOT_FOUND,
		WIRE_E_METHOD,       WIRE_E_CONFLICT, WIRE_E_PRECONDITION, WIRE_E_TOO_LARGE,
		WIRE_E_RATE_LIMITED, WIRE_E_INTERNAL, WIRE_E_UNSUPPORTED,  WIRE_E_UNAVAILABLE,
		WIRE_E_NOMEM,        WIRE_E_IO,       WIRE_E_PROTOCOL,     WIRE_E_TIMEOUT,
	};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		ASSERT_EQ(requests[i], 0x20 + (int)i);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		ASSERT_EQ(parts[i], 1 + (int)i);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		ASSERT_EQ(errors[i], 1 + (int)i);
	/* Of the frozen part, what the known answers do not have. */
	ASSERT_EQ(WK_NEED, 14);
	ASSERT_EQ(WK_TAIL, 15);
	ASSERT_EQ(WK_WANT_ENV, 28);
	ASSERT_EQ(WIRE_KIND_EXECUTION, 1);
	ASSERT_EQ(WIRE_STDOUT, 1);
	ASSERT_EQ(WIRE_STDERR, 2);
	ASSERT_EQ(WIRE_PROTO_VERSION, 1);
	ASSERT_EQ(WIRE_FRAME_HEADER, 8);
	ASSERT_EQ(WIRE_DATA_MAX, 1048576);
	ASSERT_EQ(WIRE_CONTROL_MAX, 8388608);
}

TEST(integers_little_endian)
{
	static const int64_t values[] = {0,   1,         -1,        255,
					 256, INT64_MAX, INT64_MIN, 0x0102030405060708};
	uint8_t b[8];

	wire_put_u16(b, 0x1234);
	ASSERT_HEX(b, 2, "3412");
	ASSERT_EQ(wire_get_u16(b), 0x1234);
	wire_put_u32(b, 0xfedcba98);
	ASSERT_HEX(b, 4, "98badcfe");
	ASSERT(wire_get_u32(b) == 0xfedcba98);
	wire_put_u64(b, UINT64_C(0xf1e2d3c4b5a69788));
	ASSERT_HEX(b, 8, "8897a6b5c4d3e2f1");
	ASSERT(wire_get_u64(b) == UINT64_C(0xf1e2d3c4b5a69788));
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct wire_w w = writer();

		wire_w_int(&w, 7, values[i]);
		ASSERT_EQ(wire_find_int(buf, w.len, 7, 99), values[i]);
	}
}

/* What a writer does with two frames, nested fields and raw bytes. */
static void write_all(struct wire_w *w)
{
	size_t f = wire_w_frame_begin(w, WIRE_EVENT), s;

	wire_w_str(w, WK_ID, "some-id");
	s = wire_w_begin(w, WK_SPEC);
	wire_w_int(w, 9, -5);
	wire_w_end(w, s);
	wire_w_frame_end(w, f);
	wire_w_raw(w, "tail", 4);
	wire_w_raw(w, NULL, 0);
}

TEST(writer_at_every_capacity)
{
	struct wire_w w;
	size_t need;
	uint8_t full[256];

	wire_w_init(&w, NULL, 0);
	write_all(&w);
	need = w.len;
	ASSERT(!wire_w_ok(&w));
	wire_w_init(&w, full, sizeof(full));
	write_all(&w);
	ASSERT_EQ(w.len, need);
	for (size_t cap = 0; cap <= need; cap++) {
		uint8_t *m = exact(full, cap); /* ASan sees a store behind it */
		uint8_t guard[256];

		memset(guard, 0xee, sizeof(guard));
		wire_w_init(&w, m, cap);
		write_all(&w);
		ASSERT_EQ(w.len, need);
		ASSERT_EQ(wire_w_ok(&w), cap == need);
		wire_w_init(&w, guard, cap);
		write_all(&w);
		for (size_t i = cap; i < sizeof(guard); i++)
			ASSERT_EQ(guard[i], 0xee);
		free(m);
	}
}

TEST(writer_fails_for_good_beyond_32_bits)
{
	struct wire_w w;
	size_t pos;

	wire_w_init(&w, NULL, 0);
	wire_w_bytes(&w, 1, "never read", (size_t)UINT32_MAX + 1);
	ASSERT(w.len == SIZE_MAX && !wire_w_ok(&w));
	wire_w_str(&w, 1, "more");
	ASSERT(w.len == SIZE_MAX);

	wire_w_init(&w, NULL, 0);
	pos = wire_w_begin(&w, 1);
	wire_w_raw(&w, NULL, (size_t)UINT32_MAX + 1);
	ASSERT(w.len < SIZE_MAX);
	wire_w_end(&w, pos);
	ASSERT(w.len == SIZE_MAX);
	wire_w_end(&w, pos);
	wire_w_frame_end(&w, 0);
	ASSERT(w.len == SIZE_MAX);

	wire_w_init(&w, NULL, 0);
	wire_w_raw(&w, NULL, SIZE_MAX);
	wire_w_raw(&w, NULL, 1);
	ASSERT(w.len == SIZE_MAX);
}

TEST(frame_header_limits)
{
	static const struct {
		const char *hex;
		int r;
	} cases[] = {
		{"00000000 02 00 0000", 0},  /* empty */
		{"00001000 04 00 0000", 0},  /* DATA, 1 MiB */
		{"01001000 04 00 0000", -1}, /* one more */
		{"00001000 05 00 0000", 0},  /* DATA2 */
		{"01001000 05 00 0000", -1},
		{"00008000 20 00 0000", 0}, /* LAUNCH, 8 MiB */
		{"01008000 20 00 0000", -1},
		{"01001000 06 00 0000", 0}, /* END is not DATA */
		{"ffffffff 20 00 0000", -1},
		{"00000000 ff 00 0000", 0},  /* a type of the future: its frame can be skipped */
		{"00000000 02 01 0000", -1}, /* reserved bytes */
		{"00000000 02 00 0100", -1},
		{"00000000 02 00 0001", -1},
		{"00000000 02 80 0000", -1},
	};
	uint8_t h[8], type = 77;
	uint32_t n = 77;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%s", cases[i].hex)
		{
			unhex(cases[i].hex, h, sizeof(h));
			type = 77, n = 77;
			ASSERT_EQ(wire_frame_header(h, &type, &n), cases[i].r);
			ASSERT_EQ(type, cases[i].r == 0 ? h[4] : 77);
			ASSERT_EQ(n, cases[i].r == 0 ? wire_get_u32(h) : 77);
		}
	}
}

TEST(reader_reads_what_was_written)
{
	struct wire_w w = writer();
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;

	wire_w_str(&w, 1, "one");
	wire_w_str(&w, 0xffff, "");
	wire_w_str(&w, 1, "two");
	wire_r_init(&r, buf, w.len);
	ASSERT(wire_r_next(&r, &key, &v));
	ASSERT_EQ(key, 1);
	SLICE_IS(v, "one");
	ASSERT(wire_r_next(&r, &key, &v));
	ASSERT_EQ(key, 0xffff);
	ASSERT_EQ(v.n, 0);
	ASSERT(wire_r_next(&r, &key, &v));
	SLICE_IS(v, "two");
	ASSERT(!wire_r_next(&r, &key, &v));
	ASSERT(!r.bad);
	ASSERT(wire_find(buf, w.len, 1, &v));
	SLICE_IS(v, "one");
	ASSERT(!wire_find(buf, w.len, 2, &v));
	SLICE_IS(v, "one"); /* untouched */
	wire_r_init(&r, NULL, 0);
	ASSERT(!wire_r_next(&r, &key, &v) && !r.bad);
	ASSERT(wire_fields_valid(NULL, 0));
}

TEST(reader_cut_off_at_every_byte)
{
	struct wire_w w = writer();
	size_t ends[3];

	wire_w_str(&w, 1, "abc");
	ends[0] = w.len;
	wire_w_int(&w, 2, 5);
	ends[1] = w.len;
	wire_w_str(&w, 3, "");
	ends[2] = w.len;
	for (size_t n = 0; n <= w.len; n++) {
		uint8_t *m = exact(buf, n);
		bool whole = n == 0 || n == ends[0] || n == ends[1] || n == ends[2];
		struct wire_slice v = {NULL, 0};
		struct wire_r r;
		uint16_t key;
		size_t got = 0;

		wire_r_init(&r, m, n);
		while (wire_r_next(&r, &key, &v))
			got++;
		ASSERT_EQ(got, 0U + (n >= ends[0]) + (n >= ends[1]) + (n >= ends[2]));
		ASSERT_EQ(r.bad, !whole);
		ASSERT(!wire_r_next(&r, &key, &v));
		ASSERT_EQ(wire_fields_valid(m, n), whole);
		ASSERT_EQ(wire_find_int(m, n, 2, -7), n >= ends[1] ? 5 : -7);
		free(m);
	}
}

TEST(reader_does_not_believe_lengths)
{
	static const char *const lies[] = {
		"0100 01000000",              /* one byte that is not there */
		"0100 ffffffff 00",           /* 4 GiB */
		"0100 00000080 00",           /* 2 GiB: negative as int */
		"0100 02000000 61",           /* one too many */
		"0100 01000000 61 0200 0500", /* the second header is cut */
	};
	uint8_t b[64];

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		size_t n = unhex(lies[i], b, sizeof(b));
		uint8_t *m = exact(b, n);

		ASSERT(!wire_fields_valid(m, n));
		free(m);
	}
}

TEST(integer_fields_have_8_bytes)
{
	struct wire_w w = writer();
	int64_t i = 3;

	for (size_t n = 0; n <= 16; n++) {
		struct wire_slice v = {(const uint8_t *)"\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", n};

		ASSERT_EQ(wire_slice_int(v, &i), n == 8);
		ASSERT_EQ(i, n >= 8 ? 1 : 3);
	}
	wire_w_bytes(&w, 5, "\1\0\0\0", 4);
	wire_w_int(&w, 5, 9); /* the first one counts, and it is malformed */
	ASSERT_EQ(wire_find_int(buf, w.len, 5, -2), -2);
}

TEST(text_has_no_nul)
{
	ASSERT(wire_slice_is_text((struct wire_slice){NULL, 0}));
	ASSERT(wire_slice_is_text((struct wire_slice){(const uint8_t *)"abc", 3}));
	ASSERT(!wire_slice_is_text((struct wire_slice){(const uint8_t *)"abc", 4}));
	ASSERT(!wire_slice_is_text((struct wire_slice){(const uint8_t *)"\0bc", 3}));
	ASSERT(!wire_slice_is_text((struct wire_slice){(const uint8_t *)"a\0c", 3}));
}

TEST_MAIN()
