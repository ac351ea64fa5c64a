/* SPDX-License-Identifier: MIT */
/*
 * session.c: what sessions have beside executions: a pty, and pipes that outlive their
 * supervisor because what they left in the
 * background still holds them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "agent/init.h"
#include "agent/session.h"
#include "agent/super.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

void pty_resize(int fd, int64_t cols, int64_t rows)
{
	struct winsize w = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

	if (fd >= 0 && cols > 0 && rows > 0 && cols <= 0xffff && rows <= 0xffff)
		ioctl(fd, TIOCSWINSZ, &w);
}

int pty_open(int64_t cols, int64_t rows, int *ret_master, int *ret_slave, struct agent_fail *f)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), slave,
	    unlock = 0;

	if (master < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "pty", errno,
			    "cannot open a terminal: /dev/ptmx: %m");
	/* By the master, not by name: /dev/pts may be another instance's. */
	slave = ioctl(master, TIOCSPTLCK, &unlock) < 0
			? -1
			: ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) {
		fail(f, WIRE_E_UNAVAILABLE, "pty", errno, "cannot open a terminal: %m");
		close(master);
		return -1;
	}
	pty_resize(master, cols, rows);
	*ret_master = master;
	*ret_slave = slave;
	return 0;
}

int session_pty(const struct spec *spec, int *ret_master, int *ret_slave, struct agent_fail *f)
{
	return pty_open(spec->tty_cols, spec->tty_rows, ret_master, ret_slave, f);
}

void pipes_hand_over(const int *fds, size_t n)
{
	struct init_message m = {.kind = INIT_MSG_DRAIN};
	int open_fds[2];
	size_t k = 0;

	for (size_t i = 0; i < n && k < 2; i++) {
		if (fds[i] >= 0)
			open_fds[k++] = fds[i];
	}
	if (k && agent.initfd >= 0)
		init_send(&m, open_fds, k);
}

void session_hand_over(struct super *s)
{
	int fds[2] = {s->out[0].pipe, s->out[1].pipe};

	pipes_hand_over(fds, 2);
}
