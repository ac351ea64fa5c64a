/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_NOSIG_H
#define BERTH_CORE_NOSIG_H
/*
 * Writing to pipes in somebody else's process without raising SIGPIPE there: the signal is blocked
 * for this thread, and one that our own write made pending is taken away again. Sockets use
 * MSG_NOSIGNAL instead.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/attr.h"
#include "base/cleanup.h"

struct nosig {
	sigset_t old;
	bool was_pending;
};

static inline void nosig_begin(struct nosig *n)
{
	sigset_t pipe_only, pending;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigemptyset(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &n->old);
	sigpending(&pending);
	n->was_pending = sigismember(&pending, SIGPIPE) == 1;
}

/* errno is kept. */
static inline void nosig_end(struct nosig *n)
{
	int saved_errno = errno;
	sigset_t pipe_only;

	if (!n->was_pending) {
		sigemptyset(&pipe_only);
		sigaddset(&pipe_only, SIGPIPE);
		while (sigtimedwait(&pipe_only, NULL, &(struct timespec){0, 0}) == -1 &&
		       errno == EINTR)
			;
	}
	pthread_sigmask(SIG_SETMASK, &n->old, NULL);
	errno = saved_errno;
}
BERTH_DEFINE_AUTO(nosig, struct nosig, nosig_end);

#endif
