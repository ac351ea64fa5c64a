/* SPDX-License-Identifier: MIT */
/*
 * output.c: every byte of each stream, by absolute offset, with the truth about the end and the
 * gap.
 */
#include "conf.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define STREAMS(id, want_out, want_err)                             \
	do {                                                        \
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), want_out); \
		ASSERT_STREQ(text_out(id, BERTH_STDERR), want_err); \
	} while (0)

/* The sealed hash is that of the pattern (n bytes of @seed). */
static void want_pattern_hash(const char *got, uint64_t seed, uint64_t n)
{
	static uint8_t buf[1 << 20];
	XXH3_state_t *x = XXH3_createState();
	XXH128_canonical_t c;
	char text[48] = "xxh3-128:";

	XXH3_128bits_reset(x);
	for (uint64_t at = 0; at < n; at += sizeof(buf)) {
		size_t k = n - at < sizeof(buf) ? (size_t)(n - at) : sizeof(buf);

		pattern_fill(seed, at, buf, k);
		XXH3_128bits_update(x, buf, k);
	}
	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(x));
	XXH3_freeState(x);
	for (size_t i = 0; i < sizeof(c.digest); i++)
		snprintf(text + 9 + 2 * i, 3, "%02x", c.digest[i]);
	ASSERT_STREQ(got, text);
}

static void read_at(const char *id, uint64_t offset, void *buf, size_t cap,
		    struct berth_read_result *r)
{
	memset(r, 0, sizeof(*r));
	OK(berth_read(box(), id, BERTH_STDOUT, offset, buf, cap, r, &E));
}

CASE(streams_are_apart, RUNS)
{
	struct berth_status st;

	run("apart", "out a err 1 out b err 2", &st);
	STREAMS("apart", "ab", "12");
	ASSERT_EQ(st.stdout_bytes, 2u);
	ASSERT_EQ(st.stderr_bytes, 2u);
}

CASE(binary_without_a_newline, RUNS)
{
	struct berth_status st;
	struct bytes o, e;
	uint8_t all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	run("binary", "bytes256 1 bytes256 2", &st);
	o = output_of("binary", BERTH_STDOUT);
	e = output_of("binary", BERTH_STDERR);
	ASSERT_MEMEQ(o.p, o.n, all, sizeof(all));
	ASSERT_MEMEQ(e.p, e.n, all, sizeof(all));
	free(o.p);
	free(e.p);
}

CASE(numbered_lines_in_order, RUNS)
{
	struct berth_status st;
	struct bytes o, e;
	char line[16];

	run("alternate", "alt 5000", &st);
	o = output_of("alternate", BERTH_STDOUT);
	e = output_of("alternate", BERTH_STDERR);
	ASSERT_EQ(o.n, 50000u);
	ASSERT_EQ(e.n, 50000u);
	for (int i = 0; i < 5000; i++) {
		snprintf(line, sizeof(line), "o%08d\n", i);
		ASSERT(memcmp(o.p + 10 * i, line, 10) == 0);
		line[0] = 'e';
		ASSERT(memcmp(e.p + 10 * i, line, 10) == 0);
	}
	free(o.p);
	free(e.p);
}

CASE(what_is_written_just_before_death_is_there, RUNS)
{
	struct berth_status st;
	char id[32];

	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "last-%d", i);
		run(id, i % 2 ? "rand 1 5 65536 err x raise KILL" : "rand 1 5 40000 err x exit 0",
		    &st);
		ASSERT_EQ(st.stdout_bytes, i % 2 ? 65536u : 40000u);
		ASSERT_EQ(st.stderr_bytes, 1u);
		want_pattern_hash(st.stdout_hash, 5, st.stdout_bytes);
	}
}

struct verify {
	uint64_t at, seed;
	bool bad;
};
static int verify_data(void *arg, enum berth_output stream, const void *p, size_t n)
{
	static uint8_t want[1 << 20];
	struct verify *v = arg;

	(void)stream;
	for (size_t i = 0; i < n;) {
		size_t k = n - i < sizeof(want) ? n - i : sizeof(want);

		pattern_fill(v->seed, v->at, want, k);
		v->bad = v->bad || memcmp(want, (const char *)p + i, k) != 0;
		v->at += k;
		i += k;
	}
	return v->bad ? 99 : 0;
}

