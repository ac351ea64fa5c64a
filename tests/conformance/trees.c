/* SPDX-License-Identifier: MIT */
/*
 * trees.c: when an execution is terminal, nothing that it started is alive, however it hid.
 */
#include "conf.h"

static const char *const escapes[] = {"fork", "setsid", "double", "daemon"};
#define N_ESCAPES (sizeof(escapes) / sizeof(*escapes))

static void format_ops(char *buf, size_t cap, const char *id, char *ret_id, size_t id_cap,
		       const char *escape, const char *text)
{
	char *p = buf;

	snprintf(ret_id, id_cap, "%s-%s", id, escape);
	for (; *text && p < buf + cap - 16; text++) {
		if (*text == '%')
			p += sprintf(p, "%s", escape);
		else
			*p++ = *text;
	}
	*p = '\0';
}

CASE(what_is_left_behind_ends_with_the_main_process, RUNS)
{
	struct berth_status st;
	char what[512], id[64];

	for (size_t i = 0; i < N_ESCAPES; i++) {
		format_ops(what, sizeof(what), "left", id, sizeof(id), escapes[i],
			   "spawn % { up pause } exit 5");
		run(id, what, &st);
		ASSERT_EXITED(&st, 5);
		assert_gone(id);
	}
}

CASE(what_closed_its_streams_ends_too, RUNS)
{
	struct berth_status st;
	char what[512], id[64];

	for (size_t i = 0; i < N_ESCAPES; i++) {
		format_ops(what, sizeof(what), "nullio", id, sizeof(id), escapes[i],
			   "spawn % { nullio up pause } exit 6");
		run(id, what, &st);
		ASSERT_EXITED(&st, 6);
		assert_gone(id);
	}
}

CASE(escapes_that_ignore_term_are_killed_after_the_grace, RUNS)
{
	struct berth_status st;
	char what[512], id[64];

	for (size_t i = 0; i < N_ESCAPES; i++) {
		int64_t t;

		format_ops(what, sizeof(what), "deaf", id, sizeof(id), escapes[i],
			   "spawn % { ignore TERM up pause } ready pause");
		start_ready(id, what);
		t = now_ms();
		cancel(id, 200, &st);
		t = now_ms() - t;
		ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
		assert_gone(id);
		ASSERT_GE(t, 190);
		ASSERT_LE(t, 900);
	}
}

CASE(state_is_running_while_something_lives, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	/* The main process is gone, a child that wants its grace is not. */
	request(&q, "lingers",
		"spawn setsid { block TERM block USR1 up await TERM out T await USR1 out U "
		"exit 0 } exit 3");
	q.grace_ms = 30000;
	start_request(&q);
	await_ready("lingers");
	status_of("lingers", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT(!st.is_final);
	OK(berth_signal(box(), "lingers", SIGUSR1, &E));
	finish("lingers", &st);
	ASSERT_EXITED(&st, 3);
	ASSERT_STREQ(text_out("lingers", BERTH_STDOUT), "TU");
	assert_gone("lingers");
}

CASE(stopped_children_get_their_term, RUNS)
{
	struct berth_status st;
	char what[512], id[64];

	for (size_t i = 0; i < N_ESCAPES; i++) {
		int64_t t = now_ms();

		format_ops(what, sizeof(what), "asleep", id, sizeof(id), escapes[i],
			   "spawn % { block TERM up stop await TERM out bye exit 0 } "
			   "block TERM ready await TERM reap exit 0");
		start_ready(id, what);
		await_stopped(id);
		cancel(id, 20000, &st);
		ASSERT_ENDED(&st, BERTH_CANCELLED, 0, 0);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), "Rbye");
		ASSERT_LE(now_ms() - t, 5000);
		assert_gone(id);
	}
}

