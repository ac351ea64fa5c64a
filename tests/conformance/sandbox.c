/* SPDX-License-Identifier: MIT */
/*
 * sandbox.c: a sandbox's life: who starts it, what stop and destroy do to what runs in it, and what
 * is said about one that is not there.
 */
#include "conf.h"

#define LIFE \
	(BERTH_CAP_EXECUTE | BERTH_CAP_START | BERTH_CAP_STOP | BERTH_CAP_DESTROY | BERTH_CAP_INFO)

/* The case's own sandbox becomes the one that run(), start() and so on use. */
static struct berth_sandbox *own(const char *name)
{
	need_names();
	use_box(name);
	return S;
}

/* A handle that starts nothing. */
static struct berth_sandbox *onlooker(const char *name)
{
	return box_named(name, 0);
}

CASE(specs, 0)
{
	static const char *const bad[] = {"nosuchprovider:x",
					  "local:",
					  "local:-x",
					  "local:a/b",
					  "local:x?nokey=1",
					  "local:x?isolation",
					  "local:x y",
					  ":x",
					  "local:x?isolation=sometimes",
					  "local:.x"};
	struct berth_sandbox *s = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		SUBTEST("\"%s\"", bad[i])
		{
			FAILS(BERTH_E_INVALID,
			      berth_sandbox_open(context(), bad[i], NULL, 0, &s, &E));
			ASSERT_NULL(s);
		}
	}
	FAILS(BERTH_E_INVALID, berth_sandbox_open(context(), "nosuchprovider:x", NULL, 0, &s, &E));
	ASSERT_CONTAINS(E.message, "local");
	FAILS(BERTH_E_INVALID, berth_sandbox_open(context(), "local:x?nokey=1", NULL, 0, &s, &E));
	ASSERT_CONTAINS(E.message, "isolation");
}

CASE(looking_creates_nothing, LIFE)
{
	struct berth_provider_info info;
	struct berth_sandbox *s;
	struct berth_status st;

	need_names();
	s = onlooker("never-made");
	FAILS(BERTH_E_NOT_FOUND, berth_sandbox_info(s, &info, &E));
	ASSERT_LT(berth_status(s, "x", &st, &E), 0);
	ASSERT_LT(berth_wait(s, "x", 100, &st, &E), 0);
	FAILS(BERTH_E_NOT_FOUND, berth_sandbox_info(s, &info, &E));
	berth_sandbox_close(s);
}

CASE(start_is_idempotent, LIFE)
{
	struct berth_provider_info a, b;
	struct berth_sandbox *s = own("started");

	OK(berth_sandbox_start(s, &E));
	OK(berth_sandbox_info(s, &a, &E));
	ASSERT_EQ(a.status, BERTH_SANDBOX_RUNNING);
	ASSERT(a.id[0] != '\0');
	ASSERT(a.containment[0] != '\0');
	ASSERT_GT(a.created_ms, 0);
	OK(berth_sandbox_start(s, &E));
	OK(berth_sandbox_info(s, &b, &E));
	ASSERT_STREQ(a.id, b.id);
	ASSERT_EQ(a.created_ms, b.created_ms);
}

static int list_named(void *arg, const char *spec)
{
	if (strcmp(spec, berth_sandbox_name(S)) == 0)
		++*(int *)arg;
	return 0;
}

/* Whether the driver keeps a list of its sandboxes is no capability of a sandbox. */
static void need_list(void)
{
	const struct berth_provider_ops *p;
	size_t n = strcspn(conf.template, ":");

	for (size_t i = 0; (p = berth_provider_at(context(), i)); i++) {
		if (strlen(p->name) == n && strncmp(p->name, conf.template, n) == 0 && !p->list)
			SKIP("%s has no list", p->name);
	}
}

CASE(listed_while_it_is_there, LIFE)
{
	struct berth_destroy_result r;
	int n = 0;

	need_list();

	own("listed");
	OK(berth_sandbox_list(context(), list_named, &n, &E));
	ASSERT_EQ(n, 0);
	OK(berth_sandbox_start(S, &E));
	OK(berth_sandbox_list(context(), list_named, &n, &E));
	ASSERT_EQ(n, 1);
	OK(berth_sandbox_destroy(S, 0, -1, &r, &E));
	n = 0;
	OK(berth_sandbox_list(context(), list_named, &n, &E));
	ASSERT_EQ(n, 0);
}

