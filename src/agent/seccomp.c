/* SPDX-License-Identifier: MIT */
/*
 * seccomp.c: loads the system call filter.
 *
 * The filter is a constant that was compiled for this architecture when the agent was
 * built (tools/gen-seccomp.c, from seccomp_rules.h): nothing is computed here, and no library for
 * it is in the agent. It decides nothing about who gets the filter: see walls.c.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/seccomp.h"
#include "seccomp_filter.h"

int seccomp_load(void)
{
	/* The kernel copies the instructions and does not write to them. */
	struct sock_fprog prog = {
		.len = sizeof(seccomp_filter) / sizeof(seccomp_filter[0]),
		.filter = (struct sock_filter *)(uintptr_t)seccomp_filter,
	};

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
