/* SPDX-License-Identifier: MIT */
/*
 * Spawning. The child is made by clone(CLONE_VM | CLONE_VFORK) on a stack of its own, as
 * posix_spawn(3) does it: nothing is copied, and the caller's thread stands still until execve.
 *
 * Invariants: all signals are blocked from before the clone until the child has set its own mask,
 * so no handler of the caller runs in the child; between clone and execve only async-signal-safe
 * calls are made and nothing is written but the child's own stack and struct plan's scratch;
 * whatever the child needs is made ready before; the child leaves by execve or _exit only.
 *
 * Not here: namespaces, cgroups, credentials (the launcher's business).
 */
#include "loop/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/strv.h"
#include "base/time.h"

#define CHILD_STACK (64 * 1024)
/* The kernel's own soft limit of the stack. */
#define DEFAULT_STACK (8 << 20)
/* The usual hard limit (systemd's, since 240); "unlimited" is more than fs.nr_open allows. */
#define ENOUGH_FILES 524288

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* What the child tells when a step failed. */
struct failure {
	int stage;
	int error;
};

/* The kernel's struct rlimit64. */
struct limit {
	uint64_t soft, hard;
};

/* Everything the child needs, made ready by the parent. */
struct plan {
	const struct child_params *params;
	char *const *env;
	struct strv candidates; /* paths to try, in order */
	int *scratch;           /* one fd per entry of the map */
	int max_to;
	int status_fd;
	pid_t parent;
	uint64_t old_mask; /* the kernel's sigset_t */
};

#ifdef __clang__
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))
#else
#define IN_CHILD __attribute__((no_sanitize_address, no_sanitize_undefined))
#endif

const char *child_stage_text(enum child_stage stage)
{
	static const char *const texts[] = {
		[CHILD_STAGE_NONE] = "none",
		[CHILD_STAGE_SPAWN] = "start a process",
		[CHILD_STAGE_FDS] = "pass the file descriptors",
		[CHILD_STAGE_SESSION] = "start a session",
		[CHILD_STAGE_CWD] = "change to the working directory",
		[CHILD_STAGE_EXEC] = "execute",
	};

	return (size_t)stage < ARRAY_LEN(texts) ? texts[stage] : "start";
}

IN_CHILD attr_noreturn static void child_fail(const struct plan *plan, enum child_stage stage)
{
	struct failure f = {.stage = (int)stage, .error = errno};

	(void)!write(plan->status_fd, &f, sizeof(f));
	_exit(127);
}

IN_CHILD static bool is_target(const struct child_params *params, int fd)
{
	for (size_t i = 0; i < params->n_fds; i++) {
		if (params->fds[i].to == fd)
			return true;
	}
	return false;
}

/* Everything above max_to gets CLOEXEC; it is not closed, as our own pipe is among it. */
IN_CHILD static void cloexec_above(int max)
{
	struct rlimit limit;

	if (syscall(SYS_close_range, (unsigned)max + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 65536)
		limit.rlim_cur = 65536;
	for (int fd = max + 1; fd < (int)limit.rlim_cur; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Sources are first moved above all targets, so that no target overwrites a source. */
IN_CHILD static int place_fds(struct plan *plan)
{
	const struct child_params *params = plan->params;

	plan->status_fd = fcntl(plan->status_fd, F_DUPFD_CLOEXEC, plan->max_to + 1);
	if (plan->status_fd < 0)
		return -1;
	for (size_t i = 0; i < params->n_fds; i++) {
		plan->scratch[i] = fcntl(params->fds[i].from, F_DUPFD_CLOEXEC, plan->max_to + 1);
		if (plan->scratch[i] < 0)
			return -1;
	}
	for (size_t i = 0; i < params->n_fds; i++) {
		if (dup2(plan->scratch[i], params->fds[i].to) < 0)
			return -1;
	}
	for (int fd = 0; fd <= plan->max_to; fd++) {
		int null;

		if (is_target(params, fd))
			continue;
		close(fd);
		if (fd > 2)
			continue;
		null = open("/dev/null", O_RDWR); /* the lowest free one: fd itself */
		if (null != fd && (null < 0 || dup2(null, fd) < 0))
			return -1;
	}
	cloexec_above(plan->max_to);
	return 0;
}

IN_CHILD static int change_directory(const struct child_params *params)
{
	if (params->cwd_fd >= 0 && fchdir(params->cwd_fd) < 0)
		return -1;
	return params->cwd ? chdir(params->cwd) : 0;
}

IN_CHILD static int start_session(const struct plan *plan)
{
	const struct child_params *params = plan->params;

	if (params->setsid && setsid() < 0)
		return -1;
	if (!params->death_sig)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, params->death_sig) < 0)
		return -1;
	if (getppid() == plan->parent)
		return 0;
	errno = ESRCH; /* it died before the signal was set */
	return -1;
}

/* What cannot be raised stays as it is. By system call: the same types for every C library. */
IN_CHILD static void fresh_limits(void)
{
	static const int unbounded[] = {RLIMIT_CPU,   RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_RSS,
					RLIMIT_NPROC, RLIMIT_AS,    RLIMIT_LOCKS};
	const struct limit none = {UINT64_MAX, UINT64_MAX}, files = {ENOUGH_FILES, ENOUGH_FILES};
	struct limit l;

	for (size_t i = 0; i < ARRAY_LEN(unbounded); i++)
		syscall(SYS_prlimit64, 0, unbounded[i], &none, NULL);
	for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
		if (syscall(SYS_prlimit64, 0, i, NULL, &l) < 0)
			continue;
		if (i == RLIMIT_NOFILE && l.hard < ENOUGH_FILES &&
		    syscall(SYS_prlimit64, 0, i, &files, NULL) == 0)
			continue;
		l.soft = l.hard;
		if (i == RLIMIT_STACK)
			l.soft = MIN_OF(l.hard, (uint64_t)DEFAULT_STACK);
		else if (i == RLIMIT_CORE)
			l.soft = 0;
		syscall(SYS_prlimit64, 0, i, &l, NULL);
	}
	setpriority(PRIO_PROCESS, 0, 0);
}

