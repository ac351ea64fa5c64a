/* SPDX-License-Identifier: MIT */
/*
 * All records of a sandbox: listing them newest first, removing one, pruning. A record that cannot
 * be read is left out of the list rather than ending it; removal takes it out of sight by a rename
 * before anything is deleted.
 */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/fs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/random.h"
#include "base/time.h"
#include "core/record.h"
#include "core/road.h"
#include "wire/spec.h"

#define LIST_MS  60000
#define PRUNE_MS (10 * 60 * 1000)

struct item {
	struct berth_status status;
	int64_t reserved_ms;
	char *args; /* n_args strings, each with its NUL */
	size_t n_args;
};

struct items {
	struct item *v;
	size_t n, cap;
};

static void items_done(struct items *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].args);
	free(l->v);
}
BERTH_DEFINE_AUTO(items, struct items, items_done);

/* The command of a spec as strings in one block. */
static int take_args(struct wire_slice spec, struct item *it)
{
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;
	size_t n = 0;

	it->args = mem_alloc(spec.n + 1);
	if (!it->args)
		return -1;
	wire_r_init(&r, spec.p, spec.n);
	while (wire_r_next(&r, &key, &v)) {
		if (key != SK_ARG || !wire_slice_is_text(v))
			continue;
		memcpy(it->args + n, v.p, v.n); /* a field takes 6 bytes more than its value */
		n += v.n;
		it->args[n++] = '\0';
		it->n_args++;
	}
	return 0;
}

static int add_item(struct items *l, const struct record_status *st, const char *id,
		    struct wire_slice spec, int64_t reserved_ms, struct berth_error *err)
{
	struct item *it;

	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;

		it = mem_reallocarray(l->v, cap, sizeof(*it));
		if (!it)
			return berth_fail_nomem(err);
		l->v = it;
		l->cap = cap;
	}
	it = &l->v[l->n];
	memset(it, 0, sizeof(*it));
	status_from_record(st, id, spec, &it->status);
	it->reserved_ms = reserved_ms;
	l->n++;
	return take_args(spec, it) < 0 ? berth_fail_nomem(err) : 0;
}

static int list_direct(struct berth_sandbox *s, int berth_fd, struct items *l,
		       struct berth_error *err)
{
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int fd = openat(berth_fd, "x", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : berth_fail_errno(err, 0, errno, "the records");
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return berth_fail_nomem(err);
	}
	while (rc == 0 && (e = readdir(d))) {
		auto(record) struct record r = RECORD_INIT;

		if (!valid_execution_id(e->d_name))
			continue;
		rc = record_open(s, berth_fd, e->d_name, WIRE_KIND_EXECUTION, &r, err);
		if (rc == 0)
			rc = add_item(l, &r.st, e->d_name, r.j.spec, r.j.reserved_ms, err);
		else if (rc != BERTH_E_NOMEM)
			rc = 0;
	}
	return rc;
}

static int add_reply(struct berth_sandbox *s, struct items *l, struct wire_slice payload,
		     struct berth_error *err)
{
	struct record_status st;
	struct wire_slice v;
	struct journal j;
	char id[BERTH_ID_MAX + 1];
	int rc = reply_decode(payload, s->init_is_life, &j, &st, err);

	if (rc < 0)
		return rc;
	if (!wire_find(payload.p, payload.n, WK_ID, &v) || v.n > BERTH_ID_MAX)
		return berth_fail(err, BERTH_E_PROTOCOL, "the agent's answer holds no id");
	memcpy(id, v.p, v.n);
	id[v.n] = '\0';
	return add_item(l, &st, id, j.spec, j.reserved_ms, err);
}

static int list_agent(struct berth_sandbox *s, struct items *l, struct berth_error *err)
{
	auto(road) struct road *r = NULL;
	struct wire_slice payload = {0};
	uint8_t type = 0;
	int rc = road_get(s, ROAD_INIT, &r, err);

	if (rc == 0)
		rc = road_request(r, WIRE_LIST, NULL, err);
	while (rc == 0 && type != WIRE_OK) {
		rc = road_recv(r, &type, &payload, deadline_from_ms(LIST_MS), err);
		if (rc == 0 && type == WIRE_EVENT)
			rc = add_reply(s, l, payload, err);
	}
	return rc;
}

