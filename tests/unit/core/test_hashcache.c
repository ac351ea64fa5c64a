/* SPDX-License-Identifier: MIT */
/* The memory of file hashes: round trip, damage, the racy rule. */
#include "tap.h"

#include "base/alloc.h"
#include "base/time.h"
#include "core/hashcache.h"

static struct stat root_stat(void)
{
	struct stat st = {0};

	st.st_dev = 5;
	st.st_ino = 77;
	return st;
}

static void fill(struct hashcache_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct hashcache_row){.key = {.dev = 9,
							 .ino = 1000 - i * 3,
							 .size = i,
							 .mtime_ns = -5,
							 .ctime_ns = (int64_t)i}};
		memset(rows[i].sha256, (int)i, SHA256_LEN);
	}
}

#define CACHE_FILE "state/cache/hashes/5-4d"

TEST(round_trip)
{
	struct hashcache_row rows[100];
	struct stat root = root_stat();
	struct hashcache c;
	struct stat st;

	fill(rows, 100);
	ASSERT_EQ(hashcache_save("state", &root, rows, 100, NULL), 0);
	hashcache_load(&c, "state", &root);
	ASSERT_EQ(c.n, 100);
	fill(rows, 100);
	for (size_t i = 0; i < 100; i++) {
		const uint8_t *sha = hashcache_find(&c, &rows[i].key);

		ASSERT_NOT_NULL(sha);
		ASSERT_MEMEQ(sha, SHA256_LEN, rows[i].sha256, SHA256_LEN);
	}
	hashcache_done(&c);
	ASSERT_OK(stat("state", &st));
	ASSERT_EQ(st.st_mode & 07777, 0700);
	ASSERT_OK(stat(CACHE_FILE, &st));
	ASSERT_EQ(st.st_mode & 07777, 0600);
}

/* Each of the five parts of a key counts. */
TEST(every_part_of_the_key_counts)
{
	struct hashcache_row row;
	struct stat root = root_stat();
	struct hashcache c;
	struct file_key k;

	fill(&row, 1);
	ASSERT_EQ(hashcache_save("state", &root, &row, 1, NULL), 0);
	hashcache_load(&c, "state", &root);
	ASSERT_NOT_NULL(hashcache_find(&c, &row.key));
	k = row.key, k.dev++;
	CHECK(!hashcache_find(&c, &k));
	k = row.key, k.ino++;
	CHECK(!hashcache_find(&c, &k));
	k = row.key, k.size++;
	CHECK(!hashcache_find(&c, &k));
	k = row.key, k.mtime_ns++;
	CHECK(!hashcache_find(&c, &k));
	k = row.key, k.ctime_ns++;
	CHECK(!hashcache_find(&c, &k));
	hashcache_done(&c);
}

TEST(missing_and_empty)
{
	struct stat root = root_stat();
	struct hashcache c;

	hashcache_load(&c, "nowhere", &root);
	ASSERT_EQ(c.n, 0);
	hashcache_done(&c);
	ASSERT_EQ(hashcache_save("state", &root, NULL, 0, NULL), 0);
	hashcache_load(&c, "state", &root);
	ASSERT_EQ(c.n, 0);
	hashcache_done(&c);
}

/* Any one damaged byte, and any cut, makes it an empty cache. */
TEST(damage_is_no_cache)
{
	struct hashcache_row rows[3];
	struct stat root = root_stat();
	struct hashcache c;
	char data[1024];
	size_t n;
	FILE *f;

	fill(rows, 3);
	ASSERT_EQ(hashcache_save("state", &root, rows, 3, NULL), 0);
	f = fopen(CACHE_FILE, "r+");
	ASSERT_NOT_NULL(f);
	n = fread(data, 1, sizeof(data), f);
	ASSERT_EQ(n, 16 + 3 * 72 + 8);
	for (size_t i = 0; i < n; i++) {
		fseek(f, (long)i, SEEK_SET);
		fputc(data[i] ^ 0x10, f);
		fflush(f);
		hashcache_load(&c, "state", &root);
		if (c.n)
			FAIL("byte %zu is not covered", i);
		hashcache_done(&c);
		fseek(f, (long)i, SEEK_SET);
		fputc(data[i], f);
		fflush(f);
	}
	hashcache_load(&c, "state", &root);
	CHECK_EQ(c.n, 3);
	hashcache_done(&c);
	for (size_t i = n; i-- > 0;) {
		ASSERT_OK(ftruncate(fileno(f), (off_t)i));
		hashcache_load(&c, "state", &root);
		if (c.n)
			FAIL("a cut to %zu bytes is not noticed", i);
		hashcache_done(&c);
	}
	fclose(f);
}

/* A huge count in the head must not become a huge allocation or a read behind the end. */
TEST(lying_count)
{
	struct stat root = root_stat();
	struct hashcache c;
	FILE *f;

	ASSERT_EQ(hashcache_save("state", &root, NULL, 0, NULL), 0);
	f = fopen(CACHE_FILE, "r+");
	fseek(f, 8, SEEK_SET);
	fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, f);
	fclose(f);
	hashcache_load(&c, "state", &root);
	ASSERT_EQ(c.n, 0);
}

TEST(racy_rule)
{
	int64_t now = 1700000000 * NS_PER_SEC + 123456789;
	struct file_key k = {.mtime_ns = now, .ctime_ns = now};

	CHECK(!file_key_settled(&k, now, true));
	CHECK(!file_key_settled(&k, now + 10 * NS_PER_MS, true));
	CHECK(file_key_settled(&k, now + 20 * NS_PER_MS, true));
	CHECK(!file_key_settled(&k, now + 20 * NS_PER_MS, false));
	CHECK(file_key_settled(&k, now + 2100 * NS_PER_MS, false));
	/* a file from the future: ctime decides where it is the kernel's */
	k.mtime_ns = now + 1000 * NS_PER_SEC;
	CHECK(file_key_settled(&k, now + 20 * NS_PER_MS, true));
	CHECK(!file_key_settled(&k, now + 2100 * NS_PER_MS, false));
	/* whole seconds: a file system without more */
	k.mtime_ns = k.ctime_ns = 1700000000 * NS_PER_SEC;
	CHECK(!file_key_settled(&k, k.ctime_ns + 20 * NS_PER_MS, true));
	CHECK(file_key_settled(&k, k.ctime_ns + 2100 * NS_PER_MS, true));
}

TEST(state_that_cannot_be_written)
{
	struct hashcache_row row;
	struct stat root = root_stat();
	struct berth_error err = BERTH_ERROR_INIT;

	fill(&row, 1);
	fclose(fopen("file", "w"));
	ASSERT_LT(hashcache_save("file", &root, &row, 1, &err), 0);
	ASSERT_CONTAINS(err.message, "file/cache/hashes");
}

TEST(without_memory)
{
	struct stat root = root_stat();
	struct hashcache_row rows[4];
	struct hashcache c;

	fill(rows, 4);
	for (unsigned long n = 1;; n++) {
		int r;

		mem_fail_from(n);
		r = hashcache_save("state", &root, rows, 4, NULL);
		if (!mem_failed())
			break;
		mem_fail_from(0);
		ASSERT_EQ(r, BERTH_E_NOMEM);
	}
	for (unsigned long n = 1;; n++) {
		mem_fail_from(n);
		hashcache_load(&c, "state", &root);
		if (!mem_failed())
			break;
		mem_fail_from(0);
		ASSERT_EQ(c.n, 0);
		hashcache_done(&c);
	}
	mem_fail_from(0);
	ASSERT_EQ(c.n, 4);
	hashcache_done(&c);
}

TEST_MAIN()
