/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_FILEHASH_H
#define BERTH_CORE_FILEHASH_H
/*
 * Hashing the files of an artifact: many, by up to two threads.
 */
#include "core/artifact.h"

struct filehash {
	int dirfd;                    /* of the artifact */
	const char *dir;              /* for messages */
	bool fine;                    /* file_times_fine() of dirfd */
	uint64_t dev;                 /* of dirfd: on another device times are taken for coarse */
	struct artifact_entry **jobs; /* files; key is what the walk saw */
	size_t n;
	uint64_t bytes; /* by the walk */
	unsigned threads;
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
};

/*
 * Hashes every job: fills sha256, settled, and key, x bit and mtime as they were then. The first
 * failure (by position) is *err; the others are stopped. sha256_load() must have succeeded.
 */
int filehash_run(const struct filehash *f, struct berth_error *err) attr_warn_unused;

/* For tests: called between reading a file and looking whether it has changed. */
extern void (*filehash_test_hook)(const char *path);

#endif
