#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/protocol/agent.md against the numbers in src/wire/: the appendix is current, the table of
# requests has each request and no other, and every field of a frame and of a spec is in the text.
set -u

root=${BERTH_SOURCE_ROOT:?}
page=$root/docs/protocol/agent.md
gen=$root/tools/gen-proto-doc
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 bad=0

# point OK NAME: one line of TAP; what stands in $dir/why is shown when it is not ok.
point() {
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        sed 's/^/# /' "$dir/why"
        bad=1
    fi
}

"$gen" --check >"$dir/why" 2>&1
point $? "the appendix is current"

"$gen" --list >"$dir/list"
awk '/^<!-- numbers: /{exit} {print}' "$page" >"$dir/text"

# Requests are the frame types from 0x20 on.
awk '$1 == "wire_type" && $3 >= 32 { print substr($2, 6) }' "$dir/list" | sort >"$dir/requests"
awk '/^## Requests/{in_table = 1} /^###/{in_table = 0} in_table && /^\| `/{gsub(/`/, "", $2); print $2}' \
    "$dir/text" | sort >"$dir/rows"
[ "$(wc -l <"$dir/requests")" -ge 26 ] && diff "$dir/requests" "$dir/rows" >"$dir/why"
point $? "the table of requests has each request once and no other"

# words PREFIX ENUM: names of an enum that the text does not have as a word.
words() {
    awk -v enum="$2" -v skip="${#1}" '$1 == enum { print substr($2, skip + 1) }' "$dir/list" >"$dir/names"
    while read -r name; do
        grep -qw -e "$name" "$dir/text" || echo "$2: $name is not in the text"
    done <"$dir/names" >"$dir/why"
    [ -s "$dir/names" ] && [ ! -s "$dir/why" ]
    point $? "the text has every name of $2"
}
words WIRE_ wire_type
words WK_ wire_key
words JOURNAL_ journal_type

# A number that is there twice, and an enum without a table, are refused.
mkdir -p "$dir/tree/src/wire" "$dir/tree/docs/protocol"
cp "$page" "$dir/tree/docs/protocol/"
cp "$root/src/wire/spec.h" "$root/src/wire/journal.h" "$dir/tree/src/wire/"
sed 's/WK_KIND = 21/WK_KIND = 20/' "$root/src/wire/proto.h" >"$dir/tree/src/wire/proto.h"
! BERTH_SOURCE_ROOT=$dir/tree "$gen" --check >"$dir/why" 2>&1 && grep -q 'has the number of WK_ID' "$dir/why"
point $? "a number that is there twice is refused"
{ cat "$root/src/wire/proto.h"; echo 'enum new_thing { NEW_ONE = 1 };'; } >"$dir/tree/src/wire/proto.h"
! BERTH_SOURCE_ROOT=$dir/tree "$gen" --check >"$dir/why" 2>&1 && grep -q 'new_thing has no table' "$dir/why"
point $? "an enum without a table is refused"
sed 's/WK_KIND = 21/WK_KIND = 19/' "$root/src/wire/proto.h" >"$dir/tree/src/wire/proto.h"
# shellcheck disable=SC2016 # the backquotes are the page's
! BERTH_SOURCE_ROOT=$dir/tree "$gen" --check >"$dir/why" 2>&1 && grep -q '^+| 19 | `KIND`' "$dir/why"
point $? "a number that changed is seen"
BERTH_SOURCE_ROOT=$dir/tree "$gen" && BERTH_SOURCE_ROOT=$dir/tree "$gen" --check >"$dir/why" 2>&1
point $? "a page that was written is current"

echo "1..$n"
exit $bad
