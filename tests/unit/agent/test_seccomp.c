/* SPDX-License-Identifier: MIT */
/*
 * The system call filter: the table that it is made of; the instructions of both architectures, run
 * by an interpreter of our own over every number and many arguments; and real programs under it.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

/* libseccomp has one of this name, too; here it is asked for names and numbers only. */
#define seccomp_load libseccomp_load
#include <seccomp.h>
#undef seccomp_load

#include "agent/seccomp.h"
#include "agent/seccomp_rules.h"
#define SECCOMP_FILTERS
#include "seccomp_filter.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define KILLED   100000 /* as an errno: the process is killed */
#define HIGH     0xdead00000000u

static const struct target {
	const char *name;
	uint32_t token, audit;
	const struct sock_filter *filter;
	size_t n;
} targets[] = {
	{"x86_64", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, seccomp_filter_x86_64,
	 COUNT(seccomp_filter_x86_64)},
	{"aarch64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, seccomp_filter_aarch64,
	 COUNT(seccomp_filter_aarch64)},
};

/* --- the interpreter --- */

static uint32_t step_jump(const struct sock_filter *in, uint32_t a)
{
	switch (BPF_OP(in->code)) {
	case BPF_JA:
		return in->k;
	case BPF_JEQ:
		return a == in->k ? in->jt : in->jf;
	case BPF_JGE:
		return a >= in->k ? in->jt : in->jf;
	case BPF_JGT:
		return a > in->k ? in->jt : in->jf;
	case BPF_JSET:
		return a & in->k ? in->jt : in->jf;
	default:
		FAIL("an unknown jump: 0x%x", in->code);
	}
}

/* The errno that a call would get, 0: it is allowed. */
static int run(const struct target *t, uint32_t arch, uint32_t nr, uint64_t a0, uint64_t a1,
	       uint64_t a2)
{
	struct seccomp_data d = {.nr = (int)nr, .arch = arch, .args = {a0, a1, a2, ~0u, ~0u, ~0u}};
	uint32_t a = 0;

	for (size_t pc = 0;; pc++) {
		const struct sock_filter *in = &t->filter[pc];

		ASSERT_LT(pc, t->n);
		switch (BPF_CLASS(in->code)) {
		case BPF_LD:
			ASSERT_EQ(in->code, BPF_LD | BPF_W | BPF_ABS);
			ASSERT_LE(in->k, sizeof(d) - 4);
			memcpy(&a, (const char *)&d + in->k, 4);
			break;
		case BPF_ALU:
			ASSERT_EQ(in->code, BPF_ALU | BPF_AND | BPF_K);
			a &= in->k;
			break;
		case BPF_JMP:
			pc += step_jump(in, a);
			break;
		case BPF_RET:
			if (in->k == SECCOMP_RET_ALLOW)
				return 0;
			if (in->k == SECCOMP_RET_KILL_PROCESS)
				return KILLED;
			ASSERT_EQ(in->k & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
			return (int)(in->k & SECCOMP_RET_DATA);
		default:
			FAIL("an unknown instruction: 0x%x", in->code);
		}
	}
}

static int verdict(const struct target *t, const char *call, uint64_t a0, uint64_t a1, uint64_t a2)
{
	int nr = seccomp_syscall_resolve_name_arch(t->token, call);

	ASSERT_GE(nr, 0);
	return run(t, t->audit, (uint32_t)nr, a0, a1, a2);
}

/* --- the table --- */

static bool in_words(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; (p = strstr(p, word)); p += n) {
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	}
	return false;
}

static const struct seccomp_group *group_of(const char *call, unsigned *ret_times)
{
	const struct seccomp_group *found = NULL;

	*ret_times = 0;
	for (size_t i = 0; i < COUNT(seccomp_groups); i++) {
		if (in_words(seccomp_groups[i].calls, call)) {
			found = &seccomp_groups[i];
			++*ret_times;
		}
	}
	return found;
}

