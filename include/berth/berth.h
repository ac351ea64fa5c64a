/* SPDX-License-Identifier: MIT */
/*
 * berth.h: libberth, the whole of it. Runs workers, jobs and servers in sandboxes and tells the truth about them.
 *
 * Conventions. Functions return 0 when done and a negative BERTH_E_* otherwise, with *err filled in (err may be NULL). Outputs (ret_…) are
 * untouched on failure. Strings are UTF-8 or plain bytes with a final NUL; *borrowed for the call* unless said otherwise. Results that own memory have
 * a …_done or …_free function that takes NULL or a zeroed struct. Times are milliseconds. A handle may be used by one thread at a time; different handles
 * are independent. The library does not touch the process: no signal handlers, no chdir, no environment or locale changes. Writes to a stream whose
 * reader is gone do not raise SIGPIPE.
 *
 * Words: sandbox, provider, artifact, execution, session, record: see berth(1).
 */
#ifndef BERTH_H
#define BERTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/base.h>
#include <berth/error.h>
#include <berth/provider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ── a context ─────────────────────────────────────────────────────────────────────────────────────────── */

struct berth;

/* Opens a context. state_dir NULL: $BERTH_STATE, else $XDG_STATE_HOME/berth, else ~/.local/state/berth; made (0700) when something has to be
 * written. *ret is owned by the caller, freed with berth_free(). */
BERTH_PUBLIC int berth_new(const char *state_dir, struct berth **ret, struct berth_error *err);
BERTH_PUBLIC void berth_free(struct berth *b);
BERTH_PUBLIC const char *berth_state_dir(const struct berth *b);
/* The n-th driver built in or registered, NULL behind the last. */
BERTH_PUBLIC const struct berth_provider_ops *berth_provider_at(const struct berth *b, size_t n);
/* Adds a driver to this context; ops is kept until berth_free(). Conflict when the name is taken, invalid when abi or a required op is wrong. */
BERTH_PUBLIC int berth_provider_add(struct berth *b, const struct berth_provider_ops *ops, struct berth_error *err);

/* ── sandboxes ─────────────────────────────────────────────────────────────────────────────────────────── */

struct berth_sandbox;

enum berth_open_flags {
	BERTH_OPEN_START = 1,	/* create or resume when needed, at the first operation that needs it */
	BERTH_OPEN_WAKE = 2,	/* resume a stopped one, never create */
};

/* Parses SPEC ("PROVIDER:NAME[?key=value&…]", NULL: $BERTH_SANDBOX, else "local:default") and makes a handle; touches nothing outside. remote_dir NULL: the spec's
 * dir=, else <home>/berth. An unknown provider or key is BERTH_E_INVALID and lists the known ones. *ret freed with berth_sandbox_close(), which never
 * touches the sandbox. The context must outlive it. */
BERTH_PUBLIC int berth_sandbox_open(struct berth *b, const char *spec, const char *remote_dir, unsigned flags, struct berth_sandbox **ret,
				    struct berth_error *err);
BERTH_PUBLIC void berth_sandbox_close(struct berth_sandbox *s);
/* "PROVIDER:NAME", owned by the handle. */
BERTH_PUBLIC const char *berth_sandbox_name(const struct berth_sandbox *s);
BERTH_PUBLIC unsigned berth_sandbox_capabilities(const struct berth_sandbox *s);
/* "sandbox provider "x" does not support …" when one of caps is missing, else 0. purpose: "worker deploys", "server deploys" … */
BERTH_PUBLIC int berth_sandbox_require(const struct berth_sandbox *s, unsigned caps, const char *purpose, struct berth_error *err);

BERTH_PUBLIC int berth_sandbox_start(struct berth_sandbox *s, struct berth_error *err);
BERTH_PUBLIC int berth_sandbox_stop(struct berth_sandbox *s, struct berth_error *err);
BERTH_PUBLIC int berth_sandbox_info(struct berth_sandbox *s, struct berth_provider_info *ret, struct berth_error *err);

enum berth_destroyed { BERTH_DESTROYED = 1, BERTH_DESTROY_UNSUPPORTED, BERTH_DESTROY_EXHAUSTED };
struct berth_destroy_result {
	enum berth_destroyed state;
	int attempts;
	char message[512];	/* the last failure, "" when there was none */
};
/* Destroys with retry: attempts > 0 (0: 3), delay_ms between them (< 0: 250). What is gone is destroyed. Returns 0 whenever *ret says what happened. */
BERTH_PUBLIC int berth_sandbox_destroy(struct berth_sandbox *s, int attempts, int64_t delay_ms, struct berth_destroy_result *ret, struct berth_error *err);