IN_CHILD static void reset_signals(const struct plan *plan)
{
	/* The kernel's struct sigaction, all zero: SIG_DFL. By system call, as the C library's
	 * function refuses the two signals that it keeps for itself. */
	const uint64_t dfl[8] = {0};
	uint64_t mask = plan->params->keep_mask ? plan->old_mask : 0;

	for (int sig = 1; sig < NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, dfl, NULL, sizeof(mask)); /* fails for KILL, STOP */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* Tries the candidates as execvp(3) does. Returns with errno set. */
IN_CHILD static void exec_candidates(const struct plan *plan)
{
	bool denied = false;

	for (size_t i = 0; i < plan->candidates.len; i++) {
		execve(plan->candidates.items[i], plan->params->argv, plan->env);
		if (errno == EACCES)
			denied = true;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV)
			return;
	}
	if (denied)
		errno = EACCES;
}

IN_CHILD static int child_main(void *arg)
{
	struct plan *plan = arg;

	if (start_session(plan) < 0)
		child_fail(plan, CHILD_STAGE_SESSION);
	if (change_directory(plan->params) < 0)
		child_fail(plan, CHILD_STAGE_CWD);
	if (plan->params->fresh_limits)
		fresh_limits(); /* the fds may need it */
	if (place_fds(plan) < 0)
		child_fail(plan, CHILD_STAGE_FDS);
	reset_signals(plan);
	exec_candidates(plan);
	child_fail(plan, CHILD_STAGE_EXEC);
}

static const char *find_path(char *const *env)
{
	for (; *env; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return "/bin:/usr/bin";
}

/* The paths that execvp(3) would try for @file. 0 or a BERTH_E_ code. */
static int list_candidates(const char *file, char *const *env, struct strv *ret)
{
	const char *path = find_path(env);

	if (file[0] == '\0' || strchr(file, '/'))
		return strv_add(ret, file);
	for (;;) {
		size_t n = strcspn(path, ":");
		int r = n == 0 ? strv_addf(ret, "./%s", file)
			       : strv_addf(ret, "%.*s/%s", (int)n, path, file);

		if (r < 0 || path[n] == '\0')
			return r;
		path += n + 1;
	}
}

static int make_plan(const struct child_params *params, struct plan *plan)
{
	const char *file = params->file ? params->file : params->argv[0];

	plan->params = params;
	plan->env = params->env ? params->env : environ;
	plan->parent = getpid();
	plan->max_to = 2;
	for (size_t i = 0; i < params->n_fds; i++)
		plan->max_to = MAX_OF(plan->max_to, params->fds[i].to);
	plan->scratch = mem_zalloc(params->n_fds, sizeof(*plan->scratch));
	if (!plan->scratch)
		return BERTH_E_NOMEM;
	return list_candidates(file, plan->env, &plan->candidates);
}

/* Clones with all signals blocked. The pid, or -errno. */
static pid_t clone_child(struct plan *plan, int *ret_pidfd)
{
	uint64_t all = ~UINT64_C(0);
	int pidfd = -1, r;
	char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return -errno;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &plan->old_mask, sizeof(all));
	r = clone(child_main, stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
		  plan, &pidfd);
	if (r < 0)
		r = -errno;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &plan->old_mask, NULL, sizeof(all));
	munmap(stack, CHILD_STACK);
	if (r > 0)
		*ret_pidfd = pidfd;
	return r;
}

