/* SPDX-License-Identifier: MIT */
/*
 * INSTALL: layers, their lock, and what is left of installs that fail, are given up or are killed.
 */
#include "tap.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "modes.h"
#include "tree.h"

static struct agent_proc proc;
static struct client c;
static struct tree t;

static void begin(const struct mode *m)
{
	ASSERT_EQ(mode_start(&proc, m), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
	t = (struct tree){0};
	tree_text(&t, "package.json", "{}");
	tree_dir(&t, "lib");
	tree_text(&t, "lib/old", "old");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
	tree_free(&t);
}

/* A layer's key, made of one digit. */
static const char *key(char digit)
{
	static char keys[4][65];
	static int turn;
	char *k = keys[turn++ % 4];

	memset(k, digit, 64);
	k[64] = '\0';
	return k;
}

static void request(struct client *d, const char *layer, const char *command, int64_t timeout_ms)
{
	struct wire_w *w = client_begin(d, WIRE_INSTALL);

	wire_w_str(w, WK_TREE, t.hex);
	wire_w_str(w, WK_LAYER, layer);
	wire_w_str(w, WK_COMMAND, command);
	wire_w_str(w, WK_ENV, "FROM_REQUEST=yes");
	wire_w_int(w, WK_TIMEOUT_MS, timeout_ms);
	client_end(d);
}

static int install(const char *layer, const char *command, int64_t timeout_ms)
{
	request(&c, layer, command, timeout_ms);
	client_call(&c, 0, NULL, NULL);
	return client_code(&c);
}

static int64_t have_layer(const char *layer)
{
	wire_w_str(client_begin(&c, WIRE_HAVE), WK_LAYER, layer);
	client_end(&c);
	client_call(&c, 0, NULL, NULL);
	return client_int(&c, WK_HAVE, -1);
}

static bool tmp_is_empty(void *arg)
{
	(void)arg;
	return strcmp(file_names(&c, NULL, "berth/tmp"), "") == 0;
}

/* Is there a process with this argument? */
static bool is_alive(const char *arg)
{
	char path[300], line[4096];
	bool found = false;
	struct dirent *e;
	DIR *dir = opendir("/proc");

	while (dir && !found && (e = readdir(dir))) {
		ssize_t n;
		int fd;

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, line, sizeof(line));
		close(fd);
		found = n > 0 && memmem(line, (size_t)n, arg, strlen(arg) + 1);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* How long what is to be ended would sleep: a number that no other test has. */
static const char *sleep_arg(int which)
{
	static char args[3][16];

	snprintf(args[which], sizeof(args[which]), "9%d%07d", which, (int)getpid());
	return args[which];
}

/* Only the lock may be there. */
static void check_nothing_is_left(const char *layer)
{
	char path[200];

	ASSERT_EQ(have_layer(layer), 0);
	snprintf(path, sizeof(path), "berth/store/l/%s", layer);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, path, 0, 0, NULL), WIRE_E_NOT_FOUND);
	snprintf(path, sizeof(path), "berth/store/l/%s.ok", layer);
	ASSERT_EQ(file_op(&c, WIRE_STAT, NULL, path, 0, 0, NULL), WIRE_E_NOT_FOUND);
	ASSERT(client_until(tmp_is_empty, NULL));
}

static bool is_synced(void *arg)
{
	char path[200];

	(void)arg;
	snprintf(path, sizeof(path), "berth/store/l/%s.ok", key('1'));
	return file_get(&c, NULL, path) == 0 && strcmp((char *)c.data, "lsynced") == 0;
}

