/* SPDX-License-Identifier: MIT */
/*
 * What is asked about one execution: state, end, output by offset, cancel, signal.
 *
 * A sandbox that cannot be asked is a state (provider_unavailable) and no error; an id without a
 * record is BERTH_E_NOT_FOUND. What is final is never asked to change.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "base/time.h"
#include "core/record.h"
#include "core/road.h"
#include "wire/spec.h"

/* After the grace: for the KILL, and then for the answer. */
#define KILL_MS     3000
#define PATIENCE_MS 5000

/* The order of the checks is a promise: capability, id, then what is special. */
static int check(struct berth_sandbox *s, const char *id, struct berth_error *err)
{
	int rc = 0;

	if (!(s->caps & BERTH_CAP_STREAM))
		rc = berth_sandbox_require(s, BERTH_CAP_EXECUTE, "worker deploys", err);
	if (rc < 0)
		return rc;
	if (!id || !valid_execution_id(id))
		return berth_fail(
			err, BERTH_E_INVALID,
			"\"%.140s\" is no execution id ([A-Za-z0-9][A-Za-z0-9._-]{0,127})",
			id ? id : "");
	return 0;
}

int berth_status(struct berth_sandbox *s, const char *id, struct berth_status *ret,
		 struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	int rc = check(s, id, err);

	if (rc < 0)
		return rc;
	rc = source_open(&src, s, id, WIRE_KIND_EXECUTION, false, ret, err);
	if (rc == 0)
		source_status(&src, ret);
	return rc < 0 ? rc : 0;
}

int berth_wait(struct berth_sandbox *s, const char *id, int64_t timeout_ms,
	       struct berth_status *ret, struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	int64_t deadline = deadline_from_ms(timeout_ms);
	int rc = check(s, id, err);

	if (rc < 0)
		return rc;
	src.deadline = deadline;
	rc = source_open(&src, s, id, WIRE_KIND_EXECUTION, false, ret, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = source_watch(&src, true, deadline, err);
	if (rc == BERTH_E_TIMEOUT) {
		(void)!source_refresh(&src, NULL);
		if (record_final(&src.st))
			rc = 0;
		else
			berth_fail(err, rc, "\"%s\" has not ended in time", id);
	}
	if (rc == 0 || rc == BERTH_E_TIMEOUT)
		source_status(&src, ret);
	return rc;
}

int berth_read(struct berth_sandbox *s, const char *id, enum berth_output stream, uint64_t offset,
	       void *buf, size_t cap, struct berth_read_result *ret, struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	struct berth_status status;
	struct record_read r;
	struct sink sink;
	int rc = check(s, id, err);

	if (rc < 0)
		return rc;
	if (stream != BERTH_STDOUT && stream != BERTH_STDERR)
		return berth_fail(err, BERTH_E_INVALID, "%d is no output stream", (int)stream);
	rc = source_open(&src, s, id, WIRE_KIND_EXECUTION, true, &status, err);
	if (rc > 0)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, status.message);
	sink_memory(&sink, buf, cap);
	if (rc == 0)
		rc = source_move(&src, (int)stream, offset, cap, &sink, &r, err);
	if (rc < 0)
		return rc;
	if (src.asleep) {
		r.eof = false;
		r.interrupted = true;
	}
	*ret = (struct berth_read_result){
		.offset = r.offset,
		.next_offset = r.next,
		.has_total = r.has_total,
		.total = r.total,
		.eof = r.eof,
		.truncated = r.truncated,
		.interrupted = r.interrupted,
		.has_gap = r.has_gap,
		.gap_from = r.gap_from,
		.gap_to = r.gap_to,
		.n = sink.n,
	};
	return 0;
}

/*
 * How long a supervisor may say nothing while it ends a tree. It answers then, whether the tree has
 * gone or not (one that cannot be killed yet is waited for, with another question); so a longer
 * silence is that of a supervisor which cannot answer: stopped by a signal, for one.
 */
static int64_t cancel_wait_ms(const struct source *src, int64_t grace_ms)
{
	int64_t ms = grace_ms >= 0
			     ? grace_ms
			     : wire_find_int(src->spec.p, src->spec.n, SK_GRACE_MS, SPEC_GRACE_MS);

	ms = MIN_OF(MAX_OF(ms, (int64_t)0), INT64_MAX / NS_PER_MS / 4) + KILL_MS;
	return src->road ? road_wait_ms(src->road, ms) : ms;
}

