/* SPDX-License-Identifier: MIT */
/*
 * envargs.c: arguments and environment of every kind arrive as they were given, and nothing else.
 */
#include "conf.h"

/* Runs the worker with these words (after "args") and checks that they came out the same. */
static void args_survive(const char *id, const char *const *words, size_t n)
{
	const char **argv = calloc(n + 3, sizeof(*argv));
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;
	size_t pos = 0, len;
	const char *v;

	ASSERT_NOT_NULL(argv);
	argv[0] = "./worker";
	argv[1] = "args";
	for (size_t i = 0; i < n; i++)
		argv[i + 2] = words[i];
	request(&q, id, "");
	q.command = argv;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of(id, BERTH_STDOUT);
	ASSERT(next_value(&b, &pos, &v, &len));
	ASSERT_MEMEQ(v, len, "./worker", 8);
	for (size_t i = 0; i < n; i++) {
		ASSERT(next_value(&b, &pos, &v, &len));
		ASSERT_MEMEQ(v, len, words[i], strlen(words[i]));
	}
	ASSERT(!next_value(&b, &pos, &v, &len));
	free(b.p);
	free(argv);
}

CASE(awkward_arguments, RUNS)
{
	static const char *const words[] = {
		"",
		" ",
		"\n",
		"a\nb\n",
		"\r\n",
		"\t",
		"'",
		"\"",
		"\\",
		"$HOME",
		"`id`",
		"$(id)",
		";",
		"&",
		"|",
		"*",
		"?",
		"[a]",
		"~",
		"-x",
		"--",
		"--json",
		"=",
		"a=b",
		"ü€😀",
		"\xff\xfe",
		"\x80",
		"\xc3",
		"\x01\x02\x1b[31m",
		"{",
		"}",
		"%s%n",
		"",
		"",
	};

	args_survive("awkward", words, sizeof(words) / sizeof(*words));
}

CASE(every_byte_in_an_argument, RUNS)
{
	char all[256];
	const char *words[] = {all};

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	args_survive("every-byte", words, 1);
}

CASE(one_argument_of_130_kb, RUNS)
{
	char *big = malloc(131072);
	const char *words[] = {big, "after"};

	ASSERT_NOT_NULL(big);
	memset(big, 'B', 131071);
	big[130000] = '\0';
	args_survive("big-130000", words, 2);
	/* The kernel's own limit is 128 KiB with the NUL. */
	big[130000] = 'B';
	big[131071] = '\0';
	args_survive("big-131071", words, 2);
	free(big);
}

CASE(forty_arguments_of_5_kb, RUNS)
{
	char *big[40];

	for (int i = 0; i < 40; i++) {
		big[i] = malloc(5001);
		ASSERT_NOT_NULL(big[i]);
		memset(big[i], 'a' + i % 26, 5000);
		big[i][5000] = '\0';
	}
	args_survive("forty", (const char *const *)big, 40);
	for (int i = 0; i < 40; i++)
		free(big[i]);
}

CASE(many_arguments, RUNS)
{
	static const char *words[20000];

	for (int i = 0; i < 20000; i++)
		words[i] = i % 3 ? "word" : "";
	args_survive("many", words, 20000);
}

CASE(what_the_kernel_would_refuse_is_refused_first, RUNS)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	char *big = malloc(140000), *env = malloc(140000);
	const char *argv[] = {"./worker", "args", big, NULL}, *envv[] = {env, NULL};
	const char **lots = calloc(102, sizeof(*lots));

	ASSERT(big && env && lots);
	run("before-refused", "exit 0", &st);
	memset(big, 'B', 131072);
	big[131072] = '\0';
	request(&q, "too-big", "");
	q.command = argv;
	FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
	ASSERT_CONTAINS(E.message, "argument");
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "too-big", &st, &E));
	memset(env, 'E', 131072);
	memcpy(env, "SECRET=hunter2", 14);
	env[131072] = '\0';
	request(&q, "too-big", "exit 0");
	q.env = envv;
	FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
	ASSERT_CONTAINS(E.message, "SECRET");
	ASSERT_LACKS(E.message, "hunter2");
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "too-big", &st, &E));
	/* Each fits; together they are more than an execve takes. */
	big[130000] = '\0';
	lots[0] = "./worker";
	for (int i = 1; i < 101; i++)
		lots[i] = big;
	request(&q, "too-big", "");
	q.command = lots;
	FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "too-big", &st, &E));
	run("too-big", "exit 0", &st);
	ASSERT_EXITED(&st, 0);
	free(big);
	free(env);
	free(lots);
}

