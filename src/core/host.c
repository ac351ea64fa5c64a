/* SPDX-License-Identifier: MIT */
/*
 * Questions about this machine and this user that several ask: drivers, and doctor. They are read
 * from files and asked of the kernel; nothing is changed, and NSS is left alone: it would load
 * libraries into somebody's process.
 */
#include "core/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/path.h"

#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif

/* In PATH, and where a login shell of an ordinary user does not look. NULL: nowhere. */
char *host_program(const char *name)
{
	static const char always[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	const char *env = getenv("PATH");
	auto_free char *path = mem_printf("%s:%s", env ? env : "", always);
	char *dir, *save = NULL;

	for (dir = path ? strtok_r(path, ":", &save) : NULL; dir;
	     dir = strtok_r(NULL, ":", &save)) {
		auto_free char *file = *dir == '/' ? path_join(dir, name) : NULL;

		if (file && access(file, X_OK) == 0)
			return TAKE_PTR(file);
	}
	return NULL;
}

/* name:password:uid:gid:gecos:home:shell, read by hand: NSS would load libraries into somebody's
 * process. */
int host_passwd(char **ret_name, char **ret_home, struct berth_error *err)
{
	auto_free char *text = NULL, *name = NULL, *home = NULL;
	char *line, *save = NULL;

	if (read_file(AT_FDCWD, "/etc/passwd", SMALL_FILE_MAX, &text, NULL, NULL) < 0)
		text = NULL;
	for (line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *field[7] = {line};
		size_t n = 1;

		for (char *p = line; n < ARRAY_LEN(field) && (p = strchr(p, ':')); n++) {
			*p++ = '\0';
			field[n] = p;
		}
		if (n < 6 || strtoul(field[2], NULL, 10) != (unsigned long)geteuid())
			continue;
		name = mem_strdup(field[0]);
		home = mem_strdup(field[5]);
		if (!name || !home)
			return berth_fail_nomem(err);
		break;
	}
	*ret_name = TAKE_PTR(name);
	*ret_home = TAKE_PTR(home);
	return 0;
}

/* "name:start:count", the first line of this user. */
bool host_subids(char *text, const char *user, unsigned long uid, int64_t *ret_start,
		 int64_t *ret_count)
{
	char *line, *save = NULL, number[24];

	snprintf(number, sizeof(number), "%lu", uid);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *start = strchr(line, ':'), *count = start ? strchr(start + 1, ':') : NULL;

		if (!count)
			continue;
		*start++ = *count++ = '\0';
		if ((strcmp(line, number) == 0 || (user && strcmp(line, user) == 0)) &&
		    parse_int(start, 1, UINT32_MAX - 1, ret_start) == 0 &&
		    parse_int(count, HOST_SUBIDS_LEAST, UINT32_MAX, ret_count) == 0)
			return true;
	}
	return false;
}

/* "0::/path" of /proc/self/cgroup below where cgroup2 is mounted, and, as a group with processes
 * in it cannot have limits below it, its parent. */
bool host_groups_own(void)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	auto_free char *text = NULL;
	char *own, *end;

	if (read_file(AT_FDCWD, "/proc/self/cgroup", SMALL_FILE_MAX, &text, NULL, NULL) < 0)
		return false;
	own = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!own)
		return false;
	own = strchr(own, '/');
	if (!own)
		return false;
	own[strcspn(own, "\n")] = '\0';
	end = strrchr(own, '/');
	*end = '\0'; /* the parent; the root has none, and is nobody's but root's */
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++) {
		auto_free char *procs = mem_printf("%s%s/cgroup.procs", mounts[i], own);
		auto_free char *dir = mem_printf("%s%s", mounts[i], own);

		if (procs && dir && access(procs, W_OK) == 0 && access(dir, W_OK) == 0)
			return true;
	}
	return false;
}

bool host_scope_there(const char *runtime_dir)
{
	static const char *const sockets[] = {"systemd/private", "bus"};

	for (size_t i = 0; runtime_dir && *runtime_dir == '/' && i < ARRAY_LEN(sockets); i++) {
		auto_free char *path = path_join(runtime_dir, sockets[i]);
		struct stat st;

		if (path && stat(path, &st) == 0 && S_ISSOCK(st.st_mode))
			return true;
	}
	return false;
}

long host_project_quota(int dirfd, int cmd, uint32_t id, void *addr)
{
#ifdef SYS_quotactl_fd
	return syscall(SYS_quotactl_fd, dirfd, QCMD((unsigned)cmd, PRJQUOTA), id, addr);
#else
	(void)dirfd, (void)cmd, (void)id, (void)addr;
	errno = ENOSYS;
	return -1;
#endif
}

const char *host_quota_why(int errnum)
{
	switch (errnum) {
	case ESRCH:
		return "the file system has none";
	case ENOSYS:
	case ENOTTY:
	case EOPNOTSUPP:
		return "the kernel or this kind of file system has none";
	default:
		return berth_errno_text(errnum);
	}
}
