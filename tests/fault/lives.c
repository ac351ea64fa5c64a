/* SPDX-License-Identifier: MIT */
/*
 * lives.c: the life of an isolated sandbox (isolation=bwrap, as root), whose caller, or what builds
 * the sandbox, is killed at each of its system calls in turn. Afterwards the next call succeeds, and
 * when the sandbox is destroyed there is no process, control group, mount, range of uids or file of
 * it.
 *
 * BERTH_FAULT_STEP and BERTH_FAULT_SEED as in steps.c.
 */
#include "inject.h"

static const char *spec = "local:life?net=none&ports=4111&memory=64M";

static char round_state[PATH_MAX];
static long uid_base; /* of the sandbox that was there last; 0: none yet */
static char box_id[128];

static void open_box(void)
{
	OK(berth_new(round_state, &B, &E));
	OK(berth_sandbox_open(B, spec, NULL, BERTH_OPEN_START, &S, &E));
}

static int do_start(void *arg)
{
	(void)arg;
	open_box();
	return berth_sandbox_start(S, &E) < 0;
}

static int do_stop(void *arg)
{
	(void)arg;
	open_box();
	return berth_sandbox_stop(S, &E) < 0;
}

static int do_destroy(void *arg)
{
	struct berth_destroy_result r;

	(void)arg;
	open_box();
	return berth_sandbox_destroy(S, 1, 0, &r, &E) < 0 || r.state != BERTH_DESTROYED;
}

/* ── what is left ───────────────────────────────────────────────────────────────────────── */

static void remember(void)
{
	struct berth_provider_info info;
	char path[PATH_MAX + 64], text[4096] = "";
	const char *p;

	OK(berth_sandbox_info(S, &info, &E));
	snprintf(box_id, sizeof(box_id), "%s", info.id);
	snprintf(path, sizeof(path), "%s/local/life/sandbox", round_state);
	slurp_at(AT_FDCWD, path, text, sizeof(text) - 1);
	p = strstr(text, "\nuid_base=");
	uid_base = p ? strtol(p + 10, NULL, 10) : 0;
	ASSERT_GT(uid_base, 0);
}

/* Processes of the sandbox's host uids that are no zombies. */
static unsigned processes_of_range(pid_t *ret_pid)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		char path[300], text[4096] = "";
		const char *uid, *state;
		long v;

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/status", e->d_name);
		slurp_at(AT_FDCWD, path, text, sizeof(text) - 1);
		uid = strstr(text, "\nUid:");
		state = strstr(text, "\nState:\t");
		v = uid ? strtol(uid + 5, NULL, 10) : -1;
		if (v >= uid_base && v < uid_base + 8 && state && state[8] != 'Z') {
			*ret_pid = atoi(e->d_name);
			n++;
		}
	}
	if (d)
		closedir(d);
	return n;
}

static char group_found[PATH_MAX];

static int is_group(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)where;
	if (kind == FTW_D && strstr(path, box_id) && !strstr(path, "/init"))
		snprintf(group_found, sizeof(group_found), "%s", path);
	return 0;
}

static bool is_empty(const char *sub)
{
	char path[PATH_MAX + 32];
	struct dirent *e;
	bool empty = true;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", round_state, sub);
	d = opendir(path);
	while (d && (e = readdir(d)))
		empty = empty && e->d_name[0] == '.';
	if (d)
		closedir(d);
	return empty;
}

static void nothing_is_left(void)
{
	char path[128];
	pid_t pid = 0;

	if (uid_base) {
		if (processes_of_range(&pid))
			FAIL("process %d of the sandbox is left", pid);
		snprintf(path, sizeof(path), "/var/lib/berth/uids/%ld", uid_base);
		ASSERT_EQ(readlink(path, group_found, 1), -1);
		group_found[0] = '\0';
		nftw("/sys/fs/cgroup", is_group, 32, FTW_PHYS);
		ASSERT_STREQ(group_found, "");
	}
	if (processes_with(round_state, &pid))
		FAIL("process %d of a start is left", pid);
	ASSERT(is_empty("local"));
	ASSERT(is_empty("trash"));
}

/* ── a round ────────────────────────────────────────────────────────────────────────────── */

enum what { START, STOP, DESTROY };

