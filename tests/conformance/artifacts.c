/* SPDX-License-Identifier: MIT */
/*
 * artifacts.c: a directory arrives as it is: names, modes, links, empty directories, every byte;
 * and what the sandbox has already is not sent again.
 */
#include "conf.h"

/* What `tree .` said in the execution's view. */
static const char *tree_of(const char *id, const char *dir)
{
	struct berth_deploy_request q;
	struct berth_status st;

	request(&q, id, "tree .");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	return text_out(id, BERTH_STDOUT);
}

CASE(every_byte_in_a_name, RUNS)
{
	const char *dir = new_artifact("names");
	struct berth_deploy_request q;
	struct berth_status st;
	struct bytes b;
	size_t pos = 0, n;
	const char *v;
	char name[8], text[8];
	unsigned files = 0;
	bool seen[256] = {false};

	ASSERT_OK(mkdir(in(dir, "d"), 0755));
	for (int i = 1; i < 256; i++) {
		if (i == '/')
			continue;
		snprintf(name, sizeof(name), "d/%c", i);
		if (i == '.')
			snprintf(name, sizeof(name), "d/a.");
		snprintf(text, sizeof(text), "%d", i);
		put_text(in(dir, name), text);
	}
	request(&q, "names", "ls d");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_EXITED(&st, 0);
	b = output_of("names", BERTH_STDOUT);
	while (next_value(&b, &pos, &v, &n)) {
		files++;
		if (n == 1)
			seen[(uint8_t)v[0]] = true;
	}
	ASSERT_EQ(files, 254u);
	for (int i = 1; i < 256; i++)
		ASSERT(seen[i] || i == '/' || i == '.');
	free(b.p);
}

CASE(awkward_names_and_contents, RUNS)
{
	static const char *const names[] = {
		"-rf",     "--",       " lead",       "trail ", "new\nline", "tab\t",
		"quo'te",  "dou\"ble", "back\\slash", "*",      "$HOME",     "`id`",
		";x",      "ü€😀",      "\xff\xfe",    "..dots", "...",       "a..",
		".hidden", "CON",      "%s",          "~",      "\x1b[31m",  "con:aux",
	};
	const char *dir = new_artifact("awkward");
	struct berth_deploy_request q;
	struct berth_status st;
	char id[32], mark[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		put_text(in(dir, names[i]), names[i]);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *argv[] = {"./worker", "mark", mark, "read", names[i], NULL};

		snprintf(id, sizeof(id), "awkward-%zu", i);
		snprintf(mark, sizeof(mark), "%s", mark_of(id));
		request(&q, id, "");
		q.dir = dir;
		q.command = argv;
		run_request(&q, &st);
		ASSERT_EXITED(&st, 0);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), names[i]);
	}
}

CASE(long_and_deep, RUNS)
{
	const char *dir = new_artifact("deep");
	char name[256], path[PATH_MAX];
	const char *out;
	size_t n;

	memset(name, 'n', 255);
	name[255] = '\0';
	put_text(in(dir, name), "long");
	n = (size_t)snprintf(path, sizeof(path), "%s", dir);
	for (int i = 0; i < 100; i++) {
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/dir-%d", i);
		ASSERT_OK(mkdir(path, 0755));
	}
	strcat(path, "/leaf");
	put_text(path, "deep");
	out = tree_of("deep", dir);
	ASSERT_CONTAINS(out, name);
	ASSERT_CONTAINS(out, "/dir-98/dir-99/leaf\n");
}

