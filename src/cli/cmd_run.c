/* SPDX-License-Identifier: MIT */
/*
 * berth run: deploy as a job, stream its output, exit as it does.
 *
 * Signals. A handler only writes the signal's number into a pipe, which berth_follow() watches as
 * part of its cancel_fd. Before anything can have been launched (reading, uploading, installing)
 * there is nothing to cancel, and the handler ends the process. From the launch on, INT and TERM
 * cancel the execution, in a thread with a handle of its own, while the output goes on being
 * streamed; a second one kills. A cancel that fails (its supervisor does not answer) ends the
 * watching: what was asked for last cannot be had. HUP leaves it running. A reader of stdout that
 * goes away is noticed also while the worker is silent, by an epoll set that holds the pipe beside
 * stdout.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"
#include "cli/cli.h"

static bool remove_after;
const struct cli_opt run_options[] = {
	{.name = "id",
	 .kind = OPT_STRING,
	 .arg = "ID",
	 .deflt = "generated; -v prints it",
	 .help = "the caller's name for the execution",
	 .value = &deploy_values.id},
	{.name = "rm",
	 .kind = OPT_FLAG,
	 .help = "remove the record afterwards",
	 .value = &remove_after},
	{.name = "status-file",
	 .kind = OPT_STRING,
	 .flags = OPT_FILE,
	 .arg = "FILE",
	 .help = "write the state or the error here, as the JSON that other verbs print",
	 .value = &cli.status_file_given},
	{0},
};

/* In the pipe beside the numbers of signals: a cancel has failed. */
#define CANCEL_FAILED 0

static struct {
	int pipe[2];                      /* numbers of signals, one byte each */
	int epoll;                        /* the pipe and stdout */
	volatile sig_atomic_t may_launch; /* what was asked may run from now on */
	int asked;                        /* INT and TERM so far */
	int code;                         /* exit code that they or the reader ask for */
	bool reader_gone;
	bool cancel_failed;
	bool watching_stdout, on_terminal;
	int null_fd;
} run = {.pipe = {-1, -1}, .epoll = -1, .null_fd = -1};

static void on_signal(int signo)
{
	static const char text[] = "berth: run: interrupted; nothing was launched\n";
	int saved = errno;
	unsigned char c = (unsigned char)signo;

	if (!run.may_launch) {
		if (write(2, text, sizeof(text) - 1) < 0)
			_exit(128 + signo);
		_exit(128 + signo);
	}
	if (write(run.pipe[1], &c, 1) < 0)
		errno = saved; /* full: there are signals enough in it */
	errno = saved;
}

/* HUP stays ignored under nohup(1). INT is taken even where a shell ignored it for its background.
 */
static void take_signals(void)
{
	static const int list[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;

	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		if (list[i] == SIGHUP && !sigaction(SIGHUP, NULL, &old) &&
		    old.sa_handler == SIG_IGN)
			continue;
		sigaction(list[i], &sa, NULL);
	}
}

static int prepare(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct epoll_event on_pipe = {.events = EPOLLIN};
	struct epoll_event on_stdout = {.events = 0,
					.data.u32 = 1}; /* ERR and HUP are always told */
	int r = fd_pipe(run.pipe, O_NONBLOCK);

	if (r < 0) {
		berth_fail_errno(&err, 0, -r, "cannot make a pipe");
		return cli_fail(&err);
	}
	run.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (run.epoll < 0 || epoll_ctl(run.epoll, EPOLL_CTL_ADD, run.pipe[0], &on_pipe) < 0) {
		berth_fail_errno(&err, 0, errno, "cannot make an epoll set");
		return cli_fail(&err);
	}
	/*
	 * Files cannot be watched and have no reader that goes. A terminal that goes is a hang-up,
	 * which leaves the execution running; its signal may come a moment later.
	 */
	run.on_terminal = isatty(1) || isatty(2);
	run.watching_stdout = !isatty(1) && !epoll_ctl(run.epoll, EPOLL_CTL_ADD, 1, &on_stdout);
	take_signals();
	return 0;
}

