/* SPDX-License-Identifier: MIT */
/*
 * doctor: what this host can do for berth, found out by trying it. Every probe runs in a child of
 * its own that leaves nothing behind; the child has no exit signal, so that the host program's
 * SIGCHLD handling never sees it. Nothing is changed on the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/quota.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/limits.h"
#include "core/agent_blob.h"
#include "core/core.h"
#include "core/host.h"

struct doctor {
	struct berth *b;
	void (*fn)(void *arg, const struct berth_check *c);
	void *arg;
};

static void report(struct doctor *d, const char *name, bool ok, const char *detail,
		   const char *hint)
{
	const struct berth_check c = {name, ok, detail, ok ? NULL : hint};

	d->fn(d->arg, &c);
}

/* ── probes in a child ──────────────────────────────────────────────────────────────────── */

/* In the child: what cannot be written shows in what is tried afterwards. */
static void put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, text, strlen(text)) >= 0)
		close(fd);
}

/*
 * Runs fn in a child with these namespaces: 0 when it returned 0, else an errno (of clone or of
 * fn). fn makes system calls only: the child of a program with threads may not do more.
 */
static int probe(unsigned long namespaces, int (*fn)(void))
{
	char uids[64], gids[64];
	int status = 0;
	pid_t pid;

	snprintf(uids, sizeof(uids), "%lu %lu 1", (unsigned long)geteuid(),
		 (unsigned long)geteuid());
	snprintf(gids, sizeof(gids), "%lu %lu 1", (unsigned long)getegid(),
		 (unsigned long)getegid());
	pid = (pid_t)syscall(SYS_clone, namespaces, NULL, NULL, NULL, NULL);
	if (pid < 0)
		return errno;
	if (pid == 0) {
		if (namespaces & CLONE_NEWUSER) {
			put_text("/proc/self/setgroups", "deny");
			put_text("/proc/self/uid_map", uids);
			put_text("/proc/self/gid_map", gids);
		}
		_exit(fn ? fn() & 0x7f : 0);
	}
	while (waitpid(pid, &status, __WALL) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

/* Ordinary users get the right to make other namespaces from a user namespace. */
static unsigned long with_user(unsigned long namespaces)
{
	return geteuid() == 0 ? namespaces : namespaces | CLONE_NEWUSER;
}

static int try_overlay(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0 || mkdir("/tmp/lower", 0700) < 0 ||
	    mkdir("/tmp/up", 0700) < 0 || mkdir("/tmp/wk", 0700) < 0 ||
	    mkdir("/tmp/view", 0700) < 0)
		return errno;
	if (mount("overlay", "/tmp/view", "overlay", 0,
		  "lowerdir=/tmp/lower,upperdir=/tmp/up,workdir=/tmp/wk") == 0)
		return 0;
	return mount("overlay", "/tmp/view", "overlay", 0,
		     "lowerdir=/tmp/lower,upperdir=/tmp/up,workdir=/tmp/wk,userxattr") == 0
		       ? 0
		       : errno;
}

static int try_proc(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return errno;
	return 0;
}

static void check_probe(struct doctor *d, const char *name, int errnum, const char *good,
			const char *hint)
{
	char detail[128];

	snprintf(detail, sizeof(detail), "%s", errnum ? berth_errno_text(errnum) : good);
	report(d, name, errnum == 0, detail, hint);
}

/* Sysctls that forbid user namespaces, those that are there. */
static void name_sysctls(char *out, size_t cap)
{
	static const char *const names[] = {"user.max_user_namespaces",
					    "kernel.unprivileged_userns_clone",
					    "kernel.apparmor_restrict_unprivileged_userns"};
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(names) && n < cap; i++) {
		auto_free char *path = mem_printf("/proc/sys/%s", names[i]), *text = NULL;

		for (char *p = path ? path + strlen("/proc/sys/") : NULL; p && *p; p++)
			*p = *p == '.' ? '/' : *p;
		if (!path || read_file(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0)
			continue;
		text[strcspn(text, "\n")] = '\0';
		n += (size_t)snprintf(out + n, cap - n, "; %s=%s", names[i], text);
	}
}

static void check_namespaces(struct doctor *d)
{
	char sysctls[256], detail[384];
	int errnum = probe(CLONE_NEWUSER, NULL);

	name_sysctls(sysctls, sizeof(sysctls));
	snprintf(detail, sizeof(detail), "%s%s", errnum ? berth_errno_text(errnum) : "can be made",
		 sysctls);
	report(d, "user namespaces", errnum == 0, detail,
	       "isolation=bwrap needs them: sysctl user.max_user_namespaces=15000, on Debian "
	       "kernel.unprivileged_userns_clone=1, on Ubuntu "
	       "kernel.apparmor_restrict_unprivileged_userns=0");
	check_probe(d, "pid namespaces", probe(with_user(CLONE_NEWPID | CLONE_NEWNS), try_proc),
		    "can be made, with a /proc of their own",
		    "without them the end of a tree is found by looking for its processes");
	check_probe(d, "overlay file system", probe(with_user(CLONE_NEWNS), try_overlay),
		    "can be mounted", "without it every execution gets a copy of its artifact");
	check_probe(d, "overlay in user namespace", probe(CLONE_NEWUSER | CLONE_NEWNS, try_overlay),
		    "can be mounted",
		    "Linux 5.11 or newer; without it an isolated sandbox copies artifacts, and "
		    "rootfs= is read-only");
}

/* ── what can be read ───────────────────────────────────────────────────────────────────── */

static bool in_words(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p += n) {
		if ((p == text || strchr(" ,:\n", p[-1])) && (!p[n] || strchr(" ,:\n", p[n])))
			return true;
	}
	return false;
}

