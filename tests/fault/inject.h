/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_INJECT_H
#define BERTH_TESTS_INJECT_H
/*
 * inject.h: a fault at the Nth system call of a chosen program, without a hook in any of them.
 *
 * A child process is given a seccomp filter that reports a list of calls to us; everything that it
 * starts inherits it: the library in the child, and through it init, its children and the
 * supervisors. A servant process answers each report with "go on", and the Nth one that comes from
 * the wanted program with the fault: SIGKILL for the caller of the call, or an errno instead of it.
 *
 * The servant lives as long as anything that has the filter, so what it serves can be looked at,
 * and ended, by a test that has no filter.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "conformance/conf.h"

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1u
#endif

enum inject_who { INJECT_AGENT, INJECT_CALLER };

struct inject {
	enum inject_who who;
	volatile unsigned nth; /* 1 is the first; 0: none, count only */
	int error;             /* 0: SIGKILL, else the errno of the call */
	int only_nr;           /* count this call only; 0: all of inject_calls */
	bool stall; /* instead of a fault: no answer, the caller of the call stays in it */
	/* The answer, in shared memory. */
	volatile unsigned seen;
	volatile int fired_nr; /* the call that it hit, -1 */
	volatile int fired_pid;
	pid_t child, servant;
};

/* What a fault makes sense for: calls that change something or get something. */
static const int inject_calls[] = {
	SYS_write,
	SYS_pwrite64,
	SYS_writev,
	SYS_openat,
	SYS_mkdirat,
	SYS_mkdir,
	SYS_renameat,
	SYS_renameat2,
	SYS_rename,
	SYS_linkat,
	SYS_symlinkat,
	SYS_unlinkat,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_fsync,
	SYS_fdatasync,
	SYS_mount,
	SYS_clone,
	SYS_clone3,
	SYS_fork,
	SYS_vfork,
	SYS_execve,
	SYS_execveat,
	SYS_socket,
	SYS_bind,
	SYS_listen,
	SYS_accept4,
	SYS_connect,
	SYS_pipe2,
	SYS_pipe,
	SYS_socketpair,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_signalfd4,
	SYS_timerfd_create,
	SYS_timerfd_settime,
	SYS_fcntl,
	SYS_copy_file_range,
	SYS_sendfile,
	SYS_splice,
	SYS_unshare,
	SYS_setns,
	SYS_mmap,
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_prctl,
	SYS_fchmod,
	SYS_utimensat,
	SYS_getdents64,
	SYS_newfstatat,
	SYS_pread64,
	SYS_kill,
};

static int inject_filter(void)
{
	enum { N = sizeof(inject_calls) / sizeof(*inject_calls) };
	struct sock_filter f[2 * N + 2];
	struct sock_fprog prog = {.filter = f};
	unsigned n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					      offsetof(struct seccomp_data, nr));
	for (int i = 0; i < N; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						      (unsigned)inject_calls[i], 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prog.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &prog);
}

static void inject_send_fd(int sock, int fd)
{
	char byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	if (sendmsg(sock, &m, 0) != 1)
		_exit(95);
}

static int inject_recv_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && (c = CMSG_FIRSTHDR(&m)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

/* Does the process that made the call belong to the program we want? */
static bool inject_wanted(const struct inject *in, pid_t pid)
{
	char path[64], exe[PATH_MAX], cmd[64];
	ssize_t n;

	if (in->who == INJECT_CALLER)
		return pid == in->child;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = '\0';
	if (strstr(exe, "berth-agent"))
		return true;
	/* A memfd or another name: then the command line says it. */
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	slurp_at(AT_FDCWD, path, cmd, sizeof(cmd));
	return strncmp(cmd, "berth", 5) == 0;
}

static void inject_answer(struct inject *in, int fd, const struct seccomp_notif *q)
{
	struct seccomp_notif_resp a = {.id = q->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	if ((!in->only_nr || in->only_nr == q->data.nr) && inject_wanted(in, (pid_t)q->pid) &&
	    ++in->seen == in->nth) {
		in->fired_nr = q->data.nr;
		in->fired_pid = (int)q->pid;
		if (in->stall)
			return;
		if (in->error) {
			a.flags = 0;
			a.error = -in->error;
		} else {
			kill((pid_t)q->pid, SIGKILL);
		}
	}
	(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &a);
}

static _Noreturn void inject_serve(struct inject *in, int fd)
{
	struct seccomp_notif q;
	struct pollfd p = {fd, POLLIN, 0};

	setsid();
	for (;;) {
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			_exit(1);
		if (p.revents & POLLIN) {
			memset(&q, 0, sizeof(q));
			if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &q) == 0)
				inject_answer(in, fd, &q);
		} else if (p.revents & (POLLHUP | POLLERR)) {
			_exit(0);
		}
	}
}

/* Shared memory for a round. */
static UNUSED struct inject *inject_new(enum inject_who who, unsigned nth, int error)
{
	struct inject *in =
		mmap(NULL, sizeof(*in), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(in != MAP_FAILED);
	in->who = who;
	in->nth = nth;
	in->error = error;
	in->fired_nr = -1;
	return in;
}

/* Starts fn(arg) in a child with the filter. inject_join() waits for it. */
static UNUSED void inject_start(struct inject *in, int (*fn)(void *), void *arg)
{
	int sock[2], go[2], fd;
	pid_t pid;
	char byte;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock));
	ASSERT_OK(pipe2(go, O_CLOEXEC));
	/* Not assigned by the child: the struct is shared. */
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		B = NULL;
		S = NULL;
		close(go[1]);
		fd = inject_filter();
		if (fd < 0)
			_exit(96);
		inject_send_fd(sock[1], fd);
		close(fd);
		(void)!read(go[0], &byte, 1);
		tap_.in_subtest = false;
		if (sigsetjmp(tap_.test_jump, 1) == 0)
			_exit(fn(arg));
		_exit(99);
	}
	in->child = pid;
	close(sock[1]);
	fd = inject_recv_fd(sock[0]);
	close(sock[0]);
	if (fd < 0)
		FAIL("no seccomp listener");
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		close(go[1]);
		inject_serve(in, fd);
	}
	in->servant = pid;
	close(fd);
	close(go[0]);
	close(go[1]);
}

/* The exit status of the child, 1000 + signal; -1 when it did not end within ms. */
static UNUSED int inject_join(struct inject *in, int64_t ms)
{
	int pidfd = (int)syscall(SYS_pidfd_open, in->child, 0);
	struct pollfd p = {pidfd, POLLIN, 0};
	int r = poll(&p, 1, (int)ms);

	close(pidfd);
	if (r == 0) {
		kill(in->child, SIGKILL);
		waitpid(in->child, NULL, 0);
		return -1;
	}
	return exit_of(in->child);
}

/* Waits until nothing has the filter any more. False: something is still there after ms. */
static UNUSED bool inject_over(struct inject *in, int64_t ms)
{
	int pidfd = (int)syscall(SYS_pidfd_open, in->servant, 0);
	struct pollfd p = {pidfd, POLLIN, 0};
	int r = poll(&p, 1, (int)ms);

	close(pidfd);
	if (r == 0)
		kill(in->servant, SIGKILL);
	waitpid(in->servant, NULL, 0);
	return r == 1;
}

/* Ends the test as skipped where there is no such listener. */
static UNUSED void inject_need(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(inject_filter() < 0 ? 1 : 0);
	if (exit_of(pid) != 0)
		TEST_REQUIRE("seccomp-notify", "no seccomp listener here");
	if (strncmp(conf.template, "local:", 6) != 0)
		SKIP("the faults are those of local processes");
}

#endif
