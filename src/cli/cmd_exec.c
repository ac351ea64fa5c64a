/* SPDX-License-Identifier: MIT */
/*
 * berth exec: one command in the sandbox, stdio byte for byte.
 *
 * INT, TERM and HUP are passed on, and with -t changes of the window: a handler writes entries of
 * four bytes into a pipe that berth_exec() reads. Where it does not read (the sandbox does not
 * answer), the second one ends us. A terminal in raw mode is put back on every way
 * out: return, exit, and the signals that end or stop a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "base/strv.h"
#include "base/time.h"
#include "cli/cli.h"

/* A signal that was not taken for so long will not be taken soon. */
#define UNTAKEN_NS (200 * NS_PER_MS)

static struct {
	bool interactive, tty;
	const char *workdir, *session, *attach;
	int64_t timeout, grace;
} o = {.grace = -1};

const struct cli_opt exec_options[] = {
	{.name = "interactive",
	 .letter = 'i',
	 .kind = OPT_FLAG,
	 .help = "pass stdin on; without it the command's stdin is empty",
	 .value = &o.interactive},
	{.name = "tty",
	 .letter = 't',
	 .kind = OPT_FLAG,
	 .help = "give it a terminal",
	 .value = &o.tty},
	{.name = "workdir",
	 .letter = 'w',
	 .kind = OPT_STRING,
	 .arg = "DIR",
	 .deflt = "the sandbox's home",
	 .help = "working directory in the sandbox",
	 .value = &o.workdir},
	{.name = "timeout",
	 .kind = OPT_DURATION,
	 .arg = "DUR",
	 .deflt = "none",
	 .help = "end all that it started after this time (exit 124)",
	 .value = &o.timeout},
	{.name = "grace",
	 .kind = OPT_DURATION,
	 .flags = OPT_ZERO,
	 .arg = "DUR",
	 .deflt = "5s",
	 .help = "between TERM and KILL; 0 kills at once",
	 .value = &o.grace},
	{.name = "session",
	 .kind = OPT_STRING,
	 .arg = "NAME",
	 .help = "a durable session: it goes on when this berth does not",
	 .value = &o.session},
	{.name = "attach",
	 .kind = OPT_STRING,
	 .arg = "NAME",
	 .help = "reattach to a durable session instead of starting a command",
	 .value = &o.attach},
	{.name = "status-file",
	 .kind = OPT_STRING,
	 .flags = OPT_FILE,
	 .arg = "FILE",
	 .help = "write the state or the error here, as JSON",
	 .value = &cli.status_file_given},
	{0},
};

static struct {
	int control[2];
	bool raw; /* the terminal is ours to put back */
	volatile sig_atomic_t hung_up;
	volatile int64_t untaken_since; /* only the handler's; 0: no signal waits in the pipe */
	char last_words[400];
	struct termios before, during;
} x = {.control = {-1, -1}};

/* ── signals and the terminal ───────────────────────────────────────────────────────────────── */

static void put_back(void)
{
	if (x.raw)
		tcsetattr(0, TCSADRAIN, &x.before);
}

static void send_entry(uint8_t what, uint8_t a, uint16_t b)
{
	struct berth_exec_control c = {.what = what, .a = a, .b = b};

	if (write(x.control[1], &c, sizeof(c)) < 0)
		return; /* full, or nobody reads any more: there is nothing to do about it */
}

static bool all_taken(void)
{
	int n = 0;

	return ioctl(x.control[0], FIONREAD, &n) < 0 || n == 0;
}

static void end_here(int signo)
{
	put_back();
	if (write(2, x.last_words, strlen(x.last_words)) < 0)
		_exit(128 + signo);
	_exit(128 + signo);
}

static void pass_on(int signo)
{
	int64_t now = now_mono_ns();

	if (all_taken() || !x.untaken_since)
		x.untaken_since = now;
	else if (now - x.untaken_since >= UNTAKEN_NS)
		end_here(signo);
	send_entry('s', (uint8_t)signo, 0);
}

static void send_window(void)
{
	struct winsize w;

	if (all_taken())
		x.untaken_since = 0;
	if (ioctl(0, TIOCGWINSZ, &w) < 0 && ioctl(1, TIOCGWINSZ, &w) < 0)
		return;
	if (!w.ws_col || !w.ws_row)
		return;
	send_entry('w', 0, w.ws_col);
	send_entry('h', 0, w.ws_row);
}

