/* SPDX-License-Identifier: MIT */
/*
 * views.c: every execution has a copy of the artifact for itself, whatever it does to it.
 */
#include "conf.h"

static const char *artifact(void)
{
	const char *dir = new_artifact("art");

	put_text(in(dir, "data"), "original");
	put_text(in(dir, "victim"), "here");
	ASSERT_OK(mkdir(in(dir, "sub"), 0755));
	put_text(in(dir, "sub/x"), "inside");
	return dir;
}

static void from(const char *dir, const char *id, const char *what, struct berth_status *st)
{
	struct berth_deploy_request q;

	request(&q, id, what);
	q.dir = dir;
	run_request(&q, st);
	ASSERT_EXITED(st, 0);
}

CASE(what_a_worker_does_stays_with_it, RUNS)
{
	static const char *const deeds[] = {
		"poke data XX",     "append data more",
		"write data new",   "unlink victim",
		"chmod data 000",   "write new-file x",
		"mkdir new-dir",    "unlink sub/x write sub/y z",
		"chmod worker 600", "unlink worker write worker gone",
	};
	const char *dir = artifact();
	struct berth_status st;
	char id[32], before[4096];

	from(dir, "pristine", "tree . read data read victim read sub/x", &st);
	snprintf(before, sizeof(before), "%s", text_out("pristine", BERTH_STDOUT));
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) {
		snprintf(id, sizeof(id), "deed-%zu", i);
		SUBTEST("%s", deeds[i])
		{
			from(dir, id, deeds[i], &st);
			snprintf(id, sizeof(id), "after-%zu", i);
			from(dir, id, "tree . read data read victim read sub/x", &st);
			ASSERT_STREQ(text_out(id, BERTH_STDOUT), before);
		}
	}
	ASSERT_STREQ(text_of(in(dir, "data")), "original");
}

CASE(two_at_once_do_not_meet, RUNS)
{
	const char *dir = artifact();
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "meet-1", "write data one block USR1 ready await USR1 read data stat theirs");
	q.dir = dir;
	start_request(&q);
	await_ready("meet-1");
	from(dir, "meet-2", "read data write data two write theirs x", &st);
	ASSERT_STREQ(text_out("meet-2", BERTH_STDOUT), "original");
	OK(berth_signal(box(), "meet-1", SIGUSR1, &E));
	finish("meet-1", &st);
	ASSERT_STREQ(text_out("meet-1", BERTH_STDOUT), "RoneNo such file or directory\n");
}

CASE(a_running_worker_does_not_see_later_deploys, RUNS)
{
	const char *dir = artifact();
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "early", "block USR1 ready await USR1 read data read victim stat later");
	q.dir = dir;
	start_request(&q);
	await_ready("early");
	put_text(in(dir, "data"), "changed by the caller");
	put_text(in(dir, "later"), "x");
	ASSERT_OK(unlink(in(dir, "victim")));
	from(dir, "later", "read data", &st);
	ASSERT_STREQ(text_out("later", BERTH_STDOUT), "changed by the caller");
	OK(berth_signal(box(), "early", SIGUSR1, &E));
	finish("early", &st);
	ASSERT_STREQ(text_out("early", BERTH_STDOUT), "RoriginalhereNo such file or directory\n");
}

CASE(views_can_be_read_while_and_after, RUNS)
{
	const char *dir = artifact();
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "readable",
		"write made while poke data OO ready block USR1 await USR1 write made after");
	q.dir = dir;
	start_request(&q);
	await_ready("readable");
	OK(berth_copy_out(box(), "readable", "made", "m1", &E));
	ASSERT_STREQ(text_of("m1"), "while");
	OK(berth_copy_out(box(), "readable", "data", "d1", &E));
	ASSERT_STREQ(text_of("d1"), "OOiginal");
	OK(berth_copy_out(box(), "readable", "sub/x", "x1", &E));
	ASSERT_STREQ(text_of("x1"), "inside");
	OK(berth_signal(box(), "readable", SIGUSR1, &E));
	finish("readable", &st);
	OK(berth_copy_out(box(), "readable", "made", "m2", &E));
	ASSERT_STREQ(text_of("m2"), "after");
	OK(berth_copy_out(box(), "readable", "victim", "v2", &E));
	ASSERT_STREQ(text_of("v2"), "here");
	OK(berth_copy_out(box(), "readable", ".", "all", &E));
	ASSERT_STREQ(text_of("all/made"), "after");
	ASSERT_STREQ(text_of("all/sub/x"), "inside");
	OK(berth_remove(box(), "readable", &E));
	FAILS(BERTH_E_NOT_FOUND, berth_copy_out(box(), "readable", "made", "m3", &E));
}

