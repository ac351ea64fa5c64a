/* SPDX-License-Identifier: MIT */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_H
/*
 * The local provider, inside. A sandbox is a folder STATE/local/NAME:
 *
 *	sandbox     key=value lines, written once at creation: id, created_ms, isolation, dir
 *	home/       the sandbox's home; berth's default directory is home/berth
 *	dirs/       a symlink to each berth directory in use: their inits are ended by stop and destroy
 *	boot        boot id at the last start
 *	stopped     marker: ended on purpose. With its init still there: stopping.
 *	destroying  marker: whoever finds it without a holder of the lock finishes the work
 *	lock        OFD lock of whoever starts, stops or destroys
 *
 * How its init comes to life and what surrounds it is the launcher's business (isolation=none:
 * nothing does).
 */
#include <berth/provider.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/limits.h"

extern const struct berth_provider_ops berth_provider_local;

struct local;

struct launcher {
	const char *name; /* value of isolation= */
	/* Starts an init for this berth directory and returns when it can be connected to; two at
	 * once: one wins, both succeed. */
	int (*start_init)(struct local *l, const char *dir, struct berth_error *err);
	/* Fills in what info says about isolation, net, containment and protection. */
	void (*describe)(const struct local *l, struct berth_provider_info *info);
};

extern const struct launcher local_launcher_none;

/* What is recorded about a sandbox. */
struct local_record {
	char id[64];
	char isolation[32];
	char *dir; /* NULL: the default */
	int64_t created_ms;
};

struct local {
	char *state_dir;
	char *name;
	char *full;           /* "local:NAME", for messages */
	char *base;           /* STATE/local/NAME */
	char *home;           /* base/home */
	char *want_isolation; /* keys of this handle's spec; NULL: not given */
	char *want_dir;
	bool loaded;
	struct local_record record;
};

/* ── local_state.c: the folder ──────────────────────────────────────────────────────────── */

/*
 * Reads the record, once per handle, and compares it with the keys of the spec: BERTH_E_CONFLICT
 * names one that differs; BERTH_E_NOT_FOUND: no such sandbox.
 */
int local_load(struct local *l, struct berth_error *err) attr_warn_unused;
void local_unload(struct local *l);
/* Writes the record of a new sandbox, and its folders. */
int local_create(struct local *l, struct berth_error *err) attr_warn_unused;
/* The lock of the sandbox. The folder is made when @make, else BERTH_E_NOT_FOUND. *ret_fd is closed
 * by the caller. */
int local_lock(struct local *l, bool make, int *ret_fd, struct berth_error *err) attr_warn_unused;
bool local_locked(const struct local *l);
bool local_marked(const struct local *l, const char *marker);
int local_mark(const struct local *l, const char *marker, bool on,
	       struct berth_error *err) attr_warn_unused;
/* Was the last start before the last boot of the machine? */
bool local_other_boot(const struct local *l);
int local_note_boot(const struct local *l, struct berth_error *err) attr_warn_unused;
/* The default berth directory; owned by caller. NULL: no memory. */
char *local_default_dir(const struct local *l) attr_warn_unused;
/* Notes a berth directory as used by this sandbox. */
int local_note_dir(const struct local *l, const char *dir,
		   struct berth_error *err) attr_warn_unused;
/* Calls fn for each noted one; a negative return ends the walk. */
int local_each_dir(const struct local *l,
		   int (*fn)(struct local *l, const char *dir, void *arg, struct berth_error *err),
		   void *arg, struct berth_error *err) attr_warn_unused;
/* Takes the folder out of sight, then removes it. */
int local_discard(struct local *l, struct berth_error *err) attr_warn_unused;
/* Removes what interrupted destroys have left: of sandboxes of this name, or of all (NULL). */
int local_sweep_trash(const struct local *l, const char *name,
		      struct berth_error *err) attr_warn_unused;

/* ── local_life.c ───────────────────────────────────────────────────────────────────────── */

int local_start(void *handle, bool *ret_created, struct berth_error *err);
int local_resume(void *handle, struct berth_error *err);
int local_stop(void *handle, struct berth_error *err);
int local_destroy(void *handle, struct berth_error *err);
int local_info(void *handle, struct berth_provider_info *ret, struct berth_error *err);
int local_start_agent(void *handle, const char *dir, struct berth_error *err);
const struct launcher *local_launcher(const struct local *l);

/* ── local_end.c: ending what runs ──────────────────────────────────────────────────────── */

/*
 * Ends everything under one berth directory: init with STOP, and what has no init any more through
 * its control sockets. @hard: no grace, and what does not answer is killed. Returns 0 when no lock
 * is held there any more.
 */
int local_end_dir(const char *dir, bool hard, struct berth_error *err) attr_warn_unused;

/* ── local_run.c: commands on this machine ──────────────────────────────────────────────── */

/* The environment in which things start: PATH HOME USER TMPDIR LANG and nothing of the caller's.
 * NULL: no memory; free with strv_free_items(). */
char **local_environment(const struct local *l) attr_warn_unused;
int local_execute(void *handle, const char *const *argv, struct berth_execute_io *io,
		  int64_t timeout_ms, struct berth_error *err);
int local_open(void *handle, const char *const *argv, struct berth_stream *ret,
	       struct berth_error *err);
/* Connects to a socket in a directory, however long its path is: the fd or -errno. */
int local_connect(const char *dir, const char *name);
int local_open_agent(void *handle, const char *dir, struct berth_stream *ret,
		     struct berth_error *err);
/* Does somebody hold the lock of dir/init.lock? */
bool local_init_alive(const char *dir);

#endif
