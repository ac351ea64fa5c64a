/* SPDX-License-Identifier: MIT */
#ifndef BERTH_PROVIDERS_FAKE_FAKE_H
#define BERTH_PROVIDERS_FAKE_FAKE_H
/*
 * The fake provider: real local sandboxes without walls (under STATE/fake), behind faults that a
 * script in the spec asks for. It is for tests: in every build, in no list for users.
 *
 * Its tables differ by what the driver "can do", because capabilities come from the table alone:
 *
 *	fake		everything that local can
 *	fake-stream	no quick road and no direct records: bootstrap, `connect`, frames over a pipe
 *	fake-exec	commands only, with input: `call`
 *	fake-text	commands only, and their output survives as text only (LF becomes CRLF, other
 *			bytes than UTF-8 become U+FFFD)
 *	fake-bare	execute and nothing else: the sandbox is there always (made at the first
 *			command)
 *	fake-none	no operation but attach
 *
 * Keys:
 *	fail=OP:N[:ERR[:after]][,…]
 *			the Nth call (from 1; 0: each) of OP on a handle fails with ERR, the name of an
 *			error ("unavailable", the default, "conflict", "not_found", "io", "timeout",
 *			"auth", "perm", "nomem", "unsupported", "protocol", "internal"); with `after` it
 *			is done first and only its answer is lost. OP is the name of an operation of
 *			berth_provider_ops.
 *	cut=N		streams and outputs of execute end after N bytes from the sandbox
 *	cutup=N		streams break after N bytes to the sandbox
 *	stall=N		after N bytes from the sandbox nothing comes any more; the stream stays open
 *	stallup=N	after N bytes to the sandbox nothing is taken any more
 *	slow=BPS	bytes per second, each way
 *	times=N		the four above hit the first N streams (or executes) of the handle only; default
 *			all
 *	noinput=1	execute cannot carry input
 */
#include <berth/provider.h>

#include "base/attr.h"
#include "base/cleanup.h"

extern const struct berth_provider_ops *const berth_provider_fakes[];

#define FAKE_RULES_MAX 16

struct fake_rule {
	char op[16];
	long nth; /* 0: each */
	int code;
	bool after;
};

/* What happens to bytes; -1: nothing. */
struct fake_faults {
	int64_t cut, cut_up, stall, stall_up, slow;
};
#define FAKE_NO_FAULTS             \
	{                          \
		-1, -1, -1, -1, -1 \
	}

struct fake {
	void *inner; /* handle of the driver behind */
	struct fake_rule rules[FAKE_RULES_MAX];
	size_t n_rules;
	long calls[FAKE_RULES_MAX]; /* per rule: calls of its op so far */
	struct fake_faults faults;
	int64_t times; /* -1: always */
	int64_t hits;
	bool no_input, text;
};

/* The faults of the next stream or execute. */
struct fake_faults fake_next_faults(struct fake *f);

/* Puts a relay with faults between a stream (taken) and the caller. */
int fake_relay(struct berth_stream *stream, struct fake_faults faults,
	       struct berth_error *err) attr_warn_unused;

#endif
