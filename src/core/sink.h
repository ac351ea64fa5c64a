/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_SINK_H
#define BERTH_CORE_SINK_H
/* Where output goes: memory, a callback, or an fd by the fastest road. Never raises SIGPIPE, never
 * blocks past cancel_fd. */
#include <berth/berth.h>

#include "base/attr.h"

enum sink_kind { SINK_MEMORY, SINK_CALL, SINK_FILE, SINK_PIPE, SINK_OTHER };

struct sink {
	enum sink_kind kind;
	int fd;
	int cancel_fd; /* -1: none; readable: BERTH_E_TIMEOUT */
	bool slow;     /* copy_file_range and sendfile do not work here */
	/* SINK_MEMORY */
	uint8_t *buf;
	size_t cap, n;
	/* SINK_CALL */
	int (*data)(void *arg, enum berth_output stream, const void *p, size_t n);
	void *arg;
	enum berth_output stream;
	uint64_t moved; /* bytes taken, ever */
};

void sink_memory(struct sink *k, void *buf, size_t cap);
void sink_call(struct sink *k, int (*data)(void *, enum berth_output, const void *, size_t),
	       void *arg, enum berth_output stream);
/* Looks at what kind of fd it is. */
void sink_fd(struct sink *k, int fd, int cancel_fd);

/* All @n bytes, or a failure (a callback's non-zero is returned as it is); k->moved tells how far
 * it came. */
int sink_bytes(struct sink *k, const void *p, size_t n, struct berth_error *err) attr_warn_unused;
/* @n bytes of a regular file that only grows. The file's own offset is not used. */
int sink_file(struct sink *k, int fd, uint64_t offset, uint64_t n,
	      struct berth_error *err) attr_warn_unused;

#endif
