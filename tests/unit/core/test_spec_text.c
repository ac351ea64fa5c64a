/* SPDX-License-Identifier: MIT */
/* Sandbox specs as text, handles, and the errors of drivers that lack things. */
#include "tap.h"

#include "core/core.h"
#include "core/provider.h"
#include "torture.h"

static const struct {
	const char *spec;
	const char *why; /* part of the message */
} bad_specs[] = {
	{"", "is not PROVIDER:NAME"},
	{"local", "is not PROVIDER:NAME"},
	{":x", "is not PROVIDER:NAME"},
	{"local:", "is not PROVIDER:NAME"},
	{"local?a=b", "is not PROVIDER:NAME"},
	{"local:-x", "the name \"-x\""},
	{"local:a/b", "the name \"a/b\""},
	{"local:a b", "the name \"a b\""},
	{"local:..", "the name \"..\""},
	{"local:x?a", "\"a\" is not key=value"},
	{"local:x?=b", "\"=b\" is not key=value"},
	{"local:x?a=1&", "\"\" is not key=value"},
	{"local:x?a=1&a=2", "\"a\" is given twice"},
	{"local:x?a=%", "two hexadecimal digits"},
	{"local:x?a=%4", "two hexadecimal digits"},
	{"local:x?a=%zz", "two hexadecimal digits"},
	{"local:x?a=%00", "two hexadecimal digits"},
	{"local:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	 "is not of the form"},
};

TEST(bad_specs_say_why)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_specs); i++) {
		SUBTEST("%s", bad_specs[i].spec)
		{
			struct spec_text t = {0};
			struct berth_error err = BERTH_ERROR_INIT;

			ASSERT_EQ(spec_text_parse(bad_specs[i].spec, &t, &err), BERTH_E_INVALID);
			ASSERT_CONTAINS(err.message, bad_specs[i].why);
			ASSERT_NULL(t.text);
		}
	}
}

TEST(good_specs_are_taken_apart)
{
	auto(spec_text) struct spec_text t = {0};

	ASSERT_EQ(spec_text_parse("local:a.b-c_9?isolation=none&dir=%2fx%26y%3Dz&e=", &t, NULL), 0);
	ASSERT_STREQ(t.provider, "local");
	ASSERT_STREQ(t.name, "a.b-c_9");
	ASSERT_EQ(t.n_pairs, 3u);
	ASSERT_STREQ(spec_text_get(&t, "isolation"), "none");
	ASSERT_STREQ(spec_text_get(&t, "dir"), "/x&y=z");
	ASSERT_STREQ(spec_text_get(&t, "e"), "");
	ASSERT_NULL(spec_text_get(&t, "f"));
	spec_text_done(&t);
	ASSERT_EQ(spec_text_parse("p:x?", &t, NULL), 0);
	ASSERT_EQ(t.n_pairs, 0u);
	spec_text_done(&t);
	ASSERT_EQ(spec_text_parse("p:x?v=a=b%25", &t, NULL), 0);
	ASSERT_STREQ(spec_text_get(&t, "v"), "a=b%");
}

/* ── drivers ────────────────────────────────────────────────────────────────────────────── */

static int handles;

static int mock_attach(const struct berth_sandbox_spec *spec, void **ret, struct berth_error *err)
{
	if (strcmp(spec->name, "refused") == 0)
		return berth_fail(err, BERTH_E_INVALID, "refused");
	handles++;
	*ret = &handles;
	return 0;
}

static void mock_release(void *handle)
{
	if (handle)
		handles--;
}

static int mock_execute(void *h, const char *const *argv, struct berth_execute_io *io, int64_t ms,
			struct berth_error *err)
{
	return berth_fail(err, BERTH_E_UNAVAILABLE, "nobody is there");
}

static int destroys, destroy_fails, destroy_code;

static int mock_destroy(void *h, struct berth_error *err)
{
	if (++destroys <= destroy_fails)
		return berth_fail(err, destroy_code, "attempt %d", destroys);
	return 0;
}

