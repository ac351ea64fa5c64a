/* SPDX-License-Identifier: MIT */
/*
 * view_mount.c: overlays, and the way from a connection child to the view of a record.
 *
 * Invariants: nothing is mounted in the namespace that init lives in. A connection child gets at a
 * view through an fd of its root: a short-lived child enters or makes the namespace, opens the
 * directory and passes the fd back; where it has mounted something itself it stays until the
 * request is done. Not here: what view an execution gets (view.c).
 */
#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/record.h"
#include "agent/spawn.h"
#include "agent/view_mount.h"

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif

/* ---- overlays ---- */

struct options {
	char s[2048];
	size_t len;
	bool full;
};

static void opt(struct options *o, const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b);

	if (o->full || o->len + na + nb >= sizeof(o->s)) {
		o->full = true;
		return;
	}
	memcpy(o->s + o->len, a, na);
	memcpy(o->s + o->len + na, b, nb + 1);
	o->len += na + nb;
}

static void opt_lower(struct options *o, const char *name)
{
	opt(o, o->len ? ":" : "lowerdir=", name);
}

int overlay_mount(const struct overlay *ov, const char *target)
{
	unsigned long flags = agent.walled ? MS_NOSUID | MS_NODEV : 0;
	struct options o = {.len = 0};
	size_t plain;

	if (ov->upper && !ov->work)
		opt_lower(&o, ov->upper);
	if (ov->layer)
		opt_lower(&o, store_path('l', ov->layer, "").s);
	opt_lower(&o, store_path('t', ov->tree, "").s);
	if (ov->work) {
		opt(&o, ",upperdir=", ov->upper);
		opt(&o, ",workdir=", ov->work);
		if (ov->is_volatile)
			opt(&o, ",volatile", "");
	}
	if (ov->userxattr)
		opt(&o, ",userxattr", "");
	plain = o.len;
	/* What distributions may have switched on and what would make an upper directory unreadable
	 * without its lower ones. */
	opt(&o, ",index=off,metacopy=off", "");
	/* With it a directory of the artifact can be renamed, which is EXDEV otherwise; user
	 * namespaces may not. */
	if (ov->work && !ov->userxattr)
		opt(&o, ",redirect_dir=on", "");
	if (o.full) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (mount("overlay", target, "overlay", flags, o.s) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	o.s[plain] = '\0';
	return mount("overlay", target, "overlay", flags, o.s);
}

/* ---- a child in a namespace ---- */

/* Runs in the child; returns the fd that is wanted, or -1 and errno. */
typedef int ns_fn(void *ctx);

static int send_result(int sock, int fd, int err)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {&err, sizeof(err)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *h;

	if (fd >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int receive_result(int sock)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	int err = EIO, fd = -1;
	struct iovec iov = {&err, sizeof(err)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *h;

	if (RETRY_EINTR(recvmsg(sock, &m, MSG_CMSG_CLOEXEC)) == (ssize_t)sizeof(err)) {
		h = CMSG_FIRSTHDR(&m);
		if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			memcpy(&fd, CMSG_DATA(h), sizeof(fd));
	} else {
		err = EIO;
	}
	errno = err;
	return fd;
}

/* Runs fn in a child and returns the fd that it opened, or -1 and errno. With stay the child, and
 * the namespace that it is in, live until child_end(): in the detached mounts that a dead namespace
 * leaves, openat2() with ".." says EAGAIN for ever. */
static int in_child(ns_fn *fn, void *ctx, struct view_child *stay)
{
	int pair[2], fd, e;
	pid_t pid;
	char byte;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		fd = fn(ctx);
		if (send_result(pair[1], fd, fd < 0 ? errno : 0) < 0 || fd < 0 || !stay)
			_exit(0);
		fds_keep(&pair[1], 1);
		RETRY_EINTR(read(pair[1], &byte, 1));
		_exit(0);
	}
	e = errno;
	close(pair[1]);
	fd = -1;
	if (pid > 0) {
		fd = receive_result(pair[0]);
		e = errno;
	}
	if (stay && fd >= 0) {
		*stay = (struct view_child){pid, pair[0]};
		return fd;
	}
	close(pair[0]);
	if (pid > 0)
		RETRY_EINTR(waitpid(pid, NULL, 0));
	errno = e;
	return fd;
}

static void child_end(struct view_child *v)
{
	if (v->pid <= 0)
		return;
	close(v->sock);
	RETRY_EINTR(waitpid(v->pid, NULL, 0));
	v->pid = 0;
}

static bool may_mount(void)
{
	return agent.root || agent.walled;
}

/* Overlays of user namespaces keep their marks in "user." attributes. */
static bool want_userxattr(void)
{
	return agent.in_userns || !may_mount();
}

/* A mount namespace of our own, in a user namespace of our own where we are not root. */
static int own_namespace(void)
{
	unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
	char map[48];
	size_t n;

	if (unshare(may_mount() ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	if (!may_mount()) {
		/* The files in /proc/self belong to root while a process is not dumpable. */
		prctl(PR_SET_DUMPABLE, 1);
		write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny", 4);
		n = fmt(map, sizeof(map), "%u %u 1", uid, uid);
		if (write_file_at(AT_FDCWD, "/proc/self/uid_map", map, n) < 0)
			return -1;
		n = fmt(map, sizeof(map), "%u %u 1", gid, gid);
		if (write_file_at(AT_FDCWD, "/proc/self/gid_map", map, n) < 0)
			return -1;
	}
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* ---- can overlays be mounted? ---- */

static int try_overlay(void *ctx)
{
	const struct tmpdir *t = ctx;
	char options[256];

	if (fchdir(t->fd) < 0 || mkdirat(t->fd, "l", 0755) < 0 || mkdirat(t->fd, "u", 0755) < 0 ||
	    mkdirat(t->fd, "w", 0755) < 0 || mkdirat(t->fd, "m", 0755) < 0 || own_namespace() < 0)
		return -1;
	fmt(options, sizeof(options), "lowerdir=l,upperdir=u,workdir=w%s",
	    want_userxattr() ? ",userxattr" : "");
	if (mount("overlay", "m", "overlay", 0, options) < 0)
		return -1;
	return openat(AT_FDCWD, "m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool view_overlay_works(void)
{
	char now[40], old[40], name[64];
	struct tmpdir t;
	int fd, f;

	if (agent.level > LEVEL_PIDNS)
		return false;
	hex(now, agent.boot, 16);
	if (read_file_at(agent.dirfd, "store/overlay", old, sizeof(old)) == 33 &&
	    memcmp(old, now, 32) == 0)
		return old[32] == '1';
	if (store_make() < 0 || tmpdir_make(&t, 'o') < 0)
		return false;
	fd = in_child(try_overlay, &t, NULL);
	now[32] = fd >= 0 ? '1' : '0';
	join3(name, sizeof(name), t.name, "/a", "");
	f = openat(agent.dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (f >= 0) {
		if (write_all(f, now, 33) == 0)
			renameat(agent.dirfd, name, agent.dirfd, "store/overlay");
		close(f);
	}
	if (fd >= 0)
		close(fd);
	tmpdir_drop(&t);
	return now[32] == '1';
}

/* ---- reaching a view ---- */

struct reach {
	const char *id;
	const struct spec *s;
	bool rw;
	pid_t supervisor;
	char work[64];
};

/* An ended record: its overlay again, in a namespace that ends with this child (the mount stays
 * with the fd). */
static int mount_ended(void *ctx)
{
	struct reach *r = ctx;
	char upper[SPEC_ID_MAX + 16];
	struct overlay o = {.tree = r->s->tree.p,
			    .upper = upper,
			    .work = r->rw ? r->work : NULL,
			    .userxattr = want_userxattr(),
			    .is_volatile = true};

	join3(upper, sizeof(upper), "x/", r->id, "/up");
	if (r->s->layer.n)
		o.layer = r->s->layer.p;
	if (own_namespace() < 0 || overlay_mount(&o, agent.app) < 0)
		return -1;
	return openat(AT_FDCWD, agent.app, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Enters a namespace of pid; one that we are in already is fine. */
static int enter_ns(pid_t pid, const char *ns, int type)
{
	char theirs[64], ours[32];
	struct stat a, b;
	int fd, r;

	fmt(theirs, sizeof(theirs), "/proc/%d/ns/%s", (int)pid, ns);
	fmt(ours, sizeof(ours), "/proc/self/ns/%s", ns);
	fd = openat(AT_FDCWD, theirs, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &a) == 0 && fstatat(AT_FDCWD, ours, &b, 0) == 0 && a.st_ino == b.st_ino &&
	    a.st_dev == b.st_dev) {
		close(fd);
		return 0;
	}
	r = setns(fd, type);
	close(fd);
	return r;
}

static int enter_both(pid_t pid)
{
	return enter_ns(pid, "user", CLONE_NEWUSER) < 0 || enter_ns(pid, "mnt", CLONE_NEWNS) < 0
		       ? -1
		       : 0;
}

/* A supervisor in a user namespace lets nobody of our uid in (it is not dumpable); what it has
 * started shares its namespaces. */
static int enter_by_child(pid_t pid)
{
	char name[64], list[512], *p = list;
	ssize_t n;

	fmt(name, sizeof(name), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	n = read_file_at(AT_FDCWD, name, list, sizeof(list));
	while (n > 0 && *p) {
		pid_t child = 0;

		while (*p >= '0' && *p <= '9')
			child = child * 10 + (*p++ - '0');
		if (child > 0 && enter_both(child) == 0)
			return 0;
		while (*p && (*p < '0' || *p > '9'))
			p++;
	}
	errno = EACCES;
	return -1;
}

static int enter_running(void *ctx)
{
	struct reach *r = ctx;
	struct statfs fs;
	int fd;

	if (enter_both(r->supervisor) < 0 && enter_by_child(r->supervisor) < 0)
		return -1;
	fd = openat(AT_FDCWD, agent.app, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Not mounted yet: what is there is the empty folder of the sandbox, which is nobody's
	 * view. */
	if (fd >= 0 && (fstatfs(fd, &fs) < 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC)) {
		close(fd);
		errno = EAGAIN;
		return -1;
	}
	return fd;
}

/* The pid of whoever answers HELLO on the control socket: the kernel adds it to the answer. (The
 * socket itself was made by a process that is gone.) As long as the connection lives, the pid is
 * not somebody else's. */
static pid_t answering_pid(int s)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	uint8_t frame[64], answer[1024];
	struct iovec iov = {answer, sizeof(answer)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = sizeof(control.buf)};
	struct pollfd p = {s, POLLIN, 0};
	struct cmsghdr *h;
	struct ucred cred;
	struct wire_w w;
	size_t at;
	int one = 1;

	wire_w_init(&w, frame, sizeof(frame));
	at = wire_w_frame_begin(&w, WIRE_HELLO);
	wire_w_int(&w, WK_PROTO, WIRE_PROTO_VERSION);
	wire_w_frame_end(&w, at);
	if (setsockopt(s, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0 ||
	    write_all(s, frame, w.len) < 0 || RETRY_EINTR(poll(&p, 1, 5000)) <= 0 ||
	    RETRY_EINTR(recvmsg(s, &m, MSG_CMSG_CLOEXEC)) <= 0)
		return -1;
	h = CMSG_FIRSTHDR(&m);
	if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_CREDENTIALS)
		return -1;
	memcpy(&cred, CMSG_DATA(h), sizeof(cred));
	return cred.pid > 0 ? cred.pid : -1;
}

static int supervisor_of(int recfd, pid_t *ret_pid, int *ret_sock)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s, e;

	fmt(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/control", recfd);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a)) == 0) {
		*ret_pid = answering_pid(s);
		*ret_sock = s;
		if (*ret_pid > 0)
			return 0;
		errno = EPROTO;
	}
	e = errno;
	if (s >= 0)
		close(s);
	errno = e;
	return -1;
}

static int reach_running(int recfd, struct agent_fail *f)
{
	struct reach r = {0};
	int sock, fd, e;

	if (supervisor_of(recfd, &r.supervisor, &sock) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "view", errno,
			    "the execution's supervisor does not answer: %m");
	fd = in_child(enter_running, &r, NULL);
	e = errno;
	close(sock);
	if (fd < 0 && e == EAGAIN)
		return fail(f, WIRE_E_UNAVAILABLE, "view", 0, "the execution is still starting");
	if (fd < 0)
		return fail(f, WIRE_E_PERM, "view", e,
			    "cannot enter the execution's namespace: %m");
	return fd;
}

static int reach_ended(const char *id, int recfd, const struct record *rec, bool rw,
		       struct view_hold *h, struct agent_fail *f)
{
	struct reach r = {.id = id, .rw = rw};
	const char *why = NULL;
	struct spec s;
	int fd;

	if (spec_decode(rec->j.spec.p, rec->j.spec.n, &s, &why) < 0 || !s.tree.n)
		return fail(f, WIRE_E_NOT_FOUND, "view", 0,
			    "the execution has no working directory");
	r.s = &s;
	if (store_look('t', s.tree.p) == STORE_NONE ||
	    (s.layer.n && store_look('l', s.layer.p) == STORE_NONE))
		return fail(f, WIRE_E_NOT_FOUND, "view", 0,
			    "the artifact of the execution is gone");
	/* One upper directory in two overlays at once is undefined: writers one at a time, readers
	 * beside each other. */
	h->lock = openat(recfd, "view.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (h->lock < 0 || ofd_lock(h->lock, rw ? F_WRLCK : F_RDLCK, true) < 0)
		return fail(f, WIRE_E_IO, "view", errno, "cannot lock the view: %m");
	if (rw && tmpdir_make(&h->work, 'w') < 0)
		return fail(f, WIRE_E_IO, "view", errno, "cannot make a temporary folder: %m");
	memcpy(r.work, h->work.name, sizeof(h->work.name));
	fd = in_child(mount_ended, &r, &h->child);
	return fd < 0 ? fail(f, WIRE_E_IO, "view", errno, "cannot mount the view: %m") : fd;
}

/* By the supervisor while it lives. One that ends meanwhile does not answer: then once more, as the
 * record says by now. */
static int reach(const char *id, int recfd, bool rw, struct view_hold *h, struct agent_fail *f)
{
	struct record rec;
	int fd = -1;

	for (int tries = 0; fd < 0 && tries < 2; tries++) {
		if (record_load_at(recfd, &rec, f) < 0)
			return -1;
		if (record_let_go(&rec)) {
			tries = 2;
			fd = reach_ended(id, recfd, &rec, rw, h, f);
		} else {
			fd = reach_running(recfd, f);
		}
		record_unload(&rec);
	}
	return fd;
}

int view_reach(struct wire_slice id, bool rw, struct view_hold *ret_hold, struct agent_fail *f)
{
	struct view_hold h = {.lock = -1, .work.fd = -1};
	char name[SPEC_ID_MAX + 1];
	struct stat st;
	int recfd, fd;

	recfd = record_open(WIRE_KIND_EXECUTION, id);
	if (recfd < 0 || !slice_str(id, name, sizeof(name)))
		return fail(f, WIRE_E_NOT_FOUND, "view", 0, "no execution %.*s",
			    (int)(id.n > SPEC_ID_MAX ? SPEC_ID_MAX : id.n), (const char *)id.p);
	fd = openat(recfd, "view", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && fstatat(recfd, "up", &st, AT_SYMLINK_NOFOLLOW) < 0)
		fail(f, WIRE_E_NOT_FOUND, "view", 0, "the execution has no working directory");
	else if (fd < 0)
		fd = reach(name, recfd, rw, &h, f);
	close(recfd);
	if (fd < 0)
		view_release(&h);
	else
		*ret_hold = h;
	return fd;
}

void view_release(struct view_hold *h)
{
	child_end(&h->child);
	tmpdir_drop(&h->work);
	if (h->lock >= 0)
		close(h->lock);
	h->lock = -1;
}
