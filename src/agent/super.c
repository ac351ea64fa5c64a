/* SPDX-License-Identifier: MIT */
/*
 * super.c: the supervisor: a table of states and events over one epoll loop.
 *
 * Invariants: the cause is fixed by the first event that decides it; before any other event
 * decides, what has already ended is reaped, so
 * a cancel that comes after an exit finds an exit. TERMINAL is written once, when nothing of
 * the tree is alive and the pipes have
 * been emptied; the lock falls before anyone is told. Nothing here waits except in epoll_wait.
 *
 * It does not speak frames (control.c) and does not know how bytes are kept (output.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/clock.h"
#include "agent/super.h"
#include "agent/sweep.h"

#define PUMP_MAX       (1u << 20) /* bytes of one stream between two looks at everything else */
#define OOM_AGAIN_MS   2
#define OOM_GIVE_UP_MS 10000
#define STACK_TRIM     (96u * 1024)
#define DEAF_MS        5
#define IDLE_MS        100 /* buffers are given back when nothing has come for so long */
#define SWEEP_AGAIN_MS 10  /* a tree that a KILL did not empty is swept again */

/* ---- ending the tree ---- */

/* The whole tree. At the group's level the group says who belongs to it, and a sweep finds who
 * has left it. */
void super_signal(struct super *s, int signo)
{
	bool group = s->l->level == LEVEL_CGROUP;

	if (group && signo != SIGKILL && group_signal(&s->l->group, signo) > 0)
		return;
	tree_signal(s->l->level, group ? s->l->group.kill : -1, signo);
}

/* Nothing may be alive below us when a tree is empty, and nobody is left to be told twice. */
static void saw(void *ctx, pid_t pid, int status, const struct rusage *ru)
{
	struct super *s = ctx;

	if (pid == s->main) {
		s->main_done = true;
		s->main = 0;
		s->status = status;
		s->main_usage = *ru;
	} else if (pid == s->copier) {
		s->copier_done = true;
		s->copier = 0;
		s->copier_status = status;
	}
}

void super_reap(struct super *s)
{
	bool had_main = s->main > 0, had_copier = s->copier > 0;

	start_see_spawn(s); /* an end must not overtake the news of its beginning */
	s->empty = tree_reap(saw, s);
	/* Whom no subreaper brought back is in the group still; nothing tells of its end. */
	if (s->empty && s->l->level == LEVEL_CGROUP && group_members(&s->l->group) > 0) {
		s->empty = false;
		s->look_due = now_ms() + SWEEP_AGAIN_MS;
	}
	if (had_copier && s->copier_done)
		start_copied(s);
	if (had_main && s->main_done) {
		start_see_spawn(s); /* it may have begun and ended since */
		super_raise(s, EV_EXIT);
	}
	if (s->empty && s->state == ST_STOPPING)
		super_raise(s, EV_EMPTY);
}

static void kill_tree(struct super *s)
{
	s->killed = true;
	s->grace_due = 0;
	super_signal(s, SIGKILL);
	s->sweep_due = now_ms() + SWEEP_AGAIN_MS;
}

/* The whole tree: TERM, and KILL after the grace. */
static void stop_tree(struct super *s, int64_t grace)
{
	if (grace <= 0) {
		kill_tree(s);
		return;
	}
	s->grace_due = now_ms() + grace;
	super_signal(s, SIGTERM);
}

/* ---- actions ---- */

static void ignore(struct super *s)
{
	(void)s;
}

/* The stack below here was deep while the view was made; none of it is needed again. */
static void release_stack(void)
{
	char here;
	uintptr_t top = ((uintptr_t)&here - 1024) & ~(uintptr_t)4095;

	madvise((void *)(top - STACK_TRIM), STACK_TRIM, MADV_DONTNEED);
}

static void release_spec(struct super *s)
{
	struct arena *a = &s->l->mem;

	/* argv and the environment are not needed again; the decoded numbers stay. */
	arena_done(a);
	s->l->argv = s->l->envp = NULL;
	release_stack();
}

