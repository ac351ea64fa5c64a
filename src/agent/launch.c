/* SPDX-License-Identifier: MIT */
/*
 * launch.c: LAUNCH: everything is checked first, then the id is reserved, then the supervisor
 * is made.
 *
 * Invariants: nothing is changed before all checks have passed. The record appears under its id
 * in one rename, complete: spec, first
 * STATE, space for what comes, input, the listening control socket, and the lock held. What may
 * have run is never run again: after the
 * rename nothing here launches a second time. This process gives its copy of the lock away with
 * the supervisor.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attach.h"
#include "agent/clock.h"
#include "agent/conn.h"
#include "agent/guests.h"
#include "agent/record.h"
#include "agent/store.h"
#include "agent/super.h"
#include "agent/sweep.h"
#include "agent/tree.h"
#include "agent/walls.h"

/* Callers that have connected and were not taken yet. */
#define CONTROL_BACKLOG 256

struct reservation {
	char tmp[40]; /* "tmp/<32 hex>" */
	bool made;
};

/* ---- checks ---- */

/* Do bytes of input follow the request? A relaunch takes them from another record. */
static bool input_follows(const struct spec *s)
{
	return s->input_kind && !s->from.n;
}

static int refuse(struct conn *c, const struct spec *s, const struct agent_fail *f)
{
	if (s && input_follows(s) && conn_skip_data(c) < 0)
		return -1;
	return conn_fail(c, f);
}

/* Whether an input follows stands in the spec, even when the spec is refused. */
static int refuse_bad_spec(struct conn *c, const uint8_t *p, size_t n, const struct agent_fail *f)
{
	struct wire_slice raw = {NULL, 0}, from;

	if (wire_find(p, n, WK_SPEC, &raw) && wire_find_int(raw.p, raw.n, SK_INPUT_KIND, 0) > 0 &&
	    !wire_find(raw.p, raw.n, SK_FROM, &from) && conn_skip_data(c) < 0)
		return -1;
	return conn_fail(c, f);
}

static int answer_need(struct conn *c, const char *need)
{
	struct wire_w *w = conn_begin(c, WIRE_ERROR);

	wire_w_int(w, WK_CODE, WIRE_E_PRECONDITION);
	wire_w_str(w, WK_MESSAGE, "the sandbox does not have what this execution needs");
	wire_w_str(w, WK_NEED, need);
	return conn_end(c);
}

static int refuse_need(struct conn *c, const struct spec *s, const char *need)
{
	if (input_follows(s) && conn_skip_data(c) < 0)
		return -1;
	return answer_need(c, need);
}

