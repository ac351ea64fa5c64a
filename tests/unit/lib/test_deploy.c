/* SPDX-License-Identifier: MIT */
/* berth_deploy() and berth_relaunch() over a real agent: what travels, what is launched once, what
 * a failure leaves behind. */
#include "deploytest.h"

#include "base/alloc.h"
#include "core/upload.h"

static struct berth_deploy_result R;

static void deploy(const struct berth_deploy_request *q)
{
	OK(berth_deploy(S, q, &R, &E));
}

TEST(runs_and_says_so)
{
	struct berth_deploy_request q = request("one", "cat data; echo \"$A\" >&2; exit 7");

	sandbox();
	make_art();
	q.env = (const char *[]){"A=b c", NULL};
	q.mode = "job";
	deploy(&q);
	ASSERT(!R.existed);
	ASSERT(R.sandbox_id[0]);
	ASSERT_STREQ(R.status.id, "one");
	ASSERT_STREQ(R.status.mode, "job");
	ASSERT_EQ(strlen(R.status.artifact), 64);
	wait_exit("one", 7);
	ASSERT_STREQ(output("one", BERTH_STDOUT), "the data\n");
	ASSERT_STREQ(output("one", BERTH_STDERR), "b c\n");
}

/* ── the same id ─────────────────────────────────────────────────────────────────────────────── */

static void conflict(const struct berth_deploy_request *q, const char *what)
{
	SUBTEST("%s", what)
	{
		FAILS(BERTH_E_CONFLICT, berth_deploy(S, q, &R, &E));
		ASSERT_CONTAINS(E.message, "\"one\"");
		ASSERT_CONTAINS(E.message, what);
		ASSERT_LACKS(E.message, "secret");
	}
}

TEST(same_id)
{
	char script[PATH_MAX + 64], cwd[PATH_MAX];
	struct berth_deploy_request first, q;

	sandbox();
	make_art();
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(script, sizeof(script), "echo ran >>%s/runs; cat", cwd);
	first = request("one", script);
	first.env = (const char *[]){"A=secret", "B=2", NULL};
	first.input_kind = BERTH_INPUT_STDIN;
	first.input = "in";
	first.input_len = 2;
	deploy(&first);
	wait_exit("one", 0);
	/* the same, said differently */
	q = first;
	q.env = (const char *[]){"B=1", "B=2", "A=secret", NULL};
	q.workdir = "./x/..";
	q.mode = "job";
	q.startup_timeout_ms = 9999;
	deploy(&q);
	ASSERT(R.existed);
	ASSERT_EQ(R.status.state, BERTH_EXITED);
	q = first, q.command = (const char *[]){"bash", "-c", script, NULL};
	conflict(&q, "another command");
	q = first, q.command = (const char *[]){"sh", "-c", "true", NULL};
	conflict(&q, "other args");
	q = first, q.env = (const char *[]){"A=secret", "B=3", NULL};
	conflict(&q, "another env");
	q = first, q.input = "ni";
	conflict(&q, "another input");
	q = first, q.timeout_ms = 5;
	conflict(&q, "another timeout");
	q = first, q.grace_ms = 5;
	conflict(&q, "another grace");
	q = first, q.limits.open_files = 100;
	conflict(&q, "other limits");
	q = first, q.limits.output_bytes = 100;
	conflict(&q, "another output limit");
	put("art/data", "other data\n");
	q = first;
	conflict(&q, "another artifact");
	ASSERT_STREQ(slurp("runs"), "ran\n");
	/* what was refused has changed nothing: the other artifact has not been brought */
	ASSERT_EQ(system("test $(find . -path '*store/t/*' -name data | wc -l) = 1"), 0);
}

/* ── what travels ──────────────────────────────────────────────────────────────────────────────────── */

static uint64_t uploaded;

static void count(void *arg, const struct berth_progress *p)
{
	(void)arg;
	if (strcmp(p->phase, "upload") == 0)
		uploaded = p->done;
}

static uint64_t upload_of(const char *id)
{
	struct berth_deploy_request q = request(id, "ls -R | cksum; cat big | cksum");

	uploaded = 0;
	q.progress = count;
	q.no_durable = true;
	deploy(&q);
	wait_exit(id, 0);
	return uploaded;
}

