/* SPDX-License-Identifier: MIT */
/*
 * Roads: frames, requests and answers over bytes (road_io.c) or commands (road_call.c).
 *
 * Invariants: a road is `asked` from road_request() to its final frame; only one that is not asked,
 * not broken and has nothing buffered is kept. HELLO goes out with the first request and is
 * answered for at the first receive, so a new road costs no round trip (but where it may start an
 * init: see open_greeted()). It does not retry: what may be asked twice is the caller's knowledge.
 */
#include "core/road.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/time.h"
#include "core/bootstrap.h"
#include "core/provider.h"
#include "core/road_private.h"

/* Kept roads per handle: more were wanted at once only for a moment. */
#define IDLE_MAX 4
/* How long a greeting is waited for apart; a later one is the request's matter. */
#define GREETING_MS 300
/* How long an init that is dying is waited for. */
#define DYING_MS 10000

_Static_assert(BERTH_E_INVALID == -WIRE_E_INVALID && BERTH_E_TIMEOUT == -WIRE_E_TIMEOUT &&
		       BERTH_E_CONFLICT == -WIRE_E_CONFLICT && BERTH_E_PROTOCOL == -WIRE_E_PROTOCOL,
	       "the wire's error numbers are ours, negated");

int road_break(struct road *r, struct berth_error *err, int code, const char *fmt, ...)
{
	va_list args;

	r->broken = true;
	va_start(args, fmt);
	berth_failv(err, code, fmt, args);
	va_end(args);
	return code;
}

static void road_free(struct road *r)
{
	berth_stream_close(&r->stream);
	free(r->in);
	free(r->out);
	free(r);
}

static struct road *road_new(struct berth_sandbox *s)
{
	struct road *r = mem_zalloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->s = s;
	r->cancel_fd = -1;
	r->send_deadline = INT64_MAX;
	berth_stream_init(&r->stream);
	return r;
}

static int put_frame(struct road *r, uint8_t type, const void *p, size_t n, struct berth_error *err)
{
	uint8_t head[WIRE_FRAME_HEADER] = {0};
	int rc;

	wire_put_u32(head, (uint32_t)n);
	head[4] = type;
	rc = road_out_add(r, head, sizeof(head), err);
	return rc < 0 ? rc : road_out_add(r, p, n, err);
}

static int put_hello(struct road *r, struct berth_error *err)
{
	uint8_t buf[32];
	struct wire_w w;

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_int(&w, WK_PROTO, WIRE_PROTO_VERSION);
	return put_frame(r, WIRE_HELLO, w.p, w.len, err);
}

/* A stream becomes a road: taken in any case. */
static int road_start_stream(struct road *r, struct berth_stream *stream, struct berth_error *err)
{
	r->stream = *stream;
	berth_stream_init(stream);
	r->wfd_socket = true; /* until a send says otherwise */
	if (fd_set_nonblock(r->stream.rfd, true) < 0 || fd_set_nonblock(r->stream.wfd, true) < 0)
		return road_break(r, err, BERTH_E_IO, "the stream to the sandbox is unusable");
	return put_hello(r, err);
}

int road_over(struct berth_stream *stream, struct road **ret, struct berth_error *err)
{
	auto(road) struct road *r = road_new(NULL);
	int rc;

	if (!r) {
		berth_stream_close(stream);
		return berth_fail_nomem(err);
	}
	rc = road_start_stream(r, stream, err);
	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(r);
	return 0;
}

/* ── getting one ────────────────────────────────────────────────────────────────────────── */

/* A kept road whose other end is still there. */
static struct road *take_idle(struct berth_sandbox *s)
{
	struct road *r;

	while ((r = s->idle)) {
		struct pollfd p = {.fd = r->stream.rfd, .events = POLLIN | POLLRDHUP};

		s->idle = r->next;
		s->n_idle--;
		r->next = NULL;
		if (r->call || RETRY_EINTR(poll(&p, 1, 0)) == 0)
			return r;
		road_free(r); /* nobody may say anything between requests: it is the end */
	}
	return NULL;
}

static int open_connect(struct berth_sandbox *s, unsigned flags, const char *dir,
			struct berth_stream *ret, struct berth_error *err)
{
	const char *argv[] = {NULL, "connect", NULL, NULL, NULL};
	size_t n = 2;
	int rc = bootstrap_agent(s, flags & (ROAD_START | ROAD_INIT), err);

