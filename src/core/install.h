/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_INSTALL_H
#define BERTH_CORE_INSTALL_H
/*
 * Dependency installs: when one is wanted, under which key its layer is kept, and having it made in
 * the sandbox.
 */
#include "core/artifact.h"
#include "core/progress.h"
#include "core/road.h"

#define INSTALL_DEFAULT    "npm install --omit=dev"
#define INSTALL_TIMEOUT_MS (10 * 60 * 1000)

/* What of a sandbox an install depends on: the reply to HAVE. */
struct install_facts {
	uint8_t *reply; /* malloc'ed */
	size_t n;
	bool has_tree;
};

/* Asks the sandbox. *ret is owned by caller, freed with install_facts_done(). */
int install_facts_get(struct berth_sandbox *s, const char *tree, struct install_facts *ret,
		      struct berth_error *err) attr_warn_unused;
void install_facts_done(struct install_facts *f);
BERTH_DEFINE_AUTO(install_facts, struct install_facts, install_facts_done);

/*
 * Does the result depend on the whole artifact, not only on its lock files? With another command
 * than the default one, install scripts, local dependencies or workspaces in package.json, and
 * whenever package.json cannot be read with certainty.
 */
bool install_needs_whole(const struct artifact *a, const char *command);

/* The layer's key: 64 hex digits and a NUL. facts: fields of a reply to HAVE (MACHINE, LIBC,
 * RUNTIME…). */
int install_key(const struct artifact *a, const char *command, struct wire_slice facts,
		char ret[SHA256_HEX + 1], struct berth_error *err) attr_warn_unused;

/*
 * For a sandbox whose views have no stable path (STABLE=0 in facts): makes the key of a layer that
 * is shared one of this execution alone, and of this one deploy. The absolute paths in its layer lead
 * to the layer's own place, where whoever follows them may write. Elsewhere the key stays.
 */
int install_key_alone(struct wire_slice facts, const char *id, char key[SHA256_HEX + 1],
		      struct berth_error *err) attr_warn_unused;

enum install_result {
	INSTALL_DONE = 0,
	INSTALL_FAILED = 1,     /* *ret_message says how: one line with the tail of its output */
	INSTALL_NEEDS_TREE = 2, /* nothing was done */
};

#define INSTALL_MESSAGE_MAX 501

/*
 * Has the layer made, unless it is there: one at a time per layer, others wait their turn. Output
 * goes to the progress callback as it comes. An enum install_result or a negative code; a stream
 * that breaks is retried once (a layer that was finished meanwhile is then found).
 */
int install_run(struct berth_sandbox *s, const char *tree, const char *layer, const char *command,
		int64_t timeout_ms, const struct progress *p, char ret_message[INSTALL_MESSAGE_MAX],
		struct berth_error *err) attr_warn_unused;

/* Joins a message and the end of an output to one line of at most cap - 1 bytes. For tests, too. */
void install_message(const char *message, const void *tail, size_t tail_n, char *ret, size_t cap);

#endif
