/* SPDX-License-Identifier: MIT */
/*
 * tree.c: makes the process that owns a tree, at the best level there is; and tree_run().
 *
 * Invariants: a namespace whose /proc cannot be mounted is given up (pids in it would mean
 * somebody else's processes); what was found
 * out about this machine is kept in the page that init shares. In tree_run() the runner ends
 * its tree when its command ends, when it is told
 * to, and when the caller dies (the pipe between them closes).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/limits.h"
#include "agent/spawn.h"
#include "agent/sweep.h"
#include "agent/tree.h"
#include "agent/walls.h"

/* ---- namespaces ---- */

static int map_ids(uid_t uid, gid_t gid)
{
	char line[64];
	int r;

	/* The files in /proc/self belong to root while a process is not dumpable. */
	prctl(PR_SET_DUMPABLE, 1);
	fmt(line, sizeof(line), "%u %u 1\n", uid, uid);
	r = write_file_at(AT_FDCWD, "/proc/self/uid_map", line, strlen(line));
	/* Kernels before 3.19 have no setgroups file; later ones want it first. */
	if (r == 0)
		write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny", 4);
	fmt(line, sizeof(line), "%u %u 1\n", gid, gid);
	if (r == 0)
		r = write_file_at(AT_FDCWD, "/proc/self/gid_map", line, strlen(line));
	prctl(PR_SET_DUMPABLE, 0);
	return r;
}

int tree_own_mounts(void)
{
	/* Nothing of ours may appear outside; what is mounted outside later still appears here. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -1;
	/* Terminals of its own: all workers have one uid. Without, they share init's. */
	if (agent.walled)
		mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		      "newinstance,ptmxmode=0666,mode=0620");
	return 0;
}

static bool settle(bool userns, uid_t uid, gid_t gid)
{
	return (!userns || map_ids(uid, gid) == 0) && tree_own_mounts() == 0;
}

static pid_t raw_clone(int flags)
{
	return (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
}

/* 0 in the child, pid in the parent, -1 when this machine does not do it. */
static pid_t fork_namespaced(bool userns, bool sibling)
{
	int flags = CLONE_NEWPID | CLONE_NEWNS | (userns ? CLONE_NEWUSER : 0) |
		    (sibling ? CLONE_PARENT : 0) | SIGCHLD;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int fd[2], ok;
	char word = 'N';
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -1;
	pid = raw_clone(flags);
	if (pid == 0) {
		word = settle(userns, uid, gid) ? 'Y' : 'N';
		ok = write(fd[1], &word, 1) == 1 && word == 'Y';
		close(fd[0]);
		close(fd[1]);
		if (!ok)
			_exit(0);
		return 0;
	}
	close(fd[1]);
	ok = pid > 0 && read_full(fd[0], &word, 1) == 1 && word == 'Y';
	close(fd[0]);
	if (!ok && pid > 0 && !sibling)
		waitpid(pid, NULL, 0);
	if (!ok && pid > 0)
		errno = EAGAIN;
	return ok ? pid : -1;
}

bool tree_have_pidns(void)
{
	int known = atomic_load(&agent.shared->pidns);

	if (agent.level > LEVEL_PIDNS)
		return false;
	for (int userns = agent.root || agent.walled ? 0 : 1;
	     !known && userns < (agent.walled ? 1 : 2); userns++) {
		pid_t pid = fork_namespaced(userns, false);

		if (pid == 0)
			_exit(0);
		if (pid < 0)
			continue;
		waitpid(pid, NULL, 0);
		known = 1 + userns;
	}
	if (!known)
		known = -1;
	atomic_store(&agent.shared->pidns, known);
	return known > 0;
}

/* The process between us and the grandchild: what its fork said. */
static pid_t parentless(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return pid;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
	return -1;
}

pid_t tree_fork_plain(bool sibling, bool have_kill, struct tree_level *ret)
{
	pid_t pid;

	*ret = (struct tree_level){.level = have_kill ? LEVEL_CGROUP : LEVEL_SUBREAPER};
	pid = sibling ? raw_clone(CLONE_PARENT | SIGCHLD) : fork();
	if (!sibling || pid >= 0 || errno != EINVAL)
		return pid;
	/* PID 1 may not make siblings, and emulators cannot: a child of a child that ends at
	 * once. */
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			return 0;
		_exit(pid < 0 ? errno : 0);
	}
	return pid < 0 ? pid : parentless(pid);
}

pid_t tree_fork(bool sibling, bool have_kill, struct tree_level *ret)
{
	bool userns;
	pid_t pid;

	if (tree_have_pidns()) {
		userns = atomic_load(&agent.shared->pidns) == 2;
		*ret = (struct tree_level){LEVEL_PIDNS, true, userns};
		pid = fork_namespaced(userns, sibling);
		if (pid >= 0 || agent.walled)
			return pid;
		/* It could be made before: the machine is short of something
		 * (max_pid_namespaces, memory). The next level holds. */
	}
	if (agent.walled) { /* never less than what was promised */
		errno = EPERM;
		return -1;
	}
	return tree_fork_plain(sibling, have_kill, ret);
}

