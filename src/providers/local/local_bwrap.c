/* SPDX-License-Identifier: MIT */
/*
 * isolation=bwrap: what is needed on this machine, and the start of `berth-agent stage`, which
 * builds the sandbox and becomes bubblewrap (src/agent/stage.h).
 *
 * Nothing is made do without: what is missing is an error that says what, and the way out. When
 * init is up, bubblewrap's monitor (the process that was started) is ended: nothing of us stays.
 * A start that fails leaves no process and no group. One whose caller was killed goes on by
 * itself: until init serves, it holds the lock of the file `staging`, and whoever comes next ends it
 * unless its init is up by then.
 */
#include "providers/local/local_bwrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/strv.h"
#include "base/time.h"
#include "loop/child.h"

/* A start takes milliseconds; this is for a machine that swaps. */
#define START_MS 20000
/* Processes below a start that failed: bubblewrap, init, a helper or two. */
#define TREE_MAX 64

BERTH_DEFINE_AUTO_PTR(strv_items, char **, strv_free_items);

/* ── a start under way ──────────────────────────────────────────────────────────────────── */

struct start {
	struct local *l;
	struct child child;
	int errors; /* memfd: what stage, bubblewrap and init say */
	int ready;  /* pipes from init and from the network's helper */
	int net;    /* -1: none, or ready */
	int lock;   /* of `staging`: stage has it from its first moment on */
	char line[256];
	size_t n;
};
#define START_INIT                                                                    \
	{                                                                             \
		.child = CHILD_INIT, .errors = -1, .ready = -1, .net = -1, .lock = -1 \
	}

static void start_done(struct start *s)
{
	child_done(&s->child);
	fd_close(&s->errors);
	fd_close(&s->ready);
	fd_close(&s->net);
	fd_close(&s->lock);
}
BERTH_DEFINE_AUTO(start, struct start, start_done);

/* "what: why" and perhaps "hint: how". */
static int said(const struct start *s, const char *fallback, struct berth_error *err)
{
	char text[1024] = "", *hint;
	ssize_t n = pread_full(s->errors, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	hint = strstr(text, "\nhint: ");
	if (hint) {
		*hint = '\0';
		hint += 7;
		hint[strcspn(hint, "\n")] = '\0';
	}
	text[strcspn(text, "\n")] = '\0';
	berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox %s did not start: %s", s->l->full,
		   text[0] ? text : fallback);
	if (hint)
		berth_error_hint(err, "%s", hint);
	return BERTH_E_UNAVAILABLE;
}

/* The pids in a file like /proc/PID/task/PID/children. */
static size_t children_of(pid_t pid, pid_t *ret, size_t cap)
{
	auto_free char *text = NULL;
	char path[64], *word, *save = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (read_file(AT_FDCWD, path, SMALL_FILE_MAX, &text, NULL, NULL) < 0)
		return 0;
	for (word = strtok_r(text, " \n", &save); word && n < cap;
	     word = strtok_r(NULL, " \n", &save))
		ret[n++] = (pid_t)strtol(word, NULL, 10);
	return n;
}

/* What is below the process that we started, which is not reaped yet: the pids are its children's
 * as long as it lives. */
static void kill_below(pid_t pid)
{
	pid_t tree[TREE_MAX] = {pid};
	size_t n = 1;

	for (size_t i = 0; i < n; i++)
		n += children_of(tree[i], tree + n, TREE_MAX - n);
	while (n-- > 1)
		kill(tree[n], SIGKILL); /* the end of init is the end of all in its namespace */
}

static void give_up(struct start *s)
{
	kill_below(s->child.pid);
	child_done(&s->child);
}

/* More of init's line: 1 it is whole, 0 there is more to come, or a failure. */
static int read_ready(struct start *s, struct berth_error *err)
{
	ssize_t n = RETRY_EINTR(read(s->ready, s->line + s->n, sizeof(s->line) - 1 - s->n));

	if (n <= 0)
		return said(s, "it ended without a word", err);
	s->n += (size_t)n;
	s->line[s->n] = '\0';
	if (!strchr(s->line, '\n'))
		return s->n == sizeof(s->line) - 1 ? said(s, s->line, err) : 0;
	s->line[strcspn(s->line, "\n")] = '\0';
	/* held: another's start has come first; it is the same sandbox. */
	if (strcmp(s->line, "ready") == 0 || strcmp(s->line, "held") == 0)
		return 1;
	return said(s, s->line, err);
}

