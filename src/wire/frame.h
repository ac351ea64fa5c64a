/* SPDX-License-Identifier: MIT */
/*
 * frame.h: frames and fields as bytes. Pure: no I/O, no allocation; memory is the caller's.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/proto.h"

static inline void wire_put_u16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}
static inline void wire_put_u32(uint8_t *p, uint32_t v)
{
	wire_put_u16(p, (uint16_t)v);
	wire_put_u16(p + 2, (uint16_t)(v >> 16));
}
static inline void wire_put_u64(uint8_t *p, uint64_t v)
{
	wire_put_u32(p, (uint32_t)v);
	wire_put_u32(p + 4, (uint32_t)(v >> 32));
}
static inline uint16_t wire_get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t wire_get_u32(const uint8_t *p)
{
	return (uint32_t)wire_get_u16(p) | (uint32_t)wire_get_u16(p + 2) << 16;
}
static inline uint64_t wire_get_u64(const uint8_t *p)
{
	return (uint64_t)wire_get_u32(p) | (uint64_t)wire_get_u32(p + 4) << 32;
}

/*
 * A writer over memory of the caller. When cap is too small nothing more is stored, but len goes on
 * counting, so that a second pass with len bytes succeeds (as snprintf does). p may be NULL with
 * cap 0.
 */
struct wire_w {
	uint8_t *p;
	size_t cap;
	size_t len; /* bytes wanted so far; overflowed when > cap */
};

void wire_w_init(struct wire_w *w, void *p, size_t cap);
static inline bool wire_w_ok(const struct wire_w *w)
{
	return w->len <= w->cap;
}

/* Raw bytes, no key. */
void wire_w_raw(struct wire_w *w, const void *p, size_t n);
/* One field. With an n that 32 bits cannot hold the writer fails for good: len becomes SIZE_MAX. */
void wire_w_bytes(struct wire_w *w, uint16_t key, const void *p, size_t n);
void wire_w_str(struct wire_w *w, uint16_t key, const char *s); /* NULL: nothing is written */
void wire_w_int(struct wire_w *w, uint16_t key, int64_t v);
/* A nested field: begin returns the position that end needs. */
size_t wire_w_begin(struct wire_w *w, uint16_t key);
void wire_w_end(struct wire_w *w, size_t pos);
/* A frame: begin writes the header with length 0, end fills the length in. */
size_t wire_w_frame_begin(struct wire_w *w, uint8_t type);
void wire_w_frame_end(struct wire_w *w, size_t pos);

/* Parses a frame header. Returns 0 and the type and payload length, or -1 when it is no valid
 * header (reserved bytes not zero, length above the limit of its type). Types that are not known
 * pass: their frames can be skipped. h has WIRE_FRAME_HEADER bytes. */
int wire_frame_header(const uint8_t *h, uint8_t *ret_type, uint32_t *ret_len);

/* Bytes of somebody else's memory. */
struct wire_slice {
	const uint8_t *p;
	size_t n;
};

/* A reader over the fields of a payload. */
struct wire_r {
	const uint8_t *p;
	size_t n;
	bool bad; /* the payload was cut off or lied about a length */
};

void wire_r_init(struct wire_r *r, const void *p, size_t n);
/* Next field: true with key and value (borrowed from the payload); false at the end or when bad
 * (r->bad). */
bool wire_r_next(struct wire_r *r, uint16_t *ret_key, struct wire_slice *ret_val);
/* An integer field: 8 bytes exactly. Returns false when the length is another. */
bool wire_slice_int(struct wire_slice v, int64_t *ret);
/* True when the slice has no NUL byte (so it can become a C string). */
bool wire_slice_is_text(struct wire_slice v);
/* True when the whole payload is well formed. */
bool wire_fields_valid(const void *p, size_t n);
/* First field with this key in a payload; false when there is none before its end or its first
 * malformed byte. */
bool wire_find(const void *p, size_t n, uint16_t key, struct wire_slice *ret);
/* The same for an integer, with a default for "absent or malformed". */
int64_t wire_find_int(const void *p, size_t n, uint16_t key, int64_t dflt);

#endif
