/* SPDX-License-Identifier: MIT */
/*
 * Commands and files of a sandbox with walls: nothing of it can be reached but its init, so these
 * are requests to the agent.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/time.h"
#include "core/road.h"

#define ANSWER_MS 10000
#define PUT_MS    120000
/* After a timeout the agent kills at once and answers; this is for a machine that swaps. */
#define LATE_MS    10000
#define FEED_PIECE (64u << 10)
/* Input that waits for the sandbox. */
#define FEED_AHEAD (256u << 10)

static int connect_init(struct local *l, struct road **ret, struct berth_error *err)
{
	struct berth_stream stream;
	int rc = local_open_agent(l, l->inner, &stream, err);

	if (rc == 0)
		rc = road_over(&stream, ret, err);
	return rc < 0 ? rc : road_hello(*ret, deadline_from_ms(ANSWER_MS), err);
}

/* ── execute ────────────────────────────────────────────────────────────────────────────── */

static int request(struct road *r, const char *const *argv, const struct berth_execute_io *io,
		   int64_t timeout_ms, struct berth_error *err)
{
	auto_free uint8_t *buf = NULL;
	size_t need = 128;
	struct wire_w w;

	for (size_t i = 0; argv[i]; i++)
		need += strlen(argv[i]) + 6;
	buf = mem_alloc(need);
	if (!buf)
		return berth_fail_nomem(err);
	wire_w_init(&w, buf, need);
	for (size_t i = 0; argv[i]; i++)
		wire_w_str(&w, WK_ARG, argv[i]);
	wire_w_int(&w, WK_STDIN, io->input_len > 0);
	wire_w_int(&w, WK_GRACE_MS, 0);
	if (timeout_ms > 0)
		wire_w_int(&w, WK_TIMEOUT_MS, timeout_ms);
	return road_request(r, WIRE_EXEC, &w, err);
}

static void keep(uint8_t *buf, size_t cap, size_t *len, bool *truncated, struct wire_slice v)
{
	size_t n = MIN_OF(v.n, cap - *len);

	if (n)
		memcpy(buf + *len, v.p, n);
	*len += n;
	*truncated |= n < v.n;
}

static int result(struct wire_slice v, struct berth_execute_io *io, struct berth_error *err)
{
	if (wire_find_int(v.p, v.n, WK_TIMED_OUT, 0))
		return berth_fail(err, BERTH_E_TIMEOUT, "the command did not end in time");
	io->signo = (int)wire_find_int(v.p, v.n, WK_SIGNO, 0);
	io->exit_code = io->signo ? -1 : (int)wire_find_int(v.p, v.n, WK_EXIT_CODE, 0);
	return 0;
}

struct feed {
	const uint8_t *p;
	size_t n;
	bool closed; /* told that there is no more */
};

/* More input, when little waits to be sent. */
static int feed_some(struct road *r, struct feed *f, struct berth_error *err)
{
	int rc = 0;

	while (rc == 0 && !f->closed && road_pending(r) < FEED_AHEAD) {
		size_t piece = MIN_OF(f->n, (size_t)FEED_PIECE);
		struct wire_w w = {.p = (uint8_t *)f->p, .cap = piece, .len = piece};

		f->closed = f->n == 0;
		rc = road_frame(r, f->closed ? WIRE_STDIN_CLOSE : WIRE_DATA, f->closed ? NULL : &w,
				err);
		f->p += w.len;
		f->n -= w.len;
	}
	return rc;
}

/* What has come: 1 it has ended, 0 not yet, or a failure. */
static int take_some(struct road *r, struct berth_execute_io *io, struct berth_error *err)
{
	struct wire_slice v;
	uint8_t type;
	int rc;

	while ((rc = road_next(r, &type, &v, err)) > 0) {
		if (type == WIRE_OK) {
			rc = result(v, io, err);
			return rc < 0 ? rc : 1;
		}
		if (type == WIRE_DATA)
			keep(io->out, io->out_cap, &io->out_len, &io->out_truncated, v);
		else if (type == WIRE_DATA2)
			keep(io->err, io->err_cap, &io->err_len, &io->err_truncated, v);
	}
	return rc;
}

/* Until its end; neither input nor output waits for the other. */
static int carry(struct road *r, struct berth_execute_io *io, int64_t timeout_ms,
		 struct berth_error *err)
{
	int64_t deadline = timeout_ms > 0 ? deadline_from_ms(timeout_ms + LATE_MS) : INT64_MAX;
	struct feed f = {io->input, io->input_len, io->input_len == 0};
	int rc;

	for (;;) {
		struct pollfd p[2] = {{.fd = r->stream.rfd, .events = POLLIN},
				      {.fd = r->stream.wfd, .events = POLLOUT}};

		rc = feed_some(r, &f, err);
		if (rc == 0)
			rc = road_pump(r, err);
		if (rc == 0)
			rc = take_some(r, io, err);
		if (rc != 0)
			return MIN_OF(rc, 0);
		if (road_pending(r) == 0)
			p[1].fd = -1;
		rc = RETRY_EINTR(poll(p, 2, deadline_poll_ms(deadline)));
		if (rc < 0)
			return berth_fail_errno(err, 0, errno, "poll");
		if (rc == 0 && deadline_poll_ms(deadline) == 0)
			return berth_fail(err, BERTH_E_TIMEOUT, "the command did not end in time");
	}
}

int local_inside_execute(struct local *l, const char *const *argv, struct berth_execute_io *io,
			 int64_t timeout_ms, struct berth_error *err)
{
	auto(road) struct road *r = NULL;
	int rc = connect_init(l, &r, err);

	io->out_len = io->err_len = 0;
	io->out_truncated = io->err_truncated = false;
	if (rc == 0)
		rc = request(r, argv, io, timeout_ms, err);
	if (rc == 0)
		rc = carry(r, io, timeout_ms, err);
	/* As a shell tells it: what could not be run is an exit code, not a failure of the road. */
	if (rc < 0 && r && r->error.remote && r->error.sys_errno) {
		io->exit_code =
			r->error.sys_errno == ENOENT || r->error.sys_errno == ENOTDIR ? 127 : 126;
		io->signo = 0;
		return 0;
	}
	return rc;
}

/* ── files ──────────────────────────────────────────────────────────────────────────────── */

int local_inside_put(struct local *l, const char *path, unsigned mode, const void *data, size_t len,
		     struct berth_error *err)
{
	auto_free uint8_t *buf = mem_alloc(strlen(path) + 64);
	uint8_t sum_buf[32];
	auto(road) struct road *r = NULL;
	XXH128_canonical_t sum;
	struct wire_w w, end;
	int rc;

	if (!buf)
		return berth_fail_nomem(err);
	rc = connect_init(l, &r, err);
	wire_w_init(&w, buf, strlen(path) + 64);
	wire_w_str(&w, WK_PATH, path);
	wire_w_int(&w, WK_MODE, mode & 0777);
	XXH128_canonicalFromHash(&sum, XXH3_128bits(data, len));
	wire_w_init(&end, sum_buf, sizeof(sum_buf));
	wire_w_bytes(&end, WK_XXH128, sum.digest, sizeof(sum.digest));
	if (rc == 0)
		rc = road_request(r, WIRE_PUT, &w, err);
	if (rc == 0 && len > 0)
		rc = road_data(r, data, len, err);
	if (rc == 0)
		rc = road_end(r, &end, err);
	return rc < 0 ? rc : road_final(r, deadline_from_ms(PUT_MS), NULL, err);
}
