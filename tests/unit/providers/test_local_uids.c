/* SPDX-License-Identifier: MIT */
/* Ranges of host uids and their register. */
#include "localtest.h"

static struct berth_error err;

static void text_file(const char *name, const char *text)
{
	ASSERT_EQ(write_file_atomic(AT_FDCWD, name, text, strlen(text), 0600, 0, &err), 0);
}

TEST(subordinate_ids)
{
	struct uid_pool p = {0};

	text_file("uid", "other:1:9\nme:100000:65536\n1000:5:80\n");
	text_file("gid", "1000:200000:65535\n");
	ASSERT_EQ(uid_pool_subids("uid", "gid", "me", 1000, &p, &err), 0);
	ASSERT_EQ(p.uid, 100000);
	ASSERT_EQ(p.gid, 200000);
	ASSERT_EQ(p.count, 8191);
	ASSERT_EQ(uid_pool_subids("uid", "gid", NULL, 1000, &p, &err), 0);
	ASSERT_EQ(p.uid, 5);
	ASSERT_EQ(p.count, 10);
	ASSERT_EQ(uid_pool_subids("uid", "gid", "nobody", 7, &p, &err), BERTH_E_UNAVAILABLE);
	ASSERT_CONTAINS(err.message, "uid has no subordinate ids for nobody");
	ASSERT_CONTAINS(err.hint, "--add-subuids");
	ASSERT_CONTAINS(err.hint, "uids=single");
	ASSERT_EQ(uid_pool_subids("missing", "gid", "me", 1000, &p, &err), BERTH_E_UNAVAILABLE);
	/* None of ours, and lines that are no ranges. */
	text_file("gid", "me\nme:\nme:1\nme:x:8\nme:-1:8\nme:0:8\nme:1:\n");
	ASSERT_EQ(uid_pool_subids("uid", "gid", "me", 1000, &p, &err), BERTH_E_UNAVAILABLE);
	ASSERT_CONTAINS(err.message, "gid has no");
	/* Too few for one sandbox. */
	text_file("gid", "me:10:7\n");
	ASSERT_EQ(uid_pool_subids("uid", "gid", "me", 1000, &p, &err), BERTH_E_UNAVAILABLE);
	ASSERT_CONTAINS(err.message, "gid");
}

static struct uid_pool pool(int64_t count)
{
	return (struct uid_pool){
		.dir = (char *)"register", .uid = 1000, .gid = 5000, .count = count};
}

TEST(a_range_is_one_sandboxs)
{
	struct uid_pool p = pool(4);
	int64_t uids[4], gid, again;
	char folder[8];

	for (int i = 0; i < 4; i++) {
		snprintf(folder, sizeof(folder), "box%d", i);
		ASSERT_OK(mkdir(folder, 0700));
		ASSERT_EQ(uid_pool_take(&p, folder, &uids[i], &gid, &err), 0);
		ASSERT_EQ((uids[i] - 1000) % LOCAL_UIDS, 0);
		ASSERT(uids[i] >= 1000 && uids[i] < 1000 + 4 * LOCAL_UIDS);
		ASSERT_EQ(gid - 5000, uids[i] - 1000);
		for (int j = 0; j < i; j++)
			ASSERT_NE(uids[i], uids[j]);
		/* A creation that was interrupted finds its own. */
		ASSERT_EQ(uid_pool_take(&p, folder, &again, &gid, &err), 0);
		ASSERT_EQ(again, uids[i]);
	}
	ASSERT_OK(mkdir("more", 0700));
	ASSERT_EQ(uid_pool_take(&p, "more", &again, &gid, &err), BERTH_E_UNAVAILABLE);
	ASSERT_CONTAINS(err.message, "all 4 ranges");
	ASSERT_CONTAINS(err.message, "register");
	/* What is another's is not given back, nor kept. */
	uid_pool_give(&p, "more");
	ASSERT_EQ(uid_pool_keep(&p, "more", uids[2], &err), BERTH_E_UNAVAILABLE);
	ASSERT_EQ(uid_pool_keep(&p, "box2", uids[2], &err), 0);
	uid_pool_give(&p, "box2");
	ASSERT_EQ(uid_pool_take(&p, "more", &again, &gid, &err), 0);
	ASSERT_EQ(again, uids[2]);
	/* A sandbox that is gone without a word. */
	ASSERT_OK(rmdir("box0"));
	ASSERT_OK(mkdir("late", 0700));
	ASSERT_EQ(uid_pool_take(&p, "late", &again, &gid, &err), 0);
	ASSERT_EQ(again, uids[0]);
	uid_pool_give(&p, "late");
	uid_pool_give(&p, "late");
}

/* A sandbox whose folder cannot be seen any more, and which runs. */
TEST(ids_of_processes_are_not_free)
{
	struct uid_pool p = pool(1);
	int64_t uid, gid;
	pid_t pid;

	TEST_REQUIRE("root", "not root");
	p.uid = 1879048192 - LOCAL_UIDS; /* of no sandbox, and nobody's */
	ASSERT_OK(mkdir("register", 0755));
	ASSERT_OK(symlink("moved", "register/1879048184"));
	pid = ASSERT_OK(fork());
	if (pid == 0) {
		if (setresuid(1879048185, 1879048185, 1879048185) < 0)
			_exit(1);
		/* Without this /proc shows it as root's. */
		execlp("sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	for (int64_t end = deadline_from_ms(10000); !strstr(command_line(pid), "sleep");
	     usleep(1000))
		ASSERT_LT(now_mono_ns(), end);
	ASSERT_EQ(uid_pool_take(&p, "box", &uid, &gid, &err), BERTH_E_UNAVAILABLE);
	kill(pid, SIGKILL);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	ASSERT_EQ(uid_pool_take(&p, "box", &uid, &gid, &err), 0);
	ASSERT_EQ(uid, p.uid);
}

TEST_TIMEOUT(takers_at_once_get_different_ones, 60)
{
	enum { TAKERS = 24 };
	struct uid_pool p = pool(TAKERS);
	bool seen[TAKERS] = {false};
	pid_t pids[TAKERS];

	/* Stale links everywhere, which all want to replace. */
	ASSERT_OK(mkdir("register", 0755));
	for (int i = 0; i < TAKERS; i++) {
		char link[64];

		snprintf(link, sizeof(link), "register/%d", 1000 + i * LOCAL_UIDS);
		ASSERT_OK(symlink("gone", link));
	}
	for (int i = 0; i < TAKERS; i++) {
		pids[i] = ASSERT_OK(fork());
		if (pids[i] == 0) {
			int64_t uid, gid;
			char folder[16];

			snprintf(folder, sizeof(folder), "box%d", i);
			if (mkdir(folder, 0700) < 0 ||
			    uid_pool_take(&p, folder, &uid, &gid, NULL) < 0)
				_exit(255);
			_exit((int)((uid - 1000) / LOCAL_UIDS));
		}
	}
	for (int i = 0; i < TAKERS; i++) {
		int status, n;

		ASSERT_EQ(waitpid(pids[i], &status, 0), pids[i]);
		ASSERT(WIFEXITED(status));
		n = WEXITSTATUS(status);
		ASSERT_LT(n, (int)TAKERS);
		ASSERT(!seen[n]);
		seen[n] = true;
	}
}

TEST_MAIN()
