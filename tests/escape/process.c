/* SPDX-License-Identifier: MIT */
/*
 * process.c: attempts that need somebody outside: output, fds, stdin of the caller, other
 * executions and guests, terminals, the uids of the host, what is left behind.
 */
#include <pty.h>

#include "bait.h"

TEST(each_row_has_its_test)
{
	ROWS_PROCESS(X_HAS_TEST)
}

static void need_wall(void)
{
	OK(berth_sandbox_start(box(), &E));
	OK(berth_sandbox_info(box(), &wall, &E));
	if (!walled())
		SKIP("the sandbox has no wall");
}

/* ── running guests ───────────────────────────────────────────────────────────────────────── */

static void bring_attempts(void)
{
	if (home_size("worker") == 0)
		OK(berth_copy_in(box(), conf.worker, NULL, "worker", &E));
}

struct guest {
	int stdin_fd;
	unsigned cols;
};

/* Runs a guest: its exit code, and in `said` what it said. */
static const char *said;
/* The sandbox of the guests, which are run from a process of their own; NULL: the shared one. */
static const char *guests_box;

static int guest_with(const char *mark, const char *line, const struct guest *g)
{
	static struct bytes out;
	struct berth_exec_request q;
	struct berth_exec_result r;
	int fds[2], status;
	char buf[65536];
	ssize_t n;
	pid_t pid;

	bring_attempts();
	out.n = 0;
	bytes_add(&out, "", 0);
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		if (guests_box)
			use_box(guests_box);
		berth_exec_request_init(&q);
		q.command = ops(mark, line);
		q.stdin_fd = g->stdin_fd;
		q.stdout_fd = fds[1];
		q.stderr_fd = g->cols ? -1 : fds[1];
		q.cols = q.rows = g->cols;
		q.timeout_ms = 40000;
		if (berth_exec(box(), &q, &r, &E) < 0) {
			dprintf(fds[1], "exec: %s\n", E.message);
			_exit(99);
		}
		_exit(r.exit_code >= 0 ? r.exit_code : 128 + r.signo);
	}
	close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		bytes_add(&out, buf, (size_t)n);
	close(fds[0]);
	ASSERT_OK(waitpid(pid, &status, 0));
	said = out.p;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static int guest(const char *mark, const char *line)
{
	return guest_with(mark, line, &(struct guest){.stdin_fd = -1});
}

/* ── output and fds ───────────────────────────────────────────────────────────────────────── */

TEST(own_output)
{
	struct berth_status st;

	need_wall();
	run("forge", "forge-output", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("forge", BERTH_STDOUT), "one\ntwo\nthree\nfour\n");
	ASSERT_EQ(st.stdout_bytes, 19u);
}

static void fds_held(const char *how, int code, const char *out)
{
	if (code != 0 || !strstr(out, "held "))
		FAIL("%s: exit code %d: %s", how, code, out);
	tap_.checks++;
}

static void guest_held(const char *how, int code)
{
	fds_held(how, code, said);
}

TEST(fds_by_every_road)
{
	struct berth_deploy_request q;
	struct berth_status st;

	need_wall();
	run("fds-plain", "try fds", &st);
	fds_held("run", st.exit_code, text_out("fds-plain", BERTH_STDOUT));
	request(&q, "fds-stdin", "try fds");
	q.input_kind = BERTH_INPUT_STDIN;
	q.input = "input";
	q.input_len = 5;
	run_request(&q, &st);
	fds_held("run with stdin", st.exit_code, text_out("fds-stdin", BERTH_STDOUT));
	request(&q, "fds-input", "try fds");
	q.input_kind = BERTH_INPUT_FILE;
	q.input_path = "in/put";
	q.input = "input";
	q.input_len = 5;
	run_request(&q, &st);
	fds_held("run with an input file", st.exit_code, text_out("fds-input", BERTH_STDOUT));
	guest_held("exec", guest("fds-guest", "try fds"));
	guest_held("exec -t",
		   guest_with("fds-tty", "try fds", &(struct guest){.stdin_fd = -1, .cols = 80}));
	request(&q, "fds-install", "cat fds-of-install");
	q.install = "./worker try fds | cat > fds-of-install";
	run_request(&q, &st);
	fds_held("install", st.exit_code, text_out("fds-install", BERTH_STDOUT));
}

