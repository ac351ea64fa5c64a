/* SPDX-License-Identifier: MIT */
/*
 * exec.c: EXEC: one command as a guest of the sandbox, its stdio over the stream, no record.
 *
 * This connection child is the subreaper of what it starts while the command runs; with walls, a
 * process that it forks into the guests' namespaces is, and has the stream meanwhile. Invariants:
 * the answer comes when the main process has ended, whoever still holds its pipes; a stream that closes earlier ends everything by KILL; a
 * caller that does not read stalls
 * the output and nothing else (time-outs and signals go on).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/conn.h"
#include "agent/exec.h"
#include "agent/init.h"
#include "agent/limits.h"
#include "agent/session.h"
#include "agent/spawn.h"
#include "agent/sweep.h"
#include "agent/walls.h"

#define CHUNK 65536u

struct exec {
	struct conn *c;
	pid_t main;
	int in, out[2]; /* our ends; with a pty in is its master and out[0] a dup of it */
	bool tty, main_done, empty, timed_out, gone;
	int status;
	struct rusage usage;
	int64_t deadline, kill_due, grace_ms;
	const uint8_t *rest; /* stdin that the pipe did not take yet (in the connection's buffer) */
	size_t rest_len;
};

int exec_signals(void)
{
	static int fd = -1;
	sigset_t set;

	if (fd >= 0)
		return fd;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_SETMASK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd;
}

void conn_reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* ---- starting ---- */

static int open_workdir(const uint8_t *p, size_t n, struct agent_fail *f)
{
	struct wire_slice w = {(const uint8_t *)".", 1};
	char path[AGENT_PATH_MAX];
	int fd;

	wire_find(p, n, WK_WORKDIR, &w);
	if (!slice_str(w, path, sizeof(path)))
		return fail(f, WIRE_E_INVALID, "workdir", ENAMETOOLONG,
			    "the working directory's path is too long");
	fd = wall_open_dir(agent.homefd, path[0] ? path : ".");
	if (fd < 0)
		return fail(f, errno == ENOENT ? WIRE_E_NOT_FOUND : WIRE_E_IO, "workdir", errno,
			    "working directory \"%s\": %m", path);
	return fd;
}

static int make_pipe(int *ret_read, int *ret_write, int *ours)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -1;
	*ret_read = fd[0];
	*ret_write = fd[1];
	fcntl(*ours, F_SETFL, O_NONBLOCK | (ours == ret_write ? O_WRONLY : O_RDONLY));
	return 0;
}

static int open_stdio(struct exec *e, struct spawn *s, const uint8_t *p, size_t n,
		      struct agent_fail *f)
{
	int64_t cols = wire_find_int(p, n, WK_COLS, 0), rows = wire_find_int(p, n, WK_ROWS, 0);

	if (cols > 0 && rows > 0) {
		if (pty_open(cols, rows, &e->in, &s->in, f) < 0)
			return -1;
		e->tty = s->tty = true;
		s->out = s->err = s->in;
		e->out[0] = fcntl(e->in, F_DUPFD_CLOEXEC, 3);
		return 0;
	}
	if (wire_find_int(p, n, WK_STDIN, 0) != 1)
		s->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	else if (make_pipe(&s->in, &e->in, &e->in) < 0)
		s->in = -1;
	if (s->in < 0 || make_pipe(&e->out[0], &s->out, &e->out[0]) < 0 ||
	    make_pipe(&e->out[1], &s->err, &e->out[1]) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "pipe", errno, "cannot make a pipe: %m");
	return 0;
}

