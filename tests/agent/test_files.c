/* SPDX-License-Identifier: MIT */
/*
 * PUT GET STAT LS MKDIR SYMLINK REMOVE in the file system of the sandbox. Those in views are in
 * test_view.c.
 */
#include "tap.h"

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

TEST(put_and_get)
{
	char path[400];
	struct stat st;

	begin();
	ASSERT_EQ(file_put(&c, NULL, "a/b/c.bin", "x\0y", 3, 0640), 0);
	ASSERT_OK(stat("home/a/b/c.bin", &st));
	ASSERT_EQ(st.st_mode & 07777, 0640);
	ASSERT_EQ(file_get(&c, NULL, "a/b/c.bin"), 0);
	ASSERT_MEMEQ(c.data, c.data_len, "x\0y", 3);
	ASSERT_EQ(client_int(&c, WK_SIZE, -1), 3);
	ASSERT_EQ(client_int(&c, WK_MODE, -1), 0640);
	ASSERT_EQ(client_int(&c, WK_MTIME_NS, 0),
		  (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
	/* Absolute paths are the sandbox's file system. */
	snprintf(path, sizeof(path), "%s/a/b/c.bin", proc.home);
	ASSERT_EQ(file_get(&c, NULL, path), 0);
	ASSERT_EQ(file_put(&c, NULL, path, "", 0, 04755), 0);
	ASSERT_OK(stat("home/a/b/c.bin", &st));
	ASSERT_EQ(st.st_mode & 07777, 0755); /* no setuid bit comes over the wire */
	ASSERT_EQ(st.st_size, 0);
	/* A link in the last place is replaced, not written through; one on the way is followed. */
	ASSERT_OK(symlink("b", "home/a/link"));
	ASSERT_OK(symlink("b/c.bin", "home/a/to-file"));
	ASSERT_EQ(file_put(&c, NULL, "a/link/d", "d", 1, 0644), 0);
	ASSERT_EQ(file_put(&c, NULL, "a/to-file", "new", 3, 0644), 0);
	ASSERT_OK(lstat("home/a/to-file", &st));
	ASSERT(S_ISREG(st.st_mode));
	ASSERT_STREQ(file_names(&c, NULL, "a/b"), "c.bin d");
	ASSERT_EQ(file_put(&c, NULL, "a/b", "x", 1, 0644), WIRE_E_CONFLICT);
	ASSERT_EQ(file_put(&c, NULL, "a/b/c.bin/x", "x", 1, 0644), WIRE_E_CONFLICT);
	ASSERT_EQ(file_put(&c, NULL, "a/b/.", "x", 1, 0644), WIRE_E_INVALID);
	ASSERT_EQ(file_put(&c, NULL, "", "x", 1, 0644), WIRE_E_INVALID);
	ASSERT_STREQ(file_names(&c, NULL, "a/b"), "c.bin d");
	end();
}

TEST(parts_and_times)
{
	struct wire_w *w;

	begin();
	w = client_begin(&c, WIRE_PUT);
	wire_w_str(w, WK_PATH, "f");
	wire_w_int(w, WK_MTIME_NS, INT64_C(1234567890123456789));
	client_end(&c);
	client_data(&c, "0123456789", 10);
	client_data_end(&c, "0123456789", 10, CLIENT_RIGHT);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "f", 0, 0, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_MTIME_NS, 0), INT64_C(1234567890123456789));
	ASSERT_EQ(client_int(&c, WK_MODE, 0), 0644);
	w = client_begin(&c, WIRE_GET);
	wire_w_str(w, WK_PATH, "f");
	wire_w_int(w, WK_OFFSET, 3);
	wire_w_int(w, WK_MAX, 4);
	client_end(&c);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	ASSERT_STREQ((char *)c.data, "3456");
	ASSERT_EQ(client_int(&c, WK_SIZE, 0), 10);
	w = client_begin(&c, WIRE_GET);
	wire_w_str(w, WK_PATH, "f");
	wire_w_int(w, WK_OFFSET, 300);
	client_end(&c);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	ASSERT_EQ(c.data_len, 0);
	/* MKDIR with a time settles what writing into it has changed. */
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "d", 0, 0, NULL), 0);
	w = client_begin(&c, WIRE_MKDIR);
	wire_w_str(w, WK_PATH, "d");
	wire_w_int(w, WK_MODE, 0700);
	wire_w_int(w, WK_MTIME_NS, INT64_C(1000000000000000001));
	client_end(&c);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "d", 0, 0, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_MTIME_NS, 0), INT64_C(1000000000000000001));
	ASSERT_EQ(client_int(&c, WK_MODE, 0), 0700);
	ASSERT_EQ(client_int(&c, WK_TYPE, 0), 'd');
	end();
}

