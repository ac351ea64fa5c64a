/* SPDX-License-Identifier: MIT */
/*
 * Specs: known answer, defaults, and each thing that is refused, at, under and over its bound.
 */
#include "wire/spec.h"

#include "base/limits.h"
#include "bytes.h"
#include "wire/journal.h"

#define HEX64     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define YEARS_100 (INT64_C(100) * 365 * 24 * 3600 * 1000)

static uint8_t buf[65536];
static struct wire_w w;
static struct spec spec;
static const char *why;

/* An id and a command: the least that is a spec. */
static void begin(void)
{
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, SK_ID, "job-1");
	wire_w_str(&w, SK_ARG, "node");
}

static int decode(void)
{
	uint8_t *m = exact(buf, w.len);
	struct spec before;
	int r;

	memset(&spec, 0x5a, sizeof(spec));
	memcpy(&before, &spec, sizeof(before));
	why = NULL;
	r = spec_decode(m, w.len, &spec, &why);
	if (r != 0) {
		CHECK(why != NULL && *why);
		CHECK_MEMEQ(&spec, sizeof(spec), &before, sizeof(before));
	} else {
		/* Borrowed from m: look at it again in buf, which stays. */
		CHECK_EQ(spec_decode(buf, w.len, &spec, &why), 0);
	}
	free(m);
	return r;
}

#define REFUSED(text)                    \
	do {                             \
		ASSERT_EQ(decode(), -1); \
		ASSERT_STREQ(why, text); \
	} while (0)

TEST(known_answer)
{
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, SK_ID, "j");
	wire_w_str(&w, SK_ARG, "sh");
	wire_w_str(&w, SK_ARG, "-c");
	wire_w_str(&w, SK_ENV, "A=b");
	wire_w_str(&w, SK_ENV_NAME, "A");
	wire_w_int(&w, SK_OUTPUT_LIMIT, -1);
	wire_w_int(&w, SK_TIMEOUT_MS, 1500);
	ASSERT_HEX(
		buf, w.len,
		"0100 01000000 6a  0400 02000000 7368  0400 02000000 2d63  0500 03000000 413d62"
		"0600 01000000 41  1800 08000000 ffffffffffffffff  1000 08000000 dc05000000000000");
	ASSERT_EQ(decode(), 0);
	ASSERT_EQ(spec.n_args, 2);
	ASSERT_EQ(spec.args_bytes, 6);
	ASSERT_EQ(spec.n_env, 1);
	ASSERT_EQ(spec.env_bytes, 4);
	ASSERT_EQ(spec.output_limit, -1);
	ASSERT_EQ(spec.timeout_ms, 1500);
	SLICE_IS(spec.id, "j");
}

