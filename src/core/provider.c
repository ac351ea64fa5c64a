/* SPDX-License-Identifier: MIT */
/*
 * The only caller of provider operations. Here every operation that a driver lacks gets its error,
 * capabilities are computed from what is there, and nothing is retried: that is decided by who
 * asks.
 */
#include "core/provider.h"

#include "base/alloc.h"

#include <string.h>
#include <unistd.h>

unsigned berth_provider_capabilities(const struct berth_provider_ops *ops)
{
	return (ops->start ? BERTH_CAP_START : 0u) | (ops->stop ? BERTH_CAP_STOP : 0u) |
	       (ops->destroy ? BERTH_CAP_DESTROY : 0u) | (ops->info ? BERTH_CAP_INFO : 0u) |
	       (ops->execute ? BERTH_CAP_EXECUTE : 0u) |
	       (ops->open || ops->open_agent ? BERTH_CAP_STREAM : 0u) |
	       (ops->put_file ? BERTH_CAP_PUT_FILE : 0u) |
	       (ops->port_url ? BERTH_CAP_PORT_URL : 0u) | (ops->open_dir ? BERTH_CAP_DIRECT : 0u);
}

/* What a capability is called in messages, in the order in which missing ones are named. */
static const struct {
	unsigned cap;
	const char *name;
} cap_names[] = {
	{BERTH_CAP_EXECUTE, "execute"},       {BERTH_CAP_PORT_URL, "networking (port URLs)"},
	{BERTH_CAP_START, "start"},           {BERTH_CAP_STOP, "stop"},
	{BERTH_CAP_DESTROY, "destroy"},       {BERTH_CAP_INFO, "info"},
	{BERTH_CAP_STREAM, "streams"},        {BERTH_CAP_PUT_FILE, "writing files"},
	{BERTH_CAP_DIRECT, "direct records"},
};

int berth_sandbox_require(const struct berth_sandbox *s, unsigned caps, const char *purpose,
			  struct berth_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(cap_names); i++) {
		if (!(caps & cap_names[i].cap) || s->caps & cap_names[i].cap)
			continue;
		if (!purpose)
			return berth_fail(err, BERTH_E_UNSUPPORTED,
					  "sandbox provider \"%s\" does not support %s",
					  s->provider, cap_names[i].name);
		return berth_fail(
			err, BERTH_E_UNSUPPORTED,
			"sandbox provider \"%s\" does not support %s, which is required for %s",
			s->provider, cap_names[i].name, purpose);
	}
	return 0;
}

unsigned berth_sandbox_capabilities(const struct berth_sandbox *s)
{
	return s->caps;
}

void berth_stream_init(struct berth_stream *s)
{
	*s = (struct berth_stream){.rfd = -1, .wfd = -1, .pidfd = -1};
}

static int lacks(const struct berth_sandbox *s, const char *what, struct berth_error *err)
{
	return berth_fail(err, BERTH_E_UNSUPPORTED, "sandbox provider \"%s\" does not support %s",
			  s->provider, what);
}

int provider_start(struct berth_sandbox *s, bool *ret_created, struct berth_error *err)
{
	if (!s->ops->start)
		return lacks(s, "start", err);
	return s->ops->start(s->handle, ret_created, err);
}

int provider_resume(struct berth_sandbox *s, struct berth_error *err)
{
	struct berth_provider_info info;
	bool created;
	int rc;

	if (s->ops->resume)
		return s->ops->resume(s->handle, err);
	rc = provider_info(s, &info, err);
	return rc < 0 ? rc : provider_start(s, &created, err);
}

int provider_stop(struct berth_sandbox *s, struct berth_error *err)
{
	return s->ops->stop ? s->ops->stop(s->handle, err) : lacks(s, "stop", err);
}

int provider_destroy(struct berth_sandbox *s, struct berth_error *err)
{
	return s->ops->destroy ? s->ops->destroy(s->handle, err) : lacks(s, "destroy", err);
}

int provider_info(struct berth_sandbox *s, struct berth_provider_info *ret, struct berth_error *err)
{
	struct berth_provider_info info = {0};
	int rc;

	if (!s->ops->info)
		return lacks(s, "info", err);
	rc = s->ops->info(s->handle, &info, err);
	if (rc == 0)
		*ret = info;
	return rc;
}

