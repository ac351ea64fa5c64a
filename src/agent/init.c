/* SPDX-License-Identifier: MIT */
/*
 * init.c: the process that a berth directory has one of: it accepts, forks, reaps, and empties
 * what nobody else reads.
 *
 * Invariants: it holds the lock on init.lock from before it listens until it ends, and no child
 * of it does; nothing it does can block;
 * it survives whatever happens to its children and refuses politely what it cannot fork. It
 * reads no request.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/clock.h"
#include "agent/conn.h"
#include "agent/guests.h"
#include "agent/init.h"
#include "agent/net.h"
#include "agent/options.h"
#include "agent/ports.h"
#include "agent/prune.h"
#include "agent/spawn.h"
#include "agent/sweep.h"

#define CONNS_MAX   4096u  /* connection children at once; pid_max of a small machine is 32768 */
#define DRAIN_MAX   65536u /* bytes of one forgotten pipe per turn */
#define AGENT_MOUNT "/run/berth-agent" /* where stage.c has it mounted */

struct agent agent = {
	.dirfd = -1,
	.homefd = -1,
	.initfd = -1,
	.level = LEVEL_PIDNS,
	.file_mode = 0600,
	.dir_mode = 0700,
	.group_fds = {-1, -1, -1, -1, -1},
};

static struct {
	int listenfd, sigfd, epfd, msgfd, spare;
	int exitfd; /* --exit-fd: open for as long as we are */
	int netwatch;
	bool public_only;
	pid_t conns[CONNS_MAX];
	unsigned n_conns;
	bool ending;
} self = {.listenfd = -1,
	  .sigfd = -1,
	  .epfd = -1,
	  .msgfd = -1,
	  .spare = -1,
	  .exitfd = -1,
	  .netwatch = -1};

int init_watch(int fd, enum init_source source, unsigned index)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)source << 32 | index};

	return epoll_ctl(self.epfd, EPOLL_CTL_ADD, fd, &e);
}

void init_unwatch(int fd)
{
	epoll_ctl(self.epfd, EPOLL_CTL_DEL, fd, NULL);
}

static int make_loop(struct agent_fail *f)
{
	sigset_t set;
	int pair[2] = {-1, -1};

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_SETMASK, &set, NULL);
	self.sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	self.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (self.sigfd < 0 || self.epfd < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start: %m");
	self.msgfd = pair[0];
	agent.initfd = pair[1];
	fcntl(self.msgfd, F_SETFL, O_NONBLOCK);
	self.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (init_watch(self.sigfd, INIT_SIGNALS, 0) < 0 ||
	    init_watch(self.listenfd, INIT_LISTEN, 0) < 0 ||
	    init_watch(self.msgfd, INIT_MESSAGE, 0) < 0 ||
	    (self.netwatch >= 0 && init_watch(self.netwatch, INIT_NETWATCH, 0) < 0))
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start: %m");
	return 0;
}

/* ---- the loop ---- */

