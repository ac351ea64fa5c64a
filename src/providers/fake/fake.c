/* SPDX-License-Identifier: MIT */
/*
 * The fake provider: parses the script, counts calls, and lets the local provider do the work. What
 * the script means stands in fake.h. It holds no policy of its own and never fails unasked.
 */
#include "providers/fake/fake.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "base/text.h"

/* The driver behind: only through its table, as core would. */
extern const struct berth_provider_ops berth_provider_local;
static const struct berth_provider_ops *const inner = &berth_provider_local;

/* ── the script ─────────────────────────────────────────────────────────────────────────── */

static const struct {
	const char *name;
	int code;
} errors[] = {
	{"unavailable", BERTH_E_UNAVAILABLE},
	{"conflict", BERTH_E_CONFLICT},
	{"not_found", BERTH_E_NOT_FOUND},
	{"io", BERTH_E_IO},
	{"timeout", BERTH_E_TIMEOUT},
	{"auth", BERTH_E_AUTH},
	{"perm", BERTH_E_PERM},
	{"nomem", BERTH_E_NOMEM},
	{"unsupported", BERTH_E_UNSUPPORTED},
	{"protocol", BERTH_E_PROTOCOL},
	{"internal", BERTH_E_INTERNAL},
};

static const char *const ops[] = {"start",    "resume",   "stop",       "destroy",     "info",
				  "execute",  "open",     "open_agent", "start_agent", "open_dir",
				  "put_file", "port_url", "home"};

static int bad_rule(const char *rule, struct berth_error *err)
{
	return berth_fail(err, BERTH_E_INVALID, "fail=%s is not OP:N[:ERR[:after]]", rule);
}

static int parse_rule(struct fake *f, const char *text, struct berth_error *err)
{
	auto_free char *copy = mem_strdup(text);
	char *save = NULL, *op, *nth, *name, *after;
	struct fake_rule r = {.code = BERTH_E_UNAVAILABLE};
	bool known = false;
	int64_t n;

	if (!copy)
		return berth_fail_nomem(err);
	op = strtok_r(copy, ":", &save);
	nth = strtok_r(NULL, ":", &save);
	name = strtok_r(NULL, ":", &save);
	after = strtok_r(NULL, ":", &save);
	for (size_t i = 0; op && i < ARRAY_LEN(ops); i++)
		known |= strcmp(op, ops[i]) == 0;
	if (!known || !nth || parse_int(nth, 0, 1000000, &n) < 0 || f->n_rules == FAKE_RULES_MAX)
		return bad_rule(text, err);
	snprintf(r.op, sizeof(r.op), "%s", op);
	r.nth = (long)n;
	for (size_t i = 0; name && i <= ARRAY_LEN(errors); i++) {
		if (i == ARRAY_LEN(errors))
			return bad_rule(text, err);
		if (strcmp(name, errors[i].name) == 0) {
			r.code = errors[i].code;
			break;
		}
	}
	if (after && strcmp(after, "after") != 0)
		return bad_rule(text, err);
	r.after = after != NULL;
	f->rules[f->n_rules++] = r;
	return 0;
}

static int parse_rules(struct fake *f, const char *text, struct berth_error *err)
{
	auto_free char *copy = mem_strdup(text);
	char *save = NULL;
	int rc = 0;

	if (!copy)
		return berth_fail_nomem(err);
	for (char *p = strtok_r(copy, ",", &save); p && rc == 0; p = strtok_r(NULL, ",", &save))
		rc = parse_rule(f, p, err);
	return rc;
}