static bool has_rule(const char *call)
{
	for (size_t i = 0; i < COUNT(seccomp_uses); i++) {
		if (strcmp(seccomp_uses[i].call, call) == 0)
			return true;
	}
	for (size_t i = 0; i < COUNT(seccomp_only); i++) {
		if (strcmp(seccomp_only[i].call, call) == 0)
			return true;
	}
	return false;
}

/* The name of a number, by libseccomp or, where that is too old, by the table. */
static const char *name_of(const struct target *t, int nr, char *buf, size_t size)
{
	char *name = seccomp_syscall_resolve_num_arch(t->token, nr);

	if (name) {
		snprintf(buf, size, "%s", name);
		free(name);
		return buf;
	}
	for (size_t i = 0; i < COUNT(seccomp_numbers); i++) {
		const struct seccomp_number *s = &seccomp_numbers[i];

		if (s->number == nr && (!*s->arch || strcmp(s->arch, t->name) == 0))
			return s->call;
	}
	return NULL;
}

TEST(each_group_has_a_reason_and_an_outcome)
{
	for (size_t i = 0; i < COUNT(seccomp_groups); i++) {
		const struct seccomp_group *g = &seccomp_groups[i];

		SUBTEST("%s", g->name)
		{
			ASSERT_GE(strlen(g->reason), 15u);
			ASSERT_EQ(g->reason[strlen(g->reason) - 1], '.');
			ASSERT(g->err == 0 || g->err == EPERM || g->err == ENOSYS);
			ASSERT_GT(strlen(g->calls), 0u);
			ASSERT_NULL(strstr(g->calls, "  "));
			for (size_t j = 0; j < i; j++)
				ASSERT_STRNE(g->name, seccomp_groups[j].name);
		}
	}
}

TEST(no_call_stands_twice)
{
	for (size_t i = 0; i < COUNT(seccomp_groups); i++) {
		char *copy = strdup(seccomp_groups[i].calls), *save = NULL;
		unsigned times, here = 0;

		for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
			group_of(s, &times);
			if (times != 1)
				FAIL("%s stands in %u groups", s, times);
			for (const char *p = seccomp_groups[i].calls; p; p = strchr(p, ' ')) {
				size_t n = strlen(s);

				p += *p == ' ';
				here += strncmp(p, s, n) == 0 && (p[n] == ' ' || p[n] == '\0');
			}
			if (here != 1)
				FAIL("%s stands %u times in its group", s, here);
			here = 0;
		}
		free(copy);
	}
	CHECK(true);
}

/* Numbers of our own agree with a libseccomp that is young enough to know them. */
TEST(own_numbers_are_right)
{
	for (size_t i = 0; i < COUNT(seccomp_numbers); i++) {
		for (size_t j = 0; j < COUNT(targets); j++) {
			const struct seccomp_number *s = &seccomp_numbers[i];
			int nr = seccomp_syscall_resolve_name_arch(targets[j].token, s->call);

			if (*s->arch && strcmp(s->arch, targets[j].name) != 0)
				continue;
			if (nr >= 0 && nr != s->number)
				FAIL("%s is %d, not %d", s->call, nr, s->number);
		}
	}
	CHECK(true);
}

/* --- the instructions --- */

/* Every number up to far above the last: as its group says, or ENOSYS. */
TEST(each_number_gets_what_its_group_says)
{
	char buf[64];

	for (size_t i = 0; i < COUNT(targets); i++) {
		const struct target *t = &targets[i];
		unsigned named = 0;

		SUBTEST("%s", t->name)
		{
			for (int nr = 0; nr < 2000; nr++) {
				const char *name = name_of(t, nr, buf, sizeof(buf));
				const struct seccomp_group *g;
				unsigned times;
				int got;

				g = name ? group_of(name, &times) : NULL;
				named += name != NULL;
				/* Linux 6.18 ends at 469: no call up to there is forgotten. */
				if (name && !g && nr < 470)
					FAIL("%s (%d) stands in no group", name, nr);
				if (g && has_rule(name))
					continue;
				got = run(t, t->audit, (uint32_t)nr, 0, 0, 0);
				if (got != (g ? g->err : ENOSYS))
					FAIL("%s (%d): %d", name ? name : "?", nr, got);
			}
			CHECK(named > 300);
		}
	}
}