/* ---- tree_run: the runner ---- */

struct run_report {
	bool started, done;
	int status;
	struct rusage usage;
	struct agent_fail fail;
};

struct runner {
	const struct tree_cmd *cmd;
	struct run_report *report;
	struct tree_level level;
	pid_t main;
	bool main_done, empty;
	int64_t kill_due; /* 0: not ending yet */
	int orders;       /* from the caller: a byte is TERM, EOF is KILL */
	int sigfd;
};

static void runner_saw(void *ctx, pid_t pid, int status, const struct rusage *ru)
{
	struct runner *r = ctx;

	(void)ru;
	if (pid != r->main)
		return;
	r->main_done = true;
	r->report->status = status;
}

static void runner_kill(struct runner *r)
{
	r->kill_due = now_ms() + 10; /* again, until nothing is left */
	tree_signal(r->level.level, -1, SIGKILL);
}

static void runner_stop(struct runner *r)
{
	if (r->kill_due)
		return;
	r->kill_due = now_ms() + r->cmd->grace_ms;
	if (r->cmd->grace_ms > 0)
		tree_signal(r->level.level, -1, SIGTERM);
}

static void runner_loop(struct runner *r)
{
	struct pollfd p[2] = {{r->sigfd, POLLIN, 0}, {r->orders, POLLIN, 0}};
	struct signalfd_siginfo si;
	char order;

	for (;;) {
		int64_t wait = r->kill_due ? r->kill_due - now_ms() : -1;

		r->empty = tree_reap(runner_saw, r);
		if (r->empty)
			return;
		if (r->main_done)
			runner_stop(r);
		if (r->kill_due && r->kill_due <= now_ms())
			runner_kill(r);
		wait = r->kill_due ? r->kill_due - now_ms() : -1;
		if (poll(p, 2, wait < 0 && r->kill_due ? 0 : (int)wait) < 0)
			continue;
		if (p[0].revents)
			(void)!read(r->sigfd, &si, sizeof(si));
		if (!p[1].revents)
			continue;
		if (read(r->orders, &order, 1) == 1) {
			runner_stop(r);
		} else {
			p[1].fd = -1;
			runner_kill(r);
		}
	}
}

static void runner_main(struct runner *r, int out, int err) attr_noreturn;
static void runner_main(struct runner *r, int out, int err)
{
	const struct tree_cmd *c = r->cmd;
	struct spawn s = {.argv = (char **)(uintptr_t)c->argv,
			  .envp = (char **)(uintptr_t)c->envp,
			  .out = out,
			  .err = err};
	sigset_t set;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	r->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s.cwdfd = c->setup
			  ? c->setup(c->ctx, r->level.own_mnt, r->level.in_userns, &r->report->fail)
			  : c->cwdfd;
	if (s.cwdfd < 0)
		_exit(1);
	if (r->level.own_mnt && wall_hide() < 0) {
		fail(&r->report->fail, WIRE_E_UNAVAILABLE, "view", errno,
		     "cannot take the records out of sight: %m");
		_exit(1);
	}
	if (s.in < 0 || r->sigfd < 0) {
		fail(&r->report->fail, WIRE_E_UNAVAILABLE, "stdio", errno,
		     "cannot start a command: %m");
		_exit(1);
	}
	s.tied = r->level.level != LEVEL_PIDNS;
	if (guest_groups(&s) < 0) {
		fail(&r->report->fail, WIRE_E_UNAVAILABLE, "limits", errno,
		     "cannot enter the control groups of the sandbox: %m");
		_exit(1);
	}
	r->main = spawn(&s, &r->report->fail);
	if (r->main < 0)
		_exit(1);
	r->report->started = true;
	close(out);
	close(err);
	close(s.in);
	runner_loop(r);
	getrusage(RUSAGE_CHILDREN, &r->report->usage);
	r->report->done = true;
	_exit(0);
}

/* ---- tree_run: the caller ---- */

struct run {
	const struct tree_cmd *cmd;
	struct tree_result *ret;
	struct run_report *report;
	struct tree_level level;
	pid_t runner;
	int pidfd, orders, out[2], watch_fd;
	int64_t deadline;
};

static void run_cancel(struct run *r)
{
	r->ret->cancelled = true;
	r->watch_fd = -1;
	if (r->orders >= 0)
		close(r->orders);
	r->orders = -1;
}

/* One read of one stream. False when there is nothing now. */
static bool run_pump(struct run *r, int i)
{
	static uint8_t piece[65536];
	ssize_t n;

	if (r->out[i] < 0)
		return false;
	n = read(r->out[i], piece, sizeof(piece));
	if (n < 0)
		return errno == EINTR;
	if (n == 0) {
		close(r->out[i]);
		r->out[i] = -1;
		return false;
	}
	if (!r->ret->cancelled &&
	    r->cmd->sink(r->cmd->ctx, i ? WIRE_STDERR : WIRE_STDOUT, piece, (size_t)n) != 0)
		run_cancel(r);
	return true;
}

