/* SPDX-License-Identifier: MIT */
/*
 * unpack.c: UNPACK, the way of an artifact into the store.
 *
 * Pass 1 walks the manifest, makes directories, links and every file whose contents are here
 * already (hard link, or a copy where mode or mtime differ), and so holds on to them whatever PRUNE
 * does meanwhile. MISSING names the rest, each content once. Pass 2 writes what arrives. Only when
 * all of it has arrived with the right hash do contents get their names in store/b, the tree its
 * marker and then its name. Until then everything lies in one directory under tmp/ that is removed
 * when anything goes wrong.
 *
 * Invariants: the tree being built is ours alone, and a parent in it is a directory that we made,
 * so paths of the manifest cannot lead out. Twenty at once build twenty trees and the first rename
 * wins: nobody waits for a caller that has stopped sending. Not here: SHA-256 (only the caller
 * computes it).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/hash.h"
#include "agent/store.h"
#include "agent/walls.h"
#include "wire/manifest.h"

#define MANIFEST_BYTES_MAX (512u << 20)
#define OFF_SHA            24u /* of an entry's fixed part */

enum entry_state { HERE = 0, SEND = 1, TWICE = 2 };

struct unpack {
	struct conn *c;
	char hex[STORE_HEX];
	struct tmpdir tmp;
	int root;         /* the tree being built */
	int blobs;        /* store/b */
	int dirty;        /* from store_dirty_begin() */
	const uint8_t *m; /* the manifest */
	size_t m_len, files;
	uint8_t *state;   /* per file entry: enum entry_state */
	uint32_t *table;  /* contents to be sent: offset of the entry + 1, by hash */
	size_t table_len; /* a power of two */
	/* The parent of the entry in hand. */
	char path[MANIFEST_PATH_MAX + 1], parent[MANIFEST_PATH_MAX + 1];
	size_t parent_len;
	int parent_fd;
	struct agent_fail f;
};

/* A content's name below store/b. */
struct blob_name {
	char s[STORE_HEX + 2];
};

static struct blob_name blob_name(const uint8_t *sha256)
{
	struct blob_name b;
	char digits[STORE_HEX + 1];

	hex(digits, sha256, 32);
	memcpy(b.s, digits, 2);
	b.s[2] = '/';
	memcpy(b.s + 3, digits + 2, STORE_HEX - 1);
	return b;
}

static int io_fail(struct unpack *u, const char *what)
{
	return fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot %s %s: %m", what, u->path);
}

/* Makes the parent of an entry the one in hand and returns the entry's last component (in u->path),
 * or NULL. */
static const char *enter(struct unpack *u, struct wire_slice path)
{
	char *slash;
	size_t n;

	memcpy(u->path, path.p, path.n);
	u->path[path.n] = '\0';
	slash = strrchr(u->path, '/');
	n = slash ? (size_t)(slash - u->path) : 0;
	if (u->parent_fd >= 0 && n == u->parent_len && memcmp(u->parent, u->path, n) == 0)
		return slash ? slash + 1 : u->path;
	if (u->parent_fd >= 0)
		close(u->parent_fd);
	memcpy(u->parent, u->path, n);
	u->parent[n] = '\0';
	u->parent_len = n;
	u->parent_fd = openat(u->root, n ? u->parent : ".",
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->parent_fd < 0) {
		io_fail(u, "open the folder of");
		return NULL;
	}
	return slash ? slash + 1 : u->path;
}

static mode_t mode_of(const struct manifest_entry *e)
{
	return e->executable ? 0755 : 0644;
}

static struct timespec time_of(const struct manifest_entry *e)
{
	int64_t s = e->mtime_ns / 1000000000, ns = e->mtime_ns % 1000000000;

	if (ns < 0) {
		s--;
		ns += 1000000000;
	}
	return (struct timespec){.tv_sec = s, .tv_nsec = ns};
}

static int create(struct unpack *u, const char *leaf, const struct manifest_entry *e)
{
	int fd = openat(u->parent_fd, leaf, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_of(e));

	if (fd >= 0 && wall_give(fd) == 0)
		return fd;
	io_fail(u, "create");
	if (fd >= 0)
		close(fd);
	return -1;
}