static int read_net(struct start *s, struct berth_error *err)
{
	char byte;

	if (RETRY_EINTR(read(s->net, &byte, 1)) != 1)
		return said(s, "the network's helper did not start", err);
	fd_close(&s->net);
	return 0;
}

static int wait_ready(struct start *s, struct berth_error *err)
{
	int64_t deadline = deadline_from_ms(START_MS);
	bool ready = false;
	int rc = 0;

	while (rc == 0 && (!ready || s->net >= 0)) {
		struct pollfd p[2] = {{.fd = ready ? -1 : s->ready, .events = POLLIN},
				      {.fd = s->net, .events = POLLIN}};
		int n = RETRY_EINTR(poll(p, 2, deadline_poll_ms(deadline)));

		if (n < 0)
			return berth_fail_errno(err, 0, errno, "poll");
		if (n == 0 && deadline_poll_ms(deadline) == 0)
			return said(s, "no answer in time", err);
		if (p[0].revents) {
			rc = read_ready(s, err);
			ready = rc > 0;
			rc = MIN_OF(rc, 0);
		}
		if (rc == 0 && p[1].revents)
			rc = read_net(s, err);
	}
	return rc;
}

static int start_env(const struct local *l, bool scope, struct strv *env)
{
	static const char *const of_manager[] = {"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"};
	auto(strv_items) char **base = local_environment(l);
	int rc = base ? strv_add_all(env, base) : BERTH_E_NOMEM;

	for (size_t i = 0; scope && rc == 0 && i < ARRAY_LEN(of_manager); i++) {
		const char *v = getenv(of_manager[i]);

		if (v)
			rc = strv_addf(env, "%s=%s", of_manager[i], v);
	}
	return rc;
}

static int spawn_stage(struct start *s, const struct local_tools *t, const char *agent,
		       const struct local_ports *ports, struct berth_error *err)
{
	auto(strv) struct strv argv = STRV_INIT(512), env = STRV_INIT(32);
	struct child_fd fds[FD_PORTS + LOCAL_PORTS_MAX];
	auto_close int ready_w = -1, net_w = -1;
	struct child_params p = CHILD_PARAMS_INIT;
	int ready[2] = {-1, -1}, net[2] = {-1, -1};
	size_t n = 0;
	int rc;

	if (local_stage_argv(s->l, t, agent, ports, &argv) < 0 ||
	    start_env(s->l, t->systemd_run, &env) < 0)
		return berth_fail_nomem(err);
	rc = fd_pipe(ready, 0);
	s->ready = ready[0];
	ready_w = ready[1];
	if (rc == 0 && t->slirp)
		rc = fd_pipe(net, 0);
	s->net = net[0];
	net_w = net[1];
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "pipe");
	fds[n++] = (struct child_fd){s->errors, 2};
	fds[n++] = (struct child_fd){ready_w, FD_READY};
	fds[n++] = (struct child_fd){s->lock, FD_LOCK};
	if (net_w >= 0)
		fds[n++] = (struct child_fd){net_w, FD_NET_READY};
	for (size_t i = 0; i < ports->n; i++)
		if (ports->p[i].fd >= 0)
			fds[n++] = (struct child_fd){ports->p[i].fd, FD_PORTS + (int)i};
	p.argv = argv.items;
	p.env = env.items;
	p.cwd = s->l->base;
	p.fds = fds;
	p.n_fds = n;
	p.setsid = true;
	p.fresh_limits = true;
	rc = child_spawn(&p, &s->child, NULL, err);
	fd_close(&s->lock);
	return rc;
}

/* ── starts of others ───────────────────────────────────────────────────────────────────── */

/* Is a process one of a start: stage, or the bubblewrap that it has become? */
static bool of_a_start(const char *pid)
{
	auto_free char *path = mem_printf("/proc/%s/comm", pid), *name = NULL;

	return path && read_file(AT_FDCWD, path, 4096, &name, NULL, NULL) == 0 &&
	       (strncmp(name, "bwrap", 5) == 0 || strncmp(name, "berth-agent", 11) == 0);
}

static bool has_open(const char *pid, const struct stat *file)
{
	auto_free char *path = mem_printf("/proc/%s/fd", pid);
	auto_closedir DIR *d = path ? opendir(path) : NULL;
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_dev == file->st_dev &&
		    st.st_ino == file->st_ino)
			return true;
	}
	return false;
}

static void kill_holders(const struct stat *file)
{
	auto_closedir DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 1 && of_a_start(e->d_name) && has_open(e->d_name, file))
			kill(pid, SIGKILL);
	}
}

