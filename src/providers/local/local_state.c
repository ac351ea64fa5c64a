/* SPDX-License-Identifier: MIT */
/*
 * The folder of a local sandbox: its record, markers, lock, and its way out.
 *
 * Invariants: the record is the last thing that creation writes, so a folder without one is no
 * sandbox; it never changes. Changes of life are made under the lock only. A folder is renamed away
 * before anything in it is removed.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/time.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

char *local_path(const struct local *l, const char *name)
{
	return mem_printf("%s/%s", l->base, name);
}

/* ── the record ─────────────────────────────────────────────────────────────────────────── */

void local_unload(struct local *l)
{
	local_keys_done(&l->record.keys);
	memset(&l->record, 0, sizeof(l->record));
	l->loaded = false;
}

/* Numbers of the record beside its keys. */
static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{"created_ms", offsetof(struct local_record, created_ms)},
	{"expires_ms", offsetof(struct local_record, expires_ms)},
	{"uid_base", offsetof(struct local_record, uid_base)},
	{"gid_base", offsetof(struct local_record, gid_base)},
};

static int64_t *number_at(struct local_record *r, size_t i)
{
	return (int64_t *)(void *)((char *)r + numbers[i].offset);
}

static int take_line(struct local_record *r, const char *key, const char *value,
		     struct berth_error *err)
{
	if (strcmp(key, "id") == 0) {
		snprintf(r->id, sizeof(r->id), "%s", value);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		if (strcmp(key, numbers[i].key) == 0)
			return parse_int(value, 0, INT64_MAX, number_at(r, i)) < 0
				       ? berth_fail(err, BERTH_E_IO, "%s=%s", key, value)
				       : 0;
	}
	return local_keys_take(&r->keys, key, value, err);
}

static int parse_record(struct local *l, char *text, struct berth_error *err)
{
	struct berth_error why = BERTH_ERROR_INIT;
	char *line, *save = NULL;
	int rc = 0;

	for (line = strtok_r(text, "\n", &save); line && rc == 0;
	     line = strtok_r(NULL, "\n", &save)) {
		char *eq = strchr(line, '=');

		if (!eq)
			continue;
		*eq = '\0';
		rc = take_line(&l->record, line, eq + 1, &why);
	}
	if (rc == BERTH_E_NOMEM)
		return berth_fail_nomem(err);
	if (rc < 0 || !l->record.id[0] || !l->record.keys.value[KEY_ISOLATION])
		return berth_fail(err, BERTH_E_IO, "%s/sandbox is damaged%s%s", l->base,
				  rc < 0 ? ": " : "", rc < 0 ? why.message : "");
	return 0;
}

int local_load_any(struct local *l, struct berth_error *err)
{
	auto_free char *path = NULL, *text = NULL;
	int rc;

	if (l->loaded)
		return 0;
	path = local_path(l, "sandbox");
	if (!path)
		return berth_fail_nomem(err);
	rc = read_file(AT_FDCWD, path, SMALL_FILE_MAX, &text, NULL, err);
	if (rc == BERTH_E_NOT_FOUND)
		return berth_fail(err, rc, "no sandbox %s", l->full);
	if (rc == 0)
		rc = parse_record(l, text, err);
	if (rc < 0)
		local_unload(l);
	l->loaded = rc == 0;
	return rc;
}

int local_load(struct local *l, struct berth_error *err)
{
	int rc = local_load_any(l, err);

	if (rc < 0)
		return rc;
	if (local_expired(l)) {
		local_unload(l);
		return berth_fail(err, BERTH_E_NOT_FOUND, "no sandbox %s: it has expired", l->full);
	}
	rc = local_keys_compare(&l->want, &l->record.keys, l->full, err);
	if (rc == 0 && l->remote_dir && local_walled(l))
		rc = local_check_dir(l, NULL, err);
	if (rc < 0)
		local_unload(l);
	return rc;
}

bool local_walled(const struct local *l)
{
	const struct local_keys *k = l->loaded ? &l->record.keys : &l->want;

	return strcmp(local_key_value(k, KEY_ISOLATION), "bwrap") == 0;
}

/* Behind walls, home and the rest are made by stage: they have other owners. */
static int make_folders(const struct local *l, struct berth_error *err)
{
	auto_free char *dirs = local_path(l, "dirs");
	int rc;

	if (!dirs)
		return berth_fail_nomem(err);
	rc = mkdir_p(AT_FDCWD, dirs, 0700);
	if (rc == 0 && !local_walled(l))
		rc = mkdir_p(AT_FDCWD, l->home, 0700);
	return rc < 0 ? berth_fail_errno(err, 0, -rc, "%s", l->base) : 0;
}

