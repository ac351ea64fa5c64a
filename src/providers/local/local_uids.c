/* SPDX-License-Identifier: MIT */
/*
 * Ranges of host uids, one per isolated sandbox, and the register of whose they are.
 *
 * Invariants: a register is a folder of symlinks UID -> the sandbox's folder, changed only under
 * the lock in it. A link whose target is gone is nobody's, unless a process has these ids. A sandbox's folder gets the same range
 * again when creating it was interrupted, so a killed creator leaks none. Files and processes of a
 * range are not looked at: a range is given back when they are gone.
 */
#include "providers/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/parse.h"
#include "base/path.h"
#include "core/host.h"

/* Root's: above what systemd gives to containers (up to 1879048191) and below 2^31. */
#define ROOT_FIRST 1879048192
#define ROOT_COUNT 65536
#define ROOT_DIR   "/var/lib/berth/uids"

void uid_pool_done(struct uid_pool *p)
{
	free(p->dir);
	*p = (struct uid_pool){0};
}

static int read_subids(const char *file, const char *user, unsigned long uid, int64_t *ret_start,
		       int64_t *ret_count, struct berth_error *err)
{
	auto_free char *text = NULL;
	int rc = read_file(AT_FDCWD, file, SMALL_FILE_MAX, &text, NULL, err);

	if (rc == BERTH_E_NOMEM)
		return rc;
	if (rc == 0 && host_subids(text, user, uid, ret_start, ret_count))
		return 0;
	berth_fail(err, BERTH_E_UNAVAILABLE, "%s has no subordinate ids for %s (uid %lu)", file,
		   user ? user : "this user", uid);
	berth_error_hint(err,
			 "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s; "
			 "or uids=single, which keeps less apart",
			 user ? user : "USER");
	return BERTH_E_UNAVAILABLE;
}

int uid_pool_subids(const char *subuid, const char *subgid, const char *user, unsigned long uid,
		    struct uid_pool *ret, struct berth_error *err)
{
	int64_t uids = 0, gids = 0;
	int rc = read_subids(subuid, user, uid, &ret->uid, &uids, err);

	if (rc == 0)
		rc = read_subids(subgid, user, uid, &ret->gid, &gids, err);
	ret->count = MIN_OF(uids, gids) / LOCAL_UIDS;
	return rc;
}

/* Does our user namespace have these ids? In a container it may have few. */
static bool mapped(int64_t first, int64_t count)
{
	auto_free char *text = NULL;
	char *line, *save = NULL;

	if (read_file(AT_FDCWD, "/proc/self/uid_map", SMALL_FILE_MAX, &text, NULL, NULL) < 0)
		return true; /* stage will tell */
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		long long inner, outer, n;

		if (sscanf(line, "%lld %lld %lld", &inner, &outer, &n) == 3 && inner <= first &&
		    first + count <= inner + n)
			return true;
	}
	return false;
}

static int root_pool(struct uid_pool *ret, struct berth_error *err)
{
	if (!mapped(ROOT_FIRST, (int64_t)ROOT_COUNT * LOCAL_UIDS)) {
		berth_fail(err, BERTH_E_UNAVAILABLE,
			   "this user namespace has no uids from %d on for sandboxes", ROOT_FIRST);
		return berth_error_hint(err, "isolation=none, or run berth outside of this "
					     "container");
	}
	ret->uid = ret->gid = ROOT_FIRST;
	ret->count = ROOT_COUNT;
	ret->dir = mem_strdup(ROOT_DIR);
	return ret->dir ? 0 : berth_fail_nomem(err);
}

int uid_pool_open(struct uid_pool *ret, struct berth_error *err)
{
	auto(uid_pool) struct uid_pool p = {0};
	auto_free char *user = NULL, *home = NULL;
	int rc;

	if (geteuid() == 0) {
		rc = root_pool(&p, err);
	} else {
		const char *h;

		rc = host_passwd(&user, &home, err);
		if (rc == 0)
			rc = uid_pool_subids("/etc/subuid", "/etc/subgid", user, geteuid(), &p,
					     err);
		h = home ? home : getenv("HOME");
		if (rc == 0 && (!h || *h != '/'))
			rc = berth_fail(err, BERTH_E_UNAVAILABLE, "this user has no home");
		if (rc == 0 && !(p.dir = path_join(h, ".local/share/berth/uids")))
			rc = berth_fail_nomem(err);
	}
	if (rc < 0)
		return rc;
	*ret = p;
	p.dir = NULL;
	return 0;
}

/* ── the register ───────────────────────────────────────────────────────────────────────── */

