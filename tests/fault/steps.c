/* SPDX-License-Identifier: MIT */
/*
 * steps.c: a first deploy, with a fault at each of its system calls in turn, in the agent and in
 * the caller: SIGKILL, EIO, ENOSPC, ENOMEM, EMFILE. However it ends, afterwards
 *
 *   - the command ran at most once, and never without a record,
 *   - the record's state becomes final and is true,
 *   - nothing that it started is alive then,
 *   - the id can be used: the same request answers or launches, and remove frees it,
 *   - the sandbox can be destroyed, and nothing of it is left.
 *
 * BERTH_FAULT_STEP=N tests every Nth call only (default 7, begun at BERTH_FAULT_SEED modulo N); 1
 * is the whole table.
 */
#include "inject.h"

static char round_state[PATH_MAX], round_count[PATH_MAX];

static void round_paths(unsigned number)
{
	char cwd[2000];

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(round_state, sizeof(round_state), "%s/round-%u", cwd, number);
	snprintf(round_count, sizeof(round_count), "%s/count-%u", cwd, number);
}

/* The shared sandbox of this round: a state folder of its own, so that everything is the first
 * time. */
static void round_open(void)
{
	OK(berth_new(round_state, &B, &E));
	OK(berth_sandbox_open(B, "local:fault?isolation=none", NULL, BERTH_OPEN_START, &S, &E));
}

static void round_request(struct berth_deploy_request *q)
{
	static char what[PATH_MAX + 64];

	snprintf(what, sizeof(what), "append %s x ready exit 7", round_count);
	request(q, "step", what);
	q->no_durable = false;
	q->grace_ms = 200;
	q->input_kind = BERTH_INPUT_STDIN;
	q->input = "in";
	q->input_len = 2;
	q->startup_timeout_ms = 3000;
}

/* 0: ran; 1: an error; 2: a failed state. */
static int deploy_once(void *arg)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	(void)arg;
	if (berth_new(round_state, &B, &E) < 0 ||
	    berth_sandbox_open(B, "local:fault?isolation=none", NULL, BERTH_OPEN_START, &S, &E) < 0)
		return 1;
	round_request(&q);
	memset(&r, 0, sizeof(r));
	if (berth_deploy(S, &q, &r, &E) < 0)
		return E.message[0] ? 1 : 3;
	/* To the seal, so that its calls are in the table, too. */
	(void)berth_wait(S, "step", 10000, &st, &E);
	return r.status.state == BERTH_FAILED || r.status.state == BERTH_TIMED_OUT ? 2 : 0;
}

static size_t ran(void)
{
	struct stat st;

	return stat(round_count, &st) == 0 ? (size_t)st.st_size : 0;
}

/* What the record says must be final soon, and be what happened. */
static void look_at_the_record(const struct inject *in, int outcome)
{
	struct berth_status st;
	int rc = berth_status(S, "step", &st, &E);

	if (rc == BERTH_E_NOT_FOUND) {
		ASSERT_EQ(ran(), 0u);
		ASSERT_NE(outcome, 0);
		return;
	}
	if (rc == 0 && st.state == BERTH_PROVIDER_UNAVAILABLE) {
		/* The sandbox was not made to the end: then nothing ran. */
		ASSERT_EQ(ran(), 0u);
		return;
	}
	OK(rc);
	OK(berth_wait(S, "step", 15000, &st, &E));
	ASSERT(st.is_final);
	switch (st.state) {
	case BERTH_EXITED:
		ASSERT_EXITED(&st, 7);
		ASSERT_EQ(ran(), 1u);
		break;
	case BERTH_UNKNOWN:
		/* A seal that cannot be written is the only other reason. */
		ASSERT(in->error == 0 || in->fired_nr == SYS_pwrite64 ||
		       in->fired_nr == SYS_fdatasync || in->fired_nr == SYS_write);
		ASSERT(st.message[0] != '\0');
		break;
	case BERTH_FAILED:
		ASSERT(st.message[0] != '\0');
		/* What may have run is unknown, not failed. */
		ASSERT_EQ(ran(), 0u);
		break;
	case BERTH_TIMED_OUT:
		ASSERT_STREQ(st.phase, "startup");
		break;
	default:
		FAIL("state %s: %s", berth_state_name((int)st.state), st.message);
	}
	if (st.state == BERTH_UNKNOWN)
		await_gone("step");
	else
		assert_gone("step");
	ASSERT_LE(ran(), 1u);
}

