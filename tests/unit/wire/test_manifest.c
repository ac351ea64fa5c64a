/* SPDX-License-Identifier: MIT */
/*
 * Manifests: known answers of both forms, and each thing that is refused.
 */
#include "wire/manifest.h"

#include "bytes.h"

static uint8_t buf[1 << 20];
static struct wire_w w;
static uint8_t sha[32];

static struct wire_slice slice(const char *s)
{
	return (struct wire_slice){(const uint8_t *)s, strlen(s)};
}

static void begin(void)
{
	wire_w_init(&w, buf, sizeof(buf));
	for (size_t i = 0; i < sizeof(sha); i++)
		sha[i] = (uint8_t)(0xc0 + i);
}

static void add(char type, const char *path, const char *target)
{
	struct manifest_entry e = {
		.type = type,
		.executable = type == 'f',
		.path = slice(path),
		.target = slice(target),
		.size = type == 'f' ? 5 : 0,
		.mtime_ns = -1,
		.sha256 = sha,
	};

	manifest_put(&w, &e);
}

static const char *check(void)
{
	uint8_t *m = exact(buf, w.len);
	const char *why = "";

	ASSERT(wire_w_ok(&w));
	if (manifest_check(m, w.len, &why) == 0)
		ASSERT_STREQ(why, ""); /* untouched */
	free(m);
	return why;
}

#define SHA_HEX "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
#define ZERO_32 "0000000000000000000000000000000000000000000000000000000000000000"

TEST(known_answer)
{
	begin();
	add('d', "a", "");
	add('f', "a/b", "");
	add('l', "c", "a/b");
	ASSERT_HEX(buf, w.len,
		   "64 00 0100 00000000 0000000000000000 ffffffffffffffff " ZERO_32 " 61"
		   "66 01 0300 00000000 0500000000000000 ffffffffffffffff " SHA_HEX " 612f62"
		   "6c 00 0100 03000000 0000000000000000 ffffffffffffffff " ZERO_32 " 63 612f62");
	ASSERT_STREQ(check(), "");
}

TEST(known_identity)
{
	struct manifest_entry e;
	size_t pos = 0;
	uint8_t out[128];

	begin();
	add('d', "a", "");
	add('f', "a/b", "");
	add('l', "c", "a/b");
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 1);
	ASSERT_HEX(out, manifest_canonical(&e, out, sizeof(out)), "64 00 01000000 61");
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 1);
	ASSERT_HEX(out, manifest_canonical(&e, out, sizeof(out)),
		   "66 01 03000000 612f62 0500000000000000 " SHA_HEX);
	for (size_t cap = 0; cap < 49; cap++) {
		uint8_t *m = exact(out, cap);

		ASSERT_EQ(manifest_canonical(&e, m, cap), 0);
		free(m);
	}
	ASSERT_EQ(manifest_canonical(&e, out, 49), 49);
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 1);
	ASSERT_HEX(out, manifest_canonical(&e, out, sizeof(out)),
		   "6c 00 01000000 63 03000000 612f62");
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 0);
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 0);
}

TEST(an_mtime_is_not_identity)
{
	struct manifest_entry e = {'d', false, slice("a"), slice(""), 0, 1, NULL};
	uint8_t one[64], two[64];
	size_t n = manifest_canonical(&e, one, sizeof(one));

	e.mtime_ns = 2;
	ASSERT_MEMEQ(one, n, two, manifest_canonical(&e, two, sizeof(two)));
}

/* What does not apply to a type is not written, whatever the struct holds. */
TEST(one_form_only)
{
	struct manifest_entry e = {'d', true, slice("a"), slice("target"), 5, 0, sha};
	uint8_t out[64];

	begin();
	manifest_put(&w, &e);
	ASSERT_HEX(buf, w.len,
		   "64 00 0100 00000000 0000000000000000 0000000000000000 " ZERO_32 " 61");
	ASSERT_HEX(out, manifest_canonical(&e, out, sizeof(out)), "64 00 01000000 61");
	e.type = 'l';
	ASSERT_HEX(out, manifest_canonical(&e, out, sizeof(out)),
		   "6c 00 01000000 61 06000000 746172676574");
	begin();
	e.type = 'f';
	manifest_put(&w, &e);
	ASSERT_EQ(w.len, MANIFEST_FIXED + 1);
	ASSERT_STREQ(check(), "");
}

