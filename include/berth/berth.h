/* SPDX-License-Identifier: MIT */
/*
 * berth.h: libberth, the whole of it. Runs workers and jobs in sandboxes and tells the truth about
 * them.
 *
 * Conventions. A function returns 0 when it is done, a positive value where its comment says so,
 * and a negative BERTH_E_ code otherwise, with *err filled in (err may be NULL). Outputs (ret_…,
 * ret) are untouched on failure unless their comment says otherwise. Any function may fail with
 * BERTH_E_NOMEM or BERTH_E_IO; the codes that a comment names are those that mean something there.
 *
 * Strings are bytes with a final NUL, UTF-8 where people read them. Arguments are borrowed for the
 * call unless said otherwise, and so is what a callback is given. What owns memory has a …_free or
 * …_close function that takes NULL. Times are milliseconds; those that end in _ms and are points
 * in time are of the wall clock, since 1970.
 *
 * Threads and the process. A handle may be used by one thread at a time; different handles are
 * independent. The library installs no signal handlers, changes neither the working directory nor
 * the umask, the environment or the locale, waits for no child but its own, and raises no SIGPIPE
 * when a reader is gone.
 *
 * Words (sandbox, provider, artifact, execution, session, record): see berth(1).
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

/* ── a context ──────────────────────────────────────────────────────────────────────────── */

struct berth;

/*
 * Opens a context: the state folder and the drivers. state_dir NULL: $BERTH_STATE, else
 * $XDG_STATE_HOME/berth, else ~/.local/state/berth; it is made (0700) when something has to be
 * written. *ret is owned by the caller, freed with berth_free(). BERTH_E_INVALID: nothing names a
 * state folder.
 */
BERTH_PUBLIC int berth_new(const char *state_dir, struct berth **ret, struct berth_error *err);
/* Frees a context whose handles are closed. NULL is fine. */
BERTH_PUBLIC void berth_free(struct berth *b);
/* The state folder, absolute; owned by the context. It may not exist yet. */
BERTH_PUBLIC const char *berth_state_dir(const struct berth *b);

/* The n-th driver, built in or added, owned by the context; NULL behind the last. */
BERTH_PUBLIC const struct berth_provider_ops *berth_provider_at(const struct berth *b, size_t n);
/*
 * Adds a driver to this context; ops is kept until berth_free(). BERTH_E_CONFLICT: the name is
 * taken. BERTH_E_INVALID: another ABI, or no name, attach or release.
 */
BERTH_PUBLIC int berth_provider_add(struct berth *b, const struct berth_provider_ops *ops,
				    struct berth_error *err);

/* ── sandboxes ──────────────────────────────────────────────────────────────────────────── */

struct berth_sandbox;

enum berth_open_flags {
	BERTH_OPEN_START = 1, /* create or resume it, at the first operation that needs it */
	BERTH_OPEN_WAKE = 2,  /* resume a stopped one, never create */
};

/*
 * Makes a handle from a spec, "PROVIDER:NAME[?key=value&…]"; NULL: $BERTH_SANDBOX, else
 * "local:default". It touches nothing outside this process. remote_dir is where berth lives in the
 * sandbox; NULL: the spec's dir=, else the one fixed at creation, else <home>/berth. flags: enum
 * berth_open_flags, 0 for a handle that starts nothing.
 * *ret is owned by the caller, freed with berth_sandbox_close(); the context must outlive it.
 * BERTH_E_INVALID: no spec, or an unknown provider or key (the message lists the known ones).
 */
BERTH_PUBLIC int berth_sandbox_open(struct berth *b, const char *spec, const char *remote_dir,
				    unsigned flags, struct berth_sandbox **ret,
				    struct berth_error *err);
/* Frees a handle and never touches the sandbox. NULL is fine. */
BERTH_PUBLIC void berth_sandbox_close(struct berth_sandbox *s);
/* "PROVIDER:NAME"; owned by the handle. */
BERTH_PUBLIC const char *berth_sandbox_name(const struct berth_sandbox *s);

