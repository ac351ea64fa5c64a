# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# exec: stdio, codes, signals, terminals, sessions; cp.
load helper

@test "stdio and exit code" {
    head -c 300000 /dev/urandom >bytes
    berth exec -i -- cat <bytes >out
    cmp out bytes
    code 0 berth exec -- sh -c 'cat; echo out; echo err >&2'
    same "$output" out
    same "$stderr" err
    for n in 0 1 124 126 255; do
        code $n berth exec -- sh -c "exit $n"
    done
    code 143 berth exec -- sh -c 'kill -TERM $$'
}

@test "failures" {
    code 127 berth exec -- nope-nope
    has "$stderr" 'berth: exec:'
    echo x >plain
    berth cp plain :plain
    code 126 berth exec -- ./plain
    code 124 berth exec --timeout 100ms -- sleep 1000
    code 125 berth exec -w /nope/nope -- true
}

@test "variables and working directory" {
    code 0 berth exec -e A=1 -- sh -c 'echo $A; pwd'
    same "${lines[0]}" 1
    same "${lines[1]}" "$(realpath "$BERTH_STATE/local/t/home")"
    code 0 berth exec -w /tmp -- pwd
    same "$output" /tmp
    code 0 berth exec -- mkdir sub
    code 0 berth exec -w sub -- pwd
    [[ $output == */sub ]]
}

@test "--status-file" {
    code 5 berth exec --status-file st -- sh -c 'exit 5'
    is "$(cat st)" '.state == "exited" and .exitCode == 5 and .sandbox == "local:t"'
    code 124 berth exec --status-file st --timeout 50ms -- sleep 1000
    is "$(cat st)" '.state == "timed_out" and .phase == "execution"'
    code 127 berth exec --status-file st -- nope-nope
    is "$(cat st)" '.error.message | contains("nope-nope")'
}

@test "INT, TERM and HUP are passed on" {
    for s in INT TERM HUP; do
        rm -f pipe
        mkfifo pipe
        berth exec -- sh -c "trap 'echo got $s; exit 3' $s; echo ready; while :; do sleep 1000 & wait \$!; done" >pipe &
        pid=$!
        exec 4<pipe
        read -r line <&4
        same "$line" ready
        kill -$s $pid
        read -r line <&4
        same "$line" "got $s"
        c=0
        wait $pid || c=$?
        exec 4<&-
        same "$c" 3
    done
}

@test "a sandbox that does not answer" {
    # Greeted, then silent: the end of the timeout is not told.
    berth exec --timeout 100ms --grace 0 -- sh -c 'echo $PPID >conn; kill -STOP $PPID; exec sleep 1000' 2>late &
    late=$!
    code 0 berth exec -- sh -c 'while read -r k v; do [ $k != PPid: ] || echo $v; done </proc/$PPID/status'
    init=$output
    kill -STOP "$init"
    berth exec -- true 2>mute &
    mute=$!
    for s in TERM:143 INT:130; do
        berth exec -- true 2>ended &
        pid=$!
        # Handled from now on: the first one is kept for the command, a later one ends it.
        until (( 0x$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$pid/status) & 0x4000 )); do :; done
        kill -TERM $pid
        while kill -${s%:*} $pid 2>/dev/null; do read -r -t 0.05 <> <(:) || :; done
        c=0
        wait $pid || c=$?
        same "$c" ${s#*:}
        has "$(cat ended)" 'berth: exec: ended by a second signal: the sandbox does not answer'
        has "$(cat ended)" 'hint: '
    done
    c=0
    wait $mute || c=$?
    same "$c" 125
    has "$(cat mute)" 'berth: exec: the sandbox does not answer'
    c=0
    wait $late || c=$?
    same "$c" 125
    has "$(cat late)" 'timeout and grace are over'
    kill -CONT "$init" "$(cat "$BERTH_STATE/local/t/home/conn")"
    code 0 berth exec -- true
}

@test "what it leaves in the background lives on" {
    code 0 berth exec -- sh -c 'sleep 1000 & echo $! >pid'
    code 0 berth exec -- sh -c 'kill -0 $(cat pid)'
    code 0 berth exec -- sh -c 'kill $(cat pid)'
}

@test "sessions are not in ps" {
    code 0 berth exec -- true
    code 0 berth ps --json
    same "$output" ''
}

@test "-t gives a terminal, whatever stdin is" {
    code 0 berth exec -t -- sh -c 'test -t 1 && stty size; echo $TERM'
    [[ $output == *24\ 80* ]]
}

@test "-it: raw mode, size, detach and attach, and the terminal is put back" {
    require python3 'no python3'
    python3 "$BERTH_SOURCE_ROOT/tests/cli/on_terminal.py" "$BERTH"
}

@test "cp in and out" {
    mkdir -p d/sub
    printf 'a\0b' >d/f
    chmod 750 d/f
    ln -s f d/link
    mkdir d/empty
    code 0 berth cp d :d --json
    same "$output" '{"ok":true}'
    code 0 berth cp :d back
    diff -r --no-dereference d back
    same "$(stat -c '%a %Y' back/f)" "$(stat -c '%a %Y' d/f)"
    [ -L back/link ] && [ -d back/empty ]
    mkdir into
    code 0 berth cp :d/f into
    cmp into/f d/f
    code 0 berth cp d/f :new/
    code 0 berth exec -- test -f new/f
    code 2 berth cp a b
    code 2 berth cp :a :b
    code 3 berth cp :nope x
    code 2 berth cp 'a b:c' x
}

@test "cp from an execution's own directory" {
    berth run art --id a -- sh -c 'echo result >r.txt'
    code 0 berth cp a:r.txt .
    same "$(cat r.txt)" result
    code 3 berth cp b:r.txt x
}

@test "a plain exec ends with its caller, all of it" {
    mkfifo held
    berth exec -- sh -c "exec 3>$PWD/held; setsid sleep 1000 & exec sleep 1000" &
    pid=$!
    exec 4<held
    kill -KILL $pid
    wait $pid || :
    timeout 20 cat <&4
    exec 4<&-
}