static void say_unavailable(int fd, int err)
{
	static const char text[] = "the sandbox cannot make a process now";
	uint8_t b[256];
	struct wire_w w;

	wire_w_init(&w, b, sizeof(b));
	wire_w_frame_begin(&w, WIRE_ERROR);
	wire_w_int(&w, WK_CODE, WIRE_E_UNAVAILABLE);
	wire_w_str(&w, WK_MESSAGE, text);
	wire_w_int(&w, WK_ERRNO, err);
	wire_w_frame_end(&w, 0);
	send(fd, b, w.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void serve_child(int fd) attr_noreturn;
static void serve_child(int fd)
{
	int keep[4 + AGENT_GROUPS] = {fd, agent.dirfd, agent.homefd, agent.initfd};

	memcpy(keep + 4, agent.group_fds, sizeof(agent.group_fds));
	fds_keep(keep, ARRAY_LEN(keep));
	signals_agent();
	conn_serve(fd);
	_exit(0);
}

static void serve(int fd)
{
	pid_t pid = -1;

	errno = EAGAIN;
	if (self.n_conns < CONNS_MAX)
		pid = fork();
	if (pid == 0)
		serve_child(fd);
	if (pid < 0)
		say_unavailable(fd, errno);
	else
		self.conns[self.n_conns++] = pid;
	close(fd);
}

static void accept_all(void)
{
	int fd;

	/* Not more than this at once: what has ended must be reaped in between. */
	for (int i = 0; i < 64; i++) {
		fd = accept4(self.listenfd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			serve(fd);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE)
			return;
		close(self.spare);
		fd = accept4(self.listenfd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			say_unavailable(fd, EMFILE);
			close(fd);
		}
		self.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
}

static void reap(void)
{
	siginfo_t si;

	for (;;) {
		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || !si.si_pid)
			return;
		/* Before its pid can be another's. */
		guests_saw(si.si_pid);
		ports_saw(si.si_pid);
		clock_saw(si.si_pid);
		waitpid(si.si_pid, NULL, 0);
		for (unsigned i = 0; i < self.n_conns; i++) {
			if (self.conns[i] == si.si_pid) {
				self.conns[i] = self.conns[--self.n_conns];
				break;
			}
		}
	}
}

pid_t init_fork_helper(void)
{
	int keep[] = {agent.dirfd, agent.homefd, agent.initfd};
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	fds_keep(keep, ARRAY_LEN(keep));
	signals_agent();
	return 0;
}

/* SIGTERM is a STOP without a caller: a child does what blocks and tells us to end. */
static void begin_stop(void)
{
	pid_t pid;

	if (self.ending)
		return;
	pid = init_fork_helper();
	self.ending = pid > 0;
	if (pid != 0)
		return;
	stop_everything("stopped", -1);
	init_tell_end("stopped");
	_exit(0);
}

static void on_signals(void)
{
	struct signalfd_siginfo si[8];
	ssize_t n;
	bool term = false;

	while ((n = read(self.sigfd, si, sizeof(si))) > 0) {
		for (size_t i = 0; i < (size_t)n / sizeof(si[0]); i++)
			term = term || si[i].ssi_signo == SIGTERM || si[i].ssi_signo == SIGINT;
	}
	reap();
	if (term)
		begin_stop();
}

static void end(char cause) attr_noreturn;
static void end(char cause)
{
	dir_ended(cause == 'i' ? "idle" : cause == 'e' ? "expired" : "stopped");
	unlink("init.sock");
	dir_unlock();
	for (unsigned i = 0; i < self.n_conns; i++)
		kill(self.conns[i], SIGTERM);
	/* What guests have left in the background: a PID namespace ends it with us, else we do. */
	if (!agent.is_pid1)
		tree_end_strangers();
	groups_sweep(true);
	_exit(0);
}

/* A connection child that still runs a command is asked to end it. */
static void end_sessions(pid_t except)
{
	for (unsigned i = 0; i < self.n_conns; i++) {
		if (self.conns[i] != except)
			kill(self.conns[i], SIGTERM);
	}
}

static void take_pipe(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || init_watch(fd, INIT_DRAIN, (unsigned)fd) < 0)
		close(fd);
}

/* The fds of a message; -1 where there is none. */
static void passed_fds(struct msghdr *m, int fds[2])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	size_t n;

	fds[0] = fds[1] = -1;
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), (n < 2 ? n : 2) * sizeof(int));
}

static void obey(const struct init_message *m, int fds[2])
{
	switch (m->kind) {
	case INIT_MSG_DRAIN:
		for (int i = 0; i < 2; i++) {
			if (fds[i] >= 0)
				take_pipe(fds[i]);
			fds[i] = -1;
		}
		break;
	case INIT_MSG_PORT:
		if (fds[1] >= 0)
			ports_publish(m->port, fds[0], fds[1]);
		fds[0] = fds[1] = -1;
		break;
	case INIT_MSG_CONN:
		if (self.n_conns < CONNS_MAX)
			self.conns[self.n_conns++] = m->pid;
		break;
	case INIT_MSG_SESSIONS:
		end_sessions(m->pid);
		break;
	case INIT_MSG_GUESTS:
		guests_make();
		break;
	case INIT_MSG_NO_GUESTS:
		guests_kill();
		break;
	case INIT_MSG_END:
		end(m->cause);
	}
}

