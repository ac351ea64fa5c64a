/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_FD_H
#define BERTH_BASE_FD_H
/*
 * File descriptors: closing, flags, pipes and the one kind of lock that berth uses.
 * Functions that return int here give 0 or a result on success and -errno on failure; their callers
 * know what the fd was for and make the message.
 */
#include "base/attr.h"

/* Closes *fd unless it is -1, and sets it to -1. errno is kept. */
void fd_close(int *fd);
/* Closes @fd unless it is negative; 0 or -errno (EINTR counts as closed). For checked closes. */
int fd_close_checked(int fd);

/*
 * Moves @fd above stdin, stdout and stderr: taken on success (it may return the same number),
 * closed on failure (-errno). CLOEXEC is set on the result.
 */
int fd_move_above_2(int fd) attr_warn_unused;

int fd_set_cloexec(int fd, bool on);
int fd_set_nonblock(int fd, bool on);
/* A pipe, both ends CLOEXEC and above 2. @flags as pipe2(2), e.g. O_NONBLOCK. */
int fd_pipe(int ret_fds[2], int flags) attr_warn_unused;
/* Opens /dev/null on those of 0, 1, 2 that are closed, so that no file lands there. For main(). */
int fd_sanitize_stdio(void);

/*
 * OFD locks on the whole file: they belong to the open file description, are inherited by fork and
 * gone when the last copy is closed; the kernel gives them back when a process dies.
 * fd_lock: 0; -EAGAIN when another holds it; -ENOLCK/-EOPNOTSUPP/-EINVAL when the file system has
 * no locks. @exclusive needs an fd open for writing, shared one for reading.
 * fd_lock_wait: waits for it (-EINTR when a signal came).
 */
int fd_lock(int fd, bool exclusive) attr_warn_unused;
int fd_lock_wait(int fd, bool exclusive) attr_warn_unused;
int fd_unlock(int fd);
/*
 * Would an exclusive lock conflict? 1 somebody else holds one, 0 nobody does, -errno. Takes
 * nothing, so the asker never looks like a holder; a lock held through @fd's own description reads
 * as 0.
 */
int fd_lock_test(int fd) attr_warn_unused;

#endif