/* Numbers of keys never change. */
TEST(known_keys)
{
	static const int keys[] = {
		SK_ID,          SK_KIND,       SK_MODE,       SK_ARG,          SK_ENV,
		SK_ENV_NAME,    SK_RECORD_ENV, SK_WORKDIR,    SK_INPUT_KIND,   SK_INPUT_PATH,
		SK_INPUT_LEN,   SK_TREE,       SK_LAYER,      SK_INSTALL,      SK_STARTUP_MS,
		SK_TIMEOUT_MS,  SK_GRACE_MS,   SK_MEMORY,     SK_PIDS,         SK_CPUS_MILLI,
		SK_CPU_TIME_MS, SK_FILE_SIZE,  SK_OPEN_FILES, SK_OUTPUT_LIMIT, SK_DURABLE,
		SK_SALT,        SK_PART,       SK_TTY_COLS,   SK_TTY_ROWS,     SK_STDIN_OPEN,
		SK_DETACH_MS,   SK_FROM,
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		CHECK_EQ(keys[i], (int)i + 1);
	ASSERT_EQ(SPEC_INPUT_STDIN, 1);
	ASSERT_EQ(SPEC_INPUT_FILE, 2);
}

TEST(defaults)
{
	begin();
	ASSERT_EQ(decode(), 0);
	ASSERT_EQ(spec.kind, WIRE_KIND_EXECUTION);
	ASSERT_EQ(spec.record_env, 1);
	ASSERT_EQ(spec.input_kind, SPEC_INPUT_NONE);
	ASSERT_EQ(spec.input_len, 0);
	ASSERT_EQ(spec.startup_ms, 10000);
	ASSERT_EQ(spec.timeout_ms, 0);
	ASSERT_EQ(spec.grace_ms, 5000);
	ASSERT_EQ(spec.memory + spec.pids + spec.cpus_milli + spec.cpu_time_ms, 0);
	ASSERT_EQ(spec.file_size + spec.open_files, 0);
	ASSERT_EQ(spec.output_limit, INT64_C(1) << 30);
	ASSERT_EQ(spec.durable, 1);
	ASSERT_EQ(spec.tty_cols + spec.tty_rows + spec.stdin_open + spec.detach_ms, 0);
	SLICE_IS(spec.workdir, ".");
	ASSERT_NULL(spec.mode.p);
	ASSERT_NULL(spec.tree.p);
	ASSERT_NULL(spec.layer.p);
	ASSERT_NULL(spec.install.p);
	ASSERT_NULL(spec.salt.p);
	ASSERT_NULL(spec.input_path.p);
	ASSERT_NULL(spec.from.p);
	ASSERT_EQ(spec.n_args, 1);
	ASSERT_EQ(spec.n_env + spec.n_parts, 0);
	ASSERT_EQ(spec.raw.n, w.len);
}

TEST(every_text)
{
	begin();
	wire_w_str(&w, SK_MODE, "worker");
	wire_w_str(&w, SK_WORKDIR, "a/../b");
	wire_w_str(&w, SK_TREE, HEX64);
	wire_w_str(&w, SK_LAYER, HEX64);
	wire_w_str(&w, SK_INSTALL, "npm ci");
	wire_w_bytes(&w, SK_SALT, "0123456789\0bcdef", 16);
	wire_w_int(&w, SK_INPUT_KIND, SPEC_INPUT_FILE);
	wire_w_str(&w, SK_INPUT_PATH, "..data/x");
	wire_w_str(&w, SK_FROM, "job-0");
	ASSERT_EQ(decode(), 0);
	SLICE_IS(spec.mode, "worker");
	SLICE_IS(spec.workdir, "a/../b");
	SLICE_IS(spec.tree, HEX64);
	SLICE_IS(spec.layer, HEX64);
	SLICE_IS(spec.install, "npm ci");
	SLICE_IS(spec.salt, "0123456789\0bcdef");
	SLICE_IS(spec.input_path, "..data/x");
	SLICE_IS(spec.from, "job-0");
}

/* Each number: where it goes, and its range. */
TEST(every_number)
{
	static const struct {
		int key;
		size_t off;
		int64_t min, max;
	} cases[] = {
#define N(k, member, lo, hi) {k, offsetof(struct spec, member), lo, hi}
		N(SK_KIND, kind, 1, 2),
		N(SK_RECORD_ENV, record_env, 0, 1),
		N(SK_STARTUP_MS, startup_ms, 1, YEARS_100),
		N(SK_TIMEOUT_MS, timeout_ms, 0, YEARS_100),
		N(SK_GRACE_MS, grace_ms, 0, YEARS_100),
		N(SK_MEMORY, memory, 0, INT64_MAX),
		N(SK_PIDS, pids, 0, INT64_MAX),
		N(SK_CPUS_MILLI, cpus_milli, 0, INT32_MAX),
		N(SK_CPU_TIME_MS, cpu_time_ms, 0, YEARS_100),
		N(SK_FILE_SIZE, file_size, 0, INT64_MAX),
		N(SK_OPEN_FILES, open_files, 0, INT32_MAX),
		N(SK_OUTPUT_LIMIT, output_limit, -1, INT64_MAX),
		N(SK_DURABLE, durable, 0, 1),
		N(SK_TTY_COLS, tty_cols, 0, 65535),
		N(SK_TTY_ROWS, tty_rows, 0, 65535),
		N(SK_STDIN_OPEN, stdin_open, 0, 1),
		N(SK_DETACH_MS, detach_ms, 0, YEARS_100),
#undef N
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const int64_t at[] = {cases[i].min, cases[i].max};

		SUBTEST("key %d", cases[i].key)
		{
			for (size_t k = 0; k < 2; k++) {
				int64_t got;

				begin();
				wire_w_int(&w, (uint16_t)cases[i].key, at[k]);
				ASSERT_EQ(decode(), 0);
				memcpy(&got, (char *)&spec + cases[i].off, sizeof(got));
				ASSERT_EQ(got, at[k]);
			}
			begin();
			wire_w_int(&w, (uint16_t)cases[i].key, cases[i].min - 1);
			REFUSED("a number is out of range");
			if (cases[i].max < INT64_MAX) {
				begin();
				wire_w_int(&w, (uint16_t)cases[i].key, cases[i].max + 1);
				REFUSED("a number is out of range");
			}
			begin();
			wire_w_bytes(&w, (uint16_t)cases[i].key, "\1\0\0\0", 4);
			REFUSED("a number does not have 8 bytes");
			begin();
			wire_w_bytes(&w, (uint16_t)cases[i].key, "\1\0\0\0\0\0\0\0\0", 9);
			REFUSED("a number does not have 8 bytes");
		}
	}
}

/* The agent cannot include base/limits.h; what both have must agree. */
TEST(limits_agree)
{
	ASSERT_EQ(SPEC_ID_MAX, EXECUTION_ID_MAX);
	ASSERT_EQ(SPEC_INPUT_MAX, INPUT_MAX);
	ASSERT_EQ(SPEC_OUTPUT_LIMIT, OUTPUT_DEFAULT_MAX);
	ASSERT_EQ(JOURNAL_MESSAGE_MAX, STATE_MESSAGE_MAX);
	ASSERT_EQ(YEARS_100, DURATION_MAX_MS);
}

TEST(output_limit_zero)
{
	begin();
	wire_w_int(&w, SK_OUTPUT_LIMIT, 0);
	REFUSED("the output limit is 0");
	begin();
	wire_w_int(&w, SK_OUTPUT_LIMIT, 1);
	ASSERT_EQ(decode(), 0);
}

TEST(ids)
{
	char id[SPEC_ID_MAX + 2];
	static const char *const good[] = {"a", "0", "A.b_c-D", "9..", "x-", "Z_"};
	static const char *const bad[] = {"",    ".",   "..",  "-a",       "_a",    ".a",
					  "a/b", "a b", "a\n", "\xc3\xa9", "a\xff", "a:b"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(spec_id_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!spec_id_valid(bad[i], strlen(bad[i])));
	ASSERT(!spec_id_valid("a", 2)); /* a NUL */
	ASSERT(!spec_id_valid(NULL, 0));
	memset(id, 'a', sizeof(id));
	ASSERT(spec_id_valid(id, SPEC_ID_MAX));
	ASSERT(!spec_id_valid(id, SPEC_ID_MAX + 1));
	/* Every byte, first and later. */
	for (int c = 0; c < 256; c++) {
		bool alnum = c < 128 && isalnum(c),
		     more = alnum || c == '.' || c == '_' || c == '-';

		id[0] = (char)c;
		CHECK_EQ(spec_id_valid(id, 2), alnum);
		id[0] = 'a', id[1] = (char)c;
		CHECK_EQ(spec_id_valid(id, 2), more);
		id[1] = 'a';
	}
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, SK_ARG, "x");
	REFUSED("the id is not valid"); /* absent */
	wire_w_str(&w, SK_ID, "../x");
	REFUSED("the id is not valid");
	begin();
	wire_w_str(&w, SK_FROM, ".x");
	REFUSED("the id of the record to take the input from is not valid");
}

TEST(arguments)
{
	struct wire_slice v;
	size_t cursor = 0;

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, SK_ID, "j");
	REFUSED("the command is empty");
	wire_w_str(&w, SK_ARG, "");
	REFUSED("the command is empty");
	begin();
	wire_w_str(&w, SK_ARG, "");
	wire_w_str(&w, SK_ARG, "\n\r\t =\xff\xfe");
	wire_w_str(&w, SK_MODE, "job");
	wire_w_str(&w, SK_ARG, "last");
	ASSERT_EQ(decode(), 0);
	ASSERT_EQ(spec.n_args, 4);
	ASSERT_EQ(spec.args_bytes, 5 + 1 + 8 + 5);
	ASSERT(spec_next(&spec, SK_ARG, &cursor, &v));
	SLICE_IS(v, "node");
	ASSERT(spec_next(&spec, SK_ARG, &cursor, &v));
	SLICE_IS(v, "");
	ASSERT(spec_next(&spec, SK_ARG, &cursor, &v));
	SLICE_IS(v, "\n\r\t =\xff\xfe");
	ASSERT(spec_next(&spec, SK_ARG, &cursor, &v));
	SLICE_IS(v, "last");
	ASSERT(!spec_next(&spec, SK_ARG, &cursor, &v));
	ASSERT(!spec_next(&spec, SK_ARG, &cursor, &v));
	cursor = 0;
	ASSERT(!spec_next(&spec, SK_ENV, &cursor, &v));
	begin();
	wire_w_bytes(&w, SK_ARG, "a\0b", 3);
	REFUSED("an argument holds a NUL byte");
}

