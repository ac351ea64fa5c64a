/* SPDX-License-Identifier: MIT */
/*
 * install.c: dependencies are installed once, in the sandbox, and cached only when that worked.
 *
 * The commands are shell lines, which count themselves in the sandbox's home: what is asked is how
 * often they ran. npm itself is tested with the command line.
 */
#include "conf.h"

/* An artifact of its own, so that no other case shares the cache. */
static const char *artifact(const char *name)
{
	const char *dir = new_artifact(name);

	put_text(in(dir, "name"), name);
	return dir;
}

static void installing(struct berth_deploy_request *q, const char *id, const char *what,
		       const char *dir, const char *install)
{
	request(q, id, what);
	q->dir = dir;
	q->install = install;
}

CASE(once_and_then_cached, RUNS)
{
	const char *dir = artifact("cached"),
		   *cmd = "printf x >> ~/i-cached; mkdir d; printf made > d/f";
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32];

	for (int i = 0; i < 3; i++) {
		snprintf(id, sizeof(id), "cached-%d", i);
		installing(&q, id, "read d/f read name append d/f changed exit 4", dir, cmd);
		run_request(&q, &st);
		ASSERT_EXITED(&st, 4);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), "madecached");
		OK(berth_remove(box(), id, &E));
	}
	ASSERT_EQ(home_size("i-cached"), 1u);
}

CASE(another_command_or_artifact_installs_anew, RUNS)
{
	const char *dir = artifact("anew");
	struct berth_deploy_request q;
	struct berth_status st;

	installing(&q, "anew-1", "exit 0", dir, "printf x >> ~/i-anew");
	run_request(&q, &st);
	installing(&q, "anew-2", "exit 0", dir, "printf x >> ~/i-anew; :");
	run_request(&q, &st);
	ASSERT_EQ(home_size("i-anew"), 2u);
	put_text(in(dir, "name"), "changed");
	installing(&q, "anew-3", "exit 0", dir, "printf x >> ~/i-anew");
	run_request(&q, &st);
	ASSERT_EQ(home_size("i-anew"), 3u);
}

CASE(none_when_there_is_none, RUNS)
{
	const char *dir = artifact("none");
	struct berth_deploy_request q;
	struct berth_status st;

	installing(&q, "none-1", "stat node_modules exit 0", dir, NULL);
	run_request(&q, &st);
	ASSERT_STREQ(text_out("none-1", BERTH_STDOUT), "No such file or directory\n");
	put_text(in(dir, "package.json"), "{\"dependencies\":{\"no-such-package-x\":\"1.0.0\"}}");
	installing(&q, "none-2", "exit 0", dir, "");
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
}

CASE(what_it_changed_and_removed, RUNS)
{
	const char *dir = artifact("changes");
	struct berth_deploy_request q;
	struct berth_status st;

	put_text(in(dir, "gone"), "x");
	put_text(in(dir, "edited"), "before");
	ASSERT_OK(mkdir(in(dir, "dir"), 0755));
	put_text(in(dir, "dir/old"), "x");
	for (int i = 0; i < 2; i++) {
		const char *id = i ? "changes-2" : "changes-1";

		installing(&q, id, "tree .", dir,
			   "rm gone; printf after > edited; rm -r dir; mkdir dir; printf new > "
			   "dir/new; "
			   "ln -s dir/new link; mkdir empty; printf '#!/bin/sh\n' > tool; chmod +x "
			   "tool");
		run_request(&q, &st);
		ASSERT_EXITED(&st, 0);
		ASSERT_CONTAINS(text_out(id, BERTH_STDOUT), "f- 5 ./edited\n");
		ASSERT_CONTAINS(text_out(id, BERTH_STDOUT), "f- 3 ./dir/new\n");
		ASSERT_CONTAINS(text_out(id, BERTH_STDOUT), "l- 0 ./link -> dir/new\n");
		ASSERT_CONTAINS(text_out(id, BERTH_STDOUT), "d- 0 ./empty\n");
		ASSERT_CONTAINS(text_out(id, BERTH_STDOUT), "fx 10 ./tool\n");
		ASSERT_LACKS(text_out(id, BERTH_STDOUT), "gone");
		ASSERT_LACKS(text_out(id, BERTH_STDOUT), "old");
	}
}

static void fails_to_install(struct berth_deploy_request *q, const char *text)
{
	struct berth_deploy_result r;
	struct berth_status st;

	deploy(q, &r);
	ASSERT_ENDED(&r.status, BERTH_FAILED, -1, 0);
	ASSERT_STREQ(r.status.phase, "install");
	ASSERT_CONTAINS(r.status.message, text);
	ASSERT_NULL(strchr(r.status.message, '\n'));
	/* No record: the id is free. */
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), q->id, &st, &E));
}

