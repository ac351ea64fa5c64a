/* SPDX-License-Identifier: MIT */
/*
 * Asking about one execution, whichever way is open: its record on this machine and its
 * supervisor's control socket, or the sandbox's agent.
 *
 * A watch ends in one of three ways: the supervisor answers, its end is seen as a hang-up (then the
 * lock is asked once), or the caller's time is over. Nothing is asked twice by a clock; the one
 * exception is a record between its reservation and its control socket, which is looked at again
 * after a pause that grows from 1 to 20 ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"
#include "core/provider.h"
#include "core/record.h"
#include "core/road.h"

/* An answer that waits for nothing. */
#define ANSWER_MS 30000
/* What it gets at least: who waits for 0 ms wants to know how things are, not whether a connection is
 * made in that time. */
#define LEAST_ANSWER_MS 1000
/* A supervisor's greeting, before an answer that may wait. */
#define GREETING_MS  8000
#define PAUSE_MAX_NS (20 * NS_PER_MS)
/* The ring may be overwritten while we read it; each new plan starts further on. */
#define RING_TRIES 100

/* ── may it be asked? ───────────────────────────────────────────────────────────────────── */

static void unavailable(const char *id, const char *state, const char *message,
			struct berth_status *ret)
{
	status_init(ret, id, BERTH_PROVIDER_UNAVAILABLE);
	snprintf(ret->provider_state, sizeof(ret->provider_state), "%s", state);
	snprintf(ret->message, sizeof(ret->message), "%.500s", message);
}

/* Failures that mean "the sandbox cannot be asked" rather than "the question was wrong". */
static bool is_unavailable(int code)
{
	return code == BERTH_E_UNAVAILABLE || code == BERTH_E_TIMEOUT || code == BERTH_E_AUTH ||
	       code == BERTH_E_RATE_LIMITED || code == BERTH_E_IO || code == BERTH_E_PROTOCOL;
}

int source_gate(struct berth_sandbox *s, const char *id, struct berth_status *ret,
		struct berth_error *err)
{
	struct berth_error why = BERTH_ERROR_INIT;
	struct berth_provider_info info;
	int rc;

	if (s->flags & BERTH_OPEN_WAKE && (rc = sandbox_ensure_started(s, &why)) < 0) {
		if (rc == BERTH_E_CONFLICT || rc == BERTH_E_INVALID || rc == BERTH_E_NOMEM)
			return berth_fail(err, rc, "%s", why.message);
		unavailable(id, rc == BERTH_E_NOT_FOUND ? "destroyed" : "error", why.message, ret);
		return 1;
	}
	if (!s->ops->info)
		return 0;
	rc = provider_info(s, &info, &why);
	if (rc < 0 && is_unavailable(rc)) {
		unavailable(id, "unreachable", why.message, ret);
		return 1;
	}
	if (rc < 0)
		return berth_fail(err, rc, "%s", why.message);
	s->init_is_life = info.init_is_life;
	if (info.status == BERTH_SANDBOX_RUNNING || info.status == BERTH_SANDBOX_STARTING ||
	    info.status == BERTH_SANDBOX_ERROR || info.status == BERTH_SANDBOX_STOPPING)
		return 0;
	unavailable(id, berth_sandbox_status_name((int)info.status),
		    info.message[0] ? info.message : "the sandbox does not run", ret);
	return 1;
}

/* ── opening ────────────────────────────────────────────────────────────────────────────── */

/* The fields that begin every request about a record. */
static void put_id(const struct source *src, struct wire_w *w)
{
	wire_w_str(w, WK_ID, src->id);
	if (src->kind != WIRE_KIND_EXECUTION)
		wire_w_int(w, WK_KIND, src->kind);
}

static int agent_road(struct source *src, struct berth_error *err)
{
	if (src->road && !src->road->broken)
		return 0;
	road_put(TAKE_PTR(src->road));
	return road_get(src->s, ROAD_INIT, &src->road, err);
}

