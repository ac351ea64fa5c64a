/* SPDX-License-Identifier: MIT */
/*
 * kernel.c: attempts by system calls, with arguments that are right, so that only a want of rights
 * can stop them, and that are harmless where nothing does (a reboot that only sets what
 * ctrl-alt-del means, an unloading of a kernel that is not there).
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"
#include "numbers.h"

#define CALL(what, also, ...) refused(what, syscall(__VA_ARGS__), also)

/* ── processes ────────────────────────────────────────────────────────────────────────────── */

static void trace(pid_t pid)
{
	char what[64];

	snprintf(what, sizeof(what), "PTRACE_SEIZE %d", pid);
	CALL(what, ESRCH, SYS_ptrace, PTRACE_SEIZE, pid, 0, 0);
	snprintf(what, sizeof(what), "PTRACE_ATTACH %d", pid);
	CALL(what, ESRCH, SYS_ptrace, PTRACE_ATTACH, pid, 0, 0);
}

void attempt_ptrace_supervisor(void)
{
	trace(1);
	if (getppid() > 0)
		trace(getppid());
	each_process(trace);
}

void attempt_ptrace_traceme(void)
{
	CALL("PTRACE_TRACEME", 0, SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
}

void attempt_process_vm(void)
{
	char buf[64];
	struct iovec own = {buf, sizeof(buf)}, theirs = {(void *)(uintptr_t)0x400000, sizeof(buf)};
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);

	CALL("process_vm_readv", ESRCH, SYS_process_vm_readv, 1, &own, 1, &theirs, 1, 0);
	CALL("process_vm_writev", ESRCH, SYS_process_vm_writev, 1, &own, 1, &theirs, 1, 0);
	if (fd >= 0)
		CALL("process_madvise", ESRCH, NR_process_madvise, fd, &theirs, 1, 20, 0);
	if (fd >= 0)
		CALL("process_mrelease", EINVAL, NR_process_mrelease, fd, 0);
	close(fd);
}

void attempt_pidfd_getfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);

	tried();
	for (int i = 0; fd >= 0 && i < 16; i++)
		CALL("pidfd_getfd", 0, NR_pidfd_getfd, fd, i, 0);
	close(fd);
}

void attempt_kcmp(void)
{
	for (int type = 0; type < 6; type++)
		CALL("kcmp", 0, SYS_kcmp, getpid(), 1, type, 0, 0);
}

void attempt_numa(void)
{
	void *page = (void *)(uintptr_t)0x400000;
	int node = 0, status = 0;
	unsigned long mask = 1;

	CALL("move_pages", ESRCH, SYS_move_pages, 1, 1L, &page, &node, &status, 0);
	CALL("migrate_pages", ESRCH, SYS_migrate_pages, 1, 8L, &mask, &mask);
}

void attempt_scheduling(void)
{
	struct sched_param p = {.sched_priority = 1}, other = {0};

	CALL("SCHED_FIFO", 0, SYS_sched_setscheduler, 0, SCHED_FIFO, &p);
	CALL("SCHED_RR", 0, SYS_sched_setscheduler, 0, SCHED_RR, &p);
	CALL("setpriority -1", 0, SYS_setpriority, PRIO_PROCESS, 0,
	     getpriority(PRIO_PROCESS, 0) - 1);
	CALL("ioprio real time", 0, SYS_ioprio_set, 1, 0, 1 << 13);
	if (!arg_is("uids", "single")) {
		CALL("scheduler of PID 1", ESRCH, SYS_sched_setscheduler, 1, SCHED_OTHER, &other);
		CALL("nice of PID 1", 0, SYS_setpriority, PRIO_PROCESS, 1, 19);
	}
}

void attempt_rlimits(void)
{
	static const int which[] = {RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_NICE,
				    RLIMIT_RTPRIO, RLIMIT_CORE,  RLIMIT_MSGQUEUE};
	struct rlimit r, more;
	uint64_t two[2] = {1, 1};

	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
		if (getrlimit(which[i], &r) < 0 || r.rlim_max == RLIM_INFINITY)
			continue;
		more.rlim_cur = more.rlim_max = r.rlim_max + 1;
		refused("a higher hard limit", setrlimit(which[i], &more), 0);
	}
	if (!arg_is("uids", "single"))
		CALL("prlimit of PID 1", ESRCH, SYS_prlimit64, 1, RLIMIT_NOFILE, two, 0);
}