/* Tracks whether the launch may have been sent; the words of the phases are the library's. */
static void on_progress(void *arg, const struct berth_progress *p)
{
	run.may_launch = strcmp(p->phase, "hash") != 0 && strcmp(p->phase, "upload") != 0 &&
			 strcmp(p->phase, "install") != 0;
	progress_show(arg, p);
}

/* ── cancelling ─────────────────────────────────────────────────────────────────────────────── */

struct cancel {
	char id[BERTH_ID_MAX + 1];
	int64_t grace_ms;
};

static void cancel_failed(const char *why)
{
	unsigned char c = CANCEL_FAILED;

	fprintf(stderr, "berth: run: cancel: %s\n", why);
	(void)!write(run.pipe[1], &c, 1);
}

static void *cancel_thread(void *arg)
{
	struct cancel *c = arg;
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_sandbox *s = NULL;
	struct berth *b = NULL;
	struct berth_status st = {0};
	int r = cli_reopen(&b, &s, &err);

	if (!r)
		r = berth_cancel(s, c->id, c->grace_ms, &st, &err);
	if (r < 0)
		cancel_failed(err.message);
	berth_sandbox_close(s);
	berth_free(b);
	free(c);
	return NULL;
}

static void cancel(const char *id, int64_t grace_ms)
{
	struct cancel *c = malloc(sizeof(*c));
	sigset_t all, old;
	pthread_t t;
	int r = ENOMEM;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (c) {
		snprintf(c->id, sizeof(c->id), "%s", id);
		c->grace_ms = grace_ms;
		r = pthread_create(&t, NULL, cancel_thread, c);
		if (!r)
			pthread_detach(t);
		else
			free(c);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		cancel_failed(berth_errno_text(r));
}

static void reader_gone(struct berth_follow *f, const char *id)
{
	struct epoll_event none = {0};

	if (run.watching_stdout)
		epoll_ctl(run.epoll, EPOLL_CTL_DEL, 1, &none);
	run.watching_stdout = false;
	f->fd_out[BERTH_STDOUT] = run.null_fd;
	if (run.reader_gone)
		return;
	run.reader_gone = true;
	if (!run.asked) {
		run.code = 128 + SIGPIPE;
		cancel(id, -1);
	}
}

static bool is_gone(int fd)
{
	struct pollfd p = {.fd = fd, .events = 0};

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP));
}

/* true when the watching is to end now. */
static bool on_events(struct berth_follow *f, const char *id)
{
	unsigned char signo;

	while (read(run.pipe[0], &signo, 1) == 1) {
		if (signo == CANCEL_FAILED) {
			run.cancel_failed = true;
			return true;
		}
		if (signo == SIGHUP) {
			if (run.asked || run.reader_gone)
				continue;
			run.code = 128 + SIGHUP;
			return true;
		}
		run.code = 128 + signo;
		cancel(id, run.asked++ ? 0 : -1);
	}
	if (run.watching_stdout && is_gone(1))
		reader_gone(f, id);
	return false;
}

/* ── watching ───────────────────────────────────────────────────────────────────────────────── */

static void on_gap(void *arg, enum berth_output s, uint64_t from, uint64_t to)
{
	(void)arg;
	fprintf(stderr, "berth: %s: bytes %llu-%llu were not kept\n",
		s == BERTH_STDOUT ? "stdout" : "stderr", (unsigned long long)from,
		(unsigned long long)to);
}