int source_take_reply(struct source *src, struct wire_slice payload, struct berth_error *err)
{
	struct journal j;
	uint8_t *copy;
	int rc;

	copy = mem_dup(payload.p, payload.n ? payload.n : 1);
	if (!copy)
		return berth_fail_nomem(err);
	rc = reply_decode((struct wire_slice){copy, payload.n}, src->s->init_is_life, &j, &src->st,
			  err);
	if (rc < 0) {
		free(copy);
		return rc;
	}
	/* WATCH leaves SPEC out: what was known of it stays known. */
	if (j.spec.n || !src->reply) {
		src->spec = j.spec;
		free(src->reply);
		src->reply = copy;
	} else {
		free(src->watched);
		src->watched = copy;
	}
	return 0;
}

static int64_t answer_deadline(const struct source *src)
{
	int64_t least = deadline_from_ms(LEAST_ANSWER_MS);

	return MIN_OF(MAX_OF(src->deadline, least), deadline_from_ms(ANSWER_MS));
}

static int agent_refresh(struct source *src, struct berth_error *err)
{
	uint8_t buf[256];
	struct wire_slice payload = {0};
	struct wire_w w;
	int rc;

	wire_w_init(&w, buf, sizeof(buf));
	put_id(src, &w);
	rc = agent_road(src, err);
	if (rc == 0)
		rc = road_ask(src->road, WIRE_STATUS, &w, answer_deadline(src), &payload, err);
	return rc < 0 ? rc : source_take_reply(src, payload, err);
}

int source_refresh(struct source *src, struct berth_error *err)
{
	int rc;

	if (!src->direct)
		return agent_refresh(src, err);
	rc = record_refresh(src->s, &src->rec, err);
	if (rc == 0) {
		src->st = src->rec.st;
		src->spec = src->rec.j.spec;
	}
	return rc;
}

static int open_direct(struct source *src, struct berth_error *err)
{
	int fd = -1, rc = sandbox_dir_fd(src->s, &fd, err);

	if (rc == BERTH_E_NOT_FOUND)
		return berth_fail(err, rc, "no %s \"%s\" in %s",
				  src->kind == WIRE_KIND_SESSION ? "session" : "execution", src->id,
				  src->s->full);
	if (rc < 0)
		return rc;
	rc = record_open(src->s, fd, src->id, src->kind, &src->rec, err);
	if (rc < 0)
		return rc;
	src->direct = true;
	src->st = src->rec.st;
	src->spec = src->rec.j.spec;
	return 0;
}

static int open_agent(struct source *src, struct berth_status *ret, struct berth_error *err)
{
	struct berth_error why = BERTH_ERROR_INIT;
	int rc = agent_refresh(src, &why);
	bool remote = src->road && src->road->error.remote;

	if (rc == 0)
		return 0;
	if (rc == BERTH_E_NOT_FOUND && remote)
		return berth_fail(err, rc, "no %s \"%s\" in %s",
				  src->kind == WIRE_KIND_SESSION ? "session" : "execution", src->id,
				  src->s->full);
	if (!is_unavailable(rc) || remote)
		return berth_fail(err, rc, "%s", why.message);
	unavailable(src->id, "unreachable", why.message, ret);
	return 1;
}

int source_open(struct source *src, struct berth_sandbox *s, const char *id, int kind,
		bool when_stopped, struct berth_status *ret, struct berth_error *err)
{
	int gate, rc;

	src->s = s;
	src->id = id;
	src->kind = kind;
	gate = source_gate(s, id, ret, err);
	if (gate < 0 || (gate > 0 && !(when_stopped && s->ops->open_dir)))
		return gate;
	src->asleep = gate > 0;
	rc = open_direct(src, err);
	if (rc == BERTH_E_UNSUPPORTED)
		return open_agent(src, ret, err);
	return rc;
}

void source_close(struct source *src)
{
	road_put(src->road);
	record_done(&src->rec);
	free(src->reply);
	free(src->watched);
	src->road = NULL;
	src->reply = src->watched = NULL;
}

void source_status(const struct source *src, struct berth_status *ret)
{
	status_from_record(&src->st, src->id, src->spec, ret);
}

/* ── the supervisor ─────────────────────────────────────────────────────────────────────── */