static void run_wait(struct run *r)
{
	for (;;) {
		struct pollfd p[4] = {{r->out[0], POLLIN, 0},
				      {r->out[1], POLLIN, 0},
				      {r->pidfd, POLLIN, 0},
				      {r->watch_fd, POLLRDHUP, 0}};
		int64_t wait = r->deadline ? r->deadline - now_ms() : -1;

		if (r->deadline && wait <= 0) {
			r->ret->timed_out = true;
			r->deadline = 0;
			if (r->orders >= 0)
				(void)!write(r->orders, "T", 1);
			continue;
		}
		if (poll(p, 4, wait > 1000000 ? 1000000 : (int)wait) < 0)
			continue;
		for (int i = 0; i < 2; i++) {
			if (p[i].revents)
				run_pump(r, i);
		}
		if (p[3].revents)
			run_cancel(r);
		if (p[2].revents)
			return;
	}
}

static void run_finish(struct run *r)
{
	int status = 0;

	while (waitpid(r->runner, &status, 0) < 0 && errno == EINTR)
		;
	/* A runner that was killed: at its level the kernel has ended the tree, or it has come
	 * to us. */
	if (WIFSIGNALED(status) && r->level.level != LEVEL_PIDNS)
		tree_end(LEVEL_SUBREAPER, -1);
	for (int i = 0; i < 2; i++) {
		while (run_pump(r, i))
			;
	}
	r->ret->started = r->report->started;
	r->ret->status = r->report->status;
	r->ret->user_ms = (int64_t)r->report->usage.ru_utime.tv_sec * 1000 +
			  r->report->usage.ru_utime.tv_usec / 1000;
	r->ret->system_ms = (int64_t)r->report->usage.ru_stime.tv_sec * 1000 +
			    r->report->usage.ru_stime.tv_usec / 1000;
	r->ret->max_rss = (int64_t)r->report->usage.ru_maxrss * 1024;
	r->ret->fail = r->report->fail;
	if (r->report->started && !r->report->done) {
		r->ret->status = SIGKILL;
		r->ret->cancelled = true;
	} else if (!r->report->started && !r->report->fail.message[0]) {
		fail(&r->ret->fail, WIRE_E_INTERNAL, "run", 0,
		     "the process that was to run the command has died");
	}
}

static void close_all(int *fd, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

static int run_begin(struct run *r, int ends[6], struct agent_fail *f)
{
	struct runner child = {.cmd = r->cmd, .report = r->report};

	for (int i = 0; i < 3; i++) {
		if (pipe2(ends + 2 * i, O_CLOEXEC) < 0)
			return fail(f, WIRE_E_UNAVAILABLE, "pipe", errno, "cannot make a pipe: %m");
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	r->runner = r->cmd->own_ns ? tree_fork(false, false, &r->level)
				   : tree_fork_plain(false, false, &r->level);
	if (r->runner < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "fork", errno, "cannot make a process: %m");
	if (r->runner == 0) {
		child.level = r->level;
		child.orders = ends[4];
		close(ends[0]);
		close(ends[2]);
		close(ends[5]);
		runner_main(&child, ends[1], ends[3]);
	}
	close(ends[1]);
	close(ends[3]);
	close(ends[4]);
	r->out[0] = ends[0];
	r->out[1] = ends[2];
	r->orders = ends[5];
	fcntl(r->out[0], F_SETFL, O_NONBLOCK);
	fcntl(r->out[1], F_SETFL, O_NONBLOCK);
	ends[0] = ends[1] = ends[2] = ends[3] = ends[4] = ends[5] = -1;
	r->pidfd = (int)syscall(SYS_pidfd_open, r->runner, 0u);
	if (r->pidfd >= 0)
		return 0;
	fail(f, WIRE_E_UNAVAILABLE, "fork", errno, "cannot watch a process: %m");
	close_all((int[]){r->out[0], r->out[1], r->orders}, 3); /* the runner ends its tree */
	waitpid(r->runner, NULL, 0);
	return -1;
}

int tree_run(const struct tree_cmd *c, struct tree_result *ret)
{
	struct run r = {.cmd = c, .ret = ret, .pidfd = -1, .orders = -1, .out = {-1, -1}};
	int ends[6] = {-1, -1, -1, -1, -1, -1};

	*ret = (struct tree_result){.started = false};
	r.watch_fd = c->watch_fd;
	r.deadline = c->deadline;
	r.report = mmap(NULL, sizeof(*r.report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (r.report == MAP_FAILED)
		return fail(&ret->fail, WIRE_E_NOMEM, "run", errno, "cannot run a command: %m");
	if (run_begin(&r, ends, &ret->fail) < 0) {
		close_all(ends, 6);
		munmap(r.report, sizeof(*r.report));
		return -1;
	}
	run_wait(&r);
	run_finish(&r);
	close_all((int[]){r.out[0], r.out[1], r.orders, r.pidfd}, 4);
	munmap(r.report, sizeof(*r.report));
	return 0;
}
