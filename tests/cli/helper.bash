# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests of the command line share. A sandbox of its own for each test, destroyed after it.
#
# Nothing here waits for time: workers say that they are ready on stdout, and a test reads that
# through a pipe or `berth logs -f`.

load ../helper

bats_require_minimum_version 1.5.0

setup() {
    require jq 'no jq'
    berth_setup
    cd "$BATS_TEST_TMPDIR" || return 1
    export BERTH_SANDBOX='local:t?isolation=none'
    mkdir art
    PATH=$(dirname "$BERTH"):$PATH
}

teardown() {
    "$BERTH" sandbox destroy -q >/dev/null 2>&1 || :
}

# is JSON EXPRESSION: a jq expression that must be true of every object in JSON.
is() {
    jq -e "$2" <<<"$1" >/dev/null && return 0
    printf 'not true: %s\nof: %s\n' "$2" "$1" >&2
    return 1
}

# same A B
same() {
    [ "$1" = "$2" ] && return 0
    printf 'got:  %q\nwant: %q\n' "$1" "$2" >&2
    return 1
}

# has TEXT PART
has() {
    case $1 in *"$2"*) return 0 ;; esac
    printf 'in:      %s\nmissing: %s\n' "$1" "$2" >&2
    return 1
}

# not CMD…: it must fail. (A plain ! would assert nothing.)
not() {
    if "$@"; then
        printf 'succeeded: %s\n' "$*" >&2
        return 1
    fi
}

# code N CMD…: runs it; $output and $stderr as with run.
code() {
    # -N as an option only where bats wants it: otherwise our own message says more.
    if [ "$1" = 127 ]; then
        run -127 --separate-stderr "${@:2}"
    else
        run --separate-stderr "${@:2}"
    fi
    # shellcheck disable=SC2154
    [ "$status" = "$1" ] && return 0
    # shellcheck disable=SC2154
    printf 'exit %s, wanted %s: %s\nstdout: %s\nstderr: %s\n' "$status" "$1" "${*:2}" "$output" \
        "$stderr" >&2
    return 1
}

# ends ID: waits for the end, as an exit code of its own would get in the way.
ends() { berth wait "$1" --timeout 20s >/dev/null || [ $? != 124 ]; }

# A worker that says `ready`, then waits for ever and ends at TERM.
# shellcheck disable=SC2034 # both are used by the tests
waiting='echo ready; exec sleep 1000'
# The same, and it finishes by itself with code 0.
# shellcheck disable=SC2034
polite='trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 1000 & wait $!; done'

# became_berth PID: returns when the background job has become the program. A signal that comes before
# may be lost by bash.
became_berth() {
    until [ "$(cat "/proc/$1/comm")" = berth ]; do :; done
}

# started ID SCRIPT: deploys it and returns when it has said that it is ready.
started() {
    local line
    berth deploy art --id "$1" -- sh -c "$2" >/dev/null
    read -r line < <(berth logs "$1" -f --stream stdout 2>/dev/null)
    same "$line" ready
}
