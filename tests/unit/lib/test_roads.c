/* SPDX-License-Identifier: MIT */
/*
 * Every road gives the same answers, and a road that fails gives none: the fake provider's tables
 * over one real sandbox, whole and cut at every few bytes.
 */
#include "deploytest.h"

#include <poll.h>
#include <sys/wait.h>

static const char *const roads[] = {"fake", "fake-stream", "fake-exec", "fake-text"};
#define N_ROADS (sizeof(roads) / sizeof(roads[0]))

static struct berth_sandbox *road(const char *fmt, ...)
{
	struct berth_sandbox *s = NULL;
	char spec[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(spec, sizeof(spec), fmt, args);
	va_end(args);
	OK(berth_sandbox_open(B, spec, NULL, BERTH_OPEN_START, &s, &E));
	return s;
}

/* S is the whole sandbox, with one execution that has ended and one that runs. */
static void begin(void)
{
	const char *const ended[] = {"sh", "-c",
				     "i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); "
				     "done; printf '\\0\\377x' >&2; exit 3",
				     NULL};
	const char *const runs[] = {"sleep", "1000", NULL};
	struct berth_deploy_request req;
	struct berth_deploy_result res;
	struct berth_status st;
	char state[PATH_MAX];

	ASSERT_NOT_NULL(getcwd(state, sizeof(state) - 8));
	strcat(state, "/state");
	OK(berth_new(state, &B, &E));
	S = road("fake:t");
	atexit(sandbox_end);
	ASSERT_OK(mkdir("art", 0755));
	put("art/file", "contents");
	berth_deploy_request_init(&req);
	req.dir = "art";
	req.id = "ended";
	req.command = ended;
	OK(berth_deploy(S, &req, &res, &E));
	OK(berth_wait(S, "ended", 10000, &st, &E));
	req.id = "runs";
	req.command = runs;
	OK(berth_deploy(S, &req, &res, &E));
}

static char *json_of(struct berth_sandbox *s, const char *id)
{
	struct berth_status st;
	char *json = NULL;

	OK(berth_status(s, id, &st, &E));
	OK(berth_status_json("same", &st, &json, &E));
	return json;
}

struct sink_buf {
	char text[3][8192];
	size_t n[3];
};

static int take(void *arg, enum berth_output stream, const void *p, size_t n)
{
	struct sink_buf *x = arg;

	if (x->n[stream] + n > sizeof(x->text[0]))
		return 99;
	memcpy(x->text[stream] + x->n[stream], p, n);
	x->n[stream] += n;
	return 0;
}

static int follow(struct berth_sandbox *s, const char *id, struct sink_buf *x)
{
	struct berth_follow f;
	struct berth_status st;

	memset(x, 0, sizeof(*x));
	berth_follow_init(&f);
	f.data = take;
	f.arg = x;
	return berth_follow(s, id, &f, &st, &E);
}

static int list_ids(void *arg, const struct berth_record *r)
{
	strcat(strcat(strcat(strcat(arg, r->status.id), "="),
		      berth_state_name((int)r->status.state)),
	       r->command[0]);
	return 0;
}

TEST_TIMEOUT(all_roads_tell_the_same, 120)
{
	char *ended, *runs, lists[N_ROADS][256] = {{0}};
	struct sink_buf direct, x;

	begin();
	ended = json_of(S, "ended");
	runs = json_of(S, "runs");
	ASSERT_CONTAINS(ended, "\"exitCode\":3");
	OK(follow(S, "ended", &direct));
	ASSERT_GT(direct.n[1], 1000u);
	ASSERT_MEMEQ(direct.text[2], direct.n[2], "\0\377x", 3);
	for (size_t i = 0; i < N_ROADS; i++) {
		SUBTEST("%s", roads[i])
		{
			struct berth_sandbox *s = road("%s:t", roads[i]);
			struct berth_read_result a, b;
			struct berth_status st;
			char bufa[100], bufb[100], *json = json_of(s, "ended");

			ASSERT_STREQ(json, ended);
			free(json);
			json = json_of(s, "runs");
			ASSERT_STREQ(json, runs);
			free(json);
			OK(follow(s, "ended", &x));
			ASSERT_MEMEQ(x.text[1], x.n[1], direct.text[1], direct.n[1]);
			ASSERT_MEMEQ(x.text[2], x.n[2], direct.text[2], direct.n[2]);
			for (uint64_t at = 0; at < 3000; at += 700) {
				OK(berth_read(S, "ended", BERTH_STDOUT, at, bufa, sizeof(bufa), &a,
					      &E));
				OK(berth_read(s, "ended", BERTH_STDOUT, at, bufb, sizeof(bufb), &b,
					      &E));
				ASSERT_MEMEQ(&b, sizeof(b), &a, sizeof(a));
				ASSERT_MEMEQ(bufb, b.n, bufa, a.n);
			}
			OK(berth_list(s, list_ids, lists[i], &E));
			ASSERT_STREQ(lists[i], lists[0]);
			FAILS(BERTH_E_NOT_FOUND, berth_status(s, "nobody", &st, &E));
			FAILS(BERTH_E_CONFLICT, berth_remove(s, "runs", &E));
			FAILS(BERTH_E_TIMEOUT, berth_wait(s, "runs", 50, &st, &E));
			ASSERT_EQ(st.state, BERTH_RUNNING);
			OK(berth_cancel(s, "ended", 0, &st, &E));
			ASSERT_EQ(st.state, BERTH_EXITED);
			berth_sandbox_close(s);
		}
	}
	free(ended);
	free(runs);
}

TEST_TIMEOUT(every_road_launches_cancels_and_removes, 120)
{
	const char *const runs[] = {"sleep", "1000", NULL};

	begin();
	for (size_t i = 0; i < N_ROADS; i++) {
		SUBTEST("%s", roads[i])
		{
			struct berth_sandbox *s = road("%s:t", roads[i]);
			struct berth_deploy_request req;
			struct berth_deploy_result res;
			struct berth_status st;

			berth_deploy_request_init(&req);
			req.dir = "art";
			req.id = "mine";
			req.command = runs;
			OK(berth_deploy(s, &req, &res, &E));
			ASSERT_EQ(res.status.state, BERTH_RUNNING);
			OK(berth_deploy(s, &req, &res, &E));
			ASSERT(res.existed);
			OK(berth_signal(s, "mine", SIGCONT, &E));
			OK(berth_cancel(s, "mine", 0, &st, &E));
			ASSERT_EQ(st.state, BERTH_CANCELLED);
			ASSERT_EQ(st.signo, SIGKILL);
			FAILS(BERTH_E_CONFLICT, berth_signal(s, "mine", SIGCONT, &E));
			OK(berth_wait(s, "mine", -1, &st, &E));
			OK(berth_remove(s, "mine", &E));
			FAILS(BERTH_E_NOT_FOUND, berth_status(s, "mine", &st, &E));
			berth_sandbox_close(s);
		}
	}
}

/* ── exec ───────────────────────────────────────────────────────────────────────────────── */

/* Runs a command with input; what it wrote is in *out (both streams, after one another, each with
 * its NUL). */
static int run(struct berth_sandbox *s, const char *const *argv, const char *input,
	       char out[2][4096], struct berth_exec_result *res)
{
	struct berth_exec_request req;
	FILE *in = tmpfile(), *to[2] = {tmpfile(), tmpfile()};
	int rc;

	fputs(input, in);
	rewind(in);
	berth_exec_request_init(&req);
	req.command = argv;
	req.stdin_fd = fileno(in);
	req.stdout_fd = fileno(to[0]);
	req.stderr_fd = fileno(to[1]);
	rc = berth_exec(s, &req, res, &E);
	for (int i = 0; i < 2; i++) {
		rewind(to[i]);
		out[i][fread(out[i], 1, 4095, to[i])] = '\0';
		fclose(to[i]);
	}
	fclose(in);
	return rc;
}

TEST_TIMEOUT(every_road_executes, 60)
{
	const char *const cmd[] = {"sh", "-c", "cat; echo err >&2; exit 9", NULL};
	const char *const kill_me[] = {"sh", "-c", "kill -15 $$", NULL};
	const char *const missing[] = {"/no/such", NULL}, *const plain[] = {"/etc/passwd", NULL};

	begin();
	for (size_t i = 0; i < N_ROADS; i++) {
		SUBTEST("%s", roads[i])
		{
			struct berth_sandbox *s = road("%s:t", roads[i]);
			struct berth_exec_result res;
			char out[2][4096];

			OK(run(s, cmd, "typed\n", out, &res));
			ASSERT_EQ(res.exit_code, 9);
			ASSERT_EQ(res.signo, 0);
			ASSERT_STREQ(out[0], "typed\n");
			ASSERT_STREQ(out[1], "err\n");
			OK(run(s, kill_me, "", out, &res));
			ASSERT_EQ(res.exit_code, -1);
			ASSERT_EQ(res.signo, SIGTERM);
			FAILS(BERTH_E_NOT_FOUND, run(s, missing, "", out, &res));
			ASSERT_EQ(E.sys_errno, ENOENT);
			FAILS(BERTH_E_PERM, run(s, plain, "", out, &res));
			ASSERT_EQ(E.sys_errno, EACCES);
			berth_sandbox_close(s);
		}
	}
}

TEST_TIMEOUT(quick_commands_never_hang, 60)
{
	const char *const cmd[] = {"true", NULL};
	struct berth_exec_result res;
	char out[2][4096];

	begin();
	for (int i = 0; i < 300; i++) {
		OK(run(S, cmd, i % 2 ? "x" : "", out, &res));
		ASSERT_EQ(res.exit_code, 0);
	}
}

TEST(without_input_nothing_secret_travels)
{
	const char *const cmd[] = {"echo", "hi", NULL}, *const env[] = {"SECRET=1", NULL};
	struct berth_deploy_request req;
	struct berth_deploy_result res;
	struct berth_exec_request x;
	struct berth_exec_result xres;
	struct berth_sandbox *s;
	struct berth_status st;

	begin();
	s = road("fake-exec:t?noinput=1");
	OK(berth_status(s, "ended", &st, &E));
	ASSERT_EQ(st.state, BERTH_EXITED);
	berth_deploy_request_init(&req);
	req.dir = "art";
	req.id = "never";
	req.command = cmd;
	FAILS(BERTH_E_UNSUPPORTED, berth_deploy(s, &req, &res, &E));
	ASSERT_STREQ(E.message, "sandbox provider \"fake-exec\" cannot carry input");
	FAILS(BERTH_E_NOT_FOUND, berth_status(S, "never", &st, &E));
	berth_exec_request_init(&x);
	x.command = cmd;
	OK(berth_exec(s, &x, &xres, &E));
	x.env = env;
	FAILS(BERTH_E_UNSUPPORTED, berth_exec(s, &x, &xres, &E));
	ASSERT_CONTAINS(E.message, "cannot carry input");
	berth_sandbox_close(s);
}

/* ── cut roads ──────────────────────────────────────────────────────────────────────────── */

/* One question over a road with a fault; true when it came through. Anything but the truth or an
 * error fails the test. */
static bool ask(const char *provider, const char *fault, int n, const char *json,
		const struct sink_buf *direct)
{
	struct berth_sandbox *s = road("%s:t?%s=%d", provider, fault, n);
	struct sink_buf x;
	struct berth_status st;
	bool through = false;
	char *mine = NULL;
	int rc = berth_status(s, "ended", &st, &E);

	if (rc == 0 && st.state != BERTH_PROVIDER_UNAVAILABLE) {
		OK(berth_status_json("same", &st, &mine, &E));
		ASSERT_STREQ(mine, json);
		free(mine);
		through = true;
	} else if (rc < 0) {
		ASSERT_NE(rc, BERTH_E_NOT_FOUND);
		ASSERT_NE(rc, BERTH_E_INTERNAL);
	}
	rc = follow(s, "ended", &x);
	for (int i = 1; i <= 2; i++) {
		ASSERT_LE(x.n[i], direct->n[i]);
		ASSERT_MEMEQ(x.text[i], x.n[i], direct->text[i], x.n[i]);
		if (rc == 0)
			ASSERT_EQ(x.n[i], direct->n[i]);
	}
	through &= rc == 0;
	berth_sandbox_close(s);
	return through;
}

static void cut_everywhere(const char *provider, const char *fault, int step)
{
	char *json;
	struct sink_buf direct;
	int n = 0;

	begin();
	json = json_of(S, "ended");
	OK(follow(S, "ended", &direct));
	while (!ask(provider, fault, n, json, &direct)) {
		n += step;
		ASSERT_LT(n, 100000);
	}
	ASSERT_GT(n, 100);
	free(json);
}

TEST_TIMEOUT(streams_cut_on_the_way_back, 300)
{
	cut_everywhere("fake-stream", "cut", 41);
}

TEST_TIMEOUT(streams_cut_on_the_way_out, 300)
{
	cut_everywhere("fake-stream", "cutup", 1);
}

TEST_TIMEOUT(answers_of_commands_cut, 300)
{
	cut_everywhere("fake-text", "cut", 97);
}

TEST_TIMEOUT(slow_roads_carry_everything, 60)
{
	struct berth_sandbox *s;
	struct sink_buf direct, x;

	begin();
	OK(follow(S, "ended", &direct));
	s = road("fake-stream:t?slow=100000");
	OK(follow(s, "ended", &x));
	ASSERT_MEMEQ(x.text[1], x.n[1], direct.text[1], direct.n[1]);
	berth_sandbox_close(s);
}

TEST_TIMEOUT(a_stalled_road_keeps_to_the_callers_time, 60)
{
	struct berth_sandbox *s;
	struct berth_status st;

	begin();
	s = road("fake-stream:t?stall=0");
	FAILS(BERTH_E_TIMEOUT,
	      berth_wait(s, "runs", 200, &st, &E) == 0 && st.state == BERTH_PROVIDER_UNAVAILABLE
		      ? berth_fail(&E, BERTH_E_TIMEOUT, "unavailable in time")
		      : E.code);
	berth_sandbox_close(s);
}

/* ── failing operations ─────────────────────────────────────────────────────────────────── */

TEST(operations_fail_and_work_again)
{
	struct berth_sandbox *s;
	struct berth_status st;
	struct berth_provider_info info;
	struct berth_destroy_result d;

	begin();
	s = road("fake:t?fail=info:1:auth,open_dir:1:io,open_agent:1");
	FAILS(BERTH_E_AUTH, berth_sandbox_info(s, &info, &E));
	OK(berth_status(s, "nobody", &st, &E) == BERTH_E_IO ? 0 : -1);
	OK(berth_status(s, "ended", &st, &E));
	ASSERT_EQ(st.state, BERTH_EXITED);
	berth_sandbox_close(s);
	s = road("fake:t?fail=info:0:auth");
	OK(berth_status(s, "ended", &st, &E));
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_CONTAINS(st.message, "as the script says");
	berth_sandbox_close(s);
	s = road("fake:t?fail=start:1");
	FAILS(BERTH_E_UNAVAILABLE, berth_sandbox_start(s, &E));
	OK(berth_sandbox_start(s, &E));
	berth_sandbox_close(s);
	s = road("fake:t?fail=destroy:0:auth");
	OK(berth_sandbox_destroy(s, 2, 0, &d, &E));
	ASSERT_EQ(d.state, BERTH_DESTROY_EXHAUSTED);
	ASSERT_EQ(d.attempts, 2);
	berth_sandbox_close(s);
	/* Done, but the answer was lost: the second attempt finds it gone. */
	s = road("fake:t?fail=destroy:1:unavailable:after");
	OK(berth_sandbox_destroy(s, 3, 0, &d, &E));
	ASSERT_EQ(d.state, BERTH_DESTROYED);
	ASSERT_EQ(d.attempts, 2);
	berth_sandbox_close(s);
}

TEST(scripts_are_checked)
{
	static const char *const bad[] = {
		"fail=jump:1",           "fail=start", "fail=start:x", "fail=start:1:boom",
		"fail=start:1:io:later", "cut=x",      "slow=-1"};
	char state[] = "state";

	OK(berth_new(state, &B, &E));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char spec[64];

		snprintf(spec, sizeof(spec), "fake:t?%s", bad[i]);
		FAILS(BERTH_E_INVALID, berth_sandbox_open(B, spec, NULL, 0, &S, &E));
	}
	ASSERT_NULL(S);
	berth_free(B);
}

