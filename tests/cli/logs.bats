# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# logs: raw, -n, offsets, JSON, -f, and the reader that goes.
load helper

ended() { berth run art --id "$1" "${@:2}" >/dev/null 2>&1 || :; }

@test "both streams to their own fd" {
    ended a -- sh -c 'printf "out\n\0x"; printf err >&2'
    berth logs a >out 2>err
    cmp out <(printf 'out\n\0x')
    cmp err <(printf err)
    code 0 berth logs a --stream stdout
    same "$stderr" ''
    code 0 berth logs a --stream stderr
    same "$output" err
    same "$stderr" ''
}

@test "-n" {
    ended a -- sh -c 'seq 1 100000; printf "e1\ne2\nlast" >&2'
    code 0 berth logs a -n 2
    same "$output" $'99999\n100000'
    same "$stderr" $'e2\nlast'
    code 0 berth logs a -n 0
    same "$output$stderr" ''
    code 0 berth logs a -n 1000000 --stream stdout
    same "$output" "$(seq 1 100000)"
    same "$(berth logs a -n 70000 --stream stdout | head -n 1)" 30001
    ended b -- true
    code 0 berth logs b -n 5
    same "$output" ''
}

@test "--offset and --max-bytes" {
    ended a -- printf 0123456789
    code 0 berth logs a --offset 3
    same "$output" 3456789
    code 0 berth logs a --offset 3 --max-bytes 4
    same "$output" 3456
    code 0 berth logs a --offset 99
    same "$output" ''
    code 0 berth logs a --max-bytes 4 -f
    same "$output" 0123
}

@test "--json: one object" {
    ended a -- printf 0123456789
    code 0 berth logs a --json --stream stdout
    is "$output" 'keys_unsorted == ["stream","data","offset","nextOffset","totalBytes","eof","truncated","interrupted"]'
    is "$output" '(.data | @base64d) == "0123456789" and .stream == "stdout" and .offset == 0 and .nextOffset == 10'
    is "$output" '.totalBytes == 10 and .eof and (.truncated or .interrupted | not)'
    code 0 berth logs a --json --stream stdout --offset 2 --max-bytes 3
    is "$output" '(.data | @base64d) == "234" and .offset == 2 and .nextOffset == 5 and .truncated and (.eof | not)'
    code 0 berth logs a --json --stream stdout --offset 50
    is "$output" '.data == "" and .offset == 50 and .nextOffset == 50'
    code 0 berth logs a --json --stream stderr
    is "$output" '.data == "" and .eof and .stream == "stderr"'
    code 0 berth logs a --json --stream stdout -n 1
    is "$output" '(.data | @base64d) == "0123456789"'
}

@test "--json of one that runs is no eof" {
    started a "$waiting"
    code 0 berth logs a --json --stream stdout
    is "$output" '(.eof | not) and (.interrupted | not) and .nextOffset == 6'
    code 0 berth logs a --json --stream stdout --offset 6
    is "$output" '.data == "" and (.eof | not)'
}

@test "binary survives JSON" {
    head -c 70000 /dev/urandom >art/b
    ended a -- cat b
    cmp <(berth logs a --json --stream stdout | jq -j .data | base64 -d) art/b
    cmp <(berth logs a --json --stream stdout -f --max-bytes 1000 | jq -r .data | while read -r l; do base64 -d <<<"$l"; done) art/b
}

@test "--json -f: one per line to eof, exit as the execution" {
    started a "$polite"
    berth logs a --json --stream stdout -f >lines &
    pid=$!
    code 0 berth cancel a
    c=0
    wait $pid || c=$?
    same "$c" 0
    is "$(tail -n 1 lines)" '.eof'
    same "$(jq -r '.data' lines | while read -r l; do base64 -d <<<"$l"; done)" $'ready\nbye'
    # Each begins where the one before ended.
    is "$(jq -s . lines)" '. as $a | [range(1; length)] | all(. as $i | $a[$i].offset == $a[$i - 1].nextOffset)'
}

@test "-f goes on to the end and exits as the execution" {
    started a 'trap "echo bye; exit 6" TERM; echo ready; while :; do sleep 1000 & wait $!; done'
    berth logs a -f >out &
    pid=$!
    code 0 berth cancel a
    c=0
    wait $pid || c=$?
    same "$c" 6
    same "$(cat out)" $'ready\nbye'
    code 6 berth logs a -f
}

