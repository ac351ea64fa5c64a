/* SPDX-License-Identifier: MIT */
/*
 * upload.c: the caller's half of UNPACK.
 *
 * Invariants: contents go out in manifest order, in one buffer of DATA size that small files share.
 * END, with the XXH3-128 of everything, is sent only when every file's bytes had the SHA-256 that
 * the manifest says; without END the sandbox keeps nothing. No file is held open while another is
 * read. It does not decide what to do about a changed file: deploy.c does.
 */
#include "core/upload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/time.h"

/* Nothing moves for so long: the other end is stuck. A slow disk that syncs is not. */
#define STALL_MS 120000
/* Streams that break, and commands that others were quicker than. */
#define ATTEMPTS 4

void (*upload_test_hook)(const char *path);

struct sender {
	struct road *road;
	const struct artifact *a;
	const struct progress *progress;
	uint8_t *buf; /* WIRE_DATA_MAX bytes */
	size_t len;
	uint64_t sent, total;
	XXH3_state_t *sum;
	struct berth_error *err;
};

static bool wanted(struct wire_slice missing, size_t file)
{
	return file / 8 < missing.n && missing.p[file / 8] >> (file % 8) & 1;
}

static int flush(struct sender *u)
{
	int r;

	if (!u->len)
		return 0;
	XXH3_128bits_update(u->sum, u->buf, u->len);
	u->road->send_deadline = deadline_from_ms(STALL_MS);
	r = road_data(u->road, u->buf, u->len, u->err);
	u->sent += u->len;
	u->len = 0;
	progress_bytes(u->progress, "upload", u->sent, u->total);
	return r;
}

static int changed(struct sender *u, const struct artifact_entry *e)
{
	u->road->broken = true; /* half a request is over there: it ends with the stream */
	berth_fail(u->err, BERTH_E_CONFLICT, "artifact %s: \"%s\" changed while it was sent",
		   u->a->dir, e->path);
	return UPLOAD_CHANGED;
}

static int send_bytes(struct sender *u, const struct artifact_entry *e, int fd, struct sha256 *sha)
{
	uint64_t left = e->key.size;

	while (left) {
		size_t room = WIRE_DATA_MAX - u->len;
		ssize_t n = RETRY_EINTR(read(fd, u->buf + u->len, MIN_OF((uint64_t)room, left)));
		int r = 0;

		if (n < 0) {
			u->road->broken = true;
			return berth_fail_errno(u->err, 0, errno, "artifact %s: cannot read \"%s\"",
						u->a->dir, e->path);
		}
		if (n == 0)
			return changed(u, e);
		sha256_add(sha, u->buf + u->len, (size_t)n);
		u->len += (size_t)n;
		left -= (uint64_t)n;
		if (u->len == WIRE_DATA_MAX)
			r = flush(u);
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_file(struct sender *u, const struct artifact_entry *e)
{
	uint8_t digest[SHA256_LEN];
	struct sha256 sha;
	auto_close int fd = -1;
	int r;

	if (upload_test_hook)
		upload_test_hook(e->path);
	fd = artifact_open_file(u->a, e);
	if (fd == -ESTALE)
		return changed(u, e);
	if (fd < 0) {
		u->road->broken = true;
		return berth_fail_errno(u->err, 0, -fd, "artifact %s: cannot read \"%s\"",
					u->a->dir, e->path);
	}
	r = sha256_begin(&sha, u->err);
	if (r < 0)
		return r;
	r = send_bytes(u, e, fd, &sha);
	sha256_end(&sha, digest);
	if (r == 0 && memcmp(digest, e->sha256, SHA256_LEN) != 0)
		r = changed(u, e);
	return r;
}

static int send_end(struct sender *u)
{
	XXH128_canonical_t sum;
	uint8_t buf[64];
	struct wire_w w;

	XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(u->sum));
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_bytes(&w, WK_XXH128, sum.digest, sizeof(sum.digest));
	return road_end(u->road, &w, u->err);
}

/* Everything that the bitmap asks for. */
static int send_missing(struct sender *u, struct wire_slice missing)
{
	size_t file = 0;
	int r = 0;

	for (size_t i = 0; i < u->a->n; i++)
		if (u->a->entries[i].type == 'f' && wanted(missing, file++))
			u->total += u->a->entries[i].key.size;
	file = 0;
	for (size_t i = 0; r == 0 && i < u->a->n; i++)
		if (u->a->entries[i].type == 'f' && wanted(missing, file++))
			r = send_file(u, &u->a->entries[i]);
	if (r == 0)
		r = flush(u);
	return r == 0 ? send_end(u) : r;
}

static int ask(struct sender *u)
{
	uint8_t buf[128];
	struct wire_w w;
	int r;

	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_TREE, u->a->tree);
	wire_w_int(&w, WK_MANIFEST_LEN, (int64_t)u->a->manifest_len);
	r = road_request(u->road, WIRE_UNPACK, &w, u->err);
	u->road->send_deadline = deadline_from_ms(STALL_MS);
	if (r == 0)
		r = road_data(u->road, u->a->manifest, u->a->manifest_len, u->err);
	return r == 0 ? road_end(u->road, NULL, u->err) : r;
}

static int converse(struct sender *u)
{
	auto_free uint8_t *bits = NULL;
	struct wire_slice payload, missing;
	uint8_t type;
	int r = ask(u);

	if (r == 0)
		r = road_recv(u->road, &type, &payload, deadline_from_ms(STALL_MS), u->err);
	if (r < 0)
		return r;
	if (type != WIRE_EVENT || !wire_find(payload.p, payload.n, WK_MISSING, &missing)) {
		u->road->broken = true;
		return berth_fail(u->err, BERTH_E_PROTOCOL,
				  "the agent did not say what is missing");
	}
	bits = mem_dup(missing.p, missing.n); /* the payload is gone with the next call */
	if (!bits) {
		u->road->broken = true;
		return berth_fail_nomem(u->err);
	}
	missing.p = bits;
	r = send_missing(u, missing);
	return r == 0 ? road_final(u->road, deadline_from_ms(STALL_MS), NULL, u->err) : r;
}

static int upload_once(struct berth_sandbox *s, const struct artifact *a, const struct progress *p,
		       bool *ret_again, struct berth_error *err)
{
	auto(road) struct road *road = NULL;
	auto_free uint8_t *buf = mem_alloc(WIRE_DATA_MAX);
	XXH3_state_t sum;
	struct sender u = {.a = a, .progress = p, .buf = buf, .sum = &sum, .err = err};
	int r;

	*ret_again = false;
	if (!buf)
		return berth_fail_nomem(err);
	XXH3_128bits_reset(&sum);
	r = road_get(s, ROAD_START, &road, err);
	if (r < 0)
		return r;
	u.road = road;
	r = converse(&u);
	if (r < 0 && road->error.remote) {
		/* What arrived was not what was asked for. Where the road is commands, the second
		 * one, with the contents, is asked anew: somebody else may have brought them
		 * meanwhile. */
		*ret_again = road->error.code == WIRE_E_PROTOCOL;
		return UPLOAD_REFUSED;
	}
	*ret_again = r == BERTH_E_UNAVAILABLE;
	return r;
}

int upload_artifact(struct berth_sandbox *s, const struct artifact *a, const struct progress *p,
		    struct berth_error *err)
{
	bool again = true;
	int r = 0;

	for (int i = 0; again && i < ATTEMPTS; i++)
		r = upload_once(s, a, p, &again, err);
	return r;
}
