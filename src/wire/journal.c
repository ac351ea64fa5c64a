/* SPDX-License-Identifier: MIT */
/*
 * journal.c: the record of an execution as bytes, and the rules that make a state and reads of it.
 *
 * Invariants: bytes from a disk are believed only where a checksum covers them; the live area has
 * none, so whatever stands there, a plan stays inside [0, length) and its sums cannot overflow.
 * Strings in a status have no NUL and no line break. The first TERMINAL entry is the truth.
 *
 * Not here: reading files, asking for locks, and waiting.
 */
#include "wire/journal.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ENTRY_HEADER    8u
#define ENTRY_SUM       8u
#define STREAM_BYTES    32u
#define MAGIC_BYTES     8u
#define ID_BYTES        16u
#define HASH_BYTES      16u
#define ERRNO_MAX       4095 /* the kernel's MAX_ERRNO */
#define OFF_VERSION     8u
#define OFF_FIRST       12u
#define OFF_BOOT        16u
#define OFF_INCARNATION 32u
#define OFF_WALL        48u

_Static_assert(sizeof(JOURNAL_MAGIC) - 1 == MAGIC_BYTES, "the magic has 8 bytes");
_Static_assert(JOURNAL_LIVE % 8 == 0 && JOURNAL_FIRST % 8 == 0, "aligned words and entries");

void journal_head(uint8_t head[JOURNAL_FIRST], const uint8_t boot[16],
		  const uint8_t incarnation[16], int64_t wall_ms)
{
	memset(head, 0, JOURNAL_FIRST);
	memcpy(head, JOURNAL_MAGIC, MAGIC_BYTES);
	wire_put_u32(head + OFF_VERSION, JOURNAL_VERSION);
	wire_put_u32(head + OFF_FIRST, JOURNAL_FIRST);
	memcpy(head + OFF_BOOT, boot, ID_BYTES);
	memcpy(head + OFF_INCARNATION, incarnation, ID_BYTES);
	wire_put_u64(head + OFF_WALL, (uint64_t)wall_ms);
}

static size_t padded(size_t payload)
{
	return ENTRY_HEADER + ((payload + 7) & ~(size_t)7);
}

size_t journal_entry_size(size_t payload)
{
	return padded(payload) + ENTRY_SUM;
}

static uint64_t entry_sum(const uint8_t *entry, size_t n)
{
	return XXH3_64bits(entry, n);
}

size_t journal_entry(uint8_t *out, size_t cap, uint32_t type, const void *payload, size_t n)
{
	size_t body;

	if (n == 0 || n > JOURNAL_ENTRY_MAX || journal_entry_size(n) > cap)
		return 0;
	body = padded(n);
	wire_put_u32(out, (uint32_t)n);
	wire_put_u32(out + 4, type);
	memcpy(out + ENTRY_HEADER, payload, n);
	memset(out + ENTRY_HEADER + n, 0, body - ENTRY_HEADER - n);
	wire_put_u64(out + body, entry_sum(out, body));
	return body + ENTRY_SUM;
}

void journal_put_entry(struct wire_w *w, uint32_t type, struct wire_slice v)
{
	uint8_t t[4];
	size_t pos;

	if (!v.p)
		return;
	wire_put_u32(t, type);
	pos = wire_w_begin(w, WK_ENTRY);
	wire_w_raw(w, t, sizeof(t));
	wire_w_raw(w, v.p, v.n);
	wire_w_end(w, pos);
}

/* A word of the live area. The memory may be mapped and change meanwhile: one load, where it is
 * aligned. */
static uint64_t live_word(const uint8_t *p)
{
	typedef uint64_t __attribute__((may_alias)) word;
	uint64_t v;

	if ((uintptr_t)p % sizeof(word) != 0)
		return wire_get_u64(p);
	v = __atomic_load_n((const word *)(const void *)p, __ATOMIC_ACQUIRE);
	return wire_get_u64((const uint8_t *)&v);
}

