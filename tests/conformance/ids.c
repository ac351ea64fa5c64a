/* SPDX-License-Identifier: MIT */
/*
 * ids.c: an id is one launch. The same request answers with it, another one is a conflict that
 * names the part; however many ask at once.
 */
#include "conf.h"

CASE(the_same_request_answers_with_the_existing_one, RUNS)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	request(&q, "same", "append ~/count-same x ready pause");
	q.no_durable = false;
	q.timeout_ms = 60000;
	q.env = (const char *const[]){"A=1", "B=2", NULL};
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "in";
	q.input_len = 2;
	deploy(&q, &r);
	ASSERT(!r.existed);
	await_ready("same");
	for (int i = 0; i < 5; i++) {
		deploy(&q, &r);
		ASSERT(r.existed);
		ASSERT_EQ(r.status.state, BERTH_RUNNING);
	}
	cancel("same", 0, &st);
	deploy(&q, &r);
	ASSERT(r.existed);
	ASSERT_ENDED(&r.status, BERTH_CANCELLED, -1, SIGKILL);
	ASSERT_EQ(home_size("count-same"), 1u);
}

CASE(what_is_not_part_of_a_request, RUNS)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	request(&q, "loose", "append ~/count-loose x exit 0");
	deploy(&q, &r);
	ASSERT(!r.existed);
	q.mode = "job";
	q.startup_timeout_ms = 5000;
	q.install_timeout_ms = 5000;
	q.input_limit = 1000;
	q.no_record_env = true;
	q.no_durable = false;
	deploy(&q, &r);
	ASSERT(r.existed);
	finish("loose", &st);
	ASSERT_EQ(home_size("count-loose"), 1u);
}

static void base_request(struct berth_deploy_request *q, const char *id)
{
	static const char *const env[] = {"A=topsecretvalue", NULL};

	request(q, id, "append ~/count-parts x ready pause");
	q->env = env;
	q->input_kind = BERTH_INPUT_STDIN;
	q->input = "input";
	q->input_len = 5;
	q->timeout_ms = 600000;
	q->grace_ms = 1000;
	q->limits.output_bytes = 1 << 20;
}

CASE(another_request_is_a_conflict_that_names_the_part, RUNS)
{
	static const char *const other_env[] = {"A=othersecretvalue", NULL};
	const char *other = new_artifact("other");
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status before, after;

	put_text(in(other, "more"), "x");
	base_request(&q, "parts");
	start_request(&q);
	await_ready("parts");
	status_of("parts", &before);
#define DIFFERS(part, change)                                                     \
	do {                                                                      \
		base_request(&q, "parts");                                        \
		change;                                                           \
		SUBTEST("%s", part)                                               \
		{                                                                 \
			FAILS(BERTH_E_CONFLICT, berth_deploy(box(), &q, &r, &E)); \
			ASSERT_CONTAINS(E.message, part);                         \
			ASSERT_CONTAINS(E.message, "parts");                      \
			ASSERT_LACKS(E.message, "secretvalue");                   \
		}                                                                 \
	} while (0)
	DIFFERS("artifact", q.dir = other);
	DIFFERS("command", q.command = ((const char *const[]){"/bin/true", NULL}));
	DIFFERS("args", q.command = ops("parts", "append ~/count-parts x ready pause pause"));
	DIFFERS("env", q.env = other_env);
	DIFFERS("env", q.env = NULL);
	DIFFERS("workdir", q.workdir = "sub");
	DIFFERS("input", q.input = "Input");
	DIFFERS("input", q.input_kind = BERTH_INPUT_NONE);
	DIFFERS("input", (q.input_kind = BERTH_INPUT_FILE, q.input_path = "in"));
	DIFFERS("install", q.install = "true");
	DIFFERS("timeout", q.timeout_ms = 600001);
	DIFFERS("grace", q.grace_ms = 1001);
	DIFFERS("limits", q.limits.open_files = 1000);
	DIFFERS("output limit", q.limits.output_bytes = (1 << 20) + 1);
	base_request(&q, "parts");
	deploy(&q, &r);
	ASSERT(r.existed);
	status_of("parts", &after);
	ASSERT_MEMEQ(&after, sizeof(after), &before, sizeof(before));
	end_it("parts");
	ASSERT_EQ(home_size("count-parts"), 1u);
}