static void on_signal(int signo)
{
	int saved = errno;

	switch (signo) {
	case SIGWINCH:
		send_window();
		break;
	case SIGCONT:
		if (x.raw)
			tcsetattr(0, TCSADRAIN, &x.during);
		send_window();
		break;
	case SIGTSTP:
		put_back();
		kill(getpid(), SIGSTOP);
		break;
	case SIGHUP:
		/* The terminal of a durable session is its own: ours going away is no end of it. */
		if (o.tty && (o.session || o.attach)) {
			x.hung_up = 1;
			send_entry('d', 0, 0);
			break;
		}
		attr_fallthrough;
	default:
		pass_on(signo);
	}
	errno = saved;
}

/* Signals that end us whatever we want: the terminal first, then as it would have been. */
static void on_fatal(int signo)
{
	put_back();
	signal(signo, SIG_DFL);
	raise(signo);
}

static void take_signals(void)
{
	static const int passed[] = {SIGINT, SIGTERM, SIGHUP};
	static const int tty[] = {SIGWINCH, SIGCONT, SIGTSTP};
	static const int fatal[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGILL,
				    SIGFPE,  SIGALRM, SIGUSR1, SIGUSR2};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		sigaddset(&sa.sa_mask, passed[i]);
	for (size_t i = 0; i < ARRAY_LEN(tty); i++)
		sigaddset(&sa.sa_mask, tty[i]);
	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		sigaction(passed[i], &sa, NULL);
	for (size_t i = 0; i < ARRAY_LEN(tty) && o.tty; i++)
		sigaction(tty[i], &sa, NULL);
	sa.sa_handler = on_fatal;
	sa.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
	for (size_t i = 0; i < ARRAY_LEN(fatal) && x.raw; i++)
		sigaction(fatal[i], &sa, NULL);
}

/* Raw mode, when stdin is a terminal that is passed on. */
static void raw_mode(void)
{
	if (!o.tty || !o.interactive || !isatty(0) || tcgetattr(0, &x.before) < 0)
		return;
	x.during = x.before;
	cfmakeraw(&x.during);
	x.raw = true;
	take_signals(); /* from here on every way out puts it back */
	atexit(put_back);
	if (tcsetattr(0, TCSADRAIN, &x.during) < 0)
		x.raw = false;
}

/* ── the command ────────────────────────────────────────────────────────────────────────────── */

static int check_session(const char *option, const char *name)
{
	char hint[] = "a name is [A-Za-z0-9][A-Za-z0-9._-]{0,127}", buf[80];
	size_t n = strlen(name);

	if (n <= BERTH_ID_MAX && name[0] != '.' && name[0] != '_' && name[0] != '-' &&
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n)
		return 0;
	return cli_usage(hint, "%s: \"%s\" is no session name", option, cli_shown(name, buf));
}

static int check(void)
{
	bool command = cli.command && cli.command[0];

	if (o.attach && o.session)
		return cli_usage(NULL, "--attach and --session exclude each other");
	if (o.attach && (command || env_uses.n || o.workdir || o.timeout))
		return cli_usage(NULL, "--attach starts nothing: no command, -e, -w or --timeout");
	if (!o.attach && !command)
		return cli_usage("the command stands behind --: berth exec -- CMD [ARG…]",
				 "no command given");
	if (o.session)
		return check_session("--session", o.session);
	return o.attach ? check_session("--attach", o.attach) : 0;
}

/* A terminal without TERM is of little use: the caller's kind, as ssh(1) does. */
static int terminal_env(struct request_env *env)
{
	struct strv v = STRV_INIT(ARG_COUNT_MAX);
	const char *term = getenv("TERM");
	int r = 0;

	for (size_t i = 0; i < env->n; i++)
		if (!strncmp(env->items[i], "TERM=", 5))
			return 0;
	if (env->items)
		r = strv_add_all(&v, env->items);
	if (!r)
		r = strv_env_set(&v, "TERM", term && *term ? term : "xterm");
	if (!r) {
		request_env_done(env);
		env->n = v.len;
		env->items = strv_detach(&v);
	}
	strv_done(&v);
	return r;
}