/* What the driver can do: bits of enum berth_capability. */
BERTH_PUBLIC unsigned berth_sandbox_capabilities(const struct berth_sandbox *s);
/*
 * 0 when the driver has all of caps, else BERTH_E_UNSUPPORTED: `sandbox provider "x" does not
 * support …`, and, with a purpose ("worker deploys"), `, which is required for …`.
 */
BERTH_PUBLIC int berth_sandbox_require(const struct berth_sandbox *s, unsigned caps,
				       const char *purpose, struct berth_error *err);

/*
 * Creates the sandbox or resumes it, whatever the handle's flags; one that runs is left as it is.
 * BERTH_E_CONFLICT: a key of the spec differs from what exists, and is named.
 */
BERTH_PUBLIC int berth_sandbox_start(struct berth_sandbox *s, struct berth_error *err);
/*
 * Ends everything in it and keeps its files; executions end as cancelled, "sandbox stopped". One
 * that is stopped is left as it is. BERTH_E_NOT_FOUND: no such sandbox.
 */
BERTH_PUBLIC int berth_sandbox_stop(struct berth_sandbox *s, struct berth_error *err);
/* What is known of it; wakes nothing. BERTH_E_NOT_FOUND: no such sandbox. */
BERTH_PUBLIC int berth_sandbox_info(struct berth_sandbox *s, struct berth_provider_info *ret,
				    struct berth_error *err);

enum berth_destroyed { BERTH_DESTROYED = 1, BERTH_DESTROY_UNSUPPORTED, BERTH_DESTROY_EXHAUSTED };
struct berth_destroy_result {
	enum berth_destroyed state;
	int attempts;
	char message[512]; /* the last failure, "" when there was none */
};
/*
 * Removes it for good, with retry: attempts (0 or less: 3), delay_ms between two of them (less than
 * 0: 250). What is gone already is destroyed. Returns 0 whenever *ret says what has become of it,
 * also when that is BERTH_DESTROY_EXHAUSTED.
 */
BERTH_PUBLIC int berth_sandbox_destroy(struct berth_sandbox *s, int attempts, int64_t delay_ms,
				       struct berth_destroy_result *ret, struct berth_error *err);

/*
 * Calls fn with the spec ("PROVIDER:NAME") of every sandbox that this state folder knows. A
 * non-zero return of fn ends the walk and is returned.
 */
BERTH_PUBLIC int berth_sandbox_list(struct berth *b, int (*fn)(void *arg, const char *spec),
				    void *arg, struct berth_error *err);

/* ── states ─────────────────────────────────────────────────────────────────────────────── */

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

/* "starting" …, static; NULL for a number that is no state. */
BERTH_PUBLIC const char *berth_state_name(int state);
/* Is it exited, cancelled, timed_out, resource_exhausted or failed? */
BERTH_PUBLIC bool berth_state_terminal(int state);
/* "SIGTERM", "SIGRTMIN+3", static; "SIG?" for a number that is no signal. */
BERTH_PUBLIC const char *berth_signal_name(int signo);
/* The number of "TERM", "SIGTERM" or "15"; -1 when it is none. */
BERTH_PUBLIC int berth_signal_number(const char *name);

#define BERTH_ID_MAX   128
#define BERTH_HITS_MAX 8

/*
 * The truth about one execution or durable session at one moment. Plain data that owns nothing;
 * texts that do not apply are "". Which fields belong to which state: berth(1).
 */
