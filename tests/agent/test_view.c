/* SPDX-License-Identifier: MIT */
/*
 * The views that executions run in, at every level that this machine has, and files put into and
 * taken out of them. Each case runs three times: with overlays as root, with overlays in a user
 * namespace, and with copies.
 */
#include "tap.h"

#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "modes.h"
#include "tree.h"

static struct agent_proc proc;
static struct client c;
static struct tree t;

static void begin(const struct mode *m)
{
	if (strcmp(m->name, "copy") != 0)
		TEST_REQUIRE("overlay", "copy on write");
	ASSERT_EQ(mode_start(&proc, m), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	t = (struct tree){0};
	tree_text(&t, "data.txt", "some data\n");
	tree_dir(&t, "dir");
	tree_text(&t, "dir/a", "a");
	tree_text(&t, "dir/b", "b");
	tree_dir(&t, "..data");
	tree_link(&t, "inside", "dir");
	tree_link(&t, "out", "/tmp");
	tree_link(&t, "up", "../..");
	tree_link(&t, "to-data", "data.txt");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
	tree_free(&t);
}

static const char *app(const struct mode *m, const char *id)
{
	static char buf[600];

	if (m != &modes[3])
		snprintf(buf, sizeof(buf), "%s/app\n", proc.dir);
	else
		snprintf(buf, sizeof(buf), "%s/x/%s/view\n", proc.dir, id);
	return buf;
}

static void check_store(void)
{
	char path[600], text[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/store/t/%s/data.txt", proc.dir, t.hex);
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof(text));
	close(fd);
	ASSERT_MEMEQ(text, (size_t)(n > 0 ? n : 0), "some data\n", 10);
	snprintf(path, sizeof(path), "%s/store/t/%s/made", proc.dir, t.hex);
	ASSERT_LT(access(path, F_OK), 0);
}

/* Can the file system of the working directory share blocks between files? */
static bool reflinks(void)
{
	int a = open("reflink-a", O_RDWR | O_CREAT, 0600),
	    b = open("reflink-b", O_RDWR | O_CREAT, 0600);
	bool r = write(a, "x", 1) == 1 && ioctl(b, FICLONE, a) == 0;

	close(a);
	close(b);
	return r;
}

TEST_TIMEOUT(each_execution_has_its_own, 60)
{
	EACH_MODE(m)
	{
		begin(m);
		ASSERT_EQ(
			launch_run(
				&c, "one", t.hex,
				"pwd; cat data.txt; echo changed >data.txt; echo x >made; rm dir/a",
				NULL),
			0);
		ASSERT_STREQ(launch_view(&c),
			     strcmp(m->view, "copy") == 0 && reflinks() ? "reflink" : m->view);
		ASSERT_CONTAINS(launch_stdout(&c, "one"), app(m, "one"));
		ASSERT_CONTAINS(launch_stdout(&c, "one"), "some data\n");
		ASSERT_EQ(
			launch_run(&c, "two", t.hex, "cat data.txt; ls dir; test ! -e made", NULL),
			0);
		ASSERT_STREQ(launch_stdout(&c, "two"), "some data\na\nb\n");
		check_store();
		end();
	}
}

TEST_TIMEOUT(workdir_is_inside, 60)
{
	EACH_MODE(m)
	{
		begin(m);
		ASSERT_EQ(launch_run(&c, "w", t.hex, "ls", &(struct launch_opts){.workdir = "dir"}),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "w"), "a\nb\n");
		ASSERT_EQ(launch_sh(&c, "none", t.hex, "ls",
				    &(struct launch_opts){.workdir = "nope"}),
			  0);
		ASSERT_EQ(launch_wait(&c, "none", NULL), WIRE_S_FAILED);
		ASSERT_CONTAINS(launch_message(&c), "nope");
		end();
	}
}

TEST_TIMEOUT(directories_can_be_renamed, 60)
{
	/* In a user namespace the kernel says EXDEV, and mv copies: that must work as well. */
	EACH_MODE(m)
	{
		begin(m);
		ASSERT_EQ(launch_run(&c, "mv", t.hex, "mv dir other && ls other && cat other/a",
				     NULL),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "mv"), "a\nb\na");
		ASSERT_STREQ(file_names(&c, "mv", "other"), "a b");
		end();
	}
}

