# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# What is wrong with a command line, and how it is said. Nothing here reaches a sandbox.
load helper

@test "no verb" {
    code 2 berth
    same "$output" ''
    same "${stderr_lines[0]}" 'berth: no verb given'
    same "${stderr_lines[1]}" 'hint: berth help'
}

@test "unknown verbs, and those of later versions" {
    for v in frobnicate server serve token __man; do
        code 2 berth "$v"
        same "${stderr_lines[0]}" "berth: unknown verb \"$v\""
    done
    code 2 berth sandbox frobnicate
    same "${stderr_lines[0]}" 'berth: sandbox: unknown verb "frobnicate"'
    code 2 berth sandbox
    has "$stderr" 'no verb given behind "sandbox"'
}

@test "the nearest verb and option are suggested" {
    code 2 berth stauts x
    same "${stderr_lines[1]}" 'hint: did you mean `berth status`?'
    code 2 berth sandbox detsroy
    same "${stderr_lines[1]}" 'hint: did you mean `berth sandbox destroy`?'
    code 2 berth deploy art --memroy 3
    same "${stderr_lines[0]}" 'berth: deploy: unknown option "--memroy"'
    same "${stderr_lines[1]}" 'hint: did you mean --memory?'
    code 2 berth logs x --zzzzzzzz
    same "${stderr_lines[1]}" 'hint: berth help logs'
}

@test "global options before and after the verb" {
    code 2 berth --json status 'a b'
    is "$output" '.error.type == "invalid_request"'
    code 2 berth status 'a b' --json
    is "$output" '.error.type == "invalid_request" and (.error | keys == ["message", "type"])'
    code 2 berth status --nope --json
    is "$output" '.error.message == "unknown option \"--nope\""'
    code 2 berth -s 'nope:x' status a
    has "$stderr" nope
    code 2 berth status a --sandbox='nope:x'
    has "$stderr" nope
}

@test "an unknown provider lists the known ones, an unknown key too" {
    code 2 berth status a -s 'nope:x'
    has "$stderr" local
    code 2 berth status a -s 'local:x?nope=1'
    has "$stderr" isolation
    for spec in 'local:' 'local:a/b' 'local' ':x' 'local:.x' 'local:x?isolation' ''; do
        code 2 berth status a -s "$spec"
    done
}

@test "run and exec refuse --json and print nothing on stdout" {
    code 2 berth run art --json -- true
    same "$output" ''
    has "$stderr" '--status-file'
    code 2 berth --json exec -- true
    same "$output" ''
    [ ! -e "$BERTH_STATE" ]
}

@test "ids" {
    long=$(printf 'a%.0s' {1..128})
    for id in '' . .a -- 'a b' a/b ä "${long}a" 'a
b'; do
        for verb in status wait logs cancel rm; do
            code 2 berth "$verb" "$id"
        done
        code 2 berth deploy art --id "$id" -- true
        code 2 berth relaunch a --id "$id"
    done
    code 3 berth status "$long"
}

@test "missing and superfluous arguments" {
    code 2 berth status
    has "$stderr" 'no ID given'
    code 2 berth status a b
    has "$stderr" 'unexpected argument "b"'
    code 2 berth deploy --id x -- true
    has "$stderr" 'no DIR given'
    code 2 berth deploy art --id x
    has "$stderr" 'no command given'
    code 2 berth deploy art --id x --
    has "$stderr" 'no command given'
    code 2 berth deploy art -- true
    has "$stderr" 'no --id given'
    code 2 berth run art true
    has "$stderr" 'unexpected argument "true"'
    code 2 berth exec
    code 2 berth cp a
    code 2 berth relaunch a
    code 2 berth relaunch a --id a
    code 2 berth logs a --offset
    code 2 berth ps a
    [ ! -e "$BERTH_STATE" ]
}

@test "options that need a value, have none, or are given twice" {
    code 2 berth wait a --timeout
    code 2 berth ps --json=1
    code 2 berth deploy art --id x --stdin a --stdin b -- true
    has "$stderr" '--stdin is given twice'
    code 2 berth deploy art --id x --input a=b --input c=d -- true
    code 2 berth deploy art --id x --stdin a --input c=d -- true
    code 2 berth deploy art --id x --install a --no-install -- true
    code 2 berth deploy art --id x --mode other -- true
    has "$stderr" 'worker|job'
    code 2 berth logs a --stream both
    code 2 berth logs a --json
    code 2 berth logs a -n 1 --offset 0
    code 2 berth relaunch a --id b --no-input --stdin x
    code 2 berth exec --session a --attach b
    code 2 berth exec --attach b -- true
    code 2 berth exec --session 'a b' -- true
}

