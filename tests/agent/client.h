/* SPDX-License-Identifier: MIT */
/*
 * client.h: a small client of the agent protocol and a real berth-agent, for the tests in this
 * folder. No library of berth but wire/: what is tested is what is on the wire. Failures of the
 * client itself are printed and returned, never asserted here.
 */
#ifndef TESTS_AGENT_CLIENT_H
#define TESTS_AGENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/frame.h"

/* ---- an agent ---- */

struct agent_proc {
	pid_t pid;      /* of init */
	char dir[256];  /* its DIR, absolute */
	char home[256]; /* its HOME */
	uid_t uid;      /* set before the start: who runs it (0: the caller) */
};

/* Path of the binary: BERTH_AGENT, else BERTH_BUILD_ROOT/berth-agent. */
const char *agent_binary(void);
/* Starts `berth-agent init` for NAME/berth below the working directory (made; NAME is its HOME),
 * with these words before DIR (NULL-terminated, may be NULL), and waits for its socket. 0 or -1. */
int agent_start(struct agent_proc *a, const char *name, const char *const *options);
/* Starts it again for the same DIR. */
int agent_restart(struct agent_proc *a, const char *const *options);
/* STOP, then waits for its end (KILL after 10 s). */
void agent_stop(struct agent_proc *a);
/* SIGKILL to init alone, and waits for it. */
void agent_kill(struct agent_proc *a);

/* ---- a stream ---- */

struct client {
	int fd;
	uint8_t *out; /* frames being built */
	size_t out_cap;
	struct wire_w w;
	size_t frame_at;
	uint8_t *in; /* the last frame */
	size_t in_cap;
	/* What client_call() has collected. */
	uint8_t *data; /* DATA payloads, joined */
	size_t data_len, data_cap;
	uint8_t *data2;
	size_t data2_len, data2_cap;
	size_t events;    /* EVENT frames seen */
	uint8_t final;    /* type of the final frame; 0: the stream ended */
	const uint8_t *p; /* payload of the final frame */
	size_t n;
};

/* Connects and says HELLO. 0 or -1. */
int client_open(struct client *c, const char *dir);
/* The same over any pair of the same stream fd. */
int client_open_fd(struct client *c, int fd);
void client_close(struct client *c);
/* A frame, built in memory; client_send() sends all that was built. */
struct wire_w *client_begin(struct client *c, uint8_t type);
void client_end(struct client *c);
/* DATA frames over these bytes, then, with end, END with their XXH128 (right, or with one bit
 * wrong). */
void client_data(struct client *c, const void *p, size_t n);
enum client_hash { CLIENT_RIGHT, CLIENT_WRONG, CLIENT_NONE };
void client_data_end(struct client *c, const void *hashed, size_t n, enum client_hash how);
int client_send(struct client *c);
/* The built bytes, to be sent by hand (a prefix, say); client_reset() forgets them. */
const uint8_t *client_built(struct client *c, size_t *n);
void client_reset(struct client *c);
/* One frame. 1, 0 at the end of the stream, -1 broken. The payload is valid until the next one. */
int client_recv(struct client *c, uint8_t *type, const uint8_t **p, size_t *n);
/* Sends what is built and receives until the final frame, or, with stop_at != 0, until a frame of
 * that type (then c->final is it). event may be NULL. Returns c->final. */
int client_call(struct client *c, uint8_t stop_at,
		void (*event)(void *arg, const uint8_t *p, size_t n), void *arg);
/* Fields of the final frame. */
int64_t client_int(const struct client *c, uint16_t key, int64_t dflt);
/* As a C string (static, four at a time); "" when absent. */
const char *client_str(const struct client *c, uint16_t key);
/* ERROR's code, 0 for OK, -1 when the stream ended. */
int client_code(const struct client *c);

/* XXH3-128, canonical. */
void client_xxh128(const void *p, size_t n, uint8_t ret[16]);
/* Milliseconds of the monotonic clock. */
int64_t client_now_ms(void);
/* Waits (10 s at most) until fn says true, asking every few ms: for what the kernel tells nobody.
 */
bool client_until(bool (*fn)(void *arg), void *arg);

#endif