TEST_TIMEOUT(file_input, 90)
{
	static const char *const good[] = {"new.bin", "made/by/input.bin", "..data/x",
					   "dir/a",   "inside/c",          "to-data"};
	static const char *const bad[] = {"out/berth-test-escape", "up/berth-test-escape",
					  "dir/../../x", "data.txt/x", "dir"};
	char id[32], script[256];

	EACH_MODE(m)
	{
		begin(m);
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
			struct launch_opts o = {.has_input = true,
						.input_path = good[i],
						.input = "in\0put",
						.input_len = 6};

			snprintf(id, sizeof(id), "good%zu", i);
			snprintf(script, sizeof(script), "test -f %s -a ! -L %s && cat %s", good[i],
				 good[i], good[i]);
			ASSERT_EQ(launch_run(&c, id, t.hex, script, &o), 0);
			launch_stdout(&c, id);
			ASSERT_MEMEQ(c.data, c.data_len, "in\0put", 6);
		}
		check_store();
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			struct launch_opts o = {.has_input = true,
						.input_path = bad[i],
						.input = "x",
						.input_len = 1};
			int r;

			snprintf(id, sizeof(id), "bad%zu", i);
			r = launch_sh(&c, id, t.hex, "true", &o);
			if (r == 0) {
				ASSERT_EQ(launch_wait(&c, id, NULL), WIRE_S_FAILED);
				ASSERT_CONTAINS(launch_message(&c), "input");
			} else {
				ASSERT_EQ(r, WIRE_E_INVALID);
			}
		}
		ASSERT_LT(access("/tmp/berth-test-escape", F_OK), 0);
		end();
	}
}

TEST_TIMEOUT(large_file_input, 90)
{
	size_t n = 20u << 20;
	uint8_t *p = malloc(n);

	ASSERT_NOT_NULL(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 13 + i / 253);
	EACH_MODE(m)
	{
		struct launch_opts o = {
			.has_input = true, .input_path = "in/big", .input = p, .input_len = n};

		begin(m);
		ASSERT_EQ(launch_run(&c, "big", t.hex, "wc -c <in/big; cat data.txt", &o), 0);
		ASSERT_STREQ(launch_stdout(&c, "big"), "20971520\nsome data\n");
		ASSERT_EQ(launch_wait(&c, "big", NULL), WIRE_S_EXITED);
		if (strcmp(m->view, "overlay") == 0)
			ASSERT_STREQ(launch_view(&c), "overlay");
		ASSERT_EQ(file_get(&c, "big", "in/big"), 0);
		ASSERT_EQ(c.data_len, n);
		ASSERT_EQ(memcmp(c.data, p, n), 0);
		o.input_path = "out/big";
		ASSERT_EQ(launch_sh(&c, "out", t.hex, "true", &o), 0);
		ASSERT_EQ(launch_wait(&c, "out", NULL), WIRE_S_FAILED);
		ASSERT_CONTAINS(launch_message(&c), "input");
		ASSERT_LT(access("/tmp/big", F_OK), 0);
		end();
	}
	free(p);
}

/* A worker that says that it runs, and waits until it is told to go on by a file. */
#define WAITING "echo ready; while ! test -e go; do sleep 0.02; done; "

static bool is_ready(void *arg)
{
	return strcmp(launch_stdout(&c, arg), "ready\n") == 0;
}

