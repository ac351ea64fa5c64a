/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_TEXT_H
#define BERTH_BASE_TEXT_H
/* Text for people. */
#include "base/attr.h"

/*
 * Copies @in to @out as one line that can be shown anywhere: newlines and tabs become spaces,
 * trailing ones go; other control characters (C1 too) and bytes that are no UTF-8 become '?'.
 * @size counts the NUL and is at least 4. When @in does not fit, or @cut says that it was cut
 * before, the result ends in "…"; the cut is at a character boundary. @out and @in do not overlap.
 */
void text_one_line(char *out, size_t size, const char *in, bool cut);

#endif
