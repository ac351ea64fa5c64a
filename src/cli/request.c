/* SPDX-License-Identifier: MIT */
/*
 * What deploy, run, relaunch and exec have in common: environment options, bounded input, and the
 * options that become a berth_deploy_request.
 *
 * Values of variables and input bytes go into no message, not even when they are what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/strv.h"
#include "cli/cli.h"

int check_id(const char *id)
{
	char buf[80];

	if (valid_execution_id(id))
		return 0;
	return cli_usage("an id is [A-Za-z0-9][A-Za-z0-9._-]{0,127}", "\"%s\" is no execution id",
			 cli_shown(id, buf));
}

/* ── environment ────────────────────────────────────────────────────────────────────────────── */

struct opt_list env_uses;

const struct cli_opt env_options[] = {
	{.name = "env",
	 .letter = 'e',
	 .kind = OPT_LIST,
	 .arg = "K=V",
	 .help = "set a variable; K alone takes the caller's value (repeatable)",
	 .value = &env_uses},
	{.name = "env-file",
	 .kind = OPT_LIST,
	 .flags = OPT_FILE,
	 .arg = "FILE",
	 .help = "variables from a file of K=V lines; # begins a comment (repeatable)",
	 .value = &env_uses},
	{0},
};

static int no_memory(void)
{
	struct berth_error err;

	berth_fail_nomem(&err);
	return cli_fail(&err);
}

static int too_many(int code)
{
	struct berth_error err = BERTH_ERROR_INIT;

	if (code == BERTH_E_NOMEM)
		return no_memory();
	berth_fail(&err, BERTH_E_INVALID, "the environment is too large");
	return cli_fail(&err);
}

/*
 * One "K=V" or "K" from @where ("-e", "env.txt:3"). A "K" of a file may be the rest of somebody's
 * value on a line of its own, so it is not @shown.
 */
static int env_one(struct strv *v, const char *item, const char *where, bool shown)
{
	size_t len = strcspn(item, "=");
	auto_free char *name = strndup(item, len);
	const char *value;
	int r;

	if (!name)
		return no_memory();
	if (!valid_env_name(name, len)) /* not shown: it may be a value whose name was forgotten */
		return cli_usage("names are [A-Za-z_][A-Za-z0-9_]*",
				 "%s: the name of a variable is not valid", where);
	value = item[len] ? item + len + 1 : getenv(name);
	if (!value && !shown)
		return cli_usage("a line is NAME=VALUE, or the NAME of a variable that is set",
				 "%s: a line without \"=\" names no variable that is set", where);
	if (!value)
		return cli_usage("give it as NAME=VALUE, or set it", "%s: %.64s is not set", where,
				 name);
	r = strv_env_set(v, name, value);
	return r < 0 ? too_many(r) : 0;
}

static int env_file_line(struct strv *v, char *line, size_t len, const char *path, size_t number)
{
	char where[160];

	snprintf(where, sizeof(where), "--env-file %.100s:%zu", path, number);
	if (memchr(line, 0, len))
		return cli_usage(NULL, "%s: the line holds a NUL", where);
	line[len] = '\0';
	if (len && line[len - 1] == '\r')
		line[len - 1] = '\0';
	line += strspn(line, " \t");
	if (!*line || *line == '#')
		return 0;
	return env_one(v, line, where, false);
}

static int env_file(struct strv *v, const char *path)
{
	struct berth_error err = BERTH_ERROR_INIT;
	auto_free char *data = NULL;
	size_t len = 0, number = 1;
	int r;

	if (read_file(AT_FDCWD, path, ENV_FILE_MAX, &data, &len, &err) < 0)
		return cli_usage(NULL, "--env-file %.100s: %s", path,
				 err.sys_errno ? berth_errno_text(err.sys_errno) : err.message);
	char *p = data, *end = data + len;

	if (len >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end) {
		char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl : end) - p);

		r = env_file_line(v, p, n, path, number++);
		if (r)
			return r;
		p += n + 1;
	}
	return 0;
}

int request_env(const struct opt_list *uses, struct request_env *ret)
{
	auto(strv) struct strv v = STRV_INIT(ARG_COUNT_MAX);

	for (size_t i = 0; i < uses->n; i++) {
		const struct opt_use *u = &uses->items[i];
		int r = u->opt->letter ? env_one(&v, u->value, "-e", true) : env_file(&v, u->value);

		if (r)
			return r;
	}
	ret->n = v.len;
	ret->items = v.len ? strv_detach(&v) : NULL;
	return v.len && !ret->items ? no_memory() : 0;
}