@test "ending the watching leaves the execution alone" {
    started a 'echo ready; while :; do echo more; done'
    set +o pipefail
    { berth logs a -f || echo $? >code; } | head -n 2 >/dev/null
    same "$(cat code)" 141
    is "$(berth status a --json)" '.state == "running"'
    berth logs a -f >/dev/null &
    pid=$!
    became_berth $pid
    kill -INT $pid || :
    kill -TERM $pid
    wait $pid || :
    is "$(berth status a --json)" '.state == "running"'
    code 0 berth cancel a --grace 0
}

@test "-f --json of one that ends with its sandbox tells that end" {
    for end in stop destroy; do
        signal=143
        [ $end = stop ] || signal=137 # without a grace
        started a "$waiting"
        mkfifo pipe
        berth logs a -f --json --stream stdout >pipe &
        pid=$!
        exec 4<pipe
        read -r line <&4
        is "$line" '(.data | @base64d) == "ready\n" and (.eof | not)'
        code 0 berth sandbox $end
        cat <&4 >rest
        exec 4<&-
        c=0
        wait $pid || c=$?
        same "$c" $signal
        is "$(tail -n 1 rest)" '.eof and .totalBytes == 6 and .nextOffset == 6 and (.interrupted or .truncated | not)'
        rm pipe
        [ $end = destroy ] && break
        # One who comes later cannot ask.
        code 0 berth logs a --json --stream stdout
        is "$output" '.interrupted and (.eof | not)'
        code 5 berth logs a -f --json --stream stdout
        code 0 berth sandbox start
        code 0 berth rm a
    done
}

@test "-n counts the lines before a gap, too" {
    ended a --output-limit 100 -- sh -c 'seq -f line%g 1000; printf "e\n" >&2'
    berth logs a --stream stdout >all 2>gap
    has "$(cat gap)" 'berth: stdout: bytes 50-7843 were not kept'
    total=$(wc -l <all)
    for n in 1 $((total - 8)) $((total - 7)) $((total - 6)) $((total - 1)) "$total" 10000; do
        berth logs a --stream stdout -n "$n" >some 2>told
        cmp some <(tail -n "$n" all)
        # It is said when the gap lies in what was printed.
        if [ "$(wc -c <some)" -gt 50 ]; then cmp told gap; else same "$(cat told)" ''; fi
    done
    code 0 berth logs a -n 10000
    has "$stderr" e
}

@test "a gap is told and skipped" {
    ended a --output-limit 64K -- sh -c 'head -c 300000 /dev/zero | tr "\0" x; printf "\nlast\n"'
    code 0 berth logs a --json --stream stdout --max-bytes 1M
    is "$output" '.nextOffset < .totalBytes and .totalBytes == 300006 and .truncated'
    next=$(jq .nextOffset <<<"$output")
    code 0 berth logs a --json --stream stdout --offset "$next" --max-bytes 1M
    is "$output" ".gap.from <= $next and .offset == .gap.to"
    code 0 berth logs a -n 1
    same "$output" last
    same "$stderr" ''
    code 0 berth logs a --offset 1 --max-bytes 3
    same "$output" xxx
}

# The reader begins when the pipe is full: what did not fit must be waited for.
@test "JSON on a stdout that does not block is whole" {
    require python3 'no python3'
    berth run art --id big -- sh -c 'head -c 1000000 /dev/zero' >/dev/null
    python3 - berth logs big --json --stream stdout --max-bytes 2M >out <<'EOF'
import fcntl, os, select, subprocess, sys, termios
r, w = os.pipe()
fcntl.fcntl(w, fcntl.F_SETFL, os.O_NONBLOCK)
size = fcntl.fcntl(w, 1032)  # F_GETPIPE_SZ
p = subprocess.Popen(sys.argv[1:], stdout=w)
os.close(w)
pidfd = os.pidfd_open(p.pid)
while not select.select([pidfd], [], [], 0.001)[0]:
    waiting = fcntl.ioctl(r, termios.FIONREAD, b"\0" * 4)
    if int.from_bytes(waiting, sys.byteorder) >= size:
        break
while data := os.read(r, 1 << 16):
    os.write(1, data)
sys.exit(p.wait())
EOF
    is "$(cat out)" '(.data | length) == 1333336 and .eof'
}
