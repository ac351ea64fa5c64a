/* SPDX-License-Identifier: MIT */
/*
 * stage.h: what the files of `berth-agent stage` share. Stage builds an isolated sandbox from
 * outside and becomes bubblewrap; it runs on the host, once per start of a sandbox, for as long as
 * that takes (milliseconds). ARCHITECTURE.md has the picture.
 */
#ifndef AGENT_STAGE_H
#define AGENT_STAGE_H

#include "agent/agent.h"
#include "agent/boxgroup.h"
#include "agent/net.h"

#define STAGE_PATHS_MAX 32 /* --ro and --rw together */
#define STAGE_PORTS_MAX 64 /* as init takes */

/* Ids of a sandbox in U1, the user namespace in which stage builds it: the caller's (as root: the
 * network helper's), init's, the worker's. In U2, the sandbox's own, the last two are 0 and 1000. */
enum { U1_CALLER = 0, U1_INIT = 1, U1_WORKER = 2 };
#define U2_WORKER 1000

struct stage_path {
	const char *path; /* absolute; the same inside */
	bool rw;
};

struct stage_port {
	int port, fd;
};

struct stage_options {
	const char *bwrap, *agent, *hostname; /* never NULL */
	const char *newuidmap, *newgidmap;    /* NULL: not there */
	const char *slirp, *rootfs, *groups;
	bool ids_given, single;
	int64_t base, gbase; /* first host uid and gid of the range */
	int readyfd, netreadyfd;
	int lockfd; /* holds the lock of "staging" already; -1: we are to take it */
	enum net_mode net;
	struct boxgroup_limits limits;
	struct stage_path paths[STAGE_PATHS_MAX];
	size_t n_paths;
	struct stage_port ports[STAGE_PORTS_MAX];
	size_t n_ports;
	int64_t idle_ms, expires_ms, tmp_size;
};

struct stage {
	struct stage_options o;
	bool root; /* started by the host's root: ids need no helper, mounts are real ones */
	uid_t uid; /* of the caller, host */
	gid_t gid;
	pid_t parent; /* watches, and is watched: its end is ours */
	int bwrapfd;  /* O_PATH */
	int lockfd;   /* of "staging"; bubblewrap has it, init lets it go */
	int group_fds[AGENT_GROUPS];
	struct net_plan plan;
	bool root_rw; /* the root of the sandbox is an overlay, which may be written */
};
extern struct stage stage;

/* ---- why not (stage.c) ---- */

extern struct agent_fail stage_failure;
extern const char *stage_hint; /* the way out, one line; NULL: none is known */
/* Ends with the process that watches us; again after each change of uid. */
int stage_tied(void);
/* `return stage_no(hint, errno, "cannot …: %m", …);` -1. */
#define stage_no(hint, err, ...) \
	(stage_hint = (hint), fail(&stage_failure, WIRE_E_UNAVAILABLE, "stage", (err), __VA_ARGS__))

/* Hands on what net.c and boxgroup.c say in stage_failure. */
int stage_failed(const char *hint);
/* Prints stage_failure and stage_hint to stderr. 1, the exit status. */
int stage_say(const char *command);

/* Who we are, and whether the ids that were asked for can be had. erase: even root may name
 * uids=single. */
int stage_check_caller(bool making);

/* ---- options (stage_options.c) ---- */

/* What stands there; -1 and stage_failure. */
int stage_options_parse(int argc, char **argv, struct stage_options *ret);
/* Is all there that stage needs? */
int stage_options_check(const struct stage_options *o);
/* The option's value as a number of at most max; false when it is none. */
bool stage_number(const char *v, int64_t max, int64_t *ret);

/* ---- user namespaces (stage_ids.c) ---- */

struct stage_ids {
	pid_t pid; /* of the child that writes the maps; 0: none */
	int fd;
};

/* Forks the child that stays outside and writes the maps of this process' user namespaces. It ends
 * when this process does. */
int ids_begin(struct stage_ids *h);
/* Why user namespaces cannot be made here: what to change. */
const char *ids_why_not(void);
/* U1. With newns, together with a mount namespace. */
int ids_outer(struct stage_ids *h, bool newns);
/* U2: from here on the process is uid 0 there, with all capabilities inside and none outside. The
 * child is gone. */
int ids_inner(struct stage_ids *h);
/* Ends the child, when there will be no U2. */
void ids_end(struct stage_ids *h);

/* ---- what was left (stage_left.c) ---- */

/*
 * Takes the lock of a start on the file name ("staging" in the sandbox's folder); ends who else
 * holds it. To be called with the rights that the sandbox was started with. The fd, or -1 and
 * stage_failure.
 */
int left_lock(int dirfd, const char *name);

/* ---- the folder and what is mounted (stage_mounts.c, stage_root.c, stage_etc.c) ---- */

/* home/, berth/, root/ in the working directory, with their owners. */
int folder_make(void);
/* In a mount namespace of our own: what is mounted here is not seen outside. */
int mounts_private(void);
/* A tmpfs at some directory of the host that this mount namespace will not miss, and in it: home,
 * berth, agent, t/tmp, t/shm, p0 p1 …, s (the sandbox's root). */
int mounts_make(void);
/* Where it is: an absolute path. */
extern const char *stage_place;

/* Fills the directory s of the staging place (fd): the root of the sandbox, with every mount
 * point that bubblewrap needs. */
int root_make(int place);
/* Makes path (absolute) below root (fd), which is a tmpfs of ours: an empty directory, or an empty
 * file. No link is followed. 0, or -1 and errno. */
int make_point(int root, const char *path, bool dir);
/* Writes passwd, group, hosts, … into the directory etc below root (fd). */
int etc_make(int root);

/* What of the host's system is to be seen, and why. Names below /etc; a star at the end stands for
 * anything. */
struct stage_entry {
	const char *name, *reason;
};
extern const struct stage_entry stage_system[], stage_etc[];
extern const size_t stage_n_system, stage_n_etc;

/* An empty file, unless one is there. 0, or -1 and errno. */
int file_at(int dir, const char *name);
/* bind mount of a path, or of what an fd refers to, with everything mounted below it. */
int bind_path(const char *from, int dirfd, const char *name);

/* ---- bubblewrap (stage_bwrap.c) ---- */

/* Never returns on success. */
int bwrap_exec(void);

#endif
