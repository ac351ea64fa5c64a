/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_BAIT_H
#define BERTH_TESTS_BAIT_H
/*
 * bait.h: what stands outside the sandbox for the hostile worker to find, and the look at it
 * afterwards. A driver program includes it once; it stands on the conformance suite's conf.h, with
 * `attempts` as the worker.
 *
 * The secret is in files, in the environment, the input and the home of an execution in another
 * sandbox, in the environment of a process of the host. Sockets listen that nobody may reach. What
 * the host is like (sysctls, mounts, name, clock, swap) is written down before and compared after.
 *
 * The program is in a mount namespace of its own: "the host's mounts" are those of this namespace,
 * from which the sandbox is made, and nobody else changes them.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include "conformance/conf.h"
#include "rows.h"

struct host_look {
	char *sysctls, *mounts, *swaps;
	struct utsname uts;
	int64_t clock_ms; /* wall clock minus boot time */
};

struct bait {
	char dir[PATH_MAX - 64];
	char secret[PATH_MAX], path_name[PATH_MAX];
	char needle[64], abstract_name[64];
	pid_t pid; /* of the host's process with the secret */
	int path_fd, abstract_fd, tcp_fd, port;
	struct berth_sandbox *other;
	struct host_look before;
};

static struct bait bait;
static struct berth_provider_info wall;

/* ── the host ─────────────────────────────────────────────────────────────────────────────── */

static struct bytes sysctl_text;

static int sysctl_add(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	/* These count what goes on, or change with every read. */
	static const char *const moving[] = {"/random/",
					     "-nr",
					     "-state",
					     "ns_last_pid",
					     "/pty/nr",
					     "/pid_max_of",
					     "netdev_rss_key",
					     "sched_domain",
					     "/stat_refresh",
					     "compact_memory",
					     "drop_caches",
					     "route/flush",
					     "/perf_event_max_sample_rate",
					     "/perf_cpu_time",
					     "/inode-",
					     "/tainted",
					     "/quota/"};
	char buf[4096];
	size_t n;

	(void)ftw;
	if (type != FTW_F || !(st->st_mode & 0444))
		return 0;
	for (size_t i = 0; i < sizeof(moving) / sizeof(*moving); i++) {
		if (strstr(path, moving[i]))
			return 0;
	}
	n = slurp_at(AT_FDCWD, path, buf, sizeof(buf));
	bytes_add(&sysctl_text, path, strlen(path));
	bytes_add(&sysctl_text, "=", 1);
	bytes_add(&sysctl_text, buf, n);
	bytes_add(&sysctl_text, "\n", 1);
	return 0;
}

static void look_at_host(struct host_look *l)
{
	static char buf[1 << 20];
	struct timespec wall_ts, boot_ts;

	memset(&sysctl_text, 0, sizeof(sysctl_text));
	bytes_add(&sysctl_text, "", 0);
	nftw("/proc/sys", sysctl_add, 32, FTW_PHYS);
	l->sysctls = sysctl_text.p;
	slurp_at(AT_FDCWD, "/proc/self/mountinfo", buf, sizeof(buf));
	l->mounts = strdup(buf);
	slurp_at(AT_FDCWD, "/proc/swaps", buf, sizeof(buf));
	l->swaps = strdup(buf);
	uname(&l->uts);
	clock_gettime(CLOCK_REALTIME, &wall_ts);
	clock_gettime(CLOCK_BOOTTIME, &boot_ts);
	l->clock_ms = (wall_ts.tv_sec - boot_ts.tv_sec) * 1000 +
		      (wall_ts.tv_nsec - boot_ts.tv_nsec) / 1000000;
}

/* The first line in which two texts differ, whole: it begins with a name. */
static UNUSED void same_text(const char *what, const char *before, const char *after)
{
	const char *line = before, *other = after;

	tap_.checks++;
	for (; *before && *before == *after; before++, after++) {
		if (*before == '\n')
			line = before + 1, other = after + 1;
	}
	if (*before || *after)
		FAIL("%s changed: \"%.*s\" is now \"%.*s\"", what, (int)strcspn(line, "\n"), line,
		     (int)strcspn(other, "\n"), other);
}

