/* SPDX-License-Identifier: MIT */
/* The local provider without walls: its life and its commands, with the real agent. */
#include "localtest.h"

/* ── creation ───────────────────────────────────────────────────────────────────────────── */

TEST(what_is_not_there)
{
	struct berth_sandbox *s = opened("local:x", 0);
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_provider_info info;

	ASSERT_EQ(berth_sandbox_info(s, &info, &err), BERTH_E_NOT_FOUND);
	ASSERT_STREQ(err.message, "no sandbox local:x");
	ASSERT_EQ(berth_sandbox_stop(s, &err), BERTH_E_NOT_FOUND);
	berth_sandbox_close(s);
	s = NULL;
	ASSERT_EQ(berth_sandbox_open(b, "local:x?isolation=moat", NULL, 0, &s, &err),
		  BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "isolation=moat");
	ASSERT_CONTAINS(err.message, "bwrap, none");
	ASSERT_NULL(s);
	ASSERT_EQ(access("state", F_OK), -1);
}

static int note_name(void *arg, const char *spec)
{
	strcat(strcat(arg, spec), " ");
	return 0;
}

TEST(a_life)
{
	struct berth_sandbox *s = opened("local:x?isolation=none", BERTH_OPEN_START), *t;
	struct berth_provider_info info, again;
	struct berth_error err = BERTH_ERROR_INIT;
	struct stat st;
	char names[100] = "";
	bool created = false;

	ASSERT_EQ(provider_start(s, &created, &err), 0);
	ASSERT(created);
	ASSERT_EQ(provider_start(s, &created, &err), 0);
	ASSERT(!created);
	ASSERT(inits(1));
	info = info_of(s);
	ASSERT_EQ(info.status, BERTH_SANDBOX_RUNNING);
	ASSERT_STREQ(info.isolation, "none");
	ASSERT_STREQ(info.net, "host");
	ASSERT_STREQ(info.containment, "subreaper");
	ASSERT(!info.records_protected);
	ASSERT_EQ(strncmp(info.id, "sbx_", 4), 0);
	ASSERT_LE(info.created_ms, now_wall_ms());
	ASSERT_OK(stat("state/local/x/home/berth", &st));
	ASSERT_EQ(st.st_mode & 0777, 0700);
	/* Keys may be left out later. */
	t = opened("local:x", 0);
	again = info_of(t);
	ASSERT_STREQ(again.id, info.id);
	ASSERT_EQ(berth_sandbox_list(b, note_name, names, NULL), 0);
	ASSERT_STREQ(names, "local:x ");
	ASSERT_EQ(berth_sandbox_stop(t, &err), 0);
	ASSERT(inits(0));
	ASSERT_EQ(info_of(t).status, BERTH_SANDBOX_STOPPED);
	ASSERT_EQ(berth_sandbox_stop(t, &err), 0);
	ASSERT_EQ(berth_sandbox_start(t, &err), 0);
	again = info_of(t);
	ASSERT_EQ(again.status, BERTH_SANDBOX_RUNNING);
	ASSERT_STREQ(again.id, info.id);
	berth_sandbox_close(t);
	destroyed(s);
	ASSERT(inits(0));
	ASSERT_EQ(access("state/local/x", F_OK), -1);
	s = opened("local:x", 0);
	destroyed(s); /* gone is destroyed */
}

TEST(a_stopped_one_is_left_alone)
{
	struct berth_sandbox *s = started("local:x?isolation=none"), *quiet, *wake;
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_stream stream;
	struct berth_execute_io io = {0};
	struct berth_status st;
	const char *dir = NULL;

	ASSERT_EQ(berth_sandbox_stop(s, &err), 0);
	quiet = opened("local:x", 0);
	ASSERT_EQ(sandbox_dir(quiet, &dir, &err), 0);
	ASSERT_EQ(provider_open_agent(quiet, dir, &stream, &err), BERTH_E_UNAVAILABLE);
	ASSERT_STREQ(err.message, "the sandbox local:x is stopped");
	ASSERT_EQ(provider_start_agent(quiet, dir, &err), BERTH_E_UNAVAILABLE);
	ASSERT_EQ(provider_execute(quiet, (const char *const[]){"true", NULL}, &io, 0, &err),
		  BERTH_E_UNAVAILABLE);
	ASSERT_EQ(berth_status(quiet, "id", &st, &err), 0);
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_STREQ(st.provider_state, "stopped");
	ASSERT(inits(0));
	wake = opened("local:x", BERTH_OPEN_WAKE);
	ASSERT_EQ(berth_status(wake, "id", &st, &err), BERTH_E_NOT_FOUND);
	ASSERT(inits(1));
	berth_sandbox_close(wake);
	/* Waking never creates. */
	wake = opened("local:other", BERTH_OPEN_WAKE);
	ASSERT_EQ(berth_status(wake, "id", &st, &err), 0);
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_STREQ(st.message, "no sandbox local:other");
	ASSERT_EQ(access("state/local/other", F_OK), -1);
	berth_sandbox_close(wake);
	berth_sandbox_close(quiet);
	destroyed(s);
}

