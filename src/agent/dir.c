/* SPDX-License-Identifier: MIT */
/*
 * dir.c: DIR as init holds it: its folders, the lock that says whose it is, the socket, and the
 * word about why it ended.
 *
 * Invariants: what has a name in DIR was complete before it got it; `ended` is there only when an
 * init has ended on purpose and none has begun since.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/init.h"

#define WINNER_MS 10000

static int lockfd = -1;

static int make_dirs(const char *path)
{
	char part[AGENT_PATH_MAX];
	size_t n = strlen(path);

	if (n >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, agent.dir_mode) < 0 && errno != EEXIST && errno != EISDIR)
			return -1;
	}
	return 0;
}

int dir_enter(const char *path, struct agent_fail *f)
{
	static char dir[AGENT_PATH_MAX], app[AGENT_PATH_MAX];
	static const char *const inside[] = {"x",       "s",       "store", "store/b",
					     "store/t", "store/l", "app",   "tmp"};

	if (make_dirs(path) < 0 ||
	    (agent.dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    fchdir(agent.dirfd) < 0 || !getcwd(dir, sizeof(dir)))
		return fail(f, WIRE_E_IO, "directory", errno, "cannot use %s: %m", path);
	agent.dir = dir;
	if (!agent.app) {
		if (!join3(app, sizeof(app), dir, "/app", ""))
			return fail(f, WIRE_E_IO, "directory", ENAMETOOLONG, "cannot use %s: %m",
				    path);
		agent.app = app;
	}
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		if (mkdir(inside[i], agent.dir_mode) < 0 && errno != EEXIST)
			return fail(f, WIRE_E_IO, "directory", errno, "cannot make %s/%s: %m", dir,
				    inside[i]);
	}
	return 0;
}

/* 0 taken; 1 another init holds it; -1 and *f. */
static int take_lock(struct agent_fail *f)
{
	lockfd = open("init.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, agent.file_mode);
	if (lockfd < 0)
		return fail(f, WIRE_E_IO, "lock", errno, "cannot open %s/init.lock: %m", agent.dir);
	if (ofd_lock(lockfd, F_WRLCK, false) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return 1;
	return fail(f, WIRE_E_UNSUPPORTED, "lock", errno, "the file system of %s has no locks: %m",
		    agent.dir);
}

static bool somebody_listens(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "init.sock"};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	/* EAGAIN: its queue is full, so it listens. */
	r = s < 0 ? -1 : connect(s, (struct sockaddr *)&a, sizeof(a));
	r = r == 0 || errno == EAGAIN;
	if (s >= 0)
		close(s);
	return r;
}

/* Another one holds the lock. It may not listen yet, or be about to end: nobody tells, so it is
 * asked. 1: it listens; 0: it has ended and the lock is ours; -1. */
static int wait_for_winner(struct agent_fail *f)
{
	int64_t end = now_ms() + WINNER_MS;

	do {
		if (somebody_listens())
			return 1;
		if (ofd_lock(lockfd, F_WRLCK, false) == 0)
			return 0;
		poll(NULL, 0, 1);
	} while (now_ms() < end);
	return fail(f, WIRE_E_TIMEOUT, "lock", 0,
		    "the init that holds %s/init.lock does not answer", agent.dir);
}

int dir_lock(struct agent_fail *f)
{
	int r = take_lock(f);

	return r > 0 ? wait_for_winner(f) : r;
}

/* By hand: a child that was forked a moment ago may still have the file open. */
void dir_unlock(void)
{
	ofd_lock(lockfd, F_UNLCK, false);
}

int dir_incarnation(struct agent_fail *f)
{
	int fd = open("tmp/incarnation", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		      agent.file_mode),
	    r;

	random_bytes(agent.incarnation, sizeof(agent.incarnation));
	r = fd < 0 ? -1 : write_all(fd, agent.incarnation, sizeof(agent.incarnation));
	if (fd >= 0)
		close(fd);
	if (r < 0 || rename("tmp/incarnation", "incarnation") < 0)
		return fail(f, WIRE_E_IO, "directory", errno, "cannot write %s/incarnation: %m",
			    agent.dir);
	return 0;
}

int dir_listen(struct agent_fail *f)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "tmp/init.sock"};
	mode_t mask = umask(0077);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	unlink(a.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    (agent.file_mode != 0600 && chmod(a.sun_path, agent.file_mode) < 0) ||
	    listen(fd, 1024) < 0 || rename(a.sun_path, "init.sock") < 0)
		return fail(f, WIRE_E_IO, "socket", errno, "cannot listen on %s/init.sock: %m",
			    agent.dir);
	umask(mask);
	unlink("ended");
	return fd;
}

void dir_ended(const char *cause)
{
	int fd = open("tmp/ended", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		      agent.file_mode);

	/* A disk that is full is no reason not to end. */
	if (fd < 0)
		return;
	if (write_all(fd, cause, strlen(cause)) == 0)
		(void)!rename("tmp/ended", "ended");
	close(fd);
}