TEST(callers_directory)
{
	static const char *const kinds[] = {"directory", "file", "/", "socket"};
	struct guest g;

	bait_up();
	need_wall();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		SUBTEST("%s", kinds[i])
		{
			int pair[2] = {-1, -1};

			memset(&g, 0, sizeof(g));
			if (i == 3)
				ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
			g.stdin_fd = i == 0   ? open(bait.dir, O_RDONLY | O_CLOEXEC)
				     : i == 1 ? open(bait.secret, O_RDWR | O_CLOEXEC)
				     : i == 2 ? open("/", O_PATH | O_CLOEXEC)
					      : pair[0];
			ASSERT_GE(g.stdin_fd, 0);
			if (i == 3)
				shutdown(pair[1], SHUT_WR);
			guest_with("stdin", "walk-stdin", &g);
			/* Refused before it runs is right, too: then nothing was walked. */
			ASSERT_LACKS(said, "opened");
			ASSERT_LACKS(said, "changed");
			ASSERT_LACKS(said, "it is a socket");
			ASSERT(strstr(said, "mode 10000") || strstr(said, "mode 20000") ||
			       strstr(said, "exec: "));
			close(g.stdin_fd);
			close(pair[1]);
			bait_is_intact();
		}
	}
	bait_down();
}

/* ── working directories ──────────────────────────────────────────────────────────────────── */

struct workdir_try {
	const char *path, *session;
	char said[4096];
	int code;
};

/* What a guest finds when it begins there: whether .. leads to the host. */
static void start_in(struct workdir_try *w)
{
	struct berth_exec_request q;
	struct berth_exec_result r;
	int fds[2], status;
	size_t n = 0;
	ssize_t k;
	pid_t pid;

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		berth_exec_request_init(&q);
		q.command = (const char *const[]){"/home/user/worker", "where", NULL};
		q.workdir = w->path;
		q.session = w->session;
		q.stdout_fd = q.stderr_fd = fds[1];
		q.timeout_ms = 20000;
		_exit(berth_exec(box(), &q, &r, &E) < 0 ? 99 : r.exit_code);
	}
	close(fds[1]);
	while ((k = read(fds[0], w->said + n, sizeof(w->said) - 1 - n)) > 0)
		n += (size_t)k;
	w->said[n] = '\0';
	close(fds[0]);
	ASSERT_OK(waitpid(pid, &status, 0));
	w->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void workdir_held(struct workdir_try *w)
{
	start_in(w);
	if (w->code != 99 && (w->code != 0 || !strstr(w->said, "inside\n")))
		FAIL("%s: exit code %d: %s", w->path, w->code, w->said);
	tap_.checks++;
}

TEST_TIMEOUT(workdirs, 180)
{
	static const char *const links[] = {
		"/proc/self/cwd",        "/proc/1/root", "/proc/1/cwd",          "/proc/self/root",
		"/proc/thread-self/cwd", "/run/berth",   "/proc/self/fd/../cwd", "/dev/fd/7"};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	char target[64], line[128], name[32], id[48];
	const char *dir = new_artifact("workdirs");
	size_t fixed = sizeof(links) / sizeof(*links);

	bait_up();
	need_wall();
	bring_attempts();
	for (size_t i = 0; i < fixed + 40; i++) {
		struct workdir_try w = {.path = name};

		snprintf(target, sizeof(target), "/proc/self/fd/%zu", i - fixed);
		snprintf(name, sizeof(name), "w%zu", i);
		snprintf(line, sizeof(line), "link %s %s", i < fixed ? links[i] : target, name);
		ASSERT_EQ(guest("make-link", line), 0);
		ASSERT_OK(symlink(i < fixed ? links[i] : target, in(dir, name)));
		workdir_held(&w);
		/* By its own name, too, and as a session, which another process starts. */
		w.path = i < fixed ? links[i] : target;
		workdir_held(&w);
		snprintf(id, sizeof(id), "workdir-%zu", i);
		w.path = name;
		w.session = id;
		workdir_held(&w);
	}
	for (size_t i = 0; i < fixed + 40; i++) {
		int rc;

		snprintf(id, sizeof(id), "workdir-%zu", i);
		snprintf(name, sizeof(name), "w%zu", i);
		request(&q, id, "where");
		q.dir = dir;
		q.workdir = name;
		memset(&r, 0, sizeof(r));
		rc = berth_deploy(box(), &q, &r, &E);
		ASSERT(rc < 0 || r.status.state == BERTH_FAILED);
	}
	bait_is_intact();
	bait_down();
}

