/* SPDX-License-Identifier: MIT */
/*
 * provider.h: the contract of a sandbox provider.
 *
 * A provider makes and reaches sandboxes of one kind. It carries bytes; it holds no policy: what is retried, which road is taken, what
 * an error means to a user is decided above it, in core. An operation that a provider does not have is NULL; what a provider can do
 * (berth_provider_capabilities) is computed from the table and never declared a second time.
 *
 * Every operation returns 0 or a negative BERTH_E_* with *err filled in. Unless said otherwise operations may block, may be called from
 * any one thread at a time per handle, and must keep their hands off the process: no signal handlers, no chdir, no umask, no waitpid(-1).
 * An operation that fails leaves its ret_ parameters untouched.
 */
#ifndef BERTH_PROVIDER_H
#define BERTH_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/base.h>
#include <berth/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_PROVIDER_ABI 1

/* One key=value of a sandbox spec. Both are owned by the caller. */
struct berth_pair {
	const char *key;
	const char *value;
};

/* A key that a provider knows, for usage errors, help and the providers page. */
struct berth_provider_key {
	const char *key;
	const char *help;	/* one line */
	bool creation;		/* fixed at creation: a later, different value is a conflict */
};

/* A parsed sandbox spec, valid for the call. */
struct berth_sandbox_spec {
	const char *provider;
	const char *name;
	const struct berth_pair *pairs;
	size_t n_pairs;
	const char *state_dir;	/* absolute; berth's local state */
};

enum berth_sandbox_status {
	BERTH_SANDBOX_PENDING = 1,
	BERTH_SANDBOX_STARTING,
	BERTH_SANDBOX_RUNNING,
	BERTH_SANDBOX_STOPPING,
	BERTH_SANDBOX_STOPPED,
	BERTH_SANDBOX_DESTROYING,
	BERTH_SANDBOX_DESTROYED,
	BERTH_SANDBOX_ERROR,
};

/* What a provider knows about a sandbox. Filled by info; strings are fixed arrays so that nobody frees anything. */
struct berth_provider_info {
	enum berth_sandbox_status status;
	char id[128];			/* always reattaches; "" when there is none yet */
	char resource_id[128];		/* the provider's own name for it, "" when it has none */
	char message[256];		/* why the status is what it is, "" when there is nothing to say */
	int64_t created_ms;		/* wall clock; 0: not known */
	int64_t expires_ms;		/* 0: does not expire or not known */
	int64_t idle_minutes;		/* 0: none */
	char isolation[32];		/* "" : the provider has no such notion */
	char net[32];
	char containment[16];
	bool records_protected;
	bool init_is_life;		/* executions cannot outlive the sandbox's init */
};

/* A byte stream: two fds (may be the same number). Owned by whoever holds the struct; closed by berth_stream_close(). */
struct berth_stream {
	int rfd;
	int wfd;
	int pidfd;	/* of a local helper process that carries it, else -1; closing ends it */
};

/* Bounded output of execute. The op writes at most cap bytes each and sets the lengths; truncated says that there was more. */
struct berth_execute_io {
	const void *input;	/* may be NULL */
	size_t input_len;
	uint8_t *out;
	size_t out_cap, out_len;
	uint8_t *err;
	size_t err_cap, err_len;
	bool out_truncated, err_truncated;
	int exit_code;		/* 0..255, or -1 with signo */
	int signo;
};

struct berth_provider_ops {
	unsigned abi;			/* BERTH_PROVIDER_ABI */
	const char *name;		/* as in PROVIDER:NAME */
	const struct berth_provider_key *keys;	/* ends with a NULL key */
	unsigned flags;			/* BERTH_PROVIDER_TEXT … */

	/* Makes a handle. Looks at nothing outside, wakes nothing, creates nothing; checks the values of the keys. The spec is borrowed
	 * for the call. *ret_handle is owned by the caller, freed with release. Required. */
	int (*attach)(const struct berth_sandbox_spec *spec, void **ret_handle, struct berth_error *err);
	/* Frees a handle; NULL is allowed. Never touches the sandbox. Required. */
	void (*release)(void *handle);

