/* SPDX-License-Identifier: MIT */
/*
 * The end of a byte stream: its fds, and the local process that carries it (an `ssh`, say), if
 * there is one. A carrier that does not end by itself when its streams are closed is told to, and
 * then made to.
 */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <berth/provider.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/fd.h"

/* Time for a carrier to end by itself, then on TERM. */
#define CARRIER_MS 200

static void end_carrier(int pidfd)
{
	static const int signals[] = {0, SIGTERM, SIGKILL};
	siginfo_t info;

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};

		if (signals[i])
			syscall(SYS_pidfd_send_signal, pidfd, signals[i], NULL, 0);
		if (RETRY_EINTR(poll(&p, 1, signals[i] == SIGKILL ? -1 : CARRIER_MS)) != 0)
			break;
	}
	while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
		;
}

void berth_stream_close(struct berth_stream *s)
{
	if (s->wfd >= 0 && s->wfd != s->rfd)
		close(s->wfd);
	if (s->rfd >= 0)
		close(s->rfd);
	if (s->pidfd >= 0) {
		end_carrier(s->pidfd);
		close(s->pidfd);
	}
	berth_stream_init(s);
}
