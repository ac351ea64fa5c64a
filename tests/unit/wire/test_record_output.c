/* SPDX-License-Identifier: MIT */
/*
 * The agent's writer against the reader's plan, over real files: every byte that is kept is read
 * back, what is not kept is named exactly, under output limits and on a disk that is full for a
 * while (RLIMIT_FSIZE stands in for it: writes stop at the same byte every time).
 */
#include <sys/resource.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/output.h"
#include "bytes.h"

static uint8_t head[JOURNAL_FIRST] __attribute__((aligned(8)));
static struct output out;
static int record, feed;
static uint64_t written;

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 7 + offset / 251 + 1);
}

static void begin(int64_t limit)
{
	static const uint8_t id[16];
	int fds[2];

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	ASSERT_OK(fcntl(fds[0], F_SETFL, O_NONBLOCK));
	record = ASSERT_OK(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	unlink("stdout");
	unlink("stdout.tail");
	journal_head(head, id, id, 0);
	output_init(&out, WIRE_STDOUT, record, fds[0], limit, head + JOURNAL_LIVE);
	feed = fds[1];
	written = 0;
}

static void finish(void)
{
	close(feed);
	ASSERT_EQ(output_pump(&out, SIZE_MAX), -1);
	ASSERT_EQ(out.pipe, -1);
	if (out.head >= 0)
		close(out.head);
	if (out.tail >= 0)
		close(out.tail);
	close(record);
}

static void write_bytes(size_t n)
{
	static uint8_t buf[65536];

	ASSERT_LE(n, sizeof(buf));
	for (size_t i = 0; i < n; i++)
		buf[i] = byte_at(written + i);
	ASSERT_EQ(write(feed, buf, n), (ssize_t)n);
	ASSERT_GE(output_pump(&out, SIZE_MAX), 0);
	written += n;
}

/* What a reader would do; marks what it got. Returns the end of what it read. */
static void read_all(uint8_t *got, uint64_t max, bool ended)
{
	static uint8_t buf[65536];
	uint64_t offset = 0;
	struct record_status st;
	struct record_read r;

	memset(&st, 0, sizeof(st));
	st.state = ended ? WIRE_S_EXITED : WIRE_S_RUNNING;
	journal_live(head, WIRE_STDOUT, &st.out);
	ASSERT(st.out.length == written);
	do {
		record_read_plan(&st, WIRE_STDOUT, offset, max, &r);
		ASSERT_LE(r.n, sizeof(buf));
		if (r.n > 0) {
			int fd = ASSERT_OK(open(r.from_tail ? "stdout.tail" : "stdout", O_RDONLY));

			ASSERT_EQ(pread(fd, buf, r.n, (off_t)r.file_offset), (ssize_t)r.n);
			close(fd);
		}
		ASSERT(record_read_valid(&r, &st.out));
		for (size_t i = 0; i < r.n; i++) {
			if (buf[i] != byte_at(r.offset + i))
				FAIL("byte %llu is not the one that was written",
				     (unsigned long long)(r.offset + i));
			got[r.offset + i]++;
		}
		ASSERT(r.offset == offset || (r.has_gap && r.gap_to == r.offset));
		offset = r.next;
	} while (r.truncated);
	ASSERT(offset == written);
	ASSERT_EQ(r.eof, ended);
}

static void check_kept(uint64_t limit, uint64_t max, bool ended)
{
	uint8_t *got = calloc(1, written + 1);
	uint64_t tail = limit / 2, first = limit - tail;

	ASSERT_NOT_NULL(got);
	read_all(got, max, ended);
	for (uint64_t o = 0; o < written; o++) {
		bool kept = limit == 0 || written <= limit || o < first || o >= written - tail;

		ASSERT_EQ(got[o], kept);
	}
	free(got);
}

TEST(every_small_limit)
{
	static const size_t chunks[] = {1, 2, 5, 17};

	for (int64_t limit = 1; limit <= 12; limit++) {
		for (size_t c = 0; c < 4; c++) {
			begin(limit);
			check_kept((uint64_t)limit, 3, false);
			while (written < 50) {
				write_bytes(chunks[c]);
				check_kept((uint64_t)limit, 1, false);
				check_kept((uint64_t)limit, 100, false);
			}
			finish();
			check_kept((uint64_t)limit, 4, true);
		}
	}
}

TEST(no_limit)
{
	begin(-1);
	write_bytes(1);
	write_bytes(65536);
	write_bytes(4096);
	write_bytes(10000);
	check_kept(0, 65536, false);
	check_kept(0, 4097, false);
	finish();
	check_kept(0, 65536, true);
	ASSERT_EQ(access("stdout.tail", F_OK), -1);
}

TEST(large_writes_over_a_ring)
{
	static const size_t sizes[] = {65536, 1, 40000, 4095, 4096, 65535, 12345};

	begin(60001);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_bytes(sizes[i]);
		check_kept(60001, 65536, false);
		check_kept(60001, 777, false);
	}
	finish();
}