/* ── neighbours ───────────────────────────────────────────────────────────────────────────── */

static const char *const prying[] = {"needle_walk",     "proc_environ", "proc_mem",
				     "proc_fd",         "proc_root",    "proc_cwd",
				     "other_processes", "signals_all"};

TEST_TIMEOUT(two_at_once, 120)
{
	struct berth_status st;
	char id[64];

	bait_up();
	need_wall();
	start_victim(box(), "neighbour");
	for (size_t i = 0; i < sizeof(prying) / sizeof(*prying); i++) {
		snprintf(id, sizeof(id), "pry-%s", prying[i]);
		run(id, attempt_line(prying[i], id, "execution"), &st);
		fds_held(prying[i], st.exit_code, text_out(id, BERTH_STDOUT));
	}
	status_of("neighbour", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	end_it("neighbour");
	bait_down();
}

TEST_TIMEOUT(guest_and_execution, 120)
{
	struct berth_status st;
	char id[64];

	bait_up();
	need_wall();
	start_victim(box(), "pried");
	for (size_t i = 0; i < sizeof(prying) / sizeof(*prying); i++) {
		snprintf(id, sizeof(id), "guest-pry-%s", prying[i]);
		guest_held(prying[i], guest(id, attempt_line(prying[i], id, "guest")));
	}
	status_of("pried", &st);
	ASSERT_EQ(st.state, BERTH_RUNNING);
	end_it("pried");
	bait_down();
}

/* ── terminals ────────────────────────────────────────────────────────────────────────────── */

static int on_a_terminal(void *arg)
{
	struct berth_exec_request q;
	struct berth_exec_result r;

	berth_exec_request_init(&q);
	q.command = ops("typing", arg);
	q.stdin_fd = 0;
	q.stdout_fd = 1;
	q.cols = 80;
	q.rows = 24;
	q.timeout_ms = 20000;
	if (berth_exec(box(), &q, &r, &E) < 0)
		return 99;
	return r.exit_code;
}

/* The caller has a controlling terminal; nothing may be in its input afterwards. */
TEST(terminal)
{
	char line[32768], typed[256], out[65536];
	size_t n = 0;
	int master, status = -1;
	struct pollfd p;
	pid_t pid;

	bait_up();
	need_wall();
	bring_attempts();
	snprintf(line, sizeof(line), "%s", attempt_line("tiocsti", "typing", "guest"));
	pid = forkpty(&master, NULL, NULL, NULL);
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		struct pollfd in = {0, POLLIN, 0};
		int code;

		B = NULL;
		S = NULL;
		tap_.in_subtest = false;
		code = sigsetjmp(tap_.test_jump, 1) == 0 ? on_a_terminal(line) : 98;
		/* What was typed into it is there to be read by the next program. */
		if (poll(&in, 1, 0) == 1 && (in.revents & POLLIN))
			code = (int)read(0, typed, sizeof(typed)) > 0 ? 97 : code;
		_exit(code);
	}
	for (p = (struct pollfd){master, POLLIN, 0}; poll(&p, 1, 30000) == 1;) {
		ssize_t r = read(master, out + n, sizeof(out) - 1 - n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	out[n] = '\0';
	ASSERT_OK(waitpid(pid, &status, 0));
	ASSERT(WIFEXITED(status));
	if (WEXITSTATUS(status) == 10) {
		/* Its own terminal, the one that was made inside, is the only one that it may type
		 * into; whatever it does there, it is its own input. */
		ASSERT_LACKS(out, "TIOCLINUX");
		ASSERT_LACKS(out, "TIOCCONS");
		ASSERT_LACKS(out, "line discipline");
	} else if (WEXITSTATUS(status) != 0) {
		FAIL("exit code %d: %s", WEXITSTATUS(status), out);
	}
	close(master);
	bait_down();
}

/* ── uids of the host ─────────────────────────────────────────────────────────────────────── */

static bool comm_is(pid_t pid, const char *name)
{
	char path[64], comm[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	slurp_at(AT_FDCWD, path, comm, sizeof(comm));
	return strncmp(comm, name, strlen(name)) == 0;
}

/* The uids that a process has on the host, as its status says. */
static bool uids_of(pid_t pid, unsigned uid[4], unsigned gid[4])
{
	char path[64], buf[4096];
	const char *u, *g;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	u = strstr(buf, "\nUid:");
	g = strstr(buf, "\nGid:");
	return u && g && sscanf(u + 5, "%u %u %u %u", uid, uid + 1, uid + 2, uid + 3) == 4 &&
	       sscanf(g + 5, "%u %u %u %u", gid, gid + 1, gid + 2, gid + 3) == 4;
}

/* The keeper of a marked worker, and what is above it, up to init. */
static size_t keepers_of(const char *id, pid_t *ret, size_t most)
{
	pid_t pid = 0;
	char state;
	size_t n = 0;

	ASSERT_GE(processes_with(mark_of(id), &pid), 1u);
	while (n < most && (pid = parent_of(pid, &state)) > 1 && comm_is(pid, "berth-agent"))
		ret[n++] = pid;
	return n;
}

TEST(host_uids)
{
	unsigned uid[4], gid[4], wuid[4], wgid[4];
	struct berth_status st;
	pid_t worker = 0, keepers[8];
	size_t n;

	need_wall();
	if (strcmp(wall.uids, "single") == 0)
		SKIP("uids=single: the caller's uid is what that means, and info says so");
	start_ready("uids", "pause");
	ASSERT_EQ(processes_with(mark_of("uids"), &worker), 1u);
	ASSERT(uids_of(worker, wuid, wgid));
	n = keepers_of("uids", keepers, 8);
	ASSERT_GE(n, 2u); /* the supervisor and init */
	for (int i = 0; i < 4; i++) {
		/* No system user, nobody's login, not the caller. */
		ASSERT_GE(wuid[i], 65536u);
		ASSERT_GE(wgid[i], 65536u);
		ASSERT_NE(wuid[i], (unsigned)geteuid());
		ASSERT_EQ(wuid[i], wuid[0]);
	}
	for (size_t k = 0; k < n; k++) {
		ASSERT(uids_of(keepers[k], uid, gid));
		for (int i = 0; i < 4; i++) {
			ASSERT_GE(uid[i], 65536u);
			ASSERT_GE(gid[i], 65536u);
			ASSERT_NE(uid[i], (unsigned)geteuid());
			ASSERT_NE(uid[i], wuid[0]);
		}
	}
	cancel("uids", 0, &st);
	/* Another sandbox has others. */
	use_box("other-uids");
	start_ready("uids-2", "pause");
	ASSERT_EQ(processes_with(mark_of("uids-2"), &worker), 1u);
	ASSERT(uids_of(worker, uid, gid));
	ASSERT_NE(uid[0], wuid[0]);
	ASSERT_NE(gid[0], wgid[0]);
	end_it("uids-2");
	OK(berth_sandbox_destroy(S, 3, -1, &(struct berth_destroy_result){0}, &E));
}

/* ── init's own rights ────────────────────────────────────────────────────────────────────── */

static bool enter_init(pid_t pid)
{
	static const char *const names[] = {"user", "mnt", "net", "ipc", "uts", "pid"};
	int fds[6];
	char path[64];

	for (size_t i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, names[i]);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[i] < 0)
			return false;
	}
	/* The others first: they belong to the user namespace, in which root of the host may. */
	for (size_t i = 6; i-- > 1;) {
		if (setns(fds[i], 0) < 0)
			return false;
	}
	return setns(fds[0], 0) == 0 && setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 &&
	       setresuid(0, 0, 0) == 0;
}

static unsigned opened;
static int report_fd;

/* With a value of its own: nothing is changed even where it may be written. */
static int write_back(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	/* Of namespaces that are the sandbox's own. */
	static const char *const own[] = {"/proc/sys/net/",
					  "/proc/sys/user/",
					  "/proc/sys/fs/mqueue/",
					  "/proc/sys/kernel/msg",
					  "/proc/sys/kernel/shm",
					  "/proc/sys/kernel/sem",
					  "/proc/sys/kernel/hostname",
					  "/proc/sys/kernel/domainname",
					  "/proc/sys/kernel/ns_last_pid",
					  "/proc/sys/kernel/auto_msgmni",
					  "/proc/sys/kernel/pid_max",
					  "/proc/sys/vm/memfd_noexec"};
	char value[4096];
	size_t n;
	int fd;

	(void)st, (void)ftw;
	if (type != FTW_F)
		return 0;
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		if (strncmp(path, own[i], strlen(own[i])) == 0)
			return 0;
	}
	opened++;
	n = slurp_at(AT_FDCWD, path, value, sizeof(value));
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	if (n == 0 || write(fd, value, n) >= 0 || (errno != EPERM && errno != EACCES))
		dprintf(report_fd, "%s\n", path);
	close(fd);
	return 0;
}