void request_env_done(struct request_env *e)
{
	strv_free_items(e->items);
	*e = (struct request_env){0};
}

/* ── input ──────────────────────────────────────────────────────────────────────────────────── */

static int input_too_large(const char *option, int64_t limit)
{
	char hint[80], buf[24];

	snprintf(hint, sizeof(hint), "the limit is %s; --input-limit SIZE sets another",
		 show_bytes((uint64_t)limit, buf));
	return cli_usage(hint, "%s: the input is larger than the limit", option);
}

static int read_input(const char *option, const char *file, int64_t limit,
		      struct request_input *ret)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT((size_t)limit);
	bool own = !strcmp(file, "-");
	auto_close int opened = own ? -1 : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	int fd = own ? 0 : opened, r;

	if (fd < 0)
		return cli_usage(NULL, "%s %.200s: %s", option, file, berth_errno_text(errno));
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > limit && !own)
		return input_too_large(option, limit);
	r = read_to_strbuf(fd, &b);
	if (r == -EFBIG)
		return input_too_large(option, limit);
	if (r == -ENOMEM)
		return no_memory();
	if (r < 0)
		return cli_usage(NULL, "%s %.200s: %s", option, file, berth_errno_text(-r));
	ret->len = b.len;
	ret->data = b.len ? strbuf_detach(&b, NULL) : NULL;
	return b.len && !ret->data ? no_memory() : 0;
}

int request_input(const char *stdin_file, const char *input, int64_t limit,
		  struct request_input *ret)
{
	struct request_input in = {.kind = BERTH_INPUT_NONE};
	const char *eq;
	int r;

	if (!stdin_file && !input)
		return 0;
	if (stdin_file && input)
		return cli_usage(NULL, "--stdin and --input exclude each other");
	if (limit > INPUT_MAX)
		return cli_usage(NULL, "--input-limit: more than 1G is not supported");
	if (stdin_file) {
		in.kind = BERTH_INPUT_STDIN;
		r = read_input("--stdin", stdin_file, limit, &in);
	} else {
		eq = strchr(input, '=');
		if (!eq || eq == input || !eq[1])
			return cli_usage(NULL, "--input: REL=FILE is wanted");
		in.kind = BERTH_INPUT_FILE;
		in.path = strndup(input, (size_t)(eq - input));
		r = in.path ? read_input("--input", eq + 1, limit, &in) : no_memory();
	}
	if (r)
		request_input_done(&in);
	else
		*ret = in;
	return r;
}

void request_input_done(struct request_input *in)
{
	free(in->path);
	free(in->data);
	*in = (struct request_input){.kind = BERTH_INPUT_NONE};
}

/* ── deploy and run ─────────────────────────────────────────────────────────────────────────── */

struct deploy_values deploy_values = {
	.input_limit = INPUT_DEFAULT_MAX,
	.grace = -1,
};

