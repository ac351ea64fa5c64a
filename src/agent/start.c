/* SPDX-License-Identifier: MIT */
/*
 * start.c: the supervisor's `starting`: the view, the stdio, the command, and its bounded input.
 *
 * Invariants: what may take long (a copy of the view, an execve on a slow file system) happens
 * in a child, so a cancel and the startup
 * timeout are heard meanwhile; that child holds neither the journal nor its lock. Nothing here
 * decides a state: it raises events.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/super.h"
#include "agent/sweep.h"
#include "agent/walls.h"

/* ---- the command ---- */

/* It stays inside its view. */
static int open_inside(int rootfd, const char *path)
{
	int fd;

	wall_as_worker(true);
	fd = open_beneath(rootfd, path, O_RDONLY | O_DIRECTORY, 0);
	wall_as_worker(false);
	return fd;
}

static int open_workdir(struct super *s, struct agent_fail *f)
{
	char path[AGENT_PATH_MAX];
	struct wire_slice w = s->l->spec.workdir;
	int fd;

	if (!slice_str(w, path, sizeof(path)))
		return fail(f, WIRE_E_INVALID, "workdir", ENAMETOOLONG,
			    "the working directory's path is too long");
	if (!path[0])
		fmt(path, sizeof(path), ".");
	if (s->session)
		fd = wall_open_dir(s->view.rootfd, path);
	else
		fd = open_inside(s->view.rootfd, path);
	if (fd < 0)
		return fail(f, errno == ENOENT ? WIRE_E_NOT_FOUND : WIRE_E_IO, "workdir", errno,
			    "working directory \"%s\": %m", path);
	return fd;
}

/* Feeds the bounded input. Closed at its end: EOF comes at once after the bytes. */
void start_feed(struct super *s)
{
	ssize_t r;

	do
		r = sendfile(s->in, s->l->infd, NULL, 1u << 20);
	while (r > 0 || (r < 0 && errno == EINTR));
	if (r < 0 && errno == EAGAIN) {
		if (!s->in_waits)
			super_watch_fd(s, EPOLL_CTL_ADD, s->in, EPOLLOUT, super_tag(SRC_IN, 0));
		s->in_waits = true;
		return;
	}
	close(s->in); /* done, or the worker has closed its end */
	close(s->l->infd);
	s->in = s->l->infd = -1;
	s->in_waits = false;
}

struct stdio {
	int in, out, err; /* the worker's ends */
};

static int make_pipe(int *ret_read, int *ret_write, int nonblock_end, struct agent_fail *f)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "pipe", errno, "cannot make a pipe: %m");
	fcntl(fd[nonblock_end], F_SETFL, O_NONBLOCK | (nonblock_end ? O_WRONLY : O_RDONLY));
	*ret_read = fd[0];
	*ret_write = fd[1];
	return 0;
}

static int open_stdio(struct super *s, struct stdio *io, struct agent_fail *f)
{
	const struct spec *sp = &s->l->spec;

	if (sp->tty_cols > 0 && sp->tty_rows > 0) {
		if (session_pty(sp, &s->in, &io->in, f) < 0)
			return -1;
		s->tty = true;
		s->out[0].pipe = fcntl(s->in, F_DUPFD_CLOEXEC, 3);
		io->out = io->err = io->in;
		return 0;
	}
	if (sp->input_kind == SPEC_INPUT_STDIN || sp->stdin_open) {
		if (make_pipe(&io->in, &s->in, 1, f) < 0)
			return -1;
	} else {
		io->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (io->in < 0)
			return fail(f, WIRE_E_IO, "stdio", errno, "/dev/null: %m");
	}
	if (make_pipe(&s->out[0].pipe, &io->out, 0, f) < 0)
		return -1;
	return make_pipe(&s->out[1].pipe, &io->err, 0, f);
}

static void close_stdio(struct stdio *io)
{
	if (io->err >= 0 && io->err != io->out)
		close(io->err);
	if (io->out >= 0 && io->out != io->in)
		close(io->out);
	if (io->in >= 0)
		close(io->in);
}