TEST(sends_only_what_is_missing)
{
	sandbox();
	make_art();
	ASSERT_EQ(system("head -c 3000000 /dev/urandom >art/big; cp art/big art/twin"), 0);
	ASSERT_EQ(upload_of("a"), 3000000 + 9);
	ASSERT_EQ(upload_of("b"), 0);
	put("art/small", "12345");
	ASSERT_EQ(upload_of("c"), 5);
	ASSERT_OK(rename("art/small", "art/renamed"));
	ASSERT_OK(chmod("art/renamed", 0755));
	ASSERT_EQ(upload_of("d"), 0);
}

TEST_TIMEOUT(ten_thousand_files, 120)
{
	struct berth_deploy_request q = request("many", "find . -type f | wc -l; cat d77/f33");

	sandbox();
	ASSERT_EQ(system("mkdir art; for d in $(seq 100); do mkdir art/d$d; for f in $(seq 100); "
			 "do echo $d.$f "
			 ">art/d$d/f$f; done; done"),
		  0);
	q.startup_timeout_ms = 60000;
	deploy(&q);
	wait_exit("many", 0);
	ASSERT_STREQ(output("many", BERTH_STDOUT), "10000\n77.33\n");
}

TEST(every_kind_of_entry_arrives)
{
	struct berth_deploy_request q =
		request("k", "stat -c '%n %A %Y' run plain dir/f; readlink link; readlink 'dir/to "
			     "nowhere'; ls -d emp*; ls -b odd");

	sandbox();
	make_art();
	ASSERT_EQ(system("cd art; echo '#!/bin/sh' >run; chmod 4755 run; echo >plain; chmod 600 "
			 "plain; "
			 "mkdir dir empty odd; echo x >dir/f; ln -s dir/f link; ln -s "
			 "/nowhere/at/all "
			 "'dir/to nowhere'; touch -d @1000000000 run plain dir/f; "
			 "touch odd/..data \"odd/$(printf 'a\\nb')\" odd/-rf \"odd/$(printf "
			 "'\\377')\""),
		  0);
	deploy(&q);
	wait_exit("k", 0);
	ASSERT_STREQ(output("k", BERTH_STDOUT),
		     "run -rwxr-xr-x 1000000000\nplain -rw-r--r-- 1000000000\n"
		     "dir/f -rw-r--r-- 1000000000\ndir/f\n/nowhere/at/all\nempty\n"
		     "-rf\na\\nb\n\\377\n");
}

/* ── a file that changes on the way ──────────────────────────────────────────────────────────── */

static int changes, wanted_changes;

static void change(const char *path)
{
	char text[32];

	if (strcmp(path, "data") != 0 || changes >= wanted_changes)
		return;
	snprintf(text, sizeof(text), "version %d\n", ++changes);
	put("art/data", text);
}

static void change_bytes_only(const char *path)
{
	struct stat st;

	if (strcmp(path, "data") != 0 || changes++)
		return;
	/* size and mtime stay; ctime tells */
	stat("art/data", &st);
	put("art/data", "THE DATA\n");
	utimensat(AT_FDCWD, "art/data", (struct timespec[]){st.st_atim, st.st_mtim}, 0);
}

TEST(changed_once_is_read_again)
{
	struct berth_deploy_request q = request("c", "cat data");

	sandbox();
	make_art();
	wanted_changes = 1;
	upload_test_hook = change;
	deploy(&q);
	wait_exit("c", 0);
	ASSERT_STREQ(output("c", BERTH_STDOUT), "version 1\n");
}

TEST(changed_in_secret_is_read_again)
{
	struct berth_deploy_request q = request("c", "cat data");

	sandbox();
	make_art();
	upload_test_hook = change_bytes_only;
	deploy(&q);
	wait_exit("c", 0);
	ASSERT_STREQ(output("c", BERTH_STDOUT), "THE DATA\n");
}

TEST(changed_always_fails_and_frees_the_id)
{
	struct berth_deploy_request q = request("c", "cat data");
	struct berth_status st;

	sandbox();
	make_art();
	wanted_changes = 100;
	upload_test_hook = change;
	deploy(&q);
	ASSERT_EQ(R.status.state, BERTH_FAILED);
	ASSERT_STREQ(R.status.phase, "upload");
	ASSERT_CONTAINS(R.status.message, "\"data\" changed");
	FAILS(BERTH_E_NOT_FOUND, berth_status(S, "c", &st, &E));
	upload_test_hook = NULL;
	deploy(&q);
	wait_exit("c", 0);
	ASSERT_STREQ(output("c", BERTH_STDOUT), "version 2\n");
	/* nothing in the store has another content than its name says */
	ASSERT_EQ(system("find . -path '*store/b/*/*' -type f | while read f; do h=$(basename "
			 "$(dirname $f))$(basename $f); "
			 "test \"$h\" = \"$(sha256sum <$f | cut -c1-64)\" || exit 1; done"),
		  0);
}