/* ── sessions ───────────────────────────────────────────────────────────────────────────── */

static int session(struct berth_sandbox *s, const char *name, const char *const *argv, int in,
		   int control, char out[4096], struct berth_exec_result *res)
{
	struct berth_exec_request req;
	FILE *to = tmpfile();
	int rc;

	berth_exec_request_init(&req);
	req.command = argv;
	req.session = name;
	req.attach = argv == NULL;
	req.stdin_fd = in;
	req.control_fd = control;
	req.stdout_fd = fileno(to);
	rc = berth_exec(s, &req, res, &E);
	rewind(to);
	out[fread(out, 1, 4095, to)] = '\0';
	fclose(to);
	return rc;
}

TEST(sessions_outlive_their_callers)
{
	const char *const cmd[] = {"sh", "-c", "echo ready; read line; echo got $line; exit 4",
				   NULL};
	struct berth_exec_control detach = {.what = 'd'}, term = {.what = 's', .a = SIGTERM};
	struct berth_exec_result res;
	struct berth_sandbox *s;
	char out[4096];
	int in[2], control[2];

	begin();
	ASSERT_OK(pipe(control));
	ASSERT_EQ(write(control[1], &detach, sizeof(detach)), (ssize_t)sizeof(detach));
	ASSERT_OK(pipe(in));
	OK(session(S, "one", cmd, in[0], control[0], out, &res));
	ASSERT(res.detached);
	FAILS(BERTH_E_CONFLICT, session(S, "one", cmd, -1, -1, out, &res));
	ASSERT_CONTAINS(E.hint, "--attach one");
	/* Another road, another caller: it has everything from the start, and input goes in. */
	ASSERT_EQ(write(in[1], "hello\n", 6), 6);
	close(in[1]);
	s = road("fake-stream:t");
	OK(session(s, "one", NULL, in[0], -1, out, &res));
	ASSERT_STREQ(out, "ready\ngot hello\n");
	ASSERT_EQ(res.exit_code, 4);
	OK(session(S, "one", NULL, -1, -1, out, &res));
	ASSERT_STREQ(out, "ready\ngot hello\n");
	FAILS(BERTH_E_NOT_FOUND, session(S, "two", NULL, -1, -1, out, &res));
	/* Signals reach it. */
	ASSERT_EQ(write(control[1], &term, sizeof(term)), (ssize_t)sizeof(term));
	OK(session(s, "two", (const char *const[]){"sleep", "1000", NULL}, -1, control[0], out,
		   &res));
	ASSERT_EQ(res.signo, SIGTERM);
	FAILS(BERTH_E_NOT_FOUND,
	      session(S, "three", (const char *const[]){"/no/such", NULL}, -1, -1, out, &res));
	ASSERT_EQ(E.sys_errno, ENOENT);
	berth_sandbox_close(s);
}

