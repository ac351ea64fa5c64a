/* SPDX-License-Identifier: MIT */
/*
 * install.c: the caller's half of dependency installs.
 *
 * Invariants: a key names everything that the result may depend on, so equal keys may share a
 * layer: command, machine, C library, runtimes, and the lock files, or the whole artifact where
 * more than these is looked at. Installs get no environment of the caller's: a layer is shared. The
 * sandbox runs, locks and marks them; a failed one leaves nothing there that could be taken for a
 * layer.
 */
#include "core/install.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/time.h"
#include "core/package_json.h"

/* The agent ends an install in time by itself; after that it has to say so. */
#define INSTALL_SLACK_MS 30000
#define HAVE_TIMEOUT_MS  30000
#define TAIL_MAX         4096u

static const char *const runtimes[] = {"node", "npm", "python3", "pip"};

static const char *const lock_files[] = {
	"package.json",   "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml",
	"yarn.lock",      "bun.lock",          "bun.lockb",           ".npmrc",
	"pyproject.toml", "uv.lock",           "poetry.lock",
};

static int facts_once(struct berth_sandbox *s, const char *tree, struct install_facts *ret,
		      bool *ret_again, struct berth_error *err)
{
	auto(road) struct road *road = NULL;
	struct wire_slice reply;
	uint8_t buf[512];
	struct wire_w w;
	uint8_t *copy;
	int r;

	*ret_again = false;
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_str(&w, WK_TREE, tree);
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++)
		wire_w_str(&w, WK_RUNTIME, runtimes[i]);
	r = road_get(s, ROAD_START, &road, err);
	if (r < 0)
		return r;
	r = road_ask(road, WIRE_HAVE, &w, deadline_from_ms(HAVE_TIMEOUT_MS), &reply, err);
	*ret_again = r == BERTH_E_UNAVAILABLE && !road->error.remote;
	if (r < 0)
		return r;
	copy = mem_dup(reply.p, reply.n);
	if (!copy)
		return berth_fail_nomem(err);
	ret->reply = copy;
	ret->n = reply.n;
	ret->has_tree = wire_find_int(copy, reply.n, WK_HAVE, 0) & 1;
	return 0;
}

int install_facts_get(struct berth_sandbox *s, const char *tree, struct install_facts *ret,
		      struct berth_error *err)
{
	bool again;
	int r = facts_once(s, tree, ret, &again, err);

	return again ? facts_once(s, tree, ret, &again, err) : r;
}

void install_facts_done(struct install_facts *f)
{
	free(f->reply);
	*f = (struct install_facts){0};
}

static bool package_json_is_simple(const struct artifact *a)
{
	const struct artifact_entry *e = artifact_find(a, "package.json");
	auto_free char *text = NULL;
	auto_close int fd = -1;
	ssize_t n;

	if (!e)
		return true;
	if (e->type != 'f' || e->key.size > SMALL_FILE_MAX)
		return false;
	fd = artifact_open_file(a, e);
	text = mem_alloc((size_t)e->key.size);
	if (fd < 0 || !text)
		return false;
	n = read_full(fd, text, (size_t)e->key.size);
	return n == (ssize_t)e->key.size && !package_json_needs_whole(text, (size_t)n);
}

static bool is_lock_file(const char *path)
{
	size_t n = strlen(path);

	if (strncmp(path, "requirements", 12) == 0 && n >= 16 &&
	    strcmp(path + n - 4, ".txt") == 0 && !strchr(path, '/'))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(lock_files); i++)
		if (strcmp(path, lock_files[i]) == 0)
			return true;
	return false;
}

bool install_needs_whole(const struct artifact *a, const char *command)
{
	if (strcmp(command, INSTALL_DEFAULT) != 0 || !package_json_is_simple(a))
		return true;
	/* npm runs node-gyp for it without being told */
	if (artifact_find(a, "binding.gyp"))
		return true;
	for (size_t i = 0; i < a->n; i++)
		if (is_lock_file(a->entries[i].path) && a->entries[i].type != 'f')
			return true;
	return false;
}