static int newest_first(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->reserved_ms != y->reserved_ms)
		return x->reserved_ms < y->reserved_ms ? 1 : -1;
	return strcmp(x->status.id, y->status.id);
}

static int give(const struct item *it, int (*fn)(void *arg, const struct berth_record *r),
		void *arg, struct berth_error *err)
{
	auto_free const char **argv = mem_zalloc(it->n_args + 1, sizeof(*argv));
	struct berth_record rec = {.status = it->status, .command = argv, .n_command = it->n_args};
	const char *p = it->args;

	if (!argv)
		return berth_fail_nomem(err);
	for (size_t i = 0; i < it->n_args; i++, p += strlen(p) + 1)
		argv[i] = p;
	return fn(arg, &rec);
}

/*
 * Where the records are: WHERE_HERE and the berth directory, or behind the agent, or there are none
 * yet. Fails when the sandbox cannot be asked at all.
 */
enum { WHERE_HERE, WHERE_AGENT, WHERE_NONE };

static int where(struct berth_sandbox *s, int *ret_fd, struct berth_error *err)
{
	struct berth_status why;
	int gate = source_gate(s, "", &why, err), rc;

	if (gate < 0)
		return gate;
	rc = sandbox_dir_fd(s, ret_fd, err);
	if (rc == BERTH_E_NOT_FOUND)
		return WHERE_NONE;
	if (rc != BERTH_E_UNSUPPORTED)
		return rc;
	return gate ? berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, why.message)
		    : WHERE_AGENT;
}

int berth_list(struct berth_sandbox *s, int (*fn)(void *arg, const struct berth_record *r),
	       void *arg, struct berth_error *err)
{
	auto(items) struct items l = {0};
	int fd = -1, rc = where(s, &fd, err);

	if (rc == WHERE_HERE)
		rc = list_direct(s, fd, &l, err);
	else if (rc == WHERE_AGENT)
		rc = list_agent(s, &l, err);
	if (rc < 0)
		return rc;
	rc = 0;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), newest_first);
	for (size_t i = 0; i < l.n && rc == 0; i++)
		rc = give(&l.v[i], fn, arg, err);
	return rc;
}

/* ── removing ───────────────────────────────────────────────────────────────────────────── */

static int still_runs(const char *id, struct berth_error *err)
{
	return berth_fail(err, BERTH_E_CONFLICT, "execution \"%s\" has not ended", id);
}

static int forget(struct berth_sandbox *s, const char *id, struct berth_error *err)
{
	auto(road) struct road *r = NULL;
	uint8_t buf[256];
	struct wire_w w;
	int rc = road_get(s, ROAD_INIT, &r, err);

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_ID, id);
	if (rc == 0)
		rc = road_ask(r, WIRE_FORGET, &w, deadline_from_ms(PRUNE_MS), NULL, err);
	if (rc == BERTH_E_NOT_FOUND)
		return berth_fail(err, rc, "no execution \"%s\" in %s", id, s->full);
	return rc == BERTH_E_CONFLICT ? still_runs(id, err) : rc;
}

/* A sandbox of an ordinary user has uids of its own: what its workers have made is theirs. */
static bool is_anothers(int fd)
{
	struct stat st;

	return geteuid() != 0 && fstat(fd, &st) == 0 && st.st_uid != geteuid();
}

