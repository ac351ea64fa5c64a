/* SPDX-License-Identifier: MIT */
/*
 * kills.c: SIGKILL of the caller, the supervisor and init while something runs and at random
 * moments (BERTH_FAULT_SEED, BERTH_FAULT_ROUNDS). Local sandboxes only: it needs the processes.
 */
#include "conformance/conf.h"
#include "fault/procs.h"

static uint64_t rng_state;
static uint64_t rng(void)
{
	rng_state += 0x9e3779b97f4a7c15u;
	return pattern_word(rng_state, 1);
}
static unsigned rounds(unsigned dflt)
{
	const char *v = getenv("BERTH_FAULT_ROUNDS"), *seed = getenv("BERTH_FAULT_SEED");

	rng_state = seed ? strtoull(seed, NULL, 10) : 1;
	return v && *v ? (unsigned)strtoul(v, NULL, 10) : dflt;
}

/* A random moment: between nothing and max microseconds from now. */
static void random_moment(uint64_t max_us)
{
	struct timespec ts = {0, (long)(rng() % (max_us * 1000))};

	nanosleep(&ts, NULL);
}

/* ── the supervisor ───────────────────────────────────────────────────────────────────────── */

TEST(supervisor_of_a_running_one)
{
	static const char *const what[] = {"ready pause",
					   "spawn setsid { ignore TERM up pause } ready pause",
					   "spawn daemon { ignore TERM ignore HUP up pause } spawn "
					   "double { up pause } ready pause",
					   "ready chatter 1", "storm 50 ready pause"};
	struct berth_status st, again;
	char id[32];

	local_only();
	for (size_t i = 0; i < sizeof(what) / sizeof(*what); i++) {
		snprintf(id, sizeof(id), "gone-%zu", i);
		SUBTEST("%s", what[i])
		{
			start_ready(id, what[i]);
			kill_and_wait(supervisor_of(id));
			finish(id, &st);
			ASSERT_EQ(st.state, BERTH_UNKNOWN);
			ASSERT_CONTAINS(st.message, "supervisor gone");
			ASSERT_EQ(st.exit_code, -1);
			ASSERT(!st.has_hashes);
			await_gone(id);
			cancel(id, 0, &again);
			ASSERT_EQ(again.state, BERTH_UNKNOWN);
			OK(berth_remove(box(), id, &E));
			run(id, "exit 3", &st);
			ASSERT_EXITED(&st, 3);
		}
	}
}

static int wait_unknown(void *arg)
{
	struct berth_status st;

	OK(berth_wait(box(), arg, 20000, &st, &E));
	return st.state == BERTH_UNKNOWN ? 0 : 1;
}

TEST(watchers_learn_that_a_supervisor_died)
{
	struct berth_read_result r;
	struct berth_status st;
	char buf[16];
	pid_t pid;

	local_only();
	start_ready("watched", "out abc ready pause");
	await_bytes_in(box(), "watched", BERTH_STDOUT, 4);
	pid = in_child(wait_unknown, (void *)(uintptr_t) "watched");
	kill_and_wait(supervisor_of("watched"));
	ASSERT_EQ(exit_of(pid), 0);
	/* What it wrote can be read; that there may have been more is said. */
	OK(berth_read(box(), "watched", BERTH_STDOUT, 0, buf, sizeof(buf), &r, &E));
	ASSERT_MEMEQ(buf, r.n, "abcR", 4);
	ASSERT(!r.eof);
	ASSERT(r.interrupted);
	status_of("watched", &st);
	ASSERT_EQ(st.state, BERTH_UNKNOWN);
}

TEST_TIMEOUT(supervisor_at_random_moments, 300)
{
	unsigned n = rounds(150), states[10] = {0};
	struct berth_status st, again;
	char id[32];

	local_only();
	for (unsigned i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "moment-%u", i);
		start(id, i % 3 == 0   ? "ready sleep 3 exit 7"
			  : i % 3 == 1 ? "spawn daemon { up pause } ready exit 7"
				       : "rand 1 1 100000 ready exit 7");
		{
			pid_t worker = 0, pid = 0;

			if (processes_with(mark_of(id), &worker)) {
				char state;

				for (pid = worker; pid > 1 && !is_agent(pid);)
					pid = parent_of(pid, &state);
			}
			random_moment(4000);
			if (pid > 1)
				kill(pid, SIGKILL);
		}
		finish(id, &st);
		ASSERT(st.state == BERTH_EXITED || st.state == BERTH_UNKNOWN);
		if (st.state == BERTH_EXITED) {
			ASSERT_EXITED(&st, 7);
			assert_gone(id);
		} else {
			await_gone(id);
		}
		status_of(id, &again);
		ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
		states[st.state]++;
	}
	DIAG("%u exited, %u unknown", states[BERTH_EXITED], states[BERTH_UNKNOWN]);
}

