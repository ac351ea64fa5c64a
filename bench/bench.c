/* SPDX-License-Identifier: MIT */
/*
 * bench.c: the numbers of the local provider with isolation=none, beside their yardsticks, in one
 * run.
 *
 *   bench BERTH BW [CASE…]      BERTH: the program under test; BW: the static worker of bw.c
 *
 * Rows of one case are measured in alternation with their yardstick, so that a noisy machine is
 * noisy for both. Everything happens in a temporary state folder that is removed at the end. Goals
 * are printed beside what was measured and judged, never asserted: a timed assertion in a test
 * would only say how busy the machine was.
 */
#include <berth/berth.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

#define SPEC   "local:bench?isolation=none"
#define ROUNDS 5
#define MIB    (1024.0 * 1024.0)

static const char *prog, *bw;
static char state[256], app[256], tmp[256];
static char spec[64] = SPEC; /* of the whole processes */
static struct berth *ctx;
static struct berth_sandbox *sb;

static void check(int r, const struct berth_error *e, const char *what)
{
	if (r < 0)
		die("%s: %s", what, e->message);
}

static void open_handles(void)
{
	struct berth_error e;

	check(berth_new(state, &ctx, &e), &e, "berth_new");
	check(berth_sandbox_open(ctx, SPEC, NULL, BERTH_OPEN_START, &sb, &e), &e, "open");
	check(berth_sandbox_start(sb, &e), &e, "start");
}

static void close_handles(void)
{
	struct berth_destroy_result d;
	struct berth_error e;

	check(berth_sandbox_destroy(sb, 0, -1, &d, &e), &e, "destroy");
	if (d.state != BERTH_DESTROYED)
		die("destroy: %s", d.message);
	berth_sandbox_close(sb);
	berth_free(ctx);
	sb = NULL;
	ctx = NULL;
}

/* One whole `berth deploy` process. */
static double cli_deploy(const char *dir, const char *id, const char *verb)
{
	const char *const argv[] = {prog,   "--state", state, "-s",   spec, "deploy", dir,
				    "--id", id,        "--",  "./bw", verb, NULL};

	return timed_run(argv, NULL, 0);
}

static void lib_deploy(const char *id, const char *const *command, int64_t output_limit)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_error e;

	berth_deploy_request_init(&q);
	q.dir = app;
	q.id = id;
	q.command = command;
	q.limits.output_bytes = output_limit;
	check(berth_deploy(sb, &q, &r, &e), &e, "deploy");
	if (r.status.state == BERTH_FAILED)
		die("deploy: %s", r.status.message);
}

static double true_ms(void)
{
	static const char *const argv[] = {"/bin/true", NULL};

	return timed_run(argv, NULL, 0);
}

/* deploy, status, exec, cancel as whole processes, in alternation with one bare spawn. */
static void case_cli(void)
{
	struct samples dep = {.n = 0}, sta = {.n = 0}, exe = {.n = 0}, can = {.n = 0},
		       yard = {.n = 0};
	const char *y = "posix_spawn /bin/true";
	int i;

	cli_deploy(app, "warm", "hold");
	for (i = 0; i < 60; i++) {
		char id[32];
		const char *const status[] = {prog, "--state", state, "-s",
					      SPEC, "status",  id,    NULL};
		const char *const exec[] = {prog,   "--state", state,       "-s", SPEC,
					    "exec", "--",      "/bin/true", NULL};
		const char *const cancel[] = {prog, "--state", state, "-s",
					      SPEC, "cancel",  id,    NULL};

		snprintf(id, sizeof(id), "c%d", i);
		samples_add(&yard, true_ms());
		samples_add(&dep, cli_deploy(app, id, "hold"));
		samples_add(&sta, timed_run(status, NULL, 0));
		samples_add(&exe, timed_run(exec, NULL, 0));
		samples_add(&yard, true_ms());
		samples_add(&can, timed_run(cancel, NULL, 0));
	}
	row_print(&(struct row){"deploy until running, artifact present (process)", "ms", y,
				samples_median(&dep), samples_median(&yard), 8, 0, 0});
	row_print(&(struct row){"status (process)", "ms", y, samples_median(&sta),
				samples_median(&yard), 2, 0, 0});
	row_print(&(struct row){"exec -- true (process)", "ms", y, samples_median(&exe),
				samples_median(&yard), 3, 0, 0});
	row_print(&(struct row){"cancel of a worker that obeys TERM (process)", "ms", y,
				samples_median(&can), samples_median(&yard), 5, 0, 0});
}