TEST(broken_arrivals_change_nothing)
{
	struct client d;
	size_t n;

	begin();
	ASSERT_EQ(file_put(&c, NULL, "f", "old", 3, 0644), 0);
	wire_w_str(client_begin(&c, WIRE_PUT), WK_PATH, "f");
	client_end(&c);
	client_data(&c, "new", 3);
	client_data_end(&c, "new", 3, CLIENT_WRONG);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
	ASSERT_EQ(client_code(&c), WIRE_E_PROTOCOL);
	wire_w_int(client_begin(&c, WIRE_PUT), WK_SIZE, 4);
	wire_w_str(&c.w, WK_PATH, "f");
	client_end(&c);
	client_data(&c, "new", 3);
	client_data_end(&c, "new", 3, CLIENT_RIGHT);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
	/* A caller that dies inside. */
	wire_w_str(client_begin(&c, WIRE_PUT), WK_PATH, "f");
	client_end(&c);
	client_data(&c, "new", 3);
	client_data_end(&c, "new", 3, CLIENT_RIGHT);
	client_built(&c, &n);
	for (size_t cut = 1; cut < n; cut += 5) {
		ASSERT_EQ(client_open(&d, proc.dir), 0);
		ASSERT_EQ(write(d.fd, c.out, cut), (ssize_t)cut);
		ASSERT_OK(shutdown(d.fd, SHUT_WR));
		ASSERT_NE(client_call(&d, 0, NULL, NULL), WIRE_OK);
		client_close(&d);
	}
	client_reset(&c);
	ASSERT_EQ(file_get(&c, NULL, "f"), 0);
	ASSERT_STREQ((char *)c.data, "old");
	ASSERT_STREQ(file_names(&c, NULL, "."), "berth f");
	end();
}

TEST_TIMEOUT(sixty_four_megabytes, 60)
{
	size_t n = 64u << 20;
	uint8_t *p = malloc(n);

	begin();
	ASSERT_NOT_NULL(p);
	for (size_t i = 0; i < n; i += 8)
		memcpy(p + i, &i, 8);
	ASSERT_EQ(file_put(&c, NULL, "big", p, n, 0644), 0);
	ASSERT_EQ(file_get(&c, NULL, "big"), 0);
	ASSERT_EQ(c.data_len, n);
	ASSERT_EQ(memcmp(c.data, p, n), 0);
	free(p);
	end();
}

TEST(stat_and_ls)
{
	begin();
	ASSERT_OK(mkdir("home/d", 0711));
	ASSERT_OK(mkfifo("home/pipe", 0644));
	ASSERT_OK(symlink("/nowhere/at all", "home/broken"));
	ASSERT_OK(symlink("d", "home/good"));
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "broken", 0, 0, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_TYPE, 0), 'l');
	ASSERT_STREQ(client_str(&c, WK_TARGET), "/nowhere/at all");
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "broken", WK_FOLLOW, 1, NULL), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "good", WK_FOLLOW, 1, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_TYPE, 0), 'd');
	ASSERT_EQ(client_int(&c, WK_MODE, 0), 0711);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "pipe", 0, 0, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_TYPE, 0), '?');
	/* Reading it must not wait for a writer. */
	ASSERT_EQ(file_get(&c, NULL, "pipe"), WIRE_E_INVALID);
	ASSERT_EQ(file_get(&c, NULL, "d"), WIRE_E_CONFLICT);
	ASSERT_EQ(file_get(&c, NULL, "none"), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "none/x", 0, 0, NULL), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "pipe/x", 0, 0, NULL), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_LS, NULL, "none", 0, 0, NULL), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_LS, NULL, "pipe", 0, 0, NULL), WIRE_E_CONFLICT);
	ASSERT_STREQ(file_names(&c, NULL, ""), "berth broken d good pipe");
	ASSERT_EQ(c.events, 5);
	/* A view of what is not there. */
	ASSERT_EQ(file_get(&c, "no-such-id", "x"), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_put(&c, "no-such-id", "x", "x", 1, 0644), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_get(&c, "../..", "x"), WIRE_E_NOT_FOUND);
	end();
}

