/* SPDX-License-Identifier: MIT */
/*
 * stage_ids.c: the two user namespaces of an isolated sandbox.
 *
 * A process cannot write the id maps of its own namespace beyond one line, so a child that stayed
 * outside does it: as root itself, for an ordinary user by newuidmap and newgidmap, which
 * check /etc/subuid and /etc/subgid. U1 has the caller and the sandbox's ids: there the sandbox is
 * built. U2, inside of it, has the sandbox's ids only: neither root nor the caller exists there.
 *
 * Invariants: the child ends when its parent does (its socket is closed then); it never outlives
 * ids_inner(). Nothing falls back: what cannot be mapped is a failure that names the way out.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "agent/stage.h"

/* What the child answers. */
struct answer {
	int err;    /* 0: done */
	int which;  /* what went wrong: a row of `steps` */
	int status; /* of the program, when one ended badly */
};

enum step { STEP_UID, STEP_GID, STEP_GROUPS, STEP_ENTER, STEP_NEWUIDMAP, STEP_NEWGIDMAP };

static const struct {
	const char *what, *hint;
} steps[] = {
	[STEP_UID] = {"cannot map user ids", NULL},
	[STEP_GID] = {"cannot map group ids", NULL},
	[STEP_GROUPS] = {"cannot refuse setgroups", NULL},
	[STEP_ENTER] = {"cannot enter the new user namespace", NULL},
	[STEP_NEWUIDMAP] = {"newuidmap failed",
			    "is the range in /etc/subuid? usermod --add-subuids FIRST-LAST USER, "
			    "or uids=single"},
	[STEP_NEWGIDMAP] = {"newgidmap failed",
			    "is the range in /etc/subgid? usermod --add-subgids FIRST-LAST USER, "
			    "or uids=single"},
};

/* ---- the child ---- */

struct helper {
	pid_t parent;
	int procfd, sock;
};

static int no(struct answer *a, enum step which)
{
	*a = (struct answer){.err = errno ? errno : EIO, .which = (int)which};
	return -1;
}

static int write_map(struct helper *h, struct answer *a, enum step which, const char *text)
{
	static const char *const names[] = {
		[STEP_UID] = "uid_map", [STEP_GID] = "gid_map", [STEP_GROUPS] = "setgroups"};

	if (write_file_at(h->procfd, names[which], text, strlen(text)) < 0)
		return no(a, which);
	return 0;
}

/* newuidmap PID 0 CALLER 1 1 H 1 2 H+1 1 */
static pid_t start_mapper(struct helper *h, const char *program, int64_t caller, int64_t base)
{
	char text[5][24], zero[] = "0", one[] = "1", two[] = "2";
	char *argv[] = {(char *)(uintptr_t)program,
			text[0],
			zero,
			text[1],
			one,
			one,
			text[2],
			one,
			two,
			text[3],
			one,
			NULL};
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *envp[] = {path, NULL};
	pid_t pid;

	fmt(text[0], sizeof(text[0]), "%d", (int)h->parent);
	fmt(text[1], sizeof(text[1]), "%lld", (long long)caller);
	fmt(text[2], sizeof(text[2]), "%lld", (long long)base);
	fmt(text[3], sizeof(text[3]), "%lld", (long long)(base + 1));
	pid = fork();
	if (pid != 0)
		return pid;
	signals_default();
	execve(program, argv, envp);
	_exit(126);
}

static int wait_mapper(pid_t pid, struct answer *a, enum step which)
{
	int status = 0;

	errno = EAGAIN;
	if (pid < 0)
		return no(a, which);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return 0;
	errno = EPERM;
	no(a, which);
	a->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
	return -1;
}

static int outer_maps(struct helper *h, struct answer *a)
{
	const struct stage_options *o = &stage.o;
	char text[128];
	pid_t u, g;

	if (stage.root) {
		fmt(text, sizeof(text), "0 %lld 1\n1 %lld 1\n2 %lld 1\n", (long long)o->base + 2,
		    (long long)o->base, (long long)o->base + 1);
		if (write_map(h, a, STEP_UID, text) < 0)
			return -1;
		fmt(text, sizeof(text), "0 %lld 1\n1 %lld 1\n2 %lld 1\n", (long long)o->gbase + 2,
		    (long long)o->gbase, (long long)o->gbase + 1);
		return write_map(h, a, STEP_GID, text);
	}
	if (o->single) {
		if (write_map(h, a, STEP_GROUPS, "deny") < 0)
			return -1;
		fmt(text, sizeof(text), "0 %u 1\n", (unsigned)stage.uid);
		if (write_map(h, a, STEP_UID, text) < 0)
			return -1;
		fmt(text, sizeof(text), "0 %u 1\n", (unsigned)stage.gid);
		return write_map(h, a, STEP_GID, text);
	}
	u = start_mapper(h, o->newuidmap, stage.uid, o->base);
	g = start_mapper(h, o->newgidmap, stage.gid, o->gbase);
	if (wait_mapper(u, a, STEP_NEWUIDMAP) < 0) {
		waitpid(g, NULL, 0);
		return -1;
	}
	return wait_mapper(g, a, STEP_NEWGIDMAP);
}

/* The maps of U2 must be written from U1 or by somebody with rights over it; the child goes there,
 * so that it has none left outside. */
