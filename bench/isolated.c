/* SPDX-License-Identifier: MIT */
/*
 * isolated.c: the numbers of the local provider with isolation=bwrap, beside their yardsticks, in
 * one run.
 *
 *   isolated BERTH BW [CASE…]      BERTH: the program under test; BW: the static worker of bw.c
 *
 * Everything is a whole process, as a script pays for it. Yardsticks that are not installed are
 * left out of their row. Memory is the PSS of everything that a sandbox keeps alive, from init
 * down, its worker left out. What the kernel keeps for it (namespaces, mounts, groups) is not in
 * there: MemAvailable moves more by itself than 200 sandboxes move it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

#define CREATE_ROUNDS 40
#define RUN_ROUNDS    60
#define MANY          200
#define PIDS_MAX      65536

static const char *prog, *bw;
static char tmp[256], state[300], app[300], bundle[300];

/* ── whole processes ────────────────────────────────────────────────────────────────────── */

/* berth --state STATE -s SPEC WORD… */
static double berth(const char *spec, const char *const *words)
{
	const char *argv[32] = {prog, "--state", state, "-s", spec};
	size_t n = 5;

	while (*words && n < 31)
		argv[n++] = *words++;
	return timed_run(argv, NULL, 0);
}

static const char *const exec_true[] = {"exec", "--", "/bin/true", NULL};
static const char *const start[] = {"sandbox", "start", NULL};
static const char *const destroy[] = {"sandbox", "destroy", NULL};

static double bwrap_ms(void)
{
	static const char *const argv[] = {
		"bwrap", "--unshare-all", "--ro-bind", "/",    "/",         "--proc", "/proc",
		"--dev", "/dev",          "--tmpfs",   "/tmp", "/bin/true", NULL};

	return timed_run(argv, NULL, 0);
}

static int installed(const char *program)
{
	char line[128];

	snprintf(line, sizeof(line), "command -v %s >/dev/null 2>&1", program);
	return system(line) == 0;
}

/* A bundle for crun: busybox alone. */
static int make_bundle(void)
{
	static const char edit[] = "del(.linux.resources) | .process.terminal = false | "
				   ".process.args = [\"/bin/true\"]"
				   " | .linux.namespaces |= map(select(.type != \"cgroup\"))"
				   " | .mounts |= map(select(.type != \"cgroup\"))";

	if (!installed("crun") || !installed("busybox") || !installed("jq"))
		return 0;
	shell("mkdir -p %s/rootfs/bin && cp \"$(command -v busybox)\" %s/rootfs/bin/true && cd %s "
	      "&& "
	      "crun spec && jq '%s' config.json >c && mv c config.json",
	      bundle, bundle, bundle, edit);
	return 1;
}

/* crun refuses hybrid control groups: it is measured where the v2 ones are not mounted. */
static double crun_ms(int i)
{
	char id[64];
	const char *argv[] = {"crun", "run", "--bundle", bundle, id, NULL};
	double ms = 0;
	int fd[2];
	pid_t pid;

	snprintf(id, sizeof(id), "berth-bench-%d-%d", (int)getpid(), i);
	if (pipe(fd) < 0)
		die("no pipe");
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(1);
		umount2("/sys/fs/cgroup/unified", MNT_DETACH); /* nothing there: pure v2 */
		ms = timed_run(argv, NULL, 0);
		_exit(write(fd[1], &ms, sizeof(ms)) == sizeof(ms) ? 0 : 1);
	}
	close(fd[1]);
	if (pid < 0 || read(fd[0], &ms, sizeof(ms)) != sizeof(ms))
		die("crun could not be measured");
	close(fd[0]);
	waitpid(pid, NULL, 0);
	return ms;
}

static int have_docker(void)
{
	return installed("docker") && system("docker image inspect busybox >/dev/null 2>&1") == 0;
}

static double docker_ms(void)
{
	static const char *const argv[] = {"docker", "run", "--rm", "busybox", "/bin/true", NULL};

	return timed_run(argv, NULL, 0);
}

/* ── create and first command ───────────────────────────────────────────────────────────── */

