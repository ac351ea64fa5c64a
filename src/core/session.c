/* SPDX-License-Identifier: MIT */
/*
 * Durable sessions: launched like an execution (LAUNCH with KIND=2), then attached to. Whoever is
 * attached may go away at any time: the session's stdin and terminal belong to its supervisor.
 * Attaching again gives the output from its first byte.
 *
 * Three questions can be open at once, each on its own road: WATCH (new output, the end), STDIN (in
 * order, by position, so that nothing is given twice), and orders.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/time.h"
#include "core/exec.h"
#include "core/follow.h"

#define STDIN_PIECE (32u << 10)
#define ORDER_MS    30000

struct attached {
	const struct berth_exec_request *req;
	struct source src;
	struct berth_follow follow;
	struct sink sinks[3];
	struct road *watch, *input, *orders;
	struct exec_control control;
	struct exec_keys keys;
	int in_fd;    /* -1: ended, or none */
	bool closing; /* STDIN_CLOSE is to be sent when the last STDIN is answered */
	uint64_t in_at;
	bool detached;
};

static void attached_done(struct attached *a)
{
	road_put(a->watch);
	road_put(a->input);
	road_put(a->orders);
	source_close(&a->src);
}
BERTH_DEFINE_AUTO(attached, struct attached, attached_done);

/* ── launching ──────────────────────────────────────────────────────────────────────────── */

static void put_spec(const struct berth_exec_request *req, const struct launch *l, struct wire_w *w)
{
	size_t pos = wire_w_begin(w, WK_SPEC);

	wire_w_str(w, SK_ID, req->session);
	wire_w_int(w, SK_KIND, WIRE_KIND_SESSION);
	for (size_t i = 0; i < l->args.len; i++)
		wire_w_str(w, SK_ARG, l->args.items[i]);
	for (size_t i = 0; i < l->env.len; i++)
		wire_w_str(w, SK_ENV, l->env.items[i]);
	wire_w_int(w, SK_RECORD_ENV, 0);
	wire_w_str(w, SK_WORKDIR, req->workdir);
	if (req->timeout_ms > 0)
		wire_w_int(w, SK_TIMEOUT_MS, req->timeout_ms);
	if (req->grace_ms >= 0)
		wire_w_int(w, SK_GRACE_MS, req->grace_ms);
	wire_w_int(w, SK_DURABLE, 0);
	if (req->cols && req->rows) {
		wire_w_int(w, SK_TTY_COLS, (int64_t)req->cols);
		wire_w_int(w, SK_TTY_ROWS, (int64_t)req->rows);
	}
	wire_w_int(w, SK_STDIN_OPEN, req->stdin_fd >= 0);
	wire_w_end(w, pos);
}

static int launch(struct berth_sandbox *s, const struct berth_exec_request *req,
		  const struct launch *l, struct berth_error *err)
{
	auto(road) struct road *r = NULL;
	auto_free uint8_t *p = NULL;
	struct wire_slice payload = {0};
	struct wire_w w;
	int rc;

	wire_w_init(&w, NULL, 0);
	put_spec(req, l, &w);
	p = mem_alloc(w.len);
	if (!p)
		return berth_fail_nomem(err);
	wire_w_init(&w, p, w.len);
	put_spec(req, l, &w);
	rc = road_get(s, ROAD_START, &r, err);
	if (rc == 0)
		rc = road_ask(r, WIRE_LAUNCH, &w,
			      deadline_from_ms(SPEC_STARTUP_MS + LAUNCH_SLACK_MS), &payload, err);
	explicit_bzero(p, w.len); /* environment values */
	if (rc < 0)
		return rc;
	if (wire_find_int(payload.p, payload.n, WK_EXISTED, 0)) {
		berth_fail(err, BERTH_E_CONFLICT, "there is a session \"%s\" already",
			   req->session);
		berth_error_hint(err, "berth exec --attach %s", req->session);
		return BERTH_E_CONFLICT;
	}
	return 0;
}

/* ── the three roads ────────────────────────────────────────────────────────────────────── */

static void put_id(const struct attached *a, struct wire_w *w)
{
	wire_w_str(w, WK_ID, a->src.id);
	wire_w_int(w, WK_KIND, WIRE_KIND_SESSION);
}