CASE(removed_files_are_gone_from_the_outside_too, RUNS)
{
	const char *dir = artifact();
	struct berth_status st;

	from(dir, "whiteout", "unlink victim unlink sub/x", &st);
	FAILS(BERTH_E_NOT_FOUND, berth_copy_out(box(), "whiteout", "victim", "v", &E));
	OK(berth_copy_out(box(), "whiteout", ".", "all", &E));
	ASSERT_EQ(access("all/victim", F_OK), -1);
	ASSERT_EQ(access("all/sub/x", F_OK), -1);
	ASSERT_STREQ(text_of("all/data"), "original");
}

CASE(files_can_be_put_into_a_view, RUNS)
{
	const char *dir = artifact();
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "writable", "block USR1 ready await USR1 read sub/put");
	q.dir = dir;
	start_request(&q);
	await_ready("writable");
	put_text("local", "put in");
	OK(berth_copy_in(box(), "local", "writable", "sub/put", &E));
	OK(berth_signal(box(), "writable", SIGUSR1, &E));
	finish("writable", &st);
	ASSERT_STREQ(text_out("writable", BERTH_STDOUT), "Rput in");
	/* Another execution of the same artifact knows nothing of it. */
	from(dir, "writable-2", "stat sub/put", &st);
	ASSERT_STREQ(text_out("writable-2", BERTH_STDOUT), "No such file or directory\n");
}

CASE(paths_stay_inside_the_view, RUNS)
{
	const char *dir = artifact();
	struct berth_status st;

	ASSERT_OK(symlink("/etc", in(dir, "abs")));
	ASSERT_OK(symlink("../../../..", in(dir, "up")));
	put_text("local", "evil");
	from(dir, "inside", "exit 0", &st);
	ASSERT_LT(berth_copy_out(box(), "inside", "../journal", "o", &E), 0);
	ASSERT_LT(berth_copy_out(box(), "inside", "../../../init.lock", "o", &E), 0);
	ASSERT_LT(berth_copy_out(box(), "inside", "abs/hostname", "o", &E), 0);
	ASSERT_LT(berth_copy_out(box(), "inside", "up/etc/hostname", "o", &E), 0);
	ASSERT_LT(berth_copy_out(box(), "inside", "/etc/hostname", "o", &E), 0);
	ASSERT_LT(berth_copy_in(box(), "local", "inside", "../evil", &E), 0);
	ASSERT_LT(berth_copy_in(box(), "local", "inside", "abs/berth-test-evil", &E), 0);
	ASSERT_EQ(access("/etc/berth-test-evil", F_OK), -1);
	ASSERT_EQ(access("o", F_OK), -1);
}

CASE(many_views_of_one_artifact, RUNS)
{
	const char *dir = artifact();
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32], what[64];

	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "v-%d", i);
		snprintf(what, sizeof(what), "write data own-%d read data", i);
		request(&q, id, what);
		q.dir = dir;
		start_request(&q);
	}
	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "v-%d", i);
		snprintf(what, sizeof(what), "own-%d", i);
		finish(id, &st);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), what);
	}
}

CASE(the_working_directory_is_the_view, RUNS)
{
	const char *dir = artifact();
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;
	size_t pos = 0, n;
	const char *v;

	request(&q, "cwd", "cwd");
	q.dir = dir;
	run_request(&q, &st);
	b = output_of("cwd", BERTH_STDOUT);
	ASSERT(next_value(&b, &pos, &v, &n));
	ASSERT_GT(n, 1u);
	ASSERT_EQ(v[0], '/');
	free(b.p);
}