/* Streams until the end. 0 with *ret_st, 1 when it was left running, or an error. */
static int watch(const char *id, struct berth_status *ret_st, struct berth_error *err)
{
	struct berth_follow f;
	int r;

	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT | 1u << BERTH_STDERR;
	f.cancel_fd = run.epoll;
	f.gap = on_gap;
	f.fd_out[BERTH_STDOUT] = 1;
	f.fd_out[BERTH_STDERR] = 2;
	for (;;) {
		r = berth_follow(cli.sandbox, id, &f, ret_st, err);
		if (r == BERTH_E_TIMEOUT) {
			if (on_events(&f, id))
				return 1;
		} else if (r < 0 && err->sys_errno == EPIPE && f.fd_out[1] == 1 && is_gone(1)) {
			reader_gone(&f, id);
		} else if (r < 0 && err->sys_errno == EPIPE && f.fd_out[2] == 2) {
			f.fd_out[BERTH_STDERR] = run.null_fd; /* stdout may still be read */
		} else if (r < 0 && err->sys_errno == EIO && run.on_terminal && !run.asked) {
			run.code = 128 + SIGHUP;
			return 1;
		} else {
			return r;
		}
	}
}

/* What the exit code alone does not tell. */
static void tell_end(const struct berth_status *st)
{
	struct berth_error err = BERTH_ERROR_INIT;
	char words[1024];

	switch (st->state) {
	case BERTH_EXITED:
		return;
	case BERTH_CANCELLED:
		if (!run.asked && !run.reader_gone)
			cli_note("%s", state_words(st, words, sizeof(words)));
		return;
	case BERTH_TIMED_OUT:
	case BERTH_RESOURCE_EXHAUSTED:
		cli_note("%s", state_words(st, words, sizeof(words)));
		return;
	default:
		state_error(st, &err);
		progress_clear();
		fprintf(stderr, "berth: run: %s\n", err.message);
	}
}

static int finish(const struct berth_status *st)
{
	struct berth_error err = BERTH_ERROR_INIT;

	tell_end(st);
	status_file_state(st);
	if (remove_after && st->is_final &&
	    !(st->state == BERTH_FAILED && strcmp(st->phase, "launch") != 0) &&
	    berth_remove(cli.sandbox, st->id, &err) < 0)
		fprintf(stderr, "berth: run: --rm: %s\n", err.message);
	if (run.reader_gone || (run.code && st->state != BERTH_EXITED))
		return run.code;
	return state_exit_code(st);
}

static int leave(const char *id)
{
	struct berth_status st = {0};

	if (run.cancel_failed) {
		run.code = 125;
		cli_hint("berth status -s %s %s", cli_sandbox_name(), id);
	} else {
		cli_note("%s is left running", id);
		cli_hint("berth wait -s %s %s", cli_sandbox_name(), id);
	}
	if (!berth_status(cli.sandbox, id, &st, NULL))
		status_file_state(&st);
	return run.code;
}

static int launch_and_watch(const struct berth_deploy_request *req)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_deploy_result res = {0};
	int r = berth_deploy(cli.sandbox, req, &res, &err);

	progress_clear();
	run.may_launch = 1;
	if (r < 0) {
		if (err.code == BERTH_E_TIMEOUT && !*err.hint)
			berth_error_hint(&err, "berth status %s", req->id);
		return cli_fail(&err);
	}
	if (res.status.state == BERTH_FAILED && strcmp(res.status.phase, "launch") != 0)
		return finish(&res.status); /* upload or install: there is no record */
	r = watch(req->id, &res.status, &err);
	if (r < 0)
		return cli_fail(&err);
	return r ? leave(req->id) : finish(&res.status);
}

int cmd_run(void)
{
	struct berth_deploy_request req;
	struct deploy_parts parts = {0};
	char generated[] = "run-0123456789abcdef";
	int r;

	if (!deploy_values.id) {
		random_name(generated + 4, 16);
		deploy_values.id = generated;
	}
	r = deploy_request(&req, &parts);
	if (!r)
		r = prepare();
	if (!r)
		r = cli_open(BERTH_OPEN_START);
	if (!r) {
		run.null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (!deploy_values.mode)
			req.mode = "job";
		req.progress = on_progress;
		if (cli.verbose)
			cli_note("execution %s", req.id);
		run.may_launch = 1; /* until the library says that it is not there yet */
		r = launch_and_watch(&req);
	}
	deploy_parts_done(&parts);
	deploy_values.id = NULL;
	fd_close(&run.pipe[0]);
	fd_close(&run.epoll);
	fd_close(&run.null_fd);
	return r;
}
