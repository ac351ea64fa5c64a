/* SPDX-License-Identifier: MIT */
/*
 * clock.c: a sandbox that has been idle for so long stops itself, and one whose time is up ends for
 * good.
 *
 * Idle is: no request in work, no execution or session alive, no connection through a published
 * port, for --idle-ms of the clock that goes on while the machine is suspended. A connection child
 * says that it is in a request by a kernel lock, which its death takes back; supervisors are known
 * by the locks on their journals. So nothing that dies can hold a sandbox up, and nobody has to
 * tell anything in time. Invariants: init only keeps the timers, what may block is done in a child;
 * the flag that stops new work is set before the last look at what there is, and taken back when
 * there was something after all.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/clock.h"
#include "agent/init.h"
#include "agent/options.h"

#define AGAIN_MS 1000 /* after a helper that was killed, or could not be made */

static struct {
	int64_t idle_ms, expires_ms;
	int idlefd, expiryfd;
	pid_t idler, expirer; /* helpers at work */
	int busyfd;           /* of this connection child */
} self = {.idlefd = -1, .expiryfd = -1, .busyfd = -1};

/* ---- in any process ---- */

void clock_worked(void)
{
	atomic_store(&agent.shared->worked, now_ms());
}

/* A lock of this process, not of the file as it is opened: no child has it. */
static int lock(int fd, int cmd, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET};

	if (fcntl(fd, cmd, &l) < 0)
		return -1;
	return l.l_type != F_UNLCK;
}

void clock_busy(bool on)
{
	if (!self.idle_ms)
		return;
	clock_worked();
	if (self.busyfd < 0)
		self.busyfd = openat(agent.dirfd, "init.busy", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (self.busyfd >= 0)
		lock(self.busyfd, F_SETLK, on ? F_RDLCK : F_UNLCK);
}

bool clock_stopping(void)
{
	const struct timespec ms = {0, 1000000};
	int v;

	while ((v = atomic_load(&agent.shared->stopping)) == 2)
		nanosleep(&ms, NULL);
	return v != 0;
}

void clock_info(struct wire_w *w)
{
	if (self.idle_ms)
		wire_w_int(w, WK_IDLE_MS, self.idle_ms);
	if (self.expires_ms)
		wire_w_int(w, WK_EXPIRES_MS, self.expires_ms);
}

/* ---- idle ---- */

static void arm_idle(int64_t due)
{
	struct itimerspec t = {.it_value = {due / 1000, due % 1000 * 1000000}};

	timerfd_settime(self.idlefd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* Is there work now? What cannot be told counts as work. */
static bool at_work(void)
{
	int fd = openat(agent.dirfd, "init.busy", O_RDWR | O_CLOEXEC | O_NOFOLLOW), r;

	if (fd < 0)
		return true;
	r = lock(fd, F_GETLK, F_WRLCK);
	close(fd);
	return r != 0 || atomic_load(&agent.shared->forwards) > 0 || records_alive() > 0;
}

/*
 * Work that ends between init's look at the clock and the look at the locks has moved the clock
 * before it let go of its lock: so the locks first, and then the clock once more.
 */
static bool is_idle(void)
{
	if (!at_work())
		return now_ms() >= atomic_load(&agent.shared->worked) + self.idle_ms;
	clock_worked();
	return false;
}

/* A helper: ends the sandbox, unless there is work. */
static void stop_if_idle(void)
{
	int none = 0, ours = 2;

	if (!is_idle())
		return;
	if (!atomic_compare_exchange_strong(&agent.shared->stopping, &none, 2)) {
		clock_worked();
		return;
	}
	if (!is_idle()) {
		/* Unless a STOP has come meanwhile, which means it. */
		atomic_compare_exchange_strong(&agent.shared->stopping, &ours, 0);
		return;
	}
	stop_everything("idle", -1);
	init_tell_end("idle");
}

void clock_idle_event(void)
{
	int64_t due = atomic_load(&agent.shared->worked) + self.idle_ms;
	uint64_t times;

	(void)!read(self.idlefd, &times, sizeof(times));
	if (self.idler)
		return;
	if (now_ms() < due) {
		arm_idle(due);
		return;
	}
	self.idler = init_fork_helper();
	if (self.idler == 0) {
		stop_if_idle();
		_exit(0);
	}
	if (self.idler < 0) {
		self.idler = 0;
		arm_idle(now_ms() + AGAIN_MS);
	}
}

/* ---- expiry ---- */

static void arm_expiry(int64_t due)
{
	struct itimerspec t = {.it_value = {due / 1000, due % 1000 * 1000000}};

	/* Tells also when somebody sets the clock: then it is armed again. */
	timerfd_settime(self.expiryfd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &t, NULL);
}

static void remove_all_in(int dirfd)
{
	struct dirscan d;
	const char *name;
	uint8_t type;

	dirscan_init(&d, dirfd);
	while ((name = dirscan_next(&d, &type)))
		remove_tree_at(dirfd, name, NULL);
}

/* A helper: everything is sealed, then what cannot be had again goes, records stay. */
static void expire(void)
{
	stop_everything("expired", -1);
	if (agent.walled && agent.homefd >= 0)
		remove_all_in(agent.homefd);
	remove_tree_at(agent.dirfd, "store", NULL);
	init_tell_end("expired");
}

void clock_expiry_event(void)
{
	uint64_t times;

	(void)!read(self.expiryfd, &times, sizeof(times));
	if (self.expirer)
		return;
	if (wall_ms() < self.expires_ms) {
		arm_expiry(self.expires_ms);
		return;
	}
	self.expirer = init_fork_helper();
	if (self.expirer == 0) {
		expire();
		_exit(0);
	}
	if (self.expirer < 0) {
		self.expirer = 0;
		arm_expiry(wall_ms() + AGAIN_MS);
	}
}

/* ---- in init ---- */

void clock_saw(pid_t pid)
{
	int ours = 2;

	if (pid == self.idler) {
		self.idler = 0;
		atomic_compare_exchange_strong(&agent.shared->stopping, &ours, 0);
		arm_idle(now_ms() + (self.idle_ms < AGAIN_MS ? self.idle_ms : AGAIN_MS));
	} else if (pid == self.expirer) {
		self.expirer = 0;
		arm_expiry(wall_ms() + AGAIN_MS);
	}
}

static int start_idle(struct agent_fail *f)
{
	int fd = openat(agent.dirfd, "init.busy", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			agent.file_mode);

	if (fd < 0)
		return fail(f, WIRE_E_IO, "directory", errno, "cannot make %s/init.busy: %m",
			    agent.dir);
	close(fd);
	self.idlefd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (self.idlefd < 0 || init_watch(self.idlefd, INIT_IDLE, 0) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start: %m");
	arm_idle(now_ms() + self.idle_ms);
	return 0;
}

int clock_start(const struct init_options *o, struct agent_fail *f)
{
	self.idle_ms = o->idle_ms;
	self.expires_ms = o->expires_ms;
	clock_worked();
	if (self.idle_ms && start_idle(f) < 0)
		return -1;
	if (!self.expires_ms)
		return 0;
	self.expiryfd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (self.expiryfd < 0 || init_watch(self.expiryfd, INIT_EXPIRY, 0) < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start: %m");
	arm_expiry(self.expires_ms);
	return 0;
}
