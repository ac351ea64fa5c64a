/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_ROAD_H
#define BERTH_CORE_ROAD_H
/*
 * The client side of the agent protocol (docs/protocol/agent.md). A road is one stream to an agent,
 * or, where a driver can only run commands, the same conversation as `berth-agent call` commands;
 * callers do not see which.
 *
 *	auto(road) struct road *r = NULL;
 *	uint8_t buf[512]; struct wire_w w;
 *
 *	wire_w_init(&w, buf, sizeof(buf));
 *	wire_w_str(&w, WK_ID, id);
 *	if ((rc = road_get(s, ROAD_START, &r, err)) < 0 ||
 *	    (rc = road_request(r, WIRE_STATUS, &w, err)) < 0 ||
 *	    (rc = road_final(r, deadline_from_ms(5000), &payload, err)) < 0)
 *		return rc;
 *
 * One request at a time; more roads may be got for more at once. What is sent is buffered and goes
 * out with the next receive (or road_flush()). Failures: an ERROR frame of the agent ends the
 * request, its code, message and errno are in *err, r->error.remote is true and the road can be
 * used again. Every other failure (cut off, timed out, malformed) breaks the road: only road_put()
 * is allowed then. Deadlines are of base/time.h (monotonic ns, INT64_MAX: none). No SIGPIPE is
 * raised, whatever the stream is.
 */
#include "base/attr.h"
#include "base/cleanup.h"
#include "core/core.h"
#include "wire/frame.h"

/* A request in the form of commands may have this many bytes (everything it sends). */
#define ROAD_CALL_MAX (256u << 20)
/* Where the road is commands, a request that waits (WATCH, CANCEL) asks for at most this at a time.
 */
#define ROAD_SLICE_MS 20000

enum road_flags {
	ROAD_START = 1, /* starts the sandbox (as the handle's flags allow) and its init when they
			   do not run */
	ROAD_INIT = 2,  /* starts an init in a running sandbox, never the sandbox */
};

/* More about the last failure of a road. */
struct road_error {
	bool remote;    /* the agent's own ERROR frame; else the road broke */
	bool sent;      /* bytes of the request may have reached the agent */
	bool cancelled; /* cancel_fd became readable */
	int code;       /* enum wire_err, when remote */
	int sys_errno;
	char stage[32];            /* "" when there is none */
	char need[16];             /* "tree", "layer", "input" or "" */
	struct wire_slice payload; /* of the ERROR frame; until the next call */
};

struct road_hello {
	int64_t proto;
	char agent[65];
	char machine[32];
	uint8_t incarnation[16];
	uint8_t boot[16];
};

struct road {
	struct berth_sandbox *s; /* may be NULL: a road that nobody keeps */
	struct berth_stream stream;
	bool call;   /* commands instead of a stream */
	bool broken; /* not to be used or kept any more */
	bool asked;  /* a request is under way */
	bool hello_done;
	bool keep; /* may be kept idle by the handle */
	bool wfd_socket, rfd_eof;
	uint8_t request;       /* type of the request under way */
	int64_t send_deadline; /* of road_data and what flushes on the way; INT64_MAX with every new
				  request */
	int cancel_fd; /* -1: none; readable: road_recv fails with BERTH_E_TIMEOUT, error.cancelled
			*/
	struct road_error error;
	struct road_hello hello; /* valid after the first receive */

	uint8_t *in; /* received: [in_pos, in_len) */
	size_t in_cap, in_pos, in_len;
	uint8_t *out; /* to be sent: [out_pos, out_len); for commands everything of this request */
	size_t out_cap, out_pos, out_len;
	size_t ran;       /* commands: how much of out was in the last command */
	size_t delivered; /* commands: frames of this request that were given to the caller */
	bool start_init;  /* commands: with --start */
	bool ended;       /* commands: the answer that we have ends without a final frame */
	struct road *next;
};

/*
 * A road to the sandbox's agent: a kept one, else a new one. BERTH_E_UNAVAILABLE when the sandbox
 * or its init does not run and no flag lets it be started. *ret goes back with road_put(); the
 * handle must outlive it.
 */