static const struct berth_provider_key mock_keys[] = {{"size", "", true}, {NULL, NULL, false}};
static const struct berth_provider_ops nothing = {
	.abi = BERTH_PROVIDER_ABI,
	.name = "nothing",
	.attach = mock_attach,
	.release = mock_release,
};
static const struct berth_provider_ops mock = {
	.abi = BERTH_PROVIDER_ABI,
	.name = "mock",
	.keys = mock_keys,
	.attach = mock_attach,
	.release = mock_release,
	.execute = mock_execute,
	.destroy = mock_destroy,
};
static const struct berth_provider_ops *const drivers[] = {&nothing, &mock};

static struct berth *context(void)
{
	struct berth *b = NULL;
	struct berth_error err = BERTH_ERROR_INIT;

	if (core_context_new("state", drivers, ARRAY_LEN(drivers), &b, &err) < 0)
		FAIL("%s", err.message);
	return b;
}

static struct berth_sandbox *opened(struct berth *b, const char *spec)
{
	struct berth_sandbox *s = NULL;
	struct berth_error err = BERTH_ERROR_INIT;

	if (berth_sandbox_open(b, spec, NULL, 0, &s, &err) < 0)
		FAIL("%s: %s", spec, err.message);
	return s;
}

TEST(contexts_have_absolute_state)
{
	struct berth *b = context();
	char cwd[PATH_MAX], want[PATH_MAX + 16];

	snprintf(want, sizeof(want), "%s/state", getcwd(cwd, sizeof(cwd)));
	ASSERT_STREQ(berth_state_dir(b), want);
	ASSERT_EQ(access("state", F_OK), -1); /* nothing is made before it has to be */
	ASSERT_STREQ(berth_provider_at(b, 0)->name, "nothing");
	ASSERT_STREQ(berth_provider_at(b, 1)->name, "mock");
	ASSERT_NULL(berth_provider_at(b, 2));
	berth_free(b);
}