struct berth_status {
	enum berth_state state;
	char id[BERTH_ID_MAX + 1];
	char mode[16]; /* "worker", "job" */
	int exit_code; /* 0-255; -1: there is none */
	int signo;     /* 0: there is none */
	char phase[16], resource[16];
	/* failed in launch: errno of looking up or executing the command; 0: it failed otherwise */
	int exec_errno;
	int64_t limit; /* resource_exhausted: the limit that was hit, in its own unit */
	char message[512];
	char provider_state[32];         /* provider_unavailable: the sandbox's status */
	int64_t started_ms, finished_ms; /* 0: not known */
	bool has_usage;
	int64_t user_ms, system_ms, max_rss_bytes;
	struct {
		char name[24];
		int64_t count;
	} hits[BERTH_HITS_MAX]; /* limits that were hit and ended nothing: "pids" */
	size_t n_hits;
	uint64_t stdout_bytes, stderr_bytes;   /* written, kept or not */
	bool has_hashes;                       /* it has ended */
	char stdout_hash[48], stderr_hash[48]; /* "xxh3-128:<hex>", over every byte written */
	char containment[16], view[16];
	char artifact[65]; /* tree hash */
	bool is_final;     /* terminal or unknown: nothing will change any more */
};

/* ── deploying ──────────────────────────────────────────────────────────────────────────── */

enum berth_input_kind { BERTH_INPUT_NONE = 0, BERTH_INPUT_STDIN, BERTH_INPUT_FILE };

/* Limits of one execution. 0: none, but for output_bytes. */
struct berth_limits {
	int64_t memory_bytes, pids, cpus_milli, cpu_time_ms, file_size_bytes, open_files;
	int64_t output_bytes; /* kept per stream; 0: the default of 1 GiB; -1: no limit */
};

struct berth_progress {
	/*
	 * "hash" "upload" "install" "launch". The last is told, with nothing else, before every
	 * attempt to launch: from then on the command may run, until another phase is told.
	 */
	const char *phase;
	uint64_t done, total; /* bytes; total 0: not known */
	const char *text;     /* install: text_len bytes of its output, no NUL behind; else NULL */
	size_t text_len;
};

/* A request. Everything that it points to is borrowed for the call. */
struct berth_deploy_request {
	size_t size;                /* set by berth_deploy_request_init() */
	const char *dir;            /* the artifact, a local directory */
	const char *id;             /* the caller's name for the execution */
	const char *mode;           /* "worker" (NULL) or "job" */
	const char *const *command; /* NULL-terminated, not empty */
	const char *const *env; /* NULL-terminated "K=V", may be NULL; the last of a name wins */
	const char *workdir;    /* relative to the artifact's root; NULL: "." */
	enum berth_input_kind input_kind;
	const char *input_path; /* BERTH_INPUT_FILE: relative to the artifact's root */
	const void *input;      /* the bytes */
	size_t input_len;
	int64_t input_limit; /* largest input_len; 0: 16 MiB */
	/* A shell command; NULL: `npm install --omit=dev` when there is a package.json; "": none */
	const char *install;
	int64_t install_timeout_ms; /* waiting for another install counts; 0: 10 minutes */
	int64_t startup_timeout_ms; /* 0: 10 s */
	int64_t timeout_ms;         /* of the execution; 0: none */
	int64_t grace_ms;           /* between TERM and KILL; -1: 5 s; 0: KILL at once */
	struct berth_limits limits;
	bool no_record_env; /* values of variables are not kept on disk */
	bool no_durable;    /* the record is not fsynced */
	/* Called by the thread that deploys. May be NULL. */
	void (*progress)(void *arg, const struct berth_progress *p);
	void *progress_arg;
};

/* Fills a request with its defaults. Call it first. */
BERTH_PUBLIC void berth_deploy_request_init(struct berth_deploy_request *req);

struct berth_deploy_result {
	bool existed; /* the id was taken by the same request: nothing was launched */
	char sandbox_id[128];
	int64_t expires_ms;         /* of the sandbox; 0: it does not */
	struct berth_status status; /* failed in upload or install leaves no record */
};

