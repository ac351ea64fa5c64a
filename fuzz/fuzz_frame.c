/* SPDX-License-Identifier: MIT */
/*
 * A stream of frames, as one end reads it. What was accepted is written again and must be the same
 * bytes; what the different ways to look into a payload say must agree.
 */
#include "wire/frame.h"

#include <string.h>

#include "fuzz.h"

static void check_value(const uint8_t *p, size_t n, uint16_t key, struct wire_slice v)
{
	int64_t i;

	MUST(v.n == 0 || (v.p >= p && v.n <= n && v.p <= p + n - v.n));
	MUST(wire_slice_int(v, &i) == (v.n == 8));
	MUST(wire_slice_is_text(v) == (v.n == 0 || !memchr(v.p, 0, v.n)));
	MUST(wire_find(p, n, key, &v));
}

/* The first field with a key is what wire_find() and wire_find_int() give. */
static void check_first(const uint8_t *p, size_t n, uint16_t key)
{
	struct wire_slice v, found;
	struct wire_r r;
	uint16_t k;
	int64_t i;

	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &k, &v)) {
		if (k != key)
			continue;
		MUST(wire_find(p, n, key, &found) && found.p == v.p && found.n == v.n);
		if (wire_slice_int(v, &i))
			MUST(wire_find_int(p, n, key, i + 1LL * (i < 0)) == i);
		return;
	}
	MUST(!wire_find(p, n, key, &found));
	MUST(wire_find_int(p, n, key, -99) == -99);
}

static void check_payload(struct wire_w *w, const uint8_t *p, size_t n)
{
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;
	size_t seen = 0;

	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &key, &v)) {
		if (seen++ < 64)
			check_value(p, n, key, v);
		wire_w_bytes(w, key, v.p, v.n);
	}
	MUST(!wire_r_next(&r, &key, &v));
	MUST(wire_fields_valid(p, n) == !r.bad);
	check_first(p, n, WK_ID);
	check_first(p, n, WK_KIND);
	if (r.bad) /* what could not be read, so that the frame is whole again */
		wire_w_raw(w, r.p, r.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *out = fuzz_alloc(size);
	size_t at = 0;
	struct wire_w w;

	wire_w_init(&w, out, size);
	while (size - at >= WIRE_FRAME_HEADER) {
		uint32_t n = 0;
		uint8_t type = 0;
		size_t f;

		if (wire_frame_header(data + at, &type, &n) < 0)
			break;
		MUST(n <=
		     (type == WIRE_DATA || type == WIRE_DATA2 ? WIRE_DATA_MAX : WIRE_CONTROL_MAX));
		MUST(type == data[at + 4]);
		if (n > size - at - WIRE_FRAME_HEADER)
			break;
		at += WIRE_FRAME_HEADER;
		f = wire_w_frame_begin(&w, type);
		if (type == WIRE_DATA || type == WIRE_DATA2)
			wire_w_raw(&w, data + at, n);
		else
			check_payload(&w, data + at, n);
		wire_w_frame_end(&w, f);
		at += n;
		MUST(w.len == at);
	}
	MUST(wire_w_ok(&w) && memcmp(out, data, at) == 0);
	free(out);
	return 0;
}
