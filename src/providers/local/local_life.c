/* SPDX-License-Identifier: MIT */
/*
 * The life of a local sandbox. Every change is made under its kernel lock, so twenty starters make
 * one sandbox; whoever comes after a caller that was killed in the middle finds the markers and
 * finishes or repeats the work.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/time.h"

/* For an init to listen or to end; it takes milliseconds. */
#define SETTLE_MS 10000

const struct launcher *local_launcher(const struct local *l)
{
	return local_walled(l) ? &local_launcher_bwrap : &local_launcher_none;
}

static int default_alive(const struct local *l, bool *ret, struct berth_error *err)
{
	auto_free char *dir = local_default_dir(l);

	if (!dir)
		return berth_fail_nomem(err);
	*ret = local_init_alive(dir);
	return 0;
}

/*
 * Does an init serve this directory? One that holds its lock and does not listen is on its way up
 * (another's `connect --start`) or out; which of the two, its lock or its socket shows in a moment,
 * and nothing tells when. Only with the lock of the sandbox.
 */
static bool serves(const char *dir)
{
	int64_t deadline = deadline_from_ms(SETTLE_MS);
	struct timespec pause = {0, NS_PER_MS};

	while (local_init_alive(dir)) {
		int fd = local_connect(dir, "init.sock");

		if (fd >= 0)
			close(fd);
		if ((fd != -ECONNREFUSED && fd != -ENOENT) || now_mono_ns() > deadline)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int start_dir(struct local *l, const char *dir, struct berth_error *err)
{
	int rc = local_note_dir(l, dir, err);

	if (rc == 0 && !serves(dir))
		rc = local_launcher(l)->start_init(l, dir, err);
	return rc;
}

static int destroy_locked(struct local *l, struct berth_error *err);
static int end_all(struct local *l, bool hard, struct berth_error *err);

/* With the lock: one that is there and has not expired, or a new one. 1: look again. */
static int find_or_create(struct local *l, bool create, bool *ret_created, struct berth_error *err)
{
	int rc = local_load_any(l, err);

	if (rc == 0 && local_expired(l)) {
		if (!create)
			return local_load(l, err); /* as what is gone */
		rc = destroy_locked(l, err);
		return rc < 0 ? rc : 1;
	}
	if (rc == 0)
		return local_load(l, err);
	if (rc == BERTH_E_NOT_FOUND && create) {
		rc = local_make(l, err);
		*ret_created = rc == 0;
	}
	return rc;
}

/* With the lock: makes it be there and run. */
static int start_locked(struct local *l, bool create, bool *ret_created, struct berth_error *err)
{
	auto_free char *dir = NULL;
	int rc = 0;

	if (local_marked(l, "destroying")) {
		rc = destroy_locked(l, err);
		return rc < 0 ? rc : 1;
	}
	rc = find_or_create(l, create, ret_created, err);
	if (rc != 0)
		return rc;
	dir = local_default_dir(l);
	if (!dir)
		return berth_fail_nomem(err);
	/* Marked, and yet alive: a stop whose caller was killed. Its init may be on its way out
	 * already. */
	if (local_marked(l, "stopped") && local_init_alive(dir))
		rc = end_all(l, false, err);
	if (rc == 0)
		rc = local_note_boot(l, err);
	if (rc == 0)
		rc = start_dir(l, dir, err);
	if (rc == 0)
		rc = local_mark(l, "stopped", false, err);
	/* What this machine cannot do is no sandbox that does not start. */
	if (rc < 0 && *ret_created && local_walled(l))
		(void)!destroy_locked(l, NULL);
	return rc;
}

static int start(struct local *l, bool create, bool *ret_created, struct berth_error *err)
{
	bool alive = false, created = false;
	int rc = local_load(l, err);

	if (rc == BERTH_E_NOT_FOUND && create)
		rc = local_may_make(l, err);
	else if (rc == 0)
		rc = default_alive(l, &alive, err);
	if (rc < 0)
		return rc;
	if (alive && !local_marked(l, "stopped") && !local_marked(l, "destroying")) {
		*ret_created = false;
		return 0;
	}
	if (create)
		(void)!local_sweep_trash(l, NULL, NULL); /* what is left is for the next one */
	do {
		auto_close int lock = -1;

		rc = local_lock(l, create, &lock, err);
		if (rc == 0)
			rc = start_locked(l, create, &created, err);
	} while (rc > 0);
	if (rc < 0)
		return rc;
	*ret_created = created;
	return 0;
}

int local_start(void *handle, bool *ret_created, struct berth_error *err)
{
	return start(handle, true, ret_created, err);
}

int local_resume(void *handle, struct berth_error *err)
{
	bool created;

	return start(handle, false, &created, err);
}

int local_start_agent(void *handle, const char *dir, struct berth_error *err)
{
	struct local *l = handle;
	auto_close int lock = -1;
	int rc = local_lock(l, false, &lock, err);

	if (rc == 0)
		rc = local_load(l, err);
	if (rc == 0)
		rc = local_check_dir(l, dir, err);
	if (rc < 0)
		return rc;
	if (local_marked(l, "stopped") || local_marked(l, "destroying"))
		return berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox %s is stopped", l->full);
	return start_dir(l, dir, err);
}

/* ── stopping ───────────────────────────────────────────────────────────────────────────── */

static int end_one(struct local *l, const char *dir, void *arg, struct berth_error *err)
{
	const bool *hard = arg;

	return local_end_dir(dir, *hard, err);
}

/* Everything in every directory that is in use. */
static int end_all(struct local *l, bool hard, struct berth_error *err)
{
	auto_free char *dir = local_default_dir(l);
	const struct launcher *launcher = local_launcher(l);
	int rc = 0;

	if (!dir)
		return berth_fail_nomem(err);
	/* A start that is under way without its caller would come up behind our back. */
	if (launcher->clean)
		rc = launcher->clean(l, err);
	if (rc == 0)
		rc = local_each_dir(l, end_one, &hard, err);
	/* Noted or not (a starter may have been killed before it noted it). */
	if (rc == 0)
		rc = local_end_dir(dir, hard, err);
	return rc == 0 && launcher->clean ? launcher->clean(l, err) : rc;
}

int local_stop(void *handle, struct berth_error *err)
{
	struct local *l = handle;
	auto_close int lock = -1;
	bool was_stopped;
	int rc = local_load(l, err);

	if (rc == 0)
		rc = local_lock(l, false, &lock, err);
	if (rc == 0)
		rc = local_load(l, err);
	if (rc < 0)
		return rc;
	was_stopped = local_marked(l, "stopped");
	rc = local_mark(l, "stopped", true, err);
	if (rc == 0)
		rc = end_all(l, false, err);
	if (rc < 0 && !was_stopped)
		(void)!local_mark(l, "stopped", false, NULL); /* it runs, so it is not stopped */
	return rc;
}

/* ── destroying ─────────────────────────────────────────────────────────────────────────── */

/* A berth directory outside of the sandbox's folder: what berth made there goes, the rest is not
 * ours. */
static int remove_outside(struct local *l, const char *dir, void *arg, struct berth_error *err)
{
	static const char *const ours[] = {"init.sock", "init.lock", "incarnation", "agent", "x",
					   "s",         "store",     "app",         "tmp"};
	size_t n = strlen(l->base);
	auto_close int fd = -1;
	int rc = 0;

	if (strncmp(dir, l->base, n) == 0 && dir[n] == '/')
		return 0;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : berth_fail_errno(err, 0, errno, "%s", dir);
	for (size_t i = 0; i < ARRAY_LEN(ours) && rc == 0; i++)
		rc = remove_tree(fd, ours[i]);
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s", dir);
	(void)!rmdir(dir); /* not empty: the user's */
	return 0;
}

static int destroy_locked(struct local *l, struct berth_error *err)
{
	int rc = local_load_any(l, err);

	if (rc == 0 && !local_expired(l))
		rc = local_load(l, err);
	if (rc == BERTH_E_CONFLICT || rc == BERTH_E_INVALID || rc == BERTH_E_NOMEM)
		return rc;
	/* No record, or a damaged one, is no reason to keep the rest. */
	rc = local_mark(l, "destroying", true, err);
	if (rc == 0)
		rc = end_all(l, true, err);
	if (rc == 0)
		rc = local_each_dir(l, remove_outside, NULL, err);
	if (rc == 0)
		rc = local_unmake(l, err);
	if (rc == 0)
		rc = local_discard(l, err);
	if (rc == 0)
		local_give_uids(l);
	return rc;
}

int local_destroy(void *handle, struct berth_error *err)
{
	struct local *l = handle;
	int rc;

	if (access(l->base, F_OK) == 0) {
		auto_close int lock = -1;

		rc = local_lock(l, false, &lock, err);
		if (rc == 0)
			rc = destroy_locked(l, err);
		if (rc < 0 && rc != BERTH_E_NOT_FOUND)
			return rc;
	} else {
		local_give_uids(l); /* of one whose destroyer was killed last of all */
	}
	return local_sweep_trash(l, l->name, err);
}

/* ── info ───────────────────────────────────────────────────────────────────────────────── */

/* Ended by itself, as it was told to. */
static bool meant_to_end(const struct local *l, char *message, size_t cap)
{
	local_ended(l, message, cap);
	return *message;
}

static void find_status(const struct local *l, bool alive, struct berth_provider_info *info)
{
	char ended[16] = "";
	const char *message = "";

	if (local_marked(l, "destroying")) {
		info->status = BERTH_SANDBOX_DESTROYING;
		message = local_locked(l) ? "" : "destroy was interrupted";
	} else if (local_expired(l)) {
		info->status = BERTH_SANDBOX_DESTROYED;
		message = "expired";
	} else if (local_marked(l, "stopped")) {
		info->status = alive ? BERTH_SANDBOX_STOPPING : BERTH_SANDBOX_STOPPED;
	} else if (alive) {
		info->status = BERTH_SANDBOX_RUNNING;
	} else if (local_locked(l)) {
		info->status = BERTH_SANDBOX_STARTING;
	} else if (meant_to_end(l, ended, sizeof(ended))) {
		info->status = BERTH_SANDBOX_STOPPED;
		message = strcmp(ended, "stopped") == 0 ? "" : ended;
	} else if (local_other_boot(l)) {
		info->status = BERTH_SANDBOX_STOPPED;
		message = "host rebooted";
	} else {
		info->status = BERTH_SANDBOX_ERROR;
		message = "init is gone; the next start restarts it";
	}
	snprintf(info->message, sizeof(info->message), "%s", message);
}

/* Expired ones are told of as what they are; to everything else they are gone. */
static int load_for_info(struct local *l, struct berth_error *err)
{
	int rc = local_load_any(l, err);

	return rc < 0 || local_expired(l) ? rc : local_load(l, err);
}

int local_info(void *handle, struct berth_provider_info *ret, struct berth_error *err)
{
	struct local *l = handle;
	struct berth_provider_info info = {0};
	bool alive = false;
	int64_t idle;
	int rc = load_for_info(l, err);

	if (rc == 0)
		rc = default_alive(l, &alive, err);
	if (rc < 0)
		return rc;
	find_status(l, alive, &info);
	snprintf(info.id, sizeof(info.id), "%s", l->record.id);
	info.created_ms = l->record.created_ms;
	info.expires_ms = l->record.expires_ms;
	idle = local_key_number(&l->record.keys, KEY_IDLE);
	info.idle_minutes = (idle + 59999) / 60000;
	local_launcher(l)->describe(l, alive, &info);
	*ret = info;
	return 0;
}
