/* SPDX-License-Identifier: MIT */
/* The tables of verbs and options, and what is suggested for a misspelt word. */
#include "cli/cli.h"
#include "tap.h"

typedef void (*verb_fn)(const struct cli_verb *v);

static void each_verb(const struct cli_verb *v, verb_fn fn)
{
	for (; v->name; v++) {
		fn(v);
		if (v->subs)
			each_verb(v->subs, fn);
	}
}

static void check_option(const struct cli_verb *v, const struct cli_opt *o)
{
	SUBTEST("%s --%s", v ? v->name : "", o->name)
	{
		ASSERT(o->help && *o->help);
		CHECK(o->help[strlen(o->help) - 1] != '.');
		CHECK(o->value != NULL);
		CHECK((o->kind == OPT_FLAG) == (o->arg == NULL));
		CHECK(!o->choices || o->kind == OPT_STRING);
		/* The first table that has the name is the one that is found. */
		CHECK(cli_option(v, o->name, strlen(o->name)) == o);
	}
}

static void check_verb(const struct cli_verb *v)
{
	char letters[64] = "";
	size_t n = 0;

	SUBTEST("%s", v->name)
	{
		CHECK(v->summary && *v->summary && v->args);
		CHECK((v->run == NULL) == (v->subs != NULL));
		CHECK(v->min_args <= v->max_args);
		CHECK(!v->max_args || v->arg_names);
	}
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		if (o->letter)
			letters[n++] = o->letter;
	for (size_t i = 0; v->options && v->options[i]; i++) {
		for (const struct cli_opt *o = v->options[i]; o->name; o++) {
			check_option(v, o);
			if (!o->letter)
				continue;
			CHECK(!memchr(letters, o->letter, n));
			ASSERT(n < sizeof(letters));
			letters[n++] = o->letter;
		}
	}
}

TEST(verbs_and_options_are_well_formed)
{
	each_verb(cli_verbs, check_verb);
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		check_option(NULL, o);
}

static const char *nearest(const char *word)
{
	static const char *const known[] = {"status",          "stop",   "start",
					    "destroy",         "memory", "timeout",
					    "startup-timeout", "ps",     "rm"};
	struct nearest n = {.word = word, .len = strlen(word)};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		nearest_try(&n, known[i]);
	return n.best ? n.best : "";
}

TEST(the_nearest_word)
{
	ASSERT_STREQ(nearest("stauts"), "status");
	ASSERT_STREQ(nearest("memroy"), "memory");
	ASSERT_STREQ(nearest("mem"), "memory");
	ASSERT_STREQ(nearest("timeuot"), "timeout");
	ASSERT_STREQ(nearest("starup-timeout"), "startup-timeout");
	ASSERT_STREQ(nearest("pss"), "ps");
	ASSERT_STREQ(nearest("xyz"), "");
	ASSERT_STREQ(nearest(""), "");
	ASSERT_STREQ(nearest("a-word-that-is-much-longer-than-any-known-one-is"), "");
}

TEST(states_and_exit_codes)
{
	struct berth_status st = {.state = BERTH_EXITED, .exit_code = 7};

	ASSERT_EQ(state_exit_code(&st), 7);
	st.exit_code = -1;
	st.signo = SIGSEGV;
	ASSERT_EQ(state_exit_code(&st), 139);
	st.state = BERTH_RESOURCE_EXHAUSTED;
	st.signo = SIGKILL;
	ASSERT_EQ(state_exit_code(&st), 137);
	st.state = BERTH_TIMED_OUT;
	ASSERT_EQ(state_exit_code(&st), 124);
	st.state = BERTH_UNKNOWN;
	ASSERT_EQ(state_exit_code(&st), 125);
	st.state = BERTH_FAILED;
	ASSERT_EQ(state_exit_code(&st), 125);
	st.exec_errno = ENOENT;
	ASSERT_EQ(state_exit_code(&st), 127);
	st.exec_errno = EACCES;
	ASSERT_EQ(state_exit_code(&st), 126);
	st.exec_errno = ENOEXEC;
	ASSERT_EQ(state_exit_code(&st), 126);
	st.state = BERTH_PROVIDER_UNAVAILABLE;
	ASSERT_EQ(state_exit_code(&st), 5);
}

TEST(what_is_shown_of_an_argument)
{
	char buf[80], longer[200];

	ASSERT_STREQ(cli_shown("word", buf), "word");
	ASSERT_STREQ(cli_shown("TOKEN=secret", buf), "TOKEN=…");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	ASSERT_EQ((int)strspn(cli_shown(longer, buf), "x"), 64);
}

TEST_MAIN()
