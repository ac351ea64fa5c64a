# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2030,SC2031,SC2094,SC2154,SC2238
# The manual page and the completions have every verb and option, and are well-formed.
load helper

setup_file() { export GEN=$BERTH_BUILD_ROOT/src/cli/cli-gen; }

@test "every option of every verb is in its help" {
    "$GEN" options >list
    [ "$(wc -l <list)" -gt 60 ]
    while IFS= read -r line; do
        verb=${line%% --*}
        opt=--${line##*--}
        [ "$verb" != "$line" ] || opt=''
        # shellcheck disable=SC2086
        berth help $verb >help
        [ -z "$opt" ] || grep -qe "$opt\b" help || { echo "$verb: no $opt" >&2; return 1; }
    done <list
}

@test "the manual page has them all, and man is content" {
    page=$BERTH_BUILD_ROOT/man/berth.1
    not grep -n '@[A-Z]*@' "$page"
    cmp "$page" <("$GEN" man "$BERTH_SOURCE_ROOT/man/berth.1.in")
    sed 's/\\-/-/g' "$page" >plain
    "$GEN" options | grep -e -- | while IFS= read -r line; do
        grep -qF -e "--${line##*--}" plain || { echo "no $line" >&2; exit 1; }
    done
    command -v man >/dev/null || skip 'no man'
    for p in "$page" "$BERTH_SOURCE_ROOT"/man/berth-agent.1 "$BERTH_SOURCE_ROOT"/man/libberth.3; do
        LC_ALL=C.UTF-8 man --warnings -l "$p" 2>warnings >/dev/null
        same "$(cat warnings)" ''
    done
}

@test "completions have every option" {
    for shell in bash zsh fish; do
        "$GEN" $shell >$shell
        "$GEN" options | while IFS= read -r line; do
            opt=${line##*--}
            [ "$opt" != "$line" ] || continue
            grep -qe "-\(-\|l \)$opt\b" $shell || { echo "$shell: no $line" >&2; exit 1; }
        done
    done
    cmp bash "$BERTH_BUILD_ROOT/completions/berth"
    bash -n bash
    if command -v zsh >/dev/null; then zsh -n zsh; fi
    if command -v fish >/dev/null; then fish -n fish; fi
}

# complete WORD…: what bash offers for the last one.
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _berth
    printf '%s\n' "${COMPREPLY[@]}"
}

@test "bash completes" {
    "$GEN" bash >bash
    # shellcheck disable=SC1091
    source ./bash
    compopt() { :; }
    complete_words berth st | grep -qx status
    complete_words berth sandbox d | grep -qx destroy
    complete_words berth run art --out | grep -qx -- --output-limit
    complete_words berth -s local:x logs a --str | grep -qx -- --stream
    complete_words berth logs a --stream std | grep -qx stderr
    complete_words berth status --js | grep -qx -- --json
    [ -z "$(complete_words berth wait x --timeout '')" ]
}