TEST(reads_what_was_written)
{
	struct manifest_entry e;
	size_t pos = 0;

	begin();
	add('f', "run.sh", "");
	add('l', "s", "../x");
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 1);
	ASSERT_EQ(e.type, 'f');
	ASSERT(e.executable);
	SLICE_IS(e.path, "run.sh");
	ASSERT_EQ(e.target.n, 0);
	ASSERT_EQ(e.size, 5);
	ASSERT_EQ(e.mtime_ns, -1);
	ASSERT_MEMEQ(e.sha256, 32, sha, 32);
	ASSERT_EQ(pos, MANIFEST_FIXED + 6);
	ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), 1);
	ASSERT_EQ(e.type, 'l');
	ASSERT(!e.executable);
	SLICE_IS(e.target, "../x");
	ASSERT_EQ(pos, w.len);
}

TEST(empty)
{
	struct manifest_entry e;
	const char *why = NULL;
	size_t pos = 0;

	ASSERT_EQ(manifest_next(NULL, 0, &pos, &e), 0);
	ASSERT_EQ(manifest_check(NULL, 0, &why), 0);
	ASSERT_NULL(why);
}

TEST(cut_off_at_every_byte)
{
	size_t first;

	begin();
	add('d', "dir", "");
	first = w.len;
	add('l', "dir/link", "to");
	for (size_t n = 0, all = w.len; n <= all; n++) {
		w.len = n;
		ASSERT_STREQ(check(),
			     n == 0 || n == first || n == all ? "" : "an entry is cut off");
	}
}

TEST(paths)
{
	static const char *const good[] = {"a",    "...", "..a", "a..", ".a",  "a b", "\xff\xfe",
					   "a\nb", "-",   "~",   "\\",  "a:b", "CON", "*"};
	static const char *const bad[] = {"",    ".",    "..",   "/a",    "a/",     "a//b", "./a",
					  "a/.", "a/..", "../a", "a/./b", "a/../b", "/",    "//"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		begin();
		add('d', good[i], "");
		CHECK_STREQ(check(), "");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct manifest_entry e;
		size_t pos = 0;

		begin();
		add('d', bad[i], "");
		CHECK_STREQ(check(), "the path of an entry is not valid");
		ASSERT_EQ(manifest_next(buf, w.len, &pos, &e), -1);
		ASSERT_EQ(pos, 0);
	}
	begin();
	add('f', "a", "");
	buf[MANIFEST_FIXED] = 0; /* a NUL */
	ASSERT_STREQ(check(), "the path of an entry is not valid");
}

TEST(longest_path)
{
	static char path[MANIFEST_PATH_MAX + 2];

	memset(path, 'x', MANIFEST_PATH_MAX);
	begin();
	add('d', path, "");
	ASSERT_STREQ(check(), "");
	path[MANIFEST_PATH_MAX] = 'x';
	begin();
	add('f', path, "");
	ASSERT_STREQ(check(), "the path of an entry is not valid");
	path[MANIFEST_PATH_MAX] = '\0';
	begin();
	add('l', "l", path); /* a target of the same length */
	ASSERT_STREQ(check(), "");
	path[MANIFEST_PATH_MAX] = 'x';
	begin();
	add('l', "l", path);
	ASSERT_STREQ(check(), "the target of an entry is not valid");
}

