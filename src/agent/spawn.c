/* SPDX-License-Identifier: MIT */
/*
 * spawn.c: starts one command.
 *
 * spawn(): the child shares the memory of this process until it has executed the command (as
 * vfork does), so nothing is copied and
 * the reason of a failure is simply written where the parent reads it; the parent stands still
 * meanwhile. spawn_start() is for who must not
 * stand still, whatever the file system under the command does: a fork, and the reason comes
 * over a pipe. Invariants: between clone
 * and execve the child makes system calls only and writes to its stack and to its report alone;
 * close_range comes when nothing but the filter and the execve is left; it never
 * returns.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "agent/walls.h"

#define CHILD_STACK 32768

struct child {
	const struct spawn *s;
	struct agent_fail *f; /* filled when it fails */
	int report;           /* and written here; -1: f is the parent's own memory */
	bool failed;
	pid_t parent;
	const char
		*stage; /* set before each step; NULL once execve is the only thing left to fail */
	int err;
	bool blocked; /* some candidate existed but could not be executed */
	bool inside;  /* groups[0] has been entered by the clone */
};

void fds_keep(const int *keep, size_t n)
{
	unsigned from = 3;

	for (;;) {
		unsigned next = ~0u;

		for (size_t i = 0; i < n; i++) {
			if (keep[i] >= (int)from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		}
		if (next > from)
			syscall(SYS_close_range, from, next == ~0u ? ~0u : next - 1, 0);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}

void signals_default(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	sigaction(SIGPIPE, &sa, NULL);
	sigaction(SIGXFSZ, &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void signals_agent(void)
{
	/* The kernel's struct sigaction, all zero: SIG_DFL. musl's sigaction() refuses 32 to
	 * 34, and
	 * glibc's posix_spawn() (make's, for one) leaves those ignored. */
	static const uint64_t kernel_default[4];
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		syscall(SYS_rt_sigaction, i, kernel_default, NULL, 8);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, NULL);
	sigaction(SIGXFSZ, &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static const char *env_path(char **envp)
{
	for (; *envp; envp++) {
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	}
	return "/usr/local/bin:/bin:/usr/bin";
}

/* execvp's rule for a file without a magic number: the shell reads it. */
static void try_exec(struct child *c, char *path)
{
	char **argv = c->s->argv, *first = argv[0];

	execve(path, argv, c->s->envp);
	if (errno != ENOEXEC)
		return;
	argv[-1] = (char *)(uintptr_t) "sh";
	argv[0] = path;
	execve("/bin/sh", argv - 1, c->s->envp);
	argv[0] = first;
	errno = ENOEXEC;
}

/* Errors that mean "not here, look on". */
static bool look_on(int err)
{
	return err == ENOENT || err == ENOTDIR || err == EACCES || err == ELOOP ||
	       err == ENAMETOOLONG || err == ESTALE || err == ENODEV || err == ETIMEDOUT;
}

static void exec_lookup(struct child *c)
{
	const char *name = c->s->argv[0], *path = env_path(c->s->envp);
	char full[AGENT_PATH_MAX];
	int err = ENOENT;

	if (strchr(name, '/')) {
		try_exec(c, c->s->argv[0]);
		c->err = errno;
		return;
	}
	for (;;) {
		const char *end = strchr(path, ':');
		size_t n = end ? (size_t)(end - path) : strlen(path);

		if (n + strlen(name) + 2 <= sizeof(full)) {
			fmt(full, sizeof(full), "%.*s%s%s", (int)n, path, n ? "/" : "", name);
			try_exec(c, full);
			/* A folder that may not be searched hides nothing that could be named;
			 * a file that may not be run does. */
			if (errno == EACCES && access(full, F_OK) == 0)
				err = EACCES;
			else if (!look_on(errno)) {
				err = errno;
				break;
			}
		}
		if (!end)
			break;
		path = end + 1;
	}
	c->err = err;
}

/* Whoever has a pipe or terminal as stdio may open it again by name (/dev/stdout). */
static int give_stdio(void)
{
	struct stat st;

	for (int fd = 0; agent.walled && fd < 3; fd++) {
		if (fstat(fd, &st) < 0)
			return -1;
		if ((S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd))) &&
		    wall_give(fd) < 0)
			return -1;
	}
	return 0;
}

static int wall_limits(void)
{
	/* A host that pipes core dumps into a program runs it with the host's rights over whatever
	 * image a worker makes up: 1 is what the kernel takes for "not by a pipe" (0 is not). */
	struct rlimit no_core = {1, 1};

	umask(0022); /* ours lets in who reads records directly */
	return setrlimit(RLIMIT_CORE, &no_core);
}

static int enter(struct child *c)
{
	const struct spawn *s = c->s;

	setsid();
	c->stage = "group";
	for (size_t i = c->inside ? 1 : 0; i < s->n_groups; i++) {
		if (write(s->groups[i], "0", 1) != 1)
			return -1;
	}
	/* Its group is the root of what it sees of groups, and no path of the host's is seen. */
	if (agent.walled && unshare(CLONE_NEWCGROUP) < 0 && (s->n_groups || errno != EINVAL))
		return -1;
	c->stage = "workdir";
	if (fchdir(s->cwdfd) < 0)
		return -1;
	c->stage = "stdio";
	if (dup2(s->in, 0) < 0 || dup2(s->out, 1) < 0 || dup2(s->err, 2) < 0 || give_stdio() < 0)
		return -1;
	if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return -1;
	c->stage = "limits";
	if (agent.walled && wall_limits() < 0)
		return -1;
	for (size_t i = 0; i < s->n_rlimits; i++) {
		if (setrlimit(s->rlimits[i].resource, &s->rlimits[i].value) < 0)
			return -1;
	}
	return 0;
}

/* From here on it has the rights of what it is about to execute. */
static int give_up(struct child *c)
{
	c->stage = "privileges";
	if (wall_drop() < 0)
		return -1;
	c->stage = "parent";
	if (c->s->tied && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != c->parent)) {
		errno = ESRCH;
		return -1;
	}
	return 0;
}

static void exec_failed(const struct child *c)
{
	const char *name = c->s->argv[0];
	bool named = strchr(name, '/') != NULL;

	if (c->err == ENOENT && named && access(name, F_OK) == 0)
		fail(c->f, WIRE_E_NOT_FOUND, "exec", c->err,
		     "cannot run \"%s\": its interpreter does not exist", name);
	else if (c->err == ENOENT && !named)
		fail(c->f, WIRE_E_NOT_FOUND, "exec", c->err,
		     "cannot run \"%s\": no such command in PATH", name);
	else
		fail(c->f, c->err == ENOENT ? WIRE_E_NOT_FOUND : WIRE_E_PERM, "exec", c->err,
		     "cannot run \"%s\": %m", name);
}

static void child_failed(struct child *c) attr_noreturn;
static void child_failed(struct child *c)
{
	c->failed = true;
	if (strcmp(c->stage, "exec") == 0)
		exec_failed(c);
	else
		fail(c->f, WIRE_E_IO, c->stage, c->err, "cannot start \"%s\": %s: %m",
		     c->s->argv[0], c->stage);
	if (c->report >= 0)
		(void)!write(c->report, c->f, sizeof(*c->f));
	_exit(127);
}

static int child_main(void *arg)
{
	struct child *c = arg;
	unsigned from = 3;

	if (enter(c) < 0 || give_up(c) < 0) {
		c->err = errno;
		child_failed(c);
	}
	signals_default();
	if (c->report >= 0) {
		if (c->report != 3)
			dup3(c->report, 3, O_CLOEXEC);
		c->report = 3;
		from = 4;
	}
	syscall(SYS_close_range, from, ~0u, 0u);
	c->stage = "filter";
	if (wall_filter() < 0) {
		c->err = errno;
		child_failed(c);
	}
	c->stage = "exec";
	exec_lookup(c);
	child_failed(c);
}

pid_t spawn(const struct spawn *s, struct agent_fail *f)
{
#ifdef __SANITIZE_ADDRESS__
	static /* what the child leaves behind in the shadow of a stack would be taken for ours */
#endif
		char stack[CHILD_STACK] __attribute__((aligned(16)));
	struct child c = {.s = s, .f = f, .report = -1, .parent = getpid()};
	sigset_t all, old;
	pid_t pid;
	int err;

	/* A signal that reached a handlerless child before its execve could end it; one for us
	 * must not run there. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
	err = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "fork", err, "cannot make a process: %m");
	if (!c.failed)
		return pid;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -1;
}

pid_t fork_into(int dir)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
			set_tid, set_tid_size, cgroup;
	} args = {.flags = 0x200000000u /* CLONE_INTO_CGROUP */,
		  .exit_signal = SIGCHLD,
		  .cgroup = (uint64_t)dir};

	return (pid_t)syscall(435 /* clone3 */, &args, sizeof(args));
}

pid_t spawn_start(const struct spawn *s, int *ret_report, struct agent_fail *f)
{
	struct child c = {.s = s, .f = f, .parent = getpid()};
	int fd[2], err;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "pipe", errno, "cannot make a pipe: %m");
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	c.report = fd[1];
	c.inside = true;
	pid = s->n_groups && s->into ? fork_into(s->into) : -1;
	if (pid < 0) {
		c.inside = false;
		pid = fork();
	}
	if (pid == 0)
		child_main(&c);
	err = errno;
	close(fd[1]);
	if (pid > 0) {
		*ret_report = fd[0];
		return pid;
	}
	close(fd[0]);
	return fail(f, WIRE_E_UNAVAILABLE, "fork", err, "cannot make a process: %m");
}

int spawn_outcome(int report, struct agent_fail *f)
{
	struct agent_fail told;
	ssize_t n;

	do
		n = read(report, &told, sizeof(told));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return 1;
	if (n == 0)
		return 0;
	*f = told;
	return -1;
}