/* Connects to x/ID/control: the fd or -errno. */
static int connect_control(int dirfd)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = GREETING_MS / 1000};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/control", dirfd);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (RETRY_EINTR(connect(fd, (struct sockaddr *)&sun, sizeof(sun))) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* 0 connected, 1 it has ended, 2 neither (yet), or a failure. */
static int control_road(struct source *src, struct berth_error *err)
{
	struct berth_stream stream;
	int fd, rc;

	if (src->road && src->on_control && !src->road->broken)
		return 0;
	road_put(TAKE_PTR(src->road));
	fd = connect_control(src->rec.dirfd);
	if (fd >= 0) {
		stream = (struct berth_stream){.rfd = fd, .wfd = fd, .pidfd = -1};
		src->on_control = true;
		return road_over(&stream, &src->road, err);
	}
	rc = source_refresh(src, err);
	if (rc < 0)
		return rc;
	if (record_final(&src->st))
		return 1;
	if (fd == -ENOENT || fd == -ECONNREFUSED || fd == -EAGAIN)
		return 2;
	return berth_fail_errno(err, BERTH_E_UNAVAILABLE, -fd, "the supervisor of \"%s\"", src->id);
}

/* Sleeps, unless cancel_fd or the deadline come first. */
static int pause_for(struct source *src, int64_t ns, int64_t deadline_ns, struct berth_error *err)
{
	struct pollfd p = {.fd = src->cancel_fd, .events = POLLIN};
	struct timespec t = {0, ns};

	if (deadline_ns != INT64_MAX && now_mono_ns() >= deadline_ns)
		return berth_fail(err, BERTH_E_TIMEOUT, "\"%s\" has not ended in time", src->id);
	if (ppoll(&p, 1, &t, NULL) > 0)
		return berth_fail(err, BERTH_E_TIMEOUT, "the wait was ended");
	return 0;
}

/* A road to whoever supervises it, or 1 when it has ended. */
static int road_until(struct source *src, int64_t deadline_ns, struct berth_error *err)
{
	int64_t ns = NS_PER_MS;
	int rc;

	if (!src->direct)
		return agent_road(src, err);
	while ((rc = control_road(src, err)) == 2) {
		rc = pause_for(src, ns, deadline_ns, err);
		if (rc < 0)
			return rc;
		ns = MIN_OF(ns * 2, PAUSE_MAX_NS);
	}
	return rc;
}

int source_road(struct source *src, struct road **ret, struct berth_error *err)
{
	int rc = road_until(src, answer_deadline(src), err);

	if (rc == 0)
		*ret = src->road;
	return rc;
}

int source_open_road(struct source *src, struct road **ret, struct berth_error *err)
{
	struct road *kept = TAKE_PTR(src->road);
	bool control = src->on_control;
	int rc = road_until(src, answer_deadline(src), err);

	if (rc == 0)
		*ret = TAKE_PTR(src->road);
	src->road = kept;
	src->on_control = control;
	return rc;
}

void source_put_watch(const struct source *src, struct wire_w *w)
{
	put_id(src, w);
	wire_w_int(w, WK_KNOWN_OUT, (int64_t)src->st.out.length);
	wire_w_int(w, WK_KNOWN_ERR, (int64_t)src->st.err.length);
	wire_w_int(w, WK_KNOWN_STATE, src->st.state);
}

/* The road broke under a question: has the supervisor ended, or was it only the road? */
static int after_hangup(struct source *src, int failed, struct berth_error *err)
{
	struct berth_error again = BERTH_ERROR_INIT;
	int rc;

	if (src->road->error.cancelled || (failed != BERTH_E_UNAVAILABLE && failed != BERTH_E_IO))
		return failed;
	if (src->road->error.remote)
		return failed;
	rc = source_refresh(src, &again);
	if (rc < 0)
		return src->direct ? berth_fail(err, rc, "%s", again.message) : failed;
	/* Alive, and yet it hung up (it has its bounds, too): not at once again. */
	if (!record_final(&src->st))
		rc = pause_for(src, PAUSE_MAX_NS, INT64_MAX, err);
	return rc < 0 ? rc : 1;
}

static int watch_once(struct source *src, bool terminal_only, int64_t deadline_ns,
		      struct berth_error *err)
{
	uint8_t buf[384];
	struct wire_slice payload = {0};
	struct wire_w w;
	int64_t wait_ms;
	int rc = road_until(src, deadline_ns, err);

