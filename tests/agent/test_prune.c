/* SPDX-License-Identifier: MIT */
/*
 * PRUNE: what goes, what stays because a record, a launch or an install needs it, and leftovers of
 * the dead.
 */
#include "tap.h"

#include "tree.h"

static struct agent_proc proc;
static struct client c;

static void begin(void)
{
	proc = (struct agent_proc){0};
	ASSERT_EQ(agent_start(&proc, "home", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

static void make_tree(struct tree *t, const char *text)
{
	*t = (struct tree){0};
	tree_text(t, "shared", "the same in all of them");
	tree_text(t, "own", text);
	tree_finish(t);
}

static int prune(struct client *d, int64_t older_ms)
{
	wire_w_int(client_begin(d, WIRE_PRUNE), WK_OLDER_MS, older_ms);
	client_end(d);
	client_call(d, 0, NULL, NULL);
	return client_code(d);
}

static int64_t have(const char *tree, const char *layer)
{
	struct wire_w *w = client_begin(&c, WIRE_HAVE);

	wire_w_str(w, WK_TREE, tree);
	wire_w_str(w, WK_LAYER, layer);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	return client_int(&c, WK_HAVE, -1);
}

static int install(struct client *d, const char *tree, const char *layer, const char *command)
{
	struct wire_w *w = client_begin(d, WIRE_INSTALL);

	wire_w_str(w, WK_TREE, tree);
	wire_w_str(w, WK_LAYER, layer);
	wire_w_str(w, WK_COMMAND, command);
	wire_w_int(w, WK_TIMEOUT_MS, 30000);
	client_end(d);
	if (d != &c)
		return client_send(d);
	client_call(d, 0, NULL, NULL);
	return client_code(d);
}

static int blobs(void)
{
	FILE *p = popen("find home/berth/store/b -type f | wc -l", "r");
	int n = -1;

	if (!p || fscanf(p, "%d", &n) != 1)
		n = -1;
	if (p)
		pclose(p);
	return n;
}

#define KEY "1111111111111111111111111111111111111111111111111111111111111111"

TEST_TIMEOUT(what_records_need_stays, 60)
{
	struct tree used, unused;
	struct launch_opts o = {.layer = KEY};

	begin();
	make_tree(&used, "used");
	make_tree(&unused, "unused");
	ASSERT_EQ(tree_unpack(&used, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(tree_unpack(&unused, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(blobs(), 3);
	ASSERT_EQ(install(&c, used.hex, KEY, "echo x >made"), 0);
	ASSERT_EQ(launch_run(&c, "ended", used.hex, "cat made", &o), 0);
	/* The record is too young to go; so its tree and layer stay, and the other tree goes. */
	ASSERT_EQ(prune(&c, 3600000), 0);
	ASSERT_EQ(client_int(&c, WK_COUNT, -1), 0);
	ASSERT_EQ(client_int(&c, WK_TREES, -1),
		  0); /* unpacked just now: its launch may be on the way */
	ASSERT_EQ(prune(&c, 0), 0);
	ASSERT_EQ(client_int(&c, WK_COUNT, -1), 1);
	ASSERT_EQ(client_int(&c, WK_TREES, -1), 2);
	ASSERT_EQ(client_int(&c, WK_LAYERS, -1), 1);
	ASSERT_GE(client_int(&c, WK_BYTES, -1), 3 * 4096);
	ASSERT_EQ(have(used.hex, KEY), 0);
	ASSERT_EQ(blobs(), 0);
	ASSERT_STREQ(file_names(&c, NULL, "berth/tmp"), "");
	ASSERT_STREQ(file_names(&c, NULL, "berth/store/t"), "");
	ASSERT_STREQ(file_names(&c, NULL, "berth/store/l"), "");
	/* And all of it can be made again. */
	ASSERT_EQ(tree_unpack(&used, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(used.sent, 2);
	end();
}

TEST_TIMEOUT(running_ones_stay, 60)
{
	struct launch_opts o = {.layer = KEY};
	struct tree used, other;

	begin();
	make_tree(&used, "used");
	make_tree(&other, "other");
	ASSERT_EQ(tree_unpack(&used, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(tree_unpack(&other, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(install(&c, used.hex, KEY, "echo x >made"), 0);
	ASSERT_EQ(launch_sh(&c, "run", used.hex,
			    "while ! test -e go; do sleep 0.02; done; cat made own shared", &o),
		  0);
	ASSERT_EQ(prune(&c, 0), 0);
	ASSERT_EQ(client_int(&c, WK_COUNT, -1), 0);
	ASSERT_EQ(client_int(&c, WK_TREES, -1), 1);
	ASSERT_EQ(client_int(&c, WK_LAYERS, -1), 0);
	ASSERT_EQ(have(used.hex, KEY), 3);
	ASSERT_EQ(have(other.hex, NULL), 0);
	ASSERT_EQ(blobs(), 2);
	ASSERT_EQ(file_put(&c, "run", "go", "", 0, 0644), 0);
	ASSERT_EQ(launch_wait(&c, "run", NULL), WIRE_S_EXITED);
	ASSERT_STREQ(launch_stdout(&c, "run"), "x\nusedthe same in all of them");
	end();
}

TEST_TIMEOUT(a_record_that_cannot_be_read_keeps_everything, 60)
{
	struct tree t;
	int fd;

	begin();
	make_tree(&t, "t");
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_OK(mkdir("home/berth/x/broken", 0700));
	fd = open("home/berth/x/broken/journal", O_WRONLY | O_CREAT, 0600);
	ASSERT_EQ(write(fd, "nonsense", 8), 8);
	close(fd);
	ASSERT_EQ(prune(&c, 0), 0);
	ASSERT_EQ(client_int(&c, WK_TREES, -1), 0);
	ASSERT_EQ(have(t.hex, NULL), 1);
	ASSERT_EQ(launch_forget(&c, "broken"), 0);
	ASSERT_EQ(prune(&c, 0), 0);
	ASSERT_EQ(client_int(&c, WK_TREES, -1), 1);
	end();
}

static bool started(void *arg)
{
	(void)arg;
	return access("home/started", F_OK) == 0;
}

TEST_TIMEOUT(an_install_keeps_its_tree, 60)
{
	struct client d;
	struct tree t;

	begin();
	make_tree(&t, "t");
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	ASSERT_EQ(install(&d, t.hex, KEY,
			  "echo >\"$HOME\"/started; while ! test -e \"$HOME\"/go; do sleep 0.02; "
			  "done; cat own >made"),
		  0);
	ASSERT(client_until(started, NULL));
	ASSERT_EQ(prune(&c, 0), 0);
	ASSERT_EQ(client_int(&c, WK_TREES, -1), 0);
	ASSERT_EQ(client_int(&c, WK_LAYERS, -1), 0);
	ASSERT_EQ(file_put(&c, NULL, "go", "", 0, 0644), 0);
	client_call(&d, 0, NULL, NULL);
	ASSERT_EQ(client_code(&d), 0);
	client_close(&d);
	ASSERT_EQ(have(t.hex, KEY), 3);
	end();
}

TEST_TIMEOUT(leftovers_go_and_live_ones_stay, 60)
{
	struct client d;
	struct tree t;

	begin();
	make_tree(&t, "t");
	ASSERT_OK(mkdir("home/berth/tmp/u.0123456789abcdef0123456789abcdef", 0700));
	ASSERT_OK(mkdir("home/berth/tmp/u.0123456789abcdef0123456789abcdef/t", 0700));
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	tree_request(&t, &d);
	ASSERT_EQ(client_call(&d, WIRE_EVENT, NULL, NULL), WIRE_EVENT);
	ASSERT_EQ(prune(&c, 0), 0);
	ASSERT_STREQ(strchr(file_names(&c, NULL, "berth/tmp"), ' ') ? "two" : "one", "one");
	tree_contents(&t, &d, (const uint8_t *)"\xff", 1, CLIENT_RIGHT);
	client_call(&d, 0, NULL, NULL);
	ASSERT_EQ(client_code(&d), 0);
	client_close(&d);
	ASSERT_EQ(have(t.hex, NULL), 1);
	end();
}

/* An init that starts where another was killed in the middle. */
static bool tmp_is_empty(void *arg)
{
	(void)arg;
	return strcmp(file_names(&c, NULL, "berth/tmp"), "") == 0;
}

TEST_TIMEOUT(init_tidies_up, 60)
{
	begin();
	client_close(&c);
	agent_kill(&proc);
	ASSERT_OK(mkdir("home/berth/tmp/i.0123456789abcdef0123456789abcdef", 0700));
	ASSERT_OK(mkdir("home/berth/tmp/i.0123456789abcdef0123456789abcdef/up", 0700));
	ASSERT_EQ(agent_restart(&proc, NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	ASSERT(client_until(tmp_is_empty, NULL));
	end();
}

/* One process prunes without a pause; this one deploys, as the library does: what is NEEDed is
 * brought again. */
TEST_TIMEOUT(races_with_launches, 120)
{
	int64_t stop_at = client_now_ms() + 5000;
	int launched = 0, needed = 0;
	char id[32], text[32];
	pid_t pid;

	begin();
	pid = fork();
	if (pid == 0) {
		struct client d;

		if (client_open(&d, proc.dir) < 0)
			_exit(1);
		/* Records stay (they are young), so nothing but what no record names may go. */
		while (client_now_ms() < stop_at)
			wire_w_int(client_begin(&d, WIRE_PRUNE), WK_OLDER_MS, 0), client_end(&d),
				client_call(&d, 0, NULL, NULL);
		_exit(0);
	}
	while (client_now_ms() < stop_at) {
		struct tree t;
		int r = WIRE_E_PRECONDITION;

		snprintf(id, sizeof(id), "id%d", launched);
		snprintf(text, sizeof(text), "text %d", launched % 7);
		make_tree(&t, text);
		for (int i = 0; i < 1000 && r == WIRE_E_PRECONDITION; i++) {
			r = launch_sh(&c, id, t.hex, "cat own shared", NULL);
			if (r != WIRE_E_PRECONDITION)
				break;
			needed++;
			r = tree_unpack(&t, &c, CLIENT_RIGHT);
			if (r != 0)
				DIAG("%s", client_str(&c, WK_MESSAGE));
			ASSERT_EQ(r, 0);
			r = WIRE_E_PRECONDITION;
		}
		ASSERT_EQ(r, 0);
		ASSERT_NE(launch_state(&c), WIRE_S_FAILED);
		/* It may be pruned as soon as it has ended: then there is no record, but never one
		 * that failed. */
		r = launch_wait(&c, id, NULL);
		ASSERT(r == WIRE_S_EXITED || (r == -1 && client_code(&c) == WIRE_E_NOT_FOUND));
		launched++;
		tree_free(&t);
	}
	DIAG("%d launched, %d times something had to be brought", launched, needed);
	ASSERT_GT(launched, 10);
	ASSERT_GT(needed, 1);
	end();
}

TEST_MAIN()
