/* SPDX-License-Identifier: MIT */
/*
 * Sandbox specs as text: PROVIDER:NAME[?key=value&…]. Values may hold %XX for what would end them.
 * Only the shape is checked here; which providers and keys exist is berth_sandbox_open()'s
 * business.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/parse.h"
#include "core/provider.h"

void spec_text_done(struct spec_text *t)
{
	free(t->text);
	free(t->pairs);
	memset(t, 0, sizeof(*t));
}

const char *spec_text_get(const struct spec_text *t, const char *key)
{
	for (size_t i = 0; i < t->n_pairs; i++) {
		if (strcmp(t->pairs[i].key, key) == 0)
			return t->pairs[i].value;
	}
	return NULL;
}

/* %XX in place. False when one is malformed or makes a NUL. */
static bool unescape(char *s)
{
	char *o = s;

	for (; *s; s++, o++) {
		unsigned char byte;

		*o = *s;
		if (*s != '%')
			continue;
		if (!s[1] || !s[2] || hex_decode(s + 1, &byte, 1) < 0 || byte == 0)
			return false;
		*o = (char)byte;
		s += 2;
	}
	*o = '\0';
	return true;
}

static int parse_pair(struct spec_text *t, char *pair, const char *spec, struct berth_error *err)
{
	char *eq = strchr(pair, '=');

	if (!eq || eq == pair)
		return berth_fail(err, BERTH_E_INVALID, "sandbox \"%s\": \"%s\" is not key=value",
				  spec, pair);
	*eq = '\0';
	if (spec_text_get(t, pair))
		return berth_fail(err, BERTH_E_INVALID, "sandbox \"%s\": \"%s\" is given twice",
				  spec, pair);
	if (!unescape(eq + 1))
		return berth_fail(
			err, BERTH_E_INVALID,
			"sandbox \"%s\": a '%%' in the value of \"%s\" is not followed by "
			"two hexadecimal digits",
			spec, pair);
	t->pairs[t->n_pairs++] = (struct berth_pair){pair, eq + 1};
	return 0;
}

static int parse_pairs(struct spec_text *t, char *query, const char *spec, struct berth_error *err)
{
	size_t max = 1;
	char *next;
	int rc = 0;

	for (const char *p = query; *p; p++)
		max += *p == '&';
	t->pairs = mem_zalloc(max, sizeof(*t->pairs));
	if (!t->pairs)
		return berth_fail_nomem(err);
	for (char *p = query; p && rc == 0; p = next) {
		next = strchr(p, '&');
		if (next)
			*next++ = '\0';
		rc = parse_pair(t, p, spec, err);
	}
	return rc;
}

int spec_text_parse(const char *spec, struct spec_text *ret, struct berth_error *err)
{
	auto(spec_text) struct spec_text t = {.text = mem_strdup(spec)};
	char *colon, *query;
	int rc;

	if (!t.text)
		return berth_fail_nomem(err);
	query = strchr(t.text, '?');
	if (query)
		*query++ = '\0';
	colon = strchr(t.text, ':');
	if (!colon || colon == t.text || !colon[1]) {
		berth_fail(err, BERTH_E_INVALID, "sandbox \"%s\" is not PROVIDER:NAME", spec);
		berth_error_hint(err, "for example: local:default");
		return BERTH_E_INVALID;
	}
	*colon = '\0';
	t.provider = t.text;
	t.name = colon + 1;
	if (!valid_sandbox_name(t.name))
		return berth_fail(err, BERTH_E_INVALID,
				  "sandbox \"%s\": the name \"%s\" is not of the form "
				  "[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
				  spec, t.name);
	rc = query && *query ? parse_pairs(&t, query, spec, err) : 0;
	if (rc < 0)
		return rc;
	*ret = t;
	memset(&t, 0, sizeof(t));
	return 0;
}
