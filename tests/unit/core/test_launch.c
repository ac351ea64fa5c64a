/* SPDX-License-Identifier: MIT */
/* Launch requests: what is refused and how it is said, digests part by part, and the spec that
 * comes out. */
#include "tap.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "core/launch.h"

static const char *const args[] = {"node", "index.js", "", "--x=\n\xff", NULL};
static const uint8_t salt_a[LAUNCH_SALT_LEN] = "0123456789abcde";
static const uint8_t salt_b[LAUNCH_SALT_LEN] = "0123456789abcdf";
#define TREE_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define TREE_B "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"

static void sample(struct launch *l)
{
	launch_init(l);
	ASSERT_EQ(launch_set_args(l, args, NULL), 0);
	ASSERT_EQ(launch_set_env(l, "B=2", NULL), 0);
	ASSERT_EQ(launch_set_env(l, "A=secret=1", NULL), 0);
	ASSERT_EQ(launch_check_sizes(l, NULL), 0);
	ASSERT_EQ(launch_set_workdir(l, "sub/./dir", NULL), 0);
	ASSERT_EQ(launch_set_input(l, SPEC_INPUT_FILE, "in//put.json", "{}", 2, 0, NULL), 0);
	l->id = "x1";
	l->mode = "worker";
	l->tree = TREE_A;
	memcpy(l->salt, salt_a, LAUNCH_SALT_LEN);
}

/* ── refusals ────────────────────────────────────────────────────────────────────────────────── */

static void refuse_args(const char *const *command, const char *said)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct launch l;

	launch_init(&l);
	ASSERT_EQ(launch_set_args(&l, command, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, said);
	launch_done(&l);
}

TEST(commands_that_are_none)
{
	static char big[131073];

	refuse_args(NULL, "empty");
	refuse_args((const char *[]){NULL}, "empty");
	refuse_args((const char *[]){"", "x", NULL}, "empty");
	refuse_args((const char *[]){"a\nb", NULL}, "line break");
	refuse_args((const char *[]){"a\rb", NULL}, "line break");
	memset(big, 'x', 131072);
	refuse_args((const char *[]){"a", "b", big, NULL}, "argument 2 is 131072 bytes long");
	big[131071] = '\0';
	SUBTEST("131071 bytes are fine")
	{
		struct launch l;

		launch_init(&l);
		CHECK_EQ(launch_set_args(&l, (const char *[]){"a", big, NULL}, NULL), 0);
		launch_done(&l);
	}
}

static void refuse_env(const char *kv, const char *said)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct launch l;

	launch_init(&l);
	ASSERT_EQ(launch_set_env(&l, kv, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, said);
	ASSERT_LACKS(err.message, "hunter2");
	launch_done(&l);
}

TEST(environment_that_is_none)
{
	static char big[131073];

	refuse_env("hunter2", "NAME=VALUE");
	refuse_env("=hunter2", "NAME=VALUE");
	refuse_env("1A=hunter2", "NAME=VALUE");
	refuse_env("A-B=hunter2", "NAME=VALUE");
	refuse_env("hunter2 A=x", "NAME=VALUE");
	memset(big, 'x', 131072);
	memcpy(big, "TOKEN=hunter2", 13);
	refuse_env(big, "variable TOKEN is 131072 bytes long");
}

TEST(names_in_any_number_and_order)
{
	struct launch l;

	launch_init(&l);
	ASSERT_EQ(launch_set_env(&l, "A=1", NULL), 0);
	ASSERT_EQ(launch_set_env(&l, "AB=1", NULL), 0);
	ASSERT_EQ(launch_set_env(&l, "A=2", NULL), 0);
	ASSERT_EQ(launch_set_env(&l, "_=", NULL), 0);
	ASSERT_EQ(launch_set_env(&l, "A=3=3\n", NULL), 0);
	ASSERT_EQ(launch_check_sizes(&l, NULL), 0);
	ASSERT_EQ(l.env.len, 3);
	ASSERT_STREQ(l.env.items[0], "A=3=3\n");
	ASSERT_STREQ(l.env.items[1], "AB=1");
	ASSERT_STREQ(l.env.items[2], "_=");
	ASSERT_NULL(l.env.items[3]);
	launch_done(&l);
}

