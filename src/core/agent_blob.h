/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_AGENT_BLOB_H
#define BERTH_CORE_AGENT_BLOB_H
/*
 * The berth-agent binaries that this build carries: one per architecture, static, read-only data.
 */
#include <stddef.h>

struct agent_blob {
	const char *arch;          /* as `uname -m` prints it: "x86_64", "aarch64" */
	const unsigned char *data; /* the ELF file, not NUL-terminated */
	size_t size;
	const char *hash; /* XXH3-128 of data, 32 lower-case hex digits (canonical byte order) */
};

/*
 * The agent for @arch (as `uname -m` prints it; borrowed for the call), or NULL when this build
 * has none. The result is static; never free it.
 */
const struct agent_blob *agent_blob_get(const char *arch);

/* The i-th agent of this build, NULL past the end. For messages that list what there is. */
const struct agent_blob *agent_blob_at(size_t i);

#endif
