/* SPDX-License-Identifier: MIT */
/*
 * tree.c: see tree.h. Most tests leave their trees to the end of their process, on a stack that is
 * gone by then: the leak checker is not asked about them.
 */
#include "tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/journal.h"
#include "wire/spec.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else
static void __lsan_ignore_object(const void *p)
{
	(void)p;
}
#endif

/* realloc() of what stays. */
static void *kept(void *old, size_t n)
{
	void *p = realloc(old, n);

	if (!p)
		abort();
	__lsan_ignore_object(p);
	return p;
}

static char *kept_text(const char *s)
{
	char *p = strdup(s);

	if (!p)
		abort();
	__lsan_ignore_object(p);
	return p;
}

static struct tree_entry *add(struct tree *t, char type, const char *path)
{
	struct tree_entry *e;

	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->e = kept(t->e, t->cap * sizeof(*t->e));
	}
	e = &t->e[t->n++];
	*e = (struct tree_entry){.type = type, .path = kept_text(path), .mtime_ns = TREE_MTIME};
	return e;
}

void tree_dir(struct tree *t, const char *path)
{
	add(t, 'd', path);
}

void tree_file(struct tree *t, const char *path, const void *content, size_t n, bool executable)
{
	struct tree_entry *e = add(t, 'f', path);

	e->executable = executable;
	e->content = kept(NULL, n + 1);
	if (n)
		memcpy(e->content, content, n);
	e->size = n;
	client_xxh128(content, n, e->sha);
	memcpy(e->sha + 16, e->sha, 16);
}

void tree_text(struct tree *t, const char *path, const char *text)
{
	tree_file(t, path, text, strlen(text), false);
}

void tree_link(struct tree *t, const char *path, const char *target)
{
	add(t, 'l', path)->target = kept_text(target);
}

static int by_path(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return strcmp(x->path,
		      y->path); /* unsigned bytes, a prefix first: as memcmp with lengths */
}

static void write_manifest(struct tree *t, struct wire_w *w)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct tree_entry *e = &t->e[i];
		struct manifest_entry m = {
			.type = e->type,
			.executable = e->executable,
			.path = {(const uint8_t *)e->path, strlen(e->path)},
			.target = {(const uint8_t *)e->target, e->target ? strlen(e->target) : 0},
			.size = e->size,
			.mtime_ns = e->mtime_ns,
			.sha256 = e->sha,
		};

		manifest_put(w, &m);
	}
}

void tree_finish(struct tree *t)
{
	struct wire_w w;
	uint8_t h[16];

	if (t->n)
		qsort(t->e, t->n, sizeof(*t->e), by_path);
	wire_w_init(&w, NULL, 0);
	write_manifest(t, &w);
	t->manifest = kept(t->manifest, w.len + 1);
	t->manifest_len = w.len;
	wire_w_init(&w, t->manifest, t->manifest_len);
	write_manifest(t, &w);
	client_xxh128(t->manifest, t->manifest_len, h);
	for (int i = 0; i < 32; i++)
		snprintf(t->hex + 2 * i, 3, "%02x", h[i % 16]);
}

void tree_free(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->e[i].path);
		free(t->e[i].target);
		free(t->e[i].content);
	}
	free(t->e);
	free(t->manifest);
	*t = (struct tree){0};
}

void tree_request(struct tree *t, struct client *c)
{
	struct wire_w *w = client_begin(c, WIRE_UNPACK);

	wire_w_str(w, WK_TREE, t->hex);
	wire_w_int(w, WK_MANIFEST_LEN, (int64_t)t->manifest_len);
	client_end(c);
	client_data(c, t->manifest, t->manifest_len);
	client_data_end(c, NULL, 0, CLIENT_NONE);
}

void tree_contents(struct tree *t, struct client *c, const uint8_t *bits, size_t n,
		   enum client_hash how)
{
	uint8_t *all;
	size_t file = 0, len = 0;

	t->sent = 0;
	for (size_t i = 0; i < t->n; i++)
		len += t->e[i].size;
	all = malloc(len + 1);
	if (!all)
		abort();
	len = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (t->e[i].type != 'f')
			continue;
		if (file / 8 < n && (bits[file / 8] >> (file % 8) & 1)) {
			memcpy(all + len, t->e[i].content, t->e[i].size);
			len += t->e[i].size;
			t->sent++;
		}
		file++;
	}
	t->sent_bytes = len;
	client_data(c, all, len);
	client_data_end(c, all, len, how);
	free(all);
}