static void begin_running(struct super *s)
{
	const struct spec *sp = &s->l->spec;

	s->started_ms = wall_ms();
	s->startup_due = 0;
	if (sp->timeout_ms)
		s->timeout_due = now_ms() + sp->timeout_ms;
	if (s->l->group.cpuacct >= 0 && sp->cpu_time_ms)
		s->cpu_due = now_ms() + 10;
	for (unsigned i = 0; i < 2; i++) {
		if (s->out[i].pipe >= 0)
			super_watch_fd(s, EPOLL_CTL_ADD, s->out[i].pipe, EPOLLIN,
				       super_tag(SRC_OUT + i, 0));
	}
	if (s->l->group.oom >= 0)
		super_watch_fd(s, EPOLL_CTL_ADD, s->l->group.oom,
			       s->l->group.v2 ? EPOLLPRI : EPOLLIN, super_tag(SRC_OOM, 0));
	seal_running(s);
	release_spec(s);
	s->dirty = true;
}

static void broken(struct super *s)
{
	s->cause = CAUSE_FAILED;
	s->startup_due = 0;
	kill_tree(s);
	super_reap(s);
}

static void abort_start(struct super *s, int cause)
{
	s->cause = cause;
	s->startup_due = 0;
	kill_tree(s);
	super_reap(s);
}

static void cancel_start(struct super *s)
{
	s->message = s->ask_message;
	abort_start(s, CAUSE_CANCEL);
}

static void startup_late(struct super *s)
{
	abort_start(s, CAUSE_STARTUP);
}

/* OOM in the group outranks the exit that it made. */
static bool oom_was_first(struct super *s)
{
	if (!group_oom(&s->l->group, s->l->spec.memory, &s->resource_limit))
		return false;
	s->cause = CAUSE_LIMIT;
	s->resource = "memory";
	return true;
}

static void main_exited(struct super *s)
{
	s->timeout_due = s->cpu_due = s->oom_due = 0;
	if (!oom_was_first(s))
		s->cause = CAUSE_EXIT;
	if (s->session || s->empty)
		super_raise(s, EV_EMPTY);
	else
		stop_tree(s, s->cause == CAUSE_LIMIT ? 0 : s->l->spec.grace_ms);
}

static void stop_for(struct super *s, int cause, int64_t grace)
{
	s->cause = cause;
	s->timeout_due = s->cpu_due = s->oom_due = 0;
	stop_tree(s, grace);
	super_reap(s);
}

static void cancel(struct super *s)
{
	s->message = s->ask_message;
	stop_for(s, CAUSE_CANCEL, s->ask_grace);
}

static void timed_out(struct super *s)
{
	stop_for(s, CAUSE_TIMEOUT, s->l->spec.grace_ms);
}

static void limit_hit(struct super *s)
{
	stop_for(s, CAUSE_LIMIT, 0);
}

/* A second cancel can only shorten the grace. */
static void hurry(struct super *s)
{
	int64_t due = now_ms() + s->ask_grace;

	if (s->killed)
		return;
	if (s->ask_grace <= 0)
		kill_tree(s);
	else if (s->grace_due && due < s->grace_due)
		s->grace_due = due;
	super_reap(s);
}

static void grace_over(struct super *s)
{
	kill_tree(s);
	super_reap(s);
}

static void drain(struct super *s)
{
	s->grace_due = s->sweep_due = 0;
	for (int i = 0; i < 2; i++) {
		uint64_t before;

		do
			before = s->out[i].len;
		while (output_pump(&s->out[i], PUMP_MAX) >= 0 && s->out[i].len != before);
	}
	super_raise(s, EV_DRAINED);
}

static void seal(struct super *s)
{
	seal_terminal(s);
	ofd_lock(s->l->jfd, F_UNLCK, false);
	s->dirty = true;
}

/* An event that cannot come in this state has `ignore` and the state itself: no cell is empty
 * (tests/unit/agent). */