/* Has the road's other end gone because the session has ended? Then the record says so. */
static int or_ended(struct attached *a, struct road **r, int rc, struct berth_error *err)
{
	struct berth_error why = err ? *err : (struct berth_error)BERTH_ERROR_INIT;

	if (rc >= 0)
		return rc;
	road_put(TAKE_PTR(*r));
	if (source_refresh(&a->src, err) == 0 && record_final(&a->src.st))
		return 0;
	if (err)
		*err = why;
	return rc;
}

static int begin_watch(struct attached *a, struct berth_error *err)
{
	uint8_t buf[384];
	struct wire_w w;
	int rc = 0;

	if (!a->watch)
		rc = source_open_road(&a->src, &a->watch, err);
	if (rc != 0 || a->watch->asked)
		return rc;
	wire_w_init(&w, buf, sizeof(buf));
	source_put_watch(&a->src, &w);
	rc = road_request(a->watch, WIRE_WATCH, &w, err);
	return rc < 0 ? rc : road_pump(a->watch, err);
}

static int take_watch(struct attached *a, struct berth_error *err)
{
	struct wire_slice payload = {0};
	uint8_t type;
	int rc = road_pump(a->watch, err);

	if (rc == 0)
		rc = road_next(a->watch, &type, &payload, err);
	if (rc > 0)
		rc = a->src.direct ? source_refresh(&a->src, err)
				   : source_take_reply(&a->src, payload, err);
	return or_ended(a, &a->watch, rc, err);
}

/* STDIN at our position; *ret_next may be NULL: the answer is taken later. */
static int send_stdin(struct attached *a, const void *p, size_t n, struct berth_error *err)
{
	uint8_t buf[256];
	struct wire_w w;
	int rc;

	wire_w_init(&w, buf, sizeof(buf));
	put_id(a, &w);
	wire_w_int(&w, WK_OFFSET, (int64_t)a->in_at);
	rc = road_request(a->input, WIRE_STDIN, &w, err);
	if (rc == 0 && n) {
		w = (struct wire_w){.p = (uint8_t *)(uintptr_t)p, .cap = n, .len = n};
		rc = road_frame(a->input, WIRE_DATA, &w, err);
	}
	return rc == 0 ? road_end(a->input, NULL, err) : rc;
}

/* Where the session's input stands; a session without open input takes none. */
static int find_position(struct attached *a, struct berth_error *err)
{
	struct wire_slice payload = {0};
	int rc = source_open_road(&a->src, &a->input, err);

	if (rc == 0)
		rc = send_stdin(a, NULL, 0, err);
	if (rc == 0)
		rc = road_final(a->input, deadline_from_ms(ORDER_MS), &payload, err);
	if (rc == 0) {
		a->in_at = (uint64_t)wire_find_int(payload.p, payload.n, WK_NEXT, 0);
		return 0;
	}
	a->in_fd = -1;
	if (rc < 0 && a->input && a->input->error.remote)
		return 0;
	return or_ended(a, &a->input, rc > 0 ? 0 : rc, err);
}

static int close_stdin(struct attached *a, struct berth_error *err)
{
	uint8_t buf[256];
	struct wire_w w;

	wire_w_init(&w, buf, sizeof(buf));
	put_id(a, &w);
	a->closing = false;
	return road_request(a->input, WIRE_STDIN_CLOSE, &w, err);
}

/* A terminal that was taken away reads as an end of file; that is a hang-up of the caller and no
 * end of the session's input. */
static bool hung_up(int fd)
{
	return !isatty(fd) && errno == EIO;
}

/* Something can be read from the caller, and the last piece has been answered. */
static int take_input(struct attached *a, struct berth_error *err)
{
	uint8_t typed[STDIN_PIECE], out[STDIN_PIECE + 2];
	ssize_t n = RETRY_EINTR(read(a->in_fd, typed, sizeof(typed)));
	size_t len = 0;
	int rc = 0;

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0 && hung_up(a->in_fd)) {
		a->detached = true;
		return 0;
	}
	if (n <= 0) {
		a->in_fd = -1;
		rc = close_stdin(a, err);
	} else if (exec_keys_filter(&a->keys, typed, (size_t)n, out, &len)) {
		a->detached = true;
	}
	if (rc == 0 && len > 0)
		rc = send_stdin(a, out, len, err);
	if (rc == 0)
		rc = road_pump(a->input, err);
	return or_ended(a, &a->input, rc, err);
}