CASE(a_conflict_does_not_replace_the_artifact, RUNS)
{
	const char *dir = new_artifact("replaced");
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	put_text(in(dir, "data"), "one");
	request(&q, "keeps", "block USR1 ready await USR1 read data");
	q.dir = dir;
	start_request(&q);
	await_ready("keeps");
	put_text(in(dir, "data"), "two");
	FAILS(BERTH_E_CONFLICT, berth_deploy(box(), &q, &r, &E));
	ASSERT_CONTAINS(E.message, "artifact");
	OK(berth_signal(box(), "keeps", SIGUSR1, &E));
	finish("keeps", &st);
	ASSERT_STREQ(text_out("keeps", BERTH_STDOUT), "Rone");
}

/* ── at once ──────────────────────────────────────────────────────────────────────────────── */

struct crowd {
	int go[2];
	bool differ;
	int number;
};

/* 0: launched; 1: existed; 4: conflict. */
static int one_of_the_crowd(void *arg)
{
	struct crowd *c = arg;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	char what[128], byte;
	int rc;

	snprintf(what, sizeof(what), "append ~/count-crowd-%d x %s%d sleep 30 exit 7", c->differ,
		 "out ", c->differ ? c->number : 0);
	request(&q, c->differ ? "crowd-1" : "crowd-0", what);
	q.no_durable = false;
	close(c->go[1]);
	(void)!read(c->go[0], &byte, 1);
	rc = berth_deploy(box(), &q, &r, &E);
	if (rc == BERTH_E_CONFLICT)
		return 4;
	OK(rc);
	ASSERT(r.status.state == BERTH_RUNNING || r.status.state == BERTH_EXITED);
	return r.existed ? 1 : 0;
}

static void crowd(bool differ)
{
	struct crowd c = {.differ = differ};
	const char *id = differ ? "crowd-1" : "crowd-0";
	int answers[8] = {0};
	struct berth_status st;
	pid_t pids[20];

	run(differ ? "before-1" : "before-0", "exit 0", &st);
	ASSERT_OK(pipe(c.go));
	for (int i = 0; i < 20; i++) {
		c.number = i;
		pids[i] = in_child(one_of_the_crowd, &c);
	}
	close(c.go[0]);
	close(c.go[1]);
	for (int i = 0; i < 20; i++) {
		int e = exit_of(pids[i]);

		ASSERT(e >= 0 && e < 8);
		answers[e]++;
	}
	ASSERT_EQ(answers[0], 1);
	ASSERT_EQ(answers[differ ? 4 : 1], 19);
	finish(id, &st);
	ASSERT_EXITED(&st, 7);
	ASSERT_EQ(home_size(differ ? "count-crowd-1" : "count-crowd-0"), 1u);
}

CASE(twenty_at_once_launch_once, RUNS)
{
	crowd(false);
}

CASE(twenty_different_ones_launch_once, RUNS)
{
	crowd(true);
}

struct fresh_crowd {
	int go[2];
	int number;
};

static int one_into_a_new_sandbox(void *arg)
{
	struct fresh_crowd *c = arg;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	char id[32], byte;

	snprintf(id, sizeof(id), "fresh-%d", c->number);
	S = box_named("brandnew", BERTH_OPEN_START);
	request(&q, id, "exit 3");
	close(c->go[1]);
	(void)!read(c->go[0], &byte, 1);
	deploy(&q, &r);
	return r.existed ? 1 : 0;
}

CASE(twenty_create_one_sandbox, RUNS | BERTH_CAP_START)
{
	struct fresh_crowd c = {.number = 0};
	struct berth_provider_info info;
	struct berth_sandbox *s;
	struct berth_status st;
	pid_t pids[20];
	char id[32];

	need_names();
	ASSERT_OK(pipe(c.go));
	for (int i = 0; i < 20; i++) {
		c.number = i;
		pids[i] = in_child(one_into_a_new_sandbox, &c);
	}
	close(c.go[0]);
	close(c.go[1]);
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
	s = box_named("brandnew", 0);
	OK(berth_sandbox_info(s, &info, &E));
	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "fresh-%d", i);
		OK(berth_wait(s, id, 20000, &st, &E));
		ASSERT_EXITED(&st, 3);
	}
	berth_sandbox_close(s);
}

CASE(ids_are_free_again_after_remove, RUNS)
{
	struct berth_status st;

	for (int i = 0; i < 10; i++) {
		run("recycled", i % 2 ? "out a exit 1" : "out b exit 2", &st);
		ASSERT_EXITED(&st, i % 2 ? 1 : 2);
		ASSERT_STREQ(text_out("recycled", BERTH_STDOUT), i % 2 ? "a" : "b");
		OK(berth_remove(box(), "recycled", &E));
	}
}