TEST(nothing_written)
{
	begin(100);
	finish();
	check_kept(100, 10, true);
	ASSERT_EQ(access("stdout", F_OK), -1);
}

static void file_limit(rlim_t n)
{
	struct rlimit l;

	ASSERT_OK(getrlimit(RLIMIT_FSIZE, &l));
	l.rlim_cur = n;
	ASSERT_OK(setrlimit(RLIMIT_FSIZE, &l));
}

/* Bytes read back, and the gap that the live area names. */
static void assert_gap(uint64_t from, uint64_t to, uint64_t max)
{
	uint8_t *got = calloc(1, written + 1);
	struct journal_stream s;

	ASSERT_NOT_NULL(got);
	read_all(got, max, true);
	journal_live(head, WIRE_STDOUT, &s);
	ASSERT(s.gap_from == from && s.gap_to == to);
	for (uint64_t o = 0; o < written; o++)
		ASSERT_EQ(got[o], o < from || o >= to);
	free(got);
}

TEST(full_disk_without_a_limit)
{
	signal(SIGXFSZ, SIG_IGN);
	begin(-1);
	write_bytes(100);
	file_limit(150);
	write_bytes(100); /* 50 of it fit */
	assert_gap(150, 200, 64);
	write_bytes(30);
	assert_gap(150, 230, 64);
	file_limit(RLIM_INFINITY);
	write_bytes(70); /* there is room again */
	assert_gap(150, 230, 64);
	file_limit(310);
	write_bytes(50); /* a second time: one gap, over what was kept between */
	assert_gap(150, 350, 64);
	file_limit(RLIM_INFINITY);
	write_bytes(5);
	assert_gap(150, 350, 1000);
	finish();
}

TEST(full_disk_before_a_ring)
{
	signal(SIGXFSZ, SIG_IGN);
	begin(200); /* 100 in the head, 100 in the ring */
	file_limit(40);
	write_bytes(60); /* 40 … 60 are lost */
	file_limit(RLIM_INFINITY);
	write_bytes(20);
	assert_gap(40, 60, 7);
	write_bytes(60); /* the ring begins at 100: with one gap, what was kept before it goes */
	assert_gap(40, 100, 7);
	write_bytes(100);
	assert_gap(40, 140, 1000);
	finish();
}

TEST(full_disk_in_a_ring)
{
	signal(SIGXFSZ, SIG_IGN);
	begin(200);
	write_bytes(150);
	file_limit(20);
	write_bytes(10); /* at 50 in the ring's file: does not fit */
	assert_gap(100, 160, 1000);
	file_limit(RLIM_INFINITY);
	write_bytes(30);
	assert_gap(100, 160, 1000);
	write_bytes(200);
	assert_gap(100, 290, 13);
	finish();
}

TEST(hashed_whatever_is_kept)
{
	uint8_t hash[16], all[500];
	XXH128_canonical_t want;

	signal(SIGXFSZ, SIG_IGN);
	begin(10);
	file_limit(3);
	for (size_t i = 0; i < 500; i += 50)
		write_bytes(50);
	file_limit(RLIM_INFINITY);
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = byte_at(i);
	XXH128_canonicalFromHash(&want, XXH3_128bits(all, sizeof(all)));
	output_hash(&out, hash);
	ASSERT_MEMEQ(hash, 16, want.digest, 16);
	finish();
}

TEST_MAIN()
