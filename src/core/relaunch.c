/* SPDX-License-Identifier: MIT */
/*
 * relaunch.c: berth_relaunch(): a recorded request under a new id.
 *
 * Invariants: command, environment, workdir, artifact, install, limits and times come from the
 * record's spec; what is given replaces it. The recorded input never leaves the sandbox: the agent
 * copies it (SK_FROM), and its digest is taken over together with the salt that it was made with,
 * so that the new record can be compared with the same relaunch again. A variable whose value is
 * neither recorded nor given is an error, before anything is asked.
 */
#include "core/deploy.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "core/execution.h"
#include "core/install.h"

struct recorded {
	uint8_t *reply; /* of STATUS with WANT_ENV; everything below borrows from it */
	struct spec spec;
	char *tree, *layer, *install, *mode;
};

static void recorded_done(struct recorded *rec)
{
	free(rec->reply);
	free(rec->tree);
	free(rec->layer);
	free(rec->install);
	free(rec->mode);
}
BERTH_DEFINE_AUTO(recorded, struct recorded, recorded_done);

/* A copy of a slice as a string, NULL for an empty one. */
static int copy_slice(struct wire_slice v, char **ret, struct berth_error *err)
{
	if (!v.n)
		return 0;
	*ret = mem_strndup(v.p, v.n);
	return *ret ? 0 : berth_fail_nomem(err);
}

static int fetch(struct berth_sandbox *s, const char *id, struct recorded *rec,
		 struct berth_error *err)
{
	const char *why = NULL;
	struct wire_slice spec;
	size_t n;
	int r = record_fetch(s, id, WIRE_KIND_EXECUTION, &rec->reply, &n, err);

	if (r < 0)
		return r;
	spec = reply_spec((struct wire_slice){rec->reply, n});
	if (!spec.n || spec_decode(spec.p, spec.n, &rec->spec, &why) < 0)
		return berth_fail(err, BERTH_E_PRECONDITION,
				  "the record of \"%s\" has no spec that can be launched again",
				  id);
	if (!rec->spec.tree.n)
		return berth_fail(err, BERTH_E_PRECONDITION,
				  "the record of \"%s\" was not made from an artifact", id);
	if ((r = copy_slice(rec->spec.tree, &rec->tree, err)) < 0 ||
	    (r = copy_slice(rec->spec.layer, &rec->layer, err)) < 0 ||
	    (r = copy_slice(rec->spec.install, &rec->install, err)) < 0)
		return r;
	return copy_slice(rec->spec.mode, &rec->mode, err);
}

static int take_args(struct launch *l, const struct spec *spec, struct berth_error *err)
{
	struct wire_slice v;
	size_t cursor = 0;

	while (spec_next(spec, SK_ARG, &cursor, &v)) {
		int r = strv_addn(&l->args, (const char *)v.p, v.n);

		if (r < 0)
			return r == BERTH_E_NOMEM
				       ? berth_fail_nomem(err)
				       : berth_fail(err, r, "the recorded command is wrong");
	}
	return 0;
}

static int take_env(struct launch *l, const struct spec *spec, const char *const *given,
		    struct berth_error *err)
{
	struct wire_slice v;
	size_t cursor = 0;

	while (spec_next(spec, SK_ENV, &cursor, &v)) {
		auto_free char *kv = mem_strndup(v.p, v.n);
		int r = kv ? launch_set_env(l, kv, err) : berth_fail_nomem(err);

		if (kv)
			explicit_bzero(kv, v.n);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; given && given[i]; i++) {
		int r = launch_set_env(l, given[i], err);

		if (r < 0)
			return r;
	}
	return launch_check_sizes(l, err);
}

static bool has_name(const struct strv *env, struct wire_slice name)
{
	for (size_t i = 0; i < env->len; i++)
		if (strncmp(env->items[i], (const char *)name.p, name.n) == 0 &&
		    env->items[i][name.n] == '=')
			return true;
	return false;
}

/* Every recorded name must have got a value. */
static int check_env(const struct launch *l, const struct spec *spec, const char *id,
		     struct berth_error *err)
{
	auto(strbuf) struct strbuf missing = STRBUF_INIT(400);
	struct wire_slice v;
	size_t cursor = 0, n = 0;

	while (spec_next(spec, SK_ENV_NAME, &cursor, &v)) {
		if (has_name(&l->env, v))
			continue;
		n++;
		/* more names than fit a message: the first ones are named */
		if (strbuf_addf(&missing, "%s%.*s", n > 1 ? ", " : "",
				(int)MIN_OF(v.n, (size_t)128), (const char *)v.p) == BERTH_E_NOMEM)
			return berth_fail_nomem(err);
	}
	if (!n)
		return 0;
	berth_fail(err, BERTH_E_INVALID,
		   "the environment of \"%s\" was not recorded; give the values of: %s%s", id,
		   missing.data, strbuf_error(&missing) ? ", …" : "");
	berth_error_hint(err, "berth relaunch %s -e NAME=VALUE …", id);
	return BERTH_E_INVALID;
}