int tree_unpack(struct tree *t, struct client *c, enum client_hash how)
{
	struct wire_slice bits;

	tree_request(t, c);
	if (client_call(c, WIRE_EVENT, NULL, NULL) != WIRE_EVENT)
		return client_code(c);
	if (!wire_find(c->p, c->n, WK_MISSING, &bits))
		return -3;
	tree_contents(t, c, bits.p, bits.n, how);
	client_call(c, 0, NULL, NULL);
	return client_code(c);
}

/* ---- executions ---- */

int launch_sh(struct client *c, const char *id, const char *tree_hex, const char *script,
	      const struct launch_opts *o)
{
	static const struct launch_opts none;
	struct wire_w *w = client_begin(c, WIRE_LAUNCH);
	size_t at = wire_w_begin(w, WK_SPEC);

	o = o ? o : &none;
	wire_w_str(w, SK_ID, id);
	wire_w_str(w, SK_MODE, "worker");
	wire_w_str(w, SK_ARG, "sh");
	wire_w_str(w, SK_ARG, "-c");
	wire_w_str(w, SK_ARG, script);
	wire_w_str(w, SK_TREE, tree_hex);
	wire_w_str(w, SK_LAYER, o->layer);
	wire_w_str(w, SK_WORKDIR, o->workdir);
	wire_w_int(w, SK_GRACE_MS, 500);
	wire_w_int(w, SK_DURABLE, o->durable);
	if (o->has_input) {
		wire_w_int(w, SK_INPUT_KIND, o->input_path ? SPEC_INPUT_FILE : SPEC_INPUT_STDIN);
		wire_w_str(w, SK_INPUT_PATH, o->input_path);
		wire_w_int(w, SK_INPUT_LEN, (int64_t)o->input_len);
	}
	wire_w_end(w, at);
	client_end(c);
	if (o->has_input) {
		client_data(c, o->input, o->input_len);
		client_data_end(c, o->input, o->input_len, CLIENT_NONE);
	}
	client_call(c, 0, NULL, NULL);
	return client_code(c);
}

static void status(const struct client *c, struct journal *j, struct record_status *ret)
{
	struct journal_facts f = {
		.held = client_int(c, WK_HELD, 0) != 0,
		.same_boot = client_int(c, WK_SAMEBOOT, 0) != 0,
		.same_incarnation = client_int(c, WK_SAMEINC, 0) != 0,
	};
	struct wire_slice live = {0}, v;
	struct wire_r r;
	uint16_t key;

	wire_find(c->p, c->n, WK_LIVE, &live);
	*ret = (struct record_status){.state = -1};
	if (journal_from_head(live.p, live.n, j) < 0)
		return;
	wire_r_init(&r, c->p, c->n);
	while (wire_r_next(&r, &key, &v)) {
		if (key == WK_ENTRY)
			journal_feed(j, v);
	}
	record_status(j, &f, ret);
}

static const char *text_of(struct wire_slice s)
{
	static char buf[4][1024];
	static int turn;
	char *p = buf[turn++ % 4];
	size_t n = s.n < sizeof(buf[0]) - 1 ? s.n : sizeof(buf[0]) - 1;

	if (n)
		memcpy(p, s.p, n);
	p[n] = '\0';
	return p;
}

int launch_state(const struct client *c)
{
	struct record_status s;
	struct journal j;

	status(c, &j, &s);
	return s.state;
}

const char *launch_message(const struct client *c)
{
	struct record_status s;
	struct journal j;

	status(c, &j, &s);
	return text_of(s.message);
}

const char *launch_view(const struct client *c)
{
	struct record_status s;
	struct journal j;

	status(c, &j, &s);
	return text_of(s.view);
}

static int by_id(struct client *c, uint8_t type, const char *id, uint16_t key)
{
	struct wire_w *w = client_begin(c, type);

	wire_w_str(w, WK_ID, id);
	if (key)
		wire_w_int(w, key, 1);
	client_end(c);
	client_call(c, 0, NULL, NULL);
	return client_code(c);
}