TEST(state_comes_from_the_environment)
{
	struct berth *b = NULL;
	struct berth_error err = BERTH_ERROR_INIT;

	setenv("BERTH_STATE", "/a/../b", 1);
	ASSERT_EQ(core_context_new(NULL, NULL, 0, &b, NULL), 0);
	ASSERT_STREQ(berth_state_dir(b), "/b");
	berth_free(b);
	unsetenv("BERTH_STATE");
	setenv("XDG_STATE_HOME", "/xdg", 1);
	ASSERT_EQ(core_context_new(NULL, NULL, 0, &b, NULL), 0);
	ASSERT_STREQ(berth_state_dir(b), "/xdg/berth");
	berth_free(b);
	unsetenv("XDG_STATE_HOME");
	setenv("HOME", "/h", 1);
	ASSERT_EQ(core_context_new(NULL, NULL, 0, &b, NULL), 0);
	ASSERT_STREQ(berth_state_dir(b), "/h/.local/state/berth");
	berth_free(b);
	unsetenv("HOME");
	ASSERT_EQ(core_context_new(NULL, NULL, 0, &b, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "--state");
}

TEST(drivers_are_added_once)
{
	struct berth *b = context();
	struct berth_provider_ops other = mock;
	struct berth_error err = BERTH_ERROR_INIT;

	ASSERT_EQ(berth_provider_add(b, &mock, &err), BERTH_E_CONFLICT);
	ASSERT_CONTAINS(err.message, "\"mock\"");
	other.name = "other";
	other.abi = 99;
	ASSERT_EQ(berth_provider_add(b, &other, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "99");
	other.abi = BERTH_PROVIDER_ABI;
	other.release = NULL;
	ASSERT_EQ(berth_provider_add(b, &other, &err), BERTH_E_INVALID);
	other.release = mock_release;
	ASSERT_EQ(berth_provider_add(b, &other, &err), 0);
	ASSERT_STREQ(berth_provider_at(b, 2)->name, "other");
	berth_free(b);
}

TEST(unknown_names_list_the_known_ones)
{
	struct berth *b = context();
	struct berth_sandbox *s = NULL;
	struct berth_error err = BERTH_ERROR_INIT;

	ASSERT_EQ(berth_sandbox_open(b, "moon:x", NULL, 0, &s, &err), BERTH_E_INVALID);
	ASSERT_STREQ(err.message, "unknown sandbox provider \"moon\" (known: nothing, mock)");
	ASSERT_EQ(berth_sandbox_open(b, "mock:x?color=red", NULL, 0, &s, &err), BERTH_E_INVALID);
	ASSERT_STREQ(err.message,
		     "sandbox provider \"mock\" has no key \"color\" (known: size, dir)");
	ASSERT_EQ(berth_sandbox_open(b, "mock:refused", NULL, 0, &s, &err), BERTH_E_INVALID);
	ASSERT_EQ(berth_sandbox_open(b, "mock:x?dir=/", NULL, 0, &s, &err), BERTH_E_INVALID);
	ASSERT_EQ(berth_sandbox_open(b, "mock:x", "", 0, &s, &err), BERTH_E_INVALID);
	ASSERT_NULL(s);
	ASSERT_EQ(handles, 0);
	berth_free(b);
}

TEST(handles_are_named_and_released)
{
	struct berth *b = context();
	struct berth_sandbox *s = opened(b, "mock:x?size=3");

	ASSERT_EQ(handles, 1);
	ASSERT_STREQ(berth_sandbox_name(s), "mock:x");
	ASSERT_EQ(berth_sandbox_capabilities(s), BERTH_CAP_EXECUTE | BERTH_CAP_DESTROY);
	berth_sandbox_close(s);
	ASSERT_EQ(handles, 0);
	setenv("BERTH_SANDBOX", "mock:env", 1);
	s = opened(b, NULL);
	ASSERT_STREQ(berth_sandbox_name(s), "mock:env");
	berth_sandbox_close(s);
	berth_sandbox_close(NULL);
	berth_free(b);
	berth_free(NULL);
}

TEST(what_a_driver_lacks_is_named)
{
	struct berth *b = context();
	struct berth_sandbox *s = opened(b, "nothing:x");
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st;
	struct berth_provider_info info;
	struct berth_destroy_result d;
	struct berth_execute_io io = {0};
	struct berth_stream stream;
	char text[64];
	int fd;
	bool created;

	ASSERT_EQ(berth_sandbox_require(s, BERTH_CAP_EXECUTE, "worker deploys", &err),
		  BERTH_E_UNSUPPORTED);
	ASSERT_STREQ(err.message, "sandbox provider \"nothing\" does not support execute, which is "
				  "required for worker deploys");
	ASSERT_EQ(berth_sandbox_require(s, BERTH_CAP_PORT_URL, "server deploys", &err),
		  BERTH_E_UNSUPPORTED);
	ASSERT_STREQ(err.message,
		     "sandbox provider \"nothing\" does not support networking (port URLs), "
		     "which is required for server deploys");
	ASSERT_EQ(berth_sandbox_require(s, 0, "anything", &err), 0);
	ASSERT_EQ(berth_status(s, "id", &st, &err), BERTH_E_UNSUPPORTED);
	ASSERT_CONTAINS(err.message, "execute, which is required for worker deploys");
	/* Capability comes before the id. */
	ASSERT_EQ(berth_cancel(s, "/", -7, &st, &err), BERTH_E_UNSUPPORTED);

#define LACKS(call, what)                                                                         \
	do {                                                                                      \
		ASSERT_EQ(call, BERTH_E_UNSUPPORTED);                                             \
		ASSERT_STREQ(err.message, "sandbox provider \"nothing\" does not support " what); \
	} while (0)
	LACKS(berth_sandbox_start(s, &err), "start");
	LACKS(berth_sandbox_stop(s, &err), "stop");
	LACKS(berth_sandbox_info(s, &info, &err), "info");
	LACKS(provider_start(s, &created, &err), "start");
	LACKS(provider_execute(s, NULL, &io, 0, &err), "execute");
	LACKS(provider_open(s, NULL, &stream, &err), "streams");
	LACKS(provider_open_agent(s, "/", &stream, &err), "streams");
	LACKS(provider_open_dir(s, "/", &fd, &err), "direct records");
	LACKS(provider_put_file(s, "/", 0, NULL, 0, &err), "writing files");
	LACKS(provider_port_url(s, 1, text, sizeof(text), &err), "networking (port URLs)");
	LACKS(provider_home(s, text, sizeof(text), &err), "home");
	ASSERT_EQ(berth_sandbox_destroy(s, 0, -1, &d, &err), 0);
	ASSERT_EQ(d.state, BERTH_DESTROY_UNSUPPORTED);
	ASSERT_EQ(d.attempts, 0);
	ASSERT_STREQ(d.message, "sandbox provider \"nothing\" does not support destroy");
	berth_sandbox_close(s);
	berth_free(b);
}

TEST(ids_are_checked_before_anything)
{
	struct berth *b = context();
	struct berth_sandbox *s = opened(b, "mock:x");
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st;

	ASSERT_EQ(berth_status(s, "a/b", &st, &err), BERTH_E_INVALID);
	ASSERT_EQ(berth_wait(s, "", 0, &st, &err), BERTH_E_INVALID);
	ASSERT_EQ(berth_cancel(s, NULL, -1, &st, &err), BERTH_E_INVALID);
	ASSERT_EQ(berth_cancel(s, "ok", -2, &st, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "grace");
	ASSERT_EQ(berth_signal(s, "ok", 0, &err), BERTH_E_INVALID);
	ASSERT_EQ(berth_remove(s, "..", &err), BERTH_E_INVALID);
	berth_sandbox_close(s);
	berth_free(b);
}

TEST(a_sandbox_that_cannot_be_asked_is_a_state)
{
	struct berth *b = context();
	struct berth_sandbox *s = opened(b, "mock:x");
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st;

	ASSERT_EQ(berth_status(s, "id", &st, &err), 0);
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_STREQ(st.message, "nobody is there");
	ASSERT_STREQ(st.provider_state, "unreachable");
	ASSERT_STREQ(st.id, "id");
	ASSERT(!st.is_final);
	ASSERT_EQ(berth_wait(s, "id", -1, &st, &err), 0);
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	ASSERT_EQ(berth_cancel(s, "id", -1, &st, &err), 0);
	ASSERT_EQ(st.state, BERTH_PROVIDER_UNAVAILABLE);
	berth_sandbox_close(s);
	berth_free(b);
}

static const struct {
	const char *name;
	int fails, code, attempts, want_attempts;
	enum berth_destroyed want;
} destroy_cases[] = {
	{"at once", 0, 0, 0, 1, BERTH_DESTROYED},
	{"at the third time", 2, BERTH_E_CONFLICT, 0, 3, BERTH_DESTROYED},
	{"never", 99, BERTH_E_UNAVAILABLE, 0, 3, BERTH_DESTROY_EXHAUSTED},
	{"never in five", 99, BERTH_E_AUTH, 5, 5, BERTH_DESTROY_EXHAUSTED},
	{"gone already", 1, BERTH_E_NOT_FOUND, 0, 1, BERTH_DESTROYED},
};

TEST(destroy_tries_again_and_tells)
{
	struct berth *b = context();
	struct berth_sandbox *s = opened(b, "mock:x");

	for (size_t i = 0; i < ARRAY_LEN(destroy_cases); i++) {
		SUBTEST("%s", destroy_cases[i].name)
		{
			struct berth_destroy_result d = {0};

			destroys = 0;
			destroy_fails = destroy_cases[i].fails;
			destroy_code = destroy_cases[i].code;
			ASSERT_EQ(berth_sandbox_destroy(s, destroy_cases[i].attempts, 0, &d, NULL),
				  0);
			ASSERT_EQ(d.state, destroy_cases[i].want);
			ASSERT_EQ(d.attempts, destroy_cases[i].want_attempts);
			ASSERT_EQ(destroys, destroy_cases[i].want_attempts);
			if (d.state == BERTH_DESTROY_EXHAUSTED)
				ASSERT_CONTAINS(d.message, "attempt");
			else
				ASSERT_STREQ(d.message, "");
		}
	}
	berth_sandbox_close(s);
	berth_free(b);
}

static int open_and_close(void *arg)
{
	struct berth *b = NULL;
	struct berth_sandbox *s = NULL;
	struct berth_error err = BERTH_ERROR_INIT;
	int rc = core_context_new("/state", drivers, ARRAY_LEN(drivers), &b, &err);

	if (rc == 0)
		rc = berth_sandbox_open(b, "mock:x?size=1&dir=a%20b", NULL, 0, &s, &err);
	berth_sandbox_close(s);
	berth_free(b);
	if (handles != 0)
		return 1;
	return rc;
}

TEST(opening_survives_every_missing_allocation)
{
	torture(open_and_close, NULL);
}

TEST_MAIN()
