/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_CONF_H
#define BERTH_TESTS_CONF_H
/*
 * conf.h: what every part of the conformance suite stands on.
 *
 * A part is one program of CASEs. It is given a sandbox by `--spec`, in which the word NAME is
 * replaced by a name of its own, and uses it for all its cases; cases that stop or destroy make
 * theirs with box_named(). Everything is asked through libberth, as any program would.
 *
 * A CASE names the capabilities that it needs. Where the provider lacks one, the case asserts that
 * the library says `unsupported`, and that is all of it.
 *
 * The worker's command line holds a mark that no other execution has, so that assert_gone() finds
 * by /proc whatever is left of it, as far as the sandbox shares this machine's processes.
 *
 * Options: --spec SPEC, --worker FILE (default $BERTH_TEST_WORKER), --uid N (root only: the whole
 * part as an ordinary user with subordinate ids); the rest is tap.h's.
 */
#include <dirent.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/timerfd.h>

#include <berth/berth.h>

#include "tap.h"
#include "worker/pattern.h"

#define UNUSED __attribute__((unused))

static struct {
	char root[PATH_MAX];   /* of this run; removed at the end */
	char state[PATH_MAX];  /* the library's state folder */
	char art[PATH_MAX];    /* the usual artifact: just the worker */
	char worker[PATH_MAX]; /* the worker program */
	const char *template;
	char nonce[20];
	uid_t uid;
} conf;

static struct berth_error E;
static struct berth *B;
static struct berth_sandbox *S; /* the shared sandbox, opened by box() */

#define OK(call)                                                                                 \
	do {                                                                                     \
		int ok_r_ = (call);                                                              \
		tap_.checks++;                                                                   \
		if (ok_r_ != 0)                                                                  \
			FAIL("%s:%d: %s = %d: %s", __FILE__, __LINE__, #call, ok_r_, E.message); \
	} while (0)
/* The call fails with that code and says something. */
#define FAILS(want_code, call)                                                                  \
	do {                                                                                    \
		int fails_r_;                                                                   \
		berth_error_reset(&E);                                                          \
		fails_r_ = (call);                                                              \
		if (fails_r_ != (want_code))                                                    \
			FAIL("%s:%d: %s = %d (%s), not " #want_code, __FILE__, __LINE__, #call, \
			     fails_r_, E.message);                                              \
		ASSERT_EQ(E.code, (want_code));                                                 \
		ASSERT(E.message[0] != '\0');                                                   \
	} while (0)

/* ── sandboxes ────────────────────────────────────────────────────────────────────────────── */

/* The spec with NAME replaced; name NULL: the shared one's. */
static UNUSED const char *spec_for(const char *name)
{
	static char buf[512];
	const char *at = strstr(conf.template, "NAME");

	if (!at)
		return conf.template;
	snprintf(buf, sizeof(buf), "%.*s%s%s", (int)(at - conf.template), conf.template,
		 name ? name : "shared", at + 4);
	return buf;
}

static UNUSED struct berth *context(void)
{
	if (!B && berth_new(conf.state, &B, &E) < 0)
		FAIL("berth_new: %s", E.message);
	return B;
}

/* A sandbox of that name; whom it serves to the end of the test leaves it open. */
static UNUSED struct berth_sandbox *box_named(const char *name, unsigned flags)
{
	static struct berth_sandbox *opened[256]; /* so that what is left open is no leak */
	static size_t n;

	OK(berth_sandbox_open(context(), spec_for(name), NULL, flags, &opened[n % 256], &E));
	return opened[n++ % 256];
}

static UNUSED struct berth_sandbox *box(void)
{
	if (!S)
		S = box_named(NULL, BERTH_OPEN_START);
	return S;
}

/* Makes it the one that box() is from now on. */
static UNUSED struct berth_sandbox *use_box(const char *name)
{
	berth_sandbox_close(S);
	S = NULL;
	return S = box_named(name, BERTH_OPEN_START);
}

/* What info says of the walls; all empty where there is no info. */
static UNUSED struct berth_provider_info walls(void)
{
	struct berth_provider_info info;

	memset(&info, 0, sizeof(info));
	(void)berth_sandbox_info(box(), &info, &E);
	return info;
}

/* Cases that need a sandbox beside the shared one. */
static UNUSED void need_names(void)
{
	if (!strstr(conf.template, "NAME"))
		SKIP("the spec has no NAME, so there is only one sandbox");
}

/* The missing ops of a driver say so. False: nothing is missing. */
static UNUSED bool lacks(unsigned caps)
{
	struct berth_provider_info info;

	if ((berth_sandbox_capabilities(box()) & caps) == caps)
		return false;
	FAILS(BERTH_E_UNSUPPORTED, berth_sandbox_require(box(), caps, "conformance", &E));
	ASSERT_CONTAINS(E.message, "does not support");
	caps &= ~berth_sandbox_capabilities(box());
	if (caps & BERTH_CAP_START)
		FAILS(BERTH_E_UNSUPPORTED, berth_sandbox_start(box(), &E));
	if (caps & BERTH_CAP_STOP)
		FAILS(BERTH_E_UNSUPPORTED, berth_sandbox_stop(box(), &E));
	if (caps & BERTH_CAP_INFO)
		FAILS(BERTH_E_UNSUPPORTED, berth_sandbox_info(box(), &info, &E));
	if (caps & BERTH_CAP_DESTROY) {
		struct berth_destroy_result r;

		OK(berth_sandbox_destroy(box(), 1, 0, &r, &E));
		ASSERT_EQ(r.state, BERTH_DESTROY_UNSUPPORTED);
	}
	return true;
}

#define CASE_TIMEOUT(ident, caps, seconds) \
	static void case_##ident(void);    \
	TEST_TIMEOUT(ident, seconds)       \
	{                                  \
		if (!lacks(caps))          \
			case_##ident();    \
	}                                  \
	static void case_##ident(void)
#define CASE(ident, caps) CASE_TIMEOUT(ident, caps, 60)
/* What every execution needs. */
#define RUNS (BERTH_CAP_EXECUTE)

/* ── time and processes ───────────────────────────────────────────────────────────────────── */

static UNUSED int64_t now_ms(void)
{
	return tap_now_ms_();
}

/* An fd that becomes readable after ms. */
static UNUSED int alarm_fd(int64_t ms)
{
	struct itimerspec it = {.it_value = {ms / 1000, ms % 1000 * 1000000 + 1}};
	int fd = ASSERT_OK(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));

	ASSERT_OK(timerfd_settime(fd, 0, &it, NULL));
	return fd;
}