const struct super_cell super_table[ST_N][EV_N] =
	{
		[ST_STARTING] =
			{
				[EV_VIEW] = {start_main, ST_STARTING},
				[EV_STARTED] = {begin_running, ST_RUNNING},
				[EV_BROKEN] = {broken, ST_STOPPING},
				[EV_EXIT] = {ignore, ST_STARTING},
				[EV_EMPTY] = {ignore, ST_STARTING},
				[EV_CANCEL] = {cancel_start, ST_STOPPING},
				[EV_STARTUP_DUE] = {startup_late, ST_STOPPING},
				[EV_TIMEOUT_DUE] = {ignore, ST_STARTING},
				[EV_GRACE_DUE] = {ignore, ST_STARTING},
				[EV_LIMIT] = {ignore, ST_STARTING},
				[EV_DRAINED] = {ignore, ST_STARTING},
			},
		[ST_RUNNING] =
			{
				[EV_VIEW] = {ignore, ST_RUNNING},
				[EV_STARTED] = {ignore, ST_RUNNING},
				[EV_BROKEN] = {ignore, ST_RUNNING},
				[EV_EXIT] = {main_exited, ST_STOPPING},
				[EV_EMPTY] = {ignore, ST_RUNNING},
				[EV_CANCEL] = {cancel, ST_STOPPING},
				[EV_STARTUP_DUE] = {ignore, ST_RUNNING},
				[EV_TIMEOUT_DUE] = {timed_out, ST_STOPPING},
				[EV_GRACE_DUE] = {ignore, ST_RUNNING},
				[EV_LIMIT] = {limit_hit, ST_STOPPING},
				[EV_DRAINED] = {ignore, ST_RUNNING},
			},
		[ST_STOPPING] =
			{
				[EV_VIEW] = {ignore, ST_STOPPING},
				[EV_STARTED] = {ignore, ST_STOPPING},
				[EV_BROKEN] = {ignore, ST_STOPPING},
				[EV_EXIT] = {ignore, ST_STOPPING},
				[EV_EMPTY] = {drain, ST_DRAINING},
				[EV_CANCEL] = {hurry, ST_STOPPING},
				[EV_STARTUP_DUE] = {ignore, ST_STOPPING},
				[EV_TIMEOUT_DUE] = {ignore, ST_STOPPING},
				[EV_GRACE_DUE] = {grace_over, ST_STOPPING},
				[EV_LIMIT] = {ignore, ST_STOPPING},
				[EV_DRAINED] = {ignore, ST_STOPPING},
			},
		[ST_DRAINING] =
			{
				[EV_VIEW] = {ignore, ST_DRAINING},
				[EV_STARTED] = {ignore, ST_DRAINING},
				[EV_BROKEN] = {ignore, ST_DRAINING},
				[EV_EXIT] = {ignore, ST_DRAINING},
				[EV_EMPTY] = {ignore, ST_DRAINING},
				[EV_CANCEL] = {ignore, ST_DRAINING},
				[EV_STARTUP_DUE] = {ignore, ST_DRAINING},
				[EV_TIMEOUT_DUE] = {ignore, ST_DRAINING},
				[EV_GRACE_DUE] = {ignore, ST_DRAINING},
				[EV_LIMIT] = {ignore, ST_DRAINING},
				[EV_DRAINED] = {seal, ST_TERMINAL},
			},
		[ST_TERMINAL] =
			{
				[EV_VIEW] = {ignore, ST_TERMINAL},
				[EV_STARTED] = {ignore, ST_TERMINAL},
				[EV_BROKEN] = {ignore, ST_TERMINAL},
				[EV_EXIT] = {ignore, ST_TERMINAL},
				[EV_EMPTY] = {ignore, ST_TERMINAL},
				[EV_CANCEL] = {ignore, ST_TERMINAL},
				[EV_STARTUP_DUE] = {ignore, ST_TERMINAL},
				[EV_TIMEOUT_DUE] = {ignore, ST_TERMINAL},
				[EV_GRACE_DUE] = {ignore, ST_TERMINAL},
				[EV_LIMIT] = {ignore, ST_TERMINAL},
				[EV_DRAINED] = {ignore, ST_TERMINAL},
			},
};

void super_raise(struct super *s, int event)
{
	const struct super_cell *c = &super_table[s->state][event];

	s->state = c->to;
	c->act(s);
}

int super_wire_state(const struct super *s)
{
	if (s->state == ST_TERMINAL)
		return (int)wire_find_int(s->terminal_entry, s->terminal_len, JK_STATE,
					  WIRE_S_NONE);
	return s->started_ms ? WIRE_S_RUNNING : WIRE_S_STARTING;
}

/* ---- the loop ---- */

