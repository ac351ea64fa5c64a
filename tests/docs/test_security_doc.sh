#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/security.md points to tests that are there: every name behind "escape:" is a row of the suite.
set -u
root=${BERTH_SOURCE_ROOT:?}
echo 1..1
names=$(tr '\n' ' ' <"$root/docs/security.md" | grep -o 'escape: [a-z0-9_, …]*' | sed 's/^escape: //' |
    tr -c 'a-z0-9_\n' ' ' | tr ' ' '\n' | grep '_\|^fds$\|^groups$\|^bpf$\|^capset$\|^devices$\|^routes$\|^sysctls$' | sort -u)
bad=0 n=0
for name in $names; do
    n=$((n + 1))
    grep -q "^X($name," "$root/tests/escape/rows.h" && continue
    echo "# no such attempt: $name"
    bad=1
done
[ "$n" -ge 40 ] || { echo "# only $n names were found"; bad=1; }
[ $bad -eq 0 ] || printf 'not '
echo "ok 1 - the attempts that docs/security.md names are there"
exit $bad