	if (rc != 0)
		return rc;
	wire_w_init(&w, buf, sizeof(buf));
	source_put_watch(src, &w);
	if (terminal_only)
		wire_w_int(&w, WK_TERMINAL_ONLY, 1);
	wait_ms = road_wait_ms(src->road, -1);
	if (wait_ms >= 0)
		wire_w_int(&w, WK_WAIT_MS, wait_ms);
	src->road->cancel_fd = src->cancel_fd;
	rc = road_ask(src->road, WIRE_WATCH, &w, deadline_ns, &payload, err);
	src->road->cancel_fd = -1;
	if (rc < 0)
		return after_hangup(src, rc, err);
	/* Where the record lies here it has it all, and reads are planned from it. */
	return src->direct ? source_refresh(src, err) : source_take_reply(src, payload, err);
}

static bool differs(const struct record_status *a, const struct record_status *b)
{
	return a->state != b->state || a->out.length != b->out.length ||
	       a->err.length != b->err.length;
}

int source_watch(struct source *src, bool terminal_only, int64_t deadline_ns,
		 struct berth_error *err)
{
	const struct record_status known = src->st;
	int rc = 0;

	while (rc >= 0 && !record_final(&src->st)) {
		if (!terminal_only && differs(&known, &src->st))
			return 0;
		rc = watch_once(src, terminal_only, deadline_ns, err);
	}
	return rc < 0 ? rc : 0;
}

int source_ask(struct source *src, uint8_t type, const struct wire_w *fields, int64_t deadline_ns,
	       struct wire_slice *ret_payload, struct berth_error *err)
{
	int rc = road_until(src, deadline_ns, err);

	if (rc != 0)
		return rc;
	rc = road_request(src->road, type, fields, err);
	if (rc == 0 && !src->road->call)
		rc = road_hello(src->road, MIN_OF(deadline_ns, deadline_from_ms(GREETING_MS)), err);
	if (rc == 0)
		rc = road_final(src->road, deadline_ns, ret_payload, err);
	/* Alive, as its lock is held, and silent. To wait longer would be to wait for ever. */
	if (rc == BERTH_E_TIMEOUT && !src->road->error.remote)
		return berth_fail(err, BERTH_E_UNAVAILABLE,
				  "the supervisor of \"%s\" does not answer", src->id);
	return rc < 0 ? after_hangup(src, rc, err) : 0;
}

/* ── output ─────────────────────────────────────────────────────────────────────────────── */

