/* SPDX-License-Identifier: MIT */
/*
 * exec: one command in the sandbox with the caller's stdio, byte for byte.
 *
 * The command is a guest: it ends when we do, because the agent ends what a stream that breaks has
 * started. One loop moves bytes both ways without ever waiting for one side only: input is read
 * while little waits to be sent, output is taken while little waits to be written, and the caller's
 * orders (signals, window size) always pass, once the agent has greeted: before that they stay in
 * their pipe, where the caller can see that nobody has taken them.
 */
#include "core/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "core/nosig.h"
#include "wire/spec.h"

#define STDIN_PIECE (64u << 10)
/* Input that waits for the sandbox: more is not read. */
#define STDIN_AHEAD (256u << 10)
/* Output frames go out in pieces that do not block after POLLOUT said yes. */
#define OUT_PIECE ((size_t)4096)
/* An agent's greeting; and its word, when a timeout and the grace are over. */
#define GREETING_MS 10000
#define OVERDUE_MS  5000

void berth_exec_request_init(struct berth_exec_request *req)
{
	memset(req, 0, sizeof(*req));
	req->size = sizeof(*req);
	req->grace_ms = -1;
	req->stdin_fd = req->stdout_fd = req->stderr_fd = req->control_fd = -1;
}

/* ── orders and keys ────────────────────────────────────────────────────────────────────── */

int exec_control_next(struct exec_control *c, struct exec_order *ret, struct berth_error *err)
{
	struct berth_exec_control e;

	while (c->fd >= 0) {
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		ssize_t n;

		if (RETRY_EINTR(poll(&p, 1, 0)) <= 0)
			return 0;
		n = RETRY_EINTR(read(c->fd, c->bytes + c->n, sizeof(c->bytes) - c->n));
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			c->fd = -1;
			return 0;
		}
		c->n += (size_t)n;
		if (c->n < sizeof(c->bytes))
			continue;
		c->n = 0;
		memcpy(&e, c->bytes, sizeof(e));
		*ret = (struct exec_order){.what = e.what};
		if (e.what == 'w') {
			c->cols = e.b; /* its rows follow */
			continue;
		}
		if (e.what == 'h')
			*ret = (struct exec_order){.what = 'w', .cols = c->cols, .rows = e.b};
		else if (e.what == 's')
			ret->signo = e.a;
		else if (e.what != 'd')
			return berth_fail(err, BERTH_E_INVALID,
					  "an unknown order on the control pipe (%u)", e.what);
		return 1;
	}
	return 0;
}

bool exec_keys_filter(struct exec_keys *k, const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n)
{
	enum { CTRL_P = 0x10, CTRL_Q = 0x11 };
	size_t o = 0;

	for (size_t i = 0; i < n; i++) {
		if (k->on && k->held && p[i] == CTRL_Q) {
			*ret_n = o;
			return true;
		}
		if (k->held)
			out[o++] = CTRL_P;
		k->held = k->on && p[i] == CTRL_P;
		if (!k->held)
			out[o++] = p[i];
	}
	*ret_n = o;
	return false;
}

int exec_launch_error(int sys_errno, const char *message, struct berth_error *err)
{
	int code = sys_errno == ENOENT || sys_errno == ENOTDIR ? BERTH_E_NOT_FOUND
		   : sys_errno                                 ? BERTH_E_PERM
							       : BERTH_E_IO;

	berth_fail(err, code, "%s", message);
	if (err)
		err->sys_errno = sys_errno;
	return code;
}

int exec_send_order(struct road *r, const struct exec_order *o, struct berth_error *err)
{
	uint8_t buf[64];
	struct wire_w w;

	wire_w_init(&w, buf, sizeof(buf));
	if (o->what == 's') {
		wire_w_int(&w, WK_SIGNO, o->signo);
		return road_frame(r, WIRE_SIGNAL, &w, err);
	}
	wire_w_int(&w, WK_COLS, (int64_t)o->cols);
	wire_w_int(&w, WK_ROWS, (int64_t)o->rows);
	return road_frame(r, WIRE_RESIZE, &w, err);
}

