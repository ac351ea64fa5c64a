/* SPDX-License-Identifier: MIT */
/*
 * box.h: what of an isolated sandbox's file system the caller cannot fill (ro=, rw=). The library
 * says so before anything is made, and berth-agent stage does not take anybody's word for it.
 */
#ifndef WIRE_BOX_H
#define WIRE_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Is it the sandbox's own place, or does it hold one, which a mount would cover? Absolute paths in
 * their one spelling. */
static inline bool box_path_is_own(const char *path)
{
	static const char *const own[] = {
		"/proc", "/dev", "/sys", "/app", "/run/berth", "/run/berth-agent", "/home/user"};
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		size_t m = strlen(own[i]);

		if (strncmp(path, own[i], m) == 0 && (path[m] == '/' || !path[m]))
			return true;
		if (strncmp(path, own[i], n) == 0 && own[i][n] == '/')
			return true;
	}
	return strcmp(path, "/tmp") == 0 || strcmp(path, "/etc") == 0;
}

#endif
