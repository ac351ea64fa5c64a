# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# deploy: the answer, what a worker gets, the same id again, input.
load helper

@test "the answer" {
    code 0 berth deploy art --id w1 --json -- sh -c 'exec sleep 1000'
    is "$output" 'keys_unsorted[0:3] == ["sandbox", "sandboxId", "executionId"]'
    is "$output" '.sandbox == "local:t" and .executionId == "w1" and (.sandboxId | length > 0)'
    is "$output" '.status | .state == "running" and .executionId == "w1" and .sandbox == "local:t"'
    is "$output" '.status.mode == "worker" and (has("error") | not)'
    is "$output" '.status.startedAt | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z$")'
    [ "$(wc -l <<<"$output")" = 1 ]
    code 0 berth deploy art --id w2 -- true
    [[ $output == 'w2 '* ]]
}

@test "a command that ends at once" {
    code 0 berth deploy art --id a --json -- sh -c 'exit 7'
    is "$output" '.status.state | . == "running" or . == "exited"'
    ends a
    is "$(berth status a --json)" '.state == "exited" and .exitCode == 7'
}

@test "a command that is not there: failed in launch, exit 1, recorded" {
    code 1 berth deploy art --id a --json -- ./nope
    is "$output" '.status | .state == "failed" and .phase == "launch" and (.message | contains("nope"))'
    is "$output" '.error.message | contains("nope")'
    has "$stderr" 'berth: deploy: launch failed'
    is "$(berth status a --json)" '.state == "failed" and .phase == "launch"'
    code 0 berth rm a
    code 3 berth status a
}

@test "a failed install leaves no record" {
    code 1 berth deploy art --id a --json --install 'echo broken >&2; exit 3' -- true
    is "$output" '.status | .state == "failed" and .phase == "install"'
    is "$output" '.status.message | contains("broken")'
    code 3 berth status a
    code 0 berth deploy art --id a -- true
}

@test "the same request again, and another one" {
    code 0 berth deploy art --id a -e A=1 --json -- sh -c 'echo x >>runs; exec sleep 1000'
    first=$(jq -r .status.startedAt <<<"$output")
    code 0 berth deploy art --id a -e A=1 --json -- sh -c 'echo x >>runs; exec sleep 1000'
    same "$(jq -r .status.startedAt <<<"$output")" "$first"
    code 4 berth deploy art --id a -e A=1 --json -- sh -c 'exec sleep 1001'
    is "$output" '.error.type == "conflict" and (.error.message | test("arg"))'
    code 4 berth deploy art --id a -e A=geheim -- sh -c 'echo x >>runs; exec sleep 1000'
    has "$stderr" env
    [[ $stderr != *geheim* ]]
    code 4 berth deploy art --id a -e A=1 --timeout 5m -- sh -c 'echo x >>runs; exec sleep 1000'
    has "$stderr" timeout
    # What is no part of the request may differ.
    code 0 berth deploy art --id a -e A=1 --mode job --startup-timeout 3s -- sh -c 'echo x >>runs; exec sleep 1000'
}

@test "variables reach the worker, later ones win, and nothing else does" {
    printf 'FROM_FILE=a b # c\nB=file\nPASSED\n' >env
    PASSED=value CALLERS=no code 0 berth run art --id a -e B=x --env-file env -e 'C=1=2' -e EMPTY= \
        -- env
    for line in 'FROM_FILE=a b # c' B=file PASSED=value C=1=2 EMPTY= LANG=C.UTF-8; do
        grep -qxF -- "$line" <<<"$output"
    done
    not grep -q '^CALLERS=' <<<"$output"
    not grep -qi '^berth' <<<"$output"
    for name in PATH HOME USER TMPDIR; do
        grep -q "^$name=." <<<"$output"
    done
}

@test "arguments arrive as they were" {
    code 0 berth run art -- sh -c 'printf "[%s]" "$@"' x '' 'a  b' $'new\nline' '*' -- --json -e
    same "$output" $'[][a  b][new\nline][*][--][--json][-e]'
}

@test "workdir stays inside" {
    mkdir -p art/sub
    code 0 berth run art -w sub -- sh -c 'basename "$PWD"'
    same "$output" sub
    for w in .. ../x sub/../.. /tmp; do
        code 2 berth deploy art --id x -w "$w" --json -- true
        is "$output" '.error.type == "invalid_request"'
    done
    code 3 berth status x
}

