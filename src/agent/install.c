/* SPDX-License-Identifier: MIT */
/*
 * install.c: INSTALL: a command runs in a view of a tree, and what it added becomes a layer.
 *
 * One installer per layer, by a kernel lock on store/l/KEY.lock that ends with this process;
 * whoever waited finds the layer there. The view is the one that executions get: an overlay on
 * agent.app, else a copy bound there, else (no mount namespace) a copy in the layer's final
 * place, so that absolute paths which an installer writes stay true. Invariants: a layer has a
 * marker only after its command succeeded; whatever happened before lies under tmp/ or without a
 * marker, and is removed by this process, by the next installer of the layer or by PRUNE. Not here:
 * processes and their end (tree.h).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/tree.h"
#include "agent/view_mount.h"
#include "agent/walls.h"

#define TAIL_BYTES  4096u
#define GRACE_MS    2000
#define COMMAND_MAX (128u * 1024u) /* the kernel's limit of one argument */

struct install {
	struct conn *c;
	char tree[STORE_HEX + 1], layer[STORE_HEX + 1];
	int64_t timeout_ms, deadline; /* 0: none */
	struct tmpdir tmp;
	int lock, use; /* the layer's lock; a read lock on the tree: PRUNE keeps off */
	struct agent_fail f;
	uint8_t tail[TAIL_BYTES]; /* a ring */
	uint64_t output;          /* bytes so far */
};

/* ---- the lock ---- */

static int open_lock(const char *layer)
{
	return openat(agent.dirfd, store_path('l', layer, ".lock").s, O_RDWR | O_CREAT | O_CLOEXEC,
		      0600);
}

/* Locks an open description from a child, which waits in our place: the lock belongs to the
 * description. The child's end of the pipe closes when it has the lock (or has died). */
static pid_t lock_in_child(int fd, int pipe_fd)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && ofd_lock(fd, F_WRLCK, true) == 0)
		write_all(pipe_fd, "", 1);
	_exit(0);
}

