/* SPDX-License-Identifier: MIT */
/*
 * Commands and connections of a local sandbox without walls: processes of this machine with the
 * sandbox's environment and home. They are nobody's executions: what they leave in the background
 * lives on.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/strv.h"
#include "base/time.h"
#include "core/host.h"
#include "core/nosig.h"
#include "loop/child.h"

/* A socket whose listener does not accept any more does not hold us up for longer. */
#define CONNECT_SEC 10

/* ── environment ────────────────────────────────────────────────────────────────────────── */

/* Owned by caller. */
static char *user_name(void)
{
	auto_free char *name = NULL, *home = NULL;

	if (host_passwd(&name, &home, NULL) < 0)
		return NULL;
	return name ? TAKE_PTR(name) : mem_printf("%lu", (unsigned long)geteuid());
}

char **local_environment(const struct local *l)
{
	auto(strv) struct strv env = STRV_INIT(16);
	auto_free char *user = user_name();

	if (!user ||
	    strv_add(&env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") <
		    0 ||
	    strv_addf(&env, "HOME=%s", l->home) < 0 || strv_addf(&env, "USER=%s", user) < 0 ||
	    strv_add(&env, "TMPDIR=/tmp") < 0 || strv_add(&env, "LANG=C.UTF-8") < 0)
		return NULL;
	return strv_detach(&env);
}
BERTH_DEFINE_AUTO_PTR(strv_items, char **, strv_free_items);

/* ── connections ────────────────────────────────────────────────────────────────────────── */

int local_connect(const char *dir, const char *name)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = CONNECT_SEC};
	auto_close int dirfd = -1, fd = -1;
	int n;

	n = snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", dir, name);
	if (n < 0 || (size_t)n >= sizeof(sun.sun_path)) {
		dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dirfd < 0)
			return -errno;
		n = snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/%s", dirfd,
			     name);
		if (n < 0 || (size_t)n >= sizeof(sun.sun_path))
			return -ENAMETOOLONG;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (RETRY_EINTR(connect(fd, (struct sockaddr *)&sun, sizeof(sun))) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* One that we may not look at is there: what is not known to be over is not over. */
bool local_init_alive(const char *dir)
{
	auto_free char *path = mem_printf("%s/init.lock", dir);
	auto_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return path && errno == EACCES;
	return fd_lock_test(fd) == 1;
}

int local_open_agent(void *handle, const char *dir, struct berth_stream *ret,
		     struct berth_error *err)
{
	struct local *l = handle;
	int fd, rc = local_usable(l, err);

	if (rc == 0)
		rc = local_check_dir(l, dir, err);
	if (rc < 0)
		return rc;
	fd = local_connect(dir, "init.sock");
	if (fd == -ECONNREFUSED || fd == -ENOENT || fd == -ENOTDIR)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "no init runs in the sandbox %s for %s",
				  l->full, dir);
	if (fd == -EAGAIN)
		return berth_fail(err, BERTH_E_UNAVAILABLE,
				  "the init of the sandbox %s does not answer", l->full);
	if (fd < 0)
		return berth_fail_errno(err, 0, -fd, "%s/init.sock", dir);
	*ret = (struct berth_stream){.rfd = fd, .wfd = fd, .pidfd = -1};
	return 0;
}

/* ── commands ───────────────────────────────────────────────────────────────────────────── */

static int spawn(const struct local *l, const char *const *argv, const struct child_fd *fds,
		 size_t n_fds, struct child *ret, struct berth_error *err)
{
	auto(strv_items) char **env = local_environment(l);
	struct child_params p = CHILD_PARAMS_INIT;
	enum child_stage stage = CHILD_STAGE_NONE;
	int rc;

	if (!env)
		return berth_fail_nomem(err);
	p.argv = (char *const *)argv;
	p.env = env;
	p.cwd = l->home;
	p.fds = fds;
	p.n_fds = n_fds;
	p.setsid = true;
	p.fresh_limits = true;
	rc = child_spawn(&p, ret, &stage, err);
	if (rc < 0 && stage == CHILD_STAGE_CWD)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox %s has no home", l->full);
	return rc;
}

static int make_pipe(int fds[2], struct berth_error *err)
{
	int rc = fd_pipe(fds, 0);

	return rc < 0 ? berth_fail_errno(err, 0, -rc, "pipe") : 0;
}

