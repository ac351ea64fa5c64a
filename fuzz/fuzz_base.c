/* SPDX-License-Identifier: MIT */
/*
 * The parts of base/ that read what comes from outside: parsers, paths, base64, text. Beyond "no
 * crash", what must hold for every input is asserted.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void numbers(const char *s)
{
	int64_t ms = -1, ns = -1, i = 0;
	uint64_t u = 0;
	int a = parse_duration_ms(s, &ms), b = parse_duration_ns(s, &ns);

	MUST(a == b);
	if (a == 0)
		MUST(ms >= 0 && ns >= 0 && (ms == 0) == (ns == 0) && ms * 1000000 >= ns &&
		     (ms - 1) * 1000000 < ns);
	if (parse_size(s, &u) == 0)
		MUST(u <= INT64_MAX);
	if (parse_int(s, -5, 5, &i) == 0)
		MUST(i >= -5 && i <= 5);
	if (valid_sandbox_name(s))
		MUST(valid_execution_id(s) && path_stays_inside(s));
}

static void paths(const char *s)
{
	auto_free char *once = path_normalize(s);
	auto_free char *twice = once ? path_normalize(once) : NULL;

	MUST(once && twice && strcmp(once, twice) == 0);
	/* Inside lexically means: the normal form does not climb. */
	if (path_stays_inside(s))
		MUST(once[0] != '/' && strcmp(once, "..") != 0 && strncmp(once, "../", 3) != 0);
}

static void text(const char *s, const uint8_t *data, size_t size)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(16 << 20);
	struct json j = JSON_INIT(&b);
	char line[64];

	text_one_line(line, sizeof(line), s, false);
	MUST(strlen(line) < sizeof(line) && valid_utf8(line, strlen(line)));
	MUST(!strpbrk(line, "\n\r\t\x1b"));
	json_strn(&j, data, size);
	MUST(json_finish(&j) == 0 && valid_utf8(b.data, b.len) && !memchr(b.data, '\n', b.len));
}

static void base64(const uint8_t *data, size_t size)
{
	auto_free char *encoded = malloc(BASE64_LEN(size) + 1);
	auto_free char *decoded = malloc(size + 3);
	ssize_t n;

	MUST(encoded && decoded);
	n = base64_decode((const char *)data, size, decoded);
	if (n >= 0) { /* strict: it is the only text of these bytes */
		MUST(base64_encode(decoded, (size_t)n, encoded) == size);
		MUST(memcmp(encoded, data, size) == 0);
	}
	n = base64_decode(encoded, base64_encode(data, size, encoded), encoded);
	MUST(n == (ssize_t)size && memcmp(encoded, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *s = malloc(size + 1);

	MUST(s);
	memcpy(s, data, size);
	s[size] = '\0';
	numbers(s);
	paths(s);
	text(s, data, size);
	base64(data, size);
	return 0;
}
