/* SPDX-License-Identifier: MIT */
/*
 * stagebox.h: an isolated sandbox, made by calling `berth-agent stage` as the library does, for the
 * tests in this folder. Only for root; a caller that is an ordinary user is uid USER_UID in a mount
 * namespace of this process' own, in which that user has subordinate ids.
 */
#ifndef TESTS_STAGE_STAGEBOX_H
#define TESTS_STAGE_STAGEBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of this run of this program, so that several can run at once. */
extern unsigned box_slot;
/* Below the first one that berth itself gives to a sandbox. */
#define ROOT_BASE (1878990848u + 8 * box_slot)
#define USER_UID  (20011u + box_slot)
#define USER_BASE (3000000u + 65536 * box_slot)

enum box_kind { BOX_ROOT, BOX_USER, BOX_SINGLE, BOX_KINDS };
extern const char *const box_kinds[BOX_KINDS];

struct stagebox {
	enum box_kind kind;
	uid_t base;      /* of init, on the host; the worker's is one more (single: the same) */
	char dir[512];   /* the sandbox's folder, absolute */
	char berth[520]; /* its DIR */
	pid_t init;      /* host pid; 0: none */
	char said[2048]; /* what stage wrote to stderr */
	char line[256];  /* what init said on the ready pipe, without the newline */
};

/* Makes the world of an ordinary user for this process and its children, once; a copy of the agent
 * that everybody may execute, in the working directory. 0 or -1. */
int box_world(void);
/* The folder NAME of the caller below the working directory, empty. */
int box_make(struct stagebox *b, enum box_kind kind, const char *name);
/* Runs stage with these words besides (NULL-terminated), waits for its word, then ends bubblewrap's
 * monitor as the library does. 0: "ready"; -1: see said and line. */
int box_start(struct stagebox *b, const char *const *options);
/* The pieces of that: the words that it is called with (argv has room for 64; ready: an fd number
 * or -1), and becoming the caller in a child. */
void box_argv(const struct stagebox *b, const char *const *options, int ready, const char **argv);
int box_become(const struct stagebox *b);
/* Kills init and waits until nothing of the sandbox's processes is left. 0, or -1: something is. */
int box_kill(struct stagebox *b);
/* Runs erase as the caller. Its exit status. */
int box_erase(struct stagebox *b);

/*
 * Runs a script with sh inside the sandbox: as uid 0 or 1000 there. stdout and stderr are in out,
 * NUL-terminated and without the last newline. Its exit status, or -1.
 */
int box_sh(const struct stagebox *b, uid_t uid, const char *script, char *out, size_t cap);

/* Live processes, zombies excepted, of the sandbox's host uids and of the ordinary user. */
size_t box_processes(const struct stagebox *b);
/* A field of /proc/PID/status, its value without leading blanks; static. */
const char *status_field(pid_t pid, const char *name);
/* The pid of a process of the sandbox's first uid whose name is berth-agent; 0: none. */
pid_t box_find_init(const struct stagebox *b);

#endif