static int stream_fd(struct record *r, int stream, bool tail, struct berth_error *err)
{
	int *fd = tail ? &r->tail_fd[stream] : &r->out_fd[stream];
	char name[16];

	if (*fd < 0) {
		snprintf(name, sizeof(name), "%s%s", stream == WIRE_STDERR ? "stderr" : "stdout",
			 tail ? ".tail" : "");
		*fd = openat(r->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	return *fd >= 0 ? *fd : berth_fail_errno(err, 0, errno, "recorded output");
}

/*
 * From the ring: read, look whether it was overwritten meanwhile, and only then hand out; else
 * *ret_anew: plan anew. (Positive results are the callback's.)
 */
static int move_tail(struct source *src, int stream, struct record_read *r, struct sink *sink,
		     bool *ret_anew, struct berth_error *err)
{
	size_t n = MIN_OF(r->n, (size_t)(1u << 20));
	auto_free uint8_t *buf = mem_alloc(n);
	uint8_t head[JOURNAL_FIRST];
	struct journal_stream fresh;
	int fd = stream_fd(&src->rec, stream, true, err);
	ssize_t got;

	if (!buf)
		return berth_fail_nomem(err);
	if (fd < 0)
		return fd;
	got = pread(fd, buf, n, (off_t)r->file_offset);
	if (got <= 0)
		return berth_fail(err, BERTH_E_IO,
				  "recorded output is shorter than its record says");
	if (!src->st.sealed) {
		if (pread(src->rec.jfd, head, sizeof(head), 0) != (ssize_t)sizeof(head))
			return berth_fail_errno(err, 0, EIO, "journal");
		journal_live(head, stream, &fresh);
		if (!record_read_valid(r, &fresh)) {
			*ret_anew = true;
			return 0;
		}
	}
	r->n = (size_t)got;
	r->eof = r->eof && r->offset + r->n == r->next;
	r->truncated = r->truncated || r->offset + r->n < r->next;
	r->next = r->offset + r->n;
	return sink_bytes(sink, buf, r->n, err);
}

static int move_direct(struct source *src, int stream, uint64_t offset, uint64_t max,
		       struct sink *sink, struct record_read *ret, struct berth_error *err)
{
	struct record_read r;
	bool anew = true;
	int rc = 0;

	for (int i = 0; rc == 0 && anew; i++) {
		if (i == RING_TRIES)
			return berth_fail(err, BERTH_E_UNAVAILABLE,
					  "output is overwritten faster than it can be read");
		if (i > 0 && (rc = source_refresh(src, err)) < 0)
			return rc;
		record_read_plan(&src->st, stream, offset, max, &r);
		anew = false;
		if (r.n > 0 && r.from_tail) {
			rc = move_tail(src, stream, &r, sink, &anew, err);
		} else if (r.n > 0) {
			int fd = stream_fd(&src->rec, stream, false, err);

			rc = fd < 0 ? fd : sink_file(sink, fd, r.file_offset, r.n, err);
		}
	}
	*ret = r;
	return rc;
}

static void read_answer(struct wire_slice p, struct record_read *r)
{
	r->offset = (uint64_t)wire_find_int(p.p, p.n, WK_OFFSET, 0);
	r->next = (uint64_t)wire_find_int(p.p, p.n, WK_NEXT, 0);
	r->n = (size_t)(r->next - r->offset);
	r->eof = wire_find_int(p.p, p.n, WK_EOF, 0) != 0;
	r->truncated = wire_find_int(p.p, p.n, WK_TRUNCATED, 0) != 0;
	r->interrupted = wire_find_int(p.p, p.n, WK_INTERRUPTED, 0) != 0;
	r->total = (uint64_t)wire_find_int(p.p, p.n, WK_TOTAL, -1);
	r->has_total = wire_find_int(p.p, p.n, WK_TOTAL, -1) >= 0;
	r->gap_from = (uint64_t)wire_find_int(p.p, p.n, WK_GAP_FROM, 0);
	r->gap_to = (uint64_t)wire_find_int(p.p, p.n, WK_GAP_TO, 0);
	r->has_gap = r->gap_to > r->gap_from;
}

static int move_agent(struct source *src, int stream, uint64_t offset, uint64_t max,
		      struct sink *sink, struct record_read *ret, struct berth_error *err)
{
	uint8_t buf[320];
	struct record_read r = {0};
	struct wire_slice payload = {0};
	struct wire_w w;
	uint8_t type = 0;
	uint64_t got = 0;
	int rc = agent_road(src, err);

	wire_w_init(&w, buf, sizeof(buf));
	put_id(src, &w);
	wire_w_int(&w, WK_STREAM, stream);
	wire_w_int(&w, WK_OFFSET, (int64_t)offset);
	wire_w_int(&w, WK_MAX, (int64_t)MIN_OF(max, (uint64_t)1 << 30));
	if (rc == 0)
		rc = road_request(src->road, WIRE_READ, &w, err);
	while (rc == 0 && type != WIRE_OK) {
		rc = road_recv(src->road, &type, &payload, answer_deadline(src), err);
		if (rc == 0 && type == WIRE_DATA) {
			got += payload.n;
			rc = got > max ? berth_fail(err, BERTH_E_PROTOCOL,
						    "the agent sent more than was asked for")
				       : sink_bytes(sink, payload.p, payload.n, err);
			if (rc != 0)
				src->road->broken = true; /* the rest of the answer is not wanted */
		}
	}
	if (rc != 0)
		return rc;
	read_answer(payload, &r);
	if (r.next - r.offset != got)
		return berth_fail(err, BERTH_E_PROTOCOL, "the agent's data and its answer differ");
	*ret = r;
	return 0;
}

int source_move(struct source *src, int stream, uint64_t offset, uint64_t max, struct sink *sink,
		struct record_read *ret, struct berth_error *err)
{
	return src->direct ? move_direct(src, stream, offset, max, sink, ret, err)
			   : move_agent(src, stream, offset, max, sink, ret, err);
}
