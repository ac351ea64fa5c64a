/* SPDX-License-Identifier: MIT */
/* Spawning: what the child sees, how failures are told, how ends are told, bounds of child_run. */
#include "loop/child.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"

#include "tap.h"

/* Runs sh -c @script and gives its stdout. */
static char *sh(const struct child_params *base, const char *script, struct child_exit *ret_exit)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
	struct child_params params = *base;
	struct berth_error err = BERTH_ERROR_INIT;
	char *out = NULL;
	int r;

	params.argv = argv;
	r = child_run(&params, NULL, 0, 1 << 20, 20000, ret_exit, &out, NULL, NULL, NULL, &err);
	if (r != 0)
		DIAG("%s", err.message);
	ASSERT_EQ(r, 0);
	return out;
}

static int start(char *const *argv, struct child *ret, enum child_stage *stage,
		 struct berth_error *err)
{
	struct child_params params = CHILD_PARAMS_INIT;

	params.argv = argv;
	return child_spawn(&params, ret, stage, err);
}

TEST(reports_every_exit_code)
{
	for (int code = 0; code < 256; code++) {
		struct child_params params = CHILD_PARAMS_INIT;
		struct child_exit end;
		char script[32];

		snprintf(script, sizeof(script), "exit %d", code);
		free(sh(&params, script, &end));
		ASSERT_EQ(end.signaled, false);
		ASSERT_EQ(end.code, code);
	}
}

