/* SPDX-License-Identifier: MIT */
/*
 * Follows an execution to its end, from any process: each piece of output is printed with its
 * stream and offset, and what was not kept is named.
 *
 *	follow SANDBOX ID
 */
#include <berth/berth.h>

#include <stdio.h>

struct places {
	unsigned long long next[3];
};

static const char *name_of(enum berth_output stream)
{
	return stream == BERTH_STDOUT ? "stdout" : "stderr";
}

static int on_data(void *arg, enum berth_output stream, const void *p, size_t n)
{
	struct places *at = arg;

	printf("%s %llu: ", name_of(stream), at->next[stream]);
	fwrite(p, 1, n, stdout);
	if (n && ((const char *)p)[n - 1] != '\n')
		putchar('\n');
	at->next[stream] += n;
	return ferror(stdout) ? 1 : 0; /* another value than 0 ends the following */
}

static void on_gap(void *arg, enum berth_output stream, uint64_t from, uint64_t to)
{
	struct places *at = arg;

	printf("%s: bytes %llu-%llu were not kept\n", name_of(stream), (unsigned long long)from,
	       (unsigned long long)to);
	at->next[stream] = to;
}

int main(int argc, char **argv)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct places at = {{0, 0, 0}};
	struct berth *b = NULL;
	struct berth_sandbox *s = NULL;
	struct berth_status st;
	struct berth_follow f;
	int r;

	if (argc != 3) {
		fprintf(stderr, "usage: follow SANDBOX ID\n");
		return 2;
	}
	berth_follow_init(&f);
	f.streams = 1u << BERTH_STDOUT | 1u << BERTH_STDERR;
	f.data = on_data;
	f.gap = on_gap;
	f.arg = &at;
	r = berth_new(NULL, &b, &err);
	if (r == 0)
		r = berth_sandbox_open(b, argv[1], NULL, 0, &s, &err);
	if (r == 0)
		r = berth_follow(s, argv[2], &f, &st, &err);
	if (r < 0)
		fprintf(stderr, "follow: %s\n", err.message);
	else if (r == 0)
		printf("%s: %s\n", argv[2], berth_state_name((int)st.state));
	berth_sandbox_close(s);
	berth_free(b);
	return r < 0 ? berth_error_exit_code(err.code) : r;
}
