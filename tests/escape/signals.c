/* SPDX-License-Identifier: MIT */
/*
 * signals.c: attempts by signals and terminals. What they send to is never what they run on where
 * the wall is missing: none of them is run there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "attempt.h"

#ifndef F_SETSIG
#define F_SETSIG 10
#endif

/* With one uid for all it may send them; that PID 1 takes none of them shows the way it ends. */
static void to_pid_1(const char *what, long r)
{
	if (arg_is("uids", "single"))
		tried();
	else
		refused(what, r, 0);
}

void attempt_signals_pid_1(void)
{
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);
	struct {
		int signo, error, code, pad;
		char rest[112];
	} info = {.code = -1 /* SI_QUEUE */};

	for (int s = 1; s <= 64; s++) {
		to_pid_1("kill", syscall(SYS_kill, 1, s));
		to_pid_1("tgkill", syscall(SYS_tgkill, 1, 1, s));
		to_pid_1("tkill", syscall(SYS_tkill, 1, s));
		info.signo = s;
		to_pid_1("sigqueue", syscall(SYS_rt_sigqueueinfo, 1, s, &info));
		to_pid_1("tgsigqueue", syscall(SYS_rt_tgsigqueueinfo, 1, 1, s, &info));
		if (fd >= 0)
			to_pid_1("pidfd_send_signal", syscall(424, fd, s, NULL, 0));
	}
	close(fd);
}

void attempt_signals_all(void)
{
	char buf[64];
	int max = 32768;

	if (slurp("/proc/sys/kernel/pid_max", buf, sizeof(buf)) > 0)
		max = atoi(buf);
	if (max > 200000)
		max = 200000;
	for (int pid = 2; pid <= max; pid++) {
		/* Signal 0 for all; the rest for what answers at all. */
		if (pid == getpid() || syscall(SYS_kill, pid, 0) < 0)
			continue;
		if (own_process(pid))
			continue;
		/* Its own uid in its own namespace: another guest may be that. */
		if (arg_is("as", "guest"))
			continue;
		got_out("process %d can be signalled", pid);
	}
	/* Whole groups have numbers, too; that of PID 1 cannot be named: -1 is everybody. */
	for (int group = 2; group <= max; group++) {
		if (group != getpgid(0) && syscall(SYS_kill, -group, 0) == 0 &&
		    !arg_is("as", "guest") && !own_process(group))
			got_out("group %d can be signalled", group);
	}
	tried();
}

void attempt_sigio(void)
{
	static const int bad[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGTERM};
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		broken("pipe: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		tried();
		if (fcntl(fds[0], F_SETOWN, 1) < 0 || fcntl(fds[0], F_SETSIG, bad[i]) < 0 ||
		    fcntl(fds[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0)
			continue;
		if (write(fds[1], "x", 1) != 1)
			note("write: %s", strerror(errno));
	}
	/* Whether anything arrived shows the state that the driver sees. */
	tried();
	if (access("/proc/1", F_OK) < 0)
		got_out("PID 1 is gone");
}

void attempt_reaper(void)
{
	tried();
	prctl(36 /* PR_SET_CHILD_SUBREAPER */, 1, 0, 0, 0);
	setsid();
	setpgid(0, 0);
	/* A guest's keeper has the one uid, too, and then it is its own end: docs/escape.md. */
	if (getppid() > 1 && !arg_is("uids", "single"))
		refused("kill of its parent", syscall(SYS_kill, getppid(), SIGKILL), ESRCH);
	refused("setpgid of PID 1", syscall(SYS_setpgid, 1, 1), ESRCH);
	tried();
	if (setpgid(0, 1) == 0)
		got_out("it joined the group of PID 1");
}

static void stuff(int fd, const char *path)
{
	static const char cmd[] = "echo stuffed\n";
	char sub = 2, disc = 0;
	int n = 0, ldisc = 2 /* slip */;

	if (!isatty(fd))
		return;
	for (const char *c = cmd; *c; c++)
		n += ioctl(fd, TIOCSTI, c) == 0;
	tried();
	if (n)
		got_out("TIOCSTI typed %d bytes into %s", n, path);
	refused("TIOCLINUX", ioctl(fd, TIOCLINUX, &sub), ENOTTY);
	refused("TIOCCONS", ioctl(fd, TIOCCONS, &disc), ENOTTY);
	tried();
	if (ioctl(fd, TIOCSETD, &ldisc) == 0) {
		ldisc = 0;
		ioctl(fd, TIOCSETD, &ldisc);
		got_out("a line discipline was set on %s", path);
	}
}

void attempt_tiocsti(void)
{
	static const char *const paths[] = {"/dev/tty", "/dev/console", "/dev/tty0", "/dev/ptmx",
					    "/proc/1/fd/0"};
	DIR *d = opendir("/dev/pts");
	struct dirent *e;
	char path[300];
	int fd;

	for (fd = 0; fd < 3; fd++) {
		snprintf(path, sizeof(path), "fd %d", fd);
		tried();
		stuff(fd, path);
	}
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		fd = open(paths[i], O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		tried();
		if (fd >= 0 && strcmp(paths[i], "/dev/ptmx") != 0)
			stuff(fd, paths[i]);
		close(fd);
	}
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strcmp(e->d_name, "ptmx") == 0)
			continue;
		snprintf(path, sizeof(path), "/dev/pts/%s", e->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		tried();
		if (fd >= 0 && arg_is("as", "execution"))
			got_out("%s was opened, and is no terminal of its own", path);
		else if (fd >= 0)
			stuff(fd, path);
		close(fd);
	}
	if (d)
		closedir(d);
}