/* `berth-agent connect|call --start [--text] DIR …` makes an init: stop has to reach that one, too. */
static int note_init(const struct local *l, const char *const *argv, struct berth_error *err)
{
	size_t i = 2;

	if (!argv[0] || !argv[1] || !argv[2] || strcmp(argv[2], "--start") != 0 ||
	    (strcmp(argv[1], "connect") != 0 && strcmp(argv[1], "call") != 0))
		return 0;
	while (argv[i] && argv[i][0] == '-')
		i++;
	return argv[i] && argv[i][0] == '/' ? local_note_dir(l, argv[i], err) : 0;
}

int local_usable(struct local *l, struct berth_error *err)
{
	int rc = local_load(l, err);

	if (rc == 0 && local_marked(l, "stopped"))
		return berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox %s is stopped", l->full);
	return rc;
}

static int usable(struct local *l, const char *const *argv, struct berth_error *err)
{
	int rc = local_usable(l, err);

	return rc < 0 ? rc : note_init(l, argv, err);
}

/* Behind walls the only stream is the one to the agent, which is its socket. */
static int open_inside(struct local *l, const char *const *argv, struct berth_stream *ret,
		       struct berth_error *err)
{
	size_t i = 1;

	if (argv[0] && argv[1] && strcmp(argv[1], "connect") == 0) {
		while (argv[++i] && argv[i][0] == '-')
			;
		if (argv[i] && !argv[i + 1])
			return local_open_agent(l, argv[i], ret, err);
	}
	return berth_fail(err, BERTH_E_UNSUPPORTED,
			  "with isolation=bwrap the only stream is the one to the agent");
}

int local_open(void *handle, const char *const *argv, struct berth_stream *ret,
	       struct berth_error *err)
{
	auto_close int in_r = -1, in_w = -1, out_r = -1, out_w = -1;
	auto(child) struct child child = CHILD_INIT;
	int in[2], out[2], rc = usable(handle, argv, err);

	if (rc == 0 && local_walled(handle))
		return open_inside(handle, argv, ret, err);
	if (rc == 0)
		rc = make_pipe(in, err);
	if (rc < 0)
		return rc;
	in_r = in[0];
	in_w = in[1];
	rc = make_pipe(out, err);
	if (rc < 0)
		return rc;
	out_r = out[0];
	out_w = out[1];
	rc = spawn(handle, argv, (struct child_fd[]){{in_r, 0}, {out_w, 1}}, 2, &child, err);
	if (rc < 0)
		return rc;
	berth_stream_init(ret);
	child_detach(&child, &ret->pidfd);
	ret->rfd = TAKE_FD(out_r);
	ret->wfd = TAKE_FD(in_w);
	return 0;
}

/* One bounded output of a command. */
struct sink {
	int fd;
	uint8_t *buf;
	size_t cap, *len;
	bool *truncated;
};

/* Reads what is there; false at the end. */
static bool sink_read(struct sink *s)
{
	uint8_t rest[4096];
	bool room = *s->len < s->cap;
	ssize_t n = RETRY_EINTR(read(s->fd, room ? s->buf + *s->len : rest,
				     room ? s->cap - *s->len : sizeof(rest)));

	if (n < 0)
		return errno == EAGAIN;
	if (room)
		*s->len += (size_t)n;
	else if (n > 0)
		*s->truncated = true;
	return n > 0;
}

struct run {
	const struct berth_execute_io *io;
	size_t sent;
	int in; /* -1: all given */
	struct sink out, err;
	int pidfd;
};

static void feed(struct run *r)
{
	auto(nosig) struct nosig guard;
	ssize_t n;

	nosig_begin(&guard);
	n = RETRY_EINTR(
		write(r->in, (const uint8_t *)r->io->input + r->sent, r->io->input_len - r->sent));
	if (n > 0)
		r->sent += (size_t)n;
	if ((n < 0 && errno != EAGAIN) || r->sent == r->io->input_len)
		fd_close(&r->in); /* one that does not read its input is not our failure */
}

/* Until the process has ended and what is in the pipes is read: what it left in the background may
 * hold them open. */
