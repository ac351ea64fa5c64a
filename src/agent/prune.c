/* SPDX-License-Identifier: MIT */
/*
 * prune.c: FORGET and PRUNE: what is removed, and when it may be.
 *
 * A record goes only when its lock is free, and first by rename under tmp/, so that its id is free
 * at once and a crash leaves nothing half under it. A tree or layer goes only when no record of any
 * state names it, nobody is installing over it, and it was not used within the grace; this is
 * decided under the exclusive store lock, which LAUNCH holds shared from looking until its record
 * is visible. A content goes when no tree has it (one link). What is found under tmp/ goes when
 * nobody holds its lock. When a record cannot be read, nobody knows what it needs: then trees and
 * layers all stay.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/prune.h"
#include "agent/record.h"
#include "agent/store.h"

#define GRACE_MAX_MS (10 * 60 * 1000) /* an unpacked tree whose launch is still to come */
#define TMP_GRACE_MS \
	(10 * 60 * 1000) /* files in tmp/ that have no lock: pieces of somebody's upload */
#define EMPTY_GRACE_MS 5000
#define RESERVATION_MS (60 * 60 * 1000)
#define USED_MAX       (1u << 20)

/* ---- tmp/ ---- */

static bool older_than(const struct stat *st, int64_t ms)
{
	return wall_ms() - ((int64_t)st->st_ctim.tv_sec * 1000 + st->st_ctim.tv_nsec / 1000000) >
	       ms;
}

/* May this directory be removed? A maker locks before it fills: so what is not empty and not locked
 * has nobody. Whether an empty one is about to be locked cannot be known; it is left alone while it
 * is young. */
static bool tmp_is_left(int fd, bool is_reservation)
{
	static struct dirscan d;
	uint8_t type;
	struct stat st;
	int j, held;
	bool empty;

	dirscan_init(&d, fd);
	empty = !dirscan_next(&d, &type);
	if (ofd_held(fd, F_WRLCK) != 0)
		return false;
	if (empty)
		return fstat(fd, &st) == 0 && older_than(&st, EMPTY_GRACE_MS);
	j = openat(fd, "journal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (j < 0 && !is_reservation)
		return true;
	/* A reservation has no lock while its input arrives, and its journal has one from its first
	 * moment but one. */
	if (j < 0)
		return fstat(fd, &st) == 0 && older_than(&st, RESERVATION_MS);
	held = record_held(j);
	if (fstat(j, &st) < 0)
		held = 1;
	close(j);
	return held == 0 && older_than(&st, 5000);
}

static void tidy_entry(int tmp, const char *name, uint8_t type, uint64_t *bytes)
{
	struct stat st;
	int fd;

	if (type == DT_DIR || type == DT_UNKNOWN) {
		fd = openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && tmp_is_left(fd, name[1] != '.'))
			remove_tree_at(tmp, name, bytes);
		if (fd >= 0)
			close(fd);
		if (fd >= 0 || errno != ENOTDIR)
			return;
	}
	if (fstatat(tmp, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && older_than(&st, TMP_GRACE_MS))
		unlinkat(tmp, name, 0);
}

void prune_tmp(uint64_t *bytes)
{
	int fd = openat(agent.dirfd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type)))
		tidy_entry(fd, name, type, bytes);
	close(fd);
}

/* ---- records ---- */

/* Removes a record whose lock is free. 0, or -1 and errno (ENOENT: gone already). */
static int forget(const char *dir, const char *id, uint64_t *bytes)
{
	char from[SPEC_ID_MAX + 8], to[64];
	struct tmpdir t;
	int r, e;

	if (tmpdir_make(&t, 'f') < 0)
		return -1;
	join3(from, sizeof(from), dir, "/", id);
	join3(to, sizeof(to), t.name, "/r", "");
	r = renameat(agent.dirfd, from, agent.dirfd, to);
	e = errno;
	if (r == 0)
		remove_tree_at(t.fd, "r", bytes);
	tmpdir_drop(&t);
	errno = e;
	return r;
}

static bool is_let_go(int fd)
{
	struct record r;
	bool ended;

	if (record_load_at(fd, &r, NULL) < 0)
		return false;
	ended = record_let_go(&r);
	record_unload(&r);
	return ended;
}

