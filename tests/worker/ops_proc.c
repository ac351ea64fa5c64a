/* SPDX-License-Identifier: MIT */
/*
 * ops_proc.c: the test worker's operations on processes, signals, memory and time.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

void pause_for_ever(void)
{
	for (;;)
		pause();
}

static void op_exit(struct prog *p)
{
	_exit((int)number(p));
}

/* raise SIG, by the kernel's default action. kill(2) itself: the C library hides a few numbers. */
static void op_raise(struct prog *p)
{
	int signo = signal_word(p);
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} act = {SIG_DFL, 0, NULL, 0};
	unsigned long none = 0;

	syscall(SYS_rt_sigaction, signo, &act, NULL, sizeof(none));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	syscall(SYS_kill, getpid(), signo);
	pause_for_ever();
}

static void op_pause(struct prog *p)
{
	(void)p;
	pause_for_ever();
}

static void op_sleep(struct prog *p)
{
	long long ms = number(p);
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static void op_ignore(struct prog *p)
{
	signal(signal_word(p), SIG_IGN);
}

static void block_signal(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void op_block(struct prog *p)
{
	block_signal(signal_word(p));
}

/* await SIG: blocks it and waits until it comes. */
static void op_await(struct prog *p)
{
	int signo = signal_word(p);
	sigset_t set;

	block_signal(signo);
	sigemptyset(&set);
	sigaddset(&set, signo);
	while (sigwaitinfo(&set, NULL) < 0 && errno == EINTR)
		;
}

static void on_signal(int signo)
{
	int saved = errno;

	puts_fd(1, "got %s\n", signal_text(signo));
	errno = saved;
}

/* trap SIG: says on stdout that it came and goes on. */
static void op_trap(struct prog *p)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(signal_word(p), &sa, NULL);
}

/* kill SIG: to the own process, without waiting for anything. */
static void op_kill(struct prog *p)
{
	kill(getpid(), signal_word(p));
}

static void op_stop(struct prog *p)
{
	(void)p;
	raise(SIGSTOP);
}

static void op_up(struct prog *p)
{
	(void)p;
	if (up_fd >= 0)
		close(up_fd);
	up_fd = -1;
}

static _Noreturn void child(struct prog body)
{
	run(body);
	_exit(0);
}

/* spawn fork|setsid|double|daemon { … }: double leaves the parent's tree, daemon its session,
 * too. */
static void op_spawn(struct prog *p)
{
	const char *how = word(p);
	struct prog body = block(p);
	int fds[2];
	pid_t pid;
	char c;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		die("worker: fork: %s", strerror(errno));
	if (pid == 0) {
		close(fds[0]);
		if (up_fd >= 0)
			close(up_fd);
		up_fd = fds[1];
		if (how[0] == 's' || strcmp(how, "daemon") == 0)
			setsid();
		if (how[0] != 'd' || fork() == 0)
			child(body);
		_exit(0);
	}
	close(fds[1]);
	if (how[0] == 'd')
		waitpid(pid, NULL, 0);
	while (read(fds[0], &c, 1) < 0 && errno == EINTR)
		;
	close(fds[0]);
}

/* Waits for every child. */
static void op_reap(struct prog *p)
{
	(void)p;
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

/* storm N: forks at every level until N processes live or a fork fails; each then sleeps. */
static void op_storm(struct prog *p)
{
	long long n = number(p);
	long long *made =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool root = true;
	int error = 0;

	if (made == MAP_FAILED)
		die("worker: mmap: %s", strerror(errno));
	while (__atomic_add_fetch(&made[0], 1, __ATOMIC_RELAXED) <= n) {
		pid_t pid = fork();

		if (pid < 0) {
			error = errno;
			__atomic_add_fetch(&made[1], 1, __ATOMIC_RELAXED);
			break;
		}
		if (pid == 0)
			root = false;
	}
	if (!root)
		pause_for_ever();
	puts_fd(2, "storm %s\n", error ? strerror(error) : "full");
}

/* orphans N: N grandchildren that end at once, none of them reaped here. */
static void op_orphans(struct prog *p)
{
	long long n = number(p);

	for (long long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			(void)!fork();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

/* hop N: a process that replaces itself by a child N times and so is never where one looked. */
static void op_hop(struct prog *p)
{
	long long n = number(p);

	if (fork() != 0)
		return;
	setsid();
	while (n-- > 0) {
		pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		if (pid < 0)
			pause_for_ever();
	}
	pause_for_ever();
}

static void op_title(struct prog *p)
{
	prctl(PR_SET_NAME, word(p), 0, 0, 0);
}

static void op_mark(struct prog *p)
{
	(void)word(p);
}

static void op_sigs(struct prog *p)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	(void)p;
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "SigBlk", 6) == 0 || strncmp(line, "SigIgn", 6) == 0)
			put(1, line, strlen(line));
	}
	if (f)
		fclose(f);
}

static void op_ids(struct prog *p)
{
	(void)p;
	puts_fd(1, "uid %u gid %u pid %d sid %d\n", getuid(), getgid(), getpid(), getsid(0));
}

/* eat MB: memory that is really there. Says how it ended when the kernel lets it. */
static void op_eat(struct prog *p)
{
	long long mb = number(p);

	for (long long i = 0; i < mb; i++) {
		char *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (m == MAP_FAILED) {
			puts_fd(1, "mmap %s\n", strerror(errno));
			return;
		}
		memset(m, (int)i + 1, 1 << 20);
	}
	puts_fd(1, "ate %lld\n", mb);
}

static void op_burn(struct prog *p)
{
	volatile unsigned long n = 0;

	(void)p;
	for (;;)
		n++;
}

/* burnms MS: that much CPU time. */
static void op_burnms(struct prog *p)
{
	long long want = number(p);
	struct timespec ts;
	volatile unsigned long n = 0;

	do {
		for (int i = 0; i < 100000; i++)
			n++;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	} while (ts.tv_sec * 1000LL + ts.tv_nsec / 1000000 < want);
}

static void op_openfds(struct prog *p)
{
	long long n = number(p), i;

	for (i = 0; i < n; i++) {
		if (open("/dev/null", O_RDONLY) < 0)
			break;
	}
	puts_fd(1, "opened %lld %s\n", i, i < n ? strerror(errno) : "all");
}

/* exec ARGV…: becomes another program. */
static void op_exec(struct prog *p)
{
	execvp(p->argv[p->pos], p->argv + p->pos);
	die("worker: exec %s: %s", p->argv[p->pos], strerror(errno));
}

const struct op ops_proc[] = {
	{"exit", op_exit},   {"raise", op_raise},   {"pause", op_pause},
	{"sleep", op_sleep}, {"ignore", op_ignore}, {"block", op_block},
	{"await", op_await}, {"trap", op_trap},     {"kill", op_kill},
	{"stop", op_stop},   {"up", op_up},         {"spawn", op_spawn},
	{"reap", op_reap},   {"storm", op_storm},   {"orphans", op_orphans},
	{"hop", op_hop},     {"title", op_title},   {"mark", op_mark},
	{"sigs", op_sigs},   {"ids", op_ids},       {"eat", op_eat},
	{"burn", op_burn},   {"burnms", op_burnms}, {"openfds", op_openfds},
	{"exec", op_exec},   {NULL, NULL},
};