CASE(stop_seals_everything, LIFE)
{
	struct berth_provider_info info;
	struct berth_sandbox *s = own("stopped");
	struct berth_status st;
	char id[32];

	for (int i = 0; i < 8; i++) {
		snprintf(id, sizeof(id), "stop-%d", i);
		start(id, i % 2 ? "spawn daemon { up pause } out some ready pause"
				: "block TERM ready await TERM out bye exit 4");
		await_bytes_in(box(), id, BERTH_STDOUT, i % 2 ? 5 : 1);
	}
	run("before", "out kept exit 3", &st);
	OK(berth_sandbox_stop(s, &E));
	for (int i = 0; i < 8; i++) {
		snprintf(id, sizeof(id), "stop-%d", i);
		assert_gone(id);
	}
	OK(berth_sandbox_info(s, &info, &E));
	ASSERT_EQ(info.status, BERTH_SANDBOX_STOPPED);
	OK(berth_sandbox_stop(s, &E));
	/* Once it runs again, the records tell what happened. */
	OK(berth_sandbox_start(s, &E));
	for (int i = 0; i < 8; i++) {
		snprintf(id, sizeof(id), "stop-%d", i);
		status_of(id, &st);
		ASSERT_ENDED(&st, BERTH_CANCELLED, i % 2 ? -1 : 4, i % 2 ? SIGTERM : 0);
		ASSERT_CONTAINS(st.message, "sandbox stopped");
		ASSERT(st.has_hashes);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), i % 2 ? "someR" : "Rbye");
	}
	status_of("before", &st);
	ASSERT_EXITED(&st, 3);
	ASSERT_STREQ(text_out("before", BERTH_STDOUT), "kept");
}

static int take_nothing(void *arg, enum berth_output stream, const void *p, size_t n)
{
	(void)arg;
	(void)stream;
	(void)p;
	return n ? 1 : 0;
}

CASE(a_stopped_one_is_not_woken_by_questions, LIFE)
{
	static char buf[16];
	struct berth_provider_info info;
	struct berth_read_result r;
	struct berth_follow f;
	struct berth_sandbox *s;
	struct berth_status st;

	own("asleep");
	run("done", "out text exit 3", &st);
	OK(berth_sandbox_stop(S, &E));
	s = onlooker("asleep");
	OK(berth_status(s, "done", &st, &E));
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_STREQ(st.provider_state, "stopped");
	/* An error or the state itself: never a state that it has not. */
	if (berth_wait(s, "done", 1000, &st, &E) == 0)
		ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	else
		ASSERT_EQ(E.code, BERTH_E_UNAVAILABLE);
	if (berth_cancel(s, "done", 0, &st, &E) == 0)
		ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	else
		ASSERT_EQ(E.code, BERTH_E_UNAVAILABLE);
	if (berth_sandbox_capabilities(s) & BERTH_CAP_DIRECT) {
		OK(berth_read(s, "done", BERTH_STDOUT, 0, buf, sizeof(buf), &r, &E));
		ASSERT_MEMEQ(buf, r.n, "text", 4);
		ASSERT(r.interrupted);
		ASSERT(!r.eof);
		berth_follow_init(&f);
		f.data = take_nothing;
		f.offset[BERTH_STDOUT] = 4;
		OK(berth_follow(s, "done", &f, &st, &E));
		ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
		/* One who was there while it ran is told the end. */
		f.resumed = true;
		OK(berth_follow(s, "done", &f, &st, &E));
		ASSERT_EXITED(&st, 3);
	}
	OK(berth_sandbox_info(s, &info, &E));
	ASSERT_EQ(info.status, BERTH_SANDBOX_STOPPED);
	berth_sandbox_close(s);
	/* Only one that may wake it does. */
	s = box_named("asleep", BERTH_OPEN_WAKE);
	OK(berth_status(s, "done", &st, &E));
	ASSERT_EXITED(&st, 3);
	berth_sandbox_close(s);
}