static int parse_pair(struct fake *f, const struct berth_pair *p, struct berth_error *err)
{
	const struct {
		const char *key;
		int64_t *value;
	} numbers[] = {
		{"cut", &f->faults.cut},     {"cutup", &f->faults.cut_up},
		{"stall", &f->faults.stall}, {"stallup", &f->faults.stall_up},
		{"slow", &f->faults.slow},   {"times", &f->times},
	};

	if (strcmp(p->key, "fail") == 0)
		return parse_rules(f, p->value, err);
	if (strcmp(p->key, "noinput") == 0) {
		f->no_input = strcmp(p->value, "1") == 0;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		if (strcmp(p->key, numbers[i].key) == 0 &&
		    parse_int(p->value, 0, INT64_MAX, numbers[i].value) < 0)
			return berth_fail(err, BERTH_E_INVALID, "%s=%s is no number", p->key,
					  p->value);
	}
	return 0;
}

struct fake_faults fake_next_faults(struct fake *f)
{
	const struct fake_faults none = FAKE_NO_FAULTS;

	if (f->times >= 0 && f->hits++ >= f->times)
		return none;
	return f->faults;
}

/* The rule that hits this call of op; NULL: none. */
static const struct fake_rule *hit(struct fake *f, const char *op)
{
	const struct fake_rule *found = NULL;

	for (size_t i = 0; i < f->n_rules; i++) {
		if (strcmp(f->rules[i].op, op) != 0)
			continue;
		f->calls[i]++;
		if (f->rules[i].nth == 0 || f->rules[i].nth == f->calls[i])
			found = &f->rules[i];
	}
	return found;
}

static int scripted(const struct fake_rule *r, struct berth_error *err)
{
	return berth_fail(err, r->code, "%s failed, as the script says", r->op);
}

/* An op with its faults around it. */
#define WITH_FAULTS(name, call)                                        \
	do {                                                           \
		const struct fake_rule *rule_ = hit(f, name);          \
		int rc_;                                               \
                                                                       \
		if (rule_ && !rule_->after)                            \
			return scripted(rule_, err);                   \
		rc_ = (call);                                          \
		return rule_ && rc_ == 0 ? scripted(rule_, err) : rc_; \
	} while (0)

/* ── handles ────────────────────────────────────────────────────────────────────────────── */

static void fake_release(void *handle)
{
	struct fake *f = handle;

	if (!f)
		return;
	inner->release(f->inner);
	free(f);
}
BERTH_DEFINE_AUTO_PTR(fake, struct fake *, fake_release);

/* The same sandbox name, in a state folder of its own, without walls. */
static int attach_inner(struct fake *f, const struct berth_sandbox_spec *spec,
			struct berth_error *err)
{
	auto_free char *state = mem_printf("%s/fake", spec->state_dir);
	struct berth_pair pairs[2] = {{"isolation", "none"}};
	struct berth_sandbox_spec as_inner = *spec;

	if (!state)
		return berth_fail_nomem(err);
	as_inner.state_dir = state;
	as_inner.pairs = pairs;
	as_inner.n_pairs = 1;
	for (size_t i = 0; i < spec->n_pairs; i++) {
		if (strcmp(spec->pairs[i].key, "dir") == 0)
			pairs[as_inner.n_pairs++] = spec->pairs[i];
	}
	return inner->attach(&as_inner, &f->inner, err);
}

static int fake_attach(const struct berth_sandbox_spec *spec, void **ret, struct berth_error *err)
{
	auto(fake) struct fake *f = mem_zalloc(1, sizeof(*f));
	int rc;

	if (!f)
		return berth_fail_nomem(err);
	f->faults = (struct fake_faults)FAKE_NO_FAULTS;
	f->times = -1;
	f->text = strcmp(spec->provider, "fake-text") == 0;
	rc = attach_inner(f, spec, err);
	for (size_t i = 0; rc == 0 && i < spec->n_pairs; i++)
		rc = parse_pair(f, &spec->pairs[i], err);
	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(f);
	return 0;
}

static int fake_start(void *handle, bool *ret_created, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("start", inner->start(f->inner, ret_created, err));
}

static int fake_resume(void *handle, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("resume", inner->resume(f->inner, err));
}

static int fake_stop(void *handle, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("stop", inner->stop(f->inner, err));
}

