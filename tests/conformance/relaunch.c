/* SPDX-License-Identifier: MIT */
/*
 * relaunch.c: the recorded command, environment and input again, under a new id, by anybody.
 */
#include "conf.h"

static void again(const char *id, const char *new_id, struct berth_relaunch_request *q)
{
	memset(q, 0, sizeof(*q));
	q->size = sizeof(*q);
	q->id = id;
	q->new_id = new_id;
}

static void relaunch(struct berth_relaunch_request *q, struct berth_status *st)
{
	struct berth_deploy_result r;

	memset(&r, 0, sizeof(r));
	OK(berth_relaunch(box(), q, &r, &E));
	ASSERT(!r.existed);
	ASSERT_STREQ(r.status.id, q->new_id);
	finish(q->new_id, st);
}

static void original(const char *id, const char *what)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, id, what);
	q.env = (const char *const[]){"A=one", "B=two", NULL};
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "recorded\0input";
	q.input_len = 14;
	q.mode = "job";
	run_request(&q, &st);
	ASSERT_EXITED(&st, 5);
}

CASE(command_env_and_input, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_status st;
	struct bytes b;

	original("first", "getenv A getenv B cat exit 5");
	again("first", "second", &q);
	relaunch(&q, &st);
	ASSERT_EXITED(&st, 5);
	ASSERT_STREQ(st.mode, "job");
	b = output_of("second", BERTH_STDOUT);
	ASSERT_MEMEQ(b.p, b.n, "onetworecorded\0input", 20);
	free(b.p);
}

CASE(a_relaunch_of_a_relaunch, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_status st;

	original("chain-0", "getenv A exit 5");
	again("chain-0", "chain-1", &q);
	relaunch(&q, &st);
	OK(berth_remove(box(), "chain-0", &E));
	again("chain-1", "chain-2", &q);
	relaunch(&q, &st);
	ASSERT_STREQ(text_out("chain-2", BERTH_STDOUT), "one");
}

CASE(values_added_and_replaced, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_status st;

	original("env-0", "getenv A getenv B getenv C exit 5");
	again("env-0", "env-1", &q);
	q.env = (const char *const[]){"B=TWO", "C=three", NULL};
	relaunch(&q, &st);
	ASSERT_STREQ(text_out("env-0", BERTH_STDOUT), "onetwo(unset)");
	ASSERT_STREQ(text_out("env-1", BERTH_STDOUT), "oneTWOthree");
}

CASE(another_input, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_status st;

	original("in-0", "intype cat exit 5");
	again("in-0", "in-1", &q);
	q.input_given = true;
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "new";
	q.input_len = 3;
	relaunch(&q, &st);
	ASSERT_STREQ(text_out("in-1", BERTH_STDOUT), "pipe\nnew");
	again("in-0", "in-2", &q);
	q.input_given = true;
	q.input_kind = BERTH_INPUT_NONE;
	relaunch(&q, &st);
	ASSERT_STREQ(text_out("in-2", BERTH_STDOUT), "null\n");
}

CASE(a_file_input, RUNS)
{
	struct berth_relaunch_request rq;
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "file-0", "append sub/in.txt +mine read sub/in.txt exit 6");
	q.input_kind = BERTH_INPUT_FILE;
	q.input_path = "sub/in.txt";
	q.input = "bytes";
	q.input_len = 5;
	run_request(&q, &st);
	ASSERT_STREQ(text_out("file-0", BERTH_STDOUT), "bytes+mine");
	again("file-0", "file-1", &rq);
	relaunch(&rq, &st);
	ASSERT_EXITED(&st, 6);
	ASSERT_STREQ(text_out("file-1", BERTH_STDOUT), "bytes+mine");
}

CASE(values_that_were_not_recorded_must_be_given, RUNS)
{
	struct berth_relaunch_request rq;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	request(&q, "bare-0", "getenv TOKEN getenv OTHER exit 0");
	q.env = (const char *const[]){"TOKEN=hunter2", "OTHER=x", NULL};
	q.no_record_env = true;
	run_request(&q, &st);
	again("bare-0", "bare-1", &rq);
	FAILS(BERTH_E_INVALID, berth_relaunch(box(), &rq, &r, &E));
	ASSERT_CONTAINS(E.message, "TOKEN");
	ASSERT_CONTAINS(E.message, "OTHER");
	ASSERT_LACKS(E.message, "hunter2");
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "bare-1", &st, &E));
	rq.env = (const char *const[]){"TOKEN=given", NULL};
	FAILS(BERTH_E_INVALID, berth_relaunch(box(), &rq, &r, &E));
	ASSERT_LACKS(E.message, "TOKEN");
	rq.env = (const char *const[]){"TOKEN=given", "OTHER=", NULL};
	relaunch(&rq, &st);
	ASSERT_STREQ(text_out("bare-1", BERTH_STDOUT), "given");
}

