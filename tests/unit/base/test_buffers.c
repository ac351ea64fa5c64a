/* SPDX-License-Identifier: MIT */
/* strbuf, strv, alloc, attr and cleanup. */
#include "base/alloc.h"
#include "base/attr.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/strv.h"

#include <fcntl.h>

#include <berth/error.h>

#include "tap.h"
#include "torture.h"

TEST(macros_evaluate_once)
{
	int calls = 0, array[7];

	ASSERT_EQ(MIN_OF((calls++, 3), 5), 3);
	ASSERT_EQ(MAX_OF(5, (calls++, 3)), 5);
	ASSERT_EQ(calls, 2);
	ASSERT_EQ(ARRAY_LEN(array), 7);
}

TEST(cleanup_frees_and_keeps_errno)
{
	int fds[2];

	ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
	{
		auto_close int fd = fds[1];
		auto_free char *p = malloc(1);

		errno = 55;
		ASSERT_NOT_NULL(p);
		ASSERT_GE(fd, 0);
	}
	ASSERT_EQ(errno, 55);
	ASSERT_EQ(fcntl(fds[1], F_GETFD), -1); /* closed */
	{
		auto_close int fd = fds[0];
		int taken = TAKE_FD(fd);

		ASSERT_EQ(taken, fds[0]);
		ASSERT_EQ(fd, -1);
	}
	ASSERT_GE(fcntl(fds[0], F_GETFD), 0); /* taken, so still open */
	{
		auto_free char *p = malloc(1);
		char *q = TAKE_PTR(p);

		ASSERT_NULL(p);
		free(q);
	}
}

TEST(alloc_checks_overflow)
{
	volatile size_t huge = SIZE_MAX / 2;
	void *p = mem_alloc(0);

	ASSERT_NOT_NULL(p);
	free(p);
	ASSERT_NULL(mem_reallocarray(NULL, huge, 3));
	ASSERT_NULL(mem_strndup("x", SIZE_MAX));
	p = mem_zalloc(0, 8);
	ASSERT_NOT_NULL(p);
	free(p);
}

TEST(alloc_hook_fails_from_the_nth)
{
	void *a, *b, *c;

	mem_fail_from(2);
	a = mem_alloc(1);
	errno = 0;
	b = mem_alloc(1);
	ASSERT_EQ(errno, ENOMEM);
	c = mem_strdup("x");
	ASSERT_NOT_NULL(a);
	ASSERT_NULL(b);
	ASSERT_NULL(c);
	ASSERT_EQ(mem_count(), 3);
	ASSERT_EQ(mem_failed(), 2);
	mem_fail_from(0);
	free(a);
	a = mem_printf("%d-%s", 5, "x");
	ASSERT_STREQ((char *)a, "5-x");
	free(a);
	a = mem_strndup("a\0b", 3);
	ASSERT_MEMEQ(a, 4, "a\0b", 4);
	free(a);
}

TEST(strbuf_appends)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(1000);
	char *text;
	size_t len = 0;

	ASSERT_STREQ(b.data, "");
	ASSERT_EQ(strbuf_adds(&b, "ab"), 0);
	ASSERT_EQ(strbuf_addc(&b, 'c'), 0);
	ASSERT_EQ(strbuf_addf(&b, "-%d-%s", 42, "x"), 0);
	ASSERT_EQ(strbuf_add(&b, "\0z", 2), 0);
	ASSERT_MEMEQ(b.data, b.len + 1, "abc-42-x\0z\0", 11);
	strbuf_consume(&b, 3);
	ASSERT_MEMEQ(b.data, b.len, "-42-x\0z", 7);
	strbuf_truncate(&b, 3);
	strbuf_truncate(&b, 10);
	ASSERT_STREQ(b.data, "-42");
	text = strbuf_detach(&b, &len);
	ASSERT_STREQ(text, "-42");
	ASSERT_EQ(len, 3);
	free(text);
	ASSERT_STREQ(b.data, "");
	text = strbuf_detach(&b, NULL);
	ASSERT_STREQ(text, "");
	free(text);
	strbuf_consume(&b, 5);
	ASSERT_EQ(b.len, 0);
}

TEST(strbuf_formats_across_every_growth)
{
	for (size_t start = 0; start < 200; start++) {
		auto(strbuf) struct strbuf b = STRBUF_INIT(1000);
		char want[400];

		for (size_t i = 0; i < start; i++)
			strbuf_addc(&b, 'a');
		strbuf_addf(&b, "%s%d", "0123456789012345678901234567890123456789", 7);
		memset(want, 'a', start);
		snprintf(want + start, sizeof(want) - start,
			 "0123456789012345678901234567890123456789%d", 7);
		ASSERT_STREQ(b.data, want);
		ASSERT_EQ(b.len, strlen(want));
	}
}

