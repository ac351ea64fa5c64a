#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/seccomp.md is what tools/gen-seccomp makes of the table.
set -u
echo 1..1
made=$(mktemp)
trap 'rm -f "$made"' EXIT
if "$BERTH_BUILD_ROOT/gen-seccomp" --doc "$made" &&
    diff -u "$BERTH_SOURCE_ROOT/docs/seccomp.md" "$made" >&2; then
    echo "ok 1 - docs/seccomp.md is current"
else
    echo "# make it anew: build/gen-seccomp --doc docs/seccomp.md"
    echo "not ok 1 - docs/seccomp.md is current"
fi
