/* SPDX-License-Identifier: MIT */
/*
 * provider.h: the contract of a sandbox provider.
 *
 * A provider makes and reaches sandboxes of one kind. It carries bytes and holds no policy: what is
 * retried, which road is taken, what an error means to a user is decided above it. An operation
 * that a provider does not have is NULL; what a provider can do (berth_provider_capabilities()) is
 * computed from its table and never declared a second time.
 *
 * Every operation returns 0 or a negative BERTH_E_ code with *err filled in. Unless said otherwise
 * an operation may block, is called by one thread at a time per handle, borrows its arguments for
 * the call, and leaves its ret_ parameters untouched when it fails. It keeps its hands off the
 * process: no signal handlers, no chdir, no umask, no waitpid(-1).
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

/* One key=value of a sandbox spec. */
struct berth_pair {
	const char *key;
	const char *value;
};

/* A key that a provider knows: for checking specs, usage errors and help. */
struct berth_provider_key {
	const char *key;
	const char *help; /* one line */
	bool creation;    /* fixed at creation: a later, different value is a conflict */
};

/* A parsed sandbox spec, valid for the call. Its keys are known ones, each at most once. */
struct berth_sandbox_spec {
	const char *provider;
	const char *name;
	const struct berth_pair *pairs;
	size_t n_pairs;
	const char *state_dir; /* berth's local state, absolute; may not exist yet */
	/* Where berth is to live in it (dir= or --remote-dir), normalized; NULL: not given. For
	 * drivers whose sandboxes have one place only. */
	const char *remote_dir;
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

/* "pending" …, static; "error" for a number that is no status. */
BERTH_PUBLIC const char *berth_sandbox_status_name(int status);

/* What a provider knows about a sandbox. Strings are arrays, so that nobody frees anything. */
struct berth_provider_info {
	enum berth_sandbox_status status;
	char id[128];          /* always reattaches; "" when there is none yet */
	char resource_id[128]; /* the provider's own name for it, "" when it has none */
	char message[256];     /* why the status is what it is, "" when there is nothing to say */
	int64_t created_ms;    /* wall clock, ms since 1970; 0: not known */
	int64_t expires_ms;    /* the same; 0: does not expire or not known */
	int64_t idle_minutes;  /* after so long without work it stops; 0: never */
	char isolation[32];    /* "": the provider has no such notion */
	char net[32];
	char containment[16];
	char uids[16];    /* "range": own uids of the host; "single": the caller's; "": no notion */
	char ports[2048]; /* published: "4111=http://127.0.0.1:32801", joined by spaces */
	bool records_protected; /* out of reach of the executions that they are about */
	bool init_is_life;      /* executions cannot outlive the sandbox's init */
};

/*
 * A byte stream. Empty: berth_stream_init(). Owned by whoever holds the struct, ended with
 * berth_stream_close().
 */
struct berth_stream {
	int rfd;
	int wfd;   /* may be the same number */
	int pidfd; /* of a local helper process that carries it, else -1; closing ends it */
};

/* Bounded input and output of execute. The op writes at most cap bytes each and sets the rest. */
struct berth_execute_io {
	const void *input; /* may be NULL when input_len is 0 */
	size_t input_len;
	uint8_t *out;
	size_t out_cap, out_len;
	uint8_t *err;
	size_t err_cap, err_len;
	bool out_truncated, err_truncated; /* there was more than cap */
	int exit_code;                     /* 0-255; -1: signo ended it */
	int signo;
};

struct berth_provider_ops {
	unsigned abi;                          /* BERTH_PROVIDER_ABI */
	const char *name;                      /* as in PROVIDER:NAME */
	const struct berth_provider_key *keys; /* ends with a NULL key; may be NULL */
	unsigned flags;                        /* BERTH_PROVIDER_TEXT … */

	/*
	 * Makes a handle: checks the values of the keys; looks at nothing outside, wakes and
	 * creates nothing. *ret_handle is owned by the caller, freed with release. Required.
	 */
	int (*attach)(const struct berth_sandbox_spec *spec, void **ret_handle,
		      struct berth_error *err);
	/* Frees a handle and never touches the sandbox; NULL is allowed. Required. */
	void (*release)(void *handle);