void journal_live(const void *head, int stream, struct journal_stream *ret)
{
	const uint8_t *p = head;

	p += JOURNAL_LIVE + (stream == WIRE_STDERR ? STREAM_BYTES : 0);
	/* The length first: the writer moves the gap before it overwrites and the length after, so
	 * the gap that is read here is at least that of this length. */
	ret->length = live_word(p);
	ret->gap_from = live_word(p + 8);
	ret->gap_to = live_word(p + 16);
	ret->tail_cap = live_word(p + 24);
}

int journal_from_head(const void *head, size_t n, struct journal *ret)
{
	const uint8_t *p = head;

	if (n < JOURNAL_FIRST || memcmp(p, JOURNAL_MAGIC, MAGIC_BYTES) != 0 ||
	    wire_get_u32(p + OFF_VERSION) != JOURNAL_VERSION ||
	    wire_get_u32(p + OFF_FIRST) != JOURNAL_FIRST)
		return -1;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->boot, p + OFF_BOOT, ID_BYTES);
	memcpy(ret->incarnation, p + OFF_INCARNATION, ID_BYTES);
	ret->reserved_ms = (int64_t)wire_get_u64(p + OFF_WALL);
	journal_live(p, WIRE_STDOUT, &ret->out);
	journal_live(p, WIRE_STDERR, &ret->err);
	ret->end = JOURNAL_FIRST;
	return 0;
}

static void feed(struct journal *j, uint32_t type, struct wire_slice v)
{
	if (type == JOURNAL_SPEC && !j->spec.p)
		j->spec = v;
	else if (type == JOURNAL_STATE && !j->terminal.p)
		j->state = v;
	else if (type == JOURNAL_TERMINAL && !j->terminal.p)
		j->terminal = v;
}

void journal_feed(struct journal *j, struct wire_slice entry)
{
	struct wire_slice v = {entry.p + 4, entry.n - 4};

	if (entry.n > 4)
		feed(j, wire_get_u32(entry.p), v);
}

int journal_parse(const void *p, size_t n, struct journal *ret)
{
	const uint8_t *bytes = p;

	if (journal_from_head(p, n, ret) < 0)
		return -1;
	while (n - ret->end > ENTRY_HEADER) {
		const uint8_t *e = bytes + ret->end;
		struct wire_slice v = {e + ENTRY_HEADER, wire_get_u32(e)};
		size_t body = padded(v.n);

		if (v.n == 0 || v.n > JOURNAL_ENTRY_MAX || body + ENTRY_SUM > n - ret->end ||
		    wire_get_u64(e + body) != entry_sum(e, body))
			break;
		feed(ret, wire_get_u32(e + 4), v);
		ret->end += body + ENTRY_SUM;
	}
	return 0;
}

static struct wire_slice text(const char *s)
{
	return (struct wire_slice){(const uint8_t *)s, strlen(s)};
}

/* The first line, at most max bytes, not ending inside a UTF-8 sequence that the cut made. */
static struct wire_slice line(struct wire_slice v, size_t max)
{
	struct wire_slice r = {v.p, 0};

	while (r.n < v.n && v.p[r.n] != 0 && v.p[r.n] != '\n' && v.p[r.n] != '\r') {
		if (r.n == max) {
			while (r.n > 0 && (v.p[r.n] & 0xc0) == 0x80)
				r.n--;
			break;
		}
		r.n++;
	}
	return r;
}

static void take_hit(struct record_status *s, struct wire_slice v)
{
	struct wire_slice name = line(v, v.n);

	if (s->n_hits == JOURNAL_HITS_MAX || name.n == 0 || v.n - name.n != 1 + 8 ||
	    v.p[name.n] != 0)
		return;
	s->hits[s->n_hits].name = name;
	s->hits[s->n_hits].count = (int64_t)wire_get_u64(v.p + name.n + 1);
	s->n_hits++;
}

static void take_gap(struct journal_stream *st, struct wire_slice v)
{
	if (v.n != 16)
		return;
	st->gap_from = wire_get_u64(v.p);
	st->gap_to = wire_get_u64(v.p + 8);
}

