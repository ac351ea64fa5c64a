/* SPDX-License-Identifier: MIT */
/*
 * disk.c: a full disk (a small tmpfs in a mount namespace of the test): what runs goes on and is
 * told truthfully, what cannot be begun is refused whole, and everything works again when there is
 * room.
 */
#include <sched.h>
#include <sys/mount.h>

#include "conformance/conf.h"

#define MIB (UINT64_C(1) << 20)

static char disk[PATH_MAX];

/* A state folder on a disk of that size; inodes 0: no limit of their own. */
static void small_disk(unsigned mib, unsigned inodes)
{
	char opts[64];

	if (strncmp(conf.template, "local:NAME", 10) != 0)
		SKIP("the disk must be here");
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		SKIP("mounts need root");
	ASSERT_OK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	snprintf(disk, sizeof(disk), "%.3000s/disk", conf.root);
	if (mkdir(disk, 0755) < 0)
		ASSERT_EQ(errno, EEXIST);
	snprintf(opts, sizeof(opts), "size=%um", mib);
	if (inodes)
		snprintf(opts, sizeof(opts), "size=%um,nr_inodes=%u", mib, inodes);
	ASSERT_OK(mount("berth-test", disk, "tmpfs", 0, opts));
	OK(berth_new(disk, &B, &E));
	OK(berth_sandbox_open(B, "local:small?isolation=none", NULL, BERTH_OPEN_START, &S, &E));
}

/* Takes all room but about @leave bytes. */
static void fill_disk(uint64_t leave)
{
	static char block[4096];
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/filler", disk);
	fd = ASSERT_OK(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
	while (write(fd, block, sizeof(block)) > 0)
		;
	if (leave) {
		struct stat st;

		ASSERT_OK(fstat(fd, &st));
		ASSERT_OK(ftruncate(fd, st.st_size > (off_t)leave ? st.st_size - (off_t)leave : 0));
	}
	close(fd);
}
static void free_disk(void)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/filler", disk);
	unlink(path);
}

static void close_disk(void)
{
	struct berth_destroy_result r;

	free_disk();
	OK(berth_sandbox_destroy(S, 0, -1, &r, &E));
	ASSERT_EQ(r.state, BERTH_DESTROYED);
	berth_sandbox_close(S);
	berth_free(B);
	ASSERT_EQ(processes_with(disk, NULL), 0u);
}

/* Every byte that is told is right, gaps are named, and the end is the sealed one. */
static void check_what_was_kept(const char *id, uint64_t seed, uint64_t total)
{
	static char buf[65536], want[65536];
	struct berth_read_result r;
	uint64_t at = 0, kept = 0;

	for (int i = 0; i < 100000; i++) {
		OK(berth_read(box(), id, BERTH_STDOUT, at, buf, sizeof(buf), &r, &E));
		ASSERT(r.offset == at || (r.has_gap && r.gap_from <= at && r.gap_to == r.offset));
		ASSERT_EQ(r.next_offset, r.offset + r.n);
		pattern_fill(seed, r.offset, want, r.n);
		ASSERT(memcmp(buf, want, r.n) == 0);
		kept += r.n;
		ASSERT(r.eof || r.next_offset > at);
		at = r.next_offset;
		if (r.eof)
			break;
	}
	ASSERT_EQ(at, total);
	ASSERT_LT(kept, total);
	DIAG("%" PRIu64 " of %" PRIu64 " bytes were kept", kept, total);
}

TEST_TIMEOUT(output_beyond_the_disk, 60)
{
	struct berth_status st;

	small_disk(8, 0);
	start_ready("chatty", "block USR1 fill 1 82 1 await USR1 exit 0");
	end_it("chatty");
	run("loud", "rand 1 4 30000000 exit 9", &st);
	ASSERT_EXITED(&st, 9);
	ASSERT_EQ(st.stdout_bytes, 30000000u);
	ASSERT(st.has_hashes);
	check_what_was_kept("loud", 4, 30000000);
	/* Room again: everything works again. */
	OK(berth_remove(box(), "loud", &E));
	run("quiet", "out fine exit 2", &st);
	ASSERT_EXITED(&st, 2);
	ASSERT_STREQ(text_out("quiet", BERTH_STDOUT), "fine");
	close_disk();
}

