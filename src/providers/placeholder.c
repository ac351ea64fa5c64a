/* SPDX-License-Identifier: MIT */
/* Keeps this library non-empty until it has a source of its own; then delete this file. */
extern int berth_placeholder_providers;
int berth_placeholder_providers;
