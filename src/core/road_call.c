/* SPDX-License-Identifier: MIT */
/*
 * Roads over commands: a request is one run of `berth-agent call`.
 *
 * Everything that a request sends is kept until its final frame. When the caller sends more after
 * part of the answer (UNPACK does: it learns what is missing first), the request is run again from
 * its beginning with all of it, and the frames that were delivered are passed over; only UNPACK may
 * do that, because asking it twice changes nothing. Where a driver cannot carry input, bytes travel
 * as arguments, and never those of requests that hold a spec, environment values or input.
 */
#include "core/road_private.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/time.h"
#include "core/bootstrap.h"
#include "core/provider.h"

#define STDERR_KEPT 4096

/* May the bytes of this request be seen in a process list? */
static bool may_be_arguments(const struct road *r)
{
	struct wire_slice v;
	size_t pos = 0;
	uint32_t n;
	uint8_t type;

	if (r->request == WIRE_LAUNCH || r->request == WIRE_STDIN)
		return false;
	if (r->request != WIRE_EXEC && r->request != WIRE_INSTALL)
		return true;
	for (; pos < r->out_len; pos += WIRE_FRAME_HEADER + n) {
		if (wire_frame_header(r->out + pos, &type, &n) < 0)
			return false;
		if (type == WIRE_DATA)
			return false;
		if (type == r->request &&
		    wire_find(r->out + pos + WIRE_FRAME_HEADER, n, WK_ENV, &v))
			return false;
	}
	return true;
}

static int64_t timeout_from(int64_t deadline_ns)
{
	int64_t left;

	if (deadline_ns == INT64_MAX)
		return 0;
	left = (deadline_ns - now_mono_ns()) / NS_PER_MS;
	return left > 0 ? left : 1;
}

struct call {
	const char *argv[12];
	size_t n;
	struct berth_execute_io io;
};

static void call_argv(struct road *r, struct call *c)
{
	c->argv[c->n++] = r->s->agent;
	c->argv[c->n++] = "call";
	if (r->start_init)
		c->argv[c->n++] = "--start";
	if (r->s->ops->flags & BERTH_PROVIDER_TEXT)
		c->argv[c->n++] = "--text";
	c->argv[c->n++] = r->s->dir;
}

/* The request on stdin. BERTH_E_UNSUPPORTED when the driver has none to give. */
static int call_with_input(struct road *r, struct call *c, int64_t timeout_ms,
			   struct berth_error *err)
{
	call_argv(r, c);
	c->io.input = r->out;
	c->io.input_len = r->out_len;
	return provider_execute(r->s, c->argv, &c->io, timeout_ms, err);
}

/* A long request goes into a file first, piece by piece. */
static int call_with_file(struct road *r, struct call *c, int64_t timeout_ms,
			  struct berth_error *err)
{
	auto_free char *path = NULL;
	char name[20];
	int rc;

	path = mem_printf("%s/tmp/call-%s", r->s->dir, random_name(name, 16));
	if (!path)
		return berth_fail_nomem(err);
	rc = bootstrap_write(r->s, path, 0600, r->out, r->out_len, err);
	if (rc < 0)
		return rc;
	c->argv[c->n++] = "sh";
	c->argv[c->n++] = "-c";
	c->argv[c->n++] = "f=$1; shift; \"$@\" <\"$f\"; r=$?; rm -f -- \"$f\"; exit $r";
	c->argv[c->n++] = "sh";
	c->argv[c->n++] = path;
	call_argv(r, c);
	return provider_execute(r->s, c->argv, &c->io, timeout_ms, err);
}

static int call_with_arguments(struct road *r, struct call *c, int64_t timeout_ms,
			       struct berth_error *err)
{
	auto_free char *text = NULL;
	size_t n;

	if (!may_be_arguments(r))
		return berth_fail(err, BERTH_E_UNSUPPORTED,
				  "sandbox provider \"%s\" cannot carry input", r->s->provider);
	if (r->out_len > BOOTSTRAP_PIECE)
		return call_with_file(r, c, timeout_ms, err);
	text = mem_alloc(BASE64_LEN(r->out_len) + 1);
	if (!text)
		return berth_fail_nomem(err);
	n = base64_encode(r->out, r->out_len, text);
	text[n] = '\0';
	call_argv(r, c);
	c->argv[c->n++] = text;
	return provider_execute(r->s, c->argv, &c->io, timeout_ms, err);
}

