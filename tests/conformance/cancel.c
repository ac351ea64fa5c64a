/* SPDX-License-Identifier: MIT */
/*
 * cancel.c: cancel ends the whole tree and tells what really happened.
 */
#include "conf.h"

CASE(one_that_obeys, RUNS)
{
	struct berth_status st, again;
	int64_t t;

	start_ready("obeys", "ready pause");
	t = now_ms();
	cancel("obeys", -1, &st);
	ASSERT_LE(now_ms() - t, 500);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
	ASSERT_STREQ(st.message, "");
	ASSERT(st.is_final && st.has_hashes);
	assert_gone("obeys");
	status_of("obeys", &again);
	ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
}

CASE(one_that_handles_term, RUNS)
{
	struct berth_status st;

	start_ready("handles", "block TERM ready await TERM out tidy exit 3");
	cancel("handles", -1, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, 3, 0);
	ASSERT_STREQ(text_out("handles", BERTH_STDOUT), "Rtidy");
}

CASE(one_that_handles_term_and_exits_0, RUNS)
{
	struct berth_status st;

	start_ready("zero", "block TERM ready await TERM exit 0");
	cancel("zero", -1, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, 0, 0);
}

CASE(one_that_ignores_term, RUNS)
{
	static const int graces[] = {0, 50, 400, 1000};
	struct berth_status st;
	char id[32];

	for (size_t i = 0; i < sizeof(graces) / sizeof(*graces); i++) {
		int64_t t;

		snprintf(id, sizeof(id), "ignores-%d", graces[i]);
		start_ready(id, "ignore TERM ready pause");
		t = now_ms();
		cancel(id, graces[i], &st);
		t = now_ms() - t;
		ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
		ASSERT_GE(t, graces[i] - 2);
		ASSERT_LE(t, graces[i] + 300);
		assert_gone(id);
	}
}