TEST(more_than_the_kernel_takes)
{
	struct berth_error err = BERTH_ERROR_INIT;
	static char value[130000];
	struct launch l;

	memset(value, 'v', sizeof(value) - 1);
	launch_init(&l);
	ASSERT_EQ(launch_set_args(&l, args, NULL), 0);
	for (int i = 0; i < 15; i++) {
		memcpy(value, (char[]){'V', (char)('A' + i), '='}, 3);
		ASSERT_EQ(launch_set_env(&l, value, NULL), 0);
	}
	ASSERT_EQ(launch_check_sizes(&l, &err), 0);
	memcpy(value, "VZ=", 3);
	ASSERT_EQ(launch_set_env(&l, value, NULL), 0);
	ASSERT_EQ(launch_check_sizes(&l, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "environment (2080");
	launch_done(&l);
}

TEST(fifteen_hundred_variables)
{
	struct launch l;
	char kv[64];

	launch_init(&l);
	ASSERT_EQ(launch_set_args(&l, args, NULL), 0);
	for (int i = 0; i < 1500; i++) {
		snprintf(kv, sizeof(kv), "VAR_%d=%d", 1499 - i, i);
		ASSERT_EQ(launch_set_env(&l, kv, NULL), 0);
	}
	ASSERT_EQ(launch_check_sizes(&l, NULL), 0);
	ASSERT_EQ(l.env.len, 1500);
	ASSERT_STREQ(l.env.items[0], "VAR_0=1499");
	launch_done(&l);
}

static void workdir(const char *rel, const char *want)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct launch l;

	launch_init(&l);
	SUBTEST("workdir %s", rel ? rel : "(none)")
	{
		int r = launch_set_workdir(&l, rel, &err);

		CHECK_EQ(r, want ? 0 : BERTH_E_INVALID);
		CHECK_STREQ(l.workdir, want);
	}
	launch_done(&l);
}

TEST(workdirs)
{
	workdir(NULL, ".");
	workdir(".", ".");
	workdir("a//b/.", "a/b");
	workdir("a/../b", "b");
	workdir("..data/x", "..data/x");
	workdir("..", NULL);
	workdir("a/../..", NULL);
	workdir("/tmp", NULL);
	workdir("", NULL);
}

static int input(int kind, const char *path, size_t len, int64_t limit, char *message)
{
	static char bytes[100];
	struct berth_error err = BERTH_ERROR_INIT;
	struct launch l;
	int r;

	launch_init(&l);
	r = launch_set_input(&l, kind, path, bytes, len, limit, &err);
	strcpy(message, err.message);
	launch_done(&l);
	return r;
}

TEST(inputs)
{
	char m[BERTH_ERROR_MESSAGE_MAX];

	CHECK_EQ(input(SPEC_INPUT_STDIN, NULL, 10, 10, m), 0);
	CHECK_EQ(input(SPEC_INPUT_STDIN, NULL, 0, 0, m), 0);
	ASSERT_EQ(input(SPEC_INPUT_STDIN, NULL, 11, 10, m), BERTH_E_INVALID);
	ASSERT_CONTAINS(m, "11 bytes");
	ASSERT_CONTAINS(m, "10");
	CHECK_EQ(input(SPEC_INPUT_STDIN, NULL, 1, -1, m), BERTH_E_INVALID);
	CHECK_EQ(input(9, NULL, 1, 10, m), BERTH_E_INVALID);
	CHECK_EQ(input(SPEC_INPUT_FILE, "a/b", 1, 10, m), 0);
	CHECK_EQ(input(SPEC_INPUT_FILE, "..data/x", 1, 10, m), 0);
	CHECK_EQ(input(SPEC_INPUT_FILE, NULL, 1, 10, m), BERTH_E_INVALID);
	CHECK_EQ(input(SPEC_INPUT_FILE, "", 1, 10, m), BERTH_E_INVALID);
	CHECK_EQ(input(SPEC_INPUT_FILE, "../x", 1, 10, m), BERTH_E_INVALID);
	CHECK_EQ(input(SPEC_INPUT_FILE, "/x", 1, 10, m), BERTH_E_INVALID);
	CHECK_EQ(input(SPEC_INPUT_FILE, "a/", 1, 10, m), BERTH_E_INVALID);
	CHECK_EQ(input(SPEC_INPUT_FILE, "a/..", 1, 10, m), BERTH_E_INVALID);
}

/* ── digests ─────────────────────────────────────────────────────────────────────────────────── */