int road_get(struct berth_sandbox *s, unsigned flags, struct road **ret,
	     struct berth_error *err) attr_warn_unused;
/* Gives a road back: kept for the next road_get() when it is between requests and whole, else
 * closed. NULL is fine. */
void road_put(struct road *r);
BERTH_DEFINE_AUTO_PTR(road, struct road *, road_put);

/* A road over a stream that is already there (taken, also on failure). For control sockets and
 * tests; it is never kept. */
int road_over(struct berth_stream *stream, struct road **ret,
	      struct berth_error *err) attr_warn_unused;
/* Closes the kept roads of a handle. */
void road_drop_idle(struct berth_sandbox *s);

/* Begins a request. fields may be NULL: none; a writer that has overflowed is BERTH_E_TOO_LARGE. */
int road_request(struct road *r, uint8_t type, const struct wire_w *fields,
		 struct berth_error *err) attr_warn_unused;
/* Sends the first byte of a request that has just begun together with an fd (SCM_RIGHTS), over a
 * new stream that is a socket: PUBLISH. */
int road_pass_fd(struct road *r, int fd, struct berth_error *err) attr_warn_unused;
/* Any other frame inside a request (STDIN_CLOSE, SIGNAL, RESIZE of EXEC). */
int road_frame(struct road *r, uint8_t type, const struct wire_w *fields,
	       struct berth_error *err) attr_warn_unused;
/*
 * Sends bytes as DATA frames, cut as needed. An ERROR that arrives meanwhile stops the sending: the
 * failure is that error, and the road is then broken (what was not sent is missing).
 */
int road_data(struct road *r, const void *p, size_t n, struct berth_error *err) attr_warn_unused;
/* Sends END. fields may be NULL. */
int road_end(struct road *r, const struct wire_w *fields, struct berth_error *err) attr_warn_unused;
/* Sends what is buffered (a stream), within the deadline. Commands run in road_recv(). */
int road_flush(struct road *r, int64_t deadline_ns, struct berth_error *err) attr_warn_unused;

/*
 * The next frame of the answer: DATA, DATA2, EVENT or the final OK (ERROR: see above). *ret_payload
 * borrows from the road until the next call. A stream that ends inside a request is
 * BERTH_E_UNAVAILABLE; a deadline that passes is BERTH_E_TIMEOUT (and the road is broken).
 */
int road_recv(struct road *r, uint8_t *ret_type, struct wire_slice *ret_payload,
	      int64_t deadline_ns, struct berth_error *err) attr_warn_unused;
/* The final OK; any other frame is BERTH_E_PROTOCOL. ret_payload may be NULL. */
int road_final(struct road *r, int64_t deadline_ns, struct wire_slice *ret_payload,
	       struct berth_error *err) attr_warn_unused;
/* A request without data, and its OK: both in one. */
int road_ask(struct road *r, uint8_t type, const struct wire_w *fields, int64_t deadline_ns,
	     struct wire_slice *ret_payload, struct berth_error *err) attr_warn_unused;
/* Makes sure that the agent's HELLO is here (r->hello). Only streams. */
int road_hello(struct road *r, int64_t deadline_ns, struct berth_error *err) attr_warn_unused;

/* WAIT_MS for a request that waits at most wait_ms (-1: for ever): cut to ROAD_SLICE_MS on command
 * roads; -1 means: leave it out. */
int64_t road_wait_ms(const struct road *r, int64_t wait_ms);

/*
 * For callers with a poll loop of their own (exec): what can be done without waiting.
 * road_pump sends and receives what is possible now: 0, or a failure (the stream's end inside a
 * request is one). road_next gives a frame that is already here: 1 with *ret_…, 0 when there is
 * none yet, or a failure as road_recv().
 */
int road_pump(struct road *r, struct berth_error *err) attr_warn_unused;
int road_next(struct road *r, uint8_t *ret_type, struct wire_slice *ret_payload,
	      struct berth_error *err) attr_warn_unused;
/* Bytes that wait to be sent. */
size_t road_pending(const struct road *r);

#endif