	if (rc < 0)
		return rc;
	argv[0] = s->agent;
	if (flags & (ROAD_START | ROAD_INIT))
		argv[n++] = "--start";
	argv[n] = dir;
	return provider_open(s, argv, ret, err);
}

static void road_reset(struct road *r)
{
	berth_stream_close(&r->stream);
	berth_stream_init(&r->stream);
	r->broken = r->rfd_eof = false;
	r->in_pos = r->in_len = r->out_pos = r->out_len = 0;
	memset(&r->error, 0, sizeof(r->error));
}

/* An init that was killed takes connections, and holds its lock, until the kernel has come to its
 * descriptors. Before its greeting nothing has been asked of it: one more is started and asked. */
static int open_greeted(struct berth_sandbox *s, const char *dir, struct road *r,
			struct berth_error *err)
{
	int64_t deadline = deadline_from_ms(DYING_MS);
	struct timespec pause = {0, NS_PER_MS};
	struct berth_stream stream;
	int n = 0, rc;

	for (;;) {
		berth_stream_init(&stream);
		rc = provider_open_agent(s, dir, &stream, err);
		if (rc == 0)
			rc = road_start_stream(r, &stream, err);
		if (rc == 0)
			rc = road_hello(r, deadline_from_ms(GREETING_MS), err);
		if (rc == BERTH_E_TIMEOUT && r->stream.rfd >= 0) {
			r->broken = false;
			rc = 0;
		}
		if (rc == 0)
			memset(&r->error, 0,
			       sizeof(r->error)); /* of the request nothing was sent */
		if (rc != BERTH_E_UNAVAILABLE || r->error.remote || now_mono_ns() > deadline)
			return rc;
		road_reset(r);
		rc = provider_start_agent(s, dir, err);
		if (rc < 0)
			return rc;
		if (n++)
			nanosleep(&pause, NULL);
	}
}

static int road_open(struct berth_sandbox *s, unsigned flags, struct road *r,
		     struct berth_error *err)
{
	struct berth_stream stream;
	const char *dir = NULL;
	int rc = sandbox_dir(s, &dir, err);

	if (rc < 0)
		return rc;
	berth_stream_init(&stream);
	if (s->ops->open_agent && s->ops->start_agent && flags & (ROAD_START | ROAD_INIT))
		return open_greeted(s, dir, r, err);
	if (s->ops->open_agent) {
		rc = provider_open_agent(s, dir, &stream, err);
		if (rc == 0)
			return road_start_stream(r, &stream, err);
		/* Where init is started on the way in, `connect --start` is the way. */
		if (rc != BERTH_E_UNAVAILABLE || !s->ops->open ||
		    !(flags & (ROAD_START | ROAD_INIT)))
			return rc;
	}
	if (s->ops->open) {
		rc = open_connect(s, flags, dir, &stream, err);
		return rc < 0 ? rc : road_start_stream(r, &stream, err);
	}
	rc = bootstrap_agent(s, flags & (ROAD_START | ROAD_INIT), err);
	if (rc < 0)
		return rc;
	r->call = true;
	r->start_init = flags & (ROAD_START | ROAD_INIT);
	return 0;
}

int road_get(struct berth_sandbox *s, unsigned flags, struct road **ret, struct berth_error *err)
{
	auto(road) struct road *r = take_idle(s);
	int rc;

	if (r) {
		*ret = TAKE_PTR(r);
		return 0;
	}
	if (flags & ROAD_START) {
		rc = sandbox_ensure_started(s, err);
		if (rc < 0)
			return rc;
	}
	r = road_new(s);
	if (!r)
		return berth_fail_nomem(err);
	rc = road_open(s, flags, r, err);
	if (rc < 0)
		return rc;
	r->keep = true;
	*ret = TAKE_PTR(r);
	return 0;
}

void road_put(struct road *r)
{
	if (!r)
		return;
	if (!r->keep || !r->s || r->broken || r->asked || r->rfd_eof || r->in_pos != r->in_len ||
	    (!r->call && r->out_pos != r->out_len) || r->s->n_idle >= IDLE_MAX) {
		road_free(r);
		return;
	}
	free(r->in); /* an idle road is only its fds */
	free(r->out);
	r->in = r->out = NULL;
	r->in_cap = r->in_pos = r->in_len = r->out_cap = r->out_pos = r->out_len = 0;
	r->cancel_fd = -1;
	memset(&r->error, 0, sizeof(r->error)); /* the next user may fail before its request */
	r->next = r->s->idle;
	r->s->idle = r;
	r->s->n_idle++;
}

