/* SPDX-License-Identifier: MIT */
/*
 * spec.h: what is to be run. The same bytes travel in LAUNCH and are the first entry of the
 * journal. Pure: no I/O, no allocation. A decoded spec borrows from the bytes it was decoded from.
 */
#ifndef WIRE_SPEC_H
#define WIRE_SPEC_H

#include "wire/frame.h"

enum spec_key {
	SK_ID = 1,
	SK_KIND = 2,     /* wire_kind, default execution */
	SK_MODE = 3,     /* "worker" | "job" */
	SK_ARG = 4,      /* repeated; the first is the command */
	SK_ENV = 5,      /* repeated "K=V": the caller's -e; not in the record with RECORD_ENV=0 */
	SK_ENV_NAME = 6, /* repeated: names of all -e variables, in order (always recorded) */
	SK_RECORD_ENV = 7,  /* default 1 */
	SK_WORKDIR = 8,     /* relative to the artifact root, default "." */
	SK_INPUT_KIND = 9,  /* 0 none, 1 stdin, 2 file */
	SK_INPUT_PATH = 10, /* artifact-relative */
	SK_INPUT_LEN = 11,
	SK_TREE = 12,       /* artifact: 64 hex digits; absent: no artifact (sessions) */
	SK_LAYER = 13,      /* install layer: 64 hex digits; absent: none */
	SK_INSTALL = 14,    /* the install command, for relaunch and comparison; absent: none */
	SK_STARTUP_MS = 15, /* default 10000 */
	SK_TIMEOUT_MS = 16, /* 0: none (the default) */
	SK_GRACE_MS = 17,   /* default 5000; 0: KILL at once */
	SK_MEMORY = 18,     /* bytes; 0 none, for all limits */
	SK_PIDS = 19,
	SK_CPUS_MILLI = 20,
	SK_CPU_TIME_MS = 21,
	SK_FILE_SIZE = 22,
	SK_OPEN_FILES = 23,
	SK_OUTPUT_LIMIT = 24, /* bytes per stream; -1: none; default 1 GiB */
	SK_DURABLE = 25,      /* default 1; 0: no fsync */
	SK_SALT = 26,     /* 16 bytes; digests below are SHA-256(salt || name || NUL || value) */
	SK_PART = 27,     /* repeated: name, NUL, 32 bytes: the request, part by part */
	SK_TTY_COLS = 28, /* a pty is wanted when both are > 0 (sessions) */
	SK_TTY_ROWS = 29,
	SK_STDIN_OPEN = 30, /* sessions: 1 = stdin is a pipe fed by STDIN requests */
	SK_DETACH_MS = 31,  /* sessions: how long it may run unattended; 0 no limit (later issue) */
	SK_FROM = 32, /* relaunch: the record whose input is taken; none follows the LAUNCH then */
};

enum spec_input { SPEC_INPUT_NONE = 0, SPEC_INPUT_STDIN = 1, SPEC_INPUT_FILE = 2 };

#define SPEC_ID_MAX       128u
#define SPEC_OUTPUT_LIMIT (INT64_C(1) << 30)
#define SPEC_STARTUP_MS   10000
#define SPEC_GRACE_MS     5000
#define SPEC_INPUT_MAX    (INT64_C(1) << 30) /* INPUT_MAX of base/limits.h */

/* A decoded spec. Repeated fields are counted; walk them with spec_next(). */
struct spec {
	struct wire_slice raw; /* all of it */
	struct wire_slice id, mode, workdir, input_path, tree, layer, install, salt, from;
	size_t n_args, n_env, n_parts;
	size_t args_bytes, env_bytes; /* including one NUL each */
	int64_t kind, record_env, input_kind, input_len;
	int64_t startup_ms, timeout_ms, grace_ms;
	int64_t memory, pids, cpus_milli, cpu_time_ms, file_size, open_files;
	int64_t output_limit, durable, tty_cols, tty_rows, stdin_open, detach_ms;
};

/*
 * Decodes and checks: well formed, no field twice but the repeated ones, a valid id (and FROM), at
 * least one argument, a command that is not empty, no NUL where there must be none, env of the form
 * NAME=VALUE (NAME not empty), lower case hex digits of tree and layer, numbers in range (output
 * limit not 0), working directory (of executions) and input path lexically inside, the latter the
 * name of a file. Absent texts have p = NULL, but for workdir. Returns 0, or -1 and a static text
 * in *ret_why. *ret is untouched on failure.
 */
int spec_decode(const void *p, size_t n, struct spec *ret, const char **ret_why);
/* Walks repeated fields: *cursor starts at 0. False when there is no further field with that
 * key. */
bool spec_next(const struct spec *s, uint16_t key, size_t *cursor, struct wire_slice *ret);
/* Copies a spec without the fields of one key (SK_ENV for records that keep no environment). */
void spec_copy_without(struct wire_w *w, const void *p, size_t n, uint16_t key);
bool spec_id_valid(const void *p, size_t n);
/* Lexically inside: not empty, no NUL, relative, and no prefix of it climbs above its start.
 * "..data/x" and "a/../b" are inside. */
bool spec_path_inside(const void *p, size_t n);

#endif