static void take_text(struct record_status *s, uint16_t key, struct wire_slice v)
{
	v = line(v, JOURNAL_MESSAGE_MAX);
	switch (key) {
	case JK_CONTAINMENT:
		s->containment = v;
		break;
	case JK_VIEW:
		s->view = v;
		break;
	case JK_PHASE:
		s->phase = v;
		break;
	case JK_RESOURCE:
		s->resource = v;
		break;
	case JK_MESSAGE:
		s->message = v;
		break;
	case JK_STAGE:
		s->stage = v;
		break;
	default:
		break;
	}
}

static void take_int(struct record_status *s, uint16_t key, int64_t i)
{
	switch (key) {
	case JK_EXIT_CODE:
		s->has_exit_code = i >= 0 && i <= 255;
		s->exit_code = s->has_exit_code ? (int)i : 0;
		break;
	case JK_SIGNAL:
		s->has_signal = i >= 1 && i <= 64;
		s->signo = s->has_signal ? (int)i : 0;
		break;
	case JK_LIMIT:
		s->has_limit = true;
		s->limit = i;
		break;
	case JK_USER_MS:
		s->has_usage = true;
		s->user_ms = i;
		break;
	case JK_SYSTEM_MS:
		s->has_usage = true;
		s->system_ms = i;
		break;
	case JK_MAX_RSS:
		s->has_usage = true;
		s->max_rss = i;
		break;
	case JK_STARTED_MS:
		s->started_ms = i;
		break;
	case JK_ERRNO:
		s->sys_errno = i > 0 && i <= ERRNO_MAX ? (int)i : 0;
		break;
	case JK_OUT_LEN:
		s->out.length = (uint64_t)i;
		break;
	case JK_ERR_LEN:
		s->err.length = (uint64_t)i;
		break;
	default:
		break;
	}
}

/* Everything but the state and its time. A later entry overrides an earlier one. */
static void take_entry(struct record_status *s, struct wire_slice payload)
{
	unsigned hashes = 0;
	struct wire_r r;
	struct wire_slice v;
	uint16_t key;
	int64_t i;

	wire_r_init(&r, payload.p, payload.n);
	while (wire_r_next(&r, &key, &v)) {
		switch (key) {
		case JK_LIMIT_HIT:
			take_hit(s, v);
			break;
		case JK_OUT_GAP:
			take_gap(&s->out, v);
			break;
		case JK_ERR_GAP:
			take_gap(&s->err, v);
			break;
		case JK_OUT_HASH:
		case JK_ERR_HASH:
			if (v.n != HASH_BYTES)
				break;
			memcpy(key == JK_OUT_HASH ? s->out_hash : s->err_hash, v.p, HASH_BYTES);
			hashes |= key == JK_OUT_HASH ? 1u : 2u;
			break;
		default:
			take_text(s, key, v);
			if (wire_slice_int(v, &i))
				take_int(s, key, i);
		}
	}
	s->has_hashes = hashes == 3;
}

static void unknown(struct record_status *s, const char *why)
{
	s->state = WIRE_S_UNKNOWN;
	s->message = text(why);
}

static void from_terminal(struct record_status *s, struct wire_slice terminal)
{
	s->state = (int)wire_find_int(terminal.p, terminal.n, JK_STATE, WIRE_S_NONE);
	/* The gap of a sealed stream is the one in the seal; none there is none. gap_from stays: a
	 * ring that was begun and not overwritten begins there. */
	s->out.gap_to = s->out.gap_from;
	s->err.gap_to = s->err.gap_from;
	take_entry(s, terminal);
	s->finished_ms = wire_find_int(terminal.p, terminal.n, JK_TIME_MS, 0);
	s->sealed = true;
	if (!wire_state_is_terminal(s->state))
		unknown(s, "the record names an end that this version does not know");
}

static void from_nobody(struct record_status *s, bool never_ran, const struct journal_facts *f)
{
	if (never_ran) {
		s->state = WIRE_S_FAILED;
		s->phase = text("launch");
		s->message = text("the launch was interrupted before the command ran");
	} else if (!f->same_boot) {
		unknown(s, "host rebooted");
	} else if (f->init_is_life && !f->same_incarnation) {
		unknown(s, "sandbox replaced");
	} else if (f->init_is_life && f->init_gone) {
		unknown(s, "the sandbox's init is gone");
	} else {
		unknown(s, "supervisor gone");
	}
}

