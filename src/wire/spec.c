/* SPDX-License-Identifier: MIT */
/*
 * spec.c: decoding and checking of what is to be run.
 *
 * Invariants: a spec that was decoded holds what spec.h promises, so nobody behind it checks again;
 * every field but the repeated ones is there at most once, so that no two readers can take
 * different ones for the truth; unknown keys are skipped. The table below is the only list of keys.
 *
 * Not here: whether the kernel's limits hold the arguments, digests, and whether paths exist.
 */
#include "wire/spec.h"

#include <string.h>

#define DURATION_MAX \
	(INT64_C(100) * 365 * 24 * 3600 * 1000) /* 100 years: sums of a few fit in ns */
#define HEX_DIGITS   64u
#define SALT_BYTES   16u
#define DIGEST_BYTES 32u

enum form { F_UNKNOWN = 0, F_INT, F_TEXT, F_BYTES, F_REPEATED };

/* For integers: the range. off: where the value goes in struct spec. */
struct field {
	uint8_t form;
	uint16_t off;
	int64_t min, max, dflt;
};

#define INT(member, lo, hi, d)                                        \
	{                                                             \
		F_INT, offsetof(struct spec, member), (lo), (hi), (d) \
	}
#define TEXT(member)                                           \
	{                                                      \
		F_TEXT, offsetof(struct spec, member), 0, 0, 0 \
	}
#define BYTES(member)                                           \
	{                                                       \
		F_BYTES, offsetof(struct spec, member), 0, 0, 0 \
	}
#define REPEATED                       \
	{                              \
		F_REPEATED, 0, 0, 0, 0 \
	}

static const struct field fields[] = {
	[SK_ID] = TEXT(id),
	[SK_KIND] = INT(kind, WIRE_KIND_EXECUTION, WIRE_KIND_SESSION, WIRE_KIND_EXECUTION),
	[SK_MODE] = TEXT(mode),
	[SK_ARG] = REPEATED,
	[SK_ENV] = REPEATED,
	[SK_ENV_NAME] = REPEATED,
	[SK_RECORD_ENV] = INT(record_env, 0, 1, 1),
	[SK_WORKDIR] = TEXT(workdir),
	[SK_INPUT_KIND] = INT(input_kind, SPEC_INPUT_NONE, SPEC_INPUT_FILE, SPEC_INPUT_NONE),
	[SK_INPUT_PATH] = TEXT(input_path),
	[SK_INPUT_LEN] = INT(input_len, 0, SPEC_INPUT_MAX, 0),
	[SK_TREE] = TEXT(tree),
	[SK_LAYER] = TEXT(layer),
	[SK_INSTALL] = TEXT(install),
	[SK_STARTUP_MS] = INT(startup_ms, 1, DURATION_MAX, SPEC_STARTUP_MS),
	[SK_TIMEOUT_MS] = INT(timeout_ms, 0, DURATION_MAX, 0),
	[SK_GRACE_MS] = INT(grace_ms, 0, DURATION_MAX, SPEC_GRACE_MS),
	[SK_MEMORY] = INT(memory, 0, INT64_MAX, 0),
	[SK_PIDS] = INT(pids, 0, INT64_MAX, 0),
	[SK_CPUS_MILLI] = INT(cpus_milli, 0, INT32_MAX, 0),
	[SK_CPU_TIME_MS] = INT(cpu_time_ms, 0, DURATION_MAX, 0),
	[SK_FILE_SIZE] = INT(file_size, 0, INT64_MAX, 0),
	[SK_OPEN_FILES] = INT(open_files, 0, INT32_MAX, 0),
	[SK_OUTPUT_LIMIT] = INT(output_limit, -1, INT64_MAX, SPEC_OUTPUT_LIMIT),
	[SK_DURABLE] = INT(durable, 0, 1, 1),
	[SK_SALT] = BYTES(salt),
	[SK_PART] = REPEATED,
	[SK_TTY_COLS] = INT(tty_cols, 0, UINT16_MAX, 0),
	[SK_TTY_ROWS] = INT(tty_rows, 0, UINT16_MAX, 0),
	[SK_STDIN_OPEN] = INT(stdin_open, 0, 1, 0),
	[SK_DETACH_MS] = INT(detach_ms, 0, DURATION_MAX, 0),
	[SK_FROM] = TEXT(from),
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))
_Static_assert(N_FIELDS <= 64, "one bit each in the set of keys that were seen");