/* ── environment ──────────────────────────────────────────────────────────────────────────── */

static bool env_has(const struct bytes *b, const char *pair)
{
	size_t pos = 0, n;
	const char *v;

	while (next_value(b, &pos, &v, &n)) {
		if (n == strlen(pair) && memcmp(v, pair, n) == 0)
			return true;
	}
	return false;
}
static unsigned env_count(const struct bytes *b, const char *prefix)
{
	size_t pos = 0, n;
	const char *v;
	unsigned found = 0;

	while (next_value(b, &pos, &v, &n))
		found += n >= strlen(prefix) && memcmp(v, prefix, strlen(prefix)) == 0;
	return found;
}

CASE(awkward_values, RUNS)
{
	static const char *const env[] = {
		"EMPTY=", "EQ=a=b=c", "NL=a\nb\n", "QUOTE='\"\\$X`", "UTF8=ü€😀", "RAW=\xff\xfe\x80",
		"_=u",    "_UNDER=1", "lower=x",   "A1=\x01\x1b",    "SPACE=  ", NULL};
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;

	request(&q, "values", "env");
	q.env = env;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of("values", BERTH_STDOUT);
	for (const char *const *e = env; *e; e++) {
		if (!env_has(&b, *e))
			FAIL("%s is missing", *e);
	}
	free(b.p);
}

CASE(fifteen_hundred_variables, RUNS)
{
	static char text[1500][64];
	static const char *env[1501];
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;

	for (int i = 0; i < 1500; i++) {
		snprintf(text[i], sizeof(text[i]), "VARIABLE_%d=value number %d", i, i);
		env[i] = text[i];
	}
	request(&q, "v1500", "env");
	q.env = env;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of("v1500", BERTH_STDOUT);
	ASSERT_EQ(env_count(&b, "VARIABLE_"), 1500u);
	for (int i = 0; i < 1500; i += 73)
		ASSERT(env_has(&b, text[i]));
	free(b.p);
}

CASE(a_value_of_130_kb, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;
	char *big = malloc(131072);
	const char *env[] = {big, NULL};

	ASSERT_NOT_NULL(big);
	memset(big, 'V', 131071);
	memcpy(big, "BIG=", 4);
	big[131071] = '\0';
	request(&q, "v130", "getenv BIG");
	q.env = env;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of("v130", BERTH_STDOUT);
	ASSERT_EQ(b.n, 131067u);
	free(b.p);
	free(big);
}

CASE(bad_names_are_refused, RUNS)
{
	static const char *const bad[] = {"1A=x",  "A-B=x", "=x",    "novalue",
					  "A B=x", "Ä=x",   "A.B=x", ""};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	run("before-names", "exit 0", &st);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *env[] = {"GOOD=1", bad[i], NULL};

		request(&q, "bad-name", "exit 0");
		q.env = env;
		SUBTEST("\"%s\"", bad[i])
		{
			FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
			FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "bad-name", &st, &E));
		}
	}
}

