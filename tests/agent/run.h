/* SPDX-License-Identifier: MIT */
/*
 * run.h: launching, waiting and reading over a real agent, at every level, for the tests in
 * this folder.
 */
#ifndef TESTS_AGENT_RUN_H
#define TESTS_AGENT_RUN_H

#include "client.h"
#include "wire/journal.h"
#include "wire/spec.h"

/* What differs from the defaults of a spec. Zeroes are the defaults (records are not fsynced
 * unless durable is set). */
struct opts {
	int64_t kind, startup_ms, timeout_ms;
	bool grace_set;
	int64_t grace_ms;
	int64_t memory, pids, cpus_milli, cpu_time_ms, file_size, open_files;
	int64_t output_limit; /* 0: the default; -1: none */
	int64_t cols, rows, stdin_open;
	bool durable, no_record_env;
	const void *input; /* with input_path NULL: stdin */
	size_t input_len;
	const char *input_path, *workdir, *tree;
	const char *const *env;
};

/* A STATUS reply, kept. */
struct state {
	int code; /* of ERROR, 0 for a reply, -1 when the stream ended */
	bool existed, held, same_boot, same_inc;
	bool has_spec;
	struct record_status st; /* its slices point into bytes */
	char message[512], phase[32], resource[32], containment[16], view[16], stage[32], need[16];
	uint8_t bytes[16384];
	size_t n;
};

/* Programs of tests/worker. */
const char *worker_binary(void);

/* argv: NULL-terminated. */
int run_launch(struct client *c, const char *id, const struct opts *o, const char *const *argv,
	       struct state *ret);
/* The test worker with these operations. */
int run_worker(struct client *c, const char *id, const struct opts *o, const char *const *ops,
	       struct state *ret);
/* WATCH TERMINAL_ONLY; kind 0: execution. Returns the state, or -1. */
int run_wait(struct client *c, const char *id, int64_t kind, struct state *ret);
int run_status(struct client *c, const char *id, int64_t kind, struct state *ret);
/* CANCEL; grace -1: the recorded one. */
int run_cancel(struct client *c, const char *id, int64_t kind, int64_t grace_ms, struct state *ret);
/* A request with ID and KIND alone. Returns client_code(). */
int run_simple(struct client *c, uint8_t type, const char *id, int64_t kind, uint16_t key,
	       int64_t value);
/* WATCH until stream has at least n bytes, or the end. */
int run_until_output(struct client *c, const char *id, int64_t kind, int stream, uint64_t n,
		     struct state *ret);
/* READs from offset until nothing more comes now: c->data of each is joined into the returned
 * memory (free it). Gaps are skipped; *ret_gap
 * is the number of bytes that were. */
char *run_read(struct client *c, const char *id, int64_t kind, int stream, size_t *ret_n,
	       uint64_t *ret_gap);
/* Fills a state from the final frame of c. */
int run_take(struct client *c, struct state *ret);

/* How many living processes have this word among their arguments (berth-agent left out); their
 * pids in pids when it is not NULL. */
int marked(const char *word, pid_t *pids, int max);
/* Waits until there are n of them. */
bool marked_until(const char *word, int n);
/* The supervisor of a worker: the nearest berth-agent above it. */
pid_t supervisor_of(pid_t worker);
pid_t parent_of(pid_t pid);
/* A child of this process by the name in /proc/PID/comm; 0: none. */
pid_t child_named(pid_t parent, const char *name);

/* Levels: subtests run once for each. */
struct level {
	const char *name; /* as containment says it */
	uid_t uid;
	const char *options[4];
};
extern const struct level levels[];
extern const unsigned n_levels;
#define EACH_LEVEL(l) for (const struct level *l = levels; l < levels + n_levels; l++)
/* The last level needs what not every machine has; the test that meets it there is skipped with
 * what it did before. */
#define LEVEL_REQUIRE(l)                                                          \
	do {                                                                      \
		if (strcmp((l)->name, "cgroup") == 0)                             \
			TEST_REQUIRE("cgroup2", "no cgroup v2 to write to here"); \
	} while (0)

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