TEST_TIMEOUT(layer_is_made_and_used, 60)
{
	EACH_MODE(m)
	{
		struct launch_opts o = {.layer = key('1')};

		begin(m);
		ASSERT_EQ(install(key('1'),
				  "echo out; echo err >&2; test \"$HOME\" && mkdir node_modules && "
				  "echo dep >node_modules/dep;"
				  "echo $FROM_REQUEST >lib/new; rm lib/old; pwd >where",
				  60000),
			  0);
		ASSERT_CONTAINS((char *)c.data, "out\n");
		ASSERT_CONTAINS((char *)c.data, "err\n");
		ASSERT_EQ(have_layer(key('1')), 2);
		ASSERT_EQ(launch_run(&c, "with", t.hex,
				     "cat node_modules/dep lib/new package.json; ls lib", &o),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "with"), "dep\nyes\n{}new\n");
		/* One stable path where views are mounted, so that absolute paths in a layer stay
		 * true. */
		if (m != &modes[3])
			ASSERT_EQ(launch_run(&c, "same", t.hex,
					     "test \"$(cat where)\" = \"$(pwd)\"", &o),
				  0);
		ASSERT_EQ(launch_run(&c, "spoil", t.hex, "echo x >node_modules/dep; rm -r lib", &o),
			  0);
		ASSERT_EQ(launch_run(&c, "again", t.hex, "cat node_modules/dep", &o), 0);
		ASSERT_STREQ(launch_stdout(&c, "again"), "dep\n");
		ASSERT_EQ(launch_run(&c, "without", t.hex, "ls lib; test ! -e node_modules", NULL),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "without"), "old\n");
		ASSERT(client_until(is_synced, NULL));
		/* Once. */
		ASSERT_EQ(install(key('1'), "exit 1", 60000), 0);
		ASSERT(client_until(tmp_is_empty, NULL));
		end();
	}
}

/* The key says what an install depends on, not which tree it was made for: another tree keeps its
 * own files. */
TEST_TIMEOUT(layer_fits_another_tree, 60)
{
	EACH_MODE(m)
	{
		struct launch_opts o = {.layer = key('b')};
		struct tree u = {0};

		begin(m);
		tree_text(&t, "code", "version 1");
		tree_text(&t, "removed", "removed by the install");
		tree_dir(&t, "gone");
		tree_text(&t, "gone/too", "with its folder");
		tree_text(&t, "becomes-dir", "a file");
		tree_link(&t, "link", "code");
		tree_finish(&t);
		ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
		ASSERT_EQ(install(key('b'),
				  "mkdir node_modules; echo dep >node_modules/dep; rm -r removed "
				  "gone becomes-dir;"
				  "mkdir becomes-dir; echo x >becomes-dir/x; echo more "
				  ">>package.json; chmod 700 lib",
				  60000),
			  0);
		tree_text(&u, "code", "version 2");
		tree_text(&u, "new", "new in 2");
		tree_text(&u, "removed", "removed by the install");
		tree_text(&u, "package.json", "{}");
		tree_link(&u, "link", "new");
		tree_finish(&u);
		ASSERT_EQ(tree_unpack(&u, &c, CLIENT_RIGHT), 0);
		ASSERT_EQ(launch_run(&c, "two", u.hex,
				     "cat code new link node_modules/dep becomes-dir/x "
				     "package.json; test ! -e removed",
				     &o),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "two"), "version 2new in 2new in 2dep\nx\n{}more\n");
		ASSERT_EQ(launch_run(&c, "one", t.hex,
				     "cat code link; cat lib/old; test ! -e gone -a ! -e removed",
				     &o),
			  0);
		ASSERT_STREQ(launch_stdout(&c, "one"), "version 1version 1old");
		end();
	}
}

TEST_TIMEOUT(failure_leaves_nothing_and_tells_the_tail, 60)
{
	EACH_MODE(m)
	{
		struct wire_slice tail;

		begin(m);
		ASSERT_NE(install(key('2'),
				  "echo x >made; i=0; while [ $i -lt 2000 ]; do echo line $i; "
				  "i=$((i+1)); done; exit 3",
				  60000),
			  0);
		ASSERT_CONTAINS(client_str(&c, WK_MESSAGE), "exit code 3");
		ASSERT(wire_find(c.p, c.n, WK_TAIL, &tail));
		ASSERT_EQ(tail.n, 4096);
		ASSERT_MEMEQ(tail.p + tail.n - 10, 10, "line 1999\n", 10);
		ASSERT_GT(c.data_len, 4096);
		check_nothing_is_left(key('2'));
		ASSERT_NE(install(key('2'), "kill -9 $$", 60000), 0);
		ASSERT_CONTAINS(client_str(&c, WK_MESSAGE), "signal 9");
		check_nothing_is_left(key('2'));
		/* A failure is not remembered. */
		ASSERT_EQ(install(key('2'), "true", 60000), 0);
		ASSERT_EQ(have_layer(key('2')), 2);
		end();
	}
}

