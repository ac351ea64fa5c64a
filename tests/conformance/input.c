/* SPDX-License-Identifier: MIT */
/*
 * input.c: bounded input by stdin or by file: every byte, then EOF; nothing beside it.
 */
#include "conf.h"

static uint64_t fnv(const void *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
	return h;
}

static void give(struct berth_deploy_request *q, enum berth_input_kind kind, const void *p,
		 size_t n)
{
	q->input_kind = kind;
	q->input = p;
	q->input_len = n;
}

CASE(none_is_dev_null, RUNS)
{
	struct berth_status st;

	run("none", "intype cat out end", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("none", BERTH_STDOUT), "null\nend");
}

CASE(the_callers_stdin_is_not_the_workers, RUNS)
{
	struct berth_status st;
	int fds[2], saved = dup(0);

	/* An open pipe that never ends, as a terminal is. */
	ASSERT_OK(pipe(fds));
	dup2(fds[0], 0);
	run("not-mine", "intype cat out end", &st);
	dup2(saved, 0);
	ASSERT_STREQ(text_out("not-mine", BERTH_STDOUT), "null\nend");
}

CASE(stdin_every_byte, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;
	uint8_t all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	request(&q, "all-bytes", "cat");
	give(&q, BERTH_INPUT_STDIN, all, sizeof(all));
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of("all-bytes", BERTH_STDOUT);
	ASSERT_MEMEQ(b.p, b.n, all, sizeof(all));
	free(b.p);
}

CASE(stdin_of_no_bytes, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "empty", "hashin");
	give(&q, BERTH_INPUT_STDIN, "", 0);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("empty", BERTH_STDOUT), "0 cbf29ce484222325\n");
}

CASE(stdin_of_many_sizes, RUNS)
{
	static const size_t sizes[] = {1,     4095,  4096,    4097,         65535,
				       65536, 65537, 1 << 20, (1 << 20) + 1};
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32], want[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i];
		char *p = malloc(n);

		ASSERT_NOT_NULL(p);
		pattern_fill(n, 0, p, n);
		snprintf(id, sizeof(id), "size-%zu", n);
		snprintf(want, sizeof(want), "%zu %016" PRIx64 "\n", n, fnv(p, n));
		request(&q, id, "hashin");
		give(&q, BERTH_INPUT_STDIN, p, n);
		run_request(&q, &st);
		ASSERT_EXITED(&st, 0);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), want);
		free(p);
	}
}

CASE(at_and_over_the_bound, RUNS)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	char want[64];
	char *p = malloc((16 << 20) + 1);

	ASSERT_NOT_NULL(p);
	pattern_fill(3, 0, p, (16 << 20) + 1);
	for (int kind = BERTH_INPUT_STDIN; kind <= BERTH_INPUT_FILE; kind++) {
		const char *id = kind == BERTH_INPUT_STDIN ? "bound-stdin" : "bound-file";

		request(&q, id, "exit 0");
		q.input_path = kind == BERTH_INPUT_FILE ? "in/put" : NULL;
		give(&q, (enum berth_input_kind)kind, p, 101);
		q.input_limit = 100;
		FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
		FAILS(BERTH_E_NOT_FOUND, berth_status(box(), id, &st, &E));
		give(&q, (enum berth_input_kind)kind, p, (16 << 20) + 1);
		q.input_limit = 0;
		FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
		FAILS(BERTH_E_NOT_FOUND, berth_status(box(), id, &st, &E));
		request(&q, id, kind == BERTH_INPUT_STDIN ? "hashin" : "stat in/put");
		q.input_path = kind == BERTH_INPUT_FILE ? "in/put" : NULL;
		give(&q, (enum berth_input_kind)kind, p, 16 << 20);
		run_request(&q, &st);
		ASSERT_EXITED(&st, 0);
	}
	snprintf(want, sizeof(want), "%d %016" PRIx64 "\n", 16 << 20, fnv(p, 16 << 20));
	ASSERT_STREQ(text_out("bound-stdin", BERTH_STDOUT), want);
	ASSERT_CONTAINS(text_out("bound-file", BERTH_STDOUT), "f 0600 16777216 ");
	request(&q, "bound-100", "hashin");
	give(&q, BERTH_INPUT_STDIN, p, 100);
	q.input_limit = 100;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	free(p);
}

CASE(a_worker_need_not_read, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	char *p = calloc(1, 4 << 20);
	int64_t t = now_ms();

	ASSERT_NOT_NULL(p);
	request(&q, "deaf", "exit 0");
	give(&q, BERTH_INPUT_STDIN, p, 4 << 20);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	request(&q, "closes", "take 10 closein out on exit 3");
	give(&q, BERTH_INPUT_STDIN, p, 4 << 20);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 3);
	ASSERT_EQ(st.stdout_bytes, 12u);
	request(&q, "waits", "ready pause");
	give(&q, BERTH_INPUT_STDIN, p, 4 << 20);
	start_request(&q);
	await_ready("waits");
	end_it("waits");
	ASSERT_LE(now_ms() - t, 10000);
	free(p);
}

CASE(input_and_output_at_once, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;
	size_t n = 8 << 20;
	char *p = malloc(n);

	ASSERT_NOT_NULL(p);
	pattern_fill(9, 0, p, n);
	request(&q, "echo", "cat");
	give(&q, BERTH_INPUT_STDIN, p, n);
	run_request(&q, &st);
	b = output_of("echo", BERTH_STDOUT);
	ASSERT_EQ(b.n, n);
	ASSERT(memcmp(b.p, p, n) == 0);
	free(b.p);
	free(p);
}

