/* SPDX-License-Identifier: MIT */
/*
 * launch.c: a request made of checked parts, its digests and its spec.
 *
 * Invariants: everything is checked before the first byte goes anywhere; no message has an
 * environment value, an argument's text or input in it (names and positions only). A part's digest
 * is SHA-256(salt, name, NUL, value), so that a record gives nothing of a value away and two
 * records cannot be compared with each other. Values have one form: env sorted and without doubles,
 * paths in normal form, numbers as 8 bytes. Talking to the agent is launch_run.c's.
 */
#include "core/launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/path.h"

/* The kernel's limit for argv and envp together is a quarter of the stack's, 8 MiB where nobody
 * changed it; each string costs a pointer. */
#define EXEC_TOTAL_MAX (2u * 1024 * 1024)
/* What the sandbox adds: its own environment, the program's path, the auxiliary vector. */
#define EXEC_TOTAL_RESERVE (32u * 1024)

static const struct {
	const char *name, *other;
} parts[LAUNCH_PARTS] = {
#define LAUNCH_PART_ROW_(id, part_name, part_other) [LAUNCH_PART_##id] = {part_name, part_other},
	LAUNCH_PART_MAP(LAUNCH_PART_ROW_)
#undef LAUNCH_PART_ROW_
};

void launch_init(struct launch *l)
{
	*l = (struct launch){
		.startup_ms = SPEC_STARTUP_MS,
		.grace_ms = SPEC_GRACE_MS,
		.output_limit = SPEC_OUTPUT_LIMIT,
		.record_env = true,
		.durable = true,
	};
	strv_init(&l->args, ARG_COUNT_MAX);
	strv_init(&l->env, ARG_COUNT_MAX);
}

void launch_done(struct launch *l)
{
	for (size_t i = 0; i < l->env.len; i++)
		explicit_bzero(l->env.items[i], strlen(l->env.items[i]));
	strv_done(&l->args);
	strv_done(&l->env);
	free(l->workdir);
	free(l->input_path);
}

static int fail_strv(int r, const char *what, struct berth_error *err)
{
	if (r == BERTH_E_NOMEM)
		return berth_fail_nomem(err);
	return berth_fail(err, BERTH_E_INVALID, "more than %d %s", ARG_COUNT_MAX, what);
}

int launch_set_args(struct launch *l, const char *const *command, struct berth_error *err)
{
	if (!command || !command[0] || !command[0][0])
		return berth_fail(err, BERTH_E_INVALID, "the command is empty");
	if (strpbrk(command[0], "\r\n"))
		return berth_fail(err, BERTH_E_INVALID, "the command has a line break in it");
	for (size_t i = 0; command[i]; i++) {
		size_t n = strlen(command[i]);
		int r;

		if (n >= ARG_STRING_MAX)
			return berth_fail(err, BERTH_E_INVALID,
					  "%s%zu is %zu bytes long; the kernel takes at most %d in "
					  "one argument",
					  i ? "argument " : "the command, argument ", i, n,
					  ARG_STRING_MAX - 1);
		r = strv_add(&l->args, command[i]);
		if (r < 0)
			return fail_strv(r, "arguments", err);
	}
	return 0;
}

int launch_set_env(struct launch *l, const char *key_value, struct berth_error *err)
{
	const char *eq = strchr(key_value, '=');
	size_t name = eq ? (size_t)(eq - key_value) : strlen(key_value), n = strlen(key_value);
	int r;

	/* What stands in the place of a name may be a value that was quoted badly: it is not shown.
	 */
	if (!eq || !valid_env_name(key_value, name))
		return berth_fail(
			err, BERTH_E_INVALID,
			"an environment variable is not NAME=VALUE with a name of letters, "
			"digits and _");
	if (n >= ARG_STRING_MAX)
		return berth_fail(err, BERTH_E_INVALID,
				  "environment variable %.*s is %zu bytes long with its name; the "
				  "kernel takes at most %d",
				  (int)MIN_OF(name, (size_t)200), key_value, n, ARG_STRING_MAX - 1);
	r = strv_add(&l->env, key_value);
	return r < 0 ? fail_strv(r, "environment variables", err) : 0;
}

static size_t name_len(const char *kv)
{
	return strcspn(kv, "=");
}

struct numbered {
	char *kv;
	size_t at;
};

