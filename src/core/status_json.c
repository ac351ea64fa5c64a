/* SPDX-License-Identifier: MIT */
/* The status object of the command line contract. The order of the keys is the order of that page.
 */
#include <berth/berth.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "base/time.h"

static void kv_text(struct json *j, const char *key, const char *value)
{
	if (*value)
		json_kv_str(j, key, value);
}

static void kv_time(struct json *j, const char *key, int64_t ms)
{
	char buf[TIME_RFC3339_SIZE];

	if (ms > 0)
		json_kv_str(j, key, format_rfc3339_ms(ms, buf));
}

/* What belongs to the state itself. */
static void put_extra(struct json *j, const struct berth_status *st)
{
	if (st->exit_code >= 0)
		json_kv_int(j, "exitCode", st->exit_code);
	if (st->signo > 0)
		json_kv_str(j, "signal", berth_signal_name(st->signo));
	kv_text(j, "phase", st->phase);
	kv_text(j, "resource", st->resource);
	if (st->state == BERTH_RESOURCE_EXHAUSTED && st->limit > 0)
		json_kv_int(j, "limit", st->limit);
	kv_text(j, "providerState", st->provider_state);
	kv_text(j, "message", st->message);
}

static void put_usage(struct json *j, const struct berth_status *st)
{
	if (st->has_usage) {
		json_kv_object(j, "usage");
		json_kv_int(j, "userMs", st->user_ms);
		json_kv_int(j, "systemMs", st->system_ms);
		json_kv_int(j, "maxRssBytes", st->max_rss_bytes);
		json_end(j);
	}
	if (st->n_hits) {
		json_kv_object(j, "limitsHit");
		for (size_t i = 0; i < st->n_hits; i++)
			json_kv_int(j, st->hits[i].name, st->hits[i].count);
		json_end(j);
	}
}

/* Is there a record behind this status? Answers without one know nothing of output. */
static bool has_record(const struct berth_status *st)
{
	return st->state != BERTH_PROVIDER_UNAVAILABLE &&
	       (st->started_ms || st->artifact[0] || st->has_hashes || st->containment[0]);
}

int berth_status_json(const char *sandbox, const struct berth_status *st, char **ret,
		      struct berth_error *err)
{
	auto(strbuf) struct strbuf buf = STRBUF_INIT(SMALL_FILE_MAX);
	const char *name = berth_state_name((int)st->state);
	struct json j = JSON_INIT(&buf);

	if (!name)
		return berth_fail(err, BERTH_E_INVALID, "%d is no state", (int)st->state);
	json_object(&j);
	json_kv_str(&j, "state", name);
	json_kv_str(&j, "executionId", st->id);
	json_kv_str(&j, "sandbox", sandbox);
	put_extra(&j, st);
	kv_text(&j, "mode", st->mode);
	kv_time(&j, "startedAt", st->started_ms);
	kv_time(&j, "finishedAt", st->finished_ms);
	put_usage(&j, st);
	if (has_record(st)) {
		json_kv_uint(&j, "stdoutBytes", st->stdout_bytes);
		json_kv_uint(&j, "stderrBytes", st->stderr_bytes);
	}
	if (st->has_hashes) {
		json_kv_str(&j, "stdoutHash", st->stdout_hash);
		json_kv_str(&j, "stderrHash", st->stderr_hash);
	}
	kv_text(&j, "containment", st->containment);
	kv_text(&j, "view", st->view);
	kv_text(&j, "artifact", st->artifact);
	json_end(&j);
	if (json_finish(&j) < 0)
		return berth_fail_nomem(err);
	*ret = strbuf_detach(&buf, NULL);
	return *ret ? 0 : berth_fail_nomem(err);
}
