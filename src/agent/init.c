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
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_VECTOR 0 /* XXH_SCALAR */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/afs.h"
#include "agent/cgroup.h"
#include "agent/conn.h"
#include "agent/init.h"
#include "agent/options.h"
#include "agent/prune.h"
#include "agent/spawn.h"

#define CONNS_MAX 4096u  /* connection children at once; pid_max of a small machine is 32768 */
#define DRAIN_MAX 65536u /* bytes of one forgotten pipe per turn */
#define DIRS_MAX  64
#define WINNER_MS 10000

extern char **environ;

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
	int lockfd, listenfd, sigfd, epfd, msgfd, spare;
	pid_t conns[CONNS_MAX];
	unsigned n_conns;
	bool ending;
} self = {.lockfd = -1, .listenfd = -1, .sigfd = -1, .epfd = -1, .msgfd = -1, .spare = -1};

/* ---- facts ---- */

static void find_boot_id(void)
{
	char text[64];
	unsigned n = 0;

	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 0)
		return;
	for (const char *p = text; *p && n < 32; p++) {
		int d = *p >= '0' && *p <= '9'   ? *p - '0'
			: *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
						 : -1;

		if (d < 0)
			continue;
		agent.boot[n / 2] = (uint8_t)(agent.boot[n / 2] << 4 | d);
		n++;
	}
}

int agent_find_hash(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	XXH128_canonical_t c;
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -1;
	XXH128_canonicalFromHash(&c, XXH3_128bits(p, (size_t)st.st_size));
	munmap(p, (size_t)st.st_size);
	hex(agent.hash, c.digest, sizeof(c.digest));
	return 0;
}

static const char *env_get(const char *name)
{
	size_t n = strlen(name);

	for (char **e = environ; *e; e++) {
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=' && (*e)[n + 1])
			return *e + n + 1;
	}
	return NULL;
}

/* The passwd entry of this uid: name and home, from the file itself (no libc that would load
 * what it likes). */
static void find_passwd(char *name, size_t name_cap, char *home, size_t home_cap)
{
	static char text[65536];
	ssize_t n = read_file_at(AT_FDCWD, "/etc/passwd", text, sizeof(text));

	for (char *line = text, *end; n > 0 && line && *line; line = end ? end + 1 : NULL) {
		char *field[7] = {line};
		int i;

		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		for (i = 1; i < 7 && (field[i] = strchr(field[i - 1], ':')); i++)
			*field[i]++ = '\0';
		if (i < 7 || strtoul(field[2], NULL, 10) != geteuid())
			continue;
		fmt(name, name_cap, "%s", field[0]);
		fmt(home, home_cap, "%s", field[5]);
		break;
	}
	madvise((void *)(((uintptr_t)text + 4095) & ~(uintptr_t)4095), sizeof(text) - 4096,
		MADV_DONTNEED);
}