/* Text back to bytes, in place: white space and what a terminal adds around the line is dropped. */
static int untext(struct road *r, uint8_t *p, size_t *n, struct berth_error *err)
{
	size_t o = 0;
	ssize_t got;

	for (size_t i = 0; i < *n; i++) {
		if (p[i] > ' ')
			p[o++] = p[i];
	}
	got = base64_decode((const char *)p, o, p);
	if (got < 0)
		return road_break(r, err, BERTH_E_PROTOCOL, "what answers is no berth-agent");
	*n = (size_t)got;
	return 0;
}

/* Without a frame the command itself has failed: say how. */
static int no_answer(struct road *r, const struct call *c, struct berth_error *err)
{
	char text[256];
	size_t n = MIN_OF(c->io.err_len, sizeof(text) - 1);

	memcpy(text, c->io.err, n);
	text[n] = '\0';
	if (c->io.exit_code == 126 || c->io.exit_code == 127)
		r->s->agent = (free(r->s->agent), NULL);
	return road_break(r, err, BERTH_E_UNAVAILABLE,
			  "berth-agent in the sandbox did not answer (%s %d)%s%s",
			  c->io.exit_code >= 0 ? "exit" : "signal",
			  c->io.exit_code >= 0 ? c->io.exit_code : c->io.signo, n ? ": " : "",
			  text);
}

/* Passes over what the caller has had already. */
static int skip_delivered(struct road *r, struct berth_error *err)
{
	uint32_t n;
	uint8_t type;

	for (size_t left = r->delivered ? r->delivered + 1 : 0; left > 0; left--) {
		if (r->in_len - r->in_pos < WIRE_FRAME_HEADER ||
		    wire_frame_header(r->in + r->in_pos, &type, &n) < 0 ||
		    r->in_len - r->in_pos - WIRE_FRAME_HEADER < n)
			return road_break(r, err, BERTH_E_UNAVAILABLE,
					  "the agent's answer was cut off");
		if (type == WIRE_ERROR)
			return 0;
		r->hello_done = true;
		r->in_pos += WIRE_FRAME_HEADER + n;
	}
	return 0;
}

/* The buffers of a command: the answer becomes the road's receive buffer. */
static int take_answer(struct road *r, struct call *c, struct berth_error *err)
{
	size_t n = c->io.out_len;
	int rc = 0;

	if (c->io.out_truncated)
		return road_break(r, err, BERTH_E_TOO_LARGE, "the agent's answer is too long");
	if (n && r->s->ops->flags & BERTH_PROVIDER_TEXT)
		rc = untext(r, c->io.out, &n, err);
	if (rc < 0)
		return rc;
	if (n == 0)
		return no_answer(r, c, err);
	free(r->in);
	r->in = TAKE_PTR(c->io.out);
	r->in_cap = c->io.out_cap;
	r->in_pos = 0;
	r->in_len = n;
	r->hello_done = false;
	return skip_delivered(r, err);
}

int road_call_run(struct road *r, int64_t deadline_ns, struct berth_error *err)
{
	uint8_t errors[STDERR_KEPT];
	auto_free uint8_t *out = mem_alloc(EXECUTE_OUTPUT_MAX);
	struct call c = {.io = {.out = out,
				.out_cap = EXECUTE_OUTPUT_MAX,
				.err = errors,
				.err_cap = sizeof(errors),
				.exit_code = -1}};
	struct call again = c;
	int rc = BERTH_E_UNSUPPORTED;

	if (!out)
		return berth_fail_nomem(err);
	if (r->ran && r->request != WIRE_UNPACK)
		return road_break(r, err, BERTH_E_INTERNAL, "a request would be asked twice");
	if (!r->s->no_input) {
		rc = call_with_input(r, &c, timeout_from(deadline_ns), err);
		r->s->no_input = rc == BERTH_E_UNSUPPORTED;
		r->error.sent = rc != BERTH_E_UNSUPPORTED;
	}
	if (rc == BERTH_E_UNSUPPORTED) {
		c = again;
		rc = call_with_arguments(r, &c, timeout_from(deadline_ns), err);
		r->error.sent = rc != BERTH_E_UNSUPPORTED;
	}
	if (rc < 0)
		return rc;
	r->ran = r->out_len;
	r->ended = true;
	rc = take_answer(r, &c, err);
	out = TAKE_PTR(c.io.out);
	return rc;
}
