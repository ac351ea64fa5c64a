# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# The examples are built as anybody would build them, and run; links in the pages lead somewhere.
load ../cli/helper

root=${BERTH_SOURCE_ROOT:?}
SPEC='local:t?isolation=none'

build() { # build COMPILER STANDARD SOURCE
    local sanitize=()
    ! ldd "$BERTH_BUILD_ROOT/libberth.so" | grep -q libasan || sanitize=(-fsanitize=address -fsanitize=undefined)
    "$1" "-std=$2" -Wall -Wextra -Wpedantic -Werror -I"$root/include" "$root/examples/c/$3" \
        "${sanitize[@]}" -o "${3%.*}" -L"$BERTH_BUILD_ROOT" -Wl,-rpath,"$BERTH_BUILD_ROOT" -lberth
}

@test "run_worker.c" {
    build cc c99 run_worker.c
    echo 'echo hi; exit 4' >art/w
    code 4 ./run_worker "$SPEC" art c1 sh w
    same "$output" 'exited 4'
    has "$stderr" launched
    code 4 ./run_worker "$SPEC" art c1 sh w
    has "$stderr" found
    code 4 ./run_worker "$SPEC" art c1 sh other
    has "$stderr" c1
    code 125 ./run_worker "$SPEC" art c2 ./nope
    has "$output" failed
    code 2 ./run_worker
}

@test "follow.c" {
    build cc c99 follow.c
    berth run art --id f -- sh -c 'echo one; echo two >&2'
    code 0 ./follow "$SPEC" f
    has "$output" 'stdout 0: one'
    has "$output" 'stderr 0: two'
    has "$output" 'f: exited'
    code 3 ./follow "$SPEC" nope
}

@test "exec.c" {
    build cc c99 exec.c
    run bash -c "echo in | ./exec '$SPEC' sh -c 'cat; exit 6'"
    same "$status" 6
    same "$output" in
}

@test "list.cpp" {
    require cxx 'no C++ compiler'
    build c++ c++14 list.cpp
    berth run art --id a -- sh -c 'exit 1' || :
    berth run art --id b -- true
    code 0 ./list "$SPEC"
    same "$output" $'b exited true\na exited sh -c exit 1'
}

@test "the worker: its dependency, both streams, TERM" {
    require npm-registry 'no registry of npm packages'
    not grep -q resolved "$root/examples/worker/package-lock.json"
    code 0 berth run "$root/examples/worker" -- node worker.js convert '2 days'
    same "$output" '2 days = 172800000 ms'
    has "$stderr" 'worker: 1 of 1 converted'
    [ ! -e "$root/examples/worker/node_modules" ]
    code 0 berth deploy "$root/examples/worker" --id w -- node worker.js tick 10ms
    same "$(berth logs w -f --stream stdout 2>/dev/null | head -n 1)" 'tick 1'
    code 0 berth cancel w --json
    is "$output" '.state == "cancelled" and .exitCode == 0'
    has "$(berth logs w 2>&1)" 'TERM: finishing'
}

@test "the demo" {
    require npm-registry 'no registry of npm packages'
    BERTH_SANDBOX='local:demo?isolation=none' code 0 "$root/examples/demo" "$BERTH_BUILD_ROOT"
    has "$output" '2 days = 172800000 ms'
    has "$output" 'exit code 4'
    has "$output" 'clock-1 cancelled'
    has "$output" 'local:demo destroyed'
}

@test "links between the pages lead somewhere" {
    cd "$root"
    for page in README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md examples/c/README.md; do
        grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | while read -r link; do
            case $link in http*) continue ;; esac
            [ -e "$(dirname "$page")/$link" ] || { echo "$page: $link" >&2; exit 1; }
        done
    done
}

@test "README begins with the two commands" {
    head -n 4 "$root/README.md" >head
    grep -q '^make demo' head
    grep -q '^make check' head
}
