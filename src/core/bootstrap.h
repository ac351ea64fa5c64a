/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_BOOTSTRAP_H
#define BERTH_CORE_BOOTSTRAP_H
/*
 * Getting berth-agent into a sandbox whose driver does not do it itself, and what else has to be
 * asked of a sandbox through its shell.
 */
#include "core/core.h"

/* Bytes of one piece on roads where a command's arguments are all that goes in (as base64: 4/3 of
 * it). */
#define BOOTSTRAP_PIECE (96u * 1024 / 4 * 3)

/*
 * Fills s->machine, s->home and s->agent. @put: brings the agent when it is not there; without it a
 * missing agent is BERTH_E_UNAVAILABLE. The file has its content hash in its name, is checked by
 * running it (it tells its own hash) and then renamed; a directory that cannot run it (noexec,
 * read-only) is passed over for the next.
 */
int bootstrap_agent(struct berth_sandbox *s, bool put, struct berth_error *err) attr_warn_unused;
/* Only s->home. */
int bootstrap_home(struct berth_sandbox *s, struct berth_error *err) attr_warn_unused;
/*
 * Writes a file with commands alone, in pieces of arguments; mode as given, parents made. For
 * drivers without put_file and for requests that are too long for one argument list.
 */
int bootstrap_write(struct berth_sandbox *s, const char *path, unsigned mode, const void *data,
		    size_t n, struct berth_error *err) attr_warn_unused;

#endif
