/* SPDX-License-Identifier: MIT */
/* The small parts of exec: orders on a pipe in any pieces, detach keys, launch errors. */
#include "tap.h"

#include "base/fd.h"
#include "core/exec.h"

static const struct {
	const char *name, *typed;
	const char *passed; /* before the detach, or all */
	bool detach, held;
} keys[] = {
	{"text", "hello", "hello", false, false},
	{"both",
	 "ab\x10\x11"
	 "cd",
	 "ab", true, false},
	{"a lone ctrl-p passes with what follows",
	 "a\x10"
	 "b",
	 "a\x10"
	 "b",
	 false, false},
	{"kept back at the end", "a\x10", "a", false, true},
	{"two ctrl-p, then ctrl-q", "\x10\x10\x11", "\x10", true, true},
	{"ctrl-q alone", "\x11x", "\x11x", false, false},
};

TEST(detach_keys)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		SUBTEST("%s", keys[i].name)
		{
			struct exec_keys k = {.on = true};
			uint8_t out[64];
			size_t n = 99, len = strlen(keys[i].typed), total = 0;
			bool detach = false;

			ASSERT_EQ(
				exec_keys_filter(&k, (const uint8_t *)keys[i].typed, len, out, &n),
				keys[i].detach);
			ASSERT_MEMEQ(out, n, keys[i].passed, strlen(keys[i].passed));
			if (!keys[i].detach)
				ASSERT_EQ(k.held, keys[i].held);
			/* The same byte by byte. */
			k = (struct exec_keys){.on = true};
			for (size_t j = 0; j < len && !detach; j++) {
				detach = exec_keys_filter(&k, (const uint8_t *)keys[i].typed + j, 1,
							  out + total, &n);
				total += n;
			}
			ASSERT_EQ(detach, keys[i].detach);
			ASSERT_MEMEQ(out, total, keys[i].passed, strlen(keys[i].passed));
			/* Without a terminal they are bytes like others. */
			k = (struct exec_keys){.on = false};
			ASSERT(!exec_keys_filter(&k, (const uint8_t *)keys[i].typed, len, out, &n));
			ASSERT_MEMEQ(out, n, keys[i].typed, len);
		}
	}
}

TEST(orders_come_in_any_pieces)
{
	static const struct berth_exec_control sent[] = {{.what = 's', .a = 15},
							 {.what = 'w', .b = 132},
							 {.what = 'h', .b = 50},
							 {.what = 'd'}};
	struct exec_control c = {.fd = -1};
	struct exec_order o[4];
	const uint8_t *p = (const uint8_t *)sent;
	size_t n = 0;
	int fds[2];

	ASSERT_EQ(sizeof(sent), 16u);
	ASSERT_EQ(fd_pipe(fds, 0), 0);
	c.fd = fds[0];
	ASSERT_EQ(exec_control_next(&c, &o[0], NULL), 0);
	for (size_t i = 0; i < sizeof(sent); i++) {
		ASSERT_EQ(write(fds[1], p + i, 1), 1);
		while (exec_control_next(&c, &o[n], NULL) > 0)
			n++;
	}
	ASSERT_EQ(n, 3u);
	ASSERT_EQ(o[0].what, 's');
	ASSERT_EQ(o[0].signo, 15);
	ASSERT_EQ(o[1].what, 'w');
	ASSERT_EQ(o[1].cols, 132u);
	ASSERT_EQ(o[1].rows, 50u);
	ASSERT_EQ(o[2].what, 'd');
	close(fds[1]);
	ASSERT_EQ(exec_control_next(&c, &o[0], NULL), 0);
	ASSERT_EQ(c.fd, -1);
	ASSERT_EQ(exec_control_next(&c, &o[0], NULL), 0);
}

TEST(unknown_orders_are_refused)
{
	static const struct berth_exec_control bad = {.what = 'z'};
	struct exec_control c;
	struct exec_order o;
	int fds[2];

	ASSERT_EQ(fd_pipe(fds, 0), 0);
	c = (struct exec_control){.fd = fds[0]};
	ASSERT_EQ(write(fds[1], &bad, sizeof(bad)), (ssize_t)sizeof(bad));
	ASSERT_EQ(exec_control_next(&c, &o, NULL), BERTH_E_INVALID);
}

TEST(launch_errors_tell_missing_from_forbidden)
{
	struct berth_error err = BERTH_ERROR_INIT;

	ASSERT_EQ(exec_launch_error(ENOENT, "m", &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(err.sys_errno, ENOENT);
	ASSERT_STREQ(err.message, "m");
	ASSERT_EQ(exec_launch_error(ENOTDIR, "m", NULL), BERTH_E_NOT_FOUND);
	ASSERT_EQ(exec_launch_error(EACCES, "m", NULL), BERTH_E_PERM);
	ASSERT_EQ(exec_launch_error(ENOEXEC, "m", NULL), BERTH_E_PERM);
	ASSERT_EQ(exec_launch_error(0, "m", NULL), BERTH_E_IO);
}

TEST_MAIN()