int verb_forget(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t kind = wire_find_int(p, n, WK_KIND, WIRE_KIND_EXECUTION);
	char name[SPEC_ID_MAX + 1];
	struct wire_slice id;
	int fd, j, held = 0;

	if (!wire_find(p, n, WK_ID, &id) || !slice_str(id, name, sizeof(name)))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "no valid id");
	fd = record_open(kind, id);
	if (fd < 0)
		return conn_error(c, WIRE_E_NOT_FOUND, NULL, 0, "no execution %s", name);
	j = openat(fd, "journal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (j >= 0) {
		held = record_held(j);
		if (held > 0 && is_let_go(fd))
			held = 0;
		close(j);
	}
	close(fd);
	if (held < 0)
		return conn_error(c, WIRE_E_IO, NULL, errno, "cannot ask for the lock of %s: %m",
				  name);
	if (held)
		return conn_error(c, WIRE_E_CONFLICT, NULL, 0, "execution %s is still running",
				  name);
	if (forget(kind_dir(kind), name, NULL) == 0)
		return conn_ok(c);
	if (errno == ENOENT)
		return conn_error(c, WIRE_E_NOT_FOUND, NULL, 0, "no execution %s", name);
	return conn_error(c, WIRE_E_IO, NULL, errno, "cannot remove execution %s: %m", name);
}

