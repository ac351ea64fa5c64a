/* SPDX-License-Identifier: MIT */
/*
 * The supervisor's table: no cell is empty, and its states can only go forward.
 */
#include "tap.h"

#include "agent/super.h"

TEST(no_cell_is_empty)
{
	for (int st = 0; st < ST_N; st++) {
		for (int ev = 0; ev < EV_N; ev++) {
			if (!super_table[st][ev].act)
				FAIL("state %d, event %d has no action", st, ev);
			ASSERT_LT(super_table[st][ev].to, ST_N);
		}
	}
}

TEST(states_go_forward)
{
	for (int st = 0; st < ST_N; st++) {
		for (int ev = 0; ev < EV_N; ev++)
			ASSERT_GE(super_table[st][ev].to, st);
	}
	/* Nothing leaves the terminal state, and only an empty pipe reaches it. */
	for (int ev = 0; ev < EV_N; ev++) {
		ASSERT_EQ(super_table[ST_TERMINAL][ev].to, ST_TERMINAL);
		ASSERT_EQ(super_table[ST_DRAINING][ev].to,
			  ev == EV_DRAINED ? ST_TERMINAL : ST_DRAINING);
	}
	for (int ev = 0; ev < EV_N; ev++) {
		if (ev != EV_EMPTY)
			ASSERT_NE(super_table[ST_STOPPING][ev].to, ST_DRAINING);
	}
}

TEST_MAIN()