/* ── subsystems ───────────────────────────────────────────────────────────────────────────── */

void attempt_keyctl(void)
{
	CALL("add_key", 0, SYS_add_key, "user", "berth-attempt", "x", 1, -4 /* user session */);
	CALL("request_key", ENOKEY, SYS_request_key, "user", "berth-attempt", NULL, -4);
	CALL("keyctl get_keyring_ID", 0, SYS_keyctl, 0, -4, 1);
	CALL("keyctl join session", 0, SYS_keyctl, 1, "berth-attempt");
	CALL("keyctl describe", 0, SYS_keyctl, 6, -4, 0, 0);
}

void attempt_bpf(void)
{
	/* mov r0, 0; exit */
	static const uint64_t insns[] = {0x00000000000000b7ull, 0x0000000000000095ull};
	struct {
		uint32_t type, n;
		uint64_t insns, license;
		uint32_t rest[24];
	} prog = {1, 2, (uintptr_t)insns, (uintptr_t) "GPL", {0}};
	uint32_t map[32] = {2, 4, 4, 1};

	CALL("BPF_PROG_LOAD", 0, SYS_bpf, 5, &prog, sizeof(prog));
	CALL("BPF_MAP_CREATE", 0, SYS_bpf, 0, map, 72);
}

void attempt_io_uring(void)
{
	uint32_t params[30] = {0};

	CALL("io_uring_setup", 0, NR_io_uring_setup, 4, params);
	CALL("io_uring_register", 0, NR_io_uring_register, -1, 0, 0, 0);
	/* EBADF is what the call itself says of fd -1: it would have been let through. */
	CALL("io_uring_enter", 0, NR_io_uring_enter, -1, 0, 0, 0, 0, 0);
}

void attempt_userfaultfd(void)
{
	CALL("userfaultfd", 0, SYS_userfaultfd, O_CLOEXEC);
	CALL("userfaultfd user mode", 0, SYS_userfaultfd, O_CLOEXEC | 1);
}

void attempt_perf_event(void)
{
	uint64_t attr[17] = {0};

	attr[0] = 1 | (uint64_t)sizeof(attr) << 32; /* software: the clock of the cpu */
	attr[5] = 1 << 5 | 1 << 6;                  /* without the kernel */
	CALL("perf_event_open of itself", 0, SYS_perf_event_open, attr, 0, -1, -1, 0);
	attr[5] = 0;
	CALL("perf_event_open of a cpu", 0, SYS_perf_event_open, attr, -1, 0, -1, 0);
	CALL("perf_event_open of PID 1", ESRCH, SYS_perf_event_open, attr, 1, -1, -1, 0);
}