/* Returns when the clock shows another millisecond than before. */
static UNUSED void next_ms(void)
{
	int fd = alarm_fd(2);
	uint64_t n;

	ASSERT_OK((int)read(fd, &n, sizeof(n)));
	close(fd);
}

/* The mark of an execution: what stands in the command line of everything it starts. */
static UNUSED const char *mark_of(const char *id)
{
	static char buf[256];

	snprintf(buf, sizeof(buf), "%s:%s:", conf.nonce, id);
	return buf;
}

static UNUSED size_t slurp_at(int dir, const char *path, char *buf, size_t cap)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t r;

	while (fd >= 0 && n < cap - 1 && (r = read(fd, buf + n, cap - 1 - n)) > 0)
		n += (size_t)r;
	if (fd >= 0)
		close(fd);
	buf[n] = '\0';
	return n;
}

/* How many processes of this machine have the text in their command line; *ret_pid gets one. */
static UNUSED unsigned processes_with(const char *text, pid_t *ret_pid)
{
	static char buf[262144];
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned found = 0;

	while (d && (e = readdir(d))) {
		char path[300];
		size_t n;

		if (e->d_name[0] < '0' || e->d_name[0] > '9' || atoi(e->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		n = slurp_at(AT_FDCWD, path, buf, sizeof(buf));
		if (n && memmem(buf, n, text, strlen(text))) {
			found++;
			if (ret_pid)
				*ret_pid = atoi(e->d_name);
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* Parent and state of a process, by the last ')' of its stat line. */
static UNUSED pid_t parent_of(pid_t pid, char *ret_state)
{
	char path[64], buf[1024], *p;
	int ppid = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	p = strrchr(buf, ')');
	if (!p || sscanf(p + 1, " %c %d", ret_state, &ppid) != 2)
		return 0;
	return ppid;
}

/* Waits until a process of the execution is stopped: that it is about to stop can be told, that it
 * has stopped cannot. */
static UNUSED void await_stopped(const char *id)
{
	int64_t end = now_ms() + 20000;
	struct dirent *e;

	for (char state = 0; state != 'T'; next_ms()) {
		DIR *d = opendir("/proc");

		while (state != 'T' && d && (e = readdir(d))) {
			char path[300], buf[4096];
			const char *mark = mark_of(id);
			size_t n;

			snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
			n = e->d_name[0] >= '0' && e->d_name[0] <= '9'
				    ? slurp_at(AT_FDCWD, path, buf, sizeof(buf))
				    : 0;
			if (n && memmem(buf, n, mark, strlen(mark)))
				parent_of(atoi(e->d_name), &state);
		}
		if (d)
			closedir(d);
		ASSERT_LT(now_ms(), end);
	}
}

/* Nothing that the execution started is alive. At once: a terminal state promises it. */
static UNUSED void assert_gone(const char *id)
{
	pid_t pid = 0;
	unsigned n = processes_with(mark_of(id), &pid);

	if (n)
		FAIL("%u processes of %s are still there, one is %d", n, id, pid);
	tap_.checks++;
}

/*
 * The same for a record that nobody keeps any more (`unknown`): its keeper's death is visible a
 * moment before the kernel has ended the rest. Waits for each of them by its pidfd.
 */
static UNUSED void await_gone(const char *id)
{
	pid_t pid = 0;
	int64_t end = now_ms() + 5000;

	while (processes_with(mark_of(id), &pid) && now_ms() < end) {
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);
		struct pollfd p = {fd, POLLIN, 0};

		if (fd >= 0) {
			poll(&p, 1, 5000);
			close(fd);
		}
	}
	assert_gone(id);
}

/* Runs fn(arg) in a child process and returns its exit status. */
static UNUSED pid_t in_child(int (*fn)(void *), void *arg)
{
	pid_t pid = ASSERT_OK(fork());

	if (pid == 0) {
		/* Handles are not shared between processes: the child opens its own. */
		B = NULL;
		S = NULL;
		/* A failed assertion ends the child, not a copy of the test. */
		tap_.in_subtest = false;
		if (sigsetjmp(tap_.test_jump, 1) == 0)
			_exit(fn(arg));
		_exit(99);
	}
	return pid;
}
static UNUSED int exit_of(pid_t pid)
{
	int status;

	ASSERT_OK(waitpid(pid, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ── files of the test ────────────────────────────────────────────────────────────────────── */

static UNUSED void put_bytes(const char *path, const void *p, size_t n, mode_t mode)
{
	int fd = ASSERT_OK(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));

	while (n > 0) {
		ssize_t r = ASSERT_OK(write(fd, p, n));

		p = (const char *)p + r;
		n -= (size_t)r;
	}
	ASSERT_OK(fchmod(fd, mode));
	close(fd);
}
static UNUSED void put_text(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text), 0644);
}
/* The whole file as a string; valid until the next call. */
static UNUSED const char *text_of(const char *path)
{
	static char buf[1 << 20];

	slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	return buf;
}
/* A new artifact in the test's own folder: the worker and what the test adds. */
static UNUSED const char *new_artifact(const char *name)
{
	static char bufs[8][PATH_MAX];
	static unsigned turn;
	char *dir = bufs[turn++ % 8], to[PATH_MAX + 16], cwd[PATH_MAX - 300];

	ASSERT(getcwd(cwd, sizeof(cwd)) != NULL);
	snprintf(dir, sizeof(bufs[0]), "%s/%s", cwd, name);
	ASSERT_OK(mkdir(dir, 0755));
	snprintf(to, sizeof(to), "%s/worker", dir);
	if (link(conf.worker, to) < 0)
		FAIL("link %s %s: %s", conf.worker, to, strerror(errno));
	return dir;
}
/* A path in the artifact; valid until the next call but seven. */
static UNUSED const char *in(const char *dir, const char *rel)
{
	static char bufs[8][PATH_MAX];
	static unsigned turn;
	char *buf = bufs[turn++ % 8];

	snprintf(buf, sizeof(bufs[0]), "%s/%s", dir, rel);
	return buf;
}

/* ── executions ───────────────────────────────────────────────────────────────────────────── */

/*
 * The command line of a worker: "./worker mark MARK" and the operations, split at blanks. Kept
 * until the next call but three.
 */
static UNUSED const char *const *ops(const char *id, const char *operations)
{
	static struct {
		char text[65536];
		const char *argv[8192];
	} slots[4];
	static unsigned turn;
	__typeof__(slots[0]) *s = &slots[turn++ % 4];
	size_t n = 0;
	char *save = NULL;

	snprintf(s->text, sizeof(s->text), "./worker mark %s %s", mark_of(id), operations);
	for (char *w = strtok_r(s->text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		s->argv[n++] = w;
	s->argv[n] = NULL;
	return s->argv;
}

static UNUSED void request(struct berth_deploy_request *q, const char *id, const char *operations)
{
	berth_deploy_request_init(q);
	q->dir = conf.art;
	q->id = id;
	q->command = ops(id, operations);
	q->install = "";
	q->no_durable = true;
}

static UNUSED void deploy(struct berth_deploy_request *q, struct berth_deploy_result *r)
{
	memset(r, 0, sizeof(*r));
	OK(berth_deploy(box(), q, r, &E));
	ASSERT_STREQ(r->status.id, q->id);
}

/* Launches and checks that it was launched now and by this call. */
static UNUSED void start_request(struct berth_deploy_request *q)
{
	struct berth_deploy_result r;

	deploy(q, &r);
	if (r.existed || r.status.state < BERTH_RUNNING ||
	    r.status.state > BERTH_RESOURCE_EXHAUSTED)
		FAIL("%s: existed %d, state %s, message %s", q->id, r.existed,
		     berth_state_name((int)r.status.state), r.status.message);
}
static UNUSED void start(const char *id, const char *operations)
{
	struct berth_deploy_request q;

	request(&q, id, operations);
	start_request(&q);
}
static UNUSED void status_of(const char *id, struct berth_status *st)
{
	OK(berth_status(box(), id, st, &E));
}
static UNUSED void finish(const char *id, struct berth_status *st)
{
	OK(berth_wait(box(), id, 45000, st, &E));
	ASSERT(st->is_final);
}
static UNUSED void run_request(struct berth_deploy_request *q, struct berth_status *st)
{
	start_request(q);
	finish(q->id, st);
}
static UNUSED void run(const char *id, const char *operations, struct berth_status *st)
{
	start(id, operations);
	finish(id, st);
}

/* The state and how it was reached, in one look. */
#define ASSERT_ENDED(st, want_state, want_code, want_signo)                                      \
	do {                                                                                     \
		if ((st)->state != (want_state) || (st)->exit_code != (want_code) ||             \
		    (st)->signo != (want_signo))                                                 \
			FAIL("%s:%d: %s: state %s, exit code %d, signal %d, phase %s, message "  \
			     "\"%s\"; want %s %d %d",                                            \
			     __FILE__, __LINE__, (st)->id, berth_state_name((int)(st)->state),   \
			     (st)->exit_code, (st)->signo, (st)->phase, (st)->message,           \
			     berth_state_name(want_state), (int)(want_code), (int)(want_signo)); \
		tap_.checks++;                                                                   \
	} while (0)
#define ASSERT_EXITED(st, code) ASSERT_ENDED(st, BERTH_EXITED, code, 0)

/* ── output ───────────────────────────────────────────────────────────────────────────────── */

struct bytes {
	char *p;
	size_t n, cap;
};

static UNUSED void bytes_add(struct bytes *b, const void *p, size_t n)
{
	if (b->n + n + 1 > b->cap) {
		b->cap = (b->n + n + 1) * 2;
		b->p = realloc(b->p, b->cap);
		ASSERT_NOT_NULL(b->p);
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
	b->p[b->n] = '\0';
}

/* Everything of a stream of an ended execution without a gap; "" when there is nothing. */
static UNUSED struct bytes output_of(const char *id, enum berth_output stream)
{
	static char buf[1 << 20];
	struct berth_read_result r = {0};
	struct bytes b = {0};

	bytes_add(&b, "", 0);
	do {
		uint64_t at = r.next_offset;

		OK(berth_read(box(), id, stream, at, buf, sizeof(buf), &r, &E));
		ASSERT_EQ(r.offset, at);
		ASSERT_EQ(r.next_offset, at + r.n);
		ASSERT(!r.has_gap && !r.interrupted);
		ASSERT(r.eof || r.n > 0);
		bytes_add(&b, buf, r.n);
	} while (!r.eof);
	return b;
}
/* The same as a string; valid until the next call but three. */
static UNUSED const char *text_out(const char *id, enum berth_output stream)
{
	static struct bytes kept[4];
	static unsigned turn;
	struct bytes *b = &kept[turn++ % 4];

	free(b->p);
	*b = output_of(id, stream);
	return b->p;
}

struct until {
	uint64_t want, have;
};
static UNUSED int until_data(void *arg, enum berth_output stream, const void *p, size_t n)
{
	struct until *u = arg;

	(void)stream, (void)p;
	u->have += n;
	return u->have >= u->want ? 77 : 0;
}
/* Waits until the stream has that many bytes. */
static UNUSED void await_bytes_in(struct berth_sandbox *s, const char *id, enum berth_output stream,
				  uint64_t n)
{
	struct until u = {.want = n};
	struct berth_status st;
	struct berth_follow f;
	int r;

	berth_follow_init(&f);
	f.streams = 1u << stream;
	f.data = until_data;
	f.arg = &u;
	f.cancel_fd = alarm_fd(30000);
	r = berth_follow(s, id, &f, &st, &E);
	close(f.cancel_fd);
	if (r != 77)
		FAIL("%s: %" PRIu64 " of %" PRIu64 " bytes came, then %d: %s", id, u.have, n, r,
		     r < 0 ? E.message : "EOF");
	tap_.checks++;
}
static UNUSED void await_ready(const char *id)
{
	await_bytes_in(box(), id, BERTH_STDOUT, 1);
}
/* Launches, and waits until the worker has said that it is ready. */
static UNUSED void start_ready(const char *id, const char *operations)
{
	start(id, operations);
	await_ready(id);
}
static UNUSED void cancel(const char *id, int64_t grace_ms, struct berth_status *st)
{
	OK(berth_cancel(box(), id, grace_ms, st, &E));
}
/* For cases that only needed something to run. */
static UNUSED void end_it(const char *id)
{
	struct berth_status st;

	cancel(id, 0, &st);
	ASSERT(st.is_final);
	assert_gone(id);
}

/* How many bytes a file below the sandbox's home has: how often something ran. 0: there is none. */
static UNUSED size_t home_size(const char *rel)
{
	static unsigned turn;
	char local[64];
	struct stat st;

	snprintf(local, sizeof(local), "home-file-%u-%d", turn++, getpid());
	if (berth_copy_out(box(), NULL, rel, local, &E) < 0) {
		ASSERT_EQ(E.code, BERTH_E_NOT_FOUND);
		return 0;
	}
	ASSERT_OK(stat(local, &st));
	return (size_t)st.st_size;
}

/* Values as the worker's `env`, `args` and `ls` print them. False at the end. */
static UNUSED bool next_value(const struct bytes *b, size_t *pos, const char **ret, size_t *ret_n)
{
	const uint8_t *h = (const uint8_t *)b->p + *pos;
	size_t n;

	if (*pos == b->n)
		return false;
	ASSERT_LE(*pos + 4, b->n);
	n = (size_t)h[0] | (size_t)h[1] << 8 | (size_t)h[2] << 16 | (size_t)h[3] << 24;
	ASSERT_LE(*pos + 4 + n, b->n);
	*ret = b->p + *pos + 4;
	*ret_n = n;
	*pos += 4 + n;
	return true;
}

#include "conf_main.h"

#endif