CASE_TIMEOUT(huge_while_it_is_written, RUNS, 120)
{
	struct verify v = {.seed = 21};
	struct berth_follow f;
	struct berth_status st;
	uint64_t n = UINT64_C(256) << 20;

	start("huge", "rand 1 21 268435456 exit 3");
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.data = verify_data;
	f.arg = &v;
	OK(berth_follow(box(), "huge", &f, &st, &E));
	ASSERT(!v.bad);
	ASSERT_EQ(v.at, n);
	ASSERT_EQ(f.offset[BERTH_STDOUT], n);
	ASSERT_EXITED(&st, 3);
	ASSERT_EQ(st.stdout_bytes, n);
	want_pattern_hash(st.stdout_hash, 21, n);
	OK(berth_remove(box(), "huge", &E));
}

CASE_TIMEOUT(one_line_of_100_mb, RUNS, 120)
{
	static char buf[1 << 20];
	struct berth_read_result r = {0};
	struct berth_status st;
	uint64_t seen = 0;

	run("line", "fill 1 76 100000000 out \n", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_EQ(st.stdout_bytes, 100000001u);
	do {
		read_at("line", seen, buf, sizeof(buf), &r);
		ASSERT_GT(r.n, 0u);
		for (size_t i = 0; i < r.n; i++) {
			if (buf[i] != 'L' && seen + i != 100000000)
				FAIL("byte %zu is %d", (size_t)seen + i, buf[i]);
		}
		seen += r.n;
	} while (!r.eof);
	ASSERT_EQ(seen, 100000001u);
	ASSERT_EQ(buf[r.n - 1], '\n');
	OK(berth_remove(box(), "line", &E));
}

CASE(a_worker_cannot_truncate_its_log, RUNS)
{
	struct berth_status st;

	run("reopens", "err before reopen during err after reopen again", &st);
	ASSERT_EXITED(&st, 0);
	STREAMS("reopens", "", "beforeduringafteragain");
}

CASE(reads_at_every_offset, RUNS)
{
	struct berth_read_result r;
	struct berth_status st;
	char buf[64], want[64];

	run("offsets", "rand 1 8 40", &st);
	for (uint64_t at = 0; at <= 40; at++) {
		for (size_t cap = 1; cap <= 50; cap += 7) {
			size_t n = 40 - at < cap ? (size_t)(40 - at) : cap;

			read_at("offsets", at, buf, cap, &r);
			pattern_fill(8, at, want, n);
			ASSERT_EQ(r.offset, at);
			ASSERT_EQ(r.next_offset, at + n);
			ASSERT_MEMEQ(buf, r.n, want, n);
			ASSERT(r.has_total);
			ASSERT_EQ(r.total, 40u);
			ASSERT_EQ(r.eof, at + n == 40);
			ASSERT_EQ(r.truncated, at + n < 40);
			ASSERT(!r.interrupted && !r.has_gap);
		}
	}
}

CASE(past_the_end, RUNS)
{
	static const uint64_t far[] = {6, 7, 1000, UINT64_C(1) << 40, INT64_MAX};
	struct berth_read_result r;
	struct berth_status st;
	char buf[16];

	run("past", "out 12345", &st);
	read_at("past", 5, buf, sizeof(buf), &r);
	ASSERT(r.eof && r.n == 0 && r.next_offset == 5);
	for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
		read_at("past", far[i], buf, sizeof(buf), &r);
		ASSERT_EQ(r.n, 0u);
		ASSERT_EQ(r.next_offset, far[i]);
		ASSERT(!r.truncated);
		ASSERT_EQ(r.total, 5u);
	}
}

