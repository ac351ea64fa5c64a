/* SPDX-License-Identifier: MIT */
/*
 * info.c: INFO and STOP: what concerns the sandbox as a whole.
 *
 * Invariant: STOP answers OK when every record has its last word and every session has ended;
 * from its first moment on no LAUNCH and no EXEC
 * begins (each of them looks at the flag after it has become visible, STOP looks for them after
 * it has set the flag).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/attach.h"
#include "agent/clock.h"
#include "agent/conn.h"
#include "agent/guests.h"
#include "agent/init.h"
#include "agent/ports.h"
#include "agent/record.h"
#include "agent/tree.h"

#define SESSIONS_TRIES 5000 /* of 1 ms: how long killed sessions may take to be gone */

static void pause_ms(void)
{
	struct timespec ms = {0, 1000000};

	nanosleep(&ms, NULL);
}

/* Calls each for every record of a kind that is held and has no TERMINAL. */
static int64_t each_alive(int64_t kind, void (*each)(void *ctx, int dirfd), void *ctx)
{
	int fd = openat(agent.dirfd, kind_dir(kind), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirscan d;
	const char *name;
	int64_t count = 0;
	uint8_t type;

	if (fd < 0)
		return 0;
	dirscan_init(&d, fd);
	while ((name = dirscan_next(&d, &type))) {
		struct wire_slice id = {(const uint8_t *)name, strlen(name)};
		struct record r;

		if (record_load(kind, id, &r, NULL) < 0)
			continue;
		if (r.held && !r.j.terminal.p) {
			count++;
			if (each)
				each(ctx, r.dirfd);
		}
		record_unload(&r);
	}
	close(fd);
	return count;
}

int64_t records_alive(void)
{
	return each_alive(WIRE_KIND_EXECUTION, NULL, NULL) +
	       each_alive(WIRE_KIND_SESSION, NULL, NULL);
}

int verb_info(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t running = records_alive();
	struct wire_w *w = conn_begin(c, WIRE_OK);

	(void)p, (void)n;
	wire_w_str(w, WK_AGENT, agent.hash);
	wire_w_bytes(w, WK_INCARNATION, agent.incarnation, sizeof(agent.incarnation));
	wire_w_int(w, WK_PID, agent.init_pid);
	wire_w_int(w, WK_STARTED_MS, agent.started_ms);
	wire_w_int(w, WK_RUNNING, running + atomic_load(&agent.shared->execs));
	wire_w_str(w, WK_CONTAINMENT, tree_have_pidns() ? "pidns" : "subreaper");
	wire_w_str(w, WK_MACHINE, agent.machine);
	clock_info(w);
	ports_info(w);
	return conn_end(c);
}

struct stop {
	uint8_t request[128];
	size_t n;
};

static void cancel_one(void *ctx, int dirfd)
{
	const struct stop *s = ctx;
	int fd = attach_open(dirfd);

	if (fd < 0)
		return;
	(void)attach_send(fd, WIRE_CANCEL, s->request, s->n);
	close(fd);
}

void stop_everything(const char *cause, int64_t grace)
{
	struct stop s;
	struct wire_w w;

	atomic_store(&agent.shared->stopping, 1);
	wire_w_init(&w, s.request, sizeof(s.request));
	wire_w_str(&w, WK_CAUSE, cause);
	if (grace >= 0)
		wire_w_int(&w, WK_GRACE_MS, grace);
	s.n = w.len;
	init_tell(INIT_MSG_SESSIONS);
	each_alive(WIRE_KIND_EXECUTION, cancel_one, &s);
	each_alive(WIRE_KIND_SESSION, cancel_one, &s);
	/* Their graces bound this; a cancel that met a record between its rename and its
	 * supervisor is sent again with the next look. */
	while (records_alive() > 0)
		pause_ms();
	for (int i = 0; i < SESSIONS_TRIES && atomic_load(&agent.shared->execs) > 0; i++)
		pause_ms();
	guests_end();
}

int verb_stop(struct conn *c, const uint8_t *p, size_t n)
{
	struct wire_slice v = {(const uint8_t *)"stopped", 7};
	char cause[16];

	wire_find(p, n, WK_CAUSE, &v);
	if (!slice_str(v, cause, sizeof(cause)) ||
	    (strcmp(cause, "stopped") && strcmp(cause, "idle") && strcmp(cause, "expired")))
		return conn_error(c, WIRE_E_INVALID, NULL, 0, "STOP: unknown cause");
	stop_everything(cause, wire_find_int(p, n, WK_GRACE_MS, -1));
	conn_ok(c);
	init_tell_end(cause);
	return -1;
}
