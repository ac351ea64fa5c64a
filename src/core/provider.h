/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_PROVIDER_H
#define BERTH_CORE_PROVIDER_H
/*
 * The only door to provider operations. An operation that a driver does not have is
 * BERTH_E_UNSUPPORTED with the message that names driver and operation; outputs, blocking and
 * ownership are those of berth/provider.h.
 */
#include "core/core.h"

/* A parsed "PROVIDER:NAME[?k=v&…]". Owns its strings; freed with spec_text_done(). */
struct spec_text {
	char *text; /* the cut-up copy that all others point into */
	const char *provider, *name;
	struct berth_pair *pairs;
	size_t n_pairs;
};
/* Syntax only: shape, percent escapes in values, no key twice. BERTH_E_INVALID with a message. */
int spec_text_parse(const char *spec, struct spec_text *ret,
		    struct berth_error *err) attr_warn_unused;
void spec_text_done(struct spec_text *t);
BERTH_DEFINE_AUTO(spec_text, struct spec_text, spec_text_done);
const char *spec_text_get(const struct spec_text *t, const char *key);

/* The driver of a context by name, NULL when there is none. */
const struct berth_provider_ops *provider_find(const struct berth *b, const char *name);

int provider_start(struct berth_sandbox *s, bool *ret_created,
		   struct berth_error *err) attr_warn_unused;
/* Falls back to start, after info has said that the sandbox exists. */
int provider_resume(struct berth_sandbox *s, struct berth_error *err) attr_warn_unused;
int provider_stop(struct berth_sandbox *s, struct berth_error *err) attr_warn_unused;
int provider_destroy(struct berth_sandbox *s, struct berth_error *err) attr_warn_unused;
int provider_info(struct berth_sandbox *s, struct berth_provider_info *ret,
		  struct berth_error *err) attr_warn_unused;
int provider_execute(struct berth_sandbox *s, const char *const *argv, struct berth_execute_io *io,
		     int64_t timeout_ms, struct berth_error *err) attr_warn_unused;
int provider_open(struct berth_sandbox *s, const char *const *argv, struct berth_stream *ret,
		  struct berth_error *err) attr_warn_unused;
int provider_open_agent(struct berth_sandbox *s, const char *dir, struct berth_stream *ret,
			struct berth_error *err) attr_warn_unused;
int provider_start_agent(struct berth_sandbox *s, const char *dir,
			 struct berth_error *err) attr_warn_unused;
int provider_open_dir(struct berth_sandbox *s, const char *dir, int *ret_fd,
		      struct berth_error *err) attr_warn_unused;
int provider_put_file(struct berth_sandbox *s, const char *path, unsigned mode, const void *data,
		      size_t len, struct berth_error *err) attr_warn_unused;
int provider_port_url(struct berth_sandbox *s, unsigned port, char *url, size_t cap,
		      struct berth_error *err) attr_warn_unused;
int provider_home(struct berth_sandbox *s, char *home, size_t cap,
		  struct berth_error *err) attr_warn_unused;
/* Also BERTH_E_NOT_FOUND where the driver has no such op. */
int provider_dir(struct berth_sandbox *s, char *dir, size_t cap,
		 struct berth_error *err) attr_warn_unused;
int provider_list(const struct berth *b, const struct berth_provider_ops *ops,
		  int (*fn)(void *arg, const char *name), void *arg,
		  struct berth_error *err) attr_warn_unused;

#endif