CASE(modes_links_and_empty_directories, RUNS)
{
	const char *dir = new_artifact("modes");
	const char *out;

	put_bytes(in(dir, "exec"), "x", 1, 0755);
	put_bytes(in(dir, "setuid"), "x", 1, 06755);
	put_bytes(in(dir, "private"), "x", 1, 0600);
	put_bytes(in(dir, "group-exec"), "x", 1, 0654);
	put_bytes(in(dir, "nothing"), "", 0, 0644);
	ASSERT_OK(mkdir(in(dir, "empty"), 0755));
	ASSERT_OK(mkdir(in(dir, "empty/empty"), 0755));
	ASSERT_OK(symlink("exec", in(dir, "rel")));
	ASSERT_OK(symlink("/etc/hostname", in(dir, "abs")));
	ASSERT_OK(symlink("nowhere/at all", in(dir, "dangling")));
	ASSERT_OK(symlink("../../../..", in(dir, "up")));
	ASSERT_OK(symlink("empty", in(dir, "dirlink")));
	ASSERT_OK(symlink("selfie", in(dir, "selfie")));
	out = tree_of("modes", dir);
	ASSERT_CONTAINS(out, "fx 1 ./exec\n");
	ASSERT_CONTAINS(out, "fx 1 ./setuid\n");
	ASSERT_CONTAINS(out, "f- 1 ./private\n");
	ASSERT_CONTAINS(out, "f- 0 ./nothing\n");
	ASSERT_CONTAINS(out, "d- 0 ./empty\nd- 0 ./empty/empty\n");
	ASSERT_CONTAINS(out, "l- 0 ./rel -> exec\n");
	ASSERT_CONTAINS(out, "l- 0 ./abs -> /etc/hostname\n");
	ASSERT_CONTAINS(out, "l- 0 ./dangling -> nowhere/at all\n");
	ASSERT_CONTAINS(out, "l- 0 ./up -> ../../../..\n");
	ASSERT_CONTAINS(out, "l- 0 ./dirlink -> empty\n");
	ASSERT_CONTAINS(out, "l- 0 ./selfie -> selfie\n");
	{
		struct berth_deploy_request q;
		struct berth_status st;

		request(&q, "modes-2", "stat setuid stat exec read rel");
		q.dir = dir;
		run_request(&q, &st);
		ASSERT_NULL(strstr(text_out("modes-2", BERTH_STDOUT), "f 6"));
		ASSERT_NULL(strstr(text_out("modes-2", BERTH_STDOUT), "f 4"));
	}
}

CASE(mtimes_are_carried, RUNS)
{
	const char *dir = new_artifact("mtimes");
	struct timespec t[2] = {{1000000000, 0}, {1234567890, 0}};
	struct berth_deploy_request q;
	struct berth_status st;

	put_text(in(dir, "old"), "x");
	ASSERT_OK(utimensat(AT_FDCWD, in(dir, "old"), t, 0));
	request(&q, "mtimes", "stat old");
	q.dir = dir;
	run_request(&q, &st);
	ASSERT_CONTAINS(text_out("mtimes", BERTH_STDOUT), " 1 1234567890\n");
}

CASE(other_file_types_are_an_error_by_name, RUNS)
{
	const char *dir = new_artifact("types");
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	int rc;

	run("before-types", "exit 0", &st);
	ASSERT_OK(mkdir(in(dir, "sub"), 0755));
	ASSERT_OK(mkfifo(in(dir, "sub/a-fifo"), 0644));
	request(&q, "types", "exit 0");
	q.dir = dir;
	memset(&r, 0, sizeof(r));
	rc = berth_deploy(box(), &q, &r, &E);
	ASSERT(rc < 0 || (r.status.state == BERTH_FAILED && !strcmp(r.status.phase, "upload")));
	ASSERT_CONTAINS(rc < 0 ? E.message : r.status.message, "sub/a-fifo");
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "types", &st, &E));
	/* Ignored, it disturbs nobody. */
	put_text(in(dir, ".berthignore"), "a-fifo\n");
	tree_of("types", dir);
}