static void use_the_id_again(void)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	size_t before;

	round_request(&q);
	memset(&r, 0, sizeof(r));
	OK(berth_deploy(S, &q, &r, &E));
	OK(berth_wait(S, "step", 15000, &st, &E));
	ASSERT(st.is_final);
	/* It exists, too, when the launch of a caller that was killed was still on its way. */
	if (!r.existed)
		ASSERT_EXITED(&st, 7);
	ASSERT_LE(ran(), 1u);
	OK(berth_remove(S, "step", &E));
	before = ran();
	memset(&r, 0, sizeof(r));
	OK(berth_deploy(S, &q, &r, &E));
	ASSERT(!r.existed);
	OK(berth_wait(S, "step", 15000, &st, &E));
	ASSERT_EXITED(&st, 7);
	ASSERT_EQ(ran(), before + 1);
	assert_gone("step");
}

static const char *call_name(int nr)
{
	static const struct {
		int nr;
		const char *name;
	} t[] = {
		{SYS_write, "write"},
		{SYS_pwrite64, "pwrite64"},
		{SYS_writev, "writev"},
		{SYS_openat, "openat"},
		{SYS_mkdirat, "mkdirat"},
		{SYS_mkdir, "mkdir"},
		{SYS_renameat2, "renameat2"},
		{SYS_rename, "rename"},
		{SYS_renameat, "renameat"},
		{SYS_linkat, "linkat"},
		{SYS_unlinkat, "unlinkat"},
		{SYS_ftruncate, "ftruncate"},
		{SYS_fallocate, "fallocate"},
		{SYS_fsync, "fsync"},
		{SYS_fdatasync, "fdatasync"},
		{SYS_mount, "mount"},
		{SYS_clone, "clone"},
		{SYS_clone3, "clone3"},
		{SYS_fork, "fork"},
		{SYS_vfork, "vfork"},
		{SYS_execve, "execve"},
		{SYS_socket, "socket"},
		{SYS_bind, "bind"},
		{SYS_listen, "listen"},
		{SYS_accept4, "accept4"},
		{SYS_connect, "connect"},
		{SYS_pipe2, "pipe2"},
		{SYS_socketpair, "socketpair"},
		{SYS_epoll_create1, "epoll_create1"},
		{SYS_epoll_ctl, "epoll_ctl"},
		{SYS_signalfd4, "signalfd4"},
		{SYS_timerfd_create, "timerfd_create"},
		{SYS_timerfd_settime, "timerfd_settime"},
		{SYS_fcntl, "fcntl"},
		{SYS_copy_file_range, "copy_file_range"},
		{SYS_sendfile, "sendfile"},
		{SYS_splice, "splice"},
		{SYS_unshare, "unshare"},
		{SYS_setns, "setns"},
		{SYS_mmap, "mmap"},
		{SYS_pidfd_open, "pidfd_open"},
		{SYS_pidfd_send_signal, "pidfd_send_signal"},
		{SYS_prctl, "prctl"},
		{SYS_fchmod, "fchmod"},
		{SYS_utimensat, "utimensat"},
		{SYS_getdents64, "getdents64"},
		{SYS_newfstatat, "newfstatat"},
		{SYS_pread64, "pread64"},
		{SYS_kill, "kill"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		if (t[i].nr == nr)
			return t[i].name;
	}
	return "?";
}

/* Name, state, parent and command line of a process. */
static const char *describe(pid_t pid)
{
	static char buf[1024];
	char path[64], state = '?';
	pid_t parent = parent_of(pid, &state);
	size_t n = (size_t)snprintf(buf, sizeof(buf), "state %c, parent %d: ", state, parent), k;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	k = slurp_at(AT_FDCWD, path, buf + n, sizeof(buf) - n);
	for (size_t i = n; i < n + k; i++)
		buf[i] = buf[i] ? buf[i] : ' ';
	return buf;
}

/* Ends the round whatever was asserted: no sandbox may be left for the next one. */
static void round_close(struct inject *in)
{
	struct berth_destroy_result r;
	pid_t pid;

	if (S) {
		OK(berth_sandbox_destroy(S, 5, 20, &r, &E));
		ASSERT_EQ(r.state, BERTH_DESTROYED);
	}
	berth_sandbox_close(S);
	berth_free(B);
	S = NULL;
	B = NULL;
	ASSERT(inject_over(in, 10000));
	/* An init whose starter was killed may find out only now that its folder is gone; it may
	 * not stay. */
	if (processes_with(round_state, &pid)) {
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);
		struct pollfd p = {fd, POLLIN, 0};

		if (fd >= 0 && poll(&p, 1, 5000) != 1)
			FAIL("process %d is left: %s", pid, describe(pid));
		close(fd);
	}
	ASSERT_EQ(processes_with(round_state, &pid), 0u);
}