@test "durations" {
    for d in 0 0s 0ms -1 1d 1.s '' x 1e3 '1 s' ' 1' 99999999999h; do
        code 2 berth wait a --timeout="$d"
        code 2 berth deploy art --id x --timeout="$d" -- true
    done
    for d in 1 0.05 250ms 10s 5m 2h 1.5h; do
        code 3 berth wait a --timeout "$d"
    done
    code 2 berth cancel a --grace -1
    code 3 berth cancel a --grace 0
    code 2 berth sandbox destroy --delay -1
    code 2 berth sandbox destroy --attempts 0
    code 2 berth prune --older-than 0
}

@test "sizes and numbers" {
    for s in 0 -1 1X K '' 1.5 1KK 99999999999G; do
        code 2 berth logs a --max-bytes="$s"
        code 2 berth deploy art --id x --memory="$s" -- true
        code 2 berth deploy art --id x --output-limit="$s" -- true
    done
    for s in 1 4096 1K 1.5M; do
        code 3 berth logs a --max-bytes "$s"
    done
    code 3 berth logs a --offset 0
    code 3 berth logs a -n 0
    code 3 berth logs a -n5
    code 2 berth logs a -n -1
    for n in 0 x -1 1.5; do
        code 2 berth deploy art --id x --pids="$n" -- true
        code 2 berth deploy art --id x --open-files="$n" -- true
    done
    for n in 0 x -1; do
        code 2 berth deploy art --id x --cpus="$n" -- true
    done
}

@test "variables: names, unset ones, and no value in any message" {
    for e in '1A=geheim' '=geheim' 'A-B=geheim' 'A B=geheim' 'geheim geheim'; do
        code 2 berth deploy art --id x -e "$e" -- true
        [[ $stderr != *geheim* ]]
        code 2 berth exec -e "$e" -- true
        [[ $stderr != *geheim* ]]
    done
    unset NOT_THERE
    code 2 berth deploy art --id x -e NOT_THERE -- true
    has "$stderr" 'NOT_THERE is not set'
    code 2 berth deploy art --id x -eNOT_THERE -- true
    # A forgotten -e, and an option that is none.
    code 2 berth deploy art TOKEN=geheim --id x -- true
    [[ $stderr != *geheim* ]]
    code 2 berth deploy art --id x --nev=geheim -- true
    [[ $stderr != *geheim* ]]
}

@test "env files" {
    code 2 berth deploy art --id x --env-file none -- true
    has "$stderr" 'No such file'
    printf '# comment\n\nA=1\nB-C=geheim\n' >env
    code 2 berth deploy art --id x --env-file env -- true
    has "$stderr" 'env:4'
    [[ $stderr != *geheim* ]]
    printf 'A=1\nNOT_THERE\n' >env
    code 2 berth deploy art --id x --env-file env -- true
    has "$stderr" 'env:2: a line without'
    printf 'A="x\nMIIEgeheim\n' >env
    code 2 berth deploy art --id x --env-file env -- true
    has "$stderr" 'env:2'
    [[ $stderr != *geheim* ]]
    printf 'A=x\0y\n' >env
    code 2 berth deploy art --id x --env-file env -- true
}

@test "help is on stdout, for everything" {
    code 0 berth --help
    has "$output" 'usage: berth'
    same "$stderr" ''
    code 0 berth help
    has "$output" 'sandbox destroy'
    code 0 berth help sandbox destroy
    has "$output" '--attempts'
    code 0 berth sandbox destroy --help
    has "$output" '--attempts'
    code 0 berth run -h
    has "$output" '--output-limit'
    code 2 berth help nope
}

@test "version" {
    code 0 berth version
    [[ $output =~ ^berth\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    code 0 berth version --json
    is "$output" '.version | test("^[0-9]+[.][0-9]+[.][0-9]+$")'
    code 0 berth --version
}

@test "an unwritable stdout is an error" {
    [ -w /dev/full ] || skip 'no /dev/full'
    run bash -c 'berth help >/dev/full'
    [ "$status" = 1 ]
    has "$output" 'cannot write to stdout'
}

@test "help costs no library that it does not use" {
    run ldd "$BERTH"
    [[ $output != *libcrypto* && $output != *libcurl* && $output != *libpthread* ]]
}
