/* SPDX-License-Identifier: MIT */
/*
 * Streams that break: a driver over the real one cuts the caller's stream to the agent after a
 * number of bytes, at every few of them and in both directions. A deploy comes through and the
 * command runs exactly once.
 */
#include <sys/mman.h>
#include <sys/socket.h>

#include "deploytest.h"

struct cut {
	bool armed;   /* one stream is cut, then no more */
	bool toward;  /* counts what goes to the agent; else what comes */
	bool swallow; /* nothing comes back at all, and nothing is cut */
	long after;
};
static struct cut *cut; /* shared with the relays */
static const struct berth_provider_ops *inner;
static struct berth_provider_ops ops;

static int cut_attach(const struct berth_sandbox_spec *spec, void **ret, struct berth_error *err)
{
	struct berth_sandbox_spec as = *spec;

	as.provider = "local";
	return inner->attach(&as, ret, err);
}

/* One direction's bytes. False: it is over. */
static bool pass(int from, int to, bool counted, bool drop)
{
	char buf[65536];
	size_t want = sizeof(buf);
	ssize_t n;

	if (counted && cut->armed && (long)want > cut->after)
		want = (size_t)cut->after;
	n = want ? read(from, buf, want) : 0;
	if (n > 0 && !drop && write(to, buf, (size_t)n) != n)
		return false;
	if (counted && cut->armed) {
		cut->after -= n;
		if (cut->after <= 0)
			return cut->armed = false;
	}
	return n > 0;
}

static void relay(int caller, int agent)
{
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		struct pollfd p[2] = {{caller, POLLIN, 0}, {agent, POLLIN, 0}};

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents && !pass(caller, agent, cut->toward, false))
			_exit(0);
		if (p[1].revents && !pass(agent, caller, !cut->toward, cut->swallow))
			_exit(0);
	}
}

static int cut_open_agent(void *handle, const char *dir, struct berth_stream *ret,
			  struct berth_error *err)
{
	struct berth_stream s;
	int pair[2], r;