void road_drop_idle(struct berth_sandbox *s)
{
	struct road *r;

	while ((r = s->idle)) {
		s->idle = r->next;
		road_free(r);
	}
	s->n_idle = 0;
}

/* ── sending ────────────────────────────────────────────────────────────────────────────── */

static int usable(const struct road *r, struct berth_error *err)
{
	if (r->broken)
		return berth_fail(err, BERTH_E_INTERNAL, "a broken road was used");
	return 0;
}

/* The sending has been stopped by the other end: its ERROR, or that it is gone. */
static int stopped_early(struct road *r, struct berth_error *err)
{
	struct wire_slice payload;
	uint8_t type;
	int rc = 0;

	r->out_pos = r->out_len = 0;
	while (r->asked && (rc = road_next(r, &type, &payload, err)) > 0)
		;
	if (rc == 0)
		rc = road_break(r, err, BERTH_E_UNAVAILABLE, "the sandbox closed the connection");
	r->broken = true;
	return rc;
}

static int send_out(struct road *r, const void *p, size_t n, int64_t deadline_ns,
		    struct berth_error *err)
{
	int rc = road_send_all(r, p, n, deadline_ns, err);

	return rc > 0 ? stopped_early(r, err) : rc;
}

int road_frame(struct road *r, uint8_t type, const struct wire_w *fields, struct berth_error *err)
{
	size_t n = fields ? fields->len : 0;
	int rc = usable(r, err);

	if (rc < 0)
		return rc;
	if ((fields && !wire_w_ok(fields)) || n > WIRE_CONTROL_MAX)
		return road_break(r, err, BERTH_E_TOO_LARGE,
				  "a request of %zu bytes is more than the agent takes (%u)", n,
				  WIRE_CONTROL_MAX);
	return put_frame(r, type, fields ? fields->p : NULL, n, err);
}

int road_request(struct road *r, uint8_t type, const struct wire_w *fields, struct berth_error *err)
{
	int rc = usable(r, err);

	if (rc < 0)
		return rc;
	if (r->asked)
		return road_break(r, err, BERTH_E_INTERNAL, "a second request on a busy road");
	memset(&r->error, 0, sizeof(r->error));
	r->send_deadline = INT64_MAX;
	if (r->call) {
		r->in_pos = r->in_len = r->out_pos = r->out_len = 0;
		r->ran = r->delivered = 0;
		r->ended = r->hello_done = false;
		rc = put_hello(r, err);
		if (rc < 0)
			return rc;
	}
	r->request = type;
	r->asked = true;
	return road_frame(r, type, fields, err);
}

int road_data(struct road *r, const void *p, size_t n, struct berth_error *err)
{
	uint8_t head[WIRE_FRAME_HEADER] = {0};
	const uint8_t *q = p;
	int rc = usable(r, err);

	head[4] = WIRE_DATA;
	while (rc == 0 && n > 0) {
		size_t piece = MIN_OF(n, (size_t)WIRE_DATA_MAX);

		wire_put_u32(head, (uint32_t)piece);
		rc = road_out_add(r, head, sizeof(head), err);
		if (rc < 0)
			break;
		/* Small pieces are gathered, large ones are written from where they are. */
		if (r->call || (piece < ROAD_OUT_GATHER / 4 && r->out_len < ROAD_OUT_GATHER))
			rc = road_out_add(r, q, piece, err);
		else
			rc = send_out(r, q, piece, r->send_deadline, err);
		q += piece;
		n -= piece;
	}
	return rc;
}

int road_end(struct road *r, const struct wire_w *fields, struct berth_error *err)
{
	return road_frame(r, WIRE_END, fields, err);
}

int road_flush(struct road *r, int64_t deadline_ns, struct berth_error *err)
{
	int rc = usable(r, err);

	if (rc < 0 || r->call)
		return rc;
	return send_out(r, NULL, 0, deadline_ns, err);
}

/* ── receiving ──────────────────────────────────────────────────────────────────────────── */

/* Looks at the frame at @pos: 1 complete, 0 not yet, -1 it is none. */
static int peek_frame(const struct road *r, size_t pos, uint8_t *ret_type, uint32_t *ret_n)
{
	if (r->in_len - pos < WIRE_FRAME_HEADER)
		return 0;
	if (wire_frame_header(r->in + pos, ret_type, ret_n) < 0)
		return -1;
	return r->in_len - pos - WIRE_FRAME_HEADER >= *ret_n;
}

