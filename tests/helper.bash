# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For bats files:  load helper
# BERTH is the program under test. Every test gets an own state folder and an own HOME below
# BATS_TEST_TMPDIR.

BERTH=${BERTH:-${BERTH_BUILD_ROOT:?run by tools/run-tests}/berth}

# require NAME WHY: skips unless the prerequisite is there (tests/prerequisites); a failure when
# BERTH_REQUIRE names it.
require() {
    case " ${BERTH_HAVE-} " in
    *" $1 "*) return 0 ;;
    esac
    case " ${BERTH_REQUIRE//,/ } " in
    *" $1 "*)
        echo "prerequisite $1 is required here and missing" >&2
        return 1
        ;;
    esac
    skip "$2"
}

berth_setup() {
    export HOME=$BATS_TEST_TMPDIR/home BERTH_STATE=$BATS_TEST_TMPDIR/state
    unset BERTH_SANDBOX XDG_STATE_HOME
    mkdir -p "$HOME"
}