static void check_files(const char *id, const char *seen)
{
	ASSERT_EQ(file_get(&c, id, "data.txt"), 0);
	ASSERT_STREQ((const char *)c.data, seen);
	ASSERT_EQ(file_put(&c, id, "put/in/here", "bytes\0more", 10, 0755), 0);
	ASSERT_EQ(file_get(&c, id, "put/in/here"), 0);
	ASSERT_MEMEQ(c.data, c.data_len, "bytes\0more", 10);
	ASSERT_EQ(client_int(&c, WK_MODE, 0), 0755);
	ASSERT_EQ(file_op(&c, WIRE_STAT, id, "inside", 0, 0, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_TYPE, 0), 'l');
	ASSERT_STREQ(client_str(&c, WK_TARGET), "dir");
	ASSERT_EQ(file_op(&c, WIRE_STAT, id, "inside", WK_FOLLOW, 1, NULL), 0);
	ASSERT_EQ(client_int(&c, WK_TYPE, 0), 'd');
	ASSERT_STREQ(file_names(&c, id, "inside"), "a b");
	ASSERT_EQ(file_get(&c, id, "inside/a"), 0);
	ASSERT_EQ(file_op(&c, WIRE_MKDIR, id, "m/n", WK_PARENTS, 1, NULL), 0);
	ASSERT_EQ(file_op(&c, WIRE_SYMLINK, id, "m/l", WK_TARGET, 0, "n"), 0);
	ASSERT_STREQ(file_names(&c, id, "m"), "l n");
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, id, "m", 0, 0, NULL), WIRE_E_CONFLICT);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, id, "m", WK_RECURSIVE, 1, NULL), 0);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, id, "m", WK_RECURSIVE, 1, NULL), WIRE_E_NOT_FOUND);
	ASSERT_EQ(file_op(&c, WIRE_REMOVE, id, "dir/b", 0, 0, NULL), 0);
	ASSERT_STREQ(file_names(&c, id, "dir"), "a");
	ASSERT_EQ(file_put(&c, id, "dir/b", "b", 1, 0644), 0);
}

static void check_walls(const char *id)
{
	static const char *const out[] = {"../x",        "dir/../../x",
					  "/etc/passwd", "out/berth-test-out",
					  "up/x",        "inside/../../x"};

	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		CHECK_EQ(file_get(&c, id, out[i]), WIRE_E_INVALID);
		CHECK_EQ(file_put(&c, id, out[i], "x", 1, 0644), WIRE_E_INVALID);
		CHECK_EQ(file_op(&c, WIRE_MKDIR, id, out[i], WK_PARENTS, 1, NULL), WIRE_E_INVALID);
		CHECK_EQ(file_op(&c, WIRE_REMOVE, id, out[i], WK_RECURSIVE, 1, NULL),
			 WIRE_E_INVALID);
		CHECK_EQ(file_op(&c, WIRE_SYMLINK, id, out[i], WK_TARGET, 0, "x"), WIRE_E_INVALID);
		CHECK_EQ(file_op(&c, WIRE_STAT, id, out[i], WK_FOLLOW, 1, NULL), WIRE_E_INVALID);
	}
	ASSERT_EQ(file_op(&c, WIRE_LS, id, "out", 0, 0, NULL), WIRE_E_INVALID);
	/* The link itself is inside. */
	ASSERT_EQ(file_op(&c, WIRE_STAT, id, "out", 0, 0, NULL), 0);
	ASSERT_EQ(file_put(&c, id, "out", "no link any more", 16, 0644), 0);
	ASSERT_EQ(file_get(&c, id, "out"), 0);
	ASSERT_LT(access("/tmp/berth-test-out", F_OK), 0);
}

TEST_TIMEOUT(files_of_a_running_view, 90)
{
	EACH_MODE(m)
	{
		begin(m);
		ASSERT_EQ(launch_sh(&c, "run", t.hex,
				    WAITING "cat from-outside; ls dir; cat put/in/here | wc -c",
				    NULL),
			  0);
		ASSERT(client_until(is_ready, (void *)(uintptr_t) "run"));
		check_files("run", "some data\n");
		check_walls("run");
		ASSERT_EQ(file_put(&c, "run", "from-outside", "hello from outside\n", 19, 0644), 0);
		ASSERT_EQ(file_put(&c, "run", "go", "", 0, 0644), 0);
		ASSERT_EQ(launch_wait(&c, "run", NULL), WIRE_S_EXITED);
		ASSERT_STREQ(launch_stdout(&c, "run"), "ready\nhello from outside\na\nb\n10\n");
		/* Nothing of it has come into the store or the folder that views are mounted on. */
		check_store();
		ASSERT_STREQ(file_names(&c, NULL, "berth/app"), "");
		end();
	}
}

