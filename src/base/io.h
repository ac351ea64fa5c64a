/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_IO_H
#define BERTH_BASE_IO_H
/*
 * Reading and writing whole things. EINTR is restarted; a non-blocking fd is waited for with
 * poll().
 */
#include <sys/types.h>

#include <berth/error.h>

#include "base/attr.h"

struct strbuf;

/*
 * Waits until @fd is readable, or has hung up or failed (which reading will tell). @deadline_ns is
 * on the monotonic clock (base/time.h; INT64_MAX: for ever). 1 it is, 0 the deadline has passed,
 * -errno; -EINTR is not restarted: a signal may be a reason to stop.
 */
int wait_readable(int fd, int64_t deadline_ns) attr_warn_unused;

/* Reads until @len bytes or end of file. The number read (short = EOF), or -errno. */
ssize_t read_full(int fd, void *buf, size_t len) attr_warn_unused;
ssize_t pread_full(int fd, void *buf, size_t len, off_t offset) attr_warn_unused;
/* Writes all. 0 or -errno (how much was written is then unknown). */
int write_full(int fd, const void *buf, size_t len) attr_warn_unused;
int pwrite_full(int fd, const void *buf, size_t len, off_t offset) attr_warn_unused;

/*
 * Appends the rest of @fd to @b. 0, -errno, or -EFBIG when it does not fit the buffer's maximum
 * (the buffer then holds what fitted).
 */
int read_to_strbuf(int fd, struct strbuf *b) attr_warn_unused;

/*
 * Copies up to @max bytes (-1: until end of file) from @from to @to by the fastest road that works
 * between the two: copy_file_range, sendfile, splice, else read and write. Both move on from their
 * file offsets. The number of bytes, or -errno.
 */
int64_t copy_fd(int from, int to, int64_t max) attr_warn_unused;

/*
 * Reads a whole file of at most @max bytes. @dirfd may be AT_FDCWD. *ret_data is NUL-terminated,
 * owned by caller, free with free(); @ret_len may be NULL.
 * BERTH_E_NOT_FOUND, BERTH_E_TOO_LARGE, BERTH_E_NOMEM, BERTH_E_IO; err->sys_errno tells more.
 */
int read_file(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len,
	      struct berth_error *err) attr_warn_unused;

enum write_file_flags {
	WRITE_FILE_SYNC = 1 << 0, /* fsync the file and then its directory */
	WRITE_FILE_EXCLUSIVE =
		1 << 1, /* an existing file is BERTH_E_CONFLICT instead of replaced */
	/* Begins to write the bytes out before the name appears and waits for nothing: they are
	 * safe with the next fsync of anybody on this file system, as their name is. */
	WRITE_FILE_SOON = 1 << 2,
};

/*
 * Writes a file so that readers see the old or the new contents and never a part: a temporary name
 * beside it, then rename (or link, for EXCLUSIVE). @mode is set exactly, whatever the umask. A
 * failure leaves nothing behind.
 */
int write_file_atomic(int dirfd, const char *path, const void *data, size_t len, mode_t mode,
		      int flags, struct berth_error *err) attr_warn_unused;

#endif
