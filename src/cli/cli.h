/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CLI_CLI_H
#define BERTH_CLI_CLI_H
/*
 * What the files of the command line share. One process runs one verb, so the parsed command line
 * is one global, `cli`, and each verb's option values are static variables of its own file.
 *
 * Verbs and options are declared once, in tables: parsing, --help, the manual page and the
 * completions of bash, zsh and fish all come out of them (gen.c).
 */
#include <stdarg.h>

#include <berth/berth.h>

#include "base/attr.h"

/* ── options ────────────────────────────────────────────────────────────────────────────────── */

enum opt_kind {
	OPT_FLAG,     /* bool */
	OPT_STRING,   /* const char *, not empty */
	OPT_DURATION, /* int64_t, milliseconds */
	OPT_SIZE,     /* int64_t, bytes */
	OPT_COUNT,    /* int64_t */
	OPT_MILLI,    /* int64_t, thousandths */
	OPT_LIST,     /* struct opt_list: every use is kept, in order */
};

enum opt_flag {
	OPT_ZERO = 1,   /* 0 is allowed where the kind refuses it */
	OPT_NONE = 2,   /* the word "none" is -1 */
	OPT_ONCE = 4,   /* a second use is an error; otherwise the last one counts */
	OPT_FILE = 8,   /* the value is a file (completion) */
	OPT_DIR = 16,   /* the value is a directory */
	OPT_PLAIN = 32, /* a size without units in its help */
};

struct cli_opt {
	const char *name; /* long, without "--"; NULL ends a table */
	char letter;      /* short, or 0 */
	enum opt_kind kind;
	unsigned flags;      /* enum opt_flag */
	const char *arg;     /* what the value is called in help, NULL for flags */
	const char *choices; /* "a|b": only these values; NULL: any */
	const char *help;    /* one line, no full stop */
	const char *deflt;   /* shown in help, NULL: none */
	void *value;         /* what `kind` says; OPT_LIST: struct opt_list */
};

/* Uses of list options in the order of the command line. */
struct opt_use {
	const struct cli_opt *opt;
	const char *value;
};
struct opt_list {
	struct opt_use *items;
	size_t n;
};

/* ── verbs ──────────────────────────────────────────────────────────────────────────────────── */

enum verb_flag {
	VERB_COMMAND = 1,    /* takes `-- CMD [ARG…]` */
	VERB_STREAMS = 2,    /* stdout is a worker's: no --json; failures of berth are 125 */
	VERB_WATCHES = 4,    /* a failure that has no code of its own is 125, not 1 */
	VERB_NO_SANDBOX = 8, /* -s and --remote-dir have no meaning (help leaves them out) */
};

struct cli_verb {
	const char *name;
	const char *args;    /* after the name, in help: "DIR [OPTIONS] -- CMD [ARG…]" */
	const char *summary; /* one line */
	const char *text;    /* paragraphs of the manual page, in roff with \n between lines */
	const struct cli_opt *const *options; /* tables, NULL at the end; may be NULL */
	const struct cli_verb *subs;          /* verbs below this one, ends with a NULL name */
	unsigned flags;
	unsigned min_args, max_args;
	const char *const *arg_names; /* for "no DIR given"; max_args of them */
	int (*run)(void);             /* the exit code */
};

extern const struct cli_verb cli_verbs[];
extern const struct cli_opt cli_global_options[];

/* ── the command line ───────────────────────────────────────────────────────────────────────── */

struct cli {
	const struct cli_verb *verb;
	char what[48]; /* "sandbox start", for messages */

	const char *sandbox_spec, *remote_dir, *state_dir;
	bool json, quiet, verbose, help, version;
	bool json_given; /* the option itself; json may be set by looking ahead */
	bool watching;   /* as VERB_WATCHES, for logs -f */

	const char **args; /* positional arguments */
	size_t n_args;
	const char *const *command; /* NULL-terminated; NULL when there was no `--` */

	const char *status_file, *status_file_given; /* --status-file of run and exec */
	int status_fd;

	struct berth *berth;
	struct berth_sandbox *sandbox;
};

extern struct cli cli;

/* Parses argv into cli and runs the verb; the exit code. */
int cli_main(int argc, char **argv);
/* 0, or the exit code after the error was printed. */
int cli_parse(int argc, char **argv) attr_warn_unused;
/* Opens the context, and the sandbox with enum berth_open_flags. 0 or an exit code. */
int cli_open_context(void) attr_warn_unused;
int cli_open(unsigned flags) attr_warn_unused;
/* A second handle to the same sandbox, for a thread that must leave the first one alone. Both are
 * the caller's to free. */
int cli_reopen(struct berth **ret_b, struct berth_sandbox **ret_s,
	       struct berth_error *err) attr_warn_unused;
/* "PROVIDER:NAME" of the open sandbox. */
const char *cli_sandbox_name(void);

/* The option table that has a name or letter, looking at the verb's and then the global ones. */
const struct cli_opt *cli_option(const struct cli_verb *v, const char *name, size_t len);
/* The candidate nearest to @word when it is near enough to be meant, else NULL. */
struct nearest {
	const char *word;
	size_t len;
	const char *best;
	unsigned distance;
};
void nearest_try(struct nearest *n, const char *candidate);