TEST(a_terminal_is_left_by_its_keys)
{
	const char *const cmd[] = {"sh", "-c",
				   "stty size; stty -echo; read x; stty size; echo \"<$x>\"", NULL};
	static const char first[] = "ab\x10\x11", second[] = "c\n";
	struct berth_exec_control size[2] = {{.what = 'w', .b = 99}, {.what = 'h', .b = 33}};
	struct berth_exec_request req;
	struct berth_exec_result res;
	char out[4096], path[PATH_MAX + 64];
	FILE *to = tmpfile();
	int in[2], control[2];

	begin();
	ASSERT_OK(pipe(in));
	ASSERT_OK(pipe(control));
	berth_exec_request_init(&req);
	req.command = cmd;
	req.session = "tty";
	req.cols = 80;
	req.rows = 24;
	req.detach_keys = true;
	req.stdin_fd = in[0];
	req.stdout_fd = fileno(to);
	ASSERT_EQ(write(in[1], first, sizeof(first) - 1), (ssize_t)sizeof(first) - 1);
	OK(berth_exec(S, &req, &res, &E));
	ASSERT(res.detached);
	/* The first size is printed before the second one is told. */
	snprintf(path, sizeof(path), "%s/fake/local/t/home/berth/s/tty/stdout", berth_state_dir(B));
	for (int i = 0; !strstr(slurp(path), "24 80"); i++) {
		ASSERT_LT(i, 10000);
		usleep(1000);
	}
	req.attach = true;
	req.control_fd = control[0];
	ASSERT_EQ(write(control[1], size, sizeof(size)), (ssize_t)sizeof(size));
	ASSERT_EQ(write(in[1], second, sizeof(second) - 1), (ssize_t)sizeof(second) - 1);
	OK(berth_exec(S, &req, &res, &E));
	ASSERT_EQ(res.exit_code, 0);
	rewind(to);
	out[fread(out, 1, sizeof(out) - 1, to)] = '\0';
	ASSERT_CONTAINS(out, "24 80");
	ASSERT_CONTAINS(out, "33 99");
	ASSERT_CONTAINS(out, "<abc>");
	fclose(to);
}

