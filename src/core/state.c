/* SPDX-License-Identifier: MIT */
/* The words of states and signals, and how a record's numbers become the public status. No I/O. */
#include <stdio.h>
#include <string.h>

#include <berth/berth.h>

#include "base/hex.h"
#include "base/text.h"
#include "core/record.h"
#include "loop/child.h"
#include "wire/spec.h"

static const char *const state_names[] = {
	[BERTH_STARTING] = "starting",   [BERTH_RUNNING] = "running",
	[BERTH_EXITED] = "exited",       [BERTH_CANCELLED] = "cancelled",
	[BERTH_TIMED_OUT] = "timed_out", [BERTH_RESOURCE_EXHAUSTED] = "resource_exhausted",
	[BERTH_FAILED] = "failed",       [BERTH_PROVIDER_UNAVAILABLE] = "provider_unavailable",
	[BERTH_UNKNOWN] = "unknown",
};

_Static_assert((int)BERTH_STARTING == (int)WIRE_S_STARTING &&
		       (int)BERTH_FAILED == (int)WIRE_S_FAILED &&
		       (int)BERTH_UNKNOWN == (int)WIRE_S_UNKNOWN,
	       "the wire's states are the public ones");

const char *berth_state_name(int state)
{
	return state > 0 && (size_t)state < ARRAY_LEN(state_names) ? state_names[state] : NULL;
}

const char *berth_sandbox_status_name(int status)
{
	static const char *const names[] = {
		[BERTH_SANDBOX_PENDING] = "pending",     [BERTH_SANDBOX_STARTING] = "starting",
		[BERTH_SANDBOX_RUNNING] = "running",     [BERTH_SANDBOX_STOPPING] = "stopping",
		[BERTH_SANDBOX_STOPPED] = "stopped",     [BERTH_SANDBOX_DESTROYING] = "destroying",
		[BERTH_SANDBOX_DESTROYED] = "destroyed", [BERTH_SANDBOX_ERROR] = "error",
	};

	return status > 0 && (size_t)status < ARRAY_LEN(names) ? names[status] : "error";
}

bool berth_state_terminal(int state)
{
	return wire_state_is_terminal(state);
}

const char *berth_signal_name(int signo)
{
	const char *name = signal_name(signo);

	return name ? name : "SIG?";
}

int berth_signal_number(const char *name)
{
	return signal_number(name);
}

void status_init(struct berth_status *ret, const char *id, enum berth_state state)
{
	memset(ret, 0, sizeof(*ret));
	ret->state = state;
	ret->exit_code = -1;
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->is_final = berth_state_terminal(state) || state == BERTH_UNKNOWN;
}

static void copy_slice(char *dst, size_t cap, struct wire_slice v)
{
	size_t n = MIN_OF(v.n, cap - 1);

	if (n)
		memcpy(dst, v.p, n);
	dst[n] = '\0';
}

/* Text from a record is somebody else's: one clean line. */
static void copy_line(char *dst, size_t cap, struct wire_slice v)
{
	char raw[JOURNAL_MESSAGE_MAX + 1];

	copy_slice(raw, sizeof(raw), v);
	text_one_line(dst, cap, raw, false);
}

static void copy_hash(char *dst, size_t cap, const uint8_t hash[16])
{
	char digits[33];

	snprintf(dst, cap, "xxh3-128:%s", hex_encode(hash, 16, digits));
}

static void from_spec(struct wire_slice spec, struct berth_status *ret)
{
	struct wire_slice v;

	if (wire_find(spec.p, spec.n, SK_MODE, &v) && wire_slice_is_text(v))
		copy_slice(ret->mode, sizeof(ret->mode), v);
	if (wire_find(spec.p, spec.n, SK_TREE, &v) && wire_slice_is_text(v))
		copy_slice(ret->artifact, sizeof(ret->artifact), v);
}

