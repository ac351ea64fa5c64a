/* SPDX-License-Identifier: MIT */
/*
 * deploy.c: berth_deploy().
 *
 * Invariants: the request is checked whole, and input and artifact are read, before the sandbox is
 * even started; an artifact that changes while it is sent is read once more. It knows the order of
 * things; how each is done stands in launch.c, artifact.c, install.c and delivery.c.
 */
#include "core/deploy.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"
#include "base/random.h"
#include "core/install.h"

void berth_deploy_request_init(struct berth_deploy_request *req)
{
	*req = (struct berth_deploy_request){.size = sizeof(*req), .grace_ms = -1};
}

int check_duration(const char *what, int64_t ms, struct berth_error *err)
{
	if (ms < 0 || ms > DURATION_MAX_MS)
		return berth_fail(err, BERTH_E_INVALID, "the %s of %" PRId64 " ms is out of range",
				  what, ms);
	return 0;
}

static int check_limit(const char *what, int64_t v, int64_t max, struct berth_error *err)
{
	if (v < 0)
		return berth_fail(err, BERTH_E_INVALID, "the %s limit is negative", what);
	if (v > max)
		return berth_fail(err, BERTH_E_INVALID, "the %s limit of %" PRId64 " is too large",
				  what, v);
	return 0;
}

static int set_limits(struct launch *l, const struct berth_limits *q, struct berth_error *err)
{
	/* The largest that a spec can hold (wire/spec.c): found out before anything is started. */
	const struct {
		const char *what;
		int64_t v, max;
		int64_t *to;
	} limits[] = {
		{"memory", q->memory_bytes, INT64_MAX, &l->memory},
		{"pids", q->pids, INT64_MAX, &l->pids},
		{"cpus", q->cpus_milli, INT32_MAX, &l->cpus_milli},
		{"cpu time", q->cpu_time_ms, DURATION_MAX_MS, &l->cpu_time_ms},
		{"file size", q->file_size_bytes, INT64_MAX, &l->file_size},
		{"open files", q->open_files, INT32_MAX, &l->open_files},
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		int r = check_limit(limits[i].what, limits[i].v, limits[i].max, err);

		if (r < 0)
			return r;
		*limits[i].to = limits[i].v;
	}
	if (q->output_bytes < -1)
		return berth_fail(err, BERTH_E_INVALID, "the output limit is negative");
	if (q->output_bytes)
		l->output_limit = q->output_bytes;
	return 0;
}

static int set_times(struct launch *l, const struct berth_deploy_request *q,
		     struct berth_error *err)
{
	int r;

	if (q->startup_timeout_ms)
		l->startup_ms = q->startup_timeout_ms;
	if (q->grace_ms != -1)
		l->grace_ms = q->grace_ms;
	l->timeout_ms = q->timeout_ms;
	if ((r = check_duration("startup timeout", l->startup_ms, err)) < 0 ||
	    (r = check_duration("timeout", l->timeout_ms, err)) < 0 ||
	    (r = check_duration("grace", l->grace_ms, err)) < 0 ||
	    (r = check_duration("install timeout", q->install_timeout_ms, err)) < 0)
		return r;
	return 0;
}

static int check_names(const struct berth_deploy_request *q, struct berth_error *err)
{
	if (q->size < sizeof(*q))
		return berth_fail(err, BERTH_E_INVALID,
				  "the request was not made by berth_deploy_request_init()");
	if (!q->id || !valid_execution_id(q->id))
		return berth_fail(err, BERTH_E_INVALID,
				  "the execution id \"%s\" is not [A-Za-z0-9][A-Za-z0-9._-]{0,127}",
				  q->id ? q->id : "");
	if (q->mode && strcmp(q->mode, "worker") != 0 && strcmp(q->mode, "job") != 0)
		return berth_fail(err, BERTH_E_INVALID, "the mode \"%s\" is neither worker nor job",
				  q->mode);
	if (!q->dir || !*q->dir)
		return berth_fail(err, BERTH_E_INVALID, "the artifact directory is missing");
	if (q->install && strlen(q->install) >= ARG_STRING_MAX)
		return berth_fail(err, BERTH_E_INVALID,
				  "the install command is longer than the kernel takes");
	return 0;
}

static int fill_launch(struct launch *l, const struct berth_deploy_request *q,
		       struct berth_error *err)
{
	int r;

