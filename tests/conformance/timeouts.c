/* SPDX-License-Identifier: MIT */
/*
 * timeouts.c: deadlines act on time, on the whole tree, and say that it was them.
 */
#include "conf.h"

/* How much later than asked is still on time, on a busy machine of two cores. */
#define LATE 250

static void timed(const char *id, const char *what, int64_t timeout, int64_t grace, int code,
		  int signo)
{
	struct berth_deploy_request q;
	struct berth_status st;
	int64_t ran;

	request(&q, id, what);
	q.timeout_ms = timeout;
	q.grace_ms = grace;
	run_request(&q, &st);
	ASSERT_ENDED(&st, BERTH_TIMED_OUT, code, signo);
	ASSERT_STREQ(st.phase, "execution");
	assert_gone(id);
	ran = st.finished_ms - st.started_ms;
	if (signo == SIGKILL && grace > 0)
		timeout += grace;
	ASSERT_GE(ran, timeout - 2);
	ASSERT_LE(ran, timeout + LATE);
}

CASE(from_50_ms_to_2_s, RUNS)
{
	static const int times[] = {50, 100, 300, 1000, 2000};
	char id[32];

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		snprintf(id, sizeof(id), "t-%d", times[i]);
		timed(id, "pause", times[i], 5000, -1, SIGTERM);
	}
}

CASE(grace_in_milliseconds, RUNS)
{
	timed("g-0", "ignore TERM pause", 60, 0, -1, SIGKILL);
	timed("g-70", "ignore TERM pause", 60, 70, -1, SIGKILL);
	timed("g-350", "ignore TERM pause", 60, 350, -1, SIGKILL);
}

CASE(busy_and_stopped_ones_too, RUNS)
{
	timed("burns", "burn", 150, 5000, -1, SIGTERM);
	timed("stopped", "stop pause", 150, 5000, -1, SIGTERM);
	timed("chatters", "chatter 1", 300, 5000, -1, SIGTERM);
}

CASE(a_handler_may_say_goodbye, RUNS)
{
	timed("polite", "block TERM await TERM out bye exit 9", 100, 5000, 9, 0);
	ASSERT_STREQ(text_out("polite", BERTH_STDOUT), "bye");
}

CASE(the_whole_tree_meets_the_deadline, RUNS)
{
	timed("tree", "spawn daemon { up pause } spawn setsid { up pause } pause", 200, 5000, -1,
	      SIGTERM);
	timed("deaf-tree", "spawn daemon { ignore TERM up pause } ignore TERM pause", 200, 150, -1,
	      SIGKILL);
}

CASE(background_children_meet_it_too, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	/* The main process is over in time; what it left has its grace, not the deadline's
	 * state. */
	request(&q, "over", "spawn daemon { ignore TERM up pause } exit 4");
	q.timeout_ms = 5000;
	q.grace_ms = 100;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 4);
	assert_gone("over");
}

CASE(in_time_is_in_time, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "in-time", "sleep 30 exit 124");
	q.timeout_ms = 20000;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 124);
	ASSERT_STREQ(st.phase, "");
}

CASE(exit_and_deadline_at_once_have_one_answer, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st, again;
	unsigned exited = 0, late = 0;
	char id[32];

	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "race-%d", i);
		request(&q, id, "sleep 20 exit 0");
		q.timeout_ms = 16 + i % 9;
		run_request(&q, &st);
		if (st.state == BERTH_EXITED) {
			exited++;
			ASSERT_EXITED(&st, 0);
		} else {
			late++;
			ASSERT_EQ(st.state, BERTH_TIMED_OUT);
			ASSERT(st.exit_code == 0 || st.signo == SIGTERM);
		}
		status_of(id, &again);
		ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
	}
	DIAG("%u exited, %u timed out", exited, late);
}

static int deploy_and_die(void *arg)
{
	struct berth_deploy_request q;

	(void)arg;
	request(&q, "orphaned", "ready pause");
	q.timeout_ms = 400;
	start_request(&q);
	return 42;
}

CASE(nobody_needs_to_stay, RUNS)
{
	struct berth_status st;

	ASSERT_EQ(exit_of(in_child(deploy_and_die, NULL)), 42);
	finish("orphaned", &st);
	ASSERT_ENDED(&st, BERTH_TIMED_OUT, -1, SIGTERM);
	ASSERT_LE(st.finished_ms - st.started_ms, 400 + LATE);
	assert_gone("orphaned");
}

CASE(many_deadlines_at_once, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32];

	for (int i = 0; i < 30; i++) {
		snprintf(id, sizeof(id), "many-%d", i);
		request(&q, id, "pause");
		q.timeout_ms = 700;
		start_request(&q);
	}
	for (int i = 0; i < 30; i++) {
		snprintf(id, sizeof(id), "many-%d", i);
		finish(id, &st);
		ASSERT_ENDED(&st, BERTH_TIMED_OUT, -1, SIGTERM);
		ASSERT_LE(st.finished_ms - st.started_ms, 700 + 2 * LATE);
		assert_gone(id);
	}
}
