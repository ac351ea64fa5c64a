/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_RECORD_H
#define BERTH_CORE_RECORD_H
/*
 * Where the truth about one execution is read: the record itself (the berth directory lies on this
 * machine) or the agent. Both give the same answers, because both end in the pure rules of
 * wire/journal.h.
 */
#include "base/fd.h"
#include "core/core.h"
#include "core/execution.h"
#include "core/sink.h"
#include "wire/journal.h"

/* A record read directly. Empty: RECORD_INIT. */
struct record {
	int dirfd;     /* x/ID, O_PATH */
	int jfd;       /* its journal */
	int out_fd[3]; /* by stream, opened when needed: the head files */
	int tail_fd[3];
	uint8_t *bytes; /* the journal as last read */
	size_t cap, n;
	size_t changing; /* offset behind SPEC: what may still change */
	struct journal j;
	struct journal_facts facts;
	struct record_status st; /* borrows from bytes */
};
#define RECORD_INIT                                                                       \
	{                                                                                 \
		.dirfd = -1, .jfd = -1, .out_fd = {-1, -1, -1}, .tail_fd = { -1, -1, -1 } \
	}

/* Opens x/ID (or s/ID) below a berth directory and reads it. BERTH_E_NOT_FOUND: no such record. */
int record_open(struct berth_sandbox *s, int berth_fd, const char *id, int kind, struct record *ret,
		struct berth_error *err) attr_warn_unused;
/* Reads it again: r->st is the truth of now. */
int record_refresh(struct berth_sandbox *s, struct record *r,
		   struct berth_error *err) attr_warn_unused;
void record_done(struct record *r);
BERTH_DEFINE_AUTO(record, struct record, record_done);

/* The public form of a status; spec may be empty. */
void status_from_record(const struct record_status *st, const char *id, struct wire_slice spec,
			struct berth_status *ret);

struct road;

/* A place to ask. Empty: SOURCE_INIT. */
struct source {
	struct berth_sandbox *s;
	const char *id; /* borrowed */
	int kind;
	bool direct;
	struct record rec; /* direct */
	struct road *road; /* agent; a control socket when direct */
	bool on_control;
	bool asleep; /* the sandbox does not run: what is here can be read, and nobody knows whether it is all */
	uint8_t *reply;          /* agent: the last STATUS reply with a spec */
	uint8_t *watched;        /* the last one without */
	struct record_status st; /* of the last refresh or watch; borrows from rec or reply */
	struct wire_slice spec;
	int cancel_fd;
	int64_t deadline; /* of answers that wait for nothing, beside our own patience */
};

#define SOURCE_INIT                                                        \
	{                                                                  \
		.rec = RECORD_INIT, .cancel_fd = -1, .deadline = INT64_MAX \
	}

/*
 * May the sandbox be asked? 0: yes. 1: no, *ret is provider_unavailable with the reason.
 * BERTH_E_NOT_FOUND: no such sandbox. With BERTH_OPEN_WAKE a stopped one is resumed first.
 */
int source_gate(struct berth_sandbox *s, const char *id, struct berth_status *ret,
		struct berth_error *err) attr_warn_unused;
/*
 * Opens it and asks once. 1: the sandbox cannot be asked, *ret says why (provider_unavailable).
 * BERTH_E_NOT_FOUND: no such record. when_stopped: also when the sandbox does not run, if its
 * records can be read here.
 */
int source_open(struct source *src, struct berth_sandbox *s, const char *id, int kind,
		bool when_stopped, struct berth_status *ret,
		struct berth_error *err) attr_warn_unused;
void source_close(struct source *src);
BERTH_DEFINE_AUTO(source, struct source, source_close);

int source_refresh(struct source *src, struct berth_error *err) attr_warn_unused;
/* Waits until something differs from src->st (terminal_only: until it has ended), and refreshes.
 * BERTH_E_TIMEOUT, as roads. */
int source_watch(struct source *src, bool terminal_only, int64_t deadline_ns,
		 struct berth_error *err) attr_warn_unused;
/*
 * Moves at most max bytes of a stream from an offset into a sink, by the rules of
 * record_read_plan(); *ret is what was done. src->st is refreshed when it has to be.
 */
int source_move(struct source *src, int stream, uint64_t offset, uint64_t max, struct sink *sink,
		struct record_read *ret, struct berth_error *err) attr_warn_unused;
/*
 * A request to whoever supervises it (control socket, else agent), its fields beginning with ID and
 * KIND. *ret_payload borrows from src->road. 1: nobody supervises it any more (then src->st is
 * fresh).
 */
int source_ask(struct source *src, uint8_t type, const struct wire_w *fields, int64_t deadline_ns,
	       struct wire_slice *ret_payload, struct berth_error *err) attr_warn_unused;
/* A road for a request to the supervisor: control socket or agent. 1 as source_ask(). The road
 * stays src's. */
int source_road(struct source *src, struct road **ret, struct berth_error *err) attr_warn_unused;
/* A road of its own to the supervisor, for a caller with several questions at once: 0, 1 and
 * failures as source_road(). The caller's. */
int source_open_road(struct source *src, struct road **ret,
		     struct berth_error *err) attr_warn_unused;
/* The fields of a WATCH for anything that differs from src->st. */
void source_put_watch(const struct source *src, struct wire_w *w);
/* Takes over a STATUS reply. */
int source_take_reply(struct source *src, struct wire_slice payload,
		      struct berth_error *err) attr_warn_unused;
void source_status(const struct source *src, struct berth_status *ret);

static inline bool record_final(const struct record_status *st)
{
	return wire_state_is_terminal(st->state) || st->state == WIRE_S_UNKNOWN;
}

#endif
