/* SPDX-License-Identifier: MIT */
/*
 * A sandbox that stops itself when it has been idle, and one that expires: what counts as work, what
 * is left, and what the records say. With walls and without.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "run.h"
#include "walled.h"

#define IDLE_MS 400

static struct agent_proc proc;
static struct client c;
static struct state s;
static bool walled;
static int64_t started;

/* Nobody talks to it. */
static void start_quietly(const char *const *options)
{
	struct walled_opts o = {.options = options};

	started = client_now_ms();
	if (walled) {
		TEST_REQUIRE("userns", "a sandbox with walls");
		ASSERT_EQ(walled_start(&proc, "box", &o), 0);
	} else {
		proc = (struct agent_proc){.uid = 0};
		ASSERT_EQ(agent_start(&proc, "plain", options), 0);
	}
}

static void start(const char *const *options)
{
	start_quietly(options);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void start_idle(void)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", IDLE_MS);
	start(ARGV("--idle-ms", number));
}

/* Waits for init to end by itself. How long that took, since its start. */
static int64_t ends(void)
{
	struct pollfd p = {(int)syscall(SYS_pidfd_open, proc.pid, 0u), POLLIN, 0};

	ASSERT_GE(p.fd, 0);
	ASSERT_EQ(poll(&p, 1, 20000), 1);
	close(p.fd);
	ASSERT_EQ(waitpid(proc.pid, NULL, 0), proc.pid);
	proc.pid = -1;
	return client_now_ms() - started;
}

static bool alive(void)
{
	struct pollfd p = {(int)syscall(SYS_pidfd_open, proc.pid, 0u), POLLIN, 0};
	int r = poll(&p, 1, 0);

	close(p.fd);
	return r == 0;
}

static const char *ended(void)
{
	static char word[32];
	char path[300];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/ended", proc.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, word, sizeof(word) - 1);
	word[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return word;
}

/* Another life, without a clock, to ask what the records say. */
static void look_back(void)
{
	client_close(&c);
	if (walled)
		ASSERT_EQ(walled_restart(&proc, NULL), 0);
	else
		ASSERT_EQ(agent_restart(&proc, NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void finish(void)
{
	client_close(&c);
	agent_stop(&proc);
}

#define BOTH(ident, seconds)                                                       \
	static void body_##ident(void);                                            \
	TEST_TIMEOUT(ident, seconds)                                               \
	{                                                                          \
		TEST_REQUIRE("root", "only root gives a user namespace two uids"); \
		for (int i = 0; i < 2; i++)                                        \
			SUBTEST("%s", i ? "walls" : "none")                        \
			{                                                          \
				walled = i;                                        \
				body_##ident();                                    \
			}                                                          \
	}                                                                          \
	static void body_##ident(void)

static void exec_begin(struct client *on, const char *const *argv)
{
	struct wire_w *w = client_begin(on, WIRE_EXEC);

	for (; *argv; argv++)
		wire_w_str(w, WK_ARG, *argv);
	client_end(on);
}

/* ---- idle ---- */

BOTH(an_idle_sandbox_stops, 60)
{
	int64_t t;

	start_idle();
	client_begin(&c, WIRE_INFO);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_IDLE_MS, -1), IDLE_MS);
	ASSERT_EQ(client_int(&c, WK_EXPIRES_MS, -1), -1);
	/* The open stream without a request is no work. */
	t = ends();
	ASSERT_GE(t, IDLE_MS - 1);
	ASSERT_LT(t, IDLE_MS + 5000);
	ASSERT_STREQ(ended(), "idle");
	look_back();
	ASSERT_STREQ(ended(), ""); /* one runs again */
	client_begin(&c, WIRE_INFO);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_IDLE_MS, -1), -1);
	finish();
}

/* Requests put it off, each by the whole time. */
BOTH(requests_are_work, 60)
{
	int64_t last = 0;

	start_idle();
	while (client_now_ms() - started < 3 * IDLE_MS) {
		poll(NULL, 0, IDLE_MS / 4);
		last = client_now_ms();
		client_begin(&c, WIRE_INFO);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_code(&c), 0);
	}
	ASSERT_GE(started + ends(), last + IDLE_MS - 1);
	client_close(&c);
}

