/* SPDX-License-Identifier: MIT */
/*
 * HAVE and UNPACK over a real agent's socket: what arrives, what is not sent again, and that
 * nothing is left of what went wrong.
 */
#include "tap.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "tree.h"

static struct agent_proc proc;
static struct client c;

static void begin(void)
{
	ASSERT_EQ(agent_start(&proc, "home", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

/* Path of something in an unpacked tree (static). */
static const char *at(const struct tree *t, const char *path)
{
	static char buf[8192];

	snprintf(buf, sizeof(buf), "%s/store/t/%s/%s", proc.dir, t->hex, path);
	return buf;
}

static int count(const char *sub)
{
	char path[512];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", proc.dir, sub);
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static bool tmp_is_empty(void *arg)
{
	(void)arg;
	return count("tmp") == 0;
}

/* Contents in the store. */
static int blobs(void)
{
	char path[64];
	int n = 0;

	for (int i = 0; i < 256; i++) {
		snprintf(path, sizeof(path), "store/b/%02x", (unsigned)i);
		n += count(path);
	}
	return n;
}

/* Everything of the manifest is there as it was described, and nothing else. */
static void check_tree(const struct tree *t)
{
	size_t good = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct tree_entry *e = &t->e[i];
		static char buf[1 << 16];
		struct stat st;
		ssize_t n;
		int fd;

		if (lstat(at(t, e->path), &st) < 0)
			FAIL("%s is missing: %s", e->path, strerror(errno));
		if (e->type == 'd' && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755)
			good++;
		if (e->type == 'l') {
			n = readlink(at(t, e->path), buf, sizeof(buf));
			good += n == (ssize_t)strlen(e->target) &&
				memcmp(buf, e->target, (size_t)n) == 0;
		}
		if (e->type != 'f')
			continue;
		if (!S_ISREG(st.st_mode) || (size_t)st.st_size != e->size ||
		    (st.st_mode & 07777) != (e->executable ? 0755u : 0644u) ||
		    (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec != e->mtime_ns)
			FAIL("%s: mode %o, size %jd, mtime %jd.%09ld", e->path, st.st_mode,
			     (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		fd = open(at(t, e->path), O_RDONLY | O_CLOEXEC);
		for (size_t off = 0; off < e->size; off += (size_t)n) {
			n = read(fd, buf, sizeof(buf));
			if (n <= 0 || memcmp(buf, e->content + off, (size_t)n) != 0)
				FAIL("%s has other contents", e->path);
		}
		close(fd);
		good++;
	}
	ASSERT_EQ(good, t->n);
}

static int64_t have(const char *tree, const char *layer)
{
	struct wire_w *w = client_begin(&c, WIRE_HAVE);

	wire_w_str(w, WK_TREE, tree);
	wire_w_str(w, WK_LAYER, layer);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	return client_code(&c) == 0 ? client_int(&c, WK_HAVE, -1) : -1;
}

static void small_tree(struct tree *t)
{
	*t = (struct tree){0};
	tree_dir(t, "bin");
	tree_file(t, "bin/run", "#!/bin/sh\necho hi\n", 18, true);
	tree_text(t, "data.txt", "some data");
	tree_text(t, "empty", "");
	tree_dir(t, "hollow");
	tree_dir(t, "hollow/deeper");
	tree_link(t, "link", "data.txt");
	tree_finish(t);
}

TEST(tree_arrives_once)
{
	struct tree t;

	begin();
	small_tree(&t);
	ASSERT_EQ(have(t.hex, NULL), 0);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(t.sent, 2); /* the empty file has nothing to send */
	check_tree(&t);
	ASSERT_EQ(have(t.hex, NULL), 1);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(t.sent, 0);
	ASSERT(client_until(tmp_is_empty, NULL));
	end();
}

TEST(empty_tree)
{
	struct tree t = {0};

	begin();
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(have(t.hex, NULL), 1);
	end();
}

TEST(contents_are_shared)
{
	struct tree t, u = {0};
	struct stat a, b;

	begin();
	small_tree(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	tree_dir(&u, "bin");
	tree_file(&u, "bin/run", "#!/bin/sh\necho hi\n", 18, true);
	tree_text(&u, "moved.txt", "some data");
	tree_text(&u, "new", "new contents");
	tree_finish(&u);
	ASSERT_EQ(tree_unpack(&u, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(u.sent, 1);
	check_tree(&u);
	ASSERT_OK(stat(at(&t, "data.txt"), &a));
	ASSERT_OK(stat(at(&u, "moved.txt"), &b));
	ASSERT_EQ(a.st_ino, b.st_ino);
	end();
}

TEST(other_mode_or_time_is_a_copy)
{
	struct tree t, u;
	struct stat a, b;

	begin();
	small_tree(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	small_tree(&u);
	for (size_t i = 0; i < u.n; i++) {
		if (strcmp(u.e[i].path, "data.txt") == 0)
			u.e[i].executable = true;
		if (strcmp(u.e[i].path, "bin/run") == 0)
			u.e[i].mtime_ns -= 1;
	}
	tree_finish(&u);
	ASSERT_EQ(tree_unpack(&u, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(u.sent, 0);
	check_tree(&u);
	check_tree(&t);
	ASSERT_OK(stat(at(&t, "data.txt"), &a));
	ASSERT_OK(stat(at(&u, "data.txt"), &b));
	ASSERT_NE(a.st_ino, b.st_ino);
	end();
}

TEST(same_contents_twice_are_sent_once)
{
	struct tree t = {0};

	begin();
	tree_text(&t, "a", "twins");
	tree_text(&t, "b", "twins");
	tree_file(&t, "c", "twins", 5, true);
	tree_text(&t, "d", "alone");
	tree_finish(&t);
	t.e[1].mtime_ns = 1; /* b */
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(t.sent, 2);
	check_tree(&t);
	ASSERT_EQ(blobs(), 2);
	end();
}

TEST(names_of_every_legal_byte)
{
	struct tree t = {0};
	char name[256];

	begin();
	for (int i = 1; i < 256; i++) {
		if (i == '/')
			continue;
		snprintf(name, sizeof(name), "x%cy", i);
		tree_text(&t, name, name);
		name[0] = (char)i;
		name[1] = '\0';
		if (i != '.')
			tree_text(&t, name, name);
	}
	memset(name, 'n', 255);
	name[255] = '\0';
	tree_text(&t, name, "the longest name");
	tree_text(&t, "...", "dots");
	tree_text(&t, "..data", "two dots and more");
	tree_dir(&t, "..dir");
	tree_text(&t, "..dir/x", "inside");
	tree_dir(&t, "-rf");
	tree_text(&t, "-rf/*", "star");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	check_tree(&t);
	end();
}

TEST(links_stay_as_they_are)
{
	struct tree t = {0};
	struct stat st;

	begin();
	ASSERT_OK(mkdir("outside", 0755));
	tree_link(&t, "abs", "/etc/passwd");
	tree_link(&t, "up", "../../../../../../outside");
	tree_link(&t, "dangling", "nowhere");
	tree_link(&t, "self", "self");
	tree_link(&t, "dir", ".");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	check_tree(&t);
	/* A manifest that goes through one is refused. */
	tree_text(&t, "up/evil", "evil");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), WIRE_E_INVALID);
	ASSERT_LT(stat("outside/evil", &st), 0);
	ASSERT(client_until(tmp_is_empty, NULL));
	end();
}

TEST(bad_manifests)
{
	static const struct {
		const char *name, *path[3];
		char type[3];
	} cases[] = {
		{"up", {"../x"}, "f"},
		{"absolute", {"/x"}, "f"},
		{"empty component", {"a", "a//b"}, "df"},
		{"dot", {"."}, "d"},
		{"dot inside", {"a", "a/./b"}, "df"},
		{"no parent", {"a/b"}, "f"},
		{"parent is a file", {"a", "a/b"}, "ff"},
		{"parent is a link", {"a", "a/b"}, "lf"},
		{"twice", {"a", "a"}, "ff"},
	};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		SUBTEST("%s", cases[i].name)
		{
			struct tree t = {0};

			for (int k = 0; k < 3 && cases[i].path[k]; k++) {
				if (cases[i].type[k] == 'd')
					tree_dir(&t, cases[i].path[k]);
				else if (cases[i].type[k] == 'l')
					tree_link(&t, cases[i].path[k], "..");
				else
					tree_text(&t, cases[i].path[k], "x");
			}
			tree_finish(&t);
			ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), WIRE_E_INVALID);
			ASSERT_EQ(have(t.hex, NULL), 0);
			tree_free(&t);
		}
	}
	ASSERT_EQ(blobs(), 0);
	end();
}

TEST(wrong_hash_leaves_nothing)
{
	struct tree t;

	begin();
	small_tree(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_WRONG), WIRE_E_PROTOCOL);
	ASSERT_EQ(have(t.hex, NULL), 0);
	ASSERT_EQ(blobs(), 0);
	ASSERT_EQ(count("store/t"), 0);
	ASSERT(client_until(tmp_is_empty, NULL));
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_NONE), WIRE_E_PROTOCOL);
	ASSERT_EQ(have(t.hex, NULL), 0);
	/* And the stream is in step: */
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	check_tree(&t);
	end();
}

TEST(too_much_and_too_little)
{
	struct wire_slice bits;
	struct tree t, more, less;

	begin();
	small_tree(&t);
	small_tree(&more);
	small_tree(&less);
	tree_text(&more, "zz", "more");
	less.n--;
	for (int i = 0; i < 2; i++) {
		struct tree *other = i ? &less : &more;

		tree_request(&t, &c);
		ASSERT_EQ(client_call(&c, WIRE_EVENT, NULL, NULL), WIRE_EVENT);
		ASSERT(wire_find(c.p, c.n, WK_MISSING, &bits));
		if (i)
			client_data_end(&c, "", 0, CLIENT_RIGHT);
		else
			tree_contents(other, &c, (const uint8_t *)"\xff\xff", 2, CLIENT_RIGHT);
		ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
		ASSERT_EQ(client_code(&c), WIRE_E_PROTOCOL);
		ASSERT_EQ(have(t.hex, NULL), 0);
		ASSERT_EQ(blobs(), 0);
	}
	end();
}

/* The bytes of a whole exchange, cut off at every frame's start and inside every frame. */
TEST_TIMEOUT(cut_off_streams, 60)
{
	struct tree t;
	const uint8_t *all;
	size_t len, at_byte = 0, cuts = 0, cut[64];
	uint8_t type;
	uint32_t n;

	begin();
	small_tree(&t);
	tree_request(&t, &c);
	tree_contents(&t, &c, (const uint8_t *)"\xff", 1, CLIENT_RIGHT);
	all = client_built(&c, &len);
	while (at_byte < len && cuts < 60) {
		cut[cuts++] = at_byte;
		cut[cuts++] = at_byte + 3;
		ASSERT_EQ(wire_frame_header(all + at_byte, &type, &n), 0);
		if (n)
			cut[cuts++] = at_byte + WIRE_FRAME_HEADER + n / 2;
		at_byte += WIRE_FRAME_HEADER + n;
	}
	ASSERT_GE(cuts, 10);
	for (size_t i = 1; i < cuts; i++) {
		struct client d;

		ASSERT_EQ(client_open(&d, proc.dir), 0);
		ASSERT_EQ(write(d.fd, all, cut[i]), (ssize_t)cut[i]);
		ASSERT_OK(shutdown(d.fd, SHUT_WR));
		ASSERT_NE(client_call(&d, 0, NULL, NULL), WIRE_OK);
		client_close(&d);
	}
	client_reset(&c);
	ASSERT(client_until(tmp_is_empty, NULL));
	ASSERT_EQ(have(t.hex, NULL), 0);
	ASSERT_EQ(blobs(), 0);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	check_tree(&t);
	end();
}

TEST_TIMEOUT(ten_thousand_files, 120)
{
	struct tree t = {0};
	int64_t start, first, second;
	char path[64], text[64];

	begin();
	for (int d = 0; d < 100; d++) {
		snprintf(path, sizeof(path), "dir%02d", d);
		tree_dir(&t, path);
		for (int f = 0; f < 100; f++) {
			snprintf(path, sizeof(path), "dir%02d/file%02d.js", d, f);
			snprintf(text, sizeof(text), "contents of %d %d", d, f);
			tree_text(&t, path, text);
		}
	}
	tree_finish(&t);
	start = client_now_ms();
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	first = client_now_ms() - start;
	ASSERT_EQ(t.sent, 10000);
	check_tree(&t);
	tree_text(&t, "one-more", "one more");
	tree_finish(&t);
	start = client_now_ms();
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	second = client_now_ms() - start;
	ASSERT_EQ(t.sent, 1);
	check_tree(&t);
	DIAG("10,000 files: %d ms, with one more: %d ms", (int)first, (int)second);
	end();
}

TEST_TIMEOUT(hundred_megabytes, 120)
{
	struct tree t = {0};
	size_t n = 10u << 20;
	uint8_t *bytes = malloc(n);
	int64_t start, first, second;
	char path[64];

	begin();
	ASSERT_NOT_NULL(bytes);
	for (int f = 0; f < 10; f++) {
		memset(bytes, 'a' + f, n);
		for (size_t i = 0; i < n; i += 4096)
			memcpy(bytes + i, &i, sizeof(i));
		snprintf(path, sizeof(path), "big%d", f);
		tree_file(&t, path, bytes, n, false);
	}
	tree_finish(&t);
	tree_request(&t, &c);
	ASSERT_EQ(client_call(&c, WIRE_EVENT, NULL, NULL), WIRE_EVENT);
	tree_contents(&t, &c, (const uint8_t *)"\xff\x03", 2, CLIENT_RIGHT);
	start = client_now_ms();
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	first = client_now_ms() - start;
	check_tree(&t);
	tree_text(&t, "small", "small");
	tree_finish(&t);
	start = client_now_ms();
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	second = client_now_ms() - start;
	ASSERT_EQ(t.sent, 1);
	DIAG("100 MiB in 10 files: %d ms, 1 kB more: %d ms", (int)first, (int)second);
	free(bytes);
	end();
}

TEST_TIMEOUT(twenty_at_once, 60)
{
	struct tree t = {0};
	struct client d[20];
	char path[64], text[256];
	struct wire_slice bits;

	begin();
	for (int f = 0; f < 200; f++) {
		snprintf(path, sizeof(path), "file%03d", f);
		snprintf(text, sizeof(text), "contents %d", f);
		tree_text(&t, path, text);
	}
	tree_finish(&t);
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(client_open(&d[i], proc.dir), 0);
	/* All of them have been told what is missing before the first sends it. */
	for (int i = 0; i < 20; i++) {
		tree_request(&t, &d[i]);
		ASSERT_EQ(client_call(&d[i], WIRE_EVENT, NULL, NULL), WIRE_EVENT);
		ASSERT(wire_find(d[i].p, d[i].n, WK_MISSING, &bits));
		tree_contents(&t, &d[i], bits.p, bits.n, CLIENT_RIGHT);
		ASSERT_EQ(t.sent, 200);
	}
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(client_send(&d[i]), 0);
	for (int i = 0; i < 20; i++) {
		client_call(&d[i], 0, NULL, NULL);
		ASSERT_EQ(client_code(&d[i]), 0);
		client_close(&d[i]);
	}
	check_tree(&t);
	ASSERT_EQ(blobs(), 200);
	ASSERT(client_until(tmp_is_empty, NULL));
	end();
}

TEST(half_a_sender_dies)
{
	struct tree t;
	struct client d;

	begin();
	small_tree(&t);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	tree_request(&t, &d);
	ASSERT_EQ(client_call(&d, WIRE_EVENT, NULL, NULL), WIRE_EVENT);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0); /* the other one does not wait */
	client_close(&d);
	ASSERT(client_until(tmp_is_empty, NULL));
	check_tree(&t);
	end();
}

static bool is_synced(void *arg)
{
	char path[512], buf[32];
	const char *hex = arg;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/store/dirty", proc.dir);
	if (access(path, F_OK) == 0)
		return false;
	snprintf(path, sizeof(path), "%s/store/t/%s.ok", proc.dir, hex);
	fd = open(path, O_RDONLY);
	n = read(fd, buf, sizeof(buf));
	close(fd);
	return n == 7 && memcmp(buf, "tsynced", 7) == 0;
}

/* What was made in another boot and is not known to be on the disk is not there. */
TEST(torn_trees_are_not_trusted)
{
	char marker[512], dirty[512];
	struct tree t, u;
	int fd;

	begin();
	small_tree(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	snprintf(marker, sizeof(marker), "%s/store/t/%s.ok", proc.dir, t.hex);
	snprintf(dirty, sizeof(dirty), "%s/store/dirty", proc.dir);
	ASSERT(client_until(is_synced, t.hex)); /* nobody writes there any more */
	/* As a power failure would leave it: markers of another boot, a file that is shorter than
	 * it was. */
	fd = open(marker, O_WRONLY | O_TRUNC);
	ASSERT_EQ(write(fd, "tAAAAAAAAAAAAAAAA", 17), 17);
	close(fd);
	fd = open(dirty, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ASSERT_EQ(write(fd, "AAAAAAAAAAAAAAAABBBBBBBBBBBBBBBB", 32), 32);
	close(fd);
	ASSERT_OK(truncate(at(&t, "data.txt"), 3));
	ASSERT_EQ(have(t.hex, NULL), 0);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(t.sent, 2);
	check_tree(&t);
	ASSERT_EQ(have(t.hex, NULL), 1);
	/* Nor is a content whose size is not what it should be. */
	ASSERT_OK(truncate(at(&t, "bin/run"), 3));
	small_tree(&u);
	tree_text(&u, "x", "x");
	tree_finish(&u);
	ASSERT_EQ(tree_unpack(&u, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(u.sent, 2);
	check_tree(&u);
	end();
}

TEST(background_makes_it_safe)
{
	struct tree t;

	begin();
	small_tree(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT(client_until(is_synced, t.hex));
	ASSERT_EQ(have(t.hex, NULL), 1);
	end();
}

/* A file system of 6 MB for the agent alone. */
TEST_TIMEOUT(full_disk, 60)
{
	size_t n = 4u << 20;
	uint8_t *bytes = malloc(n);
	struct tree t = {0}, small;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		SKIP("needs a mount namespace");
	ASSERT_OK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_OK(mkdir("small", 0755));
	ASSERT_OK(mount("tmpfs", "small", "tmpfs", 0, "size=6m"));
	ASSERT_EQ(agent_start(&proc, "small/home", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT_NOT_NULL(bytes);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 255);
	tree_file(&t, "big1", bytes, n, false);
	bytes[0]++;
	tree_file(&t, "big2", bytes, n, false);
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), WIRE_E_IO);
	ASSERT_EQ(client_int(&c, WK_ERRNO, 0), ENOSPC);
	ASSERT_EQ(have(t.hex, NULL), 0);
	ASSERT_EQ(blobs(), 0);
	ASSERT(client_until(tmp_is_empty, NULL));
	/* PUT says so as well, and keeps nothing. */
	wire_w_str(client_begin(&c, WIRE_PUT), WK_PATH, "big");
	client_end(&c);
	client_data(&c, bytes, n);
	client_data(&c, bytes, n);
	client_data_end(&c, bytes, n, CLIENT_NONE);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
	ASSERT_EQ(client_int(&c, WK_ERRNO, 0), ENOSPC);
	/* All of the space is there again. */
	t.n--;
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	check_tree(&t);
	small_tree(&small);
	ASSERT_EQ(tree_unpack(&small, &c, CLIENT_RIGHT), 0);
	free(bytes);
	end();
}

static int n_runtimes;

TEST(have_tells_what_programs_there_are)
{
	struct wire_slice v;
	struct wire_r r;
	struct wire_w *w;
	uint16_t key;

	begin();
	w = client_begin(&c, WIRE_HAVE);
	wire_w_str(w, WK_RUNTIME, "sh");
	wire_w_str(w, WK_RUNTIME, "no-such-program-anywhere");
	client_end(&c);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	wire_r_init(&r, c.p, c.n);
	while (wire_r_next(&r, &key, &v)) {
		if (key != WK_RUNTIME)
			continue;
		n_runtimes++;
		if (memcmp(v.p, "sh", 3) == 0)
			ASSERT_EQ(v.p[3], '/');
		else
			ASSERT_EQ(v.n, sizeof("no-such-program-anywhere"));
	}
	ASSERT_EQ(n_runtimes, 2);
	ASSERT_STRNE(client_str(&c, WK_LIBC), "");
	ASSERT_EQ(have("zz", NULL), -1);
	ASSERT_EQ(client_code(&c), WIRE_E_INVALID);
	end();
}

TEST_MAIN()
