/* SPDX-License-Identifier: MIT */
/*
 * What is between the workers of an isolated sandbox and its agent: who they are, what they may
 * write, what they cannot see or do. The walls are those of walled.h: no stage, no bwrap. The file
 * system is the host's here, so nothing is said about that.
 */
#include "tap.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "modes.h"
#include "run.h"
#include "tree.h"
#include "walled.h"

#define WORKER (WALLED_UID + 1)

static struct agent_proc proc;
static struct client c;
static struct tree t;
static bool single; /* one uid for init and workers */

static void begin_at(const char *name, const char *const *options)
{
	struct walled_opts o = {.options = options, .single = single};

	TEST_REQUIRE("userns", "a sandbox with walls");
	ASSERT_EQ(walled_start(&proc, name, &o), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	t = (struct tree){0};
	tree_text(&t, "data.txt", "some data\n");
	tree_dir(&t, "dir");
	tree_text(&t, "dir/a", "a");
	tree_file(&t, "dir/run", "#!/bin/sh\n", 10, true);
	tree_link(&t, "link", "dir");
	tree_text(&t, "twin.txt", "some data\n");
	tree_text(&t, "empty", "");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
}

static void begin(void)
{
	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	begin_at("box", NULL);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
	tree_free(&t);
}

/* Runs a script in the tree and returns what it said; *view (may be NULL): the view's level. */
static const char *said(const char *id, const char *script, const char **view)
{
	int code = launch_run(&c, id, t.hex, script, NULL);

	if (code != 0)
		DIAG("%s: exit code %d, %s", id, code, launch_message(&c));
	if (view)
		*view = launch_view(&c);
	return launch_stdout(&c, id);
}

/* The same by the sandbox's files: no tree, in home. */
static const char *said_home(const char *id, const char *script)
{
	int code = launch_run(&c, id, NULL, script, NULL);

	if (code != 0)
		DIAG("%s: exit code %d, %s", id, code, launch_message(&c));
	return launch_stdout(&c, id);
}

/* Every way of having a view that walls leave: each a point of its own. */
#define EACH_VIEW(v)                                                                         \
	for (const char *const *v = (const char *const[]){"overlay", "copy", NULL}; *v; v++) \
	SUBTEST("%s", *v)

static void begin_view(const char *view)
{
	static const char *const dirs[] = {"lower", "upper", "work", "merged"};

	if (strcmp(view, "overlay") == 0) {
		begin_at("box", NULL);
		return;
	}
	TEST_REQUIRE("overlay", "a place where there can be none");
	/* Nothing that lies on an overlay can be another one's upper directory. */
	ASSERT_OK(chmod(".", 0755));
	for (size_t i = 0; i < 4; i++)
		ASSERT_OK(mkdir(dirs[i], 0755));
	ASSERT_OK(unshare(CLONE_NEWNS));
	ASSERT_OK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_OK(mount("overlay", "merged", "overlay", 0,
			"lowerdir=lower,upperdir=upper,workdir=work"));
	begin_at("merged/box", NULL);
}

static void end_view(const char *view)
{
	end();
	if (strcmp(view, "overlay") != 0)
		umount2("merged", MNT_DETACH);
}

TEST_TIMEOUT(a_worker_is_nobody, 60)
{
	const char *s;

	begin();
	s = said("who", "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status",
		 NULL);
	ASSERT_CONTAINS(s, "Uid:\t1000\t1000\t1000\t1000\n");
	ASSERT_CONTAINS(s, "Gid:\t1000\t1000\t1000\t1000\n");
	ASSERT_CONTAINS(s, "Groups:\t \n");
	ASSERT_CONTAINS(s, "CapInh:\t0000000000000000\n");
	ASSERT_CONTAINS(s, "CapPrm:\t0000000000000000\n");
	ASSERT_CONTAINS(s, "CapEff:\t0000000000000000\n");
	ASSERT_CONTAINS(s, "CapBnd:\t0000000000000000\n");
	ASSERT_CONTAINS(s, "CapAmb:\t0000000000000000\n");
	ASSERT_CONTAINS(s, "NoNewPrivs:\t1\n");
	ASSERT_CONTAINS(s, "Seccomp:\t2\n");
	end();
}

/* And so is everything that an init starts with rights of its own: it has them all. */
TEST_TIMEOUT(init_keeps_its_rights, 60)
{
	char path[64], text[4096];
	int fd;
	ssize_t n;

	begin();
	snprintf(path, sizeof(path), "/proc/%d/status", proc.pid);
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	ASSERT_GT(n, 0);
	text[n] = '\0';
	ASSERT_CONTAINS(text, "Seccomp:\t0\n");
	ASSERT_LACKS(text, "CapEff:\t0000000000000000\n");
	end();
}

TEST_TIMEOUT(a_worker_has_three_fds, 60)
{
	static struct state s;
	char *out;
	uint64_t gap;
	size_t n;

	begin();
	ASSERT_GT(run_worker(&c, "fds", NULL, ARGV("fds"), &s), 0);
	ASSERT_EQ(run_wait(&c, "fds", 0, &s), WIRE_S_EXITED);
	out = run_read(&c, "fds", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_CONTAINS(out, "0 /dev/null\n1 pipe:");
	ASSERT_CONTAINS(out, "2 pipe:");
	ASSERT_LACKS(out, "\n3 ");
	free(out);
	end();
}

TEST_TIMEOUT(the_whole_view_is_the_workers, 60)
{
	static const char script[] = "find . ! -user 1000; find . ! -type l ! -writable; "
				     "for f in $(find . -type f); do echo x >>$f && chmod 700 $f "
				     "&& touch -d @1 $f || echo bad $f; done; "
				     "for d in . dir; do mkdir $d/new && echo y >$d/new/file && ln "
				     "-s file $d/new/l && mkfifo $d/new/p && "
				     "mv $d/new $d/newer && chmod 755 $d || echo bad $d; done; "
				     "ln data.txt hard && mv link elsewhere && rm dir/a twin.txt "
				     "&& rm -r dir && echo good";
	const char *view, *s;

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	EACH_VIEW(v)
	{
		begin_view(*v);
		s = said("all", script, &view);
		ASSERT_STREQ(s, "good\n");
		ASSERT_STREQ(view, *v);
		/* and nobody else's */
		s = said("again", "cat data.txt; ls dir; stat -c %U%u . | grep -o '[0-9]*$'", NULL);
		ASSERT_STREQ(s, "some data\na\nrun\n1000\n");
		end_view(*v);
	}
}

TEST_TIMEOUT(an_input_file_is_the_workers, 60)
{
	struct launch_opts o = {.input_path = "new/deep/in.txt",
				.has_input = true,
				.input = "given",
				.input_len = 5};

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	EACH_VIEW(v)
	{
		begin_view(*v);
		ASSERT_EQ(
			launch_run(
				&c, "in", t.hex,
				"cat new/deep/in.txt; find new ! -user 1000; find new ! -writable; "
				"echo more >>new/deep/in.txt; touch new/x new/deep/y",
				&o),
			0);
		ASSERT_STREQ(launch_stdout(&c, "in"), "given");
		end_view(*v);
	}
}

TEST_TIMEOUT(stdio_can_be_opened_again, 60)
{
	struct launch_opts o = {.has_input = true, .input = "typed\n", .input_len = 6};
	static struct state s;
	struct opts tty = {.cols = 80, .rows = 24};

	begin();
	ASSERT_EQ(launch_run(&c, "io", t.hex,
			     "cat /dev/stdin; echo one >/dev/stdout; echo two >>/proc/self/fd/1; "
			     "echo three >/dev/stderr; echo four | tee /dev/stdout",
			     &o),
		  0);
	ASSERT_STREQ(launch_stdout(&c, "io"), "typed\none\ntwo\nfour\nfour\n");
	ASSERT_EQ(run_launch(&c, "tty", &tty,
			     ARGV("/bin/sh", "-c", "t=$(tty) && echo hello >$t && stat -c %u $t"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_wait(&c, "tty", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 0);
	ASSERT_STREQ(launch_stdout(&c, "tty"), "hello\r\n1000\r\n");
	end();
}

TEST_TIMEOUT(records_are_out_of_reach, 60)
{
	char script[2048];
	const char *s;

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	EACH_VIEW(v)
	{
		begin_view(*v);
		/* Its own, an earlier one's, the sockets, the store: by path, as it is or was. */
		ASSERT_EQ(launch_run(&c, "before", t.hex, "true", NULL), 0);
		snprintf(
			script, sizeof(script),
			"grep ' %s ' /proc/self/mountinfo /proc/1/mountinfo\n"
			"for p in x/me/journal x/before/stdout init.sock init.lock store "
			"incarnation; do "
			"cat %s/$p; ls %s/$p; echo z >%s/$p; rm -rf %s/$p; mv %s/$p .; ln %s/$p .; "
			"done 2>/dev/null\n"
			"ls %s 2>/dev/null; cd %s 2>/dev/null && echo in; "
			"echo end",
			proc.dir, proc.dir, proc.dir, proc.dir, proc.dir, proc.dir, proc.dir,
			proc.dir, proc.dir);
		s = said("me", script, NULL);
		ASSERT_STREQ(s, "end\n");
		ASSERT_EQ(launch_run(&c, "home", NULL, script, NULL), 0);
		ASSERT_STREQ(launch_stdout(&c, "home"), "end\n");
		end_view(*v);
	}
}

/* Out of any directory that a worker stands in, ".." leads into its own mounts alone. */
TEST_TIMEOUT(home_is_in_the_workers_own_mounts, 60)
{
	char expect[600];

	begin();
	snprintf(expect, sizeof(expect), "%s\n1\nend\n", proc.home);
	ASSERT_STREQ(
		said_home("home",
			  "pwd -P; r=$(pwd | sed 's,[^/]*,..,g'); ls -d ./$r/proc/[0-9]* | "
			  "grep -c '/1$'; ls ./$r/proc | grep -c '^[0-9]' >/dev/null; echo end"),
		expect);
	end();
}

TEST_TIMEOUT(supervisor_and_init_are_out_of_reach, 60)
{
	static const char script[] =
		"kill -0 1; kill -STOP 1; kill -KILL 1; kill -TERM 1; kill -HUP 1; "
		"for f in environ mem maps auxv io stack syscall pagemap personality; do head -c 1 "
		"/proc/1/$f; done; "
		"ls /proc/1/fd /proc/1/root /proc/1/cwd /proc/1/map_files /proc/1/ns; readlink "
		"/proc/1/exe /proc/1/root; "
		"echo 0 >/proc/1/oom_score_adj; echo x >/proc/1/comm; "
		"set -- /proc/[0-9]*; echo $#";
	static const char trace[] = "import ctypes\n"
				    "l = ctypes.CDLL(None, use_errno=True)\n"
				    "for r in (16, 0x4206): print(l.ptrace(r, 1, 0, 0))\n";
	char cmd[512];

	begin();
	/* sh and the supervisor are all there is. */
	ASSERT_STREQ(said("reach", script, NULL), "2\n");
	if (access("/usr/bin/python3", X_OK) == 0) {
		snprintf(cmd, sizeof(cmd), "exec python3 -c '%s'", trace);
		ASSERT_STREQ(said("trace", cmd, NULL), "-1\n-1\n");
	}
	ASSERT_EQ(kill(proc.pid, 0), 0);
	end();
}

TEST_TIMEOUT(executions_do_not_see_each_other, 60)
{
	static struct state s;

	begin();
	ASSERT_EQ(run_launch(&c, "one", NULL,
			     ARGV("/bin/sh", "-c", "echo up; : mark-one; sleep 100; :"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "one", 0, WIRE_STDOUT, 3, &s), WIRE_S_RUNNING);
	ASSERT_STREQ(said("two",
			  "grep -al mark-on[e] /proc/[0-9]*/cmdline | grep -v \"/$$/\"; echo end",
			  NULL),
		     "end\n");
	ASSERT_EQ(run_cancel(&c, "one", 0, 0, &s), WIRE_S_CANCELLED);
	end();
}

/* ---- files ---- */

TEST_TIMEOUT(files_come_as_the_workers, 60)
{
	struct stat st;

	begin();
	ASSERT_EQ(file_put(&c, NULL, "a/b/f", "x", 1, 0600), 0);
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "p/q/r", WK_PARENTS, 1, NULL), 0);
	ASSERT_EQ(file_op(&c, WIRE_SYMLINK, NULL, "a/l", WK_TARGET, 0, "b/f"), 0);
	for (const char *const *p = ARGV("a", "a/b", "a/b/f", "p", "p/q", "p/q/r", "a/l"); *p;
	     p++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", proc.home, *p);
		ASSERT_OK(lstat(path, &st));
		ASSERT_EQ(st.st_uid, WORKER);
		ASSERT_EQ(st.st_gid, WORKER);
	}
	ASSERT_EQ(file_get(&c, NULL, "a/l"), 0);
	ASSERT_STREQ((char *)c.data, "x");
	ASSERT_STREQ(said_home("use", "cat a/b/f; echo y >>a/b/f; rm -r p; ls"), "xa\n");
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "a", WK_RECURSIVE, 1, NULL), 0);
	ASSERT_STREQ(file_names(&c, NULL, "."), "");
	/* What is not a worker's is not writable, by its path either. */
	ASSERT_EQ(file_put(&c, NULL, "/etc/berth-test", "x", 1, 0644), WIRE_E_PERM);
	ASSERT_LT(access("/etc/berth-test", F_OK), 0);
	/* Rights come back: a record is made by init. */
	ASSERT_STREQ(said_home("after", "echo ok"), "ok\n");
	end();
}

TEST_TIMEOUT(files_of_views, 60)
{
	static struct state s;

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	EACH_VIEW(v)
	{
		begin_view(*v);
		ASSERT_EQ(launch_sh(&c, "run", t.hex, "echo mine >out; echo up; sleep 100", NULL),
			  0);
		ASSERT_EQ(run_until_output(&c, "run", 0, WIRE_STDOUT, 3, &s), WIRE_S_RUNNING);
		for (int i = 0; i < 2; i++) {
			ASSERT_EQ(file_get(&c, "run", "out"), 0);
			ASSERT_STREQ((char *)c.data, "mine\n");
			ASSERT_EQ(file_put(&c, "run", "put/in", "given", 5, 0644), 0);
			ASSERT_EQ(file_get(&c, "run", "put/in"), 0);
			ASSERT_EQ(file_get(&c, "run", "../../../../etc/passwd"), WIRE_E_INVALID);
			if (i == 0)
				ASSERT_EQ(run_cancel(&c, "run", 0, 0, &s), WIRE_S_CANCELLED);
		}
		end_view(*v);
	}
}

TEST_TIMEOUT(links_lead_nowhere, 60)
{
	static const char *const targets[] = {
		"/proc/self/fd/3", "/proc/self/fd/4",        "/proc/self/cwd/init.lock",
		"/proc/self/cwd",  "/proc/self/root",        "/proc/1/root",
		"/proc/1/environ", "/proc/self/environ",     "/proc/self/mem",
		"/proc/self/exe",  "/proc/thread-self/maps", "/proc/1/cwd/incarnation",
		"DIR/incarnation", "DIR/x/links/stdout",     "DIR",
		"/etc/shadow",
	};
	char script[512], target[400], path[600], link[16];
	struct stat st;

	begin();
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		const char *rest = strncmp(targets[i], "DIR", 3) == 0 ? targets[i] + 3 : NULL;

		snprintf(target, sizeof(target), "%s%s", rest ? proc.dir : targets[i],
			 rest ? rest : "");
		snprintf(link, sizeof(link), "l%zu", i);
		snprintf(script, sizeof(script), "ln -s %s %s", target, link);
		said_home(link, script);
		SUBTEST("%s", targets[i])
		{
			ASSERT_NE(file_get(&c, NULL, link), 0);
			ASSERT_EQ(c.data_len, 0);
			snprintf(path, sizeof(path), "%s/incarnation", link);
			ASSERT_NE(file_get(&c, NULL, path), 0);
			snprintf(path, sizeof(path), "%s/put", link);
			ASSERT_NE(file_put(&c, NULL, path, "x", 1, 0644), 0);
			snprintf(path, sizeof(path), "%s/x/empty", link);
			ASSERT_NE(file_op(&c, WIRE_MKDIR, NULL, path, WK_PARENTS, 1, NULL), 0);
			snprintf(path, sizeof(path), "%s/x/links", link);
			ASSERT_NE(file_op(&c, WIRE_REMOVE, NULL, path, WK_RECURSIVE, 1, NULL), 0);
			ASSERT_STREQ(file_names(&c, NULL, link), "(failed)");
			snprintf(path, sizeof(path), "%s/put", proc.dir);
			ASSERT_LT(lstat(path, &st), 0);
			snprintf(path, sizeof(path), "%s/x/empty", proc.dir);
			ASSERT_LT(lstat(path, &st), 0);
		}
	}
	end();
}

/* Makes one name a directory and a link to DIR by turns, as fast as it can be done: what a worker
 * could do in its home, done from outside so that nothing slows it down. */
static pid_t flip(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		syscall(SYS_renameat2, AT_FDCWD, "box/home/d", AT_FDCWD, "box/home/l",
			2u /* EXCHANGE */);
}

TEST_TIMEOUT(a_race_leads_nowhere, 120)
{
	unsigned went = 0;
	char path[600];
	struct stat st;
	pid_t pid;

	begin();
	ASSERT_EQ(launch_run(&c, "x1", NULL, "mkdir d", NULL), 0);
	ASSERT_OK(symlink(proc.dir, "box/home/l"));
	ASSERT_OK(lchown("box/home/l", WORKER, WORKER));
	pid = flip();
	for (int i = 0; i < 2000; i++) {
		went += file_put(&c, NULL, "d/f", "x", 1, 0644) == 0;
		file_op(&c, WIRE_MKDIR, NULL, "d/g/h", WK_PARENTS, 1, NULL);
		file_op(&c, WIRE_REMOVE, NULL, "d/x", WK_RECURSIVE, 1, NULL);
		ASSERT_NE(file_get(&c, NULL, "d/incarnation"), 0);
	}
	for (const char *const *p = ARGV("f", "g"); *p; p++) {
		snprintf(path, sizeof(path), "%s/%s", proc.dir, *p);
		ASSERT_LT(lstat(path, &st), 0);
	}
	snprintf(path, sizeof(path), "%s/x/x1/journal", proc.dir);
	ASSERT_OK(lstat(path, &st));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* It was both: else there was no race. */
	ASSERT_GT(went, 0);
	ASSERT_LT(went, 2000);
	DIAG("%u of 2000 went into the directory", went);
	end();
}

/* What a supervisor has open, and its cwd, are no working directories. */
TEST_TIMEOUT(a_workdir_leads_nowhere, 60)
{
	static const char *const targets[] = {"/proc/self/cwd",
					      "/proc/self/fd/3",
					      "/proc/self/fd/5",
					      "/proc/self/fd/8",
					      "/proc/1/root",
					      "DIR",
					      "DIR/x"};
	static struct state s;
	char script[512];

	begin();
	for (int64_t kind = WIRE_KIND_EXECUTION; kind <= WIRE_KIND_SESSION; kind++) {
		struct opts o = {.kind = kind, .workdir = "w"};

		for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
			const char *rest =
				strncmp(targets[i], "DIR", 3) == 0 ? targets[i] + 3 : NULL;
			char id[32];

			snprintf(script, sizeof(script), "ln -sfn %s%s w",
				 rest ? proc.dir : targets[i], rest ? rest : "");
			snprintf(id, sizeof(id), "ln%zu-%d", i, (int)kind);
			ASSERT_EQ(launch_run(&c, id, NULL, script, NULL), 0);
			SUBTEST("%s of %s", targets[i],
				kind == WIRE_KIND_SESSION ? "a session" : "an execution")
			{
				snprintf(id, sizeof(id), "w%zu", i);
				run_launch(&c, id, &o, ARGV("/bin/pwd"), &s);
				ASSERT_EQ(run_wait(&c, id, kind, &s), WIRE_S_FAILED);
				ASSERT_STREQ(s.stage, "workdir");
			}
		}
	}
	end();
}

