/* SPDX-License-Identifier: MIT */
/*
 * child_run(): a command as a function. One poll loop over stdin, stdout, stderr and the pidfd, so
 * neither side can block the other. Bounded in bytes and time; ends with the child, not with the
 * last holder of its pipes.
 */
#include "loop/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "base/time.h"

enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAMS };

#define READ_CHUNK 65536

struct run {
	int fds[STREAMS]; /* our ends, non-blocking; -1: none or ended */
	struct strbuf out[STREAMS];
	const char *in;
	size_t in_left;
};

static void run_done(struct run *run)
{
	for (int i = 0; i < STREAMS; i++) {
		fd_close(&run->fds[i]);
		strbuf_done(&run->out[i]);
	}
}
BERTH_DEFINE_AUTO(run, struct run, run_done);

/*
 * A write into a pipe that nobody reads raises SIGPIPE, and a guest changes no dispositions: it is
 * blocked for this thread, and one that we caused is taken off the queue.
 */
static ssize_t write_no_sigpipe(int fd, const void *buf, size_t len)
{
	const struct timespec now = {0};
	sigset_t pipe_set, old, pending;
	ssize_t n;
	int error;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
	n = write(fd, buf, len);
	error = errno;
	if (n < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return n;
}

/* Feeds stdin. A child that does not want it is no error. */
static void feed(struct run *run)
{
	ssize_t n = write_no_sigpipe(run->fds[STREAM_IN], run->in, run->in_left);

	if (n > 0) {
		run->in += n;
		run->in_left -= (size_t)n;
	}
	if (run->in_left == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		fd_close(&run->fds[STREAM_IN]);
}

/* Reads all that is there now. 0, or a BERTH_E_ code. */
static int drain(struct run *run, int stream)
{
	struct strbuf *b = &run->out[stream];

	while (run->fds[stream] >= 0) {
		size_t room = b->max - b->len;
		char byte;
		ssize_t n;

		if (room && strbuf_reserve(b, MIN_OF(room, (size_t)READ_CHUNK)) < 0)
			return strbuf_error(b);
		/* A full buffer looks for one byte more: exactly the maximum is allowed. */
		n = room ? read(run->fds[stream], b->data + b->len,
				MIN_OF(room, (size_t)READ_CHUNK))
			 : read(run->fds[stream], &byte, 1);
		if (n > 0 && room)
			strbuf_advance(b, (size_t)n);
		else if (n > 0)
			return BERTH_E_TOO_LARGE;
		else if (n < 0 && errno == EAGAIN)
			return 0;
		else if (n == 0 || errno != EINTR)
			fd_close(&run->fds[stream]);
	}
	return 0;
}

/* 0: the child has ended; a BERTH_E_ code, BERTH_E_TIMEOUT among them. */
static int pump(struct run *run, const struct child *child, int64_t deadline)
{
	for (;;) {
		struct pollfd p[STREAMS + 1];
		int n, r;

		for (int i = 0; i < STREAMS; i++)
			p[i] = (struct pollfd){.fd = run->fds[i],
					       .events = i == STREAM_IN ? POLLOUT : POLLIN};
		p[STREAMS] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
		n = poll(p, STREAMS + 1, deadline_poll_ms(deadline));
		if (n < 0 && errno != EINTR)
			return BERTH_E_IO;
		if (n == 0 && deadline_poll_ms(deadline) == 0)
			return BERTH_E_TIMEOUT;
		if (n <= 0)
			continue;
		if (p[STREAM_IN].revents)
			feed(run);
		for (int i = STREAM_OUT; i < STREAMS; i++) {
			/* After the end, what is in the pipes is read without waiting. */
			r = p[i].revents || p[STREAMS].revents ? drain(run, i) : 0;
			if (r < 0)
				return r;
		}
		if (p[STREAMS].revents)
			return 0;
	}
}

/* Makes the pipe of @stream; *ret_theirs is the child's end. */
static int make_pipe(struct run *run, int stream, int *ret_theirs)
{
	int ours = stream == STREAM_IN, fds[2], r = fd_pipe(fds, 0);

	if (r < 0)
		return r;
	run->fds[stream] = fds[ours];
	*ret_theirs = fds[!ours];
	return fd_set_nonblock(fds[ours], true);
}

static int start(const struct child_params *params, struct run *run, const bool want[STREAMS],
		 struct child *ret_child, struct berth_error *err)
{
	auto_free struct child_fd *map = mem_zalloc(params->n_fds + STREAMS, sizeof(*map));
	struct child_params mine = *params;
	int theirs[STREAMS] = {-1, -1, -1}, r = 0;

	if (!map)
		return berth_fail_nomem(err);
	if (params->n_fds)
		memcpy(map, params->fds, params->n_fds * sizeof(*map));
	mine.fds = map;
	for (int i = 0; i < STREAMS && r == 0; i++) {
		r = want[i] ? make_pipe(run, i, &theirs[i]) : 0;
		if (want[i])
			map[mine.n_fds++] = (struct child_fd){.from = theirs[i], .to = i};
	}
	r = r < 0 ? berth_fail_errno(err, 0, r, "cannot make a pipe")
		  : child_spawn(&mine, ret_child, NULL, err);
	for (int i = 0; i < STREAMS; i++)
		fd_close(&theirs[i]);
	return r;
}

/* Gives the collected bytes away, or nothing at all. */
static int hand_over(struct run *run, char **ret_out, size_t *ret_out_len, char **ret_err,
		     size_t *ret_err_len, struct berth_error *err)
{
	auto_free char *out = NULL;
	auto_free char *errors = NULL;
	size_t out_len = 0, err_len = 0;

	out = strbuf_detach(&run->out[STREAM_OUT], &out_len);
	errors = strbuf_detach(&run->out[STREAM_ERR], &err_len);
	if (!out || !errors)
		return berth_fail_nomem(err);
	if (ret_out)
		*ret_out = TAKE_PTR(out);
	if (ret_out && ret_out_len)
		*ret_out_len = out_len;
	if (ret_err)
		*ret_err = TAKE_PTR(errors);
	if (ret_err && ret_err_len)
		*ret_err_len = err_len;
	return 0;
}

static int run_failed(int code, const char *name, size_t max_out, struct berth_error *err)
{
	switch (code) {
	case BERTH_E_TIMEOUT:
		return berth_fail(err, code, "%s did not end in time", name);
	case BERTH_E_TOO_LARGE:
		return berth_fail(err, code, "%s wrote more than %zu bytes", name, max_out);
	case BERTH_E_NOMEM:
		return berth_fail_nomem(err);
	default:
		return berth_fail(err, code, "cannot talk to %s", name);
	}
}

int child_run(const struct child_params *params, const void *in, size_t in_len, size_t max_out,
	      int64_t timeout_ms, struct child_exit *ret_exit, char **ret_out, size_t *ret_out_len,
	      char **ret_err, size_t *ret_err_len, struct berth_error *err)
{
	const bool want[STREAMS] = {in_len > 0, ret_out != NULL, ret_err != NULL};
	int64_t deadline = deadline_from_ms(timeout_ms);
	auto(child) struct child child = CHILD_INIT;
	auto(run) struct run run = {.fds = {-1, -1, -1}, .in = in, .in_left = in_len};
	struct child_exit end;
	int r;

	for (int i = 0; i < STREAMS; i++)
		strbuf_init(&run.out[i], max_out);
	r = start(params, &run, want, &child, err);
	if (r < 0)
		return r;
	r = pump(&run, &child, deadline);
	if (r < 0)
		return run_failed(r, params->argv[0], max_out, err);
	r = child_wait(&child, -1, &end, err);
	if (r < 0)
		return r;
	r = hand_over(&run, ret_out, ret_out_len, ret_err, ret_err_len, err);
	if (r == 0)
		*ret_exit = end;
	return r;
}