TEST(a_reader_that_goes_ends_the_guest)
{
	const char *const cmd[] = {"sh", "-c", "echo $$ >pid; exec cat /dev/zero", NULL};
	struct berth_exec_request req;
	struct berth_exec_result res;
	char path[PATH_MAX + 64];
	struct pollfd p = {.fd = -1, .events = POLLIN};
	int out[2];

	begin();
	signal(SIGPIPE, SIG_DFL);
	ASSERT_OK(pipe(out));
	close(out[0]);
	berth_exec_request_init(&req);
	req.command = cmd;
	req.stdout_fd = out[1];
	FAILS(BERTH_E_IO, berth_exec(S, &req, &res, &E));
	ASSERT_EQ(E.sys_errno, EPIPE);
	snprintf(path, sizeof(path), "%s/fake/local/t/home/pid", berth_state_dir(B));
	p.fd = (int)syscall(SYS_pidfd_open, atoi(slurp(path)), 0);
	if (p.fd >= 0) /* else it is gone already */
		ASSERT_EQ(poll(&p, 1, 10000), 1);
	else
		ASSERT_EQ(errno, ESRCH);
}

TEST(sessions_on_command_roads_have_no_input)
{
	struct berth_exec_result res;
	struct berth_sandbox *s;
	char out[4096];
	int in[2];

	begin();
	s = road("fake-text:t");
	OK(session(s, "one", (const char *const[]){"echo", "hi", NULL}, -1, -1, out, &res));
	ASSERT_STREQ(out, "hi\n");
	ASSERT_OK(pipe(in));
	FAILS(BERTH_E_UNSUPPORTED,
	      session(s, "two", (const char *const[]){"cat", NULL}, in[0], -1, out, &res));
	berth_sandbox_close(s);
}

TEST_MAIN()
