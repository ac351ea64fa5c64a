/* SPDX-License-Identifier: MIT */
/*
 * Deploys an artifact, waits for its end and exits as it did.
 *
 *	run_worker SANDBOX DIR ID CMD [ARG...]
 *	run_worker 'local:demo?isolation=none' ../worker c1 node worker.js convert "2 days"
 *
 * The same command line again launches nothing: the id is taken by the same request, and its end is
 * told again.
 */
#include <berth/berth.h>

#include <stdio.h>

static int complain(const struct berth_error *err)
{
	fprintf(stderr, "run_worker: %s\n", err->message);
	if (err->hint[0])
		fprintf(stderr, "hint: %s\n", err->hint);
	return berth_error_exit_code(err->code);
}

static int run(struct berth_sandbox *s, char **argv, struct berth_error *err)
{
	struct berth_deploy_request req;
	struct berth_deploy_result res;
	struct berth_status st;

	berth_deploy_request_init(&req);
	req.dir = argv[2];
	req.id = argv[3];
	req.command = (const char *const *)&argv[4];
	if (berth_deploy(s, &req, &res, err) < 0)
		return complain(err);
	fprintf(stderr, "run_worker: %s %s in %s\n", res.existed ? "found" : "launched",
		res.status.id, res.sandbox_id);
	/* A failed upload or install leaves no record that could be waited for. */
	if (res.status.is_final)
		st = res.status;
	else if (berth_wait(s, req.id, -1, &st, err) < 0)
		return complain(err);
	printf("%s", berth_state_name((int)st.state));
	if (st.exit_code >= 0)
		printf(" %d", st.exit_code);
	else if (st.signo)
		printf(" %s", berth_signal_name(st.signo));
	printf("%s%s\n", st.message[0] ? ": " : "", st.message);
	return st.state == BERTH_EXITED && st.exit_code >= 0 ? st.exit_code : 125;
}

int main(int argc, char **argv)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth *b = NULL;
	struct berth_sandbox *s = NULL;
	int code;

	if (argc < 5) {
		fprintf(stderr, "usage: run_worker SANDBOX DIR ID CMD [ARG...]\n");
		return 2;
	}
	if (berth_new(NULL, &b, &err) < 0 ||
	    berth_sandbox_open(b, argv[1], NULL, BERTH_OPEN_START, &s, &err) < 0)
		code = complain(&err);
	else
		code = run(s, argv, &err);
	berth_sandbox_close(s);
	berth_free(b);
	return code;
}