/* *ret_dir: the folder; *ret_lock: held until it is closed. */
static int open_register(const struct uid_pool *p, int *ret_dir, int *ret_lock,
			 struct berth_error *err)
{
	auto_close int dir = -1, lock = -1;
	int rc = mkdir_p(AT_FDCWD, p->dir, 0755);

	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s", p->dir);
	dir = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lock = dir >= 0 ? openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (lock < 0)
		return berth_fail_errno(err, 0, errno, "%s", p->dir);
	do
		rc = fd_lock_wait(lock, true);
	while (rc == -EINTR);
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s: lock", p->dir);
	*ret_dir = TAKE_FD(dir);
	*ret_lock = TAKE_FD(lock);
	return 0;
}

enum whose { OURS, NOBODYS, OTHERS };

static enum whose whose(int dir, const char *name, const char *folder)
{
	char target[PATH_BUF_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
	struct stat st;

	if (n < 0)
		return errno == ENOENT ? NOBODYS : OTHERS;
	target[n] = '\0';
	if (strcmp(target, folder) == 0)
		return OURS;
	return lstat(target, &st) < 0 && (errno == ENOENT || errno == ENOTDIR) ? NOBODYS : OTHERS;
}

/* Does a process have one of these ids? A folder may be out of our sight (moved, or in another mount
 * namespace) while its sandbox runs. */
static bool in_use(int64_t uid)
{
	auto_closedir DIR *d = opendir("/proc");
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9' &&
		    fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_uid >= uid &&
		    st.st_uid < uid + LOCAL_UIDS)
			return true;
	}
	return false;
}

/* 0: it is ours now. 1: another's. */
static int claim(int dir, int64_t uid, const char *folder, struct berth_error *err)
{
	char name[24];

	snprintf(name, sizeof(name), "%lld", (long long)uid);
	if (symlinkat(folder, dir, name) == 0)
		return 0;
	if (errno == EEXIST) {
		enum whose w = whose(dir, name, folder);

		if (w != NOBODYS || in_use(uid))
			return w == OURS ? 0 : 1;
		if (unlinkat(dir, name, 0) == 0 && symlinkat(folder, dir, name) == 0)
			return 0;
	}
	return berth_fail_errno(err, 0, errno, "the uid register: %s", name);
}

/* Where to look first: the same for a folder every time, so an interrupted creation finds its
 * own. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

int uid_pool_take(const struct uid_pool *p, const char *folder, int64_t *ret_uid, int64_t *ret_gid,
		  struct berth_error *err)
{
	auto_close int dir = -1, lock = -1;
	int rc = open_register(p, &dir, &lock, err);

	for (int64_t i = 0; rc == 0 && i < p->count; i++) {
		int64_t slot = (hash(folder) % p->count + i) % p->count;

		rc = claim(dir, p->uid + slot * LOCAL_UIDS, folder, err);
		if (rc == 0) {
			*ret_uid = p->uid + slot * LOCAL_UIDS;
			*ret_gid = p->gid + slot * LOCAL_UIDS;
			return 0;
		}
		rc = rc > 0 ? 0 : rc;
	}
	return rc < 0 ? rc
		      : berth_fail(err, BERTH_E_UNAVAILABLE,
				   "all %lld ranges of uids in %s are taken", (long long)p->count,
				   p->dir);
}

int uid_pool_keep(const struct uid_pool *p, const char *folder, int64_t uid,
		  struct berth_error *err)
{
	auto_close int dir = -1, lock = -1;
	int rc = open_register(p, &dir, &lock, err);

	if (rc == 0)
		rc = claim(dir, uid, folder, err);
	return rc > 0 ? berth_fail(err, BERTH_E_UNAVAILABLE,
				   "the uids from %lld on are another sandbox's: see %s/%lld",
				   (long long)uid, p->dir, (long long)uid)
		      : rc;
}

void uid_pool_give(const struct uid_pool *p, const char *folder)
{
	auto_close int dir = -1, lock = -1;
	int64_t first = hash(folder) % p->count;
	enum whose w = OTHERS;

	if (access(p->dir, F_OK) < 0 || open_register(p, &dir, &lock, NULL) < 0)
		return;
	/* Where uid_pool_take() has looked, up to the first that nobody has. */
	for (int64_t i = 0; i < p->count && w != NOBODYS; i++) {
		char name[24];

		snprintf(name, sizeof(name), "%lld",
			 (long long)(p->uid + (first + i) % p->count * LOCAL_UIDS));
		w = whose(dir, name, folder);
		if (w == OURS)
			(void)!unlinkat(dir, name, 0);
	}
}