CASE(waking_never_creates, LIFE)
{
	struct berth_provider_info info;
	struct berth_sandbox *s;
	struct berth_status st;

	need_names();
	s = box_named("never-woken", BERTH_OPEN_WAKE);
	(void)berth_status(s, "x", &st, &E);
	FAILS(BERTH_E_NOT_FOUND, berth_sandbox_info(s, &info, &E));
	berth_sandbox_close(s);
}

CASE(files_and_records_survive_a_stop, LIFE)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	own("persistent");
	request(&q, "kept", "append ~/kept-file x exit 6");
	run_request(&q, &st);
	OK(berth_sandbox_stop(S, &E));
	/* deploy resumes it; the id is still taken. */
	deploy(&q, &r);
	ASSERT(r.existed);
	ASSERT_EXITED(&r.status, 6);
	ASSERT_EQ(home_size("kept-file"), 1u);
	run("kept-2", "append ~/kept-file x read ~/kept-file exit 6", &st);
	ASSERT_STREQ(text_out("kept-2", BERTH_STDOUT), "xx");
}

CASE(stop_kills_what_will_not_go, LIFE)
{
	struct berth_deploy_request q;
	struct berth_status st;
	int64_t t;

	own("stubborn");
	request(&q, "deaf", "ignore TERM spawn daemon { ignore TERM up pause } ready pause");
	q.grace_ms = 300;
	start_request(&q);
	await_ready("deaf");
	t = now_ms();
	OK(berth_sandbox_stop(S, &E));
	ASSERT_LE(now_ms() - t, 8000);
	assert_gone("deaf");
	OK(berth_sandbox_start(S, &E));
	status_of("deaf", &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
}

static int wait_in_sandbox(void *arg)
{
	struct berth_status st;
	int rc;

	S = onlooker("watched");
	rc = berth_wait(S, arg, 30000, &st, &E);
	if (rc == 0)
		return st.state == BERTH_CANCELLED || st.state == BERTH_PROVIDER_UNAVAILABLE ? 0
											     : 1;
	return rc == BERTH_E_UNAVAILABLE ? 0 : 2;
}

CASE(watchers_learn_of_a_stop, LIFE)
{
	pid_t pid;

	own("watched");
	start_ready("w", "ready pause");
	pid = in_child(wait_in_sandbox, (void *)(uintptr_t) "w");
	OK(berth_sandbox_stop(S, &E));
	ASSERT_EQ(exit_of(pid), 0);
}

CASE(destroy_leaves_nothing, LIFE)
{
	struct berth_destroy_result r;
	struct berth_provider_info info;
	struct berth_sandbox *s = own("doomed");
	struct berth_status st;
	char marker[64];

	start_ready("doomed-1", "spawn daemon { ignore TERM up pause } ready pause");
	start_ready("doomed-2", "ignore TERM ready chatter 1");
	run("doomed-3", "mkdir d write d/f x chmod d 000", &st);
	memset(&r, 0, sizeof(r));
	OK(berth_sandbox_destroy(s, 0, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	ASSERT_EQ(r.attempts, 1);
	assert_gone("doomed-1");
	assert_gone("doomed-2");
	FAILS(BERTH_E_NOT_FOUND, berth_sandbox_info(s, &info, &E));
	/* Again: it is gone, which is what was asked for. */
	OK(berth_sandbox_destroy(s, 0, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	snprintf(marker, sizeof(marker), "/doomed/");
	if (strncmp(conf.template, "local:", 6) == 0)
		ASSERT_EQ(processes_with(marker, NULL), 0u);
}

CASE(a_name_can_be_used_again, LIFE)
{
	struct berth_destroy_result r;
	struct berth_provider_info a, b;
	struct berth_status st;

	own("phoenix");
	run("same-id", "append ~/f x exit 1", &st);
	OK(berth_sandbox_info(S, &a, &E));
	OK(berth_sandbox_destroy(S, 0, -1, &r, &E));
	run("same-id", "append ~/f y read ~/f exit 2", &st);
	ASSERT_EXITED(&st, 2);
	ASSERT_STREQ(text_out("same-id", BERTH_STDOUT), "y");
	OK(berth_sandbox_info(S, &b, &E));
	ASSERT_STRNE(a.id, b.id);
}

CASE(creation_keys_cannot_change, LIFE)
{
	struct berth_sandbox *s = NULL;
	struct berth_status st;

	need_names();
	if (strncmp(conf.template, "local:", 6) != 0)
		SKIP("keys are the driver's");
	own("keyed");
	run("k", "exit 0", &st);
	OK(berth_sandbox_open(context(), berth_sandbox_name(S), NULL, BERTH_OPEN_START, &s, &E));
	OK(berth_sandbox_start(s, &E));
	OK(berth_status(s, "k", &st, &E));
	ASSERT_EXITED(&st, 0);
	berth_sandbox_close(s);
}

CASE(a_remote_dir_of_its_own, LIFE)
{
	struct berth_sandbox *s = NULL;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	own("two-dirs");
	run("in-default", "exit 1", &st);
	OK(berth_sandbox_open(context(), spec_for("two-dirs"), "other/dir", BERTH_OPEN_START, &s,
			      &E));
	request(&q, "in-other", "exit 2");
	if (strcmp(walls().isolation, "bwrap") == 0) {
		/* What is outside has one place, and no other can be asked for. */
		FAILS(BERTH_E_INVALID, berth_deploy(s, &q, &r, &E));
		ASSERT_CONTAINS(E.message, "--remote-dir");
		ASSERT_EQ(home_size("other"), 0u);
		status_of("in-default", &st);
		ASSERT_EXITED(&st, 1);
		berth_sandbox_close(s);
		return;
	}
	OK(berth_deploy(s, &q, &r, &E));
	OK(berth_wait(s, "in-other", 10000, &st, &E));
	ASSERT_EXITED(&st, 2);
	FAILS(BERTH_E_NOT_FOUND, berth_status(s, "in-default", &st, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "in-other", &st, &E));
	start_ready("long-1", "ready pause");
	request(&q, "long-2", "pause");
	OK(berth_deploy(s, &q, &r, &E));
	/* stop is the sandbox's: it reaches both directories. */
	OK(berth_sandbox_stop(S, &E));
	assert_gone("long-1");
	assert_gone("long-2");
	berth_sandbox_close(s);
}

/* What info says of records is so: a worker of the sandbox looks for them. */
CASE(records_are_as_info_says, LIFE)
{
	struct berth_status st;

	if (strncmp(conf.template, "local:", 6) != 0)
		SKIP("where records are is the driver's");
	own("looked-at");
	run("looker", "ls ~/berth", &st);
	if (walls().records_protected) {
		ASSERT_EXITED(&st, 98); /* the worker's word for an operation that failed */
		/* Where they are mounted for init, a worker sees an empty folder, or none. */
		run("looker-2", "ls /run/berth", &st);
		ASSERT_EQ(st.stdout_bytes, 0u);
	} else if (strcmp(walls().isolation, "none") == 0) {
		ASSERT_EXITED(&st, 0);
		ASSERT_GT(st.stdout_bytes, 0u);
	}
	/* The record is there for the library all the same. */
	status_of("looker", &st);
	ASSERT(st.is_final);
}

static int hammer(void *arg)
{
	struct berth_destroy_result r;
	struct berth_deploy_request q;
	struct berth_deploy_result d;
	int n = *(int *)arg;
	char id[32];

	use_box("hammered");
	for (int i = 0; i < 6; i++) {
		snprintf(id, sizeof(id), "h-%d-%d", n, i);
		request(&q, id, "exit 0");
		if (n == 0)
			(void)berth_sandbox_stop(S, &E);
		else if (n == 1)
			(void)berth_sandbox_destroy(S, 3, 5, &r, &E);
		else
			(void)berth_deploy(S, &q, &d, &E);
	}
	return 0;
}

CASE(start_stop_and_destroy_at_once, LIFE)
{
	struct berth_destroy_result r;
	struct berth_status st;
	pid_t pids[5];

	/* Answers may be failures here; afterwards everything must be whole. */
	own("hammered");
	for (int i = 0; i < 5; i++)
		pids[i] = in_child(hammer, &i);
	for (int i = 0; i < 5; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
	run("after-all", "exit 5", &st);
	ASSERT_EXITED(&st, 5);
	OK(berth_sandbox_destroy(S, 0, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	ASSERT_EQ(processes_with("h-", NULL) ? processes_with(conf.nonce, NULL) : 0, 0u);
}