static int ready_byte(void *arg, enum berth_output stream, const void *p, size_t n)
{
	return 1;
}

/* Until the worker has written something. */
static void wait_ready(const char *id)
{
	struct berth_follow f;
	struct berth_status st;
	struct berth_error e;

	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT;
	f.data = ready_byte;
	check(berth_follow(sb, id, &f, &st, &e), &e, "follow");
}

/* From the worker's last instruction to the return of berth_wait(). */
static void case_exit(void)
{
	static const char *const stamp[] = {"./bw", "stamp", NULL};
	struct samples s = {.n = 0};
	int i;

	for (i = 0; i < 40; i++) {
		struct berth_read_result r;
		struct berth_status st;
		struct berth_error e;
		char id[32], buf[64];
		double done;

		snprintf(id, sizeof(id), "e%d", i);
		lib_deploy(id, stamp, 0);
		wait_ready(id);
		check(berth_signal(sb, id, SIGUSR1, &e), &e, "signal");
		check(berth_wait(sb, id, -1, &st, &e), &e, "wait");
		done = now_ms();
		check(berth_read(sb, id, BERTH_STDOUT, 2, buf, sizeof(buf) - 1, &r, &e), &e,
		      "read");
		buf[r.n] = '\0';
		samples_add(&s, done - (double)atoll(buf) / 1e6);
	}
	row_print(&(struct row){"exit until visible to wait", "ms", NULL, samples_median(&s), 0, 2,
				0, 0});
}

/* A child writes into a pipe of default size, we read it and write a file: the least that keeping
 * output can cost. */
static double bare_pipe(long long bytes)
{
	static char buf[65536];
	char path[300], count[32];
	double begin;
	pid_t pid;
	int p[2], fd, st;

	snprintf(path, sizeof(path), "%s/bare", tmp);
	snprintf(count, sizeof(count), "%lld", bytes);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || pipe2(p, O_CLOEXEC) < 0)
		die("bare pipe: set-up");
	begin = now_ms();
	pid = fork();
	if (pid == 0) {
		dup2(p[1], 1);
		execl(bw, bw, "write", count, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	for (;;) {
		ssize_t n = read(p[0], buf, sizeof(buf));

		if (n <= 0)
			break;
		if (write(fd, buf, (size_t)n) != n)
			die("bare pipe: write");
	}
	waitpid(pid, &st, 0);
	begin = now_ms() - begin;
	close(p[0]);
	close(fd);
	unlink(path);
	return begin;
}

static void case_output(void)
{
	static const char *const write_all[] = {"./bw", "write", "536870912", NULL};
	const long long bytes = 536870912;
	struct samples s = {.n = 0}, y = {.n = 0};
	int i;

	for (i = 0; i < 7; i++) {
		struct berth_status st;
		struct berth_error e;
		char id[32];
		double t;

		snprintf(id, sizeof(id), "o%d", i);
		samples_add(&y, (double)bytes / MIB / bare_pipe(bytes) * 1e3);
		t = now_ms();
		lib_deploy(id, write_all, -1);
		check(berth_wait(sb, id, -1, &st, &e), &e, "wait");
		t = now_ms() - t;
		if (st.stdout_bytes != (uint64_t)bytes)
			die("output: %llu bytes", (unsigned long long)st.stdout_bytes);
		samples_add(&s, (double)bytes / MIB / t * 1e3);
		check(berth_remove(sb, id, &e), &e, "rm");
	}
	row_print(&(struct row){"worker's stdout through the supervisor", "MB/s",
				"bare pipe into a file", samples_median(&s), samples_median(&y),
				0.7, 1, 1});
}

static void case_read(void)
{
	static const char *const write_all[] = {"./bw", "write", "67108864", NULL};
	const size_t cap = 1 << 20;
	struct samples lib = {.n = 0}, cli = {.n = 0}, cat = {.n = 0};
	char *buf = malloc(cap), out[300], file[300];
	struct berth_status st;
	struct berth_error e;
	int i;

	snprintf(out, sizeof(out), "%s/out", tmp);
	snprintf(file, sizeof(file), "%s/file", tmp);
	lib_deploy("read", write_all, -1);
	check(berth_wait(sb, "read", -1, &st, &e), &e, "wait");
	shell("head -c 67108864 /dev/zero > %s", file);
	for (i = 0; i < 15; i++) {
		const char *const logs[] = {prog,   "--state", state,      "-s",     SPEC,
					    "logs", "read",    "--stream", "stdout", NULL};
		const char *const catv[] = {"/bin/cat", file, NULL};
		struct berth_read_result r = {.eof = false};
		double t = now_ms();
		uint64_t at = 0;

		for (; !r.eof; at = r.next_offset)
			check(berth_read(sb, "read", BERTH_STDOUT, at, buf, cap, &r, &e), &e,
			      "read");
		if (at != 67108864)
			die("read: %llu", (unsigned long long)at);
		samples_add(&lib, 64 / (now_ms() - t) * 1e3);
		samples_add(&cli, 64 / timed_run(logs, out, 0) * 1e3);
		samples_add(&cat, 64 / timed_run(catv, out, 0) * 1e3);
	}
	row_print(&(struct row){"read 64 MiB of output (library)", "MB/s",
				"cat of a file into a file", samples_median(&lib),
				samples_median(&cat), 1000, 1, 0});
	row_print(&(struct row){"logs of 64 MiB into a file (process)", "MB/s",
				"cat of a file into a file", samples_median(&cli),
				samples_median(&cat), 1, 1, 1});
	free(buf);
}

static long parent_of(long pid)
{
	char path[64], line[512], *p;
	long ppid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f)) {
		p = strrchr(line, ')');
		if (!p || sscanf(p, ") %*c %ld", &ppid) != 1)
			ppid = 0;
	}
	if (f)
		fclose(f);
	return ppid;
}

