/* SPDX-License-Identifier: MIT */
/*
 * package_json.c: a scanner that finds keys and strings in JSON, no parser.
 *
 * Invariants: one pass, no memory but the nesting; every doubt is answered with "true", which costs
 * an install that could have been saved and is never wrong. It does not decode escapes and does not
 * validate numbers.
 */
#include "core/package_json.h"

#include <string.h>

#define DEPTH_MAX 64

struct text {
	const char *p;
	size_t n;
};

struct scan {
	const char *p, *end;
	unsigned depth;
	bool object[DEPTH_MAX + 1];
	bool want_key[DEPTH_MAX + 1];
	struct text top; /* the key of the top-level member that we are in */
	bool whole;
};

static bool is(struct text t, const char *s)
{
	return t.n == strlen(s) && memcmp(t.p, s, t.n) == 0;
}

static bool starts(struct text t, const char *s)
{
	return t.n >= strlen(s) && memcmp(t.p, s, strlen(s)) == 0;
}

static bool is_one_of(struct text t, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is(t, list[i]))
			return true;
	return false;
}

static bool runs_at_install(struct text t)
{
	static const char *const names[] = {
		"preinstall", "install", "postinstall", "prepublish",
		"preprepare", "prepare", "postprepare", "dependencies",
	};

	return is_one_of(t, names, ARRAY_LEN(names));
}

static bool names_dependencies(struct text t)
{
	static const char *const names[] = {"dependencies", "optionalDependencies",
					    "devDependencies", "peerDependencies", "overrides"};

	return is_one_of(t, names, ARRAY_LEN(names));
}

static bool is_local(struct text t)
{
	return starts(t, ".") || starts(t, "/") || starts(t, "~/") || starts(t, "\\");
}

static bool names_local(struct text t)
{
	return starts(t, "file:") || starts(t, "link:") || starts(t, "portal:") ||
	       starts(t, "workspace:");
}

static void on_key(struct scan *s, struct text t)
{
	if (memchr(t.p, '\\', t.n))
		s->whole = true;
	if (s->depth == 1) {
		s->top = t;
		if (is(t, "workspaces"))
			s->whole = true;
	} else if (s->depth == 2 && is(s->top, "scripts") && runs_at_install(t)) {
		s->whole = true;
	}
}

static void on_value(struct scan *s, struct text t)
{
	if (names_local(t) || (names_dependencies(s->top) && is_local(t)))
		s->whole = true;
	/* "\u0066ile:" */
	if (names_dependencies(s->top) && memchr(t.p, '\\', t.n))
		s->whole = true;
}

/* At the '"'. False when it does not end. */
static bool string(struct scan *s)
{
	const char *from = ++s->p;
	struct text t;

	while (s->p < s->end && *s->p != '"')
		s->p += *s->p == '\\' ? 2 : 1;
	if (s->p >= s->end)
		return false;
	t = (struct text){from, (size_t)(s->p - from)};
	s->p++;
	if (s->object[s->depth] && s->want_key[s->depth])
		on_key(s, t);
	else
		on_value(s, t);
	return true;
}

static bool open(struct scan *s, bool object)
{
	if (s->depth == DEPTH_MAX)
		return false;
	s->depth++;
	s->object[s->depth] = s->want_key[s->depth] = object;
	s->p++;
	return true;
}

static bool close(struct scan *s, bool object)
{
	if (s->depth == 0 || s->object[s->depth] != object)
		return false;
	s->depth--;
	s->p++;
	return true;
}

static bool token(struct scan *s)
{
	switch (*s->p) {
	case '"':
		return string(s);
	case '{':
		return open(s, true);
	case '[':
		return open(s, false);
	case '}':
		return close(s, true);
	case ']':
		return close(s, false);
	case ',':
	case ':':
		s->want_key[s->depth] = *s->p == ',' && s->object[s->depth];
		s->p++;
		return true;
	default:
		if (!strchr(" \t\r\n+-.0123456789abcdefghijklmnopqrstuvwxyzE", *s->p) || !*s->p)
			return false;
		s->p++;
		return true;
	}
}

bool package_json_needs_whole(const char *p, size_t n)
{
	struct scan s = {.p = p, .end = p + n, .top = {"", 0}};

	while (s.p < s.end && !s.whole)
		if (!token(&s))
			return true;
	return s.whole || s.depth != 0;
}