/* Controllers among memory, pids and cpu that a text names. */
static void name_controllers(const char *text, char *out, size_t cap)
{
	static const char *const wanted[] = {"memory", "pids", "cpu"};
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(wanted) && n < cap; i++) {
		if (in_words(text, wanted[i]))
			n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", wanted[i]);
	}
}

/* How this user gets groups of its own. */
static const char *own_groups(bool *ret_usable)
{
	*ret_usable = true;
	if (geteuid() == 0)
		return "as root";
	if (host_groups_own())
		return "delegated to you";
	if (host_scope_there(getenv("XDG_RUNTIME_DIR")))
		return "from your systemd, in a scope";
	*ret_usable = false;
	return "none that you may use";
}

static void check_cgroups(struct doctor *d)
{
	static const char *const v2[] = {"/sys/fs/cgroup/cgroup.controllers",
					 "/sys/fs/cgroup/unified/cgroup.controllers"};
	auto_free char *own = NULL, *text = NULL;
	char have1[64] = "", have2[64] = "", detail[256];
	bool is2 = false, usable = false;

	if (read_file(AT_FDCWD, "/proc/self/cgroup", SMALL_FILE_MAX, &own, NULL, NULL) == 0)
		name_controllers(own, have1, sizeof(have1));
	for (size_t i = 0; i < ARRAY_LEN(v2) && !is2; i++) {
		is2 = read_file(AT_FDCWD, v2[i], SMALL_FILE_MAX, &text, NULL, NULL) == 0;
		if (is2)
			name_controllers(text, have2, sizeof(have2));
	}
	snprintf(detail, sizeof(detail), "v1: %s; v2: %s; %s", have1[0] ? have1 : "no controllers",
		 is2 ? have2[0] ? have2 : "no controllers" : "not mounted", own_groups(&usable));
	report(d, "cgroups", usable && (have1[0] || have2[0]), detail,
	       "--memory, --pids, --cpus and memory=, pids=, cpus= need them: be root, or have a "
	       "systemd of your own (loginctl enable-linger)");
}

static void check_seccomp(struct doctor *d)
{
	bool ok = access("/proc/sys/kernel/seccomp/actions_avail", R_OK) == 0 ||
		  prctl(PR_GET_SECCOMP) >= 0;

	report(d, "seccomp", ok, ok ? "filters are available" : "not in this kernel",
	       "a kernel with CONFIG_SECCOMP_FILTER");
}

static void check_agent(struct doctor *d)
{
	struct utsname u;
	char detail[192];
	const struct agent_blob *blob;

	uname(&u);
	blob = agent_blob_get(u.machine);
	snprintf(detail, sizeof(detail), blob ? "%s, %s" : "none for %s", u.machine,
		 blob ? blob->hash : "");
	report(d, "berth-agent", blob != NULL, detail, "a berth that was built for this machine");
}

/* The state folder; not made yet: where it would be made. Owned by caller. */
static char *existing_state(const struct doctor *d)
{
	char *dir = mem_strdup(d->b->state_dir);

	while (dir && access(dir, F_OK) < 0 && strrchr(dir, '/') > dir)
		*strrchr(dir, '/') = '\0';
	return dir;
}

