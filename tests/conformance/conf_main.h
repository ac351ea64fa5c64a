/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_CONF_MAIN_H
#define BERTH_TESTS_CONF_MAIN_H
/*
 * conf_main.h: the program of a part: its options, its folder, its user, and what must be gone when
 * it ends. Only conf.h includes it.
 */

static void conf_die(const char *what)
{
	fprintf(stderr, "conformance: %s: %s\n", what, strerror(errno));
	exit(99);
}

static void conf_copy(const char *from, const char *to)
{
	char buf[65536];
	int in_fd = open(from, O_RDONLY | O_CLOEXEC);
	int out_fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ssize_t r;

	if (in_fd < 0 || out_fd < 0)
		conf_die(in_fd < 0 ? from : to);
	while ((r = read(in_fd, buf, sizeof(buf))) > 0) {
		if (write(out_fd, buf, (size_t)r) != r)
			conf_die(to);
	}
	close(in_fd);
	close(out_fd);
}

/* A file of our own in the place of one of /etc, for this program and what it starts. */
static void conf_etc(const char *name, const char *first, const char *fmt, ...)
{
	char from[PATH_MAX], to[64], text[1024];
	va_list args;
	int fd;
	size_t n;

	va_start(args, fmt);
	n = (size_t)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(from, sizeof(from), "%.3000s/etc-%s", conf.root, name);
	snprintf(to, sizeof(to), "/etc/%s", name);
	if (first)
		conf_copy(first, from);
	fd = open(from, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n || fchmod(fd, 0644) < 0)
		conf_die(from);
	close(fd);
	/* Where there is no such file on this machine, it has no ordinary user with ids either. */
	if (access(to, F_OK) < 0 && (fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) >= 0)
		close(fd);
	if (mount(from, to, NULL, MS_BIND, NULL) < 0)
		conf_die(to);
}

/*
 * An ordinary user that this machine has: in passwd, with a home, and with subordinate ids of his
 * own. All that in a mount namespace of this program, so that the machine does not change.
 */
static void conf_user(uid_t uid)
{
	unsigned first = 100000000u + uid % 10000u * 65536u;
	char home[PATH_MAX];

	snprintf(home, sizeof(home), "%.3000s/userhome", conf.root);
	if (mkdir(home, 0755) < 0 || chown(home, uid, (gid_t)uid) < 0)
		conf_die(home);
	setenv("HOME", home, 1);
	setenv("USER", "berth-tester", 1);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		conf_die("mount namespace");
	conf_etc("passwd", "/etc/passwd", "berth-tester:x:%u:%u::%s:/bin/sh\n", uid, uid, home);
	conf_etc("group", "/etc/group", "berth-tester:x:%u:\n", uid);
	conf_etc("subuid", NULL, "berth-tester:%u:65536\n", first);
	conf_etc("subgid", NULL, "berth-tester:%u:65536\n", first);
}

static void conf_become(uid_t uid)
{
	gid_t gid = (gid_t)uid;

	conf_user(uid);
	if (chown(conf.root, uid, gid) < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1) < 0)
		conf_die("--uid");
}

