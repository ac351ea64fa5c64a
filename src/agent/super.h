/* SPDX-License-Identifier: MIT */
/* super.h: the supervisor of one execution or session. */
#ifndef AGENT_SUPER_H
#define AGENT_SUPER_H

#include <sys/resource.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/output.h"
#include "agent/view.h"

/* What launch.c hands over, by fork. */
struct launch {
	struct spec spec; /* its slices and argv, envp live in mem */
	struct arena mem;
	char **argv, **envp;
	int recfd;    /* the record's directory */
	int jfd;      /* the journal, with the lock */
	size_t jend;  /* where the next entry goes */
	int infd;     /* `input`, or -1 */
	int listenfd; /* `control`, listening */
	int answerfd; /* a first control connection: the launcher waits there */
	struct group group;
	int level; /* enum agent_level */
	bool own_mnt, in_userns;
	int64_t startup_due; /* now_ms() clock */
};

enum super_state { ST_STARTING, ST_RUNNING, ST_STOPPING, ST_DRAINING, ST_TERMINAL, ST_N };

enum super_event {
	EV_VIEW,    /* the view is ready */
	EV_STARTED, /* the command has been executed */
	EV_BROKEN,  /* launching failed; super.fail says why */
	EV_EXIT,    /* the main process has ended */
	EV_EMPTY,   /* nothing of the tree is left */
	EV_CANCEL,  /* CANCEL; super.ask_grace, super.ask_message */
	EV_STARTUP_DUE,
	EV_TIMEOUT_DUE,
	EV_GRACE_DUE,
	EV_LIMIT,   /* a group's limit was hit that ends the execution; super.resource */
	EV_DRAINED, /* the pipes are empty */
	EV_N
};

/* Fixed by the first event that decides it. */
enum super_cause {
	CAUSE_NONE,
	CAUSE_EXIT,
	CAUSE_CANCEL,
	CAUSE_STARTUP,
	CAUSE_TIMEOUT,
	CAUSE_LIMIT,
	CAUSE_FAILED
};

struct super {
	struct launch *l;
	int state, cause;
	bool session;
	char id[SPEC_ID_MAX + 1];
	uint8_t *head; /* the journal's first 512 bytes, mapped shared */
	struct view view;
	pid_t main, copier;
	bool main_done, copier_done, empty, killed;
	int status, copier_status;
	struct rusage main_usage;
	int64_t started_ms;
	int64_t startup_due, timeout_due, grace_due, sweep_due, cpu_due, oom_due; /* 0: not armed */
	int64_t oom_wait, look_due;
	int64_t ask_grace;
	const char *ask_message, *message;
	const char *resource;
	int64_t resource_limit;
	struct agent_fail fail;
	struct output out[2];
	int report;         /* of the spawn that is under way, or -1 */
	int in;             /* write end of the worker's stdin, or the pty's master; -1 */
	bool tty, in_waits; /* in_waits: EPOLLOUT is armed */
	uint64_t in_taken;  /* bytes of STDIN that the worker's pipe took */
	int epfd, timerfd, sigfd;
	bool dirty;                /* watchers may have to be told */
	bool deaf;                 /* epoll does not take all fds */
	bool busy;                 /* output has come lately */
	uint8_t state_entry[1024]; /* payloads, for replies */
	size_t state_len;
	uint8_t terminal_entry[3072];
	size_t terminal_len;
};

struct super_cell {
	void (*act)(struct super *s);
	uint8_t to;
};
extern const struct super_cell super_table[ST_N][EV_N];

/* Never returns. Must be the only thing that its process does. */
void super_main(struct launch *l) attr_noreturn;

void super_raise(struct super *s, int event);
/* A signal to the whole tree; SIGCONT follows SIGTERM. */
void super_signal(struct super *s, int signo);
/* Looks at what has ended before something else is decided. */
void super_reap(struct super *s);
/* wire_state for watchers. */
int super_wire_state(const struct super *s);

/* ---- start.c ---- */

/* Makes the view, here or in a child: ends in EV_VIEW or EV_BROKEN. */
void start_begin(struct super *s);
/* The child that copied has been reaped. */
void start_copied(struct super *s);
/* Starts the command: ends in EV_STARTED or EV_BROKEN, when start_see_spawn() has the answer. */
void start_main(struct super *s);
void start_see_spawn(struct super *s);
/* Moves bounded input on; closes stdin behind its last byte. */
void start_feed(struct super *s);

/* ---- seal.c ---- */

/* Before the command is given to the kernel: from here on it may have run, so a supervisor that
 * dies leaves `unknown`, not `failed`. False: the entry could not be written, and nothing may be
 * run. */
bool seal_executing(struct super *s);
void seal_running(struct super *s);
void seal_terminal(struct super *s);
/* A TERMINAL entry `failed`/launch for a launch that got no supervisor. */
void seal_failed(const struct launch *l, const struct agent_fail *f);

/* ---- control.c ---- */

enum {
	SRC_SIGNAL = 1,
	SRC_TIMER,
	SRC_LISTEN,
	SRC_OUT,
	SRC_ERR,
	SRC_IN,
	SRC_OOM,
	SRC_SPAWN,
	SRC_CONN
};
static inline uint64_t super_tag(unsigned src, unsigned index)
{
	return (uint64_t)src << 32 | index;
}
void super_watch_fd(struct super *s, int op, int fd, uint32_t events, uint64_t tag);

void control_add(struct super *s, int fd);
void control_accept(struct super *s);
void control_event(struct super *s, unsigned index, uint32_t events);
/* Answers the watchers that something has changed for. */
void control_notify(struct super *s);
/* When the next watcher's wait is over; 0: none. */
int64_t control_due(const struct super *s);
/* Looks at every connection, whether or not epoll said anything. */
void control_poll(struct super *s);
/* stdin can take more. */
void control_feed(struct super *s);
/* What a session left behind still holds its pipes: init empties them. */
void session_hand_over(struct super *s);
/* Opens the pty of a session: master (non-blocking) and slave. 0 or -1 and *f. */
int session_pty(const struct spec *spec, int *ret_master, int *ret_slave, struct agent_fail *f);

#endif