CASE(what_a_worker_sees_without_asking, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;

	setenv("CALLERS_SECRET", "hunter2", 1);
	setenv("BERTH_SOMETHING", "1", 1);
	setenv("LD_PRELOAD_X", "1", 1);
	request(&q, "plain-env", "env");
	q.env = (const char *const[]){"MINE=1", NULL};
	run_request(&q, &st);
	b = output_of("plain-env", BERTH_STDOUT);
	ASSERT_EQ(env_count(&b, "PATH="), 1u);
	ASSERT_EQ(env_count(&b, "HOME=/"), 1u);
	ASSERT_EQ(env_count(&b, "USER="), 1u);
	ASSERT_EQ(env_count(&b, "TMPDIR=/"), 1u);
	ASSERT_EQ(env_count(&b, "LANG=C.UTF-8"), 1u);
	ASSERT(env_has(&b, "MINE=1"));
	ASSERT_EQ(env_count(&b, "CALLERS_SECRET"), 0u);
	ASSERT_EQ(env_count(&b, "BERTH"), 0u);
	ASSERT_EQ(env_count(&b, "LD_PRELOAD_X"), 0u);
	free(b.p);
}

CASE(given_values_win, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;

	request(&q, "win", "env");
	q.env = (const char *const[]){"LANG=de_DE", "HOME=/elsewhere", "TMPDIR=/t", "USER=me",
				      NULL};
	run_request(&q, &st);
	b = output_of("win", BERTH_STDOUT);
	ASSERT(env_has(&b, "LANG=de_DE") && env_has(&b, "HOME=/elsewhere"));
	ASSERT(env_has(&b, "TMPDIR=/t") && env_has(&b, "USER=me"));
	ASSERT_EQ(env_count(&b, "LANG="), 1u);
	ASSERT_EQ(env_count(&b, "HOME="), 1u);
	free(b.p);
	request(&q, "twice", "env");
	q.env = (const char *const[]){"K=first", "K=second", NULL};
	run_request(&q, &st);
	b = output_of("twice", BERTH_STDOUT);
	ASSERT_EQ(env_count(&b, "K="), 1u);
	ASSERT(env_has(&b, "K=second"));
	free(b.p);
}

/* ── secrets ──────────────────────────────────────────────────────────────────────────────── */

static const char *needle;
static unsigned needle_found;
static int look_for_needle(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	static char buf[1 << 20];
	size_t n;

	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	n = slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	if (memmem(buf, n, needle, strlen(needle))) {
		needle_found++;
		DIAG("found in %s", path);
	}
	return 0;
}

CASE(unrecorded_values_are_nowhere, RUNS | BERTH_CAP_DIRECT)
{
	static const char secret[] = "kQ3vT9zWunrecorded";
	struct berth_deploy_request q;
	struct berth_status st;
	char pair[64];
	const char *env[] = {pair, NULL};

	snprintf(pair, sizeof(pair), "TOKEN=%s", secret);
	request(&q, "secretive", "getenv TOKEN");
	q.command = (const char *const[]){"./worker", "mark", "x", "ready", "pause", NULL};
	q.env = env;
	q.no_record_env = true;
	start_request(&q);
	await_ready("secretive");
	needle = secret;
	needle_found = 0;
	nftw(conf.state, look_for_needle, 32, FTW_PHYS);
	ASSERT_EQ(needle_found, 0u);
	/* Nor in anybody's command line. */
	ASSERT_EQ(processes_with(secret, NULL), 0u);
	cancel("secretive", 0, &st);
	nftw(conf.state, look_for_needle, 32, FTW_PHYS);
	ASSERT_EQ(needle_found, 0u);
}

CASE(values_are_not_in_command_lines, RUNS)
{
	static const char secret[] = "kQ3vT9zWrecorded", input[] = "kQ3vT9zWinput";
	struct berth_deploy_request q;
	char pair[64];
	const char *env[] = {pair, NULL};

	snprintf(pair, sizeof(pair), "TOKEN=%s", secret);
	request(&q, "no-argv", "ready pause");
	q.env = env;
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = input;
	q.input_len = sizeof(input);
	start_request(&q);
	await_ready("no-argv");
	ASSERT_EQ(processes_with(secret, NULL), 0u);
	ASSERT_EQ(processes_with(input, NULL), 0u);
	end_it("no-argv");
}
