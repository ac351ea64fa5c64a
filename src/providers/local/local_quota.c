/* SPDX-License-Identifier: MIT */
/*
 * disk=SIZE: a project quota on the folder of a sandbox. The folder gets a project id and hands it
 * on to everything that is made in it; the limits are that project's. It has to be done before
 * anything is in the folder, and takes root and a file system mounted with project quotas.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "core/host.h"

/* Files of a project: one for each 4 KiB, and enough for a small one to have a life. */
#define INODES_MIN  1000
#define INODE_BYTES 4096
#define BLOCK       1024 /* quota blocks of Q_SETQUOTA */

static int no_quota(const char *folder, const char *what, int errnum, struct berth_error *err)
{
	berth_fail(err, BERTH_E_UNSUPPORTED, "disk=: %s: %s: %s", folder, what,
		   host_quota_why(errnum));
	return berth_error_hint(err,
				"it takes root and a state folder on ext4 or xfs mounted with the "
				"option prjquota (ext4: made or tuned with -O quota,project)");
}

/* Is a limit set, or anything counted, for this project? */
static int in_use(int fd, uint32_t id, const char *folder, struct berth_error *err)
{
	struct if_dqblk q = {0};

	if (host_project_quota(fd, Q_GETQUOTA, id, &q) < 0)
		return errno == ENOENT ? 0 : no_quota(folder, "project quotas", errno, err);
	if (q.dqb_curspace || q.dqb_curinodes || q.dqb_bhardlimit || q.dqb_ihardlimit)
		return berth_fail(err, BERTH_E_UNAVAILABLE,
				  "disk=: the quota project %u is somebody else's", id);
	return 0;
}

static int mark_folder(int fd, uint32_t id, const char *folder, struct berth_error *err)
{
	struct fsxattr attr = {0};

	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return no_quota(folder, "project ids", errno, err);
	attr.fsx_projid = id;
	attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0)
		return no_quota(folder, "project ids", errno, err);
	return 0;
}

int local_quota_set(const char *folder, uint32_t id, int64_t bytes, struct berth_error *err)
{
	auto_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int64_t files = MAX_OF(bytes / INODE_BYTES, (int64_t)INODES_MIN);
	struct if_dqblk q = {0};
	int rc;

	if (fd < 0)
		return berth_fail_errno(err, 0, errno, "%s", folder);
	rc = in_use(fd, id, folder, err);
	if (rc == 0)
		rc = mark_folder(fd, id, folder, err);
	if (rc < 0)
		return rc;
	q.dqb_bhardlimit = q.dqb_bsoftlimit = (uint64_t)(bytes + BLOCK - 1) / BLOCK;
	q.dqb_ihardlimit = q.dqb_isoftlimit = (uint64_t)files;
	q.dqb_valid = QIF_LIMITS;
	if (host_project_quota(fd, Q_SETQUOTA, id, &q) < 0)
		return no_quota(folder, "project quotas", errno, err);
	return 0;
}

void local_quota_clear(const char *folder, uint32_t id)
{
	auto_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct if_dqblk q = {.dqb_valid = QIF_LIMITS};

	if (fd >= 0)
		(void)!host_project_quota(fd, Q_SETQUOTA, id, &q);
}

int local_quota_check(const char *folder, struct berth_error *err)
{
	auto_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct if_dqinfo info;

	if (fd < 0)
		return berth_fail_errno(err, 0, errno, "%s", folder);
	if (host_project_quota(fd, Q_GETINFO, 0, &info) < 0)
		return no_quota(folder, "project quotas", errno, err);
	return 0;
}