CASE(a_leader_that_goes_at_once_leaves_the_grace_to_the_rest, RUNS)
{
	struct berth_status st;

	start_ready("grace", "spawn setsid { block TERM up await TERM sleep 300 out saved exit 0 } "
			     "spawn daemon { block TERM up await TERM sleep 300 err saved exit 0 } "
			     "ready pause");
	cancel("grace", 20000, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
	ASSERT_STREQ(text_out("grace", BERTH_STDOUT), "Rsaved");
	ASSERT_STREQ(text_out("grace", BERTH_STDERR), "saved");
	assert_gone("grace");
}

CASE(the_rest_gets_the_grace_after_a_normal_exit, RUNS)
{
	struct berth_status st;

	run("after-exit",
	    "spawn daemon { block TERM up await TERM sleep 200 out late exit 0 } out early exit 0",
	    &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("after-exit", BERTH_STDOUT), "earlylate");
}

CASE(pipes_held_in_the_background_delay_nothing, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	int64_t t;

	request(&q, "holder", "spawn daemon { ignore TERM ignore HUP up pause } out done exit 0");
	q.grace_ms = 100;
	t = now_ms();
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_LE(now_ms() - t, 1500);
	ASSERT_STREQ(text_out("holder", BERTH_STDOUT), "done");
	assert_gone("holder");
}

CASE(children_that_obey_cost_no_grace, RUNS)
{
	struct berth_status st;
	int64_t t = now_ms();

	run("obedient", "spawn setsid { up pause } spawn daemon { up pause } exit 0", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_LE(now_ms() - t, 1500);
}

CASE(deep_trees, RUNS)
{
	struct berth_status st;
	char what[8192] = "";

	for (int i = 0; i < 30; i++) {
		strcat(what, "spawn ");
		strcat(what, escapes[i % 4]);
		strcat(what, " { ");
	}
	strcat(what, "ignore TERM up pause ");
	for (int i = 0; i < 30; i++)
		strcat(what, i < 29 ? "} up pause " : "} ");
	strcat(what, "ready pause");
	start_ready("deep", what);
	ASSERT_GE(processes_with(mark_of("deep"), NULL), 31u);
	cancel("deep", 100, &st);
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	assert_gone("deep");
}

CASE(a_storm_of_processes_ends, RUNS)
{
	struct berth_status st;
	int64_t t;

	start("storm", "storm 300 ready pause");
	await_ready("storm");
	t = now_ms();
	cancel("storm", 0, &st);
	t = now_ms() - t;
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
	assert_gone("storm");
	ASSERT_LE(t, 3000);
}

CASE(what_never_stands_still_ends, RUNS)
{
	struct berth_status st;

	for (int i = 0; i < 5; i++) {
		char id[32];

		snprintf(id, sizeof(id), "hop-%d", i);
		start_ready(id, "hop 200000 ready pause");
		cancel(id, i * 20, &st);
		ASSERT_EQ(st.state, BERTH_CANCELLED);
		assert_gone(id);
	}
}

CASE(orphans_are_reaped, RUNS)
{
	pid_t worker = 0, keeper;
	char state = 0;
	struct berth_status st;
	int64_t end;
	unsigned zombies;

	start_ready("orphans", "orphans 300 ready pause");
	ASSERT_GE(processes_with(mark_of("orphans"), &worker), 1u);
	keeper = parent_of(worker, &state);
	ASSERT_GT(keeper, 0);
	/* They ended when `ready` came; reaping is the keeper's next turn. */
	end = now_ms() + 5000;
	do {
		DIR *d = opendir("/proc");
		struct dirent *e;

		zombies = 0;
		while ((e = readdir(d))) {
			if (e->d_name[0] > '0' && e->d_name[0] <= '9' &&
			    parent_of(atoi(e->d_name), &state) == keeper && state == 'Z')
				zombies++;
		}
		closedir(d);
	} while (zombies && now_ms() < end);
	ASSERT_EQ(zombies, 0u);
	cancel("orphans", 0, &st);
	assert_gone("orphans");
}

CASE(the_main_process_may_leave_its_session, RUNS)
{
	struct berth_status st;

	run("re-exec", "spawn fork { exec ./worker setsid } exit 0", &st);
	ASSERT_EXITED(&st, 0);
	start_ready("double-main",
		    "spawn double { up spawn daemon { up pause } pause } ready pause");
	cancel("double-main", 1000, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
	assert_gone("double-main");
}

CASE(traps_are_heard_once, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "trapped", "trap TERM trap CONT ready pause");
	start_request(&q);
	await_ready("trapped");
	cancel("trapped", 300, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
	/* One TERM, and the CONT that stopped processes need. */
	ASSERT_CONTAINS(text_out("trapped", BERTH_STDOUT), "got TERM\n");
	ASSERT_NULL(strstr(strstr(text_out("trapped", BERTH_STDOUT), "TERM") + 4, "TERM"));
}