static int take_input_answer(struct attached *a, struct berth_error *err)
{
	struct wire_slice payload = {0};
	uint8_t type;
	int rc = road_pump(a->input, err);

	if (rc == 0)
		rc = road_next(a->input, &type, &payload, err);
	if (rc > 0 && a->input->request == WIRE_STDIN)
		a->in_at =
			(uint64_t)wire_find_int(payload.p, payload.n, WK_NEXT, (int64_t)a->in_at);
	if (rc < 0 && a->input->error.remote) {
		a->in_fd = -1; /* it takes no input any more */
		return 0;
	}
	return or_ended(a, &a->input, rc, err);
}

static int send_order(struct attached *a, const struct exec_order *o, struct berth_error *err)
{
	uint8_t buf[320];
	struct wire_w w;
	int rc = 0;

	if (!a->orders)
		rc = source_open_road(&a->src, &a->orders, err);
	if (rc != 0)
		return rc;
	wire_w_init(&w, buf, sizeof(buf));
	put_id(a, &w);
	if (o->what == 's') {
		wire_w_int(&w, WK_SIGNO, o->signo);
	} else {
		wire_w_int(&w, WK_COLS, (int64_t)o->cols);
		wire_w_int(&w, WK_ROWS, (int64_t)o->rows);
	}
	rc = road_ask(a->orders, o->what == 's' ? WIRE_SIGNAL : WIRE_RESIZE, &w,
		      deadline_from_ms(ORDER_MS), NULL, err);
	if (rc < 0 && a->orders->error.remote)
		return 0; /* no terminal, say: nothing that ends the session's watcher */
	return or_ended(a, &a->orders, rc, err);
}

static int take_orders(struct attached *a, struct berth_error *err)
{
	struct exec_order o;
	int rc;

	while ((rc = exec_control_next(&a->control, &o, err)) > 0) {
		a->detached |= o.what == 'd';
		if (a->detached)
			return 0;
		rc = send_order(a, &o, err);
		if (rc < 0)
			return rc;
		if (record_final(&a->src.st))
			return 0;
	}
	return rc;
}

/* ── being attached ─────────────────────────────────────────────────────────────────────── */

static bool input_idle(const struct attached *a)
{
	return a->input && !a->input->asked && !road_pending(a->input);
}

/* Bytes that came with an earlier read: poll() does not tell of them. */
static bool unread(const struct road *r)
{
	return r && r->in_pos < r->in_len;
}

static int turn(struct attached *a, struct berth_error *err)
{
	bool sending = a->input && a->input->asked;
	bool watch_here = unread(a->watch), input_here = sending && unread(a->input);
	struct pollfd p[] = {
		{.fd = a->watch->stream.rfd, .events = POLLIN},
		{.fd = road_pending(a->watch) ? a->watch->stream.wfd : -1, .events = POLLOUT},
		{.fd = sending ? a->input->stream.rfd : -1, .events = POLLIN},
		{.fd = sending && road_pending(a->input) ? a->input->stream.wfd : -1,
		 .events = POLLOUT},
		{.fd = input_idle(a) ? a->in_fd : -1, .events = POLLIN},
		{.fd = a->control.fd, .events = POLLIN},
	};
	int rc = 0;

	if (RETRY_EINTR(poll(p, ARRAY_LEN(p), watch_here || input_here ? 0 : -1)) < 0)
		return berth_fail_errno(err, 0, errno, "poll");
	if (p[5].revents)
		rc = take_orders(a, err);
	if (rc == 0 && p[4].revents)
		rc = take_input(a, err);
	if (rc >= 0 && a->input && (input_here || p[2].revents || p[3].revents))
		rc = take_input_answer(a, err);
	if (rc >= 0 && a->watch && (watch_here || p[0].revents || p[1].revents))
		rc = take_watch(a, err);
	return rc < 0 ? rc : 0;
}

