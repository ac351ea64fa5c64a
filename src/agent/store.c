/* SPDX-License-Identifier: MIT */
/*
 * store.c: names, markers and locks of the store, and HAVE.
 *
 * Invariants: a tree or layer is there when its directory and a marker that can be trusted are;
 * both appear by rename. Names are removed only under the exclusive store lock (first aside to
 * tmp/, then for good). Not here: how trees are made (unpack.c), layers (install.c), and what is
 * removed when (prune.c).
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/store.h"
#include "agent/tree.h"
#include "agent/view_mount.h"

struct store_path store_path(char dir, const void *hexd, const char *suffix)
{
	struct store_path p;
	size_t n = strlen(suffix);

	memcpy(p.s, "store/?/", 8);
	p.s[6] = dir;
	memcpy(p.s + 8, hexd, STORE_HEX);
	memcpy(p.s + 8 + STORE_HEX, suffix, n < 8 ? n + 1 : 1);
	return p;
}

bool store_hex_valid(struct wire_slice s)
{
	if (s.n != STORE_HEX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	}
	return true;
}

int store_make(void)
{
	static const char *const dirs[] = {"store", "store/b", "store/t", "store/l", "tmp", "app"};

	if (faccessat(agent.dirfd, "store/l", F_OK, 0) == 0 &&
	    faccessat(agent.dirfd, "app", F_OK, 0) == 0 &&
	    faccessat(agent.dirfd, "store/b", F_OK, 0) == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		/* The way to a view leads through app: its users may be others than its owner. */
		if (mkdir_at(agent.dirfd, dirs[i], 0755) < 0)
			return -1;
	}
	return 0;
}