static void find_home(void)
{
	static char name[64], home[AGENT_PATH_MAX];
	const char *h = env_get("HOME"), *u = env_get("USER");
	char *slash;

	if (!h || !u)
		find_passwd(name, sizeof(name), home, sizeof(home));
	if (h)
		fmt(home, sizeof(home), "%s", h);
	if (home[0] != '/') {
		fmt(home, sizeof(home), "%s", agent.dir);
		slash = strrchr(home, '/');
		slash[slash == home] = '\0';
	}
	agent.home = home;
	agent.user = u ? u : name;
	agent.homefd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int find_facts(struct agent_fail *f)
{
	static struct utsname u;

	agent.is_pid1 = getpid() == 1;
	agent.root = geteuid() == 0;
	agent.environ = environ;
	agent.init_pid = getpid();
	agent.started_ms = wall_ms();
	if (uname(&u) == 0)
		fmt(agent.machine, sizeof(agent.machine), "%s", u.machine);
	find_boot_id();
	find_home();
	agent.shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (agent.shared == MAP_FAILED || agent_find_hash() < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start: %m");
	return 0;
}

/* ---- the directory ---- */

static int make_dirs(const char *path)
{
	char part[AGENT_PATH_MAX];
	size_t n = strlen(path);

	if (n >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST && errno != EISDIR)
			return -1;
	}
	return 0;
}

static int enter_dir(const char *path, struct agent_fail *f)
{
	static char dir[AGENT_PATH_MAX];
	static const char *const inside[] = {"x",       "s",       "store", "store/b",
					     "store/t", "store/l", "app",   "tmp"};

	if (make_dirs(path) < 0 ||
	    (agent.dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    fchdir(agent.dirfd) < 0 || !getcwd(dir, sizeof(dir)))
		return fail(f, WIRE_E_IO, "directory", errno, "cannot use %s: %m", path);
	agent.dir = dir;
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		if (mkdir(inside[i], 0700) < 0 && errno != EEXIST)
			return fail(f, WIRE_E_IO, "directory", errno, "cannot make %s/%s: %m", dir,
				    inside[i]);
	}
	return 0;
}

/* 0 taken; 1 another init holds it; -1 and *f. */
static int take_lock(struct agent_fail *f)
{
	self.lockfd = open("init.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (self.lockfd < 0)
		return fail(f, WIRE_E_IO, "lock", errno, "cannot open %s/init.lock: %m", agent.dir);
	if (ofd_lock(self.lockfd, F_WRLCK, false) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return 1;
	return fail(f, WIRE_E_UNSUPPORTED, "lock", errno, "the file system of %s has no locks: %m",
		    agent.dir);
}

static bool somebody_listens(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "init.sock"};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	/* EAGAIN: its queue is full, so it listens. */
	r = s < 0 ? -1 : connect(s, (struct sockaddr *)&a, sizeof(a));
	r = r == 0 || errno == EAGAIN;
	if (s >= 0)
		close(s);
	return r;
}

/* Another one holds the lock. It may not listen yet, or be about to end: nobody tells, so it is
 * asked. 1: it listens; 0: it has ended and the lock is ours; -1. */
static int wait_for_winner(struct agent_fail *f)
{
	int64_t end = now_ms() + WINNER_MS;

	do {
		if (somebody_listens())
			return 1;
		if (ofd_lock(self.lockfd, F_WRLCK, false) == 0)
			return 0;
		poll(NULL, 0, 1);
	} while (now_ms() < end);
	return fail(f, WIRE_E_TIMEOUT, "lock", 0,
		    "the init that holds %s/init.lock does not answer", agent.dir);
}

/* By hand: a child that was forked a moment ago may still have the file open. */
static void let_go(void)
{
	ofd_lock(self.lockfd, F_UNLCK, false);
}

static int write_incarnation(struct agent_fail *f)
{
	int fd = open("tmp/incarnation", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		      0600),
	    r;

	random_bytes(agent.incarnation, sizeof(agent.incarnation));
	r = fd < 0 ? -1 : write_all(fd, agent.incarnation, sizeof(agent.incarnation));
	if (fd >= 0)
		close(fd);
	if (r < 0 || rename("tmp/incarnation", "incarnation") < 0)
		return fail(f, WIRE_E_IO, "directory", errno, "cannot write %s/incarnation: %m",
			    agent.dir);
	return 0;
}

static int make_socket(struct agent_fail *f)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "tmp/init.sock"};
	mode_t mask = umask(0077);

	self.listenfd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(a.sun_path);
	if (self.listenfd < 0 || bind(self.listenfd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(self.listenfd, 1024) < 0 || rename(a.sun_path, "init.sock") < 0)
		return fail(f, WIRE_E_IO, "socket", errno, "cannot listen on %s/init.sock: %m",
			    agent.dir);
	umask(mask);
	return 0;
}

static int watch_fd(int fd, uint64_t tag)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = tag};

	return epoll_ctl(self.epfd, EPOLL_CTL_ADD, fd, &e);
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
	if (watch_fd(self.sigfd, 0) < 0 || watch_fd(self.listenfd, 1) < 0 ||
	    watch_fd(self.msgfd, 2) < 0)
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
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (unsigned i = 0; i < self.n_conns; i++) {
			if (self.conns[i] == pid) {
				self.conns[i] = self.conns[--self.n_conns];
				break;
			}
		}
	}
}