/* A full output does not keep orders waiting: the sinks end when one is there. */
static int move_output(struct attached *a, struct berth_error *err)
{
	int rc;

	for (;;) {
		for (int i = BERTH_STDOUT; i <= BERTH_STDERR; i++)
			a->sinks[i].cancel_fd = a->control.fd;
		rc = follow_move(&a->src, &a->follow, a->sinks, err);
		if (rc != BERTH_E_TIMEOUT || a->control.fd < 0)
			return rc;
		rc = take_orders(a, err);
		if (rc < 0 || a->detached)
			return rc;
	}
}

static int drop(void *arg, enum berth_output stream, const void *p, size_t n)
{
	return 0;
}

static int stay(struct attached *a, struct berth_error *err)
{
	int rc = 0;

	while (rc == 0 && !a->detached) {
		rc = move_output(a, err);
		if (rc != 0 || a->detached)
			break;
		if (record_final(&a->src.st) && !follow_behind(&a->src, &a->follow))
			break;
		if (record_final(&a->src.st))
			continue;
		rc = begin_watch(a, err);
		if (rc > 0)
			rc = 0; /* ended: the state is fresh */
		else
			rc = rc < 0 ? or_ended(a, &a->watch, rc, err) : turn(a, err);
	}
	return rc;
}

/* Where questions are commands only one is open at a time: no input and no orders. */
static int stay_by_calls(struct attached *a, struct berth_error *err)
{
	if (a->in_fd >= 0)
		return berth_fail(err, BERTH_E_UNSUPPORTED,
				  "sandbox provider \"%s\" cannot carry input", a->src.s->provider);
	return follow_source(&a->src, &a->follow, err);
}

static int result_of(const struct attached *a, struct berth_exec_result *ret,
		     struct berth_error *err)
{
	struct berth_status st;

	source_status(&a->src, &st);
	if (a->detached) {
		*ret = (struct berth_exec_result){.exit_code = -1, .detached = true};
		return 0;
	}
	if (st.state == BERTH_FAILED)
		return exec_launch_error(st.exec_errno, st.message, err);
	if (st.state == BERTH_UNKNOWN)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "session \"%s\": %s", a->src.id,
				  st.message);
	*ret = (struct berth_exec_result){
		.exit_code = st.exit_code,
		.signo = st.signo,
		.timed_out = st.state == BERTH_TIMED_OUT,
	};
	return 0;
}

static int attach(struct attached *a, struct berth_error *err)
{
	const struct berth_exec_request *req = a->req;
	bool calls = !a->src.direct && a->src.road && a->src.road->call;
	int rc = 0;

	berth_follow_init(&a->follow);
	a->follow.data = drop;
	a->follow.fd_out[BERTH_STDOUT] = req->stdout_fd;
	a->follow.fd_out[BERTH_STDERR] = req->stderr_fd;
	follow_init_sinks(&a->follow, a->sinks);
	if (calls)
		return stay_by_calls(a, err);
	if (a->in_fd >= 0 && !record_final(&a->src.st))
		rc = find_position(a, err);
	return rc < 0 ? rc : stay(a, err);
}

int session_exec(struct berth_sandbox *s, const struct berth_exec_request *req, struct launch *l,
		 struct berth_exec_result *ret, struct berth_error *err)
{
	auto(attached) struct attached a = {
		.req = req,
		.src = SOURCE_INIT,
		.control = {.fd = req->control_fd},
		.keys = {.on = req->detach_keys && req->cols && req->rows},
		.in_fd = req->stdin_fd,
	};
	struct berth_status status;
	int rc = 0;

	if (!valid_execution_id(req->session))
		return berth_fail(
			err, BERTH_E_INVALID,
			"\"%.140s\" is no session name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})",
			req->session);
	if (!req->attach)
		rc = launch(s, req, l, err);
	if (rc == 0)
		rc = source_open(&a.src, s, req->session, WIRE_KIND_SESSION, false, &status, err);
	if (rc > 0)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, status.message);
	if (rc == 0)
		rc = attach(&a, err);
	return rc < 0 ? rc : result_of(&a, ret, err);
}
