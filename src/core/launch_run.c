/* SPDX-License-Identifier: MIT */
/*
 * launch_run.c: asking for a launch until there is an answer.
 *
 * Invariants: every attempt carries the same id, so at most one of them reserves it; the others are
 * told EXISTED and launch nothing. Only a broken stream is followed by another attempt; an ERROR of
 * the agent and a passed deadline are answers. What an existing record is compared with is the
 * digests in it, never a guess.
 */
#include "core/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "core/execution.h"

/* Streams that may break before we give up: the sandbox is then in no state to be asked. */
#define ATTEMPTS 3
/* Input that does not move for so long will not. */
#define STALL_MS 60000

struct asking {
	struct berth_sandbox *s;
	const struct launch *l;
	const uint8_t *spec;
	size_t spec_n;
	bool init_is_life;
	bool lost; /* the stream broke; what was asked may have been done */
	struct berth_status *ret;
	bool *ret_existed;
	struct berth_error *err;
};

static int no_answer(struct asking *a)
{
	berth_fail(a->err, BERTH_E_TIMEOUT,
		   "no answer to the launch of \"%s\" within %lld ms; it may be running", a->l->id,
		   (long long)(a->l->startup_ms + LAUNCH_SLACK_MS));
	berth_error_hint(a->err, "berth status %s", a->l->id);
	return BERTH_E_TIMEOUT;
}

static int send_launch(struct asking *a, struct road *road)
{
	const struct launch *l = a->l;
	uint8_t *buf = mem_alloc(a->spec_n + 64);
	struct wire_w w;
	int r;

	if (!buf)
		return berth_fail_nomem(a->err);
	wire_w_init(&w, buf, a->spec_n + 64);
	wire_w_bytes(&w, WK_SPEC, a->spec, a->spec_n);
	r = road_request(road, WIRE_LAUNCH, &w, a->err);
	launch_free_spec(buf, w.len);
	if (r < 0 || l->input_kind == SPEC_INPUT_NONE || l->from)
		return r;
	road->send_deadline = deadline_from_ms(STALL_MS);
	r = road_data(road, l->input, l->input_len, a->err);
	return r < 0 ? r : road_end(road, NULL, a->err);
}

static int refused(struct asking *a, const struct road *road, int r)
{
	if (road->error.code != WIRE_E_PRECONDITION)
		return r;
	if (strcmp(road->error.need, "tree") == 0)
		return LAUNCH_NEEDS_TREE;
	if (strcmp(road->error.need, "layer") == 0)
		return LAUNCH_NEEDS_LAYER;
	if (strcmp(road->error.need, "input") == 0)
		return LAUNCH_NEEDS_INPUT;
	return r;
}

/* The record of somebody else's (or our own, earlier) launch: `starting` is waited for. */
static int wait_started(struct asking *a, struct road *road, int64_t deadline)
{
	while (a->ret->state == BERTH_STARTING) {
		struct wire_slice reply;
		uint8_t buf[512];
		struct wire_w w;
		int64_t wait = road_wait_ms(road, -1);
		int r;

		if (now_mono_ns() >= deadline)
			return no_answer(a);
		wire_w_init(&w, buf, sizeof(buf));
		wire_w_str(&w, WK_ID, a->l->id);
		wire_w_int(&w, WK_KNOWN_OUT, (int64_t)a->ret->stdout_bytes);
		wire_w_int(&w, WK_KNOWN_ERR, (int64_t)a->ret->stderr_bytes);
		wire_w_int(&w, WK_KNOWN_STATE, WIRE_S_STARTING);
		if (wait >= 0)
			wire_w_int(&w, WK_WAIT_MS, wait);
		r = road_ask(road, WIRE_WATCH, &w, deadline, &reply, a->err);
		if (r == BERTH_E_TIMEOUT && !road->error.remote)
			return no_answer(a);
		if (r == 0)
			r = status_from_reply(reply, a->init_is_life, a->ret, a->err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_reply(struct asking *a, struct road *road, struct wire_slice reply,
		      int64_t deadline)
{
	bool existed = wire_find_int(reply.p, reply.n, WK_EXISTED, 0);
	const char *text = NULL;
	struct wire_slice spec;
	int r;

	if (existed) {
		spec = reply_spec(reply);
		r = launch_compare(a->l, spec, &text, a->err);
		if (r > 0)
			return berth_fail(a->err, BERTH_E_CONFLICT,
					  "execution \"%s\" exists with %s", a->l->id, text);
		if (r < 0)
			return r;
	}
	r = status_from_reply(reply, a->init_is_life, a->ret, a->err);
	if (r < 0)
		return r;
	*a->ret_existed = existed;
	return wait_started(a, road, deadline);
}

static int attempt(struct asking *a)
{
	auto(road) struct road *road = NULL;
	struct wire_slice reply;
	int64_t deadline;
	int r = road_get(a->s, ROAD_START, &road, a->err);

	a->lost = false;
	if (r < 0)
		return r;
	r = send_launch(a, road);
	if (r == 0)
		r = road_flush(road, deadline_from_ms(STALL_MS), a->err);
	deadline = deadline_from_ms(a->l->startup_ms + LAUNCH_SLACK_MS);
	if (r == 0)
		r = road_final(road, deadline, &reply, a->err);
	if (r == 0)
		r = take_reply(a, road, reply, deadline);
	else if (road->error.remote)
		r = refused(a, road, r);
	else if (r == BERTH_E_TIMEOUT)
		r = no_answer(a);
	a->lost = r == BERTH_E_UNAVAILABLE && road->broken && !road->error.remote;
	return r;
}

int launch_run(struct berth_sandbox *s, const struct launch *l, bool init_is_life,
	       struct berth_status *ret, bool *ret_existed, struct berth_error *err)
{
	struct berth_status status = {0};
	bool existed = false, maybe = false;
	struct asking a = {.s = s,
			   .l = l,
			   .init_is_life = init_is_life,
			   .ret = &status,
			   .ret_existed = &existed,
			   .err = err};
	uint8_t *spec = NULL;
	int r = launch_encode(l, &spec, &a.spec_n, err);

	a.spec = spec;
	for (int i = 0; r == 0 && i < ATTEMPTS; i++) {
		r = attempt(&a);
		if (!a.lost)
			break;
		maybe = true;
		if (i + 1 < ATTEMPTS)
			r = 0;
	}
	launch_free_spec(spec, a.spec_n);
	if (r == BERTH_E_UNAVAILABLE && maybe)
		berth_error_hint(err, "it may be running: berth status %s", l->id);
	if (r == LAUNCH_DONE) {
		/* The reply to a launch does not repeat what was asked. */
		if (!status.mode[0] && l->mode)
			snprintf(status.mode, sizeof(status.mode), "%s", l->mode);
		if (!status.artifact[0] && l->tree)
			snprintf(status.artifact, sizeof(status.artifact), "%s", l->tree);
		*ret = status;
		*ret_existed = existed;
	}
	return r;
}
