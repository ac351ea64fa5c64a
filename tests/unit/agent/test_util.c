/* SPDX-License-Identifier: MIT */
/*
 * The agent's own text, environment and limits, in a process.
 */
#include "tap.h"

#include "agent/agent.h"
#include "agent/limits.h"

TEST(fmt_formats)
{
	char b[64];

	ASSERT_EQ(fmt(b, sizeof(b), "%s-%d-%u-%x-%c-%%", "a", -5, 7u, 255u, 'z'), 13u);
	ASSERT_STREQ(b, "a--5-7-ff-z-%");
	fmt(b, sizeof(b), "%ld %lu %lld %llu %zu", -1L, 2UL, INT64_MIN + 0LL, UINT64_MAX + 0ULL,
	    (size_t)9);
	ASSERT_STREQ(b, "-1 2 -9223372036854775808 18446744073709551615 9");
	fmt(b, sizeof(b), "%.*s|%s", 3, "abcdef", (char *)NULL);
	ASSERT_STREQ(b, "abc|");
	ASSERT_EQ(fmt(b, 4, "%s", "abcdef"), 3u);
	ASSERT_STREQ(b, "abc");
}

TEST(fail_is_one_line)
{
	struct agent_fail f;
	char big[2000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	ASSERT_EQ(fail(&f, 7, "stage", ENOENT, "a\nb %m %s", big), -1);
	ASSERT_EQ(f.code, 7);
	ASSERT_EQ(f.err, ENOENT);
	ASSERT_EQ(strlen(f.message), 500u);
	ASSERT(strncmp(f.message, "a?b No such file or directory x", 31) == 0);
	ASSERT_EQ(fail(NULL, 7, NULL, 0, "nobody listens"), -1);
}

TEST(buffers_grow_and_keep)
{
	struct buf b = {NULL, 0};

	ASSERT(buf_need(&b, 10));
	memcpy(b.p, "0123456789", 10);
	ASSERT(buf_need(&b, 5 << 20));
	ASSERT_GE(b.cap, 5u << 20);
	ASSERT_MEMEQ(b.p, 10, "0123456789", 10);
	b.p[(5 << 20) - 1] = 'x';
	buf_trim(&b, 4096);
	ASSERT_EQ(b.p[(5 << 20) - 1], 0);
	ASSERT_MEMEQ(b.p, 10, "0123456789", 10);
	buf_done(&b);
	ASSERT_NULL(b.p);
}

static char **make(struct arena *a, const char *const *add)
{
	static uint8_t fields[400000];
	struct wire_w w;

	wire_w_init(&w, fields, sizeof(fields));
	for (; *add; add++)
		wire_w_str(&w, SK_ENV, *add);
	ASSERT(wire_w_ok(&w));
	ASSERT(arena_init(a, 8 << 20));
	return env_make(a, fields, w.len, SK_ENV);
}

static int count(char **env, const char *kv)
{
	int n = 0;

	for (; *env; env++)
		n += strcmp(*env, kv) == 0;
	return n;
}

static int names(char **env, const char *name)
{
	int n = 0;

	for (; *env; env++)
		n += strncmp(*env, name, strlen(name)) == 0 && (*env)[strlen(name)] == '=';
	return n;
}

TEST(environment_order)
{
	char own1[] = "SANDBOX=yes", own2[] = "PATH=/sandbox/bin", own3[] = "LANG=de_DE",
	     own4[] = "=odd";
	char *own[] = {own1, own2, own3, own4, NULL};
	struct arena a;
	char **env;

	agent.home = "/the/home";
	agent.user = "me";
	agent.environ = own;
	env = make(&a, (const char *const[]){"A=1", "A=2", "LANG=C", "EMPTY=", "AB=3", NULL});
	ASSERT_NOT_NULL(env);
	ASSERT_EQ(count(env, "HOME=/the/home"), 1);
	ASSERT_EQ(count(env, "USER=me"), 1);
	ASSERT_EQ(count(env, "TMPDIR=/tmp"), 1);
	ASSERT_EQ(count(env, "SANDBOX=yes"), 1);
	/* The sandbox's own goes over ours, -e over both, the last of two wins. */
	ASSERT_EQ(count(env, "PATH=/sandbox/bin"), 1);
	ASSERT_EQ(names(env, "PATH"), 1);
	ASSERT_EQ(count(env, "LANG=C"), 1);
	ASSERT_EQ(names(env, "LANG"), 1);
	ASSERT_EQ(count(env, "A=2"), 1);
	ASSERT_EQ(names(env, "A"), 1);
	ASSERT_EQ(count(env, "EMPTY="), 1);
	ASSERT_EQ(count(env, "AB=3"), 1);
	arena_done(&a);
}

TEST(many_variables)
{
	static char text[3000][32];
	static const char *list[3001];
	struct arena a;
	char **env;

	agent.home = "/";
	agent.user = "";
	agent.environ = NULL;
	for (int i = 0; i < 3000; i++) {
		snprintf(text[i], sizeof(text[i]), "V%d=%d", i % 1500, i);
		list[i] = text[i];
	}
	env = make(&a, list);
	ASSERT_NOT_NULL(env);
	for (int i = 0; i < 1500; i++)
		ASSERT_EQ(count(env, text[1500 + i]), 1);
	ASSERT_EQ(names(env, "V7"), 1);
	arena_done(&a);
}

TEST(argv_has_a_spare_slot)
{
	uint8_t fields[256];
	struct wire_w w;
	struct arena a;
	char **argv;

	wire_w_init(&w, fields, sizeof(fields));
	wire_w_str(&w, SK_ARG, "one");
	wire_w_str(&w, SK_ENV, "X=1");
	wire_w_str(&w, SK_ARG, "");
	ASSERT(arena_init(&a, 4096));
	argv = argv_make(&a, fields, w.len, SK_ARG);
	ASSERT_NOT_NULL(argv);
	ASSERT_STREQ(argv[0], "one");
	ASSERT_STREQ(argv[1], "");
	ASSERT_NULL(argv[2]);
	argv[-1] = argv[0];
	ASSERT_STREQ(argv[0], "one");
	arena_done(&a);
}

TEST(arena_is_bounded)
{
	struct arena a;

	ASSERT(arena_init(&a, 4096));
	ASSERT_NULL(arena_take(&a, 5000));
	ASSERT_NOT_NULL(arena_take(&a, 4000));
	ASSERT_NULL(arena_str(&a,
			      "01234567890123456789012345678901234567890123456789012345678901234567"
			      "89012345678901234567890123456789",
			      100));
	ASSERT_NOT_NULL(arena_str(&a, "short", 5));
	arena_done(&a);
}

TEST(kernel_bounds)
{
	static char big[131073];
	char *argv[] = {(char *)"cmd", big, NULL}, *envp[] = {big, NULL}, *none[] = {NULL};
	struct agent_fail f;

	memset(big, 'a', sizeof(big) - 1);
	ASSERT_EQ(limits_exec(argv, none, &f), -1);
	ASSERT_CONTAINS(f.message, "argument 1 has 131072 bytes");
	big[131071] = '\0';
	ASSERT_EQ(limits_exec(argv, none, &f), 0);
	big[131071] = 'a';
	memcpy(big, "SECRET=", 7);
	argv[1] = NULL;
	ASSERT_EQ(limits_exec(argv, envp, &f), -1);
	ASSERT_CONTAINS(f.message, "environment variable SECRET has");
	ASSERT_LACKS(f.message, "aaa");
}

TEST_MAIN()