CASE(no_eof_while_it_runs, RUNS)
{
	struct berth_read_result r;
	struct berth_status st;
	char buf[16];

	start_ready("open-end", "block USR1 ready await USR1 out more");
	read_at("open-end", 0, buf, sizeof(buf), &r);
	ASSERT(r.n == 1 && buf[0] == 'R' && !r.eof && !r.truncated && !r.interrupted);
	read_at("open-end", 1, buf, sizeof(buf), &r);
	ASSERT(r.n == 0 && !r.eof && r.next_offset == 1);
	OK(berth_signal(box(), "open-end", SIGUSR1, &E));
	finish("open-end", &st);
	read_at("open-end", 1, buf, sizeof(buf), &r);
	ASSERT_MEMEQ(buf, r.n, "more", 4);
	ASSERT(r.eof);
}

CASE(eof_and_length_agree_while_it_ends, RUNS)
{
	static char buf[65536];
	struct berth_read_result r = {0};
	struct berth_status st;
	uint64_t at = 0;

	/* Reads race with the end: EOF must come with the last byte and not before. */
	for (int i = 0; i < 20; i++) {
		char id[32];

		snprintf(id, sizeof(id), "ends-%d", i);
		start(id, "rand 1 3 300000");
		at = 0;
		do {
			read_at(id, at, buf, sizeof(buf), &r);
			at = r.next_offset;
		} while (!r.eof);
		ASSERT_EQ(at, 300000u);
		status_of(id, &st);
		ASSERT_EXITED(&st, 0);
		ASSERT_EQ(st.stdout_bytes, at);
	}
}

/* ── limits ───────────────────────────────────────────────────────────────────────────────── */

/* With the limit L: the first L - L/2 bytes and the last L/2. */
static void want_kept(const char *id, uint64_t limit, uint64_t total)
{
	static char buf[65536], want[65536];
	uint64_t from = total > limit ? limit - limit / 2 : total;
	uint64_t to = total > limit ? total - limit / 2 : total, at = 0, tail;
	struct berth_read_result r;
	bool gap_told = false;

	for (;;) {
		read_at(id, at, buf, sizeof(buf), &r);
		ASSERT_EQ(r.total, total);
		if (r.has_gap) {
			ASSERT(!gap_told);
			gap_told = true;
			ASSERT_EQ(at, from);
			ASSERT_EQ(r.gap_from, from);
			ASSERT_EQ(r.gap_to, to);
			ASSERT_EQ(r.offset, to);
		} else {
			ASSERT_EQ(r.offset, at);
		}
		ASSERT_EQ(r.next_offset, r.offset + r.n);
		ASSERT(r.next_offset <= from || r.offset >= to);
		pattern_fill(4, r.offset, want, r.n);
		ASSERT(memcmp(buf, want, r.n) == 0);
		at = r.next_offset;
		ASSERT_EQ(r.eof, at == total);
		if (r.eof)
			break;
		ASSERT(r.n > 0 || r.has_gap || r.next_offset == from);
	}
	ASSERT_EQ(gap_told, from != to);
	if (from == to)
		return;
	/* One that begins inside the gap. */
	tail = from + (to - from) / 2;
	read_at(id, tail, buf, 10, &r);
	ASSERT(r.has_gap && r.gap_from == from && r.gap_to == to && r.offset == to);
}

CASE(gaps_exact_to_the_byte, RUNS)
{
	static const struct {
		int64_t limit, total;
	} t[] = {
		{1000, 0},         {1000, 999},     {1000, 1000},  {1000, 1001},    {1000, 1499},
		{1000, 1500},      {1000, 1501},    {1000, 2000},  {1000, 12345},   {1001, 1000},
		{1001, 1002},      {1001, 5000},    {1, 1},        {1, 5},          {2, 5},
		{3, 100},          {4096, 4097},    {4096, 70000}, {65536, 300001}, {8192, 8193},
		{100000, 1 << 20}, {65537, 131075},
	};
	struct berth_deploy_request q;
	struct berth_status st;
	char id[64], what[64];

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		snprintf(id, sizeof(id), "gap-%" PRId64 "-%" PRId64, t[i].limit, t[i].total);
		snprintf(what, sizeof(what), "rand 1 4 %" PRId64 " exit 2", t[i].total);
		request(&q, id, what);
		q.limits.output_bytes = t[i].limit;
		SUBTEST("limit %" PRId64 ", %" PRId64 " bytes", t[i].limit, t[i].total)
		{
			run_request(&q, &st);
			ASSERT_EXITED(&st, 2);
			ASSERT_EQ(st.stdout_bytes, (uint64_t)t[i].total);
			want_pattern_hash(st.stdout_hash, 4, (uint64_t)t[i].total);
			want_kept(id, (uint64_t)t[i].limit, (uint64_t)t[i].total);
		}
	}
}