TEST_TIMEOUT(a_disk_that_fills_while_it_runs, 60)
{
	struct berth_status st;

	small_disk(8, 0);
	start_ready("runs", "block USR1 ready await USR1 rand 2 6 300000 exit 4");
	start_ready("cancels", "ready pause");
	fill_disk(0);
	/* The truth was paid for at the reservation. */
	OK(berth_signal(box(), "runs", SIGUSR1, &E));
	finish("runs", &st);
	ASSERT_EXITED(&st, 4);
	ASSERT_EQ(st.stderr_bytes, 300000u);
	ASSERT(st.has_hashes);
	cancel("cancels", 1000, &st);
	ASSERT_ENDED(&st, BERTH_CANCELLED, -1, SIGTERM);
	OK(berth_remove(box(), "runs", &E));
	OK(berth_remove(box(), "cancels", &E));
	close_disk();
}

static void deploys_refused(const char *id)
{
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	int rc;

	request(&q, id, "exit 0");
	memset(&r, 0, sizeof(r));
	rc = berth_deploy(box(), &q, &r, &E);
	if (rc == 0 && r.status.state != BERTH_FAILED) {
		/* There was room enough: then it is whole. */
		finish(id, &st);
		ASSERT_EXITED(&st, 0);
		return;
	}
	ASSERT(rc < 0 || r.status.state == BERTH_FAILED);
	ASSERT_CONTAINS(rc < 0 ? E.message : r.status.message, "No space left");
	rc = berth_status(box(), id, &st, &E);
	ASSERT(rc == BERTH_E_NOT_FOUND || (rc == 0 && st.state == BERTH_FAILED));
	assert_gone(id);
	if (rc == 0)
		OK(berth_remove(box(), id, &E));
}

TEST_TIMEOUT(deploys_on_a_full_disk, 60)
{
	struct berth_status st;

	small_disk(8, 0);
	run("before", "exit 0", &st);
	for (unsigned leave = 0; leave <= 65536; leave += 4096) {
		char id[32];

		free_disk();
		fill_disk(leave);
		snprintf(id, sizeof(id), "full-%u", leave);
		SUBTEST("%u bytes are left", leave)
		deploys_refused(id);
	}
	free_disk();
	for (unsigned leave = 0; leave <= 65536; leave += 4096) {
		char id[32];

		snprintf(id, sizeof(id), "full-%u", leave);
		if (berth_status(box(), id, &st, &E) == BERTH_E_NOT_FOUND)
			run(id, "exit 1", &st);
		finish(id, &st);
		ASSERT_EQ(st.state, BERTH_EXITED);
	}
	close_disk();
}

TEST_TIMEOUT(an_artifact_larger_than_the_disk, 60)
{
	const char *dir = new_artifact("large");
	struct berth_deploy_request q;
	struct berth_deploy_result r;
	struct berth_status st;
	static char mib[1 << 20];
	int rc;

	small_disk(6, 0);
	for (int i = 0; i < 12; i++) {
		char name[16];

		snprintf(name, sizeof(name), "m%d", i);
		pattern_fill((uint64_t)i, 0, mib, sizeof(mib));
		put_bytes(in(dir, name), mib, sizeof(mib), 0644);
	}
	request(&q, "large", "exit 0");
	q.dir = dir;
	memset(&r, 0, sizeof(r));
	rc = berth_deploy(box(), &q, &r, &E);
	ASSERT(rc < 0 || (r.status.state == BERTH_FAILED && strcmp(r.status.phase, "upload") == 0));
	ASSERT_CONTAINS(rc < 0 ? E.message : r.status.message, "No space left");
	FAILS(BERTH_E_NOT_FOUND, berth_status(box(), "large", &st, &E));
	/* What arrived of it is not in the way. */
	run("small-one", "exit 3", &st);
	ASSERT_EXITED(&st, 3);
	close_disk();
}

TEST_TIMEOUT(no_inodes_left, 60)
{
	struct berth_status st;
	char path[PATH_MAX + 32];
	int n = 0;

	small_disk(16, 300);
	run("before", "exit 0", &st);
	start_ready("lives", "block USR1 ready await USR1 err x exit 6");
	for (;; n++) {
		int fd;

		snprintf(path, sizeof(path), "%s/inode-%d", disk, n);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	deploys_refused("no-inode");
	OK(berth_signal(box(), "lives", SIGUSR1, &E));
	finish("lives", &st);
	ASSERT_EXITED(&st, 6);
	while (n-- > 0) {
		snprintf(path, sizeof(path), "%s/inode-%d", disk, n);
		unlink(path);
	}
	run("after", "exit 1", &st);
	ASSERT_EXITED(&st, 1);
	close_disk();
}