static void add_bytes(struct sha256 *h, const void *p, size_t n)
{
	uint8_t len[8];

	wire_put_u64(len, n);
	sha256_add(h, len, sizeof(len));
	if (n)
		sha256_add(h, p, n);
}

static void add_text(struct sha256 *h, const char *s)
{
	add_bytes(h, s, strlen(s));
}

static void add_facts(struct sha256 *h, struct wire_slice facts)
{
	struct wire_slice v;
	struct wire_r r;
	uint16_t key;

	wire_r_init(&r, facts.p, facts.n);
	while (wire_r_next(&r, &key, &v)) {
		if (key != WK_MACHINE && key != WK_LIBC && key != WK_RUNTIME)
			continue;
		add_text(h, key == WK_MACHINE ? "machine" : key == WK_LIBC ? "libc" : "runtime");
		add_bytes(h, v.p, v.n);
	}
}

static void add_lock_files(struct sha256 *h, const struct artifact *a)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct artifact_entry *e = &a->entries[i];

		if (!is_lock_file(e->path))
			continue;
		add_text(h, e->path);
		sha256_add(h, e->sha256, SHA256_LEN);
	}
}

int install_key(const struct artifact *a, const char *command, struct wire_slice facts,
		char ret[SHA256_HEX + 1], struct berth_error *err)
{
	uint8_t digest[SHA256_LEN];
	struct sha256 h;
	int r;

	if ((r = sha256_load(err)) < 0 || (r = sha256_begin(&h, err)) < 0)
		return r;
	add_text(&h, "berth install 1");
	add_text(&h, command);
	add_facts(&h, facts);
	if (install_needs_whole(a, command)) {
		add_text(&h, "artifact");
		add_text(&h, a->tree);
	} else {
		add_lock_files(&h, a);
	}
	sha256_end(&h, digest);
	hex_encode(digest, sizeof(digest), ret);
	return 0;
}

/* ── running one ────────────────────────────────────────────────────────────────────────── */

/* The last bytes of the output, for the message. */
struct tail {
	uint8_t p[TAIL_MAX];
	size_t n;
};

static void tail_add(struct tail *t, struct wire_slice v)
{
	size_t keep;

	if (v.n >= TAIL_MAX) {
		memcpy(t->p, v.p + v.n - TAIL_MAX, TAIL_MAX);
		t->n = TAIL_MAX;
		return;
	}
	keep = MIN_OF(t->n, TAIL_MAX - v.n);
	memmove(t->p, t->p + t->n - keep, keep);
	if (v.n)
		memcpy(t->p + keep, v.p, v.n);
	t->n = keep + v.n;
}

/* One line: control bytes and runs of white space become one space. Returns the length. */
static size_t flatten(const uint8_t *p, size_t n, char *out)
{
	size_t o = 0;

	for (size_t i = 0; i < n; i++) {
		/* colours of a terminal */
		if (p[i] == 0x1b && i + 1 < n && p[i + 1] == '[') {
			for (i += 2; i < n && (p[i] < 0x40 || p[i] > 0x7e); i++)
				;
			continue;
		}
		if (p[i] > ' ' && p[i] != 0x7f)
			out[o++] = (char)p[i];
		else if (o && out[o - 1] != ' ')
			out[o++] = ' ';
	}
	while (o && out[o - 1] == ' ')
		o--;
	return o;
}

void install_message(const char *message, const void *tail, size_t tail_n, char *ret, size_t cap)
{
	char line[TAIL_MAX];
	size_t m = MIN_OF(strlen(message), cap - 1), n, skip;

	memcpy(ret, message, m);
	ret[m] = '\0';
	if (tail_n > TAIL_MAX) {
		tail = (const uint8_t *)tail + (tail_n - TAIL_MAX);
		tail_n = TAIL_MAX;
	}
	n = flatten(tail, tail_n, line);
	if (!n || cap - 1 - m < 16)
		return;
	memcpy(ret + m, ": ", 2);
	m += 2;
	skip = n > cap - 1 - m ? n - (cap - 1 - m) : 0;
	while (skip < n && ((unsigned char)line[skip] & 0xc0) == 0x80)
		skip++; /* not in the middle of a character */
	memcpy(ret + m, line + skip, n - skip);
	ret[m + n - skip] = '\0';
}

