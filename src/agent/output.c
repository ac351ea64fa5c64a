/* SPDX-License-Identifier: MIT */
/*
 * output.c: one output stream, from its pipe to its record: counted, hashed, kept as far as the
 * limit and the disk allow.
 *
 * Invariants: the worker is never stalled by a full disk nor by a limit; what a reader may look
 * at is published in this order: the
 * gap before bytes of the ring are overwritten, the bytes, the length. There is one gap; when a
 * disk fills a second time the gap is extended
 * over what was kept in between. A head file has bytes at their own offsets, so it is sparse
 * where the disk was full.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/output.h"

#pragma GCC optimize("O3") /* the hash is the one hot loop of the agent */
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC reset_options

#define CHUNK 65536u

static uint8_t chunk[CHUNK] __attribute__((aligned(4096)));
static XXH3_state_t hashes[2];

#pragma GCC optimize("O3")
static void hash_reset(XXH3_state_t *h)
{
	XXH3_128bits_reset(h);
}

static void hash_update(XXH3_state_t *h, const uint8_t *p, size_t n)
{
	XXH3_128bits_update(h, p, n);
}

static XXH128_hash_t hash_digest(const XXH3_state_t *h)
{
	return XXH3_128bits_digest(h);
}
#pragma GCC reset_options

static XXH3_state_t *hash_of(const struct output *o)
{
	return &hashes[o->stream == WIRE_STDERR];
}

/* The live area is little endian, as all of the journal. */
static void publish(struct output *o, int word, uint64_t v)
{
	uint8_t le[8];
	uint64_t w;

	wire_put_u64(le, v);
	memcpy(&w, le, sizeof(w));
	__atomic_store_n(&o->live[word], w, __ATOMIC_RELEASE);
}

enum { LIVE_LENGTH = 0, LIVE_GAP_FROM = 1, LIVE_GAP_TO = 2, LIVE_TAIL_CAP = 3 };

void output_init(struct output *o, int stream, int recfd, int pipe, int64_t limit, uint8_t *live)
{
	*o = (struct output){.stream = stream,
			     .recfd = recfd,
			     .pipe = pipe,
			     .head = -1,
			     .tail = -1,
			     .mode = 0600};
	o->live = (uint64_t *)(void *)live;
	o->tail_cap = limit < 0 ? 0 : (uint64_t)limit / 2;
	o->head_cap = limit < 0 ? UINT64_MAX : (uint64_t)limit - o->tail_cap;
	hash_reset(hash_of(o));
}

static int open_file(struct output *o, bool tail)
{
	int *fd = tail ? &o->tail : &o->head;
	const char *name = o->stream == WIRE_STDERR ? tail ? "stderr.tail" : "stderr"
			   : tail                   ? "stdout.tail"
						    : "stdout";

	if (*fd >= 0)
		return *fd;
	*fd = openat(o->recfd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*fd >= 0 && o->mode != 0600)
		(void)!fchmod(*fd, o->mode); /* for direct readers: the agent reads it anyway */
	return *fd;
}

/* False when not all of it could be kept; *ret_done says how much was. */
static bool put(int fd, const uint8_t *p, size_t n, uint64_t at, size_t *ret_done)
{
	size_t done = 0;

	while (fd >= 0 && done < n) {
		ssize_t r = pwrite(fd, p + done, n - done, (off_t)(at + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	*ret_done = done;
	return done == n;
}

/* Everything from where the gap began (or from, when there is none) up to `to` is not kept. */
static void lose(struct output *o, uint64_t from, uint64_t to)
{
	if (!o->ringed && o->gap_from == o->gap_to) {
		o->gap_from = from;
		/* Its beginning first: a gap that ends before it begins reads as none. */
		publish(o, LIVE_GAP_FROM, from);
	}
	if (to > o->gap_to) {
		o->gap_to = to;
		publish(o, LIVE_GAP_TO, to);
	}
}

static void put_head(struct output *o, const uint8_t *p, size_t n)
{
	size_t done;

	if (!put(open_file(o, false), p, n, o->len, &done))
		lose(o, o->len + done, o->len + n);
}

/* The ring begins: its boundary is published, as an empty gap where there is none yet. */
static void ring_begin(struct output *o)
{
	lose(o, o->len, o->len);
	o->ringed = true;
	o->gap_to = o->len;
	publish(o, LIVE_GAP_TO, o->gap_to);
	publish(o, LIVE_TAIL_CAP, o->tail_cap);
}

static void put_tail(struct output *o, const uint8_t *p, size_t n)
{
	uint64_t end = o->len + n, at = o->len;
	size_t done, k;

	if (!o->ringed)
		ring_begin(o);
	if (end - o->gap_to > o->tail_cap)
		lose(o, o->gap_to, end - o->tail_cap);
	if (n > o->tail_cap) {
		p += n - o->tail_cap;
		at = end - o->tail_cap;
		n = (size_t)o->tail_cap;
	}
	for (; n; p += k, n -= k, at += k) {
		uint64_t seam = o->tail_cap - at % o->tail_cap;

		k = n < seam ? n : (size_t)seam;
		if (!put(open_file(o, true), p, k, at % o->tail_cap, &done))
			lose(o, o->gap_to, at + k);
	}
}

static void keep(struct output *o, const uint8_t *p, size_t n)
{
	size_t head = 0;

	hash_update(hash_of(o), p, n);
	if (o->len < o->head_cap) {
		head = o->head_cap - o->len < n ? (size_t)(o->head_cap - o->len) : n;
		put_head(o, p, head);
		o->len += head;
	}
	if (n > head) {
		put_tail(o, p + head, n - head);
		o->len += n - head;
	}
	publish(o, LIVE_LENGTH, o->len);
}

int output_pump(struct output *o, size_t max)
{
	while (max && o->pipe >= 0) {
		ssize_t r = read(o->pipe, chunk, CHUNK);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			return 0;
		if (r <= 0) { /* EIO: the last slave of a pty is closed */
			close(o->pipe);
			o->pipe = -1;
			return -1;
		}
		keep(o, chunk, (size_t)r);
		if (r < (ssize_t)CHUNK)
			return 0; /* that was all there is: let epoll say when there is more */
		max = max > CHUNK ? max - CHUNK : 0;
	}
	return o->pipe < 0 ? -1 : 1;
}

void output_idle(void)
{
	madvise(chunk, sizeof(chunk), MADV_DONTNEED);
}

void output_hash(const struct output *o, uint8_t ret[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, hash_digest(hash_of(o)));
	memcpy(ret, c.digest, 16);
}
