# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# run: bytes, codes, signals, the reader that goes, what is left.
load helper

@test "both streams, byte for byte" {
    head -c 300000 /dev/urandom >art/bytes
    berth run art -- sh -c 'cat bytes; head -c 1000 bytes >&2' >out 2>err
    cmp out art/bytes
    cmp err <(head -c 1000 art/bytes)
}

@test "exit codes" {
    for n in 0 1 42 124 125 126 127 137 200 255; do
        code $n berth run art -- sh -c "exit $n"
        same "$stderr" ''
    done
    for s in TERM KILL SEGV USR1 HUP; do
        n=$(kill -l $s)
        code $((128 + n)) berth run art -- sh -c "kill -$s \$\$"
    done
}

@test "not found is 127, not executable 126, other failures 125" {
    code 127 berth run art -- nope-nope
    has "$stderr" 'berth: run: launch failed'
    code 127 berth run art -- ./nope
    echo '#!/bin/sh' >art/plain
    chmod 644 art/plain
    code 126 berth run art -- ./plain
    code 125 berth run art -w nope -- true
    code 125 berth run art --install 'exit 1' -- true
    has "$stderr" install
    code 2 berth run art -e 1x=1 -- true
}

@test "a timeout is 124 and says so; a worker's own 124 says nothing" {
    code 124 berth run art --timeout 100ms -- sleep 1000
    has "$stderr" 'timed_out in execution'
    code 124 berth run art --timeout 100ms -q -- sleep 1000
    same "$stderr" ''
}

@test "--status-file gets the state" {
    code 3 berth run art --id a --status-file st -- sh -c 'echo hi; exit 3'
    is "$(cat st)" '.state == "exited" and .exitCode == 3 and .executionId == "a" and .mode == "job"'
    is "$(cat st)" '.stdoutBytes == 3 and .stderrBytes == 0 and (.stdoutHash | test("^xxh3-128:[0-9a-f]{32}$"))'
    same "$(wc -l <st)" 1
}

@test "--status-file gets the error" {
    code 2 berth run art --status-file st -e 1x=1 -- true
    is "$(cat st)" '.error.type == "invalid_request"'
    code 0 berth run art --id a -- true
    code 125 berth run art --id a --status-file st -- false
    is "$(cat st)" '.error.type == "conflict"'
    code 127 berth run art --status-file st -- ./nope
    is "$(cat st)" '.state == "failed" and .phase == "launch"'
    code 2 berth run art --status-file nope/st -- true
}

@test "the id: generated, printed with -v, given" {
    code 0 berth run art -- true
    same "$stderr" ''
    code 0 berth run art -v -- true
    [[ $stderr =~ execution\ (run-[a-z0-9]+) ]]
    is "$(berth status "${BASH_REMATCH[1]}" --json)" '.mode == "job" and .state == "exited"'
}

@test "the same request again streams from byte 0 and launches nothing" {
    echo 0 >count
    cmd=(sh -c "echo one; echo two >&2; echo x >>$PWD/count; exit 5")
    code 5 berth run art --id a -- "${cmd[@]}"
    code 5 berth run art --id a -- "${cmd[@]}"
    same "$output" one
    same "$stderr" two
    same "$(wc -l <count)" 2
}

@test "--rm removes the record" {
    code 4 berth run art --id a --rm -- sh -c 'exit 4'
    code 3 berth status a
    code 127 berth run art --id a --rm -- ./nope
    code 3 berth status a
}

# interrupted SIGNAL SCRIPT: runs it, sends the signal when it is ready; $code, out, err.
interrupted() {
    local line
    mkfifo pipe
    berth run art --id a -- sh -c "$2" >pipe 2>err &
    pid=$!
    exec 4<pipe
    read -r line <&4
    same "$line" ready
    kill "-$1" $pid
    code=0
    wait $pid || code=$?
    cat <&4 >out
    exec 4<&-
}

@test "INT and TERM cancel, and what is said last still comes" {
    interrupted INT "$polite"
    same "$code" 130
    same "$(cat out)" bye
    is "$(berth status a --json)" '.state == "cancelled" and .exitCode == 0'
}

@test "TERM is 143" {
    interrupted TERM "$waiting"
    same "$code" 143
    is "$(berth status a --json)" '.state == "cancelled" and .signal == "SIGTERM"'
}

@test "a second signal kills" {
    mkfifo pipe
    berth run art --id a --grace 1h -- sh -c 'trap "echo no" TERM; echo ready; while :; do sleep 1000 & wait $!; done' >pipe &
    pid=$!
    exec 4<pipe
    read -r line <&4
    kill -INT $pid
    read -r line <&4
    same "$line" no
    kill -INT $pid
    code=0
    wait $pid || code=$?
    exec 4<&-
    same "$code" 130
    is "$(berth status a --json)" '.state == "cancelled" and .signal == "SIGKILL"'
}

@test "HUP leaves it running and says how to wait" {
    interrupted HUP "$waiting"
    same "$code" 129
    has "$(cat err)" 'hint: berth wait'
    is "$(berth status a --json)" '.state == "running"'
    code 0 berth cancel a
}

@test "the reader of stdout goes: cancelled, 141, also when the worker is silent" {
    set +o pipefail
    code=0
    { berth run art --id a -- sh -c "$waiting" || echo $? >code; } | head -n 1 >out
    same "$(cat code)" 141
    is "$(berth status a --json)" '.state == "cancelled"'
    { berth run art --id b -- sh -c 'while :; do echo y; done' || echo $? >code; } | head -n 1 >out
    same "$(cat code)" 141
    is "$(berth status b --json)" '.state == "cancelled"'
}

