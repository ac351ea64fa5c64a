#!/bin/sh
# SPDX-License-Identifier: MIT
# Sandboxes by the command line where control groups are pure v2: limits of a sandbox and of an
# execution, a quota, and that nothing stays. TAP; run in user-mode Linux by ./list, as root and as
# a user to whom a subtree was delegated (with uids=single).
#   cli.sh [DIR-WITH-QUOTAS]
set -u
berth=$BERTH_BUILD_ROOT/berth worker=$BERTH_TEST_WORKER
BERTH_STATE=$PWD/state
export BERTH_STATE
n=0 bad=0
[ "$(id -u)" = 0 ] && who='' || who='&uids=single'
mkdir -p app && cp "$worker" app/worker

point() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2" && bad=1
        head -n 20 out err | sed 's/^/# /'
    fi
}

use() { # KEYS: of the sandbox "t", which is new
    BERTH_SANDBOX="local:t?net=none$who${1:+&$1}"
    export BERTH_SANDBOX
}

drop() { "$berth" sandbox destroy -q >out 2>err; }

# run WANT-CODE ARGUMENTS…: berth run of the worker; its JSON is in the file status.
run() {
    want=$1
    shift
    rm -f status
    "$berth" run app --status-file status "$@" >out 2>err
    [ $? = "$want" ] || [ "$want" = any ]
}

has() { grep -q "$1" status || { cat status >>err && false; }; }
groups() { find /sys/fs/cgroup -type d -name 'berth-*' | grep -c .; }

use ''
run 3 -- ./worker out hello exit 3 && [ "$(cat out)" = hello ]
point $? 'run'
"$berth" exec -- /bin/sh -c 'exit 4' >out 2>err
[ $? = 4 ]
point $? 'exec'
[ "$(groups)" -ge 1 ]
point $? 'the sandbox has groups'
run any --memory 32M -- ./worker eat 100 pause && has '"resource_exhausted"' && has '"memory"'
point $? 'memory of an execution'
run 4 --pids 10 -- ./worker storm 100 exit 4 && has '"pids"'
point $? 'pids of an execution'
run any --cpu-time 300ms -- ./worker spawn fork '{' up burn '}' spawn setsid '{' up burn '}' pause &&
    has '"resource_exhausted"' && has '"cpu"'
point $? 'cpu time of a tree'
drop && [ "$(groups)" = 0 ]
point $? 'destroy leaves no group'

use 'memory=64M&pids=30&cpus=0.5'
run any -- ./worker eat 200 pause && has '"resource_exhausted"' && has 67108864
point $? 'memory of the sandbox ends an execution, and is named'
"$berth" exec -- /bin/sh -c 'tail -c 200M /dev/zero | tail' >out 2>err
"$berth" exec -- /bin/sh -c 'exit 5' >out 2>err
[ $? = 5 ]
point $? 'a memory bomb in a guest leaves the sandbox alive'
run any --timeout 2s -- /bin/sh -c 'b() { b | b & }; (while :; do b; done) & exec sleep 100' && has '"timed_out"'
point $? 'a fork bomb is held and ended'
"$berth" sandbox stop >out 2>err && [ "$(groups)" = 0 ]
point $? 'stop leaves no group'
drop
point $? 'destroy'

if [ "$(id -u)" = 0 ] && [ -n "${1:-}" ]; then
    BERTH_STATE=$1/state
    use 'disk=4M'
    "$berth" sandbox start >out 2>err
    point $? 'a sandbox with disk='
    "$berth" exec -- /bin/sh -c 'head -c 16M /dev/zero >big; stat -c %s big' >out 2>err
    [ "0$(cat out)" -gt 0 ] && [ "$(cat out)" -le $((4 << 20)) ] && grep -qi quota err
    point $? 'files end at the quota'
    "$berth" exec -- /bin/sh -c 'rm big && head -c 1M /dev/zero >small' >out 2>err
    point $? 'and there is room again'
    drop
    point $? 'destroy of it'
fi
echo "1..$n"
exit $bad
