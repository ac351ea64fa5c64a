/* SPDX-License-Identifier: MIT */
/* init.h: what others ask of init, what they do for it, and what its own files share. */
#ifndef AGENT_INIT_H
#define AGENT_INIT_H

#include "agent/agent.h"
#include "agent/conn.h"

/* ---- from any process of this sandbox ---- */

/* One message of enum init_msg without fds. */
int init_tell(char kind);
/* A whole message with up to two fds. 0 or -1. */
int init_send(struct init_message *msg, const int *fds, size_t n);
/* INIT_MSG_END: all is sealed; cause is what DIR/ended will say ("stopped" "idle" "expired"). */
int init_tell_end(const char *cause);
/* Fills agent.hash. */
int agent_find_hash(void);
/* Cancels every execution and session with this cause and waits until all are sealed; ends what
 * EXEC has started. Blocks. grace -1: the
 * recorded ones. */
void stop_everything(const char *cause, int64_t grace);
/* Executions and sessions that are alive. */
int64_t records_alive(void);

/* ---- in init only ---- */

/* Who woke the loop. index is for the owner of the source. */
enum init_source {
	INIT_SIGNALS,
	INIT_LISTEN,
	INIT_MESSAGE,
	INIT_DRAIN,  /* index: the fd */
	INIT_PORT,   /* ports.c; index: which */
	INIT_IDLE,   /* clock.c */
	INIT_EXPIRY, /* clock.c */
	INIT_NETWATCH,
};
/* 0, or -1 and errno. */
int init_watch(int fd, enum init_source source, unsigned index);
void init_unwatch(int fd);
/* A child that may block: it has only DIR, home and the way to init open. As fork(). */
pid_t init_fork_helper(void);

/* facts.c: fills agent. */
int facts_find(struct agent_fail *f);

/* handed.c: every fd that was handed in is of the kind that its option wants, and with walls there
 * is no other. They are CLOEXEC afterwards. */
struct init_options;
int handed_check(const struct init_options *o, struct agent_fail *f);

/* dir.c: enters DIR, making what is missing in it; takes init.lock (0; 1 another init has it and
 * listens; -1 and *f) and lets go of it; writes `incarnation`; makes init.sock and returns it
 * listening; writes `ended`. */
int dir_enter(const char *path, struct agent_fail *f);
int dir_lock(struct agent_fail *f);
void dir_unlock(void);
int dir_incarnation(struct agent_fail *f);
int dir_listen(struct agent_fail *f);
void dir_ended(const char *cause);

#endif
