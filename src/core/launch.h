/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_LAUNCH_H
#define BERTH_CORE_LAUNCH_H
/*
 * One launch: what is to be run, its digests, and asking the agent for it once.
 */
#include "base/strv.h"
#include "core/road.h"
#include "core/sha256.h"
#include "wire/spec.h"

#define LAUNCH_SALT_LEN 16
/* What the sandbox may take beyond the startup timeout before its silence is a failure. */
#define LAUNCH_SLACK_MS 5000

/* The parts of a request, in the order of SK_PART. Another value in one of them is another request.
 */
#define LAUNCH_PART_MAP(X)                               \
	X(ARTIFACT, "artifact", "another artifact")      \
	X(COMMAND, "command", "another command")         \
	X(ARGS, "args", "other args")                    \
	X(ENV, "env", "another env")                     \
	X(WORKDIR, "workdir", "another workdir")         \
	X(INPUT, "input", "another input")               \
	X(INSTALL, "install", "another install command") \
	X(TIMEOUT, "timeout", "another timeout")         \
	X(GRACE, "grace", "another grace")               \
	X(LIMITS, "limits", "other limits")              \
	X(OUTPUT_LIMIT, "output limit", "another output limit")

enum launch_part {
#define LAUNCH_PART_ENUM_(id, name, text) LAUNCH_PART_##id,
	LAUNCH_PART_MAP(LAUNCH_PART_ENUM_)
#undef LAUNCH_PART_ENUM_
		LAUNCH_PARTS
};

/* A checked request. Owns env and args; everything else is kept by whoever made it. Empty:
 * LAUNCH_INIT; freed with launch_done(). */
struct launch {
	const char *id, *mode;
	struct strv args;
	struct strv env;                    /* "K=V", sorted by name, each name once */
	char *workdir;                      /* normal form */
	char *input_path;                   /* normal form; NULL */
	const char *tree, *layer, *install; /* NULL: none */
	const char *from; /* the record whose input is taken; NULL: input is sent */
	int input_kind;   /* enum spec_input */
	const void *input;
	size_t input_len;
	uint8_t input_sha[SHA256_LEN]; /* of the bytes, when they are sent */
	bool input_part_known; /* instead: the recorded digest of the part, good for this salt only
				*/
	uint8_t input_part[SHA256_LEN];
	int64_t startup_ms, timeout_ms, grace_ms, output_limit;
	int64_t memory, pids, cpus_milli, cpu_time_ms, file_size, open_files;
	bool record_env, durable;
	uint8_t salt[LAUNCH_SALT_LEN];
};

void launch_init(struct launch *l);
void launch_done(struct launch *l);
BERTH_DEFINE_AUTO(launch, struct launch, launch_done);

/*
 * Checks and takes a NULL-terminated command: not empty, no CR or LF in its first word, no argument
 * longer than the kernel takes. BERTH_E_INVALID says which one.
 */
int launch_set_args(struct launch *l, const char *const *command,
		    struct berth_error *err) attr_warn_unused;
/* Sets one variable (the last one of a name wins). */
int launch_set_env(struct launch *l, const char *key_value,
		   struct berth_error *err) attr_warn_unused;
/* Sorts env and checks what the kernel takes for argv and environment together. Once, behind the
 * last launch_set_…. */
int launch_check_sizes(struct launch *l, struct berth_error *err) attr_warn_unused;
/* Input as bytes, or none. Checks path and bound and hashes the bytes (borrowed until the launch is
 * done). */
int launch_set_input(struct launch *l, int kind, const char *path, const void *bytes, size_t len,
		     int64_t limit, struct berth_error *err) attr_warn_unused;
/* "." for NULL; BERTH_E_INVALID when it leaves the artifact. */
int launch_set_workdir(struct launch *l, const char *rel, struct berth_error *err) attr_warn_unused;

/* The digest of one part under a salt. */
int launch_part_digest(const struct launch *l, enum launch_part part,
		       const uint8_t salt[LAUNCH_SALT_LEN], uint8_t ret[SHA256_LEN],
		       struct berth_error *err) attr_warn_unused;
/*
 * Is a recorded spec the same request? 0: yes; 1: no, *ret_text says what is another ("another
 * command"; static).
 */
int launch_compare(const struct launch *l, struct wire_slice spec, const char **ret_text,
		   struct berth_error *err) attr_warn_unused;
/* The spec as bytes (malloc'ed; owned by caller, wiped and freed with launch_free_spec()). */
int launch_encode(const struct launch *l, uint8_t **ret, size_t *ret_n,
		  struct berth_error *err) attr_warn_unused;
void launch_free_spec(uint8_t *p, size_t n);

enum launch_result {
	LAUNCH_DONE = 0,
	LAUNCH_NEEDS_TREE = 1, /* nothing was changed */
	LAUNCH_NEEDS_LAYER = 2,
	LAUNCH_NEEDS_INPUT = 3,
};

/*
 * Asks for the launch. LAUNCH_DONE: *ret is the state, not `starting` any more; *ret_existed: the
 * id was taken by the same request and nothing was launched. BERTH_E_CONFLICT: by another one,
 * which *err names. A stream that breaks is followed by the same question on another one: the id is
 * reserved before anything runs, so that is never a second launch. BERTH_E_TIMEOUT with a hint: no
 * answer within startup timeout + 5 s.
 */
int launch_run(struct berth_sandbox *s, const struct launch *l, bool init_is_life,
	       struct berth_status *ret, bool *ret_existed,
	       struct berth_error *err) attr_warn_unused;

#endif
