/* SPDX-License-Identifier: MIT */
/*
 * stage_bwrap.c: the command line of bubblewrap, and of init behind it.
 *
 * Invariants: nothing of the caller's environment goes in; of its fds only those that init was
 * promised. 0 and 1 are /dev/null, 2 is where bubblewrap says why it could not: init lets it go.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/spawn.h"
#include "agent/stage.h"

static struct {
	char *v[256];
	size_t n;
	char text[16384];
	size_t used;
} line;

static void add(const char *word)
{
	if (line.n < ARRAY_LEN(line.v) - 1)
		line.v[line.n++] = (char *)(uintptr_t)word;
}

/* A word that is made up: "PLACE/name", "NAME=FD". */
static const char *made(const char *a, const char *b, int64_t number)
{
	char *at = line.text + line.used;

	if (number < 0)
		line.used += fmt(at, sizeof(line.text) - line.used, "%s%s", a, b) + 1;
	else
		line.used += fmt(at, sizeof(line.text) - line.used, "%s%s%lld", a, b,
				 (long long)number) +
			     1;
	return at;
}

static void add_number(const char *option, int64_t n)
{
	add(option);
	add(made("", "", n));
}

static void add_bind(const char *how, const char *part, const char *to)
{
	add(how);
	add(made(stage_place, part, -1));
	add(to);
}

static void add_namespaces(void)
{
	static const char *const words[] = {"bwrap",         "--new-session", "--as-pid-1",
					    "--unshare-pid", "--unshare-ipc", "--unshare-uts",
					    "--hostname"};
	/* init's uid must be the worker's, and bubblewrap has no rights unless it is uid 0: it makes
	 * one more user namespace. */
	static const char *const single[] = {"--unshare-user", "--uid",     "1000", "--gid",
					     "1000",           "--cap-add", "ALL"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		add(words[i]);
	add(stage.o.hostname);
	for (size_t i = 0; stage.o.single && i < ARRAY_LEN(single); i++)
		add(single[i]);
}

static void add_mounts(void)
{
	const struct stage_options *o = &stage.o;

	add_bind(stage.root_rw ? "--bind" : "--ro-bind", "/s", "/");
	add("--proc");
	add("/proc");
	add_bind("--dev-bind", "/dev", "/dev");
	add_bind("--bind", "/t/shm", "/dev/shm");
	add_bind("--bind", "/t/tmp", "/tmp");
	add_bind("--bind", "/home", "/home/user");
	add_bind("--bind", "/berth", "/run/berth");
	add_bind("--ro-bind", "/agent", "/run/berth-agent");
	for (size_t i = 0; i < o->n_paths; i++) {
		add(o->paths[i].rw ? "--bind" : "--ro-bind");
		add(made(stage_place, "/p", (int64_t)i));
		add(o->paths[i].path);
	}
	add("--chdir");
	add("/");
	add("--");
}

static void add_fds(void)
{
	static const char *const names[AGENT_GROUPS] = {
		[GROUP_MEMORY] = "memory=",   [GROUP_PIDS] = "pids=", [GROUP_CPU] = "cpu=",
		[GROUP_CPUACCT] = "cpuacct=", [GROUP_V2] = "v2=",
	};
	const struct stage_options *o = &stage.o;
	char port[16];

	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (stage.group_fds[i] < 0)
			continue;
		add("--group");
		add(made(names[i], "", stage.group_fds[i]));
	}
	for (size_t i = 0; i < o->n_ports; i++) {
		fmt(port, sizeof(port), "%d=", o->ports[i].port);
		add("--port");
		add(made(port, "", o->ports[i].fd));
	}
	if (stage.plan.exit_fd >= 0)
		add_number("--exit-fd", stage.plan.exit_fd);
	if (stage.plan.watch_fd >= 0)
		add_number("--net-watch", stage.plan.watch_fd);
	if (stage.plan.watch_fd >= 0 && o->net == NET_PUBLIC)
		add("--public-only");
}

static void add_init(void)
{
	static const char *const words[] = {"/run/berth-agent", "init",  "--walled", "--worker",
					    "1000:1000",        "--app", "/app"};
	const struct stage_options *o = &stage.o;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		add(words[i]);
	if (!stage.root && !o->single)
		add("--shared");
	add_fds();
	if (o->idle_ms > 0)
		add_number("--idle-ms", o->idle_ms);
	if (o->expires_ms > 0)
		add_number("--expires-ms", o->expires_ms);
	add_number("--staging", stage.lockfd);
	add_number("--ready", o->readyfd);
	add("/run/berth");
}

/* What init was promised survives the exec, and nothing else. */
static int hand_over(void)
{
	const struct stage_options *o = &stage.o;
	int keep[8 + AGENT_GROUPS + STAGE_PORTS_MAX], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	size_t n = 0;

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		return stage_no(NULL, errno, "cannot open /dev/null: %m");
	keep[n++] = o->readyfd;
	keep[n++] = stage.plan.exit_fd;
	keep[n++] = stage.plan.watch_fd;
	keep[n++] = stage.lockfd;
	for (int i = 0; i < AGENT_GROUPS; i++)
		keep[n++] = stage.group_fds[i];
	for (size_t i = 0; i < o->n_ports; i++)
		keep[n++] = o->ports[i].fd;
	for (size_t i = 0; i < n; i++) {
		if (keep[i] >= 0 && fcntl(keep[i], F_SETFD, 0) < 0)
			return stage_no(NULL, errno, "fd %d was not handed over: %m", keep[i]);
	}
	keep[n++] = stage.bwrapfd;
	fds_keep(keep, n);
	return 0;
}

int bwrap_exec(void)
{
	static const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/home/user",
		"USER=user",
		"TMPDIR=/tmp",
		"LANG=C.UTF-8",
		NULL,
	};

	add_namespaces();
	add_mounts();
	add_init();
	if (line.n == ARRAY_LEN(line.v) - 1 || line.used >= sizeof(line.text) - 64)
		return stage_no(NULL, E2BIG, "cannot run %s: %m", stage.o.bwrap);
	if (hand_over() < 0)
		return -1;
	signals_default();
	syscall(SYS_execveat, stage.bwrapfd, "", line.v, env, AT_EMPTY_PATH);
	return stage_no("apt install bubblewrap", errno, "cannot run %s: %m", stage.o.bwrap);
}
