/* SPDX-License-Identifier: MIT */
/*
 * The rules that make a state of a record: each combination of what is written, the lock, the boot
 * id and the incarnation; then what each key becomes.
 */
#include "wire/journal.h"

#include "bytes.h"

static uint8_t state_bytes[8192], end_bytes[8192];
static struct wire_w state_w, end_w;
static struct journal j;
static struct record_status st;

static const struct journal_facts held = {true, true, true, false};
static const struct journal_facts gone = {false, true, true, false};

static void begin(void)
{
	memset(&j, 0, sizeof(j));
	wire_w_init(&state_w, state_bytes, sizeof(state_bytes));
	wire_w_init(&end_w, end_bytes, sizeof(end_bytes));
}

static struct wire_slice whole(const struct wire_w *w)
{
	ASSERT(wire_w_ok(w));
	return (struct wire_slice){w->len ? w->p : NULL, w->len};
}

static void evaluate(const struct journal_facts *f)
{
	j.state = whole(&state_w);
	j.terminal = whole(&end_w);
	memset(&st, 0xa5, sizeof(st));
	record_status(&j, f, &st);
}

enum { NO_ENTRY = -1, NO_KEY = -2, SHORT_KEY = -3, AT_EXEC = -4 };

static void put_state(struct wire_w *w, int state)
{
	if (state == NO_ENTRY)
		return;
	wire_w_int(w, JK_TIME_MS, 1000);
	if (state == AT_EXEC) {
		wire_w_str(w, JK_STAGE, "exec");
		state = WIRE_S_STARTING;
	}
	if (state == SHORT_KEY)
		wire_w_bytes(w, JK_STATE, "\2\0\0\0", 4);
	else if (state != NO_KEY)
		wire_w_int(w, JK_STATE, state);
}

/*
 * Without a TERMINAL entry. y, n, or * for both; the five facts are held, same boot, same
 * incarnation, init is life, init gone. Every combination must be matched by exactly one line.
 */