void super_watch_fd(struct super *s, int op, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event e = {.events = events, .data.u64 = tag};

	/* max_user_watches or memory have run out: then everything is looked at every few ms. */
	if (epoll_ctl(s->epfd, op, fd, &e) < 0 && op != EPOLL_CTL_DEL)
		s->deaf = true;
}

static void sooner(int64_t *due, int64_t t)
{
	if (t && (!*due || t < *due))
		*due = t;
}

static void arm(struct super *s)
{
	static int64_t armed;
	int64_t due = 0;

	sooner(&due, s->startup_due);
	sooner(&due, s->timeout_due);
	sooner(&due, s->grace_due);
	sooner(&due, s->sweep_due);
	sooner(&due, s->cpu_due);
	sooner(&due, s->oom_due);
	sooner(&due, s->look_due);
	sooner(&due, control_due(s));
	if (due == armed)
		return;
	struct itimerspec t = {.it_value = {due / 1000, due % 1000 * 1000000}};

	timerfd_settime(s->timerfd, TFD_TIMER_ABSTIME, &t, NULL);
	armed = due;
}

static bool passed(int64_t *due, int64_t now)
{
	if (!*due || now < *due)
		return false;
	*due = 0;
	return true;
}

static void check_cpu(struct super *s)
{
	int64_t user, system, used = group_cpu_us(&s->l->group, &user, &system), left;

	if (used < 0)
		return;
	left = s->l->spec.cpu_time_ms - used / 1000;
	if (left <= 0) {
		s->resource = "cpu";
		s->resource_limit = s->l->spec.cpu_time_ms;
		super_raise(s, EV_LIMIT);
		return;
	}
	/* Two processors use it up twice as fast. Not more often than every 10 ms. */
	left /= 2;
	s->cpu_due = now_ms() + (left < 10 ? 10 : left > 1000 ? 1000 : left);
}

/* The notice comes before the killing is counted, and sometimes nothing is killed: looked at
 * again, ever more rarely. */
static void check_oom(struct super *s)
{
	if (!group_oom(&s->l->group, s->l->spec.memory, &s->resource_limit)) {
		s->oom_wait = s->oom_wait ? s->oom_wait * 2 : OOM_AGAIN_MS;
		s->oom_due = s->oom_wait < OOM_GIVE_UP_MS ? now_ms() + s->oom_wait : 0;
		return;
	}
	s->oom_due = 0;
	s->resource = "memory";
	super_raise(s, EV_LIMIT);
}

static void timers(struct super *s)
{
	int64_t now = now_ms();

	(void)passed(&s->look_due, now);
	super_reap(s); /* looks, and asks for the next look where it must */
	if (passed(&s->startup_due, now))
		super_raise(s, EV_STARTUP_DUE);
	if (passed(&s->timeout_due, now))
		super_raise(s, EV_TIMEOUT_DUE);
	if (passed(&s->grace_due, now))
		super_raise(s, EV_GRACE_DUE);
	if (passed(&s->cpu_due, now))
		check_cpu(s);
	if (passed(&s->oom_due, now))
		check_oom(s);
	if (passed(&s->sweep_due, now) && s->state == ST_STOPPING)
		grace_over(s);
	s->dirty = true;
}

static void oom(struct super *s)
{
	uint64_t v;

	if (!s->l->group.v2 && read(s->l->group.oom, &v, sizeof(v)) < 0)
		return;
	s->oom_wait = 0;
	check_oom(s);
}

static void child_ended(struct super *s)
{
	struct signalfd_siginfo si;

	while (read(s->sigfd, &si, sizeof(si)) > 0)
		;
	super_reap(s);
	/* Orphans of what we killed have come to us. */
	if (s->killed && s->state == ST_STOPPING && !s->empty)
		grace_over(s);
}

static void pump(struct super *s, unsigned i)
{
	uint64_t before = s->out[i].len;
	int r = output_pump(&s->out[i], PUMP_MAX);

	if (s->out[i].len != before)
		s->dirty = s->busy = true;
	if (r < 0 && s->tty && s->in >= 0) {
		close(s->in);
		s->in = -1;
	}
}