int launch_wait(struct client *c, const char *id, int *exit_code)
{
	struct record_status s;
	struct journal j;

	if (by_id(c, WIRE_WATCH, id, WK_TERMINAL_ONLY) != 0)
		return -1;
	status(c, &j, &s);
	if (exit_code)
		*exit_code = s.has_exit_code ? s.exit_code : -1;
	return s.state;
}

int launch_run(struct client *c, const char *id, const char *tree_hex, const char *script,
	       const struct launch_opts *o)
{
	int code;

	if (launch_sh(c, id, tree_hex, script, o) != 0)
		return -2;
	return launch_wait(c, id, &code) < 0 ? -3 : code;
}

const char *launch_stdout(struct client *c, const char *id)
{
	struct wire_w *w = client_begin(c, WIRE_READ);

	wire_w_str(w, WK_ID, id);
	wire_w_int(w, WK_STREAM, WIRE_STDOUT);
	wire_w_int(w, WK_OFFSET, 0);
	wire_w_int(w, WK_MAX, 1 << 20);
	client_end(c);
	client_call(c, 0, NULL, NULL);
	return client_code(c) == 0 && c->data_len ? (const char *)c->data : "";
}

int launch_cancel(struct client *c, const char *id)
{
	return by_id(c, WIRE_CANCEL, id, 0);
}

int launch_forget(struct client *c, const char *id)
{
	return by_id(c, WIRE_FORGET, id, 0);
}

/* ---- files ---- */

static struct wire_w *file_begin(struct client *c, uint8_t type, const char *base, const char *path)
{
	struct wire_w *w = client_begin(c, type);

	wire_w_str(w, WK_PATH, path);
	wire_w_str(w, WK_BASE_ID, base);
	return w;
}

int file_put(struct client *c, const char *base, const char *path, const void *p, size_t n,
	     unsigned mode)
{
	struct wire_w *w = file_begin(c, WIRE_PUT, base, path);

	wire_w_int(w, WK_MODE, (int64_t)mode);
	wire_w_int(w, WK_SIZE, (int64_t)n);
	client_end(c);
	client_data(c, p, n);
	client_data_end(c, p, n, CLIENT_RIGHT);
	client_call(c, 0, NULL, NULL);
	return client_code(c);
}

int file_get(struct client *c, const char *base, const char *path)
{
	struct wire_slice v;
	uint8_t h[16];

	file_begin(c, WIRE_GET, base, path);
	client_end(c);
	client_call(c, 0, NULL, NULL);
	if (client_code(c) != 0)
		return client_code(c);
	client_xxh128(c->data, c->data_len, h);
	if (!wire_find(c->p, c->n, WK_XXH128, &v) || v.n != 16 || memcmp(v.p, h, 16) != 0)
		return -3;
	return 0;
}

int file_op(struct client *c, uint8_t type, const char *base, const char *path, uint16_t key,
	    int64_t v, const char *text)
{
	struct wire_w *w = file_begin(c, type, base, path);

	if (text)
		wire_w_str(w, key, text);
	else if (key)
		wire_w_int(w, key, v);
	client_end(c);
	client_call(c, 0, NULL, NULL);
	return client_code(c);
}

struct names {
	char *name[10000];
	size_t n;
};

static void take_name(void *arg, const uint8_t *p, size_t n)
{
	struct names *names = arg;
	struct wire_slice v;

	if (wire_find(p, n, WK_NAME, &v) && names->n < 10000)
		names->name[names->n++] = strndup((const char *)v.p, v.n);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *file_names(struct client *c, const char *base, const char *path)
{
	static char out[1 << 20];
	static struct names names;
	size_t len = 0;

	names.n = 0;
	out[0] = '\0';
	file_begin(c, WIRE_LS, base, path);
	client_end(c);
	if (client_call(c, 0, take_name, &names) != WIRE_OK)
		return "(failed)";
	qsort(names.name, names.n, sizeof(char *), by_name);
	for (size_t i = 0; i < names.n; i++) {
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s", i ? " " : "",
					names.name[i]);
		free(names.name[i]);
	}
	return out;
}
