/* SPDX-License-Identifier: MIT */
/*
 * filehash.c: SHA-256 of files, each checked to have stood still meanwhile.
 *
 * Invariants: a file counts as read only when size, mtime and ctime were the same before and after,
 * and as many bytes came as the size says; it gets two attempts. Threads take the next job from a
 * counter, write only into their own job, and use no allocation hook (their memory is there before
 * they start). All signals are blocked in them: the caller's handlers are the caller's business. No
 * thread outlives filehash_run(). It knows no cache and no tree.
 */
#include "core/filehash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/time.h"

#define READ_CHUNK  (256u * 1024)
#define THREADS_MAX 2u
/* Below this a second thread costs more than it saves (a thread: 50 µs; 1 MB: 0.8 ms; a small file:
 * 10 µs). */
#define PARALLEL_BYTES (2u << 20)
#define PARALLEL_FILES 200u

void (*filehash_test_hook)(const char *path);

struct shared {
	const struct filehash *f;
	atomic_size_t next;
	atomic_uint_fast64_t done;
	atomic_size_t failed_at; /* position of the first failure, SIZE_MAX: none */
	pthread_mutex_t lock;    /* of err */
	struct berth_error err;
	int rc;
};

struct hasher {
	struct shared *sh;
	uint8_t *buf;
	bool main; /* the calling thread: reports progress */
};

enum once { ONCE_DONE = 0, ONCE_CHANGED = 1 };

static int fail_read(const struct filehash *f, const char *path, int e, struct berth_error *err)
{
	int code = e == EACCES || e == EPERM ? BERTH_E_PERM : 0;

	return berth_fail_errno(err, code, e, "artifact %s: cannot read \"%s\"", f->dir, path);
}

static int read_all(struct hasher *h, int fd, uint64_t size, struct sha256 *sha)
{
	uint64_t got = 0;

	while (got < size) {
		ssize_t n = RETRY_EINTR(read(fd, h->buf, READ_CHUNK));

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		sha256_add(sha, h->buf, (size_t)n);
		got += (uint64_t)n;
		atomic_fetch_add(&h->sh->done, (uint64_t)n);
		if (h->main && h->sh->f->progress)
			h->sh->f->progress(h->sh->f->progress_arg, atomic_load(&h->sh->done),
					   h->sh->f->bytes);
	}
	return got == size ? 0 : -ESTALE;
}

/* One attempt. ONCE_CHANGED: the file did not stand still. */
static int hash_once(struct hasher *h, struct artifact_entry *e, struct berth_error *err)
{
	const struct filehash *f = h->sh->f;
	int64_t looked = now_wall_ms() * NS_PER_MS;
	auto_close int fd = open_beneath_nolinks(f->dirfd, e->path, O_RDONLY | O_NONBLOCK, 0);
	struct sha256 sha;
	struct stat before, after;
	struct file_key key, key_after;
	int r;

	if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR || fd == -EXDEV || fd == -ENXIO)
		return ONCE_CHANGED;
	if (fd < 0)
		return fail_read(f, e->path, -fd, err);
	if (fstat(fd, &before) < 0)
		return fail_read(f, e->path, errno, err);
	if (!S_ISREG(before.st_mode))
		return ONCE_CHANGED;
	key = file_key_of(&before);
	r = sha256_begin(&sha, err);
	if (r < 0)
		return r;
	r = read_all(h, fd, key.size, &sha);
	sha256_end(&sha, e->sha256);
	if (r == -ESTALE)
		return ONCE_CHANGED;
	if (r < 0)
		return fail_read(f, e->path, -r, err);
	if (filehash_test_hook)
		filehash_test_hook(e->path);
	if (fstat(fd, &after) < 0)
		return fail_read(f, e->path, errno, err);
	key_after = file_key_of(&after);
	if (!file_key_equal(&key, &key_after))
		return ONCE_CHANGED;
	e->key = key;
	e->mtime_ns = key.mtime_ns;
	e->executable = before.st_mode & S_IXUSR;
	e->settled = file_key_settled(&key, looked, f->fine && key.dev == f->dev);
	return ONCE_DONE;
}

static int hash_file(struct hasher *h, struct artifact_entry *e, struct berth_error *err)
{
	int r = hash_once(h, e, err);

	if (r == ONCE_CHANGED)
		r = hash_once(h, e, err);
	if (r == ONCE_CHANGED)
		return berth_fail(err, BERTH_E_CONFLICT,
				  "artifact %s: \"%s\" changed while it was read", h->sh->f->dir,
				  e->path);
	return r;
}

static void note_failure(struct shared *sh, size_t at, int rc, const struct berth_error *err)
{
	pthread_mutex_lock(&sh->lock);
	if (at < atomic_load(&sh->failed_at)) {
		atomic_store(&sh->failed_at, at);
		sh->rc = rc;
		sh->err = *err;
	}
	pthread_mutex_unlock(&sh->lock);
}

static void *work(void *arg)
{
	struct hasher *h = arg;
	struct shared *sh = h->sh;

	for (;;) {
		size_t at = atomic_fetch_add(&sh->next, 1);
		struct berth_error err = BERTH_ERROR_INIT;
		int r;

		if (at >= sh->f->n || atomic_load(&sh->failed_at) != SIZE_MAX)
			return NULL;
		r = hash_file(h, sh->f->jobs[at], &err);
		if (r < 0)
			note_failure(sh, at, r, &err);
	}
}

static unsigned choose_threads(const struct filehash *f)
{
	unsigned n = f->threads;

	if (!n)
		n = f->bytes >= PARALLEL_BYTES || f->n >= PARALLEL_FILES ? 2 : 1;
	return f->n < 2 ? 1 : MIN_OF(n, THREADS_MAX);
}

/* A second thread when there can be one; without it the caller does all. */
static bool start_helper(struct hasher *h, pthread_t *ret)
{
	sigset_t all, old;
	bool ok;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ok = pthread_create(ret, NULL, work, h) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
}

int filehash_run(const struct filehash *f, struct berth_error *err)
{
	unsigned threads = choose_threads(f);
	auto_free uint8_t *buf = mem_alloc((size_t)threads * READ_CHUNK);
	struct shared sh = {.f = f, .failed_at = SIZE_MAX, .err = BERTH_ERROR_INIT};
	struct hasher me = {&sh, buf, true}, helper = {&sh, buf ? buf + READ_CHUNK : NULL, false};
	pthread_t thread;
	bool two;

	if (!buf)
		return berth_fail_nomem(err);
	pthread_mutex_init(&sh.lock, NULL);
	two = threads > 1 && start_helper(&helper, &thread);
	work(&me);
	if (two)
		pthread_join(thread, NULL);
	pthread_mutex_destroy(&sh.lock);
	if (sh.rc < 0 && err)
		*err = sh.err;
	return sh.rc;
}
