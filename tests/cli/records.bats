# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# ps, rm, prune, relaunch.
load helper

@test "ps: newest first, one object per line" {
    code 0 berth sandbox start
    code 0 berth ps --json
    same "$output" ''
    berth run art --id one -- sh -c 'exit 1' || :
    berth run art --id two -- true
    started three "$waiting"
    code 0 berth ps --json
    same "$(jq -r .executionId <<<"$output" | tr '\n' ' ')" 'three two one '
    is "$output" 'has("state") and .sandbox == "local:t" and (.command | type == "array")'
    is "$(jq -s '.[2]' <<<"$output")" '.exitCode == 1 and .command == ["sh", "-c", "exit 1"]'
    code 0 berth ps
    has "${lines[0]}" EXECUTION
    has "${lines[1]}" three
    same "${#lines[@]}" 4
}

@test "rm: ended ones, not running ones" {
    started a "$waiting"
    code 4 berth rm a --json
    is "$output" '.error.type == "conflict"'
    berth cancel a >/dev/null
    code 0 berth rm a --json
    same "$output" '{"ok":true}'
    code 3 berth rm a
    started a "$waiting"
}

@test "prune" {
    berth run art --id old -- true
    started new "$waiting"
    code 0 berth prune --older-than 1h --json
    same "$output" '{"ok":true}'
    code 0 berth status old
    code 0 berth prune --json
    same "$output" '{"ok":true}'
    code 3 berth status old
    code 0 berth status new
    code 0 berth run art -- true
}

@test "relaunch: command, environment and input" {
    echo data >in
    code 0 berth run art --id a -e X=1 -e Y=2 --stdin in -- sh -c 'echo "$X $Y $(cat)"'
    code 0 berth relaunch a --id b -e Y=3 --json
    is "$output" 'keys_unsorted[0:3] == ["sandbox", "sandboxId", "executionId"] and .executionId == "b"'
    code 0 berth wait b
    same "$(berth logs b)" '1 3 data'
    echo other >in
    code 0 berth relaunch a --id c --stdin in
    code 0 berth wait c
    same "$(berth logs c)" '1 2 other'
    code 0 berth relaunch a --id d --no-input
    code 0 berth wait d
    same "$(berth logs d)" '1 2 '
    code 0 berth relaunch a --id b -e Y=3
    code 4 berth relaunch a --id b -e Y=4
    code 3 berth relaunch nope --id e
    code 2 berth relaunch a --id a
}

@test "relaunch asks for values that were not recorded, by name" {
    code 0 berth run art --id a --no-record-env -e TOKEN=geheim -e OTHER=geheim -- sh -c 'echo ${#TOKEN}'
    [ -s "$BERTH_STATE"/local/t/home/berth/x/a/journal ]
    not grep -r geheim "$BERTH_STATE"
    code 2 berth relaunch a --id b --json
    is "$output" '.error.type == "invalid_request" and (.error.message | contains("TOKEN") and contains("OTHER"))'
    [[ $output$stderr != *geheim* ]]
    code 2 berth relaunch a --id b -e TOKEN=geheim
    has "$stderr" OTHER
    code 0 berth relaunch a --id b -e TOKEN=geheim -e OTHER=x
    code 0 berth wait b
    same "$(berth logs b)" 6
}