	if ((r = check_names(q, err)) < 0 || (r = launch_set_args(l, q->command, err)) < 0 ||
	    (r = set_times(l, q, err)) < 0 || (r = set_limits(l, &q->limits, err)) < 0 ||
	    (r = launch_set_workdir(l, q->workdir, err)) < 0)
		return r;
	for (size_t i = 0; q->env && q->env[i]; i++) {
		r = launch_set_env(l, q->env[i], err);
		if (r < 0)
			return r;
	}
	r = launch_check_sizes(l, err);
	if (r < 0)
		return r;
	l->id = q->id;
	l->mode = q->mode ? q->mode : "worker";
	l->record_env = !q->no_record_env;
	l->durable = !q->no_durable;
	random_bytes(l->salt, sizeof(l->salt));
	return launch_set_input(l, (int)q->input_kind, q->input_path, q->input, q->input_len,
				q->input_limit, err);
}

static void tell_hashing(void *arg, uint64_t done, uint64_t total)
{
	progress_bytes(arg, "hash", done, total);
}

static int load(struct berth_sandbox *s, const struct berth_deploy_request *q, struct progress *p,
		struct artifact **ret, struct berth_error *err)
{
	struct artifact_options o = {
		.modules = !q->install     ? ARTIFACT_MODULES_AUTO
			   : q->install[0] ? ARTIFACT_MODULES_LEAVE
					   : ARTIFACT_MODULES_KEEP,
		.state_dir = berth_state_dir(s->b),
		.progress = p->fn ? tell_hashing : NULL,
		.progress_arg = p,
	};

	return artifact_load(q->dir, &o, ret, err);
}

/* The command of the install that this artifact wants; NULL: none. */
static const char *install_command(const struct berth_deploy_request *q, const struct artifact *a)
{
	if (q->install)
		return q->install[0] ? q->install : NULL;
	return a->has_package_json ? INSTALL_DEFAULT : NULL;
}

static int name_layer(struct berth_sandbox *s, const struct artifact *a, struct launch *l,
		      char layer[SHA256_HEX + 1], struct berth_error *err)
{
	auto(install_facts) struct install_facts facts = {0};
	int r = install_facts_get(s, a->tree, &facts, err);

	if (r == 0)
		r = install_key(a, l->install, (struct wire_slice){facts.reply, facts.n}, layer,
				err);
	if (r == 0)
		r = install_key_alone((struct wire_slice){facts.reply, facts.n}, l->id, layer, err);
	if (r == 0)
		l->layer = layer;
	return r;
}

/* By links, too: what is wrong with a request is to be found before an id is taken. */
static int check_paths(const struct launch *l, const struct artifact *a, struct berth_error *err)
{
	if (l->workdir && !artifact_holds_path(a, l->workdir))
		return berth_fail(err, BERTH_E_INVALID,
				  "the working directory \"%s\" leaves the artifact by a link",
				  l->workdir);
	if (l->input_path && !artifact_holds_path(a, l->input_path))
		return berth_fail(err, BERTH_E_INVALID,
				  "the input path \"%s\" leaves the artifact by a link",
				  l->input_path);
	return 0;
}

/* One attempt with the artifact as it is now. */
static int deploy_once(struct berth_sandbox *s, const struct berth_deploy_request *q,
		       struct launch *l, struct berth_deploy_result *ret, struct berth_error *err)
{
	auto(artifact) struct artifact *a = NULL;
	struct progress progress = {q->progress, q->progress_arg};
	struct delivery d = {.s = s,
			     .l = l,
			     .install_timeout_ms = q->install_timeout_ms ? q->install_timeout_ms
									 : INSTALL_TIMEOUT_MS,
			     .progress = &progress};
	char layer[SHA256_HEX + 1];
	int r = load(s, q, &progress, &a, err);

	if (r == 0)
		r = check_paths(l, a, err);
	if (r < 0)
		return r;
	d.a = a;
	l->tree = a->tree;
	l->install = install_command(q, a);
	l->layer = NULL;
	if (l->install)
		r = name_layer(s, a, l, layer, err);
	if (r == 0)
		r = delivery_run(&d, ret, err);
	l->tree = l->layer = NULL;
	return r;
}

int berth_deploy(struct berth_sandbox *s, const struct berth_deploy_request *req,
		 struct berth_deploy_result *ret, struct berth_error *err)
{
	struct berth_error own = BERTH_ERROR_INIT;
	auto(launch) struct launch l;
	int r;

	if (!err)
		err = &own;
	launch_init(&l);
	if ((r = fill_launch(&l, req, err)) < 0 ||
	    (r = berth_sandbox_require(s, BERTH_CAP_EXECUTE, "worker deploys", err)) < 0)
		return r;
	r = deploy_once(s, req, &l, ret, err);
	if (r == DELIVERY_CHANGED)
		r = deploy_once(s, req, &l, ret, err);
	if (r != DELIVERY_CHANGED)
		return r;
	*ret = (struct berth_deploy_result){0};
	deploy_failed(&ret->status, req->id, "upload", err->message);
	return 0;
}
