/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_TAP_H
#define BERTH_TESTS_TAP_H
/*
 * TAP for C test programs. One header, no library.
 *
 *	#include "tap.h"
 *
 *	TEST(appends_bytes)
 *	{
 *		struct strbuf b = …;
 *		ASSERT_EQ(strbuf_add(&b, "x", 1), 0);
 *		ASSERT_STREQ(b.data, "x");
 *	}
 *
 *	TEST_MAIN()
 *
 * Each TEST runs in a child process of its own, in a session of its own, with its own empty
 * temporary directory as the working directory (removed afterwards), under a deadline of 30 seconds
 * (TEST_TIMEOUT(name, seconds) sets another). A crash, an exit, a deadline or a failed assertion is
 * "not ok" for that test alone; what it started and left in its process group is killed. A test
 * ends at its first failed ASSERT; CHECK_… note the failure and go on. Without any assertion that
 * was reached, a test fails: nothing can pass by accident.
 *
 * SUBTEST("%s", name) { … } inside a test prints one point of its own, so that a table of cases
 * shows which ones failed; a failed ASSERT inside ends that subtest only.
 *
 * SKIP("why") ends the test as skipped. TEST_REQUIRE(name, "why") skips unless the prerequisite
 * @name was found (tests/prereq.sh); with BERTH_REQUIRE naming it, its absence is a failure.
 *
 * Arguments: names of tests to run (all when none), -l lists them, -n runs them in this process
 * (for a debugger; no deadline).
 */
#if defined(__GNUC__) && !defined(__clang__)
/* A local that a subtest does not change keeps its value over siglongjmp; gcc cannot tell. */
#pragma GCC diagnostic ignored "-Wclobbered"
#endif

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void (*tap_fn)(void);

struct tap_test {
	const char *name;
	tap_fn fn;
	int timeout_s;
	struct tap_test *next;
};

/* What a test's child tells its parent, in shared form over a pipe: lines of text. */
static struct {
	struct tap_test *first, **last;
	FILE *report;      /* in the child: where points go */
	unsigned checks;   /* assertions reached in this test */
	unsigned failures; /* failed ones */
	bool in_subtest;
	char subtest[256];
	unsigned sub_failures;
	sigjmp_buf sub_jump, test_jump;
	bool skipped;
	char skip_why[256];
} tap_ = {.last = &tap_.first};