static int enter_outer(struct helper *h, struct answer *a)
{
	int fd = openat(h->procfd, "ns/user", O_RDONLY | O_CLOEXEC), r;

	r = fd < 0 ? -1 : setns(fd, CLONE_NEWUSER);
	if (r < 0)
		no(a, STEP_ENTER);
	if (fd >= 0)
		close(fd);
	return r;
}

static int inner_maps(struct helper *h, struct answer *a)
{
	const char *text = stage.o.single ? "0 0 1\n" : "0 1 1\n1000 2 1\n";

	if (write_map(h, a, STEP_UID, text) < 0)
		return -1;
	return write_map(h, a, STEP_GID, text);
}

static void helper_run(struct helper *h) attr_noreturn;
static void helper_run(struct helper *h)
{
	struct answer a;
	char request;

	for (;;) {
		if (recv(h->sock, &request, 1, 0) != 1)
			_exit(0);
		a = (struct answer){0};
		if (request == 'o' && outer_maps(h, &a) == 0)
			enter_outer(h, &a);
		else if (request == 'i')
			inner_maps(h, &a);
		if (send(h->sock, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a) || a.err)
			_exit(1);
		if (request == 'i')
			_exit(0);
	}
}

/* ---- the parent ---- */

int ids_begin(struct stage_ids *h)
{
	struct helper child = {.parent = getpid()};
	char path[32];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return stage_no(NULL, errno, "cannot start: %m");
	fmt(path, sizeof(path), "/proc/%d", (int)child.parent);
	child.procfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	child.sock = pair[1];
	h->pid = child.procfd < 0 ? -1 : fork();
	if (h->pid == 0) {
		int keep[] = {child.procfd, child.sock};

		fds_keep(keep, ARRAY_LEN(keep));
		helper_run(&child);
	}
	if (h->pid < 0)
		return stage_no("is /proc mounted?", errno, "cannot start: %m");
	close(child.procfd);
	close(pair[1]);
	h->fd = pair[0];
	return 0;
}

static int ask(struct stage_ids *h, char request)
{
	struct answer a;
	ssize_t n;

	if (send(h->fd, &request, 1, MSG_NOSIGNAL) != 1)
		return stage_no(NULL, errno, "the process that maps ids is gone");
	do
		n = recv(h->fd, &a, sizeof(a), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(a))
		return stage_no(NULL, 0, "the process that maps ids is gone");
	if (!a.err)
		return 0;
	if (a.status == 126)
		return stage_no("apt install uidmap, or uids=single", 0,
				"%s: the program cannot be run", steps[a.which].what);
	if (a.status)
		return stage_no(steps[a.which].hint, 0, "%s with status %d for %lld and %lld",
				steps[a.which].what, a.status, (long long)stage.o.base,
				(long long)stage.o.gbase);
	return stage_no(steps[a.which].hint, a.err, "%s: %m", steps[a.which].what);
}

static bool sysctl_is(const char *path, char digit)
{
	char text[32];

	return read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 && text[0] == digit &&
	       (text[1] == '\n' || !text[1]);
}

const char *ids_why_not(void)
{
	if (sysctl_is("/proc/sys/user/max_user_namespaces", '0'))
		return "sysctl -w user.max_user_namespaces=15000";
	if (!stage.root && sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
		return "sysctl -w kernel.unprivileged_userns_clone=1, or run berth as root";
	if (!stage.root && sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'))
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor "
		       "profile that allows berth-agent userns, or run berth as root";
	return "user namespaces must be allowed here: sysctl user.max_user_namespaces, "
	       "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; "
	       "in a container: its seccomp profile";
}

int ids_outer(struct stage_ids *h, bool newns)
{
	if (unshare(CLONE_NEWUSER | (newns ? CLONE_NEWNS : 0)) < 0)
		return stage_no(ids_why_not(), errno, "cannot make a user namespace: %m");
	prctl(PR_SET_DUMPABLE, 1); /* else the child could not open our maps */
	if (ask(h, 'o') < 0)
		return -1;
	if (!stage.root)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return stage_no(NULL, errno, "cannot change to the ids of the sandbox: %m");
	prctl(PR_SET_DUMPABLE, 1);
	return 0;
}

void ids_end(struct stage_ids *h)
{
	close(h->fd);
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	h->pid = 0;
}

/* The uid that owns a user namespace has every right over it in the one above, with no capability at
 * all: that must not be U1's 0, which slirp4netns runs with, but init's. */
static int become_owner(void)
{
	if (setresgid(U1_INIT, U1_INIT, U1_INIT) < 0 || setresuid(U1_INIT, U1_INIT, U1_INIT) < 0)
		return stage_no(NULL, errno, "cannot change to the ids of the sandbox: %m");
	prctl(PR_SET_DUMPABLE, 1);
	return 0;
}

int ids_inner(struct stage_ids *h)
{
	if (!stage.o.single && become_owner() < 0)
		return -1;
	if (unshare(CLONE_NEWUSER) < 0)
		return stage_no(ids_why_not(), errno, "cannot make a second user namespace: %m");
	if (ask(h, 'i') < 0)
		return -1;
	ids_end(h);
	/* With one uid there is no right to change groups: the kernel wants it refused. */
	if (!stage.o.single && setgroups(0, NULL) < 0)
		return stage_no(NULL, errno, "cannot drop supplementary groups: %m");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return stage_no(NULL, errno, "cannot change to the ids of the sandbox: %m");
	return 0;
}
