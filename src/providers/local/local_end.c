/* SPDX-License-Identifier: MIT */
/*
 * Ending everything that runs under a berth directory on this machine.
 *
 * The way is always the protocol: STOP to init, CANCEL to supervisors whose init is gone. Only a
 * hard end kills what does not answer, by the pid that the kernel gives for the listener of its
 * socket, through a pidfd, and only if that process is a berth-agent. It is done when no lock of an
 * init or of a record is held any more.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "core/road.h"

/* A live agent answers HELLO in less than a millisecond; this is for a machine that swaps. */
#define ANSWER_MS 10000
/* Who asks for a hard end waits less for one that may be stopped or hang. */
#define HARD_ANSWER_MS 2000
/* Ending with KILL, sealing and syncing many records. */
#define HARD_MS 30000

/* Is the process a berth-agent? By its name, which can be read whatever else of it cannot. */
static bool is_agent(pid_t pid)
{
	char path[64], name[32] = "";
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read_full(fd, name, sizeof(name) - 1) > 0 &&
	       strncmp(name, "berth-agent", 11) == 0;
}

/* A pidfd of who listens on a connected socket; -1: it has ended. */
static int listener(int fd)
{
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);
	auto_close int pidfd = -1;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.pid <= 1)
		return -1;
	pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	/* Asked after the pidfd is ours: the pid is still that process's. */
	return pidfd >= 0 && is_agent(peer.pid) ? TAKE_FD(pidfd) : -1;
}

/* Has it ended within the time? Without a pidfd there is nothing to wait for. */
static bool wait_end(int pidfd, int timeout_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return pidfd < 0 || RETRY_EINTR(poll(&p, 1, timeout_ms)) > 0;
}

static void kill_it(int pidfd)
{
	if (pidfd < 0)
		return;
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	wait_end(pidfd, ANSWER_MS);
}

/* One request over a socket that is taken. A soft end takes as long as the graces of what runs. */
static int ask(int fd, uint8_t type, const struct wire_w *fields, bool hard,
	       struct berth_error *err)
{
	struct berth_stream stream = {.rfd = fd, .wfd = fd, .pidfd = -1};
	auto(road) struct road *r = NULL;
	int rc = road_over(&stream, &r, err);

	if (rc == 0)
		rc = road_hello(r, deadline_from_ms(hard ? HARD_ANSWER_MS : ANSWER_MS), err);
	return rc < 0 ? rc
		      : road_ask(r, type, fields, deadline_from_ms(hard ? HARD_MS : -1), NULL, err);
}

/* A child of an init may hold its lock for the moment between fork and close; nothing tells when
 * that is over. */
static bool lock_falls(const char *dir)
{
	int64_t deadline = deadline_from_ms(ANSWER_MS);
	struct timespec pause = {0, NS_PER_MS};

	while (local_init_alive(dir)) {
		if (now_mono_ns() > deadline)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static int end_init(const char *dir, bool hard, struct berth_error *err)
{
	uint8_t buf[64];
	struct wire_w w;
	auto_close int pidfd = -1;
	int fd, rc;

	if (!local_init_alive(dir))
		return 0;
	fd = local_connect(dir, "init.sock");
	if (fd < 0)
		return local_init_alive(dir) ? berth_fail_errno(err, BERTH_E_UNAVAILABLE, -fd,
								"%s/init.sock", dir)
					     : 0;
	pidfd = listener(fd);
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_CAUSE, "stopped");
	if (hard)
		wire_w_int(&w, WK_GRACE_MS, 0);
	rc = ask(fd, WIRE_STOP, &w, hard, err);
	if (rc == 0 && (!wait_end(pidfd, ANSWER_MS) || !lock_falls(dir)))
		rc = berth_fail(err, BERTH_E_TIMEOUT, "the init for %s does not end", dir);
	if (rc < 0 && hard) {
		kill_it(pidfd);
		rc = lock_falls(dir) ? 0 : rc;
	}
	return rc < 0 && !local_init_alive(dir) ? 0 : rc;
}

/* ── records ────────────────────────────────────────────────────────────────────────────── */

static bool record_held(int dirfd, const char *id)
{
	char path[512];
	auto_close int fd = -1;

	if (snprintf(path, sizeof(path), "%s/journal", id) >= (int)sizeof(path))
		return false;
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && fd_lock_test(fd) == 1;
}

static int end_record(int dirfd, const char *id, int kind, bool hard, struct berth_error *err)
{
	uint8_t buf[256];
	struct wire_w w;
	auto_close int pidfd = -1;
	char path[64];
	auto_close int recfd = openat(dirfd, id, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd, rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", recfd);
	fd = local_connect(path, "control");
	if (fd < 0 && !record_held(dirfd, id))
		return 0;
	if (fd < 0)
		return berth_fail_errno(err, BERTH_E_UNAVAILABLE, -fd, "the supervisor of %s", id);
	pidfd = listener(fd);
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_ID, id);
	wire_w_int(&w, WK_KIND, kind);
	if (hard)
		wire_w_int(&w, WK_GRACE_MS, 0);
	rc = ask(fd, WIRE_CANCEL, &w, hard, err);
	if (rc < 0 && hard) {
		kill_it(pidfd);
		rc = 0;
	}
	if (rc == 0)
		wait_end(pidfd, ANSWER_MS);
	if (!record_held(dirfd, id))
		return 0;
	return rc < 0 ? rc : berth_fail(err, BERTH_E_UNAVAILABLE, "%s is still running", id);
}

static int end_records(const char *dir, const char *sub, int kind, bool hard,
		       struct berth_error *err)
{
	auto_free char *path = mem_printf("%s/%s", dir, sub);
	auto_closedir DIR *d = path ? opendir(path) : NULL;
	struct dirent *e;
	int rc = 0;

	if (!path)
		return berth_fail_nomem(err);
	while (d && (e = readdir(d))) {
		int one = 0;

		if (e->d_name[0] != '.' && record_held(dirfd(d), e->d_name))
			one = end_record(dirfd(d), e->d_name, kind, hard, err);
		rc = one < 0 ? one : rc; /* the others are ended nevertheless */
	}
	return rc;
}

int local_end_dir(const char *dir, bool hard, struct berth_error *err)
{
	int rc = end_init(dir, hard, err);

	if (rc == 0)
		rc = end_records(dir, "x", WIRE_KIND_EXECUTION, hard, err);
	if (rc == 0)
		rc = end_records(dir, "s", WIRE_KIND_SESSION, hard, err);
	if (rc == 0 && local_init_alive(dir))
		rc = berth_fail(err, BERTH_E_UNAVAILABLE, "the init for %s is still there", dir);
	return rc;
}
