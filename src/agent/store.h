/* SPDX-License-Identifier: MIT */
/*
 * store.h: what a sandbox keeps by content.
 *
 *   store/b/XX/YYYY…      contents, by SHA-256
 *   store/t/HASH          trees: hard links to contents where mode and mtime agree, else copies.
 * Read only by convention. store/l/KEY           layers: what an install has changed, as an
 * overlay's upper directory: for any tree with the same key store/t/HASH.ok, store/l/KEY.ok
 * markers: 't' or 'l', then the boot id of the machine that wrote it, or "synced" store/l/KEY.lock
 * held by the installer store/lock            shared: somebody may have seen a tree or layer and
 * will soon have a record that names it; exclusive: PRUNE store/dirty           boot id: contents
 * in store/b may not have reached the disk
 *
 * A directory without a marker of this boot or a synced one is not there: after a power failure its
 * files may be torn. Nothing is fsynced while somebody waits; a process in the background makes
 * what is new safe (syncfs) and marks it "synced".
 */
#ifndef AGENT_STORE_H
#define AGENT_STORE_H

#include "agent/afs.h"

#define STORE_HEX 64u

enum store_kind { STORE_NONE = 0, STORE_TREE = 't', STORE_LAYER = 'l' };

/* "store/t/HASH…" and its like. */
struct store_path {
	char s[96];
};
/* dir 't' or 'l'; hex has STORE_HEX digits (no NUL needed); suffix "" ".ok" ".lock". */
struct store_path store_path(char dir, const void *hex, const char *suffix);

/* 64 lower case hex digits? */
bool store_hex_valid(struct wire_slice s);
/* What is under this name and can be trusted: STORE_NONE or the one of dir. Touches the marker: it
 * was used. */
int store_look(char dir, const void *hex);
/* Makes the folders. 0 or -1, errno. */
int store_make(void);
/* Puts a marker in place, by way of a file in the temporary directory tmp. 0 or -1, errno. */
int store_mark(const struct tmpdir *tmp, char dir, const void *hex, bool synced);
/* Removes a directory that cannot be trusted, so that another can take its name. Taken aside under
 * the exclusive lock. */
int store_discard(char dir, const void *hex);
/* Takes store/lock: F_RDLCK, or F_WRLCK. An fd to close, or -1, errno. */
int store_hold(short type);

/*
 * To be called before contents are added: an fd, or -1, errno. When they are part of something that
 * has its name, store_dirty_end() takes the fd and starts the background process that makes all of
 * it safe. When nothing has come of it: close the fd.
 */
int store_dirty_begin(void);
void store_dirty_end(int fd, char dir, const void *hex);

#endif