static void on_event(struct super *s, const struct epoll_event *e)
{
	unsigned src = (unsigned)(e->data.u64 >> 32), index = (unsigned)e->data.u64;
	uint64_t n;

	switch (src) {
	case SRC_SIGNAL:
		child_ended(s);
		break;
	case SRC_TIMER:
		if (read(s->timerfd, &n, sizeof(n)) == sizeof(n))
			timers(s);
		break;
	case SRC_LISTEN:
		control_accept(s);
		break;
	case SRC_OUT:
	case SRC_ERR:
		pump(s, src - SRC_OUT);
		break;
	case SRC_IN:
		if (s->l->infd >= 0 && s->in >= 0)
			start_feed(s);
		else
			control_feed(s);
		break;
	case SRC_SPAWN:
		start_see_spawn(s);
		break;
	case SRC_OOM:
		oom(s);
		break;
	default:
		control_event(s, index, e->events);
	}
}

static void look_at_everything(struct super *s)
{
	child_ended(s);
	start_see_spawn(s);
	timers(s);
	control_accept(s);
	control_poll(s);
	for (unsigned i = 0; i < 2; i++)
		pump(s, i);
	if (s->l->group.oom >= 0)
		oom(s);
	if (s->in_waits && s->l->infd >= 0 && s->in >= 0)
		start_feed(s);
	else if (s->in_waits)
		control_feed(s);
}

static void loop(struct super *s)
{
	struct epoll_event ev[16];

	while (s->state != ST_TERMINAL) {
		int n;

		arm(s);
		n = epoll_wait(s->epfd, ev, ARRAY_LEN(ev),
			       s->deaf   ? DEAF_MS
			       : s->busy ? IDLE_MS
					 : -1);
		if (s->deaf) {
			look_at_everything(s);
		} else if (n == 0) {
			output_idle();
			s->busy = false;
		}
		for (int i = 0; i < n && s->state != ST_TERMINAL; i++)
			on_event(s, &ev[i]);
		if (s->dirty && s->state != ST_TERMINAL) {
			s->dirty = false;
			control_notify(s);
		}
	}
}

static int set_up(struct super *s)
{
	const struct spec *sp = &s->l->spec;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	s->sigfd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	s->timerfd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	s->head = mmap(NULL, JOURNAL_FIRST, PROT_READ | PROT_WRITE, MAP_SHARED, s->l->jfd, 0);
	/* A process forked from here must not keep the file (and with it the lock) alive. */
	if (s->head != MAP_FAILED)
		madvise(s->head, 4096, MADV_DONTFORK);
	if (s->sigfd < 0 || s->timerfd < 0 || s->epfd < 0 || s->head == MAP_FAILED)
		return fail(&s->fail, WIRE_E_UNAVAILABLE, "supervisor", errno,
			    "cannot set the supervisor up: %m");
	output_init(&s->out[0], WIRE_STDOUT, s->l->recfd, -1, sp->output_limit,
		    s->head + JOURNAL_LIVE);
	output_init(&s->out[1], WIRE_STDERR, s->l->recfd, -1, sp->output_limit,
		    s->head + JOURNAL_LIVE + 32);
	s->out[0].mode = s->out[1].mode = agent.file_mode;
	super_watch_fd(s, EPOLL_CTL_ADD, s->sigfd, EPOLLIN, super_tag(SRC_SIGNAL, 0));
	super_watch_fd(s, EPOLL_CTL_ADD, s->timerfd, EPOLLIN, super_tag(SRC_TIMER, 0));
	super_watch_fd(s, EPOLL_CTL_ADD, s->l->listenfd, EPOLLIN, super_tag(SRC_LISTEN, 0));
	control_add(s, s->l->answerfd);
	return 0;
}

void super_main(struct launch *l)
{
	static struct super s;

	s.l = l;
	slice_str(l->spec.id, s.id, sizeof(s.id));
	s.in = s.report = -1;
	s.session = l->spec.kind == WIRE_KIND_SESSION;
	s.view.level = "none";
	s.view.rootfd = -1;
	s.startup_due = l->startup_due;
	if (set_up(&s) < 0) {
		seal_failed(l, &s.fail);
		_exit(1);
	}
	start_begin(&s);
	loop(&s);
	control_notify(&s);
	unlinkat(l->recfd, "control", 0);
	if (s.session)
		session_hand_over(&s);
	group_remove(&l->group);
	clock_worked(); /* from now on the sandbox may be idle */
	_exit(0);
}
