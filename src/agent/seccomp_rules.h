/* SPDX-License-Identifier: MIT */
/*
 * seccomp_rules.h: which system calls the programs of an isolated sandbox may make, and why not
 * the others. Data only: tools/gen-seccomp makes the filter and docs/seccomp.md of it.
 *
 * Every call that Linux has (up to SECCOMP_LINUX) stands in exactly one group. What stands in none
 * is newer than this table: it is answered as by an older kernel, with ENOSYS, for which programs
 * have a second way. Rules about arguments come on top of a call that is allowed.
 */
#ifndef AGENT_SECCOMP_RULES_H
#define AGENT_SECCOMP_RULES_H

#include <errno.h>
#include <stdint.h>

#define SECCOMP_LINUX "6.18"

struct seccomp_group {
	const char *name;
	int err; /* 0: allowed; else what the caller gets */
	const char *reason;
	const char *calls; /* names with a space between them */
};

static const struct seccomp_group seccomp_groups[] = {
	{"files", 0,
	 "Files by name and by descriptor. What can be reached is decided by mounts, uid and "
	 "modes.",
	 "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat "
	 "faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl "
	 "fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync "
	 "ftruncate "
	 "futimesat getcwd getdents getdents64 getxattr getxattrat ioctl lchown lgetxattr link "
	 "linkat "
	 "listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod "
	 "mknodat newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64 "
	 "pwritev "
	 "pwritev2 read readahead readlink readlinkat readv removexattr removexattrat rename "
	 "renameat "
	 "renameat2 rmdir sendfile setxattr setxattrat splice stat statfs statx symlink symlinkat "
	 "sync "
	 "sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes "
	 "vmsplice "
	 "write writev cachestat file_getattr file_setattr"},
	{"waiting", 0, "Waiting for descriptors, files, timers and signals.",
	 "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd "
	 "eventfd2 "
	 "inotify_add_watch inotify_init inotify_init1 inotify_rm_watch poll ppoll pselect6 select "
	 "signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime"},
	{"aio", 0, "The old asynchronous I/O, which databases use.",
	 "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit"},
	{"memory", 0, "Memory of the caller's own.",
	 "brk get_mempolicy madvise map_shadow_stack memfd_create memfd_secret mincore mlock "
	 "mlock2 "
	 "mlockall mmap mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free "
	 "pkey_mprotect remap_file_pages"},
	{"processes", 0,
	 "Starting, ending, signalling and scheduling. The PID namespace and the uid bound whom it "
	 "can "
	 "reach, limits bound how many.",
	 "arch_prctl clone execve execveat exit exit_group fork getcpu getpgid getpgrp getpid "
	 "getppid "
	 "getpriority getrlimit getrusage getsid gettid ioprio_get ioprio_set kill membarrier "
	 "pidfd_open pidfd_send_signal prctl prlimit64 process_mrelease rseq "
	 "sched_get_priority_max "
	 "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
	 "sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler "
	 "sched_yield set_tid_address setpgid setpriority setrlimit setsid tgkill times tkill "
	 "vfork "
	 "wait4 waitid personality"},
	{"signals", 0, "Signals of the caller's own.",
	 "pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo "
	 "rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack"},
	{"threads", 0, "Locks between threads.",
	 "futex futex_requeue futex_wait futex_waitv futex_wake get_robust_list set_robust_list"},
	{"ipc", 0,
	 "System V and POSIX shared memory, semaphores and queues: the IPC namespace holds them.",
	 "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget "
	 "msgrcv "
	 "msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget"},
	{"sockets", 0, "Sockets of the families that the rules about arguments leave.",
	 "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg "
	 "recvmsg sendmmsg sendmsg sendto setsockopt shutdown socket socketpair"},
	{"time", 0, "Reading clocks, sleeping, timers.",
	 "alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep "
	 "setitimer "
	 "time timer_create timer_delete timer_getoverrun timer_gettime timer_settime"},
	{"identity", 0,
	 "Who the caller is. Without capabilities, and with no_new_privs, nobody becomes anybody "
	 "else.",
	 "capget capset getegid geteuid getgid getgroups getresgid getresuid getuid setfsgid "
	 "setfsuid "
	 "setgid setgroups setregid setresgid setresuid setreuid setuid"},
	{"system", 0, "What may be asked of any system.", "getrandom sysinfo uname"},
	{"sandboxing", 0, "What a program walls itself in with: it can only lose by it.",
	 "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp"},
	{"probes", 0,
	 "Made by the kernel's own trampoline when the host traces a program; it ends any other "
	 "caller.",
	 "uretprobe uprobe"},

	{"namespaces", EPERM,
	 "A new user namespace gives all capabilities inside it, and so most of the kernel's "
	 "privileged code to anybody. For clone with such a flag see the arguments.",
	 "setns unshare"},
	{"mounts", EPERM, "The walls are made of mounts.",
	 "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree "
	 "open_tree_attr pivot_root umount2"},
	{"others", EPERM,
	 "Looks into, or acts in, other processes. Costs debuggers, strace and LeakSanitizer "
	 "(ASAN_OPTIONS=detect_leaks=0).",
	 "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace"},
	{"keys", EPERM,
	 "The kernel's keyrings have no namespace of their own that holds everything.",
	 "add_key keyctl request_key"},
	{"io_uring", EPERM,
	 "A second way to make most calls that no filter sees, and for years the richest source of "
	 "holes. libuv, nginx and databases do without.",
	 "io_uring_enter io_uring_register io_uring_setup"},
	{"tracing", EPERM, "Code and counters in the kernel itself.",
	 "bpf lookup_dcookie perf_event_open"},
	{"faults", EPERM, "Stops the kernel in the middle of a copy: what exploits win races with.",
	 "userfaultfd"},
	{"handles", EPERM, "Files by number, past the folders that hide them.",
	 "name_to_handle_at open_by_handle_at"},
	{"fanotify", EPERM, "Watches whole file systems, the host's too.",
	 "fanotify_init fanotify_mark"},
	{"kernel", EPERM, "Changes or ends the running kernel.",
	 "delete_module finit_module init_module kexec_file_load kexec_load reboot"},
	{"clocks", EPERM, "The clock is the host's.",
	 "adjtimex clock_adjtime clock_settime settimeofday"},
	{"accounts", EPERM, "Swap, quotas and accounting are the host's.",
	 "acct quotactl quotactl_fd swapoff swapon"},
	{"messages", EPERM, "The kernel's messages tell its addresses and what others do.",
	 "syslog"},
	{"names", EPERM, "The names are the sandbox's.", "setdomainname sethostname"},
	{"hardware", EPERM, "Ports, segments and terminals of the machine.",
	 "ioperm iopl modify_ldt vhangup"},
	{"numa", EPERM, "Places memory, others' too, on nodes of the machine.",
	 "mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node"},

	{"behind pointers", ENOSYS,
	 "Its flags are behind a pointer, where a filter cannot look. The C libraries take clone.",
	 "clone3"},
	{"new questions", ENOSYS,
	 "Newer ways to ask about mounts and security modules. Tools fall back to /proc.",
	 "listmount lsm_get_self_attr lsm_list_modules lsm_set_self_attr statmount"},
	{"gone", ENOSYS, "No kernel of today has them, or only for programs of the nineties.",
	 "_sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms "
	 "get_thread_area getpmsg nfsservctl putpmsg query_module security set_thread_area sysfs "
	 "tuxcall uselib ustat vserver"},
};

