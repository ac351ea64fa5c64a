/* SPDX-License-Identifier: MIT */
/*
 * One command in a sandbox with this program's own stdin, stdout and stderr, as `berth exec -i`.
 *
 *	exec SANDBOX CMD [ARG...]
 */
#include <berth/berth.h>

#include <stdio.h>

int main(int argc, char **argv)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth *b = NULL;
	struct berth_sandbox *s = NULL;
	struct berth_exec_request req;
	struct berth_exec_result res;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: exec SANDBOX CMD [ARG...]\n");
		return 2;
	}
	berth_exec_request_init(&req);
	req.command = (const char *const *)&argv[2];
	req.stdin_fd = 0;
	req.stdout_fd = 1;
	req.stderr_fd = 2;
	r = berth_new(NULL, &b, &err);
	if (r == 0)
		r = berth_sandbox_open(b, argv[1], NULL, BERTH_OPEN_START, &s, &err);
	if (r == 0)
		r = berth_exec(s, &req, &res, &err);
	berth_sandbox_close(s);
	berth_free(b);
	if (r < 0) {
		fprintf(stderr, "exec: %s\n", err.message);
		return 125;
	}
	return res.exit_code >= 0 ? res.exit_code : 128 + res.signo;
}