/* Nobody asks for anything meanwhile. */
BOTH(an_execution_is_work, 60)
{
	struct opts session = {.kind = WIRE_KIND_SESSION};

	for (int i = 0; i < 2; i++) {
		start_idle();
		ASSERT_EQ(run_launch(&c, i ? "sess" : "exec", i ? &session : NULL,
				     ARGV("/bin/sleep", "1.6"), &s),
			  WIRE_S_RUNNING);
		ASSERT_GE(ends(), 1600 + IDLE_MS - 50);
		ASSERT_STREQ(ended(), "idle");
		look_back();
		ASSERT_EQ(run_status(&c, i ? "sess" : "exec", i ? WIRE_KIND_SESSION : 0, &s),
			  WIRE_S_EXITED);
		ASSERT_EQ(s.st.exit_code, 0);
		finish();
	}
}

BOTH(a_command_is_work, 60)
{
	start_idle();
	exec_begin(&c, ARGV("/bin/sh", "-c", "sleep 1.6; exit 5"));
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 5);
	ASSERT_GE(ends(), 1600 + IDLE_MS - 50);
	client_close(&c);
	/* What it leaves in the background is none. */
	start_idle();
	exec_begin(&c, ARGV("/bin/sh", "-c", "sleep 30 >/dev/null 2>&1 & exit 5"));
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 5);
	ASSERT_LT(ends(), 10000);
	client_close(&c);
}

static pid_t agent_above(pid_t pid)
{
	while (pid > 1 && parent_of(pid) != proc.pid)
		pid = parent_of(pid);
	return pid;
}

/* Whoever was at work and is killed is not at work any more. */
BOTH(the_dead_do_not_work, 60)
{
	char mark[32];
	pid_t pid;

	snprintf(mark, sizeof(mark), "mark-%d-%d", getpid(), walled);
	start_idle();
	exec_begin(&c, ARGV(worker_binary(), "mark", mark, "ready", "pause"));
	ASSERT_EQ(client_call(&c, WIRE_DATA, NULL, NULL), WIRE_DATA);
	ASSERT_EQ(marked(mark, &pid, 1), 1);
	poll(NULL, 0, 2 * IDLE_MS);
	ASSERT(alive());
	ASSERT_OK(kill(agent_above(pid), SIGKILL));
	ASSERT_LT(ends(), 15000);
	ASSERT_STREQ(ended(), "idle");
	ASSERT(marked_until(mark, 0));
	client_close(&c);
	start_idle();
	ASSERT_EQ(run_worker(&c, "x1", NULL, ARGV("mark", mark, "up", "pause"), &s),
		  WIRE_S_RUNNING);
	ASSERT(marked_until(mark, 1));
	marked(mark, &pid, 1);
	poll(NULL, 0, 2 * IDLE_MS);
	ASSERT(alive());
	ASSERT_OK(kill(supervisor_of(pid), SIGKILL));
	ASSERT_LT(ends(), 15000);
	look_back();
	ASSERT_EQ(run_status(&c, "x1", 0, &s), WIRE_S_UNKNOWN);
	finish();
}

static int listener(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT_OK(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	ASSERT_OK(listen(fd, 16));
	return fd;
}

static int port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	ASSERT_OK(getsockname(fd, (struct sockaddr *)&a, &n));
	return ntohs(a.sin_port);
}

/* A connection through a published port, and one by CONNECT: work for as long as they are open,
 * though nothing is said. */