/* By name, then by position: the last of a name stands last. */
static int cmp_numbered(const void *pa, const void *pb)
{
	const struct numbered *a = pa, *b = pb;
	size_t na = name_len(a->kv), nb = name_len(b->kv);
	int r = memcmp(a->kv, b->kv, MIN_OF(na, nb));

	if (r == 0)
		r = (na > nb) - (na < nb);
	return r ? r : (a->at > b->at) - (a->at < b->at);
}

static int sort_env(struct strv *env, struct berth_error *err)
{
	auto_free struct numbered *v = NULL;
	size_t n = env->len, kept = 0;

	if (n == 0)
		return 0;
	v = mem_reallocarray(NULL, n, sizeof(*v));
	if (!v)
		return berth_fail_nomem(err);
	for (size_t i = 0; i < n; i++)
		v[i] = (struct numbered){env->items[i], i};
	qsort(v, n, sizeof(*v), cmp_numbered);
	for (size_t i = 0; i < n; i++) {
		size_t len = name_len(v[i].kv);
		bool again = i + 1 < n && name_len(v[i + 1].kv) == len &&
			     memcmp(v[i].kv, v[i + 1].kv, len) == 0;

		if (again) {
			explicit_bzero(v[i].kv, strlen(v[i].kv));
			free(v[i].kv);
		} else {
			env->items[kept++] = v[i].kv;
		}
	}
	env->items[kept] = NULL;
	env->len = kept;
	return 0;
}

static size_t total_bytes(const struct strv *v)
{
	size_t total = 0;

	for (size_t i = 0; i < v->len; i++)
		total += strlen(v->items[i]) + 1 + sizeof(char *);
	return total;
}

int launch_check_sizes(struct launch *l, struct berth_error *err)
{
	int r = sort_env(&l->env, err);
	size_t args = total_bytes(&l->args), env = total_bytes(&l->env);

	if (r < 0)
		return r;
	if (args + env > EXEC_TOTAL_MAX - EXEC_TOTAL_RESERVE)
		return berth_fail(err, BERTH_E_INVALID,
				  "arguments (%zu bytes) and environment (%zu bytes) together are "
				  "more than the kernel takes (%u)",
				  args, env, EXEC_TOTAL_MAX - EXEC_TOTAL_RESERVE);
	return 0;
}

int launch_set_workdir(struct launch *l, const char *rel, struct berth_error *err)
{
	if (!rel)
		rel = ".";
	if (!path_stays_inside(rel))
		return berth_fail(err, BERTH_E_INVALID,
				  "the working directory \"%s\" leaves the artifact", rel);
	free(l->workdir);
	l->workdir = path_normalize(rel);
	return l->workdir ? 0 : berth_fail_nomem(err);
}

static int check_input_path(struct launch *l, const char *path, struct berth_error *err)
{
	size_t n = path ? strlen(path) : 0;

	if (!n)
		return berth_fail(err, BERTH_E_INVALID, "the input file has no path");
	if (!path_stays_inside(path))
		return berth_fail(err, BERTH_E_INVALID, "the input path \"%s\" leaves the artifact",
				  path);
	l->input_path = path_normalize(path);
	if (!l->input_path)
		return berth_fail_nomem(err);
	if (strcmp(l->input_path, ".") == 0 || path[n - 1] == '/')
		return berth_fail(err, BERTH_E_INVALID, "the input path \"%s\" names a directory",
				  path);
	return 0;
}

int launch_set_input(struct launch *l, int kind, const char *path, const void *bytes, size_t len,
		     int64_t limit, struct berth_error *err)
{
	int r = 0;

	if (kind < SPEC_INPUT_NONE || kind > SPEC_INPUT_FILE)
		return berth_fail(err, BERTH_E_INVALID, "%d is no kind of input", kind);
	if (limit == 0)
		limit = INPUT_DEFAULT_MAX;
	if (limit < 0 || limit > INPUT_MAX)
		return berth_fail(err, BERTH_E_INVALID, "the input limit must be 1 to %ld bytes",
				  INPUT_MAX);
	if (kind == SPEC_INPUT_NONE)
		return 0;
	if (len > (size_t)limit)
		return berth_fail(err, BERTH_E_INVALID,
				  "the input is %zu bytes long, more than the limit of %" PRId64,
				  len, limit);
	if (kind == SPEC_INPUT_FILE)
		r = check_input_path(l, path, err);
	if (r == 0)
		r = sha256_bytes(bytes ? bytes : "", len, l->input_sha, err);
	if (r < 0)
		return r;
	l->input_kind = kind;
	l->input = bytes;
	l->input_len = len;
	return 0;
}

