/* SPDX-License-Identifier: MIT */
/*
 * journals.c: records cut off or damaged at every byte. A state that is told is one that the
 * journal holds; nothing is ever "running" for ever; the record can be removed.
 */
#include "conformance/conf.h"

static char record_dir[PATH_MAX];

/* The folder of the shared sandbox's records. */
static const char *x_dir(void)
{
	static char buf[PATH_MAX];

	snprintf(buf, sizeof(buf), "%.3000s/local/shared/home/berth/x", conf.state);
	return buf;
}

static size_t journal_of(const char *id, uint8_t *buf, size_t cap)
{
	char path[PATH_MAX + 300];
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s/journal", x_dir(), id);
	fd = ASSERT_OK(open(path, O_RDONLY | O_CLOEXEC));
	n = ASSERT_OK(read(fd, buf, cap));
	close(fd);
	return (size_t)n;
}

/* Makes a record of these bytes, as if they had been found. */
static void found(const char *id, const uint8_t *p, size_t n)
{
	char path[PATH_MAX + 300];

	snprintf(record_dir, sizeof(record_dir), "%.3000s/%s", x_dir(), id);
	if (mkdir(record_dir, 0700) < 0)
		ASSERT_EQ(errno, EEXIST);
	snprintf(path, sizeof(path), "%s/journal", record_dir);
	put_bytes(path, p, n, 0600);
}

static uint8_t whole[65536], work[65536];

static void cut_at_every_byte(const char *id, enum berth_state truth)
{
	size_t n = journal_of(id, whole, sizeof(whole)), counts[12] = {0}, errors = 0;
	enum berth_state last = 0;
	struct berth_status st;

	ASSERT_GT(n, 600u);
	for (size_t len = 0; len <= n; len++) {
		int rc;

		found("cut", whole, len);
		rc = berth_status(box(), "cut", &st, &E);
		if (rc != 0) {
			/* Not ours any more: said, not guessed. */
			ASSERT(E.message[0] != '\0');
			ASSERT_LT(len, 512u + 64);
			errors++;
			continue;
		}
		ASSERT(st.state == truth || st.state == BERTH_UNKNOWN || st.state == BERTH_FAILED);
		ASSERT(st.is_final);
		counts[st.state]++;
		/* More bytes never take a truth back. */
		ASSERT(last != truth || st.state == truth);
		last = st.state;
	}
	ASSERT_EQ(last, truth);
	DIAG("%zu bytes: %zu errors, %zu failed, %zu unknown, %zu true", n, errors,
	     counts[BERTH_FAILED], counts[BERTH_UNKNOWN], counts[truth]);
}

TEST_TIMEOUT(cut_at_every_byte_of_an_exited_one, 120)
{
	struct berth_status st;

	if (strncmp(conf.template, "local:NAME", 10) != 0)
		SKIP("the journals must lie here");
	run("whole", "out abc exit 7", &st);
	cut_at_every_byte("whole", BERTH_EXITED);
}

TEST_TIMEOUT(cut_at_every_byte_of_a_failed_one, 120)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;

	if (strncmp(conf.template, "local:NAME", 10) != 0)
		SKIP("the journals must lie here");
	request(&q, "failed", "exit 0");
	q.workdir = "nowhere";
	deploy(&q, &r);
	cut_at_every_byte("failed", BERTH_FAILED);
}

TEST_TIMEOUT(every_byte_damaged, 120)
{
	size_t n, states[12] = {0}, errors = 0;
	struct berth_status st;
	static const uint8_t masks[] = {0x01, 0x80, 0xff};

	if (strncmp(conf.template, "local:NAME", 10) != 0)
		SKIP("the journals must lie here");
	run("damage", "out abc exit 7", &st);
	n = journal_of("damage", whole, sizeof(whole));
	for (size_t at = 0; at < n; at++) {
		for (size_t m = 0; m < sizeof(masks); m++) {
			memcpy(work, whole, n);
			work[at] ^= masks[m];
			found("damaged", work, n);
			if (berth_status(box(), "damaged", &st, &E) != 0) {
				ASSERT(E.message[0] != '\0');
				errors++;
				continue;
			}
			states[st.state]++;
			ASSERT(st.is_final);
			/* A checksum covers what says how it ended. */
			if (st.state == BERTH_EXITED)
				ASSERT_EXITED(&st, 7);
			else
				ASSERT(st.state == BERTH_UNKNOWN || st.state == BERTH_FAILED);
		}
	}
	DIAG("%zu errors, %zu exited, %zu failed, %zu unknown", errors, states[BERTH_EXITED],
	     states[BERTH_FAILED], states[BERTH_UNKNOWN]);
	ASSERT_GT(states[BERTH_EXITED], 0u);
}

static int count_all(void *arg, const struct berth_record *r)
{
	(void)r;
	++*(int *)arg;
	return 0;
}

TEST(damaged_ones_can_be_removed_and_do_not_hide_others)
{
	static const size_t lens[] = {0, 1, 8, 100, 511, 512, 513, 700};
	struct berth_status st;
	char id[32];
	size_t n;
	int listed = 0;

	if (strncmp(conf.template, "local:NAME", 10) != 0)
		SKIP("the journals must lie here");
	run("healthy", "exit 7", &st);
	n = journal_of("healthy", whole, sizeof(whole));
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		snprintf(id, sizeof(id), "ill-%zu", i);
		found(id, whole, lens[i] < n ? lens[i] : n);
	}
	/* An empty folder, and one with something else in it. */
	snprintf(record_dir, sizeof(record_dir), "%.3000s/ill-empty", x_dir());
	ASSERT_OK(mkdir(record_dir, 0700));
	OK(berth_list(box(), count_all, &listed, &E));
	ASSERT_GE(listed, 1);
	status_of("healthy", &st);
	ASSERT_EXITED(&st, 7);
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		snprintf(id, sizeof(id), "ill-%zu", i);
		SUBTEST("%zu bytes", lens[i])
		{
			OK(berth_remove(box(), id, &E));
			run(id, "exit 2", &st);
			ASSERT_EXITED(&st, 2);
		}
	}
	/* Nothing is in it, so it may count as no record; the id can be used either way. */
	if (berth_remove(box(), "ill-empty", &E) != 0)
		ASSERT_EQ(E.code, BERTH_E_NOT_FOUND);
	run("ill-empty", "exit 2", &st);
}

TEST(a_journal_of_another_boot)
{
	struct berth_status st;
	size_t n;

	if (strncmp(conf.template, "local:NAME", 10) != 0)
		SKIP("the journals must lie here");
	/* As a running one looks after a power cut: its state entry, no seal, another boot. */
	start_ready("power", "ready pause");
	n = journal_of("power", whole, sizeof(whole));
	for (int i = 16; i < 32; i++)
		whole[i] ^= 0x5a;
	found("rebooted", whole, n);
	status_of("rebooted", &st);
	ASSERT_EQ(st.state, BERTH_UNKNOWN);
	ASSERT_CONTAINS(st.message, "host rebooted");
	ASSERT(st.is_final);
	finish("rebooted", &st);
	OK(berth_remove(box(), "rebooted", &E));
	end_it("power");
	/* One that had ended before the reboot has ended. */
	n = journal_of("power", whole, sizeof(whole));
	for (int i = 16; i < 32; i++)
		whole[i] ^= 0x5a;
	found("rebooted", whole, n);
	status_of("rebooted", &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGKILL);
}