static int fake_destroy(void *handle, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("destroy", inner->destroy(f->inner, err));
}

static int fake_info(void *handle, struct berth_provider_info *ret, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("info", inner->info(f->inner, ret, err));
}

static int fake_start_agent(void *handle, const char *dir, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("start_agent", inner->start_agent(f->inner, dir, err));
}

static int fake_open_dir(void *handle, const char *dir, int *ret_fd, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("open_dir", inner->open_dir(f->inner, dir, ret_fd, err));
}

static int fake_put_file(void *handle, const char *path, unsigned mode, const void *data,
			 size_t len, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("put_file", inner->put_file(f->inner, path, mode, data, len, err));
}

static int fake_port_url(void *handle, unsigned port, char *url, size_t cap,
			 struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("port_url", inner->port_url(f->inner, port, url, cap, err));
}

static int fake_home(void *handle, char *home, size_t cap, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("home", inner->home(f->inner, home, cap, err));
}

static int fake_dir(void *handle, char *dir, size_t cap, struct berth_error *err)
{
	struct fake *f = handle;

	return inner->dir(f->inner, dir, cap, err);
}

/* ── streams ────────────────────────────────────────────────────────────────────────────── */

static bool harmless(const struct fake_faults *x)
{
	return x->cut < 0 && x->cut_up < 0 && x->stall < 0 && x->stall_up < 0 && x->slow < 0;
}

static int with_relay(struct fake *f, struct berth_stream *s, struct berth_error *err)
{
	struct fake_faults x = fake_next_faults(f);

	return harmless(&x) ? 0 : fake_relay(s, x, err);
}

static int open_agent(struct fake *f, const char *dir, struct berth_stream *ret,
		      struct berth_error *err)
{
	int rc = inner->open_agent(f->inner, dir, ret, err);

	return rc < 0 ? rc : with_relay(f, ret, err);
}

static int fake_open_agent(void *handle, const char *dir, struct berth_stream *ret,
			   struct berth_error *err)
{
	struct fake *f = handle;
	const struct fake_rule *r = hit(f, "open_agent");

	return r ? scripted(r, err) : open_agent(f, dir, ret, err);
}

static int fake_open(void *handle, const char *const *argv, struct berth_stream *ret,
		     struct berth_error *err)
{
	struct fake *f = handle;
	const struct fake_rule *r = hit(f, "open");
	int rc;

	if (r)
		return scripted(r, err);
	rc = inner->open(f->inner, argv, ret, err);
	return rc < 0 ? rc : with_relay(f, ret, err);
}

/* ── execute ────────────────────────────────────────────────────────────────────────────── */

/* What a terminal or a JSON API makes of bytes. Never longer than cap. */
static void mangle(uint8_t *buf, size_t cap, size_t *len, bool *truncated)
{
	auto_free uint8_t *in = mem_dup(buf, *len + 1);
	size_t o = 0;

	for (size_t i = 0; in && i < *len;) {
		const uint8_t *put = in + i;
		size_t n = utf8_sequence(in + i, *len - i), step = n ? n : 1;

		if (in[i] == '\n') {
			put = (const uint8_t *)"\r\n";
			n = 2;
		} else if (n == 0) {
			put = (const uint8_t *)"\xef\xbf\xbd";
			n = 3;
		}
		if (o + n > cap) {
			*truncated = true;
			break;
		}
		memcpy(buf + o, put, n);
		o += n;
		i += step;
	}
	*len = o;
}

