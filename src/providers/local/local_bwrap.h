/* SPDX-License-Identifier: MIT */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_BWRAP_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_BWRAP_H
/* The launcher of isolation=bwrap, inside: what creation, destroying and tests need of it. */
#include "base/strv.h"
#include "providers/local/local.h"

/* Programs of this machine; NULL: not needed. */
struct local_tools {
	char *bwrap, *slirp, *newuidmap, *newgidmap;
	char *systemd_run; /* limits for an ordinary user: stage is started through it */
};
void local_tools_done(struct local_tools *t);
BERTH_DEFINE_AUTO(local_tools, struct local_tools, local_tools_done);

/* Finds them. What is missing is an error with the way out. */
int local_preflight(const struct local_keys *k, struct local_tools *ret,
		    struct berth_error *err) attr_warn_unused;

/* How an ordinary user gets groups for limits. own: the user's own group can have groups in it;
 * manager: there is a systemd of this user. */
enum local_scope { SCOPE_NOT_NEEDED, SCOPE_SYSTEMD, SCOPE_NONE };
enum local_scope local_scope_decide(bool root, bool limits, bool own, bool manager) attr_const;

/* Its fds: 0 and 1 are /dev/null, 2 is for its errors; then the lock of
 * `staging` and the sockets of ports. */
enum { FD_READY = 3, FD_NET_READY = 4, FD_LOCK = 5, FD_PORTS = 6 };

/* The command line of stage, ready to be spawned in the sandbox's folder. 0 or BERTH_E_NOMEM. */
int local_stage_argv(const struct local *l, const struct local_tools *t, const char *agent,
		     const struct local_ports *ports, struct strv *ret) attr_warn_unused;

#endif
