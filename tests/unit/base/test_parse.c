/* SPDX-License-Identifier: MIT */
/* Numbers, durations, sizes, names, UTF-8, hexadecimal, base64, times, random names. */
#include "base/base64.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/time.h"

#include "tap.h"

TEST(integers)
{
	static const struct {
		const char *text;
		int64_t min, max;
		int result;
		int64_t value;
	} cases[] = {
		{"0", 0, 10, 0, 0},
		{"10", 0, 10, 0, 10},
		{"11", 0, 10, -ERANGE, 0},
		{"-1", 0, 10, -ERANGE, 0},
		{"-1", -5, 10, 0, -1},
		{"-0", -5, 5, 0, 0},
		{"007", 0, 10, 0, 7},
		{"9223372036854775807", INT64_MIN, INT64_MAX, 0, INT64_MAX},
		{"9223372036854775808", INT64_MIN, INT64_MAX, -ERANGE, 0},
		{"-9223372036854775808", INT64_MIN, INT64_MAX, 0, INT64_MIN},
		{"-9223372036854775809", INT64_MIN, INT64_MAX, -ERANGE, 0},
		{"99999999999999999999999", INT64_MIN, INT64_MAX, -ERANGE, 0},
		{"", 0, 10, -EINVAL, 0},
		{"-", 0, 10, -EINVAL, 0},
		{"+1", 0, 10, -EINVAL, 0},
		{" 1", 0, 10, -EINVAL, 0},
		{"1 ", 0, 10, -EINVAL, 0},
		{"0x1", 0, 10, -EINVAL, 0},
		{"1.0", 0, 10, -EINVAL, 0},
		{"--1", -5, 10, -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		SUBTEST("'%s'", cases[i].text)
		{
			int64_t v = 4711;
			int r = parse_int(cases[i].text, cases[i].min, cases[i].max, &v);

			ASSERT_EQ(r, cases[i].result);
			ASSERT_EQ(v, r == 0 ? cases[i].value : 4711);
		}
	}
}

TEST(unsigned_integers)
{
	uint64_t v = 1;

	ASSERT_EQ(parse_uint("18446744073709551615", 0, UINT64_MAX, &v), 0);
	ASSERT_EQ(v, UINT64_MAX);
	ASSERT_EQ(parse_uint("18446744073709551616", 0, UINT64_MAX, &v), -ERANGE);
	ASSERT_EQ(parse_uint("-1", 0, UINT64_MAX, &v), -EINVAL);
	ASSERT_EQ(parse_uint("4", 5, 9, &v), -ERANGE);
}

TEST(durations)
{
	static const struct {
		const char *text;
		int result;
		int64_t ms, ns;
	} cases[] = {
		{"250ms", 0, 250, 250000000},
		{"10s", 0, 10000, INT64_C(10000000000)},
		{"5m", 0, 300000, INT64_C(300000000000)},
		{"2h", 0, 7200000, INT64_C(7200000000000)},
		{"3", 0, 3000, INT64_C(3000000000)},
		{"0.05", 0, 50, 50000000},
		{".5", 0, 500, 500000000},
		{"1.5h", 0, 5400000, INT64_C(5400000000000)},
		{"0", 0, 0, 0},
		{"0ms", 0, 0, 0},
		{"0.0001", 0, 1, 100000}, /* rounded up, never to 0 */
		{"0.5ms", 0, 1, 500000},
		{"0.0000000001ms", 0, 1, 1},
		{"0.00000000000000000000000000000001s", 0, 1, 1},
		{"1.0000000000000000000000000", 0, 1000, 1000000000},
		{"0.333333333333333333333333", 0, 334, 333333334},
		{"876000h", 0, DURATION_MAX_MS, DURATION_MAX_MS * 1000000},
		{"876000.1h", -ERANGE, 0, 0},
		{"99999999999999999999s", -ERANGE, 0, 0},
		{"-1s", -ERANGE, 0, 0},
		{"-0.5", -ERANGE, 0, 0},
		{"", -EINVAL, 0, 0},
		{"s", -EINVAL, 0, 0},
		{"1.", -EINVAL, 0, 0},
		{".", -EINVAL, 0, 0},
		{"1d", -EINVAL, 0, 0},
		{"1S", -EINVAL, 0, 0},
		{"1 s", -EINVAL, 0, 0},
		{"1s ", -EINVAL, 0, 0},
		{"1e3", -EINVAL, 0, 0},
		{"1,5", -EINVAL, 0, 0},
		{"inf", -EINVAL, 0, 0},
		{"--1", -EINVAL, 0, 0},
		{"1m30s", -EINVAL, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		SUBTEST("'%s'", cases[i].text)
		{
			int64_t ms = 4711, ns = 4711;

			ASSERT_EQ(parse_duration_ms(cases[i].text, &ms), cases[i].result);
			ASSERT_EQ(parse_duration_ns(cases[i].text, &ns), cases[i].result);
			ASSERT_EQ(ms, cases[i].result ? 4711 : cases[i].ms);
			ASSERT_EQ(ns, cases[i].result ? 4711 : cases[i].ns);
		}
	}
}

TEST(sizes)
{
	static const struct {
		const char *text;
		int result;
		uint64_t bytes;
	} cases[] = {
		{"0", 0, 0},
		{"1", 0, 1},
		{"16M", 0, 16777216},
		{"1k", 0, 1024},
		{"1.5G", 0, 1610612736},
		{"0.3K", 0, 308},
		{"9007199254740993", 0, UINT64_C(9007199254740993)},
		{"8589934591G", 0, UINT64_C(9223372035781033984)},
		{"8589934592G", -ERANGE, 0},
		{"-1", -ERANGE, 0},
		{"1.5", -EINVAL, 0},
		{"1KB", -EINVAL, 0},
		{"1T", -EINVAL, 0},
		{"K", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"1 K", -EINVAL, 0},
		{"none", -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		SUBTEST("'%s'", cases[i].text)
		{
			uint64_t v = 4711;

			ASSERT_EQ(parse_size(cases[i].text, &v), cases[i].result);
			ASSERT_EQ(v, cases[i].result ? 4711 : cases[i].bytes);
		}
	}
}

TEST(thousandths)
{
	uint64_t v = 0;

	ASSERT_EQ(parse_milli("2", &v), 0);
	ASSERT_EQ(v, 2000);
	ASSERT_EQ(parse_milli("0.5", &v), 0);
	ASSERT_EQ(v, 500);
	ASSERT_EQ(parse_milli("0.0001", &v), 0);
	ASSERT_EQ(v, 1);
	ASSERT_EQ(parse_milli("0", &v), -ERANGE);
	ASSERT_EQ(parse_milli("-1", &v), -ERANGE);
	ASSERT_EQ(parse_milli("1s", &v), -EINVAL);
	ASSERT_EQ(parse_milli("", &v), -EINVAL);
}

TEST(names)
{
	char id[200];

	ASSERT(valid_execution_id("a"));
	ASSERT(valid_execution_id("A0._-z"));
	ASSERT(valid_execution_id("a..b"));
	ASSERT(!valid_execution_id(""));
	ASSERT(!valid_execution_id(".a"));
	ASSERT(!valid_execution_id(".."));
	ASSERT(!valid_execution_id("-a"));
	ASSERT(!valid_execution_id("_a"));
	ASSERT(!valid_execution_id("a/b"));
	ASSERT(!valid_execution_id("a b"));
	ASSERT(!valid_execution_id("a\n"));
	ASSERT(!valid_execution_id("\xc3\xa9"));
	memset(id, 'x', sizeof(id));
	id[128] = '\0';
	ASSERT(valid_execution_id(id));
	id[128] = 'x';
	id[129] = '\0';
	ASSERT(!valid_execution_id(id));
	id[63] = '\0';
	ASSERT(valid_sandbox_name(id));
	id[63] = 'x';
	id[64] = '\0';
	ASSERT(!valid_sandbox_name(id));
	ASSERT(valid_env_name("_A1", 3));
	ASSERT(valid_env_name("A=B", 1));
	ASSERT(!valid_env_name("", 0));
	ASSERT(!valid_env_name("1A", 2));
	ASSERT(!valid_env_name("A-B", 3));
	ASSERT(!valid_env_name("A\0", 2));
}

/* Every code point in its right form, and every pair of bytes against the rule itself. */
TEST(utf8)
{
	for (uint32_t c = 0; c <= 0x110000; c++) {
		unsigned char b[4];
		size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		bool good = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);

		if (n == 1) {
			b[0] = (unsigned char)c;
		} else {
			for (size_t i = n - 1; i > 0; i--)
				b[i] = (unsigned char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
			b[0] = (unsigned char)(0xf00 >> n | c >> 6 * (n - 1));
		}
		if (utf8_sequence(b, n) != (good ? n : 0))
			FAIL("U+%04X", c);
		if (n > 1 && utf8_sequence(b, n - 1) != 0)
			FAIL("U+%04X cut", c);
	}
	ASSERT(!valid_utf8("\xc0\x80", 2));
	ASSERT(!valid_utf8("\xe0\x80\x80", 3));
	ASSERT(!valid_utf8("\xf0\x80\x80\x80", 4));
	ASSERT(!valid_utf8("a\x80", 2));
	ASSERT(valid_utf8("", 0));
	ASSERT(valid_utf8("a\0b", 3));
}

TEST(hex)
{
	char text[20];
	unsigned char bytes[4] = {1, 2, 3, 4};

	ASSERT_STREQ(hex_encode("\x00\xff\x1a", 3, text), "00ff1a");
	ASSERT_EQ(hex_decode("00fF1Ax", bytes, 3), 0);
	ASSERT_MEMEQ(bytes, 4, "\x00\xff\x1a\x04", 4);
	ASSERT_EQ(hex_decode("0g", bytes, 1), -EINVAL);
	ASSERT_EQ(hex_decode("0", bytes, 1), -EINVAL);
	ASSERT_EQ(hex_decode("", bytes, 1), -EINVAL);
}

TEST(base64_round_trips_and_vectors)
{
	static const char *const vectors[][2] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xff\xfe", "//4="},
	};
	unsigned char in[300], out[300];
	char text[500];

	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		size_t n = strlen(vectors[i][0]);

		ASSERT_EQ(base64_encode(vectors[i][0], n, text), BASE64_LEN(n));
		ASSERT_MEMEQ(text, BASE64_LEN(n), vectors[i][1], strlen(vectors[i][1]));
	}
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 167 + i / 3);
	for (size_t n = 0; n < sizeof(in); n++) {
		size_t len = base64_encode(in, n, text);

		ASSERT_EQ(base64_decode(text, len, out), (ssize_t)n);
		ASSERT_MEMEQ(in, n, out, n);
		ASSERT_EQ(base64_decode(text, len, text), (ssize_t)n); /* in place */
		ASSERT_MEMEQ(in, n, text, n);
	}
}