TEST(foreign_architectures_are_killed)
{
	for (size_t i = 0; i < COUNT(targets); i++) {
		const struct target *t = &targets[i];

		for (uint32_t nr = 0; nr < 512; nr++) {
			ASSERT_EQ(run(t, AUDIT_ARCH_I386, nr, 0, 0, 0), KILLED);
			ASSERT_EQ(run(t, AUDIT_ARCH_ARM, nr, 0, 0, 0), KILLED);
			ASSERT_EQ(run(t, targets[1 - i].audit, nr, 0, 0, 0), KILLED);
		}
	}
	for (uint32_t nr = 0; nr < 600; nr++)
		ASSERT_EQ(run(&targets[0], AUDIT_ARCH_X86_64, nr | 0x40000000u, 0, 0, 0), KILLED);
	ASSERT_EQ(run(&targets[0], AUDIT_ARCH_X86_64, ~0u, 0, 0, 0), ENOSYS);
	ASSERT_EQ(run(&targets[1], AUDIT_ARCH_AARCH64, ~0u, 0, 0, 0), ENOSYS);
	ASSERT_EQ(run(&targets[1], AUDIT_ARCH_AARCH64, 0x40000000u, 0, 0, 0), ENOSYS);
}

TEST(arguments_of_socket)
{
	for (size_t i = 0; i < COUNT(targets); i++) {
		const struct target *t = &targets[i];

		SUBTEST("families on %s", t->name)
		{
			for (uint64_t f = 0; f < 300; f++) {
				bool ok = f == AF_UNIX || f == AF_INET || f == AF_INET6 ||
					  f == AF_NETLINK;

				CHECK_EQ(verdict(t, "socket", f, SOCK_STREAM, 0),
					 ok ? 0 : EAFNOSUPPORT);
				CHECK_EQ(verdict(t, "socket", f | HIGH, SOCK_DGRAM, 0),
					 ok ? 0 : EAFNOSUPPORT);
				CHECK_EQ(verdict(t, "socketpair", f | HIGH, SOCK_STREAM, 0),
					 f == AF_UNIX ? 0 : EAFNOSUPPORT);
			}
			CHECK_EQ(verdict(t, "socket", 0xffffffff, 1, 0), EAFNOSUPPORT);
		}
		SUBTEST("types on %s", t->name)
		{
			uint64_t flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

			CHECK_EQ(verdict(t, "socket", AF_INET, SOCK_STREAM | flags, IPPROTO_TCP),
				 0);
			CHECK_EQ(verdict(t, "socket", AF_INET6, SOCK_DGRAM | flags, 0), 0);
			for (uint64_t p = 0; p < 300; p++) {
				CHECK_EQ(verdict(t, "socket", AF_INET, SOCK_RAW, p), EPERM);
				CHECK_EQ(verdict(t, "socket", AF_INET6, SOCK_RAW | flags, p),
					 EPERM);
				CHECK_EQ(verdict(t, "socket", AF_INET | HIGH, SOCK_RAW | HIGH, p),
					 EPERM);
			}
			CHECK_EQ(verdict(t, "socket", AF_INET, SOCK_PACKET, 0), EPERM);
		}
		SUBTEST("protocols on %s", t->name)
		{
			for (uint64_t p = 0; p < 600; p++) {
				bool ok = p == 0 || p == 1 || p == 6 || p == 17 || p == 58 ||
					  p == 262;

				CHECK_EQ(verdict(t, "socket", AF_INET, SOCK_STREAM, p | HIGH),
					 ok ? 0 : EPROTONOSUPPORT);
				CHECK_EQ(verdict(t, "socket", AF_NETLINK, SOCK_RAW, p),
					 p == 0 ? 0 : EPROTONOSUPPORT);
			}
		}
	}
}

