/* SPDX-License-Identifier: MIT */
/*
 * files.c: PUT GET STAT LS MKDIR SYMLINK REMOVE.
 *
 * A path is either one of the sandbox's file system (relative to home; links mean what they mean
 * there) or, with BASE_ID, one inside the view of an execution, which no link and no ".." may
 * leave. Invariants: what is written appears by rename, whole; a link in the last place is
 * replaced, not written through; an early error leaves the stream behind END. Behind walls, from
 * place_begin() to place_end() this process acts as a worker: whatever a worker has put in the way
 * leads no further than the worker itself comes.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/hash.h"
#include "agent/view_mount.h"
#include "agent/walls.h"

#define IO_SIZE (1u << 20)

/* Where a request works. */
struct place {
	int dirfd;   /* home, or the root of a view */
	bool inside; /* nothing may lead out of dirfd */
	bool worker; /* we act as one */
	struct view_hold hold;
	char path[AGENT_PATH_MAX];
	char buf[AGENT_PATH_MAX]; /* the parent's path, and the leaf behind it */
	const char *leaf;
	struct agent_fail f;
};

static int code_of(int err)
{
	switch (err) {
	case ENOENT:
		return WIRE_E_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return WIRE_E_PERM;
	case EEXIST:
	case ENOTEMPTY:
	case EISDIR:
	case ENOTDIR:
	case EBUSY:
	case ETXTBSY:
		return WIRE_E_CONFLICT;
	case EINVAL:
	case ENAMETOOLONG:
	case EXDEV:
	case ELOOP:
		return WIRE_E_INVALID;
	case ENOMEM:
		return WIRE_E_NOMEM;
	default:
		return WIRE_E_IO;
	}
}

/* Fills pl->f from errno; -1. */
static int place_fail(struct place *pl, const char *what)
{
	if (errno == EXDEV && pl->inside)
		return fail(&pl->f, WIRE_E_INVALID, NULL, EXDEV,
			    "%s leads out of the working directory", pl->path);
	return fail(&pl->f, code_of(errno), NULL, errno, "cannot %s %s: %m", what, pl->path);
}

static void place_as_worker(struct place *pl, bool on)
{
	if (pl->worker != on)
		wall_as_worker(on);
	pl->worker = on;
}

