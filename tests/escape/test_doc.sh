#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/escape.md has the table of the attempts as the program itself prints it.
#   test_doc.sh ATTEMPTS [--write]
set -u
page=${BERTH_SOURCE_ROOT:?}/docs/escape.md
mark='<!-- attempts: from tests/escape/rows.h; do not edit below, run tests/escape/test_doc.sh ATTEMPTS --write -->'
new=$(mktemp)
trap 'rm -f "$new"' EXIT
{
    sed "/^<!-- attempts: /,\$d" "$page"
    echo "$mark"
    "$1" --markdown
} >"$new"
if [ "${2-}" = --write ]; then
    cat "$new" >"$page"
    exit
fi
if [ "$("$1" --list | wc -l)" -ge 50 ] && diff "$page" "$new" >"$new.diff"; then
    echo "ok 1 - docs/escape.md is current"
else
    echo "not ok 1 - docs/escape.md is current"
    sed 's/^/# /' "$new.diff"
fi
rm -f "$new.diff"
echo 1..1