static void on_message(void)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct init_message msg = {0};
	struct iovec v = {&msg, sizeof(msg)};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = sizeof(control)};
	int fds[2];

	if (recvmsg(self.msgfd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0)
		return;
	passed_fds(&m, fds);
	obey(&msg, fds);
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static void drain(int fd)
{
	static char nothing[DRAIN_MAX];
	ssize_t n = read(fd, nothing, sizeof(nothing));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		close(fd);
	madvise((void *)(((uintptr_t)nothing + 4095) & ~(uintptr_t)4095), sizeof(nothing) - 4096,
		MADV_DONTNEED);
}

static void on_netwatch(void)
{
	if (net_watch_event(self.netwatch, self.public_only) == 0)
		return;
	init_unwatch(self.netwatch);
	close(self.netwatch);
	self.netwatch = -1;
}

static void on_event(enum init_source source, unsigned index)
{
	switch (source) {
	case INIT_SIGNALS:
		on_signals();
		break;
	case INIT_LISTEN:
		accept_all();
		break;
	case INIT_MESSAGE:
		on_message();
		break;
	case INIT_DRAIN:
		drain((int)index);
		break;
	case INIT_PORT:
		ports_event(index);
		break;
	case INIT_IDLE:
		clock_idle_event();
		break;
	case INIT_EXPIRY:
		clock_expiry_event();
		break;
	case INIT_NETWATCH:
		on_netwatch();
	}
}

static void loop(void) attr_noreturn;
static void loop(void)
{
	struct epoll_event ev[16];

	for (;;) {
		int n = epoll_wait(self.epfd, ev, ARRAY_LEN(ev), -1);

		for (int i = 0; i < n; i++)
			on_event((enum init_source)(ev[i].data.u64 >> 32),
				 (unsigned)ev[i].data.u64);
	}
}

/* ---- starting ---- */

int init_send(struct init_message *msg, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = {.buf = {0}};
	struct iovec v = {msg, sizeof(*msg)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	struct cmsghdr *c;
	ssize_t r;

	msg->pid = getpid();
	if (n) {
		m.msg_control = control.buf;
		m.msg_controllen = (socklen_t)CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = (socklen_t)CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do
		r = sendmsg(agent.initfd, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r == (ssize_t)sizeof(*msg) ? 0 : -1;
}

int init_tell(char kind)
{
	struct init_message msg = {.kind = kind};

	return init_send(&msg, NULL, 0);
}

int init_tell_end(const char *cause)
{
	struct init_message msg = {.kind = INIT_MSG_END, .cause = cause[0]};

	return init_send(&msg, NULL, 0);
}

/* One line to whoever waits: "ready", "held", or "error: …". */
static void report(int readyfd, const char *line)
{
	if (readyfd < 0)
		return;
	(void)!write_all(readyfd, line, strlen(line));
	close(readyfd);
}

static void std_fds(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", O_RDWR); /* the lowest free one: fd */
	}
}

static void null_fds(int from)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = from; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

/* What an earlier init and its children have left under tmp/: nobody waits for it. */
static void tidy(void)
{
	if (fork() != 0)
		return;
	fds_keep(&agent.dirfd, 1);
	prune_tmp(NULL);
	_exit(0);
}

/* What a walled one does before it looks at anything else. */
static int enter_walls(const struct init_options *o, struct agent_fail *f)
{
	/* The file that we were started from has no business in a sandbox. */
	umount2(AGENT_MOUNT, MNT_DETACH);
	if (handed_check(o, f) < 0)
		return -1;
	agent.in_userns = true;
	return 0;
}

static int start_all(const struct init_options *o, struct agent_fail *f)
{
	self.exitfd = o->exitfd;
	self.netwatch = o->netwatch;
	self.public_only = o->public_only;
	if (facts_find(f) < 0 || dir_incarnation(f) < 0 || (self.listenfd = dir_listen(f)) < 0 ||
	    make_loop(f) < 0 || clock_start(o, f) < 0)
		return -1;
	return ports_start(o, f);
}

/* Never returns when it becomes the init. 1: another one runs; -1: *f. */
static int run_init(const struct init_options *o, struct agent_fail *f)
{
	int keep[4 + AGENT_GROUPS + PORTS_MAX], r;

	std_fds();
	if (agent.walled && enter_walls(o, f) < 0)
		return -1;
	fds_keep(keep, init_options_fds(o, keep));
	signals_agent();
	umask(agent.file_mode == 0600 ? 0022 : 0002);
	prctl(PR_SET_DUMPABLE, 0);
	if ((!agent.walled && handed_check(o, f) < 0) || dir_enter(o->dir, f) < 0)
		return -1;
	r = dir_lock(f);
	if (r != 0)
		return r;
	if (!agent.is_pid1)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (start_all(o, f) < 0) {
		/* Before anybody hears of it and tries again: that one must not find the lock
		 * held. */
		dir_unlock();
		return -1;
	}
	groups_sweep(false);
	if (agent.walled)
		null_fds(0);
	/* bubblewrap's monitor has closed its copy: from here on init.lock is what says that
	 * somebody is in here, and never is there a moment when neither does. */
	if (o->staging >= 0)
		close(o->staging);
	report(o->readyfd, "ready\n");
	tidy();
	loop();
}

static void daemon_child(const struct init_options *o) attr_noreturn;
static void daemon_child(const struct init_options *o)
{
	struct agent_fail f;
	char line[AGENT_MESSAGE_MAX + 16];
	int null = open("/dev/null", O_RDWR), r;

	setsid();
	if (fork() != 0)
		_exit(0);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	r = run_init(o, &f);
	if (r < 0)
		fmt(line, sizeof(line), "error: %s\n", f.message);
	report(o->readyfd, r > 0 ? "held\n" : line);
	_exit(r > 0 ? 0 : 1);
}

static int start_background(struct init_options *o, struct agent_fail *f)
{
	char line[AGENT_MESSAGE_MAX + 16];
	int fd[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start an init: %m");
	/* Above 0, 1, 2, whatever the caller has closed. */
	if (fd[1] < 3) {
		int high = fcntl(fd[1], F_DUPFD_CLOEXEC, 3);

		close(fd[1]);
		fd[1] = high;
	}
	pid = fork();
	if (pid == 0) {
		close(fd[0]);
		o->readyfd = fd[1];
		daemon_child(o);
	}
	close(fd[1]);
	if (pid < 0) {
		fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start an init: %m");
		close(fd[0]);
		return -1;
	}
	n = read_full(fd[0], line, sizeof(line) - 1);
	close(fd[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	line[n > 0 ? n : 0] = '\0';
	if (strcmp(line, "ready\n") == 0 || strcmp(line, "held\n") == 0)
		return 0;
	line[n > 0 ? n - 1 : 0] = '\0';
	return fail(f, WIRE_E_UNAVAILABLE, "init", 0, "%s",
		    strncmp(line, "error: ", 7) == 0 ? line + 7 : "the init died while it started");
}

int init_start(const char *dir, struct agent_fail *f)
{
	struct init_options o = {
		.dir = dir, .readyfd = -1, .exitfd = -1, .netwatch = -1, .staging = -1};

	return start_background(&o, f);
}

static int complain(const char *text)
{
	char line[AGENT_MESSAGE_MAX + 32];

	(void)!write_all(2, line, fmt(line, sizeof(line), "berth-agent: %s\n", text));
	return 1;
}

static const char usage[] = "usage: berth-agent init [options] DIR (docs/protocol/agent.md)";

int init_main(int argc, char **argv)
{
	static struct init_options o;
	struct agent_fail f = {0};
	char line[AGENT_MESSAGE_MAX + 16];
	int r;

	if (init_options_parse(argc, argv, &o) < 0)
		return complain(usage) + 1;
	if (o.background) {
		r = start_background(&o, &f);
	} else {
		r = run_init(&o, &f);
		fmt(line, sizeof(line), "error: %s\n", f.message);
		report(o.readyfd, r > 0 ? "held\n" : line);
	}
	if (r == 0)
		return 0;
	return complain(r > 0 ? "another init holds this directory" : f.message);
}
