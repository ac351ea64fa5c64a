/* SPDX-License-Identifier: MIT */
/*
 * stage.c: `berth-agent stage`: makes an isolated sandbox from outside and becomes bubblewrap,
 * which becomes its init.
 *
 * The order is what makes it safe: what needs the caller's rights (addresses of the host, control
 * groups, mounts of paths that only the caller may enter) comes first; then the process gives them
 * up for good by entering the sandbox's own user namespace; only then bubblewrap runs. As root U1
 * comes after the mounts, because root's paths need the real root; an ordinary user has the right to
 * mount in U1 only.
 *
 * Invariants: the working directory is the sandbox's folder. Killed at any moment it leaves no
 * process, no mount and no interface: all of them hang on this process or on its namespaces. Files
 * and groups that are left are taken over by the next one. It never does less than it was asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "agent/stage.h"

struct stage stage = {
	.bwrapfd = -1,
	.lockfd = -1,
	.group_fds = {-1, -1, -1, -1, -1},
	.plan = {.watch_fd = -1, .exit_fd = -1, .release_fd = -1},
};
struct agent_fail stage_failure;
const char *stage_hint;

int stage_failed(const char *hint)
{
	stage_hint = hint;
	return -1;
}

int stage_say(const char *command)
{
	char text[AGENT_MESSAGE_MAX + 600];
	size_t n;

	n = fmt(text, sizeof(text), "%s: %s\n", command, stage_failure.message);
	if (stage_hint)
		n += fmt(text + n, sizeof(text) - n, "hint: %s\n", stage_hint);
	(void)!write_all(2, text, n);
	return 1;
}

/* As root the ids may be any; the others have what /etc/subuid gives them. */
int stage_check_caller(bool making)
{
	const struct stage_options *o = &stage.o;

	stage.uid = geteuid();
	stage.gid = getegid();
	stage.root = stage.uid == 0;
	if (stage.root && o->single && making)
		return stage_no("uids=range", 0,
				"with uids=single a sandbox of root would be root on the host");
	if (!stage.root && !o->single && (!o->newuidmap || !o->newgidmap))
		return stage_no("apt install uidmap, or uids=single", 0,
				"newuidmap and newgidmap are missing");
	return 0;
}

/* In a user namespace proc can be mounted only where the host's own is fully visible. */
static int check_proc(void)
{
	static const char *const masked[] = {"sys",  "sysrq-trigger", "kcore",      "keys",
					     "bus",  "irq",           "timer_list", "acpi",
					     "scsi", "asound",        "fs"};
	struct stat proc, st;
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	if (fd < 0 || fstat(fd, &proc) < 0)
		return stage_no("mount -t proc proc /proc", errno, "cannot open /proc: %m");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked); i++) {
		if (fstatat(fd, masked[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_dev != proc.st_dev)
			r = stage_no("in a container: docker run --security-opt "
				     "systempaths=unconfined --security-opt seccomp=unconfined, "
				     "or isolation=none",
				     0,
				     "cannot mount proc in a user namespace: /proc/%s is covered "
				     "(is this a container?)",
				     masked[i]);
	}
	close(fd);
	return r;
}

int stage_tied(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != stage.parent)
		return stage_no(NULL, ESRCH, "who started this has gone: %m");
	return 0;
}

/* What the library waits for. The end of bubblewrap's monitor takes the mount namespace of the
 * staging with it, which takes a kernel more than ten milliseconds: when we are told to end, it
 * ends by itself behind us, and nobody waits for that. */