void status_from_record(const struct record_status *st, const char *id, struct wire_slice spec,
			struct berth_status *ret)
{
	status_init(ret, id, (enum berth_state)st->state);
	ret->exit_code = st->has_exit_code ? st->exit_code : -1;
	ret->signo = st->has_signal ? st->signo : 0;
	copy_line(ret->phase, sizeof(ret->phase), st->phase);
	copy_line(ret->resource, sizeof(ret->resource), st->resource);
	copy_line(ret->message, sizeof(ret->message), st->message);
	copy_line(ret->containment, sizeof(ret->containment), st->containment);
	copy_line(ret->view, sizeof(ret->view), st->view);
	if (st->state == WIRE_S_FAILED && st->stage.n == 4 && memcmp(st->stage.p, "exec", 4) == 0)
		ret->exec_errno = st->sys_errno;
	ret->limit = st->has_limit ? st->limit : 0;
	ret->started_ms = st->started_ms;
	ret->finished_ms = st->finished_ms;
	ret->has_usage = st->has_usage;
	ret->user_ms = st->user_ms;
	ret->system_ms = st->system_ms;
	ret->max_rss_bytes = st->max_rss;
	for (size_t i = 0; i < st->n_hits && i < BERTH_HITS_MAX; i++) {
		copy_line(ret->hits[i].name, sizeof(ret->hits[i].name), st->hits[i].name);
		ret->hits[i].count = st->hits[i].count;
		ret->n_hits = i + 1;
	}
	ret->stdout_bytes = st->out.length;
	ret->stderr_bytes = st->err.length;
	ret->has_hashes = st->has_hashes;
	if (st->has_hashes) {
		copy_hash(ret->stdout_hash, sizeof(ret->stdout_hash), st->out_hash);
		copy_hash(ret->stderr_hash, sizeof(ret->stderr_hash), st->err_hash);
	}
	from_spec(spec, ret);
}

/* ── STATUS replies ─────────────────────────────────────────────────────────────────────── */

/* A reply's parts as a journal. False when it is none. */
static bool reply_journal(struct wire_slice payload, struct journal *j, struct journal_facts *f,
			  bool init_is_life)
{
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;

	if (!wire_find(payload.p, payload.n, WK_LIVE, &v) || journal_from_head(v.p, v.n, j) < 0)
		return false;
	wire_r_init(&r, payload.p, payload.n);
	while (wire_r_next(&r, &key, &v)) {
		if (key == WK_ENTRY)
			journal_feed(j, v);
		else if (key == WK_SPEC)
			j->spec = v;
	}
	*f = (struct journal_facts){
		.held = wire_find_int(payload.p, payload.n, WK_HELD, 0) != 0,
		.same_boot = wire_find_int(payload.p, payload.n, WK_SAMEBOOT, 0) != 0,
		.same_incarnation = wire_find_int(payload.p, payload.n, WK_SAMEINC, 0) != 0,
		.init_is_life = init_is_life,
		.init_gone = wire_find_int(payload.p, payload.n, WK_INITGONE, 0) != 0,
	};
	return !r.bad;
}

int reply_decode(struct wire_slice payload, bool init_is_life, struct journal *ret_j,
		 struct record_status *ret, struct berth_error *err)
{
	struct journal_facts f;

	if (!reply_journal(payload, ret_j, &f, init_is_life))
		return berth_fail(err, BERTH_E_PROTOCOL, "the agent's answer holds no record");
	record_status(ret_j, &f, ret);
	return 0;
}

int status_from_reply(struct wire_slice payload, bool init_is_life, struct berth_status *ret,
		      struct berth_error *err)
{
	struct record_status st;
	struct journal j;
	struct wire_slice v = {NULL, 0};
	char id[BERTH_ID_MAX + 1];
	int rc = reply_decode(payload, init_is_life, &j, &st, err);

	if (rc < 0)
		return rc;
	(void)!wire_find(payload.p, payload.n, WK_ID, &v);
	copy_slice(id, sizeof(id), v);
	status_from_record(&st, id, j.spec, ret);
	return 0;
}

struct wire_slice reply_spec(struct wire_slice payload)
{
	struct journal_facts f;
	struct journal j;

	if (reply_journal(payload, &j, &f, false))
		return j.spec;
	return (struct wire_slice){NULL, 0};
}