/* A file in the state folder can be made, executed, locked and asked about. */
static void check_state(struct doctor *d)
{
	auto_free char *dir = existing_state(d);
	char detail[PATH_BUF_MAX + 64];
	auto_close int fd = -1, other = -1;
	struct statvfs fs;
	char path[48];
	int rc;

	fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
	if (fd < 0) {
		snprintf(detail, sizeof(detail), "%s: %s", dir ? dir : "", berth_errno_text(errno));
		report(d, "state folder", false, detail,
		       "--state DIR or $BERTH_STATE names another one");
		return;
	}
	if (fstatvfs(fd, &fs) == 0 && fs.f_flag & ST_NOEXEC) {
		snprintf(detail, sizeof(detail), "%s: programs in it cannot be executed (noexec)",
			 d->b->state_dir);
		report(d, "state folder", false, detail,
		       "--state DIR or $BERTH_STATE on a file system that is not mounted noexec");
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	rc = fd_lock(fd, true);
	if (rc == 0 && other >= 0)
		rc = fd_lock_test(other) == 1 ? 0 : -ENOLCK;
	snprintf(detail, sizeof(detail), "%s%s%s", d->b->state_dir, rc ? ": locks: " : "",
		 rc ? berth_errno_text(-rc) : "");
	report(d, "state folder", rc == 0, detail,
	       "a file system with locks (not every network one)");
}

/* ── what isolation=bwrap needs ─────────────────────────────────────────────────────────── */

static void check_subids(struct doctor *d)
{
	static const char *const files[] = {"/etc/subuid", "/etc/subgid"};
	auto_free char *user = NULL, *home = NULL;
	int64_t start = 0, count = 0;
	char detail[256];

	if (geteuid() == 0) {
		report(d, "subordinate ids", true, "as root: from 1879048192 on", NULL);
		return;
	}
	(void)!host_passwd(&user, &home, NULL);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *text = NULL;

		if (read_file(AT_FDCWD, files[i], SMALL_FILE_MAX, &text, NULL, NULL) == 0 &&
		    host_subids(text, user, geteuid(), &start, &count))
			continue;
		snprintf(detail, sizeof(detail), "none in %s for %s", files[i],
			 user ? user : "you");
		report(d, "subordinate ids", false, detail,
		       "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER; or "
		       "uids=single, which keeps less apart");
		return;
	}
	snprintf(detail, sizeof(detail), "from %lld on, %lld of them", (long long)start,
		 (long long)count);
	report(d, "subordinate ids", true, detail, NULL);
}

/* net=egress and net=public make a device with it; root opens it whatever its mode. */
static void check_tun(struct doctor *d)
{
	auto_close int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	report(d, "tun", fd >= 0, fd >= 0 ? "/dev/net/tun can be opened" : strerrordesc_np(errno),
	       "net=egress, public: chmod 666 /dev/net/tun, as distributions have it; or net=none");
}

/* One of the programs that isolation=bwrap is made of. */
static void check_tool(struct doctor *d, const char *name, const char *hint)
{
	auto_free char *path = host_program(name);

	report(d, name, path != NULL, path ? path : "not found", hint);
}

static void check_quota(struct doctor *d)
{
	auto_free char *dir = existing_state(d);
	auto_close int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct if_dqinfo info;
	bool ok = fd >= 0 && geteuid() == 0 && host_project_quota(fd, Q_GETINFO, 0, &info) == 0;
	char detail[128];

	snprintf(detail, sizeof(detail), "%s",
		 ok               ? "the state folder has them"
		 : geteuid() != 0 ? "only root can set them"
		 : fd < 0         ? "no state folder"
				  : host_quota_why(errno));
	report(d, "project quotas", ok, detail,
	       "disk= needs them: as root, a state folder on ext4 or xfs mounted with prjquota");
}

static void check_isolation(struct doctor *d)
{
	check_tool(d, "bwrap", "apt install bubblewrap; or isolation=none, which isolates nothing");
	check_subids(d);
	if (geteuid() != 0) {
		check_tool(d, "newuidmap", "apt install uidmap; or uids=single");
		check_tool(d, "newgidmap", "apt install uidmap; or uids=single");
	}
	check_tool(d, "slirp4netns", "apt install slirp4netns; or net=none");
	check_tun(d);
	check_quota(d);
}

/* Programs that workers often need, where a sandbox without walls finds them. */
static void check_program(struct doctor *d, const char *name, const char *hint)
{
	static const char *const path[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					   "/usr/bin",        "/sbin",          "/bin"};
	char file[128];

	for (size_t i = 0; i < ARRAY_LEN(path); i++) {
		snprintf(file, sizeof(file), "%s/%s", path[i], name);
		if (access(file, X_OK) == 0) {
			report(d, name, true, file, NULL);
			return;
		}
	}
	report(d, name, false, "not found", hint);
}

int berth_doctor(struct berth *b, void (*fn)(void *arg, const struct berth_check *c), void *arg,
		 struct berth_error *err)
{
	struct doctor d = {b, fn, arg};

	if (!fn)
		return berth_fail(err, BERTH_E_INVALID, "berth_doctor: nothing to call");
	check_agent(&d);
	check_state(&d);
	check_namespaces(&d);
	check_cgroups(&d);
	check_seccomp(&d);
	check_isolation(&d);
	check_program(&d, "node", "apt install nodejs");
	check_program(&d, "npm", "apt install npm");
	check_program(&d, "python3", "apt install python3");
	return 0;
}