static const struct {
	int state;
	const char *facts;
	int want;
	const char *phase, *message;
} rules[] = {
#define LAUNCH_INTERRUPTED "the launch was interrupted before the command ran"
#define INIT_GONE          "the sandbox's init is gone"
#define NO_SUCH_STATE      "the record names a state that this version does not know"
	{NO_ENTRY, "y****", WIRE_S_STARTING, "", ""},
	{NO_ENTRY, "n****", WIRE_S_FAILED, "launch", LAUNCH_INTERRUPTED},
	{WIRE_S_STARTING, "y****", WIRE_S_STARTING, "", ""},
	{WIRE_S_STARTING, "ny***", WIRE_S_FAILED, "launch", LAUNCH_INTERRUPTED},
	{WIRE_S_STARTING, "nn***", WIRE_S_UNKNOWN, "",
	 "host rebooted"}, /* not synced: it may have run */
	{AT_EXEC, "y****", WIRE_S_STARTING, "", ""},
	{AT_EXEC, "ny*n*", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{AT_EXEC, "nyyyn", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{AT_EXEC, "nyyyy", WIRE_S_UNKNOWN, "", INIT_GONE},
	{AT_EXEC, "nyny*", WIRE_S_UNKNOWN, "", "sandbox replaced"},
	{AT_EXEC, "nn***", WIRE_S_UNKNOWN, "", "host rebooted"},
	{WIRE_S_RUNNING, "y****", WIRE_S_RUNNING, "", ""},
	{WIRE_S_RUNNING, "ny*n*", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{WIRE_S_RUNNING, "nyyyn", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{WIRE_S_RUNNING, "nyyyy", WIRE_S_UNKNOWN, "", INIT_GONE},
	{WIRE_S_RUNNING, "nyny*", WIRE_S_UNKNOWN, "", "sandbox replaced"},
	{WIRE_S_RUNNING, "nn***", WIRE_S_UNKNOWN, "", "host rebooted"},
	/* A state of a later version, or none: something may have run. */
	{42, "y****", WIRE_S_UNKNOWN, "", NO_SUCH_STATE},
	{42, "ny*n*", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{42, "nyyyn", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{42, "nyyyy", WIRE_S_UNKNOWN, "", INIT_GONE},
	{42, "nyny*", WIRE_S_UNKNOWN, "", "sandbox replaced"},
	{42, "nn***", WIRE_S_UNKNOWN, "", "host rebooted"},
	{NO_KEY, "y****", WIRE_S_UNKNOWN, "", NO_SUCH_STATE},
	{NO_KEY, "ny*n*", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{NO_KEY, "nyyyn", WIRE_S_UNKNOWN, "", "supervisor gone"},
	{NO_KEY, "nyyyy", WIRE_S_UNKNOWN, "", INIT_GONE},
	{NO_KEY, "nyny*", WIRE_S_UNKNOWN, "", "sandbox replaced"},
	{NO_KEY, "nn***", WIRE_S_UNKNOWN, "", "host rebooted"},
	{SHORT_KEY, "y****", WIRE_S_UNKNOWN, "", NO_SUCH_STATE},
	{SHORT_KEY, "n****", WIRE_S_UNKNOWN, "", NULL},
	/* A STATE entry never says that it is over: only the seal does. */
	{WIRE_S_EXITED, "y****", WIRE_S_UNKNOWN, "", NO_SUCH_STATE},
	{WIRE_S_EXITED, "n****", WIRE_S_UNKNOWN, "", NULL},
	{WIRE_S_UNKNOWN, "y****", WIRE_S_UNKNOWN, "", NO_SUCH_STATE},
};

static bool fits(const char *facts, unsigned bits)
{
	for (size_t i = 0; i < 5; i++) {
		bool on = bits >> i & 1;

		if (facts[i] != '*' && (facts[i] == 'y') != on)
			return false;
	}
	return true;
}

static struct journal_facts facts_of(unsigned bits)
{
	return (struct journal_facts){bits & 1, bits & 2, bits & 4, bits & 8, bits & 16};
}

TEST(rules_without_an_end)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		SUBTEST("state %d, facts %s", rules[i].state, rules[i].facts)
		{
			for (unsigned bits = 0; bits < 32; bits++) {
				struct journal_facts f = facts_of(bits);

				if (!fits(rules[i].facts, bits))
					continue;
				begin();
				put_state(&state_w, rules[i].state);
				evaluate(&f);
				ASSERT_EQ(st.state, rules[i].want);
				ASSERT(!st.sealed && !st.has_exit_code && !st.has_signal);
				ASSERT_EQ(st.stage.n, 0);
				ASSERT_EQ(st.finished_ms, 0);
				ASSERT_MEMEQ(st.phase.p ? (const char *)st.phase.p : "", st.phase.n,
					     rules[i].phase, strlen(rules[i].phase));
				if (rules[i].message)
					ASSERT_MEMEQ(st.message.p ? (const char *)st.message.p : "",
						     st.message.n, rules[i].message,
						     strlen(rules[i].message));
				else
					ASSERT_GT(st.message.n, 0);
				ASSERT_EQ(st.started_ms,
					  rules[i].state == WIRE_S_RUNNING ? 1000 : 0);
			}
		}
	}
}

TEST(every_combination_has_one_rule)
{
	static const int states[] = {NO_ENTRY, WIRE_S_STARTING, WIRE_S_RUNNING,
				     42,       NO_KEY,          AT_EXEC};

	for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++) {
		for (unsigned bits = 0; bits < 32; bits++) {
			int n = 0;

			for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
				n += rules[i].state == states[s] && fits(rules[i].facts, bits);
			ASSERT_EQ(n, 1);
		}
	}
}

/* The seal is the truth, whatever the lock and the machine say, and whatever STATE came before. */
TEST(an_end_is_the_truth)
{
	static const int before[] = {NO_ENTRY, WIRE_S_STARTING, WIRE_S_RUNNING,
				     42,       NO_KEY,          AT_EXEC};

	for (int end = -3; end <= 11; end++) {
		bool terminal = end >= WIRE_S_EXITED && end <= WIRE_S_FAILED;

		if (end == NO_ENTRY)
			continue;
		for (size_t s = 0; s < sizeof(before) / sizeof(before[0]); s++) {
			for (unsigned bits = 0; bits < 32; bits++) {
				struct journal_facts f = facts_of(bits);

				begin();
				put_state(&state_w, before[s]);
				put_state(&end_w, end);
				evaluate(&f);
				ASSERT_EQ(st.state, terminal ? end : WIRE_S_UNKNOWN);
				ASSERT(st.sealed);
				ASSERT_EQ(st.finished_ms, 1000);
				ASSERT_EQ(st.message.n > 0, !terminal);
			}
		}
	}
}

TEST(a_whole_end)
{
	static const uint8_t gap[16] = {100, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0};

	begin();
	j.out = (struct journal_stream){999, 1, 2, 50};
	j.err = (struct journal_stream){999, 3, 4, 0};
	wire_w_int(&state_w, JK_STATE, WIRE_S_RUNNING);
	wire_w_int(&state_w, JK_TIME_MS, 5);
	wire_w_str(&state_w, JK_CONTAINMENT, "pidns");
	wire_w_str(&state_w, JK_VIEW, "overlay");
	wire_w_int(&end_w, JK_STATE, WIRE_S_RESOURCE_EXHAUSTED);
	wire_w_int(&end_w, JK_TIME_MS, 77);
	wire_w_int(&end_w, JK_STARTED_MS, 6);
	wire_w_int(&end_w, JK_SIGNAL, 9);
	wire_w_str(&end_w, JK_PHASE, "execution");
	wire_w_str(&end_w, JK_RESOURCE, "memory");
	wire_w_int(&end_w, JK_LIMIT, 1 << 20);
	wire_w_str(&end_w, JK_MESSAGE, "a message");
	wire_w_int(&end_w, JK_USER_MS, 1);
	wire_w_int(&end_w, JK_SYSTEM_MS, 2);
	wire_w_int(&end_w, JK_MAX_RSS, 3);
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "pids\0\x07\0\0\0\0\0\0\0", 13);
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "open_files\0\x01\x01\0\0\0\0\0\0", 19);
	wire_w_int(&end_w, JK_OUT_LEN, 300);
	wire_w_int(&end_w, JK_ERR_LEN, 0);
	wire_w_bytes(&end_w, JK_OUT_HASH, "0123456789abcdef", 16);
	wire_w_bytes(&end_w, JK_ERR_HASH, "fedcba9876543210", 16);
	wire_w_bytes(&end_w, JK_OUT_GAP, gap, 16);
	wire_w_int(&end_w, JK_ERRNO, 2);
	wire_w_str(&end_w, JK_STAGE, "exec");
	wire_w_str(&end_w, 999, "of the future");
	evaluate(&gone);
	ASSERT_EQ(st.state, WIRE_S_RESOURCE_EXHAUSTED);
	ASSERT(st.sealed && st.has_signal && !st.has_exit_code && st.has_limit && st.has_usage);
	ASSERT_EQ(st.signo, 9);
	ASSERT_EQ(st.started_ms, 6);
	ASSERT_EQ(st.finished_ms, 77);
	ASSERT_EQ(st.limit, 1 << 20);
	ASSERT_EQ(st.user_ms, 1);
	ASSERT_EQ(st.system_ms, 2);
	ASSERT_EQ(st.max_rss, 3);
	ASSERT_EQ(st.sys_errno, 2);
	SLICE_IS(st.containment, "pidns");
	SLICE_IS(st.view, "overlay");
	SLICE_IS(st.phase, "execution");
	SLICE_IS(st.resource, "memory");
	SLICE_IS(st.message, "a message");
	SLICE_IS(st.stage, "exec");
	ASSERT_EQ(st.n_hits, 2);
	SLICE_IS(st.hits[0].name, "pids");
	ASSERT_EQ(st.hits[0].count, 7);
	SLICE_IS(st.hits[1].name, "open_files");
	ASSERT_EQ(st.hits[1].count, 257);
	ASSERT_EQ(st.out.length, 300);
	ASSERT_EQ(st.out.gap_from, 100);
	ASSERT_EQ(st.out.gap_to, 200);
	ASSERT_EQ(st.out.tail_cap, 50);
	ASSERT_EQ(st.err.length, 0);
	ASSERT_EQ(st.err.gap_from, st.err.gap_to); /* the seal names none: there is none */
	ASSERT(st.has_hashes);
	ASSERT_MEMEQ(st.out_hash, 16, "0123456789abcdef", 16);
	ASSERT_MEMEQ(st.err_hash, 16, "fedcba9876543210", 16);
}

/* A seal without a gap, while a ring was begun: the place where the ring begins is kept. */
TEST(sealed_ring_without_a_gap)
{
	begin();
	j.out = (struct journal_stream){150, 100, 100, 100};
	wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
	wire_w_int(&end_w, JK_OUT_LEN, 150);
	evaluate(&gone);
	ASSERT_EQ(st.out.gap_from, 100);
	ASSERT_EQ(st.out.gap_to, 100);
	ASSERT_EQ(st.out.tail_cap, 100);
}

TEST(live_lengths_while_it_runs)
{
	begin();
	j.out = (struct journal_stream){10, 4, 6, 4};
	put_state(&state_w, WIRE_S_RUNNING);
	wire_w_int(&state_w, JK_STARTED_MS, 2000); /* better than the entry's own time */
	evaluate(&held);
	ASSERT_EQ(st.out.length, 10);
	ASSERT_EQ(st.out.gap_from, 4);
	ASSERT_EQ(st.out.gap_to, 6);
	ASSERT_EQ(st.out.tail_cap, 4);
	ASSERT_EQ(st.started_ms, 2000);
	ASSERT(!st.has_hashes && !st.has_usage && !st.has_limit);
}

TEST(exit_codes_and_signals)
{
	for (int64_t v = -2; v <= 258; v++) {
		begin();
		wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
		wire_w_int(&end_w, JK_EXIT_CODE, v);
		evaluate(&gone);
		ASSERT_EQ(st.has_exit_code, v >= 0 && v <= 255);
		ASSERT_EQ(st.exit_code, v >= 0 && v <= 255 ? v : 0);
		ASSERT(!st.has_signal);
		begin();
		wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
		wire_w_int(&end_w, JK_SIGNAL, v);
		evaluate(&gone);
		ASSERT_EQ(st.has_signal, v >= 1 && v <= 64);
		ASSERT_EQ(st.signo, v >= 1 && v <= 64 ? v : 0);
		ASSERT(!st.has_exit_code);
	}
	begin();
	wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
	wire_w_int(&end_w, JK_EXIT_CODE, INT64_C(0x100000001)); /* not 1 */
	wire_w_int(&end_w, JK_ERRNO, INT64_C(0x100000002));
	evaluate(&gone);
	ASSERT(!st.has_exit_code);
	ASSERT_EQ(st.sys_errno, 0);
}

TEST(messages_are_one_line)
{
	static const struct {
		const char *in;
		size_t n;
		const char *want;
	} cases[] = {
		{"", 0, ""},
		{"one\ntwo", 7, "one"},
		{"one\r\ntwo", 8, "one"},
		{"a\0b", 3, "a"},
		{"\n", 1, ""},
		{"tab\there", 8, "tab\there"},
		{"\xc3\xa9", 2, "\xc3\xa9"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		wire_w_int(&end_w, JK_STATE, WIRE_S_FAILED);
		wire_w_bytes(&end_w, JK_MESSAGE, cases[i].in, cases[i].n);
		evaluate(&gone);
		ASSERT_MEMEQ(st.message.p, st.message.n, cases[i].want, strlen(cases[i].want));
	}
}

TEST(messages_are_cut_between_characters)
{
	char text[JOURNAL_MESSAGE_MAX + 8];

	for (size_t n = JOURNAL_MESSAGE_MAX - 1; n <= JOURNAL_MESSAGE_MAX + 4; n++) {
		memset(text, 'a', sizeof(text));
		begin();
		wire_w_int(&end_w, JK_STATE, WIRE_S_FAILED);
		wire_w_bytes(&end_w, JK_MESSAGE, text, n);
		evaluate(&gone);
		ASSERT_EQ(st.message.n, n < JOURNAL_MESSAGE_MAX ? n : JOURNAL_MESSAGE_MAX);
	}
	for (size_t at = JOURNAL_MESSAGE_MAX - 4; at <= JOURNAL_MESSAGE_MAX; at++) {
		memset(text, 'a', sizeof(text));
		memcpy(text + at, "\xf0\x9f\x9a\xa2", 4); /* one character of 4 bytes */
		begin();
		wire_w_int(&end_w, JK_STATE, WIRE_S_FAILED);
		wire_w_bytes(&end_w, JK_MESSAGE, text, sizeof(text));
		evaluate(&gone);
		ASSERT_EQ(st.message.n, at == JOURNAL_MESSAGE_MAX - 4 ? JOURNAL_MESSAGE_MAX : at);
	}
	/* Not UTF-8 at all: nothing but continuation bytes. */
	memset(text, 0x80, sizeof(text));
	begin();
	wire_w_int(&end_w, JK_STATE, WIRE_S_FAILED);
	wire_w_bytes(&end_w, JK_MESSAGE, text, sizeof(text));
	evaluate(&gone);
	ASSERT_LE(st.message.n, JOURNAL_MESSAGE_MAX);
}

TEST(malformed_values_are_left_out)
{
	begin();
	j.out = (struct journal_stream){7, 0, 0, 0};
	wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
	wire_w_bytes(&end_w, JK_EXIT_CODE, "\1", 1);
	wire_w_bytes(&end_w, JK_OUT_LEN, "\1\0\0\0", 4);
	wire_w_bytes(&end_w, JK_OUT_GAP, "\1\0\0\0\0\0\0\0", 8);
	wire_w_bytes(&end_w, JK_OUT_HASH, "0123456789abcdef", 16);
	wire_w_bytes(&end_w, JK_ERR_HASH, "0123456789abcde", 15);
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "", 0);
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "pids", 4);
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "pids\0\1\0\0\0\0\0\0", 12);   /* 7 bytes */
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "\0\1\0\0\0\0\0\0\0", 9);      /* no name */
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "a\nb\0\1\0\0\0\0\0\0\0", 12); /* a line break */
	wire_w_bytes(&end_w, JK_LIMIT_HIT, "ok\0\2\0\0\0\0\0\0\0", 11);
	evaluate(&gone);
	ASSERT_EQ(st.state, WIRE_S_EXITED);
	ASSERT(!st.has_exit_code && !st.has_hashes && !st.has_usage);
	ASSERT_EQ(st.out.length, 7);
	ASSERT_EQ(st.out.gap_from + st.out.gap_to, 0);
	ASSERT_EQ(st.n_hits, 1);
	SLICE_IS(st.hits[0].name, "ok");
}