void attempt_sockets_raw(void)
{
	static const struct {
		const char *name;
		int domain, type, protocol;
	} kinds[] = {
		{"raw icmp", AF_INET, SOCK_RAW, 1},
		{"raw ip", AF_INET, SOCK_RAW, 255},
		{"raw icmp6", AF_INET6, SOCK_RAW, 58},
		{"packet", AF_PACKET, SOCK_RAW, 0x0300},
		{"packet dgram", AF_PACKET, SOCK_DGRAM, 0x0300},
		{"netlink audit", AF_NETLINK, SOCK_RAW, 9},
		{"netlink uevent", AF_NETLINK, SOCK_RAW, 15},
		{"netlink xfrm", AF_NETLINK, SOCK_RAW, 6},
		{"netlink netfilter", AF_NETLINK, SOCK_RAW, 12},
		{"netlink sock_diag", AF_NETLINK, SOCK_RAW, 4},
		{"netlink connector", AF_NETLINK, SOCK_RAW, 11},
		{"netlink generic", AF_NETLINK, SOCK_RAW, 16},
		{"netlink crypto", AF_NETLINK, SOCK_RAW, 21},
		{"vsock", 40, SOCK_STREAM, 0},
		{"alg", 38, SOCK_SEQPACKET, 0},
		{"key", 15, SOCK_RAW, 2},
		{"bluetooth", 31, SOCK_RAW, 1},
		{"tipc", 30, SOCK_RDM, 0},
		{"xdp", 44, SOCK_RAW, 0},
		{"nfc", 39, SOCK_SEQPACKET, 0},
		{"can", 29, SOCK_RAW, 1},
		{"rds", 21, SOCK_SEQPACKET, 0},
		{"smc", 43, SOCK_STREAM, 0},
		{"sctp", AF_INET, SOCK_STREAM, 132},
		{"dccp", AF_INET, 6, 33},
		{"phonet", 35, SOCK_DGRAM, 0},
		{"kcm", 41, SOCK_DGRAM, 0},
		{"qipcrtr", 42, SOCK_DGRAM, 0},
		{"appletalk", 5, SOCK_DGRAM, 0},
		{"ax25", 3, SOCK_SEQPACKET, 0},
		{"netrom", 6, SOCK_SEQPACKET, 0},
		{"x25", 9, SOCK_SEQPACKET, 0},
		{"pppox", 24, SOCK_STREAM, 0},
		{"llc", 26, SOCK_STREAM, 0},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		char what[64];
		long r = syscall(SYS_socket, kinds[i].domain, kinds[i].type, kinds[i].protocol);

		snprintf(what, sizeof(what), "socket %s", kinds[i].name);
		if (r < 0 && (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
			errno = EAFNOSUPPORT;
		refused(what, r, EAFNOSUPPORT);
		if (r >= 0)
			close((int)r);
	}
}

void attempt_kexec(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	CALL("kexec_load", 0, SYS_kexec_load, 0L, 0L, NULL, 0L);
	CALL("kexec_file_load", 0, SYS_kexec_file_load, -1, -1, 0L, NULL, 4L /* unload */);
	close(fd);
}

void attempt_modules(void)
{
	static const char image[64] = "\177ELF";
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	CALL("init_module", 0, SYS_init_module, image, sizeof(image), "");
	CALL("finit_module", 0, SYS_finit_module, fd, "", 0);
	CALL("delete_module", 0, SYS_delete_module, "no_such_module", 0);
	close(fd);
}

void attempt_reboot(void)
{
	CALL("reboot", 0, SYS_reboot, 0xfee1dead, 672274793, 0 /* ctrl-alt-del off */, NULL);
}

void attempt_clocks(void)
{
	struct timespec ts;
	struct timeval tv;
	struct timex tx;

	memset(&tx, 0, sizeof(tx));
	clock_gettime(CLOCK_REALTIME, &ts);
	gettimeofday(&tv, NULL);
	CALL("clock_settime", 0, SYS_clock_settime, CLOCK_REALTIME, &ts);
	CALL("settimeofday", 0, SYS_settimeofday, &tv, NULL);
	tx.modes = 0x8000 | 0x0001; /* single shot, by nothing */
	CALL("adjtimex", 0, SYS_adjtimex, &tx);
	tx.modes = 0x8000 | 0x0001;
	CALL("clock_adjtime", 0, SYS_clock_adjtime, CLOCK_REALTIME, &tx);
}

void attempt_swap(void)
{
	int fd = open("swapfile", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		broken("swapfile: %s", strerror(errno));
	close(fd);
	CALL("swapon", 0, SYS_swapon, "swapfile", 0);
	CALL("swapoff", 0, SYS_swapoff, "swapfile");
	unlink("swapfile");
}

void attempt_syslog(void)
{
	char buf[256];

	CALL("syslog read all", 0, SYS_syslog, 3, buf, sizeof(buf));
	CALL("syslog size", 0, SYS_syslog, 10, NULL, 0);
	CALL("syslog console level", 0, SYS_syslog, 8, NULL, 7);
	unreadable("/proc/kmsg");
	unreadable("/dev/kmsg");
}

void attempt_io_ports(void)
{
#ifdef __x86_64__
	CALL("iopl", 0, SYS_iopl, 3);
	CALL("ioperm", 0, SYS_ioperm, 0x80L, 1L, 1);
#endif
	unreadable("/dev/port");
}

void attempt_fanotify(void)
{
	int fd = (int)syscall(SYS_fanotify_init, 0, O_RDONLY);

	refused("fanotify_init", fd, 0);
	fd = (int)syscall(SYS_fanotify_init, 0x200 /* report fid */, O_RDONLY);
	/* With that flag anyone may watch inodes that he can open; the filter refuses it, too. */
	refused("fanotify_init with fids", fd, 0);
	close(fd);
}

void attempt_quotas(void)
{
	char buf[512];
	int fd = open("/usr", O_RDONLY | O_CLOEXEC);

	/* Q_SYNC of all file systems; then the quota of root. */
	CALL("quotactl sync", 0, SYS_quotactl, 0x800001 << 8, NULL, 0, NULL);
	CALL("quotactl get", ENODEV, SYS_quotactl, 0x800007 << 8, "/dev/vda", 0, buf);
	CALL("quotactl_fd", 0, NR_quotactl_fd, fd, 0x800007 << 8, 0, buf);
	close(fd);
}

void attempt_accounting(void)
{
	CALL("acct", 0, SYS_acct, NULL);
#ifdef SYS_lookup_dcookie
	CALL("lookup_dcookie", 0, SYS_lookup_dcookie, 0L, NULL, 0L);
#endif
#ifdef SYS_nfsservctl
	CALL("nfsservctl", 0, SYS_nfsservctl, 0, NULL, NULL);
#endif
#ifdef SYS_uselib
	CALL("uselib", 0, SYS_uselib, "/usr/lib/x");
#endif
#ifdef SYS__sysctl
	CALL("_sysctl", 0, SYS__sysctl, NULL);
#endif
	CALL("vhangup", 0, SYS_vhangup);
}

void attempt_hostname(void)
{
	CALL("sethostname", 0, SYS_sethostname, "mine", 4L);
	CALL("setdomainname", 0, SYS_setdomainname, "mine", 4L);
	unwritable("/proc/sys/kernel/hostname");
}

static int crash(void *arg)
{
	(void)arg;
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
	return 0;
}

void attempt_core_dump(void)
{
	struct rlimit r, more = {RLIM_INFINITY, RLIM_INFINITY};
	int status;

	if (getrlimit(RLIMIT_CORE, &r) < 0)
		broken("getrlimit: %s", strerror(errno));
	tried();
	if (r.rlim_cur != 1 || r.rlim_max != 1)
		got_out("RLIMIT_CORE is %llu of %llu", (unsigned long long)r.rlim_cur,
			(unsigned long long)r.rlim_max);
	refused("a higher limit", setrlimit(RLIMIT_CORE, &more), 0);
	status = in_fork(crash, NULL);
	tried();
	if (!WIFSIGNALED(status) || WCOREDUMP(status))
		got_out("the crash ended with the status %#x", status);
	tried();
	if (access("core", F_OK) == 0)
		got_out("a core file was left");
}

/* ── round the filter ─────────────────────────────────────────────────────────────────────── */

static int call_x32(void *arg)
{
	(void)arg;
	/* mount(2) with the x32 bit: EFAULT or so would mean that it was let through. */
	if (syscall(0x40000000L | SYS_mount, "x", "/tmp", "tmpfs", 0, NULL) == 0)
		return 1;
	return errno == ENOSYS || errno == EPERM || errno == EACCES ? 0 : 2;
}

static int call_x32_getpid(void *arg)
{
	(void)arg;
	return syscall(0x40000000L | SYS_getpid) > 0;
}

#ifdef __x86_64__
static long int80(long nr, long a, long b, long c)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(nr), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	return r;
}

static int call_int80(void *arg)
{
	long r;

	(void)arg;
	r = int80(20 /* getpid */, 0, 0, 0);
	if (r > 0)
		return 1;
	r = int80(310 /* unshare */, CLONE_NEWUSER, 0, 0);
	return r >= 0;
}
#endif

static void by_fork(const char *what, int (*fn)(void *))
{
	int status = in_fork(fn, NULL);

	tried();
	/* A filter may well kill it, and a kernel without that ABI raises SIGSEGV. */
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		got_out("%s: %d", what, WEXITSTATUS(status));
}

void attempt_compat_calls(void)
{
	by_fork("mount by x32", call_x32);
	by_fork("getpid by x32", call_x32_getpid);
#ifdef __x86_64__
	by_fork("int 0x80", call_int80);
#endif
}

void attempt_unknown_calls(void)
{
	/* EFAULT, EINVAL … would be a kernel that knows it and a filter that lets it pass. */
	for (long nr = 480; nr < 600; nr++)
		CALL("an unknown call", 0, nr, -1L, -1L, -1L, -1L, -1L, -1L);
}
