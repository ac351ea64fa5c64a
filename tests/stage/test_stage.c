/* SPDX-License-Identifier: MIT */
/*
 * What stands after `berth-agent stage`: as root, as an ordinary user with subordinate ids, and as
 * one without.
 */
#include "tap.h"

#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "client.h"
#include "stagebox.h"
#include "wire/spec.h"

static struct stagebox b;
static char out[16384];

static const char *const none[] = {"--net", "none", NULL};

/* uid of init inside. */
static uid_t init_uid(void)
{
	return b.kind == BOX_SINGLE ? 1000 : 0;
}

static void world(void)
{
	TEST_REQUIRE("root", "stage is called as root and as others");
	TEST_REQUIRE("bwrap", "an isolated sandbox");
	TEST_REQUIRE("subids", "an ordinary user's sandbox");
	ASSERT_EQ(box_world(), 0);
}

static void begin(enum box_kind kind, const char *const *options)
{
	ASSERT_EQ(box_make(&b, kind, box_kinds[kind]), 0);
	if (box_start(&b, options) < 0)
		DIAG("said: %s line: %s", b.said, b.line);
	ASSERT(b.init > 0);
}

static void end(void)
{
	ASSERT_EQ(box_kill(&b), 0);
	ASSERT_EQ(box_erase(&b), 0);
	ASSERT_EQ(access(b.dir, F_OK), -1);
}

#define EACH_KIND(k)                                                                \
	for (enum box_kind k = BOX_ROOT; k < BOX_KINDS; k = (enum box_kind)(k + 1)) \
	SUBTEST("%s", box_kinds[k])

/* A script's last line is its verdict. */
static void check_sh(uid_t uid, const char *script, const char *want)
{
	box_sh(&b, uid, script, out, sizeof(out));
	CHECK_STREQ(out, want);
}

TEST_TIMEOUT(ready, 60)
{
	world();
	EACH_KIND(k)
	{
		struct client c;

		begin(k, none);
		CHECK_STREQ(b.line, "ready");
		CHECK_STREQ(b.said, "");
		ASSERT_EQ(client_open(&c, b.berth), 0);
		client_begin(&c, WIRE_INFO);
		client_end(&c);
		ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
		CHECK_EQ(client_int(&c, WK_PID, 0), 1);
		client_close(&c);
		end();
	}
}