TEST(arguments_of_the_others)
{
	static const uint64_t bad_ioctl[] = {0x5412, 0x541c, 0x541d, 0x5423};
	static const uint64_t good_personality[] = {0,       8,       0x20000,   0x20008,
						    0x40000, 0x40008, 0xffffffff};

	for (size_t i = 0; i < COUNT(targets); i++) {
		const struct target *t = &targets[i];

		SUBTEST("clone on %s", t->name)
		{
			static const uint32_t ns = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
						   CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
						   CLONE_NEWNET;

			for (unsigned b = 0; b < 32; b++) {
				int want = ns & 1u << b ? EPERM : 0;

				CHECK_EQ(verdict(t, "clone", UINT64_C(1) << b, 0, 0), want);
				CHECK_EQ(verdict(t, "clone", HIGH | 1u << b | SIGCHLD, 0, 0), want);
			}
			/* What pthread_create and posix_spawn ask for. */
			CHECK_EQ(verdict(t, "clone", 0x3d0f00, 0, 0), 0);
			CHECK_EQ(verdict(t, "clone", CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0), 0);
		}
		SUBTEST("ioctl on %s", t->name)
		{
			for (uint64_t c = 0x5400; c < 0x5500; c++) {
				int want = 0;

				for (size_t j = 0; j < COUNT(bad_ioctl); j++)
					want = c == bad_ioctl[j] ? EPERM : want;
				CHECK_EQ(verdict(t, "ioctl", 0, c, 0), want);
				CHECK_EQ(verdict(t, "ioctl", 0, c | HIGH, 0), want);
			}
		}
		SUBTEST("personality on %s", t->name)
		{
			for (size_t j = 0; j < COUNT(good_personality); j++)
				CHECK_EQ(verdict(t, "personality", good_personality[j], 0, 0), 0);
			for (unsigned b = 0; b < 32; b++) {
				int want = b == 3 || b == 17 || b == 18 ? 0 : EPERM;

				CHECK_EQ(verdict(t, "personality", UINT64_C(1) << b, 0, 0), want);
			}
		}
	}
}

/* --- the kernel --- */

static void filtered(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_load() < 0)
		_exit(200);
}

/* The wait status of @argv under the filter; what it says goes to our stderr. */
static int program(char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(2, 1);
		filtered();
		execvp(argv[0], argv);
		_exit(127);
	}
	ASSERT_GT(pid, 0);
	ASSERT_OK(waitpid(pid, &status, 0));
	return status;
}

static int shell(const char *script)
{
	char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-ec",
			(char *)(uintptr_t)script, NULL};

	return program(argv);
}

