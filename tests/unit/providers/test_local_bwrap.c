/* SPDX-License-Identifier: MIT */
/* The operations of the local provider over isolation=bwrap, as root, with the real agent. */
#include "localtest.h"

#include <netinet/in.h>

#define SPEC "local:x?net=none"

static struct berth_error err;

static void need(void)
{
	TEST_REQUIRE("root", "not root");
	TEST_REQUIRE("bwrap", "no bubblewrap");
}

TEST(where_it_is)
{
	struct berth_sandbox *s = opened(SPEC, BERTH_OPEN_START), *t = NULL;
	char want[PATH_MAX + 64];
	const char *dir = NULL, *home = NULL;
	struct berth_stream stream;
	int fd = -1;

	need();
	snprintf(want, sizeof(want), "%s/state/local/x/berth", here());
	/* Before it is made as well as after. */
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(sandbox_dir(s, &dir, &err), 0);
		ASSERT_STREQ(dir, want);
		ASSERT_EQ(sandbox_home(s, &home, &err), 0);
		ASSERT_STREQ(home, "/home/user");
		ASSERT_EQ(berth_sandbox_start(s, &err), 0);
	}
	ASSERT_EQ(provider_open_dir(s, dir, &fd, &err), 0);
	ASSERT_EQ(faccessat(fd, "init.sock", F_OK, 0), 0);
	close(fd);
	ASSERT_EQ(provider_open_dir(s, "/srv", &fd, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "--remote-dir");
	ASSERT_EQ(provider_open_agent(s, "/srv", &stream, &err), BERTH_E_INVALID);
	ASSERT_EQ(provider_start_agent(s, "/srv", &err), BERTH_E_INVALID);
	ASSERT_EQ(provider_open_agent(s, dir, &stream, &err), 0);
	berth_stream_close(&stream);
	ASSERT_EQ(berth_sandbox_open(b, SPEC, "elsewhere", 0, &t, &err), 0);
	ASSERT_EQ(berth_sandbox_stop(t, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "--remote-dir");
	berth_sandbox_close(t);
	ASSERT_EQ(berth_sandbox_open(b, "local:x?isolation=bwrap&dir=a", NULL, 0, &t, &err),
		  BERTH_E_INVALID);
	destroyed(s);
}

static const struct {
	const char *name;
	const char *argv[5];
	const char *input;
	int exit_code, signo;
	const char *out;
	bool truncated;
} commands[] = {
	{"exit code", {"sh", "-c", "exit 200"}, NULL, 200, 0, "", false},
	{"signal", {"sh", "-c", "kill -9 $$"}, NULL, -1, 9, "", false},
	{"output", {"printf", "abc"}, NULL, 0, 0, "abc", false},
	{"input", {"cat"}, "xyz", 0, 0, "xyz", false},
	{"no input", {"cat"}, NULL, 0, 0, "", false},
	{"input that nobody reads", {"true"}, "xyz", 0, 0, "", false},
	{"more than fits", {"printf", "12345678901"}, NULL, 0, 0, "1234567890", true},
	{"exactly", {"printf", "1234567890"}, NULL, 0, 0, "1234567890", false},
	{"not found", {"/no/such"}, NULL, 127, 0, "", false},
	{"no program", {"/etc/passwd"}, NULL, 126, 0, "", false},
	{"who it is", {"sh", "-c", "id -u; pwd"}, NULL, 0, 0, "1000\n/home", true},
};

TEST(execute_runs_commands)
{
	struct berth_sandbox *s;
	uint8_t out[10], errs[10];

	need();
	s = started(SPEC);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		SUBTEST("%s", commands[i].name)
		{
			struct berth_execute_io io = {
				.out = out, .out_cap = 10, .err = errs, .err_cap = 10};

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

/* Neither waits for the other. */
TEST(much_in_and_much_out)
{
	enum { N = 8 << 20 };
	struct berth_sandbox *s;
	uint8_t *in, *out;
	struct berth_execute_io io = {.input_len = N, .out_cap = N};

	need();
	s = started(SPEC);
	in = calloc(1, N);
	out = calloc(1, N);
	for (size_t i = 0; i < N; i++)
		in[i] = (uint8_t)(i * 7 + i / 256);
	io.input = in;
	io.out = out;
	if (provider_execute(s, (const char *const[]){"cat", NULL}, &io, 30000, &err) < 0)
		FAIL("%s", err.message);
	ASSERT_EQ(io.out_len, (size_t)N);
	ASSERT_EQ(memcmp(in, out, N), 0);
	free(in);
	free(out);
	destroyed(s);
}

TEST(execute_ends_at_its_time)
{
	struct berth_sandbox *s;
	struct berth_execute_io io = {0};
	char seconds[32];

	need();
	s = started(SPEC);
	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	ASSERT_EQ(provider_execute(
			  s, (const char *const[]){"sh", "-c", "sleep \"$0\"; true", seconds, NULL},
			  &io, 50, &err),
		  BERTH_E_TIMEOUT);
	ASSERT(becomes(seconds, false, 0));
	destroyed(s);
}

TEST(files)
{
	struct berth_sandbox *s;
	struct berth_stream stream;
	struct stat st, home;

	need();
	s = started(SPEC);
	ASSERT_EQ(provider_put_file(s, "/home/user/a/b/file", 0640, "12345", 5, &err), 0);
	ASSERT_OK(stat("state/local/x/home/a/b/file", &st));
	ASSERT_OK(stat("state/local/x/home", &home));
	ASSERT_EQ(st.st_size, 5);
	ASSERT_EQ(st.st_mode & 07777, 0640);
	ASSERT_EQ(st.st_uid, home.st_uid);
	ASSERT_EQ(provider_put_file(s, "/home/user/empty", 0600, "", 0, &err), 0);
	ASSERT_EQ(provider_put_file(s, "relative", 0600, "", 0, &err), BERTH_E_INVALID);
	/* As whom it is written. */
	ASSERT_LT(provider_put_file(s, "/usr/bin/file", 0600, "", 0, &err), 0);
	ASSERT_LT(provider_put_file(s, "/run/berth/file", 0600, "", 0, &err), 0);
	ASSERT_EQ(provider_open(s, (const char *const[]){"cat", NULL}, &stream, &err),
		  BERTH_E_UNSUPPORTED);
	destroyed(s);
}

/* What a connection to a URL's port gives: its first bytes, "" for none. */
static const char *answer(const char *url)
{
	static char buf[64];
	struct sockaddr_in a = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
	ASSERT_OK(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	n = read(fd, buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	close(fd);
	return buf;
}

/* A server of one port that says a word to everyone; on the way out of execute it listens. */
static void serve(struct berth_sandbox *s, const char *port, const char *word)
{
	static const char program[] =
		"import os, socket, sys\n"
		"s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
		"if os.fork(): os._exit(0)\n"
		"[os.close(i) for i in range(3)]\n"
		"while True:\n"
		"    c = s.accept()[0]; c.sendall(sys.argv[2].encode()); c.close()\n";
	const char *const argv[] = {"python3", "-c", program, port, word, NULL};
	struct berth_execute_io io = {0};

	if (provider_execute(s, argv, &io, 10000, &err) < 0)
		FAIL("%s", err.message);
	ASSERT_EQ(io.exit_code, 0);
}

TEST(a_port_is_published_when_it_is_asked_for)
{
	struct berth_sandbox *s;
	char url[64], again[64], later[64];

	need();
	TEST_REQUIRE("python3", "no python3");
	s = started(SPEC "&ports=4111");
	serve(s, "4111", "first");
	serve(s, "8080", "second");
	ASSERT_EQ(provider_port_url(s, 4111, url, sizeof(url), &err), 0);
	ASSERT_STREQ(answer(url), "first");
	if (provider_port_url(s, 8080, later, sizeof(later), &err) < 0)
		FAIL("%s", err.message);
	ASSERT_STREQ(answer(later), "second");
	ASSERT_EQ(provider_port_url(s, 8080, again, sizeof(again), &err), 0);
	ASSERT_STREQ(again, later);
	ASSERT_CONTAINS(info_of(s).ports, "8080=http://127.0.0.1:");
	ASSERT_EQ(provider_port_url(s, 0, url, sizeof(url), &err), BERTH_E_INVALID);
	ASSERT_EQ(provider_port_url(s, 8080, url, 5, &err), BERTH_E_TOO_LARGE);
	ASSERT_EQ(berth_sandbox_stop(s, &err), 0);
	ASSERT_EQ(provider_port_url(s, 8080, url, sizeof(url), &err), BERTH_E_UNAVAILABLE);
	ASSERT_STREQ(info_of(s).ports, "");
	destroyed(s);
}

/* Its number on the host, where it is PID 1 to itself. */
static void kill_walled_init(struct berth_sandbox *s)
{
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);
	const char *dir = NULL;
	int fd;

	ASSERT_EQ(sandbox_dir(s, &dir, &err), 0);
	fd = ASSERT_OK(local_connect(dir, "init.sock"));
	ASSERT_OK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n));
	close(fd);
	ASSERT_GT(peer.pid, 1);
	kill(peer.pid, SIGKILL);
	wait_gone(peer.pid);
	for (int64_t end = deadline_from_ms(10000); local_init_alive(dir); usleep(1000))
		ASSERT_LT(now_mono_ns(), end);
}

TEST(its_init_dies)
{
	struct berth_sandbox *s;
	struct berth_provider_info info;

	need();
	s = started(SPEC);
	kill_walled_init(s);
	info = info_of(s);
	ASSERT_EQ(info.status, BERTH_SANDBOX_ERROR);
	ASSERT_CONTAINS(info.message, "init is gone");
	ASSERT_EQ(berth_sandbox_start(s, &err), 0);
	ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_RUNNING);
	kill_walled_init(s);
	destroyed(s);
}

TEST_TIMEOUT(twenty_starters_make_one, 60)
{
	pid_t pids[20];
	int made = 0;

	need();
	for (int i = 0; i < 20; i++) {
		pids[i] = ASSERT_OK(fork());
		if (pids[i] == 0) {
			struct berth_sandbox *s = opened(SPEC, BERTH_OPEN_START);
			bool created = false;

			_exit(provider_start(s, &created, &err) < 0 ? 8 : created);
		}
	}
	for (int i = 0; i < 20; i++) {
		int status;

		waitpid(pids[i], &status, 0);
		ASSERT(WIFEXITED(status));
		ASSERT_LE(WEXITSTATUS(status), 1);
		made += WEXITSTATUS(status);
	}
	ASSERT_EQ(made, 1);
	destroyed(opened("local:x", 0));
}

TEST_MAIN()