TEST_TIMEOUT(twenty_starters_make_one, 60)
{
	struct berth_sandbox *s;
	pid_t pids[20];
	int made = 0, go[2];
	char byte;

	ASSERT_EQ(fd_pipe(go, 0), 0);
	for (int i = 0; i < 20; i++) {
		pids[i] = ASSERT_OK(fork());
		if (pids[i] == 0) {
			struct berth_error err = BERTH_ERROR_INIT;
			bool created = false;

			close(go[1]);
			s = opened("local:x?isolation=none", BERTH_OPEN_START);
			if (read(go[0], &byte, 1) != 0)
				_exit(9);
			if (provider_start(s, &created, &err) < 0) {
				fprintf(stderr, "# %s\n", err.message);
				_exit(8);
			}
			_exit(created);
		}
	}
	close(go[1]);
	for (int i = 0; i < 20; i++) {
		int status;

		waitpid(pids[i], &status, 0);
		ASSERT(WIFEXITED(status));
		ASSERT_LE(WEXITSTATUS(status), 1);
		made += WEXITSTATUS(status);
	}
	ASSERT_EQ(made, 1);
	ASSERT(inits(1));
	destroyed(opened("local:x", 0));
}

TEST(the_directory_is_fixed_at_creation)
{
	struct berth_sandbox *s = started("local:x?isolation=none&dir=sub/../else"), *t = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_provider_info info;
	const char *dir = NULL;
	char want[PATH_MAX + 64];

	snprintf(want, sizeof(want), "%s/state/local/x/home/else", here());
	ASSERT_EQ(sandbox_dir(s, &dir, &err), 0);
	ASSERT_STREQ(dir, want);
	ASSERT_EQ(access("state/local/x/home/else/init.sock", F_OK), 0);
	t = opened("local:x", 0);
	ASSERT_EQ(sandbox_dir(t, &dir, &err), 0);
	ASSERT_STREQ(dir, want);
	berth_sandbox_close(t);
	t = opened("local:x?dir=other", 0);
	ASSERT_EQ(berth_sandbox_info(t, &info, &err), BERTH_E_CONFLICT);
	ASSERT_CONTAINS(err.message, "dir=");
	berth_sandbox_close(t);
	destroyed(s);
}

TEST(other_directories_are_ended_too)
{
	struct berth_sandbox *s = started("local:x?isolation=none"), *t = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	char outside[PATH_MAX + 16];

	snprintf(outside, sizeof(outside), "%s/outside", here());
	ASSERT_OK(mkdir("outside", 0700));
	ASSERT_EQ(close(ASSERT_OK(open("outside/mine", O_CREAT | O_WRONLY | O_CLOEXEC, 0600))), 0);
	ASSERT_EQ(berth_sandbox_open(b, "local:x", outside, BERTH_OPEN_START, &t, &err), 0);
	begin_session(t, "s", "1000");
	ASSERT_EQ(access("outside/init.sock", F_OK), 0);
	ASSERT_EQ(access("outside/s/s/journal", F_OK), 0);
	/* As if the agent had been brought there by commands. */
	ASSERT_OK(mkdir("outside/agent", 0700));
	ASSERT_EQ(close(ASSERT_OK(open("outside/agent/x", O_CREAT | O_WRONLY | O_CLOEXEC, 0700))),
		  0);
	berth_sandbox_close(t);
	ASSERT(count(here(), false) >= 2);
	ASSERT_EQ(berth_sandbox_stop(s, &err), 0);
	ASSERT(inits(0));
	destroyed(s);
	/* berth's own is gone, the user's file is not. */
	ASSERT_EQ(access("outside/s", F_OK), -1);
	ASSERT_EQ(access("outside/init.lock", F_OK), -1);
	ASSERT_EQ(access("outside/agent", F_OK), -1);
	ASSERT_EQ(access("outside/mine", F_OK), 0);
}