TEST_TIMEOUT(timeout_ends_all_of_it, 60)
{
	EACH_MODE(m)
	{
		char script[200];
		int64_t start;

		begin(m);
		start = client_now_ms();
		snprintf(script, sizeof(script), "(setsid sleep %s &) ; echo waiting; sleep %s",
			 sleep_arg(0), sleep_arg(1));
		ASSERT_EQ(install(key('3'), script, 300), WIRE_E_TIMEOUT);
		ASSERT_LT(client_now_ms() - start, 2500);
		ASSERT_CONTAINS(client_str(&c, WK_MESSAGE), "timed out");
		ASSERT_STREQ(client_str(&c, WK_TAIL), "waiting\n");
		ASSERT(!is_alive(sleep_arg(0)) && !is_alive(sleep_arg(1)));
		check_nothing_is_left(key('3'));
		end();
	}
}

TEST_TIMEOUT(five_at_once, 60)
{
	struct client d[5];
	char script[512];

	begin(&modes[0]);
	snprintf(script, sizeof(script), "echo ran >>%s/ran; sleep 0.3; echo x >made", proc.home);
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(client_open(&d[i], proc.dir), 0);
		request(&d[i], key('4'), script, 60000);
		ASSERT_EQ(client_send(&d[i]), 0);
	}
	for (int i = 0; i < 5; i++) {
		client_call(&d[i], 0, NULL, NULL);
		ASSERT_EQ(client_code(&d[i]), 0);
		client_close(&d[i]);
	}
	ASSERT_EQ(file_get(&c, NULL, "ran"), 0);
	ASSERT_STREQ((char *)c.data, "ran\n");
	end();
}

static bool ran(void *arg)
{
	return file_get(&c, NULL, arg) == 0 && c.data_len > 0;
}

/* Opens a second stream whose install is under way: it has written "ran". */
static void start_slow(struct client *d, const char *layer)
{
	char script[512];

	snprintf(script, sizeof(script), "echo $$ >%s/ran; echo x >made; sleep %s", proc.home,
		 sleep_arg(2));
	ASSERT_EQ(client_open(d, proc.dir), 0);
	request(d, layer, script, 60000);
	ASSERT_EQ(client_send(d), 0);
	ASSERT(client_until(ran, (void *)(uintptr_t) "ran"));
}

TEST_TIMEOUT(waiting_counts_and_ends_with_the_caller, 60)
{
	struct client d, e;

	begin(&modes[0]);
	start_slow(&d, key('5'));
	ASSERT_EQ(install(key('5'), "true", 200), WIRE_E_TIMEOUT);
	ASSERT_CONTAINS(client_str(&c, WK_MESSAGE), "waiting");
	/* Another layer does not wait. */
	ASSERT_EQ(install(key('6'), "true", 60000), 0);
	/* One that waits and goes away is no obstacle. */
	ASSERT_EQ(client_open(&e, proc.dir), 0);
	request(&e, key('5'), "true", 60000);
	ASSERT_EQ(client_send(&e), 0);
	client_close(&e);
	/* The caller of the running one goes away: its tree ends, the next one runs. */
	client_close(&d);
	ASSERT_EQ(install(key('5'), "test ! -e made && echo y >made2", 10000), 0);
	ASSERT(!is_alive(sleep_arg(2)));
	ASSERT_EQ(have_layer(key('5')), 2);
	ASSERT(client_until(tmp_is_empty, NULL));
	end();
}

/* Kills the connection child that serves this install, as the machine might: the one parent of the
 * runner. */