bool road_early_error(const struct road *r)
{
	size_t pos = r->in_pos;
	uint8_t type;
	uint32_t n;

	while (peek_frame(r, pos, &type, &n) == 1) {
		if (type == WIRE_ERROR)
			return true;
		pos += WIRE_FRAME_HEADER + n;
	}
	return false;
}

static void copy_text(struct wire_slice v, char *dst, size_t cap)
{
	size_t n = MIN_OF(v.n, cap - 1);

	memcpy(dst, v.p, n);
	dst[n] = '\0';
}

static void find_text(struct wire_slice payload, uint16_t key, char *dst, size_t cap)
{
	struct wire_slice v;

	dst[0] = '\0';
	if (wire_find(payload.p, payload.n, key, &v) && wire_slice_is_text(v))
		copy_text(v, dst, cap);
}

/* An ERROR frame as our error. */
static int remote_error(struct road *r, struct wire_slice payload, struct berth_error *err)
{
	int64_t code = wire_find_int(payload.p, payload.n, WK_CODE, WIRE_E_INTERNAL);
	int64_t errnum = wire_find_int(payload.p, payload.n, WK_ERRNO, 0);
	char message[BERTH_ERROR_MESSAGE_MAX];

	r->asked = false;
	r->error.remote = true;
	r->error.payload = payload;
	find_text(payload, WK_STAGE, r->error.stage, sizeof(r->error.stage));
	find_text(payload, WK_NEED, r->error.need, sizeof(r->error.need));
	find_text(payload, WK_MESSAGE, message, sizeof(message));
	if (code < WIRE_E_INVALID || code > WIRE_E_TIMEOUT)
		code = WIRE_E_INTERNAL;
	r->error.code = (int)code;
	r->error.sys_errno = errnum > 0 && errnum < 4096 ? (int)errnum : 0;
	berth_fail(err, (int)-code, "%s", message[0] ? message : berth_error_text((int)-code));
	if (err)
		err->sys_errno = r->error.sys_errno;
	return (int)-code;
}

static int take_hello(struct road *r, struct wire_slice payload, struct berth_error *err)
{
	struct road_hello *h = &r->hello;
	struct wire_slice v;

	h->proto = wire_find_int(payload.p, payload.n, WK_PROTO, 0);
	if (h->proto < WIRE_PROTO_VERSION)
		return road_break(r, err, BERTH_E_UNSUPPORTED,
				  "the agent in the sandbox speaks protocol %lld only",
				  (long long)h->proto);
	find_text(payload, WK_AGENT, h->agent, sizeof(h->agent));
	find_text(payload, WK_MACHINE, h->machine, sizeof(h->machine));
	if (wire_find(payload.p, payload.n, WK_INCARNATION, &v) && v.n == 16)
		memcpy(h->incarnation, v.p, 16);
	if (wire_find(payload.p, payload.n, WK_BOOT, &v) && v.n == 16)
		memcpy(h->boot, v.p, 16);
	r->hello_done = true;
	return 0;
}

/* One frame off the receive buffer, HELLO included: 1, 0 not yet complete, or a failure. */
static int take_frame(struct road *r, uint8_t *ret_type, struct wire_slice *ret_payload,
		      struct berth_error *err)
{
	uint8_t type = 0;
	uint32_t n = 0;
	int rc = peek_frame(r, r->in_pos, &type, &n);

	if (rc < 0)
		return road_break(r, err, BERTH_E_PROTOCOL, "what answers is no berth-agent");
	if (rc == 0) {
		if (r->in_len - r->in_pos >= WIRE_FRAME_HEADER)
			return road_in_room(r, WIRE_FRAME_HEADER + (size_t)n, err);
		return 0;
	}
	*ret_type = type;
	ret_payload->p = r->in + r->in_pos + WIRE_FRAME_HEADER;
	ret_payload->n = n;
	r->in_pos += WIRE_FRAME_HEADER + (size_t)n;
	if (type != WIRE_DATA && type != WIRE_DATA2 && !wire_fields_valid(ret_payload->p, n))
		return road_break(r, err, BERTH_E_PROTOCOL, "the agent sent a malformed frame");
	return 1;
}

static bool is_answer(uint8_t type)
{
	return type == WIRE_OK || type == WIRE_ERROR || type == WIRE_DATA || type == WIRE_DATA2 ||
	       type == WIRE_EVENT;
}

int road_next(struct road *r, uint8_t *ret_type, struct wire_slice *ret_payload,
	      struct berth_error *err)
{
	struct wire_slice payload;
	uint8_t type;
	int rc = usable(r, err);

