/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_PACKAGE_JSON_H
#define BERTH_CORE_PACKAGE_JSON_H
/*
 * One question about a package.json: does `npm install` look at more of the artifact than its
 * package and lock files?
 */
#include "base/attr.h"

/*
 * true: it has scripts that run at install, local dependencies ("file:…", "./…"), workspaces, or it
 * could not be read with certainty (malformed, escapes where they could hide something). @p has @n
 * bytes.
 */
bool package_json_needs_whole(const char *p, size_t n);

#endif
