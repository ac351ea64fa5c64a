/* SPDX-License-Identifier: MIT */
/* berth status: the state now. 0 whenever a state was printed, whatever it is. */
#include <inttypes.h>
#include <stdio.h>

#include "base/time.h"
#include "cli/cli.h"

static bool wake;
const struct cli_opt status_options[] = {
	{.name = "wake",
	 .kind = OPT_FLAG,
	 .help = "resume a stopped sandbox; never creates one",
	 .value = &wake},
	{0},
};

static void line_time(const char *name, int64_t ms)
{
	char buf[TIME_RFC3339_SIZE];

	if (ms)
		printf("%-12s %s\n", name, format_rfc3339_ms(ms, buf));
}

static void line_text(const char *name, const char *text)
{
	if (*text)
		printf("%-12s %s\n", name, text);
}

static void print_stream(const char *name, uint64_t bytes, const char *hash)
{
	char buf[24];

	printf("%-12s %s%s%s\n", name, show_bytes(bytes, buf), *hash ? "  " : "", hash);
}

static void print_human(const struct berth_status *st)
{
	char words[1024], rss[24];

	line_text("execution", st->id);
	line_text("sandbox", cli_sandbox_name());
	line_text("state", state_words(st, words, sizeof(words)));
	line_text("provider", st->provider_state);
	line_text("mode", st->mode);
	line_time("started", st->started_ms);
	line_time("finished", st->finished_ms);
	if (st->has_usage)
		printf("%-12s user %" PRId64 " ms, system %" PRId64 " ms, memory %s\n", "usage",
		       st->user_ms, st->system_ms, show_bytes((uint64_t)st->max_rss_bytes, rss));
	for (size_t i = 0; i < st->n_hits; i++)
		printf("%-12s %s (%" PRId64 " times)\n", "limit hit", st->hits[i].name,
		       st->hits[i].count);
	if (st->state != BERTH_PROVIDER_UNAVAILABLE) {
		print_stream("stdout", st->stdout_bytes, st->has_hashes ? st->stdout_hash : "");
		print_stream("stderr", st->stderr_bytes, st->has_hashes ? st->stderr_hash : "");
	}
	line_text("containment", st->containment);
	line_text("view", st->view);
	line_text("artifact", st->artifact);
}

int cmd_status(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st = {0};
	int r = check_id(cli.args[0]);

	if (!r)
		r = cli_open(wake ? BERTH_OPEN_WAKE : 0);
	if (r)
		return r;
	if (berth_status(cli.sandbox, cli.args[0], &st, &err) < 0)
		return cli_fail(&err);
	if (cli.json)
		return print_state(&st);
	print_human(&st);
	return 0;
}