CASE(limits_are_per_stream, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "per-stream", "rand 2 4 50000 out small");
	q.limits.output_bytes = 100;
	run_request(&q, &st);
	ASSERT_STREQ(text_out("per-stream", BERTH_STDOUT), "small");
	ASSERT_EQ(st.stderr_bytes, 50000u);
	want_pattern_hash(st.stderr_hash, 4, 50000);
}

CASE(no_limit_at_all, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "unlimited", "rand 1 4 3000000");
	q.limits.output_bytes = -1;
	run_request(&q, &st);
	want_kept("unlimited", 4000000, 3000000);
}

CASE(a_gap_that_grows_while_it_is_read, RUNS)
{
	static char buf[4096], want[4096];
	struct berth_deploy_request q;
	struct berth_read_result r;
	struct berth_status st;
	uint64_t at = 0;

	request(&q, "grows", "rand 1 4 60000000 exit 0");
	q.limits.output_bytes = 20000;
	start_request(&q);
	do {
		read_at("grows", at, buf, sizeof(buf), &r);
		pattern_fill(4, r.offset, want, r.n);
		ASSERT(memcmp(buf, want, r.n) == 0);
		ASSERT_GE(r.offset, at);
		ASSERT(r.offset == at || (r.has_gap && r.gap_from <= at && r.gap_to == r.offset));
		at = r.next_offset;
	} while (!r.eof);
	ASSERT_EQ(at, 60000000u);
	finish("grows", &st);
	ASSERT_EQ(st.stdout_bytes, 60000000u);
	want_kept("grows", 20000, 60000000);
}

struct gaps {
	struct bytes out;
	uint64_t from, to;
	unsigned n;
};
static int gaps_data(void *arg, enum berth_output stream, const void *p, size_t n)
{
	(void)stream;
	bytes_add(&((struct gaps *)arg)->out, p, n);
	return 0;
}
static void gaps_gap(void *arg, enum berth_output stream, uint64_t from, uint64_t to)
{
	struct gaps *g = arg;

	(void)stream;
	g->from = from;
	g->to = to;
	g->n++;
}

CASE(follow_tells_the_gap, RUNS)
{
	struct berth_deploy_request q;
	struct gaps g = {0};
	struct berth_follow f;
	struct berth_status st;
	char want[1000];

	request(&q, "follow-gap", "rand 1 4 9000");
	q.limits.output_bytes = 1000;
	run_request(&q, &st);
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.data = gaps_data;
	f.gap = gaps_gap;
	f.arg = &g;
	OK(berth_follow(box(), "follow-gap", &f, &st, &E));
	ASSERT_EQ(g.n, 1u);
	ASSERT_EQ(g.from, 500u);
	ASSERT_EQ(g.to, 8500u);
	pattern_fill(4, 0, want, 500);
	pattern_fill(4, 8500, want + 500, 500);
	ASSERT_MEMEQ(g.out.p, g.out.n, want, 1000);
	ASSERT_EQ(f.offset[BERTH_STDOUT], 9000u);
	free(g.out.p);
}

/* ── following ────────────────────────────────────────────────────────────────────────────── */