static int code_of(int stage, int error)
{
	if (error == ENOMEM || error == EAGAIN)
		return BERTH_E_NOMEM;
	if (stage == CHILD_STAGE_EXEC || stage == CHILD_STAGE_CWD) {
		if (error == ENOENT || error == ENOTDIR)
			return BERTH_E_NOT_FOUND;
		if (error == EACCES || error == EPERM)
			return BERTH_E_PERM;
	}
	return BERTH_E_IO;
}

static int spawn_failed(const struct child_params *params, struct failure f,
			enum child_stage *ret_stage, struct berth_error *err)
{
	const char *what = "";

	if (ret_stage)
		*ret_stage = (enum child_stage)f.stage;
	if (f.stage == CHILD_STAGE_EXEC)
		what = params->file ? params->file : params->argv[0];
	else if (f.stage == CHILD_STAGE_CWD && params->cwd)
		what = params->cwd;
	return berth_fail_errno(err, code_of(f.stage, f.error), f.error, "cannot %s%s%s",
				child_stage_text((enum child_stage)f.stage), *what ? " " : "",
				what);
}

int child_spawn(const struct child_params *params, struct child *ret_child,
		enum child_stage *ret_stage, struct berth_error *err)
{
	auto(strv) struct strv candidates = STRV_INIT(ARG_COUNT_MAX);
	auto(child) struct child child = CHILD_INIT;
	auto_free int *scratch = NULL;
	auto_close int status = -1;
	struct plan plan = {.candidates = STRV_INIT(ARG_COUNT_MAX)};
	struct failure f = {.stage = CHILD_STAGE_SPAWN};
	int fds[2], r;
	pid_t pid;

	r = make_plan(params, &plan);
	scratch = plan.scratch;
	candidates = plan.candidates;
	if (r < 0) {
		f.error = ENOMEM;
		return spawn_failed(params, f, ret_stage, err);
	}
	r = fd_pipe(fds, 0);
	if (r < 0) {
		f.error = -r;
		return spawn_failed(params, f, ret_stage, err);
	}
	status = fds[0];
	plan.status_fd = fds[1];
	pid = clone_child(&plan, &child.pidfd);
	close(fds[1]); /* plan.status_fd is the child's number by now: the memory is shared */
	if (pid < 0) {
		f.error = -pid;
		return spawn_failed(params, f, ret_stage, err);
	}
	child.pid = pid;
	if (read_full(status, &f, sizeof(f)) == (ssize_t)sizeof(f))
		return spawn_failed(params, f, ret_stage, err); /* auto(child) reaps */
	*ret_child = child;
	child = (struct child)CHILD_INIT;
	return 0;
}

static void fill_exit(const siginfo_t *info, struct child_exit *ret)
{
	*ret = (struct child_exit){.signaled = info->si_code != CLD_EXITED,
				   .core = info->si_code == CLD_DUMPED};
	if (ret->signaled)
		ret->signal = info->si_status;
	else
		ret->code = info->si_status & 0xff;
}

int child_wait(struct child *child, int64_t timeout_ms, struct child_exit *ret_exit,
	       struct berth_error *err)
{
	int64_t deadline = deadline_from_ms(timeout_ms);
	siginfo_t info;
	int r;

	if (child->pid <= 0)
		return berth_fail_errno(err, BERTH_E_IO, ECHILD, "cannot wait");
	do {
		r = wait_readable(child->pidfd, deadline);
	} while (r == -EINTR);
	if (r == 0)
		return 1;
	if (r < 0)
		return berth_fail_errno(err, 0, r, "cannot wait");
	memset(&info, 0, sizeof(info));
	r = RETRY_EINTR(waitid((idtype_t)P_PIDFD, (id_t)child->pidfd, &info, WEXITED));
	if (r < 0)
		return berth_fail_errno(err, BERTH_E_IO, errno, "cannot wait");
	fill_exit(&info, ret_exit);
	fd_close(&child->pidfd);
	child->pid = 0;
	return 0;
}

int child_kill(const struct child *child, int sig)
{
	if (child->pid <= 0)
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, child->pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

void child_detach(struct child *child, int *ret_pidfd)
{
	if (ret_pidfd)
		*ret_pidfd = TAKE_FD(child->pidfd);
	fd_close(&child->pidfd);
	child->pid = 0;
}

void child_done(struct child *child)
{
	struct child_exit ignored;

	if (child->pid > 0) {
		child_kill(child, SIGKILL);
		(void)!child_wait(child, -1, &ignored, NULL);
	}
	fd_close(&child->pidfd);
	child->pid = 0;
}
