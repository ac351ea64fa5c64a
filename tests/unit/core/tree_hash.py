#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The identity of an artifact, written down a second time from wire/manifest.h: prints the tree hash of a directory.

Knows nothing of .berthignore and node_modules.
"""
import hashlib
import os
import stat
import struct
import sys


def entries(root):
    def walk(rel):
        for name in os.listdir(os.path.join(root, rel) if rel else root):
            path = rel + b"/" + name if rel else name
            st = os.lstat(os.path.join(root, path))
            yield path, st
            if stat.S_ISDIR(st.st_mode):
                yield from walk(path)

    return sorted(walk(b""))


def main():
    root = os.fsencode(sys.argv[1])
    h = hashlib.sha256()
    for path, st in entries(root):
        full = os.path.join(root, path)
        kind = b"f" if stat.S_ISREG(st.st_mode) else b"d" if stat.S_ISDIR(st.st_mode) else b"l"
        x = 1 if kind == b"f" and st.st_mode & 0o100 else 0
        h.update(kind + bytes([x]) + struct.pack("<I", len(path)) + path)
        if kind == b"f":
            with open(full, "rb") as f:
                data = f.read()
            h.update(struct.pack("<Q", len(data)) + hashlib.sha256(data).digest())
        elif kind == b"l":
            target = os.readlink(full)
            h.update(struct.pack("<I", len(target)) + target)
    print(h.hexdigest())


main()