/* ---- installs ---- */

TEST_TIMEOUT(an_install_is_a_worker, 60)
{
	static const char layer[] =
		"1111111111111111111111111111111111111111111111111111111111111111";
	struct launch_opts o = {.layer = layer};
	struct wire_w *w;
	char script[700];

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	EACH_VIEW(v)
	{
		begin_view(*v);
		w = client_begin(&c, WIRE_INSTALL);
		wire_w_str(w, WK_TREE, t.hex);
		wire_w_str(w, WK_LAYER, layer);
		snprintf(script, sizeof(script),
			 "id -u; mkdir node; echo dep >node/dep; rm dir/a; echo new >data.txt; "
			 "grep -E 'CapEff|Seccomp:' /proc/self/status; ls %s 2>&1; "
			 "for f in $(seq 3 99); do test -e /proc/self/fd/$f && echo fd $f; done; "
			 "echo three",
			 proc.dir);
		wire_w_str(w, WK_COMMAND, script);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_code(&c), 0);
		ASSERT_CONTAINS((char *)c.data,
				"1000\nCapEff:\t0000000000000000\nSeccomp:\t2\nls: ");
		ASSERT_CONTAINS((char *)c.data, "Permission denied\nthree\n");
		ASSERT_EQ(launch_run(&c, "use", t.hex,
				     "cat node/dep data.txt; ls dir; find . ! -user 1000; echo y "
				     ">>node/dep; rm -r node",
				     &o),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "use"), "dep\nnew\nrun\n");
		end_view(*v);
	}
}