int local_create(struct local *l, const struct local_record *r, struct berth_error *err)
{
	auto(strbuf) struct strbuf text = STRBUF_INIT(SMALL_FILE_MAX);
	auto_free char *path = local_path(l, "sandbox");
	char random[21];
	int rc = make_folders(l, err);

	if (!path)
		return berth_fail_nomem(err);
	if (rc < 0)
		return rc;
	strbuf_addf(&text, "id=sbx_%s\n", random_name(random, 20));
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		int64_t n = *number_at((struct local_record *)r, i);

		if (n)
			strbuf_addf(&text, "%s=%lld\n", numbers[i].key, (long long)n);
	}
	for (int i = 0; i < KEY_COUNT; i++) {
		const char *v = l->want.value[i];

		/* Defaults of another version are not this sandbox's. */
		if (!v && (i == KEY_ISOLATION || local_walled(l)))
			v = local_key_value(&l->want, (enum local_key)i);
		if (v)
			strbuf_addf(&text, "%s=%s\n", local_key_name((enum local_key)i), v);
	}
	if (strbuf_error(&text) < 0)
		return berth_fail_nomem(err);
	/* Nothing in the sandbox is worth more than its record: what runs there fsyncs its own
	 * reservation, and this with it. */
	rc = write_file_atomic(AT_FDCWD, path, text.data, text.len, 0600, WRITE_FILE_SOON, err);
	return rc < 0 ? rc : local_load(l, err);
}

/* ── lock and markers ───────────────────────────────────────────────────────────────────── */

