/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_LIMITS_H
#define BERTH_BASE_LIMITS_H
/*
 * Every maximum, with its reason. A buffer that grows names one of these at birth. The limits of
 * the agent protocol are the protocol's (wire/proto.h, docs/protocol/agent.md), as the agent shares
 * them.
 */

/* Execution ids: [A-Za-z0-9][A-Za-z0-9._-]{0,127}. A directory name (255) with room for suffixes.
 */
#define EXECUTION_ID_MAX 128
/* Sandbox names: [A-Za-z0-9][A-Za-z0-9._-]{0,62}. They must fit a DNS label and a unit name. */
#define SANDBOX_NAME_MAX 63

/* The kernel's own: one argument or environment string with its NUL (MAX_ARG_STRLEN). */
#define ARG_STRING_MAX (128 * 1024)
/* argv and envp together: the kernel's cap of 3/4 of _STK_LIM (8 MiB), whatever the stack limit. */
#define ARG_TOTAL_MAX (6 * 1024 * 1024)
/* Strings in argv or envp: more do not fit ARG_TOTAL_MAX (a pointer and a NUL each). */
#define ARG_COUNT_MAX (ARG_TOTAL_MAX / 9)

/* Bounded input of an execution, default of --input-limit. */
#define INPUT_DEFAULT_MAX (16L * 1024 * 1024)
/* Largest --input-limit: the bytes cross as frames and are hashed first. */
#define INPUT_MAX (1024L * 1024 * 1024)

/* Output kept per stream unless --output-limit says otherwise. */
#define OUTPUT_DEFAULT_MAX (1024L * 1024 * 1024)
/* logs --json --max-bytes, default. */
#define LOGS_JSON_DEFAULT_MAX (1024L * 1024)

/* A message in a state ("one line of at most 500 bytes", CLI contract). */
#define STATE_MESSAGE_MAX 500

/* A path that we build: PATH_MAX with room for the name of a temporary file. */
#define PATH_BUF_MAX 4352
/* A small text file that is read whole (/proc, os-release, markers, settings). */
#define SMALL_FILE_MAX (1024L * 1024)
/* One JSON document that the CLI prints. */
#define JSON_OUT_MAX (64L * 1024 * 1024)
/* An --env-file. */
#define ENV_FILE_MAX (8L * 1024 * 1024)
/* What a bounded execute() gives back: the most that the frames of one answer may be. */
#define EXECUTE_OUTPUT_MAX (64L * 1024 * 1024)

/* copy_fd's buffer: pipes are 64 KiB; four of them per system call measured no slower than 1 MiB.
 */
#define COPY_CHUNK (256 * 1024)
/* Depth of a directory tree that is walked with one fd per level. */
#define TREE_DEPTH_MAX 256

/* Largest duration: beyond it the sum of a few in ns still fits int64_t. 100 years. */
#define DURATION_MAX_MS (100LL * 365 * 24 * 3600 * 1000)

#endif
