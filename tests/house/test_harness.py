#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The harness is tested like everything else: what must fail fails, and is counted. TAP.

usage: test_harness.py SOURCE-ROOT TAP-SAMPLE
"""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time

root, sample = sys.argv[1:3]
points = []


def check(name, good, *shown):
    points.append(good)
    print(f"{'ok' if good else 'not ok'} {len(points)} - {name}")
    if not good:
        for value in shown:
            print("# " + str(value).replace("\n", "\n# "))


def load_run_tests():
    sys.dont_write_bytecode = True
    path = os.path.join(root, "tools/run-tests")
    loader = importlib.machinery.SourceFileLoader("run_tests", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(module)
    return module


def tap_programs():
    with tempfile.TemporaryDirectory() as tmp:
        pid_file = os.path.join(tmp, "pid")
        env = {**os.environ, "TMPDIR": tmp, "BERTH_HAVE": "root here", "BERTH_REQUIRE": "demanded",
               "TAP_SAMPLE_PID": pid_file}
        p = subprocess.run([sample], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           check=False, timeout=60)
        out = p.stdout.decode()
        with open(pid_file, encoding="ascii") as f:
            left = int(f.read())
        os.remove(pid_file)
        check("temporary folders are removed", os.listdir(tmp) == [], os.listdir(tmp))
    lines = out.splitlines()
    seen = {}
    for line in lines:
        if m := re.match(r"(ok|not ok) \d+ - ([^#]*?)( # SKIP .*)?$", line):
            seen[m[2]] = ("skip" if m[3] else m[1])
    want = {
        "passes": "ok", "fails": "not ok", "check_goes_on": "not ok", "asserts_nothing": "not ok",
        "crashes": "not ok", "exits": "not ok", "fails_at_exit": "ok",
        "fails_at_exit: end of the process": "not ok", "hangs": "not ok",
        "leaves_a_process_behind": "ok", "skips": "skip",
        "skip_after_failure_is_a_failure": "not ok", "requires_what_is_there": "ok",
        "requires_what_is_missing": "skip", "requires_what_ci_demands": "not ok",
        "subtests: case 0 ? SKIP": "ok", "subtests: case 1 ? SKIP": "not ok",
        "subtests: case 2 ? SKIP": "ok", "subtests": "not ok",
        "prints_what_looks_like_tap": "ok", "has_an_empty_folder": "ok",
    }
    for name, state in want.items():
        check(f"the sample's {name} is {state}", seen.get(name) == state, seen.get(name), out)
    check("nothing else is counted", set(seen) == set(want), set(seen) ^ set(want))
    check("the plan is the last line", lines[-1] == f"1..{len(want)}", lines[-1])
    check("the exit status says that some failed", p.returncode == 1, p.returncode)
    check("both values are shown", "left:  41 (0x29)" in out and "right: 42 (0x2a)" in out, out)
    check("strings are shown so that they can be told apart", '"b\\x0a"' in out, out)
    check("an ASSERT ends the test and a CHECK does not",
          "# never reached" not in lines and "# reached" in lines)
    check("a signal is named", "# killed by signal 11 (Segmentation fault)" in lines, out)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{left}") and time.monotonic() < deadline:
        with open(f"/proc/{left}/stat", encoding="ascii", errors="replace") as f:
            if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                break  # dead; whether somebody reaps it is not ours to say
    else:
        check("what a test left behind is ended", not os.path.exists(f"/proc/{left}"))
        return
    check("what a test left behind is ended", True)


def counting(run_tests):
    def count(output, status):
        result = run_tests.Result({"name": "t"})
        result.output = output
        run_tests.read_tap(result, status)
        return result.passed, len(result.failures), len(result.skips)

    for name, output, status, want in [
        ("passes and skips", b"ok 1 - a\nok 2 - b # SKIP why\n1..2\n", 0, (1, 0, 1)),
        ("failures", b"1..2\nok 1\nnot ok 2 - x\n", 1, (1, 1, 0)),
        ("no plan", b"ok 1 - a\n", 0, (1, 1, 0)),
        ("too few points", b"1..3\nok 1\nok 2\n", 0, (2, 1, 0)),
        ("too many points", b"ok 1\nok 2\n1..1\n", 0, (2, 1, 0)),
        ("a bad exit with good points", b"ok 1\n1..1\n", 3, (1, 1, 0)),
        ("a skipped program", b"1..0 # SKIP no docker\n", 0, (0, 0, 1)),
        ("an empty program", b"1..0\n", 0, (0, 1, 0)),
        ("no output", b"", 0, (0, 1, 0)),
        ("bytes that are no text", b"\xff\xfe\nok 1 - \xff\n1..1\n", 0, (1, 0, 0)),
        ("a failed skip is a failure", b"not ok 1 - a # SKIP x\n1..1\n", 1, (0, 1, 0)),
        ("words that begin with ok", b"okay\nok 1\n1..1\n", 0, (1, 0, 0)),
    ]:
        got = count(output, status)
        check(f"run-tests counts {name}", got == want, got, want)


def layers():
    with tempfile.TemporaryDirectory() as tmp:
        def tree(files):
            subprocess.run(["rm", "-rf", tmp + "/src"], check=True)
            for path, content in {"src/wire/meson.build": "wire_agent_sources = files('w.c')",
                                  "src/providers/local/x.h": "", "src/base/fd.h": "",
                                  "src/base/attr.h": "", "src/core/core.h": "",
                                  "src/wire/w.h": "", "src/agent/a.h": "", **files}.items():
                full = os.path.join(tmp, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="ascii") as f:
                    f.write(content)
            tool = os.path.join(tmp, "tools/check-layers")
            os.makedirs(os.path.dirname(tool), exist_ok=True)
            with open(os.path.join(root, "tools/check-layers"), encoding="utf-8") as f:
                text = f.read()
            with open(tool, "w", encoding="utf-8") as f:
                f.write(text)
            return subprocess.run([sys.executable, tool], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False)

        check("check-layers: a clean tree passes", tree({}).returncode == 0)
        for path, line in [
            ("src/base/b.c", '#include "core/core.h"'),
            ("src/core/c.c", '#include "providers/local/x.h"'),
            ("src/core/c.c", "int *p = &provider_local;"),
            ("src/cli/c.c", '#include "core/core.h"'),
            ("src/agent/b.c", '#include "base/fd.h"'),
            ("src/agent/b.c", "#include <berth/error.h>"),
            ("src/wire/w.c", '#include "base/fd.h"'),
            ("src/wire/w.c", '#include "core/core.h"'),
            ("src/core/c.c", '#include "core.h"'),
            ("src/core/c.c", '#include "core/none.h"'),
            ("src/providers/fake/f.c", '#include "providers/local/x.h"'),
            ("src/new/n.c", ""),
        ]:
            p = tree({path: line + "\n"})
            check(f"check-layers: {path}: {line or 'a new folder'}",
                  p.returncode == 1 and path.encode() in p.stdout, p.stdout)


tap_programs()
counting(load_run_tests())
layers()
print(f"1..{len(points)}")
sys.exit(0 if all(points) else 1)
