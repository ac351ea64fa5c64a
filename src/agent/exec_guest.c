/* SPDX-License-Identifier: MIT */
/*
 * exec_guest.c: EXEC with walls: the stream is lent to a process among the guests.
 *
 * The connection child stays outside, where its launches belong, and waits. Invariants: one of the
 * two reads the stream at any time; what the guest has read ahead comes back before the other goes
 * on; when the connection child dies the guest ends its command, and when the guest is killed the
 * stream is closed, as half an answer may have been sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/exec.h"
#include "agent/guests.h"
#include "agent/limits.h"

/* What comes back to the connection child; the bytes that were read ahead follow. */
struct handed_back {
	int32_t result;
	bool replied, broken;
	uint32_t n;
};

/* The process that owns the command's tree, inside the guests' namespaces. */
static void guest_main(struct conn *c, const uint8_t *p, size_t n, int back) attr_noreturn;
static void guest_main(struct conn *c, const uint8_t *p, size_t n, int back)
{
	struct handed_back h = {.result = -1};
	struct pollfd pf = {back, 0, 0};

	/* When the connection child dies, everything here ends as if the caller had gone. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (poll(&pf, 1, 0) > 0)
		_exit(0); /* it is dead already */
	h.result = exec_here(c, p, n);
	h.replied = c->replied;
	h.broken = c->broken;
	h.n = h.broken ? 0 : (uint32_t)(c->in_end - c->in_start);
	if (write_all(back, &h, sizeof(h)) == 0)
		write_all(back, c->in.p + c->in_start, h.n);
	_exit(0);
}

/* Waits for the guest; what it read ahead is ours again. As a handler. */
static int take_back(struct conn *c, pid_t pid, int back)
{
	struct pollfd pf[2] = {{back, POLLIN, 0}, {exec_signals(), POLLIN, 0}};
	struct signalfd_siginfo si;
	struct handed_back h;

	while (poll(pf, 2, -1) < 0 || !pf[0].revents) {
		while (read(exec_signals(), &si, sizeof(si)) == (ssize_t)sizeof(si)) {
			if (si.ssi_signo == SIGTERM)
				kill(pid, SIGTERM);
		}
	}
	/* One that was killed may have sent half an answer. */
	c->broken = true;
	if (read_full(back, &h, sizeof(h)) != (ssize_t)sizeof(h) || h.broken ||
	    !buf_need(&c->in, h.n) || read_full(back, c->in.p, h.n) != (ssize_t)h.n)
		return -1;
	c->broken = false;
	c->replied = h.replied;
	c->in_start = 0;
	c->in_end = h.n;
	return h.result;
}

int exec_among_guests(struct conn *c, const uint8_t *p, size_t n)
{
	int back[2], r;
	struct agent_fail f;
	pid_t pid;

	/* Opened once for all guests of this stream. */
	(void)!guest_groups(NULL); /* who starts the command tries again, and says so */

	if (pipe2(back, O_CLOEXEC) < 0)
		return conn_error(c, WIRE_E_UNAVAILABLE, "exec", errno, "EXEC: %m");
	pid = guests_fork(false, &f);
	if (pid == 0) {
		close(back[0]);
		guest_main(c, p, n, back[1]);
	}
	close(back[1]);
	r = pid < 0 ? conn_fail(c, &f) : take_back(c, pid, back[0]);
	close(back[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}
