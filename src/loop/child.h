/* SPDX-License-Identifier: MIT */
#ifndef BERTH_LOOP_CHILD_H
#define BERTH_LOOP_CHILD_H
/*
 * Starting and waiting for processes: the only place where the library side does either.
 *
 * The child starts with the descriptors of @fds and nothing else (close_range), default signal
 * dispositions and an empty signal mask, whatever the caller's process has. It shares the caller's
 * memory until execve (vfork), so it is cheap in a large process, too; between the two only
 * async-signal-safe calls are made. A set-up step or execve that fails is told to the caller with
 * its errno, over a CLOEXEC pipe; it never looks like an exit of the program.
 *
 * The process that called is a guest's host: no SIGCHLD handler is installed and only the child
 * itself is waited for, by its pidfd.
 */
#include <signal.h>
#include <sys/types.h>

#include <berth/error.h>

#include "base/attr.h"
#include "base/cleanup.h"

/* Where a launch failed. Static texts by child_stage_text(). */
enum child_stage {
	CHILD_STAGE_NONE,
	CHILD_STAGE_SPAWN, /* pipe, clone, pidfd: in the caller */
	CHILD_STAGE_FDS,   /* fd map, close_range */
	CHILD_STAGE_SESSION,
	CHILD_STAGE_CWD,
	CHILD_STAGE_EXEC,
};

/* The caller's fd @from becomes @to in the child. Both at least 0; each @to once. */
struct child_fd {
	int from;
	int to;
};

struct child_params {
	/* The program: with a '/' it is a path (relative to the new cwd), else it is looked up in
	 * the PATH of @env as execvp(3) does, but a file that is no program is never given to sh.
	 * NULL: argv[0]. */
	const char *file;
	char *const *argv; /* NULL-terminated, at least one */
	char *const *env;  /* NULL: the caller's environment */
	const char *cwd;   /* NULL: the caller's */
	/* An open directory instead of @cwd; -1: none. @cwd is relative to it when both are given.
	 * A zeroed struct names fd 0 here: start from CHILD_PARAMS_INIT. */
	int cwd_fd;
	/* 0, 1 and 2 when not named here are /dev/null. Borrowed for the call. */
	const struct child_fd *fds;
	size_t n_fds;
	bool setsid; /* a session of its own */
	/* For what outlives its starter: nothing that ulimit(1) or nice(1) have made of us. Soft
	 * limits go up to the hard ones, and these away, as far as the kernel lets us; stack and
	 * core are the kernel's defaults, nice is 0. */
	bool fresh_limits;
	bool keep_mask; /* keep the caller's signal mask instead of an empty one */
	int death_sig;  /* PR_SET_PDEATHSIG; 0: none. It is tied to the calling thread. */
};

#define CHILD_PARAMS_INIT    \
	{                    \
		.cwd_fd = -1 \
	}

/*
 * A started process. Empty: CHILD_INIT. Ends with child_done(), which kills and reaps a child that
 * was not waited for.
 */
struct child {
	pid_t pid; /* 0: none */
	int pidfd; /* CLOEXEC; -1: none. Readable when the process has ended. */
};

#define CHILD_INIT                    \
	{                             \
		.pid = 0, .pidfd = -1 \
	}

/*
 * Starts a process. On return the program runs (execve has succeeded) or nothing was left behind.
 * On failure err->sys_errno is the errno of the step and *ret_stage (may be NULL) says which one;
 * CHILD_STAGE_EXEC with ENOENT is BERTH_E_NOT_FOUND, EACCES is BERTH_E_PERM, ENOMEM and EAGAIN are
 * BERTH_E_NOMEM, everything else BERTH_E_IO.
 */
int child_spawn(const struct child_params *params, struct child *ret_child,
		enum child_stage *ret_stage, struct berth_error *err) attr_warn_unused;

/* How a process ended: exactly one of the two is set. */
struct child_exit {
	bool signaled;
	int code;   /* 0-255, when !signaled */
	int signal; /* when signaled */
	bool core;  /* dumped */
};

/*
 * Waits for the end of the child and reaps it. @timeout_ms < 0 waits for ever, 0 only looks.
 * 0: ended, *ret_exit filled in, the child is empty now. 1: still running after the timeout.
 * BERTH_E_IO with ECHILD: somebody else in this process has reaped it, or ignores SIGCHLD.
 */
int child_wait(struct child *child, int64_t timeout_ms, struct child_exit *ret_exit,
	       struct berth_error *err) attr_warn_unused;

/* Sends a signal through the pidfd: never to a reused pid. 0, or -errno (-ESRCH: has ended). */
int child_kill(const struct child *child, int sig);

/* Gives the child up without waiting: the caller of *ret_pidfd (or nobody) reaps it. */
void child_detach(struct child *child, int *ret_pidfd);

/* SIGKILLs and reaps a child that is still there. */
void child_done(struct child *child);
BERTH_DEFINE_AUTO(child, struct child, child_done);

/*
 * Starts @argv, gives it @in_len bytes of stdin, and collects what it writes: bounded, without
 * deadlock. Each stream may be up to @max_out bytes (more: BERTH_E_TOO_LARGE and the child is
 * killed); past @timeout_ms (< 0: none) it is killed: BERTH_E_TIMEOUT. *ret_out and *ret_err are
 * NUL-terminated, owned by caller, free with free(); each may be NULL: then it goes to /dev/null.
 * What is still in the pipes when the child has ended is read; a process that it left behind with
 * the pipes in its hands is not waited for. params->fds must not name 0, 1 or 2. A failure to start
 * is child_spawn()'s. The exit status is no failure: look at *ret_exit.
 */
int child_run(const struct child_params *params, const void *in, size_t in_len, size_t max_out,
	      int64_t timeout_ms, struct child_exit *ret_exit, char **ret_out, size_t *ret_out_len,
	      char **ret_err, size_t *ret_err_len, struct berth_error *err) attr_warn_unused;

/* "exec", "working directory", … */
const char *child_stage_text(enum child_stage stage);
/* "SIGTERM" …; real-time ones as "SIGRTMIN+3"; NULL for numbers that are no signal. Static. */
const char *signal_name(int sig);
/* 15 for "SIGTERM", "TERM" or "15"; -1 for what is none. */
int signal_number(const char *name);

#endif
