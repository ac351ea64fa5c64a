/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_PATH_H
#define BERTH_BASE_PATH_H
/*
 * Paths and trees. Paths are bytes; nothing here assumes an encoding.
 */
#include <sys/types.h>

#include <berth/error.h>

#include "base/attr.h"

/* "a" + "b/c" = "a/b/c"; an absolute @b wins. Owned by caller, free with free(); NULL = no memory.
 */
char *path_join(const char *a, const char *b) attr_warn_unused;
/*
 * Lexical normal form: no "//", no "." components, ".." removed together with the name before it;
 * a leading ".." of a relative path stays, one at the root vanishes; "" and "a/.." become ".".
 * Owned by caller, free with free(); NULL = no memory.
 */
char *path_normalize(const char *path) attr_warn_unused;
/*
 * Does @rel stay below the directory it is relative to, at every prefix? "a/b", ".", "a/..",
 * "..data/x" do; "../x", "a/../../x", "/x" and "" do not. Lexical: symlinks are the business of
 * open_beneath().
 */
bool path_stays_inside(const char *rel) attr_pure;
/* The part after the last '/', in @path itself. */
const char *path_basename(const char *path) attr_pure;

/*
 * openat(2) that cannot leave @dirfd: no absolute path, no "..", no symlink to the outside, also
 * when somebody swaps components meanwhile (openat2 RESOLVE_BENEATH|RESOLVE_NO_MAGICLINKS). Where
 * the kernel or a seccomp filter lacks openat2, it is walked component by component and no symlink
 * is followed at all. @flags get O_CLOEXEC. The fd, or -errno (-EXDEV: would leave; -ELOOP: a
 * link).
 */
int open_beneath(int dirfd, const char *rel, int flags, mode_t mode) attr_warn_unused;
/* The same and never through any symlink, the last component included (-ELOOP). */
int open_beneath_nolinks(int dirfd, const char *rel, int flags, mode_t mode) attr_warn_unused;

/* The road without openat2 of the two above. For tests. */
int open_beneath_walk(int dirfd, const char *rel, int flags, mode_t mode) attr_warn_unused;

/*
 * Makes @path and its missing parents below @dirfd (AT_FDCWD for the usual meaning). Existing
 * directories (or links to them) are fine; 0 or -errno.
 */
int mkdir_p(int dirfd, const char *path, mode_t mode) attr_warn_unused;

/*
 * Removes @name below @dirfd with everything in it; never follows a link, never recurses (a tree of
 * any depth works), mends directories without permission bits on the way. What is gone is fine.
 * 0, or -errno of the first thing that could not be removed (the rest is removed nevertheless).
 */
int remove_tree(int dirfd, const char *name) attr_warn_unused;

#endif