static void close_ends(struct spawn *s)
{
	int fds[] = {s->in, s->out == s->in ? -1 : s->out, s->err == s->out ? -1 : s->err,
		     s->cwdfd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static size_t room_for(size_t n)
{
	for (char **e = agent.environ; e && *e; e++)
		n += strlen(*e) / 6 + 4;
	return n * 6 + 65536 + 4 * AGENT_PATH_MAX;
}

static void read_signals(struct exec *e);
static int next_wait(const struct exec *e);

/* With walls the child has the guests' ids for a moment before it executes the command, and one of
 * them may stop it: nobody stands still for it. */
static int begin_guest(struct exec *e, const struct spawn *s, struct agent_fail *f)
{
	int report, r;
	bool late = false;

	e->main = spawn_start(s, &report, f);
	if (e->main < 0)
		return -1;
	while ((r = spawn_outcome(report, f)) > 0 && !e->gone && !late) {
		struct pollfd p[] = {
			{report, POLLIN, 0}, {exec_signals(), POLLIN, 0}, {e->c->fd, POLLRDHUP, 0}};

		if (poll(p, ARRAY_LEN(p), next_wait(e)) < 0)
			continue;
		read_signals(e);
		e->gone = e->gone || p[2].revents;
		late = e->deadline && now_ms() >= e->deadline;
	}
	close(report);
	return r < 0 ? -1 : 0;
}

static int begin(struct exec *e, const struct spawn *s, struct agent_fail *f)
{
	if (agent.walled)
		return begin_guest(e, s, f);
	e->main = spawn(s, f);
	return e->main < 0 ? -1 : 0;
}

static int start(struct exec *e, const uint8_t *p, size_t n, struct agent_fail *f)
{
	struct spawn s = {.in = -1, .out = -1, .err = -1, .cwdfd = -1, .tied = true};
	struct arena a;
	int r = -1;

	if (!arena_init(&a, room_for(n)))
		return fail(f, WIRE_E_NOMEM, "exec", ENOMEM, "EXEC: %m");
	s.argv = argv_make(&a, p, n, WK_ARG);
	s.envp = s.argv ? env_make(&a, p, n, WK_ENV) : NULL;
	if (!s.envp)
		fail(f, WIRE_E_NOMEM, "exec", ENOMEM, "EXEC: %m");
	else if (!s.argv[0] || !s.argv[0][0])
		fail(f, WIRE_E_INVALID, "exec", 0, "EXEC: no command");
	else if (limits_exec(s.argv, s.envp, f) == 0 && (s.cwdfd = open_workdir(p, n, f)) >= 0 &&
		 open_stdio(e, &s, p, n, f) == 0)
		r = 0;
	if (r == 0 && guest_groups(&s) < 0)
		r = fail(f, WIRE_E_UNAVAILABLE, "limits", errno,
			 "cannot enter the control groups of the sandbox: %m");
	if (r == 0)
		r = begin(e, &s, f);
	close_ends(&s);
	arena_done(&a);
	return r;
}

/* ---- running ---- */

static void saw(void *ctx, pid_t pid, int status, const struct rusage *ru)
{
	struct exec *e = ctx;

	if (pid != e->main)
		return;
	e->main_done = true;
	e->status = status;
	e->usage = *ru;
}

static void close_in(struct exec *e)
{
	if (e->in >= 0)
		close(e->in);
	e->in = -1;
	e->rest_len = 0;
}

static void feed(struct exec *e)
{
	while (e->rest_len && e->in >= 0) {
		ssize_t r = write(e->in, e->rest, e->rest_len);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			return;
		if (r < 0)
			break;
		e->rest += r;
		e->rest_len -= (size_t)r;
	}
	if (e->rest_len)
		close_in(e); /* nobody reads it any more */
}

static void stop(struct exec *e)
{
	e->kill_due = now_ms() + e->grace_ms;
	if (e->grace_ms > 0)
		tree_signal(LEVEL_SUBREAPER, -1, SIGTERM);
}

static void kill_all(struct exec *e)
{
	tree_signal(LEVEL_SUBREAPER, -1, SIGKILL);
	e->kill_due = now_ms() + 10;
}

/* One frame of the caller. False when there is none now. */
static bool take_frame(struct exec *e)
{
	const uint8_t *p;
	uint8_t type;
	size_t n;
	int r;
	int64_t signo;

	if (e->rest_len)
		return false;
	r = conn_try(e->c, &type, &p, &n);
	if (r == 2)
		return false;
	if (r <= 0) {
		e->gone = true;
		return false;
	}
	switch (type) {
	case WIRE_DATA:
		e->rest = p;
		e->rest_len = e->in >= 0 ? n : 0;
		feed(e);
		break;
	case WIRE_STDIN_CLOSE:
		if (!e->tty)
			close_in(e);
		else if (e->in >= 0)
			(void)!write(e->in, "\4", 1);
		break;
	case WIRE_SIGNAL:
		signo = wire_find_int(p, n, WK_SIGNO, 0);
		if (signo > 0 && signo <= 64)
			tree_signal(LEVEL_SUBREAPER, -1, (int)signo);
		break;
	case WIRE_RESIZE:
		if (e->tty)
			pty_resize(e->in, wire_find_int(p, n, WK_COLS, 0),
				   wire_find_int(p, n, WK_ROWS, 0));
		break;
	default:
		e->gone = e->c->broken = true;
	}
	return !e->gone;
}

static void take_frames(struct exec *e)
{
	while (take_frame(e))
		;
}

/* Sends what one read gives. False when there is nothing (more) now. */
static bool pump(struct exec *e, int i)
{
	static uint8_t piece[CHUNK];
	ssize_t r;

	if (e->out[i] < 0)
		return false;
	r = read(e->out[i], piece, sizeof(piece));
	if (r < 0 && errno == EINTR)
		return true;
	if (r < 0 && errno == EAGAIN)
		return false;
	if (r <= 0) {
		close(e->out[i]);
		e->out[i] = -1;
		return false;
	}
	if (!e->gone && conn_send(e->c, i ? WIRE_DATA2 : WIRE_DATA, piece, (size_t)r) < 0)
		e->gone = true;
	return true;
}

static void read_signals(struct exec *e)
{
	struct signalfd_siginfo si;

	while (read(exec_signals(), &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGTERM)
			e->gone = true; /* the sandbox is being stopped */
	}
}

static void check_time(struct exec *e)
{
	int64_t now = now_ms();

	if (e->deadline && now >= e->deadline && !e->main_done) {
		e->timed_out = true;
		e->deadline = 0;
		stop(e);
	}
	if (e->kill_due && now >= e->kill_due)
		kill_all(e);
}

static int next_wait(const struct exec *e)
{
	int64_t due = e->kill_due ? e->kill_due : e->deadline, left;

	if (!due)
		return -1;
	left = due - now_ms();
	return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

static void turn(struct exec *e)
{
	/* Frames that came together with the request are here already: poll() does not tell of
	 * them. */
	while (e->c->in_end > e->c->in_start && take_frame(e))
		;

	struct pollfd p[5] = {
		{exec_signals(), POLLIN, 0},
		{e->c->fd, (short)(POLLRDHUP | (e->rest_len ? 0 : POLLIN)), 0},
		{e->rest_len ? e->in : -1, POLLOUT, 0},
		{e->out[0], POLLIN, 0},
		{e->out[1], POLLIN, 0},
	};
	struct pollfd room = {e->c->fd, POLLOUT, 0};

	if (poll(p, ARRAY_LEN(p), next_wait(e)) < 0)
		return;
	if (p[0].revents)
		read_signals(e);
	if (p[1].revents & POLLIN)
		take_frames(e);
	if (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR))
		e->gone = true;
	if (p[2].revents) {
		feed(e);
		take_frames(e); /* what was read ahead does not make the socket readable */
	}
	for (int i = 0; i < 2; i++) {
		/* A chunk fits when there is room at all: sockets say so at a quarter full.
		 * Without room, output waits where it is. */
		if (!p[3 + i].revents || e->gone)
			continue;
		if (poll(&room, 1, 0) > 0 && room.revents & POLLOUT)
			pump(e, i);
		else
			poll((struct pollfd[]){{e->c->fd, POLLOUT | POLLRDHUP, 0},
					       {exec_signals(), POLLIN, 0}},
			     2, next_wait(e));
	}
}

/* Until the main process has ended (after a time-out: the whole tree), or the caller is gone. */
static void run(struct exec *e)
{
	take_frames(e);
	while (!e->gone) {
		e->empty = tree_reap(saw, e);
		if (e->main_done && (!e->timed_out || e->empty))
			return;
		check_time(e);
		turn(e);
	}
	tree_end(LEVEL_SUBREAPER, -1);
}

static int reply(struct exec *e)
{
	struct wire_w *w = conn_begin(e->c, WIRE_OK);

	wire_w_int(w, WK_STATE, e->timed_out ? WIRE_S_TIMED_OUT : WIRE_S_EXITED);
	if (WIFEXITED(e->status))
		wire_w_int(w, WK_EXIT_CODE, WEXITSTATUS(e->status));
	else
		wire_w_int(w, WK_SIGNO, WTERMSIG(e->status));
	if (e->timed_out)
		wire_w_int(w, WK_TIMED_OUT, 1);
	wire_w_int(w, WK_USER_MS,
		   (int64_t)e->usage.ru_utime.tv_sec * 1000 + e->usage.ru_utime.tv_usec / 1000);
	wire_w_int(w, WK_SYSTEM_MS,
		   (int64_t)e->usage.ru_stime.tv_sec * 1000 + e->usage.ru_stime.tv_usec / 1000);
	wire_w_int(w, WK_MAX_RSS, (int64_t)e->usage.ru_maxrss * 1024);
	return conn_end(e->c);
}

static int finish(struct exec *e)
{
	int r = -1;

	for (int i = 0; i < 2; i++) {
		while (!e->gone && pump(e, i))
			;
	}
	if (!e->gone)
		r = reply(e);
	pipes_hand_over(e->out, 2);
	for (int i = 0; i < 2; i++) {
		if (e->out[i] >= 0)
			close(e->out[i]);
	}
	close_in(e);
	return r;
}

int exec_here(struct conn *c, const uint8_t *p, size_t n)
{
	struct exec e = {.c = c, .in = -1, .out = {-1, -1}};
	int64_t timeout = wire_find_int(p, n, WK_TIMEOUT_MS, 0);
	struct agent_fail f;
	int r;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	e.grace_ms = wire_find_int(p, n, WK_GRACE_MS, SPEC_GRACE_MS);
	e.deadline = timeout > 0 ? now_ms() + timeout : 0;
	if (start(&e, p, n, &f) < 0) {
		r = conn_fail(c, &f);
		e.gone = true;
		finish(&e);
		return r;
	}
	run(&e);
	return finish(&e);
}

/* ---- the verb ---- */

static int counted(struct conn *c, const uint8_t *p, size_t n)
{
	int r;

	if (exec_signals() < 0)
		return conn_error(c, WIRE_E_UNAVAILABLE, "exec", errno, "EXEC: %m");
	atomic_fetch_add(&agent.shared->execs, 1);
	if (clock_stopping())
		r = conn_error(c, WIRE_E_UNAVAILABLE, "exec", 0, "the sandbox is being stopped");
	else
		r = agent.walled ? exec_among_guests(c, p, n) : exec_here(c, p, n);
	atomic_fetch_sub(&agent.shared->execs, 1);
	return r;
}

int verb_exec(struct conn *c, const uint8_t *p, size_t n)
{
	pid_t pid;

	/* With walls the keeper adopts what is left, and this process is not its parent. */
	if (agent.walled || waitpid(-1, NULL, WNOHANG) < 0)
		return counted(c, p, n);
	/*
	 * What an earlier EXEC on this stream left in the background is our child and must
	 * outlive this one's end. So the stream moves into a
	 * new process, and this one, by ending, gives its children to init.
	 */
	pid = fork();
	if (pid < 0)
		return conn_error(c, WIRE_E_UNAVAILABLE, "fork", errno,
				  "cannot make a process: %m");
	if (pid > 0)
		_exit(0);
	init_tell(INIT_MSG_CONN);
	clock_busy(true);
	return counted(c, p, n);
}