/* Calls fn with the spec ("PROVIDER:NAME") of every sandbox known to this state folder. A non-zero return of fn ends the walk and is returned. */
BERTH_PUBLIC int berth_sandbox_list(struct berth *b, int (*fn)(void *arg, const char *spec), void *arg, struct berth_error *err);

/* ── states ────────────────────────────────────────────────────────────────────────────────────────────── */

enum berth_state {
	BERTH_STARTING = 1,
	BERTH_RUNNING,
	BERTH_EXITED,
	BERTH_CANCELLED,
	BERTH_TIMED_OUT,
	BERTH_RESOURCE_EXHAUSTED,
	BERTH_FAILED,
	BERTH_PROVIDER_UNAVAILABLE,
	BERTH_UNKNOWN,
};

BERTH_PUBLIC const char *berth_state_name(int state);		/* "starting" …, NULL for a number that is none */
BERTH_PUBLIC bool berth_state_terminal(int state);		/* exited cancelled timed_out resource_exhausted failed */
BERTH_PUBLIC const char *berth_signal_name(int signo);		/* "SIGTERM"; "SIGRTMIN+3"; never NULL */
BERTH_PUBLIC int berth_signal_number(const char *name);		/* "TERM", "SIGTERM", "15"; -1 when it is none */

#define BERTH_ID_MAX 128
#define BERTH_HITS_MAX 8

/* The truth about one execution or durable session at one moment. Plain data, owns nothing. */
struct berth_status {
	enum berth_state state;
	char id[BERTH_ID_MAX + 1];
	char mode[16];			/* "worker", "job", "" */
	int exit_code;			/* -1: there is none */
	int signo;			/* 0: there is none */
	char phase[16], resource[16];
	int exec_errno;			/* failed/launch: errno of looking up or executing the command; 0: it failed otherwise */
	int64_t limit;
	char message[512];
	char provider_state[32];
	int64_t started_ms, finished_ms;	/* 0: not known */
	bool has_usage;
	int64_t user_ms, system_ms, max_rss_bytes;
	struct { char name[24]; int64_t count; } hits[BERTH_HITS_MAX];
	size_t n_hits;
	uint64_t stdout_bytes, stderr_bytes;
	bool has_hashes;		/* sealed */
	char stdout_hash[48], stderr_hash[48];	/* "xxh3-128:<hex>" */
	char containment[16], view[16];
	char artifact[65];		/* tree hash, "" when there is none */
	bool is_final;			/* terminal or unknown: nothing will change any more */
};

/* ── deploying ─────────────────────────────────────────────────────────────────────────────────────────── */

enum berth_input_kind { BERTH_INPUT_NONE = 0, BERTH_INPUT_STDIN, BERTH_INPUT_FILE };

struct berth_limits {	/* 0: no limit */
	int64_t memory_bytes, pids, cpus_milli, cpu_time_ms, file_size_bytes, open_files;
	int64_t output_bytes;	/* per stream; 0: the default of 1 GiB; -1: none */
};

struct berth_progress {
	/* "hash" "upload" "install" "launch". The last is told, with nothing else, before every attempt to launch: from then on the command
	 * may run, until another phase is told. */
	const char *phase;
	uint64_t done, total;	/* bytes; total 0 when not known */
	const char *text;	/* install: a piece of its output, text_len bytes; else NULL */
	size_t text_len;
};

struct berth_deploy_request {
	size_t size;			/* sizeof this struct, for growth */
	const char *dir;		/* the artifact, a local directory */
	const char *id;			/* the caller's name for the execution */
	const char *mode;		/* "worker" (NULL) or "job" */
	const char *const *command;	/* NULL-terminated, not empty */
	const char *const *env;		/* NULL-terminated "K=V", may be NULL */
	const char *workdir;		/* relative to the artifact root, NULL: "." */
	enum berth_input_kind input_kind;
	const char *input_path;		/* BERTH_INPUT_FILE: artifact-relative */
	const void *input;		/* the bytes; borrowed for the call */
	size_t input_len;
	int64_t input_limit;		/* 0: 16 MiB */
	const char *install;		/* NULL: `npm install --omit=dev` when there is a package.json; "": none */
	int64_t install_timeout_ms;	/* 0: 10 minutes */
	int64_t startup_timeout_ms;	/* 0: 10 s */
	int64_t timeout_ms;		/* 0: none */
	int64_t grace_ms;		/* -1: 5 s; 0: KILL at once */
	struct berth_limits limits;
	bool no_record_env;
	bool no_durable;
	void (*progress)(void *arg, const struct berth_progress *p);	/* may be NULL */
	void *progress_arg;
};