TEST(init_and_sysctls)
{
	pid_t keepers[8], pid, child;
	size_t n, len = 0;
	int fds[2], status;
	char buf[4096];
	ssize_t r;

	bait_up();
	need_wall();
	if (geteuid() != 0)
		SKIP("it takes root of the host to become init");
	start_ready("sysctls", "pause");
	n = keepers_of("sysctls", keepers, 8);
	ASSERT_GE(n, 2u);
	pid = keepers[n - 1];
	ASSERT_OK(pipe(fds));
	child = ASSERT_OK(fork());
	if (child == 0) {
		close(fds[0]);
		report_fd = fds[1];
		if (!enter_init(pid)) {
			dprintf(report_fd, "entering init's namespaces: %s\n", strerror(errno));
			_exit(1);
		}
		/* /proc of the PID namespace is init's; the mount namespace has it. */
		nftw("/proc/sys", write_back, 32, FTW_PHYS);
		_exit(opened > 100 ? 0 : 2);
	}
	close(fds[1]);
	while ((r = read(fds[0], buf + len, sizeof(buf) - 1 - len)) > 0)
		len += (size_t)r;
	buf[len] = '\0';
	close(fds[0]);
	ASSERT_OK(waitpid(child, &status, 0));
	ASSERT_STREQ(buf, "");
	ASSERT_EQ(status, 0);
	host_is_unchanged();
	end_it("sysctls");
	bait_down();
}