BOTH(an_open_connection_is_work, 60)
{
	int server = listener(), outside = listener(), out, in;
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)port_of(outside)),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char number[16], word[32];
	struct walled_opts o = {.fds = &outside, .n_fds = 1};
	const char *const options[] = {"--idle-ms", number, "--port", word, NULL};

	snprintf(number, sizeof(number), "%d", IDLE_MS);
	/* Without a network namespace of its own, inside is where we are. */
	snprintf(word, sizeof(word), "%d=%d", port_of(server), outside);
	o.options = options;
	started = client_now_ms();
	if (walled) {
		TEST_REQUIRE("userns", "a sandbox with walls");
		ASSERT_EQ(walled_start(&proc, "box", &o), 0);
	} else {
		proc = (struct agent_proc){.uid = 0};
		fcntl(outside, F_SETFD, 0);
		ASSERT_EQ(agent_start(&proc, "plain", options), 0);
	}
	out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(connect(out, (struct sockaddr *)&a, sizeof(a)));
	in = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	ASSERT_GE(in, 0);
	poll(NULL, 0, 3 * IDLE_MS);
	ASSERT(alive());
	close(in);
	close(out);
	ASSERT_GE(ends(), 4 * IDLE_MS - 50);
	ASSERT_STREQ(ended(), "idle");
	start_idle();
	wire_w_int(client_begin(&c, WIRE_CONNECT), WK_PORT, port_of(server));
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), 0);
	in = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	poll(NULL, 0, 3 * IDLE_MS);
	ASSERT(alive());
	close(in);
	client_close(&c);
	ASSERT_GE(ends(), 4 * IDLE_MS - 50);
	close(server);
	close(outside);
}

/* What STOP is told is what the records and DIR/ended say. */
BOTH(a_stop_says_why, 60)
{
	static const char *const causes[] = {"stopped", "idle", "expired"};

	for (int i = 0; i < 3; i++) {
		char id[8];

		start(NULL);
		snprintf(id, sizeof(id), "x%d", i);
		ASSERT_EQ(run_worker(&c, id, NULL, ARGV("up", "pause"), &s), WIRE_S_RUNNING);
		wire_w_str(client_begin(&c, WIRE_STOP), WK_CAUSE, causes[i]);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_code(&c), 0);
		ends();
		ASSERT_STREQ(ended(), causes[i]);
		look_back();
		ASSERT_EQ(run_status(&c, id, 0, &s), WIRE_S_CANCELLED);
		ASSERT_STREQ(s.message, i ? causes[i] : "sandbox stopped");
		finish();
	}
}

/* ---- expiry ---- */

static int64_t wall_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool exists(const char *folder, const char *name)
{
	char path[320];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

BOTH(an_expired_sandbox_ends_for_good, 60)
{
	char number[32], mark[32], file[320];
	int64_t at = wall_now() + 900;
	struct opts soft = {.grace_set = true, .grace_ms = 100};
	FILE *f;

	snprintf(mark, sizeof(mark), "mark-%d-%d", getpid(), walled);
	snprintf(number, sizeof(number), "%lld", (long long)at);
	start(ARGV("--expires-ms", number));
	client_begin(&c, WIRE_INFO);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_EXPIRES_MS, -1), at);
	ASSERT_EQ(client_int(&c, WK_IDLE_MS, -1), -1);
	ASSERT_EQ(run_worker(&c, "x1", &soft,
			     ARGV("mark", mark, "ignore", "TERM", "out", "said", "up", "pause"),
			     &s),
		  WIRE_S_RUNNING);
	exec_begin(&c, ARGV("/bin/sh", "-c",
			    "mkdir -p deep/er; echo x >deep/er/file; ln -s / root; sleep 60 "
			    ">/dev/null 2>&1 & exit 0"));
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_int(&c, WK_EXIT_CODE, -1), 0);
	snprintf(file, sizeof(file), "%s/store/b/content", proc.dir);
	f = fopen(file, "we");
	ASSERT_NOT_NULL(f);
	fclose(f);
	ends();
	ASSERT_GE(wall_now(), at + 100);
	ASSERT_STREQ(ended(), "expired");
	ASSERT_EQ(marked(mark, NULL, 0), 0);
	/* Behind walls home is the sandbox's own; without, it is somebody's. */
	ASSERT_EQ(exists(proc.home, "deep"), !walled);
	ASSERT_EQ(exists(proc.dir, "store"), false);
	ASSERT(exists(proc.dir, "x/x1/journal"));
	ASSERT(exists("/", "etc/passwd"));
	look_back();
	ASSERT_EQ(run_status(&c, "x1", 0, &s), WIRE_S_CANCELLED);
	ASSERT_STREQ(s.message, "expired");
	ASSERT_EQ(s.st.signo, SIGKILL);
	finish();
}

BOTH(expired_before_it_began, 60)
{
	start_quietly(ARGV("--expires-ms", "1"));
	ends();
	ASSERT_STREQ(ended(), "expired");
}

TEST_MAIN()
