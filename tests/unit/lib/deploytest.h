/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_DEPLOYTEST_H
#define BERTH_TESTS_DEPLOYTEST_H
/*
 * For the tests of deploying, relaunching and copying: a real sandbox (local, isolation=none) with
 * its state in the test's own directory, destroyed when the test's process ends.
 */
#include <sys/file.h>

#include <berth/berth.h>

#include "tap.h"

static struct berth *B;
static struct berth_sandbox *S;
static struct berth_error E;

#define OK(call)                                                      \
	do {                                                          \
		int ok_r_ = (call);                                   \
		tap_.checks++;                                        \
		if (ok_r_ != 0)                                       \
			FAIL("%s = %d: %s", #call, ok_r_, E.message); \
	} while (0)
#define FAILS(code, call)                                                                \
	do {                                                                             \
		int fails_r_;                                                            \
		berth_error_reset(&E);                                                   \
		fails_r_ = (call);                                                       \
		if (fails_r_ != (code))                                                  \
			FAIL("%s = %d (%s), wanted " #code, #call, fails_r_, E.message); \
		ASSERT(E.message[0]);                                                    \
	} while (0)

static void sandbox_end(void)
{
	struct berth_destroy_result r;

	if (S)
		berth_sandbox_destroy(S, 3, 50, &r, NULL);
	berth_sandbox_close(S);
	berth_free(B);
}

__attribute__((unused)) static void sandbox(void)
{
	char state[PATH_MAX];

	ASSERT_NOT_NULL(getcwd(state, sizeof(state) - 8));
	strcat(state, "/state");
	OK(berth_new(state, &B, &E));
	OK(berth_sandbox_open(B, "local:t?isolation=none", NULL, BERTH_OPEN_START, &S, &E));
	atexit(sandbox_end);
}

__attribute__((unused)) static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ASSERT_NOT_NULL(f);
	fputs(text, f);
	fclose(f);
}

/* A file's contents as a string; "" when it is not there. */
__attribute__((unused)) static const char *slurp(const char *path)
{
	static char buf[65536];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(buf, 1, sizeof(buf) - 1, f) : 0;

	buf[n] = '\0';
	if (f)
		fclose(f);
	return buf;
}

__attribute__((unused)) static void make_art(void)
{
	ASSERT_OK(mkdir("art", 0755));
	put("art/data", "the data\n");
}

/* The whole of one stream as a string. */
__attribute__((unused)) static const char *output(const char *id, enum berth_output stream)
{
	static char buf[65536];
	struct berth_read_result r;

	OK(berth_read(S, id, stream, 0, buf, sizeof(buf) - 1, &r, &E));
	buf[r.n] = '\0';
	return buf;
}

__attribute__((unused)) static void wait_exit(const char *id, int code)
{
	struct berth_status st;

	OK(berth_wait(S, id, 20000, &st, &E));
	if (st.state != BERTH_EXITED || st.exit_code != code)
		FAIL("%s: state %s, exit code %d, %s: %s; stderr: %s", id,
		     berth_state_name((int)st.state), st.exit_code, st.phase, st.message,
		     output(id, BERTH_STDERR));
}

/* A request of `sh -c SCRIPT` with the usual artifact. */
__attribute__((unused)) static struct berth_deploy_request request(const char *id,
								   const char *script)
{
	static const char *argv[4];
	struct berth_deploy_request q;

	argv[0] = "sh", argv[1] = "-c", argv[2] = script, argv[3] = NULL;
	berth_deploy_request_init(&q);
	q.id = id;
	q.dir = "art";
	q.command = argv;
	return q;
}

#endif