/*
 * Is it certain that the command never ran? Entries behind the reservation are not synced, so after
 * a reboot "starting" proves nothing; on the same boot it does, unless the mark that comes before
 * execve is there. An entry that says nothing proves nothing; no entry at all does.
 */
static bool certainly_never_ran(const struct journal *j, int64_t state, bool same_boot)
{
	struct wire_slice stage;

	if (!j->state.p)
		return true;
	return state == WIRE_S_STARTING && same_boot &&
	       !wire_find(j->state.p, j->state.n, JK_STAGE, &stage);
}

void record_status(const struct journal *j, const struct journal_facts *f,
		   struct record_status *ret)
{
	int64_t state = wire_find_int(j->state.p, j->state.n, JK_STATE, WIRE_S_NONE);

	memset(ret, 0, sizeof(*ret));
	ret->out = j->out;
	ret->err = j->err;
	take_entry(ret, j->state);
	ret->stage = (struct wire_slice){NULL, 0}; /* there it is the mark, not a failure */
	if (state == WIRE_S_RUNNING && ret->started_ms == 0)
		ret->started_ms = wire_find_int(j->state.p, j->state.n, JK_TIME_MS, 0);
	if (j->terminal.p)
		from_terminal(ret, j->terminal);
	else if (!f->held)
		from_nobody(ret, certainly_never_ran(j, state, f->same_boot), f);
	else if (!j->state.p || state == WIRE_S_STARTING)
		ret->state = WIRE_S_STARTING;
	else if (state == WIRE_S_RUNNING)
		ret->state = WIRE_S_RUNNING;
	else
		unknown(ret, "the record names a state that this version does not know");
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What nobody can have lied about: from <= to <= length, and no more kept behind the gap than the
 * ring holds. */
static struct journal_stream sane(const struct journal_stream *raw)
{
	struct journal_stream s = *raw;

	s.gap_from = min_u64(s.gap_from, s.length);
	if (s.tail_cap > 0 && s.length - s.gap_from > s.tail_cap)
		s.gap_to = max_u64(s.gap_to, s.length - s.tail_cap);
	s.gap_to = max_u64(min_u64(s.gap_to, s.length), s.gap_from);
	return s;
}

void record_read_plan(const struct record_status *st, int stream, uint64_t offset, uint64_t max,
		      struct record_read *ret)
{
	const struct journal_stream s = sane(stream == WIRE_STDERR ? &st->err : &st->out);
	bool gap = s.gap_from < s.gap_to;
	struct record_read r = {.offset = offset, .total = s.length};
	uint64_t end = s.length;

	if (gap && offset >= s.gap_from && offset < s.gap_to) {
		r.has_gap = true;
		r.gap_from = s.gap_from;
		r.gap_to = s.gap_to;
		r.offset = s.gap_to;
	}
	r.from_tail = s.tail_cap > 0 && r.offset >= s.gap_to;
	r.file_offset = r.from_tail ? r.offset % s.tail_cap : r.offset;
	if (r.from_tail)
		max = min_u64(max, s.tail_cap - r.file_offset);
	else if (gap || s.tail_cap > 0)
		end = r.offset < s.gap_from ? s.gap_from : end;
	if (r.offset < end)
		r.n = (size_t)min_u64(min_u64(max, end - r.offset), SIZE_MAX);
	r.next = r.offset + r.n;
	r.interrupted = st->state == WIRE_S_UNKNOWN || st->state == WIRE_S_PROVIDER_UNAVAILABLE;
	r.has_total = !r.interrupted;
	r.truncated = r.next < s.length;
	r.eof = wire_state_is_terminal(st->state) && !r.truncated;
	*ret = r;
}

bool record_read_valid(const struct record_read *r, const struct journal_stream *fresh)
{
	return r->n == 0 || !r->from_tail || fresh->gap_to <= r->offset;
}
