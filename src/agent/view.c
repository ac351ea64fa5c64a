/* SPDX-License-Identifier: MIT */
/*
 * view.c: the writable directory of one execution: an overlay over tree and layer, else a copy of
 * them.
 *
 * Invariants: a view shares no inode with the store that it could write to; what is made for a view
 * that then cannot be used is removed, so that `up` means overlay and `view` means copy; the input
 * is put in without following a link out of the view. Not here: overlays as such and views of ended
 * records (view_mount.c).
 */
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "agent/view.h"
#include "agent/view_mount.h"
#include "agent/walls.h"

#define INPUT_AT_ONCE (4 << 20)  /* what is longer is placed by a child: it can be cancelled */
#define HOW_FILE      "view.how" /* one word: how the copy was made */

static int gone(struct agent_fail *f)
{
	return fail(f, WIRE_E_PRECONDITION, "view", 0,
		    "the artifact is not in the sandbox any more");
}

const char *view_need(const struct spec *s)
{
	if (s->tree.n && store_look('t', s->tree.p) != STORE_TREE)
		return "tree";
	if (s->layer.n && store_look('l', s->layer.p) == STORE_NONE)
		return "layer";
	return NULL;
}

/* The record's directory, relative to DIR. */
static bool record_path(const struct spec *s, const char *sub, char *buf, size_t cap)
{
	char id[SPEC_ID_MAX + 1], dir[4];

	return slice_str(s->id, id, sizeof(id)) &&
	       join3(dir, sizeof(dir), kind_dir(s->kind), "/", "") && join3(buf, cap, dir, id, sub);
}

/* ---- input ---- */

static int copy_input(int recfd, int parent, const char *leaf)
{
	int in, out = -1, r = -1, e;

	in = openat(recfd, "input", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0)
		return -1;
	/* A link or a file of that name is replaced, never written through. */
	if (unlinkat(parent, leaf, 0) == 0 || errno == ENOENT)
		out = openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			     0600);
	if (out >= 0)
		r = copy_bytes(in, out) < 0 || wall_give(out) < 0 || fchmod(out, 0600) < 0 ? -1 : 0;
	e = errno;
	close(in);
	if (out >= 0)
		close(out);
	errno = e;
	return r;
}

static int place_input(const struct spec *s, int recfd, int rootfd, struct agent_fail *f)
{
	char path[AGENT_PATH_MAX], buf[AGENT_PATH_MAX];
	const char *leaf;
	int parent, r;

	if (s->input_kind != SPEC_INPUT_FILE)
		return 0;
	if (!slice_str(s->input_path, path, sizeof(path)))
		return fail(f, WIRE_E_INVALID, "input", 0, "the path of the input is too long");
	parent = open_parent_beneath(rootfd, path, true, buf, &leaf);
	if (parent < 0 && (errno == EXDEV || errno == ELOOP))
		return fail(f, WIRE_E_INVALID, "input", errno,
			    "the input %s leads out of the working directory", path);
	if (parent < 0)
		return fail(f, WIRE_E_INVALID, "input", errno, "cannot place the input %s: %m",
			    path);
	r = copy_input(recfd, parent, leaf);
	if (r < 0)
		fail(f, errno == EISDIR || errno == EPERM ? WIRE_E_INVALID : WIRE_E_IO, "input",
		     errno, "cannot write the input %s: %m", path);
	close(parent);
	return r;
}

/* ---- overlay ---- */

static int open_app(struct view *ret, const char *level, struct agent_fail *f)
{
	ret->level = level;
	ret->rootfd = openat(AT_FDCWD, agent.app, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->rootfd < 0)
		return fail(f, WIRE_E_IO, "view", errno, "cannot open the working directory: %m");
	join3(ret->root, sizeof(ret->root), agent.app, "", "");
	return 0;
}

static bool mount_view(const struct spec *s, int recfd, bool in_userns)
{
	char upper[SPEC_ID_MAX + 16], work[SPEC_ID_MAX + 16];
	struct overlay o = {.tree = s->tree.p,
			    .upper = upper,
			    .work = work,
			    .userxattr = in_userns || agent.in_userns,
			    .is_volatile = !s->durable};

	if (s->layer.n)
		o.layer = s->layer.p;
	if (!record_path(s, "/up", upper, sizeof(upper)) ||
	    !record_path(s, "/wk", work, sizeof(work)))
		return false;
	if (mkdir_at(recfd, "up", 0755) == 0 && mkdir_at(recfd, "wk", 0700) == 0 &&
	    wall_give_root(recfd, "up") == 0 && overlay_mount(&o, agent.app) == 0)
		return true;
	remove_tree_at(recfd, "wk", NULL);
	remove_tree_at(recfd, "up", NULL);
	return false;
}