CASE(a_failed_one_fails_the_deploy_and_is_not_cached, RUNS)
{
	const char *dir = artifact("failing");
	struct berth_deploy_request q;
	struct berth_status st;
	const char *cmd =
		"printf x >> ~/i-failing; printf half > half; echo the reason is here >&2; "
		"test $(wc -c < ~/i-failing) -ge 3";

	installing(&q, "failing", "stat half exit 2", dir, cmd);
	fails_to_install(&q, "the reason is here");
	fails_to_install(&q, "the reason is here");
	ASSERT_EQ(home_size("i-failing"), 2u);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 2);
	installing(&q, "failing-2", "exit 2", dir, cmd);
	run_request(&q, &st);
	ASSERT_EQ(home_size("i-failing"), 3u);
}

CASE(failures_by_cause, RUNS)
{
	struct berth_deploy_request q;

	installing(&q, "f-code", "exit 0", artifact("f-code"), "echo text; exit 7");
	fails_to_install(&q, "7");
	installing(&q, "f-none", "exit 0", artifact("f-none"), "no-such-installer-at-all");
	fails_to_install(&q, "no-such-installer-at-all");
	installing(&q, "f-sig", "exit 0", artifact("f-sig"), "kill -SEGV $$");
	fails_to_install(&q, "signal");
	installing(&q, "f-long", "exit 0", artifact("f-long"),
		   "i=0; while [ $i -lt 20000 ]; do echo noise $i; i=$((i+1)); done; "
		   "echo last words; exit 1");
	fails_to_install(&q, "last words");
}

CASE(a_deadline_for_installs, RUNS)
{
	struct berth_deploy_request q;
	int64_t t = now_ms();
	char cmd[300];

	/* The marker is in the line, so that what it left is found. */
	snprintf(cmd, sizeof(cmd), ": %s; setsid sleep 1000 & sleep 1000", mark_of("install-late"));
	installing(&q, "install-late", "exit 0", artifact("late"), cmd);
	q.install_timeout_ms = 400;
	fails_to_install(&q, "tim");
	t = now_ms() - t;
	ASSERT_GE(t, 390);
	ASSERT_LE(t, 8000);
	assert_gone("install-late");
}

static const char *shared_dir;

static int deploy_with_install(void *arg)
{
	struct berth_deploy_request q;
	struct berth_status st;
	const char *id = arg;

	installing(&q, id, "read made exit 6", shared_dir,
		   "printf x >> ~/i-shared; sleep 0.3; printf made > made");
	run_request(&q, &st);
	return st.exit_code == 6 && strcmp(text_out(id, BERTH_STDOUT), "made") == 0 ? 0 : 1;
}

CASE(five_at_once_install_once, RUNS)
{
	static char ids[5][32];
	struct berth_status st;
	pid_t pids[5];

	run("before-five", "exit 0", &st);
	shared_dir = artifact("five");
	for (int i = 0; i < 5; i++) {
		snprintf(ids[i], sizeof(ids[i]), "five-%d", i);
		pids[i] = in_child(deploy_with_install, ids[i]);
	}
	for (int i = 0; i < 5; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
	ASSERT_EQ(home_size("i-shared"), 1u);
}

static int progress_pipe;
static void tell_install(void *arg, const struct berth_progress *p)
{
	(void)arg;
	if (strcmp(p->phase, "install") == 0 && p->text)
		(void)!write(progress_pipe, p->text, p->text_len);
}

static const char *watched_id;
static int deploy_and_be_watched(void *arg)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;

	installing(&q, watched_id, "read made exit 3", shared_dir, arg);
	q.progress = tell_install;
	deploy(&q, &r);
	return 0;
}

/* Where requests are commands the output of an install comes with its end, and the command that a
 * killed caller has left behind goes on. */
static void need_stream(void)
{
	if (!(berth_sandbox_capabilities(S) & BERTH_CAP_STREAM))
		SKIP("no streams to this sandbox");
}

