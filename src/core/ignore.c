/* SPDX-License-Identifier: MIT */
/*
 * ignore.c: the rules of .berthignore.
 *
 * Invariants: rules are kept in file order; the last match decides. A rule's pattern has its
 * leading and trailing '/' taken off. The matcher's work is bounded: after a '*' only the last one
 * is tried again, and "**" restarts at component ends only. It does not read files and does not
 * walk.
 */
#include "core/ignore.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct rule {
	char *pattern; /* NUL-terminated, into ignore.text */
	bool negated, only_dirs, anchored;
};

struct ignore {
	char *text;
	struct rule *rules;
	size_t n, cap;
};

/* One bracket expression at *p (behind the '['). 1 match, 0 no match, -1 it never ends: '[' is then
 * an ordinary character. */
static int match_bracket(const char **p, unsigned char c)
{
	const char *s = *p;
	bool negated = *s == '!' || *s == '^', hit = false, first = true;

	for (s += negated; *s && (first || *s != ']'); first = false) {
		unsigned char lo, hi;

		if (*s == '\\' && s[1])
			s++;
		lo = hi = (unsigned char)*s++;
		if (s[0] == '-' && s[1] && s[1] != ']') {
			s += s[1] == '\\' && s[2] ? 2 : 1;
			hi = (unsigned char)*s++;
		}
		hit = hit || (lo <= c && c <= hi);
	}
	if (*s != ']')
		return -1;
	*p = s + 1;
	return c != '/' && hit != negated;
}

/* One element of a pattern that is no '*' against one character. The position behind the element,
 * NULL: no match. */
static const char *match_one(const char *p, char c)
{
	const char *behind;
	int r;

	switch (*p) {
	case '\0':
		return NULL;
	case '?':
		return c == '/' ? NULL : p + 1;
	case '[':
		behind = p + 1;
		r = match_bracket(&behind, (unsigned char)c);
		if (r >= 0)
			return r ? behind : NULL;
		return c == '[' ? p + 1 : NULL;
	case '\\':
		if (p[1])
			p++;
		attr_fallthrough;
	default:
		return *p == c ? p + 1 : NULL;
	}
}

/*
 * Up to two places to go back to: the last '*' (which may swallow one more byte, never a '/') and
 * the last "**" + '/' (which may swallow up to the next '/'). An earlier one never has to be tried
 * again: what a later one cannot reach from further left it cannot reach at all.
 */
bool ignore_glob(const char *pattern, const char *text)
{
	const char *p = pattern, *t = text;
	const char *star_p = NULL, *star_t = NULL, *deep_p = NULL, *deep_t = NULL;

	for (;;) {
		const char *next;

		if (p[0] == '*' && p[1] == '*' && (p == pattern || p[-1] == '/')) {
			if (p[2] == '\0')
				return *t != '\0';
			if (p[2] == '/') {
				deep_p = p += 3;
				deep_t = t;
				star_p = NULL;
				continue;
			}
		}
		if (*p == '*') {
			while (*p == '*')
				p++;
			star_p = p;
			star_t = t;
			continue;
		}
		if (*t == '\0' && *p == '\0')
			return true;
		next = *t ? match_one(p, *t) : NULL;
		if (next) {
			p = next;
			t++;
		} else if (star_p && *star_t && *star_t != '/') {
			t = ++star_t;
			p = star_p;
		} else if (deep_p && (deep_t = strchr(deep_t, '/'))) {
			t = ++deep_t;
			p = deep_p;
			star_p = NULL;
		} else {
			return false;
		}
	}
}

/* Cuts trailing spaces that no backslash keeps, and the CR of a CRLF. */
static size_t trimmed(const char *s, size_t n)
{
	if (n && s[n - 1] == '\r')
		n--;
	while (n && s[n - 1] == ' ') {
		size_t slashes = 0;

		while (slashes + 1 < n && s[n - 2 - slashes] == '\\')
			slashes++;
		if (slashes % 2)
			break;
		n--;
	}
	return n;
}

static int add_rule(struct ignore *ig, const struct rule *r, struct berth_error *err)
{
	if (ig->n == ig->cap) {
		size_t cap = ig->cap ? ig->cap * 2 : 16;
		struct rule *rules = mem_reallocarray(ig->rules, cap, sizeof(*rules));

		if (!rules)
			return berth_fail_nomem(err);
		ig->rules = rules;
		ig->cap = cap;
	}
	ig->rules[ig->n++] = *r;
	return 0;
}

/* One line, NUL-terminated in place by the caller. */
static int parse_line(struct ignore *ig, char *s, size_t n, struct berth_error *err)
{
	struct rule r = {0};

	if (!n || s[0] == '#' || memchr(s, '\0', n))
		return 0;
	if (s[0] == '!') {
		r.negated = true;
		s++, n--;
	}
	if (n && s[n - 1] == '/') {
		r.only_dirs = true;
		n--;
	}
	s[n] = '\0';
	r.anchored = memchr(s, '/', n) != NULL;
	if (s[0] == '/')
		s++;
	r.pattern = s;
	return *s ? add_rule(ig, &r, err) : 0;
}

int ignore_parse(const char *text, size_t len, struct ignore **ret, struct berth_error *err)
{
	struct ignore *ig = mem_zalloc(1, sizeof(*ig));
	int r = 0;

	if (!ig || !(ig->text = mem_strndup(text, len))) {
		ignore_free(ig);
		return berth_fail_nomem(err);
	}
	for (char *s = ig->text, *end = ig->text + len; s < end && r == 0;) {
		char *nl = memchr(s, '\n', (size_t)(end - s));
		char *stop = nl ? nl : end;

		r = parse_line(ig, s, trimmed(s, (size_t)(stop - s)), err);
		s = stop + 1;
	}
	if (r < 0) {
		ignore_free(ig);
		return r;
	}
	*ret = ig;
	return 0;
}

void ignore_free(struct ignore *ig)
{
	if (!ig)
		return;
	free(ig->rules);
	free(ig->text);
	free(ig);
}

bool ignore_match(const struct ignore *ig, const char *path, size_t len, bool is_dir)
{
	const char *name;

	if (!ig)
		return false;
	name = memrchr(path, '/', len);
	name = name ? name + 1 : path;
	for (size_t i = ig->n; i-- > 0;) {
		const struct rule *r = &ig->rules[i];

		if (r->only_dirs && !is_dir)
			continue;
		if (ignore_glob(r->pattern, r->anchored ? path : name))
			return !r->negated;
	}
	return false;
}
