# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# isolation=bwrap: keys, life, what is left behind. What keeps workers in is tests/escape's.
load helper

REGISTER=/var/lib/berth/uids

isolated() {
    require root 'not root'
    require bwrap 'no bubblewrap'
    require ps 'no ps'
    export BERTH_SANDBOX='local:t?net=none'
}

# Everything of sandboxes in this test's state folder that is not a file: processes, control groups,
# uid ranges. (A zombie is the machine's init's business.)
left() {
    local link pid
    for link in "$REGISTER"/*; do
        case $(readlink "$link") in "$BERTH_STATE"/*) echo "uids: $link" ;; esac
    done
    for pid in /proc/[0-9]*; do
        [ "$(readlink "$pid/exe")" = "" ] && continue
        case $(tr '\0' ' ' <"$pid/cmdline" 2>/dev/null) in
        *"$BERTH_STATE"/*) echo "process: $(tr '\0' ' ' <"$pid/cmdline")" ;;
        esac
    done 2>/dev/null
    for id in "${ids[@]}"; do
        find /sys/fs/cgroup -name "berth-$id" -printf 'group: %p\n' 2>/dev/null
    done
    grep -F "$BERTH_STATE" /proc/self/mounts
    true
}

# Host pids of the processes that have a host uid of this sandbox's range.
processes() {
    local base
    base=$(sed -n 's/^uid_base=//p' "$BERTH_STATE/local/${1:-t}/sandbox")
    ps -eo pid=,uid=,stat= | awk -v b="$base" '$2 >= b && $2 < b + 8 && $3 !~ /Z/ {print $1}'
}

teardown() {
    if [ -n "${user-}" ]; then
        as_user "$BERTH" sandbox destroy -q -s local:t >/dev/null 2>&1 || :
        rm -rf "$user"
    fi
    berth sandbox destroy -q -s local:t >/dev/null 2>&1 || :
    berth sandbox destroy -q -s local:u >/dev/null 2>&1 || :
}

# created [SPEC]: starts it and remembers its id for left().
ids=()
created() {
    local out
    out=$(berth sandbox start --json "${@:1}")
    ids+=("$(jq -r .sandboxId <<<"$out")")
}

@test "a life: create, info, exec, run, stop, start, destroy" {
    isolated
    created
    code 0 berth sandbox info --json
    is "$output" '.status == "running" and .isolation == "bwrap" and .net == "none"'
    is "$output" '.uids == "range" and .containment == "pidns" and .recordsProtected == true'
    is "$output" '.ports == {} and (has("expiresAt") | not) and (has("idleMinutes") | not)'
    code 0 berth exec -- sh -c 'echo $HOME $USER $(id -u) $(hostname); pwd; echo kept >note'
    same "$output" $'/home/user user 1000 t\n/home/user'
    code 7 berth run art --id a -- sh -c 'echo out; exit 7'
    same "$output" out
    is "$(berth status a --json)" '.state == "exited" and .exitCode == 7 and .containment == "pidns"'
    [ -n "$(processes)" ]
    code 0 berth sandbox stop --json
    is "$output" '.status == "stopped" and (has("message") | not)'
    same "$(processes)" ''
    code 0 berth sandbox start --json
    is "$output" ".sandboxId == \"${ids[0]}\""
    code 0 berth exec -- cat note
    same "$output" kept
    same "$(berth logs a)" out
    code 0 berth sandbox destroy --json
    is "$output" '.state == "destroyed"'
    same "$(left)" ''
    [ ! -e "$BERTH_STATE/local/t" ]
    same "$(ls "$BERTH_STATE/trash")" ''
}

@test "it is the default, and of no host uid that is somebody's" {
    isolated
    require slirp4netns 'no slirp4netns'
    created -s local:t
    code 0 berth sandbox info -s local:t --json
    is "$output" '.isolation == "bwrap" and .net == "egress" and .uids == "range"'
    base=$(sed -n 's/^uid_base=//p' "$BERTH_STATE/local/t/sandbox")
    [ "$base" -ge 1879048192 ]
    same "$(readlink "$REGISTER/$base")" "$BERTH_STATE/local/t"
    same "$(stat -c %u "$BERTH_STATE/local/t/berth" "$BERTH_STATE/local/t/home" | tr '\n' ' ')" \
        "$base $((base + 1)) "
    same "$(stat -c %a "$BERTH_STATE/local/t")" 700
    [ -n "$(processes)" ]
    code 0 berth sandbox destroy -s local:t
    same "$(left)" ''
}

@test "a key that differs is a conflict that names it, and what means the same is none" {
    isolated
    mkdir sub
    created -s "local:t?net=none&memory=1G&pids=100&cpus=0.5&idle=1h&expires=2h&ports=4111,8080&ro=$PWD/sub"
    for key in net=egress memory=2G pids=101 cpus=1 idle=2h expires=3h ports=4111 uids=single \
        "ro=$PWD" rw=/tmp rootfs=/usr disk=1G isolation=none; do
        code 4 berth sandbox info -s "local:t?$key"
        has "$stderr" "${key%%=*}="
    done
    code 0 berth sandbox info -s "local:t?net=none&memory=1024M&pids=100&cpus=0.50&idle=60m&ports=8080,4111&ro=$PWD//sub/"
    code 0 berth sandbox info -s local:t --json
    is "$output" '.idleMinutes == 60 and (.expiresAt | test("Z$")) and (.ports | keys == ["4111", "8080"])'
    code 4 berth deploy art --id a -s 'local:t?memory=2G' -- true
    code 0 berth sandbox destroy -s local:t
    same "$(left)" ''
}

@test "values are checked before anything is made, and the message names key and value" {
    isolated
    touch file
    for pair in isolation=moat net=some uids=many ports=0 ports=x ports=70000 \
        ports=80:1,80:2 memory=0 memory=-1 memory=much pids=0 pids=1.5 cpus=0 disk=0 idle=0 \
        idle=soon expires=0 ro=relative rw=a,b rootfs=rel ro=/ "rootfs=$PWD/file" \
        ro=/no/such/path rw=/no/such/path rootfs=/no/such/path; do
        code 2 berth sandbox start -s "local:u?${pair}"
        has "$stderr" "${pair%%=*}=${pair#*=}"
    done
    code 2 berth sandbox start -s 'local:u?nokey=1'
    has "$stderr" 'known: isolation, net, uids, ports'
    for key in net=none uids=range memory=1G pids=1 cpus=1 disk=1G rootfs=/usr ro=/usr rw=/tmp; do
        code 2 berth sandbox start -s "local:u?isolation=none&$key"
        has "$stderr" "${key%%=*}="
    done
    code 2 berth sandbox start -s 'local:u?dir=x'
    has "$stderr" isolation=none
    code 2 berth sandbox start -s 'local:u?uids=single'
    has "$stderr" uids=single
    code 2 berth exec --remote-dir x -s local:u -- true
    has "$stderr" --remote-dir
    [ ! -e "$BERTH_STATE/local/u" ]
    created
    code 2 berth status a --remote-dir x
    code 2 berth status a --remote-dir /x
}

@test "ports: one chosen, one free that stays the same, one in use" {
    isolated
    require python3 'no python3'
    serve='python3 -u -m http.server --bind 127.0.0.1 4111'
    created -s 'local:t?net=none&ports=4111'
    url=$(berth sandbox info --json -s local:t | jq -r '.ports["4111"]')
    code 0 berth exec -s local:t -- sh -c "nohup $serve >log 2>&1 & until grep -q Serving log; do :; done"
    has "$(berth_get "$url/")" 'Directory listing'
    code 0 berth sandbox stop -s local:t --json
    is "$output" '.ports == {}'
    code 0 berth sandbox start -s local:t --json
    is "$output" ".ports[\"4111\"] == \"$url\""
    # The number that a sandbox got is used by another one: as a wish it is refused.
    port=${url##*:}
    code 5 berth sandbox start -s "local:u?net=none&ports=$port:80"
    has "$stderr" "port $port of this machine is in use"
    [ ! -e "$BERTH_STATE/local/u" ]
    code 0 berth sandbox stop -s local:t
    created -s "local:u?net=none&ports=$port:80"
    # Taken meanwhile: the free one moves.
    code 0 berth sandbox start -s local:t --json
    is "$output" ".ports[\"4111\"] | length > 0 and . != \"$url\""
    code 0 berth sandbox destroy -s local:t
    code 0 berth sandbox destroy -s local:u
    same "$(left)" ''
}

@test "ports with net=host are this machine's own" {
    isolated
    created -s 'local:t?net=host&ports=4111,8080:8080'
    code 0 berth sandbox info -s local:t --json
    is "$output" '.net == "host" and .ports == {"4111": "http://127.0.0.1:4111", "8080": "http://127.0.0.1:8080"}'
    code 0 berth sandbox destroy -s local:t
    same "$(left)" ''
}

# berth_get URL: its body.
berth_get() {
    python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=10).read().decode())' "$1"
}

@test "idle stops it, with the reason" {
    isolated
    created -s 'local:t?net=none&idle=1s'
    code 0 berth exec -s local:t -- touch kept
    gone t
    code 0 berth sandbox info -s local:t --json
    is "$output" '.status == "stopped" and .message == "idle" and .idleMinutes == 1'
    code 0 berth exec -s local:t -- test -e kept
    code 0 berth sandbox destroy -s local:t
    same "$(left)" ''
}

@test "expiry destroys it: to everything but a start it is gone" {
    isolated
    created -s 'local:t?net=none&expires=1s'
    code 0 berth exec -s local:t -- touch kept
    gone t
    code 0 berth sandbox info -s local:t --json
    is "$output" '.status == "destroyed" and .message == "expired"'
    code 3 berth sandbox stop -s local:t
    code 0 berth status a -s local:t --json
    is "$output" '.state == "provider_unavailable" and .providerState == "destroyed"'
    code 5 berth wait a -s local:t --wake
    # Another sandbox, with other keys.
    created -s 'local:t?net=none&memory=64M'
    not berth exec -s local:t -- test -e kept
    code 0 berth sandbox destroy -s local:t
    created -s 'local:t?net=none&expires=1s'
    gone t
    code 0 berth sandbox ls --json
    same "$output" ''
    [ ! -e "$BERTH_STATE/local/t" ]
    same "$(left)" ''
}

# gone NAME: returns when its init has ended.
gone() {
    local pid
    pid=$(processes "$1" | head -n1)
    [ -z "$pid" ] || timeout 20 tail --pid="$pid" -f /dev/null
}

@test "isolation=none has idle and expires, too" {
    berth sandbox start -s 'local:t?isolation=none&idle=1s&ports=8080' --json >info
    is "$(cat info)" '.idleMinutes == 1 and .ports == {"8080": "http://127.0.0.1:8080"}'
    until [ "$(berth sandbox info -s local:t --json | jq -r .status)" = stopped ]; do :; done
    is "$(berth sandbox info -s local:t --json)" '.message == "idle"'
    code 0 berth sandbox destroy -s local:t
    code 0 berth sandbox start -s 'local:t?isolation=none&expires=1s'
    until [ "$(berth sandbox info -s local:t --json | jq -r .status)" = destroyed ]; do :; done
    code 0 berth sandbox ls --json
    same "$output" ''
}

@test "what is missing on this machine is said, with the way out, and nothing is left" {
    isolated
    mkdir bin
    for tool in bwrap slirp4netns; do
        code 5 unshare -m sh -c "mount --bind /dev/null /usr/bin/$tool && chmod -x /usr/bin/$tool 2>/dev/null
            exec berth sandbox start -s 'local:u?net=egress'" </dev/null
        has "$stderr" "$tool"
        has "$stderr" 'apt install'
        [ ! -e "$BERTH_STATE/local/u" ]
    done
    code 1 berth sandbox start -s 'local:u?net=none&disk=1G'
    has "$stderr" prjquota
    [ ! -e "$BERTH_STATE/local/u" ]
    same "$(left)" ''
}

@test "limits of the sandbox: a bomb ends in it" {
    isolated
    require cgroup-pids 'no pids controller'
    created -s 'local:t?net=none&pids=20'
    code 0 berth exec -s local:t -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 0 & done; wait'
    code 2 berth exec -s local:t -- sh -c 'while :; do sleep 1000 & done'
    has "$stderr" 'annot fork'
    [ "$(processes | wc -l)" -le 30 ]
    code 0 berth sandbox destroy -s local:t
    same "$(left)" ''
}

@test "an ordinary user: uids=range, uids=single" {
    isolated
    require subids 'no newuidmap'
    user=$(mktemp -d)
    mkdir "$user/art"
    chown -R 1000:1000 "$user"
    as_user test -x "$BERTH" || skip 'another user does not reach the program'
    as_user test -w "$user" || skip 'another user does not reach the temporary folder'
    code 0 as_user berth sandbox start -s 'local:t?net=none' --json
    is "$output" '.status == "running" and .uids == "range" and .recordsProtected == true'
    code 0 as_user berth exec -s local:t -- sh -c 'echo kept >note; id -u'
    same "$output" 1000
    base=$(sed -n 's/^uid_base=//p' "$user/state/local/t/sandbox")
    same "$(stat -c %u "$user/state/local/t/home/note")" $((base + 1))
    code 7 as_user berth run "$user/art" --id a -s local:t -- sh -c 'exit 7'
    code 0 as_user berth status a -s local:t --json
    is "$output" '.state == "exited" and .exitCode == 7'
    code 0 as_user berth sandbox stop -s local:t
    code 0 as_user berth exec -s local:t -- cat note
    same "$output" kept
    code 0 as_user berth sandbox destroy -s local:t
    same "$(find "$user/state/local" "$user/state/trash" -mindepth 1)" ''
    code 0 as_user berth sandbox start -s 'local:t?net=none&uids=single' --json
    is "$output" '.status == "running" and .uids == "single" and .recordsProtected == false'
    code 0 as_user berth exec -s local:t -- id -u
    same "$output" 1000
    code 0 as_user berth sandbox destroy -s local:t
    code 5 as_user berth sandbox start -s 'local:t?net=none&memory=64M'
    has "$stderr" 'control group'
    [ ! -e "$user/state/local/t" ]
}

# as_user CMD…: as uid 1000, whose subordinate ids, name and home are this test's.
as_user() {
    local dir=$BATS_TEST_TMPDIR/as
    mkdir -p "$dir"
    echo 'person:200000:65536' >"$dir/subid"
    grep -v ':1000:' /etc/passwd >"$dir/passwd"
    echo "person:x:1000:1000::$user:/bin/sh" >>"$dir/passwd"
    unshare -m bash -c 'mount --bind "$0/subid" /etc/subuid && mount --bind "$0/subid" /etc/subgid &&
        mount --bind "$0/passwd" /etc/passwd &&
        exec setpriv --reuid 1000 --regid 1000 --clear-groups env HOME="$1" \
            BERTH_STATE="$1/state" XDG_RUNTIME_DIR= "${@:2}"' "$dir" "$user" "$@"
}

# Host pid of the sandbox's init: the oldest process of its first uid.
init_pid() {
    local base
    base=$(sed -n 's/^uid_base=//p' "$BERTH_STATE/local/t/sandbox")
    ps -o pid=,comm= --sort=start_time,pid -u "$base" | awk '$2 == "berth-agent" {print $1; exit}'
}

@test "an init that is killed: the next call starts another, however soon it comes" {
    isolated
    created
    for _ in $(seq 25); do
        kill -9 "$(init_pid)"
        code 0 berth exec -- echo again
        same "$output" again
    done
    code 0 berth sandbox destroy
    same "$(left)" ''
}

@test "a start whose caller is killed in its first moment does not disturb the next one" {
    isolated
    local caller stage
    for _ in $(seq 20); do
        berth sandbox start -q >/dev/null 2>&1 3>&- &
        caller=$!
        stage=
        while [ -z "$stage" ] && [ -e "/proc/$caller/exe" ]; do
            read -r stage _ <"/proc/$caller/task/$caller/children" || :
        done 2>/dev/null
        kill -9 "$caller" 2>/dev/null || :
        wait "$caller" 2>/dev/null || :
        code 0 berth exec -- echo up
        same "$output" up
    done
    code 0 berth sandbox destroy
    same "$(left)" ''
}
