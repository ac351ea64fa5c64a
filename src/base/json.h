/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_JSON_H
#define BERTH_BASE_JSON_H
/*
 * A streaming JSON writer into a strbuf. No reader, no tree.
 *
 *	struct json j = JSON_INIT(&buf);
 *	json_object(&j);
 *	json_key(&j, "state"); json_str(&j, "running");
 *	json_end(&j);
 *	if (json_finish(&j) < 0) …
 *
 * Commas are the writer's business. A NULL @key argument in json_…_kv is a programming error.
 * Failures (no memory, maximum, nesting) stick in the strbuf and are seen by json_finish().
 * Output is one line of valid UTF-8: bytes that are no UTF-8 become U+FFFD, control characters and
 * U+2028/2029 are escaped.
 */
#include "base/attr.h"

struct strbuf;

#define JSON_DEPTH_MAX 32

struct json {
	struct strbuf *out;
	unsigned depth;
	bool after_key;
	bool need_comma[JSON_DEPTH_MAX + 1];
	bool is_object[JSON_DEPTH_MAX + 1];
	bool broken; /* calls that make no JSON: a key outside an object, unbalanced ends, … */
};

#define JSON_INIT(buf)       \
	{                    \
		.out = (buf) \
	}

void json_object(struct json *j);
void json_array(struct json *j);
/* Ends the innermost object or array. */
void json_end(struct json *j);
void json_key(struct json *j, const char *key);

void json_str(struct json *j, const char *s); /* NULL writes null */
void json_strn(struct json *j, const void *s, size_t len);
void json_base64(struct json *j, const void *bytes, size_t len); /* as a string */
void json_int(struct json *j, int64_t v);
void json_uint(struct json *j, uint64_t v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
/* @text is JSON already, borrowed, and trusted to be well-formed. */
void json_raw(struct json *j, const char *text, size_t len);

/* Key and value in one. */
void json_kv_str(struct json *j, const char *key, const char *s);
void json_kv_int(struct json *j, const char *key, int64_t v);
void json_kv_uint(struct json *j, const char *key, uint64_t v);
void json_kv_bool(struct json *j, const char *key, bool v);
void json_kv_null(struct json *j, const char *key);
/* The key, and then the start of an object or array. */
void json_kv_object(struct json *j, const char *key);
void json_kv_array(struct json *j, const char *key);

/*
 * 0 when exactly one value was written and every object and array is ended; else BERTH_E_NOMEM,
 * BERTH_E_TOO_LARGE or BERTH_E_INTERNAL (calls that make no JSON).
 */
int json_finish(struct json *j) attr_warn_unused;

#endif