static int find_input_part(struct launch *l, const struct spec *spec, struct berth_error *err)
{
	static const char name[] = "input"; /* with its NUL */
	struct wire_slice v;
	size_t cursor = 0;

	while (spec_next(spec, SK_PART, &cursor, &v)) {
		if (v.n == sizeof(name) + SHA256_LEN && memcmp(v.p, name, sizeof(name)) == 0) {
			memcpy(l->input_part, v.p + sizeof(name), SHA256_LEN);
			l->input_part_known = true;
			return 0;
		}
	}
	return berth_fail(err, BERTH_E_PRECONDITION,
			  "the recorded request has no digest of its input");
}

static int take_input(struct launch *l, const struct spec *spec,
		      const struct berth_relaunch_request *q, struct berth_error *err)
{
	if (q->input_given)
		return launch_set_input(l, (int)q->input_kind, q->input_path, q->input,
					q->input_len, q->input_limit, err);
	if (spec->input_kind == SPEC_INPUT_NONE)
		return launch_set_input(l, SPEC_INPUT_NONE, NULL, NULL, 0, 0, err);
	l->input_kind = (int)spec->input_kind;
	l->input_len = (size_t)spec->input_len;
	l->from = q->id;
	if (spec->input_kind == SPEC_INPUT_FILE) {
		l->input_path = mem_strndup(spec->input_path.p, spec->input_path.n);
		if (!l->input_path)
			return berth_fail_nomem(err);
	}
	if (spec->salt.n != LAUNCH_SALT_LEN)
		return berth_fail(err, BERTH_E_PRECONDITION, "the recorded request has no digests");
	memcpy(l->salt, spec->salt.p, LAUNCH_SALT_LEN);
	return find_input_part(l, spec, err);
}

static void take_numbers(struct launch *l, const struct spec *spec)
{
	l->startup_ms = spec->startup_ms;
	l->timeout_ms = spec->timeout_ms;
	l->grace_ms = spec->grace_ms;
	l->output_limit = spec->output_limit;
	l->memory = spec->memory;
	l->pids = spec->pids;
	l->cpus_milli = spec->cpus_milli;
	l->cpu_time_ms = spec->cpu_time_ms;
	l->file_size = spec->file_size;
	l->open_files = spec->open_files;
	l->record_env = spec->record_env;
	l->durable = spec->durable;
}

static int fill(struct launch *l, const struct recorded *rec,
		const struct berth_relaunch_request *q, struct berth_error *err)
{
	const struct spec *spec = &rec->spec;
	auto_free char *workdir = NULL;
	int r;

	l->id = q->new_id;
	l->mode = rec->mode;
	l->tree = rec->tree;
	l->layer = rec->layer;
	l->install = rec->install;
	random_bytes(l->salt, sizeof(l->salt));
	take_numbers(l, spec);
	if ((r = copy_slice(spec->workdir, &workdir, err)) < 0 ||
	    (r = launch_set_workdir(l, workdir, err)) < 0 || (r = take_args(l, spec, err)) < 0 ||
	    (r = take_env(l, spec, q->env, err)) < 0 || (r = check_env(l, spec, q->id, err)) < 0)
		return r;
	return take_input(l, spec, q, err);
}

static int check(const struct berth_relaunch_request *q, struct berth_error *err)
{
	if (q->size < sizeof(*q))
		return berth_fail(err, BERTH_E_INVALID, "the request has no size");
	if (!q->id || !valid_execution_id(q->id) || !q->new_id || !valid_execution_id(q->new_id))
		return berth_fail(err, BERTH_E_INVALID,
				  "the execution id \"%s\" is not [A-Za-z0-9][A-Za-z0-9._-]{0,127}",
				  q->id && !valid_execution_id(q->id) ? q->id
				  : q->new_id                         ? q->new_id
								      : "");
	if (strcmp(q->id, q->new_id) == 0)
		return berth_fail(err, BERTH_E_INVALID,
				  "\"%s\" cannot be launched again under its own id", q->id);
	return 0;
}

int berth_relaunch(struct berth_sandbox *s, const struct berth_relaunch_request *req,
		   struct berth_deploy_result *ret, struct berth_error *err)
{
	auto(recorded) struct recorded rec = {0};
	auto(launch) struct launch l;
	struct delivery d = {.s = s, .l = &l, .install_timeout_ms = INSTALL_TIMEOUT_MS};
	struct berth_error own = BERTH_ERROR_INIT;
	int r;

	if (!err)
		err = &own;
	launch_init(&l);
	if ((r = check(req, err)) < 0 ||
	    (r = berth_sandbox_require(s, BERTH_CAP_EXECUTE, "worker deploys", err)) < 0 ||
	    (r = sandbox_ensure_started(s, err)) < 0 || (r = fetch(s, req->id, &rec, err)) < 0 ||
	    (r = fill(&l, &rec, req, err)) < 0)
		return r;
	return delivery_run(&d, ret, err);
}
