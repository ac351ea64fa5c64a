/* SPDX-License-Identifier: MIT */
/*
 * How a sandbox that stage made ends, what is left when stage is killed in the middle, and what
 * stage says when it cannot.
 */
#include "tap.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/time.h>

#include "client.h"
#include "stagebox.h"

static struct stagebox b;
static char out[16384];

static const char *const none[] = {"--net", "none", NULL};

static void world(void)
{
	TEST_REQUIRE("root", "stage is called as root and as others");
	TEST_REQUIRE("bwrap", "an isolated sandbox");
	TEST_REQUIRE("subids", "an ordinary user's sandbox");
	ASSERT_EQ(box_world(), 0);
}

#define EACH_KIND(k)                                                                \
	for (enum box_kind k = BOX_ROOT; k < BOX_KINDS; k = (enum box_kind)(k + 1)) \
	SUBTEST("%s", box_kinds[k])

static size_t mounts(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	size_t n = 0;
	int ch;

	while (f && (ch = fgetc(f)) != EOF)
		n += ch == '\n';
	if (f)
		fclose(f);
	return n;
}

static bool no_process(void *arg)
{
	return box_processes(arg) == 0;
}

/* init, when what tidies up for it is done. */
static bool one_process(void *arg)
{
	return box_processes(arg) == 1;
}

/* And slirp4netns; with one uid one more, which watches the host's addresses for it. */
static bool two_processes(void *arg)
{
	return box_processes(arg) >= 2;
}

/* ---- ends ---- */

TEST_TIMEOUT(the_end_of_init_is_the_end_of_all, 60)
{
	world();
	EACH_KIND(k)
	{
		size_t before = mounts();
		pid_t first;

		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		ASSERT_EQ(box_start(&b, none), 0);
		first = b.init;
		/* bubblewrap is gone; init goes on, without a parent of ours. */
		CHECK_EQ(kill(first, 0), 0);
		CHECK(client_until(one_process, &b));
		CHECK_EQ(mounts(), before);
		/* Something that would outlive a process which is only asked to end. */
		box_sh(&b, 1000,
		       "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' "
		       ">/dev/null 2>&1 </dev/null &",
		       out, sizeof(out));
		CHECK(box_processes(&b) > 1u);
		ASSERT_EQ(box_kill(&b), 0);
		CHECK_EQ(mounts(), before);
		/* The folder is as good as before. */
		ASSERT_EQ(box_start(&b, none), 0);
		CHECK(b.init != first);
		ASSERT_EQ(box_kill(&b), 0);
		ASSERT_EQ(box_erase(&b), 0);
	}
}

TEST_TIMEOUT(erase_removes_what_is_not_the_callers, 60)
{
	world();
	EACH_KIND(k)
	{
		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		ASSERT_EQ(box_start(&b, none), 0);
		ASSERT_EQ(
			box_sh(&b, 1000,
			       "cd /home/user && umask 077 && mkdir -p a/b/c && echo x >a/b/c/f && "
			       "ln -s /etc/passwd link && chmod 000 a/b && mkfifo a/fifo",
			       out, sizeof(out)),
			0);
		ASSERT_EQ(
			box_sh(&b, k == BOX_SINGLE ? 1000 : 0,
			       "cd /run/berth && umask 077 && mkdir -p x/y/z && echo x >x/y/z/f && "
			       "chmod 000 x/y",
			       out, sizeof(out)),
			0);
		ASSERT_EQ(box_kill(&b), 0);
		ASSERT_EQ(box_erase(&b), 0);
		CHECK_EQ(access(b.dir, F_OK), -1);
		CHECK_EQ(access("/etc/passwd", F_OK), 0);
		/* Again: it is gone already. */
		CHECK_EQ(box_erase(&b), 0);
	}
}

/* ---- killed in the middle ---- */

static void on_alarm(int sig)
{
	(void)sig;
}

/* waitpid() for any, but not when all have come to a wait. */
static pid_t wait_a_little(int *status)
{
	struct sigaction sa = {.sa_handler = on_alarm}; /* without SA_RESTART */
	struct itimerval t = {.it_value.tv_sec = 1}, off = {0};
	pid_t r;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	r = waitpid(-1, status, __WALL);
	setitimer(ITIMER_REAL, &off, NULL);
	return r;
}

#define TRACED_MAX 32
static struct {
	pid_t pids[TRACED_MAX];
	size_t n;
} traced;

static void traced_add(pid_t pid)
{
	for (size_t i = 0; i < traced.n; i++) {
		if (traced.pids[i] == pid)
			return;
	}
	ASSERT(traced.n < TRACED_MAX);
	traced.pids[traced.n++] = pid;
}

static void traced_drop(pid_t pid)
{
	for (size_t i = 0; i < traced.n; i++) {
		if (traced.pids[i] == pid)
			traced.pids[i] = traced.pids[--traced.n];
	}
}