int install_key_alone(struct wire_slice facts, const char *id, char key[SHA256_HEX + 1],
		      struct berth_error *err)
{
	uint8_t digest[SHA256_LEN], salt[16];
	struct sha256 h;
	int r;

	if (wire_find_int(facts.p, facts.n, WK_STABLE, 1) != 0)
		return 0;
	r = sha256_begin(&h, err);
	if (r < 0)
		return r;
	random_bytes(salt, sizeof(salt));
	sha256_add(&h, key, SHA256_HEX);
	sha256_add(&h, id, strlen(id) + 1);
	sha256_add(&h, salt, sizeof(salt));
	sha256_end(&h, digest);
	sha256_done(&h);
	hex_encode(digest, sizeof(digest), key);
	return 0;
}

struct installing {
	struct berth_sandbox *s;
	const char *tree, *layer, *command;
	int64_t timeout_ms;
	const struct progress *progress;
	char *ret_message;
	bool again; /* the stream broke */
	struct berth_error *err;
};

static int send_install(struct installing *in, struct road *road)
{
	size_t cap = strlen(in->command) + 512;
	auto_free uint8_t *buf = mem_alloc(cap);
	struct wire_w w;

	if (!buf)
		return berth_fail_nomem(in->err);
	wire_w_init(&w, buf, cap);
	wire_w_str(&w, WK_TREE, in->tree);
	wire_w_str(&w, WK_LAYER, in->layer);
	wire_w_str(&w, WK_COMMAND, in->command);
	wire_w_int(&w, WK_TIMEOUT_MS, in->timeout_ms);
	return road_request(road, WIRE_INSTALL, &w, in->err);
}

static int refused(struct installing *in, const struct road *road, const struct tail *t)
{
	const struct road_error *e = &road->error;
	const char *message = in->err ? in->err->message : "the install failed";
	struct wire_slice tail = {t->p, t->n};

	if (e->code == WIRE_E_PRECONDITION && strcmp(e->need, "tree") == 0)
		return INSTALL_NEEDS_TREE;
	if (wire_find(e->payload.p, e->payload.n, WK_TAIL, &tail) && tail.n == 0)
		tail = (struct wire_slice){t->p, t->n};
	install_message(message, tail.p, tail.n, in->ret_message, INSTALL_MESSAGE_MAX);
	return INSTALL_FAILED;
}

static int install_once(struct installing *in)
{
	auto(road) struct road *road = NULL;
	auto_free struct tail *tail = mem_zalloc(1, sizeof(*tail));
	int64_t deadline = deadline_from_ms(in->timeout_ms + INSTALL_SLACK_MS);
	struct wire_slice v;
	uint8_t type = 0;
	int r;

	in->again = false;
	if (!tail)
		return berth_fail_nomem(in->err);
	if ((r = road_get(in->s, ROAD_START, &road, in->err)) < 0)
		return r;
	r = send_install(in, road);
	while (r == 0 && (r = road_recv(road, &type, &v, deadline, in->err)) == 0) {
		if (type == WIRE_OK)
			return INSTALL_DONE;
		if (type != WIRE_DATA)
			continue;
		tail_add(tail, v);
		progress_text(in->progress, "install", v.p, v.n);
	}
	if (road->error.remote)
		return refused(in, road, tail);
	in->again = r == BERTH_E_UNAVAILABLE;
	return r;
}

int install_run(struct berth_sandbox *s, const char *tree, const char *layer, const char *command,
		int64_t timeout_ms, const struct progress *p, char ret_message[INSTALL_MESSAGE_MAX],
		struct berth_error *err)
{
	struct berth_error own = BERTH_ERROR_INIT;
	struct installing in = {.s = s,
				.tree = tree,
				.layer = layer,
				.command = command,
				.timeout_ms = timeout_ms,
				.progress = p,
				.ret_message = ret_message,
				.err = err ? err : &own};
	int r = install_once(&in);

	if (in.again)
		r = install_once(&in);
	return r;
}
