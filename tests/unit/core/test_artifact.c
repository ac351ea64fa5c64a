/* SPDX-License-Identifier: MIT */
/* Artifacts: identity against an independent implementation, the cache, names, types, changes while
 * reading. */
#include "tap.h"

#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "core/artifact.h"
#include "core/filehash.h"
#include "wire/manifest.h"

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ASSERT_NOT_NULL(f);
	fputs(text, f);
	fclose(f);
}

/* Times far enough back for the racy rule do not exist on a ctime: so the clock's tick is waited
 * out, by looking at it. */
static void settle(const char *path)
{
	struct stat st;
	struct timespec now;

	ASSERT_OK(lstat(path, &st));
	do {
		clock_gettime(CLOCK_REALTIME, &now);
	} while ((now.tv_sec - st.st_ctim.tv_sec) * INT64_C(1000000000) + now.tv_nsec -
			 st.st_ctim.tv_nsec <
		 INT64_C(25000000));
}

static int load_err(const char *dir, const char *state, enum artifact_modules m,
		    struct artifact **ret, struct berth_error *err)
{
	struct artifact_options o = {.modules = m, .state_dir = state};

	return artifact_load(dir, &o, ret, err);
}

static struct artifact *load_as(const char *dir, const char *state, enum artifact_modules m)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;

	if (load_err(dir, state, m, &a, &err) < 0)
		FAIL("%s", err.message);
	return a;
}

static struct artifact *load(const char *dir)
{
	return load_as(dir, NULL, ARTIFACT_MODULES_KEEP);
}

/* The manifest must be what its page promises and say what the entries say. */
static void check_manifest(const struct artifact *a)
{
	const char *why = NULL;
	struct manifest_entry m;
	size_t pos = 0;

	if (a->manifest_len && manifest_check(a->manifest, a->manifest_len, &why) < 0)
		FAIL("manifest: %s", why);
	for (size_t i = 0; i < a->n; i++) {
		ASSERT_EQ(manifest_next(a->manifest, a->manifest_len, &pos, &m), 1);
		ASSERT_MEMEQ(m.path.p, m.path.n, a->entries[i].path, a->entries[i].path_len);
		ASSERT_EQ(m.type, a->entries[i].type);
		ASSERT_EQ(m.mtime_ns, a->entries[i].mtime_ns);
	}
	ASSERT_EQ(pos, a->manifest_len);
}

static void python_hash(const char *dir, char ret[SHA256_HEX + 1])
{
	char cmd[PATH_MAX];
	const char *root = getenv("BERTH_SOURCE_ROOT");
	FILE *p;

	if (system("python3 -c pass 2>/dev/null") != 0)
		SKIP("no python3");
	snprintf(cmd, sizeof(cmd), "python3 '%s/tests/unit/core/tree_hash.py' '%s'",
		 root ? root : ".", dir);
	p = popen(cmd, "r");
	ASSERT_NOT_NULL(p);
	ASSERT_EQ(fread(ret, 1, SHA256_HEX, p), SHA256_HEX);
	ret[SHA256_HEX] = '\0';
	ASSERT_EQ(fgetc(p), '\n');
	ASSERT_EQ(pclose(p), 0);
}

static void make_mixed(void)
{
	ASSERT_OK(mkdir("t", 0755));
	ASSERT_OK(mkdir("t/a", 0755));
	ASSERT_OK(mkdir("t/empty", 0755));
	put("t/a/x", "inside");
	put("t/a-b", "before a/x by bytes");
	put("t/a.b", "likewise");
	put("t/a0", "after a/x");
	put("t/run", "#!/bin/sh\n");
	ASSERT_OK(chmod("t/run", 0755));
	put("t/zero", "");
	ASSERT_OK(symlink("a/x", "t/link"));
	ASSERT_OK(symlink("/etc/../nowhere", "t/a/dangling"));
	ASSERT_OK(symlink(".", "t/loop"));
}

TEST(identity_is_what_python_says)
{
	struct artifact *a;
	char want[SHA256_HEX + 1];

	make_mixed();
	a = load("t");
	check_manifest(a);
	python_hash("t", want);
	ASSERT_STREQ(a->tree, want);
	artifact_free(a);
}