/*
 * Uploads what is missing, installs what is missing, launches once, and returns as soon as the
 * command runs or has ended. The same request again is safe at any time: it answers with what is
 * there. Everything is validated before anything is changed.
 *
 * 0: *ret has the state, which may be failed or timed_out. BERTH_E_INVALID: the request or the
 * artifact is wrong. BERTH_E_CONFLICT: the id is taken by another request, and err names the part
 * that differs. BERTH_E_UNSUPPORTED: the sandbox cannot run commands, or cannot enforce a limit.
 * BERTH_E_TIMEOUT: no answer to the launch within the startup timeout and 5 s; it may be running,
 * so ask berth_status(). BERTH_E_UNAVAILABLE: the sandbox cannot be reached.
 */
BERTH_PUBLIC int berth_deploy(struct berth_sandbox *s, const struct berth_deploy_request *req,
			      struct berth_deploy_result *ret, struct berth_error *err);

/* Zero it and set size to sizeof. Everything that it points to is borrowed for the call. */
struct berth_relaunch_request {
	size_t size;
	const char *id;         /* of the recorded execution */
	const char *new_id;     /* another one */
	const char *const *env; /* NULL-terminated "K=V", added or replaced; may be NULL */
	bool input_given;       /* the input below, or none, instead of the recorded one */
	enum berth_input_kind input_kind;
	const char *input_path;
	const void *input;
	size_t input_len;
	int64_t input_limit;
};
/*
 * Launches the recorded command, environment and input under a new id. Results are those of
 * berth_deploy(), and BERTH_E_NOT_FOUND: no record of id. BERTH_E_INVALID names the variables
 * whose values were neither recorded nor given; BERTH_E_PRECONDITION: the recorded artifact or
 * input is not in the sandbox any more.
 */
BERTH_PUBLIC int berth_relaunch(struct berth_sandbox *s, const struct berth_relaunch_request *req,
				struct berth_deploy_result *ret, struct berth_error *err);

/* ── watching ───────────────────────────────────────────────────────────────────────────── */

/*
 * In all of these BERTH_E_NOT_FOUND is "no record of that id" or "no such sandbox", and
 * BERTH_E_INVALID an id that is none. None of them creates a sandbox; one that is stopped is
 * resumed for a handle with BERTH_OPEN_WAKE.
 */

/*
 * The state now. A sandbox that cannot be asked is the state provider_unavailable, and no failure.
 */
BERTH_PUBLIC int berth_status(struct berth_sandbox *s, const char *id, struct berth_status *ret,
			      struct berth_error *err);
/*
 * Blocks until the state is final (or the sandbox cannot be asked), without polling. timeout_ms
 * less than 0: for ever. BERTH_E_TIMEOUT: the time is over; *ret has the state then, too.
 */
BERTH_PUBLIC int berth_wait(struct berth_sandbox *s, const char *id, int64_t timeout_ms,
			    struct berth_status *ret, struct berth_error *err);

enum berth_output { BERTH_STDOUT = 1, BERTH_STDERR = 2 };

struct berth_read_result {
	uint64_t offset, next_offset; /* the data begins at offset and ends before next_offset */
	bool has_total;
	uint64_t total;   /* bytes written so far */
	bool eof;         /* nothing will ever follow */
	bool truncated;   /* bytes were written behind next_offset */
	bool interrupted; /* the end cannot be known */
	bool has_gap;
	uint64_t gap_from, gap_to; /* bytes [gap_from, gap_to) were not kept */
	size_t n;                  /* bytes in buf */
};
/*
 * Reads at most cap bytes of one stream from an absolute offset. A read stops before a gap; one
 * that begins at or in a gap reports it and begins behind it. Past the end it is empty. The rules
 * are those of `logs --json` in berth(1). BERTH_E_UNAVAILABLE: the sandbox cannot be asked.
 */
BERTH_PUBLIC int berth_read(struct berth_sandbox *s, const char *id, enum berth_output stream,
			    uint64_t offset, void *buf, size_t cap, struct berth_read_result *ret,
			    struct berth_error *err);