TEST(environment)
{
	static const char *const bad[] = {"", "=", "=x", "NAME", "N"};
	static const char *const good[] = {"A=", "A==", "A=b=c", "a b=c", "A=\n"};
	struct wire_slice v;
	size_t cursor = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		SUBTEST("refused: %s", bad[i])
		{
			begin();
			wire_w_str(&w, SK_ENV, bad[i]);
			REFUSED("an environment variable is not NAME=VALUE");
		}
	}
	begin();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		wire_w_str(&w, SK_ENV, good[i]);
	ASSERT_EQ(decode(), 0);
	ASSERT_EQ(spec.n_env, 5);
	ASSERT_EQ(spec.env_bytes, 3 + 4 + 6 + 6 + 4);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ASSERT(spec_next(&spec, SK_ENV, &cursor, &v));
		ASSERT_MEMEQ(v.p, v.n, good[i], strlen(good[i]));
	}
	begin();
	wire_w_bytes(&w, SK_ENV, "A=b\0c", 5);
	REFUSED("an environment variable holds a NUL byte");
	begin();
	wire_w_bytes(&w, SK_ENV_NAME, "A\0", 2);
	REFUSED("the name of an environment variable is not valid");
	begin();
	wire_w_str(&w, SK_ENV_NAME, "A=");
	REFUSED("the name of an environment variable is not valid");
	begin();
	wire_w_str(&w, SK_ENV_NAME, "");
	REFUSED("the name of an environment variable is not valid");
}