static int execute(struct fake *f, const char *const *argv, struct berth_execute_io *io,
		   int64_t timeout_ms, struct berth_error *err)
{
	struct fake_faults x;
	int rc;

	if (f->no_input && io->input_len > 0)
		return berth_fail(err, BERTH_E_UNSUPPORTED, "execute carries no input here");
	x = fake_next_faults(f);
	if (x.cut_up >= 0 && (uint64_t)x.cut_up < io->input_len)
		return berth_fail(err, BERTH_E_IO, "the connection broke, as the script says");
	rc = inner->execute(f->inner, argv, io, timeout_ms, err);
	if (rc == 0 && f->text)
		mangle(io->out, io->out_cap, &io->out_len, &io->out_truncated);
	if (rc == 0 && x.cut >= 0 && (uint64_t)x.cut < io->out_len)
		return berth_fail(err, BERTH_E_IO, "the connection broke, as the script says");
	return rc;
}

static int fake_execute(void *handle, const char *const *argv, struct berth_execute_io *io,
			int64_t timeout_ms, struct berth_error *err)
{
	struct fake *f = handle;

	WITH_FAULTS("execute", execute(f, argv, io, timeout_ms, err));
}

/* A sandbox that is always there. */
static int bare_execute(void *handle, const char *const *argv, struct berth_execute_io *io,
			int64_t timeout_ms, struct berth_error *err)
{
	struct fake *f = handle;
	bool created;
	int rc = inner->start(f->inner, &created, err);

	return rc < 0 ? rc : fake_execute(handle, argv, io, timeout_ms, err);
}

static int fake_list(const char *state_dir, int (*fn)(void *arg, const char *name), void *arg,
		     struct berth_error *err)
{
	auto_free char *state = mem_printf("%s/fake", state_dir);

	return state ? inner->list(state, fn, arg, err) : berth_fail_nomem(err);
}

/* ── the tables ─────────────────────────────────────────────────────────────────────────── */

static const struct berth_provider_key keys[] = {
	{"fail", "OP:N[:ERR[:after]],…", false},
	{"cut", "end streams after this many bytes from the sandbox", false},
	{"cutup", "break streams after this many bytes to the sandbox", false},
	{"stall", "nothing more comes after this many bytes", false},
	{"stallup", "nothing more is taken after this many bytes", false},
	{"slow", "bytes per second", false},
	{"times", "how many streams are hit", false},
	{"noinput", "1: execute carries no input", false},
	{"dir", "where berth lives in the sandbox", true},
	{NULL, NULL, false},
};

#define COMMON(table_name, more_flags)                                                      \
	.abi = BERTH_PROVIDER_ABI, .name = table_name, .keys = keys, .attach = fake_attach, \
	.release = fake_release, .flags = BERTH_PROVIDER_HIDDEN | (more_flags)
#define LIFE                                                                                    \
	.start = fake_start, .resume = fake_resume, .stop = fake_stop, .destroy = fake_destroy, \
	.info = fake_info, .dir = fake_dir

static const struct berth_provider_ops fake_all = {
	COMMON("fake", 0),
	LIFE,
	.execute = fake_execute,
	.open = fake_open,
	.open_agent = fake_open_agent,
	.start_agent = fake_start_agent,
	.open_dir = fake_open_dir,
	.put_file = fake_put_file,
	.port_url = fake_port_url,
	.home = fake_home,
	.list = fake_list,
};

static const struct berth_provider_ops fake_stream = {
	COMMON("fake-stream", 0),  LIFE, .execute = fake_execute, .open = fake_open,
	.put_file = fake_put_file,
};

static const struct berth_provider_ops fake_exec = {
	COMMON("fake-exec", 0),
	LIFE,
	.execute = fake_execute,
};

static const struct berth_provider_ops fake_text = {
	COMMON("fake-text", BERTH_PROVIDER_TEXT),
	LIFE,
	.execute = fake_execute,
};

static const struct berth_provider_ops fake_bare = {
	COMMON("fake-bare", 0),
	.execute = bare_execute,
};

static const struct berth_provider_ops fake_none = {
	COMMON("fake-none", 0),
};

const struct berth_provider_ops *const berth_provider_fakes[] = {
	&fake_all, &fake_stream, &fake_exec, &fake_text, &fake_bare, &fake_none, NULL,
};
