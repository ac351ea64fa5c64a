/* SPDX-License-Identifier: MIT */
/*
 * artifact.c: from a directory to a sorted list, a manifest and a hash.
 *
 * Invariants: nothing is opened through a link below the artifact's directory; an entry is what one
 * fstatat(2) saw (files: what the hashing saw); entries are sorted by path bytes before anything is
 * made of them. A tree that has not changed costs one fstatat per entry: the cache answers for the
 * contents. It writes nothing but the cache, and a cache that cannot be written is no failure.
 */
#include "core/artifact.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/time.h"
#include "core/filehash.h"
#include "core/ignore.h"
#include "wire/manifest.h"

/* The kernel's own bound. */
#define LINKS_MAX  40
#define CHUNK_SIZE (64u * 1024)
#define MODULES    "node_modules"
/* Files of an artifact; the manifest and the cache are held in memory. */
#define ENTRIES_MAX 4000000u

/* Memory of paths and targets: never moved, freed with the artifact. */
struct artifact_chunk {
	struct artifact_chunk *next;
	size_t used, size;
	char data[];
};

struct walk {
	struct artifact *a;
	const struct artifact_options *o;
	struct ignore *ignore;
	bool leave_modules;
	char path[PATH_MAX]; /* of what is being looked at */
	char target[PATH_MAX];
};

/* A NUL-terminated copy that lives as long as the artifact; NULL = no memory. */
static const char *keep(struct artifact *a, const char *s, size_t len)
{
	struct artifact_chunk *c = a->chunks;
	char *p;

	if (!c || c->size - c->used < len + 1) {
		size_t size = MAX_OF((size_t)CHUNK_SIZE, len + 1);

		c = mem_alloc(sizeof(*c) + size);
		if (!c)
			return NULL;
		*c = (struct artifact_chunk){.next = a->chunks, .size = size};
		a->chunks = c;
	}
	p = c->data + c->used;
	memcpy(p, s, len);
	p[len] = '\0';
	c->used += len + 1;
	return p;
}

static int add_entry(struct artifact *a, const struct artifact_entry *e, struct berth_error *err)
{
	if (a->n == ENTRIES_MAX)
		return berth_fail(err, BERTH_E_TOO_LARGE, "artifact %s: more than %u entries",
				  a->dir, ENTRIES_MAX);
	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 64;
		struct artifact_entry *p = mem_reallocarray(a->entries, cap, sizeof(*p));

		if (!p)
			return berth_fail_nomem(err);
		a->entries = p;
		a->cap = cap;
	}
	a->entries[a->n++] = *e;
	return 0;
}

static const char *type_text(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return "a named pipe";
	case S_IFSOCK:
		return "a socket";
	case S_IFCHR:
	case S_IFBLK:
		return "a device";
	default:
		return "of an unknown type";
	}
}

static int read_target(struct walk *w, int dirfd, const char *name, struct artifact_entry *e,
		       struct berth_error *err)
{
	ssize_t n = readlinkat(dirfd, name, w->target, sizeof(w->target));

	if (n < 0)
		return berth_fail_errno(err, 0, errno, "artifact %s: cannot read the link \"%s\"",
					w->a->dir, w->path);
	e->target_len = (size_t)n;
	e->target = keep(w->a, w->target, (size_t)n);
	return e->target ? 0 : berth_fail_nomem(err);
}

static int walk_dir(struct walk *w, int fd, size_t path_len, unsigned depth,
		    struct berth_error *err);

/* w->path is the entry's path; its last component in dirfd is name. */
static int take_entry(struct walk *w, int dirfd, const char *name, size_t path_len,
		      const struct stat *st, unsigned depth, struct berth_error *err)
{
	struct artifact_entry e = {.path_len = path_len};
	int r = 0;

	e.path = keep(w->a, w->path, path_len);
	if (!e.path)
		return berth_fail_nomem(err);
	e.key = file_key_of(st);
	e.mtime_ns = e.key.mtime_ns;
	if (S_ISREG(st->st_mode)) {
		e.type = 'f';
		e.executable = st->st_mode & S_IXUSR;
		w->a->n_files++;
	} else if (S_ISDIR(st->st_mode)) {
		e.type = 'd';
	} else if (S_ISLNK(st->st_mode)) {
		e.type = 'l';
		r = read_target(w, dirfd, name, &e, err);
	} else {
		return berth_fail(err, BERTH_E_INVALID,
				  "artifact %s: \"%s\" is %s; an artifact has files, directories "
				  "and symbolic links",
				  w->a->dir, w->path, type_text(st->st_mode));
	}
	if (r == 0)
		r = add_entry(w->a, &e, err);
	if (r == 0 && e.type == 'd') {
		int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return berth_fail_errno(err, errno == EACCES ? BERTH_E_PERM : 0, errno,
						"artifact %s: cannot read \"%s\"", w->a->dir,
						w->path);
		r = walk_dir(w, fd, path_len, depth + 1, err);
	}
	return r;
}