static UNUSED void host_is_unchanged(void)
{
	struct host_look now;

	look_at_host(&now);
	same_text("a sysctl", bait.before.sysctls, now.sysctls);
	same_text("a mount", bait.before.mounts, now.mounts);
	same_text("swap", bait.before.swaps, now.swaps);
	ASSERT_STREQ(now.uts.nodename, bait.before.uts.nodename);
	ASSERT_STREQ(now.uts.domainname, bait.before.uts.domainname);
	ASSERT_LE(llabs(now.clock_ms - bait.before.clock_ms), 2000);
	free(now.sysctls);
	free(now.mounts);
	free(now.swaps);
}

/* ── the bait ─────────────────────────────────────────────────────────────────────────────── */

static int listening(const void *address, socklen_t n, int family)
{
	int fd = ASSERT_OK(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	ASSERT_OK(bind(fd, address, n));
	ASSERT_OK(listen(fd, 16));
	return fd;
}

static void bait_sockets(void)
{
	struct sockaddr_un u = {.sun_family = AF_UNIX};
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	socklen_t n = sizeof(in4);

	snprintf(bait.abstract_name, sizeof(bait.abstract_name), "berth-bait-%s-%d", conf.nonce,
		 getpid());
	snprintf(u.sun_path + 1, sizeof(u.sun_path) - 1, "%s", bait.abstract_name);
	bait.abstract_fd = listening(&u,
				     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
						 strlen(bait.abstract_name)),
				     AF_UNIX);
	memset(&u, 0, sizeof(u));
	u.sun_family = AF_UNIX;
	snprintf(bait.path_name, sizeof(bait.path_name), "/tmp/berth-bait-%s-%d.sock", conf.nonce,
		 getpid());
	snprintf(u.sun_path, sizeof(u.sun_path), "%.100s", bait.path_name);
	bait.path_fd = listening(&u, sizeof(u), AF_UNIX);
	ASSERT_OK(chmod(bait.path_name, 0777));
	bait.tcp_fd = listening(&in4, sizeof(in4), AF_INET);
	ASSERT_OK(getsockname(bait.tcp_fd, (void *)&in4, &n));
	bait.port = ntohs(in4.sin_port);
}

/* A process of the host, with the secret in its environment. */
static void bait_process(void)
{
	char env[128], mark[128];
	int fds[2];
	char byte;

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	snprintf(env, sizeof(env), "SECRET=%s", bait.needle);
	snprintf(mark, sizeof(mark), "%s:the-host:", conf.nonce);
	bait.pid = ASSERT_OK(fork());
	if (bait.pid == 0) {
		char *const argv[] = {conf.worker, (char *)"mark", mark, (char *)"pause", NULL};
		char *const envp[] = {env, NULL};

		dup2(fds[1], 1);
		execve(conf.worker, argv, envp);
		_exit(127);
	}
	close(fds[1]);
	ASSERT_EQ(read(fds[0], &byte, 1), 1);
	close(fds[0]);
}

/* An execution that holds the secret in its environment, its input, its output and its command. */
static UNUSED void start_victim(struct berth_sandbox *s, const char *id)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	char env[128];
	const char *const envs[] = {env, NULL};

	snprintf(env, sizeof(env), "SECRET=%s", bait.needle);
	request(&q, id, "pause");
	q.env = envs;
	q.input_kind = BERTH_INPUT_FILE;
	q.input_path = "secret-input";
	q.input = bait.needle;
	q.input_len = strlen(bait.needle);
	OK(berth_deploy(s, &q, &r, &E));
	ASSERT_EQ(r.status.state, BERTH_RUNNING);
	await_bytes_in(s, id, BERTH_STDOUT, 1);
}

static UNUSED void bait_up(void)
{
	char path[PATH_MAX];

	snprintf(bait.needle, sizeof(bait.needle), "bait-%s-secret", conf.nonce);
	snprintf(bait.dir, sizeof(bait.dir), "%.3000s/bait-%d", conf.root, getpid());
	ASSERT_OK(mkdir(bait.dir, 0755));
	snprintf(bait.secret, sizeof(bait.secret), "%s/secret", bait.dir);
	put_text(bait.secret, bait.needle);
	ASSERT_OK(chmod(bait.secret, 0666));
	snprintf(path, sizeof(path), "%s/home", bait.dir);
	ASSERT_OK(mkdir(path, 0777));
	OK(berth_sandbox_start(box(), &E));
	OK(berth_sandbox_info(box(), &wall, &E));
	bait_sockets();
	bait_process();
	if (strstr(conf.template, "NAME")) {
		bait.other = box_named("bait", BERTH_OPEN_START);
		if (berth_status(bait.other, "bait", &(struct berth_status){0}, &E) != 0) {
			OK(berth_copy_in(bait.other, bait.secret, NULL, "home-secret", &E));
			start_victim(bait.other, "bait");
		}
	}
	look_at_host(&bait.before);
}