/* Numbers that a libseccomp older than the call does not know. arch "": every architecture. */
static const struct seccomp_number {
	const char *call;
	const char *arch;
	int number;
} seccomp_numbers[] = {
	{"uretprobe", "x86_64", 335},   {"uprobe", "x86_64", 336},
	{"cachestat", "", 451},         {"fchmodat2", "", 452},
	{"map_shadow_stack", "", 453},  {"futex_wake", "", 454},
	{"futex_wait", "", 455},        {"futex_requeue", "", 456},
	{"statmount", "", 457},         {"listmount", "", 458},
	{"lsm_get_self_attr", "", 459}, {"lsm_set_self_attr", "", 460},
	{"lsm_list_modules", "", 461},  {"mseal", "", 462},
	{"setxattrat", "", 463},        {"getxattrat", "", 464},
	{"listxattrat", "", 465},       {"removexattrat", "", 466},
	{"open_tree_attr", "", 467},    {"file_getattr", "", 468},
	{"file_setattr", "", 469},
};

/*
 * Rules about arguments, on top of the call being allowed. The kernel takes the low 32 bits of each
 * of these arguments, and so do the rules: what stands above cannot lead around them.
 */

/* The argument @arg of @call is one of @values; anything else gets @err. */
static const struct seccomp_only {
	const char *call;
	int err;
	unsigned arg;
	const char *what; /* may be had */
	uint32_t values[8];
	unsigned n;
} seccomp_only[] = {
	{"socket",
	 EAFNOSUPPORT,
	 0,
	 "the families AF_UNIX, AF_INET, AF_INET6, AF_NETLINK",
	 {1, 2, 10, 16},
	 4},
	{"socket",
	 EPROTONOSUPPORT,
	 2,
	 "the protocols 0, ICMP (echo), TCP, UDP, ICMPv6, MPTCP",
	 {0, 1, 6, 17, 58, 262},
	 6},
	{"socketpair", EAFNOSUPPORT, 0, "the family AF_UNIX", {1}, 1},
	/* ADDR_NO_RANDOMIZE: AddressSanitizer executes itself anew with it. */
	{"personality",
	 EPERM,
	 0,
	 "PER_LINUX, PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE, and the question what it is",
	 {0x0, 0x8, 0x20000, 0x20008, 0x40000, 0x40008, 0xffffffff},
	 7},
};

