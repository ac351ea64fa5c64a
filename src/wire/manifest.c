/* SPDX-License-Identifier: MIT */
/*
 * manifest.c: the list of an artifact's entries.
 *
 * Invariants: one artifact has one manifest (but for mtimes): what does not apply to an entry's
 * type is 0, paths are normal and in strict order. Checking takes one pass and memory of one path.
 *
 * Not here: hashing, and anything about the files themselves.
 */
#include "wire/manifest.h"

#include <string.h>

#define SHA_BYTES    32u
#define OFF_PATH_LEN 2u
#define OFF_TARGET   4u
#define OFF_SIZE     8u
#define OFF_MTIME    16u
#define OFF_SHA      24u
_Static_assert(OFF_SHA + SHA_BYTES == MANIFEST_FIXED, "the fixed part ends with the hash");

void manifest_put(struct wire_w *w, const struct manifest_entry *e)
{
	uint8_t h[MANIFEST_FIXED] = {0};
	bool file = e->type == 'f', link = e->type == 'l';

	h[0] = (uint8_t)e->type;
	h[1] = file && e->executable;
	wire_put_u16(h + OFF_PATH_LEN, (uint16_t)e->path.n);
	wire_put_u32(h + OFF_TARGET, link ? (uint32_t)e->target.n : 0);
	wire_put_u64(h + OFF_SIZE, file ? e->size : 0);
	wire_put_u64(h + OFF_MTIME, (uint64_t)e->mtime_ns);
	if (file)
		memcpy(h + OFF_SHA, e->sha256, SHA_BYTES);
	wire_w_raw(w, h, sizeof(h));
	wire_w_raw(w, e->path.p, e->path.n);
	if (link)
		wire_w_raw(w, e->target.p, e->target.n);
}

