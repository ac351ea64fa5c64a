#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the names of the prerequisites (tests/prerequisites) that this machine has, space-separated:
# the value of BERTH_HAVE. With -v, a line per prerequisite on stderr. Those that BERTH_REQUIRE names
# and that are missing are an error: exit 1 (the tests that need them fail, too).
set -u
here=$(cd "$(dirname "$0")" && pwd)
verbose=false
[ "${1:-}" = -v ] && verbose=true
have='' missing='' known=' '

trim() { printf '%s' "$1" | sed 's/^[[:space:]]*//; s/[[:space:]]*$//'; }

while IFS= read -r line; do
    case $line in '#'* | '') continue ;; esac
    name=$(trim "${line%%|*}")
    # A | inside the test is written \|
    check=$(printf '%s' "$line" | sed 's/\\|/\x01/g' | cut -d'|' -f2 | sed 's/\x01/|/g')
    known="$known$name "
    if timeout 30 sh -c "$check" </dev/null >/dev/null 2>&1; then
        have="$have $name"
        $verbose && echo "have    $name" >&2
    else
        $verbose && echo "missing $name" >&2
        case " $(echo "${BERTH_REQUIRE:-}" | tr ',\n' '  ') " in
        *" $name "*) missing="$missing $name" ;;
        esac
    fi
done <"$here/prerequisites"

echo "${have# }"
for name in $(echo "${BERTH_REQUIRE:-}" | tr ',' ' '); do
    case $known in
    *" $name "*) ;;
    *) missing="$missing $name(unknown)" ;;
    esac
done
if [ -n "$missing" ]; then
    echo "prereq: required and missing:$missing" >&2
    exit 1
fi
