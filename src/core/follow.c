/* SPDX-License-Identifier: MIT */
/*
 * Following output: everything that is there is moved, then the supervisor is watched for more,
 * until both streams have ended.
 *
 * Every byte is given once and in order per stream; what was not kept is told as a gap. The
 * positions in the caller's struct are always those of the next byte, so a follow that was ended
 * can be taken up again.
 */
#include "core/follow.h"

#include <string.h>

#include "base/parse.h"
#include "base/time.h"

/* Moved between two looks at the record: much, but a caller that ends the follow does not wait for
 * a gigabyte. */
#define CHUNK (64u << 20)

void berth_follow_init(struct berth_follow *f)
{
	memset(f, 0, sizeof(*f));
	f->size = sizeof(*f);
	f->streams = 1u << BERTH_STDOUT | 1u << BERTH_STDERR;
	f->cancel_fd = -1;
	f->fd_out[BERTH_STDOUT] = f->fd_out[BERTH_STDERR] = f->fd_out[0] = -1;
}

static bool wanted(const struct berth_follow *f, int stream)
{
	return (f->streams & 1u << stream) != 0;
}

static void init_sink(const struct berth_follow *f, int stream, struct sink *k)
{
	if (f->fd_out[stream] >= 0)
		sink_fd(k, f->fd_out[stream], f->cancel_fd);
	else
		sink_call(k, f->data, f->arg, (enum berth_output)stream);
}

static uint64_t length_of(const struct record_status *st, int stream)
{
	return stream == WIRE_STDERR ? st->err.length : st->out.length;
}

/* Moves what there is of one stream. A gap is told before the bytes behind it. */
static int move_stream(struct source *src, struct berth_follow *f, int stream, struct sink *k,
		       uint64_t end, struct berth_error *err)
{
	while (f->offset[stream] < end) {
		uint64_t before = k->moved, max = MIN_OF(end - f->offset[stream], (uint64_t)CHUNK);
		struct record_read r = {0};
		struct record_read plan;
		int rc;

		record_read_plan(&src->st, stream, f->offset[stream], max, &plan);
		if (plan.has_gap && plan.offset > f->offset[stream]) {
			if (f->gap)
				f->gap(f->arg, (enum berth_output)stream, f->offset[stream],
				       plan.offset);
			f->offset[stream] = plan.offset;
			continue;
		}
		rc = source_move(src, stream, f->offset[stream], max, k, &r, err);
		if (rc != 0) {
			f->offset[stream] += k->moved - before;
			return rc;
		}
		/* The ring may have moved on since the plan: what lies between is a gap, too. */
		if (r.offset > f->offset[stream] && f->gap)
			f->gap(f->arg, (enum berth_output)stream, f->offset[stream], r.offset);
		if (r.next <= f->offset[stream])
			return 0; /* nothing to be had (kept nowhere) */
		f->offset[stream] = r.next;
	}
	return 0;
}

static int move_all(struct source *src, struct berth_follow *f, struct sink sinks[3],
		    const uint64_t *limit, struct berth_error *err)
{
	int rc = 0;

	for (int stream = BERTH_STDOUT; stream <= BERTH_STDERR && rc == 0; stream++) {
		uint64_t end = limit ? limit[stream] : length_of(&src->st, stream);

		if (wanted(f, stream))
			rc = move_stream(src, f, stream, &sinks[stream], end, err);
	}
	return rc;
}

int follow_move(struct source *src, struct berth_follow *f, struct sink sinks[3],
		struct berth_error *err)
{
	return move_all(src, f, sinks, NULL, err);
}

void follow_init_sinks(const struct berth_follow *f, struct sink sinks[3])
{
	for (int stream = BERTH_STDOUT; stream <= BERTH_STDERR; stream++)
		init_sink(f, stream, &sinks[stream]);
}

bool follow_behind(const struct source *src, const struct berth_follow *f)
{
	return (wanted(f, BERTH_STDOUT) && f->offset[BERTH_STDOUT] < src->st.out.length) ||
	       (wanted(f, BERTH_STDERR) && f->offset[BERTH_STDERR] < src->st.err.length);
}

int follow_source(struct source *src, struct berth_follow *f, struct berth_error *err)
{
	struct sink sinks[3];
	uint64_t limit[3] = {0, src->st.out.length, src->st.err.length};
	int rc = 0;

	follow_init_sinks(f, sinks);
	src->cancel_fd = f->cancel_fd;
	if (f->until_current)
		return move_all(src, f, sinks, limit, err);
	while (rc == 0) {
		rc = move_all(src, f, sinks, NULL, err);
		if (rc != 0 || (record_final(&src->st) && !follow_behind(src, f)))
			break;
		rc = record_final(&src->st) ? 0 : source_watch(src, false, INT64_MAX, err);
	}
	return rc;
}

static int check_follow(const struct berth_follow *f, struct berth_error *err)
{
	bool needs_call = false;

	for (int stream = BERTH_STDOUT; stream <= BERTH_STDERR; stream++)
		needs_call |= wanted(f, stream) && f->fd_out[stream] < 0;
	if (f->size < sizeof(*f) || !(f->streams & 6u) || (needs_call && !f->data))
		return berth_fail(
			err, BERTH_E_INVALID,
			"berth_follow: no stream is wanted, or there is nowhere to put it");
	return 0;
}

int berth_follow(struct berth_sandbox *s, const char *id, struct berth_follow *f,
		 struct berth_status *ret_status, struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	struct berth_status status;
	int rc = check_follow(f, err);

	if (rc == 0 && (!id || !valid_execution_id(id)))
		rc = berth_fail(err, BERTH_E_INVALID, "\"%.140s\" is no execution id",
				id ? id : "");
	if (rc < 0)
		return rc;
	rc = source_open(&src, s, id, WIRE_KIND_EXECUTION, true, &status, err);
	if (rc > 0)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, status.message);
	if (rc < 0)
		return rc;
	rc = follow_source(&src, f, err);
	/* A stopped sandbox cannot be asked; one who saw it run was there until the end. */
	if (rc == 0 && ret_status && src.asleep &&
	    !(f->resumed && wire_state_is_terminal(src.st.state)))
		*ret_status = status;
	else if (rc == 0 && ret_status)
		source_status(&src, ret_status);
	return rc;
}