/* ── installs ──────────────────────────────────────────────────────────────────────────────────────── */

TEST(install_is_made_once)
{
	struct berth_deploy_request q = request("i1", "cat made/by; cat data");
	char cmd[PATH_MAX + 200], cwd[PATH_MAX];

	sandbox();
	make_art();
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(cmd, sizeof(cmd),
		 "echo installing; mkdir made; echo install >made/by; echo x >>%s/installs", cwd);
	q.install = cmd;
	deploy(&q);
	wait_exit("i1", 0);
	ASSERT_STREQ(output("i1", BERTH_STDOUT), "install\nthe data\n");
	q.id = "i2";
	deploy(&q);
	wait_exit("i2", 0);
	ASSERT_STREQ(output("i2", BERTH_STDOUT), "install\nthe data\n");
	ASSERT_STREQ(slurp("installs"), "x\n");
	put("art/data", "new data\n");
	q.id = "i3";
	deploy(&q);
	wait_exit("i3", 0);
	ASSERT_STREQ(output("i3", BERTH_STDOUT), "install\nnew data\n");
	ASSERT_STREQ(slurp("installs"), "x\nx\n");
	/* the same id, another install */
	q.install = "true";
	FAILS(BERTH_E_CONFLICT, berth_deploy(S, &q, &R, &E));
	ASSERT_CONTAINS(E.message, "another install command");
}

static char told[4096];

static void tell(void *arg, const struct berth_progress *p)
{
	(void)arg;
	if (p->text)
		strncat(told, p->text, p->text_len);
}

TEST(failed_install)
{
	struct berth_deploy_request q = request("i1", "cat ok");
	struct berth_status st;

	sandbox();
	make_art();
	q.install = "echo some words; echo the reason >&2; touch ok; exit 3";
	q.progress = tell;
	deploy(&q);
	ASSERT_EQ(R.status.state, BERTH_FAILED);
	ASSERT_STREQ(R.status.phase, "install");
	ASSERT_CONTAINS(R.status.message, "the reason");
	ASSERT_CONTAINS(R.status.message, "3");
	ASSERT_CONTAINS(told, "some words\n");
	FAILS(BERTH_E_NOT_FOUND, berth_status(S, "i1", &st, &E));
	/* not remembered as done */
	deploy(&q);
	ASSERT_STREQ(R.status.phase, "install");
	q.install = "echo fine >ok";
	deploy(&q);
	wait_exit("i1", 0);
	ASSERT_STREQ(output("i1", BERTH_STDOUT), "fine\n");
}

TEST(install_that_takes_too_long)
{
	struct berth_deploy_request q = request("i1", "true");

	sandbox();
	make_art();
	q.install = "echo begun; sleep 60";
	q.install_timeout_ms = 300;
	deploy(&q);
	ASSERT_EQ(R.status.state, BERTH_FAILED);
	ASSERT_STREQ(R.status.phase, "install");
	ASSERT_CONTAINS(R.status.message, "begun");
}

TEST(install_does_not_see_the_environment)
{
	struct berth_deploy_request q = request("i1", "cat seen");

	sandbox();
	make_art();
	q.install = "echo \"[$TOKEN]\" >seen";
	q.env = (const char *[]){"TOKEN=secret", NULL};
	deploy(&q);
	wait_exit("i1", 0);
	ASSERT_STREQ(output("i1", BERTH_STDOUT), "[]\n");
}

/* ── validation ──────────────────────────────────────────────────────────────────────────────── */

static void invalid(struct berth_deploy_request *q, const char *said)
{
	SUBTEST("%s", said)
	{
		FAILS(BERTH_E_INVALID, berth_deploy(S, q, &R, &E));
		ASSERT_CONTAINS(E.message, said);
	}
	*q = request("v", "true");
}

