/* SPDX-License-Identifier: MIT */
/* Tests that end in every way there is; test_harness.py looks at what becomes of them. */
#include "tap.h"

TEST(passes)
{
	ASSERT_EQ(1 + 1, 2);
}

TEST(fails)
{
	int answer = 41;

	ASSERT_EQ(answer, 42);
	DIAG("never reached");
}

TEST(check_goes_on)
{
	CHECK_EQ(1, 2);
	CHECK_STREQ("a", "b\n");
	DIAG("reached");
}

TEST(asserts_nothing)
{
}

TEST(crashes)
{
	ASSERT(true);
	raise(SIGSEGV);
}

TEST(exits)
{
	ASSERT(true);
	exit(0);
}

static void fail_late(void)
{
	_exit(23); /* as the leak checker does */
}

TEST(fails_at_exit)
{
	ASSERT_EQ(atexit(fail_late), 0);
}

TEST_TIMEOUT(hangs, 1)
{
	ASSERT(true);
	for (;;)
		pause();
}

TEST(leaves_a_process_behind)
{
	FILE *f = fopen(getenv("TAP_SAMPLE_PID"), "w");
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	fprintf(f, "%d\n", (int)pid);
	fclose(f);
	ASSERT_GT(pid, 0);
}

TEST(skips)
{
	SKIP("no %s here", "moon");
}

TEST(skip_after_failure_is_a_failure)
{
	CHECK(false);
	SKIP("too late");
}

TEST(requires_what_is_there)
{
	TEST_REQUIRE("here", "not here");
	ASSERT(true);
}

TEST(requires_what_is_missing)
{
	TEST_REQUIRE("her", "her is no word of the list");
	ASSERT(true);
}

TEST(requires_what_ci_demands)
{
	TEST_REQUIRE("demanded", "missing");
	ASSERT(true);
}

TEST(subtests)
{
	for (int i = 0; i < 3; i++)
		SUBTEST("case %d # SKIP", i)
	ASSERT_NE(i, 1);
}

TEST(prints_what_looks_like_tap)
{
	printf("ok 99 - forged\n1..5\n");
	ASSERT(true);
}

TEST(has_an_empty_folder)
{
	ASSERT_EQ(rmdir("."), -1);
	ASSERT_EQ(errno, EINVAL);
	ASSERT_EQ(mkdir("x", 0700), 0);
	ASSERT_EQ(mkdir("x/y", 0), 0);
}

TEST_MAIN()
