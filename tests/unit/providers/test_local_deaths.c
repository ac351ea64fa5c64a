/* SPDX-License-Identifier: MIT */
/* The local provider when somebody dies in the middle: with the real agent, and what is left. */
#include "localtest.h"

TEST(init_dies_and_the_truth_is_told)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_provider_info info;

	kill_init(s);
	info = info_of(s);
	ASSERT_EQ(info.status, BERTH_SANDBOX_ERROR);
	ASSERT_CONTAINS(info.message, "init is gone");
	ASSERT_EQ(berth_sandbox_start(s, &err), 0);
	ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_RUNNING);
	kill_init(s);
	ASSERT_EQ(berth_sandbox_stop(s, &err), 0);
	ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_STOPPED);
	destroyed(s);
}

TEST(another_boot_is_stopped)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_provider_info info;
	int fd;

	kill_init(s);
	fd = ASSERT_OK(open("state/local/x/boot", O_WRONLY | O_TRUNC | O_CLOEXEC));
	ASSERT_EQ(write(fd, "00000000-0000-0000-0000-000000000000", 36), 36);
	close(fd);
	info = info_of(s);
	ASSERT_EQ(info.status, BERTH_SANDBOX_STOPPED);
	ASSERT_CONTAINS(info.message, "rebooted");
	destroyed(s);
}

TEST(supervisors_without_init_are_ended)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_error err = BERTH_ERROR_INIT;
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	begin_session(s, "one", seconds);
	begin_session(s, "two", seconds);
	ASSERT(becomes(seconds, false, 2));
	kill_init(s);
	if (berth_sandbox_stop(s, &err) < 0)
		FAIL("%s", err.message);
	ASSERT(becomes(seconds, false, 0));
	ASSERT(inits(0));
	destroyed(s);
}

TEST(destroy_ends_what_runs)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	begin_session(s, "one", seconds);
	destroyed(s);
	ASSERT(becomes(seconds, false, 0));
	ASSERT(inits(0));
}

TEST_TIMEOUT(a_stopped_init_does_not_stop_destroy, 60)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	pid_t pid = init_pid(s);

	kill(pid, SIGSTOP);
	destroyed(s);
	wait_gone(pid);
	ASSERT(inits(0));
}

TEST(an_interrupted_destroy_is_finished)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	struct berth_provider_info before = info_of(s), after;

	/* As a destroyer that was killed after its first step. */
	ASSERT_EQ(close(ASSERT_OK(
			  open("state/local/x/destroying", O_CREAT | O_WRONLY | O_CLOEXEC, 0600))),
		  0);
	ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_DESTROYING);
	berth_sandbox_close(s);
	s = started("local:x?isolation=none");
	after = info_of(s);
	ASSERT_EQ(after.status, BERTH_SANDBOX_RUNNING);
	ASSERT_STRNE(after.id, before.id);
	ASSERT(inits(1));
	/* And one that was killed after its last but one. */
	ASSERT_EQ(mkdir_p(AT_FDCWD, "state/trash/local-x-abc/home/deep", 0700), 0);
	destroyed(s);
	ASSERT_EQ(access("state/trash/local-x-abc", F_OK), -1);
}

TEST(an_interrupted_stop_is_finished_by_the_next_start)
{
	struct berth_sandbox *s = started("local:x?isolation=none");
	pid_t before = init_pid(s);
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	begin_session(s, "one", seconds);
	ASSERT_EQ(close(ASSERT_OK(
			  open("state/local/x/stopped", O_CREAT | O_WRONLY | O_CLOEXEC, 0600))),
		  0);
	ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_STOPPING);
	ASSERT_EQ(berth_sandbox_start(s, NULL), 0);
	ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_RUNNING);
	road_drop_idle(s);
	ASSERT_NE(init_pid(s), before);
	ASSERT(becomes(seconds, false, 0));
	destroyed(s);
}

TEST_TIMEOUT(starters_may_be_killed_at_any_time, 120)
{
	struct berth_sandbox *s;
	int64_t us = 0;

	/* Later and later, until a start comes through untouched a few times. */
	for (int done = 0; done < 3; us += 300) {
		pid_t pid = ASSERT_OK(fork());
		struct timespec t = {0, us * 1000};
		int status;

		if (pid == 0) {
			s = opened("local:x?isolation=none", BERTH_OPEN_START);
			_exit(berth_sandbox_start(s, NULL) < 0);
		}
		nanosleep(&t, NULL); /* the moment of the kill is what varies here */
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		done += WIFEXITED(status);
		if (WIFEXITED(status))
			ASSERT_EQ(WEXITSTATUS(status), 0);
		s = started("local:x?isolation=none");
		ASSERT_EQ(info_of(s).status, BERTH_SANDBOX_RUNNING);
		ASSERT(inits(1));
		destroyed(s);
		ASSERT(inits(0));
	}
}

TEST_TIMEOUT(destroyers_may_be_killed_at_any_time, 120)
{
	struct berth_sandbox *s;
	struct dirent *e;
	char seconds[32];
	int64_t us = 0;
	DIR *d;

	snprintf(seconds, sizeof(seconds), "1000.%d", (int)getpid());
	for (int done = 0; done < 3; us += 500) {
		struct timespec t = {0, us * 1000};
		int status;
		pid_t pid;

		s = started("local:x?isolation=none");
		begin_session(s, "one", seconds);
		berth_sandbox_close(s);
		pid = ASSERT_OK(fork());
		if (pid == 0) {
			struct berth_destroy_result r;

			berth_sandbox_destroy(opened("local:x", 0), 1, 0, &r, NULL);
			_exit(r.state != BERTH_DESTROYED);
		}
		nanosleep(&t, NULL); /* the moment of the kill is what varies here */
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		done += WIFEXITED(status);
		if (WIFEXITED(status))
			ASSERT_EQ(WEXITSTATUS(status), 0);
		destroyed(opened("local:x", 0));
		ASSERT(inits(0));
		ASSERT(becomes(seconds, false, 0));
		ASSERT_EQ(access("state/local/x", F_OK), -1);
		d = opendir("state/trash");
		while (d && (e = readdir(d)))
			ASSERT_EQ(e->d_name[0], '.');
		closedir(d);
	}
}

/* Starts five times, or destroys five times; its exit status. */
static int one_of_many(bool destroyer)
{
	struct berth_sandbox *s = opened("local:x?isolation=none", BERTH_OPEN_START);
	struct berth_destroy_result r = {.state = BERTH_DESTROYED};
	struct berth_error err = BERTH_ERROR_INIT;
	int rc = 0;

	for (int i = 0; i < 5 && rc == 0 && r.state == BERTH_DESTROYED; i++)
		rc = destroyer ? berth_sandbox_destroy(s, 3, 10, &r, &err)
			       : berth_sandbox_start(s, &err);
	if (rc == 0 && r.state == BERTH_DESTROYED)
		return 0;
	fprintf(stderr, "# %s%s\n", err.message, r.message);
	return 1;
}

TEST_TIMEOUT(starters_and_destroyers_at_once, 120)
{
	struct berth_sandbox *s;
	pid_t pids[12];

	for (int i = 0; i < 12; i++) {
		pids[i] = ASSERT_OK(fork());
		if (pids[i] == 0)
			_exit(one_of_many(i % 3 == 0));
	}
	for (int i = 0; i < 12; i++) {
		int status;

		waitpid(pids[i], &status, 0);
		CHECK_EQ(status, 0);
	}
	s = started("local:x?isolation=none");
	ASSERT(inits(1));
	destroyed(s);
	ASSERT(inits(0));
}

TEST_MAIN()