void help_print_verb(const struct cli_verb *v, const char *path, bool to_stderr);
void help_print_all(bool to_stderr);
/* Calls fn with every key that specs may have. 0, or a failure of the library. */
int help_each_key(void (*fn)(void *arg, const char *provider, const char *key, const char *help),
		  void *arg);
int cmd_help_for(const char *const *names, size_t n);

/* ── messages and output (output.c) ─────────────────────────────────────────────────────────── */

/*
 * Reports *err in the one way: a line "berth: WHAT: WHY" on stderr, a hint line, the JSON object
 * on stdout with --json and in the status file. Returns the exit code of this verb for it.
 */
int cli_fail(const struct berth_error *err);
/* A usage error. @hint may be NULL: then "berth help VERB". Returns 2. */
int cli_usage(const char *hint, const char *fmt, ...) attr_printf(2, 3);
/* A line "berth: WHAT: …" that is no error, unless --quiet. */
void cli_note(const char *fmt, ...) attr_printf(1, 2);
void cli_hint(const char *fmt, ...) attr_printf(1, 2);
/* Value of an argument as far as it can be shown: up to '=', at most 64 bytes. */
const char *cli_shown(const char *arg, char buf[80]);

/* Exit code of run, wait and logs -f for a state. */
int state_exit_code(const struct berth_status *st);
/* "exited with code 3", "cancelled (SIGTERM)", "failed in install: …" into @buf; returns it. */
const char *state_words(const struct berth_status *st, char *buf, size_t cap);
/* The state object, one line on stdout with --json, else "ID WORDS". 0 or an exit code. */
int print_state(const struct berth_status *st) attr_warn_unused;
/* The answer of deploy and relaunch. The exit code. */
int print_deploy(const struct berth_deploy_result *r);
/* {"ok":true} with --json, else nothing. */
int print_ok(void);
int print_sandbox(struct berth_sandbox *s);

/* Writes the status file, when there is one. Errors are reported. */
void status_file_write(const char *json, size_t len);
void status_file_state(const struct berth_status *st);
/* Opens --status-file (it is emptied); 0 or 2. */
int status_file_open(void) attr_warn_unused;

/* A message of a failed state, as berth_error, for `error` and stderr. */
void state_error(const struct berth_status *st, struct berth_error *ret);

/* One line of JSON on stdout. */
struct strbuf;
struct json;
int print_json(struct strbuf *b, struct json *j) attr_warn_unused;

/* Human numbers: "12.3 MB". */
const char *show_bytes(uint64_t n, char buf[24]);

/* ── requests (request.c) ───────────────────────────────────────────────────────────────────── */

struct request_env {
	char **items; /* NULL-terminated K=V, owned */
	size_t n;
};
/* The -e and --env-file of a command line. 0 or 2. */
int request_env(const struct opt_list *uses, struct request_env *ret) attr_warn_unused;
void request_env_done(struct request_env *e);

struct request_input {
	enum berth_input_kind kind;
	char *path; /* owned; BERTH_INPUT_FILE */
	char *data; /* owned */
	size_t len;
};
/* --stdin or --input; both NULL: none. 0 or 2. */
int request_input(const char *stdin_file, const char *input, int64_t limit,
		  struct request_input *ret) attr_warn_unused;
void request_input_done(struct request_input *in);

/* The options that deploy and run share, and what they become. */
extern const struct cli_opt deploy_options[];
extern struct opt_list env_uses;
extern const struct cli_opt env_options[];

struct deploy_values {
	const char *id, *mode, *workdir, *stdin_file, *input, *install;
	bool no_install, no_record_env, no_durable;
	int64_t input_limit, install_timeout, startup_timeout, timeout, grace;
	struct berth_limits limits;
};
extern struct deploy_values deploy_values;
struct deploy_parts {
	struct request_env env;
	struct request_input input;
};
/* Checks what can be checked here and fills the request; 0 or 2. parts own what req borrows. */
int deploy_request(struct berth_deploy_request *req, struct deploy_parts *parts) attr_warn_unused;
void deploy_parts_done(struct deploy_parts *parts);

/* A usage error unless @id is an execution id. 0 or 2. */
int check_id(const char *id) attr_warn_unused;

/* ── progress (progress.c) ──────────────────────────────────────────────────────────────────── */

void progress_show(void *arg, const struct berth_progress *p);
/* Takes the line away; call it before anything else goes to the terminal. */
void progress_clear(void);

/* ── verbs ──────────────────────────────────────────────────────────────────────────────────── */

int cmd_run(void);
int cmd_deploy(void);
int cmd_status(void);
int cmd_wait(void);
int cmd_logs(void);
int cmd_cancel(void);
int cmd_relaunch(void);
int cmd_ps(void);
int cmd_rm(void);
int cmd_prune(void);
int cmd_exec(void);
int cmd_cp(void);
int cmd_sandbox_start(void);
int cmd_sandbox_stop(void);
int cmd_sandbox_destroy(void);
int cmd_sandbox_info(void);
int cmd_sandbox_ls(void);
int cmd_doctor(void);
int cmd_version(void);
int cmd_help(void);

extern const struct cli_opt run_options[], deploy_only_options[], status_options[], wait_options[],
	logs_options[], cancel_options[], relaunch_options[], prune_options[], exec_options[],
	destroy_options[];

#endif