static void watch(pid_t pid) attr_noreturn;
static void watch(pid_t pid)
{
	int status = 0;

	fds_keep(NULL, 0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Goes on in a child, and becomes who watches it. -1: no child could be made. */
static int go_on_in(pid_t pid, pid_t parent)
{
	if (pid > 0)
		watch(pid);
	if (pid == 0)
		stage.parent = parent;
	return (int)pid;
}

static int enter_group(int dir)
{
	pid_t parent = getpid();

	if (go_on_in(fork_into(dir), parent) < 0)
		return -1;
	if (stage_tied() < 0)
		_exit(1); /* nobody is there to be told; what has been made is found by its list */
	return 0;
}

/* In the user namespace where the caller may change its groups: the host's, or U1. */
static int make_groups(void)
{
	const struct stage_options *o = &stage.o;
	uid_t uid = o->single ? U1_CALLER : U1_INIT;
	gid_t gid = uid;

	if (!o->groups)
		return 0;
	if (stage.root) {
		uid = (uid_t)o->base;
		gid = (gid_t)o->gbase;
	}
	/* Whose ids are mapped by a helper cannot become another process. */
	if (boxgroup_make(AT_FDCWD, o->groups, &o->limits, uid, gid,
			  stage.root ? enter_group : NULL, stage.group_fds, &stage_failure) < 0)
		return stage_failed(NULL);
	return 0;
}

static int as_root(struct stage_ids *ids)
{
	if (make_groups() < 0 || folder_make() < 0 || ids_begin(ids) < 0)
		return -1;
	if (unshare(CLONE_NEWNS) < 0)
		return stage_no("root needs CAP_SYS_ADMIN: is this a container?", errno,
				"cannot make a mount namespace: %m");
	if (mounts_private() < 0 || mounts_make() < 0)
		return -1;
	if (net_tun_share(&stage.plan, &stage_failure) < 0)
		return stage_failed(NULL);
	return ids_outer(ids, false);
}

static int as_user(struct stage_ids *ids)
{
	if (ids_begin(ids) < 0 || ids_outer(ids, true) < 0 || mounts_private() < 0)
		return -1;
	if (make_groups() < 0 || folder_make() < 0)
		return -1;
	return mounts_make();
}

static const char net_hint[] = "slirp4netns and a /dev/net/tun that all may open (chmod 666, as "
			       "distributions have it), or net=none";

/* Who starts us with the lock leaves no moment in which we are there and cannot be found by it. */
static int take_lock(void)
{
	stage.lockfd = stage.o.lockfd >= 0 ? stage.o.lockfd : left_lock(AT_FDCWD, "staging");
	if (stage.lockfd >= 0 && fcntl(stage.lockfd, F_SETFD, FD_CLOEXEC) < 0)
		return stage_no(NULL, errno, "--lock: %m");
	return stage.lockfd < 0 ? -1 : 0;
}

static int run(int argc, char **argv)
{
	struct stage_ids ids = {0};

	if (stage_options_parse(argc, argv, &stage.o) < 0 || stage_options_check(&stage.o) < 0 ||
	    stage_check_caller(true) < 0 || check_proc() < 0)
		return -1;
	if (take_lock() < 0)
		return -1;
	if (net_plan_init(&stage.plan, stage.o.net, &stage_failure) < 0)
		return stage_failed(NULL);
	if ((stage.root ? as_root(&ids) : as_user(&ids)) < 0)
		return -1;
	/* Its init is in one more user namespace, which bubblewrap makes. */
	stage.plan.watch_outside = stage.o.single;
	if (net_slirp_fork(&stage.plan, stage.o.slirp, stage.o.netreadyfd, &stage_failure) < 0)
		return stage_failed(net_hint);
	if (stage.o.netreadyfd >= 0)
		close(stage.o.netreadyfd);
	if (ids_inner(&ids) < 0)
		return -1;
	if (net_enter(&stage.plan, &stage_failure) < 0)
		return stage_failed(net_hint);
	if (stage_tied() < 0) /* a change of uid undoes it */
		return -1;
	return bwrap_exec();
}

int stage_main(int argc, char **argv)
{
	pid_t parent = getpid();

	umask(0022);
	signals_default();
	if (go_on_in(fork(), parent) < 0)
		stage_no(NULL, errno, "cannot make a process: %m");
	else if (stage_tied() == 0)
		run(argc, argv);
	return stage_say("stage");
}
