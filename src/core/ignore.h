/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_IGNORE_H
#define BERTH_CORE_IGNORE_H
/*
 * `.berthignore`: what is left out of an artifact. One file, in the artifact's root; a subset of
 * gitignore(5):
 *
 *  - One pattern per line; empty lines and lines that begin with '#' are nothing; trailing spaces
 * and a trailing CR go, "\ " keeps a space; '\' makes the next character an ordinary one ("\#x",
 * "\!x").
 *  - The last pattern that matches decides; '!' before a pattern takes what it matches back in.
 * What lies in a directory that is left out cannot be taken back in.
 *  - A '/' at the end: only directories. A '/' at the beginning or in the middle: the pattern is
 * matched from the root; without one it is matched against the name at any depth.
 *  - '*' and '?' match anything but '/'; '[abc]', '[a-z]', '[!a]', '[^a]' one byte other than '/';
 * "**" + '/' any directories, '/' + "**" everything inside; character classes like [[:alpha:]] are
 * not known. Matching is by bytes.
 *
 * `.berthignore` itself is never part of the artifact. It does not name what berth leaves out by
 * itself.
 */
#include <berth/error.h>

#include "base/attr.h"

struct ignore; /* owned by caller, free with ignore_free() */

#define IGNORE_FILE ".berthignore"
#define IGNORE_MAX  (1024u * 1024)

/* Parses the text of an ignore file. Only BERTH_E_NOMEM can come back: every text has a meaning. */
int ignore_parse(const char *text, size_t len, struct ignore **ret,
		 struct berth_error *err) attr_warn_unused;
/* NULL is fine. */
void ignore_free(struct ignore *ig);
/* Is @path (relative to the root, @len bytes and a NUL) left out by itself? Its parents are asked
 * by the walk. NULL @ig: nothing is. */
bool ignore_match(const struct ignore *ig, const char *path, size_t len, bool is_dir);

/* For tests: one pattern against one text, both NUL-terminated; '*' stops at '/'. */
bool ignore_glob(const char *pattern, const char *text);

#endif