static int carry(struct run *r, int64_t deadline_ns, struct berth_error *err)
{
	bool ended = false;

	while (!ended) {
		struct pollfd p[4] = {
			{.fd = r->in, .events = POLLOUT},
			{.fd = r->out.fd, .events = POLLIN},
			{.fd = r->err.fd, .events = POLLIN},
			{.fd = r->pidfd, .events = POLLIN},
		};
		int n = RETRY_EINTR(poll(p, 4, deadline_poll_ms(deadline_ns)));

		if (n < 0)
			return berth_fail_errno(err, 0, errno, "poll");
		if (n == 0 && deadline_poll_ms(deadline_ns) == 0)
			return berth_fail(err, BERTH_E_TIMEOUT, "the command did not end in time");
		ended = p[3].revents;
		if (p[0].revents)
			feed(r);
		if (p[1].revents && !sink_read(&r->out))
			fd_close(&r->out.fd);
		if (p[2].revents && !sink_read(&r->err))
			fd_close(&r->err.fd);
	}
	for (struct sink *s = &r->out;; s = &r->err) {
		for (struct pollfd p = {.fd = s->fd, .events = POLLIN};
		     s->fd >= 0 && RETRY_EINTR(poll(&p, 1, 0)) > 0;) {
			if (!sink_read(s))
				break;
		}
		if (s == &r->err)
			return 0;
	}
}

static int run_command(struct local *l, const char *const *argv, struct berth_execute_io *io,
		       struct run *r, int64_t timeout_ms, struct berth_error *err)
{
	auto_close int in_r = -1, out_w = -1, err_w = -1;
	auto(child) struct child child = CHILD_INIT;
	struct child_exit end = {0};
	int in[2] = {-1, -1}, out[2], e[2], rc = 0;

	if (io->input_len > 0)
		rc = make_pipe(in, err);
	in_r = in[0];
	r->in = in[1];
	if (rc == 0 && (rc = make_pipe(out, err)) == 0) {
		r->out.fd = out[0];
		out_w = out[1];
	}
	if (rc == 0 && (rc = make_pipe(e, err)) == 0) {
		r->err.fd = e[0];
		err_w = e[1];
	}
	if (rc < 0)
		return rc;
	rc = spawn(l, argv, (struct child_fd[]){{out_w, 1}, {err_w, 2}, {in_r, 0}},
		   in_r >= 0 ? 3 : 2, &child, err);
	if (rc < 0)
		return rc;
	fd_close(&in_r);
	fd_close(&out_w);
	fd_close(&err_w);
	if (r->in >= 0)
		(void)!fd_set_nonblock(r->in, true);
	r->pidfd = child.pidfd;
	rc = carry(r, timeout_ms > 0 ? deadline_from_ms(timeout_ms) : INT64_MAX, err);
	if (rc < 0) {
		kill(-child.pid,
		     SIGKILL); /* its session; not yet reaped, so the number is its own */
		return rc;
	}
	rc = child_wait(&child, -1, &end, err);
	io->exit_code = end.signaled ? -1 : end.code;
	io->signo = end.signaled ? end.signal : 0;
	return rc;
}

int local_execute(void *handle, const char *const *argv, struct berth_execute_io *io,
		  int64_t timeout_ms, struct berth_error *err)
{
	struct run r = {.io = io, .in = -1, .pidfd = -1};
	int rc = usable(handle, argv, err);

	if (rc < 0)
		return rc;
	if (local_walled(handle))
		return local_inside_execute(handle, argv, io, timeout_ms, err);
	io->out_len = io->err_len = 0;
	io->out_truncated = io->err_truncated = false;
	r.out = (struct sink){-1, io->out, io->out_cap, &io->out_len, &io->out_truncated};
	r.err = (struct sink){-1, io->err, io->err_cap, &io->err_len, &io->err_truncated};
	rc = run_command(handle, argv, io, &r, timeout_ms, err);
	fd_close(&r.in);
	fd_close(&r.out.fd);
	fd_close(&r.err.fd);
	/* As a shell tells it: what could not be run is an exit code, not a failure of the road. */
	if (rc == BERTH_E_NOT_FOUND || rc == BERTH_E_PERM) {
		io->exit_code = rc == BERTH_E_NOT_FOUND ? 127 : 126;
		io->signo = 0;
		return 0;
	}
	return rc;
}