CASE(files_left_out, RUNS)
{
	const char *dir = new_artifact("ignored");
	const char *out;

	put_text(in(dir, ".berthignore"), "# a comment\n*.log\n/only-top\nbuild/\n!keep.log\n\n");
	ASSERT_OK(mkdir(in(dir, "build"), 0755));
	ASSERT_OK(mkdir(in(dir, "sub"), 0755));
	put_text(in(dir, "build/out"), "x");
	put_text(in(dir, "a.log"), "x");
	put_text(in(dir, "keep.log"), "x");
	put_text(in(dir, "sub/b.log"), "x");
	put_text(in(dir, "only-top"), "x");
	put_text(in(dir, "sub/only-top"), "x");
	put_text(in(dir, "sub/stays"), "x");
	out = tree_of("ignored", dir);
	ASSERT_LACKS(out, "./a.log");
	ASSERT_LACKS(out, "b.log");
	ASSERT_LACKS(out, "build");
	ASSERT_NULL(strstr(out, " ./only-top"));
	ASSERT_CONTAINS(out, "./keep.log\n");
	ASSERT_CONTAINS(out, "./sub/only-top\n");
	ASSERT_CONTAINS(out, "./sub/stays\n");
}

/* ── what is sent ─────────────────────────────────────────────────────────────────────────── */

static uint64_t sent;
static void count_upload(void *arg, const struct berth_progress *p)
{
	(void)arg;
	if (strcmp(p->phase, "upload") == 0 && p->done > sent)
		sent = p->done;
}

/* Deploys and returns how many bytes of contents went over. */
static uint64_t upload(const char *id, const char *dir, const char *what, struct berth_status *st)
{
	struct berth_deploy_request q;

	sent = 0;
	request(&q, id, what);
	q.dir = dir;
	q.progress = count_upload;
	run_request(&q, st);
	return sent;
}

CASE(only_what_changed_is_sent, RUNS)
{
	const char *dir = new_artifact("delta");
	struct berth_status st;
	static char big[1 << 20];
	uint64_t first, second;

	for (int i = 0; i < 8; i++) {
		char name[16];

		pattern_fill((uint64_t)i + 77, 0, big, sizeof(big));
		snprintf(name, sizeof(name), "big-%d", i);
		put_bytes(in(dir, name), big, sizeof(big), 0644);
	}
	put_text(in(dir, "small"), "before");
	first = upload("delta-1", dir, "exit 0", &st);
	ASSERT_GE(first, 8u << 20);
	second = upload("delta-2", dir, "exit 0", &st);
	ASSERT_EQ(second, 0u);
	put_text(in(dir, "small"), "after!");
	ASSERT_OK(rename(in(dir, "big-3"), in(dir, "moved")));
	second = upload("delta-3", dir, "read small stat big-3 exit 0", &st);
	ASSERT_LE(second, 65536u);
	ASSERT_STREQ(text_out("delta-3", BERTH_STDOUT), "after!No such file or directory\n");
}

CASE(a_change_that_keeps_size_and_mtime_is_seen, RUNS)
{
	const char *dir = new_artifact("racy");
	struct timespec t[2] = {{1500000000, 0}, {1500000000, 0}};
	struct berth_status st;
	char id[32], text[16];

	for (int i = 0; i < 10; i++) {
		snprintf(id, sizeof(id), "racy-%d", i);
		snprintf(text, sizeof(text), "text%d", i);
		put_text(in(dir, "f"), text);
		ASSERT_OK(utimensat(AT_FDCWD, in(dir, "f"), t, 0));
		upload(id, dir, "read f", &st);
		ASSERT_STREQ(text_out(id, BERTH_STDOUT), text);
	}
}

CASE(the_same_tree_is_the_same_artifact, RUNS)
{
	const char *a = new_artifact("twin-a"), *b = new_artifact("twin-b");
	struct berth_status sa, sb;

	put_text(in(a, "f"), "same");
	put_text(in(b, "f"), "same");
	upload("twin-1", a, "exit 0", &sa);
	ASSERT_EQ(upload("twin-2", b, "exit 0", &sb), 0u);
	ASSERT_STREQ(sa.artifact, sb.artifact);
	put_bytes(in(b, "f"), "same", 4, 0755);
	upload("twin-3", b, "exit 0", &sb);
	ASSERT_STRNE(sa.artifact, sb.artifact);
	put_bytes(in(b, "f"), "same", 4, 0644);
	ASSERT_OK(mkdir(in(b, "e"), 0755));
	upload("twin-4", b, "exit 0", &sb);
	ASSERT_STRNE(sa.artifact, sb.artifact);
}