/* The input of the record that FROM names, when it has the length that the spec says; else -1. */
static int open_recorded_input(const struct spec *s)
{
	int dir = record_open(s->kind, s->from), fd;
	struct stat st;

	if (dir < 0)
		return -1;
	fd = openat(dir, "input", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(dir);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == s->input_len)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* NEED of a spec: what the store or the record that FROM names does not have. */
static const char *launch_need(const struct spec *s)
{
	const char *need = view_need(s);
	int fd;

	if (need || !s->input_kind || !s->from.n)
		return need;
	fd = open_recorded_input(s);
	if (fd < 0)
		return "input";
	close(fd);
	return NULL;
}

/* The id is taken: nothing is launched. Answers when its state is not `starting` any more. */
static int existed(struct conn *c, const struct spec *s)
{
	struct agent_fail f;
	struct record r;
	int fd, ret;

	for (;;) {
		struct record_status st;
		uint8_t q[64], h[WIRE_FRAME_HEADER];
		struct wire_w w;

		if (record_load(s->kind, s->id, &r, &f) < 0)
			return conn_fail(c, &f);
		record_status_of(&r, &st);
		fd = st.state == WIRE_S_STARTING ? attach_open(r.dirfd) : -1;
		if (fd < 0)
			break;
		wire_w_init(&w, q, sizeof(q));
		wire_w_int(&w, WK_KNOWN_OUT, 0);
		wire_w_int(&w, WK_KNOWN_ERR, 0);
		wire_w_int(&w, WK_KNOWN_STATE, WIRE_S_STARTING);
		if (attach_send(fd, WIRE_WATCH, q, w.len) == 0)
			(void)!read_full(fd, h, sizeof(h));
		close(fd);
		record_unload(&r);
	}
	if (r.held && !r.j.terminal.p &&
	    wire_find_int(r.j.state.p, r.j.state.n, JK_STATE, 0) == WIRE_S_STARTING) {
		record_unload(&r);
		return attach_settled(c, s->kind, s->id, REPLY_SPEC | REPLY_ENV | REPLY_EXISTED);
	}
	ret = record_reply(c, WIRE_OK, s->id, &r, REPLY_SPEC | REPLY_ENV | REPLY_EXISTED);
	record_unload(&r);
	return ret;
}

static bool exists(const struct spec *s)
{
	char path[SPEC_ID_MAX + 4];
	int fd = record_open(s->kind, s->id);
	bool empty;

	if (fd < 0)
		return false;
	/* An empty folder is no record (one is never without its journal): it goes, if it is
	 * really empty. */
	empty = faccessat(fd, "journal", F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
	close(fd);
	fmt(path, sizeof(path), "%s/%.*s", kind_dir(s->kind), (int)s->id.n, s->id.p);
	return !empty || unlinkat(agent.dirfd, path, AT_REMOVEDIR) < 0;
}

/* Copies the spec (its frame's memory is needed for the input) and decodes it. */
static int take_spec(struct launch *l, const uint8_t *p, size_t n, struct agent_fail *f)
{
	struct wire_slice raw;
	const char *why = "no spec";
	uint8_t *copy;
	size_t env = 0;

	for (char **e = agent.environ; e && *e; e++)
		env += strlen(*e) + 17;
	if (!wire_find(p, n, WK_SPEC, &raw))
		return fail(f, WIRE_E_INVALID, "spec", 0, "LAUNCH: %s", why);
	/* Fields have 6 bytes of header where argv and envp need a pointer (8), a hash slot or
	 * two (16) and a NUL. */
	if (!arena_init(&l->mem, raw.n * 6 + env + 65536 + 4 * AGENT_PATH_MAX))
		return fail(f, WIRE_E_NOMEM, "spec", ENOMEM, "LAUNCH: %m");
	copy = arena_take(&l->mem, raw.n);
	if (copy)
		memcpy(copy, raw.p, raw.n);
	if (!copy || spec_decode(copy, raw.n, &l->spec, &why) < 0)
		return fail(f, WIRE_E_INVALID, "spec", 0, "LAUNCH: %s", why);
	return 0;
}

static int prepare(struct launch *l, struct agent_fail *f)
{
	const struct spec *s = &l->spec;

	l->argv = argv_make(&l->mem, s->raw.p, s->raw.n, SK_ARG);
	l->envp = l->argv ? env_make(&l->mem, s->raw.p, s->raw.n, SK_ENV) : NULL;
	if (!l->envp)
		return fail(f, WIRE_E_NOMEM, "spec", ENOMEM, "LAUNCH: %m");
	if (limits_exec(l->argv, l->envp, f) < 0)
		return -1;
	if (clock_stopping())
		return fail(f, WIRE_E_UNAVAILABLE, NULL, 0, "the sandbox is being stopped");
	return group_make(s,
			  s->kind == WIRE_KIND_EXECUTION && agent.level <= LEVEL_CGROUP &&
				  !tree_have_pidns(),
			  &l->group, f);
}

/* ---- the reservation ---- */

static int io_fail(struct agent_fail *f, const char *what)
{
	int code =
		errno == ENOSPC || errno == EDQUOT || errno == EIO ? WIRE_E_IO : WIRE_E_UNAVAILABLE;

	return fail(f, code, "record", errno, "cannot make the record: %s: %m", what);
}

/* Head, SPEC, STATE starting and the space for everything to come, written at once. */
static int write_journal(struct launch *l, struct agent_fail *f)
{
	const struct spec *s = &l->spec;
	size_t cap = JOURNAL_FIRST + journal_entry_size(s->raw.n) + JOURNAL_RESERVE + 64;
	uint8_t state[64];
	struct wire_w w;
	struct arena a;
	uint8_t *spec, *p;
	size_t n = JOURNAL_FIRST, spec_len = s->raw.n;
	int r;

	if (!arena_init(&a, cap + s->raw.n + 64))
		return fail(f, WIRE_E_NOMEM, "record", ENOMEM, "cannot make the record: %m");
	p = arena_take(&a, cap);
	spec = arena_take(&a, s->raw.n);
	wire_w_init(&w, spec, s->raw.n);
	if (s->record_env)
		wire_w_raw(&w, s->raw.p, s->raw.n);
	else
		spec_copy_without(&w, s->raw.p, s->raw.n, SK_ENV);
	spec_len = w.len;
	journal_head(p, agent.boot, agent.incarnation, wall_ms());
	n += journal_entry(p + n, cap - n, JOURNAL_SPEC, spec, spec_len);
	wire_w_init(&w, state, sizeof(state));
	wire_w_int(&w, JK_STATE, WIRE_S_STARTING);
	wire_w_int(&w, JK_TIME_MS, wall_ms());
	cap = n + JOURNAL_RESERVE;
	n += journal_entry(p + n, cap - n, JOURNAL_STATE, state, w.len);
	l->jend = n;
	r = write_all(l->jfd, p, cap);
	if (r < 0)
		io_fail(f, "journal");
	arena_done(&a);
	return r;
}

static int make_journal(struct launch *l, struct agent_fail *f)
{
	l->jfd =
		openat(l->recfd, "journal", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, agent.file_mode);
	if (l->jfd < 0 || wall_share(l->jfd) < 0)
		return io_fail(f, "journal");
	if (write_journal(l, f) < 0)
		return -1;
	if (ofd_lock(l->jfd, F_WRLCK, false) < 0)
		return fail(f, WIRE_E_UNSUPPORTED, "record", errno,
			    "the file system of %s has no locks: %m", agent.dir);
	if (l->spec.durable && fsync(l->jfd) < 0)
		return io_fail(f, "journal");
	return 0;
}

static int make_control(struct launch *l, const struct reservation *r, struct agent_fail *f)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	l->listenfd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	fmt(a.sun_path, sizeof(a.sun_path), "%s/control", r->tmp);
	if (l->listenfd < 0 || bind(l->listenfd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    wall_share_at(agent.dirfd, a.sun_path) < 0 || listen(l->listenfd, CONTROL_BACKLOG) < 0)
		return io_fail(f, "control");
	return 0;
}

/* The other record's input becomes a file of this record's own. */
static int copy_input(struct launch *l, struct agent_fail *f)
{
	int from = open_recorded_input(&l->spec), r = -1;

	if (from < 0)
		return fail(f, WIRE_E_PRECONDITION, "input", 0,
			    "the recorded input is not there any more");
	if (l->infd >= 0)
		r = copy_bytes(from, l->infd);
	if (r < 0)
		io_fail(f, "input");
	close(from);
	return r < 0 ? -1 : 0;
}

/* The input's bytes, exactly INPUT_LEN. 0; -1 and *f with the stream in step; -2: the stream is
 * broken. */
static int take_input(struct conn *c, struct launch *l, struct agent_fail *f)
{
	int64_t left = l->spec.input_len;
	const uint8_t *p;
	size_t n;
	int r = 2, ret = 0;

	if (!l->spec.input_kind)
		return 0;
	l->infd = openat(l->recfd, "input", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (l->infd < 0)
		ret = io_fail(f, "input");
	if (!input_follows(&l->spec)) {
		ret = ret < 0 ? ret : copy_input(l, f);
		left = 0;
	}
	while (input_follows(&l->spec) && (r = conn_recv_data(c, &p, &n)) == 1) {
		left -= (int64_t)n;
		if (ret == 0 && left >= 0 && write_all(l->infd, p, n) < 0)
			ret = io_fail(f, "input");
	}
	if (r != 2)
		return -2;
	if (ret == 0 && left != 0)
		ret = fail(f, WIRE_E_INVALID, "input", 0,
			   "the input has not the length that its spec says");
	if (ret == 0 && l->spec.durable && fsync(l->infd) < 0)
		ret = io_fail(f, "input");
	if (ret == 0)
		lseek(l->infd, 0, SEEK_SET);
	return ret;
}

static int make_tmp(struct launch *l, struct reservation *r, struct agent_fail *f)
{
	char name[33];

	random_name(name);
	fmt(r->tmp, sizeof(r->tmp), "tmp/%s", name);
	if (mkdirat(agent.dirfd, r->tmp, agent.dir_mode) < 0)
		return io_fail(f, r->tmp);
	r->made = true;
	l->recfd = openat(agent.dirfd, r->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Says to PRUNE that somebody is at work here, for as long as the input takes to arrive. */
	return l->recfd < 0 || wall_share(l->recfd) < 0 || ofd_lock(l->recfd, F_RDLCK, false) < 0
		       ? io_fail(f, r->tmp)
		       : 0;
}

static void forget_tmp(struct launch *l, struct reservation *r)
{
	if (!r->made)
		return;
	unlinkat(l->recfd, "journal", 0);
	unlinkat(l->recfd, "input", 0);
	unlinkat(l->recfd, "control", 0);
	unlinkat(agent.dirfd, r->tmp, AT_REMOVEDIR);
	r->made = false;
}

/* Makes the record visible. 0; 1: the id is taken; -1 and *f. */
static int publish(struct launch *l, struct reservation *r, struct agent_fail *f)
{
	const struct spec *s = &l->spec;
	char path[SPEC_ID_MAX + 4];
	int fd;

	if (s->durable && fsync(l->recfd) < 0)
		return io_fail(f, "record");
	fmt(path, sizeof(path), "%s/%.*s", kind_dir(s->kind), (int)s->id.n, s->id.p);
	if (syscall(SYS_renameat2, agent.dirfd, r->tmp, agent.dirfd, path,
		    1u /* RENAME_NOREPLACE */) < 0) {
		if (errno == EEXIST)
			return 1;
		/* File systems without the flag: a record is never empty, so a plain rename
		 * cannot replace one. */
		if (errno != EINVAL || renameat(agent.dirfd, r->tmp, agent.dirfd, path) < 0)
			return errno == EEXIST || errno == ENOTEMPTY ? 1 : io_fail(f, path);
	}
	r->made = false;
	fd = s->durable ? openat(agent.dirfd, kind_dir(s->kind), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			: -1;
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	return 0;
}

/* publish(), with tree and layer seen under the lock that PRUNE needs alone: what is there
 * stays until the record says that it is used.
 * *need: what has gone since it was first looked for; then -1 and nothing was done. */
static int publish_held(struct launch *l, struct reservation *r, const char **need,
			struct agent_fail *f)
{
	int lock = store_hold(F_RDLCK), ret;

	if (lock < 0)
		return io_fail(f, "store/lock");
	*need = view_need(&l->spec);
	ret = *need ? -1 : publish(l, r, f);
	close(lock);
	return ret;
}

/* ---- the supervisor ---- */

static void become_supervisor(struct conn *c, struct launch *l,
			      const struct tree_level *lv) attr_noreturn;
static void become_supervisor(struct conn *c, struct launch *l, const struct tree_level *lv)
{
	int keep[16 + GROUP_FDS_MAX], n = 0;

	l->level = lv->level;
	l->own_mnt = lv->own_mnt;
	l->in_userns = lv->in_userns;
	keep[n++] = agent.dirfd;
	keep[n++] = agent.homefd;
	keep[n++] = agent.initfd;
	keep[n++] = l->recfd;
	keep[n++] = l->jfd;
	keep[n++] = l->infd;
	keep[n++] = l->listenfd;
	keep[n++] = l->answerfd;
	n += (int)group_fds(&l->group, keep + n);
	fds_keep(keep, (size_t)n);
	buf_done(&c->in);
	buf_done(&c->out);
	/* Once more, for SO_PEERCRED: whoever connects is told of the process that listened last, and
	 * that one must be the supervisor (to be ended when it does not answer). */
	listen(l->listenfd, CONTROL_BACKLOG);
	super_main(l);
}

/* Where no kernel ends the tree with its supervisor, this process does. It holds neither the
 * lock nor a socket. */
static void guard(pid_t supervisor, const struct launch *l) attr_noreturn;
static void guard(pid_t supervisor, const struct launch *l)
{
	int keep[] = {l->group.kill}, status;

	fds_keep(keep, ARRAY_LEN(keep));
	while (waitpid(supervisor, &status, 0) < 0 && errno == EINTR)
		;
	/* A supervisor that ended by itself has left nothing, or, a session, what is meant to
	 * stay. */
	if (!WIFEXITED(status))
		tree_end(l->level, l->group.kill);
	_exit(0);
}

static void unlocked_child(struct conn *c, struct launch *l,
			   const struct tree_level *lv) attr_noreturn;
static void unlocked_child(struct conn *c, struct launch *l, const struct tree_level *lv)
{
	pid_t pid;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		become_supervisor(c, l, lv);
	}
	if (pid > 0)
		guard(pid, l);
	struct agent_fail f;

	fail(&f, WIRE_E_UNAVAILABLE, "fork", errno, "cannot make a supervisor: %m");
	seal_failed(l, &f);
	_exit(0);
}

static int start_supervisor(struct conn *c, struct launch *l, struct agent_fail *f)
{
	bool session = l->spec.kind == WIRE_KIND_SESSION;
	struct tree_level lv;
	pid_t pid;

	if (session && agent.walled) {
		lv = (struct tree_level){.level = LEVEL_SUBREAPER};
		pid = guests_fork(true, f);
		if (pid < 0)
			return -1;
	} else {
		pid = session ? tree_fork_plain(true, false, &lv)
			      : tree_fork(true, l->group.kill >= 0, &lv);
	}
	if (pid < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "fork", errno, "cannot make a supervisor: %m");
	if (pid > 0)
		return 0;
	if (lv.level == LEVEL_PIDNS)
		become_supervisor(c, l, &lv);
	unlocked_child(c, l, &lv);
}

/* Waits until the state is not `starting`, on a first control connection that was made before
 * the supervisor. */
static int answer(struct conn *c, const struct spec *s, int fd)
{
	uint8_t q[64];
	struct wire_w w;
	int r;

	wire_w_init(&w, q, sizeof(q));
	wire_w_int(&w, WK_KNOWN_OUT, 0);
	wire_w_int(&w, WK_KNOWN_ERR, 0);
	wire_w_int(&w, WK_KNOWN_STATE, WIRE_S_STARTING);
	r = attach_send(fd, WIRE_WATCH, q, w.len) == 0 ? attach_relay(c, fd) : 0;
	return r > 0 ? 0 : r < 0 ? -1 : attach_settled(c, s->kind, s->id, 0);
}

static int run(struct conn *c, struct launch *l, struct agent_fail *f)
{
	int pair[2], r = -1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		fail(f, WIRE_E_UNAVAILABLE, "fork", errno, "cannot make a socket: %m");
		seal_failed(l, f);
		group_remove(&l->group);
		return attach_settled(c, l->spec.kind, l->spec.id, 0);
	}
	l->answerfd = pair[1];
	/* STOP sees this record, or this sees STOP. */
	if (clock_stopping())
		fail(f, WIRE_E_UNAVAILABLE, "launch", 0, "the sandbox is being stopped");
	else
		r = start_supervisor(c, l, f);
	if (r < 0) {
		seal_failed(l, f);
		group_remove(&l->group);
	}
	close(pair[1]);
	close(l->jfd); /* from now on the lock is the supervisor's alone */
	close(l->listenfd);
	l->jfd = l->listenfd = -1;
	r = answer(c, &l->spec, pair[0]);
	close(pair[0]);
	return r;
}

static void close_launch(struct launch *l)
{
	int *fds[] = {&l->recfd, &l->jfd, &l->infd, &l->listenfd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
	}
	group_close(&l->group);
	arena_done(&l->mem);
}

/* 0 or -1 as a handler. */
static int launch(struct conn *c, struct launch *l)
{
	struct reservation r = {.made = false};
	const char *need = NULL;
	struct agent_fail f;
	int got, ret;

	ret = make_tmp(l, &r, &f);
	if (ret < 0) {
		group_remove(&l->group);
		return refuse(c, &l->spec, &f);
	}
	got = take_input(c, l, &f);
	ret = got < 0 ? -1
	      : make_journal(l, &f) < 0 || make_control(l, &r, &f) < 0
		      ? -1
		      : publish_held(l, &r, &need, &f);
	if (ret == 0)
		return run(c, l, &f);
	forget_tmp(l, &r);
	group_remove(&l->group);
	if (got == -2)
		return -1;
	if (need)
		return answer_need(c, need);
	return ret > 0 ? existed(c, &l->spec) : conn_fail(c, &f);
}

int verb_launch(struct conn *c, const uint8_t *p, size_t n)
{
	struct launch l = {.recfd = -1, .jfd = -1, .infd = -1, .listenfd = -1, .answerfd = -1};
	struct agent_fail f;
	const char *need;
	int ret;

	l.startup_due = now_ms();
	l.group = (struct group)GROUP_NONE;
	if (take_spec(&l, p, n, &f) < 0) {
		ret = refuse_bad_spec(c, p, n, &f);
		close_launch(&l);
		return ret;
	}
	l.startup_due += l.spec.startup_ms;
	need = launch_need(&l.spec);
	if (exists(&l.spec))
		ret = input_follows(&l.spec) && conn_skip_data(c) < 0 ? -1 : existed(c, &l.spec);
	else if (need)
		ret = refuse_need(c, &l.spec, need);
	else if (prepare(&l, &f) < 0)
		ret = refuse(c, &l.spec, &f);
	else
		ret = launch(c, &l);
	close_launch(&l);
	return ret;
}