static UNUSED void nobody_connected(void)
{
	ASSERT_EQ(accept(bait.abstract_fd, NULL, NULL), -1);
	ASSERT_EQ(accept(bait.path_fd, NULL, NULL), -1);
	ASSERT_EQ(accept(bait.tcp_fd, NULL, NULL), -1);
}

/* Nothing of the bait was touched. */
static UNUSED void bait_is_intact(void)
{
	struct berth_status st;
	unsigned n = 0;
	DIR *d;

	ASSERT_STREQ(text_of(bait.secret), bait.needle);
	d = opendir(bait.dir);
	ASSERT_NOT_NULL(d);
	while (readdir(d))
		n++;
	closedir(d);
	ASSERT_EQ(n, 4u); /* . .. secret home */
	ASSERT_EQ(waitpid(bait.pid, NULL, WNOHANG), 0);
	if (bait.other) {
		OK(berth_status(bait.other, "bait", &st, &E));
		ASSERT_EQ(st.state, BERTH_RUNNING);
	}
}

static UNUSED void bait_down(void)
{
	kill(bait.pid, SIGKILL);
	waitpid(bait.pid, NULL, 0);
	unlink(bait.path_name);
}

/* ── what a worker is told ────────────────────────────────────────────────────────────────── */

static const char *host_addresses(void)
{
	static char buf[1024];
	struct ifaddrs *list = NULL;
	size_t n;

	n = (size_t)snprintf(buf, sizeof(buf), "127.0.0.1");
	if (getifaddrs(&list) == 0) {
		for (struct ifaddrs *i = list; i; i = i->ifa_next) {
			char text[64];

			if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
			    n + sizeof(text) > sizeof(buf))
				continue;
			inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr,
				  text, sizeof(text));
			n += (size_t)snprintf(buf + n, sizeof(buf) - n, ",%s", text);
		}
		freeifaddrs(list);
	}
	return buf;
}

static UNUSED bool walled(void)
{
	return strcmp(wall.isolation, "none") != 0;
}

/* First host uid of the shared sandbox, from its record; 0: it has none. */
static UNUSED unsigned uid_base(void)
{
	char path[PATH_MAX + 64];
	const char *p;

	snprintf(path, sizeof(path), "%s/local/shared/sandbox", conf.state);
	p = strstr(text_of(path), "uid_base=");
	return p ? (unsigned)strtoul(p + 9, NULL, 10) : 0;
}

/* The command line of one attempt. */
static UNUSED const char *attempt_line(const char *name, const char *id, const char *as)
{
	static char buf[32768];
	const char *state = conf.state;

	snprintf(buf, sizeof(buf),
		 "try %s nonce=%s id=%s as=%s mine=%s wall=%s uids=%s groups=%s base=%u caller=%u "
		 "files=%s:%s/home "
		 "state=%s:%s/local:%s/local/bait:%s/local/bait/home:%s/local/shared:%s "
		 "records=/run/berth:%s/local/shared/berth:%s/local/shared/home/berth:/home/user/"
		 "berth "
		 "agents=%s/agents homes=/root:%s walk=%s:%s:%s abstract=%s socket=%s addresses=%s "
		 "port=%d pids=%d",
		 name, conf.nonce, id, as, mark_of(id), wall.isolation, wall.uids,
		 strcmp(wall.containment, "cgroup") == 0 ? "yes" : "no", uid_base(),
		 (unsigned)geteuid(), bait.secret, bait.dir, state, state, state, state, state,
		 conf.root, state, state, state, getenv("HOME") ? getenv("HOME") : "/root", state,
		 bait.dir, conf.root, bait.abstract_name, bait.path_name, host_addresses(),
		 bait.port, bait.pid);
	return buf;
}

/* Every row of a list has a test in this program. */
#define X_HAS_TEST(row, flags, what, why, expected)           \
	{                                                     \
		const struct tap_test *t_ = tap_.first;       \
		while (t_ && strcmp(t_->name, #row) != 0)     \
			t_ = t_->next;                        \
		if (!t_)                                      \
			FAIL("the row %s has no test", #row); \
		tap_.checks++;                                \
	}

#endif