/* A constant, too: neither side can move without somebody noticing. */
TEST(identity_of_one_file)
{
	struct artifact *a;

	ASSERT_OK(mkdir("t", 0755));
	put("t/hello.txt", "hello\n");
	a = load("t");
	ASSERT_STREQ(a->tree, "775f8b2c6346b82e2a6b2d9a5e08998d6a9698de4299ce3ea1a8b8d86242486a");
	artifact_free(a);
}

TEST(empty_directory)
{
	struct artifact *a;

	ASSERT_OK(mkdir("t", 0755));
	a = load("t");
	ASSERT_EQ(a->n, 0);
	ASSERT_EQ(a->manifest_len, 0);
	ASSERT_STREQ(a->tree, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	ASSERT_NULL(artifact_find(a, "x"));
	artifact_free(a);
}

static void tree_of(const char *dir, char ret[SHA256_HEX + 1])
{
	struct artifact *a = load(dir);

	memcpy(ret, a->tree, SHA256_HEX + 1);
	artifact_free(a);
}

TEST(what_counts_and_what_does_not)
{
	char first[SHA256_HEX + 1], now[SHA256_HEX + 1];
	struct timespec old[2] = {{1000000000, 5}, {1000000000, 5}};

	make_mixed();
	tree_of("t", first);
	ASSERT_OK(utimensat(AT_FDCWD, "t/a/x", old, 0));
	ASSERT_OK(chmod("t/zero", 04640));
	ASSERT_OK(chmod("t/empty", 01700));
	tree_of("t", now);
	CHECK_STREQ(now, first);
	ASSERT_OK(chmod("t/zero", 0744));
	tree_of("t", now);
	ASSERT_STRNE(now, first);
	ASSERT_OK(chmod("t/zero", 0644));
	put("t/a/x", "insidf");
	tree_of("t", now);
	ASSERT_STRNE(now, first);
	put("t/a/x", "inside");
	ASSERT_OK(rename("t/a0", "t/a1"));
	tree_of("t", now);
	ASSERT_STRNE(now, first);
	ASSERT_OK(rename("t/a1", "t/a0"));
	ASSERT_OK(unlink("t/link"));
	ASSERT_OK(symlink("a/y", "t/link"));
	tree_of("t", now);
	ASSERT_STRNE(now, first);
	ASSERT_OK(unlink("t/link"));
	ASSERT_OK(symlink("a/x", "t/link"));
	ASSERT_OK(rmdir("t/empty"));
	tree_of("t", now);
	ASSERT_STRNE(now, first);
}

TEST(every_byte_in_names)
{
	struct artifact *a;
	char want[SHA256_HEX + 1], path[600], name[256];

	ASSERT_OK(mkdir("t", 0755));
	for (int c = 1; c < 256; c++) {
		if (c == '/')
			continue;
		snprintf(path, sizeof(path), "t/x%cy", c);
		put(path, "1");
		snprintf(path, sizeof(path), "t/%c", c);
		if (c != '.')
			put(path, "2");
	}
	put("t/..data", "two dots");
	put("t/...", "three dots");
	put("t/ leading and trailing ", "");
	put("t/-rf", "");
	memset(name, 'n', 255);
	name[255] = '\0';
	snprintf(path, sizeof(path), "t/%s", name);
	put(path, "255 bytes");
	a = load("t");
	ASSERT_EQ(a->n, 254 + 253 + 5);
	check_manifest(a);
	ASSERT_NOT_NULL(artifact_find(a, "..data"));
	ASSERT_NOT_NULL(artifact_find(a, "x\ny"));
	ASSERT_NOT_NULL(artifact_find(a, name));
	python_hash("t", want);
	ASSERT_STREQ(a->tree, want);
	artifact_free(a);
}

TEST(special_files_are_named)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;
	struct sockaddr_un sa = {.sun_family = AF_UNIX, .sun_path = "t/d/sock"};
	int fd;

	ASSERT_OK(mkdir("t", 0755));
	ASSERT_OK(mkdir("t/d", 0755));
	ASSERT_OK(mkfifo("t/d/fifo", 0600));
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "\"d/fifo\" is a named pipe");
	ASSERT_OK(unlink("t/d/fifo"));
	fd = ASSERT_OK(socket(AF_UNIX, SOCK_STREAM, 0));
	ASSERT_OK(bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "\"d/sock\" is a socket");
	/* left out is left out */
	put("t/.berthignore", "sock\n");
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), 0);
	ASSERT_EQ(a->n, 1);
	artifact_free(a);
	close(fd);
	if (mknod("t/dev", S_IFCHR | 0600, makedev(1, 3)) == 0) {
		ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_INVALID);
		ASSERT_CONTAINS(err.message, "\"dev\" is a device");
	}
}