TEST(base64_is_strict)
{
	static const char *const bad[] = {"Z",    "Zg",   "Zg=",      "Zh==",   "Zm9=",
					  "====", "=Zg=", "Zg==Zg==", "Zm9v\n", "Zm 9v",
					  "Zm-_", "Z===", "Zg=a"};
	char out[16];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		SUBTEST("%s", bad[i])
	ASSERT_EQ(base64_decode(bad[i], strlen(bad[i]), out), -EINVAL);
}

TEST(rfc3339)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{-1, "1969-12-31T23:59:59.999Z"},
		{INT64_C(951782400000), "2000-02-29T00:00:00.000Z"},
		{INT64_C(1709251199123), "2024-02-29T23:59:59.123Z"},
		{INT64_C(4102444800000), "2100-01-01T00:00:00.000Z"},
		{INT64_C(4107542400000), "2100-03-01T00:00:00.000Z"},
		{INT64_C(-62167219200000), "0000-01-01T00:00:00.000Z"},
		{INT64_MIN, "0000-01-01T00:00:00.000Z"},
		{INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
		{INT64_MAX, "9999-12-31T23:59:59.999Z"},
	};
	char buf[TIME_RFC3339_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		SUBTEST("%s", cases[i].text)
	ASSERT_STREQ(format_rfc3339_ms(cases[i].ms, buf), cases[i].text);
	/* Against the C library, a day at a time with odd seconds. */
	for (int64_t s = -INT64_C(70000000000); s < INT64_C(70000000000); s += 86400 * 7 + 12345) {
		time_t t = (time_t)s;
		char want[64];
		struct tm tm;

		gmtime_r(&t, &tm);
		if (tm.tm_year + 1900 < 0)
			continue;
		snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02d.000Z",
			 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
			 tm.tm_sec);
		if (strcmp(format_rfc3339_ms(s * 1000, buf), want) != 0)
			FAIL("%s, not %s", buf, want);
	}
	ASSERT_EQ(strlen(format_rfc3339_ms(now_wall_ms(), buf)), 24);
}