static int64_t *int_at(struct spec *s, uint16_t off)
{
	return (int64_t *)(void *)((char *)s + off);
}

static struct wire_slice *slice_at(struct spec *s, uint16_t off)
{
	return (struct wire_slice *)(void *)((char *)s + off);
}

static bool slice_is(struct wire_slice v, const char *text)
{
	size_t n = strlen(text);

	return v.n == n && memcmp(v.p, text, n) == 0;
}

static bool is_hex(struct wire_slice v)
{
	if (v.n != HEX_DIGITS)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (!(v.p[i] >= '0' && v.p[i] <= '9') && !(v.p[i] >= 'a' && v.p[i] <= 'f'))
			return false;
	}
	return true;
}

static bool is_alnum(uint8_t c)
{
	uint8_t lower = c | 0x20;

	return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z');
}

bool spec_id_valid(const void *p, size_t n)
{
	const uint8_t *s = p;

	if (n == 0 || n > SPEC_ID_MAX || !is_alnum(s[0]))
		return false;
	for (size_t i = 1; i < n; i++) {
		if (!is_alnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-')
			return false;
	}
	return true;
}

/* The component at s[0..n): its length, without the slash. */
static size_t component(const uint8_t *s, size_t n)
{
	const uint8_t *slash = memchr(s, '/', n);

	return slash ? (size_t)(slash - s) : n;
}

bool spec_path_inside(const void *p, size_t n)
{
	const uint8_t *s = p;
	size_t depth = 0;

	if (n == 0 || s[0] == '/' || memchr(s, 0, n))
		return false;
	while (n > 0) {
		size_t len = component(s, n);

		if (len == 2 && s[0] == '.' && s[1] == '.') {
			if (depth-- == 0)
				return false;
		} else if (len > 0 && !(len == 1 && s[0] == '.')) {
			depth++;
		}
		len += len < n; /* the slash */
		s += len;
		n -= len;
	}
	return true;
}

/* Can the last component be a file's name? */
static bool names_file(struct wire_slice path)
{
	struct wire_slice last = path;

	while (last.n > 0) {
		size_t len = component(last.p, last.n);

		if (len == last.n)
			break;
		last.p += len + 1;
		last.n -= len + 1;
	}
	return last.n > 0 && !slice_is(last, ".") && !slice_is(last, "..");
}

static const char *take_env(struct spec *s, struct wire_slice v)
{
	if (!wire_slice_is_text(v))
		return "an environment variable holds a NUL byte";
	if (v.n == 0 || v.p[0] == '=' || !memchr(v.p, '=', v.n))
		return "an environment variable is not NAME=VALUE";
	s->n_env++;
	s->env_bytes += v.n + 1;
	return NULL;
}

static const char *take_arg(struct spec *s, struct wire_slice v)
{
	if (!wire_slice_is_text(v))
		return "an argument holds a NUL byte";
	if (s->n_args == 0 && v.n == 0)
		return "the command is empty";
	s->n_args++;
	s->args_bytes += v.n + 1;
	return NULL;
}

static const char *take_repeated(struct spec *s, uint16_t key, struct wire_slice v)
{
	const uint8_t *nul;

	switch (key) {
	case SK_ARG:
		return take_arg(s, v);
	case SK_ENV:
		return take_env(s, v);
	case SK_ENV_NAME:
		if (v.n == 0 || !wire_slice_is_text(v) || memchr(v.p, '=', v.n))
			return "the name of an environment variable is not valid";
		return NULL;
	default: /* SK_PART */
		nul = v.n > 0 ? memchr(v.p, 0, v.n) : NULL;
		if (!nul || nul == v.p || v.n - (size_t)(nul - v.p) - 1 != DIGEST_BYTES)
			return "a part of the request is malformed";
		s->n_parts++;
		return NULL;
	}
}

static const char *take(struct spec *s, uint64_t *seen, uint16_t key, struct wire_slice v)
{
	const struct field *f = key < N_FIELDS ? &fields[key] : &fields[0];
	int64_t i;

	if (f->form == F_UNKNOWN)
		return NULL;
	if (f->form == F_REPEATED)
		return take_repeated(s, key, v);
	if (*seen & UINT64_C(1) << key)
		return "a field is there twice";
	*seen |= UINT64_C(1) << key;
	if (f->form == F_INT) {
		if (!wire_slice_int(v, &i))
			return "a number does not have 8 bytes";
		if (i < f->min || i > f->max)
			return "a number is out of range";
		*int_at(s, f->off) = i;
		return NULL;
	}
	if (f->form == F_TEXT && !wire_slice_is_text(v))
		return "a text holds a NUL byte";
	*slice_at(s, f->off) = v;
	return NULL;
}

static const char *check_input(const struct spec *s)
{
	switch (s->input_kind) {
	case SPEC_INPUT_NONE:
		return s->input_len != 0 ? "a length without an input" : NULL;
	case SPEC_INPUT_FILE:
		if (!spec_path_inside(s->input_path.p, s->input_path.n) ||
		    !names_file(s->input_path))
			return "the input path is not inside the artifact";
		return NULL;
	default:
		return NULL;
	}
}

/* What concerns several fields, or is about their content. */
static const char *check(const struct spec *s)
{
	if (!spec_id_valid(s->id.p, s->id.n))
		return "the id is not valid";
	if (s->n_args == 0)
		return "the command is empty";
	if (s->mode.p && !slice_is(s->mode, "worker") && !slice_is(s->mode, "job"))
		return "the mode is neither worker nor job";
	if (s->tree.p && !is_hex(s->tree))
		return "the tree is not 64 hex digits";
	if (s->layer.p && !is_hex(s->layer))
		return "the layer is not 64 hex digits";
	if (s->install.p && s->install.n == 0)
		return "the install command is empty";
	if (s->salt.p && s->salt.n != SALT_BYTES)
		return "the salt does not have 16 bytes";
	if (s->from.p && !spec_id_valid(s->from.p, s->from.n))
		return "the id of the record to take the input from is not valid";
	if (s->output_limit == 0)
		return "the output limit is 0";
	if (s->workdir.n == 0)
		return "the working directory is empty";
	if (s->kind == WIRE_KIND_EXECUTION && !spec_path_inside(s->workdir.p, s->workdir.n))
		return "the working directory is not inside the artifact";
	if (s->input_path.p && s->input_kind != SPEC_INPUT_FILE)
		return "an input path without an input file";
	return check_input(s);
}

int spec_decode(const void *p, size_t n, struct spec *ret, const char **ret_why)
{
	struct spec s = {.raw = {p, n}, .workdir = {(const uint8_t *)".", 1}};
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;
	uint64_t seen = 0;
	const char *why = NULL;

	for (size_t i = 0; i < N_FIELDS; i++) {
		if (fields[i].form == F_INT)
			*int_at(&s, fields[i].off) = fields[i].dflt;
	}
	wire_r_init(&r, p, n);
	while (!why && wire_r_next(&r, &key, &v))
		why = take(&s, &seen, key, v);
	if (!why)
		why = r.bad ? "the fields are cut off" : check(&s);
	if (why) {
		*ret_why = why;
		return -1;
	}
	*ret = s;
	return 0;
}

bool spec_next(const struct spec *s, uint16_t key, size_t *cursor, struct wire_slice *ret)
{
	struct wire_r r;
	struct wire_slice v;
	uint16_t k;

	wire_r_init(&r, s->raw.p + *cursor, s->raw.n - *cursor);
	while (wire_r_next(&r, &k, &v)) {
		*cursor = s->raw.n - r.n;
		if (k == key) {
			*ret = v;
			return true;
		}
	}
	return false;
}

void spec_copy_without(struct wire_w *w, const void *p, size_t n, uint16_t key)
{
	struct wire_r r;
	struct wire_slice v;
	uint16_t k;

	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &k, &v)) {
		if (k != key)
			wire_w_bytes(w, k, v.p, v.n);
	}
}