/* ── digests ────────────────────────────────────────────────────────────────────────────── */

static void add_u64(struct sha256 *h, uint64_t v)
{
	uint8_t b[8];

	wire_put_u64(b, v);
	sha256_add(h, b, sizeof(b));
}

/* A string so that no two lists of strings are the same bytes. NULL differs from "". */
static void add_string(struct sha256 *h, const char *s)
{
	add_u64(h, s ? strlen(s) + 1 : 0);
	if (s)
		sha256_add(h, s, strlen(s));
}

static void add_input(struct sha256 *h, const struct launch *l)
{
	add_u64(h, (uint64_t)l->input_kind);
	if (l->input_kind == SPEC_INPUT_FILE)
		add_string(h, l->input_path);
	if (l->input_kind != SPEC_INPUT_NONE)
		sha256_add(h, l->input_sha, SHA256_LEN);
}

static void add_limits(struct sha256 *h, const struct launch *l)
{
	const int64_t v[] = {l->memory,      l->pids,      l->cpus_milli,
			     l->cpu_time_ms, l->file_size, l->open_files};

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		add_u64(h, (uint64_t)v[i]);
}

static void add_value(struct sha256 *h, const struct launch *l, enum launch_part part)
{
	switch (part) {
	case LAUNCH_PART_ARTIFACT:
		add_string(h, l->tree);
		break;
	case LAUNCH_PART_COMMAND:
		add_string(h, l->args.items[0]);
		break;
	case LAUNCH_PART_ARGS:
		for (size_t i = 1; i < l->args.len; i++)
			add_string(h, l->args.items[i]);
		break;
	case LAUNCH_PART_ENV:
		for (size_t i = 0; i < l->env.len; i++)
			add_string(h, l->env.items[i]);
		break;
	case LAUNCH_PART_WORKDIR:
		add_string(h, l->workdir);
		break;
	case LAUNCH_PART_INPUT:
		add_input(h, l);
		break;
	case LAUNCH_PART_INSTALL:
		add_string(h, l->install);
		break;
	case LAUNCH_PART_TIMEOUT:
		add_u64(h, (uint64_t)l->timeout_ms);
		break;
	case LAUNCH_PART_GRACE:
		add_u64(h, (uint64_t)l->grace_ms);
		break;
	case LAUNCH_PART_LIMITS:
		add_limits(h, l);
		break;
	case LAUNCH_PART_OUTPUT_LIMIT:
		add_u64(h, (uint64_t)l->output_limit);
		break;
	case LAUNCH_PARTS:
		break;
	}
}

int launch_part_digest(const struct launch *l, enum launch_part part,
		       const uint8_t salt[LAUNCH_SALT_LEN], uint8_t ret[SHA256_LEN],
		       struct berth_error *err)
{
	struct sha256 h;
	int r;

	if (part == LAUNCH_PART_INPUT && l->input_part_known) {
		memcpy(ret, l->input_part, SHA256_LEN);
		return 0;
	}
	if ((r = sha256_load(err)) < 0 || (r = sha256_begin(&h, err)) < 0)
		return r;
	sha256_add(&h, salt, LAUNCH_SALT_LEN);
	sha256_add(&h, parts[part].name, strlen(parts[part].name) + 1);
	add_value(&h, l, part);
	sha256_end(&h, ret);
	return 0;
}

/* The recorded digest of a part by its name; NULL when there is none. */
static const uint8_t *recorded_part(struct wire_slice spec, const char *name)
{
	size_t n = strlen(name) + 1;
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;

	wire_r_init(&r, spec.p, spec.n);
	while (wire_r_next(&r, &key, &v)) {
		if (key == SK_PART && v.n == n + SHA256_LEN && memcmp(v.p, name, n) == 0)
			return v.p + n;
	}
	return NULL;
}

int launch_compare(const struct launch *l, struct wire_slice spec, const char **ret_text,
		   struct berth_error *err)
{
	struct wire_slice salt;