int provider_execute(struct berth_sandbox *s, const char *const *argv, struct berth_execute_io *io,
		     int64_t timeout_ms, struct berth_error *err)
{
	if (!s->ops->execute)
		return lacks(s, "execute", err);
	return s->ops->execute(s->handle, argv, io, timeout_ms, err);
}

int provider_open(struct berth_sandbox *s, const char *const *argv, struct berth_stream *ret,
		  struct berth_error *err)
{
	return s->ops->open ? s->ops->open(s->handle, argv, ret, err) : lacks(s, "streams", err);
}

int provider_open_agent(struct berth_sandbox *s, const char *dir, struct berth_stream *ret,
			struct berth_error *err)
{
	if (!s->ops->open_agent)
		return lacks(s, "streams", err);
	return s->ops->open_agent(s->handle, dir, ret, err);
}

int provider_start_agent(struct berth_sandbox *s, const char *dir, struct berth_error *err)
{
	if (!s->ops->start_agent)
		return lacks(s, "starting the agent", err);
	return s->ops->start_agent(s->handle, dir, err);
}

int provider_open_dir(struct berth_sandbox *s, const char *dir, int *ret_fd,
		      struct berth_error *err)
{
	if (!s->ops->open_dir)
		return lacks(s, "direct records", err);
	return s->ops->open_dir(s->handle, dir, ret_fd, err);
}

int provider_put_file(struct berth_sandbox *s, const char *path, unsigned mode, const void *data,
		      size_t len, struct berth_error *err)
{
	if (!s->ops->put_file)
		return lacks(s, "writing files", err);
	return s->ops->put_file(s->handle, path, mode, data, len, err);
}

int provider_port_url(struct berth_sandbox *s, unsigned port, char *url, size_t cap,
		      struct berth_error *err)
{
	if (!s->ops->port_url)
		return lacks(s, "networking (port URLs)", err);
	return s->ops->port_url(s->handle, port, url, cap, err);
}

int provider_home(struct berth_sandbox *s, char *home, size_t cap, struct berth_error *err)
{
	if (!s->ops->home)
		return lacks(s, "home", err);
	return s->ops->home(s->handle, home, cap, err);
}

int provider_dir(struct berth_sandbox *s, char *dir, size_t cap, struct berth_error *err)
{
	return s->ops->dir ? s->ops->dir(s->handle, dir, cap, err) : BERTH_E_NOT_FOUND;
}

int provider_list(const struct berth *b, const struct berth_provider_ops *ops,
		  int (*fn)(void *arg, const char *name), void *arg, struct berth_error *err)
{
	if (!ops->list)
		return 0;
	return ops->list(b->state_dir, fn, arg, err);
}

const struct berth_provider_ops *provider_find(const struct berth *b, const char *name)
{
	for (size_t i = 0; i < b->n_ops; i++) {
		if (strcmp(b->ops[i]->name, name) == 0)
			return b->ops[i];
	}
	return NULL;
}

const struct berth_provider_ops *berth_provider_at(const struct berth *b, size_t n)
{
	return n < b->n_ops ? b->ops[n] : NULL;
}

int berth_provider_add(struct berth *b, const struct berth_provider_ops *ops,
		       struct berth_error *err)
{
	const struct berth_provider_ops **grown;

	if (ops->abi != BERTH_PROVIDER_ABI)
		return berth_fail(err, BERTH_E_INVALID,
				  "the driver was made for provider ABI %u, this library has %u",
				  ops->abi, BERTH_PROVIDER_ABI);
	if (!ops->name || !*ops->name || strpbrk(ops->name, ":?&") || !ops->attach || !ops->release)
		return berth_fail(err, BERTH_E_INVALID,
				  "a driver needs a name, attach and release");
	if (provider_find(b, ops->name))
		return berth_fail(err, BERTH_E_CONFLICT, "there is a provider \"%s\" already",
				  ops->name);
	grown = mem_reallocarray((void *)b->ops, b->n_ops + 1, sizeof(*grown));
	if (!grown)
		return berth_fail_nomem(err);
	b->ops = grown;
	b->ops[b->n_ops++] = ops;
	return 0;
}