CASE(killed_half_way, RUNS)
{
	static char cmd[400];
	struct berth_deploy_request q;
	struct berth_status st;
	pid_t pid;
	char byte;
	int fds[2];

	need_stream();
	shared_dir = artifact("half");
	/* The first run hangs, later ones do not. */
	snprintf(cmd, sizeof(cmd),
		 ": %s; printf x >> ~/i-half; printf half > made; "
		 "if [ $(wc -c < ~/i-half) -eq 1 ]; then echo hanging; sleep 1000; fi; printf "
		 "whole > made",
		 mark_of("install-half"));
	ASSERT_OK(pipe(fds));
	progress_pipe = fds[1];
	watched_id = "cut";
	pid = in_child(deploy_and_be_watched, cmd);
	close(fds[1]);
	ASSERT_EQ(read(fds[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	ASSERT_EQ(exit_of(pid), 1000 + SIGKILL);
	/* Its lock is the kernel's: nobody waits for the dead. */
	installing(&q, "cut", "read made exit 3", shared_dir, cmd);
	q.install_timeout_ms = 20000;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 3);
	ASSERT_STREQ(text_out("cut", BERTH_STDOUT), "whole");
	ASSERT_EQ(home_size("i-half"), 2u);
	assert_gone("install-half");
}

CASE(waiting_for_another_one_counts, RUNS)
{
	static char cmd[300];
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	pid_t pid;
	char byte;
	int64_t t;
	int fds[2];

	need_stream();
	shared_dir = artifact("queue");
	snprintf(cmd, sizeof(cmd), ": %s; echo begun; sleep 1000", mark_of("install-queue"));
	ASSERT_OK(pipe(fds));
	progress_pipe = fds[1];
	watched_id = "queue-1";
	pid = in_child(deploy_and_be_watched, cmd);
	close(fds[1]);
	ASSERT_EQ(read(fds[0], &byte, 1), 1);
	installing(&q, "queue-2", "exit 0", shared_dir, cmd);
	q.install_timeout_ms = 300;
	t = now_ms();
	deploy(&q, &r);
	ASSERT_EQ(r.status.state, BERTH_FAILED);
	ASSERT_STREQ(r.status.phase, "install");
	ASSERT_LE(now_ms() - t, 5000);
	kill(pid, SIGKILL);
	exit_of(pid);
}

CASE(its_output_is_told_as_it_comes, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	char buf[256];
	ssize_t n;
	int fds[2];

	ASSERT_OK(pipe(fds));
	progress_pipe = fds[1];
	installing(&q, "told", "exit 0", artifact("told"),
		   "printf on-stdout; printf on-stderr >&2");
	q.progress = tell_install;
	run_request(&q, &st);
	n = read(fds[0], buf, sizeof(buf) - 1);
	ASSERT_GT(n, 0);
	buf[n] = '\0';
	ASSERT_CONTAINS(buf, "on-stdout");
	ASSERT_CONTAINS(buf, "on-stderr");
}

CASE(what_an_install_leaves_running_is_ended, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	char cmd[300];

	snprintf(cmd, sizeof(cmd),
		 "setsid sh -c ': %s; sleep 1000' & :", mark_of("install-daemon"));
	installing(&q, "daemonic", "exit 0", artifact("daemonic"), cmd);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	assert_gone("install-daemon");
}

CASE(the_working_copy_is_not_the_cache, RUNS)
{
	const char *dir = artifact("poison"), *cmd = "printf clean > dep";
	struct berth_deploy_request q;
	struct berth_status st;

	installing(&q, "poison-1", "poke dep DIRTY unlink name exit 0", dir, cmd);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	installing(&q, "poison-2", "read dep read name exit 0", dir, cmd);
	run_request(&q, &st);
	ASSERT_STREQ(text_out("poison-2", BERTH_STDOUT), "cleanpoison");
}

CASE(own_node_modules_give_way_to_an_install, RUNS)
{
	const char *dir = artifact("modules");
	struct berth_deploy_request q;
	struct berth_status st;

	ASSERT_OK(mkdir(in(dir, "node_modules"), 0755));
	put_text(in(dir, "node_modules/from-caller"), "x");
	ASSERT_OK(mkdir(in(dir, "sub"), 0755));
	ASSERT_OK(mkdir(in(dir, "sub/node_modules"), 0755));
	put_text(in(dir, "sub/node_modules/kept"), "x");
	installing(&q, "modules-1", "tree .", dir, "");
	run_request(&q, &st);
	ASSERT_CONTAINS(text_out("modules-1", BERTH_STDOUT), "./node_modules/from-caller");
	installing(&q, "modules-2", "tree .", dir,
		   "mkdir node_modules; printf x > node_modules/made");
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_LACKS(text_out("modules-2", BERTH_STDOUT), "from-caller");
	ASSERT_CONTAINS(text_out("modules-2", BERTH_STDOUT), "./node_modules/made");
	ASSERT_CONTAINS(text_out("modules-2", BERTH_STDOUT), "./sub/node_modules/kept");
}
