/* SPDX-License-Identifier: MIT */
/*
 * roads.c: a road to the sandbox that breaks after every byte count in both directions, stalls, or
 * fails at an operation, while something is deployed (provider fake). Whatever the caller was told,
 * the command ran at most once, and a retry over a whole road launches it or finds it: exactly
 * once.
 *
 * BERTH_FAULT_STEP=N tries every Nth byte count (default 11, begun at BERTH_FAULT_SEED modulo N).
 */
#include "conformance/conf.h"

static unsigned from_env(const char *name, unsigned dflt)
{
	const char *v = getenv(name);

	return v && *v ? (unsigned)strtoul(v, NULL, 10) : dflt;
}

static struct berth_sandbox *road(const char *driver, const char *name, const char *fault)
{
	struct berth_sandbox *s = NULL;
	char spec[256];

	snprintf(spec, sizeof(spec), "%s:%s%s%s", driver, name, *fault ? "?" : "", fault);
	OK(berth_sandbox_open(context(), spec, NULL, BERTH_OPEN_START, &s, &E));
	return s;
}

static void need_fake(const char *driver)
{
	const struct berth_provider_ops *p;

	for (size_t i = 0; (p = berth_provider_at(context(), i)); i++) {
		if (strcmp(p->name, driver) == 0)
			return;
	}
	SKIP("provider %s is not built in", driver);
}

static char count_dir[PATH_MAX];