static void row_ratio(const char *what, struct samples *s, const char *name, struct samples *yard,
		      double goal)
{
	row_print(&(struct row){what, "ms", yard->n ? name : NULL, samples_median(s),
				yard->n ? samples_median(yard) : 0, goal, 0, 0});
}

static void case_create(void)
{
	struct samples none = {.n = 0}, egress = {.n = 0}, bwrap = {.n = 0}, crun = {.n = 0},
		       docker = {.n = 0};
	int have_crun = make_bundle(), docker_too = have_docker();

	for (int i = 0; i < CREATE_ROUNDS; i++) {
		char spec[64];

		snprintf(spec, sizeof(spec), "local:n%d?net=none", i);
		samples_add(&none, berth(spec, exec_true));
		berth(spec, destroy);
		samples_add(&bwrap, bwrap_ms());
		snprintf(spec, sizeof(spec), "local:e%d?net=egress", i);
		samples_add(&egress, berth(spec, exec_true));
		berth(spec, destroy);
		if (have_crun)
			samples_add(&crun, crun_ms(i));
		if (docker_too && i < 10)
			samples_add(&docker, docker_ms());
	}
	row_ratio("create + first command, net=none (process)", &none, "bwrap --unshare-all true",
		  &bwrap, 15);
	row_ratio("create + first command, net=egress (process)", &egress,
		  "bwrap --unshare-all true", &bwrap, 25);
	row_ratio("create + first command, net=none (process)", &none, "crun run true", &crun, 15);
	row_ratio("create + first command, net=egress (process)", &egress, "docker run true",
		  &docker, 25);
}

/* ── in a running one ───────────────────────────────────────────────────────────────────── */

static void case_run(void)
{
	static const char spec[] = "local:running?net=none";
	struct samples yard = {.n = 0}, exe = {.n = 0}, dep = {.n = 0}, can = {.n = 0};
	const char *const true_argv[] = {"/bin/true", NULL};

	berth(spec, start);
	for (int i = 0; i < RUN_ROUNDS; i++) {
		char id[32];
		const char *const deploy[] = {"deploy", app,    "--id", id,
					      "--",     "./bw", "hold", NULL};
		const char *const cancel[] = {"cancel", id, NULL};
		double ms;

		snprintf(id, sizeof(id), "d%d", i);
		samples_add(&yard, timed_run(true_argv, NULL, 0));
		ms = berth(spec, deploy);
		if (i) /* the first one brings the artifact */
			samples_add(&dep, ms);
		samples_add(&exe, berth(spec, exec_true));
		samples_add(&can, berth(spec, cancel));
	}
	berth(spec, destroy);
	row_ratio("isolated: deploy until running (process)", &dep, "posix_spawn /bin/true", &yard,
		  10);
	row_ratio("isolated: exec -- true (process)", &exe, "posix_spawn /bin/true", &yard, 3);
	row_ratio("isolated: cancel (process)", &can, "posix_spawn /bin/true", &yard, 5);
}

/* ── memory ─────────────────────────────────────────────────────────────────────────────── */

struct proc {
	long pid, parent, uid; /* uid: of slirp4netns only */
	char comm[32];
};

static struct proc procs[PIDS_MAX];
static size_t n_procs;

static long uid_of(long pid)
{
	char path[64], line[256];
	long uid = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "Uid: %ld", &uid) != 1)
		;
	if (f)
		fclose(f);
	return uid;
}

static void read_proc(long pid)
{
	char path[64], line[512], *open, *close;
	struct proc *p = &procs[n_procs];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (n_procs < PIDS_MAX && fgets(line, sizeof(line), f) && (open = strchr(line, '(')) &&
	    (close = strrchr(line, ')')) && sscanf(close, ") %*c %ld", &p->parent) == 1) {
		*close = '\0';
		p->pid = pid;
		snprintf(p->comm, sizeof(p->comm), "%.31s", open + 1);
		p->uid = strcmp(p->comm, "slirp4netns") == 0 ? uid_of(pid) : -1;
		n_procs++;
	}
	fclose(f);
}

