/* SPDX-License-Identifier: MIT */
/*
 * Contexts and sandbox handles: what a spec means, when a sandbox is started, where berth lives in
 * it.
 *
 * Opening a handle touches nothing outside this process. Only sandbox_ensure_started() and the
 * lifecycle functions start or end anything, and only as the handle's flags say.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/time.h"
#include "core/bootstrap.h"
#include "core/provider.h"
#include "core/road.h"

#define DESTROY_ATTEMPTS 3
#define DESTROY_DELAY_MS 250

/* ── contexts ───────────────────────────────────────────────────────────────────────────── */

static const char *env_value(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* The caller's choice, else the environment's, made absolute. */
static int find_state_dir(const char *given, char **ret, struct berth_error *err)
{
	auto_free char *dir = NULL, *cwd = NULL;
	const char *v;

	if (!given)
		given = env_value("BERTH_STATE");
	if (given && *given)
		dir = mem_strdup(given);
	else if ((v = env_value("XDG_STATE_HOME")) && *v == '/')
		dir = path_join(v, "berth");
	else if ((v = env_value("HOME")))
		dir = path_join(v, ".local/state/berth");
	else
		return berth_fail(err, BERTH_E_INVALID,
				  "no state folder: set HOME or BERTH_STATE, or give --state DIR");
	if (dir && *dir != '/') {
		char *joined;

		cwd = getcwd(NULL, 0);
		if (!cwd)
			return berth_fail_errno(err, 0, errno, "the working directory");
		joined = path_join(cwd, dir);
		free(dir);
		dir = joined;
	}
	if (!dir)
		return berth_fail_nomem(err);
	*ret = path_normalize(dir);
	return *ret ? 0 : berth_fail_nomem(err);
}

int core_context_new(const char *state_dir, const struct berth_provider_ops *const *drivers,
		     size_t n_drivers, struct berth **ret, struct berth_error *err)
{
	struct berth *b = mem_zalloc(1, sizeof(*b));
	int rc;

	if (!b)
		return berth_fail_nomem(err);
	rc = find_state_dir(state_dir, &b->state_dir, err);
	for (size_t i = 0; rc == 0 && i < n_drivers; i++)
		rc = berth_provider_add(b, drivers[i], err);
	if (rc < 0) {
		berth_free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

void berth_free(struct berth *b)
{
	if (!b)
		return;
	free(b->state_dir);
	free((void *)b->ops);
	free(b);
}

const char *berth_state_dir(const struct berth *b)
{
	return b->state_dir;
}

/* ── handles ────────────────────────────────────────────────────────────────────────────── */

static int unknown_provider(const struct berth *b, const char *name, struct berth_error *err)
{
	auto(strbuf) struct strbuf known = STRBUF_INIT(256);

	for (size_t i = 0; i < b->n_ops; i++) {
		if (!(b->ops[i]->flags & BERTH_PROVIDER_HIDDEN))
			strbuf_addf(&known, "%s%s", known.len ? ", " : "", b->ops[i]->name);
	}
	return berth_fail(err, BERTH_E_INVALID, "unknown sandbox provider \"%s\" (known: %s)", name,
			  known.data);
}

static bool knows_key(const struct berth_provider_ops *ops, const char *key)
{
	for (const struct berth_provider_key *k = ops->keys; k && k->key; k++) {
		if (strcmp(k->key, key) == 0)
			return true;
	}
	return strcmp(key, "dir") == 0;
}

static int check_keys(const struct berth_provider_ops *ops, const struct spec_text *t,
		      struct berth_error *err)
{
	auto(strbuf) struct strbuf known = STRBUF_INIT(256);

	for (size_t i = 0; i < t->n_pairs; i++) {
		if (knows_key(ops, t->pairs[i].key))
			continue;
		for (const struct berth_provider_key *k = ops->keys; k && k->key; k++) {
			if (strcmp(k->key, "dir") != 0)
				strbuf_addf(&known, "%s, ", k->key);
		}
		strbuf_adds(&known, "dir");
		return berth_fail(err, BERTH_E_INVALID,
				  "sandbox provider \"%s\" has no key \"%s\" (known: %s)",
				  ops->name, t->pairs[i].key, known.data);
	}
	return 0;
}

/* The handle's own strings. */
static int fill_names(struct berth_sandbox *s, const struct spec_text *t, const char *remote_dir,
		      struct berth_error *err)
{
	const char *dir = remote_dir ? remote_dir : spec_text_get(t, "dir");

	if (dir && (!*dir || strpbrk(dir, "\r\n")))
		return berth_fail(err, BERTH_E_INVALID,
				  "the remote directory is empty or has a line break in it");
	s->provider = mem_strdup(t->provider);
	s->name = mem_strdup(t->name);
	s->full = mem_printf("%s:%s", t->provider, t->name);
	s->remote_dir = dir ? path_normalize(dir) : NULL;
	if (!s->provider || !s->name || !s->full || (dir && !s->remote_dir))
		return berth_fail_nomem(err);
	if (s->remote_dir && (strcmp(s->remote_dir, "/") == 0 || strcmp(s->remote_dir, ".") == 0))
		return berth_fail(err, BERTH_E_INVALID,
				  "the remote directory \"%s\" cannot be berth's own", dir);
	if (s->remote_dir && s->remote_dir[0] != '/' && !path_stays_inside(s->remote_dir))
		return berth_fail(err, BERTH_E_INVALID,
				  "the remote directory \"%s\" leaves the sandbox's home: give an "
				  "absolute one for a place outside of it",
				  dir);
	return 0;
}

static int sandbox_attach(struct berth_sandbox *s, const struct spec_text *t,
			  struct berth_error *err)
{
	const struct berth_sandbox_spec spec = {
		.provider = s->provider,
		.name = s->name,
		.pairs = t->pairs,
		.n_pairs = t->n_pairs,
		.state_dir = s->b->state_dir,
		.remote_dir = s->remote_dir,
	};

	return s->ops->attach(&spec, &s->handle, err);
}

int berth_sandbox_open(struct berth *b, const char *spec, const char *remote_dir, unsigned flags,
		       struct berth_sandbox **ret, struct berth_error *err)
{
	auto(spec_text) struct spec_text t = {0};
	struct berth_sandbox *s;
	int rc;

	if (!spec)
		spec = env_value("BERTH_SANDBOX");
	rc = spec_text_parse(spec ? spec : "local:default", &t, err);
	if (rc < 0)
		return rc;
	s = mem_zalloc(1, sizeof(*s));
	if (!s)
		return berth_fail_nomem(err);
	s->b = b;
	s->flags = flags;
	s->dir_fd = -1;
	s->ops = provider_find(b, t.provider);
	rc = s->ops ? check_keys(s->ops, &t, err) : unknown_provider(b, t.provider, err);
	if (rc == 0)
		rc = fill_names(s, &t, remote_dir, err);
	if (rc == 0) {
		s->caps = berth_provider_capabilities(s->ops);
		rc = sandbox_attach(s, &t, err);
	}
	if (rc < 0) {
		berth_sandbox_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void berth_sandbox_close(struct berth_sandbox *s)
{
	if (!s)
		return;
	road_drop_idle(s);
	if (s->ops)
		s->ops->release(s->handle);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s->provider);
	free(s->name);
	free(s->full);
	free(s->remote_dir);
	free(s->home);
	free(s->dir);
	free(s->agent);
	free(s);
}

const char *berth_sandbox_name(const struct berth_sandbox *s)
{
	return s->full;
}

int sandbox_home(struct berth_sandbox *s, const char **ret_home, struct berth_error *err)
{
	char home[PATH_BUF_MAX];
	int rc = 0;

	if (!s->home && s->ops->home) {
		rc = provider_home(s, home, sizeof(home), err);
		if (rc == 0 && !(s->home = mem_strdup(home)))
			rc = berth_fail_nomem(err);
	} else if (!s->home) {
		rc = bootstrap_home(s, err);
	}
	if (rc == 0)
		*ret_home = s->home;
	return rc;
}

/* The directory as given, else as fixed at creation, else the default; owned by caller. */
static int chosen_dir(struct berth_sandbox *s, char **ret, struct berth_error *err)
{
	char fixed[PATH_BUF_MAX] = "berth";
	struct berth_error why = BERTH_ERROR_INIT;
	int rc = 0;

	if (!s->remote_dir)
		rc = provider_dir(s, fixed, sizeof(fixed), &why);
	if (rc < 0 && rc != BERTH_E_NOT_FOUND)
		return berth_fail(err, rc, "%s", why.message);
	*ret = mem_strdup(s->remote_dir ? s->remote_dir : fixed);
	return *ret ? 0 : berth_fail_nomem(err);
}

int sandbox_dir(struct berth_sandbox *s, const char **ret_dir, struct berth_error *err)
{
	auto_free char *chosen = NULL, *joined = NULL;
	const char *home = "/";
	int rc;

	if (!s->dir) {
		rc = chosen_dir(s, &chosen, err);
		if (rc == 0 && chosen && *chosen != '/')
			rc = sandbox_home(s, &home, err);
		if (rc < 0)
			return rc;
		joined = path_join(home, chosen);
		s->dir = joined ? path_normalize(joined) : NULL;
		if (!s->dir)
			return berth_fail_nomem(err);
	}
	*ret_dir = s->dir;
	return 0;
}

int sandbox_dir_fd(struct berth_sandbox *s, int *ret_fd, struct berth_error *err)
{
	const char *dir = NULL;
	int rc;

	if (s->dir_fd < 0) {
		if (!s->ops->open_dir)
			return BERTH_E_UNSUPPORTED;
		rc = sandbox_dir(s, &dir, err);
		if (rc == 0)
			rc = provider_open_dir(s, dir, &s->dir_fd, err);
		if (rc < 0)
			return rc;
	}
	*ret_fd = s->dir_fd;
	return 0;
}

/* ── life ───────────────────────────────────────────────────────────────────────────────── */

/* What was learnt about the sandbox before may be of another life. */
static void forget_life(struct berth_sandbox *s)
{
	road_drop_idle(s);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	s->dir_fd = -1;
	s->started = false;
	free(s->dir);
	s->dir = NULL;
}

int sandbox_ensure_started(struct berth_sandbox *s, struct berth_error *err)
{
	bool created = false;
	int rc = 0;

	if (s->started)
		return 0;
	/* A driver without start adopts what is there. */
	if (s->flags & BERTH_OPEN_START && s->ops->start)
		rc = provider_start(s, &created, err);
	else if (s->flags & BERTH_OPEN_WAKE && (s->ops->resume || s->ops->start))
		rc = provider_resume(s, err);
	else
		return 0;
	s->started = rc == 0;
	return rc;
}

int berth_sandbox_start(struct berth_sandbox *s, struct berth_error *err)
{
	bool created = false;
	int rc = provider_start(s, &created, err);

	s->started = rc == 0;
	return rc;
}

int berth_sandbox_stop(struct berth_sandbox *s, struct berth_error *err)
{
	int rc = provider_stop(s, err);

	forget_life(s);
	return rc;
}

int berth_sandbox_info(struct berth_sandbox *s, struct berth_provider_info *ret,
		       struct berth_error *err)
{
	return provider_info(s, ret, err);
}

/* Will asking again bring something else? */
static bool worth_retrying(int code)
{
	return code != BERTH_E_INVALID && code != BERTH_E_UNSUPPORTED;
}

int berth_sandbox_destroy(struct berth_sandbox *s, int attempts, int64_t delay_ms,
			  struct berth_destroy_result *ret, struct berth_error *err)
{
	struct berth_destroy_result result = {.state = BERTH_DESTROY_EXHAUSTED};
	struct berth_error last = BERTH_ERROR_INIT;
	int rc = 0;

	attempts = attempts > 0 ? attempts : DESTROY_ATTEMPTS;
	delay_ms = delay_ms < 0 ? DESTROY_DELAY_MS : delay_ms;
	forget_life(s);
	if (!s->ops->destroy) {
		rc = provider_destroy(s, &last);
		result.state = BERTH_DESTROY_UNSUPPORTED;
	}
	while (s->ops->destroy && result.attempts < attempts) {
		if (result.attempts++ > 0) {
			struct timespec t = {delay_ms / 1000, delay_ms % 1000 * NS_PER_MS};

			while (nanosleep(&t, &t) < 0 && errno == EINTR)
				;
		}
		rc = provider_destroy(s, &last);
		if (rc == 0 || rc == BERTH_E_NOT_FOUND) {
			result.state = BERTH_DESTROYED;
			break;
		}
		if (!worth_retrying(rc))
			break;
	}
	if (rc == BERTH_E_INVALID) {
		berth_fail(err, rc, "%s", last.message);
		return rc;
	}
	if (result.state != BERTH_DESTROYED)
		memcpy(result.message, last.message, sizeof(result.message));
	*ret = result;
	return 0;
}

struct list_walk {
	const struct berth_provider_ops *ops;
	int (*fn)(void *arg, const char *spec);
	void *arg;
	struct berth_error *err;
};

static int list_one(void *arg, const char *name)
{
	struct list_walk *w = arg;
	auto_free char *spec = mem_printf("%s:%s", w->ops->name, name);

	return spec ? w->fn(w->arg, spec) : berth_fail_nomem(w->err);
}

int berth_sandbox_list(struct berth *b, int (*fn)(void *arg, const char *spec), void *arg,
		       struct berth_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < b->n_ops && rc == 0; i++) {
		struct list_walk w = {b->ops[i], fn, arg, err};

		rc = provider_list(b, b->ops[i], list_one, &w, err);
	}
	return rc;
}
