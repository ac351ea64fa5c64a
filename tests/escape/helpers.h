/* SPDX-License-Identifier: MIT */
#ifndef BERTH_TESTS_HELPERS_H
#define BERTH_TESTS_HELPERS_H
/*
 * helpers.h: the other things that the hostile worker can do, for the driver's own tests.
 */

/* Runs the operation argv[0] with its arguments; the exit code. */
int help_by(int argc, char **argv);

#endif