TEST(deadlines)
{
	int64_t now = now_mono_ns();

	ASSERT_EQ(deadline_from_ms(-1), INT64_MAX);
	ASSERT_EQ(deadline_from_ms(INT64_MAX), INT64_MAX);
	ASSERT_GE(deadline_from_ms(5), now + 5 * NS_PER_MS);
	ASSERT_EQ(deadline_poll_ms(INT64_MAX), -1);
	ASSERT_EQ(deadline_poll_ms(now), 0);
	ASSERT_EQ(deadline_poll_ms(now - 1), 0);
	ASSERT_EQ(deadline_poll_ms(now_mono_ns() + 400000), 1); /* rounded up: no spinning */
	ASSERT_EQ(deadline_poll_ms(INT64_MAX - 1), INT_MAX);
	ASSERT_GE(now_boot_ns(), now);
}

TEST(random_names)
{
	char seen[200][17];
	bool letter[256] = {false};

	for (int i = 0; i < 200; i++) {
		random_name(seen[i], 16);
		ASSERT_EQ(strlen(seen[i]), 16);
		ASSERT_EQ(strspn(seen[i], "abcdefghijklmnopqrstuvwxyz0123456789"), 16);
		ASSERT(seen[i][0] >= 'a' && seen[i][0] <= 'z');
		ASSERT(valid_sandbox_name(seen[i]));
		for (int k = 0; k < i; k++)
			ASSERT_STRNE(seen[i], seen[k]);
		for (int k = 0; k < 16; k++)
			letter[(unsigned char)seen[i][k]] = true;
	}
	for (const char *p = "abcdefghijklmnopqrstuvwxyz0123456789"; *p; p++)
		ASSERT(letter[(unsigned char)*p]); /* 3200 draws reach all 36 */
}

TEST_MAIN()