	if (!wire_find(spec.p, spec.n, SK_SALT, &salt) || salt.n != LAUNCH_SALT_LEN) {
		*ret_text = "another request"; /* made by something that keeps no digests */
		return 1;
	}
	for (unsigned i = 0; i < LAUNCH_PARTS; i++) {
		const uint8_t *recorded = recorded_part(spec, parts[i].name);
		uint8_t own[SHA256_LEN];
		int r = launch_part_digest(l, i, salt.p, own, err);

		if (r < 0)
			return r;
		if (!recorded || memcmp(recorded, own, SHA256_LEN) != 0) {
			*ret_text = parts[i].other;
			return 1;
		}
	}
	return 0;
}

/* ── the spec ───────────────────────────────────────────────────────────────────────────── */

struct digests {
	uint8_t of[LAUNCH_PARTS][SHA256_LEN];
};

static void put_limits(struct wire_w *w, const struct launch *l)
{
	const struct {
		uint16_t key;
		int64_t v;
	} limits[] = {
		{SK_MEMORY, l->memory},         {SK_PIDS, l->pids},
		{SK_CPUS_MILLI, l->cpus_milli}, {SK_CPU_TIME_MS, l->cpu_time_ms},
		{SK_FILE_SIZE, l->file_size},   {SK_OPEN_FILES, l->open_files},
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (limits[i].v)
			wire_w_int(w, limits[i].key, limits[i].v);
	wire_w_int(w, SK_OUTPUT_LIMIT, l->output_limit);
}

static void put_env(struct wire_w *w, const struct launch *l)
{
	for (size_t i = 0; i < l->env.len; i++)
		wire_w_str(w, SK_ENV, l->env.items[i]);
	for (size_t i = 0; i < l->env.len; i++)
		wire_w_bytes(w, SK_ENV_NAME, l->env.items[i], name_len(l->env.items[i]));
	if (!l->record_env)
		wire_w_int(w, SK_RECORD_ENV, 0);
}

static void put_input(struct wire_w *w, const struct launch *l)
{
	if (l->input_kind == SPEC_INPUT_NONE)
		return;
	wire_w_int(w, SK_INPUT_KIND, l->input_kind);
	wire_w_str(w, SK_INPUT_PATH, l->input_path);
	wire_w_int(w, SK_INPUT_LEN, (int64_t)l->input_len);
	wire_w_str(w, SK_FROM, l->from);
}

static void put_spec(struct wire_w *w, const struct launch *l, const struct digests *d)
{
	wire_w_str(w, SK_ID, l->id);
	wire_w_str(w, SK_MODE, l->mode);
	for (size_t i = 0; i < l->args.len; i++)
		wire_w_str(w, SK_ARG, l->args.items[i]);
	put_env(w, l);
	wire_w_str(w, SK_WORKDIR, l->workdir);
	put_input(w, l);
	wire_w_str(w, SK_TREE, l->tree);
	wire_w_str(w, SK_LAYER, l->layer);
	wire_w_str(w, SK_INSTALL, l->install);
	wire_w_int(w, SK_STARTUP_MS, l->startup_ms);
	wire_w_int(w, SK_TIMEOUT_MS, l->timeout_ms);
	wire_w_int(w, SK_GRACE_MS, l->grace_ms);
	put_limits(w, l);
	if (!l->durable)
		wire_w_int(w, SK_DURABLE, 0);
	wire_w_bytes(w, SK_SALT, l->salt, LAUNCH_SALT_LEN);
	for (unsigned i = 0; i < LAUNCH_PARTS; i++) {
		uint8_t v[32 + SHA256_LEN];
		size_t n = strlen(parts[i].name) + 1;

		memcpy(v, parts[i].name, n);
		memcpy(v + n, d->of[i], SHA256_LEN);
		wire_w_bytes(w, SK_PART, v, n + SHA256_LEN);
	}
}

int launch_encode(const struct launch *l, uint8_t **ret, size_t *ret_n, struct berth_error *err)
{
	struct digests d = {0};
	struct wire_w w;
	uint8_t *p;

	for (unsigned i = 0; i < LAUNCH_PARTS; i++) {
		int r = launch_part_digest(l, i, l->salt, d.of[i], err);

		if (r < 0)
			return r;
	}
	wire_w_init(&w, NULL, 0);
	put_spec(&w, l, &d);
	p = mem_alloc(w.len);
	if (!p)
		return berth_fail_nomem(err);
	wire_w_init(&w, p, w.len);
	put_spec(&w, l, &d);
	*ret = p;
	*ret_n = w.len;
	return 0;
}

void launch_free_spec(uint8_t *p, size_t n)
{
	if (p)
		explicit_bzero(p, n);
	free(p);
}
