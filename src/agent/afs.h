/* SPDX-License-Identifier: MIT */
/*
 * afs.h: the agent's file system helpers. No malloc (musl's opendir allocates), no path is followed
 * through a symbolic link unless a function says so, every fd is CLOEXEC. Functions return 0 or -1
 * with errno unless said otherwise.
 */
#ifndef AGENT_AFS_H
#define AGENT_AFS_H

#include <fcntl.h>
#include <stdio.h> /* renameat() stands there */
#include <sys/stat.h>

#include "agent/agent.h"

/* ---- reading directories ---- */

struct dirscan {
	int fd;  /* borrowed; its offset is used */
	int err; /* errno that ended the scan, else 0 */
	size_t pos, end;
	_Alignas(8) uint8_t buf[4096];
};

/* Starts at the beginning of the directory at fd. */
void dirscan_init(struct dirscan *d, int fd);
/* Next name but "." and "..", valid until the next call; *ret_type is DT_…, DT_UNKNOWN where the
 * file system does not say. NULL: the end, or d->err. */
const char *dirscan_next(struct dirscan *d, uint8_t *ret_type);

/* ---- making and removing ---- */

/* Makes every missing directory of path below dirfd (path is trusted: links in it are followed). A
 * last component that is a directory already is fine. */
int mkdir_p_at(int dirfd, const char *path, mode_t mode);
/* mkdirat(), but an existing directory (no link) is success. */
int mkdir_at(int dirfd, const char *name, mode_t mode);
/*
 * Removes name, whatever it is, with everything in it; of any depth (deep directories are moved up
 * first). Directories that the caller may not enter are made accessible. *bytes (may be NULL) grows
 * by the disk space of files that lost their last name. ENOENT is success. Nothing outside is
 * touched, whatever links there are.
 */
int remove_tree_at(int dirfd, const char *name, uint64_t *bytes);

/* ---- copying ---- */

/* Copies the contents from one file to another, from offset 0, as reflink, by copy_file_range or by
 * read and write. 1: reflinked, 0: copied, -1. */
int copy_bytes(int from, int to);

struct copy_stat {
	bool any;           /* at least one file with contents */
	bool all_reflinked; /* every such file became a reflink; set before the first call */
};

#define COPY_LAYER \
	1u /* src is an overlay's upper directory: whiteouts remove, opaque directories hide what \
	      dst has */

/* Copies everything in the directory src into the directory dst: contents, mode (no setuid, setgid,
 * sticky), mtimes of files, symbolic links as they are; what dst has by the same name is replaced,
 * directories are merged. Sockets and devices are left out. */
int copy_tree(int src, int dst, unsigned flags, struct copy_stat *st);

/*
 * Leaves in the directory full, which began as a copy of the directory tree, only what is different
 * from it, so that copy_tree() with COPY_LAYER (or an overlay) makes full out of tree, or the same
 * change out of another tree. What tree has and full has not becomes a whiteout. Files are compared
 * byte by byte.
 */
int copy_diff(int tree, int full);

/* ---- staying inside ---- */

/*
 * openat() that cannot leave dirfd, neither by ".." nor by a link (EXDEV); links that stay inside
 * are followed (not with O_NOFOLLOW as last component). Where the kernel has no openat2(), no link
 * at all is followed (ELOOP) and ".." is EXDEV.
 */
int open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* openat() that follows no link of /proc that is no path (fd/N, root, cwd, exe): ELOOP. A plain
 * openat() where the kernel has no openat2(). */
int open_plain(int dirfd, const char *path, int flags, mode_t mode);
/* Opens a directory so; with make, missing ones on the way are made (0755). path is written to, and
 * as before afterwards. */
int open_dir_plain(int dirfd, char *path, bool make);

/* Opens the directory that holds the last component of path, beneath dirfd, and leaves that
 * component in *ret_leaf (a part of buf, which has AGENT_PATH_MAX bytes). With make, missing
 * directories are made (0755). The component "." or ".." or none is EINVAL. */
int open_parent_beneath(int dirfd, const char *path, bool make, char *buf, const char **ret_leaf);

/* ---- locks and temporary directories ---- */

/* F_OFD_SETLK (wait false) or F_OFD_SETLKW over the whole file; type F_RDLCK F_WRLCK F_UNLCK. */
int ofd_lock(int fd, short type, bool wait);
/* Would a lock of this type be refused? 1, 0 or -1. Takes nothing. */
int ofd_held(int fd, short type);

/* A directory under tmp/ that tells by a lock that somebody is at work in it. */
struct tmpdir {
	char name[48]; /* "tmp/K.<32 hex digits>" */
	int fd;        /* O_RDONLY|O_DIRECTORY, holds the lock; -1: none */
};
int tmpdir_make(struct tmpdir *t, char kind);
/* Removes it when it is still there, and closes fd. Fine for one that was never made (fd -1). */
void tmpdir_drop(struct tmpdir *t);

/* ---- names ---- */

/* snprintf(buf, cap, "%s%s%s"): false when it does not fit. */
bool join3(char *buf, size_t cap, const char *a, const char *b, const char *c);

#endif
