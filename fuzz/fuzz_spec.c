/* SPDX-License-Identifier: MIT */
/*
 * A spec. What was accepted holds every promise of spec.h, checked here in other ways than spec.c
 * does; a copy without its environment is a spec again.
 */
#include "wire/spec.h"

#include <string.h>

#include "fuzz.h"

static bool is(struct wire_slice v, const char *s)
{
	return v.n == strlen(s) && memcmp(v.p, s, v.n) == 0;
}

/* The lowest depth that a walk along the path reaches; made of a copy with strtok. */
static bool inside(struct wire_slice path)
{
	char *copy = fuzz_alloc(path.n + 1), *save = NULL;
	int depth = 0, lowest = 0;
	bool absolute = path.n > 0 && path.p[0] == '/';

	if (path.n > 0)
		memcpy(copy, path.p, path.n);
	copy[path.n] = '\0';
	for (char *t = strtok_r(copy, "/", &save); t; t = strtok_r(NULL, "/", &save)) {
		depth += strcmp(t, ".") == 0 ? 0 : strcmp(t, "..") == 0 ? -1 : 1;
		lowest = depth < lowest ? depth : lowest;
	}
	free(copy);
	return path.n > 0 && !absolute && lowest == 0;
}

static void check_id(struct wire_slice id)
{
	static const char first[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

	MUST(id.n >= 1 && id.n <= 128 && id.p[0] && strchr(first, id.p[0]));
	for (size_t i = 1; i < id.n; i++)
		MUST(id.p[i] && (strchr(first, id.p[i]) || strchr("._-", id.p[i])));
}

static void check_digits(struct wire_slice v)
{
	char text[65];

	if (!v.p)
		return;
	MUST(v.n == 64);
	memcpy(text, v.p, 64);
	text[64] = '\0';
	MUST(strspn(text, "0123456789abcdef") == 64);
}

static void check_repeated(const struct spec *s)
{
	size_t cursor = 0, n = 0, bytes = 0;
	struct wire_slice v;

	for (; spec_next(s, SK_ARG, &cursor, &v); n++) {
		MUST(wire_slice_is_text(v) && (n > 0 || v.n > 0));
		bytes += v.n + 1;
	}
	MUST(n == s->n_args && n > 0 && bytes == s->args_bytes);
	for (cursor = 0, n = 0, bytes = 0; spec_next(s, SK_ENV, &cursor, &v); n++) {
		const uint8_t *eq = memchr(v.p, '=', v.n);

		MUST(wire_slice_is_text(v) && eq && eq > v.p);
		bytes += v.n + 1;
	}
	MUST(n == s->n_env && bytes == s->env_bytes);
	for (cursor = 0, n = 0; spec_next(s, SK_PART, &cursor, &v); n++)
		MUST(v.n > 33 && memchr(v.p, 0, v.n) == v.p + v.n - 33);
	MUST(n == s->n_parts);
}

static void check_fields(const struct spec *s)
{
	check_id(s->id);
	check_digits(s->tree);
	check_digits(s->layer);
	if (s->from.p)
		check_id(s->from);
	MUST(!s->mode.p || is(s->mode, "worker") || is(s->mode, "job"));
	MUST(s->workdir.n > 0 && wire_slice_is_text(s->workdir));
	MUST(s->kind == WIRE_KIND_EXECUTION || s->kind == WIRE_KIND_SESSION);
	MUST(s->kind == WIRE_KIND_SESSION || inside(s->workdir));
	MUST(s->input_kind >= 0 && s->input_kind <= 2);
	MUST((s->input_kind == SPEC_INPUT_FILE) == (s->input_path.p != NULL));
	MUST(!s->input_path.p || (wire_slice_is_text(s->input_path) && inside(s->input_path)));
	MUST(s->input_len >= 0 && (s->input_kind != SPEC_INPUT_NONE || s->input_len == 0));
	MUST(s->startup_ms > 0 && s->timeout_ms >= 0 && s->grace_ms >= 0);
	MUST(s->output_limit == -1 || s->output_limit > 0);
	MUST(s->tty_cols >= 0 && s->tty_cols <= 65535 && s->tty_rows >= 0 && s->tty_rows <= 65535);
}

static void check_copy(const struct spec *s, const uint8_t *data, size_t size)
{
	uint8_t *out = fuzz_alloc(size);
	const char *why = NULL;
	struct spec copy;
	struct wire_w w;

	wire_w_init(&w, out, size);
	spec_copy_without(&w, data, size, SK_ENV);
	MUST(wire_w_ok(&w) && spec_decode(out, w.len, &copy, &why) == 0);
	MUST(copy.n_env == 0 && copy.env_bytes == 0);
	MUST(w.len + s->env_bytes + 5 * s->n_env == size);
	MUST(copy.n_args == s->n_args && copy.args_bytes == s->args_bytes);
	MUST(copy.n_parts == s->n_parts && copy.id.n == s->id.n &&
	     copy.timeout_ms == s->timeout_ms);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *why = NULL;
	struct spec s;
	struct wire_slice path = {data, size};

	MUST(spec_path_inside(data, size) == (inside(path) && wire_slice_is_text(path)));
	if (spec_decode(data, size, &s, &why) < 0) {
		MUST(why && *why);
		return 0;
	}
	MUST(!why && s.raw.p == data && s.raw.n == size);
	check_repeated(&s);
	check_fields(&s);
	check_copy(&s, data, size);
	return 0;
}