CASE(two_deploys_do_not_mix, RUNS)
{
	const char *dir = new_artifact("mix");
	struct berth_status st;

	ASSERT_OK(mkdir(in(dir, "d"), 0755));
	put_text(in(dir, "d/old"), "1");
	upload("mix-1", dir, "exit 0", &st);
	ASSERT_OK(unlink(in(dir, "d/old")));
	put_text(in(dir, "d/new"), "2");
	upload("mix-2", dir, "tree d", &st);
	ASSERT_STREQ(text_out("mix-2", BERTH_STDOUT), "f- 1 d/new\n");
	ASSERT_OK(unlink(in(dir, "d/new")));
	ASSERT_OK(rmdir(in(dir, "d")));
	put_text(in(dir, "d"), "a file now");
	upload("mix-3", dir, "read d", &st);
	ASSERT_STREQ(text_out("mix-3", BERTH_STDOUT), "a file now");
}

CASE_TIMEOUT(ten_thousand_files, RUNS, 120)
{
	const char *dir = new_artifact("many");
	struct berth_status st;
	char name[64];
	int64_t t;

	for (int d = 0; d < 100; d++) {
		snprintf(name, sizeof(name), "d%d", d);
		ASSERT_OK(mkdir(in(dir, name), 0755));
		for (int f = 0; f < 100; f++) {
			snprintf(name, sizeof(name), "d%d/file-%d-%d", d, d, f);
			put_text(in(dir, name), name);
		}
	}
	t = now_ms();
	upload("many-1", dir, "count . read d99/file-99-99", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_STREQ(text_out("many-1", BERTH_STDOUT), "10101\nd99/file-99-99");
	DIAG("first: %" PRId64 " ms", now_ms() - t);
	put_text(in(dir, "d50/file-50-50"), "changed");
	t = now_ms();
	ASSERT_LE(upload("many-2", dir, "count . read d50/file-50-50", &st), 65536u);
	ASSERT_STREQ(text_out("many-2", BERTH_STDOUT), "10101\nchanged");
	DIAG("one file changed: %" PRId64 " ms", now_ms() - t);
}

CASE(one_big_file, RUNS)
{
	const char *dir = new_artifact("big");
	struct berth_status st;
	static char chunk[1 << 20];
	int fd = ASSERT_OK(open(in(dir, "big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));

	for (int i = 0; i < 40; i++) {
		pattern_fill(5, (uint64_t)i << 20, chunk, sizeof(chunk));
		ASSERT_EQ(write(fd, chunk, sizeof(chunk)), (ssize_t)sizeof(chunk));
	}
	close(fd);
	upload("big", dir, "read big", &st);
	ASSERT_EXITED(&st, 0);
	ASSERT_EQ(st.stdout_bytes, 40u << 20);
	{
		static char buf[1 << 20];
		struct berth_read_result r = {0};

		for (uint64_t at = 0; at < 40u << 20; at = r.next_offset) {
			OK(berth_read(box(), "big", BERTH_STDOUT, at, buf, sizeof(buf), &r, &E));
			pattern_fill(5, at, chunk, r.n);
			ASSERT(memcmp(buf, chunk, r.n) == 0);
		}
	}
}

CASE(a_directory_that_is_a_link_and_a_trailing_slash, RUNS)
{
	const char *dir = new_artifact("target");
	char link_path[PATH_MAX], slash[PATH_MAX];
	struct berth_status a, b, c;

	snprintf(link_path, sizeof(link_path), "%.3000s-link", dir);
	snprintf(slash, sizeof(slash), "%.3000s/", dir);
	ASSERT_OK(symlink("target", link_path));
	upload("via-dir", dir, "exit 0", &a);
	upload("via-link", link_path, "exit 0", &b);
	upload("via-slash", slash, "exit 0", &c);
	ASSERT_STREQ(a.artifact, b.artifact);
	ASSERT_STREQ(a.artifact, c.artifact);
}