/* ---- one uid ---- */

/* Where init and workers have one uid, the mount namespaces and the missing capabilities have to
 * do: no record by any path, no link, no signal that arrives, no trace. */
TEST_TIMEOUT(one_uid_for_all, 60)
{
	static const char script[] =
		"grep -E '^(Uid|Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\n\\t'; "
		"echo; "
		"kill -KILL 1; kill -TERM 1; kill -STOP 1; kill -HUP 1; "
		"for f in environ mem maps; do head -c 1 /proc/1/$f; done; ls /proc/1/fd "
		"/proc/1/cwd; "
		"readlink /proc/1/exe; find . ! -writable; echo y >>data.txt; mkdir new; ls $0";
	static struct state s;
	char path[600], in[300];
	struct stat st;

	TEST_REQUIRE("root", "only root makes this namespace");
	single = true;
	EACH_VIEW(v)
	{
		struct opts o = {.kind = 0};

		begin_view(*v);
		o.tree = t.hex;
		snprintf(in, sizeof(in), "%.*s/in", (int)(strlen(proc.dir) - 6), proc.dir);
		run_launch(&c, "one", &o, ARGV("/bin/sh", "-c", script, in), &s);
		ASSERT_EQ(run_wait(&c, "one", 0, &s), WIRE_S_EXITED);
		ASSERT_STREQ(launch_stdout(&c, "one"),
			     "Uid:1000100010001000CapInh:0000000000000000CapPrm:0000000000000000"
			     "CapEff:0000000000000000CapBnd:0000000000000000"
			     "CapAmb:0000000000000000NoNewPrivs:1Seccomp:2\n");
		snprintf(path, sizeof(path), "%s/x", in);
		ASSERT_OK(symlink(path, *v[0] == 'o' ? "box/home/l" : "merged/box/home/l"));
		ASSERT_EQ(file_get(&c, NULL, "l/one/journal"), WIRE_E_PERM);
		ASSERT_EQ(file_put(&c, NULL, "l/one/journal", "x", 1, 0644), WIRE_E_PERM);
		ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "l/one", WK_RECURSIVE, 1, NULL),
			  WIRE_E_PERM);
		snprintf(path, sizeof(path), "%s/x/one/journal", proc.dir);
		ASSERT_OK(stat(path, &st));
		ASSERT_EQ(file_put(&c, NULL, "a/b", "x", 1, 0644), 0);
		ASSERT_EQ(file_get(&c, "one", "data.txt"), 0);
		end_view(*v);
	}
}

