/* SPDX-License-Identifier: MIT */
/*
 * guests.c: the keeper of the guests' namespaces, and the way into them.
 *
 * The keeper is PID 1 of the guests' PID namespace: it adopts and reaps what nobody else does, for
 * as long as the sandbox runs. init makes it when it is first needed, and again after it has died
 * (with which the kernel ends every guest). Invariants: agent.shared->guests names a process of
 * ours that has not been reaped; guests_ready is 1 only while its namespaces are whole; both are
 * cleared before its pid is free for another. A process that goes in holds a pidfd of the keeper
 * from before it has looked at both again. The keeper holds no fd, and DIR is not mounted there.
 *
 * It starts no command and knows no protocol.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/guests.h"
#include "agent/init.h"
#include "agent/spawn.h"
#include "agent/tree.h"
#include "agent/walls.h"

#define MAKE_MS 10000 /* how long the namespaces may take */
#define GONE_MS 5000  /* how long killed guests may take to be gone */

static pid_t keeper; /* in init */

static void futex_wait(atomic_int *word, int value, int64_t ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

static void futex_set(atomic_int *word, int value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static pid_t raw_clone(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

/* ---- the keeper ---- */

static void keep(void) attr_noreturn;
static void keep(void)
{
	sigset_t set;

	signals_agent();
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	fds_keep(NULL, 0);
	prctl(PR_SET_NAME, "berth-guests");
	if (chdir("/") < 0 || tree_own_mounts() < 0 || wall_hide() < 0) {
		futex_set(&agent.shared->guests_ready, -errno);
		_exit(1);
	}
	while (atomic_load(&agent.shared->guests) == 0)
		futex_wait(&agent.shared->guests, 0, MAKE_MS);
	futex_set(&agent.shared->guests_ready, 1);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (;;) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		sigwaitinfo(&set, NULL);
	}
}

void guests_make(void)
{
	pid_t pid;

	if (keeper)
		return;
	if (atomic_load(&agent.shared->stopping)) {
		futex_set(&agent.shared->guests_ready, -ECANCELED);
		return;
	}
	atomic_store(&agent.shared->guests_ready, 0);
	pid = raw_clone(CLONE_NEWPID | CLONE_NEWNS);
	if (pid == 0)
		keep();
	if (pid < 0) {
		futex_set(&agent.shared->guests_ready, -errno);
		return;
	}
	keeper = pid;
	futex_set(&agent.shared->guests, pid);
}

void guests_saw(pid_t pid)
{
	int ready = atomic_load(&agent.shared->guests_ready);

	if (pid != keeper)
		return;
	keeper = 0;
	/* One that could not settle has said why. */
	if (ready >= 0)
		futex_set(&agent.shared->guests_ready, ready ? 0 : -EAGAIN);
	futex_set(&agent.shared->guests, 0);
}

void guests_kill(void)
{
	if (keeper)
		kill(keeper, SIGKILL);
}

void guests_end(void)
{
	int64_t end = now_ms() + GONE_MS, left;
	pid_t pid;

	if (!agent.walled)
		return;
	init_tell(INIT_MSG_NO_GUESTS);
	while ((pid = atomic_load(&agent.shared->guests)) && (left = end - now_ms()) > 0)
		futex_wait(&agent.shared->guests, pid, left);
}

/* ---- going in ---- */

/* The keeper's pid once it is ready; -1 and errno. */
static pid_t ask(int64_t end)
{
	int ready = atomic_load(&agent.shared->guests_ready);
	int64_t left;

	if (ready == 1)
		return atomic_load(&agent.shared->guests);
	if (ready < 0) /* of an attempt before ours */
		atomic_compare_exchange_strong(&agent.shared->guests_ready, &ready, 0);
	if (init_tell(INIT_MSG_GUESTS) < 0)
		return -1;
	while ((ready = atomic_load(&agent.shared->guests_ready)) == 0) {
		left = end - now_ms();
		if (left <= 0) {
			errno = ETIMEDOUT;
			return -1;
		}
		futex_wait(&agent.shared->guests_ready, 0, left);
	}
	if (ready == 1)
		return atomic_load(&agent.shared->guests);
	errno = -ready;
	return -1;
}

/* A pidfd of the keeper; -1 and errno. EAGAIN: it went away, ask again. */
static int open_keeper(int64_t end)
{
	pid_t pid = ask(end);
	int fd;

	if (pid < 0)
		return -1;
	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1;
	if (fd >= 0 && atomic_load(&agent.shared->guests) == pid &&
	    atomic_load(&agent.shared->guests_ready) == 1)
		return fd;
	if (fd >= 0)
		close(fd);
	errno = EAGAIN;
	return -1;
}

static void enter(int keeperfd)
{
	/* Entering leaves us in its root. */
	if (setns(keeperfd, CLONE_NEWNS) < 0 || fchdir(agent.dirfd) < 0)
		_exit(127);
	close(keeperfd);
	if (agent.homefd >= 0)
		close(agent.homefd);
	agent.homefd = open(agent.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* One attempt. As guests_fork(), but -1 with errno. */
static pid_t fork_with_keeper(int keeperfd, bool sibling)
{
	int own = (int)syscall(SYS_pidfd_open, getpid(), 0u), err;
	pid_t pid = -1;

	if (own >= 0 && setns(keeperfd, CLONE_NEWPID) == 0) {
		pid = raw_clone(sibling ? CLONE_PARENT : 0);
		err = errno;
		if (pid == 0) {
			close(own);
			enter(keeperfd);
			return 0;
		}
		if (setns(own, CLONE_NEWPID) < 0)
			_exit(1); /* what we forked from now on would be a guest */
		errno = err;
	}
	err = errno;
	if (own >= 0)
		close(own);
	errno = err;
	return pid;
}

/* What a keeper that is just dying makes of it. */
static bool dying(int err)
{
	return err == EAGAIN || err == ESRCH || err == EINVAL || err == ENOMEM || err == EPERM;
}

pid_t guests_fork(bool sibling, struct agent_fail *f)
{
	int64_t end = now_ms() + MAKE_MS;
	pid_t pid = -1;
	int fd, err;

	for (int tries = 0; pid < 0 && tries < 100 && now_ms() < end; tries++) {
		fd = open_keeper(end);
		if (fd >= 0) {
			pid = fork_with_keeper(fd, sibling);
			if (pid == 0)
				return 0;
		}
		err = errno;
		if (fd >= 0)
			close(fd);
		errno = err;
		if (pid < 0 && !dying(err))
			break;
		if (pid < 0) /* init sees its end in a moment */
			futex_wait(&agent.shared->guests, atomic_load(&agent.shared->guests), 10);
	}
	if (pid > 0)
		return pid;
	return fail(f, WIRE_E_UNAVAILABLE, "guests", errno,
		    "cannot make a process among the guests of the sandbox: %m");
}
