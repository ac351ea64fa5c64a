/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_HOST_H
#define BERTH_CORE_HOST_H
/* Facts of this machine and of the user that runs us. */
#include <stdint.h>

#include <berth/error.h>

#include "base/attr.h"

/* A program in PATH, and where a login shell of an ordinary user does not look. Owned by caller;
 * NULL: nowhere. */
char *host_program(const char *name) attr_warn_unused;
/* Name and home of our uid in /etc/passwd; owned by caller, NULL where there is none. 0 or
 * BERTH_E_NOMEM. */
int host_passwd(char **ret_name, char **ret_home, struct berth_error *err) attr_warn_unused;
/* The first range of this user (by name, which may be NULL, or number) in the text of a subuid(5)
 * file, which is cut up. Shorter ones than a sandbox takes do not count. */
#define HOST_SUBIDS_LEAST 8
bool host_subids(char *text, const char *user, unsigned long uid, int64_t *ret_start,
		 int64_t *ret_count) attr_warn_unused;
/* Can this user make control groups with limits, directly? */
bool host_groups_own(void);
/* Is there a manager of user services (systemd --user) to ask for a group? */
bool host_scope_there(const char *runtime_dir);
/* quotactl(2) for projects of the file system that dirfd is on: -1 and errno. */
long host_project_quota(int dirfd, int cmd, uint32_t id, void *addr);
/* Why that failed, in words: the errnos of the call say little. Static. */
const char *host_quota_why(int errnum);

#endif