static bool is_birth(int event)
{
	return event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	       event == PTRACE_EVENT_CLONE;
}

/* Lets all go on until they have made so many system calls together, or all wait. */
static void let_run(unsigned calls)
{
	unsigned long born;
	unsigned stops = 0;
	int status;
	pid_t pid;

	while ((pid = wait_a_little(&status)) > 0) {
		int sig = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

		if (!sig) {
			traced_drop(pid);
			continue;
		}
		traced_add(pid);
		if (status >> 16 && ptrace(PTRACE_GETEVENTMSG, pid, 0, &born) == 0 &&
		    is_birth(status >> 16))
			traced_add((pid_t)born); /* it may not have stopped yet */
		if (sig == (SIGTRAP | 0x80) && ++stops >= 2 * calls)
			return;
		if (sig == (SIGTRAP | 0x80) || status >> 16)
			sig = 0;
		ptrace(PTRACE_SYSCALL, pid, 0, sig);
	}
}

/* Whoever is left goes on alone. */
static void let_go(void)
{
	int status;

	while (traced.n > 0) {
		pid_t pid = traced.pids[0];

		/* One that stands still already has no need to be stopped; it says so, too. */
		if (ptrace(PTRACE_DETACH, pid, 0, 0) < 0) {
			ptrace(PTRACE_INTERRUPT, pid, 0, 0);
			if (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
				ptrace(PTRACE_DETACH, pid, 0, 0);
		}
		traced_drop(pid);
	}
	/* Who was born at the last moment is traced, too, and in no list. This process has no other
	 * children. */
	for (pid_t pid; (pid = waitpid(-1, &status, __WALL | WNOHANG)) >= 0;) {
		if (pid > 0 && WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, pid, 0, 0);
		if (pid == 0)
			poll(NULL, 0, 1);
	}
}

/* Starts stage, kills the process that was started when it and its children have made so many system
 * calls. ready is the read end of its pipe. */
static void run_and_kill(unsigned calls, const char *const *options, int *ret_ready)
{
	const long how = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			 PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
	const char *argv[64];
	int ready[2], status;
	pid_t pid;

	ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		fcntl(ready[1], F_SETFD, 0);
		dup2(null, 2);
		box_argv(&b, options, ready[1], argv);
		raise(SIGSTOP);
		if (chdir(b.dir) == 0 && box_become(&b) == 0)
			execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	ASSERT(pid > 0);
	close(ready[1]);
	*ret_ready = ready[0];
	ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
	traced.n = 0;
	traced_add(pid);
	ASSERT_EQ(ptrace(PTRACE_SEIZE, pid, 0, how), 0);
	kill(pid, SIGCONT);
	let_run(calls);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	traced_drop(pid);
	let_go();
}

enum left { LEFT_NOTHING, LEFT_READY, LEFT_WAITING };

/* What the pipe says: nobody has it, init has come up, or somebody sits on it. */
static enum left look(int ready)
{
	struct pollfd p = {ready, POLLIN, 0};
	char line[64];
	ssize_t n = poll(&p, 1, 1500) > 0 ? read(ready, line, sizeof(line)) : -1;

	return n == 0 ? LEFT_NOTHING : n > 0 ? LEFT_READY : LEFT_WAITING;
}

static void kill_after(unsigned calls, const char *const *options, unsigned *counts)
{
	size_t before = mounts();
	int ready = -1;
	enum left left;

	run_and_kill(calls, options, &ready);
	left = look(ready);
	close(ready);
	counts[left]++;
	if (left == LEFT_READY) {
		b.init = box_find_init(&b);
		ASSERT(b.init > 0);
		ASSERT_EQ(box_kill(&b), 0);
	}
	if (left == LEFT_NOTHING)
		CHECK(client_until(no_process, &b));
	CHECK_EQ(mounts(), before);
	/* A second one works, whatever the first has left: also what waits. */
	if (box_start(&b, options) < 0)
		FAIL("after %u calls: %s %s", calls, b.said, b.line);
	CHECK(client_until(options == none ? one_process : two_processes, &b));
	ASSERT_EQ(box_kill(&b), 0);
}

/* As many as there are until all of them wait for something. */
static void kill_everywhere(const char *const *options, unsigned step)
{
	unsigned counts[3] = {0}, total = 0, rounds = 0;

	for (unsigned calls = 0; calls < 4000 && !counts[LEFT_READY]; calls += step) {
		kill_after(calls, options, counts);
		total = calls;
		rounds++;
	}
	DIAG("%u rounds up to %u calls: nothing left %u, up anyway %u, waiting %u", rounds, total,
	     counts[LEFT_NOTHING], counts[LEFT_READY], counts[LEFT_WAITING]);
	CHECK(counts[LEFT_NOTHING] > 10u);
	CHECK(counts[LEFT_READY] > 0u);
	ASSERT_EQ(box_erase(&b), 0);
}

TEST_TIMEOUT(killed_at_any_moment, 280)
{
	world();
	EACH_KIND(k)
	{
		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		kill_everywhere(none, 31);
	}
}

TEST_TIMEOUT(killed_with_a_network, 280)
{
	char number[12];
	const char *const options[] = {"--net",       "egress", "--slirp", "/usr/bin/slirp4netns",
				       "--net-ready", number,   NULL};
	int null;

	world();
	TEST_REQUIRE("slirp4netns", "net=egress");
	null = open("/dev/null", O_WRONLY); /* goes to stage */
	ASSERT(null >= 3);
	snprintf(number, sizeof(number), "%d", null);
	EACH_KIND(k)
	{
		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		kill_everywhere(options, 71);
	}
}

/* ---- why not ---- */

/* Stage fails, and says so in one line and the way out in another. */
static void check_refusal(const char *const *options, const char *why, const char *hint)
{
	ASSERT_EQ(box_start(&b, options), -1);
	ASSERT_CONTAINS(b.said, "stage: ");
	ASSERT_CONTAINS(b.said, why);
	if (hint) {
		ASSERT_CONTAINS(b.said, "\nhint: ");
		ASSERT_CONTAINS(b.said, hint);
	}
	CHECK_EQ(box_processes(&b), 0u);
}

TEST_TIMEOUT(refusals, 60)
{
	world();
	SUBTEST("no such path")
	{
		const char *const o[] = {"--net", "none", "--ro", "/nowhere/at/all", NULL};

		ASSERT_EQ(box_make(&b, BOX_ROOT, "a"), 0);
		check_refusal(o, "/nowhere/at/all: No such file", NULL);
	}
	SUBTEST("the sandbox's own path")
	{
		const char *const o[] = {"--net", "none", "--rw", "/proc/sys", NULL};

		ASSERT_EQ(box_make(&b, BOX_ROOT, "b"), 0);
		check_refusal(o, "/proc/sys", NULL);
	}
	SUBTEST("a path with ..")
	{
		const char *const o[] = {"--net", "none", "--rw", "/srv/../etc/ssh", NULL};

		ASSERT_EQ(box_make(&b, BOX_ROOT, "c"), 0);
		check_refusal(o, "/srv/../etc/ssh", NULL);
	}
	SUBTEST("no range in subuid")
	{
		ASSERT_EQ(box_make(&b, BOX_USER, "d"), 0);
		b.base = USER_BASE + 100000;
		check_refusal(none, "newuidmap failed", "usermod --add-subuids");
	}
	SUBTEST("no newuidmap")
	{
		const char *const o[] = {"--net", "none", "--newuidmap", "/usr/bin/is-not-there",
					 NULL};

		ASSERT_EQ(box_make(&b, BOX_USER, "e"), 0);
		check_refusal(o, "newuidmap", "apt install uidmap");
	}
	SUBTEST("no bwrap")
	{
		const char *const o[] = {"--net", "none", "--bwrap", "/usr/bin/is-not-there", NULL};

		ASSERT_EQ(box_make(&b, BOX_ROOT, "f"), 0);
		check_refusal(o, "/usr/bin/is-not-there", NULL);
	}
}

/* All ids mapped as they are, by a child that stays outside. */
static void enter_user_namespace(void)
{
	char path[64];
	int go[2], fd, status;
	pid_t self = getpid(), pid;
	char byte;

	ASSERT_EQ(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		for (int i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "/proc/%d/%cid_map", self, "ug"[i]);
			fd = open(path, O_WRONLY);
			if (fd < 0 || dprintf(fd, "0 0 4294967295\n") < 0)
				_exit(1);
			close(fd);
		}
		_exit(0);
	}
	ASSERT_EQ(unshare(CLONE_NEWUSER | CLONE_NEWNS), 0);
	ASSERT_EQ(write(go[1], "x", 1), 1);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

/* In a user namespace of this test, whose limit is its own. */
TEST_TIMEOUT(user_namespaces_off, 60)
{
	int fd;

	world();
	ASSERT_EQ(box_make(&b, BOX_ROOT, "a"), 0);
	enter_user_namespace();
	fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY);
	ASSERT_EQ(write(fd, "0\n", 2), 2);
	close(fd);
	check_refusal(none, "cannot make a user namespace: No space left",
		      "sysctl -w user.max_user_namespaces=");
}

TEST_TIMEOUT(proc_is_covered, 60)
{
	world();
	ASSERT_EQ(mount("t", "/proc/irq", "tmpfs", 0, NULL), 0);
	EACH_KIND(k)
	{
		ASSERT_EQ(box_make(&b, k, box_kinds[k]), 0);
		check_refusal(none, "/proc/irq is covered", "isolation=none");
	}
}

TEST_MAIN()