/* Arrays are indexed by enum berth_output; [0] is not used. */
struct berth_follow {
	size_t size;        /* set by berth_follow_init() */
	unsigned streams;   /* which: 1 << BERTH_STDOUT | 1 << BERTH_STDERR */
	uint64_t offset[3]; /* where to begin; afterwards, also after a failure, where it stands */
	bool until_current; /* stop at the end of this moment instead of the end of the execution */
	bool resumed;  /* the caller has followed it while its sandbox ran: if that is stopped now,
			 and the record says how it ended, *ret_status is that end */
	int cancel_fd; /* -1: none; readable: return BERTH_E_TIMEOUT at once */
	/* Bytes, in order per stream. A non-zero return ends the follow and is returned. */
	int (*data)(void *arg, enum berth_output stream, const void *p, size_t n);
	/* Bytes [from, to) were not kept. May be NULL. */
	void (*gap)(void *arg, enum berth_output stream, uint64_t from, uint64_t to);
	void *arg;
	/* 0 or more: the bytes are written there instead of given to data. */
	int fd_out[3];
};
/* Both streams from their beginning to the end, nowhere to go yet. Call it first. */
BERTH_PUBLIC void berth_follow_init(struct berth_follow *f);
/*
 * Streams output until both streams have ended (or until_current), then fills *ret_status in (may
 * be NULL). No polling. BERTH_E_IO with sys_errno EPIPE: the reader of an fd_out is gone.
 * BERTH_E_UNAVAILABLE: the sandbox cannot be asked.
 */
BERTH_PUBLIC int berth_follow(struct berth_sandbox *s, const char *id, struct berth_follow *f,
			      struct berth_status *ret_status, struct berth_error *err);

/*
 * Ends the whole tree: TERM, and KILL after grace_ms (-1: the recorded one; 0: at once). Returns
 * when it has ended, with the state that was really reached; one that had ended is left as it is.
 */
BERTH_PUBLIC int berth_cancel(struct berth_sandbox *s, const char *id, int64_t grace_ms,
			      struct berth_status *ret, struct berth_error *err);
/* Sends a signal to the whole tree. BERTH_E_CONFLICT: it has ended. */
BERTH_PUBLIC int berth_signal(struct berth_sandbox *s, const char *id, int signo,
			      struct berth_error *err);

struct berth_record {
	struct berth_status status;
	const char *const *command; /* NULL-terminated */
	size_t n_command;
};
/*
 * Calls fn for every record, newest first; the record is valid in the callback. A non-zero return
 * of fn ends the walk and is returned.
 */
BERTH_PUBLIC int berth_list(struct berth_sandbox *s,
			    int (*fn)(void *arg, const struct berth_record *r), void *arg,
			    struct berth_error *err);
/* Deletes the record of one that has ended or is unknown. BERTH_E_CONFLICT: it runs. */
BERTH_PUBLIC int berth_remove(struct berth_sandbox *s, const char *id, struct berth_error *err);

struct berth_prune_result {
	uint64_t records, artifacts, installs; /* how many were removed */
	uint64_t bytes;                        /* of disk space */
};
/*
 * Removes records that ended older_ms or longer ago, then artifacts and installs that no record
 * uses and that were not used for older_ms or 10 minutes, whichever is less.
 */
BERTH_PUBLIC int berth_prune(struct berth_sandbox *s, int64_t older_ms,
			     struct berth_prune_result *ret, struct berth_error *err);

/* ── commands and files in a sandbox ────────────────────────────────────────────────────── */

