/* SPDX-License-Identifier: MIT */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_H
/*
 * The local provider, inside. A sandbox is a folder STATE/local/NAME:
 *
 *	sandbox     key=value lines, written once at creation: id, created_ms, the keys of its spec,
 *	            expires_ms, uid_base, gid_base
 *	home/       the sandbox's home; with isolation=none berth's default directory is home/berth
 *	berth/      with isolation=bwrap: berth's directory, which no worker sees
 *	root/       with rootfs=: what was changed in it
 *	dirs/       a symlink to each berth directory in use: their inits are ended by stop and destroy
 *	groups      isolation=bwrap: control groups of this life (written by stage)
 *	ports       isolation=bwrap: where ports were published last
 *	staging     isolation=bwrap: locked by who builds it (what we have started may outlive us)
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
#include "core/host.h"
#include "providers/local/local_keys.h"

extern const struct berth_provider_ops berth_provider_local;

struct local;

struct launcher {
	const char *name; /* value of isolation= */
	/* Starts an init for this berth directory and returns when it can be connected to; two at
	 * once: one wins, both succeed. */
	int (*start_init)(struct local *l, const char *dir, struct berth_error *err);
	/* What of it is left when its init has ended, or has not come up: groups, helpers. Again is
	 * fine. NULL: nothing. */
	int (*clean)(struct local *l, struct berth_error *err);
	/* Fills in what info says about isolation, net, containment, ports and protection; alive:
	 * it runs. */
	void (*describe)(const struct local *l, bool alive, struct berth_provider_info *info);
};

extern const struct launcher local_launcher_none, local_launcher_bwrap;

/* What is recorded about a sandbox. */
struct local_record {
	char id[64];
	struct local_keys keys;
	int64_t created_ms;
	int64_t expires_ms; /* wall clock; 0: never */
	int64_t uid_base;   /* isolation=bwrap with uids=range: the first host uid; 0: none */
	int64_t gid_base;
};

struct local {
	char *state_dir;
	char *name;
	char *full;             /* "local:NAME", for messages */
	char *base;             /* STATE/local/NAME */
	char *home;             /* base/home */
	char *inner;            /* base/berth: berth's directory with isolation=bwrap */
	struct local_keys want; /* keys of this handle's spec */
	bool remote_dir;        /* dir= or --remote-dir was given */
	bool loaded;
	struct local_record record;
};

/* ── local_state.c: the folder ──────────────────────────────────────────────────────────── */

/*
 * Reads the record, once per handle, and compares it with the keys of the spec: BERTH_E_CONFLICT
 * names one that differs; BERTH_E_NOT_FOUND: no such sandbox, or it has expired.
 */
int local_load(struct local *l, struct berth_error *err) attr_warn_unused;
/* The same without comparing; damaged ones are BERTH_E_IO. */
int local_load_any(struct local *l, struct berth_error *err) attr_warn_unused;
/* isolation=bwrap, as recorded or, for one that is not there, as it would be made? */
bool local_walled(const struct local *l);
/* A path of the sandbox's folder; owned by caller; NULL: no memory. */
char *local_path(const struct local *l, const char *name) attr_warn_unused;
void local_unload(struct local *l);
/* Writes the record of a new sandbox, and its folders; r: what is to be recorded beside the keys. */
int local_create(struct local *l, const struct local_record *r,
		 struct berth_error *err) attr_warn_unused;
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
/* Why did its init end: "stopped", "idle", "expired"; "" when it did not mean to. */
void local_ended(const struct local *l, char *ret, size_t cap);
/* The time it was given is over, and it has ended. */
bool local_expired(const struct local *l);
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
/* With isolation=bwrap there is one berth directory: BERTH_E_INVALID for another. */
int local_check_dir(const struct local *l, const char *dir,
		    struct berth_error *err) attr_warn_unused;

/* ── local_make.c: what a new sandbox is given, and what is taken back ──────────────────── */

/* Can it be made with these keys on this machine? Nothing is changed. */
int local_may_make(const struct local *l, struct berth_error *err) attr_warn_unused;
/* With the lock: gives it its uids and its quota, then writes its record. A failure leaves
 * nothing. */