static size_t ran(const char *id)
{
	char path[PATH_MAX + 64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", count_dir, id);
	return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void road_request(struct berth_deploy_request *q, const char *id)
{
	static char what[PATH_MAX + 128];

	if (!*count_dir) {
		ASSERT_NOT_NULL(getcwd(count_dir, sizeof(count_dir) - 64));
		strcat(count_dir, "/counts");
		ASSERT_OK(mkdir(count_dir, 0777));
	}
	snprintf(what, sizeof(what), "append %s/%s x hashin exit 7", count_dir, id);
	request(q, id, what);
	q->input_kind = BERTH_INPUT_STDIN;
	q->input = "some input";
	q->input_len = 10;
	q->startup_timeout_ms = 2000;
}

/* Deploys over the broken road. Returns what the caller was told: 0 launched or found, else a
 * code. */
static int over_the_broken(const char *driver, const char *name, const char *fault, const char *id,
			   int64_t startup_ms)
{
	struct berth_sandbox *s = road(driver, name, fault);
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	int rc;

	road_request(&q, id);
	q.startup_timeout_ms = startup_ms;
	memset(&r, 0, sizeof(r));
	berth_error_reset(&E);
	rc = berth_deploy(s, &q, &r, &E);
	if (rc < 0)
		ASSERT(E.message[0] != '\0');
	else if (r.status.state == BERTH_FAILED)
		ASSERT(r.status.message[0] != '\0');
	berth_sandbox_close(s);
	return rc < 0 ? rc : r.status.state == BERTH_FAILED ? 1 : 0;
}

static void over_the_whole(const char *driver, const char *name, const char *id, int told)
{
	struct berth_sandbox *s = road(driver, name, "");
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	size_t before = ran(id);
	int rc;

	rc = berth_status(s, id, &st, &E);
	if (rc == BERTH_E_NOT_FOUND) {
		/* No record: then it did not run, and nobody said so. */
		ASSERT_EQ(before, 0u);
		ASSERT_NE(told, 0);
	} else {
		OK(rc);
	}
	road_request(&q, id);
	memset(&r, 0, sizeof(r));
	OK(berth_deploy(s, &q, &r, &E));
	if (rc == 0)
		ASSERT(r.existed);
	OK(berth_wait(s, id, 10000, &st, &E));
	if (st.state == BERTH_FAILED || st.state == BERTH_UNKNOWN) {
		/* It may say that a launch was interrupted, but not while it ran. */
		ASSERT(st.message[0] != '\0');
		ASSERT_EQ(ran(id), 0u);
		OK(berth_remove(s, id, &E));
		OK(berth_deploy(s, &q, &r, &E));
		OK(berth_wait(s, id, 10000, &st, &E));
	}
	ASSERT_EXITED(&st, 7);
	ASSERT_EQ(ran(id), 1u);
	OK(berth_remove(s, id, &E));
	berth_sandbox_close(s);
}

static void destroy_road(const char *driver, const char *name)
{
	struct berth_sandbox *s = road(driver, name, "");
	struct berth_destroy_result r;

	if (berth_sandbox_capabilities(s) & BERTH_CAP_DESTROY) {
		OK(berth_sandbox_destroy(s, 0, -1, &r, &E));
		ASSERT_EQ(r.state, BERTH_DESTROYED);
	}
	berth_sandbox_close(s);
}

/* Cuts after N bytes, N = 0, step, …, until three in a row went through. */
static void cut_everywhere(const char *driver, const char *what, const char *more)
{
	unsigned step = from_env("BERTH_FAULT_STEP", 11), seed = from_env("BERTH_FAULT_SEED", 1);
	unsigned whole = 0, broken = 0, told_not = 0;
	char fault[96], id[64], name[32];

	need_fake(driver);
	snprintf(name, sizeof(name), "cuts-%s", what);
	over_the_whole(driver, name, "first", 1);
	for (unsigned n = seed % step; whole < 3 && n < 200000; n += step) {
		int told;

		snprintf(fault, sizeof(fault), "%s=%u%s", what, n, more);
		snprintf(id, sizeof(id), "cut-%u", n);
		SUBTEST("%s %s%s", driver, fault, "")
		{
			told = over_the_broken(driver, name, fault, id, 2000);
			whole = told == 0 ? whole + 1 : 0;
			broken += told != 0;
			told_not += told != 0 && ran(id) == 1;
			over_the_whole(driver, name, id, told);
		}
		if (tap_.failures > 20)
			FAIL("enough");
	}
	DIAG("%u broken, %u of them had run and were not told", broken, told_not);
	destroy_road(driver, name);
	ASSERT_GT(broken, 3u);
}

TEST_TIMEOUT(cut_from_the_sandbox, 300)
{
	cut_everywhere("fake-stream", "cut", "");
}

TEST_TIMEOUT(cut_to_the_sandbox, 300)
{
	cut_everywhere("fake-stream", "cutup", "");
}

TEST_TIMEOUT(cut_from_the_sandbox_text_only, 300)
{
	cut_everywhere("fake-text", "cut", "");
}

TEST_TIMEOUT(cut_from_the_sandbox_commands_only, 300)
{
	cut_everywhere("fake-exec", "cut", "");
}

/* A first deploy has the agent and the artifact to bring, too. */
TEST_TIMEOUT(cut_on_the_first_deploy, 300)
{
	static const char *const what[] = {"cut", "cutup"};
	unsigned number = 0;

	need_fake("fake-stream");
	for (size_t w = 0; w < 2; w++) {
		for (unsigned n = 1; n < 300000; n = n * 3 / 2 + 7, number++) {
			char fault[64], name[32];
			int told;

			snprintf(fault, sizeof(fault), "%s=%u", what[w], n);
			snprintf(name, sizeof(name), "first-%u", number);
			SUBTEST("%s", fault)
			{
				char id[32];

				snprintf(id, sizeof(id), "first-%u", number);
				told = over_the_broken("fake-stream", name, fault, id, 2000);
				over_the_whole("fake-stream", name, id, told);
			}
			destroy_road("fake-stream", name);
		}
	}
}

TEST_TIMEOUT(a_road_that_goes_silent, 300)
{
	static const char *const faults[] = {"stall=0",   "stall=20",   "stall=120",
					     "stallup=0", "stallup=40", "stallup=300"};
	int i = 0;

	need_fake("fake-stream");
	over_the_whole("fake-stream", "silent", "first", 1);
	for (size_t f = 0; f < sizeof(faults) / sizeof(*faults); f++) {
		char id[32];

		snprintf(id, sizeof(id), "silent-%d", i++);
		SUBTEST("%s", faults[f])
		{
			int64_t t = now_ms();
			int told = over_the_broken("fake-stream", "silent", faults[f], id, 300);

			/* Startup timeout + 5 s for the launch; what comes before it has as
			 * long. */
			ASSERT_LE(now_ms() - t, 13000);
			over_the_whole("fake-stream", "silent", id, told);
		}
	}
	destroy_road("fake-stream", "silent");
}

TEST_TIMEOUT(operations_that_fail, 300)
{
	static const char *const drivers[] = {"fake", "fake-stream", "fake-exec"};
	static const char *const ops_of[] = {"start",    "info",       "execute",
					     "open",     "open_agent", "start_agent",
					     "open_dir", "put_file",   "home"};
	static const char *const errors[] = {"unavailable", "io", "timeout", "internal:after",
					     "unavailable:after"};
	unsigned number = 0, broken = 0;

	need_fake("fake");
	for (size_t d = 0; d < sizeof(drivers) / sizeof(*drivers); d++) {
		over_the_whole(drivers[d], "ops", drivers[d], 1);
		for (size_t o = 0; o < sizeof(ops_of) / sizeof(*ops_of); o++) {
			for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); e++) {
				for (int nth = 1; nth <= 2; nth++, number++) {
					char fault[64], id[32];
					int told;

					snprintf(fault, sizeof(fault), "fail=%s:%d:%s", ops_of[o],
						 nth, errors[e]);
					snprintf(id, sizeof(id), "op-%u", number);
					SUBTEST("%s %s", drivers[d], fault)
					{
						told = over_the_broken(drivers[d], "ops", fault, id,
								       2000);
						broken += told != 0;
						over_the_whole(drivers[d], "ops", id, told);
					}
				}
			}
		}
		destroy_road(drivers[d], "ops");
	}
	DIAG("%u of %u were told", broken, number);
}