/* Holds dir/init.lock until somebody else has opened it (to ask for it), and says when it does. */
static pid_t dying_init(const char *lock)
{
	int fds[2], fd = ASSERT_OK(open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	char event[512];
	pid_t pid;

	ASSERT_EQ(fd_pipe(fds, 0), 0);
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		int in = inotify_init1(IN_CLOEXEC);

		if (fd_lock(fd, true) < 0 || inotify_add_watch(in, lock, IN_CLOSE) < 0 ||
		    write(fds[1], "x", 1) != 1 || read(in, event, sizeof(event)) <= 0)
			_exit(1);
		_exit(0);
	}
	close(fds[1]);
	ASSERT_EQ(read(fds[0], event, 1), 1);
	close(fds[0]);
	close(fd);
	return pid;
}

TEST(an_init_on_its_way_out_is_followed_by_another)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_stream stream;
	char dir[PATH_MAX + 16], lock[PATH_MAX + 32];
	int status;
	pid_t pid;

	snprintf(dir, sizeof(dir), "%s/other", here());
	snprintf(lock, sizeof(lock), "%s/init.lock", dir);
	ASSERT_OK(mkdir(dir, 0700));
	pid = dying_init(lock);
	if (provider_start_agent(s, dir, &err) < 0)
		FAIL("%s", err.message);
	berth_stream_init(&stream);
	if (provider_open_agent(s, dir, &stream, &err) < 0)
		FAIL("%s", err.message);
	berth_stream_close(&stream);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	destroyed(s);
}

TEST(long_paths_are_no_obstacle)
{
	char part[101] = "";
	struct berth_sandbox *s;
	struct berth_execute_io io = {0};

	memset(part, 'd', 100);
	for (int i = 0; i < 3; i++) {
		ASSERT_OK(mkdir(part, 0700));
		ASSERT_OK(chdir(part));
	}
	s = started("local:x?isolation=none");
	ASSERT_GT(init_pid(s), 1);
	begin_session(s, "s", "1000");
	ASSERT_EQ(provider_execute(s, (const char *const[]){"true", NULL}, &io, 0, NULL), 0);
	destroyed(s);
}

/* ── commands ───────────────────────────────────────────────────────────────────────────── */

static const struct {
	const char *name;
	const char *const argv[4];
	const char *input;
	int exit_code, signo;
	const char *out;
	bool truncated;
} commands[] = {
	{"exit code", {"sh", "-c", "exit 200"}, NULL, 200, 0, "", false},
	{"signal", {"sh", "-c", "kill -9 $$"}, NULL, -1, 9, "", false},
	{"output", {"printf", "abc"}, NULL, 0, 0, "abc", false},
	{"input", {"cat"}, "xyz", 0, 0, "xyz", false},
	{"input that nobody reads", {"true"}, "xyz", 0, 0, "", false},
	{"more than fits", {"printf", "12345678901"}, NULL, 0, 0, "1234567890", true},
	{"exactly", {"printf", "1234567890"}, NULL, 0, 0, "1234567890", false},
	{"not found", {"/no/such"}, NULL, 127, 0, "", false},
	{"no program", {"/etc/passwd"}, NULL, 126, 0, "", false},
	{"a child holds the pipe",
	 {"sh", "-c", "sleep 1000 & printf pid"},
	 NULL,
	 0,
	 0,
	 "pid",
	 false},
};