static bool left_out(struct walk *w, size_t path_len, bool is_dir)
{
	if (strcmp(w->path, IGNORE_FILE) == 0)
		return true;
	if (strcmp(w->path, MODULES) == 0 && w->leave_modules) {
		w->a->modules_left_out = true;
		return true;
	}
	return ignore_match(w->ignore, w->path, path_len, is_dir);
}

static int look_at(struct walk *w, int dirfd, const char *name, size_t path_len, unsigned depth,
		   struct berth_error *err)
{
	size_t n = strlen(name), len = path_len + (path_len ? 1 : 0) + n;
	struct stat st;

	if (len >= sizeof(w->path))
		return berth_fail(err, BERTH_E_INVALID,
				  "artifact %s: the path of \"%s\" is too long", w->a->dir, name);
	if (path_len)
		w->path[path_len] = '/';
	memcpy(w->path + len - n, name, n + 1);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0; /* removed while we walked: it is not there */
		return berth_fail_errno(err, 0, errno, "artifact %s: cannot look at \"%s\"",
					w->a->dir, w->path);
	}
	if (left_out(w, len, S_ISDIR(st.st_mode)))
		return 0;
	return take_entry(w, dirfd, name, len, &st, depth, err);
}

/* Takes fd. */
static int walk_dir(struct walk *w, int fd, size_t path_len, unsigned depth,
		    struct berth_error *err)
{
	auto_closedir DIR *dir = fdopendir(fd);
	struct dirent *d;
	int r;

	if (!dir) {
		int e = errno;

		close(fd);
		return berth_fail_errno(err, 0, e, "artifact %s: cannot read a directory",
					w->a->dir);
	}
	if (depth > TREE_DEPTH_MAX)
		return berth_fail(err, BERTH_E_INVALID,
				  "artifact %s: more than %d directories inside each other",
				  w->a->dir, TREE_DEPTH_MAX);
	while (errno = 0, (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		r = look_at(w, fd, d->d_name, path_len, depth, err);
		if (r < 0)
			return r;
		w->path[path_len] = '\0';
	}
	if (errno)
		return berth_fail_errno(err, 0, errno, "artifact %s: cannot read \"%s\"", w->a->dir,
					w->path);
	return 0;
}

/* The ignore file, when there is one; through no link. */
static int load_ignore(struct walk *w, struct berth_error *err)
{
	auto_close int fd =
		open_beneath_nolinks(w->a->dirfd, IGNORE_FILE, O_RDONLY | O_NONBLOCK, 0);
	auto_free char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0 && fd != -ELOOP && fd != -EXDEV && fd != -ENXIO)
		return berth_fail_errno(err, fd == -EACCES ? BERTH_E_INVALID : 0, -fd,
					"artifact %s: %s", w->a->dir, IGNORE_FILE);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return berth_fail(err, BERTH_E_INVALID, "artifact %s: %s cannot be read as a file",
				  w->a->dir, IGNORE_FILE);
	if (st.st_size > (off_t)IGNORE_MAX)
		return berth_fail(err, BERTH_E_TOO_LARGE, "artifact %s: %s is larger than 1 MiB",
				  w->a->dir, IGNORE_FILE);
	text = mem_alloc((size_t)st.st_size);
	if (!text)
		return berth_fail_nomem(err);
	n = read_full(fd, text, (size_t)st.st_size);
	if (n < 0)
		return berth_fail_errno(err, 0, (int)-n, "artifact %s: cannot read %s", w->a->dir,
					IGNORE_FILE);
	return ignore_parse(text, (size_t)n, &w->ignore, err);
}

