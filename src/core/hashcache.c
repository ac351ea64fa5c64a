/* SPDX-License-Identifier: MIT */
/*
 * hashcache.c: the memory of file hashes.
 *
 * A cache file, little endian: "berthhc1", u64 number of rows, the rows (u64 device, inode, size,
 * i64 mtime and ctime in ns, 32 bytes SHA-256) sorted by (inode, device, …), u64 XXH3-64 over
 * everything before. Written whole, under a temporary name, and renamed: readers see the old or the
 * new one, and of two writers the last one wins.
 *
 * It does not decide when to look or what to read: artifact.c does.
 */
#include "core/hashcache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/path.h"
#include "base/time.h"
#include "wire/frame.h"

#define CACHE_MAGIC "berthhc1"
#define CACHE_HEAD  16u
#define CACHE_ROW   72u
#define CACHE_TAIL  8u
/* A million files; a larger artifact is hashed each time. */
#define CACHE_ROWS_MAX 1000000u

/* A tick of the kernel's coarse clock is 1 to 10 ms; twice the largest. */
#define TICK_FINE_NS (20 * NS_PER_MS)
/* FAT has ticks of 2 s, other machines' file servers have clocks of their own. */
#define TICK_COARSE_NS (2100 * NS_PER_MS)

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef BCACHEFS_SUPER_MAGIC
#define BCACHEFS_SUPER_MAGIC 0xca451a4e
#endif
#define ZFS_SUPER_MAGIC 0x2fc12fc1

static int64_t timespec_ns(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * NS_PER_SEC + ts->tv_nsec;
}

struct file_key file_key_of(const struct stat *st)
{
	return (struct file_key){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = timespec_ns(&st->st_mtim),
		.ctime_ns = timespec_ns(&st->st_ctim),
	};
}

