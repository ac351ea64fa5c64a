/* SPDX-License-Identifier: MIT */
/*
 * Descriptor helpers and OFD locks. Invariant: no descriptor that is made here is ever without
 * CLOEXEC. Locks are only ever whole-file OFD locks: POSIX locks vanish when any copy is closed,
 * and flock locks cannot be asked about without taking them.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void fd_close(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved_errno;
}

int fd_close_checked(int fd)
{
	/* Linux has closed it also when it says EINTR. */
	if (fd < 0 || close(fd) == 0 || errno == EINTR)
		return 0;
	return -errno;
}

int fd_move_above_2(int fd)
{
	int moved, r;

	if (fd > 2)
		return fd_set_cloexec(fd, true) < 0 ? -EBADF : fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = moved < 0 ? -errno : moved;
	fd_close(&fd);
	return r;
}

int fd_set_cloexec(int fd, bool on)
{
	return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL), want;

	if (flags < 0)
		return -errno;
	want = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	if (want != flags && fcntl(fd, F_SETFL, want) < 0)
		return -errno;
	return 0;
}

int fd_pipe(int ret_fds[2], int flags)
{
	int fds[2], r;

	if (pipe2(fds, flags | O_CLOEXEC) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		fds[i] = r = fd_move_above_2(fds[i]);
		if (r < 0) {
			fd_close(&fds[0]);
			fd_close(&fds[1]);
			return r;
		}
	}
	ret_fds[0] = fds[0];
	ret_fds[1] = fds[1];
	return 0;
}

int fd_sanitize_stdio(void)
{
	/* open() gives the lowest free number, so each round fills the lowest hole. */
	for (;;) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		if (fd > 2) {
			close(fd);
			return 0;
		}
		fd_set_cloexec(fd, false);
	}
}

static int lock_op(int fd, int op, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	if (fcntl(fd, op, &lock) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

int fd_lock(int fd, bool exclusive)
{
	return lock_op(fd, F_OFD_SETLK, exclusive ? F_WRLCK : F_RDLCK);
}

int fd_lock_wait(int fd, bool exclusive)
{
	return lock_op(fd, F_OFD_SETLKW, exclusive ? F_WRLCK : F_RDLCK);
}

int fd_unlock(int fd)
{
	return lock_op(fd, F_OFD_SETLK, F_UNLCK);
}

int fd_lock_test(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return -errno;
	return lock.l_type != F_UNLCK;
}