static void look_for_package_json(struct walk *w)
{
	struct stat st;

	w->a->has_package_json =
		fstatat(w->a->dirfd, "package.json", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		(S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) &&
		!ignore_match(w->ignore, "package.json", strlen("package.json"), false);
}

static int walk_all(struct artifact *a, const struct artifact_options *o, struct berth_error *err)
{
	auto_free struct walk *w = mem_zalloc(1, sizeof(*w));
	int r, fd;

	if (!w)
		return berth_fail_nomem(err);
	w->a = a;
	w->o = o;
	r = load_ignore(w, err);
	if (r == 0) {
		look_for_package_json(w);
		w->leave_modules = o->modules == ARTIFACT_MODULES_LEAVE ||
				   (o->modules == ARTIFACT_MODULES_AUTO && a->has_package_json);
		fd = openat(a->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? berth_fail_errno(err, 0, errno, "artifact %s: cannot read it", a->dir)
			   : walk_dir(w, fd, 0, 0, err);
	}
	ignore_free(w->ignore);
	return r;
}

static int cmp_entry(const void *pa, const void *pb)
{
	const struct artifact_entry *a = pa, *b = pb;
	int r = memcmp(a->path, b->path, MIN_OF(a->path_len, b->path_len));

	return r ? r : (a->path_len > b->path_len) - (a->path_len < b->path_len);
}

/* Asks the cache for every file; those it does not know are the jobs. */
static int collect_jobs(struct artifact *a, const struct hashcache *cache, struct filehash *f,
			struct berth_error *err)
{
	f->jobs = mem_reallocarray(NULL, a->n_files, sizeof(*f->jobs));
	if (!f->jobs)
		return berth_fail_nomem(err);
	for (size_t i = 0; i < a->n; i++) {
		struct artifact_entry *e = &a->entries[i];
		const uint8_t *known;

		if (e->type != 'f')
			continue;
		known = hashcache_find(cache, &e->key);
		if (known) {
			memcpy(e->sha256, known, SHA256_LEN);
			e->settled = true;
		} else {
			f->jobs[f->n++] = e;
			f->bytes += e->key.size;
		}
	}
	return 0;
}

static void save_cache(const struct artifact *a, const char *state_dir, const struct stat *root)
{
	auto_free struct hashcache_row *rows = mem_reallocarray(NULL, a->n_files, sizeof(*rows));
	size_t n = 0;

	if (!rows)
		return;
	for (size_t i = 0; i < a->n; i++) {
		const struct artifact_entry *e = &a->entries[i];

		if (e->type != 'f' || !e->settled)
			continue;
		rows[n].key = e->key;
		memcpy(rows[n++].sha256, e->sha256, SHA256_LEN);
	}
	/* A cache that cannot be written costs time, no more. */
	if (hashcache_save(state_dir, root, rows, n, NULL) < 0)
		return;
}

static int hash_files(struct artifact *a, const struct artifact_options *o, struct berth_error *err)
{
	struct filehash f = {.dirfd = a->dirfd,
			     .dir = a->dir,
			     .threads = o->threads,
			     .progress = o->progress,
			     .progress_arg = o->progress_arg};
	struct hashcache cache = HASHCACHE_INIT;
	auto_free struct artifact_entry **jobs = NULL;
	struct stat root;
	size_t known;
	int r;

	if (fstat(a->dirfd, &root) < 0)
		return berth_fail_errno(err, 0, errno, "artifact %s", a->dir);
	if (o->state_dir)
		hashcache_load(&cache, o->state_dir, &root);
	known = cache.n;
	r = collect_jobs(a, &cache, &f, err);
	hashcache_done(&cache);
	jobs = f.jobs;
	if (r < 0)
		return r;
	a->n_read = f.n;
	if (f.n) {
		f.fine = file_times_fine(a->dirfd);
		f.dev = root.st_dev;
		r = filehash_run(&f, err);
		if (r < 0)
			return r;
	}
	if (o->state_dir && (f.n || known != a->n_files))
		save_cache(a, o->state_dir, &root);
	return 0;
}

static struct manifest_entry manifest_of(const struct artifact_entry *e)
{
	bool file = e->type == 'f';

	return (struct manifest_entry){
		.type = e->type,
		.executable = e->executable,
		.path = {(const uint8_t *)e->path, e->path_len},
		.target = {(const uint8_t *)e->target, e->target_len},
		.size = file ? e->key.size : 0,
		.mtime_ns = e->mtime_ns,
		.sha256 = e->sha256, /* zeros for what is no file */
	};
}

static int make_manifest(struct artifact *a, struct berth_error *err)
{
	struct wire_w w;
	size_t len = 0;

	for (size_t i = 0; i < a->n; i++)
		len += MANIFEST_FIXED + a->entries[i].path_len + a->entries[i].target_len;
	a->manifest = mem_alloc(len);
	if (!a->manifest)
		return berth_fail_nomem(err);
	wire_w_init(&w, a->manifest, len);
	for (size_t i = 0; i < a->n; i++) {
		struct manifest_entry m = manifest_of(&a->entries[i]);

		manifest_put(&w, &m);
	}
	if (!wire_w_ok(&w) || w.len != len)
		return berth_fail(err, BERTH_E_INTERNAL, "artifact %s: the manifest does not fit",
				  a->dir);
	a->manifest_len = len;
	return 0;
}

static int hash_tree(struct artifact *a, struct berth_error *err)
{
	/* type, x bit, two lengths, size and hash besides path and target */
	auto_free uint8_t *buf = mem_alloc(2 * PATH_MAX + 64);
	uint8_t digest[SHA256_LEN];
	struct sha256 sha;
	int r;

	if (!buf)
		return berth_fail_nomem(err);
	r = sha256_begin(&sha, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < a->n; i++) {
		struct manifest_entry m = manifest_of(&a->entries[i]);
		size_t n = manifest_canonical(&m, buf, 2 * PATH_MAX + 64);

		if (!n) {
			sha256_done(&sha);
			return berth_fail(err, BERTH_E_INTERNAL,
					  "artifact %s: an entry is too long", a->dir);
		}
		sha256_add(&sha, buf, n);
	}
	sha256_end(&sha, digest);
	hex_encode(digest, sizeof(digest), a->tree);
	return 0;
}

static int open_dir(struct artifact *a, struct berth_error *err)
{
	int e;

	a->dirfd = open(a->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->dirfd >= 0)
		return 0;
	e = errno;
	if (e == ENOTDIR)
		return berth_fail(err, BERTH_E_INVALID, "artifact %s: not a directory", a->dir);
	return berth_fail_errno(err,
				e == ENOENT || e == ELOOP ? BERTH_E_INVALID
				: e == EACCES             ? BERTH_E_PERM
							  : 0,
				e, "artifact %s", a->dir);
}

int artifact_load(const char *dir, const struct artifact_options *o, struct artifact **ret,
		  struct berth_error *err)
{
	auto(artifact) struct artifact *a = mem_zalloc(1, sizeof(*a));
	int r;

	if (!a)
		return berth_fail_nomem(err);
	a->dirfd = -1;
	a->dir = mem_strdup(dir);
	if (!a->dir)
		return berth_fail_nomem(err);
	if ((r = sha256_load(err)) < 0 || (r = open_dir(a, err)) < 0 ||
	    (r = walk_all(a, o, err)) < 0)
		return r;
	if (a->n)
		qsort(a->entries, a->n, sizeof(*a->entries), cmp_entry);
	if ((r = hash_files(a, o, err)) < 0 || (r = make_manifest(a, err)) < 0 ||
	    (r = hash_tree(a, err)) < 0)
		return r;
	for (size_t i = 0; i < a->n; i++)
		a->bytes += a->entries[i].type == 'f' ? a->entries[i].key.size : 0;
	*ret = TAKE_PTR(a);
	return 0;
}

void artifact_free(struct artifact *a)
{
	if (!a)
		return;
	for (struct artifact_chunk *c = a->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	if (a->dirfd >= 0)
		close(a->dirfd);
	free(a->entries);
	free(a->manifest);
	free(a->dir);
	free(a);
}

const struct artifact_entry *artifact_find(const struct artifact *a, const char *path)
{
	struct artifact_entry key = {.path = path, .path_len = strlen(path)};

	return a->n ? bsearch(&key, a->entries, a->n, sizeof(*a->entries), cmp_entry) : NULL;
}

/* at = at/name, or its parent for "..". False when that leaves. */
static bool step(char at[PATH_BUF_MAX], const char *name, size_t n)
{
	size_t len = strlen(at);
	char *slash = strrchr(at, '/');

	if (n == 2 && memcmp(name, "..", 2) == 0) {
		*(slash ? slash : at) = '\0';
		return len > 0;
	}
	if (n == 0 || (n == 1 && name[0] == '.') || len + 1 + n >= PATH_BUF_MAX)
		return true;
	if (len)
		at[len++] = '/';
	memcpy(at + len, name, n);
	at[len + n] = '\0';
	return true;
}

bool artifact_holds_path(const struct artifact *a, const char *rel)
{
	char at[PATH_BUF_MAX] = "", todo[2][PATH_BUF_MAX];
	const struct artifact_entry *e;
	const char *p = rel;

	for (int links = 0; *p;) {
		size_t n = strcspn(p, "/");
		char *next = todo[links % 2];
		int len;

		if (!step(at, p, n))
			return false;
		e = n && *at ? artifact_find(a, at) : NULL;
		p += n + (p[n] == '/');
		if (!e || e->type != 'l')
			continue;
		if (e->target[0] == '/')
			return false;
		len = snprintf(next, PATH_BUF_MAX, "%.*s/%s", (int)e->target_len, e->target, p);
		if (++links > LINKS_MAX || len < 0 || len >= PATH_BUF_MAX)
			return true; /* a loop, or too long: what opens it says so */
		(void)!step(at, "..", 2);
		p = next;
	}
	return true;
}

int artifact_open_file(const struct artifact *a, const struct artifact_entry *e)
{
	auto_close int fd = open_beneath_nolinks(a->dirfd, e->path, O_RDONLY | O_NONBLOCK, 0);

	if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR || fd == -EXDEV || fd == -ENXIO)
		return -ESTALE;
	if (fd >= 0 && !artifact_file_unchanged(fd, e))
		return -ESTALE;
	return TAKE_FD(fd);
}

bool artifact_file_unchanged(int fd, const struct artifact_entry *e)
{
	struct stat st;
	struct file_key key;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	key = file_key_of(&st);
	return file_key_equal(&key, &e->key);
}