TEST(headers)
{
	static const struct {
		char type;
		size_t at;
		uint8_t value;
		const char *why;
	} cases[] = {
		{'f', 0, 'p', "the type of an entry is not known"},
		{'f', 0, 0, "the type of an entry is not known"},
		{'f', 0, 'F', "the type of an entry is not known"},
		{'f', 1, 2, "the executable bit of an entry is not valid"},
		{'d', 1, 1, "the executable bit of an entry is not valid"},
		{'l', 1, 1, "the executable bit of an entry is not valid"},
		{'f', 4, 1, "the target of an entry is not valid"},
		{'d', 4, 1, "the target of an entry is not valid"},
		{'l', 4, 0, "the target of an entry is not valid"},
		{'l', 7, 0x80, "the target of an entry is not valid"},
		{'f', 15, 0x80, "the content of an entry is not valid"},
		{'d', 8, 1, "the content of an entry is not valid"},
		{'l', 15, 1, "the content of an entry is not valid"},
		{'d', 24, 1, "the content of an entry is not valid"},
		{'l', 55, 1, "the content of an entry is not valid"},
		{'f', 55, 1, ""},
		{'f', 1, 0, ""},
		{'f', 15, 0x7f, ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%zu: %s", i, cases[i].why)
		{
			begin();
			add(cases[i].type, "p", cases[i].type == 'l' ? "t" : "");
			buf[cases[i].at] = cases[i].value;
			ASSERT_STREQ(check(), cases[i].why);
		}
	}
	begin();
	add('l', "p", "t");
	buf[w.len - 1] = 0;
	ASSERT_STREQ(check(), "the target of an entry is not valid");
}

TEST(order)
{
	static const struct {
		const char *a, *b;
		bool good;
	} cases[] = {
		{"a", "b", true},     {"a", "ab", true},      {"A", "a", true},
		{"a", "\xff", true},  {"\x7f", "\x80", true}, /* bytes are unsigned */
		{"a", "a", false},    {"b", "a", false},      {"ab", "a", false},
		{"\xff", "a", false}, {"ab", "aa", false},    {"\x80", "\x7f", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		add('f', cases[i].a, "");
		add('f', cases[i].b, "");
		ASSERT_STREQ(check(), cases[i].good ? "" : "the entries are not in order");
	}
}

#define MISSING "the directory of an entry is missing"

TEST(parents)
{
	static const struct {
		const char *entries; /* type and path, separated by blanks */
		const char *why;
	} cases[] = {
		{"da fa/x", ""},
		{"fa/x", MISSING},
		{"fa fa/x", MISSING}, /* a file is no directory */
		{"la fa/x", MISSING}, /* nor is a link */
		{"da fa/b/c", MISSING},
		{"da da/b fa/b/c", ""},
		{"da da/b da/b/c fa/b/c/d fa/c", ""},
		/* names that sort between a directory and what is in it */
		{"da fa-b fa.c fa/x", ""},
		{"da da-b fa-b/y fa/x", ""},
		{"da da! fa!/y da/b fa/b/z fa/x", ""},
		{"fa da-b fa-b/y fa/x", MISSING},
		{"da fb fb/x", MISSING},
		{"da da/b fc/b/x", MISSING},
		{"dab fa/x", "the entries are not in order"},
		{"da-b fa/x", MISSING},
		{"da da/bc fa/b/x", "the entries are not in order"},
		{"da da/b! fa/b/x", MISSING},
		/* a directory of the same length elsewhere does not count */
		{"da da/b db fb/b/x", MISSING},
		{"da da/b fa/c fa/c/x", MISSING},
		{"dx dx/y dx/y/z dxx fxx/y fxy", ""},
		{"dx dx/y dx/y/z dxx fxx/y/z", MISSING},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%s", cases[i].entries)
		{
			char text[128], *save = NULL;

			begin();
			snprintf(text, sizeof(text), "%s", cases[i].entries);
			for (char *t = strtok_r(text, " ", &save); t;
			     t = strtok_r(NULL, " ", &save))
				add(t[0], t + 1, t[0] == 'l' ? "t" : "");
			ASSERT_STREQ(check(), cases[i].why);
		}
	}
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A tree of all paths of up to four components out of names that sort awkwardly, and the same with
 * each directory taken away: a check of the check. */
TEST_TIMEOUT(whole_trees, 60)
{
	static const char *const names[] = {"a", "a-", "a0", "b"};
	enum { N = 4 + 16 + 64 + 256 };
	static char paths[N][16];
	static char *sorted[N];
	size_t n = 0;

	for (size_t from = 0, level = 0, to = 0; level < 4; level++) {
		size_t begin_level = n;

		for (size_t i = 0; i < 4; i++) {
			if (level == 0)
				snprintf(paths[n++], sizeof(paths[0]), "%s", names[i]);
			for (size_t p = from; level > 0 && p < to; p++)
				snprintf(paths[n++], sizeof(paths[0]), "%.8s/%s", paths[p],
					 names[i]);
		}
		from = begin_level, to = n;
	}
	ASSERT_EQ(n, N);
	for (size_t i = 0; i < N; i++)
		sorted[i] = paths[i];
	qsort(sorted, N, sizeof(sorted[0]), by_bytes);
	for (size_t without = 0; without <= N; without++) {
		const char *gone = without < N ? sorted[without] : NULL;
		bool orphans = false;

		begin();
		for (size_t i = 0; i < N; i++) {
			size_t len = gone ? strlen(gone) : 0;

			if (i == without)
				continue;
			if (gone && strncmp(sorted[i], gone, len) == 0 && sorted[i][len] == '/')
				orphans = true;
			add('d', sorted[i], "");
		}
		ASSERT_STREQ(check(), orphans ? MISSING : "");
	}
}

TEST_MAIN()