@test "the caller dies: the execution goes on" {
    mkfifo pipe
    berth run art --id a -- sh -c "$waiting" >pipe &
    pid=$!
    exec 4<pipe
    read -r line <&4
    kill -KILL $pid
    wait $pid || :
    exec 4<&-
    is "$(berth status a --json)" '.state == "running"'
    code 0 berth cancel a
}

@test "limits on output: head, tail, and the gap on stderr" {
    code 0 berth run art --output-limit 64K -- sh -c 'head -c 1000000 /dev/zero | tr "\0" x; echo end'
    [[ $output == xxx*end ]]
    # A reader that keeps up sees everything; a later one sees the gap.
    code 0 berth run art --id a --output-limit 64K -- sh -c 'head -c 1000000 /dev/zero | tr "\0" x; echo end' >/dev/null
    code 0 berth logs a
    [[ $stderr =~ ^berth:\ stdout:\ bytes\ ([0-9]+)-([0-9]+)\ were\ not\ kept$ ]]
    same $((${#output} + 1 + BASH_REMATCH[2] - BASH_REMATCH[1])) 1000004
}

@test "an interrupt before the launch ends it at once" {
    mkfifo input
    berth run art --id a --stdin input -- cat &
    pid=$!
    exec 4>input # it reads its input, before anything is launched
    kill -TERM $pid
    code=0
    wait $pid || code=$?
    exec 4>&-
    same "$code" 143
    code 3 berth status a
}

@test "an interrupt during the install ends it at once, and the install too" {
    mkfifo begun held
    berth run art --id a --install "exec 3>$PWD/held; echo begun >$PWD/begun; exec sleep 1000" -- true 2>err &
    pid=$!
    exec 4<held
    read -r line <begun
    same "$line" begun
    kill -INT $pid
    code=0
    wait $pid || code=$?
    same "$code" 130
    has "$(cat err)" 'nothing was launched'
    # The end of file comes when nobody holds the pipe any more.
    timeout 20 cat <&4
    exec 4<&-
    code 3 berth status a
    code 0 berth run art --id a -- true
}

@test "under nohup HUP stays ignored" {
    mkfifo pipe
    (trap '' HUP; exec berth run art --id a -- sh -c "$polite" >pipe) &
    pid=$!
    exec 4<pipe
    read -r line <&4
    kill -HUP $pid
    kill -TERM $pid
    code=0
    wait $pid || code=$?
    exec 4<&-
    same "$code" 143
    is "$(berth status a --json)" '.state == "cancelled"'
}

# Where a worker can stop its own supervisor: no PID namespace to keep them apart. The limits are
# those of a user namespace of our own. (A function would stand between us and the process.)
subreaper=(unshare -Urm sh -c 'echo 0 >/proc/sys/user/max_pid_namespaces
    echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"' sh)

# The stopped supervisor goes on at the end, so that it can be ended.
@test "a supervisor that does not answer: cancel says so, and so does a signalled run" {
    "${subreaper[@]}" true || skip 'no user namespaces'
    mkfifo pipe
    "${subreaper[@]}" berth run art --id a --grace 1h -- \
        sh -c 'echo $PPID; exec sleep 1000' >pipe 2>err &
    pid=$!
    exec 4<pipe
    read -r supervisor <&4
    kill -STOP "$supervisor"
    until [ "$(awk '{ print $3 }' "/proc/$supervisor/stat")" = T ]; do :; done
    start=$SECONDS
    code 5 berth cancel a --grace 0
    has "$stderr" 'the supervisor of "a" does not answer'
    [ $((SECONDS - start)) -lt 30 ]
    kill -TERM $pid
    kill -TERM $pid
    code=0
    wait $pid || code=$?
    exec 4<&-
    [ $((SECONDS - start)) -lt 60 ]
    kill -CONT "$supervisor"
    local ended=$code
    code 0 berth cancel a --grace 0
    same "$ended" 125
    has "$(cat err)" 'berth: run: cancel: the supervisor of "a" does not answer'
    has "$(cat err)" 'hint: berth status'
}

@test "nothing of the limits and the nice value of who starts the sandbox sticks to it" {
    (ulimit -S -f 4000 && ulimit -S -n 64 && ulimit -S -u 700 && ulimit -S -t 300 &&
        exec nice -n 5 berth run art -- true)
    code 0 berth run art -- sh -c 'ulimit -S -f; ulimit -S -t; [ $(ulimit -S -n) = $(ulimit -H -n) ] && nice'
    same "${lines[0]}" "$(ulimit -H -f)"
    same "${lines[1]}" "$(ulimit -H -t)"
    # Without CAP_SYS_NICE it cannot be taken back.
    (($(awk '/^CapEff/ { print "0x" $2 }' /proc/self/status) >> 23 & 1)) || return 0
    same "${lines[2]}" 0
}

@test "a file that may not grow is told, not a death without a word" {
    code=0
    (ulimit -f 8 && exec berth run art -- true) 2>err || code=$?
    same "$code" 125
    has "$(cat err)" 'File too large'
    # And a process of ours gets the signal back.
    code 0 berth run art -- sh -c 'grep SigIgn /proc/self/status'
    [[ $output =~ 0000000000000000$ ]]
}

@test "no descriptors left is told as that" {
    local n
    for n in 6 7 8 9 10 11 12 13 14 16 20 30 40; do
        code=0
        # Those that this shell has open would count, too.
        (exec 3>&- 4>&- && ulimit -n $n && exec berth run art -- true) 2>err || code=$?
        [ $code != 0 ] || continue
        same "$code" 125
        [[ $(<err) =~ 'Too many open files'|'No file descriptors available' ]]
    done
}