/* Ends a start whose caller was killed, unless its init is up. Only with the lock of the sandbox. */
static int end_left(const struct local *l, struct berth_error *err)
{
	auto_free char *path = local_path(l, "staging");
	auto_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	int64_t deadline = deadline_from_ms(START_MS);
	struct timespec pause = {0, NS_PER_MS};
	struct stat st;

	while (fd >= 0 && fd_lock_test(fd) == 1) {
		int c = local_connect(l->inner, "init.sock");

		if (c >= 0) {
			close(c);
			return 0;
		}
		if (now_mono_ns() > deadline || fstat(fd, &st) < 0)
			return berth_fail(err, BERTH_E_UNAVAILABLE,
					  "a start of %s that was left alone does not end",
					  l->full);
		kill_holders(&st);
		nanosleep(&pause, NULL); /* what is killed is gone a moment later */
	}
	return 0;
}

static int bwrap_clean(struct local *l, struct berth_error *err)
{
	int rc = end_left(l, err);

	if (rc < 0 || local_init_alive(l->inner))
		return rc;
	return local_groups_remove(l, err);
}

/* ── the launcher ───────────────────────────────────────────────────────────────────────── */

static int keep_uids(const struct local *l, struct berth_error *err)
{
	auto(uid_pool) struct uid_pool pool = {0};
	int rc;

	if (!l->record.uid_base)
		return 0;
	rc = uid_pool_open(&pool, err);
	return rc < 0 ? rc : uid_pool_keep(&pool, l->base, l->record.uid_base, err);
}

/* A stage that took it itself would be there for a moment without it: its caller killed in that
 * moment, the next one would start a second stage, and each take the other for one left behind. */
static int lock_start(struct start *s, struct berth_error *err)
{
	auto_free char *path = local_path(s->l, "staging");
	int rc;

	if (!path)
		return berth_fail_nomem(err);
	s->lock = fd_move_above_2(open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
	if (s->lock < 0)
		return berth_fail_errno(err, 0, errno, "%s", path);
	rc = fd_lock(s->lock, true);
	return rc < 0 ? berth_fail_errno(err, 0, -rc, "lock of %s", path) : 0;
}

static int launch(struct local *l, const struct local_tools *t, struct berth_error *err)
{
	auto(local_ports) struct local_ports ports = LOCAL_PORTS_INIT;
	auto(start) struct start s = START_INIT;
	auto_free char *agent = NULL;
	int rc = local_agent_path(l, &agent, err);

	s.l = l;
	if (rc == 0)
		rc = local_ports_listen(l, &ports, err);
	if (rc < 0)
		return rc;
	s.errors = fd_move_above_2(memfd_create("stage-errors", MFD_CLOEXEC));
	if (s.errors < 0)
		return berth_fail_nomem(err);
	rc = lock_start(&s, err);
	if (rc == 0)
		rc = spawn_stage(&s, t, agent, &ports, err);
	if (rc == 0)
		rc = wait_ready(&s, err);
	if (rc < 0 && s.child.pid)
		give_up(&s);
	return rc; /* start_done() ends bubblewrap's monitor */
}

static int bwrap_start_init(struct local *l, const char *dir, struct berth_error *err)
{
	auto(local_tools) struct local_tools t = {0};
	int rc = local_check_dir(l, dir, err);

	if (rc == 0)
		rc = bwrap_clean(l, err);
	if (rc == 0 && local_init_alive(l->inner))
		return 0; /* a start that had been left alone has come up */
	if (rc == 0)
		rc = local_preflight(&l->record.keys, &t, err);
	if (rc == 0)
		rc = keep_uids(l, err);
	if (rc == 0)
		rc = launch(l, &t, err);
	if (rc < 0)
		(void)!local_groups_remove(l, NULL); /* what is left is for the next one */
	return rc;
}

static void bwrap_describe(const struct local *l, bool alive, struct berth_provider_info *info)
{
	const struct local_keys *k = &l->record.keys;
	const char *uids = local_key_value(k, KEY_UIDS);

	snprintf(info->isolation, sizeof(info->isolation), "bwrap");
	snprintf(info->net, sizeof(info->net), "%s", local_key_value(k, KEY_NET));
	snprintf(info->uids, sizeof(info->uids), "%s", uids);
	snprintf(info->containment, sizeof(info->containment), "pidns");
	info->records_protected = strcmp(uids, "range") == 0;
	info->init_is_life = true;
	if (alive)
		local_ports_describe(l, info->ports, sizeof(info->ports));
}

const struct launcher local_launcher_bwrap = {
	.name = "bwrap",
	.start_init = bwrap_start_init,
	.clean = bwrap_clean,
	.describe = bwrap_describe,
};