static void next_call(enum what what, unsigned nth)
{
	struct berth_provider_info info;

	open_box();
	/* Every other time destroy is the next call. */
	if (what == DESTROY || nth / 2 % 2)
		return;
	if (what == STOP && nth / 4 % 2) {
		OK(berth_sandbox_stop(S, &E));
		OK(berth_sandbox_info(S, &info, &E));
		ASSERT_EQ(info.status, BERTH_SANDBOX_STOPPED);
		return;
	}
	OK(berth_sandbox_start(S, &E));
	remember();
	OK(berth_sandbox_info(S, &info, &E));
	ASSERT_EQ(info.status, BERTH_SANDBOX_RUNNING);
	ASSERT_CONTAINS(info.ports, "4111=http://127.0.0.1:");
	/* It is one that works. */
	{
		struct berth_exec_request q;
		struct berth_exec_result r = {0};

		berth_exec_request_init(&q);
		q.command = (const char *const[]){"true", NULL};
		OK(berth_exec(S, &q, &r, &E));
		ASSERT_EQ(r.exit_code, 0);
	}
}

static void destroy_it(void)
{
	struct berth_destroy_result r;

	OK(berth_sandbox_destroy(S, 1, 0, &r, &E));
	if (r.state != BERTH_DESTROYED)
		FAIL("%s", r.message);
	berth_sandbox_close(S);
	berth_free(B);
	S = NULL;
	B = NULL;
}

static bool round_at(enum what what, enum inject_who who, unsigned nth)
{
	static int (*const calls[])(void *) = {do_start, do_stop, do_destroy};
	static const char *const names[] = {"start", "stop", "destroy"};
	static unsigned number;
	struct inject *in = inject_new(who, nth, 0);
	char cwd[2000];
	bool fired;
	int how;

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(round_state, sizeof(round_state), "%s/life-%u", cwd, number++);
	uid_base = 0;
	SUBTEST("%s, its %s killed at call %u", names[what],
		who == INJECT_AGENT ? "agent" : "caller", nth)
	{
		if (what != START) {
			ASSERT_EQ(do_start(NULL), 0);
			remember();
			berth_sandbox_close(S);
			berth_free(B);
		}
		inject_start(in, calls[what], NULL);
		how = inject_join(in, 40000);
		in->nth = 0;
		if (how == -1)
			FAIL("it hangs");
		next_call(what, nth);
		destroy_it();
		ASSERT(inject_over(in, 10000));
		nothing_is_left();
	}
	fired = in->fired_nr >= 0;
	munmap(in, sizeof(*in));
	nftw(round_state, tap_rm_, 32, FTW_DEPTH | FTW_PHYS);
	return fired;
}

static unsigned from_env(const char *name, unsigned dflt)
{
	const char *v = getenv(name);

	return v && *v ? (unsigned)strtoul(v, NULL, 10) : dflt;
}

static void table(enum what what, enum inject_who who)
{
	unsigned step = from_env("BERTH_FAULT_STEP", 7), seed = from_env("BERTH_FAULT_SEED", 1);
	unsigned rounds = 0;

	TEST_REQUIRE("root", "not root");
	TEST_REQUIRE("bwrap", "no bubblewrap");
	inject_need();
	for (unsigned n = 1 + seed % step; round_at(what, who, n) && n < 5000;
	     n += step, rounds++) {
		if (tap_.failures > 20)
			FAIL("enough");
	}
	DIAG("%u rounds, every %u calls, seed %u", rounds, step, seed);
	ASSERT_GT(rounds, 3u);
}

TEST_TIMEOUT(start_without_its_caller, 600)
{
	table(START, INJECT_CALLER);
}

TEST_TIMEOUT(start_without_who_builds_it, 600)
{
	table(START, INJECT_AGENT);
}

TEST_TIMEOUT(start_with_a_network, 600)
{
	TEST_REQUIRE("slirp4netns", "no slirp4netns");
	spec = "local:life?net=egress&ports=4111&memory=64M";
	table(START, INJECT_CALLER);
	table(START, INJECT_AGENT);
	table(DESTROY, INJECT_CALLER);
}

TEST_TIMEOUT(stop_without_its_caller, 600)
{
	table(STOP, INJECT_CALLER);
}

TEST_TIMEOUT(destroy_without_its_caller, 600)
{
	table(DESTROY, INJECT_CALLER);
}
