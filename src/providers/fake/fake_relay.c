/* SPDX-License-Identifier: MIT */
/*
 * The relay of the fake provider: a thread that carries bytes between the real stream and a socket
 * pair, counts them, and cuts, stalls or slows at the byte that the script names. A thread, because
 * a test driver may; it ends when either side does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/time.h"
#include "providers/fake/fake.h"

/* One way. */
struct way {
	int from, to;
	int64_t moved, cut, stall;
};

struct relay {
	struct berth_stream inner;
	int outer;
	struct fake_faults faults;
};

/* A piece of at most what is left until the next fault. */
static size_t piece(const struct way *w, int64_t slow, size_t cap)
{
	int64_t left = (int64_t)cap;

	if (w->cut >= 0)
		left = MIN_OF(left, w->cut - w->moved);
	if (w->stall >= 0)
		left = MIN_OF(left, w->stall - w->moved);
	if (slow > 0)
		left = MIN_OF(left, MAX_OF(slow / 100, (int64_t)1));
	return left > 0 ? (size_t)left : 0;
}

static bool send_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t w = RETRY_EINTR(write(fd, p, n));

		if (w < 0)
			return false;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

static void pace(int64_t slow, size_t n)
{
	int64_t ns;
	struct timespec t;

	if (slow <= 0)
		return;
	ns = (int64_t)n * NS_PER_SEC / slow;
	t = (struct timespec){ns / NS_PER_SEC, ns % NS_PER_SEC};
	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* Moves something. False: the relay is over. */
static bool move(struct way *w, int64_t slow)
{
	uint8_t buf[65536];
	size_t max = piece(w, slow, sizeof(buf));
	ssize_t n;

	if (max == 0)
		return w->cut < 0 || w->moved < w->cut;
	n = RETRY_EINTR(read(w->from, buf, max));
	if (n <= 0 || !send_all(w->to, buf, (size_t)n))
		return false;
	w->moved += n;
	pace(slow, (size_t)n);
	return w->cut < 0 || w->moved < w->cut;
}

static bool stalled(const struct way *w)
{
	return w->stall >= 0 && w->moved >= w->stall;
}

static void *run(void *arg)
{
	struct relay *r = arg;
	struct way down = {r->inner.rfd, r->outer, 0, r->faults.cut, r->faults.stall};
	struct way up = {r->outer, r->inner.wfd, 0, r->faults.cut_up, r->faults.stall_up};
	bool alive = down.cut != 0 && up.cut != 0;

	while (alive) {
		struct pollfd p[2] = {
			{.fd = stalled(&down) ? -1 : down.from, .events = POLLIN},
			{.fd = up.from, .events = stalled(&up) ? POLLRDHUP : POLLIN},
		};

		if (RETRY_EINTR(poll(p, 2, -1)) < 0)
			break;
		if (p[0].revents)
			alive = move(&down, r->faults.slow);
		if (alive && p[1].revents)
			alive = !stalled(&up) && move(&up, r->faults.slow);
	}
	close(r->outer);
	berth_stream_close(&r->inner);
	free(r);
	return NULL;
}

static int start_thread(struct relay *r)
{
	sigset_t all, old;
	pthread_t t;
	int rc;

	sigfillset(&all); /* the host program's signals are not for us; SIGPIPE neither */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t, NULL, run, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_detach(t);
	return rc;
}

int fake_relay(struct berth_stream *stream, struct fake_faults faults, struct berth_error *err)
{
	struct relay *r = mem_zalloc(1, sizeof(*r));
	int pair[2], rc;

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		free(r);
		berth_stream_close(stream);
		return berth_fail_nomem(err);
	}
	r->inner = *stream;
	r->outer = pair[1];
	r->faults = faults;
	*stream = (struct berth_stream){.rfd = pair[0], .wfd = pair[0], .pidfd = -1};
	rc = start_thread(r);
	if (rc == 0)
		return 0;
	berth_stream_close(&r->inner);
	berth_stream_close(stream);
	close(r->outer);
	free(r);
	return berth_fail_errno(err, 0, rc, "thread");
}
