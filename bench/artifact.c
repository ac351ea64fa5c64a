/* SPDX-License-Identifier: MIT */
/*
 * bench/artifact.c: what it costs to know an artifact: first time, unchanged, one kilobyte changed.
 *
 * Makes trees in a temporary directory (removed afterwards) and prints medians beside their
 * yardsticks in the same run: reading every file, and one stat per file. Usage: artifact [MB]
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "core/artifact.h"

#define RUNS 7

static uint64_t walked;
static bool walk_reads;
static char chunk[256 * 1024];

static void die(const char *what)
{
	fprintf(stderr, "artifact: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void make_tree(const char *root, unsigned files, size_t size)
{
	char path[PATH_MAX];
	uint64_t x = 88172645463325252u;

	if (mkdir(root, 0755) < 0)
		die(root);
	for (unsigned i = 0; i < files; i++) {
		size_t left = size;
		int fd;

		if (i % 100 == 0) {
			snprintf(path, sizeof(path), "%s/d%u", root, i / 100);
			if (mkdir(path, 0755) < 0)
				die(path);
		}
		snprintf(path, sizeof(path), "%s/d%u/f%u", root, i / 100, i);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
		if (fd < 0)
			die(path);
		while (left) {
			size_t n = left < sizeof(chunk) ? left : sizeof(chunk);

			for (size_t k = 0; k < n; k += 64) {
				x ^= x << 13, x ^= x >> 7, x ^= x << 17;
				memcpy(chunk + k, &x, sizeof(x));
			}
			if (write(fd, chunk, n) != (ssize_t)n)
				die(path);
			left -= n;
		}
		close(fd);
	}
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	ssize_t n;
	int fd;

	(void)st, (void)ftw;
	walked++;
	if (!walk_reads || type != FTW_F)
		return 0;
	fd = open(path, O_RDONLY);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		;
	close(fd);
	return n < 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

enum what { FIRST, UNCHANGED, CHANGED, STATS, READS };

static void load(const char *root, const char *state)
{
	struct artifact_options o = {.state_dir = state};
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;

	if (artifact_load(root, &o, &a, &err) < 0) {
		fprintf(stderr, "artifact: %s\n", err.message);
		exit(1);
	}
	artifact_free(a);
}

static void touch(const char *root, int run)
{
	char path[PATH_MAX], text[1024];
	int fd;

	snprintf(path, sizeof(path), "%s/d0/f0", root);
	memset(text, 'a' + run, sizeof(text));
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, sizeof(text)) != (ssize_t)sizeof(text))
		die(path);
	close(fd);
}

static double median_ms(const char *root, const char *state, enum what what)
{
	int64_t t[RUNS];

	for (int i = 0; i < RUNS; i++) {
		int64_t from;

		if (what == CHANGED)
			touch(root, i);
		walk_reads = what == READS;
		from = now_mono_ns();
		if (what == STATS || what == READS)
			nftw(root, visit, 64, FTW_PHYS);
		else
			load(root, what == FIRST ? NULL : state);
		t[i] = now_mono_ns() - from;
	}
	qsort(t, RUNS, sizeof(t[0]), compare);
	return (double)t[RUNS / 2] / 1e6;
}

static void row(const char *dir, unsigned files, size_t size)
{
	char root[64], state[64];
	struct timespec tick = {.tv_nsec = 25000000};

	snprintf(root, sizeof(root), "%s/t%u", dir, files);
	snprintf(state, sizeof(state), "%s/state", dir);
	make_tree(root, files, size);
	nanosleep(&tick, NULL); /* past the racy rule: what is written now would be hashed again */
	load(root, state);
	printf("%7u %9zu %9.1f %9.1f %9.1f %9.1f %9.1f\n", files, size,
	       median_ms(root, state, FIRST), median_ms(root, state, UNCHANGED),
	       median_ms(root, state, CHANGED), median_ms(root, state, STATS),
	       median_ms(root, state, READS));
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/berth-bench.XXXXXX";
	size_t mb = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;

	if (!mkdtemp(dir))
		die(dir);
	printf("%7s %9s %9s %9s %9s %9s %9s\n", "files", "bytes", "first ms", "unchanged", "1 kB",
	       "stat all", "read all");
	row(dir, 100, mb * 10485);
	row(dir, 2600, mb * 403);
	row(dir, 10000, mb * 105);
	row(dir, 1, mb << 20);
	nftw(dir, remove_one, 64, FTW_DEPTH | FTW_PHYS);
	return 0;
}