TEST(execute_runs_commands)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	uint8_t out[10], errs[10];

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		SUBTEST("%s", commands[i].name)
		{
			struct berth_execute_io io = {
				.out = out, .out_cap = 10, .err = errs, .err_cap = 10};
			struct berth_error err = BERTH_ERROR_INIT;

			io.input = commands[i].input;
			io.input_len = io.input ? strlen(io.input) : 0;
			if (provider_execute(s, commands[i].argv, &io, 10000, &err) < 0)
				FAIL("%s", err.message);
			ASSERT_EQ(io.exit_code, commands[i].exit_code);
			ASSERT_EQ(io.signo, commands[i].signo);
			ASSERT_MEMEQ(out, io.out_len, commands[i].out, strlen(commands[i].out));
			ASSERT_EQ(io.out_truncated, commands[i].truncated);
		}
	}
	destroyed(s);
}

TEST(execute_ends_at_its_time)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_execute_io io = {0};
	struct berth_error err = BERTH_ERROR_INIT;
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	ASSERT_EQ(provider_execute(
			  s, (const char *const[]){"sh", "-c", "sleep \"$0\"; true", seconds, NULL},
			  &io, 50, &err),
		  BERTH_E_TIMEOUT);
	ASSERT(becomes(seconds, false, 0));
	destroyed(s);
}

TEST(nothing_of_the_caller_is_seen)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	uint8_t out[4096];
	struct berth_execute_io io = {.out = out, .out_cap = sizeof(out) - 1};

	setenv("SECRET_OF_CALLER", "x", 1);
	ASSERT_EQ(provider_execute(s, (const char *const[]){"env", NULL}, &io, 0, NULL), 0);
	out[io.out_len] = '\0';
	ASSERT_LACKS((char *)out, "SECRET_OF_CALLER");
	ASSERT_LACKS((char *)out, "BERTH");
	ASSERT_CONTAINS((char *)out, "LANG=C.UTF-8");
	ASSERT_CONTAINS((char *)out, "/state/local/x/home\n");
	destroyed(s);
}

TEST(open_is_a_stream_and_closing_ends_it)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_stream stream;
	char buf[8], seconds[32];

	ASSERT_EQ(provider_open(s, (const char *const[]){"cat", NULL}, &stream, NULL), 0);
	ASSERT_EQ(write(stream.wfd, "abc", 3), 3);
	ASSERT_EQ(read(stream.rfd, buf, 3), 3);
	ASSERT_MEMEQ(buf, 3, "abc", 3);
	berth_stream_close(&stream);
	ASSERT_EQ(stream.rfd, -1);
	/* One that does not care is made to end. */
	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	ASSERT_EQ(provider_open(s, (const char *const[]){"sleep", seconds, NULL}, &stream, NULL),
		  0);
	ASSERT(becomes(seconds, false, 1));
	berth_stream_close(&stream);
	ASSERT(becomes(seconds, false, 0));
	destroyed(s);
}

TEST(files_and_ports)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_error err = BERTH_ERROR_INIT;
	char path[PATH_MAX + 32], url[64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/a/b/file", here());
	ASSERT_EQ(provider_put_file(s, path, 0640, "12345", 5, &err), 0);
	ASSERT_OK(stat("a/b/file", &st));
	ASSERT_EQ(st.st_size, 5);
	ASSERT_EQ(st.st_mode & 07777, 0640);
	ASSERT_EQ(provider_put_file(s, "relative", 0600, "", 0, &err), BERTH_E_INVALID);
	ASSERT_EQ(provider_put_file(s, "/", 0600, "", 0, &err), BERTH_E_INVALID);
	ASSERT_EQ(provider_port_url(s, 4111, url, sizeof(url), &err), 0);
	ASSERT_STREQ(url, "http://127.0.0.1:4111");
	ASSERT_EQ(provider_port_url(s, 0, url, sizeof(url), &err), BERTH_E_INVALID);
	ASSERT_EQ(provider_port_url(s, 1, url, 5, &err), BERTH_E_TOO_LARGE);
	destroyed(s);
}

TEST(a_damaged_record_is_told_and_can_be_destroyed)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_provider_info info;
	struct berth_error err = BERTH_ERROR_INIT;

	berth_sandbox_close(s);
	ASSERT_OK(truncate("state/local/x/sandbox", 3));
	s = opened("local:x", 0);
	ASSERT_EQ(berth_sandbox_info(s, &info, &err), BERTH_E_IO);
	ASSERT_CONTAINS(err.message, "damaged");
	destroyed(s);
	ASSERT(inits(0));
	ASSERT_EQ(access("state/local/x", F_OK), -1);
}

TEST_MAIN()