TEST(not_a_directory)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;

	ASSERT_EQ(load_err("nowhere", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "nowhere");
	put("file", "");
	ASSERT_EQ(load_err("file", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "not a directory");
	ASSERT_NULL(a);
}

TEST(directory_through_a_link_is_fine)
{
	struct artifact *a;

	make_mixed();
	ASSERT_OK(symlink("t", "l"));
	a = load("l");
	ASSERT_EQ(a->n, 11);
	artifact_free(a);
}

TEST(ignored_is_not_there)
{
	struct artifact *a;

	make_mixed();
	put("t/.berthignore", "a/*\n!a/x\n/zero\nempty/\n");
	a = load("t");
	ASSERT_NULL(artifact_find(a, ".berthignore"));
	ASSERT_NULL(artifact_find(a, "zero"));
	ASSERT_NULL(artifact_find(a, "empty"));
	ASSERT_NULL(artifact_find(a, "a/dangling"));
	ASSERT_NOT_NULL(artifact_find(a, "a/x"));
	ASSERT_NOT_NULL(artifact_find(a, "a0"));
	artifact_free(a);
}

TEST(ignore_file_through_a_link_is_refused)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;

	make_mixed();
	ASSERT_OK(symlink("/etc/passwd", "t/.berthignore"));
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, ".berthignore");
}

TEST(node_modules)
{
	struct artifact *a;

	ASSERT_OK(mkdir("t", 0755));
	ASSERT_OK(mkdir("t/node_modules", 0755));
	ASSERT_OK(mkdir("t/sub", 0755));
	ASSERT_OK(mkdir("t/sub/node_modules", 0755));
	put("t/node_modules/m", "1");
	put("t/sub/node_modules/m", "1");
	a = load_as("t", NULL, ARTIFACT_MODULES_AUTO);
	ASSERT(!a->has_package_json && !a->modules_left_out);
	ASSERT_NOT_NULL(artifact_find(a, "node_modules/m"));
	artifact_free(a);
	put("t/package.json", "{}");
	a = load_as("t", NULL, ARTIFACT_MODULES_AUTO);
	ASSERT(a->has_package_json && a->modules_left_out);
	ASSERT_NULL(artifact_find(a, "node_modules"));
	ASSERT_NOT_NULL(artifact_find(a, "sub/node_modules/m"));
	artifact_free(a);
	a = load_as("t", NULL, ARTIFACT_MODULES_KEEP);
	ASSERT_NOT_NULL(artifact_find(a, "node_modules/m"));
	artifact_free(a);
	put("t/.berthignore", "package.json\n");
	a = load_as("t", NULL, ARTIFACT_MODULES_AUTO);
	ASSERT(!a->has_package_json);
	ASSERT_NOT_NULL(artifact_find(a, "node_modules/m"));
	artifact_free(a);
	a = load_as("t", NULL, ARTIFACT_MODULES_LEAVE);
	ASSERT_NULL(artifact_find(a, "node_modules"));
	artifact_free(a);
}

TEST(second_run_reads_nothing)
{
	struct artifact *a;
	char first[SHA256_HEX + 1];

	make_mixed();
	settle("t/zero");
	settle("t/run");
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n_read, a->n_files);
	memcpy(first, a->tree, sizeof(first));
	artifact_free(a);
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n_read, 0);
	ASSERT_STREQ(a->tree, first);
	check_manifest(a);
	artifact_free(a);
	put("t/a0", "AFTER a/x");
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n_read, 1);
	ASSERT_STRNE(a->tree, first);
	artifact_free(a);
}

/* Same size, same mtime: only ctime tells. */
TEST(edit_that_keeps_the_mtime_is_caught)
{
	struct artifact *a;
	struct stat st;
	char first[SHA256_HEX + 1];

	make_mixed();
	settle("t/run");
	settle("t/zero");
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	memcpy(first, a->tree, sizeof(first));
	artifact_free(a);
	ASSERT_OK(stat("t/a/x", &st));
	put("t/a/x", "INSIDE");
	ASSERT_OK(utimensat(AT_FDCWD, "t/a/x", (struct timespec[]){st.st_atim, st.st_mtim}, 0));
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n_read, 1);
	ASSERT_STRNE(a->tree, first);
	artifact_free(a);
}

