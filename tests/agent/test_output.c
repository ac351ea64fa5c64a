/* SPDX-License-Identifier: MIT */
/*
 * Every byte: output limits and their gaps, huge and binary output, readers of a ring that is
 * being written, a full disk, and bounded
 * input.
 */
#include "tap.h"

#include <sched.h>
#include <sys/mount.h>

#include "box.h"

/* What `seq 1 N` writes. */
static char *sequence(int n, size_t *ret_len)
{
	char *text = malloc((size_t)n * 8 + 1);
	size_t len = 0;

	ASSERT_NOT_NULL(text);
	for (int i = 1; i <= n; i++)
		len += (size_t)sprintf(text + len, "%d\n", i);
	*ret_len = len;
	return text;
}

static void check_hash(const char *text, size_t len)
{
	uint8_t h[16];

	client_xxh128(text, len, h);
	ASSERT(s.st.has_hashes);
	ASSERT_MEMEQ(s.st.out_hash, 16, h, 16);
}

/* The whole of it, or the head and the tail around one exact gap. */
TEST_TIMEOUT(output_limits, 120)
{
	static const int limits[] = {1,     2,     3,     10,    101,   1000,   4096,
				     38892, 38893, 38894, 38895, 77788, 1 << 20};
	size_t len, n;
	char *text = sequence(8000, &len), *got;
	uint64_t gap;

	begin(0, NULL);
	ASSERT_EQ(len, 38893u);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		SUBTEST("limit %d", limits[i])
		{
			struct opts o = {.output_limit = limits[i]};
			size_t limit = (size_t)limits[i], tail = limit / 2, head = limit - tail;
			char id[32];

			snprintf(id, sizeof(id), "l%d", limits[i]);
			ASSERT(run_launch(&c, id, &o, ARGV("seq", "1", "8000"), &s) > 0);
			ASSERT_EQ(run_wait(&c, id, 0, &s), WIRE_S_EXITED);
			ASSERT_EQ(s.st.out.length, len);
			check_hash(text, len);
			got = run_read(&c, id, 0, WIRE_STDOUT, &n, &gap);
			ASSERT_EQ(client_int(&c, WK_EOF, 0), 1);
			if (limit >= len) {
				ASSERT_EQ(gap, 0u);
				ASSERT_MEMEQ(got, n, text, len);
			} else {
				ASSERT_EQ(gap, len - limit);
				ASSERT_EQ(n, limit);
				ASSERT_MEMEQ(got, head, text, head);
				ASSERT_MEMEQ(got + head, tail, text + len - tail, tail);
			}
			free(got);
		}
	}
	free(text);
	end();
}