int store_look(char dir, const void *hexd)
{
	struct store_path d = store_path(dir, hexd, ""), m = store_path(dir, hexd, ".ok");
	char buf[32];
	struct stat st;
	ssize_t n;

	if (fstatat(agent.dirfd, d.s, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return STORE_NONE;
	n = read_file_at(agent.dirfd, m.s, buf, sizeof(buf));
	if (!(n == 17 && memcmp(buf + 1, agent.boot, 16) == 0) &&
	    !(n == 7 && memcmp(buf + 1, "synced", 6) == 0))
		return STORE_NONE;
	utimensat(agent.dirfd, m.s, NULL, 0);
	return buf[0] == dir ? dir : STORE_NONE;
}

int store_mark(const struct tmpdir *tmp, char dir, const void *hexd, bool synced)
{
	struct store_path m = store_path(dir, hexd, ".ok");
	char name[64], buf[17];
	int fd, r;

	buf[0] = dir;
	memcpy(buf + 1, synced ? (const void *)"synced\0\0\0\0\0\0\0\0\0\0" : agent.boot, 16);
	if (!join3(name, sizeof(name), tmp->name, "/ok", ""))
		return -1;
	fd = openat(agent.dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	r = write_all(fd, buf, synced ? 7 : 17);
	close(fd);
	return r < 0 ? -1 : renameat(agent.dirfd, name, agent.dirfd, m.s);
}

int store_hold(short type)
{
	int fd = openat(agent.dirfd, "store/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 && errno == ENOENT && store_make() == 0)
		fd = openat(agent.dirfd, "store/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && ofd_lock(fd, type, true) < 0) {
		int e = errno;

		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

int store_discard(char dir, const void *hexd)
{
	struct store_path d = store_path(dir, hexd, "");
	struct tmpdir t;
	char aside[64];
	int lock, r = 0;

	if (faccessat(agent.dirfd, d.s, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (tmpdir_make(&t, 'd') < 0)
		return -1;
	lock = store_hold(F_WRLCK);
	if (lock < 0) {
		r = -1;
	} else if (store_look(dir, hexd) ==
		   STORE_NONE) { /* else somebody has made it anew meanwhile */
		join3(aside, sizeof(aside), t.name, "/old", "");
		r = renameat(agent.dirfd, d.s, agent.dirfd, aside);
		if (r < 0 && errno == ENOENT)
			r = 0;
	}
	if (lock >= 0)
		close(lock);
	tmpdir_drop(&t);
	return r;
}

/* ---- HAVE ---- */

static void identity_of(const char *path, char *buf, size_t cap)
{
	char real[PATH_MAX];
	struct stat st;

	buf[0] = '\0';
	if (!realpath(path, real) || stat(real, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	fmt(buf, cap, "%s %llu %lld.%lld", real, (unsigned long long)st.st_size,
	    (long long)st.st_mtim.tv_sec, (long long)st.st_mtim.tv_nsec);
}

static const char *path_variable(void)
{
	for (char **e = agent.environ; e && *e; e++) {
		if (strncmp(*e, "PATH=", 5) == 0)
			return *e + 5;
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* The program that PATH finds; false when there is none. */
static bool find_program(const char *name, char *path, size_t cap)
{
	const char *p = path_variable();
	struct stat st;
	char dir[PATH_MAX];

	for (;;) {
		size_t n = strcspn(p, ":");

		if (n > 0 && n < sizeof(dir)) {
			memcpy(dir, p, n);
			dir[n] = '\0';
			if (join3(path, cap, dir, "/", name) && access(path, X_OK) == 0 &&
			    stat(path, &st) == 0 && S_ISREG(st.st_mode))
				return true;
		}
		if (!p[n])
			return false;
		p += n + 1;
	}
}

static void put_runtime(struct wire_w *w, struct wire_slice name)
{
	char buf[256 + 1 + AGENT_PATH_MAX + 64], path[PATH_MAX];
	char *id;

	if (name.n == 0 || memchr(name.p, '/', name.n) || !slice_str(name, buf, 256))
		return;
	id = buf + name.n + 1;
	*id = '\0';
	if (find_program(buf, path, sizeof(path)))
		identity_of(path, id, sizeof(buf) - name.n - 1);
	wire_w_bytes(w, WK_RUNTIME, buf, name.n + 1 + strlen(id));
}

static void put_libc(struct wire_w *w)
{
	static const char *const names[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/aarch64-linux-gnu/libc.so.6",
		"/lib64/libc.so.6",
		"/usr/lib/libc.so.6",
		"/lib/libc.so.6",
		"/lib/ld-musl-x86_64.so.1",
		"/lib/ld-musl-aarch64.so.1",
	};
	char buf[AGENT_PATH_MAX + 64] = "";

	for (size_t i = 0; i < ARRAY_LEN(names) && !buf[0]; i++)
		identity_of(names[i], buf, sizeof(buf));
	wire_w_str(w, WK_LIBC, buf);
}

int verb_have(struct conn *c, const uint8_t *p, size_t n)
{
	struct wire_slice tree = {0}, layer = {0}, v;
	struct wire_w *w;
	struct wire_r r;
	uint16_t key;
	int64_t have = 0;

	if (wire_find(p, n, WK_TREE, &tree) && !store_hex_valid(tree))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "TREE is not 64 hex digits");
	if (wire_find(p, n, WK_LAYER, &layer) && !store_hex_valid(layer))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "LAYER is not 64 hex digits");
	if (tree.n && store_look('t', tree.p) == STORE_TREE)
		have |= 1;
	if (layer.n && store_look('l', layer.p) != STORE_NONE)
		have |= 2;
	w = conn_begin(c, WIRE_OK);
	wire_w_int(w, WK_HAVE, have);
	wire_r_init(&r, p, n);
	for (int i = 0; i < 32 && wire_r_next(&r, &key, &v);) {
		if (key == WK_RUNTIME) {
			put_runtime(w, v);
			i++;
		}
	}
	put_libc(w);
	wire_w_str(w, WK_MACHINE, agent.machine);
	wire_w_int(w, WK_OVERLAY, view_overlay_works());
	wire_w_int(w, WK_STABLE, tree_have_pidns()); /* comes with a mount namespace */
	c->replied = true;
	return conn_end(c);
}