static void fill(struct berth_exec_request *req, const struct request_env *env)
{
	struct winsize w = {.ws_col = 80, .ws_row = 24};

	berth_exec_request_init(req);
	req->command = cli.command;
	req->env = (const char *const *)env->items;
	req->workdir = o.workdir;
	req->timeout_ms = o.timeout;
	req->grace_ms = o.grace;
	req->stdin_fd = o.interactive ? 0 : -1;
	req->stdout_fd = 1;
	req->stderr_fd = 2;
	req->session = o.attach ? o.attach : o.session;
	req->attach = o.attach != NULL;
	req->control_fd = x.control[0];
	if (!o.tty)
		return;
	if ((ioctl(0, TIOCGWINSZ, &w) < 0 && ioctl(1, TIOCGWINSZ, &w) < 0) || !w.ws_col ||
	    !w.ws_row)
		w = (struct winsize){.ws_col = 80, .ws_row = 24};
	req->cols = w.ws_col;
	req->rows = w.ws_row;
	req->detach_keys = true;
}

static void write_status(const struct berth_exec_result *res)
{
	struct strbuf b;
	struct json j = JSON_INIT(&b);
	const char *name = o.attach ? o.attach : o.session ? o.session : "";

	strbuf_init(&b, SMALL_FILE_MAX);
	json_object(&j);
	json_kv_str(&j, "state",
		    res->detached    ? "running"
		    : res->timed_out ? "timed_out"
				     : "exited");
	json_kv_str(&j, "executionId", name);
	json_kv_str(&j, "sandbox", cli_sandbox_name());
	if (res->timed_out)
		json_kv_str(&j, "phase", "execution");
	else if (!res->detached && res->signo > 0)
		json_kv_str(&j, "signal", berth_signal_name(res->signo));
	else if (!res->detached)
		json_kv_int(&j, "exitCode", res->exit_code);
	json_end(&j);
	if (!json_finish(&j))
		status_file_write(b.data, b.len);
	strbuf_done(&b);
}

/* Its signal may come later than the end of its bytes. */
static bool terminal_gone(void)
{
	return !isatty(0) && errno == EIO;
}

static int detached(void)
{
	const char *name = o.attach ? o.attach : o.session;

	if (!name) {
		cli_note("detached; the command ends, as it is no --session");
		return 0;
	}
	cli_note("detached");
	cli_hint("berth exec -it -s %s --attach %s", cli_sandbox_name(), name);
	return 0;
}

static int failed(const struct berth_error *err)
{
	int code = cli_fail(err);

	if (err->code == BERTH_E_NOT_FOUND && err->sys_errno)
		return 127;
	if (err->code == BERTH_E_PERM && err->sys_errno)
		return 126;
	return code;
}

static int run_it(const struct request_env *env)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_exec_request req;
	struct berth_exec_result res = {.exit_code = -1};
	int r = fd_pipe(x.control, O_NONBLOCK);

	if (r < 0) {
		berth_fail_errno(&err, 0, -r, "cannot make a pipe");
		return cli_fail(&err);
	}
	fill(&req, env);
	snprintf(x.last_words, sizeof(x.last_words),
		 "berth: exec: ended by a second signal: the sandbox does not answer\n"
		 "hint: berth sandbox info -s %.300s\n",
		 cli_sandbox_name());
	take_signals();
	raw_mode();
	r = berth_exec(cli.sandbox, &req, &res, &err);
	put_back();
	x.raw = false;
	if (r < 0 && err.code == BERTH_E_IO && err.sys_errno == EPIPE)
		return 128 + SIGPIPE;
	if (r < 0)
		return failed(&err);
	write_status(&res);
	if (res.detached)
		return x.hung_up || terminal_gone() ? 128 + SIGHUP : detached();
	if (res.timed_out)
		return 124;
	return res.exit_code >= 0 ? res.exit_code : 128 + res.signo;
}

int cmd_exec(void)
{
	struct request_env env = {0};
	int r = check();

	if (!r)
		r = request_env(&env_uses, &env);
	if (!r && o.tty && !o.attach && terminal_env(&env) < 0) {
		struct berth_error err;

		berth_fail_nomem(&err);
		r = cli_fail(&err);
	}
	if (!r)
		r = cli_open(BERTH_OPEN_START);
	if (!r)
		r = run_it(&env);
	request_env_done(&env);
	fd_close(&x.control[0]);
	return r;
}