/* Changed within the tick of the last change: a cache that trusted the times would answer with the
 * old hash. */
TEST(racy_file_is_not_remembered)
{
	struct artifact *a;

	ASSERT_OK(mkdir("t", 0755));
	for (int i = 0; i < 50; i++) {
		char text[16];
		char want[SHA256_HEX + 1], got[SHA256_HEX + 1];

		snprintf(text, sizeof(text), "%08d", i);
		put("t/f", text);
		a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
		memcpy(got, a->tree, sizeof(got));
		artifact_free(a);
		tree_of("t", want);
		ASSERT_STREQ(got, want);
	}
}

TEST(damaged_cache_is_no_cache)
{
	struct artifact *a;

	make_mixed();
	settle("t/run");
	settle("t/zero");
	artifact_free(load_as("t", "state", ARTIFACT_MODULES_KEEP));
	ASSERT_EQ(system("for f in state/cache/hashes/*; do printf X >>\"$f\"; done"), 0);
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n_read, a->n_files);
	artifact_free(a);
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n_read, 0);
	artifact_free(a);
}

TEST(cache_that_cannot_be_written_is_no_failure)
{
	make_mixed();
	put("state", "a file is in the way");
	artifact_free(load_as("t", "state", ARTIFACT_MODULES_KEEP));
	ASSERT_EQ(access("state", F_OK), 0);
}

static int changes;

static void append_once(const char *path)
{
	if (strcmp(path, "a0") == 0 && changes++ == 0)
		put("t/a0", "something longer than before");
}

static void append_always(const char *path)
{
	FILE *f;

	if (strcmp(path, "a0") != 0)
		return;
	f = fopen("t/a0", "a");
	fputc('x', f);
	fclose(f);
}

TEST(changed_while_read)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;
	char want[SHA256_HEX + 1];

	make_mixed();
	filehash_test_hook = append_once;
	a = load("t");
	filehash_test_hook = NULL;
	tree_of("t", want);
	ASSERT_STREQ(a->tree, want);
	check_manifest(a);
	artifact_free(a);
	a = NULL;
	filehash_test_hook = append_always;
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_CONFLICT);
	ASSERT_CONTAINS(err.message, "\"a0\" changed while it was read");
	ASSERT_NULL(a);
}

static void swap_for_fifo(const char *path)
{
	/* hashing a0 takes away what stands behind it in the list */
	if (strcmp(path, "a0") == 0) {
		unlink("t/run");
		if (mkfifo("t/run", 0600) < 0 && errno != EEXIST)
			abort();
	}
}

TEST(swapped_for_a_fifo_does_not_hang)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact_options o = {.threads = 1};
	struct artifact *a = NULL;

	make_mixed();
	filehash_test_hook = swap_for_fifo;
	ASSERT_EQ(artifact_load("t", &o, &a, &err), BERTH_E_CONFLICT);
	ASSERT_CONTAINS(err.message, "\"run\"");
}

TEST(open_for_sending)
{
	struct artifact *a;
	const struct artifact_entry *e;
	int fd;

	make_mixed();
	a = load("t");
	e = artifact_find(a, "a/x");
	fd = artifact_open_file(a, e);
	ASSERT_OK(fd);
	ASSERT(artifact_file_unchanged(fd, e));
	put("t/a/x", "other and longer");
	ASSERT(!artifact_file_unchanged(fd, e));
	close(fd);
	ASSERT_EQ(artifact_open_file(a, e), -ESTALE);
	unlink("t/a/x");
	ASSERT_EQ(artifact_open_file(a, e), -ESTALE);
	ASSERT_OK(symlink("/etc/passwd", "t/a/x"));
	ASSERT_EQ(artifact_open_file(a, e), -ESTALE);
	unlink("t/a/x");
	unlink("t/a/dangling");
	rmdir("t/a");
	ASSERT_OK(symlink("/etc", "t/a"));
	ASSERT_EQ(artifact_open_file(a, e), -ESTALE);
	artifact_free(a);
}