TEST(refused_before_anything_is_made)
{
	static char long_arg[140000];
	struct berth_deploy_request q = request("v", "true");

	sandbox();
	make_art();
	q.id = "a/b";
	invalid(&q, "execution id \"a/b\"");
	q.id = NULL;
	invalid(&q, "execution id");
	q.mode = "server";
	invalid(&q, "mode \"server\"");
	q.dir = "nowhere";
	invalid(&q, "nowhere");
	q.command = (const char *[]){"a\nb", NULL};
	invalid(&q, "line break");
	q.command = (const char *[]){NULL};
	invalid(&q, "empty");
	memset(long_arg, 'x', sizeof(long_arg) - 1);
	q.command = (const char *[]){"a", long_arg, NULL};
	invalid(&q, "argument 1 is 139999 bytes");
	q.env = (const char *[]){"1A=x", NULL};
	invalid(&q, "NAME=VALUE");
	q.workdir = "../x";
	invalid(&q, "\"../x\" leaves");
	q.input_kind = BERTH_INPUT_FILE, q.input_path = "/etc/x", q.input = "", q.input_len = 0;
	invalid(&q, "\"/etc/x\" leaves");
	q.input_kind = BERTH_INPUT_STDIN, q.input = long_arg, q.input_len = 101,
	q.input_limit = 100;
	invalid(&q, "101 bytes");
	q.timeout_ms = -1;
	invalid(&q, "timeout");
	q.grace_ms = -2;
	invalid(&q, "grace");
	q.limits.pids = -1;
	invalid(&q, "pids");
	q.limits.open_files = INT64_C(1) << 31;
	invalid(&q, "open files limit of 2147483648 is too large");
	q.limits.cpus_milli = INT64_MAX;
	invalid(&q, "cpus limit");
	q.limits.output_bytes = -2;
	invalid(&q, "output");
	q.size = 8;
	invalid(&q, "berth_deploy_request_init");
	ASSERT_EQ(system("test -z \"$(find state -name init.sock 2>/dev/null)\""), 0);
}

/* ── relaunch ────────────────────────────────────────────────────────────────────────────────── */

static void relaunch(const char *id, const char *new_id, const char *const *env)
{
	struct berth_relaunch_request q = {
		.size = sizeof(q), .id = id, .new_id = new_id, .env = env};

	OK(berth_relaunch(S, &q, &R, &E));
}

TEST(relaunch_with_recorded_input)
{
	struct berth_deploy_request q = request("r1", "cat; echo $A$B; pwd | sed 's,.*/,,'");

	sandbox();
	make_art();
	ASSERT_OK(mkdir("art/sub", 0755));
	q.env = (const char *[]){"A=1", "B=2", NULL};
	q.workdir = "sub";
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "recorded\0\n";
	q.input_len = 10;
	deploy(&q);
	wait_exit("r1", 0);
	relaunch("r1", "r2", NULL);
	ASSERT(!R.existed);
	wait_exit("r2", 0);
	ASSERT_MEMEQ(output("r2", BERTH_STDOUT), 21, "recorded\0\n12\nsub\n\0\0\0\0", 21);
	relaunch("r2", "r3", (const char *[]){"B=3", NULL});
	wait_exit("r3", 0);
	ASSERT_STREQ(output("r3", BERTH_STDOUT) + 10, "13\nsub\n");
	/* again, and another one under the same id */
	relaunch("r2", "r3", (const char *[]){"B=3", NULL});
	ASSERT(R.existed);
	{
		struct berth_relaunch_request again = {
			.size = sizeof(again), .id = "r1", .new_id = "r3"};

		FAILS(BERTH_E_CONFLICT, berth_relaunch(S, &again, &R, &E));
		ASSERT_CONTAINS(E.message, "another env");
	}
}

TEST(relaunch_with_file_input)
{
	struct berth_deploy_request q = request("r1", "cat in/put.txt; stat -c %a in/put.txt");
	struct berth_relaunch_request other = {.size = sizeof(other),
					       .id = "r1",
					       .new_id = "r3",
					       .input_given = true,
					       .input_kind = BERTH_INPUT_STDIN,
					       .input = "x",
					       .input_len = 1};

	sandbox();
	make_art();
	q.input_kind = BERTH_INPUT_FILE;
	q.input_path = "in/put.txt";
	q.input = "file input\n";
	q.input_len = 11;
	deploy(&q);
	wait_exit("r1", 0);
	ASSERT_STREQ(output("r1", BERTH_STDOUT), "file input\n600\n");
	relaunch("r1", "r2", NULL);
	wait_exit("r2", 0);
	ASSERT_STREQ(output("r2", BERTH_STDOUT), "file input\n600\n");
	OK(berth_relaunch(S, &other, &R, &E));
	wait_exit("r3", 1);
	other.new_id = "r4";
	other.input_kind = BERTH_INPUT_NONE;
	OK(berth_relaunch(S, &other, &R, &E));
	wait_exit("r4", 1);
}