@test "input on stdin" {
    printf 'a\0b' >in
    code 0 berth run art --stdin in -- sh -c 'od -An -c | tr -d " \n"'
    same "$output" 'a\0b'
    printf piped | berth run art --stdin - -- cat >out
    same "$(cat out)" piped
    code 0 berth run art -- sh -c 'cat; readlink /proc/self/fd/0'
    same "$output" /dev/null
}

@test "input as a file" {
    echo hello >in
    code 0 berth run art --input deep/er/in.txt=in -- sh -c 'cat deep/er/in.txt; stat -c %a deep/er/in.txt'
    same "$output" $'hello\n600'
    for p in ../x /x a/../../x; do
        code 2 berth deploy art --id x --input "$p=in" -- true
    done
    code 0 berth run art --input '..data/x=in' -- cat ..data/x
}

@test "too much input is found before anything" {
    head -c 1025 /dev/zero >in
    code 2 berth deploy art --id x --input-limit 1K --stdin in --json -- true
    is "$output" '.error.type == "invalid_request"'
    [ ! -e "$BERTH_STATE" ]
    head -c 1024 /dev/zero >in
    code 0 berth deploy art --id x --input-limit 1K --stdin in -- true
    head -c 1025 /dev/zero | code 2 berth deploy art --id y --input-limit 1K --stdin - -- true
    code 3 berth status y
    code 2 berth deploy art --id y --stdin nope -- true
}

@test "commands that cannot be" {
    for c in '' $'a\nb' $'a\rb'; do
        code 2 berth deploy art --id x -- "$c"
    done
    code 2 berth deploy nope --id x -- true
    code 2 berth deploy /dev/null --id x -- true
}

@test "timeouts are seen in the state" {
    code 0 berth deploy art --id a --timeout 50ms -- sleep 1000
    code 124 berth wait a --json
    is "$output" '.state == "timed_out" and .phase == "execution"'
}

@test "a path that leaves the artifact by a link is a usage error, and the id stays free" {
    mkdir -p art/d
    ln -s /etc art/abs
    ln -s ../.. art/d/up
    ln -s d/up/x art/far
    ln -s loop art/loop
    ln -s d art/in
    for dir in abs d/up far abs/x; do
        code 2 berth run art --id x -w $dir -- pwd
        has "$stderr" 'leaves the artifact'
        code 2 berth run art --id x --input $dir/f=/dev/null -- true
        has "$stderr" 'leaves the artifact'
    done
    code 3 berth status x
    code 0 berth run art --id y -w in -- pwd
    code 0 berth run art --id z --input in/f=/dev/null -- test -f d/f
    code 125 berth run art --id loop -w loop -- true
}

# In a user namespace of our own that allows no others.
@test "without mount namespaces no install is shared, and nothing written through its paths" {
    bare=(unshare -Urm sh -c 'for n in pid mnt user; do echo 0 >/proc/sys/user/max_${n}_namespaces; done
        exec "$@"' sh)
    "${bare[@]}" true || skip 'no user namespaces'
    echo 1 >art/lib
    for id in a b; do
        code 0 "${bare[@]}" berth run art --id $id --install 'pwd >where; echo made >made; echo x >>~/count' -- \
            sh -c 'cat made "$(cat where)/made"; echo dirty >"$(cat where)/made"'
        same "$output" $'made\nmade'
    done
    same "$("${bare[@]}" berth exec -- wc -l count)" '2 count'
    # The retry of a deploy installs nothing.
    code 0 "${bare[@]}" berth run art --id b --install 'pwd >where; echo made >made; echo x >>~/count' -- \
        sh -c 'cat made "$(cat where)/made"; echo dirty >"$(cat where)/made"'
    same "$("${bare[@]}" berth exec -- wc -l count)" '2 count'
}

@test "an isolation that does not exist says which do" {
    code 2 berth deploy art --id a -s 'local:other?isolation=jail' --json -- true
    is "$output" '.error.message | test("isolation") and test("bwrap")'
}

@test "keys that differ from what exists are a conflict" {
    code 0 berth sandbox start
    code 0 berth deploy art --id a -s local:t -- true
}