/* ── a guest ────────────────────────────────────────────────────────────────────────────── */

/* Output that the caller's fd has not taken yet. */
struct backlog {
	int fd;     /* -1: dropped */
	int own_fd; /* a pipe opened again, non-blocking: the caller's own description is not ours
		       to change; -1: none */
	bool socket;
	size_t piece; /* what one write may be, after POLLOUT, without blocking */
	uint8_t *p;
	size_t cap, pos, n;
};

struct guest {
	const struct berth_exec_request *req;
	struct road *road;
	struct exec_control control;
	struct exec_keys keys;
	struct backlog out[2];
	int in_fd; /* -1: ended */
	uint8_t *in;
	bool done;
	int64_t greeting, end; /* deadlines; end: 0 before the greeting */
	struct berth_exec_result result;
};

static void guest_done(struct guest *g)
{
	road_put(g->road);
	for (size_t i = 0; i < ARRAY_LEN(g->out); i++) {
		free(g->out[i].p);
		fd_close(&g->out[i].own_fd);
	}
	free(g->in);
}
BERTH_DEFINE_AUTO(guest, struct guest, guest_done);

static void backlog_init(struct backlog *b, int fd)
{
	char path[40];
	struct stat st;

	*b = (struct backlog){.fd = fd, .own_fd = -1, .piece = OUT_PIECE};
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	b->socket = S_ISSOCK(st.st_mode);
	if (S_ISREG(st.st_mode))
		b->piece = SIZE_MAX;
	if (!S_ISFIFO(st.st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	b->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (b->own_fd >= 0)
		b->piece = SIZE_MAX;
}

/* Writes what goes without waiting: the number of bytes, or -errno. Only after POLLOUT. */
static ssize_t write_some(struct backlog *b, const uint8_t *p, size_t n)
{
	ssize_t w;

	if (b->socket)
		w = send(b->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		w = write(b->own_fd >= 0 ? b->own_fd : b->fd, p, MIN_OF(n, b->piece));
	return w < 0 ? -errno : w;
}

static bool writable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return RETRY_EINTR(poll(&p, 1, 0)) > 0;
}

/* As much as goes now. */
static int drain(struct backlog *b, const uint8_t *p, size_t n, size_t *ret_written,
		 struct berth_error *err)
{
	size_t done = 0;

	while (done < n && writable(b->fd)) {
		ssize_t w = write_some(b, p + done, n - done);

		if (w == -EAGAIN || w == -EINTR)
			continue;
		if (w < 0)
			return berth_fail_errno(err, BERTH_E_IO, (int)-w, "writing output");
		done += (size_t)w;
	}
	*ret_written = done;
	return 0;
}

static int take_output(struct backlog *b, struct wire_slice v, struct berth_error *err)
{
	size_t done = 0;
	int rc = 0;

	if (b->fd < 0)
		return 0;
	if (b->n == b->pos)
		rc = drain(b, v.p, v.n, &done, err);
	if (rc < 0 || done == v.n)
		return rc;
	if (b->pos == b->n)
		b->pos = b->n = 0;
	if (b->cap - b->n < v.n - done) {
		uint8_t *p = mem_realloc(b->p, b->n + v.n - done);

		if (!p)
			return berth_fail_nomem(err);
		b->p = p;
		b->cap = b->n + v.n - done;
	}
	memcpy(b->p + b->n, v.p + done, v.n - done);
	b->n += v.n - done;
	return 0;
}

static int flush_backlog(struct backlog *b, struct berth_error *err)
{
	size_t done = 0;
	int rc = b->pos < b->n ? drain(b, b->p + b->pos, b->n - b->pos, &done, err) : 0;

	b->pos += done;
	return rc;
}

static bool backed_up(const struct guest *g)
{
	return g->out[0].pos < g->out[0].n || g->out[1].pos < g->out[1].n;
}

static void take_end(struct guest *g, struct wire_slice p)
{
	int64_t signo = wire_find_int(p.p, p.n, WK_SIGNO, 0);

	g->result.exit_code = (int)wire_find_int(p.p, p.n, WK_EXIT_CODE, -1);
	g->result.signo = signo > 0 && signo <= 64 ? (int)signo : 0;
	g->result.timed_out = wire_find_int(p.p, p.n, WK_TIMED_OUT, 0) != 0;
	g->done = true;
}

static int launch_failed(const struct road *r, int rc, struct berth_error *err)
{
	char message[BERTH_ERROR_MESSAGE_MAX];

	if (!r->error.remote || !err)
		return rc;
	if (strcmp(r->error.stage, "exec") != 0) {
		err->sys_errno = 0; /* an errno there says that it is the command that is missing */
		return rc;
	}
	snprintf(message, sizeof(message), "%s", err->message);
	return exec_launch_error(r->error.sys_errno, message, err);
}

static int take_frame(struct guest *g, uint8_t type, struct wire_slice v, struct berth_error *err)
{
	if (type == WIRE_DATA || type == WIRE_DATA2)
		return take_output(&g->out[type == WIRE_DATA2], v, err);
	if (type == WIRE_OK)
		take_end(g, v);
	return 0;
}

/* Frames that are here already, while the caller takes their bytes. */
static int take_frames(struct guest *g, struct berth_error *err)
{
	struct wire_slice v;
	uint8_t type;
	int rc = 1;

	while (rc > 0 && !g->done && !backed_up(g)) {
		rc = road_next(g->road, &type, &v, err);
		if (rc < 0)
			return launch_failed(g->road, rc, err);
		if (rc > 0 && (rc = take_frame(g, type, v, err)) == 0)
			rc = 1;
	}
	return rc < 0 ? rc : 0;
}

static int send_input(struct guest *g, struct berth_error *err)
{
	uint8_t typed[4096];
	struct wire_w w = {.p = g->in};
	bool keys = g->keys.on;
	ssize_t n;

	n = RETRY_EINTR(read(g->in_fd, keys ? typed : g->in, keys ? sizeof(typed) : STDIN_PIECE));
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) { /* an unreadable stdin is an empty one */
		g->in_fd = -1;
		return road_frame(g->road, WIRE_STDIN_CLOSE, NULL, err);
	}
	w.len = (size_t)n;
	if (keys && exec_keys_filter(&g->keys, typed, (size_t)n, g->in, &w.len))
		g->result.detached = g->done = true;
	w.cap = w.len;
	return w.len ? road_frame(g->road, WIRE_DATA, &w, err) : 0;
}

static int take_orders(struct guest *g, struct berth_error *err)
{
	struct exec_order o;
	int rc;

	while ((rc = exec_control_next(&g->control, &o, err)) > 0) {
		if (o.what == 'd') {
			g->result.detached = g->done = true;
			return 0;
		}
		rc = exec_send_order(g->road, &o, err);
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* From now on: when must it have ended? INT64_MAX: it has no timeout. */
static int64_t end_deadline(const struct berth_exec_request *req)
{
	int64_t grace = req->grace_ms >= 0 ? req->grace_ms : SPEC_GRACE_MS;

	if (req->timeout_ms <= 0 || req->timeout_ms > INT64_MAX / 4 || grace > INT64_MAX / 4)
		return INT64_MAX;
	return deadline_from_ms(req->timeout_ms + grace + OVERDUE_MS);
}

/* How long the agent may say nothing. While the caller does not take the output it is not asked. */
static int64_t patience(struct guest *g)
{
	if (!g->road->hello_done)
		return g->greeting;
	if (!g->end)
		g->end = end_deadline(g->req);
	return backed_up(g) ? INT64_MAX : g->end;
}

/* It speaks (or could not be heard): what it has to say takes time. */
static void more_time(struct guest *g)
{
	if (g->end)
		g->end = MAX_OF(g->end, deadline_from_ms(OVERDUE_MS));
}

static int silent(const struct guest *g, struct berth_error *err)
{
	if (!g->road->hello_done)
		berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox does not answer");
	else
		berth_fail(err, BERTH_E_UNAVAILABLE,
			   "the sandbox does not answer; the command's timeout and grace are over");
	return BERTH_E_UNAVAILABLE;
}

/* One turn: wait, then do what can be done. */
static int turn(struct guest *g, struct berth_error *err)
{
	int64_t deadline = patience(g);
	bool out = g->out[0].pos < g->out[0].n, err_out = g->out[1].pos < g->out[1].n;
	struct pollfd p[] = {
		{.fd = g->road->rfd_eof || backed_up(g) ? -1 : g->road->stream.rfd,
		 .events = POLLIN},
		{.fd = road_pending(g->road) ? g->road->stream.wfd : -1, .events = POLLOUT},
		{.fd = road_pending(g->road) < STDIN_AHEAD ? g->in_fd : -1, .events = POLLIN},
		{.fd = g->road->hello_done ? g->control.fd : -1, .events = POLLIN},
		{.fd = out ? g->out[0].fd : -1, .events = POLLOUT},
		{.fd = err_out ? g->out[1].fd : -1, .events = POLLOUT},
	};
	int rc = 0, n = RETRY_EINTR(poll(p, ARRAY_LEN(p), deadline_poll_ms(deadline)));

	if (n < 0)
		return berth_fail_errno(err, 0, errno, "poll");
	if (n == 0 && deadline_poll_ms(deadline) == 0)
		return silent(g, err);
	if (p[0].revents || out || err_out)
		more_time(g);
	if (p[3].revents)
		rc = take_orders(g, err);
	if (rc == 0 && p[2].revents)
		rc = send_input(g, err);
	if (rc == 0 && p[4].revents)
		rc = flush_backlog(&g->out[0], err);
	if (rc == 0 && p[5].revents)
		rc = flush_backlog(&g->out[1], err);
	if (rc == 0 && !g->done)
		rc = road_pump(g->road, err);
	return rc == 0 && !g->done ? take_frames(g, err) : rc;
}

/* What is left to be written when the command has ended. */
static int finish_output(struct guest *g, struct berth_error *err)
{
	int rc = 0;

	while (rc == 0 && backed_up(g)) {
		struct pollfd p[2] = {
			{.fd = g->out[0].pos < g->out[0].n ? g->out[0].fd : -1, .events = POLLOUT},
			{.fd = g->out[1].pos < g->out[1].n ? g->out[1].fd : -1, .events = POLLOUT},
		};

		if (RETRY_EINTR(poll(p, 2, -1)) < 0)
			return berth_fail_errno(err, 0, errno, "poll");
		rc = flush_backlog(&g->out[0], err);
		if (rc == 0)
			rc = flush_backlog(&g->out[1], err);
	}
	return rc;
}

/* Where the road is commands: all of stdin first, then the answer. */
static int run_as_command(struct guest *g, struct berth_error *err)
{
	int64_t deadline = INT64_MAX;
	struct wire_slice v;
	uint8_t type;
	int rc = 0;

	if (g->req->cols && g->req->rows)
		return berth_fail(err, BERTH_E_UNSUPPORTED,
				  "sandbox provider \"%s\" does not support terminals",
				  g->road->s->provider);
	while (rc == 0 && g->in_fd >= 0) {
		(void)!wait_readable(g->in_fd, INT64_MAX); /* what fails here reading tells */
		rc = send_input(g, err);
	}
	if (end_deadline(g->req) != INT64_MAX)
		deadline = end_deadline(g->req) + GREETING_MS * NS_PER_MS;
	while (rc == 0 && !g->done) {
		rc = road_recv(g->road, &type, &v, deadline, err);
		if (rc < 0)
			return launch_failed(g->road, rc, err);
		rc = take_frame(g, type, v, err);
		if (rc == 0)
			rc = finish_output(g, err);
	}
	return rc;
}

/* ARG… ENV… WORKDIR and so on. */
static void put_request(const struct berth_exec_request *req, const struct launch *l,
			struct wire_w *w)
{
	for (size_t i = 0; i < l->args.len; i++)
		wire_w_str(w, WK_ARG, l->args.items[i]);
	for (size_t i = 0; i < l->env.len; i++)
		wire_w_str(w, WK_ENV, l->env.items[i]);
	wire_w_str(w, WK_WORKDIR, req->workdir);
	if (req->timeout_ms > 0)
		wire_w_int(w, WK_TIMEOUT_MS, req->timeout_ms);
	if (req->grace_ms >= 0)
		wire_w_int(w, WK_GRACE_MS, req->grace_ms);
	if (req->cols && req->rows) {
		wire_w_int(w, WK_COLS, (int64_t)req->cols);
		wire_w_int(w, WK_ROWS, (int64_t)req->rows);
	}
	wire_w_int(w, WK_STDIN, req->stdin_fd >= 0);
}

static int send_request(struct guest *g, const struct launch *l, struct berth_error *err)
{
	auto_free uint8_t *p = NULL;
	struct wire_w w;
	int rc;

	wire_w_init(&w, NULL, 0);
	put_request(g->req, l, &w);
	p = mem_alloc(w.len);
	g->in = mem_alloc(STDIN_PIECE + 2);
	if (!p || !g->in)
		return berth_fail_nomem(err);
	wire_w_init(&w, p, w.len);
	put_request(g->req, l, &w);
	rc = road_request(g->road, WIRE_EXEC, &w, err);
	explicit_bzero(p, w.len); /* environment values */
	return rc;
}

static int run_guest(struct berth_sandbox *s, const struct berth_exec_request *req,
		     const struct launch *l, struct berth_exec_result *ret, struct berth_error *err)
{
	auto(guest) struct guest g = {
		.req = req,
		.control = {.fd = req->control_fd},
		.in_fd = req->stdin_fd,
	};
	auto(nosig) struct nosig guard;
	int rc;

	nosig_begin(&guard);
	backlog_init(&g.out[0], req->stdout_fd);
	backlog_init(&g.out[1], req->stderr_fd);
	rc = road_get(s, ROAD_START, &g.road, err);
	if (rc == 0)
		rc = send_request(&g, l, err);
	g.greeting = deadline_from_ms(GREETING_MS);
	if (rc == 0 && g.road->call)
		rc = run_as_command(&g, err);
	if (rc == 0 && !g.road->call)
		rc = road_pump(g.road, err);
	if (rc == 0 && !g.road->call)
		rc = take_frames(
			&g, err); /* a quick answer came with that read: poll() would not tell */
	while (rc == 0 && !g.done)
		rc = turn(&g, err);
	if (rc == 0 && !g.result.detached)
		rc = finish_output(&g, err);
	if (rc < 0) {
		if (g.road)
			g.road->broken |= g.road->asked;
		return rc;
	}
	*ret = g.result;
	return 0;
}

/* ── the request ────────────────────────────────────────────────────────────────────────── */

static int check_request(const struct berth_exec_request *req, struct launch *l,
			 struct berth_error *err)
{
	int rc = 0;

	if (req->size < sizeof(*req))
		return berth_fail(err, BERTH_E_INVALID,
				  "the request was not made by berth_exec_request_init()");
	if (req->attach)
		return req->session ? 0
				    : berth_fail(err, BERTH_E_INVALID,
						 "attaching needs the name of a session");
	if (req->timeout_ms < 0)
		return berth_fail(err, BERTH_E_INVALID, "the timeout is negative");
	if (req->workdir && !*req->workdir)
		return berth_fail(err, BERTH_E_INVALID, "the working directory is empty");
	rc = launch_set_args(l, req->command, err);
	for (const char *const *e = req->env; rc == 0 && e && *e; e++)
		rc = launch_set_env(l, *e, err);
	return rc == 0 ? launch_check_sizes(l, err) : rc;
}

int berth_exec(struct berth_sandbox *s, const struct berth_exec_request *req,
	       struct berth_exec_result *ret, struct berth_error *err)
{
	auto(launch) struct launch l;
	int rc;

	launch_init(&l);
	rc = s->caps & BERTH_CAP_STREAM ? 0
					: berth_sandbox_require(s, BERTH_CAP_EXECUTE, "exec", err);
	if (rc == 0)
		rc = check_request(req, &l, err);
	if (rc < 0)
		return rc;
	if (req->session)
		return session_exec(s, req, &l, ret, err);
	return run_guest(s, req, &l, ret, err);
}