TEST_TIMEOUT(destroy_is_tried_again, 60)
{
	struct berth_destroy_result r;
	struct berth_sandbox *s;

	need_fake("fake");
	s = road("fake", "stubborn", "fail=destroy:1,destroy:2");
	OK(berth_sandbox_start(s, &E));
	memset(&r, 0, sizeof(r));
	OK(berth_sandbox_destroy(s, 3, 1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	ASSERT_EQ(r.attempts, 3);
	berth_sandbox_close(s);
	s = road("fake", "stubborn-2", "fail=destroy:0:io");
	OK(berth_sandbox_start(s, &E));
	OK(berth_sandbox_destroy(s, 4, 1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROY_EXHAUSTED);
	ASSERT_EQ(r.attempts, 4);
	ASSERT(r.message[0] != '\0');
	berth_sandbox_close(s);
	destroy_road("fake", "stubborn-2");
	/* Gone is destroyed. */
	s = road("fake", "gone", "fail=destroy:1:not_found");
	OK(berth_sandbox_destroy(s, 1, 1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	berth_sandbox_close(s);
	s = road("fake-bare", "bare", "");
	OK(berth_sandbox_destroy(s, 1, 1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROY_UNSUPPORTED);
	berth_sandbox_close(s);
}

TEST_TIMEOUT(input_needs_a_road_for_it, 60)
{
	struct berth_sandbox *s;
	struct berth_deploy_request q;
	struct berth_deploy_result r;

	need_fake("fake-exec");
	s = road("fake-exec", "noinput", "noinput=1");
	road_request(&q, "no-road");
	FAILS(BERTH_E_UNSUPPORTED, berth_deploy(s, &q, &r, &E));
	ASSERT_CONTAINS(E.message, "cannot carry input");
	ASSERT_EQ(ran("no-road"), 0u);
	berth_sandbox_close(s);
	destroy_road("fake-exec", "noinput");
}

/* Answers that are lost to watchers: the state is asked for again, never made up. */
TEST_TIMEOUT(watching_over_a_road_that_breaks, 120)
{
	struct berth_sandbox *good, *bad;
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	char fault[64];

	need_fake("fake-stream");
	good = road("fake-stream", "watch", "");
	road_request(&q, "watched");
	OK(berth_deploy(good, &q, &r, &E));
	OK(berth_wait(good, "watched", 10000, &st, &E));
	ASSERT_EXITED(&st, 7);
	for (unsigned n = 0; n < 1500; n += 37) {
		static char buf[64];
		struct berth_read_result rr;
		int rc;

		snprintf(fault, sizeof(fault), "cut=%u", n);
		SUBTEST("%s", fault)
		{
			bad = road("fake-stream", "watch", fault);
			memset(&st, 0, sizeof(st));
			rc = berth_status(bad, "watched", &st, &E);
			ASSERT(rc < 0 || st.state == BERTH_PROVIDER_UNAVAILABLE ||
			       (st.state == BERTH_EXITED && st.exit_code == 7));
			rc = berth_wait(bad, "watched", 3000, &st, &E);
			ASSERT(rc < 0 || st.state == BERTH_PROVIDER_UNAVAILABLE ||
			       (st.state == BERTH_EXITED && st.exit_code == 7));
			rc = berth_read(bad, "watched", BERTH_STDOUT, 0, buf, sizeof(buf), &rr, &E);
			ASSERT(rc < 0 || !rr.eof || rr.next_offset == st.stdout_bytes ||
			       !st.is_final);
			berth_sandbox_close(bad);
		}
	}
	berth_sandbox_close(good);
	destroy_road("fake-stream", "watch");
}
