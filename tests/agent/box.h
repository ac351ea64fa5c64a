/* SPDX-License-Identifier: MIT */
/*
 * box.h: one real agent with one stream to it, new for each case. Included by one test program,
 * which has these as its own.
 */
#ifndef TESTS_AGENT_BOX_H
#define TESTS_AGENT_BOX_H

#include "run.h"

static struct agent_proc proc;
static struct client c;
static struct state s;
static char box_mark[32]; /* for what runs in this box: found again by it, alive or not */

/* Starts an agent in a directory of its own. @options: of `init`, NULL-terminated, or NULL. */
static inline void begin(uid_t uid, const char *const *options)
{
	static int n;
	char name[32];

	snprintf(name, sizeof(name), "box%d", n);
	snprintf(box_mark, sizeof(box_mark), "mark-%d-%d", getpid(), n++);
	proc = (struct agent_proc){.uid = uid};
	ASSERT_EQ(agent_start(&proc, name, options), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static inline void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

/* A test body for every level: the points are "<test>: <level> <uid>". */
#define LEVELS(ident, seconds)                                            \
	static void body_##ident(const struct level *l);                  \
	TEST_TIMEOUT(ident, seconds)                                      \
	{                                                                 \
		EACH_LEVEL(l)                                             \
		{                                                         \
			LEVEL_REQUIRE(l);                                 \
			SUBTEST("%s%s", l->name, l->uid ? " (user)" : "") \
			{                                                 \
				begin(l->uid, l->options);                \
				body_##ident(l);                          \
				end();                                    \
			}                                                 \
		}                                                         \
	}                                                                 \
	static void body_##ident(const struct level *l)

#endif