/* Calls for every process whose cwd-independent program is our worker: its parent is a
 * supervisor. */
static long supervisors_pss(int *ret_count)
{
	DIR *d = opendir("/proc");
	struct dirent *de;
	long sum = 0;

	*ret_count = 0;
	while (d && (de = readdir(d))) {
		char path[300], arg[64];
		long pid = atol(de->d_name);
		ssize_t n;
		int fd;

		if (pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		n = read(fd, arg, sizeof(arg));
		close(fd);
		if (n == 14 && !memcmp(arg, "./bw\0hold\0pss\0", 14)) {
			sum += pss_kb(parent_of(pid));
			++*ret_count;
		}
	}
	if (d)
		closedir(d);
	return sum;
}

static void case_pss(void)
{
	static const char *const hold[] = {"./bw", "hold", "pss", NULL};
	int i, count;
	long sum;

	for (i = 0; i < 200; i++) {
		char id[32];

		snprintf(id, sizeof(id), "p%d", i);
		lib_deploy(id, hold, 0);
	}
	sum = supervisors_pss(&count);
	if (count != 200)
		die("pss: %d of 200 workers found", count);
	row_print(&(struct row){"supervision per execution at 200 (PSS)", "kB", NULL,
				(double)sum / 200, 0, 60, 0, 0});
	for (i = 0; i < 200; i++) {
		struct berth_status st;
		struct berth_error e;
		char id[32];

		snprintf(id, sizeof(id), "p%d", i);
		check(berth_cancel(sb, id, 0, &st, &e), &e, "cancel");
	}
}

/* 100 MB in 2,600 files in 26 folders, from a fixed seed. */
static void make_tree(const char *dir)
{
	static unsigned char buf[65536];
	uint64_t x = 88172645463325252ULL;
	int i;

	for (i = 0; i < 2600; i++) {
		char path[400];
		size_t k, n = 40330;
		int fd;

		snprintf(path, sizeof(path), "%s/d%02d", dir, i / 100);
		if (i % 100 == 0)
			shell("mkdir -p %s", path);
		snprintf(path, sizeof(path), "%s/d%02d/f%d", dir, i / 100, i);
		for (k = 0; k < n; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			buf[k] = (unsigned char)x;
		}
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (fd < 0 || write(fd, buf, n) != (ssize_t)n)
			die("%s", path);
		close(fd);
	}
	shell("cp %s %s/bw", bw, dir);
}

static void change_1k(const char *dir, int round)
{
	char path[400], block[1024];
	int fd;

	memset(block, 'a' + round % 26, sizeof(block));
	snprintf(path, sizeof(path), "%s/d13/f1313", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, block, sizeof(block), 4096) != (ssize_t)sizeof(block))
		die("%s", path);
	close(fd);
}