CASE(what_cannot_be, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	original("solid", "exit 5");
	again("solid", "solid", &q);
	FAILS(BERTH_E_INVALID, berth_relaunch(box(), &q, &r, &E));
	again("nobody", "somebody", &q);
	FAILS(BERTH_E_NOT_FOUND, berth_relaunch(box(), &q, &r, &E));
	again("solid", "bad/id", &q);
	FAILS(BERTH_E_INVALID, berth_relaunch(box(), &q, &r, &E));
	run("taken", "exit 1", &st);
	again("solid", "taken", &q);
	FAILS(BERTH_E_CONFLICT, berth_relaunch(box(), &q, &r, &E));
	again("solid", "solid-2", &q);
	q.env = (const char *const[]){"1BAD=x", NULL};
	FAILS(BERTH_E_INVALID, berth_relaunch(box(), &q, &r, &E));
}

CASE(the_same_relaunch_twice_runs_once, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	original("once-0", "append ~/count-relaunch x exit 5");
	again("once-0", "once-1", &q);
	relaunch(&q, &st);
	OK(berth_relaunch(box(), &q, &r, &E));
	ASSERT(r.existed);
	ASSERT_EQ(home_size("count-relaunch"), 2u);
}

static int relaunch_elsewhere(void *arg)
{
	struct berth_relaunch_request q;
	struct berth_status st;

	(void)arg;
	again("far-0", "far-1", &q);
	relaunch(&q, &st);
	return st.exit_code;
}

CASE(from_another_process_and_while_it_runs, RUNS)
{
	struct berth_relaunch_request q;
	struct berth_deploy_request d;
	struct berth_deploy_result r;

	original("far-0", "exit 5");
	ASSERT_EQ(exit_of(in_child(relaunch_elsewhere, NULL)), 5);
	request(&d, "live-0", "ready pause");
	start_request(&d);
	await_ready("live-0");
	again("live-0", "live-1", &q);
	OK(berth_relaunch(box(), &q, &r, &E));
	await_ready("live-1");
	end_it("live-1");
	end_it("live-0");
}

CASE(limits_and_deadlines_come_along, RUNS)
{
	struct berth_relaunch_request rq;
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "carry-0", "rand 1 1 5000 ignore TERM pause");
	q.timeout_ms = 100;
	q.grace_ms = 50;
	q.limits.output_bytes = 1000;
	run_request(&q, &st);
	ASSERT_ENDED(&st, BERTH_TIMED_OUT, -1, SIGKILL);
	again("carry-0", "carry-1", &rq);
	relaunch(&rq, &st);
	ASSERT_ENDED(&st, BERTH_TIMED_OUT, -1, SIGKILL);
	ASSERT_LE(st.finished_ms - st.started_ms, 600);
	{
		static char buf[8192];
		struct berth_read_result r;

		OK(berth_read(box(), "carry-1", BERTH_STDOUT, 500, buf, sizeof(buf), &r, &E));
		ASSERT(r.has_gap && r.gap_from == 500 && r.gap_to == 4500);
	}
}

CASE(in_its_working_directory_from_the_original_artifact, RUNS)
{
	const char *dir = new_artifact("wd");
	struct berth_relaunch_request rq;
	struct berth_deploy_request q;
	struct berth_status st;

	ASSERT_OK(mkdir(in(dir, "sub"), 0755));
	put_text(in(dir, "sub/file"), "original");
	ASSERT_OK(link(conf.worker, in(dir, "sub/worker")));
	request(&q, "wd-0", "read file write file changed");
	q.dir = dir;
	q.workdir = "sub";
	run_request(&q, &st);
	/* The caller's directory is not needed any more. */
	ASSERT_OK(unlink(in(dir, "sub/file")));
	again("wd-0", "wd-1", &rq);
	relaunch(&rq, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("wd-1", BERTH_STDOUT), "original");
}