CASE(the_recorded_grace, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	int64_t t;

	request(&q, "recorded", "ignore TERM ready pause");
	q.grace_ms = 150;
	start_request(&q);
	await_ready("recorded");
	t = now_ms();
	cancel("recorded", -1, &st);
	t = now_ms() - t;
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
	ASSERT_GE(t, 148);
	ASSERT_LE(t, 600);
	request(&q, "recorded-0", "block TERM ready await TERM exit 0");
	q.grace_ms = 0;
	start_request(&q);
	await_ready("recorded-0");
	cancel("recorded-0", -1, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
}

CASE(no_grace_means_kill, RUNS)
{
	struct berth_status st;

	start_ready("at-once", "spawn daemon { block TERM up await TERM out never } "
			       "block TERM ready await TERM out never exit 0");
	cancel("at-once", 0, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
	ASSERT_STREQ(text_out("at-once", BERTH_STDOUT), "R");
	assert_gone("at-once");
}

CASE(what_has_ended_stays_as_it_is, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st, again;

	run("was-exited", "exit 12", &st);
	cancel("was-exited", 0, &again);
	ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
	run("was-killed", "raise KILL", &st);
	cancel("was-killed", -1, &again);
	ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
	request(&q, "was-failed", "");
	q.workdir = "nowhere";
	deploy(&q, &(struct berth_deploy_result){0});
	status_of("was-failed", &st);
	ASSERT_EQ(st.state, BERTH_FAILED);
	cancel("was-failed", -1, &again);
	ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
}

CASE(cancel_and_exit_at_once_have_one_answer, RUNS)
{
	struct berth_status st, again;
	unsigned exited = 0, cancelled = 0;
	char id[32], what[64];

	for (int i = 0; i < 60; i++) {
		snprintf(id, sizeof(id), "race-%d", i);
		snprintf(what, sizeof(what), "ready sleep %d exit 0", i % 6);
		start_ready(id, what);
		cancel(id, 1000, &st);
		ASSERT(st.is_final);
		if (st.state == BERTH_EXITED) {
			ASSERT_EXITED(&st, 0);
			exited++;
		} else {
			ASSERT_EQ(st.state, BERTH_CANCELLED);
			ASSERT(st.exit_code == 0 || st.signo == SIGTERM);
			cancelled++;
		}
		status_of(id, &again);
		ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
		assert_gone(id);
	}
	DIAG("%u exited, %u cancelled", exited, cancelled);
	ASSERT_GT(cancelled, 0u);
}

static int cancel_in_child(void *arg)
{
	struct berth_status st;

	cancel(arg, 300, &st);
	return st.state == BERTH_CANCELLED && st.signo == SIGKILL ? 0 : 1;
}

CASE(ten_cancel_the_same, RUNS)
{
	struct berth_status st;
	pid_t pids[10];

	start_ready("popular", "ignore TERM ready pause");
	for (int i = 0; i < 10; i++)
		pids[i] = in_child(cancel_in_child, (void *)(uintptr_t) "popular");
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
	status_of("popular", &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
}

static int cancel_patiently(void *arg)
{
	struct berth_status st;

	cancel(arg, 30000, &st);
	return st.state == BERTH_CANCELLED && st.signo == SIGKILL ? 0 : 1;
}

CASE(a_second_cancel_may_be_harder, RUNS)
{
	struct berth_status st;
	int64_t t = now_ms();
	pid_t pid;

	start_ready("harder", "trap TERM ready pause");
	pid = in_child(cancel_patiently, (void *)(uintptr_t) "harder");
	/* The first one has begun when TERM has come. */
	await_bytes_in(box(), "harder", BERTH_STDOUT, 1 + 9);
	cancel("harder", 0, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
	ASSERT_LE(now_ms() - t, 10000);
	ASSERT_EQ(exit_of(pid), 0);
}

static int start_cancel_then_die(void *arg)
{
	struct berth_status st;

	(void)arg;
	berth_cancel(box(), "abandoned", 400, &st, &E);
	return 0;
}

CASE(a_cancel_survives_its_caller, RUNS)
{
	struct berth_status st;
	pid_t pid;

	start_ready("abandoned", "trap TERM ready pause");
	pid = in_child(start_cancel_then_die, NULL);
	await_bytes_in(box(), "abandoned", BERTH_STDOUT, 1 + 9);
	kill(pid, SIGKILL);
	ASSERT_EQ(exit_of(pid), 1000 + SIGKILL);
	finish("abandoned", &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
	assert_gone("abandoned");
}

CASE(cancel_before_it_has_said_a_word, RUNS)
{
	struct berth_status st;
	char id[32];

	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "young-%d", i);
		start(id, "pause");
		cancel(id, 1000, &st);
		ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
		assert_gone(id);
	}
}

CASE(cancel_of_a_loud_one, RUNS)
{
	struct berth_status st;
	struct bytes b;

	start("loud", "chatter 1");
	await_bytes_in(box(), "loud", BERTH_STDOUT, 1 << 20);
	cancel("loud", 5000, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
	b = output_of("loud", BERTH_STDOUT);
	ASSERT_EQ(b.n, st.stdout_bytes);
	for (size_t i = 0; i < b.n; i++) {
		if (b.p[i] != 'c')
			FAIL("byte %zu is %d", i, b.p[i]);
	}
	free(b.p);
}

CASE(bad_graces_are_refused, RUNS)
{
	struct berth_status st;

	start_ready("fine", "ready pause");
	FAILS(BERTH_E_INVALID, berth_cancel(box(), "fine", -2, &st, &E));
	FAILS(BERTH_E_INVALID, berth_signal(box(), "fine", 0, &E));
	FAILS(BERTH_E_INVALID, berth_signal(box(), "fine", 65, &E));
	FAILS(BERTH_E_INVALID, berth_signal(box(), "fine", -1, &E));
	status_of("fine", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	end_it("fine");
}
