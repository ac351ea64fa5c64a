/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_HASHCACHE_H
#define BERTH_CORE_HASHCACHE_H
/*
 * What the files of one artifact directory hashed to, by (device, inode, size, mtime, ctime): a
 * file whose five are unchanged is not read again. Kept in STATE/cache/hashes/, one file per
 * directory. A cache that is missing, damaged or of another version is an empty one: nothing can be
 * wrong because of it, only slower.
 *
 * The racy rule (git's): a clock has ticks, so a file may be changed within the tick of its last
 * change and keep its times. A hash is remembered only when the file's last change lies further
 * back than a tick at the moment before it was read.
 */
#include <sys/stat.h>

#include <berth/error.h>

#include "base/attr.h"
#include "core/sha256.h"

/* What a file is recognised by. */
struct file_key {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
};

struct file_key file_key_of(const struct stat *st);
bool file_key_equal(const struct file_key *a, const struct file_key *b) attr_pure;

/* May the hash be remembered? @looked_ns: wall clock before the file was opened; @fine: its file
 * system has the kernel's own times (file_times_fine). */
bool file_key_settled(const struct file_key *k, int64_t looked_ns, bool fine) attr_pure;
/* Is @fd on a file system whose ctime is the kernel's clock in nanoseconds? */
bool file_times_fine(int fd);

struct hashcache_row {
	struct file_key key;
	uint8_t sha256[SHA256_LEN];
};

/* Empty: HASHCACHE_INIT; freed with hashcache_done(). */
struct hashcache {
	struct hashcache_row *rows; /* sorted by key */
	size_t n;
};

#define HASHCACHE_INIT  \
	{               \
		NULL, 0 \
	}

/* Reads the cache of the directory @root (its stat) below @state_dir. Never fails: what cannot be
 * read is empty. */
void hashcache_load(struct hashcache *c, const char *state_dir, const struct stat *root);
void hashcache_done(struct hashcache *c);
/* The remembered hash (borrowed), or NULL. */
const uint8_t *hashcache_find(const struct hashcache *c, const struct file_key *key);
/* Replaces the cache of @root with @rows (sorted in place), by temporary name and rename. STATE is
 * made (0700) when it is not there. */
int hashcache_save(const char *state_dir, const struct stat *root, struct hashcache_row *rows,
		   size_t n, struct berth_error *err) attr_warn_unused;

#endif
