/* SPDX-License-Identifier: MIT */
/*
 * record.c: records as the agent reads them: STATUS, LIST, READ.
 *
 * Invariants: nothing here writes into a record or takes its lock (a probe that took it would
 * look alive). What the bytes mean is wire/journal.c's. It does not talk to supervisors: that is
 * attach.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/record.h"

const char *kind_dir(int64_t kind)
{
	return kind == WIRE_KIND_SESSION ? "s" : "x";
}

int record_open(int64_t kind, struct wire_slice id)
{
	char path[SPEC_ID_MAX + 4];

	if (!spec_id_valid(id.p, id.n)) {
		errno = EINVAL;
		return -1;
	}
	fmt(path, sizeof(path), "%s/%.*s", kind_dir(kind), (int)id.n, id.p);
	return openat(agent.dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int record_held(int jfd)
{
	/* A read lock conflicts with the supervisor's write lock alone: readers do not see each
	 * other. */
	return ofd_held(jfd, F_RDLCK);
}

int record_load_at(int dirfd, struct record *ret, struct agent_fail *f)
{
	struct record r = {.dirfd = -1};
	struct stat st;
	int held;

	r.jfd = openat(dirfd, "journal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r.jfd < 0)
		return fail(f, errno == ENOENT ? WIRE_E_NOT_FOUND : WIRE_E_IO, NULL, errno,
			    "cannot open the journal: %m");
	held = record_held(r.jfd);
	if (held < 0 || fstat(r.jfd, &st) < 0) {
		fail(f, WIRE_E_IO, NULL, errno, "cannot ask for the journal's lock: %m");
		close(r.jfd);
		return -1;
	}
	r.held = held;
	r.size = (size_t)st.st_size;
	r.map = r.size ? mmap(NULL, r.size, PROT_READ, MAP_SHARED, r.jfd, 0) : MAP_FAILED;
	if (r.map == MAP_FAILED || journal_parse(r.map, r.size, &r.j) < 0) {
		if (r.map != MAP_FAILED)
			munmap((void *)(uintptr_t)r.map, r.size);
		close(r.jfd);
		return fail(f, WIRE_E_IO, NULL, 0, "the journal is damaged");
	}
	r.same_boot = memcmp(r.j.boot, agent.boot, sizeof(agent.boot)) == 0;
	r.same_inc = memcmp(r.j.incarnation, agent.incarnation, sizeof(agent.incarnation)) == 0;
	*ret = r;
	return 0;
}

int record_load(int64_t kind, struct wire_slice id, struct record *ret, struct agent_fail *f)
{
	int fd = record_open(kind, id);

	if (fd < 0 && errno == ENOENT)
		return fail(f, WIRE_E_NOT_FOUND, NULL, 0, "no %s \"%.*s\"",
			    kind == WIRE_KIND_SESSION ? "session" : "execution", (int)id.n, id.p);
	if (fd < 0)
		return fail(f, WIRE_E_IO, NULL, errno, "cannot open the record: %m");
	if (record_load_at(fd, ret, f) < 0) {
		close(fd);
		return -1;
	}
	ret->dirfd = fd;
	return 0;
}

void record_unload(struct record *r)
{
	munmap((void *)(uintptr_t)r->map, r->size);
	close(r->jfd);
	if (r->dirfd >= 0)
		close(r->dirfd);
}

/* A read lock waits, and nobody who asks sees it. */
bool record_let_go(struct record *r)
{
	if (r->held && r->j.terminal.p && ofd_lock(r->jfd, F_RDLCK, true) == 0)
		r->held = false;
	return !r->held;
}

void record_status_of(const struct record *r, struct record_status *ret)
{
	struct journal_facts f = {
		.held = r->held,
		.same_boot = r->same_boot,
		.same_incarnation = r->same_inc,
		.init_is_life = agent.is_pid1,
	};

	record_status(&r->j, &f, ret);
}

int record_reply(struct conn *c, uint8_t type, struct wire_slice id, const struct record *r,
		 unsigned what)
{
	struct wire_w *w = conn_begin_sized(c, type, 65536 + (what & REPLY_SPEC ? r->j.spec.n : 0));
	size_t pos;

	wire_w_bytes(w, WK_ID, id.p, id.n);
	wire_w_bytes(w, WK_LIVE, r->map, JOURNAL_FIRST);
	journal_put_entry(w, JOURNAL_STATE, r->j.state);
	journal_put_entry(w, JOURNAL_TERMINAL, r->j.terminal);
	wire_w_int(w, WK_HELD, r->held);
	wire_w_int(w, WK_SAMEBOOT, r->same_boot);
	wire_w_int(w, WK_SAMEINC, r->same_inc);
	if (what & REPLY_EXISTED)
		wire_w_int(w, WK_EXISTED, 1);
	if (what & REPLY_SPEC && r->j.spec.p) {
		pos = wire_w_begin(w, WK_SPEC);
		if (what & REPLY_ENV)
			wire_w_raw(w, r->j.spec.p, r->j.spec.n);
		else
			spec_copy_without(w, r->j.spec.p, r->j.spec.n, SK_ENV);
		wire_w_end(w, pos);
	}
	return conn_end(c);
}

int verb_status(struct conn *c, const uint8_t *p, size_t n)
{
	bool env = wire_find_int(p, n, WK_WANT_ENV, 0) == 1;
	struct agent_fail f;
	struct wire_slice id;
	struct record r;
	int ret;

	wire_find(p, n, WK_ID, &id);
	if (record_load(wire_find_int(p, n, WK_KIND, WIRE_KIND_EXECUTION), id, &r, &f) < 0)
		return conn_fail(c, &f);
	ret = record_reply(c, WIRE_OK, id, &r, REPLY_SPEC | (env ? REPLY_ENV : 0));
	record_unload(&r);
	return ret;
}

int verb_list(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t kind = wire_find_int(p, n, WK_KIND, WIRE_KIND_EXECUTION);
	int fd = openat(agent.dirfd, kind_dir(kind), O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;
	struct dirscan d;
	const char *name;
	uint8_t type;

	if (fd < 0)
		return conn_error(c, WIRE_E_IO, NULL, errno, "cannot list the records: %m");
	dirscan_init(&d, fd);
	while (ret == 0 && (name = dirscan_next(&d, &type))) {
		struct wire_slice id = {(const uint8_t *)name, strlen(name)};
		struct record r;

		if (record_load(kind, id, &r, NULL) < 0)
			continue; /* removed meanwhile, or none of ours */
		ret = record_reply(c, WIRE_EVENT, id, &r, REPLY_SPEC);
		record_unload(&r);
	}
	close(fd);
	return ret < 0 ? -1 : conn_ok(c);
}

/* ---- READ ---- */

static int open_stream(const struct record *r, int stream, bool tail)
{
	char name[16];

	fmt(name, sizeof(name), "%s%s", stream == WIRE_STDERR ? "stderr" : "stdout",
	    tail ? ".tail" : "");
	return openat(r->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static void cut(struct record_read *plan, uint64_t n)
{
	if (plan->n <= n)
		return;
	plan->n = (size_t)n;
	plan->next = plan->offset + n;
	plan->truncated = true;
	plan->eof = false;
}

/* A machine that lost power may have kept less than the record says: what there is, and then
 * the error. False: nothing. */
static bool cut_to_file(int fd, struct record_read *plan)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size <= plan->file_offset)
		return false;
	cut(plan, (uint64_t)st.st_size - plan->file_offset);
	return true;
}

static int damaged(struct conn *c)
{
	return conn_error(c, WIRE_E_IO, NULL, 0,
			  "the recorded output is shorter than its record says");
}

/* While it runs, bytes of the ring are checked against fresh live data before they are sent: 1
 * sent, 0 plan anew (or answered), -1. */
static int send_tail(struct conn *c, const struct record *r, int stream, int fd,
		     struct record_read *plan)
{
	struct journal_stream fresh;

	cut(plan, WIRE_DATA_MAX);
	if (!buf_need(&c->out, plan->n))
		return conn_error(c, WIRE_E_NOMEM, NULL, ENOMEM, "cannot read: %m");
	if (pread(fd, c->out.p, plan->n, (off_t)plan->file_offset) != (ssize_t)plan->n)
		return damaged(c);
	journal_live(r->map, stream, &fresh);
	if (!r->j.terminal.p && !record_read_valid(plan, &fresh))
		return 0;
	return conn_data(c, WIRE_DATA, c->out.p, plan->n) < 0 ? -1 : 1;
}

static int reply_read(struct conn *c, const struct record_read *plan)
{
	struct wire_w *w = conn_begin(c, WIRE_OK);

	wire_w_int(w, WK_OFFSET, (int64_t)plan->offset);
	wire_w_int(w, WK_NEXT, (int64_t)plan->next);
	if (plan->has_total)
		wire_w_int(w, WK_TOTAL, (int64_t)plan->total);
	wire_w_int(w, WK_EOF, plan->eof);
	wire_w_int(w, WK_TRUNCATED, plan->truncated);
	wire_w_int(w, WK_INTERRUPTED, plan->interrupted);
	if (plan->has_gap) {
		wire_w_int(w, WK_GAP_FROM, (int64_t)plan->gap_from);
		wire_w_int(w, WK_GAP_TO, (int64_t)plan->gap_to);
	}
	return conn_end(c);
}

static int read_once(struct conn *c, int64_t kind, struct wire_slice id, int stream,
		     uint64_t offset, uint64_t max)
{
	struct record_status st;
	struct record_read plan;
	struct agent_fail f;
	struct record r;
	int fd = -1, sent = 1;

	if (record_load(kind, id, &r, &f) < 0)
		return conn_fail(c, &f);
	record_status_of(&r, &st);
	record_read_plan(&st, stream, offset, max, &plan);
	if (plan.n) {
		fd = open_stream(&r, stream, plan.from_tail);
		if (fd < 0)
			sent = conn_error(c, WIRE_E_IO, NULL, errno, "cannot open the output: %m");
		else if (!cut_to_file(fd, &plan))
			sent = damaged(c);
		else if (plan.from_tail)
			sent = send_tail(c, &r, stream, fd, &plan);
		else if (conn_data_file(c, WIRE_DATA, fd, plan.file_offset, plan.n) < 0)
			sent = -1;
	}
	if (sent == 1 && !c->replied)
		sent = reply_read(c, &plan) < 0 ? -1 : 1;
	if (fd >= 0)
		close(fd);
	record_unload(&r);
	return sent;
}

int verb_read(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t offset = wire_find_int(p, n, WK_OFFSET, 0),
		max = wire_find_int(p, n, WK_MAX, WIRE_DATA_MAX);
	int stream = (int)wire_find_int(p, n, WK_STREAM, WIRE_STDOUT);
	int64_t kind = wire_find_int(p, n, WK_KIND, WIRE_KIND_EXECUTION);
	struct wire_slice id;
	uint8_t name[SPEC_ID_MAX];

	if (offset < 0 || max < 0 || (stream != WIRE_STDOUT && stream != WIRE_STDERR))
		return conn_error(c, WIRE_E_INVALID, NULL, 0,
				  "READ: bad stream, offset or maximum");
	wire_find(p, n, WK_ID, &id);
	memcpy(name, id.p, id.n);
	id.p = name;
	/* A ring that is written faster than it is read: each plan begins behind the gap of its
	 * moment. */
	for (;;) {
		int r = read_once(c, kind, id, stream, (uint64_t)offset, (uint64_t)max);

		if (r < 0)
			return -1;
		if (c->replied)
			return 0;
		if (conn_gone(c))
			return -1;
	}
}
