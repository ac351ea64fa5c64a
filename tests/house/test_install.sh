#!/bin/sh
# SPDX-License-Identifier: MIT
# What `make install` puts where, and that programs build against it. TAP.
#   test_install.sh BUILD
set -u
build=$1 n=0 failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

point() { # $1 = status, $2 = name
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        failed=$((failed + 1))
        echo "not ok $n - $2"
        sed 's/^/# /' "$tmp/log" 2>/dev/null
    fi
}

DESTDIR=$tmp/dest meson install -C "$build" --no-rebuild --quiet >"$tmp/log" 2>&1
point $? "meson install"
prefix=$(meson introspect "$build" --buildoptions |
    python3 -c 'import json,sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"]=="prefix"))')
root=$tmp/dest$prefix
: >"$tmp/log"
test -z "$(find "$tmp/dest" -type f ! -path "$root/*")"
point $? "nothing lies outside the prefix"
for f in bin/berth include/berth/base.h include/berth/berth.h include/berth/error.h \
    include/berth/provider.h share/man/man1/berth.1 share/man/man1/berth-agent.1 \
    share/man/man3/libberth.3 share/bash-completion/completions/berth \
    share/zsh/site-functions/_berth share/fish/vendor_completions.d/berth.fish; do
    test -s "$root/$f" || test -s "$root/$f.gz"
    point $? "$f is installed"
done
for f in libberth.a libberth.so libberth.so.0 pkgconfig/berth.pc; do
    found=$(find "$root" -path "*/$f" | head -n1)
    test -n "$found" && test -s "$found"
    point $? "$f is installed"
done
libs=$(dirname "$(find "$root" -name libberth.a)")

# Only the C library is loaded at start-up: heavy ones are opened by what needs them.
ldd "$root/bin/berth" >"$tmp/log" 2>&1
if grep -q 'libasan\|libubsan' "$tmp/log"; then
    n=$((n + 1))
    echo "ok $n - berth loads nothing but libc # SKIP a sanitizer build"
else
    test -z "$(grep -vE 'linux-vdso|libc\.so\.6|ld-linux|ld-musl' "$tmp/log")"
    point $? "berth loads nothing but libc"
fi
readelf -d "$root/bin/berth" "$libs/libberth.so" >"$tmp/log" 2>&1
! grep -qE 'RPATH|RUNPATH' "$tmp/log"
point $? "no rpath is left"

nm -D --defined-only "$libs/libberth.so" | awk '{ print $NF }' | grep -v '^berth_' >"$tmp/log"
test ! -s "$tmp/log"
point $? "libberth.so shows only berth_ names"

cat >"$tmp/p.c" <<'EOF'
#include <berth/berth.h>
#include <stdio.h>
#include <string.h>
/* Names that the library has inside: they must not meet. */
int hex_encode(void);
int hex_encode(void) { return 7; }
int main(void)
{
	struct berth_error err = BERTH_ERROR_INIT;

	if (berth_fail(&err, BERTH_E_CONFLICT, "%d", hex_encode()) != BERTH_E_CONFLICT)
		return 1;
	return strcmp(berth_version(), BERTH_VERSION) != 0 || strcmp(err.message, "7") != 0;
}
EOF
cp "$tmp/p.c" "$tmp/p.cc"
flags=$(PKG_CONFIG_PATH=$libs/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tmp/dest \
    pkg-config --cflags --libs berth 2>"$tmp/log")
point $? "pkg-config knows berth"
san=''
grep -q "b_sanitize.*address" "$build/meson-info/intro-buildoptions.json" && san=-fsanitize=address,undefined
if [ -z "$san" ]; then
    # shellcheck disable=SC2086  # flags
    cc -Wall -Werror "$tmp/p.c" $flags -o "$tmp/p" >"$tmp/log" 2>&1 &&
        LD_LIBRARY_PATH=$libs "$tmp/p" >"$tmp/log" 2>&1
    point $? "a C program with the shared library"
    cc -Wall -Werror "$tmp/p.c" -I"$root/include" "$libs/libberth.a" -o "$tmp/p" >"$tmp/log" 2>&1 &&
        "$tmp/p" >"$tmp/log" 2>&1
    point $? "a C program with the archive, a name of ours in it"
    if command -v c++ >/dev/null; then
        # shellcheck disable=SC2086
        c++ -Wall -Werror "$tmp/p.cc" $flags -o "$tmp/p" >"$tmp/log" 2>&1 &&
            LD_LIBRARY_PATH=$libs "$tmp/p" >"$tmp/log" 2>&1
        point $? "a C++ program"
    fi
fi
echo "1..$n"
[ "$failed" -eq 0 ]