static void conf_setup(void)
{
	const char *tmp = getenv("TMPDIR");
	char from[PATH_MAX];
	unsigned long long r = 0;

	if (syscall(SYS_getrandom, &r, sizeof(r), 0) < 0)
		conf_die("getrandom");
	snprintf(conf.nonce, sizeof(conf.nonce), "%016llx", r);
	snprintf(conf.root, sizeof(conf.root), "%s/conf.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(conf.root) || chmod(conf.root, 0755) < 0)
		conf_die(conf.root);
	snprintf(from, sizeof(from), "%s", conf.worker);
	snprintf(conf.worker, sizeof(conf.worker), "%.3000s/worker", conf.root);
	snprintf(conf.state, sizeof(conf.state), "%.3000s/state", conf.root);
	snprintf(conf.art, sizeof(conf.art), "%.3000s/art", conf.root);
	conf_copy(from, conf.worker);
	if (conf.uid) {
		if (chown(conf.worker, conf.uid, (gid_t)conf.uid) < 0)
			conf_die("chown");
		conf_become(conf.uid);
	}
	if (mkdir(conf.art, 0755) < 0)
		conf_die(conf.art);
	snprintf(from, sizeof(from), "%.3000s/worker", conf.art);
	if (link(conf.worker, from) < 0)
		conf_die(from);
	/* Tests make their own folders here: tap.h asks TMPDIR. */
	setenv("TMPDIR", conf.root, 1);
	unsetenv("BERTH_SANDBOX");
	unsetenv("BERTH_STATE");
}

/* Destroys what is left of the sandboxes; everything of this run must be gone then. */
static int conf_teardown_one(void *arg, const char *spec)
{
	struct berth_sandbox *s = NULL;
	struct berth_destroy_result r;
	int *bad = arg;

	if (berth_sandbox_open(B, spec, NULL, 0, &s, &E) < 0) {
		fprintf(stderr, "# teardown: %s: %s\n", spec, E.message);
		*bad = 1;
		return 0;
	}
	if (berth_sandbox_capabilities(s) & BERTH_CAP_DESTROY &&
	    (berth_sandbox_destroy(s, 3, -1, &r, &E) < 0 || r.state != BERTH_DESTROYED)) {
		fprintf(stderr, "# teardown: %s: %s\n", spec, E.message);
		*bad = 1;
	}
	berth_sandbox_close(s);
	return 0;
}

static int conf_teardown(void)
{
	int bad = 0;
	pid_t pid = 0;

	if (berth_new(conf.state, &B, &E) < 0 ||
	    berth_sandbox_list(B, conf_teardown_one, &bad, &E) < 0) {
		fprintf(stderr, "# teardown: %s\n", E.message);
		bad = 1;
	}
	/* A driver without a list: at least the shared one. */
	conf_teardown_one(&bad, spec_for(NULL));
	berth_free(B);
	if (processes_with(conf.nonce, &pid) || processes_with(conf.state, &pid)) {
		char cmd[512];
		char path[64];
		size_t n;

		snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		n = slurp_at(AT_FDCWD, path, cmd, sizeof(cmd));
		for (size_t i = 0; i < n; i++)
			cmd[i] = cmd[i] ? cmd[i] : ' ';
		fprintf(stderr, "# teardown: process %d is left behind: %s\n", pid, cmd);
		bad = 1;
	}
	nftw(conf.root, tap_rm_, 32, FTW_DEPTH | FTW_PHYS);
	return bad;
}

/* Takes this suite's options out of argv; the rest is for tap.h. */
static void conf_options(int *argc, char **argv)
{
	const char *worker = getenv("BERTH_TEST_WORKER"), *spec = getenv("BERTH_TEST_SPEC");
	int n = 1;

	conf.template = spec && *spec ? spec : "local:NAME?isolation=none";
	for (int i = 1; i < *argc; i++) {
		if (i + 1 < *argc && strcmp(argv[i], "--spec") == 0)
			conf.template = argv[++i];
		else if (i + 1 < *argc && strcmp(argv[i], "--worker") == 0)
			worker = argv[++i];
		else if (i + 1 < *argc && strcmp(argv[i], "--uid") == 0)
			conf.uid = (uid_t)strtoul(argv[++i], NULL, 10);
		else
			argv[n++] = argv[i];
	}
	argv[n] = NULL;
	*argc = n;
	if (!worker) {
		fprintf(stderr,
			"conformance: --worker or BERTH_TEST_WORKER must name the worker\n");
		exit(99);
	}
	snprintf(conf.worker, sizeof(conf.worker), "%s", worker);
}

/* A sandbox with walls needs programs that a machine may lack; told by BERTH_HAVE, as in tap.h. */
static bool conf_lacks(const char *name)
{
	if (!getenv("BERTH_HAVE") || tap_env_lists_("BERTH_HAVE", name))
		return false;
	if (tap_env_lists_("BERTH_REQUIRE", name))
		printf("not ok 1 - prerequisite %s is required here and missing\n1..1\n", name);
	else
		printf("1..0 # SKIP there is no %s\n", name);
	return true;
}

static bool conf_lacks_walls(void)
{
	bool walled = strncmp(conf.template, "local:", 6) == 0 &&
		      !strstr(conf.template, "isolation=none");

	return walled &&
	       (conf_lacks("bwrap") ||
		(conf.uid && !strstr(conf.template, "uids=single") && conf_lacks("subids")));
}

int main(int argc, char **argv)
{
	int r;

	conf_options(&argc, argv);
	if (conf.uid && geteuid() != 0) {
		printf("1..0 # SKIP another user needs root\n");
		return 0;
	}
	if (conf_lacks_walls())
		return 0;
	conf_setup();
	r = tap_main_(argc, argv);
	if (conf_teardown() != 0) {
		fprintf(stderr, "# teardown failed\n");
		r = 1;
	}
	return r;
}

#endif