/* Everything that it points to, and every fd, is borrowed for the call. */
struct berth_exec_request {
	size_t size;                /* set by berth_exec_request_init() */
	const char *const *command; /* NULL-terminated, not empty */
	const char *const *env;     /* NULL-terminated "K=V", may be NULL */
	const char *workdir;        /* NULL: the home; relative: below it */
	int64_t timeout_ms;         /* 0: none */
	int64_t grace_ms;           /* after a timeout, between TERM and KILL; -1: 5 s */
	int stdin_fd;               /* -1: empty */
	int stdout_fd, stderr_fd;   /* -1: dropped */
	unsigned cols, rows; /* both more than 0: a terminal; stderr is then part of stdout */
	const char *session; /* name of a durable session; NULL: a guest that ends with the call */
	bool attach;         /* to a session that exists; command is ignored */
	int control_fd;      /* orders while it runs: struct berth_exec_control each; -1: none */
	bool detach_keys;    /* with a terminal: ctrl-p ctrl-q detaches */
};
/* One order, as four bytes on control_fd. */
struct berth_exec_control {
	/*
	 * 's': send signal a. 'w', then 'h': the terminal has b columns, then b rows. 'd': detach.
	 */
	uint8_t what;
	uint8_t a;
	uint16_t b;
};
struct berth_exec_result {
	int exit_code; /* 0-255; -1: signo ended it, or it was detached from */
	int signo;     /* 0: none */
	bool timed_out;
	bool detached; /* a session runs on; a guest has been ended */
};
/* Fills a request with its defaults: no fds, no terminal. Call it first. */
BERTH_PUBLIC void berth_exec_request_init(struct berth_exec_request *req);
/*
 * Runs one command in the sandbox, its stdio byte for byte, and returns when it has ended; what it
 * left in the background lives on. BERTH_E_NOT_FOUND or BERTH_E_PERM with sys_errno set: the
 * command was not found, or cannot be executed. BERTH_E_NOT_FOUND without: no such session or
 * working directory. BERTH_E_CONFLICT: there is a session of that name. BERTH_E_IO with sys_errno
 * EPIPE: the reader of an output is gone. BERTH_E_UNAVAILABLE: the sandbox does not answer (for
 * 10 s at the beginning, or for 5 s when timeout and grace are over). Orders on control_fd are not
 * read before it has answered.
 */
BERTH_PUBLIC int berth_exec(struct berth_sandbox *s, const struct berth_exec_request *req,
			    struct berth_exec_result *ret, struct berth_error *err);

/*
 * Copies a file or a directory tree into the sandbox, or out of it. remote is a path from the
 * sandbox's home or, with an id (else NULL), inside that execution's working view.
 *
 * Names are those of `docker cp`. A file goes into an existing directory, or one that is written
 * with a '/' behind it; else the last path is its new name. A directory goes into an existing
 * directory under its own name, or, with "/." behind it, what is in it does; where nothing is, it
 * is made. Existing files are replaced, existing directories keep their mode. Permission bits,
 * modification times and symbolic links are kept; links are never followed on the side that is
 * written. What was copied before a failure stays.
 *
 * BERTH_E_CONFLICT: a directory onto a file or the other way round, or a link where a directory is
 * to be. BERTH_E_NOT_FOUND: no such path or execution in the sandbox. BERTH_E_INVALID: no such
 * local path, a path that leaves the view, or another type of file.
 */
BERTH_PUBLIC int berth_copy_in(struct berth_sandbox *s, const char *local, const char *id,
			       const char *remote, struct berth_error *err);
BERTH_PUBLIC int berth_copy_out(struct berth_sandbox *s, const char *id, const char *remote,
				const char *local, struct berth_error *err);

/* ── the host ───────────────────────────────────────────────────────────────────────────── */

struct berth_check {
	const char *name; /* "user namespaces" … */
	bool ok;
	const char *detail; /* what was found */
	const char *hint;   /* how to mend it; NULL when ok */
};
/* Looks at what this host can do, by trying it, and calls fn for each check. Changes nothing. */
BERTH_PUBLIC int berth_doctor(struct berth *b, void (*fn)(void *arg, const struct berth_check *c),
			      void *arg, struct berth_error *err);

/* ── JSON, as the command line prints it ────────────────────────────────────────────────── */

/*
 * The status object of berth(1), one line. sandbox: "PROVIDER:NAME". *ret is owned by the caller,
 * freed with free(3). BERTH_E_INVALID: the state is none.
 */
BERTH_PUBLIC int berth_status_json(const char *sandbox, const struct berth_status *st, char **ret,
				   struct berth_error *err);

#ifdef __cplusplus
}
#endif
#endif