static bool is_dots(const uint8_t *s, size_t n)
{
	return (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.');
}

/* Relative, normal, without NUL. */
static bool path_valid(struct wire_slice path)
{
	size_t start = 0;

	if (path.n == 0 || path.n > MANIFEST_PATH_MAX || !wire_slice_is_text(path))
		return false;
	for (size_t i = 0; i <= path.n; i++) {
		if (i < path.n && path.p[i] != '/')
			continue;
		if (i == start || is_dots(path.p + start, i - start))
			return false;
		start = i + 1;
	}
	return true;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	uint8_t any = 0;

	for (size_t i = 0; i < n; i++)
		any |= p[i];
	return any == 0;
}

/* What the header of an entry may say for its type; NULL when it is fine. */
static const char *header_wrong(const uint8_t *h)
{
	uint32_t target = wire_get_u32(h + OFF_TARGET);
	bool file = h[0] == 'f', link = h[0] == 'l';

	if (!file && !link && h[0] != 'd')
		return "the type of an entry is not known";
	if (h[1] > (file ? 1 : 0))
		return "the executable bit of an entry is not valid";
	if (link ? target == 0 || target > MANIFEST_PATH_MAX : target != 0)
		return "the target of an entry is not valid";
	if (file ? wire_get_u64(h + OFF_SIZE) > INT64_MAX
		 : !all_zero(h + OFF_SIZE, 8) || !all_zero(h + OFF_SHA, SHA_BYTES))
		return "the content of an entry is not valid";
	return NULL;
}

static int next(const void *p, size_t n, size_t *pos, struct manifest_entry *ret,
		const char **ret_why)
{
	struct manifest_entry e;
	const uint8_t *h;
	size_t left = n - *pos;

	if (left == 0)
		return 0;
	*ret_why = "an entry is cut off";
	if (left < MANIFEST_FIXED)
		return -1;
	h = (const uint8_t *)p + *pos;
	*ret_why = header_wrong(h);
	if (*ret_why)
		return -1;
	left -= MANIFEST_FIXED;
	e.type = (char)h[0];
	e.executable = h[1] != 0;
	e.path = (struct wire_slice){h + MANIFEST_FIXED, wire_get_u16(h + OFF_PATH_LEN)};
	e.target = (struct wire_slice){e.path.p + e.path.n, wire_get_u32(h + OFF_TARGET)};
	e.size = wire_get_u64(h + OFF_SIZE);
	e.mtime_ns = (int64_t)wire_get_u64(h + OFF_MTIME);
	e.sha256 = h + OFF_SHA;
	*ret_why = "an entry is cut off";
	if (e.path.n > left || e.target.n > left - e.path.n)
		return -1;
	*ret_why = "the path of an entry is not valid";
	if (!path_valid(e.path))
		return -1;
	*ret_why = "the target of an entry is not valid";
	if (!wire_slice_is_text(e.target))
		return -1;
	*pos += MANIFEST_FIXED + e.path.n + e.target.n;
	*ret = e;
	return 1;
}

int manifest_next(const void *p, size_t n, size_t *pos, struct manifest_entry *ret)
{
	const char *why;

	return next(p, n, pos, ret, &why);
}

/*
 * Which prefixes of the last path are directories of the manifest, one bit per length. That is all
 * that is needed: between a directory D and an entry "D/x" of a sorted list every path begins with
 * D.
 */
struct dirs {
	uint8_t bit[MANIFEST_PATH_MAX / 8 + 1];
};

static bool dirs_has(const struct dirs *d, size_t len)
{
	return d->bit[len / 8] >> (len % 8) & 1;
}

static void dirs_set(struct dirs *d, size_t len, bool on)
{
	uint8_t m = (uint8_t)(1u << (len % 8));

	d->bit[len / 8] = (uint8_t)(on ? d->bit[len / 8] | m : d->bit[len / 8] & ~m);
}

/* Bytes that both begin with. */
static size_t common(struct wire_slice a, struct wire_slice b)
{
	size_t n = 0;

	while (n < a.n && n < b.n && a.p[n] == b.p[n])
		n++;
	return n;
}

static const char *place_wrong(struct dirs *d, struct wire_slice last,
			       const struct manifest_entry *e)
{
	size_t same = common(last, e->path), parent = e->path.n;

	if (same == e->path.n || (same < last.n && last.p[same] > e->path.p[same]))
		return "the entries are not in order";
	for (size_t i = same + 1; i <= last.n; i++)
		dirs_set(d, i, false);
	while (parent > 0 && e->path.p[parent - 1] != '/')
		parent--;
	if (parent > 0 && !dirs_has(d, parent - 1))
		return "the directory of an entry is missing";
	dirs_set(d, e->path.n, e->type == 'd');
	return NULL;
}

int manifest_check(const void *p, size_t n, const char **ret_why)
{
	struct dirs dirs = {{0}};
	struct wire_slice last = {NULL, 0};
	struct manifest_entry e;
	const char *why = NULL;
	size_t pos = 0;
	int r;

	while ((r = next(p, n, &pos, &e, &why)) > 0) {
		why = place_wrong(&dirs, last, &e);
		if (why)
			break;
		last = e.path;
	}
	if (r == 0)
		return 0;
	*ret_why = why;
	return -1;
}

size_t manifest_canonical(const struct manifest_entry *e, uint8_t *buf, size_t cap)
{
	uint8_t h[8];
	struct wire_w w;

	wire_w_init(&w, buf, cap);
	h[0] = (uint8_t)e->type;
	h[1] = e->type == 'f' && e->executable;
	wire_w_raw(&w, h, 2);
	wire_put_u32(h, (uint32_t)e->path.n);
	wire_w_raw(&w, h, 4);
	wire_w_raw(&w, e->path.p, e->path.n);
	if (e->type == 'f') {
		wire_put_u64(h, e->size);
		wire_w_raw(&w, h, 8);
		wire_w_raw(&w, e->sha256, SHA_BYTES);
	} else if (e->type == 'l') {
		wire_put_u32(h, (uint32_t)e->target.n);
		wire_w_raw(&w, h, 4);
		wire_w_raw(&w, e->target.p, e->target.n);
	}
	return wire_w_ok(&w) ? w.len : 0;
}