	/* Creates the sandbox or resumes it; a running one is left as it is (then *ret_created = false, 0). A key that differs from what exists is
	 * BERTH_E_CONFLICT and names it. Concurrent callers: one creates, all succeed. */
	int (*start)(void *handle, bool *ret_created, struct berth_error *err);
	/* Resumes a stopped sandbox and never creates one (BERTH_E_NOT_FOUND). NULL: as start, after info said that it exists. */
	int (*resume)(void *handle, struct berth_error *err);
	/* Ends everything in it (executions are sealed as cancelled, "sandbox stopped"), keeps its files. Idempotent. */
	int (*stop)(void *handle, struct berth_error *err);
	/* Removes it for good. Success when it is already gone; never success while anything of it is left. */
	int (*destroy)(void *handle, struct berth_error *err);
	/* What is known without waking it. BERTH_E_NOT_FOUND when there is no such sandbox. */
	int (*info)(void *handle, struct berth_provider_info *ret, struct berth_error *err);

	/* Runs argv (NULL-terminated) in the running sandbox with bounded input and output; waits for its end. timeout_ms 0: none. The only op a
	 * driver must have. Input that a driver cannot pass is BERTH_E_UNSUPPORTED before anything has run. */
	int (*execute)(void *handle, const char *const *argv, struct berth_execute_io *io, int64_t timeout_ms, struct berth_error *err);
	/* Starts argv with its stdin and stdout as a stream; stderr goes nowhere. */
	int (*open)(void *handle, const char *const *argv, struct berth_stream *ret, struct berth_error *err);
	/* A stream to the sandbox's running init for this berth directory, quicker than open; BERTH_E_UNAVAILABLE when none runs. */
	int (*open_agent)(void *handle, const char *dir, struct berth_stream *ret, struct berth_error *err);
	/* Starts init for this berth directory (idempotent; two starters: one wins, both succeed). NULL: core does it through `connect --start`. */
	int (*start_agent)(void *handle, const char *dir, struct berth_error *err);
	/* An fd of the berth directory itself when it lies on this machine and can be read by the caller (records are then read directly). */
	int (*open_dir)(void *handle, const char *dir, int *ret_fd, struct berth_error *err);
	/* Writes one file (absolute path in the sandbox, mode), parents made. */
	int (*put_file)(void *handle, const char *path, unsigned mode, const void *data, size_t len, struct berth_error *err);
	/* URL of a port inside, e.g. "http://127.0.0.1:32801". url has cap bytes. */
	int (*port_url)(void *handle, unsigned port, char *url, size_t cap, struct berth_error *err);
	/* The home of the sandbox, absolute. NULL: core asks through execute. home has cap bytes. */
	int (*home)(void *handle, char *home, size_t cap, struct berth_error *err);
	/* The berth directory that was fixed at creation (key dir=), absolute or relative to the home; BERTH_E_NOT_FOUND when none was. NULL: none
	 * is ever fixed. dir has cap bytes. */
	int (*dir)(void *handle, char *dir, size_t cap, struct berth_error *err);
	/* Calls fn for each sandbox of this provider in the state of the spec. */
	int (*list)(const char *state_dir, int (*fn)(void *arg, const char *name), void *arg, struct berth_error *err);
};

/* execute's output is text: only what survives UTF-8 and CRLF mangling may be sent (frames go as base64). */
#define BERTH_PROVIDER_TEXT 1u

enum berth_capability {
	BERTH_CAP_START = 1u << 0,
	BERTH_CAP_STOP = 1u << 1,
	BERTH_CAP_DESTROY = 1u << 2,
	BERTH_CAP_INFO = 1u << 3,
	BERTH_CAP_EXECUTE = 1u << 4,
	BERTH_CAP_STREAM = 1u << 5,
	BERTH_CAP_PUT_FILE = 1u << 6,
	BERTH_CAP_PORT_URL = 1u << 7,
	BERTH_CAP_DIRECT = 1u << 8,	/* open_dir: records without a detour */
};

/* The capabilities of a table: bits of enum berth_capability, from what is non-NULL. */
BERTH_PUBLIC unsigned berth_provider_capabilities(const struct berth_provider_ops *ops);

/* Closes both ends of a stream and ends its carrier. Safe on a zeroed-by-berth_stream_init one. */
BERTH_PUBLIC void berth_stream_init(struct berth_stream *s);
BERTH_PUBLIC void berth_stream_close(struct berth_stream *s);

#ifdef __cplusplus
}
#endif
#endif