CASE(stdin_of_a_killed_one_holds_nothing_up, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;
	char *p = calloc(1, 1 << 20);

	ASSERT_NOT_NULL(p);
	request(&q, "half-read", "take 1000 spawn daemon { up pause } raise KILL");
	give(&q, BERTH_INPUT_STDIN, p, 1 << 20);
	run_request(&q, &st);
	ASSERT_ENDED(&st, BERTH_EXITED, -1, SIGKILL);
	assert_gone("half-read");
	free(p);
}

CASE(a_file_at_its_path, RUNS)
{
	/* "a/.." is nothing: no folder is made for it. */
	static const char *const paths[] = {"input.json", "deep/er/still/in.bin",
					    "..data/x",   "a/../b/in",
					    "./dot/in",   "sp ace/ü\n.txt"};
	static const char *const where[] = {"input.json", "deep/er/still/in.bin",
					    "..data/x",   "b/in",
					    "dot/in",     "sp ace/ü\n.txt"};
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32], mark[128];

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		const char *argv[] = {"./worker", "mark", mark,     "intype", "stat",
				      where[i],   "read", where[i], NULL};

		snprintf(id, sizeof(id), "file-%zu", i);
		snprintf(mark, sizeof(mark), "%s", mark_of(id));
		request(&q, id, "");
		q.command = argv;
		q.input_path = paths[i];
		give(&q, BERTH_INPUT_FILE, "by\0tes\n", 7);
		SUBTEST("%s", paths[i])
		{
			struct bytes b;

			run_request(&q, &st);
			ASSERT_EXITED(&st, 0);
			b = output_of(id, BERTH_STDOUT);
			ASSERT_CONTAINS(b.p, "null\nf 0600 7 ");
			ASSERT_MEMEQ(b.p + b.n - 7, 7, "by\0tes\n", 7);
			free(b.p);
		}
	}
}

CASE(paths_that_leave_are_refused, RUNS)
{
	static const char *const paths[] = {"../x", "/abs", "a/../../x", "..",
					    "",     ".",    "a/..",      "x/"};
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;

	run("paths-before", "exit 0", &st);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		request(&q, "leaves", "exit 0");
		q.input_path = paths[i];
		give(&q, BERTH_INPUT_FILE, "x", 1);
		SUBTEST("\"%s\"", paths[i])
		{
			FAILS(BERTH_E_INVALID, berth_deploy(box(), &q, &r, &E));
			FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "leaves", &st, &E));
		}
	}
}

/* A link in the artifact is no way out for the bytes that berth writes. */
CASE(links_do_not_lead_out, RUNS)
{
	const char *dir = new_artifact("linked");
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	char outside[PATH_MAX], cwd[PATH_MAX - 100];

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(outside, sizeof(outside), "%s/outside", cwd);
	ASSERT_OK(mkdir(outside, 0777));
	put_text(in(outside, "victim"), "untouched");
	ASSERT_OK(chmod(in(outside, "victim"), 0666));
	ASSERT_OK(symlink(outside, in(dir, "out")));
	ASSERT_OK(symlink(in(outside, "victim"), in(dir, "file")));
	ASSERT_OK(symlink("../../../../../../../../../../tmp", in(dir, "up")));
	for (int i = 0; i < 3; i++) {
		static const char *const paths[] = {"out/new", "out/victim", "file"};
		char id[32];

		snprintf(id, sizeof(id), "link-%d", i);
		request(&q, id, "exit 0");
		q.dir = dir;
		q.input_path = paths[i];
		give(&q, BERTH_INPUT_FILE, "overwritten", 11);
		memset(&r, 0, sizeof(r));
		/* Refusing and replacing the link are both right; writing through it is not. */
		if (berth_deploy(box(), &q, &r, &E) == 0 && r.status.state == BERTH_FAILED)
			ASSERT_STREQ(r.status.phase, "launch");
		ASSERT_STREQ(text_of(in(outside, "victim")), "untouched");
		ASSERT_EQ(access(in(outside, "new"), F_OK), -1);
	}
}

CASE(each_execution_has_its_own_file, RUNS)
{
	const char *dir = new_artifact("own-file");
	struct berth_deploy_request q;
	struct berth_status st;

	put_text(in(dir, "in.txt"), "from the artifact");
	request(&q, "own-1", "ready await USR1 read in.txt");
	q.dir = dir;
	q.input_path = "in.txt";
	give(&q, BERTH_INPUT_FILE, "first", 5);
	q.command = ops("own-1", "block USR1 ready await USR1 read in.txt");
	start_request(&q);
	await_ready("own-1");
	request(&q, "own-2", "read in.txt");
	q.dir = dir;
	q.input_path = "in.txt";
	give(&q, BERTH_INPUT_FILE, "second", 6);
	run_request(&q, &st);
	ASSERT_STREQ(text_out("own-2", BERTH_STDOUT), "second");
	request(&q, "own-3", "read in.txt");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_STREQ(text_out("own-3", BERTH_STDOUT), "from the artifact");
	OK(berth_signal(box(), "own-1", SIGUSR1, &E));
	finish("own-1", &st);
	ASSERT_STREQ(text_out("own-1", BERTH_STDOUT), "Rfirst");
	ASSERT_STREQ(text_of(in(dir, "in.txt")), "from the artifact");
}

CASE(the_worker_may_change_its_file, RUNS)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, "changes", "poke in X append in Y read in");
	q.input_path = "in";
	give(&q, BERTH_INPUT_FILE, "abc", 3);
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("changes", BERTH_STDOUT), "XbcY");
}