/* Fills a request with its defaults. Call it first. */
BERTH_PUBLIC void berth_deploy_request_init(struct berth_deploy_request *req);

struct berth_deploy_result {
	bool existed;		/* the id was taken by the same request: nothing was launched */
	char sandbox_id[128];
	int64_t expires_ms;	/* 0: none */
	struct berth_status status;	/* also state failed/upload and failed/install, which leave no record */
};

/*
 * Uploads what is missing, installs what is missing, launches once, and returns as soon as the worker runs or has ended.
 * 0: *ret has the state, which may be failed or timed_out. BERTH_E_CONFLICT: the id is taken by another request; err names the part that differs.
 * BERTH_E_TIMEOUT: no answer to the launch within startup timeout + 5 s; it may be running: ask berth_status(). Everything is validated before anything is
 * changed (BERTH_E_INVALID). The same request again is safe at any time.
 */
BERTH_PUBLIC int berth_deploy(struct berth_sandbox *s, const struct berth_deploy_request *req, struct berth_deploy_result *ret, struct berth_error *err);

struct berth_relaunch_request {
	size_t size;
	const char *id;			/* of the recorded execution */
	const char *new_id;
	const char *const *env;		/* added or replaced "K=V" */
	bool input_given;		/* use input_kind… below instead of the recorded input */
	enum berth_input_kind input_kind;
	const char *input_path;
	const void *input;
	size_t input_len;
	int64_t input_limit;
};
/* The recorded command, environment and input under a new id. Values neither recorded nor given are BERTH_E_INVALID and named. */
BERTH_PUBLIC int berth_relaunch(struct berth_sandbox *s, const struct berth_relaunch_request *req, struct berth_deploy_result *ret, struct berth_error *err);

/* ── watching ──────────────────────────────────────────────────────────────────────────────────────────── */

/* State now. BERTH_E_NOT_FOUND: no record. A sandbox that cannot be asked is state provider_unavailable, not an error. */
BERTH_PUBLIC int berth_status(struct berth_sandbox *s, const char *id, struct berth_status *ret, struct berth_error *err);
/* Blocks until it is final, without polling. timeout_ms < 0: for ever. BERTH_E_TIMEOUT when the time is over (*ret has the state then too). */
BERTH_PUBLIC int berth_wait(struct berth_sandbox *s, const char *id, int64_t timeout_ms, struct berth_status *ret, struct berth_error *err);

enum berth_output { BERTH_STDOUT = 1, BERTH_STDERR = 2 };

struct berth_read_result {
	uint64_t offset, next_offset;	/* data begins at offset and ends at next_offset */
	bool has_total;
	uint64_t total;
	bool eof, truncated, interrupted, has_gap;
	uint64_t gap_from, gap_to;
	size_t n;			/* bytes in buf */
};
/* Reads at most cap bytes of one stream from an absolute offset; the rules are those of `logs --json` in berth(1). */
BERTH_PUBLIC int berth_read(struct berth_sandbox *s, const char *id, enum berth_output stream, uint64_t offset, void *buf, size_t cap,
			    struct berth_read_result *ret, struct berth_error *err);

struct berth_follow {
	size_t size;
	unsigned streams;		/* 1 << BERTH_STDOUT | 1 << BERTH_STDERR */
	uint64_t offset[3];		/* per stream; where to begin */
	bool until_current;		/* stop at the current end instead of EOF */
	int cancel_fd;			/* -1: none; readable: return BERTH_E_TIMEOUT at once, positions kept */
	/* Data, in order per stream. Non-zero ends the follow and is returned. fd_out[stream] >= 0 is written to directly instead (a broken pipe
	 * is then BERTH_E_IO with sys_errno EPIPE). */
	int (*data)(void *arg, enum berth_output stream, const void *p, size_t n);
	void (*gap)(void *arg, enum berth_output stream, uint64_t from, uint64_t to);
	void *arg;
	int fd_out[3];
};
BERTH_PUBLIC void berth_follow_init(struct berth_follow *f);
/* Streams output until both streams are at EOF (or the current end), then fills *ret_status. f->offset is advanced. No polling. */
BERTH_PUBLIC int berth_follow(struct berth_sandbox *s, const char *id, struct berth_follow *f, struct berth_status *ret_status, struct berth_error *err);

/* Ends the whole tree: TERM, KILL after grace_ms (-1: the recorded one; 0: at once). Returns when it has ended, with the state that was really reached.
 * One that had already ended is left as it is. */