/* SIGTERM is a STOP without a caller: a child does what blocks and tells us to end. */
static void begin_stop(void)
{
	pid_t pid;

	if (self.ending)
		return;
	pid = fork();
	if (pid < 0)
		return;
	if (pid > 0) {
		self.ending = true;
		return;
	}
	int keep[] = {agent.dirfd, agent.homefd, agent.initfd};

	fds_keep(keep, ARRAY_LEN(keep));
	signals_agent();
	stop_everything("stopped", -1);
	init_tell(INIT_MSG_END);
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

static void end(void) attr_noreturn;
static void end(void)
{
	unlink("init.sock");
	let_go();
	for (unsigned i = 0; i < self.n_conns; i++)
		kill(self.conns[i], SIGTERM);
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

static void take_pipes(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fds[2];
	size_t n;

	if (!c || c->cmsg_type != SCM_RIGHTS)
		return;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	for (size_t i = 0; i < n; i++) {
		if (fcntl(fds[i], F_SETFL, O_NONBLOCK) < 0 ||
		    watch_fd(fds[i], 16 + (uint64_t)fds[i]) < 0)
			close(fds[i]);
	}
}

static void on_message(void)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct {
		char kind;
		char pad[3];
		int32_t pid;
	} msg = {0};
	struct iovec v = {&msg, sizeof(msg)};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.buf,
			   .msg_controllen = sizeof(control)};

	if (recvmsg(self.msgfd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0)
		return;
	if (msg.kind == INIT_MSG_DRAIN)
		take_pipes(&m);
	else if (msg.kind == INIT_MSG_CONN && self.n_conns < CONNS_MAX)
		self.conns[self.n_conns++] = msg.pid;
	else if (msg.kind == INIT_MSG_SESSIONS)
		end_sessions(msg.pid);
	else if (msg.kind == INIT_MSG_END)
		end();
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

static void loop(void) attr_noreturn;
static void loop(void)
{
	struct epoll_event ev[16];

	for (;;) {
		int n = epoll_wait(self.epfd, ev, ARRAY_LEN(ev), -1);

		for (int i = 0; i < n; i++) {
			switch (ev[i].data.u64) {
			case 0:
				on_signals();
				break;
			case 1:
				accept_all();
				break;
			case 2:
				on_message();
				break;
			default:
				drain((int)(ev[i].data.u64 - 16));
			}
		}
	}
}

/* ---- starting ---- */

int init_tell(char kind)
{
	struct {
		char kind;
		char pad[3];
		int32_t pid;
	} msg = {.kind = kind, .pid = getpid()};

	return send(agent.initfd, &msg, sizeof(msg), MSG_NOSIGNAL) == sizeof(msg) ? 0 : -1;
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

/* What an earlier init and its children have left under tmp/: nobody waits for it. */
static void tidy(void)
{
	if (fork() != 0)
		return;
	fds_keep(&agent.dirfd, 1);
	prune_tmp(NULL);
	_exit(0);
}

/* Never returns when it becomes the init. 1: another one runs; -1: *f. */
static int run_init(const struct init_options *o, struct agent_fail *f)
{
	int keep[4 + AGENT_GROUPS + PORTS_MAX], r;

	std_fds();
	fds_keep(keep, init_options_fds(o, keep));
	signals_agent();
	umask(0022);
	prctl(PR_SET_DUMPABLE, 0);
	if (enter_dir(o->dir, f) < 0)
		return -1;
	r = take_lock(f);
	if (r > 0)
		r = wait_for_winner(f);
	if (r != 0)
		return r;
	if (!agent.is_pid1)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (find_facts(f) < 0 || write_incarnation(f) < 0 || make_socket(f) < 0 ||
	    make_loop(f) < 0) {
		/* Before anybody hears of it and tries again: that one must not find the lock
		 * held. */
		let_go();
		return -1;
	}
	groups_sweep(false);
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
	struct init_options o = {.dir = dir, .readyfd = -1, .exitfd = -1, .netwatch = -1};

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