/* ---- records that others read ---- */

static void check_mode(const char *name, mode_t mode)
{
	char path[600];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", proc.dir, name);
	ASSERT_OK(lstat(path, &st));
	if ((st.st_mode & 0777) != mode)
		DIAG("%s", name);
	ASSERT_EQ(st.st_mode & 0777, mode);
	ASSERT_EQ(st.st_uid, WALLED_UID);
}

TEST_TIMEOUT(shared_records_can_be_read_by_a_list, 60)
{
	struct launch_opts o = {.has_input = true, .input = "in", .input_len = 2};

	TEST_REQUIRE("root", "only root gives a user namespace two uids");
	begin_at("box", ARGV("--shared"));
	/* On a stream whose UNPACK has set a umask. */
	ASSERT_EQ(launch_run(&c, "rec", t.hex, "umask; echo out; echo err >&2", &o), 0);
	ASSERT_STREQ(launch_stdout(&c, "rec"), "0022\nout\n");
	for (const char *const *p = ARGV("x/rec/journal", "x/rec/stdout", "x/rec/stderr",
					 "init.sock", "init.lock", "incarnation");
	     *p; p++)
		check_mode(*p, 0660);
	for (const char *const *p = ARGV("x", "s", "x/rec"); *p; p++)
		check_mode(*p, 0770);
	check_mode("x/rec/input", 0600);
	ASSERT_EQ(launch_sh(&c, "runs", t.hex, "sleep 100", NULL), 0);
	check_mode("x/runs/control", 0660);
	ASSERT_EQ(launch_cancel(&c, "runs"), 0);
	end();
	begin_at("private", NULL);
	ASSERT_EQ(launch_run(&c, "rec", t.hex, "echo out", &o), 0);
	for (const char *const *p =
		     ARGV("x/rec/journal", "x/rec/stdout", "x/rec/input", "init.lock");
	     *p; p++)
		check_mode(*p, 0600);
	for (const char *const *p = ARGV("x", "s", "x/rec"); *p; p++)
		check_mode(*p, 0700);
	end();
}

/* ---- the end ---- */

TEST_TIMEOUT(what_an_init_leaves_is_unknown, 60)
{
	static struct state s;

	begin();
	ASSERT_EQ(run_launch(&c, "gone", NULL, ARGV("/bin/sh", "-c", "echo up; sleep 100"), &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "gone", 0, WIRE_STDOUT, 3, &s), WIRE_S_RUNNING);
	client_close(&c);
	agent_kill(&proc);
	ASSERT_EQ(walled_restart(&proc, NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_EQ(run_status(&c, "gone", 0, &s), WIRE_S_UNKNOWN);
	ASSERT(!s.held && !s.same_inc && s.same_boot);
	end();
}

TEST_MAIN()
