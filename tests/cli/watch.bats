# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# status, wait, cancel: states, codes, and that watching ends nothing.
load helper

@test "an id without a record is exit 3, never a state" {
    for verb in status wait logs cancel rm; do
        code 3 berth "$verb" nope
        has "$stderr" "berth: $verb: "
    done
    for verb in status wait cancel rm; do
        code 3 berth "$verb" nope --json
        is "$output" '.error.type == "not_found" and (has("state") | not)'
    done
    code 0 berth sandbox start
    code 3 berth status nope --json
    is "$output" '.error.type == "not_found"'
}

@test "status of one that runs" {
    started a "$waiting"
    code 0 berth status a --json
    is "$output" 'keys_unsorted[0:3] == ["state", "executionId", "sandbox"]'
    is "$output" '.state == "running" and .mode == "worker" and .stdoutBytes == 6 and .stderrBytes == 0'
    is "$output" '(has("finishedAt") or has("exitCode") or has("stdoutHash")) | not'
    is "$output" '.containment | IN("pidns", "cgroup", "subreaper")'
    is "$output" '.view | IN("overlay", "reflink", "copy")'
    is "$output" '.artifact | test("^[0-9a-f]{64}$")'
    code 0 berth status a
    has "$output" running
}

@test "status of one that has ended" {
    berth run art --id a -- sh -c 'echo hello; echo x >&2; exit 9' >/dev/null 2>&1 || :
    code 0 berth status a --json
    is "$output" '.state == "exited" and .exitCode == 9 and .stdoutBytes == 6 and .stderrBytes == 2'
    is "$output" '.finishedAt >= .startedAt'
    is "$output" '.usage | (.userMs >= 0) and (.systemMs >= 0) and (.maxRssBytes > 0)'
    is "$output" '[.stdoutHash, .stderrHash] | all(test("^xxh3-128:[0-9a-f]{32}$"))'
    berth run art --id b -- sh -c 'kill -SEGV $$' || :
    is "$(berth status b --json)" '.state == "exited" and .signal == "SIGSEGV" and (has("exitCode") | not)'
}

@test "wait ends with the execution, and as it did" {
    started a "$waiting"
    berth wait a --json >waited &
    pid=$!
    code 0 berth cancel a
    c=0
    wait $pid || c=$?
    same "$c" 143
    is "$(cat waited)" '.state == "cancelled" and .signal == "SIGTERM"'
    code 143 berth wait a
    has "$output" 'a cancelled'
}

@test "wait --timeout: 124 with the state as it is, and the execution lives" {
    started a "$waiting"
    code 124 berth wait a --timeout 50ms --json
    is "$output" '.state == "running"'
    is "$(berth status a --json)" '.state == "running"'
}

@test "a signal to wait ends only the waiting" {
    started a "$waiting"
    berth wait a >/dev/null &
    pid=$!
    became_berth $pid
    kill -TERM $pid
    c=0
    wait $pid || c=$?
    same "$c" 143
    is "$(berth status a --json)" '.state == "running"'
}

@test "wait tells failures of launch apart" {
    berth deploy art --id a -- ./nope >/dev/null 2>&1 || :
    code 127 berth wait a
    echo x >art/plain
    berth deploy art --id b -- ./plain >/dev/null 2>&1 || :
    code 126 berth wait b
}

@test "cancel prints the state that was really reached" {
    started a "$waiting"
    code 0 berth cancel a --json
    is "$output" '.state == "cancelled" and .signal == "SIGTERM" and .executionId == "a"'
    code 0 berth cancel a --json
    is "$output" '.state == "cancelled"'
    berth run art --id b -- sh -c 'exit 3' || :
    code 0 berth cancel b --json
    is "$output" '.state == "exited" and .exitCode == 3'
}

@test "cancel --grace 0 kills at once" {
    started a 'trap "" TERM; echo ready; while :; do sleep 1000; done'
    code 0 berth cancel a --grace 0 --json
    is "$output" '.state == "cancelled" and .signal == "SIGKILL"'
}

@test "cancel reaches the whole tree" {
    started a 'setsid sh -c "echo \$\$ >pid; echo ready; exec sleep 1000" & wait'
    view=$(berth exec -- sh -c 'cat berth/x/a/up/pid berth/x/a/view/pid 2>/dev/null; :')
    code 0 berth cancel a --json
    is "$output" '.state == "cancelled"'
    [ -n "$view" ]
}

@test "a stopped sandbox is not woken" {
    started a "$waiting"
    code 0 berth sandbox stop
    code 0 berth status a --json
    is "$output" '.state == "provider_unavailable" and (.providerState | length > 0) and (.message | length > 0)'
    code 5 berth wait a --json
    is "$output" '.state == "provider_unavailable"'
    code 5 berth cancel a --json
    is "$output" '.state == "provider_unavailable"'
    code 0 berth logs a
    same "$output" ready
    code 0 berth logs a --json --stream stdout
    is "$output" '.interrupted or .eof'
    is "$(berth sandbox info --json)" '.status == "stopped"'
}

@test "--wake resumes it and never creates one" {
    started a "$waiting"
    code 0 berth sandbox stop
    code 0 berth status a --wake --json
    is "$output" '.state == "cancelled" and .message == "sandbox stopped"'
    code 0 berth sandbox destroy
    code 0 berth status a --wake --json
    is "$output" '.state == "provider_unavailable" and (.message | contains("local:t"))'
    code 5 berth wait a --wake
    [ -z "$(berth sandbox ls)" ]
}

# keeper ID: the process that holds the record's journal open for writing.
keeper() {
    local fd link=$BERTH_STATE/local/t/home/berth/x/$1/journal
    for fd in /proc/[0-9]*/fd/*; do
        [ "$fd" -ef "$link" ] || continue
        fd=${fd#/proc/}
        echo "${fd%%/*}"
        return 0
    done
    return 1
}

@test "a supervisor that was killed: unknown, final, not terminal" {
    require root 'looks into /proc of others'
    started a "$waiting"
    berth wait a --json >waited &
    pid=$!
    kill -KILL "$(keeper a)"
    c=0
    wait $pid || c=$?
    same "$c" 125
    is "$(cat waited)" '.state == "unknown" and .message == "supervisor gone"'
    code 0 berth status a --json
    is "$output" '.state == "unknown"'
    code 1 berth cancel a --json
    is "$output" '.state == "unknown"'
    code 125 berth logs a -f
    same "$output" ready
    code 0 berth logs a
    code 0 berth logs a --json --stream stdout
    is "$output" '(.eof | not) and .interrupted and .nextOffset == 6'
    code 125 berth run art --id a --mode worker -- sh -c "$waiting"
    has "$stderr" unknown
    code 0 berth rm a
    code 3 berth status a
}