/* Processes of a failed round are ended, so that it does not spoil the next ones. */
static void sweep_round(struct inject *in)
{
	pid_t pid;

	for (int i = 0;
	     i < 1000 && processes_with(round_state, &pid) + processes_with(mark_of("step"), &pid);
	     i++)
		kill(pid, SIGKILL);
	if (in->servant > 0 && kill(in->servant, 0) == 0)
		inject_over(in, 2000);
	B = NULL;
	S = NULL;
}

/* One round. Returns how many calls the wanted program made. */
static unsigned round_at(enum inject_who who, unsigned nth, int error, const char *how,
			 bool *ret_fired)
{
	struct inject *in = inject_new(who, nth, error);
	static unsigned number;
	unsigned seen, failures;
	int outcome;

	round_paths(number++);
	failures = tap_.failures;
	SUBTEST("%s at call %u of the %s", how, nth, who == INJECT_AGENT ? "agent" : "caller")
	{
		inject_start(in, deploy_once, NULL);
		outcome = inject_join(in, 25000);
		/* What is done to look at it is not to fail. */
		in->nth = 0;
		if (outcome == -1)
			FAIL("the deploy hangs");
		if (outcome >= 3 && outcome != 1000 + SIGKILL)
			FAIL("the deploy ended with %d", outcome);
		ASSERT(outcome != 1000 + SIGKILL || (who == INJECT_CALLER && error == 0));
		round_open();
		look_at_the_record(in, outcome);
		use_the_id_again();
		round_close(in);
	}
	if (tap_.failures != failures)
		DIAG("it was %s (%d) in process %d, deploy said %d: %s", call_name(in->fired_nr),
		     in->fired_nr, in->fired_pid, outcome, E.message);
	sweep_round(in);
	*ret_fired = in->fired_nr >= 0;
	seen = in->seen;
	munmap(in, sizeof(*in));
	nftw(round_state, tap_rm_, 32, FTW_DEPTH | FTW_PHYS);
	return seen;
}

static unsigned from_env(const char *name, unsigned dflt)
{
	const char *v = getenv(name);

	return v && *v ? (unsigned)strtoul(v, NULL, 10) : dflt;
}

static void table(enum inject_who who, int error, const char *how)
{
	unsigned step = from_env("BERTH_FAULT_STEP", 7), seed = from_env("BERTH_FAULT_SEED", 1);
	unsigned rounds = 0;
	bool fired = true;

	inject_need();
	for (unsigned n = 1 + seed % step; fired && n < 5000; n += step, rounds++) {
		round_at(who, n, error, how, &fired);
		if (tap_.failures > 40)
			FAIL("enough");
	}
	DIAG("%u rounds, every %u calls, seed %u", rounds, step, seed);
	ASSERT_GT(rounds, 3u);
}