TEST(no_more_hits_than_there_is_room)
{
	begin();
	wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
	for (size_t i = 0; i < JOURNAL_HITS_MAX + 3; i++)
		wire_w_bytes(&end_w, JK_LIMIT_HIT, "x\0\1\0\0\0\0\0\0\0", 10);
	evaluate(&gone);
	ASSERT_EQ(st.n_hits, JOURNAL_HITS_MAX);
}

/* An entry whose fields stop being fields: what was before them counts, nothing is read behind. */
TEST(fields_cut_off_at_every_byte)
{
	size_t n;

	begin();
	wire_w_int(&end_w, JK_STATE, WIRE_S_EXITED);
	wire_w_int(&end_w, JK_EXIT_CODE, 3);
	wire_w_str(&end_w, JK_MESSAGE, "text");
	n = end_w.len;
	for (size_t cut = 1; cut <= n; cut++) {
		uint8_t *m = exact(end_bytes, cut);

		j.terminal = (struct wire_slice){m, cut};
		record_status(&j, &gone, &st);
		ASSERT_EQ(st.state, cut >= 14 ? WIRE_S_EXITED : WIRE_S_UNKNOWN);
		ASSERT_EQ(st.has_exit_code, cut >= 28);
		free(m);
	}
}

TEST(terminal_states)
{
	for (int s = -1; s <= 12; s++)
		ASSERT_EQ(wire_state_is_terminal(s), s >= 3 && s <= 7);
	ASSERT_EQ(WIRE_S_STARTING, 1);
	ASSERT_EQ(WIRE_S_RUNNING, 2);
	ASSERT_EQ(WIRE_S_EXITED, 3);
	ASSERT_EQ(WIRE_S_CANCELLED, 4);
	ASSERT_EQ(WIRE_S_TIMED_OUT, 5);
	ASSERT_EQ(WIRE_S_RESOURCE_EXHAUSTED, 6);
	ASSERT_EQ(WIRE_S_FAILED, 7);
	ASSERT_EQ(WIRE_S_PROVIDER_UNAVAILABLE, 8);
	ASSERT_EQ(WIRE_S_UNKNOWN, 9);
}

TEST_MAIN()