static void read_procs(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	n_procs = 0;
	while (d && (e = readdir(d))) {
		if (atol(e->d_name) > 0)
			read_proc(atol(e->d_name));
	}
	if (d)
		closedir(d);
}

/* Below init, or init itself. */
static int is_below(long pid, long init)
{
	while (pid > 1 && pid != init) {
		size_t i = 0;

		while (i < n_procs && procs[i].pid != pid)
			i++;
		pid = i < n_procs ? procs[i].parent : 0;
	}
	return pid == init;
}

/* The host's pid of a sandbox's init: who listens on its socket. */
static long init_of(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (snprintf(a.sun_path, sizeof(a.sun_path), "%s/local/%s/berth/init.sock", state, name) >=
	    (int)sizeof(a.sun_path))
		die("the path of the state folder is too long");
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		die("%s: no init", name);
	close(fd);
	return peer.pid;
}

/* kB: init and what is below it, without the worker (comm bw), and the network's helper, which has
 * the third uid of the sandbox's range where root started it. */
static long sandbox_pss(long init)
{
	long sum = 0, base = uid_of(init);

	for (size_t i = 0; i < n_procs; i++) {
		const struct proc *p = &procs[i];

		if (p->uid == base + 2 || (strcmp(p->comm, "bw") != 0 && is_below(p->pid, init)))
			sum += pss_kb(p->pid);
	}
	return sum;
}

static void row_kb(const char *what, double kb, double goal)
{
	row_print(&(struct row){what, "kB", NULL, kb, 0, goal, 0, 0});
}

static long all_pss(void)
{
	long sum = 0;

	read_procs();
	for (int i = 0; i < MANY; i++) {
		char name[16];

		snprintf(name, sizeof(name), "m%d", i);
		sum += sandbox_pss(init_of(name));
	}
	return sum;
}

/* The same words for each of the MANY sandboxes. */
static void for_all(const char *net, const char *const *words)
{
	for (int i = 0; i < MANY; i++) {
		char spec[64];

		snprintf(spec, sizeof(spec), "local:m%d?net=%s", i, net);
		berth(spec, words);
	}
}

/* MANY sandboxes, each idle; then each with a running execution. */
static void many(const char *net, double goal)
{
	const char *const deploy[] = {"deploy", app, "--id", "w", "--", "./bw", "hold", NULL};
	char what[80];

	for_all(net, start);
	snprintf(what, sizeof(what), "idle sandbox at %d, net=%s (PSS)", MANY, net);
	row_kb(what, (double)all_pss() / MANY, goal);
	for_all(net, deploy);
	row_kb("  with a running execution (PSS besides it)", (double)all_pss() / MANY, 0);
	for_all(net, destroy);
}

static void case_memory(void)
{
	many("none", 800);
	many("egress", 3072);
}

/* ── main ───────────────────────────────────────────────────────────────────────────────── */

static const struct {
	const char *name;
	void (*fn)(void);
} cases[] = {
	{"create", case_create},
	{"run", case_run},
	{"memory", case_memory},
};

static int wanted(int argc, char **argv, const char *name)
{
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], name))
			return 1;
	}
	return argc <= 3;
}

int main(int argc, char **argv)
{
	const char *t = getenv("TMPDIR");

	if (argc < 3)
		die("usage: isolated BERTH BW [create|run|memory…]");
	prog = argv[1];
	bw = argv[2];
	snprintf(tmp, sizeof(tmp), "%s/bi-XXXXXX", t ? t : "/tmp");
	if (!mkdtemp(tmp))
		die("mkdtemp");
	snprintf(state, sizeof(state), "%s/s", tmp);
	snprintf(app, sizeof(app), "%s/app", tmp);
	snprintf(bundle, sizeof(bundle), "%s/bundle", tmp);
	shell("mkdir -m 700 %s && mkdir %s && cp %s %s/bw", state, app, bw, app);
	row_print_head();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (wanted(argc, argv, cases[i].name))
			cases[i].fn();
	}
	shell("rm -rf %s", tmp);
	return 0;
}
