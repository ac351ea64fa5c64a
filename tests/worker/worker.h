/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_WORKER_H
#define BERTH_TESTS_WORKER_H
/*
 * What the files of the test worker share. See worker.c for what it is.
 */
#include <stddef.h>
#include <stdint.h>

/* The operations of a run: argv from pos to end (one past the last). */
struct prog {
	char **argv;
	int pos, end;
};

struct op {
	const char *name;
	void (*fn)(struct prog *p);
};

extern const struct op ops_io[], ops_proc[], ops_file[];

/* The next word. The worker dies with 98 and a text when there is none. */
char *word(struct prog *p);
long long number(struct prog *p);
/* A signal by name (with or without SIG) or number. */
int signal_word(struct prog *p);
const char *signal_text(int signo);
/* An fd: "1", "2", "out" or "err". */
int fd_word(struct prog *p);
/* A path, "~/" being $HOME. Valid until the next call but three. */
const char *path_word(struct prog *p);
/* The block that follows, braces stripped; p goes behind it. */
struct prog block(struct prog *p);
/* Runs all operations; comes back when none is left. */
void run(struct prog p);
/* Writes all or dies (EPIPE included: exit 97). */
void put(int fd, const void *buf, size_t n);
void puts_fd(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* u32 length, little endian, and the bytes: how values of any kind are told to a test. */
void put_value(int fd, const void *buf, size_t n);
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Sleeps until a signal ends the process. */
_Noreturn void pause_for_ever(void);
/* Closed by `up`: the parent's `spawn` waits for it. -1: none. */
extern int up_fd;

#endif
