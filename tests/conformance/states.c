/* SPDX-License-Identifier: MIT */
/*
 * states.c: every state, how it is reached and what it says; exit codes and signals as they were.
 */
#include "conf.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

CASE(exit_codes_0_to_255, RUNS)
{
	struct berth_status st;
	char id[32], what[32];

	for (int code = 0; code < 256; code++) {
		snprintf(id, sizeof(id), "code-%d", code);
		snprintf(what, sizeof(what), "exit %d", code);
		run(id, what, &st);
		ASSERT_EXITED(&st, code);
		ASSERT_STREQ(st.phase, "");
		ASSERT_STREQ(st.resource, "");
	}
}

CASE(every_signal_that_ends, RUNS)
{
	/* What is not ended by its default action. */
	static const int harmless[] = {SIGCHLD, SIGCONT, SIGURG,  SIGWINCH,
				       SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
	struct berth_status st;
	char id[32], what[32];

	for (int signo = 1; signo <= 64; signo++) {
		bool skip = false;

		for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
			skip = skip || harmless[i] == signo;
		if (skip)
			continue;
		snprintf(id, sizeof(id), "sig-%d", signo);
		snprintf(what, sizeof(what), "raise %d", signo);
		run(id, what, &st);
		ASSERT_ENDED(&st, BERTH_EXITED, -1, signo);
	}
}

CASE(codes_that_look_like_signals_are_codes, RUNS)
{
	static const int codes[] = {124, 125, 126, 127, 128, 129, 137, 143, 200, 255};
	struct berth_status st;
	char id[32], what[32];

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		snprintf(id, sizeof(id), "like-%d", codes[i]);
		snprintf(what, sizeof(what), "exit %d", codes[i]);
		run(id, what, &st);
		ASSERT_EXITED(&st, codes[i]);
		ASSERT_STREQ(st.message, "");
	}
}

CASE(signal_names, 0)
{
	static const char *const names[] = {
		"HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",  "FPE",
		"KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM", "STKFLT",
		"CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",  "XCPU",
		"XFSZ", "VTALRM", "PROF", "WINCH", NULL,   "PWR",  "SYS"};
	char full[32], digits[16];

	for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++) {
		if (!names[i])
			continue;
		snprintf(full, sizeof(full), "SIG%s", names[i]);
		snprintf(digits, sizeof(digits), "%d", i + 1);
		ASSERT_STREQ(berth_signal_name(i + 1), full);
		ASSERT_EQ(berth_signal_number(full), i + 1);
		ASSERT_EQ(berth_signal_number(names[i]), i + 1);
		ASSERT_EQ(berth_signal_number(digits), i + 1);
	}
	for (int i = 1; i <= 64; i++) {
		ASSERT_NOT_NULL(berth_signal_name(i));
		ASSERT_EQ(berth_signal_number(berth_signal_name(i)), i);
	}
	ASSERT_EQ(berth_signal_number("SIGNONE"), -1);
	ASSERT_EQ(berth_signal_number(""), -1);
	ASSERT_NOT_NULL(berth_signal_name(0));
	ASSERT_NOT_NULL(berth_signal_name(-3));
	ASSERT_NOT_NULL(berth_signal_name(1000));
}

CASE(state_names, 0)
{
	static const struct {
		int state;
		const char *name;
		bool terminal;
	} t[] = {
		{BERTH_STARTING, "starting", false},
		{BERTH_RUNNING, "running", false},
		{BERTH_EXITED, "exited", true},
		{BERTH_CANCELLED, "cancelled", true},
		{BERTH_TIMED_OUT, "timed_out", true},
		{BERTH_RESOURCE_EXHAUSTED, "resource_exhausted", true},
		{BERTH_FAILED, "failed", true},
		{BERTH_PROVIDER_UNAVAILABLE, "provider_unavailable", false},
		{BERTH_UNKNOWN, "unknown", false},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		ASSERT_STREQ(berth_state_name(t[i].state), t[i].name);
		ASSERT_EQ(berth_state_terminal(t[i].state), t[i].terminal);
	}
	ASSERT_NULL(berth_state_name(0));
	ASSERT_NULL(berth_state_name(99));
}

static int64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

