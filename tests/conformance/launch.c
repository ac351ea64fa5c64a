/* SPDX-License-Identifier: MIT */
/*
 * launch.c: what could not be started says so, with the path and the reason; nothing else is run.
 */
#include "conf.h"

/* Does the text have one of the reasons, which are separated by '|'? */
static bool says(const char *text, const char *reasons)
{
	char copy[256], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", reasons);
	for (char *r = strtok_r(copy, "|", &save); r; r = strtok_r(NULL, "|", &save)) {
		if (strcasestr(text, r))
			return true;
	}
	return false;
}

static void launch_fails(const char *id, const char *dir, const char *workdir, const char *command,
			 const char *path, const char *reason)
{
	const char *argv[] = {command, "arg", NULL};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	request(&q, id, "");
	q.dir = dir;
	q.workdir = workdir;
	q.command = argv;
	deploy(&q, &r);
	ASSERT_ENDED(&r.status, BERTH_FAILED, -1, 0);
	ASSERT_STREQ(r.status.phase, "launch");
	ASSERT_CONTAINS(r.status.message, path);
	if (!says(r.status.message, reason))
		FAIL("\"%s\" does not say \"%s\"", r.status.message, reason);
	ASSERT_NULL(strchr(r.status.message, '\n'));
	ASSERT(r.status.is_final);
	/* It is on record, the same for everybody, and counts as ended. */
	status_of(id, &st);
	ASSERT_EQ(st.state, BERTH_FAILED);
	ASSERT_STREQ(st.message, r.status.message);
	finish(id, &st);
	ASSERT_EQ(st.state, BERTH_FAILED);
	ASSERT_EQ(st.stdout_bytes, 0u);
	OK(berth_remove(box(), id, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), id, &st, &E));
}

CASE(by_cause, RUNS)
{
	const char *dir = new_artifact("causes");

	put_text(in(dir, "plain"), "#!/bin/sh\nexit 0\n");
	put_bytes(in(dir, "script"), "#!/no/such/interpreter\n", 23, 0755);
	put_bytes(in(dir, "nodir-script"), "#!plain/x\n", 10, 0755);
	ASSERT_OK(mkdir(in(dir, "sub"), 0755));
	ASSERT_OK(symlink("nowhere", in(dir, "dangling")));
	ASSERT_OK(symlink("loop", in(dir, "loop")));
	SUBTEST("missing command with a path")
	launch_fails("c1", dir, NULL, "./nope", "./nope", "No such file");
	SUBTEST("missing command in PATH")
	launch_fails("c2", dir, NULL, "no-such-command", "no-such-command",
		     "No such file|no such command");
	SUBTEST("missing absolute command")
	launch_fails("c3", dir, NULL, "/no/such/command", "/no/such/command", "No such file");
	SUBTEST("missing working directory")
	launch_fails("c4", dir, "no/dir", "./worker", "no/dir", "No such file");
	SUBTEST("working directory is a file")
	launch_fails("c5", dir, "plain", "./worker", "plain", "Not a directory");
	SUBTEST("not executable")
	launch_fails("c6", dir, NULL, "./plain", "./plain", "Permission denied");
	SUBTEST("a directory")
	launch_fails("c7", dir, NULL, "./sub", "./sub", "Permission denied");
	SUBTEST("missing interpreter")
	launch_fails("c8", dir, NULL, "./script", "./script", "interpreter|No such file");
	SUBTEST("interpreter below a file")
	launch_fails("c9", dir, NULL, "./nodir-script", "./nodir-script", "Not a directory");
	SUBTEST("through a file")
	launch_fails("c10", dir, NULL, "./plain/x", "./plain/x", "Not a directory");
	SUBTEST("dangling link")
	launch_fails("c11", dir, NULL, "./dangling", "./dangling", "No such file");
	SUBTEST("link loop")
	launch_fails("c12", dir, NULL, "./loop", "./loop", "Too many levels|link loop");
	SUBTEST("the command is below the working directory, not the root")
	launch_fails("c13", dir, "sub", "./worker", "./worker", "No such file");
	SUBTEST("a bare name is not looked up in the working directory")
	launch_fails("c14", dir, NULL, "worker", "worker", "No such file|no such command");
}

CASE(names_too_long, RUNS)
{
	char name[300];

	memset(name, 'n', sizeof(name));
	memcpy(name, "./", 2);
	name[299] = '\0';
	launch_fails("too-long", conf.art, NULL, name, "./nnn",
		     "File name too long|filename too long");
}

CASE(a_failed_launch_can_be_asked_again, RUNS)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	const char *argv[] = {"./nope", NULL};

	request(&q, "again", "");
	q.command = argv;
	deploy(&q, &r);
	ASSERT_EQ(r.status.state, BERTH_FAILED);
	ASSERT(!r.existed);
	deploy(&q, &r);
	ASSERT_EQ(r.status.state, BERTH_FAILED);
	ASSERT(r.existed);
	OK(berth_remove(box(), "again", &E));
	deploy(&q, &r);
	ASSERT(!r.existed);
}