/* 0: the caller's uid can speak to init, read its records, and nobody else can. */
static int connect_as(uid_t uid)
{
	struct client c;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (uid && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
			_exit(3);
		/* By path from the folder, as the library does. */
		if (chdir(b.dir) < 0 || access("berth/x", R_OK | X_OK) < 0)
			_exit(2);
		_exit(client_open(&c, "berth") < 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_TIMEOUT(the_caller_reaches_records_and_socket, 60)
{
	world();
	EACH_KIND(k)
	{
		begin(k, none);
		CHECK_EQ(connect_as(k == BOX_ROOT ? 0 : USER_UID), 0);
		CHECK_EQ(connect_as(USER_UID + 1), 2);
		end();
	}
}

/* Who has all rights over init's namespaces from outside without a capability: init's uid alone, and
 * not the one that slirp4netns runs with. */
static uid_t owner_of_namespace(void)
{
	char path[64];
	uid_t uid = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)b.init);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_OK(ioctl(fd, NS_GET_OWNER_UID, &uid));
	close(fd);
	return uid;
}

TEST_TIMEOUT(host_ids, 60)
{
	char want[64];

	world();
	for (enum box_kind k = BOX_ROOT; k <= BOX_USER; k = (enum box_kind)(k + 1)) {
		SUBTEST("%s", box_kinds[k])
		{
			begin(k, none);
			snprintf(want, sizeof(want), "%u\t%u\t%u\t%u", b.base, b.base, b.base,
				 b.base);
			CHECK_STREQ(status_field(b.init, "Uid"), want);
			CHECK_STREQ(status_field(b.init, "Gid"), want);
			CHECK_STREQ(status_field(b.init, "Groups"), "");
			CHECK_STREQ(status_field(b.init, "NoNewPrivs"), "1");
			CHECK_EQ(owner_of_namespace(), b.base);
			/* Neither the host's root nor the caller can be named inside. */
			check_sh(1000,
				 "awk '{print $1,$2,$3}' /proc/self/uid_map /proc/self/gid_map",
				 "0 1 1\n1000 2 1\n0 1 1\n1000 2 1");
			end();
		}
	}
}

TEST_TIMEOUT(one_id, 60)
{
	world();
	SUBTEST("root is refused")
	{
		ASSERT_EQ(box_make(&b, BOX_ROOT, "refused"), 0);
		b.kind = BOX_SINGLE;
		b.base = 0;
		/* As root, with the words of uids=single. */
		const char *argv[64];
		int status, fd = open("said", O_RDWR | O_CREAT, 0644);
		ssize_t n;
		pid_t pid = fork();

		if (pid == 0) {
			dup2(fd, 2);
			box_argv(&b, none, 1, argv);
			argv[11] = "3";
			if (chdir(b.dir) == 0 && dup2(fd, 3) == 3)
				execv(argv[0], (char *const *)(uintptr_t)argv);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		CHECK_EQ(WEXITSTATUS(status), 1);
		n = pread(fd, out, sizeof(out) - 1, 0);
		out[n > 0 ? n : 0] = '\0';
		ASSERT_CONTAINS(out, "would be root on the host");
		ASSERT_CONTAINS(out, "hint: uids=range");
		close(fd);
	}
	SUBTEST("user")
	{
		begin(BOX_SINGLE, none);
		check_sh(1000, "id -u; cat /proc/self/setgroups", "1000\ndeny");
		ASSERT_EQ(strtoul(status_field(b.init, "Uid"), NULL, 10), USER_UID);
		end();
	}
}

TEST_TIMEOUT(nothing_of_the_host, 90)
{
	char script[2048];

	world();
	EACH_KIND(k)
	{
		begin(k, none);
		check_sh(init_uid(),
			 "ls -A / | grep -vx -e app -e bin -e dev -e etc -e home -e 'lib.*' "
			 "-e proc -e run -e sbin -e tmp -e usr",
			 "");
		check_sh(init_uid(), "ls -A /home /app /run",
			 "/app:\n\n/home:\nuser\n\n/run:\nberth\nberth-agent");
		snprintf(script, sizeof(script),
			 "for p in /root /var /srv /mnt /media /opt /sys /boot '%s' /etc/shadow "
			 "/etc/gshadow /etc/ssh /etc/sudoers /etc/ssl/private /etc/machine-id; do "
			 "if [ -e $p ]; then echo $p; fi; done",
			 b.dir);
		check_sh(init_uid(), script, "");
		check_sh(1000, script, "");
		check_sh(1000, "cat /etc/passwd",
			 "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
			 "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin");
		check_sh(1000, "hostname; cat /etc/hostname; ls -A /tmp /dev/shm",
			 "stagebox\nstagebox\n/dev/shm:\n\n/tmp:");
		/* A name and a certificate can be looked at: the list is of use. */
		check_sh(1000,
			 "getent services http | tr -s ' ' | cut -d' ' -f2; test -d /etc/ssl/certs "
			 "&& date -d @0 +%Y",
			 "80/tcp\n1970");
		/* No mount shows where the host keeps the sandbox, by its name in the table. */
		box_sh(&b, 1000, "cat /proc/self/mountinfo", out, sizeof(out));
		ASSERT_LACKS(out, "/root ");
		end();
	}
}

TEST_TIMEOUT(read_only, 60)
{
	world();
	EACH_KIND(k)
	{
		begin(k, none);
		check_sh(init_uid(),
			 "for d in / /usr /usr/bin /etc /etc/ssl /dev /run /app /home; do "
			 "mkdir $d/x 2>&1 | grep -v 'Read-only file system' && echo $d; done",
			 "");
		box_sh(&b, init_uid(),
		       "mount -o remount,bind,rw /usr 2>&1 && echo yes; touch /usr/x 2>&1", out,
		       sizeof(out));
		ASSERT_CONTAINS(out, "Read-only file system");
		ASSERT_LACKS(out, "yes");
		check_sh(1000,
			 "for d in /tmp /dev/shm /home/user; do echo x >$d/f && cat $d/f; done",
			 "x\nx\nx");
		end();
	}
}

static void read_pid_max(char *text, size_t cap)
{
	int fd = open("/proc/sys/kernel/pid_max", O_RDONLY);
	ssize_t n = read(fd, text, cap - 1);

	ASSERT_GT(n, 0);
	text[n] = '\0';
	close(fd);
}

/* Everything that init's uid could write belongs to the namespaces of the sandbox: pid_max is that
 * of its PID namespace (Linux 6.14; before, it is read-only). */
TEST_TIMEOUT(sysctls, 60)
{
	static const char own[] =
		"find /proc/sys /proc/sysrq-trigger /proc/irq /proc/bus -type f 2>/dev/null | "
		"while read f; do if (: >>$f) 2>/dev/null; then echo $f; fi; done | "
		"grep -v -e ^/proc/sys/net/ -e ^/proc/sys/user/ -e ^/proc/sys/fs/mqueue/ "
		"-e ^/proc/sys/kernel/ns_last_pid -e ^/proc/sys/kernel/pid_max "
		"-e "
		"'^/proc/sys/kernel/\\(msg\\|sem\\|shm\\|auto_msgmni\\|domainname\\|hostname\\)'";

	char before[32], after[32];

	world();
	read_pid_max(before, sizeof(before));
	EACH_KIND(k)
	{
		begin(k, none);
		check_sh(init_uid(), own, "");
		check_sh(init_uid(), "(echo 12345 >/proc/sys/kernel/pid_max) 2>/dev/null; true",
			 "");
		read_pid_max(after, sizeof(after));
		CHECK_STREQ(before, after);
		check_sh(1000,
			 "for f in kernel/panic kernel/core_pattern vm/overcommit_memory "
			 "fs/file-max kernel/randomize_va_space kernel/hostname; do "
			 "if (echo 1 >/proc/sys/$f) 2>/dev/null; then echo $f; fi; done",
			 "");
		end();
	}
}

TEST_TIMEOUT(own_network, 60)
{
	world();
	EACH_KIND(k)
	{
		begin(k, none);
		check_sh(1000,
			 "ls /sys 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '",
			 "lo");
		end();
	}
}

TEST_TIMEOUT(network, 90)
{
	world();
	TEST_REQUIRE("slirp4netns", "net=egress");
	EACH_KIND(k)
	{
		char number[12], byte = 0;
		const char *options[] = {"--net",       "egress", "--slirp", "/usr/bin/slirp4netns",
					 "--net-ready", number,   NULL};
		struct pollfd p;
		int fds[2];

		ASSERT_EQ(pipe(fds), 0);
		fcntl(fds[0], F_SETFD, FD_CLOEXEC);
		snprintf(number, sizeof(number), "%d", fds[1]);
		begin(k, options);
		close(fds[1]);
		p = (struct pollfd){fds[0], POLLIN, 0};
		ASSERT_EQ(poll(&p, 1, 10000), 1);
		ASSERT_EQ(read(fds[0], &byte, 1), 1);
		CHECK_EQ(byte, '1');
		check_sh(1000,
			 "cat /etc/resolv.conf; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '",
			 "nameserver 10.0.2.3\nlo\ntap0");
		/* slirp4netns ends with init: box_kill() waits for that. */
		end();
		close(fds[0]);
	}
}

TEST_TIMEOUT(devices, 60)
{
	world();
	EACH_KIND(k)
	{
		begin(k, none);
		check_sh(1000, "ls -A /dev",
			 "core\nfd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\n"
			 "stdout\ntty\nurandom\nzero");
		check_sh(1000,
			 "echo x >/dev/null && head -c 2 /dev/zero | wc -c && "
			 "python3 -c 'import os; print(os.ttyname(os.openpty()[1]))'",
			 "2\n/dev/pts/0");
		check_sh(init_uid(), "mknod /tmp/d b 8 0 2>/dev/null && echo made", "");
		end();
	}
}

TEST_TIMEOUT(tmp, 60)
{
	static const char *const options[] = {"--net", "none", "--tmp-size", "1048576", NULL};

	world();
	EACH_KIND(k)
	{
		begin(k, options);
		check_sh(1000,
			 "stat -c %a /tmp /dev/shm; head -c 900000 /dev/zero >/tmp/a && "
			 "head -c 900000 /dev/zero 2>/dev/null >/dev/shm/b || echo full",
			 "1777\n1777\nfull");
		end();
	}
}

static int listener(int *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (s < 0 || bind(s, (struct sockaddr *)&a, n) < 0 || listen(s, 8) < 0 ||
	    getsockname(s, (struct sockaddr *)&a, &n) < 0)
		return -1;
	*ret_port = ntohs(a.sin_port);
	return s;
}

/* init has what it was promised, and nothing else of whoever called. */
TEST_TIMEOUT(nothing_leaks, 60)
{
	char port[32], path[64], link[256];
	int number, s;

	world();
	setenv("BOX_SECRET", "in the environment", 1);
	s = listener(&number);
	ASSERT(s >= 3);
	ASSERT(open("/etc/passwd", O_RDONLY) >= 0); /* not close-on-exec */
	ASSERT(dup2(s, 77) == 77);
	snprintf(port, sizeof(port), "4111=%d", s);
	EACH_KIND(k)
	{
		const char *options[] = {"--net", "none", "--port", port, NULL};
		unsigned sockets = 0;
		ssize_t n;
		int fd;

		begin(k, options);
		snprintf(path, sizeof(path), "/proc/%d/environ", b.init);
		fd = open(path, O_RDONLY);
		n = read(fd, out, sizeof(out) - 1);
		close(fd);
		ASSERT_GT(n, 0);
		for (ssize_t i = 0; i < n; i++)
			out[i] = out[i] ? out[i] : '\n';
		out[n] = '\0';
		ASSERT_LACKS(out, "BOX_SECRET");
		ASSERT_CONTAINS(out, "HOME=/home/user\n");
		for (fd = 0; fd < 256; fd++) {
			snprintf(path, sizeof(path), "/proc/%d/fd/%d", b.init, fd);
			n = readlink(path, link, sizeof(link) - 1);
			if (n < 0)
				continue;
			link[n] = '\0';
			sockets += strncmp(link, "socket:", 7) == 0;
			if (fd < 3)
				CHECK(strcmp(link, "/null") == 0 || strcmp(link, "/dev/null") == 0);
			else if (strcmp(link, "/dev/null") != 0 &&
				 strncmp(link, "/run/berth", 10) != 0 &&
				 strcmp(link, "/home/user") != 0 &&
				 strncmp(link, "anon_inode:", 11) != 0 &&
				 strncmp(link, "pipe:", 5) != 0 && strncmp(link, "socket:", 7) != 0)
				FAIL("init has %s as fd %d", link, fd);
		}
		CHECK(sockets > 0u);
		snprintf(path, sizeof(path), "/proc/%d/fd/77", b.init);
		CHECK_EQ(readlink(path, link, sizeof(link)), -1);
		end();
	}
}

TEST_TIMEOUT(paths, 60)
{
	char ro[600], rw[600], file[600], script[4096];

	world();
	EACH_KIND(k)
	{
		uid_t owner = k == BOX_ROOT ? 0 : USER_UID;

		/* Behind a directory that only the caller may enter. */
		snprintf(ro, sizeof(ro), "%.300s.d/ro", box_kinds[k]);
		char cwd[256];

		ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
		snprintf(script, sizeof(script), "%s/%s.d", cwd, box_kinds[k]);
		ASSERT_EQ(mkdir(script, 0700), 0);
		snprintf(ro, sizeof(ro), "%.500s/ro", script);
		snprintf(rw, sizeof(rw), "%.500s/rw", script);
		snprintf(file, sizeof(file), "%.500s/file", script);
		ASSERT_EQ(mkdir(ro, 0777), 0);
		ASSERT_EQ(chmod(ro, 0777), 0);
		ASSERT_EQ(mkdir(rw, 0777), 0);
		ASSERT_EQ(chmod(rw, 0777), 0);
		ASSERT(close(open(file, O_CREAT | O_WRONLY, 0644)) == 0);
		ASSERT_EQ(chown(script, owner, owner), 0);

		const char *options[] = {"--net", "none", "--ro", ro,  "--rw",
					 rw,      "--ro", file,   NULL};

		begin(k, options);
		snprintf(script, sizeof(script),
			 "echo x >%s/f && echo wrote; (echo x >%s/f) 2>&1 | grep -o 'Read-only.*'; "
			 "test -f %s && echo file; ls %s/..",
			 rw, ro, file, ro);
		check_sh(1000, script, "wrote\nRead-only file system\nfile\nfile\nro\nrw");
		snprintf(script, sizeof(script), "%s/f", rw);
		CHECK_EQ(access(script, F_OK), 0);
		end();
	}
}

TEST_MAIN()
