/* SPDX-License-Identifier: MIT */
/*
 * frame.c: frames and fields as bytes.
 *
 * Invariants: a writer never stores behind cap, and once something did not fit nothing more is
 * stored, so that what stands in the memory is always a prefix of what was wanted. A reader never
 * leaves its slice. A length that 32 bits cannot hold makes the writer fail for good (len =
 * SIZE_MAX) instead of being cut.
 *
 * Not here: reading and writing of streams, and what the frames mean.
 */
#include "wire/frame.h"

#include <string.h>

#define FIELD_HEADER 6u
#define FIELD_LENGTH 2u /* offset of the length in a field's header */

void wire_w_init(struct wire_w *w, void *p, size_t cap)
{
	w->p = p;
	w->cap = cap;
	w->len = 0;
}

void wire_w_raw(struct wire_w *w, const void *p, size_t n)
{
	if (n > SIZE_MAX - w->len) {
		w->len = SIZE_MAX;
		return;
	}
	if (n > 0 && w->len <= w->cap && n <= w->cap - w->len)
		memcpy(w->p + w->len, p, n);
	w->len += n;
}

static void put_field_header(struct wire_w *w, uint16_t key, uint32_t n)
{
	uint8_t h[FIELD_HEADER];

	wire_put_u16(h, key);
	wire_put_u32(h + FIELD_LENGTH, n);
	wire_w_raw(w, h, sizeof(h));
}

/* Fills in a length that was written as 0; its payload begins skip bytes behind it. */
static void fill_length(struct wire_w *w, size_t pos, size_t skip)
{
	size_t n;

	if (w->len == SIZE_MAX)
		return;
	n = w->len - pos - skip;
	if (n > UINT32_MAX)
		w->len = SIZE_MAX;
	else if (wire_w_ok(w))
		wire_put_u32(w->p + pos, (uint32_t)n);
}

void wire_w_bytes(struct wire_w *w, uint16_t key, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		w->len = SIZE_MAX;
		return;
	}
	put_field_header(w, key, (uint32_t)n);
	wire_w_raw(w, p, n);
}

void wire_w_str(struct wire_w *w, uint16_t key, const char *s)
{
	if (s)
		wire_w_bytes(w, key, s, strlen(s));
}

void wire_w_int(struct wire_w *w, uint16_t key, int64_t v)
{
	uint8_t b[8];

	wire_put_u64(b, (uint64_t)v);
	wire_w_bytes(w, key, b, sizeof(b));
}

size_t wire_w_begin(struct wire_w *w, uint16_t key)
{
	size_t pos = w->len;

	put_field_header(w, key, 0);
	return pos + FIELD_LENGTH;
}

void wire_w_end(struct wire_w *w, size_t pos)
{
	fill_length(w, pos, FIELD_HEADER - FIELD_LENGTH);
}

size_t wire_w_frame_begin(struct wire_w *w, uint8_t type)
{
	uint8_t h[WIRE_FRAME_HEADER] = {0};
	size_t pos = w->len;

	h[4] = type;
	wire_w_raw(w, h, sizeof(h));
	return pos;
}

void wire_w_frame_end(struct wire_w *w, size_t pos)
{
	fill_length(w, pos, WIRE_FRAME_HEADER);
}

int wire_frame_header(const uint8_t *h, uint8_t *ret_type, uint32_t *ret_len)
{
	uint32_t n = wire_get_u32(h);
	bool data = h[4] == WIRE_DATA || h[4] == WIRE_DATA2;

	if (h[5] != 0 || h[6] != 0 || h[7] != 0 || n > (data ? WIRE_DATA_MAX : WIRE_CONTROL_MAX))
		return -1;
	*ret_type = h[4];
	*ret_len = n;
	return 0;
}

void wire_r_init(struct wire_r *r, const void *p, size_t n)
{
	r->p = p;
	r->n = n;
	r->bad = false;
}

bool wire_r_next(struct wire_r *r, uint16_t *ret_key, struct wire_slice *ret_val)
{
	uint32_t n;

	if (r->bad || r->n == 0)
		return false;
	if (r->n < FIELD_HEADER || wire_get_u32(r->p + FIELD_LENGTH) > r->n - FIELD_HEADER) {
		r->bad = true;
		return false;
	}
	n = wire_get_u32(r->p + FIELD_LENGTH);
	*ret_key = wire_get_u16(r->p);
	ret_val->p = r->p + FIELD_HEADER;
	ret_val->n = n;
	r->p += FIELD_HEADER + n;
	r->n -= FIELD_HEADER + n;
	return true;
}

bool wire_slice_int(struct wire_slice v, int64_t *ret)
{
	if (v.n != 8)
		return false;
	*ret = (int64_t)wire_get_u64(v.p);
	return true;
}

bool wire_slice_is_text(struct wire_slice v)
{
	return v.n == 0 || !memchr(v.p, 0, v.n);
}

bool wire_fields_valid(const void *p, size_t n)
{
	struct wire_r r;
	struct wire_slice v;
	uint16_t key;

	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &key, &v))
		;
	return !r.bad;
}

bool wire_find(const void *p, size_t n, uint16_t key, struct wire_slice *ret)
{
	struct wire_r r;
	struct wire_slice v;
	uint16_t k;

	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &k, &v)) {
		if (k == key) {
			*ret = v;
			return true;
		}
	}
	return false;
}

int64_t wire_find_int(const void *p, size_t n, uint16_t key, int64_t dflt)
{
	struct wire_slice v;
	int64_t i;

	return wire_find(p, n, key, &v) && wire_slice_int(v, &i) ? i : dflt;
}
