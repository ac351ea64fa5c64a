/* SPDX-License-Identifier: MIT */
/*
 * The table of verbs and the global options. Help, the manual page and the completions are made
 * from these and from the option tables beside each verb; `text` is what only the manual page says.
 */
#include "cli/cli.h"

const struct cli_opt cli_global_options[] = {
	{.name = "sandbox",
	 .letter = 's',
	 .kind = OPT_STRING,
	 .arg = "SPEC",
	 .deflt = "$BERTH_SANDBOX, else local:default",
	 .help = "which sandbox: PROVIDER:NAME[?key=value&…]",
	 .value = &cli.sandbox_spec},
	{.name = "remote-dir",
	 .kind = OPT_STRING,
	 .arg = "DIR",
	 .deflt = "HOME/berth",
	 .help = "where berth lives in the sandbox",
	 .value = &cli.remote_dir},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .help = "one JSON object on stdout (lists: one per line)",
	 .value = &cli.json_given},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .help = "less on stderr",
	 .value = &cli.quiet},
	{.name = "verbose",
	 .letter = 'v',
	 .kind = OPT_FLAG,
	 .help = "more on stderr",
	 .value = &cli.verbose},
	{.name = "state",
	 .kind = OPT_STRING,
	 .flags = OPT_DIR,
	 .arg = "DIR",
	 .deflt = "$BERTH_STATE, else $XDG_STATE_HOME/berth, else ~/.local/state/berth",
	 .help = "berth's local state",
	 .value = &cli.state_dir},
	{.name = "help",
	 .letter = 'h',
	 .kind = OPT_FLAG,
	 .help = "show help and exit",
	 .value = &cli.help},
	{.name = "version",
	 .letter = 'V',
	 .kind = OPT_FLAG,
	 .help = "show the version and exit",
	 .value = &cli.version},
	{0},
};

#define TABLES(...)                     \
	(const struct cli_opt *const[]) \
	{                               \
		__VA_ARGS__, NULL       \
	}
#define NAMES(...)            \
	(const char *const[]) \
	{                     \
		__VA_ARGS__   \
	}
#define ONE_ID .min_args = 1, .max_args = 1, .arg_names = NAMES("ID")

static const struct cli_verb sandbox_verbs[] = {
	{.name = "start",
	 .args = "[OPTIONS]",
	 .run = cmd_sandbox_start,
	 .summary = "create the sandbox, or resume it",
	 .text = "Keys of the spec count at creation; one that differs from what exists is a "
		 "conflict (exit 4) that names it.\n"},
	{.name = "stop",
	 .args = "[OPTIONS]",
	 .run = cmd_sandbox_stop,
	 .summary = "end everything in it, keep its files",
	 .text = "What runs is cancelled first, with the message \"sandbox stopped\", and "
		 "sealed.\n"},
	{.name = "destroy",
	 .args = "[OPTIONS]",
	 .run = cmd_sandbox_destroy,
	 .options = TABLES(destroy_options),
	 .summary = "remove it for good, with retry",
	 .text = "Prints what became of it: destroyed, unsupported (the provider cannot) or "
		 "exhausted (every attempt failed); it exits 0 for the first and 1 for the "
		 "others. What is gone already is destroyed.\n"},
	{.name = "info",
	 .args = "[OPTIONS]",
	 .run = cmd_sandbox_info,
	 .summary = "what is known of it; wakes nothing"},
	{.name = "ls",
	 .args = "[OPTIONS]",
	 .run = cmd_sandbox_ls,
	 .flags = VERB_NO_SANDBOX,
	 .summary = "every sandbox that this state folder knows"},
	{0},
};