static int mkdirs(void *arg)
{
	(void)arg;
	for (int i = 1; i <= 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "d%d", i);
		if (mkdirat(AT_FDCWD, name, 0755) < 0)
			return i * 10 + (errno == EIO);
	}
	return 0;
}

/* The instrument itself: the fault comes where it was asked for, and only there. */
TEST(the_injector)
{
	struct inject *in;

	inject_need();
	in = inject_new(INJECT_CALLER, 3, EIO);
	in->only_nr = SYS_mkdirat;
	inject_start(in, mkdirs, NULL);
	ASSERT_EQ(inject_join(in, 10000), 31);
	ASSERT(inject_over(in, 10000));
	ASSERT_EQ(in->seen, 3u);
	ASSERT_EQ(access("d2", F_OK), 0);
	ASSERT_EQ(access("d3", F_OK), -1);
	in = inject_new(INJECT_CALLER, 4, 0);
	in->only_nr = SYS_mkdirat;
	inject_start(in, mkdirs, NULL);
	ASSERT_EQ(inject_join(in, 10000), 10);
	in = inject_new(INJECT_AGENT, 1, EIO);
	inject_start(in, mkdirs, NULL);
	ASSERT_EQ(inject_join(in, 10000), 10);
	ASSERT_EQ(in->seen, 0u);
}

static int deploy_with_little_time(void *arg)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	int64_t t;

	(void)arg;
	round_open();
	round_request(&q);
	q.startup_timeout_ms = 500;
	t = now_ms();
	memset(&r, 0, sizeof(r));
	OK(berth_deploy(S, &q, &r, &E));
	t = now_ms() - t;
	ASSERT_ENDED(&r.status, BERTH_TIMED_OUT, -1, r.status.signo);
	ASSERT_STREQ(r.status.phase, "startup");
	ASSERT_GE(t, 495);
	ASSERT_LE(t, 4000);
	return 0;
}

/* An execve that does not come back: the startup timeout is a state, and nothing runs on. */
TEST(startup_timeout)
{
	struct inject *in;
	struct berth_status st;

	inject_need();
	round_paths(0);
	in = inject_new(INJECT_AGENT, 1, 0);
	in->only_nr = SYS_execve;
	in->stall = true;
	inject_start(in, deploy_with_little_time, NULL);
	ASSERT_EQ(inject_join(in, 20000), 0);
	ASSERT_GE(in->fired_nr, 0);
	round_open();
	OK(berth_wait(S, "step", 5000, &st, &E));
	ASSERT_EQ(st.state, BERTH_TIMED_OUT);
	ASSERT_EQ(ran(), 0u);
	assert_gone("step");
	OK(berth_remove(S, "step", &E));
	round_close(in);
}

TEST_TIMEOUT(kill_agent, 600)
{
	table(INJECT_AGENT, 0, "SIGKILL");
}
TEST_TIMEOUT(kill_caller, 600)
{
	table(INJECT_CALLER, 0, "SIGKILL");
}
TEST_TIMEOUT(eio_agent, 600)
{
	table(INJECT_AGENT, EIO, "EIO");
}
TEST_TIMEOUT(enospc_agent, 600)
{
	table(INJECT_AGENT, ENOSPC, "ENOSPC");
}
TEST_TIMEOUT(enomem_agent, 600)
{
	table(INJECT_AGENT, ENOMEM, "ENOMEM");
}
TEST_TIMEOUT(emfile_agent, 600)
{
	table(INJECT_AGENT, EMFILE, "EMFILE");
}
TEST_TIMEOUT(eio_caller, 600)
{
	table(INJECT_CALLER, EIO, "EIO");
}
TEST_TIMEOUT(enomem_caller, 600)
{
	table(INJECT_CALLER, ENOMEM, "ENOMEM");
}