	/*
	 * Creates the sandbox or resumes it; one that runs is left as it is. *ret_created: it was
	 * created by this call. BERTH_E_CONFLICT: a key differs from what exists, and is named.
	 * Of several callers at once one creates it and all succeed.
	 */
	int (*start)(void *handle, bool *ret_created, struct berth_error *err);
	/*
	 * Resumes a stopped sandbox and never creates one (BERTH_E_NOT_FOUND). NULL: start is
	 * used, after info has said that the sandbox exists.
	 */
	int (*resume)(void *handle, struct berth_error *err);
	/*
	 * Ends everything in it (executions are sealed as cancelled, "sandbox stopped") and keeps
	 * its files. One that is stopped is left as it is.
	 */
	int (*stop)(void *handle, struct berth_error *err);
	/*
	 * Removes it for good. Success when it is gone already; never while anything of it is left.
	 */
	int (*destroy)(void *handle, struct berth_error *err);
	/* What is known without waking it. BERTH_E_NOT_FOUND: no such sandbox. */
	int (*info)(void *handle, struct berth_provider_info *ret, struct berth_error *err);

	/*
	 * Runs argv (NULL-terminated) in the running sandbox with bounded input and output and
	 * waits for its end; timeout_ms 0: for ever. A command that cannot be run is exit code 126
	 * or 127, as in a shell. Input that the driver cannot pass is BERTH_E_UNSUPPORTED before
	 * anything has run. The one op without which nothing can be deployed.
	 */
	int (*execute)(void *handle, const char *const *argv, struct berth_execute_io *io,
		       int64_t timeout_ms, struct berth_error *err);
	/* Starts argv with its stdin and stdout as a stream; its stderr goes nowhere. */
	int (*open)(void *handle, const char *const *argv, struct berth_stream *ret,
		    struct berth_error *err);
	/*
	 * A stream to the sandbox's running init for this berth directory (absolute), quicker than
	 * open. BERTH_E_UNAVAILABLE: none runs.
	 */
	int (*open_agent)(void *handle, const char *dir, struct berth_stream *ret,
			  struct berth_error *err);
	/*
	 * Starts init for this berth directory; one that runs is left as it is, and of two starters
	 * one wins and both succeed. NULL: it is done through `connect --start`.
	 */
	int (*start_agent)(void *handle, const char *dir, struct berth_error *err);
	/*
	 * An fd of the berth directory itself, where it lies on this machine and the caller may
	 * read it: records are then read without the agent. *ret_fd is owned by the caller.
	 * BERTH_E_NOT_FOUND: the directory is not there (yet).
	 */
	int (*open_dir)(void *handle, const char *dir, int *ret_fd, struct berth_error *err);
	/* Writes one file, whole or not at all; path is absolute, missing parents are made. */
	int (*put_file)(void *handle, const char *path, unsigned mode, const void *data, size_t len,
			struct berth_error *err);
	/* The URL of a port inside, such as "http://127.0.0.1:32801", into cap bytes. */
	int (*port_url)(void *handle, unsigned port, char *url, size_t cap,
			struct berth_error *err);
	/* The home of the sandbox, absolute, into cap bytes. NULL: it is asked by execute. */
	int (*home)(void *handle, char *home, size_t cap, struct berth_error *err);
	/*
	 * The berth directory that was fixed at creation (key dir=), absolute or relative to the
	 * home, into cap bytes. BERTH_E_NOT_FOUND: none was. NULL: none ever is.
	 */
	int (*dir)(void *handle, char *dir, size_t cap, struct berth_error *err);
	/*
	 * Calls fn with the name of each sandbox of this provider that the state folder knows. A
	 * non-zero return of fn ends the walk and is returned.
	 */
	int (*list)(const char *state_dir, int (*fn)(void *arg, const char *name), void *arg,
		    struct berth_error *err);
};

/* execute's output is text: only what survives UTF-8 and CRLF mangling is sent (as base64). */
#define BERTH_PROVIDER_TEXT 1u
/* For tests: found by its name, and left out of what users are told of. */
#define BERTH_PROVIDER_HIDDEN 2u

enum berth_capability {
	BERTH_CAP_START = 1u << 0,
	BERTH_CAP_STOP = 1u << 1,
	BERTH_CAP_DESTROY = 1u << 2,
	BERTH_CAP_INFO = 1u << 3,
	BERTH_CAP_EXECUTE = 1u << 4,
	BERTH_CAP_STREAM = 1u << 5, /* open or open_agent */
	BERTH_CAP_PUT_FILE = 1u << 6,
	BERTH_CAP_PORT_URL = 1u << 7,
	BERTH_CAP_DIRECT = 1u << 8, /* open_dir */
};

/* The capabilities of a table: bits of enum berth_capability, from what is not NULL. */
BERTH_PUBLIC unsigned berth_provider_capabilities(const struct berth_provider_ops *ops);

/* Makes a stream empty: no fds. */
BERTH_PUBLIC void berth_stream_init(struct berth_stream *s);
/* Closes both ends, ends the carrier and leaves the stream empty; an empty one is fine. */
BERTH_PUBLIC void berth_stream_close(struct berth_stream *s);

#ifdef __cplusplus
}
#endif
#endif