TEST(reports_every_signal)
{
	for (int sig = 1; sig < 32; sig++) {
		char *argv[] = {(char *)"sleep", (char *)"60", NULL};
		auto(child) struct child child = CHILD_INIT;
		struct child_exit end;

		if (sig == SIGCHLD || sig == SIGCONT || sig == SIGURG || sig == SIGWINCH ||
		    sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
			continue;
		ASSERT_EQ(start(argv, &child, NULL, NULL), 0);
		ASSERT_EQ(child_kill(&child, sig), 0);
		ASSERT_EQ(child_wait(&child, 10000, &end, NULL), 0);
		ASSERT_EQ(end.signaled, true);
		ASSERT_EQ(end.signal, sig);
	}
}

TEST(tells_a_missing_program)
{
	char *path_argv[] = {(char *)"/no/such/program", NULL};
	char *name_argv[] = {(char *)"no-such-program-here", NULL};
	struct berth_error err = BERTH_ERROR_INIT;
	struct child child = CHILD_INIT;
	enum child_stage stage = CHILD_STAGE_NONE;

	ASSERT_EQ(start(path_argv, &child, &stage, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(stage, CHILD_STAGE_EXEC);
	ASSERT_EQ(err.sys_errno, ENOENT);
	ASSERT_STREQ(err.message, "cannot execute /no/such/program: No such file or directory");
	ASSERT_EQ(child.pid, 0);
	ASSERT_EQ(start(name_argv, &child, &stage, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1); /* nothing left to reap */
	ASSERT_EQ(errno, ECHILD);
}

TEST(tells_what_cannot_be_executed)
{
	char *argv[] = {(char *)"./plain", NULL};
	struct berth_error err = BERTH_ERROR_INIT;
	struct child child = CHILD_INIT;

	ASSERT_EQ(write_file_atomic(AT_FDCWD, "plain", "x", 1, 0644, 0, NULL), 0);
	ASSERT_EQ(start(argv, &child, NULL, &err), BERTH_E_PERM);
	ASSERT_EQ(err.sys_errno, EACCES);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "plain", "x", 1, 0755, 0, NULL), 0);
	ASSERT_EQ(start(argv, &child, NULL, &err), BERTH_E_IO);
	ASSERT_EQ(err.sys_errno, ENOEXEC);
}

TEST(tells_a_missing_directory)
{
	char *argv[] = {(char *)"true", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	struct berth_error err = BERTH_ERROR_INIT;
	enum child_stage stage = CHILD_STAGE_NONE;
	struct child child = CHILD_INIT;

	params.argv = argv;
	params.cwd = "no/such/dir";
	ASSERT_EQ(child_spawn(&params, &child, &stage, &err), BERTH_E_NOT_FOUND);
	ASSERT_EQ(stage, CHILD_STAGE_CWD);
	ASSERT_CONTAINS(err.message, "no/such/dir: No such file");
}

TEST(searches_the_given_path)
{
	char *env[] = {(char *)"PATH=/no/dir:here/bin:/bin", NULL};
	char *argv[] = {(char *)"prog", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *out = NULL;
	struct child_exit end;

	ASSERT_EQ(mkdir("here", 0755), 0);
	ASSERT_EQ(mkdir("here/bin", 0755), 0);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "here/bin/prog", "#!/bin/sh\necho found\n", 21, 0755,
				    0, NULL),
		  0);
	params.argv = argv;
	params.env = env;
	ASSERT_EQ(child_run(&params, NULL, 0, 100, 10000, &end, &out, NULL, NULL, NULL, NULL), 0);
	ASSERT_STREQ(out, "found\n");
}

TEST(goes_on_after_a_directory_that_denies)
{
	char *env[] = {(char *)"PATH=denied:/bin", NULL};
	char *argv[] = {(char *)"true", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	struct child_exit end;

	ASSERT_EQ(mkdir("denied", 0755), 0);
	ASSERT_EQ(write_file_atomic(AT_FDCWD, "denied/true", "x", 1, 0644, 0, NULL), 0);
	params.argv = argv;
	params.env = env;
	ASSERT_EQ(child_run(&params, NULL, 0, 100, 10000, &end, NULL, NULL, NULL, NULL, NULL), 0);
	ASSERT_EQ(end.code, 0);
}

TEST(gives_env_and_cwd)
{
	char *env[] = {(char *)"PATH=/usr/bin:/bin", (char *)"A=1", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *vars = NULL;
	auto_free char *pwd = NULL;
	auto_free char *rel = NULL;
	auto_close int dir = open("/usr", O_PATH | O_CLOEXEC);
	struct child_exit end;

	params.env = env;
	params.cwd = "/usr";
	vars = sh(&params, "cat /proc/$$/environ | tr '\\0' '\\n'; echo $A", &end);
	ASSERT_STREQ(vars, "PATH=/usr/bin:/bin\nA=1\n1\n");
	pwd = sh(&params, "pwd -P", &end);
	ASSERT_STREQ(pwd, "/usr\n");
	params.cwd = "share";
	params.cwd_fd = dir;
	rel = sh(&params, "pwd -P", &end);
	ASSERT_STREQ(rel, "/usr/share\n");
}

/* Swapped and chained numbers are where naive maps go wrong. */
TEST(maps_descriptors_in_any_order)
{
	int a[2], b[2];
	struct child_params params = CHILD_PARAMS_INIT;
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"cat <&5; echo -; cat <&6", NULL};
	auto_free char *out = NULL;
	struct child_exit end;

	ASSERT_EQ(fd_pipe(a, 0), 0);
	ASSERT_EQ(fd_pipe(b, 0), 0);
	ASSERT_EQ(write_full(a[1], "first", 5), 0);
	ASSERT_EQ(write_full(b[1], "second", 6), 0);
	close(a[1]);
	close(b[1]);
	ASSERT_EQ(dup2(a[0], 21), 21);
	ASSERT_EQ(dup2(b[0], 20), 20);
	ASSERT_EQ(dup2(21, 6), 6);
	ASSERT_EQ(dup2(20, 5), 5);
	struct child_fd map[] = {{6, 5}, {5, 6}}; /* swapped */

	params.argv = argv;
	params.fds = map;
	params.n_fds = 2;
	ASSERT_EQ(child_run(&params, NULL, 0, 100, 10000, &end, &out, NULL, NULL, NULL, NULL), 0);
	ASSERT_STREQ(out, "first-\nsecond");
}

TEST(passes_nothing_else)
{
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *out = NULL;
	struct child_exit end;
	int fd = open("/dev/null", O_RDWR); /* no CLOEXEC, on purpose */

	ASSERT_EQ(dup2(fd, 3), 3);
	ASSERT_EQ(dup2(fd, 7), 7);
	ASSERT_EQ(dup2(fd, 200), 200);
	/* ls opens the directory as the lowest free number: 3. */
	out = sh(&params, "exec ls /proc/self/fd", &end);
	ASSERT_STREQ(out, "0\n1\n2\n3\n");
}

TEST(gives_dev_null_for_stdio)
{
	char *argv[] = {(char *)"sh", (char *)"-c",
			(char *)"readlink /proc/self/fd/0 /proc/self/fd/2 >&7", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	auto(child) struct child child = CHILD_INIT;
	char buf[100] = "";
	struct child_exit end;
	int p[2];

	ASSERT_EQ(fd_pipe(p, 0), 0);
	struct child_fd map[] = {{p[1], 7}};

	params.argv = argv;
	params.fds = map;
	params.n_fds = 1;
	ASSERT_EQ(child_spawn(&params, &child, NULL, NULL), 0);
	close(p[1]);
	ASSERT_GT(read_full(p[0], buf, sizeof(buf) - 1), 0);
	ASSERT_STREQ(buf, "/dev/null\n/dev/null\n");
	ASSERT_EQ(child_wait(&child, 10000, &end, NULL), 0);
}

TEST(resets_signals)
{
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *out = NULL;
	struct child_exit end;
	sigset_t block;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, NULL);
	out = sh(&params, "grep -E '^Sig(Blk|Ign)' /proc/self/status", &end);
	ASSERT_STREQ(out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	sigprocmask(SIG_SETMASK, NULL, &block);
	ASSERT_EQ(sigismember(&block, SIGTERM), 1); /* ours is as it was */
	ASSERT_EQ(sigismember(&block, SIGINT), 0);
}

TEST(starts_a_session)
{
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *out = NULL;
	struct child_exit end;

	params.setsid = true;
	out = sh(&params, "set -- $(cat /proc/$$/stat); test $1 = $6 && echo leader", &end);
	ASSERT_STREQ(out, "leader\n");
}

TEST(gives_the_limits_back)
{
	struct child_params params = CHILD_PARAMS_INIT;
	struct rlimit files = {40, 40}, size = {1 << 20, RLIM_INFINITY}, old;
	auto_free char *own = NULL, *fresh = NULL;
	const char *script = "ulimit -S -n; ulimit -S -f; nice";
	char want[64];
	struct child_exit end;

	ASSERT_OK(getrlimit(RLIMIT_FSIZE, &old));
	if (old.rlim_max != RLIM_INFINITY)
		SKIP("no file may grow beyond a limit here");
	ASSERT_OK(setrlimit(RLIMIT_FSIZE, &size));
	files.rlim_max = 50;
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &files));
	own = sh(&params, script, &end);
	snprintf(want, sizeof(want), "40\n2048\n%d\n", getpriority(PRIO_PROCESS, 0));
	ASSERT_STREQ(own, want);
	params.fresh_limits = true;
	fresh = sh(&params, script, &end);
	/* The hard one goes up with CAP_SYS_RESOURCE only. */
	if (strncmp(fresh, "524288\n", 7) != 0)
		ASSERT_STREQ(fresh, "50\nunlimited\n0\n");
	else
		ASSERT_STREQ(fresh + 7, "unlimited\n0\n");
}

TEST(waits_with_a_timeout)
{
	char *argv[] = {(char *)"sleep", (char *)"60", NULL};
	auto(child) struct child child = CHILD_INIT;
	struct child_exit end;
	int64_t before;

	ASSERT_EQ(start(argv, &child, NULL, NULL), 0);
	ASSERT_EQ(child_wait(&child, 0, &end, NULL), 1);
	before = now_mono_ns();
	ASSERT_EQ(child_wait(&child, 30, &end, NULL), 1);
	ASSERT_GE(now_mono_ns() - before, 30 * NS_PER_MS);
	ASSERT_EQ(child_kill(&child, SIGKILL), 0);
	ASSERT_EQ(child_wait(&child, -1, &end, NULL), 0);
	ASSERT_EQ(end.signal, SIGKILL);
	ASSERT_EQ(child_kill(&child, SIGKILL), -ESRCH);
	ASSERT_EQ(child_wait(&child, 0, &end, NULL), BERTH_E_IO);
}

TEST(done_kills_and_reaps)
{
	char *argv[] = {(char *)"sleep", (char *)"60", NULL};
	struct child child = CHILD_INIT;

	ASSERT_EQ(start(argv, &child, NULL, NULL), 0);
	child_done(&child);
	ASSERT_EQ(child.pid, 0);
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
	ASSERT_EQ(errno, ECHILD);
}

TEST(leaves_no_descriptor_behind)
{
	char *bad[] = {(char *)"/no/such", NULL}, *good[] = {(char *)"true", NULL};
	struct child child = CHILD_INIT;
	int before = open("/dev/null", O_RDONLY), after;
	struct child_exit end;

	close(before);
	for (int i = 0; i < 20; i++) {
		ASSERT_LT(start(bad, &child, NULL, NULL), 0);
		ASSERT_EQ(start(good, &child, NULL, NULL), 0);
		ASSERT_EQ(child_wait(&child, 10000, &end, NULL), 0);
	}
	after = open("/dev/null", O_RDONLY);
	ASSERT_EQ(after, before);
}

TEST(fails_cleanly_without_descriptors)
{
	char *argv[] = {(char *)"true", NULL};
	struct rlimit old, few;
	struct berth_error err = BERTH_ERROR_INIT;
	enum child_stage stage = CHILD_STAGE_NONE;
	struct child child = CHILD_INIT;

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 3;
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	ASSERT_EQ(start(argv, &child, &stage, &err), BERTH_E_IO);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0); /* the leak checker wants some, too */
	ASSERT_EQ(stage, CHILD_STAGE_SPAWN);
	ASSERT_EQ(err.sys_errno, EMFILE);
}

TEST(run_moves_more_than_a_pipe_holds)
{
	char *argv[] = {(char *)"cat", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	const size_t len = 5 * 1000 * 1000 + 7;
	auto_free char *in = malloc(len);
	auto_free char *out = NULL;
	auto_free char *errors = NULL;
	size_t out_len = 0, err_len = 1;
	struct child_exit end;

	for (size_t i = 0; i < len; i++)
		in[i] = (char)(i * 2654435761u >> 13);
	params.argv = argv;
	ASSERT_EQ(child_run(&params, in, len, len, 20000, &end, &out, &out_len, &errors, &err_len,
			    NULL),
		  0);
	ASSERT_EQ(end.code, 0);
	ASSERT_EQ(out_len, len);
	ASSERT(memcmp(in, out, len) == 0);
	ASSERT_EQ(err_len, 0);
}

TEST(run_keeps_the_streams_apart)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo o; echo e >&2; exit 3", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *out = NULL;
	auto_free char *errors = NULL;
	struct child_exit end;

	params.argv = argv;
	ASSERT_EQ(child_run(&params, NULL, 0, 2, 10000, &end, &out, NULL, &errors, NULL, NULL), 0);
	ASSERT_STREQ(out, "o\n");
	ASSERT_STREQ(errors, "e\n");
	ASSERT_EQ(end.code, 3);
}

TEST(run_is_bounded_in_bytes)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"printf 12345; exec sleep 60", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	struct berth_error err = BERTH_ERROR_INIT;
	struct child_exit end;
	char *out = NULL;

	params.argv = argv;
	ASSERT_EQ(child_run(&params, NULL, 0, 4, 20000, &end, &out, NULL, NULL, NULL, &err),
		  BERTH_E_TOO_LARGE);
	ASSERT_STREQ(err.message, "sh wrote more than 4 bytes");
	ASSERT_NULL(out);
}