CASE(running_says_what_it_knows, RUNS)
{
	struct berth_status st;
	int64_t before = wall_ms();

	start_ready("running", "ready out two err three pause");
	status_of("running", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT_STREQ(st.id, "running");
	ASSERT_STREQ(st.mode, "worker");
	ASSERT_EQ(st.exit_code, -1);
	ASSERT_EQ(st.signo, 0);
	ASSERT(!st.is_final);
	ASSERT(!st.has_hashes);
	ASSERT_EQ(st.finished_ms, 0);
	ASSERT_GE(st.started_ms, before - 1000);
	ASSERT_LE(st.started_ms, wall_ms() + 1000);
	ASSERT(st.containment[0] != '\0');
	ASSERT(st.view[0] != '\0');
	ASSERT_EQ(strlen(st.artifact), 64u);
	end_it("running");
}

static void want_hash(const char *got, const void *p, size_t n)
{
	XXH128_canonical_t c;
	char text[48];

	XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
	strcpy(text, "xxh3-128:");
	for (size_t i = 0; i < sizeof(c.digest); i++)
		snprintf(text + 9 + 2 * i, 3, "%02x", c.digest[i]);
	ASSERT_STREQ(got, text);
}

CASE(ended_says_everything, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st, again;

	request(&q, "ended", "out hello err wörld eat 8 burnms 50 exit 7");
	q.mode = "job";
	q.no_durable = false;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 7);
	ASSERT(st.is_final && st.has_hashes && st.has_usage);
	ASSERT_STREQ(st.mode, "job");
	ASSERT_GE(st.finished_ms, st.started_ms);
	ASSERT_LE(st.finished_ms, wall_ms() + 1000);
	ASSERT_EQ(st.stdout_bytes, 11u);
	ASSERT_EQ(st.stderr_bytes, 6u);
	want_hash(st.stdout_hash, "helloate 8\n", 11);
	want_hash(st.stderr_hash, "wörld", 6);
	ASSERT_GE(st.user_ms + st.system_ms, 30);
	ASSERT_GT(st.max_rss_bytes, 4 << 20); /* 8 MiB; the kernel counts in batches */
	for (int i = 0; i < 3; i++) {
		status_of("ended", &again);
		ASSERT_MEMEQ(&again, sizeof(again), &st, sizeof(st));
	}
}

CASE(hash_of_nothing, RUNS)
{
	struct berth_status st;

	run("silent", "exit 0", &st);
	ASSERT_EQ(st.stdout_bytes, 0u);
	want_hash(st.stdout_hash, "", 0);
	want_hash(st.stderr_hash, "", 0);
	ASSERT_STREQ(text_out("silent", BERTH_STDOUT), "");
}

CASE(awkward_process_titles, RUNS)
{
	static const char *const titles[] = {"a) R (b", "((", ") Z 1 1", "x y", ")"};
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32], mark[128];

	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++) {
		const char *argv[] = {"./worker", "mark",    mark,    "spawn", "setsid", "{",
				      "title",    titles[i], "up",    "pause", "}",      "title",
				      titles[i],  "ready",   "pause", NULL};

		snprintf(id, sizeof(id), "title-%zu", i);
		snprintf(mark, sizeof(mark), "%s", mark_of(id));
		request(&q, id, "");
		q.command = argv;
		start_request(&q);
		await_ready(id);
		status_of(id, &st);
		ASSERT_EQ(st.state, BERTH_RUNNING);
		cancel(id, 5000, &st);
		ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
		assert_gone(id);
	}
}

CASE(worker_starts_with_clean_signals, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	sigset_t set;

	/* What the caller blocks or ignores is no business of the worker. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	request(&q, "clean-signals", "sigs");
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("clean-signals", BERTH_STDOUT),
		     "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

CASE(worker_has_three_descriptors, RUNS)
{
	struct berth_status st;
	const char *p;
	unsigned n = 0;
	int fds[20];

	/* The caller's open files stay the caller's, CLOEXEC or not. */
	for (int i = 0; i < 20; i++)
		fds[i] = ASSERT_OK(open("/", O_RDONLY));
	run("descriptors", "fds", &st);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	ASSERT_EXITED(&st, 0);
	p = text_out("descriptors", BERTH_STDOUT);
	for (const char *l = p; *l; l = strchr(l, '\n') + 1, n++)
		ASSERT(l[0] >= '0' && l[0] <= '2' && l[1] == ' ');
	ASSERT_EQ(n, 3u);
	ASSERT_CONTAINS(p, "0 /dev/null\n");
	ASSERT_CONTAINS(p, "1 pipe:");
	ASSERT_CONTAINS(p, "2 pipe:");
}

CASE(signal_reaches_the_tree, RUNS)
{
	struct berth_status st;

	start_ready("signalled", "spawn setsid { block USR1 up await USR1 out c } "
				 "block USR1 ready await USR1 reap out p exit 0");
	OK(berth_signal(box(), "signalled", SIGUSR1, &E));
	finish("signalled", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("signalled", BERTH_STDOUT), "Rcp");
	assert_gone("signalled");
}

CASE(signal_that_berth_sent_on_request_is_an_exit, RUNS)
{
	struct berth_status st;

	start_ready("killed", "ready pause");
	OK(berth_signal(box(), "killed", SIGKILL, &E));
	finish("killed", &st);
	ASSERT_ENDED(&st, BERTH_EXITED, -1, SIGKILL);
}