CASE(follow_both_to_their_own_fd, RUNS)
{
	struct berth_follow f;
	struct berth_status st;
	int o = ASSERT_OK(open("o", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	int e = ASSERT_OK(open("e", O_RDWR | O_CREAT | O_CLOEXEC, 0600));

	start("two-fds", "alt 3000 exit 5");
	berth_follow_init(&f);
	f.fd_out[BERTH_STDOUT] = o;
	f.fd_out[BERTH_STDERR] = e;
	f.streams = 1u << BERTH_STDOUT | 1u << BERTH_STDERR;
	OK(berth_follow(box(), "two-fds", &f, &st, &E));
	ASSERT_EXITED(&st, 5);
	ASSERT_STREQ(text_of("o"), text_out("two-fds", BERTH_STDOUT));
	ASSERT_STREQ(text_of("e"), text_out("two-fds", BERTH_STDERR));
	ASSERT_EQ(st.stdout_bytes, 30000u);
}

CASE(follow_from_an_offset_and_to_the_current_end, RUNS)
{
	struct gaps g = {0};
	struct berth_follow f;
	struct berth_status st;

	start_ready("current", "out 123456789 ready block USR1 await USR1");
	await_bytes_in(box(), "current", BERTH_STDOUT, 10);
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.offset[BERTH_STDOUT] = 4;
	f.until_current = true;
	f.data = gaps_data;
	f.arg = &g;
	OK(berth_follow(box(), "current", &f, &st, &E));
	ASSERT_EQ(st.state, BERTH_RUNNING);
	ASSERT_STREQ(g.out.p, "56789R");
	ASSERT_EQ(f.offset[BERTH_STDOUT], 10u);
	free(g.out.p);
	end_it("current");
}

CASE(follow_ends_when_its_caller_says_so, RUNS)
{
	struct gaps g = {0};
	struct berth_follow f;
	struct berth_status st;
	int fds[2];

	start_ready("watched", "block USR1 ready await USR1 out more");
	ASSERT_OK(pipe(fds));
	ASSERT_OK((int)write(fds[1], "x", 1));
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.data = gaps_data;
	f.arg = &g;
	f.cancel_fd = fds[0];
	FAILS(BERTH_E_TIMEOUT, berth_follow(box(), "watched", &f, &st, &E));
	status_of("watched", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	/* The positions are kept: the next one goes on from there. */
	OK(berth_signal(box(), "watched", SIGUSR1, &E));
	f.cancel_fd = -1;
	OK(berth_follow(box(), "watched", &f, &st, &E));
	ASSERT_STREQ(g.out.p, "Rmore");
	free(g.out.p);
}

CASE(a_broken_pipe_is_told, RUNS)
{
	struct berth_follow f;
	struct berth_status st;
	int fds[2];

	run("to-nobody", "rand 1 1 200000", &st);
	ASSERT_OK(pipe(fds));
	close(fds[0]);
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.fd_out[BERTH_STDOUT] = fds[1];
	FAILS(BERTH_E_IO, berth_follow(box(), "to-nobody", &f, &st, &E));
	ASSERT_EQ(E.sys_errno, EPIPE);
}

static int follow_all(void *arg)
{
	struct verify v = {.seed = 17};
	struct berth_follow f;
	struct berth_status st;

	(void)arg;
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.data = verify_data;
	f.arg = &v;
	OK(berth_follow(box(), "shared", &f, &st, &E));
	return v.at == 6000001 && !v.bad && st.state == BERTH_EXITED ? 0 : 1;
}

CASE(eight_readers_see_the_same, RUNS)
{
	pid_t pids[8];

	start("shared", "block USR1 rand 1 17 1 await USR1 exit 0");
	await_ready("shared");
	end_it("shared");
	OK(berth_remove(box(), "shared", &E));
	start("shared", "rand 1 17 6000001 exit 0");
	for (int i = 0; i < 8; i++)
		pids[i] = in_child(follow_all, NULL);
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(exit_of(pids[i]), 0);
}

CASE(readers_do_not_hold_the_worker_up, RUNS)
{
	struct berth_follow f;
	struct berth_status st;
	pid_t pid;
	int fds[2];

	/* Nobody reads this pipe: the follower is stuck in it, the worker is not. */
	ASSERT_OK(pipe(fds));
	start("free", "rand 1 2 5000000 exit 0");
	pid = fork();
	if (pid == 0) {
		B = NULL;
		S = NULL;
		berth_follow_init(&f);
		f.streams = 1u << BERTH_STDOUT;
		f.fd_out[BERTH_STDOUT] = fds[1];
		berth_follow(box(), "free", &f, &st, &E);
		_exit(0);
	}
	finish("free", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_EQ(st.stdout_bytes, 5000000u);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