/* ── what is left ─────────────────────────────────────────────────────────────────────────── */

static void leave(const char *line)
{
	if (guest("leaving", line) != 0)
		FAIL("%s: %s", line, said);
	tap_.checks++;
}

/* Processes whose host uid is one of a range. */
static pid_t one_of_uids;

static unsigned processes_of_uids(unsigned first, unsigned count)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned found = 0, uid[4], gid[4];
	char state = 0;

	while (d && (e = readdir(d))) {
		/* A zombie is for the host's init to take. */
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9' &&
		    parent_of(atoi(e->d_name), &state) >= 0 && state != 'Z' &&
		    uids_of(atoi(e->d_name), uid, gid) && uid[0] >= first &&
		    uid[0] < first + count) {
			one_of_uids = atoi(e->d_name);
			found++;
		}
	}
	if (d)
		closedir(d);
	return found;
}

TEST_TIMEOUT(nothing_left, 60)
{
	struct berth_destroy_result r;
	char path[PATH_MAX + 64], groups[16384], *save = NULL;
	unsigned uid[4], gid[4];
	pid_t worker = 0;

	bait_up();
	need_wall();
	guests_box = "leaver";
	use_box(guests_box);
	/* Links to the host, and what cannot be entered, are in the way of who removes it. */
	snprintf(path, sizeof(path), "link %s to-bait", bait.dir);
	leave(path);
	leave("mkdir closed");
	snprintf(path, sizeof(path), "link %s closed/to-secret", bait.secret);
	leave(path);
	leave("close closed");
	start_ready("clinging", "cling");
	ASSERT_GE(processes_with(mark_of("clinging"), &worker), 3u);
	ASSERT(uids_of(worker, uid, gid));
	snprintf(path, sizeof(path), "%s/local/leaver/groups", conf.state);
	slurp_at(AT_FDCWD, path, groups, sizeof(groups));
	OK(berth_sandbox_destroy(S, 3, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	assert_gone("clinging");
	if (strcmp(wall.uids, "range") == 0 && processes_of_uids(uid[0] & ~7u, 8)) {
		snprintf(path, sizeof(path), "/proc/%d/status", one_of_uids);
		FAIL("process %d is left:\n%s", one_of_uids, text_of(path));
	}
	snprintf(path, sizeof(path), "%s/local/leaver", conf.state);
	ASSERT_EQ(access(path, F_OK), -1);
	for (char *g = strtok_r(groups, "\n", &save); g; g = strtok_r(NULL, "\n", &save)) {
		if (access(g, F_OK) == 0)
			FAIL("the group %s is left", g);
	}
	host_is_unchanged();
	bait_is_intact();
	bait_down();
}
