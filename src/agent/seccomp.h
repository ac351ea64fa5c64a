/* SPDX-License-Identifier: MIT */
/*
 * seccomp.h: the system call filter of an isolated sandbox's programs.
 */
#ifndef AGENT_SECCOMP_H
#define AGENT_SECCOMP_H

/*
 * Puts the filter on the calling thread for ever, and on all that it starts. no_new_privs must be
 * set before. Async-signal-safe, allocates nothing, usable in a child that shares our memory.
 * After it, no call of the denied groups of seccomp_rules.h: as good as the last step before
 * execve. 0, or -1 and errno (EINVAL: a kernel without seccomp filters).
 */
int seccomp_load(void);

#endif