CASE(lookup_as_execvp, RUNS)
{
	const char *dir = new_artifact("lookup");
	static const char *const path_env[] = {"PATH=bin", NULL}, *const path_two[] = {
									  "PATH=/nowhere:.", NULL};
	const char *bare[] = {"tool", "exit", "21", NULL},
		   *there[] = {"./tool", "exit", "22", NULL};
	const char *shell[] = {"sh", "-c", "exit 23", NULL};
	struct berth_deploy_request q;
	struct berth_status st;

	ASSERT_OK(mkdir(in(dir, "bin"), 0755));
	ASSERT_OK(link(conf.worker, in(dir, "bin/tool")));
	request(&q, "in-path", "");
	q.dir = dir;
	q.command = bare;
	q.env = path_env;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 21);
	request(&q, "in-second-path", "");
	q.dir = dir;
	q.command = bare;
	q.workdir = "bin";
	q.env = path_two;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 21);
	request(&q, "in-workdir", "");
	q.dir = dir;
	q.command = there;
	q.workdir = "bin";
	run_request(&q, &st);
	ASSERT_EXITED(&st, 22);
	/* A not executable file in PATH does not hide the one behind it. */
	ASSERT_OK(mkdir(in(dir, "first"), 0755));
	put_text(in(dir, "first/tool"), "no program");
	request(&q, "behind", "");
	q.dir = dir;
	q.command = bare;
	q.env = (const char *const[]){"PATH=first:bin", NULL};
	run_request(&q, &st);
	ASSERT_EXITED(&st, 21);
	request(&q, "system-sh", "");
	q.dir = dir;
	q.command = shell;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 23);
}

CASE(equals_sign_in_the_commands_path, RUNS)
{
	const char *dir = new_artifact("equals");
	const char *argv[] = {"./a=b/c=d", "args", "x=y", NULL};
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;

	ASSERT_OK(mkdir(in(dir, "a=b"), 0755));
	ASSERT_OK(link(conf.worker, in(dir, "a=b/c=d")));
	request(&q, "equals", "");
	q.dir = dir;
	q.command = argv;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of("equals", BERTH_STDOUT);
	ASSERT_MEMEQ(b.p, b.n, "\x09\0\0\0./a=b/c=d\x03\0\0\0x=y", 20);
	free(b.p);
}

CASE(bad_commands_are_refused_before_anything, RUNS)
{
	static const char *const bad[] = {"", "a\nb", "a\rb", "\n"};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	run("before-bad", "exit 0", &st);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *argv[] = {bad[i], NULL};

		request(&q, "bad-command", "");
		q.command = argv;
		FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
		FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "bad-command", &st, &E));
	}
}

CASE(working_directories, RUNS)
{
	const char *dir = new_artifact("dirs");
	static const char *const dirs[] = {"a", "a/b", "a/../a/b", "./a", "..dots", "with space/ü"};
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32];

	ASSERT_OK(mkdir(in(dir, "a"), 0755));
	ASSERT_OK(mkdir(in(dir, "a/b"), 0755));
	ASSERT_OK(mkdir(in(dir, "..dots"), 0755));
	ASSERT_OK(mkdir(in(dir, "with space"), 0755));
	ASSERT_OK(mkdir(in(dir, "with space/ü"), 0755));
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		put_text(in(in(dir, dirs[i]), "where"), dirs[i]);
		ASSERT_OK(link(conf.worker, in(in(dir, dirs[i]), "worker")) < 0 && errno != EEXIST
				  ? -1
				  : 0);
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		snprintf(id, sizeof(id), "dir-%zu", i);
		request(&q, id, "read where");
		q.dir = dir;
		q.workdir = dirs[i];
		SUBTEST("%s", dirs[i])
		{
			run_request(&q, &st);
			ASSERT_EXITED(&st, 0);
			ASSERT_STREQ(text_out(id, BERTH_STDOUT),
				     text_of(in(in(dir, dirs[i]), "where")));
		}
	}
}

CASE(a_link_as_working_directory_stays_inside, RUNS)
{
	const char *dir = new_artifact("linkdir");
	struct berth_deploy_request q;
	struct berth_deploy_result r;

	ASSERT_OK(symlink("/", in(dir, "out")));
	request(&q, "linkdir", "");
	q.dir = dir;
	q.workdir = "out/tmp";
	q.command = (const char *const[]){"/bin/true", NULL};
	memset(&r, 0, sizeof(r));
	if (berth_deploy(box(), &q, &r, &E) == 0) {
		ASSERT_EQ(r.status.state, BERTH_FAILED);
		ASSERT_STREQ(r.status.phase, "launch");
	} else {
		ASSERT_EQ(E.code, BERTH_E_INVALID);
	}
}

CASE(missing_artifacts, RUNS)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	static const char *const bad[] = {"/no/such/artifact", "plain-file"};

	put_text("plain-file", "x");
	run("before-missing", "exit 0", &st);
	for (int i = 0; i < 2; i++) {
		int rc;

		request(&q, "missing-artifact", "exit 0");
		q.dir = bad[i];
		memset(&r, 0, sizeof(r));
		rc = berth_deploy(box(), &q, &r, &E);
		ASSERT(rc < 0 ||
		       (r.status.state == BERTH_FAILED && strcmp(r.status.phase, "upload") == 0));
		ASSERT_CONTAINS(rc < 0 ? E.message : r.status.message, bad[i]);
		FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "missing-artifact", &st, &E));
	}
}