	while (rc == 0) {
		rc = take_frame(r, &type, &payload, err);
		if (rc <= 0)
			break;
		if (!r->hello_done && type != WIRE_ERROR) {
			if (type != WIRE_HELLO)
				return road_break(r, err, BERTH_E_PROTOCOL,
						  "what answers is no berth-agent");
			rc = take_hello(r, payload, err);
			continue;
		}
		if (!r->asked || !is_answer(type)) {
			if (type != WIRE_ERROR)
				return road_break(r, err, BERTH_E_PROTOCOL,
						  "the agent sent a frame out of turn (%u)", type);
			r->broken = true;
		}
		if (type == WIRE_ERROR) {
			if (!r->hello_done)
				r->broken = true;
			return remote_error(r, payload, err);
		}
		if (type == WIRE_OK)
			r->asked = false;
		*ret_type = type;
		*ret_payload = payload;
		return 1;
	}
	if (rc == 0 && r->rfd_eof && !r->call)
		return road_break(r, err, BERTH_E_UNAVAILABLE,
				  "the connection to the sandbox was cut off");
	return rc;
}

/* More of the answer: from the stream, or by running the command. */
static int more(struct road *r, int64_t deadline_ns, struct berth_error *err)
{
	int rc;

	if (!r->call)
		return road_fill(r, deadline_ns, err);
	if (r->ended && r->ran == r->out_len)
		return road_break(r, err, BERTH_E_UNAVAILABLE, "the agent's answer was cut off");
	rc = road_call_run(r, deadline_ns, err);
	if (rc < 0)
		r->broken = true;
	return rc;
}

int road_recv(struct road *r, uint8_t *ret_type, struct wire_slice *ret_payload,
	      int64_t deadline_ns, struct berth_error *err)
{
	int rc = usable(r, err);

	if (rc == 0 && r->out_pos < r->out_len && !r->call) {
		rc = road_send_all(r, NULL, 0, deadline_ns, err);
		if (rc > 0) {
			r->out_pos = r->out_len = 0;
			r->keep = false; /* half a request is over there */
			rc = 0;
		}
	}
	while (rc == 0) {
		rc = road_next(r, ret_type, ret_payload, err);
		if (rc > 0) {
			r->delivered++;
			return 0;
		}
		if (rc == 0)
			rc = more(r, deadline_ns, err);
	}
	return rc;
}

int road_final(struct road *r, int64_t deadline_ns, struct wire_slice *ret_payload,
	       struct berth_error *err)
{
	struct wire_slice payload;
	uint8_t type;
	int rc = road_recv(r, &type, &payload, deadline_ns, err);

	if (rc < 0)
		return rc;
	if (type != WIRE_OK)
		return road_break(r, err, BERTH_E_PROTOCOL,
				  "the agent sent a frame out of turn (%u)", type);
	if (ret_payload)
		*ret_payload = payload;
	return 0;
}

int road_ask(struct road *r, uint8_t type, const struct wire_w *fields, int64_t deadline_ns,
	     struct wire_slice *ret_payload, struct berth_error *err)
{
	int rc = road_request(r, type, fields, err);

	return rc < 0 ? rc : road_final(r, deadline_ns, ret_payload, err);
}

int road_hello(struct road *r, int64_t deadline_ns, struct berth_error *err)
{
	struct wire_slice payload;
	uint8_t type;
	int rc = usable(r, err);

	if (rc == 0 && !r->hello_done)
		rc = road_flush(r, deadline_ns, err);
	while (rc == 0 && !r->hello_done) {
		rc = take_frame(r, &type, &payload, err);
		if (rc > 0 && type == WIRE_ERROR) {
			r->broken = true;
			return remote_error(r, payload, err);
		}
		if (rc > 0)
			rc = type == WIRE_HELLO ? take_hello(r, payload, err)
						: road_break(r, err, BERTH_E_PROTOCOL,
							     "what answers is no berth-agent");
		else if (rc == 0 && r->rfd_eof)
			rc = road_break(r, err, BERTH_E_UNAVAILABLE,
					"the connection to the sandbox was cut off");
		else if (rc == 0)
			rc = road_fill(r, deadline_ns, err);
	}
	return rc;
}

int64_t road_wait_ms(const struct road *r, int64_t wait_ms)
{
	if (!r->call)
		return wait_ms;
	return wait_ms < 0 ? ROAD_SLICE_MS : MIN_OF(wait_ms, (int64_t)ROAD_SLICE_MS);
}