TEST(parts)
{
	static const char *const whole =
		"args\0"
		"0123456789abcdef0123456789abcde\0"; /* a NUL in the digest */

	begin();
	wire_w_bytes(&w, SK_PART, whole, 5 + 32);
	wire_w_bytes(&w, SK_PART, whole, 5 + 32);
	ASSERT_EQ(decode(), 0);
	ASSERT_EQ(spec.n_parts, 2);
	for (size_t n = 0; n <= 38; n++) {
		if (n == 37)
			continue;
		begin();
		wire_w_bytes(&w, SK_PART, whole, n);
		REFUSED("a part of the request is malformed");
	}
	begin();
	wire_w_bytes(&w, SK_PART, "\0" HEX64, 33); /* no name */
	REFUSED("a part of the request is malformed");
}

TEST(texts_that_are_refused)
{
	static const struct {
		int key;
		const char *value;
		size_t n;
		const char *why;
	} cases[] = {
		{SK_MODE, "server", 6, "the mode is neither worker nor job"},
		{SK_MODE, "", 0, "the mode is neither worker nor job"},
		{SK_MODE, "job\0", 4, "a text holds a NUL byte"},
		{SK_ID, "x", 1, "a field is there twice"},
		{SK_TREE, HEX64, 63, "the tree is not 64 hex digits"},
		{SK_TREE, HEX64 "0", 65, "the tree is not 64 hex digits"},
		{SK_TREE, "", 0, "the tree is not 64 hex digits"},
		{SK_TREE, "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", 64,
		 "the tree is not 64 hex digits"},
		{SK_TREE, "../3456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 64,
		 "the tree is not 64 hex digits"},
		{SK_LAYER, "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 64,
		 "the layer is not 64 hex digits"},
		{SK_LAYER, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde`", 64,
		 "the layer is not 64 hex digits"},
		{SK_INSTALL, "", 0, "the install command is empty"},
		{SK_INSTALL, "a\0b", 3, "a text holds a NUL byte"},
		{SK_SALT, "0123456789abcde", 15, "the salt does not have 16 bytes"},
		{SK_SALT, "0123456789abcdefg", 17, "the salt does not have 16 bytes"},
		{SK_WORKDIR, "", 0, "the working directory is empty"},
		{SK_WORKDIR, "a\0b", 3, "a text holds a NUL byte"},
		{SK_WORKDIR, "/etc", 4, "the working directory is not inside the artifact"},
		{SK_WORKDIR, "a/../../b", 9, "the working directory is not inside the artifact"},
		{SK_INPUT_PATH, "x", 1, "an input path without an input file"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%zu: key %d: %s", i, cases[i].key, cases[i].why)
		{
			begin();
			wire_w_bytes(&w, (uint16_t)cases[i].key, cases[i].value, cases[i].n);
			REFUSED(cases[i].why);
		}
	}
}

TEST(a_session_may_be_anywhere)
{
	begin();
	wire_w_int(&w, SK_KIND, WIRE_KIND_SESSION);
	wire_w_str(&w, SK_WORKDIR, "/etc");
	ASSERT_EQ(decode(), 0);
	SLICE_IS(spec.workdir, "/etc");
}

TEST(input)
{
	begin();
	wire_w_int(&w, SK_INPUT_LEN, 1);
	REFUSED("a length without an input");
	for (int64_t kind = SPEC_INPUT_STDIN; kind <= SPEC_INPUT_FILE; kind++) {
		static const int64_t lens[] = {0, 1, SPEC_INPUT_MAX};

		for (size_t i = 0; i < 3; i++) {
			begin();
			wire_w_int(&w, SK_INPUT_KIND, kind);
			wire_w_int(&w, SK_INPUT_LEN, lens[i]);
			if (kind == SPEC_INPUT_FILE)
				wire_w_str(&w, SK_INPUT_PATH, "in");
			ASSERT_EQ(decode(), 0);
			ASSERT_EQ(spec.input_len, lens[i]);
		}
		begin();
		wire_w_int(&w, SK_INPUT_KIND, kind);
		wire_w_int(&w, SK_INPUT_LEN, SPEC_INPUT_MAX + 1);
		REFUSED("a number is out of range");
	}
	begin();
	wire_w_int(&w, SK_INPUT_KIND, 3);
	REFUSED("a number is out of range");
	begin();
	wire_w_int(&w, SK_INPUT_KIND, SPEC_INPUT_FILE);
	REFUSED("the input path is not inside the artifact"); /* none */
	begin();
	wire_w_int(&w, SK_INPUT_KIND, SPEC_INPUT_STDIN);
	wire_w_str(&w, SK_INPUT_PATH, "x");
	REFUSED("an input path without an input file");
}

TEST(input_paths)
{
	static const struct {
		const char *path;
		bool good;
	} cases[] = {
		{"x", true},          {"a/b", true},          {"..data/x", true},
		{"...", true},        {"a/../b", true},       {"./x", true},
		{"a//b", true},       {".x", true},           {"a/..b", true},
		{"a/b../c", true},    {"\xff", true},         {"a\nb", true},
		{"/x", false},        {"..", false},          {"../x", false},
		{"a/../../b", false}, {"a/..", false},        {".", false},
		{"a/.", false},       {"a/", false},          {"", false},
		{"./../x", false},    {"a/./../../x", false}, {"//", false},
		{"a//../..", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%zu: %s", i, cases[i].path)
		{
			begin();
			wire_w_int(&w, SK_INPUT_KIND, SPEC_INPUT_FILE);
			wire_w_str(&w, SK_INPUT_PATH, cases[i].path);
			if (cases[i].good)
				ASSERT_EQ(decode(), 0);
			else
				REFUSED("the input path is not inside the artifact");
		}
	}
}

TEST(paths_inside)
{
	static const char *const in[] = {".",      "a",   "a/",        "a/..", "a/../b", "..data",
					 "..a/..", "...", "a/b/../..", "./.",  "a//b",   ".../.."};
	static const char *const out[] = {"",          "/",     "/a",          "..",
					  "../",       "../a",  "a/../..",     "./..",
					  "a/../../a", ".//..", "a/../b/../.."};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		CHECK(spec_path_inside(in[i], strlen(in[i])));
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		CHECK(!spec_path_inside(out[i], strlen(out[i])));
	ASSERT(!spec_path_inside("a\0b", 3));
	ASSERT(!spec_path_inside(NULL, 0));
}

TEST(unknown_keys_are_skipped)
{
	begin();
	wire_w_str(&w, 0, "zero");
	wire_w_str(&w, 33, "x");
	wire_w_str(&w, 33, "x");
	wire_w_bytes(&w, 64, "\0\0", 2);
	wire_w_bytes(&w, 65 + 32, "\0", 1); /* not key 33 of the next round */
	wire_w_str(&w, 0xffff, "");
	ASSERT_EQ(decode(), 0);
	ASSERT_EQ(spec.n_args, 1);
}

TEST(cut_off_at_every_byte)
{
	size_t whole;

	begin();
	wire_w_int(&w, SK_GRACE_MS, 1);
	wire_w_str(&w, SK_ENV, "A=1");
	whole = w.len;
	ASSERT_EQ(decode(), 0);
	for (size_t n = 0; n < whole; n++) {
		/* A cut between fields leaves a smaller spec; everything else is refused. */
		bool between = n == 11 + 10 || n == 11 + 10 + 14;

		w.len = n;
		CHECK_EQ(decode(), between ? 0 : -1);
	}
	ASSERT_EQ(spec_decode(NULL, 0, &spec, &why), -1);
}

TEST(copy_without_a_key)
{
	uint8_t out[512];
	struct wire_w o;

	begin();
	wire_w_str(&w, SK_ENV, "SECRET=1");
	wire_w_str(&w, SK_ENV_NAME, "SECRET");
	wire_w_str(&w, 99, "kept");
	wire_w_str(&w, SK_ENV, "SECRET2=1");
	wire_w_init(&o, out, sizeof(out));
	spec_copy_without(&o, buf, w.len, SK_ENV);
	ASSERT(wire_w_ok(&o));
	begin();
	wire_w_str(&w, SK_ENV_NAME, "SECRET");
	wire_w_str(&w, 99, "kept");
	ASSERT_MEMEQ(out, o.len, buf, w.len);
	ASSERT_NULL(memmem(out, o.len, "SECRET2", 7));
	ASSERT_NULL(memmem(out, o.len, "=1", 2));
}

TEST_MAIN()