/* Every round has folders and a sandbox of its own, and nothing is removed before the last one: after mass deletes ext4
 * makes inodes several times slower for a while, for us and for the yardsticks. What one has left dirty is written
 * before the next is timed, or its fsync would pay for the other's bytes. */
static void case_artifact(void)
{
	struct samples first = {.n = 0}, again = {.n = 0}, rs1 = {.n = 0}, rs2 = {.n = 0},
		       cp = {.n = 0};
	int i;

	for (i = 0; i < ROUNDS; i++) {
		char src[300], dst[300], cpd[300];
		const char *const rsync[] = {"rsync", "-a", "--delete", src, dst, NULL};
		const char *const cpr[] = {"cp", "-r", src, cpd, NULL};
		const char *const start[] = {prog, "--state", state,   "-s",
					     spec, "sandbox", "start", NULL};

		snprintf(src, sizeof(src), "%s/src%d", tmp, i);
		snprintf(dst, sizeof(dst), "%s/dst%d", tmp, i);
		snprintf(cpd, sizeof(cpd), "%s/cp%d", tmp, i);
		snprintf(spec, sizeof(spec), "local:artifact%d?isolation=none", i);
		shell("mkdir %s", src);
		make_tree(src);
		timed_run(start, NULL, 0);
		sync();
		samples_add(&cp, timed_run(cpr, NULL, 0));
		sync();
		samples_add(&rs1, timed_run(rsync, NULL, 0));
		sync();
		samples_add(&first, cli_deploy(src, "first", "hold"));
		change_1k(src, i);
		sync();
		samples_add(&rs2, timed_run(rsync, NULL, 0));
		sync();
		samples_add(&again, cli_deploy(src, "again", "hold"));
	}
	for (i = 0; i < ROUNDS; i++)
		shell("%s --state %s -s local:artifact%d -q sandbox destroy >/dev/null", prog,
		      state, i);
	snprintf(spec, sizeof(spec), "%s", SPEC);
	row_print(&(struct row){"deploy of 100 MB in 2600 files, first", "ms", "rsync -a",
				samples_median(&first), samples_median(&rs1), 500, 0, 0});
	row_print(&(struct row){"the same beside cp -r", "ms", "cp -r", samples_median(&first),
				samples_median(&cp), 500, 0, 0});
	row_print(&(struct row){"deploy of it with 1 kB changed", "ms", "rsync -a",
				samples_median(&again), samples_median(&rs2), 100, 0, 0});
}

static const struct {
	const char *name;
	void (*fn)(void);
} cases[] = {
	{"cli", case_cli},   {"exit", case_exit}, {"output", case_output},
	{"read", case_read}, {"pss", case_pss},   {"artifact", case_artifact},
};

static int wanted(int argc, char **argv, const char *name)
{
	int i;

	for (i = 3; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc <= 3;
}

int main(int argc, char **argv)
{
	const char *t = getenv("TMPDIR");
	size_t i;

	if (argc < 3)
		die("usage: bench BERTH BW [cli|exit|output|read|pss|artifact…]");
	prog = argv[1];
	bw = argv[2];
	snprintf(tmp, sizeof(tmp), "%s/berth-bench-XXXXXX", t ? t : "/tmp");
	if (!mkdtemp(tmp))
		die("mkdtemp");
	snprintf(state, sizeof(state), "%.200s/state", tmp);
	snprintf(app, sizeof(app), "%.200s/app", tmp);
	shell("mkdir -m 700 %s && mkdir %s && cp %s %s/bw", state, app, bw, app);
	open_handles();
	row_print_head();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (wanted(argc, argv, cases[i].name))
			cases[i].fn();
	close_handles();
	shell("rm -rf %s", tmp);
	return 0;
}