/* ── init ─────────────────────────────────────────────────────────────────────────────────── */

static int run_next(void *arg)
{
	struct berth_status st;

	(void)arg;
	run("next", "exit 6", &st);
	return st.exit_code;
}

TEST(init_while_something_runs)
{
	struct berth_provider_info info;
	struct berth_status st;
	bool lives_by_init;
	pid_t init;

	local_only();
	start_ready("survivor", "block USR1 ready await USR1 out end exit 5");
	OK(berth_sandbox_info(box(), &info, &E));
	lives_by_init = info.init_is_life;
	init = find_init();
	ASSERT_GT(init, 1);
	kill_and_wait(init);
	if (lives_by_init) {
		/* Everything in the sandbox dies with it, and nothing else is said of it. */
		finish("survivor", &st);
		ASSERT_EQ(st.state, BERTH_UNKNOWN);
		ASSERT(st.message[0] != '\0');
		await_gone("survivor");
	} else {
		/* The execution does not depend on it. */
		status_of("survivor", &st);
		ASSERT_EQ(st.state, BERTH_RUNNING);
		OK(berth_sandbox_info(box(), &info, &E));
		OK(berth_signal(box(), "survivor", SIGUSR1, &E));
		finish("survivor", &st);
		ASSERT_EXITED(&st, 5);
		ASSERT_STREQ(text_out("survivor", BERTH_STDOUT), "Rend");
	}
	/* And the next caller, who has no stream from before, makes a new one. */
	ASSERT_EQ(exit_of(in_child(run_next, NULL)), 6);
	ASSERT_GT(find_init(), 1);
}

static int deploy_mute(void *arg)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	int rc;

	request(&q, "mute", "append ~/count-mute x exit 4");
	q.startup_timeout_ms = *(int *)arg;
	rc = berth_deploy(box(), &q, &r, &E);
	return rc < 0 ? -rc : 50 + (int)r.status.state;
}

