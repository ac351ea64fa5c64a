/* SPDX-License-Identifier: MIT */
/*
 * records.c: any process can find, watch and remove what another one started.
 */
#include "conf.h"

static int start_and_leave(void *arg)
{
	struct berth_deploy_request q;

	(void)arg;
	request(&q, "left", "block USR1 ready await USR1 out end exit 8");
	q.no_durable = false;
	start_request(&q);
	raise(SIGKILL);
	return 0;
}

CASE(attach_from_another_process, RUNS)
{
	struct berth_status st;

	ASSERT_EQ(exit_of(in_child(start_and_leave, NULL)), 1000 + SIGKILL);
	await_ready("left");
	status_of("left", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	OK(berth_signal(box(), "left", SIGUSR1, &E));
	finish("left", &st);
	ASSERT_EXITED(&st, 8);
	ASSERT_STREQ(text_out("left", BERTH_STDOUT), "Rend");
}

CASE(attach_through_a_new_context, RUNS)
{
	struct berth *other = NULL;
	struct berth_sandbox *s = NULL;
	struct berth_status st;

	start_ready("other-context", "ready pause");
	OK(berth_new(conf.state, &other, &E));
	OK(berth_sandbox_open(other, berth_sandbox_name(box()), NULL, 0, &s, &E));
	ASSERT_STREQ(berth_sandbox_name(s), berth_sandbox_name(box()));
	OK(berth_status(s, "other-context", &st, &E));
	ASSERT_EQ(st.state, BERTH_RUNNING);
	OK(berth_cancel(s, "other-context", 0, &st, &E));
	ASSERT_EQ(st.state, BERTH_CANCELLED);
	berth_sandbox_close(s);
	berth_free(other);
}

CASE(wait_gives_up_when_told, RUNS)
{
	struct berth_status st;
	int64_t t;

	start_ready("patience", "ready pause");
	t = now_ms();
	memset(&st, 0, sizeof(st));
	FAILS(BERTH_E_TIMEOUT, berth_wait(box(), "patience", 120, &st, &E));
	t = now_ms() - t;
	ASSERT_GE(t, 118);
	ASSERT_LE(t, 500);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	memset(&st, 0, sizeof(st));
	FAILS(BERTH_E_TIMEOUT, berth_wait(box(), "patience", 0, &st, &E));
	ASSERT_EQ(st.state, BERTH_RUNNING);
	end_it("patience");
	OK(berth_wait(box(), "patience", 0, &st, &E));
	ASSERT_EQ(st.state, BERTH_CANCELLED);
}

static int wait_for_it(void *arg)
{
	struct berth_status st;

	(void)arg;
	OK(berth_wait(box(), "awaited", -1, &st, &E));
	return st.state == BERTH_EXITED && st.exit_code == 17 ? 0 : 1;
}

CASE(thirty_wait_for_the_same, RUNS)
{
	pid_t pids[30];

	start_ready("awaited", "block USR1 ready await USR1 exit 17");
	for (int i = 0; i < 30; i++)
		pids[i] = in_child(wait_for_it, NULL);
	OK(berth_signal(box(), "awaited", SIGUSR1, &E));
	for (int i = 0; i < 30; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
}

CASE(a_dying_watcher_disturbs_nobody, RUNS)
{
	struct berth_status st;

	start_ready("disturbed", "block USR1 ready await USR1 exit 3");
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			B = NULL;
			S = NULL;
			berth_wait(box(), "disturbed", -1, &st, &E);
			_exit(0);
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	status_of("disturbed", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	OK(berth_signal(box(), "disturbed", SIGUSR1, &E));
	finish("disturbed", &st);
	ASSERT_EXITED(&st, 3);
}

/* ── list ─────────────────────────────────────────────────────────────────────────────────── */

struct listed {
	char ids[64][BERTH_ID_MAX + 1];
	enum berth_state states[64];
	char first_arg[64][32];
	size_t n;
};
static int list_one(void *arg, const struct berth_record *r)
{
	struct listed *l = arg;

	if (strncmp(r->status.id, "listed-", 7) != 0)
		return 0;
	ASSERT_LT(l->n, 64u);
	ASSERT_GE(r->n_command, 2u);
	strcpy(l->ids[l->n], r->status.id);
	l->states[l->n] = r->status.state;
	snprintf(l->first_arg[l->n], sizeof(l->first_arg[0]), "%s", r->command[1]);
	l->n++;
	return 0;
}
static int list_stop(void *arg, const struct berth_record *r)
{
	(void)r;
	++*(int *)arg;
	return 7;
}

CASE(list_newest_first, RUNS)
{
	static struct listed l;
	struct berth_status st;
	int calls = 0;
	char id[32];

	for (int i = 0; i < 10; i++) {
		snprintf(id, sizeof(id), "listed-%d", i);
		if (i == 4)
			start_ready(id, "ready pause");
		else
			run(id, "exit 1", &st);
		/* Two of one millisecond have no order. */
		next_ms();
	}
	OK(berth_list(box(), list_one, &l, &E));
	ASSERT_EQ(l.n, 10u);
	for (int i = 0; i < 10; i++) {
		snprintf(id, sizeof(id), "listed-%d", 9 - i);
		ASSERT_STREQ(l.ids[i], id);
		ASSERT_EQ(l.states[i], i == 5 ? BERTH_RUNNING : BERTH_EXITED);
		ASSERT_STREQ(l.first_arg[i], "mark");
	}
	ASSERT_EQ(berth_list(box(), list_stop, &calls, &E), 7);
	ASSERT_EQ(calls, 1);
	end_it("listed-4");
}

/* ── remove and prune ─────────────────────────────────────────────────────────────────────── */

CASE(remove_what_has_ended_only, RUNS)
{
	static char buf[8];
	struct berth_read_result r;
	struct berth_status st;

	start_ready("removable", "ready pause");
	FAILS(BERTH_E_CONFLICT, berth_remove(box(), "removable", &E));
	ASSERT_CONTAINS(E.message, "removable");
	status_of("removable", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	end_it("removable");
	OK(berth_remove(box(), "removable", &E));
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "removable", &st, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_read(box(), "removable", BERTH_STDOUT, 0, buf, 8, &r, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_remove(box(), "removable", &E));
}

CASE(remove_of_what_a_worker_made_unremovable, RUNS)
{
	struct berth_status st;

	run("sticky", "mkdir d write d/f x chmod d 000 mkdir e chmod e 000 exit 0", &st);
	ASSERT_EXITED(&st, 0);
	OK(berth_remove(box(), "sticky", &E));
	run("sticky", "exit 0", &st);
}

static int remove_it(void *arg)
{
	(void)arg;
	return -berth_remove(box(), "contested", &E);
}

CASE(ten_remove_the_same, RUNS)
{
	struct berth_status st;
	unsigned removed = 0;
	pid_t pids[10];

	run("contested", "exit 0", &st);
	for (int i = 0; i < 10; i++)
		pids[i] = in_child(remove_it, NULL);
	for (int i = 0; i < 10; i++) {
		int e = exit_of(pids[i]);

		ASSERT(e == 0 || e == -BERTH_E_NOT_FOUND);
		removed += e == 0;
	}
	ASSERT_GE(removed, 1u);
	run("contested", "exit 0", &st);
}

static int count_records(void *arg, const struct berth_record *r)
{
	(void)r;
	++*(int *)arg;
	return 0;
}

CASE(prune_keeps_what_is_in_use, RUNS | BERTH_CAP_START)
{
	struct berth_prune_result p;
	struct berth_deploy_request q;
	struct berth_status st;
	const char *used = new_artifact("used"), *unused = new_artifact("unused");
	int n = 0;

	need_names();
	use_box("pruned");
	put_text(in(used, "data"), "used");
	put_text(in(unused, "data"), "not any more");
	request(&q, "old-1", "exit 0");
	q.dir = unused;
	q.install = "echo made > made";
	run_request(&q, &st);
	request(&q, "live", "block USR1 ready await USR1 read data read made exit 0");
	q.dir = used;
	q.install = "echo made > made";
	start_request(&q);
	await_ready("live");
	memset(&p, 0, sizeof(p));
	OK(berth_prune(box(), 3600 * 1000, &p, &E));
	ASSERT_EQ(p.records, 0u);
	status_of("old-1", &st);
	OK(berth_prune(box(), 0, &p, &E));
	ASSERT_EQ(p.records, 1u);
	ASSERT_GE(p.artifacts, 1u);
	ASSERT_GE(p.installs, 1u);
	ASSERT_GT(p.bytes, 0u);
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "old-1", &st, &E));
	OK(berth_signal(box(), "live", SIGUSR1, &E));
	finish("live", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("live", BERTH_STDOUT), "Rusedmade\n");
	/* What was pruned comes back when it is wanted. */
	request(&q, "old-2", "read data read made");
	q.dir = unused;
	q.install = "echo made > made";
	run_request(&q, &st);
	ASSERT_STREQ(text_out("old-2", BERTH_STDOUT), "not any moremade\n");
	OK(berth_prune(box(), 0, &p, &E));
	ASSERT_EQ(p.records, 2u);
	OK(berth_list(box(), count_records, &n, &E));
	ASSERT_EQ(n, 0);
	OK(berth_prune(box(), 0, &p, &E));
	ASSERT_EQ(p.records, 0u);
	ASSERT_EQ(p.artifacts, 0u);
}

struct prune_race {
	int go[2];
	int number;
};
static int prune_or_deploy(void *arg)
{
	struct prune_race *c = arg;
	struct berth_prune_result p;
	struct berth_status st;
	char id[32], byte;

	use_box("prune-race");
	close(c->go[1]);
	(void)!read(c->go[0], &byte, 1);
	for (int i = 0; i < 8; i++) {
		if (c->number == 0) {
			OK(berth_prune(box(), 3600 * 1000, &p, &E));
			continue;
		}
		snprintf(id, sizeof(id), "pr-%d-%d", c->number, i);
		run(id, "exit 0", &st);
		ASSERT_EXITED(&st, 0);
		OK(berth_remove(box(), id, &E));
	}
	return 0;
}

CASE(prune_beside_deploys, RUNS | BERTH_CAP_START)
{
	struct prune_race c = {.number = 0};
	pid_t pids[4];

	need_names();
	use_box("prune-race");
	OK(berth_sandbox_start(S, &E));
	ASSERT_OK(pipe(c.go));
	for (int i = 0; i < 4; i++) {
		c.number = i;
		pids[i] = in_child(prune_or_deploy, &c);
	}
	close(c.go[0]);
	close(c.go[1]);
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
}

CASE(two_hundred_records, RUNS)
{
	struct berth_status st;
	char id[32], what[32];
	int n = 0;

	for (int i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "lot-%d", i);
		snprintf(what, sizeof(what), "exit %d", i % 200);
		start(id, what);
	}
	for (int i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "lot-%d", i);
		finish(id, &st);
		ASSERT_EXITED(&st, i % 200);
	}
	OK(berth_list(box(), count_records, &n, &E));
	ASSERT_GE(n, 200);
}