/* When it ended, or when its journal was last written. */
static int64_t ended_ms(const struct record *r)
{
	struct record_status s;
	struct stat st;

	record_status_of(r, &s);
	if (s.finished_ms > 0)
		return s.finished_ms;
	return fstat(r->jfd, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000 : INT64_MAX;
}

struct prune {
	int64_t older_ms;
	int64_t count, trees, layers;
	uint64_t bytes;
	bool blind;          /* a record could not be read */
	uint8_t (*used)[32]; /* hashes and keys that records name */
	size_t n_used, cap_used;
};

static void prune_record(struct prune *pr, const char *dir, int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct record r;
	bool old;

	if (fd < 0)
		return;
	if (record_load_at(fd, &r, NULL) == 0) {
		int64_t age = wall_ms() - ended_ms(&r);

		old = record_let_go(&r) && age >= pr->older_ms;
		record_unload(&r);
		if (old && forget(dir, name, &pr->bytes) == 0)
			pr->count++;
	}
	close(fd);
}

static void each_record(struct prune *pr,
			void (*fn)(struct prune *, const char *, int, const char *))
{
	static const char *const dirs[] = {"x", "s"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		int fd = openat(agent.dirfd, dirs[i],
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct dirscan d;
		const char *name;
		uint8_t type;

		if (fd < 0)
			continue;
		dirscan_init(&d, fd);
		while ((name = dirscan_next(&d, &type)))
			fn(pr, dirs[i], fd, name);
		close(fd);
	}
}

/* ---- what is used ---- */

static void from_hex(uint8_t out[32], const uint8_t *digits)
{
	for (size_t i = 0; i < 32; i++) {
		uint8_t a = digits[2 * i], b = digits[2 * i + 1];

		out[i] = (uint8_t)((a <= '9' ? a - '0' : a - 'a' + 10) << 4 |
				   (b <= '9' ? b - '0' : b - 'a' + 10));
	}
}

static void use(struct prune *pr, struct wire_slice hexd)
{
	struct wire_slice digits = hexd;

	if (!store_hex_valid(digits))
		return;
	if (pr->n_used == pr->cap_used) {
		pr->blind = true;
		return;
	}
	from_hex(pr->used[pr->n_used], digits.p);
	/* Executions of one tree come in rows. */
	if (pr->n_used == 0 || memcmp(pr->used[pr->n_used - 1], pr->used[pr->n_used], 32) != 0)
		pr->n_used++;
}

static void use_record(struct prune *pr, const char *dir, int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *why = NULL;
	struct record r;
	struct spec s;

	(void)dir;
	if (fd < 0 || record_load_at(fd, &r, NULL) < 0) {
		pr->blind = pr->blind || fd >= 0 || errno != ENOENT;
	} else {
		if (spec_decode(r.j.spec.p, r.j.spec.n, &s, &why) < 0)
			pr->blind = true;
		else {
			use(pr, s.tree);
			use(pr, s.layer);
		}
		record_unload(&r);
	}
	if (fd >= 0)
		close(fd);
}

static bool is_used(const struct prune *pr, const char *hexd)
{
	uint8_t h[32];

	from_hex(h, (const uint8_t *)hexd);
	for (size_t i = 0; i < pr->n_used; i++) {
		if (memcmp(pr->used[i], h, 32) == 0)
			return true;
	}
	return false;
}

/* ---- trees and layers ---- */

/* Somebody installs over this tree, or makes this layer. */
static bool is_busy(char dir, const char *hexd)
{
	struct store_path p = store_path(dir, hexd, dir == 't' ? "" : ".lock");
	int fd = openat(agent.dirfd, p.s, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), held;

	if (fd < 0)
		return errno != ENOENT;
	held = ofd_held(fd, F_WRLCK);
	close(fd);
	return held != 0;
}

static bool is_recent(const struct prune *pr, char dir, const char *hexd)
{
	int64_t grace = pr->older_ms < GRACE_MAX_MS ? pr->older_ms : GRACE_MAX_MS, age;
	struct stat st;

	if (fstatat(agent.dirfd, store_path(dir, hexd, ".ok").s, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false; /* no marker: nobody can use it */
	age = wall_ms() - ((int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
	return age < grace;
}

/* Moves the unused ones aside. The exclusive store lock is held. */
static void prune_dir(struct prune *pr, char dir, const struct tmpdir *t, int64_t *count)
{
	char name[16] = "store/?";
	struct dirscan d;
	const char *entry;
	uint8_t type;
	int fd;

	name[6] = dir;
	fd = openat(agent.dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((entry = dirscan_next(&d, &type))) {
		char hexd[STORE_HEX + 1], aside[STORE_HEX + 8];
		size_t n = strlen(entry);
		struct stat st;

		if (n < STORE_HEX ||
		    !store_hex_valid((struct wire_slice){(const uint8_t *)entry, STORE_HEX}))
			continue;
		memcpy(hexd, entry, STORE_HEX);
		hexd[STORE_HEX] = '\0';
		if (is_used(pr, hexd) || is_busy(dir, hexd) || is_recent(pr, dir, hexd))
			continue;
		if (n > STORE_HEX) {
			/* A marker or lock without its directory; with it, it goes when the
			 * directory does. */
			if (fstatat(fd, hexd, &st, AT_SYMLINK_NOFOLLOW) < 0)
				unlinkat(fd, entry, 0);
			continue;
		}
		aside[0] = dir;
		memcpy(aside + 1, hexd, STORE_HEX + 1);
		unlinkat(agent.dirfd, store_path(dir, hexd, ".ok").s, 0);
		if (renameat(fd, entry, t->fd, aside) == 0)
			++*count;
	}
	close(fd);
}

static void remove_aside(struct prune *pr, const struct tmpdir *t)
{
	struct dirscan d;
	const char *name;
	uint8_t type;

	dirscan_init(&d, t->fd);
	while ((name = dirscan_next(&d, &type)))
		remove_tree_at(t->fd, name, &pr->bytes);
}

static void prune_store(struct prune *pr)
{
	struct tmpdir t;
	int lock;

	pr->cap_used = USED_MAX;
	pr->used = agent_map(USED_MAX * sizeof(*pr->used));
	if (!pr->used || tmpdir_make(&t, 'p') < 0)
		return;
	lock = store_hold(F_WRLCK);
	if (lock >= 0) {
		each_record(pr, use_record);
		if (!pr->blind) {
			prune_dir(pr, 't', &t, &pr->trees);
			prune_dir(pr, 'l', &t, &pr->layers);
		}
		close(lock);
	}
	remove_aside(pr, &t);
	tmpdir_drop(&t);
	agent_unmap(pr->used, USED_MAX * sizeof(*pr->used));
}

/* ---- contents ---- */

static void prune_contents_of(int dirfd, const char *name, uint64_t *bytes)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirscan d;
	const char *entry;
	struct stat st;
	uint8_t type;

	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((entry = dirscan_next(&d, &type))) {
		if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink != 1)
			continue;
		if (unlinkat(fd, entry, 0) == 0)
			*bytes += (uint64_t)st.st_blocks * 512u;
	}
	close(fd);
}

static void prune_contents(uint64_t *bytes)
{
	int fd = openat(agent.dirfd, "store/b", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (fd < 0)
		return;
	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type)))
		prune_contents_of(fd, name, bytes);
	close(fd);
}

int verb_prune(struct conn *c, const uint8_t *p, size_t n)
{
	struct prune pr = {.older_ms = wire_find_int(p, n, WK_OLDER_MS, 0)};
	struct wire_w *w;

	if (pr.older_ms < 0)
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "a negative OLDER_MS");
	prune_tmp(&pr.bytes);
	each_record(&pr, prune_record);
	prune_store(&pr);
	prune_contents(&pr.bytes);
	w = conn_begin(c, WIRE_OK);
	wire_w_int(w, WK_COUNT, pr.count);
	wire_w_int(w, WK_TREES, pr.trees);
	wire_w_int(w, WK_LAYERS, pr.layers);
	wire_w_int(w, WK_BYTES, (int64_t)pr.bytes);
	return conn_end(c);
}