/* 1: locked, 0: the time is up, -1: the caller has gone (or *f). */
static int wait_for_lock(struct install *in, int fd)
{
	int64_t left = in->deadline ? in->deadline - now_ms() : INT32_MAX;
	struct pollfd p[2];
	int pipe_fds[2], r = -1;
	pid_t pid;
	char byte;

	if (left < 0)
		left = 0;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return fail(&in->f, WIRE_E_IO, "install", errno,
			    "cannot wait for another install: %m");
	pid = lock_in_child(fd, pipe_fds[1]);
	close(pipe_fds[1]);
	p[0] = (struct pollfd){pipe_fds[0], POLLIN, 0};
	p[1] = (struct pollfd){in->c->fd, POLLRDHUP, 0};
	if (pid > 0 && RETRY_EINTR(poll(p, 2, left > INT32_MAX ? -1 : (int)left)) == 0)
		r = 0;
	else if (pid > 0 && p[1].revents)
		in->c->broken = true;
	else if (pid > 0 && read(pipe_fds[0], &byte, 1) == 1)
		r = 1;
	else
		fail(&in->f, WIRE_E_IO, "install", 0, "cannot wait for another install");
	close(pipe_fds[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		RETRY_EINTR(waitpid(pid, NULL, 0));
	}
	return r;
}

static int timed_out(struct install *in, const char *what)
{
	return fail(&in->f, WIRE_E_TIMEOUT, "install", 0, "%s after %lld ms", what,
		    (long long)in->timeout_ms);
}

/* Takes the layer's lock: in->lock. */
static int take_turn(struct install *in)
{
	struct stat st;

	for (int i = 0; i < 100; i++) {
		int fd = open_lock(in->layer), r = 1;

		if (fd < 0)
			return fail(&in->f, WIRE_E_IO, "install", errno,
				    "cannot lock the layer: %m");
		if (ofd_lock(fd, F_WRLCK, false) < 0)
			r = errno == EAGAIN || errno == EACCES
				    ? wait_for_lock(in, fd)
				    : fail(&in->f, WIRE_E_IO, "install", errno,
					   "cannot lock the layer: %m");
		if (r == 1 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
			in->lock = fd;
			return 0;
		}
		close(fd);
		if (r == 0)
			return timed_out(
				in,
				"waiting for another install of the same dependencies timed out");
		if (r < 0)
			return -1;
		/* PRUNE has removed the lock file at that moment: again. */
	}
	return fail(&in->f, WIRE_E_IO, "install", 0, "cannot lock the layer");
}

/* ---- the view ---- */

/* Where setup() has made the view is told by names: tmp/up (overlay), tmp/full (a copy, bound to
 * app), or the layer's own place. */
static bool overlay_view(const struct install *in, bool in_userns)
{
	char up[64], wk[64];
	struct overlay o = {.tree = in->tree,
			    .upper = up,
			    .work = wk,
			    .userxattr = in_userns || agent.in_userns,
			    .is_volatile = true};

	join3(up, sizeof(up), in->tmp.name, "/up", "");
	join3(wk, sizeof(wk), in->tmp.name, "/wk", "");
	if (mkdirat(in->tmp.fd, "up", 0755) == 0 && mkdirat(in->tmp.fd, "wk", 0700) == 0 &&
	    wall_give_root(in->tmp.fd, "up") == 0 && overlay_mount(&o, agent.app) == 0)
		return true;
	remove_tree_at(in->tmp.fd, "wk", NULL);
	remove_tree_at(in->tmp.fd, "up", NULL);
	return false;
}

static int copy_view(const struct install *in, bool own_mnt, struct agent_fail *f)
{
	struct store_path final = store_path('l', in->layer, "");
	char full[64];
	const char *path = final.s, *how;
	int fd, e;

	join3(full, sizeof(full), in->tmp.name, "/full", "");
	if (own_mnt)
		path = full;
	fd = mkdirat(agent.dirfd, path, 0755) < 0 || wall_give_root(agent.dirfd, path) < 0
		     ? -1
		     : openat(agent.dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || store_copy(in->tree, NULL, fd, &how) < 0 ||
	    (own_mnt && mount(path, agent.app, NULL, MS_BIND, NULL) < 0)) {
		e = errno;
		if (fd >= 0)
			close(fd);
		return fail(f, WIRE_E_IO, "view", e, "cannot make the view for the install: %m");
	}
	if (!own_mnt)
		return fd;
	close(fd);
	fd = openat(AT_FDCWD, agent.app, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? fail(f, WIRE_E_IO, "view", errno,
			     "cannot open the view for the install: %m")
		      : fd;
}

static int setup(void *ctx, bool own_mnt, bool in_userns, struct agent_fail *f)
{
	const struct install *in = ctx;
	int fd;

	umask(022);
	if (!own_mnt || !overlay_view(in, in_userns))
		return copy_view(in, own_mnt, f);
	fd = openat(AT_FDCWD, agent.app, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? fail(f, WIRE_E_IO, "view", errno,
			     "cannot open the view for the install: %m")
		      : fd;
}

/* ---- the command ---- */

/* A caller that does not read must not stop the clock. 0: no limit. */
static void limit_sending(struct install *in, int64_t ms)
{
	struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	setsockopt(in->c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

static int sink(void *ctx, int stream, const uint8_t *p, size_t n)
{
	struct install *in = ctx;

	(void)stream;
	for (size_t i = n > TAIL_BYTES ? n - TAIL_BYTES : 0; i < n; i++)
		in->tail[(in->output + i) % TAIL_BYTES] = p[i];
	in->output += n;
	if (in->deadline) {
		int64_t left = in->deadline - now_ms();

		limit_sending(in, left > 1 ? left : 1);
	}
	return conn_data(in->c, WIRE_DATA, p, n);
}

static int judge(struct install *in, const struct tree_result *r)
{
	if (r->cancelled || in->c->broken) {
		in->c->broken = true;
		return -1;
	}
	if (r->timed_out)
		return timed_out(in, "the install timed out");
	if (!r->started) {
		in->f = r->fail;
		return -1;
	}
	if (WIFSIGNALED(r->status))
		return fail(&in->f, WIRE_E_INTERNAL, "install", 0,
			    "the install was ended by signal %d", WTERMSIG(r->status));
	if (WEXITSTATUS(r->status) != 0)
		return fail(&in->f, WIRE_E_INTERNAL, "install", 0,
			    "the install failed with exit code %d", WEXITSTATUS(r->status));
	return 0;
}

static int run(struct install *in, const uint8_t *p, size_t n, char *command)
{
	char sh[] = "/bin/sh", c[] = "-c";
	char *argv[] = {NULL, sh, c, command, NULL};
	struct tree_cmd cmd = {.argv = argv + 1,
			       .setup = setup,
			       .cwdfd = -1,
			       .sink = sink,
			       .ctx = in,
			       .watch_fd = in->c->fd,
			       .deadline = in->deadline,
			       .grace_ms = GRACE_MS,
			       .own_ns = true};
	struct tree_result result = {0};
	struct arena a;
	int r = -1;

	if (!arena_init(&a, 4u << 20))
		return fail(&in->f, WIRE_E_NOMEM, "install", ENOMEM, "no memory");
	cmd.envp = env_make(&a, p, n, WK_ENV);
	if (!cmd.envp)
		fail(&in->f, WIRE_E_NOMEM, "install", ENOMEM, "no memory for the environment");
	else if (tree_run(&cmd, &result) < 0)
		in->f = result.fail;
	else
		r = judge(in, &result);
	limit_sending(in, 0);
	arena_done(&a);
	return r;
}

/* Where the copy is that the command ran in; NULL when it was an overlay. */
static const char *copied_at(const struct install *in, char buf[64], const char *final)
{
	struct stat st;

	if (fstatat(in->tmp.fd, "up", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return NULL;
	join3(buf, 64, in->tmp.name, "/full", "");
	return fstatat(agent.dirfd, buf, &st, AT_SYMLINK_NOFOLLOW) == 0 ? buf : final;
}

/* A copy becomes what an overlay's upper directory would be: the layer must fit every tree with the
 * same key. */
static int reduce(struct install *in, const char *path)
{
	int fd = openat(agent.dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r;

	r = fd < 0 ? -1 : copy_diff(in->use, fd);
	if (r < 0)
		fail(&in->f, WIRE_E_IO, "install", errno,
		     "cannot tell what the install has changed: %m");
	if (fd >= 0)
		close(fd);
	return r;
}

/* Gives the result its name, then its marker. */
static int publish(struct install *in)
{
	struct store_path to = store_path('l', in->layer, "");
	char buf[64], up[64];
	const char *from = copied_at(in, buf, to.s);
	int r = 0, lock;

	if (from && reduce(in, from) < 0)
		return -1;
	if (!from) {
		join3(up, sizeof(up), in->tmp.name, "/up", "");
		from = up;
	}
	lock = store_hold(F_RDLCK);
	if (from != to.s)
		r = renameat(agent.dirfd, from, agent.dirfd, to.s);
	if (lock < 0 || r < 0 || store_mark(&in->tmp, 'l', in->layer, false) < 0)
		r = fail(&in->f, WIRE_E_IO, "install", errno, "cannot keep the layer: %m");
	if (lock >= 0)
		close(lock);
	return r;
}

/* ---- the verb ---- */

/* The tree must be there and stay: a read lock on its directory says that it is used. */
static int use_tree(struct install *in)
{
	int lock = store_hold(F_RDLCK), r = -1;

	if (lock >= 0 && store_look('t', in->tree) == STORE_TREE) {
		in->use = openat(agent.dirfd, store_path('t', in->tree, "").s,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = in->use < 0 ? -1 : ofd_lock(in->use, F_RDLCK, false);
	} else if (lock >= 0) {
		fail(&in->f, WIRE_E_PRECONDITION, "install", 0,
		     "the artifact is not in the sandbox");
	}
	if (r < 0 && !in->f.code)
		fail(&in->f, WIRE_E_IO, "install", errno, "cannot use the artifact: %m");
	if (lock >= 0)
		close(lock);
	return r;
}

static bool is_there(const struct install *in)
{
	return store_look('l', in->layer) != STORE_NONE;
}

/* 0: the layer was there, 1: it has been made, -1: in->f, or the stream is broken. */
static int install(struct install *in, const uint8_t *p, size_t n, char *command)
{
	if (is_there(in))
		return 0;
	if (store_make() < 0)
		return fail(&in->f, WIRE_E_IO, "install", errno, "cannot make the store: %m");
	if (use_tree(in) < 0 || take_turn(in) < 0)
		return -1;
	if (is_there(in))
		return 0;
	/* What an installer that was killed has left, or one of another boot. */
	if (store_discard('l', in->layer) < 0 || tmpdir_make(&in->tmp, 'i') < 0)
		return fail(&in->f, WIRE_E_IO, "install", errno, "cannot prepare the install: %m");
	if (run(in, p, n, command) == 0 && publish(in) == 0)
		return 1;
	store_discard('l', in->layer);
	return -1;
}

static int answer_failed(struct install *in)
{
	struct wire_w *w = conn_begin(in->c, WIRE_ERROR);
	size_t n = in->output < TAIL_BYTES ? (size_t)in->output : TAIL_BYTES;
	uint8_t tail[TAIL_BYTES];

	for (size_t i = 0; i < n; i++)
		tail[i] = in->tail[(in->output - n + i) % TAIL_BYTES];
	wire_w_int(w, WK_CODE, in->f.code ? in->f.code : WIRE_E_INTERNAL);
	wire_w_str(w, WK_MESSAGE, in->f.message);
	wire_w_str(w, WK_STAGE, in->f.stage);
	if (in->f.err)
		wire_w_int(w, WK_ERRNO, in->f.err);
	if (in->f.code == WIRE_E_PRECONDITION)
		wire_w_str(w, WK_NEED, "tree");
	if (n)
		wire_w_bytes(w, WK_TAIL, tail, n);
	return conn_end(in->c);
}

int verb_install(struct conn *c, const uint8_t *p, size_t n)
{
	static struct install in;
	static char text[COMMAND_MAX];
	struct wire_slice tree, layer, command;
	int r;

	in = (struct install){.c = c, .tmp.fd = -1, .lock = -1, .use = -1};
	in.timeout_ms = wire_find_int(p, n, WK_TIMEOUT_MS, 0);
	if (!wire_find(p, n, WK_TREE, &tree) || !store_hex_valid(tree) ||
	    !wire_find(p, n, WK_LAYER, &layer) || !store_hex_valid(layer) || in.timeout_ms < 0)
		return conn_error(c, WIRE_E_INVALID, NULL, 0,
				  "INSTALL needs TREE, LAYER and COMMAND");
	if (!wire_find(p, n, WK_COMMAND, &command) || command.n == 0 ||
	    !slice_str(command, text, sizeof(text)))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "no valid COMMAND");
	memcpy(in.tree, tree.p, STORE_HEX);
	memcpy(in.layer, layer.p, STORE_HEX);
	in.deadline = in.timeout_ms ? now_ms() + in.timeout_ms : 0;
	/* Nothing is received while it runs, so the payload stays where it is. */
	r = install(&in, p, n, text);
	tmpdir_drop(&in.tmp);
	if (in.use >= 0)
		close(in.use);
	if (in.lock >= 0)
		close(in.lock);
	if (r == 1)
		store_dirty_end(-1, 'l', in.layer);
	if (c->broken)
		return -1;
	return r < 0 ? answer_failed(&in) : conn_ok(c);
}
