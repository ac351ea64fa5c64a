/* SPDX-License-Identifier: MIT */
/*
 * What a new sandbox is given beside its folder (host uids, a quota), and how it is taken back.
 *
 * Invariants: everything that can be refused is refused before anything is made; the record comes
 * last. Uids are given back when no file of theirs is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/path.h"
#include "base/time.h"
#include "loop/child.h"
#include "providers/local/local_bwrap.h"

/* Removing a large home. */
#define ERASE_MS (10 * 60 * 1000)
/* What is said about a failure. */
#define SAID_MAX 4096

BERTH_DEFINE_AUTO_PTR(strv_items, char **, strv_free_items);

static bool wants_range(const struct local_keys *k)
{
	return strcmp(local_key_value(k, KEY_UIDS), "range") == 0;
}

/* The state folder, or what of it is there. */
static int check_disk(const struct local *l, struct berth_error *err)
{
	auto_free char *dir = mem_strdup(l->state_dir);

	while (dir && access(dir, F_OK) < 0 && strrchr(dir, '/') > dir)
		*strrchr(dir, '/') = '\0';
	return dir ? local_quota_check(dir, err) : berth_fail_nomem(err);
}

int local_may_make(const struct local *l, struct berth_error *err)
{
	auto(local_tools) struct local_tools t = {0};
	auto(uid_pool) struct uid_pool pool = {0};
	int rc = local_keys_fit(&l->want, "bwrap", err);

	if (rc < 0 || !local_walled(l))
		return rc;
	if (l->remote_dir)
		return local_check_dir(l, NULL, err);
	rc = local_keys_exist(&l->want, err);
	if (rc == 0)
		rc = local_preflight(&l->want, &t, err);
	if (rc == 0 && wants_range(&l->want))
		rc = uid_pool_open(&pool, err);
	return rc == 0 && l->want.value[KEY_DISK] ? check_disk(l, err) : rc;
}

static int give_quota(const struct local *l, const struct local_record *r, struct berth_error *err)
{
	int64_t bytes = local_key_number(&l->want, KEY_DISK);

	if (!bytes)
		return 0;
	if (!r->uid_base)
		return berth_fail(err, BERTH_E_INVALID, "disk= needs uids=range");
	return local_quota_set(l->base, (uint32_t)r->uid_base, bytes, err);
}

static int make_walled(struct local *l, struct local_record *r, struct berth_error *err)
{
	auto(uid_pool) struct uid_pool pool = {0};
	int rc;

	if (wants_range(&l->want)) {
		rc = uid_pool_open(&pool, err);
		if (rc == 0)
			rc = uid_pool_take(&pool, l->base, &r->uid_base, &r->gid_base, err);
		if (rc < 0)
			return rc;
	}
	rc = give_quota(l, r, err);
	if (rc == 0)
		rc = local_create(l, r, err);
	if (rc < 0 && r->uid_base)
		uid_pool_give(&pool, l->base);
	return rc;
}

int local_make(struct local *l, struct berth_error *err)
{
	int64_t lives = local_key_number(&l->want, KEY_EXPIRES);
	struct local_record r = {.created_ms = now_wall_ms()};
	int rc = local_may_make(l, err);

	if (lives)
		r.expires_ms = r.created_ms + lives;
	if (rc == 0)
		rc = local_walled(l) ? make_walled(l, &r, err) : local_create(l, &r, err);
	if (rc < 0)
		(void)!local_discard(l, NULL); /* the lock's folder */
	return rc;
}

/* ── taking back ────────────────────────────────────────────────────────────────────────── */

/* An ordinary user may not remove what the sandbox's uids have made: the agent does it as them. */
static int erase(struct local *l, const char *name, const struct local_tools *t,
		 struct berth_error *err)
{
	auto_free char *agent = NULL, *out = NULL, *said = NULL;
	char base[24], gbase[24];
	auto(strv_items) char **env = local_environment(l);
	struct child_params p = CHILD_PARAMS_INIT;
	struct child_exit end = {0};
	int rc = local_agent_path(l, &agent, err);

	if (!env)
		return berth_fail_nomem(err);
	snprintf(base, sizeof(base), "%lld", (long long)l->record.uid_base);
	snprintf(gbase, sizeof(gbase), "%lld", (long long)l->record.gid_base);
	p.argv = (char *[]){agent,
			    (char *)"erase",
			    (char *)"--ids",
			    (char *)"range",
			    (char *)"--base",
			    base,
			    (char *)"--gbase",
			    gbase,
			    (char *)"--newuidmap",
			    t->newuidmap,
			    (char *)"--newgidmap",
			    t->newgidmap,
			    (char *)name,
			    NULL};
	p.env = env;
	p.cwd = l->base;
	if (rc == 0)
		rc = child_run(&p, NULL, 0, SAID_MAX, ERASE_MS, &end, &out, NULL, &said, NULL, err);
	if (rc < 0)
		return rc;
	if (end.signaled || end.code != 0) {
		said[strcspn(said, "\n")] = '\0';
		return berth_fail(err, BERTH_E_IO, "%s/%s could not be removed%s%s", l->base, name,
				  *said ? ": " : "", said);
	}
	return 0;
}

int local_unmake(struct local *l, struct berth_error *err)
{
	static const char *const theirs[] = {"home", "berth", "root"};
	auto(local_tools) struct local_tools t = {0};
	int rc = 0;

	if (!l->loaded || !local_walled(l))
		return 0;
	if (l->record.keys.value[KEY_DISK])
		local_quota_clear(l->base, (uint32_t)l->record.uid_base);
	if (geteuid() == 0 || !l->record.uid_base)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(theirs) && rc == 0; i++) {
		auto_free char *path = local_path(l, theirs[i]);

		if (!path)
			return berth_fail_nomem(err);
		if (access(path, F_OK) < 0)
			continue;
		if (!t.newuidmap)
			rc = local_preflight(&l->record.keys, &t, err);
		if (rc == 0)
			rc = erase(l, theirs[i], &t, err);
	}
	return rc;
}

void local_give_uids(const struct local *l)
{
	auto(uid_pool) struct uid_pool pool = {0};

	if (uid_pool_open(&pool, NULL) == 0)
		uid_pool_give(&pool, l->base);
}
