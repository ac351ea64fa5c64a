/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_CORE_H
#define BERTH_CORE_CORE_H
/*
 * What the files of core share: the insides of the two public handles, and the questions that are
 * asked of a sandbox before a road (core/road.h) is taken. Functions of berth/berth.h are defined
 * in core, each where its work is; lib/ has only berth_new() (which knows the drivers) and the
 * version.
 *
 * provider.c is the only caller of provider operations.
 */
#include <berth/berth.h>

#include "base/attr.h"
#include "base/cleanup.h"

struct road;

struct berth {
	char *state_dir; /* absolute; may not exist yet */
	const struct berth_provider_ops **ops;
	size_t n_ops;
};

/* Makes a context over a table of drivers (kept until berth_free()). */
int core_context_new(const char *state_dir, const struct berth_provider_ops *const *drivers,
		     size_t n_drivers, struct berth **ret,
		     struct berth_error *err) attr_warn_unused;

struct berth_sandbox {
	struct berth *b;
	const struct berth_provider_ops *ops;
	unsigned caps;    /* enum berth_capability */
	void *handle;     /* the driver's */
	char *provider;   /* as in PROVIDER:NAME */
	char *name;       /* NAME */
	char *full;       /* "PROVIDER:NAME" */
	char *remote_dir; /* as given, NULL: default */
	unsigned flags;   /* enum berth_open_flags */

	/* Learnt on the way; NULL, -1, false before. */
	char *home;        /* absolute; sandbox_home() */
	char *dir;         /* the berth directory, absolute; sandbox_dir() */
	int dir_fd;        /* of the berth directory, where records can be read directly */
	bool started;      /* this handle has seen start or resume succeed */
	bool init_is_life; /* as info said last */
	bool no_input;     /* the driver's execute has refused input */
	char *agent;       /* path of berth-agent in the sandbox, once it is known to be there */
	char machine[32];  /* uname -m there, "" before */
	struct road *idle; /* kept roads */
	size_t n_idle;
};

/*
 * Starts or resumes the sandbox as the handle's flags allow, once. Without a flag it does nothing.
 * Every operation that needs a running sandbox calls it first (road_get(ROAD_START) does).
 */
int sandbox_ensure_started(struct berth_sandbox *s, struct berth_error *err) attr_warn_unused;

/* The home of the sandbox; borrowed from the handle. The sandbox must run where the driver has no
 * op for it. */
int sandbox_home(struct berth_sandbox *s, const char **ret_home,
		 struct berth_error *err) attr_warn_unused;
/* The berth directory, absolute; borrowed from the handle. */
int sandbox_dir(struct berth_sandbox *s, const char **ret_dir,
		struct berth_error *err) attr_warn_unused;
/*
 * An fd of the berth directory for reading records without the agent; borrowed from the handle.
 * BERTH_E_UNSUPPORTED: this driver has none; BERTH_E_NOT_FOUND: nothing is there yet.
 */
int sandbox_dir_fd(struct berth_sandbox *s, int *ret_fd, struct berth_error *err) attr_warn_unused;

#endif