/* The command part by hand: SHA-256(salt, "command", 0, u64 length + 1, bytes). */
TEST(digest_known_answer)
{
	uint8_t want[SHA256_LEN], got[SHA256_LEN];
	uint8_t bytes[LAUNCH_SALT_LEN + 8 + 8 + 4];
	struct launch l;

	sample(&l);
	memcpy(bytes, salt_a, LAUNCH_SALT_LEN);
	memcpy(bytes + 16, "command", 8);
	memcpy(bytes + 24, "\5\0\0\0\0\0\0\0node", 12);
	ASSERT_EQ(sha256_bytes(bytes, sizeof(bytes), want, NULL), 0);
	ASSERT_EQ(launch_part_digest(&l, LAUNCH_PART_COMMAND, salt_a, got, NULL), 0);
	ASSERT_MEMEQ(got, SHA256_LEN, want, SHA256_LEN);
	launch_done(&l);
}

/* The encoded sample, and what launch_compare says of another launch about it. */
static const char *compared(struct launch *other)
{
	const char *text = "same", *why = NULL;
	struct launch l;
	struct spec decoded;
	uint8_t *spec;
	size_t n;
	int r;

	sample(&l);
	ASSERT_EQ(launch_encode(&l, &spec, &n, NULL), 0);
	if (spec_decode(spec, n, &decoded, &why) < 0)
		FAIL("%s", why);
	r = launch_compare(other, (struct wire_slice){spec, n}, &text, NULL);
	ASSERT(r == 0 || r == 1);
	launch_free_spec(spec, n);
	launch_done(&l);
	return text;
}

static void change(struct launch *l, const char *want)
{
	SUBTEST("%s", want)
	CHECK_STREQ(compared(l), want);
	launch_done(l);
	sample(l);
}

TEST(each_part_is_named)
{
	struct launch l;

	sample(&l);
	memcpy(l.salt, salt_b, LAUNCH_SALT_LEN); /* one's own salt does not matter */
	l.mode = "job";
	l.startup_ms = 1;
	l.record_env = l.durable = false;
	change(&l, "same");
	l.tree = TREE_B;
	change(&l, "another artifact");
	l.args.items[0][0] = 'm';
	change(&l, "another command");
	l.args.items[3][0] = '+';
	change(&l, "other args");
	ASSERT_EQ(strv_add(&l.args, ""), 0);
	change(&l, "other args");
	l.env.items[1][2] = '3';
	change(&l, "another env");
	ASSERT_EQ(launch_set_workdir(&l, "sub/dir2", NULL), 0);
	change(&l, "another workdir");
	l.input_sha[31] ^= 1;
	change(&l, "another input");
	l.input_path[0] = 'j';
	change(&l, "another input");
	l.input_kind = SPEC_INPUT_NONE;
	change(&l, "another input");
	l.install = "";
	change(&l, "another install command");
	l.timeout_ms = 1;
	change(&l, "another timeout");
	l.grace_ms = 0;
	change(&l, "another grace");
	l.pids = 10;
	change(&l, "other limits");
	l.memory = 10;
	change(&l, "other limits");
	l.output_limit = -1;
	change(&l, "another output limit");
	launch_done(&l);
}

/* Two lists of strings are never the same bytes. */
TEST(no_two_lists_look_the_same)
{
	static const char *const lists[][4] = {
		{"c", "ab", "c", NULL}, {"c", "a", "bc", NULL}, {"c", "abc", NULL},
		{"c", "", "abc", NULL}, {"c", "abc", "", NULL}, {"c", NULL},
	};
	uint8_t d[6][SHA256_LEN];

	for (int i = 0; i < 6; i++) {
		struct launch l;

		launch_init(&l);
		ASSERT_EQ(launch_set_args(&l, lists[i], NULL), 0);
		ASSERT_EQ(launch_part_digest(&l, LAUNCH_PART_ARGS, salt_a, d[i], NULL), 0);
		launch_done(&l);
		for (int j = 0; j < i; j++)
			ASSERT(memcmp(d[i], d[j], SHA256_LEN) != 0);
	}
}

TEST(record_without_digests_is_another_request)
{
	const char *text = NULL;
	struct launch l;
	uint8_t buf[64];
	struct wire_w w;

	sample(&l);
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, SK_ID, "x1");
	ASSERT_EQ(launch_compare(&l, (struct wire_slice){buf, w.len}, &text, NULL), 1);
	ASSERT_STREQ(text, "another request");
	launch_done(&l);
}