TEST(relaunch_without_recorded_values)
{
	struct berth_deploy_request q = request("r1", "echo $A$B");
	struct berth_relaunch_request again = {.size = sizeof(again), .id = "r1", .new_id = "r2"};

	sandbox();
	make_art();
	q.env = (const char *[]){"A=secret", "B=2", NULL};
	q.no_record_env = true;
	deploy(&q);
	wait_exit("r1", 0);
	FAILS(BERTH_E_INVALID, berth_relaunch(S, &again, &R, &E));
	ASSERT_CONTAINS(E.message, "A, B");
	again.env = (const char *[]){"B=3", NULL};
	FAILS(BERTH_E_INVALID, berth_relaunch(S, &again, &R, &E));
	ASSERT_CONTAINS(E.message, "give the values of: A");
	ASSERT_LACKS(E.message, "B");
	ASSERT_EQ(system("! grep -r --exclude=stdout secret state"), 0);
	again.env = (const char *[]){"A=4", "B=3", NULL};
	OK(berth_relaunch(S, &again, &R, &E));
	wait_exit("r2", 0);
	ASSERT_STREQ(output("r2", BERTH_STDOUT), "43\n");
}

TEST(relaunch_refusals)
{
	struct berth_deploy_request q = request("r1", "true");
	struct berth_relaunch_request again = {.size = sizeof(again), .id = "r1", .new_id = "r1"};

	sandbox();
	make_art();
	deploy(&q);
	FAILS(BERTH_E_INVALID, berth_relaunch(S, &again, &R, &E));
	ASSERT_CONTAINS(E.message, "own id");
	again.id = "nobody";
	FAILS(BERTH_E_NOT_FOUND, berth_relaunch(S, &again, &R, &E));
	again.new_id = "..";
	FAILS(BERTH_E_INVALID, berth_relaunch(S, &again, &R, &E));
	wait_exit("r1", 0);
}

TEST(relaunch_with_install)
{
	struct berth_deploy_request q = request("r1", "cat made");

	sandbox();
	make_art();
	q.install = "echo m >made";
	deploy(&q);
	wait_exit("r1", 0);
	relaunch("r1", "r2", NULL);
	wait_exit("r2", 0);
	ASSERT_STREQ(output("r2", BERTH_STDOUT), "m\n");
}

/* ── without memory ──────────────────────────────────────────────────────────────────────────── */

/* Whatever allocation fails (and all after it): a typed failure, nothing launched twice, and the
 * same request succeeds afterwards. */
TEST_TIMEOUT(without_memory, 60)
{
	char script[PATH_MAX + 64], cwd[PATH_MAX];
	struct berth_deploy_request q;
	unsigned long n;

	sandbox();
	make_art();
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(script, sizeof(script), "echo $ID >>%s/runs; cat", cwd);
	q = request("", script);
	q.no_durable = true;
	q.install = "true";
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "x";
	q.input_len = 1;
	for (n = 1;; n++) {
		char id[32], env[48];
		int r;

		snprintf(id, sizeof(id), "m%lu", n);
		snprintf(env, sizeof(env), "ID=%s", id);
		q.id = id;
		q.env = (const char *[]){env, NULL};
		put("art/data", id);
		berth_error_reset(&E);
		mem_fail_from(n);
		r = berth_deploy(S, &q, &R, &E);
		if (!mem_failed()) {
			mem_fail_from(0);
			OK(r);
			wait_exit(id, 0);
			break;
		}
		mem_fail_from(0);
		if (r != 0 && r != BERTH_E_NOMEM && r != BERTH_E_UNAVAILABLE)
			FAIL("allocation %lu: %d: %s", n, r, E.message);
		deploy(&q);
		wait_exit(id, 0);
	}
	ASSERT_GT(n, 30);
	ASSERT_EQ(system("test -z \"$(sort runs | uniq -d)\""), 0);
	ASSERT_EQ(system("test $(wc -l <runs) -ge 30"), 0);
}

TEST_MAIN()
