/* SPDX-License-Identifier: MIT */
/*
 * walls.c: who the workers of an isolated sandbox are, and what they do not see.
 */
#include "agent/walls.h"