const struct cli_verb cli_verbs[] = {
	{.name = "run",
	 .args = "DIR [OPTIONS] -- CMD [ARG…]",
	 .run = cmd_run,
	 .flags = VERB_COMMAND | VERB_STREAMS,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_names = NAMES("DIR"),
	 .options = TABLES(run_options, env_options, deploy_options),
	 .summary = "deploy as a job, stream its output, exit with its code",
	 .text = "Uploads the artifact DIR where it is not there yet, installs its "
		 "dependencies once, launches CMD, streams its stdout and stderr byte for "
		 "byte and exits as it does.\n"
		 ".PP\n"
		 "SIGINT and SIGTERM cancel the execution first and a second one kills it; "
		 "the exit code is 130 or 143. SIGHUP leaves it running, prints how to wait "
		 "for it and exits 129 (under nohup it stays ignored). When the reader of "
		 "stdout is gone the execution is cancelled, exit 141. A signal before "
		 "anything could be launched ends berth at once.\n"
		 ".PP\n"
		 "With an id that exists and the same request nothing is launched: its output "
		 "is streamed from byte 0 and its code is the exit code. For states that an "
		 "exit code cannot tell apart (a time-out, a limit, a failure of berth) a "
		 "line on stderr says what happened; \\-q leaves it out.\n"},
	{.name = "deploy",
	 .args = "DIR --id ID [OPTIONS] -- CMD [ARG…]",
	 .run = cmd_deploy,
	 .flags = VERB_COMMAND,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_names = NAMES("DIR"),
	 .options = TABLES(deploy_only_options, env_options, deploy_options),
	 .summary = "deploy and launch; return as soon as it runs or has ended",
	 .text = "The command is looked up as execvp(3) does, with the worker's PATH, from "
		 "its working directory. Everything is validated before anything is changed.\n"
		 ".PP\n"
		 "The same id with the same request answers with the existing execution, so a "
		 "retry is safe at any time; with another request it is a conflict (exit 4) "
		 "that names the part that differs. No answer to the launch within startup "
		 "timeout + 5 s is exit 5: it may be running, so ask status.\n"
		 ".PP\n"
		 "What a worker leaves in the background is ended with it.\n"},
	{.name = "status",
	 .args = "ID [OPTIONS]",
	 .run = cmd_status,
	 ONE_ID,
	 .options = TABLES(status_options),
	 .summary = "the state now",
	 .text = "Exits 0 whenever it printed a state, whatever that is; 3 when there is no "
		 "such record.\n"},
	{.name = "wait",
	 .args = "ID [OPTIONS]",
	 .run = cmd_wait,
	 ONE_ID,
	 .flags = VERB_WATCHES,
	 .options = TABLES(wait_options),
	 .summary = "block until it has ended, exit as it did",
	 .text = "Prints the state. Ending the waiting, by a signal or by \\-\\-timeout (exit "
		 "124 with the state as it is, as timeout(1) does), leaves the execution "
		 "alone.\n"},
	{.name = "logs",
	 .args = "ID [OPTIONS]",
	 .run = cmd_logs,
	 ONE_ID,
	 .options = TABLES(logs_options),
	 .summary = "its output, to the current end or followed",
	 .text = "Raw bytes, each stream to its own fd; with \\-\\-stream that one, on "
		 "stdout. Bytes that were not kept are named on stderr (\"bytes A\\-B\", B "
		 "not included) and skipped. With \\-f it goes on to the end and exits as the "
		 "execution did; stopping to read stops only the watching (exit 141).\n"
		 ".PP\n"
		 "With \\-\\-json, one object for one read: stream, data (base64), offset, "
		 "nextOffset, totalBytes, eof, truncated, interrupted, gap; with \\-f one per "
		 "line until eof or interrupted. \\-\\-max\\-bytes is at most 32M there.\n"},
	{.name = "cancel",
	 .args = "ID [OPTIONS]",
	 .run = cmd_cancel,
	 ONE_ID,
	 .options = TABLES(cancel_options),
	 .summary = "end its whole tree",
	 .text = "TERM to the whole tree, KILL after the grace. Prints the state that was "
		 "really reached; one that had ended already is left as it is, exit 0. One "
		 "whose state is unknown is exit 1.\n"},
	{.name = "relaunch",
	 .args = "ID --id NEW [OPTIONS]",
	 .run = cmd_relaunch,
	 ONE_ID,
	 .options = TABLES(relaunch_options, env_options),
	 .summary = "the recorded command, environment and input under a new id",
	 .text = "Works from any process. Values of variables that were not recorded "
		 "(\\-\\-no\\-record\\-env) have to be given again; the error names them.\n"},
	{.name = "ps",
	 .args = "[OPTIONS]",
	 .run = cmd_ps,
	 .summary = "the sandbox's executions, newest first",
	 .text = "With \\-\\-json each line is a state object with the command added.\n"},
	{.name = "rm",
	 .args = "ID [OPTIONS]",
	 .run = cmd_rm,
	 ONE_ID,
	 .summary = "delete the record of one that has ended",
	 .text = "One that runs is a conflict (exit 4). The id is free afterwards.\n"},
	{.name = "prune",
	 .args = "[OPTIONS]",
	 .run = cmd_prune,
	 .options = TABLES(prune_options),
	 .summary = "remove ended records, unused artifacts and installs"},
	{.name = "exec",
	 .args = "[OPTIONS] -- CMD [ARG…]",
	 .run = cmd_exec,
	 .flags = VERB_COMMAND | VERB_STREAMS,
	 .options = TABLES(exec_options, env_options),
	 .summary = "one command in the sandbox, its stdio, its exit code",
	 .text = "What the command leaves in the background lives on in the sandbox, as with "
		 "docker exec and ssh. SIGINT, SIGTERM and SIGHUP are passed on. A plain exec "
		 "keeps no record and ends with its caller; with \\-\\-session NAME it goes "
		 "on, and \\-\\-attach NAME comes back to it.\n"
		 ".PP\n"
		 "With \\-t the command has a terminal of the caller's size (80x24 where "
		 "there is none), TERM is the caller's unless \\-e sets it, stderr is part of "
		 "stdout, and ctrl\\-p ctrl\\-q detaches; what is no session ends then. With "
		 "\\-i as well, the caller's terminal is in raw mode meanwhile.\n"},
	{.name = "cp",
	 .args = "SRC DST [OPTIONS]",
	 .run = cmd_cp,
	 .min_args = 2,
	 .max_args = 2,
	 .arg_names = NAMES("SRC", "DST"),
	 .summary = "copy files and directories in and out",
	 .text = "The sandbox side is :PATH, from its home, or ID:REL, in the working view of "
		 "an execution. What has a '/' before its first ':' is local. A DST that is "
		 "an existing local directory, or that ends in '/', gets a new entry with the "
		 "name of SRC. Modes, modification times and symbolic links are kept; links "
		 "are never followed on the side that is written.\n"},
	{.name = "sandbox",
	 .args = "VERB [OPTIONS]",
	 .subs = sandbox_verbs,
	 .summary = "start, stop, destroy, info, ls"},
	{.name = "doctor",
	 .args = "[OPTIONS]",
	 .run = cmd_doctor,
	 .flags = VERB_NO_SANDBOX,
	 .summary = "what this host can and cannot do, and how to mend it",
	 .text = "Exits 0 when it could look, whatever it found; with \\-\\-json, ok says "
		 "whether every check passed.\n"},
	{.name = "version",
	 .args = "",
	 .run = cmd_version,
	 .flags = VERB_NO_SANDBOX,
	 .summary = "the version"},
	{.name = "help",
	 .args = "[VERB…]",
	 .run = cmd_help,
	 .flags = VERB_NO_SANDBOX,
	 .max_args = 2,
	 .arg_names = NAMES("VERB", "VERB"),
	 .summary = "help on berth or one verb"},
	{0},
};