static bool init_runs(int berth_fd)
{
	auto_close int fd = openat(berth_fd, "init.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && fd_lock_test(fd) == 1;
}

static int remove_direct(struct berth_sandbox *s, int berth_fd, const char *id,
			 struct berth_error *err)
{
	auto(record) struct record r = RECORD_INIT;
	char from[BERTH_ID_MAX + 8], to[64], random[17];
	struct stat a, b;
	int rc = record_open(s, berth_fd, id, WIRE_KIND_EXECUTION, &r, err);

	snprintf(from, sizeof(from), "x/%s", id);
	/* What cannot be read is for the agent, which removes whatever nobody holds. */
	if (rc == BERTH_E_IO ||
	    (rc == BERTH_E_NOT_FOUND && faccessat(berth_fd, from, F_OK, 0) == 0))
		return forget(s, id, err);
	if (rc < 0)
		return rc;
	if (!record_final(&r.st))
		return still_runs(id, err);
	/* The end is written: its keeper lets go of the lock next. A read lock waits for that; who
	 * takes it for the keeper's meanwhile finds the end, too. */
	do
		rc = r.facts.held ? fd_lock_wait(r.jfd, false) : 0;
	while (rc == -EINTR);
	if (rc < 0)
		return still_runs(id, err);
	if (is_anothers(r.dirfd) && init_runs(berth_fd))
		return forget(s, id, err);
	snprintf(to, sizeof(to), "tmp/rm-%s", random_name(random, 16));
	rc = mkdir_p(berth_fd, "tmp", 0700);
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "tmp");
	if (renameat(berth_fd, from, berth_fd, to) < 0)
		return errno == ENOENT ? 0 : berth_fail_errno(err, 0, errno, "removing \"%s\"", id);
	/* Somebody else may have removed it and launched anew meanwhile: that one goes back. */
	if (fstat(r.dirfd, &a) < 0 || fstatat(berth_fd, to, &b, AT_SYMLINK_NOFOLLOW) < 0 ||
	    a.st_ino != b.st_ino || a.st_dev != b.st_dev) {
		syscall(SYS_renameat2, berth_fd, to, berth_fd, from, RENAME_NOREPLACE);
		return still_runs(id, err);
	}
	rc = remove_tree(berth_fd, to);
	/* The record is gone; the next init removes what only it can. */
	if ((rc == -EACCES || rc == -EPERM) && is_anothers(r.dirfd))
		return 0;
	return rc < 0 ? berth_fail_errno(err, 0, -rc, "removing \"%s\"", id) : 0;
}

int berth_remove(struct berth_sandbox *s, const char *id, struct berth_error *err)
{
	int fd = -1, rc;

	if (!id || !valid_execution_id(id))
		return berth_fail(err, BERTH_E_INVALID, "\"%.140s\" is no execution id",
				  id ? id : "");
	rc = where(s, &fd, err);
	if (rc == WHERE_HERE)
		return remove_direct(s, fd, id, err);
	if (rc == WHERE_NONE)
		return berth_fail(err, BERTH_E_NOT_FOUND, "no execution \"%s\" in %s", id, s->full);
	return rc < 0 ? rc : forget(s, id, err);
}

int berth_prune(struct berth_sandbox *s, int64_t older_ms, struct berth_prune_result *ret,
		struct berth_error *err)
{
	auto(road) struct road *r = NULL;
	struct berth_status why;
	struct wire_slice p;
	uint8_t buf[32];
	struct wire_w w;
	int rc = source_gate(s, "", &why, err);

	if (rc > 0)
		return berth_fail(err, BERTH_E_UNAVAILABLE, "%s: %s", s->full, why.message);
	if (rc == 0 && older_ms < 0)
		rc = berth_fail(err, BERTH_E_INVALID, "the age is negative");
	if (rc == 0)
		rc = road_get(s, ROAD_INIT, &r, err);
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_int(&w, WK_OLDER_MS, older_ms);
	if (rc == 0)
		rc = road_ask(r, WIRE_PRUNE, &w, deadline_from_ms(PRUNE_MS), &p, err);
	if (rc < 0)
		return rc;
	*ret = (struct berth_prune_result){
		.records = (uint64_t)wire_find_int(p.p, p.n, WK_COUNT, 0),
		.artifacts = (uint64_t)wire_find_int(p.p, p.n, WK_TREES, 0),
		.installs = (uint64_t)wire_find_int(p.p, p.n, WK_LAYERS, 0),
		.bytes = (uint64_t)wire_find_int(p.p, p.n, WK_BYTES, 0),
	};
	return 0;
}
