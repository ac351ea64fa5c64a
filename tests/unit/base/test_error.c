/* SPDX-License-Identifier: MIT */
/* The error object and the text that it is made of. */
#include <berth/error.h>

#include "base/parse.h"
#include "base/text.h"

#include "tap.h"

TEST(rows_are_distinct_and_complete)
{
	static const int codes[] = {
#define CODE(name, code, id, text, http, exit) name,
		BERTH_ERROR_MAP(CODE)
#undef CODE
	};
	const int n = (int)(sizeof(codes) / sizeof(codes[0]));

	ASSERT_EQ(n, 16);
	for (int i = 0; i < n; i++) {
		ASSERT_EQ(codes[i], -(i + 1));
		ASSERT_GT(strlen(berth_error_id(codes[i])), 0);
		ASSERT_GT(strlen(berth_error_text(codes[i])), 0);
		ASSERT_GE(berth_error_http_status(codes[i]), 400);
		ASSERT_GT(berth_error_exit_code(codes[i]), 0);
		/* Codes that share an id must agree in what a client sees of it. */
		ASSERT_EQ(berth_error_http_status(berth_error_from_id(berth_error_id(codes[i]))),
			  berth_error_http_status(codes[i]));
		ASSERT_EQ(berth_error_exit_code(berth_error_from_id(berth_error_id(codes[i]))),
			  berth_error_exit_code(codes[i]));
	}
}

TEST(exit_codes_are_those_of_the_contract)
{
	ASSERT_EQ(berth_error_exit_code(BERTH_E_INVALID), 2);
	ASSERT_EQ(berth_error_exit_code(BERTH_E_NOT_FOUND), 3);
	ASSERT_EQ(berth_error_exit_code(BERTH_E_CONFLICT), 4);
	ASSERT_EQ(berth_error_exit_code(BERTH_E_UNAVAILABLE), 5);
	ASSERT_EQ(berth_error_exit_code(BERTH_E_TIMEOUT), 5);
	ASSERT_EQ(berth_error_exit_code(BERTH_E_IO), 1);
	ASSERT_STREQ(berth_error_id(BERTH_E_INVALID), "invalid_request");
	ASSERT_STREQ(berth_error_id(BERTH_E_TIMEOUT), "unavailable");
	ASSERT_STREQ(berth_error_id(12345), "internal");
	ASSERT_EQ(berth_error_from_id("conflict"), BERTH_E_CONFLICT);
	ASSERT_EQ(berth_error_from_id("no such id"), 0);
}

TEST(version_agrees_with_the_build)
{
	char file[64] = "", path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/VERSION", getenv("BERTH_SOURCE_ROOT"));
	f = fopen(path, "r");
	ASSERT_NOT_NULL(f);
	ASSERT_NOT_NULL(fgets(file, sizeof(file), f));
	fclose(f);
	file[strcspn(file, "\n")] = '\0';
	ASSERT_STREQ(berth_version(), file);
	snprintf(file, sizeof(file), "%d.%d.%d", BERTH_VERSION_MAJOR, BERTH_VERSION_MINOR,
		 BERTH_VERSION_PATCH);
	ASSERT_STREQ(BERTH_VERSION, file);
}

TEST(fail_fills_in_and_returns_the_code)
{
	struct berth_error err = BERTH_ERROR_INIT;

	snprintf(err.hint, sizeof(err.hint), "old");
	err.sys_errno = 5;
	errno = 77;
	ASSERT_EQ(berth_fail(&err, BERTH_E_NOT_FOUND, "no execution %s", "x"), BERTH_E_NOT_FOUND);
	ASSERT_EQ(errno, 77);
	ASSERT_EQ(err.code, BERTH_E_NOT_FOUND);
	ASSERT_EQ(err.sys_errno, 0);
	ASSERT_STREQ(err.message, "no execution x");
	ASSERT_STREQ(err.hint, "");
	ASSERT_EQ(berth_fail(NULL, BERTH_E_IO, "x"), BERTH_E_IO);
}

