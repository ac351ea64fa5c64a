/* SPDX-License-Identifier: MIT */
/*
 * manifest.h: the list of an artifact's entries, as it travels in UNPACK and as it is hashed. Pure.
 *
 * An entry on the wire:
 *   u8 type ('f' file, 'd' directory, 'l' symbolic link), u8 executable (0/1, files only), u16 path length,
 *   u32 target length (links, else 0), u64 size (files, else 0), i64 mtime in ns, 32 bytes SHA-256 of the content (files, else 0),
 *   path, target. Little endian.
 * What an entry's type does not have is 0. A link's target is 1 to MANIFEST_PATH_MAX bytes; a path
 * and a target have no NUL; a size is below 2^63. Entries are sorted by path bytes (memcmp, a
 * shorter prefix first), paths are relative, without "." or ".." or empty components, and every
 * parent directory stands before what is in it.
 *
 * The artifact's identity (tree hash) is SHA-256 over, for each entry in order: type, executable,
 * u32 path length, path, and for files u64 size and the 32 bytes, for links u32 target length and
 * target. mtimes are carried but are not part of it.
 */
#ifndef WIRE_MANIFEST_H
#define WIRE_MANIFEST_H

#include "wire/frame.h"

#define MANIFEST_FIXED    56u /* bytes of an entry without path and target */
#define MANIFEST_PATH_MAX 4095u

struct manifest_entry {
	char type;
	bool executable;
	struct wire_slice path, target;
	uint64_t size;
	int64_t mtime_ns;
	const uint8_t *sha256; /* 32 bytes */
};

/* Writes an entry; what its type does not have is written as 0. path.n is at most
 * MANIFEST_PATH_MAX; sha256 is needed for files only. */
void manifest_put(struct wire_w *w, const struct manifest_entry *e);
/* Next entry at *pos. 1: *ret filled (borrowed) and *pos advanced; 0: end; -1: malformed (also a
 * bad path). Order and parents are checked by manifest_check. */
int manifest_next(const void *p, size_t n, size_t *pos, struct manifest_entry *ret);
/* 0 when the whole manifest holds what this page promises, else -1 and a static text. One pass,
 * memory of one path. */
int manifest_check(const void *p, size_t n, const char **ret_why);
/* The bytes that are hashed for the identity, for one entry: into buf (cap bytes), returns the
 * length or 0 when cap is too small. */
size_t manifest_canonical(const struct manifest_entry *e, uint8_t *buf, size_t cap);

#endif