TEST_TIMEOUT(an_init_that_does_not_answer, 60)
{
	struct berth_status st;
	int64_t t;
	pid_t init;
	int rc, little = 300, much = 10000;

	local_only();
	start_ready("before-mute", "ready pause");
	init = find_init();
	ASSERT_GT(init, 1);
	ASSERT_OK(kill(init, SIGSTOP));
	t = now_ms();
	rc = exit_of(in_child(deploy_mute, &little));
	t = now_ms() - t;
	/* What runs can be asked and ended without it. */
	status_of("before-mute", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	cancel("before-mute", 0, &st);
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	ASSERT_OK(kill(init, SIGCONT));
	if (rc != -BERTH_E_TIMEOUT && rc != -BERTH_E_UNAVAILABLE)
		FAIL("deploy said %d after %" PRId64 " ms, init is %d", rc, t, init);
	ASSERT_LE(t, 9000);
	rc = exit_of(in_child(deploy_mute, &much));
	ASSERT(rc == 50 + BERTH_RUNNING || rc == 50 + BERTH_EXITED);
	finish("mute", &st);
	ASSERT_EXITED(&st, 4);
	ASSERT_EQ(home_size("count-mute"), 1u);
}

TEST(init_and_then_stop)
{
	struct berth_sandbox *s;
	struct berth_status st;

	local_only();
	s = use_box("headless");
	start_ready("headless-1", "spawn daemon { up pause } ready pause");
	for (pid_t init; (init = find_init()) > 1;)
		kill_and_wait(init);
	/* stop must reach what the dead init can no longer end. */
	OK(berth_sandbox_stop(s, &E));
	assert_gone("headless-1");
	OK(berth_sandbox_start(s, &E));
	status_of("headless-1", &st);
	ASSERT(st.state == BERTH_CANCELLED || st.state == BERTH_UNKNOWN);
}

TEST(init_and_then_destroy)
{
	struct berth_destroy_result r;

	local_only();
	use_box("headless-2");
	start_ready("headless-2", "spawn daemon { ignore TERM up pause } ready pause");
	for (pid_t init; (init = find_init()) > 1;)
		kill_and_wait(init);
	OK(berth_sandbox_destroy(S, 0, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	assert_gone("headless-2");
}

TEST(init_and_supervisor)
{
	struct berth_status st;
	pid_t sup;

	local_only();
	use_box("both");
	start_ready("both", "spawn daemon { ignore TERM up pause } ready pause");
	sup = supervisor_of("both");
	for (pid_t init; (init = find_init()) > 1;)
		kill_and_wait(init);
	kill_and_wait(sup);
	finish("both", &st);
	ASSERT_EQ(st.state, BERTH_UNKNOWN);
	await_gone("both");
	OK(berth_remove(box(), "both", &E));
	run("both", "exit 1", &st);
	ASSERT_EXITED(&st, 1);
}

static int deploy_in_a_loop(void *arg)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	char id[32];

	for (unsigned i = 0; i < *(unsigned *)arg; i++) {
		snprintf(id, sizeof(id), "loop-%u", i);
		request(&q, id, "append ~/count-loop x exit 7");
		(void)berth_deploy(box(), &q, &r, &E);
	}
	return 0;
}

TEST_TIMEOUT(init_at_random_moments, 300)
{
	unsigned n = rounds(60), found = 0;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	struct pollfd p = {.events = POLLIN};
	static char unlucky[512];
	char id[32];
	pid_t pid;

	local_only();
	use_box("unlucky");
	OK(berth_sandbox_start(S, &E));
	snprintf(unlucky, sizeof(unlucky), "%s", spec_for("unlucky"));
	conf.template = unlucky;
	pid = in_child(deploy_in_a_loop, &n);
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	while (poll(&p, 1, 0) == 0) {
		pid_t init = find_init();

		random_moment(15000);
		if (init > 1)
			kill(init, SIGKILL);
	}
	exit_of(pid);
	for (unsigned i = 0; i < n; i++) {
		int rc;

		snprintf(id, sizeof(id), "loop-%u", i);
		rc = berth_status(box(), id, &st, &E);
		if (rc == BERTH_E_NOT_FOUND)
			continue;
		OK(rc);
		found++;
		finish(id, &st);
		ASSERT(st.state == BERTH_EXITED || st.state == BERTH_FAILED ||
		       st.state == BERTH_UNKNOWN);
		if (st.state == BERTH_EXITED)
			ASSERT_EXITED(&st, 7);
	}
	/* Each id can be used: it answers, or it is launched now. */
	for (unsigned i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "loop-%u", i);
		request(&q, id, "append ~/count-loop x exit 7");
		memset(&r, 0, sizeof(r));
		OK(berth_deploy(box(), &q, &r, &E));
		finish(id, &st);
	}
	ASSERT_LE(home_size("count-loop"), n);
	DIAG("%u of %u had a record", found, n);
}

/* ── the caller ───────────────────────────────────────────────────────────────────────────── */

static int deploy_and_wait(void *arg)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	request(&q, arg, "append ~/count-caller x sleep 2 exit 7");
	q.no_durable = false;
	OK(berth_deploy(box(), &q, &r, &E));
	OK(berth_wait(box(), arg, 10000, &st, &E));
	return 0;
}

TEST_TIMEOUT(caller_at_random_moments, 300)
{
	unsigned n = rounds(250), launched = 0;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	char id[32];

	local_only();
	run("before-callers", "exit 0", &st);
	for (unsigned i = 0; i < n; i++) {
		pid_t pid;
		int rc;

		snprintf(id, sizeof(id), "caller-%u", i);
		pid = in_child(deploy_and_wait, id);
		random_moment(16000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		rc = berth_status(box(), id, &st, &E);
		if (rc != BERTH_E_NOT_FOUND) {
			OK(rc);
			launched++;
		}
		/* The retry after a lost answer is safe. */
		request(&q, id, "append ~/count-caller x sleep 2 exit 7");
		OK(berth_deploy(box(), &q, &r, &E));
		if (rc == 0)
			ASSERT(r.existed);
		finish(id, &st);
		ASSERT_EXITED(&st, 7);
		assert_gone(id);
	}
	ASSERT_EQ(home_size("count-caller"), n);
	DIAG("%u of %u were launched when the caller died", launched, n);
}