bool file_key_equal(const struct file_key *a, const struct file_key *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

bool file_key_settled(const struct file_key *k, int64_t looked_ns, bool fine)
{
	/* ext3, or ext4 with small inodes: whole seconds only. */
	if (fine && k->ctime_ns % NS_PER_SEC != 0)
		return k->ctime_ns <= looked_ns - TICK_FINE_NS;
	return MAX_OF(k->mtime_ns, k->ctime_ns) <= looked_ns - TICK_COARSE_NS;
}

bool file_times_fine(int fd)
{
	static const uint32_t kernel_clock[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,    TMPFS_MAGIC,
		F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, BCACHEFS_SUPER_MAGIC, ZFS_SUPER_MAGIC,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(kernel_clock); i++) {
		if ((uint32_t)fs.f_type == kernel_clock[i])
			return true;
	}
	return false;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int cmp_key(const void *pa, const void *pb)
{
	const struct file_key *a = pa, *b = pb;
	int r = cmp_u64(a->ino, b->ino);

	if (r == 0)
		r = cmp_u64(a->dev, b->dev);
	if (r == 0)
		r = cmp_u64(a->size, b->size);
	if (r == 0)
		r = cmp_u64((uint64_t)a->mtime_ns, (uint64_t)b->mtime_ns);
	if (r == 0)
		r = cmp_u64((uint64_t)a->ctime_ns, (uint64_t)b->ctime_ns);
	return r;
}

static int cmp_row(const void *a, const void *b)
{
	return cmp_key(&((const struct hashcache_row *)a)->key,
		       &((const struct hashcache_row *)b)->key);
}

/* STATE/cache/hashes/DEV-INO; NULL = no memory. */
static char *cache_path(const char *state_dir, const struct stat *root)
{
	return mem_printf("%s/cache/hashes/%" PRIx64 "-%" PRIx64, state_dir, (uint64_t)root->st_dev,
			  (uint64_t)root->st_ino);
}

static void row_put(uint8_t *p, const struct hashcache_row *row)
{
	wire_put_u64(p, row->key.dev);
	wire_put_u64(p + 8, row->key.ino);
	wire_put_u64(p + 16, row->key.size);
	wire_put_u64(p + 24, (uint64_t)row->key.mtime_ns);
	wire_put_u64(p + 32, (uint64_t)row->key.ctime_ns);
	memcpy(p + 40, row->sha256, SHA256_LEN);
}

static void row_get(const uint8_t *p, struct hashcache_row *row)
{
	row->key.dev = wire_get_u64(p);
	row->key.ino = wire_get_u64(p + 8);
	row->key.size = wire_get_u64(p + 16);
	row->key.mtime_ns = (int64_t)wire_get_u64(p + 24);
	row->key.ctime_ns = (int64_t)wire_get_u64(p + 32);
	memcpy(row->sha256, p + 40, SHA256_LEN);
}

static void decode(struct hashcache *c, const uint8_t *p, size_t n)
{
	uint64_t rows;

	if (n < CACHE_HEAD + CACHE_TAIL || memcmp(p, CACHE_MAGIC, 8) != 0)
		return;
	rows = wire_get_u64(p + 8);
	if (rows > CACHE_ROWS_MAX || n != CACHE_HEAD + rows * CACHE_ROW + CACHE_TAIL ||
	    XXH3_64bits(p, n - CACHE_TAIL) != wire_get_u64(p + n - CACHE_TAIL))
		return;
	c->rows = mem_reallocarray(NULL, (size_t)rows, sizeof(*c->rows));
	if (!c->rows)
		return;
	c->n = (size_t)rows;
	for (size_t i = 0; i < c->n; i++)
		row_get(p + CACHE_HEAD + i * CACHE_ROW, &c->rows[i]);
}

void hashcache_load(struct hashcache *c, const char *state_dir, const struct stat *root)
{
	auto_free char *path = cache_path(state_dir, root);
	auto_free char *data = NULL;
	size_t n = 0;

	*c = (struct hashcache)HASHCACHE_INIT;
	if (!path || read_file(AT_FDCWD, path, CACHE_HEAD + CACHE_ROWS_MAX * CACHE_ROW + CACHE_TAIL,
			       &data, &n, NULL) < 0)
		return;
	decode(c, (const uint8_t *)data, n);
}

void hashcache_done(struct hashcache *c)
{
	free(c->rows);
	*c = (struct hashcache)HASHCACHE_INIT;
}

const uint8_t *hashcache_find(const struct hashcache *c, const struct file_key *key)
{
	const struct hashcache_row *row;

	if (!c->n)
		return NULL;
	/* key is the first member of a row */
	row = bsearch(key, c->rows, c->n, sizeof(*c->rows), cmp_key);
	return row ? row->sha256 : NULL;
}

int hashcache_save(const char *state_dir, const struct stat *root, struct hashcache_row *rows,
		   size_t n, struct berth_error *err)
{
	auto_free char *path = cache_path(state_dir, root);
	auto_free char *dir = mem_printf("%s/cache/hashes", state_dir);
	auto_free uint8_t *data = NULL;
	size_t len = CACHE_HEAD + n * CACHE_ROW + CACHE_TAIL;
	int r;

	if (n > CACHE_ROWS_MAX)
		return 0;
	if (!path || !dir || !(data = mem_alloc(len)))
		return berth_fail_nomem(err);
	if (n)
		qsort(rows, n, sizeof(*rows), cmp_row);
	memcpy(data, CACHE_MAGIC, 8);
	wire_put_u64(data + 8, n);
	for (size_t i = 0; i < n; i++)
		row_put(data + CACHE_HEAD + i * CACHE_ROW, &rows[i]);
	wire_put_u64(data + len - CACHE_TAIL, XXH3_64bits(data, len - CACHE_TAIL));
	r = mkdir_p(AT_FDCWD, dir, 0700);
	if (r < 0)
		return berth_fail_errno(err, 0, -r, "cannot make %s", dir);
	return write_file_atomic(AT_FDCWD, path, data, len, 0600, 0, err);
}