TEST(run_is_bounded_in_time)
{
	char *argv[] = {(char *)"sleep", (char *)"60", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	struct child_exit end;
	int64_t before = now_mono_ns();

	params.argv = argv;
	ASSERT_EQ(child_run(&params, NULL, 0, 4, 50, &end, NULL, NULL, NULL, NULL, NULL),
		  BERTH_E_TIMEOUT);
	ASSERT_LT(now_mono_ns() - before, 10 * NS_PER_SEC);
	ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(run_does_not_wait_for_pipes_held_by_others)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"sleep 60 & echo $!", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	auto_free char *out = NULL;
	struct child_exit end;

	params.argv = argv;
	ASSERT_EQ(child_run(&params, NULL, 0, 100, 20000, &end, &out, NULL, NULL, NULL, NULL), 0);
	ASSERT_EQ(end.code, 0);
	ASSERT_EQ(kill(atoi(out), SIGKILL), 0); /* it was still there */
}

TEST(run_survives_a_child_that_ignores_its_input)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exec <&-; echo done", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	const size_t len = 1 << 20;
	auto_free char *in = calloc(1, len);
	auto_free char *out = NULL;
	struct child_exit end;

	params.argv = argv;
	/* SIGPIPE has its default here: it would end this process. */
	ASSERT_EQ(child_run(&params, in, len, 100, 20000, &end, &out, NULL, NULL, NULL, NULL), 0);
	ASSERT_STREQ(out, "done\n");
}

TEST(names_signals_both_ways)
{
	for (int sig = 1; sig <= 64; sig++) {
		const char *name = signal_name(sig);

		ASSERT_NOT_NULL(name);
		ASSERT_EQ(signal_number(name), sig);
		ASSERT_EQ(signal_number(name + 3), sig);
		if (sig < 32) {
			char want[32];

			snprintf(want, sizeof(want), "SIG%s", sigabbrev_np(sig));
			ASSERT_STREQ(name, sig == SIGIO ? "SIGIO" : want);
		}
	}
	ASSERT_NULL(signal_name(0));
	ASSERT_NULL(signal_name(-1));
	ASSERT_NULL(signal_name(65));
	ASSERT_EQ(signal_number("15"), 15);
	ASSERT_EQ(signal_number("0"), -1);
	ASSERT_EQ(signal_number("65"), -1);
	ASSERT_EQ(signal_number("term"), -1);
	ASSERT_EQ(signal_number(""), -1);
}

TEST_MAIN()