/* A reader beside a writer that overwrites its ring: what it gets is true at its offset. */
TEST_TIMEOUT(reading_a_live_ring, 60)
{
	struct opts o = {.output_limit = 100001};
	uint64_t offset = 0;
	struct wire_w *w;

	begin(0, NULL);
	ASSERT_EQ(run_launch(&c, "a", &o, ARGV("yes", "abcdefghijklmno"), &s), WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1 << 20, &s), WIRE_S_RUNNING);
	for (int i = 0; i < 300 || offset < 8u << 20; i++) {
		int64_t at;

		w = client_begin(&c, WIRE_READ);
		wire_w_str(w, WK_ID, "a");
		wire_w_int(w, WK_OFFSET, (int64_t)offset);
		wire_w_int(w, WK_MAX, 1 << 20);
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		ASSERT_EQ(client_code(&c), 0);
		at = client_int(&c, WK_OFFSET, -1);
		ASSERT(at >= (int64_t)offset);
		ASSERT_EQ(client_int(&c, WK_NEXT, -1), at + (int64_t)c.data_len);
		ASSERT_EQ(client_int(&c, WK_EOF, -1), 0);
		for (size_t k = 0; k < c.data_len; k++) {
			if (c.data[k] != "abcdefghijklmno\n"[((uint64_t)at + k) % 16])
				FAIL("offset %zu holds another byte", (size_t)at + k);
		}
		offset = (uint64_t)client_int(&c, WK_NEXT, 0);
	}
	ASSERT_EQ(run_cancel(&c, "a", 0, 0, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(s.st.out.gap_from, 50001u);
	ASSERT_EQ(s.st.out.length - s.st.out.gap_to, 50000u);
	end();
}

/* A ring that a crash has left shorter than its record says: an error, not a search for ever. */
TEST_TIMEOUT(reading_a_ring_that_is_cut_off, 60)
{
	struct opts o = {.output_limit = 1000};
	char path[512];
	struct wire_w *w;

	begin(0, NULL);
	ASSERT(run_launch(&c, "a", &o, ARGV("seq", "1", "8000"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	snprintf(path, sizeof(path), "%s/x/a/stdout.tail", proc.dir);
	ASSERT_OK(truncate(path, 100));
	w = client_begin(&c, WIRE_READ);
	wire_w_str(w, WK_ID, "a");
	wire_w_int(w, WK_OFFSET, (int64_t)s.st.out.length - 500);
	wire_w_int(w, WK_MAX, 1 << 20);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	ASSERT_EQ(client_code(&c), WIRE_E_IO);
	/* The stream is in step: what is not damaged can still be read. */
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_EXITED);
	end();
}

TEST_TIMEOUT(binary_and_huge, 60)
{
	size_t n, total = 200u << 20;
	uint64_t gap;
	char *got, *want;

	begin(0, NULL);
	ASSERT(run_worker(&c, "b", NULL, ARGV("bytes256", "1", "bytes256", "2"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_EXITED);
	for (int stream = 1; stream <= 2; stream++) {
		got = run_read(&c, "b", 0, stream, &n, &gap);
		ASSERT_EQ(n, 256u);
		for (int i = 0; i < 256; i++)
			ASSERT_EQ((uint8_t)got[i], i);
		free(got);
	}
	/* One line of 200 MiB. */
	ASSERT(run_worker(&c, "h", NULL, ARGV("fill", "1", "122", "209715200"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "h", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.out.length, total);
	got = run_read(&c, "h", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_EQ(n, total);
	want = malloc(total);
	ASSERT_NOT_NULL(want);
	memset(want, 122, total);
	ASSERT(memcmp(got, want, total) == 0);
	check_hash(want, total);
	free(got);
	free(want);
	end();
}

/* Both streams at once, in many small pieces. */
TEST_TIMEOUT(both_streams, 60)
{
	size_t n, m;
	uint64_t gap;
	char *out, *err;

	begin(0, NULL);
	ASSERT(run_worker(&c, "a", NULL, ARGV("alt", "20000"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	out = run_read(&c, "a", 0, WIRE_STDOUT, &n, &gap);
	err = run_read(&c, "a", 0, WIRE_STDERR, &m, &gap);
	ASSERT_EQ(n, s.st.out.length);
	ASSERT_EQ(m, s.st.err.length);
	ASSERT(n > 20000 && m > 20000);
	free(out);
	free(err);
	end();
}

/* The last bytes before the end, and those of a process that is killed, are all there. */
TEST_TIMEOUT(last_bytes, 60)
{
	begin(0, NULL);
	for (int i = 0; i < 50; i++) {
		char id[16];

		snprintf(id, sizeof(id), "e%d", i);
		ASSERT(run_worker(&c, id, NULL,
				  ARGV("fill", "1", "97", "60000", "out", "end", "raise", "KILL"),
				  &s) > 0);
		ASSERT_EQ(run_wait(&c, id, 0, &s), WIRE_S_EXITED);
		ASSERT_EQ(s.st.out.length, 60003u);
	}
	end();
}

/* `> /dev/stderr` of the worker truncates nothing. */
TEST_TIMEOUT(reopened_stderr, 60)
{
	size_t n;
	uint64_t gap;
	char *err;

	begin(0, NULL);
	ASSERT(run_worker(&c, "a", NULL, ARGV("err", "first", "reopen", "second", "err", "third"),
			  &s) > 0);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	err = run_read(&c, "a", 0, WIRE_STDERR, &n, &gap);
	ASSERT_CONTAINS(err, "first");
	ASSERT_CONTAINS(err, "second");
	ASSERT_CONTAINS(err, "third");
	free(err);
	end();
}

/* ---- a full disk ---- */

static void small_disk(const char *name, const char *options)
{
	ASSERT_OK(unshare(CLONE_NEWNS));
	ASSERT_OK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_OK(mkdir(name, 0755));
	ASSERT_OK(mount("none", name, "tmpfs", 0, options));
}

static void fill_disk(const char *path)
{
	static const char zeros[4096];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ASSERT_OK(fd);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	while (write(fd, zeros, 1) > 0)
		;
	close(fd);
}

static bool launched_b(void *arg)
{
	(void)arg;
	return run_worker(&c, "b", NULL, ARGV("exit", "3"), &s) > 0;
}

TEST_TIMEOUT(full_disk, 60)
{
	size_t len, n;
	char *text = sequence(300000, &len), *got;
	uint64_t gap;

	if (geteuid() != 0)
		SKIP("needs root to mount a small disk");
	small_disk("box0", "size=1m");
	begin(0, NULL);
	/* Twice as much as fits: the worker is not stalled, the end is true, the gap is exact. */
	ASSERT_EQ(run_launch(&c, "a", &(struct opts){.output_limit = -1},
			     ARGV("seq", "1", "300000"), &s) > 0,
		  1);
	ASSERT_EQ(run_wait(&c, "a", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 0);
	ASSERT_EQ(s.st.out.length, len);
	check_hash(text, len);
	got = run_read(&c, "a", 0, WIRE_STDOUT, &n, &gap);
	ASSERT_GT(gap, 0u);
	ASSERT_EQ(n + gap, len);
	ASSERT_EQ(s.st.out.gap_to - s.st.out.gap_from, gap);
	ASSERT(n >= s.st.out.gap_from);
	ASSERT_MEMEQ(got, (size_t)s.st.out.gap_from, text, (size_t)s.st.out.gap_from);
	free(got);
	/* Nothing can be reserved now: refused, nothing is left, and the id works once there is
	 * room. */
	fill_disk("box0/filler");
	ASSERT_EQ(run_worker(&c, "b", NULL, ARGV("exit", "0"), &s), -1);
	ASSERT_EQ(s.code, WIRE_E_IO);
	ASSERT_EQ(run_status(&c, "b", 0, &s), -1);
	ASSERT_EQ(s.code, WIRE_E_NOT_FOUND);
	ASSERT_OK(unlink("box0/filler"));
	ASSERT_EQ(run_simple(&c, WIRE_FORGET, "a", 0, 0, 0), 0);
	/* The space is free once the supervisor has closed its files, a moment after its last
	 * word. */
	ASSERT(client_until(launched_b, NULL));
	ASSERT_EQ(run_wait(&c, "b", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 3);
	free(text);
	end();
}

/* Full while it runs: its end is recorded all the same. */
TEST_TIMEOUT(full_disk_at_the_end, 60)
{
	if (geteuid() != 0)
		SKIP("needs root to mount a small disk");
	small_disk("box0", "size=1m");
	begin(0, NULL);
	ASSERT_EQ(run_worker(&c, "a", &(struct opts){.durable = true},
			     ARGV("block", "TERM", "ready", "await", "TERM", "err", "more", "exit",
				  "7"),
			     &s),
		  WIRE_S_RUNNING);
	ASSERT_EQ(run_until_output(&c, "a", 0, WIRE_STDOUT, 1, &s), WIRE_S_RUNNING);
	fill_disk("box0/filler");
	ASSERT_EQ(run_cancel(&c, "a", 0, -1, &s), WIRE_S_CANCELLED);
	ASSERT_EQ(s.st.exit_code, 7);
	ASSERT_EQ(s.st.err.length, 4u);
	ASSERT_EQ(s.st.err.gap_to - s.st.err.gap_from, 4u);
	ASSERT_EQ(run_status(&c, "a", 0, &s), WIRE_S_CANCELLED);
	ASSERT_OK(unlink("box0/filler"));
	end();
}

/* ---- input ---- */

TEST_TIMEOUT(bounded_stdin, 60)
{
	static const size_t sizes[] = {0,     1,       4096,          65535,   65536,
				       65537, 1 << 20, (1 << 20) + 1, 17 << 20};
	char *bytes = malloc(17u << 20), *got, want[64];

	begin(0, NULL);
	ASSERT_NOT_NULL(bytes);
	for (size_t i = 0; i < 17u << 20; i++)
		bytes[i] = (char)(i * 31 + i / 4096);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct opts o = {.input = bytes, .input_len = sizes[i]};
		uint64_t h = 0xcbf29ce484222325, gap;
		char id[16];
		size_t n;

		for (size_t k = 0; k < sizes[i]; k++)
			h = (h ^ (uint8_t)bytes[k]) * 0x100000001b3;
		snprintf(id, sizeof(id), "i%zu", i);
		ASSERT(run_worker(&c, id, &o, ARGV("intype", "hashin"), &s) > 0);
		ASSERT_EQ(run_wait(&c, id, 0, &s), WIRE_S_EXITED);
		got = run_read(&c, id, 0, WIRE_STDOUT, &n, &gap);
		snprintf(want, sizeof(want), "%zu %016llx", sizes[i], (unsigned long long)h);
		ASSERT_CONTAINS(got, want);
		ASSERT_CONTAINS(got, "pipe");
		free(got);
	}
	/* A worker that reads a part, or nothing, ends as it likes. */
	struct opts o = {.input = bytes, .input_len = 17u << 20};

	ASSERT(run_worker(&c, "part", &o, ARGV("take", "10", "exit", "2"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "part", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 2);
	ASSERT(run_worker(&c, "none", &o, ARGV("closein", "exit", "3"), &s) > 0);
	ASSERT_EQ(run_wait(&c, "none", 0, &s), WIRE_S_EXITED);
	ASSERT_EQ(s.st.exit_code, 3);
	free(bytes);
	end();
}

TEST_MAIN()