/* Behind walls by name: homefd is a way into the mounts of init, DIR and all processes among them. */
static int open_home(bool own_mnt)
{
	if (agent.walled && own_mnt)
		return openat(AT_FDCWD, agent.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return agent.homefd >= 0 ? fcntl(agent.homefd, F_DUPFD_CLOEXEC, 3) : -1;
}

int view_make(const struct spec *s, int recfd, bool own_mnt, bool in_userns, struct view *ret,
	      struct agent_fail *f)
{
	if (!s->tree.n) {
		ret->level = "none";
		ret->rootfd = open_home(own_mnt);
		if (ret->rootfd < 0)
			return fail(f, WIRE_E_IO, "view", errno, "cannot open the home folder %s",
				    agent.home);
		join3(ret->root, sizeof(ret->root), agent.home, "", "");
		return 0;
	}
	if (view_need(s))
		return gone(f);
	if (!own_mnt || !mount_view(s, recfd, in_userns))
		return 1;
	if (s->input_kind == SPEC_INPUT_FILE && s->input_len > INPUT_AT_ONCE)
		return 1;
	if (open_app(ret, "overlay", f) < 0)
		return -1;
	if (place_input(s, recfd, ret->rootfd, f) < 0) {
		close(ret->rootfd);
		return -1;
	}
	return 0;
}

/* view_make() has mounted an overlay and left the input to view_copy(). */
static bool is_mounted(int recfd)
{
	return faccessat(recfd, "up", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The input alone, into the overlay: in a child of the supervisor that shares its mounts. */
static int input_copy(const struct spec *s, int recfd, struct agent_fail *f)
{
	struct view v;
	int r;

	if (open_app(&v, "overlay", f) < 0)
		return -1;
	r = place_input(s, recfd, v.rootfd, f);
	close(v.rootfd);
	return r;
}

/* ---- copy ---- */

static int copy_from(const char *src, int dst, unsigned flags, struct copy_stat *cs)
{
	int in = openat(agent.dirfd, src, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r, e;

	if (in < 0)
		return -1;
	r = copy_tree(in, dst, flags, cs);
	e = errno;
	close(in);
	errno = e;
	return r;
}

int store_copy(const void *tree, const void *layer, int dst, const char **ret_how)
{
	struct copy_stat cs = {.all_reflinked = true};

	if (copy_from(store_path('t', tree, "").s, dst, 0, &cs) < 0 ||
	    (layer && copy_from(store_path('l', layer, "").s, dst, COPY_LAYER, &cs) < 0))
		return -1;
	*ret_how = cs.any && cs.all_reflinked ? "reflink" : "copy";
	return 0;
}

int view_copy(const struct spec *s, int recfd, struct agent_fail *f)
{
	const char *how = "copy";
	int fd, how_fd;

	umask(022);
	if (is_mounted(recfd))
		return input_copy(s, recfd, f);
	if (view_need(s))
		return gone(f);
	fd = mkdir_at(recfd, "view", 0755) < 0 || wall_give_root(recfd, "view") < 0
		     ? -1
		     : openat(recfd, "view", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail(f, WIRE_E_IO, "view", errno, "cannot make the working directory: %m");
	if (store_copy(s->tree.p, s->layer.n ? s->layer.p : NULL, fd, &how) < 0) {
		close(fd);
		return fail(f, WIRE_E_IO, "view", errno, "cannot copy the artifact: %m");
	}
	if (place_input(s, recfd, fd, f) < 0) {
		close(fd);
		return -1;
	}
	close(fd);
	how_fd = openat(recfd, HOW_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (how_fd >= 0) {
		write_all(how_fd, how, strlen(how));
		close(how_fd);
	}
	return 0;
}

int view_open(const struct spec *s, int recfd, bool own_mnt, bool in_userns, struct view *ret,
	      struct agent_fail *f)
{
	char how[16], path[SPEC_ID_MAX + 16];
	ssize_t n = read_file_at(recfd, HOW_FILE, how, sizeof(how));
	const char *level = n > 0 && strcmp(how, "reflink") == 0 ? "reflink" : "copy";

	(void)in_userns;
	if (is_mounted(recfd))
		return open_app(ret, "overlay", f);
	if (!record_path(s, "/view", path, sizeof(path)))
		return fail(f, WIRE_E_INVALID, "view", ENAMETOOLONG,
			    "the path of the working directory is too long");
	if (own_mnt && mount(path, agent.app, NULL, MS_BIND, NULL) == 0)
		return open_app(ret, level, f);
	ret->level = level;
	ret->rootfd = openat(recfd, "view", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->rootfd < 0)
		return fail(f, WIRE_E_IO, "view", errno, "cannot open the working directory: %m");
	if (!join3(ret->root, sizeof(ret->root), agent.dir, "/", path)) {
		close(ret->rootfd);
		return fail(f, WIRE_E_INVALID, "view", ENAMETOOLONG,
			    "the path of the working directory is too long");
	}
	return 0;
}