/* Is the file behind the fd still the one at the path? */
static bool same_file(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int local_lock(struct local *l, bool make, int *ret_fd, struct berth_error *err)
{
	auto_free char *path = local_path(l, "lock");
	int rc;

	if (!path)
		return berth_fail_nomem(err);
	for (;;) {
		auto_close int fd = -1;

		rc = make ? mkdir_p(AT_FDCWD, l->base, 0700) : 0;
		if (rc < 0)
			return berth_fail_errno(err, 0, -rc, "%s", l->base);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 && errno == ENOENT) {
			if (make)
				continue; /* destroyed between the two */
			return berth_fail(err, BERTH_E_NOT_FOUND, "no sandbox %s", l->full);
		}
		if (fd < 0)
			return berth_fail_errno(err, 0, errno, "%s", path);
		do
			rc = fd_lock_wait(fd, true);
		while (rc == -EINTR);
		if (rc < 0)
			return berth_fail_errno(err, 0, -rc, "%s: lock", path);
		if (!same_file(fd, path))
			continue;
		local_unload(l); /* what was read without the lock may be old */
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
}

bool local_locked(const struct local *l)
{
	auto_free char *path = local_path(l, "lock");
	auto_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	return fd >= 0 && fd_lock_test(fd) == 1;
}

bool local_marked(const struct local *l, const char *marker)
{
	auto_free char *path = local_path(l, marker);

	return path && access(path, F_OK) == 0;
}

int local_mark(const struct local *l, const char *marker, bool on, struct berth_error *err)
{
	auto_free char *path = local_path(l, marker);
	auto_close int fd = -1;

	if (!path)
		return berth_fail_nomem(err);
	if (!on && (unlink(path) == 0 || errno == ENOENT))
		return 0;
	if (on && (fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) >= 0)
		return 0;
	return berth_fail_errno(err, 0, errno, "%s", path);
}

static char *boot_id(const char *path)
{
	char *text = NULL;
	size_t n = 0;

	if (!path || read_file(AT_FDCWD, path, 4096, &text, &n, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

bool local_other_boot(const struct local *l)
{
	auto_free char *path = local_path(l, "boot"), *then = boot_id(path),
		       *now = boot_id(BOOT_ID);

	return !then || !now || strcmp(then, now) != 0;
}

int local_note_boot(const struct local *l, struct berth_error *err)
{
	auto_free char *path = local_path(l, "boot"), *now = boot_id(BOOT_ID);

	if (!path)
		return berth_fail_nomem(err);
	return write_file_atomic(AT_FDCWD, path, now ? now : "", now ? strlen(now) : 0, 0600, 0,
				 err);
}

/* ── how it ended ───────────────────────────────────────────────────────────────────────── */

void local_ended(const struct local *l, char *ret, size_t cap)
{
	auto_free char *dir = local_default_dir(l), *text = NULL;
	auto_free char *path = dir ? path_join(dir, "ended") : NULL;

	if (path && read_file(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0)
		text = NULL;
	if (text)
		text[strcspn(text, "\n")] = '\0';
	snprintf(ret, cap, "%s", text ? text : "");
}

bool local_expired(const struct local *l)
{
	auto_free char *dir = NULL;
	char why[16];

	if (!l->record.expires_ms)
		return false;
	dir = local_default_dir(l);
	if (!dir || local_init_alive(dir))
		return false;
	if (l->record.expires_ms <= now_wall_ms())
		return true;
	local_ended(l, why, sizeof(why));
	return strcmp(why, "expired") == 0;
}

/* ── berth directories ──────────────────────────────────────────────────────────────────── */

char *local_default_dir(const struct local *l)
{
	const char *dir = l->record.keys.value[KEY_DIR];
	auto_free char *joined = NULL;

	if (local_walled(l))
		return mem_strdup(l->inner);
	joined = path_join(l->home, dir ? dir : "berth");

	return joined ? path_normalize(joined) : NULL;
}

struct find_dir {
	const char *dir;
	bool found;
};

static int is_dir(struct local *l, const char *dir, void *arg, struct berth_error *err)
{
	struct find_dir *f = arg;

	f->found |= strcmp(dir, f->dir) == 0;
	return 0;
}

int local_note_dir(const struct local *l, const char *dir, struct berth_error *err)
{
	struct find_dir f = {dir, false};
	auto_free char *link = NULL;
	char random[17];
	int rc = local_each_dir(l, is_dir, &f, err);

	if (rc < 0 || f.found)
		return rc;
	link = mem_printf("%s/dirs/%s", l->base, random_name(random, 16));
	if (!link)
		return berth_fail_nomem(err);
	if (symlink(dir, link) < 0)
		return berth_fail_errno(err, 0, errno, "%s", link);
	return 0;
}

int local_each_dir(const struct local *l,
		   int (*fn)(struct local *l, const char *dir, void *arg, struct berth_error *err),
		   void *arg, struct berth_error *err)
{
	auto_free char *path = local_path(l, "dirs");
	auto_closedir DIR *d = path ? opendir(path) : NULL;
	struct dirent *e;
	int rc = 0;

	if (!path)
		return berth_fail_nomem(err);
	if (!d)
		return errno == ENOENT ? 0 : berth_fail_errno(err, 0, errno, "%s", path);
	while (rc >= 0 && (e = readdir(d))) {
		char target[PATH_BUF_MAX];
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = '\0';
		rc = fn((struct local *)l, target, arg, err);
	}
	return rc;
}

/* ── the way out ────────────────────────────────────────────────────────────────────────── */

int local_discard(struct local *l, struct berth_error *err)
{
	auto_free char *trash = mem_printf("%s/trash", l->state_dir), *gone = NULL;
	auto_close int fd = -1;
	char random[17];
	int rc;

	gone = mem_printf("local-%s-%s", l->name, random_name(random, 16));
	if (!trash || !gone)
		return berth_fail_nomem(err);
	rc = mkdir_p(AT_FDCWD, trash, 0700);
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s", trash);
	fd = open(trash, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || renameat(AT_FDCWD, l->base, fd, gone) < 0)
		return berth_fail_errno(err, 0, errno, "%s", l->base);
	local_unload(l);
	rc = remove_tree(fd, gone);
	return rc < 0 ? berth_fail_errno(err, 0, -rc, "%s/%s could not be removed", trash, gone)
		      : 0;
}

int local_sweep_trash(const struct local *l, const char *name, struct berth_error *err)
{
	auto_free char *trash = mem_printf("%s/trash", l->state_dir), *prefix = NULL;
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int rc = 0;

	prefix = name ? mem_printf("local-%s-", name) : mem_strdup("local-");
	if (!trash || !prefix)
		return berth_fail_nomem(err);
	d = opendir(trash);
	while (d && (e = readdir(d))) {
		int one = 0;

		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			one = remove_tree(dirfd(d), e->d_name);
		if (one < 0)
			rc = berth_fail_errno(err, 0, -one, "%s/%s could not be removed", trash,
					      e->d_name);
	}
	return rc;
}