CASE(stopped_is_running, RUNS)
{
	struct berth_status st;

	start_ready("stopped", "ready stop pause");
	await_stopped("stopped");
	status_of("stopped", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	cancel("stopped", 10000, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
	assert_gone("stopped");
}

CASE(no_record_is_not_found, RUNS)
{
	static char buf[16];
	struct berth_status st;
	struct berth_read_result r;
	struct berth_follow f;

	run("some-record", "exit 0", &st);
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.fd_out[BERTH_STDOUT] = 2;
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "nobody", &st, &E));
	ASSERT_CONTAINS(E.message, "nobody");
	FAILS(BERTH_E_NOT_FOUND, berth_wait(box(), "nobody", 1000, &st, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_cancel(box(), "nobody", 0, &st, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_signal(box(), "nobody", SIGTERM, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_remove(box(), "nobody", &E));
	FAILS(BERTH_E_NOT_FOUND, berth_follow(box(), "nobody", &f, &st, &E));
	FAILS(BERTH_E_NOT_FOUND,
	      berth_read(box(), "nobody", BERTH_STDOUT, 0, buf, sizeof(buf), &r, &E));
}

CASE(bad_ids_are_refused, RUNS)
{
	static const char *const bad[] = {"",    ".",    "..", ".x",   "-x",    "_x",  "a/b",
					  "a b", "a\nb", "ä",  "../x", "a\x01", "a:b", "a*"};
	char longest[BERTH_ID_MAX + 2];
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		request(&q, "placeholder", "exit 0");
		q.id = bad[i];
		FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
		FAILS(BERTH_E_INVALID, berth_status(box(), bad[i], &st, &E));
		FAILS(BERTH_E_INVALID, berth_remove(box(), bad[i], &E));
	}
	memset(longest, 'a', sizeof(longest));
	longest[BERTH_ID_MAX + 1] = '\0';
	FAILS(BERTH_E_INVALID, berth_status(box(), longest, &st, &E));
	longest[BERTH_ID_MAX] = '\0';
	longest[1] = '.';
	longest[2] = '_';
	longest[3] = '-';
	longest[4] = 'Z';
	longest[5] = '9';
	run(longest, "exit 3", &st);
	ASSERT_EXITED(&st, 3);
}

CASE(bad_requests_change_nothing, RUNS)
{
	static const char *const empty[] = {NULL};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

#define REFUSED(change)                                                            \
	do {                                                                       \
		request(&q, "refused", "exit 0");                                  \
		change;                                                            \
		FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));           \
		FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "refused", &st, &E)); \
	} while (0)
	run("refused-before", "exit 0", &st);
	REFUSED(q.command = empty);
	REFUSED(q.command = NULL);
	REFUSED(q.dir = NULL);
	REFUSED(q.mode = "daemon");
	REFUSED(q.workdir = "../up");
	REFUSED(q.workdir = "/abs");
	REFUSED(q.workdir = "a/../../b");
	REFUSED(q.timeout_ms = -5);
	REFUSED(q.grace_ms = -7);
	REFUSED(q.startup_timeout_ms = -1);
	REFUSED(q.limits.memory_bytes = -1);
	REFUSED(q.limits.pids = -1);
	REFUSED(q.limits.open_files = -1);
	REFUSED(q.limits.output_bytes = -2);
	run("refused", "exit 0", &st);
	ASSERT_EXITED(&st, 0);
}

CASE(status_as_json, RUNS)
{
	struct berth_status st;
	char *json = NULL;

	run("as-json", "out x raise SEGV", &st);
	OK(berth_status_json(berth_sandbox_name(box()), &st, &json, &E));
	ASSERT_CONTAINS(json, "\"state\":\"exited\"");
	ASSERT_CONTAINS(json, "\"executionId\":\"as-json\"");
	ASSERT_CONTAINS(json, "\"signal\":\"SIGSEGV\"");
	ASSERT_CONTAINS(json, "\"stdoutBytes\":1");
	ASSERT_CONTAINS(json, st.stdout_hash);
	ASSERT_LACKS(json, "exitCode");
	free(json);
	run("as-json-2", "exit 9", &st);
	OK(berth_status_json(berth_sandbox_name(box()), &st, &json, &E));
	ASSERT_CONTAINS(json, "\"exitCode\":9");
	ASSERT_LACKS(json, "\"signal\"");
	ASSERT_LACKS(json, "\"message\"");
	free(json);
}

CASE(outputs_stay_untouched_on_failure, RUNS)
{
	struct berth_status st, before;

	memset(&before, 0x5a, sizeof(before));
	memset(&st, 0x5a, sizeof(st));
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "never-there", &st, &E));
	ASSERT_MEMEQ(&st, sizeof(st), &before, sizeof(before));
}