#define TEST_TIMEOUT(ident, seconds)                                                     \
	static void test_##ident(void);                                                  \
	__attribute__((constructor)) static void tap_register_##ident(void)              \
	{                                                                                \
		static struct tap_test tap_t_ = {#ident, test_##ident, (seconds), NULL}; \
		*tap_.last = &tap_t_;                                                    \
		tap_.last = &tap_t_.next;                                                \
	}                                                                                \
	static void test_##ident(void)
#define TEST(ident) TEST_TIMEOUT(ident, 30)

__attribute__((format(printf, 1, 2), unused)) static void tap_diag(const char *fmt, ...)
{
	char buf[4096];
	va_list args;
	char *line, *save = NULL;

	va_start(args, fmt);
	vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		fprintf(tap_.report, "# %s\n", line);
	fflush(tap_.report);
}
#define DIAG(...) tap_diag(__VA_ARGS__)

__attribute__((unused)) static void tap_fail_(void)
{
	tap_.failures++;
	tap_.sub_failures++;
}

__attribute__((noreturn, unused)) static void tap_stop_(void)
{
	if (tap_.in_subtest)
		siglongjmp(tap_.sub_jump, 1);
	siglongjmp(tap_.test_jump, 1);
}

/* Prints bytes so that any value can be told from any other. */
__attribute__((unused)) static const char *tap_quote_(const void *bytes, size_t len, char *buf,
						      size_t size)
{
	const unsigned char *p = bytes;
	size_t o = 0;

	if (!p)
		return "NULL";
	buf[o++] = '"';
	for (size_t i = 0; i < len; i++) {
		if (o + 16 > size) {
			o += (size_t)snprintf(buf + o, size - o, "\"…");
			return buf;
		}
		if (p[i] == '"' || p[i] == '\\')
			o += (size_t)snprintf(buf + o, size - o, "\\%c", p[i]);
		else if (p[i] >= 0x20 && p[i] < 0x7f)
			buf[o++] = (char)p[i];
		else
			o += (size_t)snprintf(buf + o, size - o, "\\x%02x", p[i]);
	}
	buf[o++] = '"';
	buf[o] = '\0';
	return buf;
}

__attribute__((unused)) static bool tap_check_(bool ok, const char *file, int line,
					       const char *text)
{
	tap_.checks++;
	if (!ok) {
		tap_fail_();
		tap_diag("%s:%d: failed: %s", file, line, text);
	}
	return ok;
}

__attribute__((unused)) static bool tap_check_int_(intmax_t a, const char *op, intmax_t b, bool ok,
						   const char *file, int line, const char *ta,
						   const char *tb)
{
	tap_.checks++;
	if (!ok) {
		tap_fail_();
		tap_diag("%s:%d: failed: %s %s %s\n  left:  %jd (0x%jx)\n  right: %jd (0x%jx)",
			 file, line, ta, op, tb, a, (uintmax_t)a, b, (uintmax_t)b);
	}
	return ok;
}

__attribute__((unused)) static bool tap_check_mem_(const void *a, size_t na, const void *b,
						   size_t nb, bool want_equal, const char *file,
						   int line, const char *ta, const char *tb)
{
	char qa[600], qb[600];
	bool equal = (!a || !b) ? a == b : na == nb && memcmp(a, b, na) == 0;

	tap_.checks++;
	if (equal == want_equal)
		return true;
	tap_fail_();
	tap_diag("%s:%d: failed: %s %s %s\n  left:  %s (%zu bytes)\n  right: %s (%zu bytes)", file,
		 line, ta, want_equal ? "equals" : "differs from", tb,
		 tap_quote_(a, na, qa, sizeof(qa)), na, tap_quote_(b, nb, qb, sizeof(qb)), nb);
	return false;
}

__attribute__((unused)) static bool tap_check_has_(const char *hay, const char *needle,
						   bool want_in, const char *file, int line,
						   const char *text)
{
	char qa[2000], qb[600];
	bool in = hay && strstr(hay, needle);

	tap_.checks++;
	if (in == want_in)
		return true;
	tap_fail_();
	tap_diag("%s:%d: failed: %s %s %s\n  text: %s", file, line, text,
		 want_in ? "contains" : "does not contain",
		 tap_quote_(needle, strlen(needle), qb, sizeof(qb)),
		 tap_quote_(hay, hay ? strlen(hay) : 0, qa, sizeof(qa)));
	return false;
}

/* Each argument is evaluated once. CHECK… go on after a failure, ASSERT… end the (sub)test. */
#define TAP_OR_STOP_(check) ((check) ? (void)0 : tap_stop_())
#define TAP_INT_(a, op, b)                                                                        \
	__extension__({                                                                           \
		__typeof__(a) tap_a_ = (a);                                                       \
		__typeof__(b) tap_b_ = (b);                                                       \
		intmax_t tap_ia_ = (intmax_t)tap_a_, tap_ib_ = (intmax_t)tap_b_;                  \
		tap_check_int_(tap_ia_, #op, tap_ib_, tap_ia_ op tap_ib_, __FILE__, __LINE__, #a, \
			       #b);                                                               \
	})
#define TAP_STR_(a, b, equal)                                                                   \
	__extension__({                                                                         \
		const char *tap_a_ = (a), *tap_b_ = (b);                                        \
		tap_check_mem_(tap_a_, tap_a_ ? strlen(tap_a_) : 0, tap_b_,                     \
			       tap_b_ ? strlen(tap_b_) : 0, equal, __FILE__, __LINE__, #a, #b); \
	})

#define CHECK(cond)       ((void)tap_check_((cond) ? true : false, __FILE__, __LINE__, #cond))
#define CHECK_EQ(a, b)    ((void)TAP_INT_(a, ==, b))
#define CHECK_STREQ(a, b) ((void)TAP_STR_(a, b, true))
#define CHECK_MEMEQ(a, na, b, nb) \
	((void)tap_check_mem_(a, na, b, nb, true, __FILE__, __LINE__, #a, #b))
#define ASSERT(cond)       TAP_OR_STOP_(tap_check_((cond) ? true : false, __FILE__, __LINE__, #cond))
#define ASSERT_EQ(a, b)    TAP_OR_STOP_(TAP_INT_(a, ==, b))
#define ASSERT_NE(a, b)    TAP_OR_STOP_(TAP_INT_(a, !=, b))
#define ASSERT_LT(a, b)    TAP_OR_STOP_(TAP_INT_(a, <, b))
#define ASSERT_LE(a, b)    TAP_OR_STOP_(TAP_INT_(a, <=, b))
#define ASSERT_GT(a, b)    TAP_OR_STOP_(TAP_INT_(a, >, b))
#define ASSERT_GE(a, b)    TAP_OR_STOP_(TAP_INT_(a, >=, b))
#define ASSERT_STREQ(a, b) TAP_OR_STOP_(TAP_STR_(a, b, true))
#define ASSERT_STRNE(a, b) TAP_OR_STOP_(TAP_STR_(a, b, false))
#define ASSERT_MEMEQ(a, na, b, nb) \
	TAP_OR_STOP_(tap_check_mem_(a, na, b, nb, true, __FILE__, __LINE__, #a, #b))
#define ASSERT_CONTAINS(hay, needle) \
	TAP_OR_STOP_(tap_check_has_(hay, needle, true, __FILE__, __LINE__, #hay))
#define ASSERT_LACKS(hay, needle) \
	TAP_OR_STOP_(tap_check_has_(hay, needle, false, __FILE__, __LINE__, #hay))
#define ASSERT_NULL(p)     TAP_OR_STOP_(tap_check_((p) == NULL, __FILE__, __LINE__, #p " == NULL"))
#define ASSERT_NOT_NULL(p) TAP_OR_STOP_(tap_check_((p) != NULL, __FILE__, __LINE__, #p " != NULL"))
/* For calls that return -1 and set errno: shows the errno. */
#define ASSERT_OK(call)                                                                    \
	__extension__({                                                                    \
		__typeof__(call) tap_r_ = (call);                                          \
		if (!tap_check_(tap_r_ >= 0, __FILE__, __LINE__, #call " >= 0")) {         \
			tap_diag("  result: %jd, errno: %d (%s)", (intmax_t)tap_r_, errno, \
				 strerror(errno));                                         \
			tap_stop_();                                                       \
		}                                                                          \
		tap_r_;                                                                    \
	})
#define FAIL(...)                                               \
	do {                                                    \
		tap_.checks++;                                  \
		tap_fail_();                                    \
		tap_diag("%s:%d: failed:", __FILE__, __LINE__); \
		tap_diag(__VA_ARGS__);                          \
		tap_stop_();                                    \
	} while (0)

__attribute__((format(printf, 1, 2), noreturn, unused)) static void tap_skip_(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(tap_.skip_why, sizeof(tap_.skip_why), fmt, args);
	va_end(args);
	tap_.skipped = true;
	siglongjmp(tap_.test_jump, 1);
}
/* Ends the whole test, also from within a subtest. */
#define SKIP(...) tap_skip_(__VA_ARGS__)

/* Is @name one of the words of the list in the environment variable @var? */
__attribute__((unused)) static bool tap_env_lists_(const char *var, const char *name)
{
	const char *list = getenv(var), *p;
	size_t n = strlen(name);

	for (p = list; p && (p = strstr(p, name)); p += n) {
		bool starts = p == list || strchr(" ,\n", p[-1]);

		if (starts && (p[n] == '\0' || strchr(" ,\n", p[n])))
			return true;
	}
	return false;
}
#define TEST_REQUIRE(name, ...)                                                     \
	do {                                                                        \
		if (tap_env_lists_("BERTH_HAVE", name))                             \
			break;                                                      \
		if (tap_env_lists_("BERTH_REQUIRE", name))                          \
			FAIL("prerequisite %s is required here and missing", name); \
		tap_skip_(__VA_ARGS__);                                             \
	} while (0)

__attribute__((format(printf, 1, 2), unused)) static bool tap_subtest_begin_(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(tap_.subtest, sizeof(tap_.subtest), fmt, args);
	va_end(args);
	for (char *p = tap_.subtest; *p; p++) {
		if (*p == '\n' || *p == '#' || (unsigned char)*p < 0x20)
			*p = '?';
	}
	tap_.in_subtest = true;
	tap_.sub_failures = 0;
	return true;
}
__attribute__((unused)) static bool tap_subtest_end_(void)
{
	tap_.in_subtest = false;
	fprintf(tap_.report, "%s %s\n", tap_.sub_failures ? "!bad" : "!ok", tap_.subtest);
	fflush(tap_.report);
	return false;
}
/* The body may not `return`, `break` or `goto` out of the subtest. */
#define SUBTEST(...)                                                      \
	for (bool tap_more_ = tap_subtest_begin_(__VA_ARGS__); tap_more_; \
	     tap_more_ = tap_subtest_end_())                              \
		if (sigsetjmp(tap_.sub_jump, 1) == 0)

/* In the child: runs the test and says how it went. Exit status 0 = the report is complete. */
__attribute__((unused)) static void tap_run_here_(const struct tap_test *t)
{
	if (sigsetjmp(tap_.test_jump, 1) == 0)
		t->fn();
	if (tap_.skipped && !tap_.failures)
		fprintf(tap_.report, "!skip %s\n", tap_.skip_why);
	else if (!tap_.failures && !tap_.checks)
		fprintf(tap_.report, "# no assertion was reached\n!fail\n");
	else
		fprintf(tap_.report, "!%s\n", tap_.failures ? "fail" : "pass");
	fflush(tap_.report);
}

static int tap_rm_(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path) == 0 || errno == ENOENT ? 0 : 0;
}

static int64_t tap_now_ms_(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static unsigned tap_points_, tap_bad_;

static void tap_point_(bool ok, const char *test, const char *sub, const char *skip)
{
	if (!ok)
		tap_bad_++;
	printf("%s %u - %s%s%s%s%s\n", ok ? "ok" : "not ok", ++tap_points_, test, sub ? ": " : "",
	       sub ? sub : "", skip ? " # SKIP " : "", skip ? skip : "");
	fflush(stdout);
}

/* One line of a child's report. True when it was the closing one. */
static bool tap_line_(const char *test, char *line)
{
	if (line[0] != '!') {
		printf("%s\n", line);
		return false;
	}
	if (strncmp(line, "!ok ", 4) == 0)
		tap_point_(true, test, line + 4, NULL);
	else if (strncmp(line, "!bad ", 5) == 0)
		tap_point_(false, test, line + 5, NULL);
	else if (strncmp(line, "!skip ", 6) == 0)
		tap_point_(true, test, NULL, line + 6);
	else
		tap_point_(strcmp(line, "!pass") == 0, test, NULL, NULL);
	return line[1] == 'p' || line[1] == 'f' || line[1] == 's';
}

/* Reads the report until the child is gone or late. True when it was complete. */
static bool tap_collect_(const struct tap_test *t, int fd, int pidfd, bool *ret_late)
{
	static char buf[65536];
	size_t n = 0;
	bool closed = false, dead = false;
	int64_t end = tap_now_ms_() + t->timeout_s * INT64_C(1000);

	for (;;) {
		struct pollfd p[2] = {{fd, POLLIN, 0}, {dead ? -1 : pidfd, POLLIN, 0}};
		int64_t left = end - tap_now_ms_();
		ssize_t r;
		char *nl;

		if (poll(p, 2, dead ? 0 : left < 0 ? 0 : (int)left) == 0) {
			*ret_late = !dead;
			return closed;
		}
		dead = dead || p[1].revents;
		if (!p[0].revents)
			continue;
		r = read(fd, buf + n, sizeof(buf) - n - 1);
		if (r <= 0)
			return closed;
		n += (size_t)r;
		buf[n] = '\0';
		while ((nl = memchr(buf, '\n', n))) {
			*nl++ = '\0';
			closed = tap_line_(t->name, buf) || closed;
			n -= (size_t)(nl - buf);
			memmove(buf, nl, n + 1);
		}
		if (n == sizeof(buf) - 1)
			n = 0;
	}
}

static void tap_run_child_(const struct tap_test *t)
{
	char dir[PATH_MAX];
	const char *tmp = getenv("TMPDIR");
	int fds[2], pidfd, status = 0;
	bool late = false, complete;
	pid_t pid;

	snprintf(dir, sizeof(dir), "%s/tap.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir) || pipe(fds) < 0) {
		printf("# %s: %s\n", dir, strerror(errno));
		tap_point_(false, t->name, NULL, NULL);
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		/* Above what tests are likely to name, and closed in what they exec. */
		int fd = fcntl(fds[1], F_DUPFD_CLOEXEC, 900);

		close(fds[1]);
		tap_.report = fdopen(fd, "w");
		setsid();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!tap_.report || chdir(dir) < 0)
			_exit(99);
		/* The program's own stdout would break the stream; stderr stays. */
		dup2(2, 1);
		tap_run_here_(t);
		exit(0); /* not _exit: the leak checker runs at exit */
	}
	close(fds[1]);
	pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	complete = tap_collect_(t, fds[0], pidfd, &late);
	if (pid > 0) {
		if (late)
			kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		kill(-pid, SIGKILL);
	}
	close(pidfd);
	close(fds[0]);
	if (late)
		printf("# deadline of %d s passed\n", t->timeout_s);
	if (WIFSIGNALED(status) && !late)
		printf("# killed by signal %d (%s)\n", WTERMSIG(status),
		       strsignal(WTERMSIG(status)));
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		printf("# exit status %d\n", WEXITSTATUS(status));
	if (!complete || status != 0)
		tap_point_(false, t->name, complete ? "end of the process" : NULL, NULL);
	nftw(dir, tap_rm_, 32, FTW_DEPTH | FTW_PHYS);
}

static bool tap_wanted_(const char *name, int argc, char **argv)
{
	bool any = false;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-')
			continue;
		any = true;
		if (strcmp(argv[i], name) == 0)
			return true;
	}
	return !any;
}

__attribute__((unused)) static int tap_main_(int argc, char **argv)
{
	const char *flag = argc > 1 && argv[1][0] == '-' ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	tap_.report = stdout;
	for (struct tap_test *t = tap_.first; t; t = t->next) {
		if (!tap_wanted_(t->name, argc, argv))
			continue;
		if (strcmp(flag, "-l") == 0)
			puts(t->name);
		else if (strcmp(flag, "-n") == 0)
			tap_run_here_(t);
		else
			tap_run_child_(t);
	}
	if (*flag)
		return 0;
	printf("1..%u\n", tap_points_);
	return tap_bad_ ? 1 : 0;
}

#define TEST_MAIN()                           \
	int main(int argc, char **argv)       \
	{                                     \
		return tap_main_(argc, argv); \
	}

#endif