BERTH_PUBLIC int berth_cancel(struct berth_sandbox *s, const char *id, int64_t grace_ms, struct berth_status *ret, struct berth_error *err);
/* Sends a signal to the whole tree. */
BERTH_PUBLIC int berth_signal(struct berth_sandbox *s, const char *id, int signo, struct berth_error *err);

struct berth_record {
	struct berth_status status;
	const char *const *command;	/* owned by the walk, valid in the callback */
	size_t n_command;
};
/* Calls fn for every record, newest first. */
BERTH_PUBLIC int berth_list(struct berth_sandbox *s, int (*fn)(void *arg, const struct berth_record *r), void *arg, struct berth_error *err);
/* Deletes the record of one that has ended (or is unknown); BERTH_E_CONFLICT while it runs. */
BERTH_PUBLIC int berth_remove(struct berth_sandbox *s, const char *id, struct berth_error *err);

struct berth_prune_result { uint64_t records, artifacts, installs, bytes; };
/* Removes ended records older than older_ms (by their end), then artifacts and installs that no record uses. */
BERTH_PUBLIC int berth_prune(struct berth_sandbox *s, int64_t older_ms, struct berth_prune_result *ret, struct berth_error *err);

/* ── commands and files in a sandbox ───────────────────────────────────────────────────────────────────── */

struct berth_exec_request {
	size_t size;
	const char *const *command;
	const char *const *env;
	const char *workdir;		/* NULL: home; relative: below home */
	int64_t timeout_ms, grace_ms;	/* 0: none; -1: 5 s */
	int stdin_fd;			/* -1: empty */
	int stdout_fd, stderr_fd;	/* -1: dropped */
	unsigned cols, rows;		/* both > 0: a pty; stderr is then part of stdout */
	const char *session;		/* durable session name, NULL: none */
	bool attach;			/* session must exist; command is ignored */
	int control_fd;			/* -1: none; else a pipe of the caller: each 4 bytes read are a struct berth_exec_control */
	bool detach_keys;		/* with a pty: ctrl-p ctrl-q detaches */
};
struct berth_exec_control { uint8_t what; uint8_t a; uint16_t b; };	/* what 's': a = signal; 'w': a unused, b = cols, next entry 'h': b = rows; 'd': detach */
struct berth_exec_result {
	int exit_code;		/* 0..255, -1 with signo */
	int signo;
	bool timed_out, detached;
};
BERTH_PUBLIC void berth_exec_request_init(struct berth_exec_request *req);
/* Runs one command with stdio byte for byte. BERTH_E_NOT_FOUND/BERTH_E_PERM with sys_errno set: the command was not found / cannot be executed. */
BERTH_PUBLIC int berth_exec(struct berth_sandbox *s, const struct berth_exec_request *req, struct berth_exec_result *ret, struct berth_error *err);

/* Copies a file or directory tree in or out. remote: path from the sandbox's home, or with id, inside that execution's working view. Permission bits, mtimes and
 * symlinks are kept; links are never followed on the side that is written. Names are those of `docker cp`: a file goes into an existing directory or one that is
 * written with a '/' behind it, else the last path is its new name; a directory goes into an existing directory under its own name, or, with "/." behind it, what is in it
 * does; where nothing is, it is made. Existing files are replaced, existing directories keep their mode. BERTH_E_CONFLICT: a directory onto a file or the other way
 * round, or a link where a directory is to be. BERTH_E_NOT_FOUND: no such path or execution there. BERTH_E_INVALID: a local path that is not there, another file type. */
BERTH_PUBLIC int berth_copy_in(struct berth_sandbox *s, const char *local, const char *id, const char *remote, struct berth_error *err);
BERTH_PUBLIC int berth_copy_out(struct berth_sandbox *s, const char *id, const char *remote, const char *local, struct berth_error *err);

/* ── the host ──────────────────────────────────────────────────────────────────────────────────────────── */

struct berth_check {
	const char *name;	/* "user namespaces" … */
	bool ok;
	const char *detail;	/* what was found */
	const char *hint;	/* how to mend it, NULL when ok */
};
/* Looks at what this host can do; calls fn for each check. */
BERTH_PUBLIC int berth_doctor(struct berth *b, void (*fn)(void *arg, const struct berth_check *c), void *arg, struct berth_error *err);

/* ── JSON, as the command line prints it ───────────────────────────────────────────────────────────────── */

/* The status object of berth(1) for one sandbox name; *ret is malloc'ed, owned by the caller, freed with free(3). */
BERTH_PUBLIC int berth_status_json(const char *sandbox, const struct berth_status *st, char **ret, struct berth_error *err);

#ifdef __cplusplus
}
#endif
#endif