/* Makes one call under the filter, in a child: the errno, or 0. */
static int made(long nr, long a0, long a1, long a2)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		filtered();
		errno = 0;
		syscall(nr, a0, a1, a2, -1L, -1L, -1L);
		_exit(errno);
	}
	ASSERT_GT(pid, 0);
	ASSERT_OK(waitpid(pid, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : KILLED;
}

/* Arguments that do no harm should a call get through. */
TEST(every_denied_call_is_denied_by_the_kernel)
{
	for (size_t i = 0; i < COUNT(seccomp_groups); i++) {
		const struct seccomp_group *g = &seccomp_groups[i];

		if (g->err == 0)
			continue;
		SUBTEST("%s", g->name)
		{
			char *copy = strdup(g->calls), *save = NULL;

			for (char *s = strtok_r(copy, " ", &save); s;
			     s = strtok_r(NULL, " ", &save)) {
				int nr = seccomp_syscall_resolve_name(s), got;

				for (size_t j = 0; nr < 0 && j < COUNT(seccomp_numbers); j++) {
					if (strcmp(seccomp_numbers[j].call, s) == 0)
						nr = seccomp_numbers[j].number;
				}
				if (nr < 0)
					continue;
				got = made(nr, -1, -1, -1);
				if (got != g->err)
					FAIL("%s: %d, not %d", s, got, g->err);
			}
			free(copy);
			CHECK(true);
		}
	}
}

TEST(denied_uses_are_denied_by_the_kernel)
{
	CHECK_EQ(made(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM);
	CHECK_EQ(made(SYS_socket, AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6), EPERM);
	CHECK_EQ(made(SYS_socket, AF_PACKET, SOCK_RAW, 0x300), EAFNOSUPPORT);
	CHECK_EQ(made(SYS_socket, 38 /* AF_ALG */, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
	CHECK_EQ(made(SYS_socket, 40 /* AF_VSOCK */, SOCK_STREAM, 0), EAFNOSUPPORT);
	CHECK_EQ(made(SYS_socket, AF_NETLINK, SOCK_RAW, 9 /* audit */), EPROTONOSUPPORT);
	CHECK_EQ(made(SYS_socket, AF_NETLINK, SOCK_RAW, 0), 0);
	CHECK_EQ(made(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 0);
	CHECK_EQ(made(SYS_socket, AF_INET, SOCK_STREAM, 0), 0);
	CHECK_EQ(made(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0), EPERM);
	CHECK_EQ(made(SYS_ioctl, 0, 0x5412, 0), EPERM);
	CHECK_EQ(made(SYS_ioctl, 0, 0x7fffffff00005412, 0), EPERM);
	CHECK_EQ(made(SYS_personality, 0x100000 /* MMAP_PAGE_ZERO */, 0, 0), EPERM);
	CHECK_EQ(made(SYS_personality, 0xffffffff, 0, 0), 0);
	CHECK_EQ(made(471, 0, 0, 0), ENOSYS); /* Linux 6.18 ends at 469 */
	CHECK_EQ(made(5000, 0, 0, 0), ENOSYS);
}

#ifdef __x86_64__
TEST(calls_of_i386_and_x32_end_the_process)
{
	int status;
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid == 0) {
		long r;

		filtered();
		/* getpid of i386. */
		__asm__ volatile("int $0x80"
				 : "=a"(r)
				 : "a"(20)
				 : "memory", "r8", "r9", "r10", "r11");
		_exit((int)r & 1);
	}
	ASSERT_OK(waitpid(pid, &status, 0));
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSYS);
	CHECK_EQ(made(0x40000000 | SYS_getpid, 0, 0, 0), KILLED);
	CHECK_EQ(made(-1, 0, 0, 0), ENOSYS);
}
#endif

TEST(it_stays_over_execve_and_cannot_be_loaded_without_no_new_privs)
{
	pid_t pid;
	int status;

	/* unshare(1) exits 1 when the kernel refuses. */
	CHECK_EQ(WEXITSTATUS(shell("exec sh -c 'unshare --user true'")), 1);
	CHECK_EQ(WEXITSTATUS(shell("grep -q '^Seccomp:.2$' /proc/self/status")), 0);
	if (geteuid() != 0)
		return; /* root may load a filter anyhow */
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(3);
		_exit(seccomp_load() == 0 ? 0 : errno);
	}
	ASSERT_OK(waitpid(pid, &status, 0));
	CHECK_EQ(WEXITSTATUS(status), EACCES);
}

/* --- real programs --- */

TEST_TIMEOUT(shell_tools_run, 60)
{
	CHECK_EQ(
		shell("seq 1000 | sort -R | wc -l | grep -qx 1000; mkdir d; echo a >d/f; "
		      "tar -cf t.tar d; rm -r d; tar -xf t.tar; ln d/f g; mv g h; cp -a d e; "
		      "touch -d @0 h; chmod 600 h; mkfifo p; (echo x >p &); read -r y <p; "
		      "test $y = x; find . -name f | xargs -P2 cat | wc -l | grep -qx 2; date >&2; "
		      "timeout 5 true; id -u; nice true; df ."),
		0);
}

TEST_TIMEOUT(a_compiler_runs, 60)
{
	CHECK_EQ(shell("echo 'int main(void){return 42;}' >a.c; cc -O2 -flto a.c -o a; "
		       "r=0; ./a || r=$?; test $r = 42"),
		 0);
}

TEST_TIMEOUT(git_runs, 60)
{
	if (WEXITSTATUS(shell("command -v git")) != 0)
		SKIP("no git");
	CHECK_EQ(shell("git init -q r; cd r; echo 1 >f; git add f; "
		       "git -c user.name=n -c user.email=e commit -qm m; git clone -q . ../s; "
		       "cd ../s; git log --oneline; git gc -q; git fsck"),
		 0);
}

TEST_TIMEOUT(node_runs, 120)
{
	TEST_REQUIRE("node", "no node");
	CHECK_EQ(shell("cat >w.js <<'EOF'\n"
		       "const {Worker, isMainThread, parentPort} = require('worker_threads');\n"
		       "if (!isMainThread) { parentPort.postMessage(7); return; }\n"
		       "const fs = require('fs'), cp = require('child_process');\n"
		       "const http = require('http'), dns = require('dns');\n"
		       "const s = http.createServer((q, r) => r.end('hello'));\n"
		       "(async () => {\n"
		       "  await new Promise(r => s.listen(0, '127.0.0.1', r));\n"
		       "  const t = await (await fetch('http://127.0.0.1:' + "
		       "s.address().port)).text();\n"
		       "  if (t !== 'hello') process.exit(2);\n"
		       "  s.closeAllConnections(); s.close();\n"
		       "  const n = await new Promise(r => new Worker(__filename).on('message', "
		       "r));\n"
		       "  if (n !== 7) process.exit(3);\n"
		       "  await fs.promises.writeFile('x', 'y');\n"
		       "  fs.cpSync('x', 'z');\n"
		       "  const w = fs.watch('.'); w.close();\n"
		       "  if (cp.execFileSync('cat', ['z']) + '' !== 'y') process.exit(4);\n"
		       "  require('crypto').scryptSync('a', 'b', 32);\n"
		       "  require('os').networkInterfaces(); require('os').cpus();\n"
		       "})();\n"
		       "EOF\nnode w.js"),
		 0);
}

TEST_TIMEOUT(npm_runs, 120)
{
	TEST_REQUIRE("npm", "no npm");
	CHECK_EQ(shell("export HOME=$PWD; mkdir p a; "
		       "echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' >p/package.json; "
		       "echo '{\"name\":\"a\",\"version\":\"1.0.0\",\"scripts\":{\"t\":\"echo ran "
		       ">f\"},"
		       "\"dependencies\":{\"p\":\"file:../p\"}}' >a/package.json; "
		       "cd a; npm install --offline --no-audit --no-fund; npm run t; test -f f; "
		       "test -e node_modules/p/package.json"),
		 0);
}

TEST_TIMEOUT(python_runs, 120)
{
	TEST_REQUIRE("python3", "no python3");
	CHECK_EQ(shell("cat >w.py <<'EOF'\n"
		       "import asyncio, multiprocessing as mp, os, socket, subprocess, sys\n"
		       "import threading, tempfile, mmap, shutil, selectors\n"
		       "def f(x): return x * x\n"
		       "async def go():\n"
		       "    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n"
		       "    assert (await p.communicate())[0] == b'hi\\n'\n"
		       "    async def served(r, w):\n"
		       "        w.write(await r.readline()); w.close()\n"
		       "    s = await asyncio.start_server(served, '127.0.0.1', 0)\n"
		       "    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())\n"
		       "    w.write(b'line\\n'); assert await r.readline() == b'line\\n'\n"
		       "if __name__ == '__main__':\n"
		       "    with mp.Pool(2) as pool: assert pool.map(f, [1, 2, 3]) == [1, 4, 9]\n"
		       "    asyncio.run(go())\n"
		       "    q = mp.Queue(); q.put(1); assert q.get() == 1\n"
		       "    t = threading.Thread(target=f, args=(1,)); t.start(); t.join()\n"
		       "    with tempfile.TemporaryFile() as x: x.truncate(4096); "
		       "mmap.mmap(x.fileno(), 0)\n"
		       "    os.path.exists('/etc/hosts') and socket.getaddrinfo('localhost', 80)\n"
		       "EOF\npython3 w.py"),
		 0);
}

TEST_MAIN()