static int finish(struct unpack *u, int fd, const struct manifest_entry *e)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, time_of(e)};
	int r = futimens(fd, ts);

	if (r < 0)
		io_fail(u, "set the time of");
	close(fd);
	return r;
}

static bool same_inode_will_do(const struct stat *st, const struct manifest_entry *e)
{
	struct timespec t = time_of(e);

	return (st->st_mode & 07777) == mode_of(e) && st->st_mtim.tv_sec == t.tv_sec &&
	       st->st_mtim.tv_nsec == t.tv_nsec;
}

/* Makes the entry in hand out of a file that has its contents: 1; 0 when there is no such file (or
 * a torn one); -1. */
static int make_from(struct unpack *u, int dirfd, const char *name, const char *leaf,
		     const struct manifest_entry *e)
{
	struct stat st;
	int from, to, r;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : io_fail(u, "look for the contents of");
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size) {
		unlinkat(dirfd, name, 0);
		return 0;
	}
	if (same_inode_will_do(&st, e)) {
		if (linkat(dirfd, name, u->parent_fd, leaf, 0) == 0)
			return 1;
		if (errno == ENOENT)
			return 0; /* pruned at this moment */
				  /* EMLINK, or a file system without hard links: a copy. */
	}
	from = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0)
		return errno == ENOENT ? 0 : io_fail(u, "read the contents of");
	to = create(u, leaf, e);
	if (to < 0) {
		close(from);
		return -1;
	}
	r = copy_bytes(from, to);
	if (r < 0)
		io_fail(u, "copy");
	close(from);
	return finish(u, to, e) < 0 || r < 0 ? -1 : 1;
}

/* The offset of the entry that is sent with these contents; this one's, entered, when there is none
 * yet (*ret_new). */
static size_t table_find(struct unpack *u, const uint8_t *sha256, size_t offset, bool *ret_new)
{
	uint64_t h = wire_get_u64(sha256);
	size_t i;

	for (i = (size_t)h & (u->table_len - 1); u->table[i]; i = (i + 1) & (u->table_len - 1)) {
		size_t at = u->table[i] - 1u;

		if (memcmp(u->m + at + OFF_SHA, sha256, 32) == 0) {
			*ret_new = false;
			return at;
		}
	}
	u->table[i] = (uint32_t)offset + 1u;
	*ret_new = true;
	return offset;
}