/* Ends one of either kind; also for sessions. */
int execution_cancel(struct berth_sandbox *s, const char *id, int kind, int64_t grace_ms,
		     struct berth_status *ret, struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	uint8_t buf[320];
	struct wire_slice payload = {0};
	struct wire_w w;
	int64_t wait_ms;
	int rc = source_open(&src, s, id, kind, false, ret, err);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	while (rc >= 0 && !record_final(&src.st)) {
		wait_ms = cancel_wait_ms(&src, grace_ms);
		wire_w_init(&w, buf, sizeof(buf));
		wire_w_str(&w, WK_ID, id);
		wire_w_int(&w, WK_KIND, kind);
		if (grace_ms >= 0)
			wire_w_int(&w, WK_GRACE_MS, grace_ms);
		wire_w_int(&w, WK_WAIT_MS, wait_ms);
		rc = source_ask(&src, WIRE_CANCEL, &w, deadline_from_ms(wait_ms + PATIENCE_MS),
				&payload, err);
		if (rc == 0)
			rc = src.direct ? source_refresh(&src, err)
					: source_take_reply(&src, payload, err);
	}
	if (rc < 0)
		return rc;
	source_status(&src, ret);
	return 0;
}

int berth_cancel(struct berth_sandbox *s, const char *id, int64_t grace_ms,
		 struct berth_status *ret, struct berth_error *err)
{
	int rc = check(s, id, err);

	if (rc == 0 && grace_ms < -1)
		rc = berth_fail(err, BERTH_E_INVALID, "the grace is negative");
	return rc < 0 ? rc : execution_cancel(s, id, WIRE_KIND_EXECUTION, grace_ms, ret, err);
}

int berth_signal(struct berth_sandbox *s, const char *id, int signo, struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	struct berth_status status;
	struct wire_slice payload = {0};
	uint8_t buf[320];
	struct wire_w w;
	int rc = check(s, id, err);

	if (rc == 0 && (signo < 1 || signo > 64))
		rc = berth_fail(err, BERTH_E_INVALID, "%d is no signal", signo);
	if (rc < 0)
		return rc;
	rc = source_open(&src, s, id, WIRE_KIND_EXECUTION, false, &status, err);
	if (rc > 0)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, status.message);
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_ID, id);
	wire_w_int(&w, WK_SIGNO, signo);
	if (rc == 0 && !record_final(&src.st))
		rc = source_ask(&src, WIRE_SIGNAL, &w, deadline_from_ms(30000), &payload, err);
	else if (rc == 0)
		rc = 1;
	return rc <= 0 ? rc : berth_fail(err, BERTH_E_CONFLICT, "execution \"%s\" has ended", id);
}

/* ── whole records ──────────────────────────────────────────────────────────────────────── */

/* What STATUS would answer, from the record itself. */
static void put_reply(const struct source *src, struct wire_w *w)
{
	const struct record *r = &src->rec;

	wire_w_str(w, WK_ID, src->id);
	wire_w_bytes(w, WK_LIVE, r->bytes, JOURNAL_FIRST);
	journal_put_entry(w, JOURNAL_STATE, r->j.state);
	journal_put_entry(w, JOURNAL_TERMINAL, r->j.terminal);
	wire_w_int(w, WK_HELD, r->facts.held);
	wire_w_int(w, WK_SAMEBOOT, r->facts.same_boot);
	wire_w_int(w, WK_SAMEINC, r->facts.same_incarnation);
	wire_w_int(w, WK_INITGONE, r->facts.init_gone);
	wire_w_bytes(w, WK_SPEC, r->j.spec.p, r->j.spec.n);
}

static int fetch_agent(struct source *src, uint8_t **ret, size_t *ret_n, struct berth_error *err)
{
	struct wire_slice payload = {0};
	struct road *road = NULL;
	uint8_t buf[256];
	struct wire_w w;
	int rc = source_road(src, &road, err);

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_ID, src->id);
	wire_w_int(&w, WK_KIND, src->kind);
	wire_w_int(&w, WK_WANT_ENV, 1);
	if (rc == 0)
		rc = road_ask(road, WIRE_STATUS, &w, deadline_from_ms(30000), &payload, err);
	if (rc < 0)
		return rc;
	*ret = mem_dup(payload.p, payload.n);
	*ret_n = payload.n;
	return *ret ? 0 : berth_fail_nomem(err);
}

int record_fetch(struct berth_sandbox *s, const char *id, int kind, uint8_t **ret, size_t *ret_n,
		 struct berth_error *err)
{
	auto(source) struct source src = SOURCE_INIT;
	struct berth_status status;
	struct wire_w w;
	uint8_t *p;
	int rc = source_open(&src, s, id, kind, true, &status, err);

	if (rc > 0)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, status.message);
	if (rc < 0)
		return rc;
	if (!src.direct)
		return fetch_agent(&src, ret, ret_n, err);
	wire_w_init(&w, NULL, 0);
	put_reply(&src, &w);
	p = mem_alloc(w.len);
	if (!p)
		return berth_fail_nomem(err);
	wire_w_init(&w, p, w.len);
	put_reply(&src, &w);
	*ret = p;
	*ret_n = w.len;
	return 0;
}
