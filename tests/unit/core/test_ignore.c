/* SPDX-License-Identifier: MIT */
/* .berthignore: globs, anchors, negation, and what git check-ignore says about the same rules. */
#include "tap.h"

#include "base/alloc.h"
#include "core/ignore.h"

static const struct {
	const char *pattern, *text;
	bool match;
} globs[] = {
	{"a", "a", true},
	{"a", "b", false},
	{"a", "aa", false},
	{"*", "anything", true},
	{"*", "a/b", false},
	{"*.log", "x.log", true},
	{"*.log", ".log", true},
	{"*.log", "x.logs", false},
	{"a*b*c", "aXbYbZc", true},
	{"a*b*c", "aXbYbZ", false},
	{"?", "x", true},
	{"?", "/", false},
	{"?", "", false},
	{"[abc]", "b", true},
	{"[abc]", "d", false},
	{"[a-c]x", "bx", true},
	{"[!a-c]", "d", true},
	{"[^a-c]", "b", false},
	{"[]]", "]", true},
	{"[a-]", "-", true},
	{"[\\]]", "]", true},
	{"[!a]", "/", false},
	{"[a", "[a", true},
	{"[a", "a", false},
	{"\\*", "*", true},
	{"\\*", "x", false},
	{"a/b", "a/b", true},
	{"a/*", "a/b/c", false},
	{"a/**", "a/b/c", true},
	{"a/**", "a", false},
	{"**/b", "b", true},
	{"**/b", "x/y/b", true},
	{"**/b", "xb", false},
	{"**/b", "x/yb", false},
	{"a/**/b", "a/b", true},
	{"a/**/b", "a/x/y/b", true},
	{"a/**/b", "a/xb", false},
	{"a/**/b/*.c", "a/b/b/z.c", true},
	{"**/a*/b", "x/ay/b", true},
	{"**/a*/b", "a/x/ab/b", true},
	{"a**b", "axxb", true},
	{"a**b", "ax/b", false},
	{"\xff*", "\xff\xfe", true},
};

static void check_glob(const char *pattern, const char *text, bool match)
{
	SUBTEST("'%s' %s '%s'", pattern, match ? "matches" : "does not match", text)
	CHECK_EQ(ignore_glob(pattern, text), match);
}

TEST(globs)
{
	for (size_t i = 0; i < sizeof(globs) / sizeof(globs[0]); i++)
		check_glob(globs[i].pattern, globs[i].text, globs[i].match);
}

/* "aaa…" against "*a*a*a…b" must not take exponential time. */
TEST_TIMEOUT(no_exponential_time, 10)
{
	char text[2001], pattern[401];

	memset(text, 'a', 2000);
	text[2000] = '\0';
	for (size_t i = 0; i < 398; i += 2)
		memcpy(pattern + i, "*a", 2);
	memcpy(pattern + 398, "b", 2);
	ASSERT_EQ(ignore_glob(pattern, text), false);
}

static struct ignore *parsed(const char *text)
{
	struct ignore *ig = NULL;

	ASSERT_EQ(ignore_parse(text, strlen(text), &ig, NULL), 0);
	return ig;
}

static const char rules[] = "# comment\n"
			    "\n"
			    "*.log\r\n"
			    "!keep.log\n"
			    "/top\n"
			    "build/\n"
			    "docs/*.txt\n"
			    "trailing   \n"
			    "kept\\ \n"
			    "\\#hash\n"
			    "\\!bang\n"
			    "**/deep/x\n"
			    "all/**\n"
			    "/\n"
			    "!\n"
			    "last";

static const struct {
	const char *path;
	bool dir, out;
} paths[] = {
	{"a.log", false, true},         {"d/a.log", false, true},
	{"keep.log", false, false},     {"d/keep.log", false, false},
	{"top", false, true},           {"d/top", false, false},
	{"build", true, true},          {"build", false, false},
	{"d/build", true, true},        {"docs/a.txt", false, true},
	{"d/docs/a.txt", false, false}, {"docs/d/a.txt", false, false},
	{"trailing", false, true},      {"kept ", false, true},
	{"kept", false, false},         {"#hash", false, true},
	{"!bang", false, true},         {"# comment", false, false},
	{"deep/x", false, true},        {"a/b/deep/x", false, true},
	{"all", true, false},           {"all/x", false, true},
	{"all/x/y", false, true},       {"last", false, true},
	{"other", false, false},
};

TEST(rules_of_a_file)
{
	struct ignore *ig = parsed(rules);

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		SUBTEST("%s%s", paths[i].path, paths[i].dir ? "/" : "")
		CHECK_EQ(ignore_match(ig, paths[i].path, strlen(paths[i].path), paths[i].dir),
			 paths[i].out);
	}
	ignore_free(ig);
}

/* The same table, asked of git: the subset means what users of gitignore expect. */
TEST(agrees_with_git)
{
	FILE *f;

	if (system("git --version >/dev/null 2>&1") != 0)
		SKIP("no git");
	ASSERT_EQ(system("git init -q . 2>/dev/null"), 0);
	f = fopen(".gitignore", "w");
	ASSERT_NOT_NULL(f);
	fputs(rules, f);
	fclose(f);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char cmd[256];
		int r;

		snprintf(cmd, sizeof(cmd), "git check-ignore -q --no-index -- '%s%s'",
			 paths[i].path, paths[i].dir ? "/" : "");
		if (paths[i].dir)
			snprintf(cmd, sizeof(cmd),
				 "mkdir -p '%s' && git check-ignore -q --no-index -- '%s'; r=$?; "
				 "rmdir '%s'; exit $r",
				 paths[i].path, paths[i].path, paths[i].path);
		r = system(cmd);
		SUBTEST("%s%s", paths[i].path, paths[i].dir ? "/" : "")
		CHECK_EQ(WEXITSTATUS(r), paths[i].out ? 0 : 1);
	}
}

TEST(nothing_to_ignore)
{
	struct ignore *ig = parsed("");

	CHECK(!ignore_match(NULL, "x", 1, false));
	CHECK(!ignore_match(ig, "x", 1, false));
	ignore_free(ig);
}

TEST(any_bytes_parse)
{
	struct ignore *ig = NULL;
	char junk[512];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (char)(i * 37 + i / 7);
	ASSERT_EQ(ignore_parse(junk, sizeof(junk), &ig, NULL), 0);
	CHECK(!ignore_match(ig, "surely not in there", 19, false));
	ignore_free(ig);
}

TEST(without_memory)
{
	for (unsigned long n = 1;; n++) {
		struct ignore *ig = NULL;
		int r;

		mem_fail_from(n);
		r = ignore_parse(rules, strlen(rules), &ig, NULL);
		if (!mem_failed()) {
			mem_fail_from(0);
			ASSERT_EQ(r, 0);
			ignore_free(ig);
			break;
		}
		mem_fail_from(0);
		ASSERT_EQ(r, BERTH_E_NOMEM);
		ASSERT_NULL(ig);
	}
}

TEST_MAIN()
