# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# sandbox start, stop, destroy, info, ls; doctor.
load helper

@test "start, info, stop, destroy" {
    code 3 berth sandbox info --json
    is "$output" '.error.type == "not_found"'
    code 0 berth sandbox start --json
    is "$output" '.provider == "local" and .name == "t" and .status == "running" and (.sandboxId | length > 0)'
    is "$output" '.isolation == "none" and .ports == {} and .recordsProtected == false'
    is "$output" '.containment == "subreaper" and (.createdAt | test("^[0-9T:.-]+Z$"))'
    id=$(jq -r .sandboxId <<<"$output")
    code 0 berth sandbox start --json
    is "$output" ".sandboxId == \"$id\""
    code 0 berth sandbox info --json
    is "$output" ".sandboxId == \"$id\" and .status == \"running\""
    code 0 berth sandbox stop --json
    is "$output" '.status == "stopped"'
    code 0 berth sandbox stop
    code 0 berth sandbox start --json
    is "$output" ".sandboxId == \"$id\" and .status == \"running\""
    code 0 berth sandbox destroy --json
    is "$output" '.state == "destroyed" and .attempts >= 0 and (has("message") | not)'
    code 0 berth sandbox destroy --attempts 1 --delay 0 --json
    is "$output" '.state == "destroyed"'
    code 3 berth sandbox info
    code 3 berth sandbox stop
}

@test "what guests left in the background ends with the sandbox" {
    code 0 berth exec -- sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!'
    pid=$output
    kill -0 "$pid"
    code 0 berth sandbox stop
    # Where nobody reaps orphans at once, a zombie.
    ! kill -0 "$pid" 2>/dev/null || grep -q '^State:.Z' "/proc/$pid/status"
}

@test "ls" {
    code 0 berth sandbox ls --json
    same "$output" ''
    code 0 berth sandbox start
    code 0 berth sandbox start -s 'local:u?isolation=none'
    code 0 berth sandbox ls --json
    same "$(jq -r .name <<<"$output" | sort | tr '\n' ' ')" 't u '
    is "$output" '.provider == "local" and .status == "running"'
    code 0 berth sandbox ls
    has "$output" local:u
    code 0 berth sandbox destroy -s local:u
}

@test "stop ends what runs, as cancelled by the sandbox" {
    started a "$waiting"
    code 0 berth sandbox stop
    code 0 berth sandbox start
    is "$(berth status a --json)" '.state == "cancelled" and .message == "sandbox stopped"'
    same "$(berth logs a)" ready
}

@test "verbs that ask start nothing" {
    for verb in 'status a' 'logs a' 'wait a' 'cancel a' 'rm a' ps prune 'sandbox info'; do
        # shellcheck disable=SC2086
        code 3 berth $verb
    done
    code 0 berth sandbox ls
    same "$output" ''
    [ ! -e "$BERTH_STATE/local/t" ]
}

@test "--state, and BERTH_SANDBOX" {
    code 0 berth sandbox start --state "$BATS_TEST_TMPDIR/other"
    code 3 berth sandbox info
    code 0 berth sandbox info --state="$BATS_TEST_TMPDIR/other"
    BERTH_STATE=$BATS_TEST_TMPDIR/other BERTH_SANDBOX=local:t code 0 berth sandbox info
    code 0 berth sandbox destroy --state "$BATS_TEST_TMPDIR/other"
    unset BERTH_STATE
    XDG_STATE_HOME=$BATS_TEST_TMPDIR/xdg code 0 berth sandbox start
    [ -d "$BATS_TEST_TMPDIR/xdg/berth" ]
    XDG_STATE_HOME=$BATS_TEST_TMPDIR/xdg code 0 berth sandbox destroy
}

@test "--remote-dir: relative to the home, and its executions are its own" {
    code 0 berth run art --id a --remote-dir other -- true
    code 3 berth status a
    code 0 berth status a --remote-dir other
    code 0 berth exec -- test -d other/x/a
}

@test "--remote-dir: a relative one does not leave the home" {
    for dir in .. ../../x a/../../x ./..; do
        code 2 berth run art --remote-dir "$dir" -- true
        has "$stderr" "leaves the sandbox's home"
        code 2 berth sandbox start -s "$BERTH_SANDBOX&dir=$dir"
    done
    code 0 berth run art --id a --remote-dir a/../b -- true
    code 0 berth status a --remote-dir b
    code 0 berth run art --id a --remote-dir "$PWD/elsewhere" -- true
    [ -d elsewhere/x/a ]
}

@test "a key that differs from what exists is a conflict that names it" {
    code 0 berth sandbox start
    code 4 berth sandbox start -s 'local:t?isolation=bwrap'
    has "$stderr" isolation=
    code 4 berth sandbox info -s 'local:t?isolation=bwrap'
    code 4 berth deploy art --id a -s 'local:t?isolation=none&dir=other' -- true
    has "$stderr" dir=
}

@test "destroy ends a supervisor that does not answer, and what it supervises" {
    local subreaper=(unshare -Urm sh -c 'echo 0 >/proc/sys/user/max_pid_namespaces
        echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"' sh)
    "${subreaper[@]}" true || skip 'no user namespaces'
    "${subreaper[@]}" berth deploy art --id a -- sh -c 'echo $PPID $$; exec sleep 1000' >/dev/null
    read -r supervisor worker < <(berth logs a -f 2>/dev/null)
    kill -STOP "$supervisor"
    code 0 berth sandbox destroy
    not kill -0 "$supervisor"
    not kill -0 "$worker"
}

@test "a state folder whose programs cannot be executed is told as that" {
    mkdir mnt
    local noexec=(unshare -Urm sh -c 'mount -t tmpfs -o noexec t mnt && exec "$@"' sh)
    "${noexec[@]}" true || skip 'cannot mount'
    code 125 "${noexec[@]}" berth run art --state mnt/s -- true
    has "$stderr" 'Permission denied'
    has "$stderr" 'mounted noexec'
    code 0 "${noexec[@]}" berth doctor --state mnt/s
    has "$output" noexec
}

@test "doctor" {
    code 0 berth doctor
    [ -n "$output" ]
    code 0 berth doctor --json
    is "$output" '(.checks | length > 0) and (.ok | type == "boolean")'
    is "$output" '.checks | all(has("name") and has("ok") and has("detail"))'
    opens=false
    if [ -c /dev/net/tun ] && (: <>/dev/net/tun) 2>/dev/null; then opens=true; fi
    is "$output" ".checks | any(.name == \"tun\" and .ok == $opens)"
}