TEST_TIMEOUT(files_of_an_ended_view, 90)
{
	EACH_MODE(m)
	{
		begin(m);
		ASSERT_EQ(
			launch_run(
				&c, "done", t.hex,
				"echo changed >data.txt; rm dir/a; mkdir left; echo l >left/behind",
				NULL),
			0);
		ASSERT_STREQ(file_names(&c, "done", "dir"), "b");
		ASSERT_EQ(file_get(&c, "done", "dir/a"), WIRE_E_NOT_FOUND);
		ASSERT_EQ(file_get(&c, "done", "left/behind"), 0);
		ASSERT_EQ(file_put(&c, "done", "dir/a", "a", 1, 0644), 0);
		check_files("done", "changed\n");
		check_walls("done");
		check_store();
		ASSERT_STREQ(file_names(&c, NULL, "berth/app"), "");
		ASSERT_STREQ(file_names(&c, NULL, "berth/tmp"), "");
		end();
	}
}

TEST_TIMEOUT(forget_takes_the_view_along, 60)
{
	char path[600];

	EACH_MODE(m)
	{
		begin(m);
		ASSERT_EQ(launch_sh(&c, "run", t.hex, WAITING, NULL), 0);
		ASSERT(client_until(is_ready, (void *)(uintptr_t) "run"));
		ASSERT_EQ(launch_forget(&c, "run"), WIRE_E_CONFLICT);
		ASSERT_EQ(launch_cancel(&c, "run"), 0);
		ASSERT_EQ(launch_run(&c, "sealed", t.hex,
				     "mkdir -p a/b/c; chmod 0 a/b; echo x >data.txt", NULL),
			  0);
		ASSERT_EQ(launch_forget(&c, "sealed"), 0);
		ASSERT_EQ(launch_forget(&c, "sealed"), WIRE_E_NOT_FOUND);
		ASSERT_EQ(file_get(&c, "sealed", "data.txt"), WIRE_E_NOT_FOUND);
		snprintf(path, sizeof(path), "%s/x/sealed", proc.dir);
		ASSERT_LT(access(path, F_OK), 0);
		ASSERT_STREQ(file_names(&c, NULL, "berth/tmp"), "");
		/* The id is free again. */
		ASSERT_EQ(launch_run(&c, "sealed", t.hex, "cat data.txt", NULL), 0);
		ASSERT_STREQ(launch_stdout(&c, "sealed"), "some data\n");
		end();
	}
}

static bool can_be_unmounted(void *arg)
{
	return umount(arg) == 0;
}

TEST_TIMEOUT(reflinks_where_the_file_system_has_them, 60)
{
	TEST_REQUIRE("overlay", "needs a mount namespace");
	ASSERT_OK(unshare(CLONE_NEWNS));
	ASSERT_OK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_OK(mkdir("xfs", 0755));
	if (system("truncate -s 400M image && mkfs.xfs -q -m reflink=1 image 2>/dev/null && mount "
		   "-o loop image xfs 2>/dev/null") != 0)
		SKIP("needs mkfs.xfs and a loop device");
	ASSERT_OK(chdir("xfs"));
	ASSERT(reflinks());
	begin(&modes[3]);
	ASSERT_EQ(launch_run(&c, "one", t.hex, "cat data.txt; echo changed >data.txt", NULL), 0);
	ASSERT_STREQ(launch_view(&c), "reflink");
	ASSERT_EQ(launch_run(&c, "two", t.hex, "cat data.txt", NULL), 0);
	ASSERT_STREQ(launch_stdout(&c, "two"), "some data\n");
	check_store();
	end();
	/* Nobody is at work there any more when the sandbox has been stopped. */
	ASSERT_OK(chdir(".."));
	ASSERT(client_until(can_be_unmounted, (void *)(uintptr_t) "xfs"));
}

TEST(without_the_artifact_nothing_is_launched)
{
	char hex[65];

	begin(&modes[0]);
	memset(hex, 'a', 64);
	hex[64] = '\0';
	ASSERT_EQ(launch_sh(&c, "x", hex, "true", NULL), WIRE_E_PRECONDITION);
	ASSERT_STREQ(client_str(&c, WK_NEED), "tree");
	ASSERT_EQ(launch_sh(&c, "x", t.hex, "true", &(struct launch_opts){.layer = hex}),
		  WIRE_E_PRECONDITION);
	ASSERT_STREQ(client_str(&c, WK_NEED), "layer");
	ASSERT_EQ(launch_run(&c, "x", t.hex, "true", NULL), 0);
	end();
}

TEST_MAIN()
