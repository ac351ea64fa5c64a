/* SPDX-License-Identifier: MIT */
/*
 * Control groups of isolated sandboxes, from outside. Stage makes them and writes down each one in
 * the sandbox's folder before it does; here they are emptied and removed, whoever was killed in
 * between.
 *
 * Invariants: only directories whose name is the sandbox's own group's are touched; the list is
 * removed when none of them is left.
 */
#include "providers/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/time.h"

/* The kernel lets go of a process a moment after its end. */
#define BUSY_MS 2000
/* NAME/x/ID/…: executions have groups in x, and a worker with a delegated one could make more. */
#define DEPTH_MAX 16

static void put_text(int dirfd, const char *name, const char *text)
{
	auto_close int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, text, strlen(text));
}

/* Every process of one group, where there is no cgroup.kill. */
static void kill_members(int dirfd)
{
	auto_free char *text = NULL;
	char *line, *save = NULL;

	if (read_file(dirfd, "cgroup.procs", SMALL_FILE_MAX, &text, NULL, NULL) < 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		pid_t pid = (pid_t)strtol(line, NULL, 10);

		if (pid > 1 && pid != getpid())
			kill(pid, SIGKILL);
	}
}

/* Empties and removes the group that name is in dirfd, those in it first. 0 or -errno. */
static int remove_group(int dirfd, const char *name, int depth)
{
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int fd, rc = 0;

	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (depth > DEPTH_MAX)
		return -ELOOP;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	put_text(fd, "cgroup.kill", "1");
	kill_members(fd);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while ((e = readdir(d))) {
		int one = 0;

		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0)
			one = remove_group(fd, e->d_name, depth + 1);
		rc = one < 0 ? one : rc;
	}
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return rc < 0 ? rc : -errno;
}

/* Nothing tells when the last process of a group is really gone: asked again for a while. */
static int remove_settled(const char *path, struct berth_error *err)
{
	int64_t deadline = deadline_from_ms(BUSY_MS);
	struct timespec pause = {0, NS_PER_MS};
	int rc;

	while ((rc = remove_group(AT_FDCWD, path, 0)) == -EBUSY && now_mono_ns() < deadline)
		nanosleep(&pause, NULL);
	return rc < 0 ? berth_fail_errno(err, 0, -rc, "the control group %s", path) : 0;
}

int local_groups_remove(const struct local *l, struct berth_error *err)
{
	auto_free char *path = local_path(l, "groups"), *text = NULL;
	auto_free char *name = mem_printf("berth-%s", l->record.id);
	char *line, *save = NULL;
	int rc;

	if (!path || !name)
		return berth_fail_nomem(err);
	rc = read_file(AT_FDCWD, path, SMALL_FILE_MAX, &text, NULL, err);
	if (rc < 0)
		return rc == BERTH_E_NOT_FOUND ? 0 : rc;
	rc = 0;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int one = 0;

		/* The last line of a writer that was killed may be cut; then its group is not made. */
		if (*line == '/' && strcmp(path_basename(line), name) == 0)
			one = remove_settled(line, err);
		rc = one < 0 ? one : rc;
	}
	if (rc == 0 && unlink(path) < 0 && errno != ENOENT)
		rc = berth_fail_errno(err, 0, errno, "%s", path);
	return rc;
}