static int place_begin(struct place *pl, const uint8_t *p, size_t n, bool rw)
{
	struct wire_slice path, base;

	*pl = (struct place){.dirfd = -1, .hold = {.lock = -1, .work.fd = -1}};
	if (!wire_find(p, n, WK_PATH, &path) || !slice_str(path, pl->path, sizeof(pl->path)))
		return fail(&pl->f, WIRE_E_INVALID, NULL, 0, "no valid PATH");
	if (!pl->path[0])
		memcpy(pl->path, ".", 2);
	pl->inside = wire_find(p, n, WK_BASE_ID, &base);
	if (pl->inside) {
		pl->dirfd = view_reach(base, rw, &pl->hold, &pl->f);
		if (pl->dirfd < 0)
			return -1;
		place_as_worker(pl, true);
		return 0;
	}
	place_as_worker(pl, true);
	pl->dirfd = agent.homefd >= 0 ? fcntl(agent.homefd, F_DUPFD_CLOEXEC, 3)
				      : openat(AT_FDCWD, pl->path[0] == '/' ? "/" : agent.home,
					       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return pl->dirfd < 0
		       ? fail(&pl->f, WIRE_E_IO, NULL, errno, "cannot open the home folder: %m")
		       : 0;
}

/* Ends a request with OK, or with what is in pl->f. */
static int place_end(struct conn *c, struct place *pl, int r)
{
	place_as_worker(pl, false);
	if (pl->dirfd >= 0)
		close(pl->dirfd);
	view_release(&pl->hold);
	if (c->broken)
		return -1;
	if (r < 0)
		return conn_fail(c, &pl->f);
	return c->replied ? 0 : conn_ok(c);
}

/* fd, or -1 and EACCES when it is of what workers do not see. */
static int reached(int fd)
{
	if (fd < 0 || wall_reaches(fd))
		return fd;
	close(fd);
	errno = EACCES;
	return -1;
}

/* The directory path (which is written to). */
static int place_dir(struct place *pl, char *path, bool make)
{
	if (agent.walled)
		return reached(open_dir_plain(pl->dirfd, path, make));
	if (make && mkdir_p_at(pl->dirfd, path, 0755) < 0)
		return -1;
	return openat(pl->dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int place_open(struct place *pl, int flags)
{
	if (pl->inside)
		return open_beneath(pl->dirfd, pl->path, flags, 0);
	if (!agent.walled)
		return openat(pl->dirfd, pl->path, flags | O_CLOEXEC);
	return reached(open_plain(pl->dirfd, pl->path, flags, 0));
}

/* The directory that holds the last component (pl->leaf). */
static int place_parent(struct place *pl, bool make)
{
	size_t n = strlen(pl->path);
	char *slash;
	int fd;

	if (pl->inside) {
		fd = open_parent_beneath(pl->dirfd, pl->path, make, pl->buf, &pl->leaf);
		return fd < 0 ? place_fail(pl, "reach") : fd;
	}
	memcpy(pl->buf, pl->path, n + 1);
	while (n > 1 && pl->buf[n - 1] == '/')
		pl->buf[--n] = '\0';
	slash = strrchr(pl->buf, '/');
	pl->leaf = slash ? slash + 1 : pl->buf;
	if (!pl->leaf[0] || strcmp(pl->leaf, ".") == 0 || strcmp(pl->leaf, "..") == 0) {
		errno = EINVAL;
		return place_fail(pl, "use");
	}
	if (slash)
		*slash = '\0';
	fd = !slash             ? place_dir(pl, (char[]){"."}, false)
	     : slash == pl->buf ? place_dir(pl, (char[]){"/"}, false)
				: place_dir(pl, pl->buf, make);
	return fd < 0 ? place_fail(pl, make ? "make the folder of" : "reach") : fd;
}

static struct timespec time_ns(int64_t ns)
{
	int64_t s = ns / 1000000000, rest = ns % 1000000000;

	return rest < 0 ? (struct timespec){s - 1, (long)(rest + 1000000000)}
			: (struct timespec){s, (long)rest};
}

static int64_t mtime_ns(const struct stat *st)
{
	int64_t ns;

	if (MUL_OVERFLOWS((int64_t)st->st_mtim.tv_sec, INT64_C(1000000000), &ns) ||
	    ADD_OVERFLOWS(ns, (int64_t)st->st_mtim.tv_nsec, &ns))
		return 0;
	return ns;
}

/* MTIME_NS of a request as the two times of utimensat(); false when there is none. */
static bool wanted_time(const uint8_t *p, size_t n, struct timespec ts[2])
{
	struct wire_slice v;
	int64_t ns;

	if (!wire_find(p, n, WK_MTIME_NS, &v) || !wire_slice_int(v, &ns))
		return false;
	ts[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
	ts[1] = time_ns(ns);
	return true;
}

static int type_of(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '?';
}

static void beside_name(char name[48])
{
	memcpy(name, ".berth-", 7);
	random_name(name + 7);
}

/* ---- PUT ---- */

struct put {
	struct place pl;
	int parent, fd;
	bool named; /* beside is a name already; else the file has none yet */
	char beside[48];
	mode_t mode;
	bool has_time;
	struct timespec ts[2];
	int64_t size; /* announced, or -1 */
};

static int put_open(struct put *u)
{
	u->parent = place_parent(&u->pl, true);
	if (u->parent < 0)
		return -1;
	beside_name(u->beside);
	/* A file without a name leaves nothing behind when this process is killed. */
	if (faccessat(AT_FDCWD, "/proc/self/fd", X_OK, 0) == 0)
		u->fd = openat(u->parent, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (u->fd >= 0)
		return 0;
	u->fd = openat(u->parent, u->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	u->named = u->fd >= 0;
	return u->fd < 0 ? place_fail(&u->pl, "create") : 0;
}

static int put_receive(struct conn *c, struct put *u)
{
	struct wire_slice sent;
	const uint8_t *p;
	uint8_t got[16];
	struct hash h;
	int64_t total = 0;
	size_t n;
	int r;

	hash_init(&h);
	while ((r = conn_recv_data(c, &p, &n)) == 1) {
		hash_add(&h, p, n);
		total += (int64_t)n;
		if (write_all(u->fd, p, n) == 0)
			continue;
		place_fail(&u->pl, "write");
		conn_skip_data(c);
		return -1;
	}
	if (r != 2)
		return -1; /* the stream is broken */
	hash_get(&h, got);
	if (!wire_find(p, n, WK_XXH128, &sent) || sent.n != 16 || memcmp(sent.p, got, 16) != 0 ||
	    (u->size >= 0 && u->size != total))
		return fail(&u->pl.f, WIRE_E_PROTOCOL, NULL, 0, "%s did not arrive as it was sent",
			    u->pl.path);
	return 0;
}

static int put_finish(struct put *u)
{
	char proc[40];

	if (fchmod(u->fd, u->mode) < 0 || (u->has_time && futimens(u->fd, u->ts) < 0))
		return place_fail(&u->pl, "set the mode of");
	if (!u->named) {
		fmt(proc, sizeof(proc), "/proc/self/fd/%d", u->fd);
		if (linkat(AT_FDCWD, proc, u->parent, u->beside, AT_SYMLINK_FOLLOW) < 0)
			return place_fail(&u->pl, "name");
		u->named = true;
	}
	if (renameat(u->parent, u->beside, u->parent, u->pl.leaf) < 0)
		return place_fail(&u->pl, "replace");
	u->named = false;
	return 0;
}

int verb_put(struct conn *c, const uint8_t *p, size_t n)
{
	static struct put u;
	int r;

	u = (struct put){.parent = -1, .fd = -1};
	u.mode = (mode_t)wire_find_int(p, n, WK_MODE, 0644) & 0777;
	u.size = wire_find_int(p, n, WK_SIZE, -1);
	u.has_time = wanted_time(p, n, u.ts);
	r = place_begin(&u.pl, p, n, true);
	if (r == 0)
		r = put_open(&u);
	if (r < 0) {
		conn_skip_data(c);
		return place_end(c, &u.pl, -1);
	}
	r = put_receive(c, &u);
	if (r == 0)
		r = put_finish(&u);
	if (u.named)
		unlinkat(u.parent, u.beside, 0);
	close(u.fd);
	close(u.parent);
	return place_end(c, &u.pl, r);
}

/* ---- GET ---- */

static int get_send(struct conn *c, struct place *pl, int fd, uint64_t off, uint64_t max,
		    uint8_t hash[16])
{
	uint8_t *buf = agent_map(IO_SIZE);
	struct hash h;
	int r = -1;

	if (!buf)
		return fail(&pl->f, WIRE_E_NOMEM, NULL, ENOMEM, "no memory");
	hash_init(&h);
	for (;;) {
		size_t want = max < IO_SIZE ? (size_t)max : IO_SIZE;
		ssize_t k = want ? RETRY_EINTR(pread(fd, buf, want, (off_t)off)) : 0;

		if (k < 0) {
			place_fail(pl, "read");
			break;
		}
		if (k == 0) {
			hash_get(&h, hash);
			r = 0;
			break;
		}
		hash_add(&h, buf, (size_t)k);
		if (conn_data(c, WIRE_DATA, buf, (size_t)k) < 0)
			break;
		off += (uint64_t)k;
		max -= (uint64_t)k;
	}
	agent_unmap(buf, IO_SIZE);
	return r;
}

static int get(struct conn *c, struct place *pl, const uint8_t *p, size_t n)
{
	int64_t off = wire_find_int(p, n, WK_OFFSET, 0),
		max = wire_find_int(p, n, WK_MAX, INT64_MAX);
	uint8_t hash[16];
	struct wire_w *w;
	struct stat st;
	int fd;

	if (off < 0 || max < 0)
		return fail(&pl->f, WIRE_E_INVALID, NULL, 0, "a negative OFFSET or MAX");
	/* Not waiting for the other end of a pipe, nor taking a terminal. */
	fd = place_open(pl, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return place_fail(pl, "open");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return fail(&pl->f, S_ISDIR(st.st_mode) ? WIRE_E_CONFLICT : WIRE_E_INVALID, NULL,
			    S_ISDIR(st.st_mode) ? EISDIR : 0, "%s is no regular file", pl->path);
	}
	if (get_send(c, pl, fd, (uint64_t)off, (uint64_t)max, hash) < 0) {
		close(fd);
		return -1;
	}
	close(fd);
	w = conn_begin(c, WIRE_OK);
	wire_w_int(w, WK_SIZE, st.st_size);
	wire_w_int(w, WK_MODE, st.st_mode & 07777);
	wire_w_int(w, WK_MTIME_NS, mtime_ns(&st));
	wire_w_bytes(w, WK_XXH128, hash, sizeof(hash));
	return conn_end(c);
}

int verb_get(struct conn *c, const uint8_t *p, size_t n)
{
	static struct place pl;
	int r = place_begin(&pl, p, n, false);

	return place_end(c, &pl, r < 0 ? r : get(c, &pl, p, n));
}

/* ---- STAT, LS ---- */

static void put_stat(struct wire_w *w, int fd, const char *name, const struct stat *st)
{
	char target[4096];
	ssize_t k;

	wire_w_int(w, WK_TYPE, type_of(st->st_mode));
	wire_w_int(w, WK_SIZE, st->st_size);
	wire_w_int(w, WK_MODE, st->st_mode & 07777);
	wire_w_int(w, WK_MTIME_NS, mtime_ns(st));
	if (!S_ISLNK(st->st_mode))
		return;
	k = readlinkat(fd, name, target, sizeof(target));
	if (k >= 0)
		wire_w_bytes(w, WK_TARGET, target, (size_t)k);
}

static int stat_one(struct conn *c, struct place *pl, bool follow)
{
	struct stat st;
	int fd, r = 0;

	fd = place_open(pl, O_PATH | (follow ? 0 : O_NOFOLLOW));
	if (fd < 0 || fstat(fd, &st) < 0) {
		if (errno == ENOTDIR)
			errno = ENOENT;
		r = place_fail(pl, "find");
	} else {
		put_stat(conn_begin(c, WIRE_OK), fd, "", &st);
		conn_end(c);
	}
	if (fd >= 0)
		close(fd);
	return r;
}

int verb_stat(struct conn *c, const uint8_t *p, size_t n)
{
	static struct place pl;
	int r = place_begin(&pl, p, n, false);

	return place_end(c, &pl,
			 r < 0 ? r : stat_one(c, &pl, wire_find_int(p, n, WK_FOLLOW, 0) != 0));
}

static int list_dir(struct conn *c, struct place *pl)
{
	static struct dirscan d;
	const char *name;
	struct wire_w *w;
	struct stat st;
	uint8_t type;
	int fd = place_open(pl, O_RDONLY | O_DIRECTORY | O_NONBLOCK);

	if (fd < 0)
		return place_fail(pl, "list");
	dirscan_init(&d, fd);
	while (!c->broken && (name = dirscan_next(&d, &type))) {
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* gone meanwhile */
		w = conn_begin(c, WIRE_EVENT);
		wire_w_str(w, WK_NAME, name);
		put_stat(w, fd, name, &st);
		conn_end(c);
	}
	close(fd);
	errno = d.err;
	return d.err ? place_fail(pl, "list") : 0;
}

int verb_ls(struct conn *c, const uint8_t *p, size_t n)
{
	static struct place pl;
	int r = place_begin(&pl, p, n, false);

	return place_end(c, &pl, r < 0 ? r : list_dir(c, &pl));
}

/* ---- MKDIR, SYMLINK, REMOVE ---- */

static int make_dir(struct place *pl, const uint8_t *p, size_t n)
{
	mode_t mode = (mode_t)wire_find_int(p, n, WK_MODE, 0755) & 0777;
	struct timespec ts[2];
	bool timed = wanted_time(p, n, ts), made;
	int parent, fd, r = 0;

	parent = place_parent(pl, wire_find_int(p, n, WK_PARENTS, 0) != 0);
	if (parent < 0)
		return -1;
	made = mkdirat(parent, pl->leaf, 0700) == 0;
	fd = made || errno == EEXIST
		     ? openat(parent, pl->leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		     : -1;
	if (fd < 0 && errno == ELOOP)
		errno = EEXIST;
	if (fd < 0)
		r = place_fail(pl, "make the folder");
	else if (((made || timed) && fchmod(fd, mode) < 0) || (timed && futimens(fd, ts) < 0))
		r = place_fail(pl, "set the mode of");
	if (fd >= 0)
		close(fd);
	close(parent);
	return r;
}

int verb_mkdir(struct conn *c, const uint8_t *p, size_t n)
{
	static struct place pl;
	int r = place_begin(&pl, p, n, true);

	return place_end(c, &pl, r < 0 ? r : make_dir(&pl, p, n));
}

static int make_symlink(struct place *pl, const uint8_t *p, size_t n)
{
	char target[AGENT_PATH_MAX], name[48];
	struct wire_slice v;
	struct timespec ts[2];
	int parent, r = 0;

	if (!wire_find(p, n, WK_TARGET, &v) || v.n == 0 || !slice_str(v, target, sizeof(target)))
		return fail(&pl->f, WIRE_E_INVALID, NULL, 0, "no valid TARGET");
	parent = place_parent(pl, true);
	if (parent < 0)
		return -1;
	beside_name(name);
	if (symlinkat(target, parent, name) < 0) {
		r = place_fail(pl, "make the link");
	} else {
		if (wanted_time(p, n, ts))
			utimensat(parent, name, ts, AT_SYMLINK_NOFOLLOW);
		if (renameat(parent, name, parent, pl->leaf) < 0) {
			r = place_fail(pl, "replace");
			unlinkat(parent, name, 0);
		}
	}
	close(parent);
	return r;
}

int verb_symlink(struct conn *c, const uint8_t *p, size_t n)
{
	static struct place pl;
	int r = place_begin(&pl, p, n, true);

	return place_end(c, &pl, r < 0 ? r : make_symlink(&pl, p, n));
}

static int remove_one(struct place *pl, bool recursive)
{
	struct stat st;
	int parent = place_parent(pl, false), r;

	if (parent < 0)
		return -1;
	r = fstatat(parent, pl->leaf, &st, AT_SYMLINK_NOFOLLOW);
	if (r == 0 && recursive)
		r = remove_tree_at(parent, pl->leaf, NULL);
	else if (r == 0)
		r = unlinkat(parent, pl->leaf, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	if (r < 0)
		place_fail(pl, "remove");
	close(parent);
	return r;
}

int verb_remove(struct conn *c, const uint8_t *p, size_t n)
{
	static struct place pl;
	int r = place_begin(&pl, p, n, true);

	return place_end(c, &pl,
			 r < 0 ? r : remove_one(&pl, wire_find_int(p, n, WK_RECURSIVE, 0) != 0));
}