int local_make(struct local *l, struct berth_error *err) attr_warn_unused;
/* Removes what only its own ids may remove; the folder is discarded next. */
int local_unmake(struct local *l, struct berth_error *err) attr_warn_unused;
/* When its files are gone. */
void local_give_uids(const struct local *l);

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
/* The path of the agent, which is written when it is not there. Owned by caller. */
int local_agent_path(const struct local *l, char **ret, struct berth_error *err) attr_warn_unused;
/* Is the sandbox there and not stopped? */
int local_usable(struct local *l, struct berth_error *err) attr_warn_unused;
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

/* ── local_inside.c: the same behind walls, through the agent ───────────────────────────── */

int local_inside_execute(struct local *l, const char *const *argv, struct berth_execute_io *io,
			 int64_t timeout_ms, struct berth_error *err) attr_warn_unused;
int local_inside_put(struct local *l, const char *path, unsigned mode, const void *data, size_t len,
		     struct berth_error *err) attr_warn_unused;

/* ── local_uids.c: host uids of a sandbox ───────────────────────────────────────────────── */

#define LOCAL_UIDS HOST_SUBIDS_LEAST /* ids of a sandbox */

/* Where ranges come from, and where it is written down whose they are. */
struct uid_pool {
	char *dir;        /* the register: a symlink UID -> folder of the sandbox each */
	int64_t uid, gid; /* the first ids */
	int64_t count;    /* ranges */
};

/* The pool of this user; BERTH_E_UNAVAILABLE with a hint when there is none. */
int uid_pool_open(struct uid_pool *ret, struct berth_error *err) attr_warn_unused;
/* From the ids in subuid(5) files, for an ordinary user. */
int uid_pool_subids(const char *subuid, const char *subgid, const char *user, unsigned long uid,
		    struct uid_pool *ret, struct berth_error *err) attr_warn_unused;
void uid_pool_done(struct uid_pool *p);
BERTH_DEFINE_AUTO(uid_pool, struct uid_pool, uid_pool_done);
/* A range for the sandbox in this folder: the one that it has, else a free one. */
int uid_pool_take(const struct uid_pool *p, const char *folder, int64_t *ret_uid, int64_t *ret_gid,
		  struct berth_error *err) attr_warn_unused;
/* Makes sure that a range is this sandbox's (still). BERTH_E_UNAVAILABLE: it is another's. */
int uid_pool_keep(const struct uid_pool *p, const char *folder, int64_t uid,
		  struct berth_error *err) attr_warn_unused;
/* Gives back what the sandbox in this folder has. */
void uid_pool_give(const struct uid_pool *p, const char *folder);

/* ── local_ports.c ──────────────────────────────────────────────────────────────────────── */

/* Published ports and their listening sockets. */
struct local_ports {
	struct local_port {
		unsigned port, host;
		int fd; /* -1: only known */
	} p[LOCAL_PORTS_MAX];
	size_t n;
};
#define LOCAL_PORTS_INIT \
	{                \
		.n = 0   \
	}

void local_ports_done(struct local_ports *p);
BERTH_DEFINE_AUTO(local_ports, struct local_ports, local_ports_done);
/* Opens the sockets of ports= on 127.0.0.1; a free one has the number that it had before, where
 * that is still free. Writes them down. */
int local_ports_listen(const struct local *l, struct local_ports *ret,
		       struct berth_error *err) attr_warn_unused;
/* What was published last. */
int local_ports_read(const struct local *l, struct local_ports *ret,
		     struct berth_error *err) attr_warn_unused;
int local_port_url(void *handle, unsigned port, char *url, size_t cap, struct berth_error *err);
/* "4111=http://127.0.0.1:32801 …" */
void local_ports_describe(const struct local *l, char *buf, size_t cap);

/* ── local_groups.c: control groups ─────────────────────────────────────────────────────── */

/* Ends what lives in the groups of the last life and removes them. */
int local_groups_remove(const struct local *l, struct berth_error *err) attr_warn_unused;

/* ── local_quota.c ──────────────────────────────────────────────────────────────────────── */

/* Limits the (empty) folder of a new sandbox. id: of its project, nobody else's. */
int local_quota_set(const char *folder, uint32_t id, int64_t bytes,
		    struct berth_error *err) attr_warn_unused;
/* Takes the limit of a project away. */
void local_quota_clear(const char *folder, uint32_t id);
/* 0, or why the file system of a folder has none. */
int local_quota_check(const char *folder, struct berth_error *err) attr_warn_unused;

#endif