TEST(strbuf_holds_its_maximum_and_no_more)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(5);

	ASSERT_EQ(strbuf_adds(&b, "1234"), 0);
	ASSERT_EQ(strbuf_adds(&b, "56"), BERTH_E_TOO_LARGE);
	ASSERT_STREQ(b.data, "1234");
	ASSERT_EQ(strbuf_adds(&b, "5"), BERTH_E_TOO_LARGE); /* it sticks */
	ASSERT_EQ(strbuf_addf(&b, "5"), BERTH_E_TOO_LARGE);
	ASSERT_EQ(strbuf_error(&b), BERTH_E_TOO_LARGE);
	ASSERT_NULL(strbuf_detach(&b, NULL));
	strbuf_reset(&b);
	ASSERT_EQ(strbuf_error(&b), 0);
	ASSERT_EQ(strbuf_addf(&b, "%s", "12345"), 0);
	ASSERT_EQ(strbuf_addf(&b, "%s", ""), 0);
	ASSERT_EQ(strbuf_addf(&b, "%s", "6"), BERTH_E_TOO_LARGE);
	ASSERT_STREQ(b.data, "12345");
	ASSERT_LT(strbuf_reserve(&b, SIZE_MAX), 0);
}

static int fill_strbuf(void *arg)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(100000);
	char *text;

	(void)arg;
	for (int i = 0; i < 1000; i++)
		strbuf_addf(&b, "%d,", i);
	if (strbuf_error(&b)) {
		ASSERT_EQ(strbuf_error(&b), BERTH_E_NOMEM);
		ASSERT_EQ(b.data[b.len], '\0');
		return -1;
	}
	text = strbuf_detach(&b, NULL);
	free(text);
	return text ? 0 : -1;
}

TEST(strbuf_survives_allocation_failure)
{
	torture(fill_strbuf, NULL);
}

TEST(strv_adds_and_detaches)
{
	auto(strv) struct strv v = STRV_INIT(100);
	char *more[] = {(char *)"c", (char *)"b", NULL};
	char **items;

	ASSERT_NULL(v.items[0]);
	ASSERT_EQ(strv_add(&v, "z"), 0);
	ASSERT_EQ(strv_addn(&v, "abc", 2), 0);
	ASSERT_EQ(strv_addn(&v, "a\0b", 3), BERTH_E_INVALID);
	ASSERT_EQ(strv_addf(&v, "n%d", 1), 0);
	ASSERT_EQ(strv_add_all(&v, more), 0);
	ASSERT_EQ(v.len, 5);
	ASSERT(strv_contains(&v, "ab"));
	ASSERT(!strv_contains(&v, "abc"));
	strv_sort(&v);
	ASSERT_STREQ(v.items[0], "ab");
	ASSERT_STREQ(v.items[4], "z");
	ASSERT_NULL(v.items[5]);
	items = strv_detach(&v);
	ASSERT_STREQ(items[4], "z");
	strv_free_items(items);
	ASSERT_EQ(v.len, 0);
	items = strv_detach(&v);
	ASSERT_NOT_NULL(items);
	ASSERT_NULL(items[0]);
	strv_free_items(items);
	strv_free_items(NULL);
}

TEST(strv_holds_its_maximum_and_no_more)
{
	auto(strv) struct strv v = STRV_INIT(20);

	for (int i = 0; i < 20; i++)
		ASSERT_EQ(strv_addf(&v, "%d", i), 0);
	ASSERT_EQ(strv_add(&v, "x"), BERTH_E_TOO_LARGE);
	ASSERT_EQ(strv_take(&v, NULL), BERTH_E_NOMEM);
	ASSERT_EQ(v.len, 20);
	ASSERT_STREQ(v.items[19], "19");
	ASSERT_NULL(v.items[20]);
}

TEST(strv_env)
{
	auto(strv) struct strv v = STRV_INIT(10);

	ASSERT_EQ(strv_env_set(&v, "A", "1"), 0);
	ASSERT_EQ(strv_env_set(&v, "AB", "2"), 0);
	ASSERT_EQ(strv_env_set(&v, "A", "x=y"), 0);
	ASSERT_EQ(v.len, 2);
	ASSERT_STREQ(strv_env_get(&v, "A"), "x=y");
	ASSERT_STREQ(strv_env_get(&v, "AB"), "2");
	ASSERT_NULL(strv_env_get(&v, "B"));
	ASSERT_EQ(strv_env_set(&v, "B", ""), 0);
	ASSERT_STREQ(strv_env_get(&v, "B"), "");
}

static int fill_strv(void *arg)
{
	auto(strv) struct strv v = STRV_INIT(1000);
	int r = 0;

	(void)arg;
	for (int i = 0; i < 40 && r == 0; i++)
		r = strv_addf(&v, "string %d", i);
	for (int i = 0; i < 10 && r == 0; i++)
		r = strv_env_set(&v, "NAME", "v");
	ASSERT_NULL(v.items[v.len]);
	return r;
}

TEST(strv_survives_allocation_failure)
{
	torture(fill_strv, NULL);
}

TEST_MAIN()
