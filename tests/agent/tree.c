/* SPDX-License-Identifier: MIT */
/*
 * tree.c: see tree.h.
 */
#include "tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tree_entry *add(struct tree *t, char type, const char *path)
{
	struct tree_entry *e;

	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->e = realloc(t->e, t->cap * sizeof(*t->e));
		if (!t->e)
			abort();
	}
	e = &t->e[t->n++];
	*e = (struct tree_entry){.type = type, .path = strdup(path), .mtime_ns = TREE_MTIME};
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
	e->content = malloc(n + 1);
	if (!e->content)
		abort();
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
	add(t, 'l', path)->target = strdup(target);
}

static int by_path(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return strcmp(x->path, y->path);	/* unsigned bytes, a prefix first: as memcmp with lengths */
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
	free(t->manifest);
	t->manifest = malloc(w.len + 1);
	t->manifest_len = w.len;
	if (!t->manifest)
		abort();
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

void tree_contents(struct tree *t, struct client *c, const uint8_t *bits, size_t n, enum client_hash how)
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