static int start_command(struct super *s)
{
	struct stdio io = {-1, -1, -1};
	struct spawn sp = {.argv = s->l->argv, .envp = s->l->envp};
	int r = -1;

	if (s->l->own_mnt && wall_hide() < 0)
		return fail(&s->fail, WIRE_E_UNAVAILABLE, "view", errno,
			    "cannot take the records out of sight: %m");
	sp.cwdfd = open_workdir(s, &s->fail);
	if (sp.cwdfd >= 0 && open_stdio(s, &io, &s->fail) == 0) {
		sp.in = io.in;
		sp.out = io.out;
		sp.err = io.err;
		sp.tty = s->tty;
		sp.tied = s->l->level != LEVEL_PIDNS;
		limits_fill(&s->l->spec, &s->l->group, &sp);
		if (s->l->infd >= 0 && s->in >= 0)
			start_feed(s);
		if (seal_executing(s))
			s->main = spawn_start(&sp, &s->report, &s->fail);
		else
			s->main = fail(&s->fail, WIRE_E_IO, "record", errno,
				       "the record cannot be written: %m");
		r = s->main < 0 ? -1 : 0;
	}
	close_stdio(&io);
	if (sp.cwdfd >= 0)
		close(sp.cwdfd);
	return r;
}

void start_main(struct super *s)
{
	if (start_command(s) < 0) {
		s->main = 0;
		super_raise(s, EV_BROKEN);
	} else {
		super_watch_fd(s, EPOLL_CTL_ADD, s->report, EPOLLIN, super_tag(SRC_SPAWN, 0));
	}
}

/* Has the command been executed? A kernel that does not come back from execve keeps us in
 * `starting`, not from anything else. */
void start_see_spawn(struct super *s)
{
	int r = s->report < 0 ? 1 : spawn_outcome(s->report, &s->fail);

	if (r > 0)
		return;
	close(s->report);
	s->report = -1;
	if (r == 0 && s->main > 0 && !proc_executed(s->main))
		r = fail(&s->fail, WIRE_E_UNAVAILABLE, "exec", 0,
			 "the process was killed before it could run \"%s\"", s->l->argv[0]);
	super_raise(s, r == 0 ? EV_STARTED : EV_BROKEN);
}

/* ---- the view ---- */

struct copier_report {
	int done;
	struct agent_fail fail;
};
static struct copier_report *report; /* shared with the copier */

static void start_copier(struct super *s)
{
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	s->copier = report == MAP_FAILED ? -1 : fork();
	if (s->copier < 0) {
		fail(&s->fail, WIRE_E_UNAVAILABLE, "view", errno, "cannot make a process: %m");
		s->copier = 0;
		super_raise(s, EV_BROKEN);
		return;
	}
	if (s->copier > 0)
		return;
	/* It must not hold the lock when the supervisor is gone, nor answer for it. */
	int keep[] = {agent.dirfd, agent.homefd, s->l->recfd};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fds_keep(keep, ARRAY_LEN(keep));
	signals_default();
	report->done = view_copy(&s->l->spec, s->l->recfd, &report->fail) == 0;
	_exit(report->done ? 0 : 1);
}

void start_copied(struct super *s)
{
	bool ok = report->done && WIFEXITED(s->copier_status);

	if (s->state != ST_STARTING)
		return;
	if (ok)
		ok = view_open(&s->l->spec, s->l->recfd, s->l->own_mnt, s->l->in_userns, &s->view,
			       &s->fail) == 0;
	else if (report->fail.message[0])
		s->fail = report->fail;
	else
		fail(&s->fail, WIRE_E_IO, "view", 0, "the copy of the view was ended by signal %d",
		     WTERMSIG(s->copier_status));
	munmap(report, sizeof(*report));
	super_raise(s, ok ? EV_VIEW : EV_BROKEN);
}

void start_begin(struct super *s)
{
	int r = view_make(&s->l->spec, s->l->recfd, s->l->own_mnt, s->l->in_userns, &s->view,
			  &s->fail);

	if (r == 0)
		super_raise(s, EV_VIEW);
	else if (r < 0)
		super_raise(s, EV_BROKEN);
	else
		start_copier(s);
}