TEST(links_and_folders)
{
	begin();
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "a/b", 0, 0, NULL), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "a/b", WK_PARENTS, 1, NULL), 0);
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "a/b/", WK_PARENTS, 1, NULL), 0);
	ASSERT_EQ(file_op(&c, WIRE_SYMLINK, NULL, "a/l", WK_TARGET, 0, "../elsewhere"), 0);
	ASSERT_EQ(file_op(&c, WIRE_SYMLINK, NULL, "a/l", WK_TARGET, 0, "b"), 0);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, "a/l", 0, 0, NULL), 0);
	ASSERT_STREQ(client_str(&c, WK_TARGET), "b");
	ASSERT_EQ(file_op(&c, WIRE_SYMLINK, NULL, "a/b", WK_TARGET, 0, "x"), WIRE_E_CONFLICT);
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "a/l", 0, 0, NULL), WIRE_E_CONFLICT);
	ASSERT_EQ(file_put(&c, NULL, "a/f", "f", 1, 0644), 0);
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, NULL, "a/f", 0, 0, NULL), WIRE_E_CONFLICT);
	ASSERT_STREQ(file_names(&c, NULL, "a"), "b f l");
	/* Removing a link leaves what it points to. */
	ASSERT_EQ(file_put(&c, NULL, "a/b/kept", "k", 1, 0644), 0);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "a/l", WK_RECURSIVE, 1, NULL), 0);
	ASSERT_STREQ(file_names(&c, NULL, "a/b"), "kept");
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "a/b", 0, 0, NULL), WIRE_E_CONFLICT);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, ".", WK_RECURSIVE, 1, NULL), WIRE_E_INVALID);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "a/..", WK_RECURSIVE, 1, NULL), WIRE_E_INVALID);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "a", WK_RECURSIVE, 1, NULL), 0);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "a", 0, 0, NULL), WIRE_E_NOT_FOUND);
	end();
}

/* Deeper than any path can say, with modes that forbid entering, and links that lead out of it. */
TEST_TIMEOUT(removing_what_is_deep_and_closed, 60)
{
	struct stat st;

	proc = (struct agent_proc){.uid = 54321};
	ASSERT_EQ(agent_start(&proc, "home", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	if (fork() == 0) {
		if (setgid(54321) < 0 || setuid(54321) < 0 || chdir("home") < 0 ||
		    mkdir("outside", 0755) < 0 || mkdir("outside/kept", 0755) < 0 ||
		    mkdir("deep", 0755) < 0 || chdir("deep") < 0)
			_exit(1);
		for (int i = 0; i < 3000; i++) {
			if (mkdir("a-name-of-some-length", 0755) < 0 ||
			    symlink("/outside", "l") < 0 || symlink("../../outside", "m") < 0 ||
			    chdir("a-name-of-some-length") < 0)
				_exit(2);
		}
		if (mkdir("closed", 0755) < 0 || mkdir("closed/in", 0755) < 0 ||
		    chmod("closed/in", 0) < 0 || chmod("closed", 0) < 0 || chmod(".", 0500) < 0)
			_exit(3);
		_exit(0);
	}
	int status;

	ASSERT_GT(wait(&status), 0);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, NULL, "deep", WK_RECURSIVE, 1, NULL), 0);
	ASSERT_LT(stat("home/deep", &st), 0);
	ASSERT_OK(stat("home/outside/kept", &st));
	ASSERT_STREQ(file_names(&c, NULL, "."), "berth outside");
	end();
}

TEST_MAIN()