static int make_file(struct unpack *u, const char *leaf, const struct manifest_entry *e,
		     size_t offset, uint8_t *state)
{
	struct blob_name b;
	bool first;
	int r;

	*state = HERE;
	if (e->size == 0) {
		r = create(u, leaf, e);
		return r < 0 ? -1 : finish(u, r, e);
	}
	b = blob_name(e->sha256);
	r = make_from(u, u->blobs, b.s, leaf, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	table_find(u, e->sha256, offset, &first);
	*state = first ? SEND : TWICE;
	return 0;
}

static int make_link(struct unpack *u, const char *leaf, const struct manifest_entry *e)
{
	static char target[65536];

	if (!slice_str(e->target, target, sizeof(target)))
		return fail(&u->f, WIRE_E_INVALID, "unpack", 0,
			    "the target of the link %s is too long", u->path);
	return symlinkat(target, u->parent_fd, leaf) < 0 || wall_give_at(u->parent_fd, leaf) < 0
		       ? io_fail(u, "make the link")
		       : 0;
}

static int make_folder(struct unpack *u, const char *leaf)
{
	return mkdirat(u->parent_fd, leaf, 0755) < 0 || wall_give_at(u->parent_fd, leaf) < 0
		       ? io_fail(u, "make the folder")
		       : 0;
}

/* Pass 1. */
static int make_what_is_here(struct unpack *u)
{
	struct manifest_entry e;
	size_t pos = 0, at, file = 0;

	for (at = 0; manifest_next(u->m, u->m_len, &pos, &e) == 1; at = pos) {
		const char *leaf = enter(u, e.path);
		int r;

		if (!leaf)
			return -1;
		if (e.type == 'd')
			r = make_folder(u, leaf);
		else if (e.type == 'l')
			r = make_link(u, leaf, &e);
		else
			r = make_file(u, leaf, &e, at, &u->state[file++]);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* Walks the file entries of one state: the next one from *pos, *file. */
static bool next_file(struct unpack *u, uint8_t state, size_t *pos, size_t *file,
		      struct manifest_entry *e)
{
	while (manifest_next(u->m, u->m_len, pos, e) == 1) {
		if (e->type == 'f' && u->state[(*file)++] == state)
			return true;
	}
	return false;
}

/* What arrives, one file after the other. */
struct arrival {
	size_t pos, file;
	struct manifest_entry e;
	uint64_t left; /* of the file in hand */
	int fd;        /* -1: none in hand */
};

static int arrive(struct unpack *u, struct arrival *a, const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t part;
		int r;

		if (a->fd < 0) {
			const char *leaf;

			if (!next_file(u, SEND, &a->pos, &a->file, &a->e))
				return fail(&u->f, WIRE_E_PROTOCOL, "unpack", 0,
					    "more contents arrived than were asked for");
			leaf = enter(u, a->e.path);
			a->fd = leaf ? create(u, leaf, &a->e) : -1;
			if (a->fd < 0)
				return -1;
			a->left = a->e.size;
		}
		part = n < a->left ? n : (size_t)a->left;
		if (write_all(a->fd, p, part) < 0)
			return io_fail(u, "write");
		p += part;
		n -= part;
		a->left -= part;
		if (a->left)
			continue;
		r = finish(u, a->fd, &a->e);
		a->fd = -1;
		if (r < 0)
			return -1;
	}
	return 0;
}

/* Pass 2. -1: u->f says why, and the stream stands behind END; -2: the stream is of no use. */
static int receive_contents(struct unpack *u)
{
	struct arrival a = {.fd = -1};
	struct manifest_entry e;
	struct wire_slice sent;
	struct hash h;
	uint8_t got[16];
	const uint8_t *p;
	size_t n;
	int r;

	hash_init(&h);
	while ((r = conn_recv_data(u->c, &p, &n)) == 1) {
		hash_add(&h, p, n);
		if (arrive(u, &a, p, n) < 0) {
			r = conn_skip_data(u->c) < 0 ? -2 : -1;
			break;
		}
	}
	if (a.fd >= 0)
		close(a.fd);
	if (r != 2)
		return r == -1 && u->f.code ? -1 : -2;
	hash_get(&h, got);
	if (a.fd >= 0 || next_file(u, SEND, &a.pos, &a.file, &e))
		return fail(&u->f, WIRE_E_PROTOCOL, "unpack", 0, "the contents ended early");
	if (!wire_find(p, n, WK_XXH128, &sent) || sent.n != 16 || memcmp(sent.p, got, 16) != 0)
		return fail(&u->f, WIRE_E_PROTOCOL, "unpack", 0,
			    "the contents did not arrive as they were sent");
	return 0;
}

/* Gives what has arrived its names in store/b. */
static int name_contents(struct unpack *u)
{
	struct manifest_entry e;
	size_t pos = 0, file = 0;

	while (next_file(u, SEND, &pos, &file, &e)) {
		struct blob_name b = blob_name(e.sha256);
		const char *leaf = enter(u, e.path);
		int r;

		if (!leaf)
			return -1;
		r = linkat(u->parent_fd, leaf, u->blobs, b.s, 0);
		if (r < 0 && errno == ENOENT) {
			b.s[2] = '\0';
			mkdirat(u->blobs, b.s, 0755);
			b.s[2] = '/';
			r = linkat(u->parent_fd, leaf, u->blobs, b.s, 0);
		}
		/* A file system without hard links: contents are then kept in trees only. */
		if (r < 0 && errno != EEXIST && errno != EPERM && errno != EOPNOTSUPP &&
		    errno != EMLINK)
			return io_fail(u, "keep the contents of");
	}
	return 0;
}

/* Makes the files whose contents were sent for another entry. */
static int make_twins(struct unpack *u)
{
	char name[MANIFEST_PATH_MAX + 1];
	struct manifest_entry e, first;
	size_t pos = 0, file = 0;

	while (next_file(u, TWICE, &pos, &file, &e)) {
		bool is_new;
		size_t at = table_find(u, e.sha256, 0, &is_new);
		const char *leaf = enter(u, e.path);

		if (!leaf)
			return -1;
		if (is_new || manifest_next(u->m, u->m_len, &at, &first) != 1 ||
		    !slice_str(first.path, name, sizeof(name)) ||
		    make_from(u, u->root, name, leaf, &e) != 1)
			return u->f.code ? -1
					 : fail(&u->f, WIRE_E_INTERNAL, "unpack", 0,
						"%s: its twin is gone", u->path);
	}
	return 0;
}

/* Marker, then name. */
static int publish(struct unpack *u)
{
	struct store_path to = store_path('t', u->hex, "");
	char from[64];
	int lock, r = 0;

	if (store_look('t', u->hex) == STORE_TREE)
		return 0;
	if (store_discard('t', u->hex) < 0)
		return fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot remove a torn tree: %m");
	join3(from, sizeof(from), u->tmp.name, "/t", "");
	/* PRUNE removes markers that have no directory: not between these two. */
	lock = store_hold(F_RDLCK);
	if (lock < 0 || store_mark(&u->tmp, 't', u->hex, false) < 0)
		r = fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot mark the tree: %m");
	else if (renameat(agent.dirfd, from, agent.dirfd, to.s) < 0 && errno != ENOTEMPTY &&
		 errno != EEXIST)
		r = fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot name the tree: %m");
	if (lock >= 0)
		close(lock);
	return r;
}

/* The manifest, into a file that is mapped: it may be large, and it is nobody's memory. -2 as in
 * receive_contents(). */
static int receive_manifest(struct unpack *u, int64_t len)
{
	char name[64];
	const uint8_t *p;
	size_t n, got = 0;
	void *m;
	int fd, r;

	join3(name, sizeof(name), u->tmp.name, "/m", "");
	fd = openat(agent.dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot keep the manifest: %m");
	while ((r = conn_recv_data(u->c, &p, &n)) == 1) {
		if (u->f.code)
			continue;
		got += n;
		if ((int64_t)got > len)
			fail(&u->f, WIRE_E_PROTOCOL, "unpack", 0,
			     "the manifest is longer than announced");
		else if (write_all(fd, p, n) < 0)
			fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot keep the manifest: %m");
	}
	if (r == 2 && !u->f.code && (int64_t)got != len)
		fail(&u->f, WIRE_E_PROTOCOL, "unpack", 0, "the manifest is shorter than announced");
	if (r == 2 && !u->f.code && got) {
		m = mmap(NULL, got, PROT_READ, MAP_PRIVATE, fd, 0);
		if (m == MAP_FAILED)
			fail(&u->f, WIRE_E_NOMEM, "unpack", errno, "cannot map the manifest: %m");
		else
			u->m = m;
	}
	u->m_len = got;
	if (fd >= 0)
		close(fd);
	return r != 2 ? -2 : u->f.code ? -1 : 0;
}

/* Checks the manifest and takes the memory that its walk needs. */
static int prepare(struct unpack *u)
{
	struct manifest_entry e;
	const char *why = NULL;
	size_t pos = 0;
	char name[64];

	if (manifest_check(u->m, u->m_len, &why) < 0)
		return fail(&u->f, WIRE_E_INVALID, "unpack", 0, "the manifest is wrong: %s", why);
	while (manifest_next(u->m, u->m_len, &pos, &e) == 1)
		u->files += e.type == 'f';
	u->table_len = 64;
	while (u->table_len < 2 * u->files)
		u->table_len *= 2;
	u->state = agent_map(u->files + 1);
	u->table = agent_map(u->table_len * sizeof(*u->table));
	if (!u->state || !u->table)
		return fail(&u->f, WIRE_E_NOMEM, "unpack", ENOMEM, "no memory for %zu files",
			    u->files);
	join3(name, sizeof(name), u->tmp.name, "/t", "");
	if (mkdirat(agent.dirfd, name, 0755) < 0 || wall_give_root(agent.dirfd, name) < 0)
		return fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot make a folder: %m");
	u->root = openat(agent.dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (u->root < 0)
		return fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot open the store: %m");
	return 0;
}

/* -2: the stream is of no use. */
static int ask_for_missing(struct unpack *u)
{
	size_t n = (u->files + 7) / 8;
	uint8_t *bits = agent_map(n + 1);
	struct wire_w *w;
	int r;

	if (!bits)
		return fail(&u->f, WIRE_E_NOMEM, "unpack", ENOMEM, "no memory");
	for (size_t i = 0; i < u->files; i++) {
		if (u->state[i] == SEND)
			bits[i / 8] |= (uint8_t)(1u << (i % 8));
	}
	w = conn_begin_sized(u->c, WIRE_EVENT, n + 64);
	if (w)
		wire_w_bytes(w, WK_MISSING, bits, n);
	r = w ? conn_end(u->c) : -1;
	agent_unmap(bits, n + 1);
	return r < 0 ? -2 : 0;
}

static int unpack(struct unpack *u, int64_t manifest_len)
{
	bool there;
	int r;

	if (store_make() < 0 || tmpdir_make(&u->tmp, 'u') < 0) {
		fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot make the store: %m");
		return conn_skip_data(u->c) < 0 ? -2 : -1;
	}
	r = receive_manifest(u, manifest_len);
	if (r < 0)
		return r;
	r = prepare(u);
	if (r < 0)
		return r;
	there = store_look('t', u->hex) == STORE_TREE;
	if (!there) {
		u->dirty = store_dirty_begin();
		if (u->dirty < 0)
			return fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot mark the store: %m");
		u->blobs = openat(agent.dirfd, "store/b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (u->blobs < 0)
			return fail(&u->f, WIRE_E_IO, "unpack", errno, "cannot open the store: %m");
		if (make_what_is_here(u) < 0)
			return -1;
	}
	r = ask_for_missing(u);
	if (r < 0)
		return r;
	r = receive_contents(u);
	if (r < 0 || there)
		return r;
	return name_contents(u) < 0 || make_twins(u) < 0 || publish(u) < 0 ? -1 : 1;
}

static void unpack_done(struct unpack *u)
{
	if (u->parent_fd >= 0)
		close(u->parent_fd);
	if (u->root >= 0)
		close(u->root);
	if (u->blobs >= 0)
		close(u->blobs);
	if (u->m)
		munmap((void *)(uintptr_t)u->m, u->m_len);
	agent_unmap(u->state, u->files + 1);
	agent_unmap(u->table, u->table_len * sizeof(*u->table));
	tmpdir_drop(&u->tmp);
}

int verb_unpack(struct conn *c, const uint8_t *p, size_t n)
{
	static struct unpack u;
	int64_t len = wire_find_int(p, n, WK_MANIFEST_LEN, -1);
	struct wire_slice tree;
	int r;

	u = (struct unpack){
		.c = c, .tmp.fd = -1, .root = -1, .blobs = -1, .dirty = -1, .parent_fd = -1};
	if (!wire_find(p, n, WK_TREE, &tree) || !store_hex_valid(tree) || len < 0 ||
	    len > MANIFEST_BYTES_MAX) {
		if (conn_skip_data(c) < 0)
			return -1;
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "UNPACK needs TREE and MANIFEST_LEN");
	}
	memcpy(u.hex, tree.p, STORE_HEX);
	umask(022);
	r = unpack(&u, len);
	unpack_done(&u);
	if (u.dirty >= 0 && r == 1)
		store_dirty_end(u.dirty, 't', u.hex);
	else if (u.dirty >= 0)
		close(u.dirty);
	if (r == -2)
		return -1;
	return r < 0 ? conn_fail(c, &u.f) : conn_ok(c);
}