	berth_stream_init(&s);
	r = inner->open_agent(handle, dir, &s, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	if (fork() == 0) {
		close(pair[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(s.rfd, F_SETFL, 0);
		relay(pair[1], s.rfd);
	}
	close(pair[1]);
	berth_stream_close(&s);
	ret->rfd = pair[0];
	ret->wfd = pair[0];
	ret->pidfd = -1;
	return 0;
}

static void cut_sandbox(void)
{
	char state[PATH_MAX];

	cut = mmap(NULL, sizeof(*cut), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(cut != MAP_FAILED);
	ASSERT_NOT_NULL(getcwd(state, sizeof(state) - 8));
	strcat(state, "/state");
	OK(berth_new(state, &B, &E));
	for (size_t i = 0; (inner = berth_provider_at(B, i)) && strcmp(inner->name, "local") != 0;
	     i++)
		;
	ASSERT_NOT_NULL(inner);
	ops = *inner;
	ops.name = "cut";
	ops.attach = cut_attach;
	ops.open_agent = cut_open_agent;
	OK(berth_provider_add(B, &ops, &E));
	OK(berth_sandbox_open(B, "cut:t?isolation=none", NULL, BERTH_OPEN_START, &S, &E));
	atexit(sandbox_end);
	OK(berth_sandbox_start(S, &E));
}

/* A new handle: no stream that is kept from before. */
static void reopen(void)
{
	berth_sandbox_close(S);
	S = NULL;
	OK(berth_sandbox_open(B, "cut:t?isolation=none", NULL, BERTH_OPEN_START, &S, &E));
}

static unsigned lines(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned n = 0;
	int c;

	while (f && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static const char *script(void)
{
	static char text[PATH_MAX + 64];
	char cwd[PATH_MAX];

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(text, sizeof(text), "echo ran >>%s/runs; cat; cat data", cwd);
	return text;
}

/* One deploy with one cut. False when the stream was done before the cut. */
static bool deploy_cut(bool toward, long after, struct berth_deploy_request *q, unsigned *runs)
{
	struct berth_deploy_result r;
	char id[32], data[32];

	reopen();
	snprintf(id, sizeof(id), "%s-%ld", toward ? "to" : "from", after);
	snprintf(data, sizeof(data), "%ld %d\n", after, toward);
	put("art/data", data);
	*cut = (struct cut){.armed = true, .toward = toward, .after = after};
	q->id = id;
	if (berth_deploy(S, q, &r, &E) < 0)
		FAIL("cut %s the agent after %ld bytes: %s", toward ? "to" : "from", after,
		     E.message);
	if (r.status.state == BERTH_FAILED)
		FAIL("cut %s after %ld: failed/%s: %s", toward ? "to" : "from", after,
		     r.status.phase, r.status.message);
	wait_exit(id, 0);
	ASSERT_EQ(lines("runs"), ++*runs);
	ASSERT_CONTAINS(output(id, BERTH_STDOUT), data);
	return !cut->armed;
}

static void cut_everywhere(bool toward, struct berth_deploy_request *q)
{
	unsigned runs = 0;
	long after = 0;

	/* every byte of the first headers, then in steps that hit each field somewhere */
	while (deploy_cut(toward, after, q, &runs)) {
		after += after < 40 ? 1 : 13;
		ASSERT_LT(after, 100000);
	}
	ASSERT_GT(after, 500);
	DIAG("%u deploys, %ld bytes", runs, after);
	berth_sandbox_close(S);
	S = NULL;
	OK(berth_sandbox_open(B, "cut:t", NULL, 0, &S, &E));
}

TEST_TIMEOUT(cut_from_the_agent, 120)
{
	struct berth_deploy_request q;

	cut_sandbox();
	make_art();
	q = request("", script());
	q.no_durable = true;
	cut_everywhere(false, &q);
}

TEST_TIMEOUT(cut_to_the_agent, 120)
{
	struct berth_deploy_request q;

	cut_sandbox();
	make_art();
	q = request("", script());
	q.no_durable = true;
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "the input\n";
	q.input_len = 10;
	cut_everywhere(true, &q);
}

/* An install whose stream is cut is asked for again and made once. */
TEST_TIMEOUT(cut_while_installing, 120)
{
	char cmd[PATH_MAX + 100], cwd[PATH_MAX];
	struct berth_deploy_request q;
	unsigned runs = 0;

	cut_sandbox();
	make_art();
	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(cmd, sizeof(cmd), "echo x >>%s/installs; echo output; echo layer >made", cwd);
	q = request("", script());
	q.no_durable = true;
	q.install = cmd;
	for (long after = 0; deploy_cut(false, after, &q, &runs); after += 97)
		ASSERT_EQ(access("installs", F_OK), 0);
	ASSERT_GT(runs, 4);
}

/* The agent's answer never comes: a typed error that says how to find out, and the truth can be
 * found out. */
TEST_TIMEOUT(no_answer, 30)
{
	struct berth_deploy_request q = request("t1", "sleep 100");
	struct berth_deploy_result r;
	struct berth_status st;
	int64_t from, ms;

	cut_sandbox();
	make_art();
	OK(berth_deploy(S, &q, &r, &E)); /* the artifact is there now */
	q.id = "t2";
	q.startup_timeout_ms = 300;
	reopen();
	*cut = (struct cut){.swallow = true};
	from = tap_now_ms_();
	FAILS(BERTH_E_TIMEOUT, berth_deploy(S, &q, &r, &E));
	ms = tap_now_ms_() - from;
	ASSERT_GE(ms, 5300);
	ASSERT_LT(ms, 8000);
	ASSERT_STREQ(E.hint, "berth status t2");
	ASSERT_CONTAINS(E.message, "may be running");
	*cut = (struct cut){0};
	reopen();
	OK(berth_status(S, "t2", &st, &E));
	ASSERT_EQ(st.state, BERTH_RUNNING);
	/* asking again is safe */
	q.startup_timeout_ms = 0;
	OK(berth_deploy(S, &q, &r, &E));
	ASSERT(r.existed);
}

TEST_MAIN()
