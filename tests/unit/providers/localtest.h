/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_PROVIDERS_LOCALTEST_H
#define TESTS_UNIT_PROVIDERS_LOCALTEST_H
/*
 * localtest.h: sandboxes of the local provider and their processes, for the tests of this folder.
 */
#include "tap.h"

#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/time.h"
#include "core/core.h"
#include "core/provider.h"
#include "core/road.h"
#include "providers/local/local.h"

#define UNUSED __attribute__((unused))

static UNUSED const struct berth_provider_ops *const drivers[] = {&berth_provider_local};

static struct berth *b;

static UNUSED struct berth_sandbox *opened(const char *spec, unsigned flags)
{
	struct berth_sandbox *s = NULL;
	struct berth_error err = BERTH_ERROR_INIT;

	if (!b && core_context_new("state", drivers, 1, &b, &err) < 0)
		FAIL("%s", err.message);
	if (berth_sandbox_open(b, spec, NULL, flags, &s, &err) < 0)
		FAIL("%s: %s", spec, err.message);
	return s;
}

static UNUSED struct berth_sandbox *started(const char *spec)
{
	struct berth_sandbox *s = opened(spec, BERTH_OPEN_START);
	struct berth_error err = BERTH_ERROR_INIT;

	if (berth_sandbox_start(s, &err) < 0)
		FAIL("%s: %s", spec, err.message);
	return s;
}

static UNUSED struct berth_provider_info info_of(struct berth_sandbox *s)
{
	struct berth_provider_info info;
	struct berth_error err = BERTH_ERROR_INIT;

	if (berth_sandbox_info(s, &info, &err) < 0)
		FAIL("%s", err.message);
	return info;
}

static UNUSED void destroyed(struct berth_sandbox *s)
{
	struct berth_destroy_result d;

	ASSERT_EQ(berth_sandbox_destroy(s, 1, 0, &d, NULL), 0);
	if (d.state != BERTH_DESTROYED)
		FAIL("%s", d.message);
	berth_sandbox_close(s);
}

/* The command line of a process as one line; "" when there is none. */
static UNUSED const char *command_line(int pid)
{
	static char text[4096];
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static UNUSED int parent_of(int pid)
{
	char path[64], text[512] = "";
	const char *p;
	int fd, ppid = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) > 0 && (p = strrchr(text, ')')))
		sscanf(p + 1, " %*c %d", &ppid);
	close(fd);
	return ppid;
}

/* Processes whose command line has this word; tops: only those whose parent's has not. */
static UNUSED int count(const char *word, bool tops)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d))) {
		int pid = atoi(e->d_name);

		if (pid > 0 && strstr(command_line(pid), word) &&
		    !(tops && strstr(command_line(parent_of(pid)), word)))
			n++;
	}
	closedir(d);
	return n;
}

/* Waits until there are so many: what was killed is not gone at once, and nothing tells when. */
static UNUSED bool becomes(const char *word, bool tops, int want)
{
	int64_t deadline = deadline_from_ms(10000);

	while (count(word, tops) != want) {
		if (now_mono_ns() > deadline) {
			DIAG("%d processes with %s, not %d", count(word, tops), word, want);
			return false;
		}
		usleep(1000);
	}
	return true;
}

/* The directory of this test, which every init of it has on its command line. */
static UNUSED const char *here(void)
{
	static char cwd[PATH_MAX];

	return getcwd(cwd, sizeof(cwd));
}

/* Inits, without the children that serve their streams; none: nothing of any of them is left. */
static UNUSED bool inits(int want)
{
	return becomes(here(), want > 0, want);
}

static UNUSED pid_t init_pid(struct berth_sandbox *s)
{
	auto(road) struct road *r = NULL;
	struct wire_slice v;

	ASSERT_EQ(road_get(s, 0, &r, NULL), 0);
	ASSERT_EQ(road_ask(r, WIRE_INFO, NULL, deadline_from_ms(5000), &v, NULL), 0);
	return (pid_t)wire_find_int(v.p, v.n, WK_PID, 0);
}

/* Until the process is gone (init has no parent here that could wait for it). */
static UNUSED void wait_gone(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return;
	ASSERT_EQ(poll(&p, 1, 10000), 1);
	close(fd);
}

static UNUSED void kill_init(struct berth_sandbox *s)
{
	pid_t pid = init_pid(s);
	const char *dir = NULL;

	ASSERT_GT(pid, 1);
	road_drop_idle(s);
	kill(pid, SIGKILL);
	wait_gone(pid);
	/* A child that it had just forked may hold the lock until it runs for the first time. */
	ASSERT_EQ(sandbox_dir(s, &dir, NULL), 0);
	for (int64_t deadline = deadline_from_ms(10000); local_init_alive(dir); usleep(1000))
		ASSERT_LT(now_mono_ns(), deadline);
}

/* A durable session that runs `sleep SECONDS`; we do not stay. */
static UNUSED void begin_session(struct berth_sandbox *s, const char *name, const char *seconds)
{
	const char *const command[] = {"sleep", seconds, NULL};
	struct berth_exec_control detach = {.what = 'd'};
	struct berth_exec_request req;
	struct berth_exec_result res;
	struct berth_error err = BERTH_ERROR_INIT;
	int fds[2];

	ASSERT_EQ(fd_pipe(fds, 0), 0);
	ASSERT_EQ(write(fds[1], &detach, sizeof(detach)), (ssize_t)sizeof(detach));
	berth_exec_request_init(&req);
	req.command = command;
	req.session = name;
	req.control_fd = fds[0];
	if (berth_exec(s, &req, &res, &err) < 0)
		FAIL("%s", err.message);
	ASSERT(res.detached);
	close(fds[0]);
	close(fds[1]);
}

#endif
