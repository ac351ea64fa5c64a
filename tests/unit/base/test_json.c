/* SPDX-License-Identifier: MIT */
/* The JSON writer and the log lines. */
#include "base/json.h"

#include <fcntl.h>

#include <berth/error.h>

#include "base/log.h"
#include "base/strbuf.h"

#include "tap.h"
#include "torture.h"

static void write_sample(struct json *j)
{
	json_object(j);
	json_kv_str(j, "state", "running");
	json_kv_int(j, "n", -5);
	json_kv_uint(j, "u", UINT64_MAX);
	json_kv_bool(j, "t", true);
	json_kv_null(j, "z");
	json_kv_str(j, "none", NULL);
	json_kv_array(j, "a");
	json_int(j, 1);
	json_object(j);
	json_end(j);
	json_array(j);
	json_end(j);
	json_bool(j, false);
	json_end(j);
	json_kv_object(j, "o");
	json_key(j, "data");
	json_base64(j, "\xff\x00\x01", 3);
	json_key(j, "raw");
	json_raw(j, "[1]", 3);
	json_end(j);
	json_end(j);
}

TEST(writes_nested_values)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(1000);
	struct json j = JSON_INIT(&b);

	write_sample(&j);
	ASSERT_EQ(json_finish(&j), 0);
	ASSERT_STREQ(b.data,
		     "{\"state\":\"running\",\"n\":-5,\"u\":18446744073709551615,\"t\":true,"
		     "\"z\":null,\"none\":null,\"a\":[1,{},[],false],"
		     "\"o\":{\"data\":\"/wAB\",\"raw\":[1]}}");
}

TEST(escapes_strings)
{
	static const struct {
		const char *in;
		size_t len;
		const char *out;
	} cases[] = {
		{"plain", 5, "\"plain\""},
		{"", 0, "\"\""},
		{"\"\\/", 3, "\"\\\"\\\\/\""},
		{"\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\""},
		{"\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\""},
		{"\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\""},
		{"\xff", 1, "\"\xef\xbf\xbd\""},
		{"a\xc3", 2, "\"a\xef\xbf\xbd\""},
		{"\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", 9, "\"\\u2028\\u2029\xe2\x80\xaa\""},
		{"\xc2\x85\xc2\xa0", 4, "\"\\u0085\xc2\xa0\""},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		SUBTEST("case %zu", i)
		{
			struct strbuf b = STRBUF_INIT(1000);
			struct json j = JSON_INIT(&b);

			json_strn(&j, cases[i].in, cases[i].len);
			ASSERT_EQ(json_finish(&j), 0);
			ASSERT_STREQ(b.data, cases[i].out);
			strbuf_done(&b);
		}
	}
}

/* All 65,536 pairs of bytes, read back by an independent parser. */
TEST(python_reads_what_it_writes)
{
	FILE *f;
	int status;

	TEST_REQUIRE("python3", "needs python3");
	f = popen("python3 -c '\n"
		  "import sys, json\n"
		  "n = 0\n"
		  "for line in sys.stdin.buffer:\n"
		  "    s = json.loads(line.decode(\"utf-8\"))\n"
		  "    a, b = divmod(n, 256)\n"
		  "    raw = bytes([a, b])\n"
		  "    try: want = raw.decode(\"utf-8\")\n"
		  "    except UnicodeDecodeError: want = None\n"
		  "    assert want is None or s == want, (raw, s)\n"
		  "    assert want is not None or \"\\ufffd\" in s, (raw, s)\n"
		  "    n += 1\n"
		  "assert n == 65536, n'\n",
		  "w");
	ASSERT_NOT_NULL(f);
	for (int i = 0; i < 65536; i++) {
		char raw[2] = {(char)(i >> 8), (char)i};
		struct strbuf b = STRBUF_INIT(1000);
		struct json j = JSON_INIT(&b);

		json_strn(&j, raw, 2);
		if (json_finish(&j) != 0)
			FAIL("pair %04x", i);
		fprintf(f, "%s\n", b.data);
		strbuf_done(&b);
	}
	status = pclose(f);
	ASSERT_EQ(status, 0);
}

TEST(wrong_calls_are_errors_and_write_nothing_wrong)
{
	struct strbuf b = STRBUF_INIT(1000);

#define BROKEN(calls)                                        \
	do {                                                 \
		struct json j = JSON_INIT(&b);               \
		strbuf_reset(&b);                            \
		calls;                                       \
		CHECK_EQ(json_finish(&j), BERTH_E_INTERNAL); \
	} while (0)
	BROKEN((void)0);
	BROKEN(json_object(&j));
	BROKEN(json_end(&j));
	BROKEN(json_object(&j); json_int(&j, 1); json_end(&j));
	BROKEN(json_object(&j); json_key(&j, "k"); json_end(&j));
	BROKEN(json_object(&j); json_key(&j, "k"); json_key(&j, "l"));
	BROKEN(json_array(&j); json_key(&j, "k"));
	BROKEN(json_key(&j, "k"));
	BROKEN(json_int(&j, 1); json_int(&j, 2));
	BROKEN(for (int i = 0; i <= JSON_DEPTH_MAX; i++) json_array(&j));
#undef BROKEN
	strbuf_done(&b);
}

TEST(is_bounded)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(10);
	struct json j = JSON_INIT(&b);

	json_str(&j, "0123456789");
	ASSERT_EQ(json_finish(&j), BERTH_E_TOO_LARGE);
}

static int sample(void *arg)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(1000);
	struct json j = JSON_INIT(&b);

	(void)arg;
	write_sample(&j);
	return json_finish(&j);
}

TEST(survives_allocation_failure)
{
	torture(sample, NULL);
}

/* What @fn writes to stderr. */
static void capture(void (*fn)(void), char *buf, size_t size)
{
	int p[2], saved = dup(2);
	ssize_t n;

	ASSERT_EQ(pipe2(p, O_NONBLOCK), 0);
	dup2(p[1], 2);
	fn();
	dup2(saved, 2);
	close(saved);
	close(p[1]);
	n = read(p[0], buf, size - 1);
	close(p[0]);
	buf[n > 0 ? n : 0] = '\0';
}

static void log_all(void)
{
	log_error("e %d\nforged: x", 1);
	log_info("i");
	log_verbose("v");
	log_hint("h");
}

static void log_long(void)
{
	char text[9000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_error("%s", text);
}

TEST(logs_lines_by_level)
{
	char buf[8192];

	capture(log_all, buf, sizeof(buf));
	ASSERT_STREQ(buf, "berth: e 1 forged: x\nberth: i\nhint: h\n");
	log_set_level(LOG_LEVEL_QUIET);
	capture(log_all, buf, sizeof(buf));
	ASSERT_STREQ(buf, "berth: e 1 forged: x\nhint: h\n");
	log_set_level(LOG_LEVEL_VERBOSE);
	capture(log_all, buf, sizeof(buf));
	ASSERT_STREQ(buf, "berth: e 1 forged: x\nberth: i\nberth: v\nhint: h\n");
	capture(log_long, buf, sizeof(buf));
	ASSERT_EQ(strlen(buf), 4096);
	ASSERT_STREQ(buf + 4096 - 4, "…\n");
}

TEST_MAIN()