static pid_t child_with_locks(void)
{
	char path[64], line[512], name[600];
	pid_t found = 0;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/children", (int)proc.pid, (int)proc.pid);
	FILE *f = fopen(name, "r");
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
		FILE *g = fopen(path, "r");

		if (g && fgets(line, sizeof(line), g) && atoi(line) > 0)
			found = pid;
		if (g)
			fclose(g);
	}
	if (f)
		fclose(f);
	return found;
}

static bool pruned(void *arg)
{
	wire_w_int(client_begin(&c, WIRE_PRUNE), WK_OLDER_MS, 1000000);
	client_end(&c);
	return client_call(&c, 0, NULL, NULL) == WIRE_OK && tmp_is_empty(arg);
}

TEST_TIMEOUT(killed_half_way, 60)
{
	EACH_MODE(m)
	{
		struct client d;
		int64_t start;
		pid_t pid;

		begin(m);
		start_slow(&d, key('7'));
		pid = child_with_locks();
		ASSERT_GT(pid, 0);
		ASSERT_OK(kill(pid, SIGKILL));
		start = client_now_ms();
		ASSERT_EQ(install(key('7'), "test ! -e made && echo y >made2", 10000), 0);
		ASSERT_LT(client_now_ms() - start, 2000);
		ASSERT(!is_alive(sleep_arg(2)));
		ASSERT_EQ(launch_run(&c, "after", t.hex, "test ! -e made -a -e made2",
				     &(struct launch_opts){.layer = key('7')}),
			  0);
		/* What the killed one has left goes with a PRUNE (an empty folder only when it is 5
		 * s old). */
		ASSERT(client_until(pruned, NULL));
		client_close(&d);
		end();
	}
}

TEST(needs_the_tree)
{
	begin(&modes[0]);
	memset(t.hex, 'e', 64);
	ASSERT_EQ(install(key('8'), "true", 1000), WIRE_E_PRECONDITION);
	ASSERT_STREQ(client_str(&c, WK_NEED), "tree");
	ASSERT_EQ(install("short", "true", 1000), WIRE_E_INVALID);
	ASSERT_EQ(install(key('8'), "", 1000), WIRE_E_INVALID);
	end();
}

TEST_TIMEOUT(stalled_reader_does_not_hold_the_deadline, 60)
{
	char script[512];
	struct client d;

	begin(&modes[0]);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	snprintf(script, sizeof(script), "echo $$ >%s/ran; yes", proc.home);
	request(&d, key('9'), script, 500);
	ASSERT_EQ(client_send(&d), 0);
	ASSERT(client_until(ran, (void *)(uintptr_t) "ran"));
	/* d reads nothing. The next one gets its turn when that one's time is up. */
	ASSERT_EQ(install(key('9'), "true", 10000), 0);
	client_close(&d);
	end();
}

TEST_TIMEOUT(npm_installs_from_a_folder, 120)
{
	struct launch_opts o = {.layer = key('a')};

	if (system("command -v npm >/dev/null 2>&1") != 0)
		SKIP("no npm here");
	begin(&modes[0]);
	tree_free(&t);
	tree_text(&t, "package.json",
		  "{\"name\":\"app\",\"version\":\"1.0.0\",\"dependencies\":{\"dep\":\"file:./"
		  "dep\"}}");
	tree_dir(&t, "dep");
	tree_text(&t, "dep/package.json",
		  "{\"name\":\"dep\",\"version\":\"1.0.0\",\"main\":\"i.js\",\"bin\":{\"depbin\":"
		  "\"i.js\"}}");
	tree_text(&t, "dep/i.js", "#!/usr/bin/env node\nmodule.exports='from dep';");
	tree_text(&t, "main.js", "console.log(require('dep'))");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	ASSERT_EQ(install(key('a'), "npm install --omit=dev --no-audit --no-fund", 100000), 0);
	ASSERT_EQ(launch_run(&c, "node", t.hex, "node main.js", &o), 0);
	ASSERT_STREQ(launch_stdout(&c, "node"), "from dep\n");
	end();
}

TEST_MAIN()