/* ── the spec ────────────────────────────────────────────────────────────────────────────────── */

TEST(spec_says_it_all)
{
	const char *why = "";
	struct wire_slice v;
	struct launch l;
	struct spec s;
	uint8_t *spec;
	size_t n, cursor = 0;

	sample(&l);
	l.layer = TREE_B;
	l.install = "npm install --omit=dev";
	l.cpus_milli = 1500;
	l.output_limit = -1;
	l.record_env = false;
	l.durable = false;
	l.from = "older";
	ASSERT_EQ(launch_encode(&l, &spec, &n, NULL), 0);
	if (spec_decode(spec, n, &s, &why) < 0)
		FAIL("%s", why);
	CHECK_MEMEQ(s.id.p, s.id.n, "x1", 2);
	CHECK_MEMEQ(s.mode.p, s.mode.n, "worker", 6);
	CHECK_EQ(s.n_args, 4);
	CHECK_EQ(s.n_env, 2);
	CHECK_EQ(s.n_parts, LAUNCH_PARTS);
	CHECK_MEMEQ(s.workdir.p, s.workdir.n, "sub/dir", 7);
	CHECK_EQ(s.input_kind, SPEC_INPUT_FILE);
	CHECK_MEMEQ(s.input_path.p, s.input_path.n, "in/put.json", 11);
	CHECK_EQ(s.input_len, 2);
	CHECK_MEMEQ(s.tree.p, s.tree.n, TREE_A, 64);
	CHECK_MEMEQ(s.layer.p, s.layer.n, TREE_B, 64);
	CHECK_MEMEQ(s.from.p, s.from.n, "older", 5);
	CHECK_EQ(s.cpus_milli, 1500);
	CHECK_EQ(s.output_limit, -1);
	CHECK_EQ(s.record_env, 0);
	CHECK_EQ(s.durable, 0);
	CHECK_EQ(s.grace_ms, 5000);
	CHECK_EQ(s.startup_ms, 10000);
	ASSERT(spec_next(&s, SK_ENV, &cursor, &v));
	CHECK_MEMEQ(v.p, v.n, "A=secret=1", 10);
	cursor = 0;
	ASSERT(spec_next(&s, SK_ENV_NAME, &cursor, &v));
	CHECK_MEMEQ(v.p, v.n, "A", 1);
	launch_free_spec(spec, n);
	launch_done(&l);
}

TEST(recorded_input_part_is_taken_over)
{
	uint8_t d[SHA256_LEN], mine[SHA256_LEN];
	struct launch l;

	sample(&l);
	memset(mine, 7, sizeof(mine));
	l.input_part_known = true;
	memcpy(l.input_part, mine, sizeof(mine));
	ASSERT_EQ(launch_part_digest(&l, LAUNCH_PART_INPUT, salt_a, d, NULL), 0);
	ASSERT_MEMEQ(d, SHA256_LEN, mine, SHA256_LEN);
	launch_done(&l);
}

static int build(void)
{
	struct launch l;
	uint8_t *spec;
	size_t n;
	int r;

	launch_init(&l);
	l.id = "x";
	l.tree = TREE_A;
	if ((r = launch_set_args(&l, args, NULL)) < 0 ||
	    (r = launch_set_env(&l, "A=1", NULL)) < 0 ||
	    (r = launch_set_env(&l, "A=2", NULL)) < 0 || (r = launch_check_sizes(&l, NULL)) < 0 ||
	    (r = launch_set_workdir(&l, "a", NULL)) < 0 ||
	    (r = launch_set_input(&l, SPEC_INPUT_FILE, "a", "", 0, 0, NULL)) < 0 ||
	    (r = launch_encode(&l, &spec, &n, NULL)) < 0) {
		launch_done(&l);
		return r;
	}
	launch_free_spec(spec, n);
	launch_done(&l);
	return 0;
}

TEST(without_memory)
{
	ASSERT_EQ(build(), 0);
	for (unsigned long n = 1;; n++) {
		int r;

		mem_fail_from(n);
		r = build();
		if (!mem_failed()) {
			ASSERT_GT(n, 6);
			break;
		}
		mem_fail_from(0);
		ASSERT_EQ(r, BERTH_E_NOMEM);
	}
	mem_fail_from(0);
}

TEST_MAIN()