TEST(deep_and_long)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;
	int fd, next;

	ASSERT_OK(mkdir("t", 0755));
	fd = ASSERT_OK(open("t", O_RDONLY | O_DIRECTORY));
	for (int i = 0; i < 300; i++) {
		ASSERT_OK(mkdirat(fd, "d", 0755));
		next = ASSERT_OK(openat(fd, "d", O_RDONLY | O_DIRECTORY));
		close(fd);
		fd = next;
		if (i == 200) {
			a = load("t");
			ASSERT_EQ(a->n, 201);
			check_manifest(a);
			artifact_free(a);
		}
	}
	close(fd);
	a = NULL;
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "inside each other");
}

TEST(path_too_long)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;
	char name[251];
	int fd, next;

	memset(name, 'n', 250);
	name[250] = '\0';
	ASSERT_OK(mkdir("t", 0755));
	fd = ASSERT_OK(open("t", O_RDONLY | O_DIRECTORY));
	for (int i = 0; i < 17; i++) {
		ASSERT_OK(mkdirat(fd, name, 0755));
		next = ASSERT_OK(openat(fd, name, O_RDONLY | O_DIRECTORY));
		close(fd);
		fd = next;
	}
	close(fd);
	ASSERT_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "too long");
}

TEST_TIMEOUT(ten_thousand_files, 120)
{
	struct artifact *a, *b;
	struct artifact_options one = {.threads = 1};
	char path[64], text[64], want[SHA256_HEX + 1];

	ASSERT_OK(mkdir("t", 0755));
	for (int d = 0; d < 100; d++) {
		snprintf(path, sizeof(path), "t/d%02d", d);
		ASSERT_OK(mkdir(path, 0755));
		for (int i = 0; i < 100; i++) {
			snprintf(path, sizeof(path), "t/d%02d/f%02d", d, i);
			snprintf(text, sizeof(text), "file %d of %d", i, d);
			put(path, text);
		}
	}
	settle("t/d99/f99");
	a = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(a->n, 10100);
	ASSERT_EQ(a->n_files, 10000);
	check_manifest(a);
	ASSERT_EQ(artifact_load("t", &one, &b, NULL), 0);
	ASSERT_STREQ(a->tree, b->tree);
	artifact_free(b);
	b = load_as("t", "state", ARTIFACT_MODULES_KEEP);
	ASSERT_EQ(b->n_read, 0);
	ASSERT_STREQ(a->tree, b->tree);
	ASSERT_MEMEQ(a->manifest, a->manifest_len, b->manifest, b->manifest_len);
	artifact_free(b);
	python_hash("t", want);
	ASSERT_STREQ(a->tree, want);
	artifact_free(a);
}

/* One that cannot be read among many: the error names it, whichever thread met it. */
TEST(unreadable_file)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;
	char path[64];

	bool root = geteuid() == 0;

	if (root && (chown(".", 65534, 65534) < 0 || seteuid(65534) < 0))
		SKIP("root, and cannot become another");
	ASSERT_OK(mkdir("t", 0755));
	for (int i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "t/f%03d", i);
		put(path, "x");
	}
	ASSERT_OK(chmod("t/f123", 0));
	CHECK_EQ(load_err("t", NULL, 0, &a, &err), BERTH_E_PERM);
	if (root)
		ASSERT_OK(seteuid(0));
	ASSERT_CONTAINS(err.message, "\"f123\"");
}

TEST_TIMEOUT(without_memory, 60)
{
	struct artifact_options o = {.state_dir = "state", .threads = 1};

	make_mixed();
	put("t/.berthignore", "nothing\n*.of\nthis/\n");
	artifact_free(load_as("t", "state", ARTIFACT_MODULES_KEEP));
	for (unsigned long n = 1;; n++) {
		struct artifact *a = NULL;
		struct berth_error err = BERTH_ERROR_INIT;
		int r;

		mem_fail_from(n);
		r = artifact_load("t", &o, &a, &err);
		if (!mem_failed()) {
			mem_fail_from(0);
			ASSERT_EQ(r, 0);
			ASSERT_GT(n, 10);
			artifact_free(a);
			break;
		}
		mem_fail_from(0);
		/* the cache alone may do without */
		if (r == 0)
			artifact_free(a);
		else
			ASSERT_EQ(r, BERTH_E_NOMEM);
	}
}

TEST_MAIN()