TEST(errno_text_is_english_and_kept)
{
	struct berth_error err = BERTH_ERROR_INIT;

	ASSERT_EQ(berth_fail_errno(&err, BERTH_E_PERM, EACCES, "cannot open %s", "f"),
		  BERTH_E_PERM);
	ASSERT_STREQ(err.message, "cannot open f: Permission denied");
	ASSERT_EQ(err.sys_errno, EACCES);
	ASSERT_EQ(berth_fail_errno(&err, 0, -ENOMEM, "x"), BERTH_E_NOMEM);
	ASSERT_EQ(err.sys_errno, ENOMEM);
	ASSERT_EQ(berth_fail_errno(&err, 0, EIO, "x"), BERTH_E_IO);
	ASSERT_EQ(berth_fail_errno(&err, 0, 99999, "x"), BERTH_E_IO);
	ASSERT_STREQ(err.message, "x: Unknown error");
}

TEST(a_long_subject_never_hides_the_reason)
{
	struct berth_error err = BERTH_ERROR_INIT;
	char path[4000];

	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	berth_fail_errno(&err, 0, ENOSPC, "cannot write %s", path);
	ASSERT_CONTAINS(err.message, "…: No space left on device");
}

TEST(messages_are_one_clean_line)
{
	struct berth_error err = BERTH_ERROR_INIT;

	berth_fail(&err, BERTH_E_IO, "a\nb\tc\x1b[31m\x7f\x01 \xff\xc3\xa9 \xc2\x85 end\n");
	ASSERT_STREQ(err.message, "a b c?[31m?? ?\xc3\xa9 ? end");
	berth_fail(&err, BERTH_E_IO, "\xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80");
	ASSERT_STREQ(err.message, "??? ?? ????");
}

TEST(cuts_at_a_character_and_shows_it)
{
	char in[2000], out[64];

	for (size_t size = 4; size <= sizeof(out); size++) {
		for (size_t pad = 0; pad < 4; pad++) {
			size_t n = pad;

			memset(in, 'x', pad);
			while (n < 200) {
				memcpy(in + n, "\xe2\x82\xac", 3);
				n += 3;
			}
			in[n] = '\0';
			text_one_line(out, size, in, false);
			ASSERT_LT(strlen(out), size);
			ASSERT(valid_utf8(out, strlen(out)));
			ASSERT_GE(strlen(out), 3);
			ASSERT_STREQ(out + strlen(out) - 3, "…");
			ASSERT_GT(strlen(out) + 4, size - 3); /* no more was cut than needed */
		}
	}
	text_one_line(out, 6, "12345", false);
	ASSERT_STREQ(out, "12345");
	text_one_line(out, 5, "12345", false);
	ASSERT_STREQ(out, "1…");
	text_one_line(out, sizeof(out), "short", true);
	ASSERT_STREQ(out, "short…");
}

TEST(arguments_may_point_into_the_error)
{
	struct berth_error err = BERTH_ERROR_INIT;

	berth_fail(&err, BERTH_E_IO, "disk full");
	berth_fail(&err, err.code, "upload: %s", err.message);
	ASSERT_STREQ(err.message, "upload: disk full");
	ASSERT_EQ(berth_error_prefix(&err, "%s", err.message), BERTH_E_IO);
	ASSERT_STREQ(err.message, "upload: disk full: upload: disk full");
}

TEST(prefix_and_hint)
{
	struct berth_error err = BERTH_ERROR_INIT;

	berth_fail_errno(&err, BERTH_E_CONFLICT, EEXIST, "x");
	ASSERT_EQ(berth_error_prefix(&err, "sandbox %s", "s"), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message, "sandbox s: x: File exists");
	ASSERT_EQ(err.sys_errno, EEXIST);
	ASSERT_EQ(berth_error_hint(&err, "try\n%d", 1), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.hint, "try 1");
	ASSERT_EQ(berth_error_prefix(NULL, "x"), BERTH_E_INTERNAL);
	ASSERT_EQ(berth_error_hint(NULL, "x"), BERTH_E_INTERNAL);
	berth_error_reset(&err);
	ASSERT_EQ(err.code, 0);
	ASSERT_STREQ(err.message, "");
	berth_error_reset(NULL);
	ASSERT_EQ(berth_fail_nomem(&err), BERTH_E_NOMEM);
	ASSERT_STREQ(err.message, "out of memory");
	ASSERT_EQ(berth_fail_nomem(NULL), BERTH_E_NOMEM);
}

TEST_MAIN()
