/* SPDX-License-Identifier: MIT */
/*
 * JSON writer. Invariants: the output so far is always a prefix of one JSON text; wrong calls set
 * `broken` and write nothing, so a mistake is an error at the end and never wrong JSON.
 */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

#include <berth/error.h>

#include "base/base64.h"
#include "base/parse.h"
#include "base/strbuf.h"

/* Before a value: is one allowed here? Writes the comma. */
static bool begin_value(struct json *j)
{
	if (j->is_object[j->depth] && !j->after_key)
		j->broken = true;
	if (j->depth == 0 && j->need_comma[0])
		j->broken = true; /* a second value at the top */
	if (j->broken)
		return false;
	if (!j->after_key && j->need_comma[j->depth])
		strbuf_addc(j->out, ',');
	j->need_comma[j->depth] = true;
	j->after_key = false;
	return true;
}

static void open_level(struct json *j, bool object)
{
	if (!begin_value(j))
		return;
	if (j->depth == JSON_DEPTH_MAX) {
		j->broken = true;
		return;
	}
	strbuf_addc(j->out, object ? '{' : '[');
	j->depth++;
	j->is_object[j->depth] = object;
	j->need_comma[j->depth] = false;
}

void json_object(struct json *j)
{
	open_level(j, true);
}

void json_array(struct json *j)
{
	open_level(j, false);
}

void json_end(struct json *j)
{
	if (j->depth == 0 || j->after_key)
		j->broken = true;
	if (j->broken)
		return;
	strbuf_addc(j->out, j->is_object[j->depth] ? '}' : ']');
	j->depth--;
}

/* Escapes the sequence of @n bytes at @p (n = 0: one byte that is no UTF-8). */
static void put_escaped(struct strbuf *out, const unsigned char *p, size_t n)
{
	static const char shorts[32] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	unsigned c = p[0];

	if (n == 0) {
		strbuf_adds(out, "\xef\xbf\xbd");
	} else if (n == 2) {
		strbuf_addf(out, "\\u%04x", ((c & 0x1f) << 6) | (p[1] & 0x3fu));
	} else if (n == 3) {
		strbuf_addf(out, "\\u%04x",
			    ((c & 0xf) << 12) | ((p[1] & 0x3fu) << 6) | (p[2] & 0x3fu));
	} else if (c == '"' || c == '\\') {
		strbuf_addc(out, '\\');
		strbuf_addc(out, (char)c);
	} else if (c < 0x20 && shorts[c]) {
		strbuf_addc(out, '\\');
		strbuf_addc(out, shorts[c]);
	} else {
		strbuf_addf(out, "\\u%04x", c);
	}
}

/* Can the @n bytes at @p stand as they are? Not: controls (C1 too), quotes, U+2028, U+2029. */
static bool is_plain(const unsigned char *p, size_t n)
{
	if (n == 1)
		return p[0] >= 0x20 && p[0] != 0x7f && p[0] != '"' && p[0] != '\\';
	if (n == 2)
		return !(p[0] == 0xc2 && p[1] < 0xa0);
	if (n == 3)
		return !(p[0] == 0xe2 && p[1] == 0x80 && (p[2] & 0xfe) == 0xa8);
	return n != 0;
}

static void put_string(struct strbuf *out, const unsigned char *s, size_t len)
{
	size_t plain = 0, i = 0;

	strbuf_addc(out, '"');
	while (i < len) {
		size_t n = utf8_sequence(s + i, len - i);

		if (is_plain(s + i, n)) {
			i += n;
			continue;
		}
		strbuf_add(out, s + plain, i - plain);
		put_escaped(out, s + i, n);
		i += n ? n : 1;
		plain = i;
	}
	strbuf_add(out, s + plain, len - plain);
	strbuf_addc(out, '"');
}

void json_key(struct json *j, const char *key)
{
	if (!j->is_object[j->depth] || j->after_key)
		j->broken = true;
	if (j->broken)
		return;
	if (j->need_comma[j->depth])
		strbuf_addc(j->out, ',');
	put_string(j->out, (const unsigned char *)key, strlen(key));
	strbuf_addc(j->out, ':');
	j->need_comma[j->depth] = true;
	j->after_key = true;
}

void json_strn(struct json *j, const void *s, size_t len)
{
	if (begin_value(j))
		put_string(j->out, s, len);
}

void json_str(struct json *j, const char *s)
{
	if (s)
		json_strn(j, s, strlen(s));
	else
		json_null(j);
}

void json_base64(struct json *j, const void *bytes, size_t len)
{
	if (!begin_value(j))
		return;
	strbuf_addc(j->out, '"');
	if (len > SIZE_MAX / 2 || strbuf_reserve(j->out, BASE64_LEN(len)) < 0)
		return;
	strbuf_advance(j->out, base64_encode(bytes, len, j->out->data + j->out->len));
	strbuf_addc(j->out, '"');
}

void json_raw(struct json *j, const char *text, size_t len)
{
	if (begin_value(j))
		strbuf_add(j->out, text, len);
}

void json_int(struct json *j, int64_t v)
{
	if (begin_value(j))
		strbuf_addf(j->out, "%" PRId64, v);
}

void json_uint(struct json *j, uint64_t v)
{
	if (begin_value(j))
		strbuf_addf(j->out, "%" PRIu64, v);
}

void json_bool(struct json *j, bool v)
{
	if (begin_value(j))
		strbuf_adds(j->out, v ? "true" : "false");
}

void json_null(struct json *j)
{
	if (begin_value(j))
		strbuf_adds(j->out, "null");
}

void json_kv_str(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_kv_int(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_int(j, v);
}

void json_kv_uint(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_uint(j, v);
}

void json_kv_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}

void json_kv_null(struct json *j, const char *key)
{
	json_key(j, key);
	json_null(j);
}

void json_kv_object(struct json *j, const char *key)
{
	json_key(j, key);
	json_object(j);
}

void json_kv_array(struct json *j, const char *key)
{
	json_key(j, key);
	json_array(j);
}

int json_finish(struct json *j)
{
	int r = strbuf_error(j->out);

	if (r < 0)
		return r;
	return j->broken || j->depth != 0 || !j->need_comma[0] ? BERTH_E_INTERNAL : 0;
}