enum seccomp_op {
	SECCOMP_ANY = 0,
	SECCOMP_MASKED, /* arg & mask == value */
	SECCOMP_NOT,    /* arg != value; a bit above the 32 makes it another one, too */
	SECCOMP_BITS,   /* arg & mask != 0 */
};

struct seccomp_cond {
	enum seccomp_op op;
	uint32_t mask, value;
};

#define SECCOMP_IS(v)                    \
	{                                \
		SECCOMP_MASKED, ~0u, (v) \
	}
#define SECCOMP_IS_NOT(v)           \
	{                           \
		SECCOMP_NOT, 0, (v) \
	}
#define SECCOMP_TYPE(v)                  \
	{                                \
		SECCOMP_MASKED, 0xf, (v) \
	} /* of a socket, without its flags */
#define SECCOMP_HAS(m)               \
	{                            \
		SECCOMP_BITS, (m), 0 \
	}

/* Uses that get @err: all conditions of a row hold. */
static const struct seccomp_use {
	const char *call;
	int err;
	const char *what;
	struct seccomp_cond arg[3];
} seccomp_uses[] = {
	{"clone",
	 EPERM,
	 "a flag for a new namespace (CLONE_NEWNS, CLONE_NEWUSER, …)",
	 {SECCOMP_HAS(0x7e020000)}},
	{"ioctl",
	 EPERM,
	 "TIOCSTI: types into a terminal for somebody else",
	 {{SECCOMP_ANY}, SECCOMP_IS(0x5412)}},
	{"ioctl",
	 EPERM,
	 "TIOCLINUX: the same, by the console's clipboard",
	 {{SECCOMP_ANY}, SECCOMP_IS(0x541c)}},
	{"ioctl",
	 EPERM,
	 "TIOCCONS: takes the console's output",
	 {{SECCOMP_ANY}, SECCOMP_IS(0x541d)}},
	{"ioctl",
	 EPERM,
	 "TIOCSETD: loads one of the rarely read line disciplines",
	 {{SECCOMP_ANY}, SECCOMP_IS(0x5423)}},
	{"socket", EPERM, "SOCK_RAW of AF_INET", {SECCOMP_IS(2), SECCOMP_TYPE(3)}},
	{"socket", EPERM, "SOCK_RAW of AF_INET6", {SECCOMP_IS(10), SECCOMP_TYPE(3)}},
	{"socket", EPERM, "SOCK_PACKET of AF_INET", {SECCOMP_IS(2), SECCOMP_TYPE(10)}},
	{"socket",
	 EPROTONOSUPPORT,
	 "AF_NETLINK of another protocol than NETLINK_ROUTE",
	 {SECCOMP_IS(16), {SECCOMP_ANY}, SECCOMP_IS_NOT(0)}},
};

#endif
