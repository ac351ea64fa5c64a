/* SPDX-License-Identifier: MIT */
/*
 * From argv to a verb and back to an exit code. SIGPIPE is ignored for the whole run, so that a
 * reader that went away is an error with a code (141) and never a silent death in the middle.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "cli/cli.h"

int cli_open_context(void)
{
	struct berth_error err = BERTH_ERROR_INIT;

	if (cli.state_dir && !*cli.state_dir)
		return cli_usage(NULL, "--state: the value is empty");
	return berth_new(cli.state_dir, &cli.berth, &err) < 0 ? cli_fail(&err) : 0;
}

int cli_open(unsigned flags)
{
	struct berth_error err = BERTH_ERROR_INIT;
	int r = cli_open_context();

	if (r)
		return r;
	if (berth_sandbox_open(cli.berth, cli.sandbox_spec, cli.remote_dir, flags, &cli.sandbox,
			       &err) < 0)
		return cli_fail(&err);
	return 0;
}

int cli_reopen(struct berth **ret_b, struct berth_sandbox **ret_s, struct berth_error *err)
{
	struct berth *b = NULL;
	int r = berth_new(cli.state_dir, &b, err);

	if (r < 0)
		return r;
	r = berth_sandbox_open(b, cli.sandbox_spec, cli.remote_dir, 0, ret_s, err);
	if (r < 0) {
		berth_free(b);
		return r;
	}
	*ret_b = b;
	return 0;
}

const char *cli_sandbox_name(void)
{
	return cli.sandbox ? berth_sandbox_name(cli.sandbox) : "";
}

/* stdout is written through stdio: what could not be written must not look like success. */
static int flush_stdout(int code)
{
	struct berth_error err = BERTH_ERROR_INIT;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	if (errno == EPIPE)
		return 128 + SIGPIPE;
	berth_fail_errno(&err, BERTH_E_IO, errno ? errno : EIO, "cannot write to stdout");
	cli.json = false;
	return cli_fail(&err);
}

static int run_verb(int argc, char **argv)
{
	int r = cli_parse(argc, argv);

	if (r)
		return r;
	if (cli.version)
		return cmd_version();
	if (cli.help) {
		if (cli.verb)
			help_print_verb(cli.verb, cli.what, false);
		else
			help_print_all(false);
		return 0;
	}
	r = status_file_open();
	return r ? r : cli.verb->run();
}

static ssize_t write_out(void *cookie, const char *p, size_t n)
{
	int r = write_full(1, p, n);

	(void)cookie;
	if (r == 0)
		return (ssize_t)n;
	errno = -r;
	return 0;
}

/*
 * A stdout that does not block (node and ssh hand such pipes over) is waited for; stdio would drop
 * what did not fit. The flag itself belongs to everybody who shares the pipe.
 */
static void wait_for_stdout(void)
{
	FILE *f;
	int flags = fcntl(1, F_GETFL);

	if (flags < 0 || !(flags & O_NONBLOCK))
		return;
	f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_out});
	if (f)
		stdout = f;
}

int cli_main(int argc, char **argv)
{
	int code;

	fd_sanitize_stdio();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* "File too large" is for us to say; processes get it back */
	wait_for_stdout();
	code = flush_stdout(run_verb(argc, argv));
	berth_sandbox_close(cli.sandbox);
	berth_free(cli.berth);
	free(cli.args);
	free(env_uses.items);
	fd_close(&cli.status_fd);
	return code;
}