#define V(field) .value = &deploy_values.field
const struct cli_opt deploy_options[] = {
	{.name = "mode",
	 .kind = OPT_STRING,
	 .arg = "worker|job",
	 .choices = "worker|job",
	 .help = "recorded and shown; changes nothing else",
	 V(mode)},
	{.name = "workdir",
	 .letter = 'w',
	 .kind = OPT_STRING,
	 .arg = "REL",
	 .deflt = ".",
	 .help = "working directory, relative to the artifact's root; stays inside it",
	 V(workdir)},
	{.name = "stdin",
	 .kind = OPT_STRING,
	 .flags = OPT_ONCE | OPT_FILE,
	 .arg = "FILE|-",
	 .help = "bounded input on the worker's stdin; without it stdin is /dev/null",
	 V(stdin_file)},
	{.name = "input",
	 .kind = OPT_STRING,
	 .flags = OPT_ONCE,
	 .arg = "REL=FILE",
	 .help = "bounded input as a file (0600) at a path relative to the artifact's root",
	 V(input)},
	{.name = "input-limit",
	 .kind = OPT_SIZE,
	 .arg = "SIZE",
	 .deflt = "16M",
	 .help = "more input than this is an error before anything is uploaded",
	 V(input_limit)},
	{.name = "install",
	 .kind = OPT_STRING,
	 .arg = "CMD",
	 .deflt = "`npm install --omit=dev` when there is a package.json",
	 .help = "dependency install, a shell command; cached and serialised",
	 V(install)},
	{.name = "no-install", .kind = OPT_FLAG, .help = "install nothing", V(no_install)},
	{.name = "install-timeout",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "10m",
	 .help = "time for the install; waiting for another one counts",
	 V(install_timeout)},
	{.name = "startup-timeout",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "10s",
	 .help = "time for the launch to report that the command runs or has ended",
	 V(startup_timeout)},
	{.name = "timeout",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "none",
	 .help = "execution timeout, to the millisecond",
	 V(timeout)},
	{.name = "grace",
	 .kind = OPT_DURATION,
	 .flags = OPT_ZERO,
	 .arg = "DUR",
	 .deflt = "5s",
	 .help = "between TERM and KILL; 0 kills at once",
	 V(grace)},
	{.name = "memory",
	 .kind = OPT_SIZE,
	 .arg = "SIZE",
	 .deflt = "none",
	 .help = "memory of the whole execution (needs a cgroup)",
	 V(limits.memory_bytes)},
	{.name = "pids",
	 .kind = OPT_COUNT,
	 .arg = "N",
	 .deflt = "none",
	 .help = "processes and threads of the execution (needs a cgroup)",
	 V(limits.pids)},
	{.name = "cpus",
	 .kind = OPT_MILLI,
	 .arg = "N",
	 .deflt = "none",
	 .help = "CPUs, such as 2 or 0.5 (needs a cgroup)",
	 V(limits.cpus_milli)},
	{.name = "cpu-time",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "none",
	 .help = "CPU time of the tree with a cgroup, else of each process, in whole seconds",
	 V(limits.cpu_time_ms)},
	{.name = "file-size",
	 .kind = OPT_SIZE,
	 .arg = "SIZE",
	 .deflt = "none",
	 .help = "largest file that a process may write",
	 V(limits.file_size_bytes)},
	{.name = "open-files",
	 .kind = OPT_COUNT,
	 .arg = "N",
	 .deflt = "none",
	 .help = "open files of each process",
	 V(limits.open_files)},
	{.name = "output-limit",
	 .kind = OPT_SIZE,
	 .flags = OPT_NONE,
	 .arg = "SIZE|none",
	 .deflt = "1G",
	 .help = "kept of each stream: its head and tail, with an exact gap",
	 V(limits.output_bytes)},
	{.name = "no-record-env",
	 .kind = OPT_FLAG,
	 .help = "values of variables are not kept on disk; relaunch then asks for them",
	 V(no_record_env)},
	{.name = "no-durable",
	 .kind = OPT_FLAG,
	 .help = "do not fsync the record; it may be lost when the machine loses power",
	 V(no_durable)},
	{0},
};
#undef V

static int check_command(void)
{
	if (cli.command && cli.command[0])
		return 0;
	return cli_usage("the command stands behind --: berth run DIR -- CMD [ARG…]",
			 "no command given");
}

static void deploy_fill(struct berth_deploy_request *req, const struct deploy_parts *parts)
{
	const struct deploy_values *v = &deploy_values;

	berth_deploy_request_init(req);
	req->dir = cli.args[0];
	req->id = v->id;
	req->mode = v->mode;
	req->command = cli.command;
	req->env = (const char *const *)parts->env.items;
	req->workdir = v->workdir;
	req->input_kind = parts->input.kind;
	req->input_path = parts->input.path;
	req->input = parts->input.data ? parts->input.data : "";
	req->input_len = parts->input.len;
	req->input_limit = v->input_limit;
	req->install = v->no_install ? "" : v->install;
	req->install_timeout_ms = v->install_timeout;
	req->startup_timeout_ms = v->startup_timeout;
	req->timeout_ms = v->timeout;
	req->grace_ms = v->grace;
	req->limits = v->limits;
	req->no_record_env = v->no_record_env;
	req->no_durable = v->no_durable;
	req->progress = progress_show;
}

int deploy_request(struct berth_deploy_request *req, struct deploy_parts *parts)
{
	const struct deploy_values *v = &deploy_values;
	int r = check_command();

	if (!r)
		r = check_id(v->id);
	if (!r && v->install && v->no_install)
		r = cli_usage(NULL, "--install and --no-install exclude each other");
	if (!r)
		r = request_env(&env_uses, &parts->env);
	if (!r)
		r = request_input(v->stdin_file, v->input, v->input_limit, &parts->input);
	if (!r)
		deploy_fill(req, parts);
	return r;
}

void deploy_parts_done(struct deploy_parts *parts)
{
	request_env_done(&parts->env);
	request_input_done(&parts->input);
}
