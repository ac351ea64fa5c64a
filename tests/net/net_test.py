#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The network of isolated sandboxes, from inside, against servers on each of the host's addresses.

usage: net_test.py netbox|berth|user|single PROGRAM

With `netbox` a small program plays the stage and init (tests/net/netbox.c); with `berth` the whole
thing is tried, with `user` by an ordinary user, with `single` by one without newuidmap. Root makes the host for all of them. Each refusal
has the reason it must fail for.
"""
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402
from world import BULK, METADATA, METADATA6, PORT, PRIVATE, PUBLIC, SECRET, SINK  # noqa: E402

SLIRP = shutil.which("slirp4netns")
HERE = os.path.dirname(os.path.abspath(__file__))
SIZE = 64 << 20
with open(os.path.join(HERE, "probe.py"), encoding="ascii") as source:
    PROBE = source.read()

# What no sandbox with egress or public may reach, by IPv4: address, why.
FORBIDDEN = [
    ("127.0.0.1", "loopback of the host: slirp is told not to, and no route leads there"),
    ("127.0.0.2", "any other loopback address of the host"),
    ("10.77.0.1", "an address of the host"),
    ("203.0.113.1", "an address of the host, though a public one"),
    ("198.51.100.7", "a range that the host has as its own"),
    ("10.77.0.255", "broadcast in the host's network"),
    ("10.0.2.1", "slirp's alias that is our gateway"),
    ("10.0.2.2", "slirp's alias of the host's loopback"),
    ("10.0.2.3", "the resolver, but another port; here the resolver is the host"),
    ("255.255.255.255", "limited broadcast: slirp would send it to the host"),
] + [(a, "multicast: the host's own listeners hear it") for a in world.GROUPS] + [
    (a, "metadata of cloud machines") for a in METADATA]
FORBIDDEN6 = [(a, "an IPv6 address of the host") for a in ["fd77::1", "2001:db8:77::1"]] + [
    (a, "metadata by IPv6") for a in METADATA6] + [
    ("::ffff:10.77.0.1", "the host, mapped"), ("64:ff9b::10.77.0.1", "the host, by NAT64"),
    ("2002:a4d:1::1", "the host, by 6to4"), ("ff02::1", "all nodes")]


class Tap:
    n = failed = 0

    def ok(self, good, name, why=""):
        self.n += 1
        self.failed += not good
        print("%sok %d - %s" % ("" if good else "not ", self.n, name.replace("#", "")), flush=True)
        if not good:
            for line in str(why).splitlines():
                print("# " + line, flush=True)

    def eq(self, got, want, name):
        self.ok(got == want, name, "got  %r\nwant %r" % (got, want))


class Netbox:
    """A fresh network for every command."""

    def __init__(self, program):
        self.program = program

    def open(self, mode, tasks):
        return subprocess.Popen([self.program, mode, SLIRP, "python3", "-c", PROBE,
                                 json.dumps(tasks)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)

    def run(self, mode, tasks):
        p = self.open(mode, tasks)
        out = p.communicate(timeout=120)[0]
        if p.returncode != 0:
            raise RuntimeError("exit %d" % p.returncode)
        return [json.loads(line) for line in out.splitlines()]

    def end(self):
        """Leaves no sandbox."""


class Berth(Netbox):
    """One sandbox per mode, kept between commands."""

    def __init__(self, program):
        super().__init__(program)
        self.state = tempfile.mkdtemp(prefix="net-state.")
        self.modes = set()

    def argv(self, mode, *rest):
        return [self.program, "--state", self.state, "-s", "local:n-%s?net=%s" % (mode, mode), *rest]

    def open(self, mode, tasks):
        self.modes.add(mode)
        return subprocess.Popen(self.argv(mode, "exec", "--", "python3", "-c", PROBE,
                                          json.dumps(tasks)), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)

    def call(self, mode, *args):
        self.modes.add(mode)
        return subprocess.run(self.argv(mode, *args), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60)

    def end(self):
        for mode in self.modes:
            r = self.call(mode, "sandbox", "destroy")
            if r.returncode != 0:
                raise RuntimeError("destroy: " + r.stderr)
        self.modes.clear()


class User(Berth):
    """The same as an ordinary user."""

    def __init__(self, program):
        super().__init__(program)
        self.state = "/mnt/home/state"

    def argv(self, mode, *rest):
        who = ["setpriv", "--reuid=%d" % world.USER, "--regid=%d" % world.USER, "--clear-groups",
               "env", "-C", "/mnt/home", "HOME=/mnt/home", "/mnt/berth"]
        return who + super().argv(mode, *rest)[1:]


class Single(User):
    """The same with no uid but the caller's."""

    def argv(self, mode, *rest):
        return [a + "&uids=single" if a.startswith("local:") else a
                for a in super().argv(mode, *rest)]


tap = Tap()


def forbidden(way, w, mode):
    """Every address by every trick, TCP and UDP."""
    cases = [(k, a, why) for a, why in FORBIDDEN + FORBIDDEN6 for k in ("tcp", "udp")]
    del w.hits[:]
    out = way.run(mode, [["every", k, a, PORT] for k, a, _ in cases])
    for (kind, address, why), got in zip(cases, out):
        bad = {k: v for k, v in got.items() if v.startswith(("REACHED", "answered"))}
        tap.ok(not bad and len(got) > 1, "net=%s: %s to %s: %s" % (mode, kind, address, why), got)
    tap.eq(w.hits, [], "net=%s: nothing of it arrived at the host" % mode)
    plain = {out[i]["plain"] for i, c in enumerate(cases) if c[0] == "tcp" and "." in c[1]
             and not c[1].startswith("127.")}
    tap.ok(plain <= {"EHOSTUNREACH", "ENETUNREACH", "EACCES"},
           "net=%s: a program is told at once" % mode, plain)


def reachable(way, mode, addresses, want):
    out = way.run(mode, [["reach", k, a, PORT, "plain", 15 if want else 1.5]
                         for a in addresses for k in ("tcp", "udp")])
    names = [(k, a) for a in addresses for k in ("tcp", "udp")]
    for (kind, address), got in zip(names, out):
        hit = got == "answered %r" % world.FOREIGN
        tap.ok(hit == want, "net=%s: another machine, %s to %s: %s" %
               (mode, kind, address, "reached" if want else "a private range"), got)


def names_and_bytes(way, mode):
    want = hashlib.sha256(world.bulk(SIZE)).hexdigest()
    out = way.run(mode, [["query", "udp", "10.0.2.3", "some.example"],
                         ["query", "tcp", "10.0.2.3", "some.example"],
                         ["own_loopback"], ["devices"], ["down", "203.0.113.2", BULK],
                         ["up", "203.0.113.2", SINK, SIZE]])
    tap.eq(out[0], "203.0.113.2", "net=%s: a name is found" % mode)
    tap.eq(out[1], "203.0.113.2", "net=%s: by TCP as well" % mode)
    tap.eq(out[2], "hello", "net=%s: own loopback" % mode)
    tap.eq(out[3], ["lo", "tap0"], "net=%s: two devices" % mode)
    tap.eq(out[4], [SIZE, want], "net=%s: 64 MiB in, each byte right" % mode)
    tap.ok(out[5][0] == out[5][1], "net=%s: 64 MiB out, each byte right" % mode, out[5])


def tampering(way, mode):
    for name, got in way.run(mode, [["tamper"]])[0].items():
        tap.ok(got != "DONE", "net=%s: a worker cannot: %s" % (mode, name), got)


def new_address(way, w, mode):
    """The host gets an address while the sandbox runs."""
    del w.hits[:]
    p = way.open(mode, [["later", "tcp", "203.0.113.9", PORT], ["later", "udp", "203.0.113.9", PORT]])
    armed = [p.stdout.readline(), p.stdout.readline()]
    tap.eq(armed, ['"armed"\n'] * 2, "net=%s: a worker waits for news of routes" % mode)
    world.ip("address", "add", "203.0.113.9/32", "dev", "h0")
    out = [json.loads(line) for line in p.communicate(timeout=60)[0].splitlines()]
    for kind, got in zip(("tcp", "udp"), out):
        bad = [v for v in got.values() if v.startswith(("REACHED", "answered"))]
        tap.ok(not bad and got["plain"] == "EHOSTUNREACH",
               "net=%s: an address that the host got later, %s" % (mode, kind), got)
    tap.eq(len(out), 2, "net=%s: both were tried" % mode)
    tap.eq(w.hits, [], "net=%s: and nothing arrived" % mode)
    world.ip("address", "del", "203.0.113.9/32", "dev", "h0")


def none(way, w):
    del w.hits[:]
    out = way.run("none", [["devices"], ["own_loopback"], ["query", "udp", "10.0.2.3", "a.example"]] +
                  [["every", k, a, PORT] for a in w.addresses + PRIVATE + PUBLIC + METADATA
                   for k in ("tcp", "udp")])
    tap.eq(out[0], ["lo"], "net=none: no device but lo")
    tap.eq(out[1], "hello", "net=none: own loopback")
    tap.ok("203" not in out[2], "net=none: no name is found", out[2])
    bad = [o for o in out[3:] for v in o.values() if v.startswith(("REACHED", "answered"))]
    tap.eq(bad, [], "net=none: nothing is reached")
    tap.eq(w.hits, [], "net=none: nothing arrived at the host")
    tap.eq(w.slirps(), [], "net=none: no slirp4netns")


def host(way, w):
    del w.hits[:]
    out = way.run("host", [["reach", "tcp", a, PORT, "plain"] for a in w.addresses])
    tap.eq(out, ["REACHED"] * len(w.addresses), "net=host: the host's addresses, loopback included")
    tap.eq(len(w.hits), len(w.addresses), "net=host: and the host saw it: the servers do count")


def status(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def gone(pid, fd):
    """Waits for the end of the process behind the pidfd."""
    return bool(select.select([fd], [], [], 10)[0])


def slirp_itself(pid):
    s = status(pid)
    tap.ok("0" not in s["Uid"].split() and "0" not in s["Gid"].split(),
           "slirp4netns: no host root", s["Uid"] + " " + s["Gid"])
    tap.eq(int(s["CapEff"], 16) | int(s["CapPrm"], 16), 0x400,
           "slirp4netns: no capability but binding ports, in a user namespace of its own")
    tap.ok(os.readlink("/proc/%d/ns/user" % pid) != os.readlink("/proc/self/ns/user"),
           "slirp4netns: which is not the host's")
    tap.eq((s["Seccomp"], s["NoNewPrivs"], s["Groups"].strip()), ("2", "1", ""),
           "slirp4netns: its filter is on, no groups")
    tap.eq(sorted(os.listdir("/proc/%d/root" % pid)), ["etc", "run"],
           "slirp4netns: sees /etc and /run alone")
    tap.eq(os.listdir("/proc/%d/root/run" % pid), [], "slirp4netns: and nothing in /run")
    fds = [os.readlink("/proc/%d/fd/%s" % (pid, f)) for f in os.listdir("/proc/%d/fd" % pid)]
    # Devices are named by the mounts that it has left: with or without /dev.
    odd = [f for f in fds if not f.startswith(("/memfd:slirp", "pipe:", "socket:", "user:[", "net:[",
                                               "anon_inode:"))
           and not f.endswith(("/null", "/tun"))]
    tap.eq(odd, [], "slirp4netns: has no file of its starter")


def netbox_ends(way, w):
    """The leash, with netbox as init."""
    p = way.open("egress", [["later", "tcp", "203.0.113.9", PORT]])
    tap.eq(p.stdout.readline(), '"armed"\n', "a sandbox that stays")
    slirps = w.slirps()
    tap.eq(len(slirps), 1, "has one slirp4netns")
    slirp_itself(slirps[0])
    fd = os.pidfd_open(slirps[0])
    p.kill()
    p.communicate()
    tap.ok(gone(slirps[0], fd), "which ends when the sandbox is killed")
    os.close(fd)


def all_gone(w):
    """Waits until the host has no other process than us; what is left after 10 s."""
    end = time.monotonic() + 10
    while (left := w.others()) and time.monotonic() < end:
        for pid in left:
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                continue
            select.select([fd], [], [], max(0, end - time.monotonic()))
            os.close(fd)
    return left


def berth_killed(way, w):
    """berth itself is killed while it makes a sandbox; destroy takes away what there is."""
    for ms in range(0, 60, 3):
        way.modes.add("egress")
        p = subprocess.Popen(way.argv("egress", "exec", "--", "true"), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            p.wait(ms / 1000)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        way.end()
        left = all_gone(w)
        for pid in [p for p, name in left.items() if name == "slirp4netns"]:
            left[pid] = {h: command(h) for h in holder(pid)}
        tap.eq(left, {}, "berth killed after %d ms: destroy leaves no process" % ms)


def killed_in_the_middle(way, w):
    """The starter dies at any moment: before, while and after slirp4netns is let go."""
    worst = {}
    for ms in range(30):
        p = way.open("egress", [["own_loopback"]])
        try:
            p.wait(ms / 1000)
        except subprocess.TimeoutExpired:
            pass
        p.kill()
        p.communicate()
        worst.update(all_gone(w))
    tap.eq(worst, {}, "a starter killed at 30 moments leaves no process")


def lost_news(way, w):
    """More new addresses at once than a socket's queue holds."""
    new = ["203.1.%d.%d" % (i // 250, 1 + i % 250) for i in range(1500)]
    p = way.open("egress", [["denied_soon", new]])
    tap.eq(p.stdout.readline(), '"armed"\n', "a sandbox whose init is slow")
    p.send_signal(signal.SIGSTOP)
    for what in ("add", "del"):
        text = "".join("address %s %s/32 dev h0\n" % (what, a) for a in new)
        subprocess.run(["ip", "-batch", "-"], input=text, text=True, check=True)
        if what == "add":
            p.send_signal(signal.SIGCONT)
            out = p.communicate(timeout=60)[0]
    tap.eq(json.loads(out or "null"), [], "1500 addresses that the host got at once are out of reach")


def linked_resolver(way, w, where):
    """/etc/resolv.conf is a link into /run."""
    w.resolver_link(where, "10.77.0.2")
    out = way.run("egress", [["query", "udp", "10.0.2.3", "some.example"]])
    tap.eq(out, ["203.0.113.2"], "a resolver by a link to /run/%s" % where)
    p = way.open("egress", [["later", "tcp", "203.0.113.9", PORT]])
    tap.eq(p.stdout.readline(), '"armed"\n', "a sandbox to look at")
    seen = os.listdir("/proc/%d/root/run" % w.slirps()[0])
    tap.eq(seen, [where.split("/")[0]], "slirp4netns: sees that in /run alone")
    p.kill()
    p.communicate()
    if "/" not in where:
        return
    world.dns("127.0.0.2", "203.0.113.7")
    p = way.open("egress", [["query", "udp", "10.0.2.3", "some.example"],
                            ["query_until", "10.0.2.3", "some.example", "203.0.113.7"],
                            ["later", "tcp", "203.0.113.9", PORT]])
    p.stdout.readline()
    w.resolver_change(where, "127.0.0.2")
    world.ip("address", "add", "203.0.113.9/32", "dev", "h0")
    out = [json.loads(line) for line in p.communicate(timeout=60)[0].splitlines()]
    world.ip("address", "del", "203.0.113.9/32", "dev", "h0")
    tap.eq(out[1], "203.0.113.7", "a running sandbox follows the host to another resolver")


def writes(pid, fd):
    with open("/proc/%s/fdinfo/%s" % (pid, fd), encoding="ascii") as f:
        return any(line.startswith("flags:") and int(line.split()[1], 8) & 3 for line in f)


def holder(pid):
    """The processes that hold the writing end of the exit pipe of slirp4netns: {pid}."""
    pipe, out = os.readlink("/proc/%d/fd/4" % pid), set()
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            fds = os.listdir("/proc/%s/fd" % other)
            for f in fds:
                if os.readlink("/proc/%s/fd/%s" % (other, f)) == pipe and writes(other, f):
                    out.add(int(other))
        except OSError:
            pass
    return out


def command(pid):
    """For messages."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError as e:
        return str(e)


def berth_ends(way, w):
    """Stop, destroy and the death of init; then nothing is left."""
    for how in ("stop", "destroy", "kill"):
        r = way.call("egress", "exec", "--", "true")
        tap.eq((r.returncode, r.stderr), (0, ""), "%s: a sandbox" % how)
        slirps = w.slirps()
        tap.eq(len(slirps), 1, "%s: has one slirp4netns" % how)
        fd, init = os.pidfd_open(slirps[0]), holder(slirps[0])
        tap.eq(len(init), 1, "%s: one process holds the leash, init" % how)
        if how == "stop":
            slirp_itself(slirps[0])
        if how == "kill":
            os.kill(init.pop(), signal.SIGKILL)
        else:
            r = way.call("egress", "sandbox", how)
            tap.eq(r.returncode, 0, "%s: done" % how)
        tap.ok(gone(slirps[0], fd), "%s: slirp4netns has ended" % how)
        os.close(fd)
    for mode in ("egress", "public", "none", "host"):
        way.call(mode, "exec", "--", "true")
        r = way.call(mode, "--json", "sandbox", "info")
        tap.eq(json.loads(r.stdout).get("net"), mode, "net=%s: info says so" % mode)


def files(way):
    """What a program looks names up with."""
    for mode, want in (("egress", "nameserver 10.0.2.3\nsearch example.test\n"),
                       ("public", "nameserver 10.0.2.3\n"),
                       ("host", "search example.test\nnameserver 10.77.0.2\n")):
        r = way.call(mode, "exec", "--", "cat", "/etc/resolv.conf")
        tap.eq(r.stdout, want, "net=%s: resolv.conf" % mode)
        out = way.run(mode, [["lookup", "some.example"]])
        tap.eq(out, ["203.0.113.2"], "net=%s: a program finds a name" % mode)
    way.end()


def failures(way):
    """slirp4netns that is not there, or fails."""
    run = lambda slirp: subprocess.run([way.program, "egress", slirp, "true"], text=True,
                                       stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    r = run("/nonexistent/slirp4netns")
    tap.ok(r.returncode == 98 and "cannot execute /nonexistent/slirp4netns: No such file" in r.stderr,
           "no slirp4netns: the error names it", r.stderr)
    d = tempfile.mkdtemp(prefix="net-fake.")
    os.chmod(d, 0o755)
    for text, want in (("#!/bin/sh\necho one >&2\necho no tap today >&2\nexit 3\n",
                        "net: slirp4netns: no tap today"),
                       ("#!/bin/sh\nexit 0\n", "net: slirp4netns: it said nothing"),
                       ("#!/nonexistent\n", "net: slirp4netns: cannot execute")):
        name = os.path.join(d, "slirp4netns")
        with open(name, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(name, 0o755)
        r = run(name)
        tap.ok(r.returncode == 97 and want in r.stderr, "a slirp4netns that fails: " + want,
               "%d %s" % (r.returncode, r.stderr))
    shutil.rmtree(d)


def everything(way):
    w = world.World(SIZE)
    # The host itself resolves: the worst case, and a usual one.
    world.dns("127.0.0.1")
    w.resolver("127.0.0.1")
    if isinstance(way, User):
        w.user(way.program)
    try:
        host(way, w)
        none(way, w)
        for mode in ("egress", "public"):
            forbidden(way, w, mode)
            names_and_bytes(way, mode)
            tampering(way, mode)
            new_address(way, w, mode)
            reachable(way, mode, PUBLIC, True)
            reachable(way, mode, PRIVATE, mode == "egress")
        way.end()
        w.resolver("10.77.0.2")
        for mode in ("egress", "public"):
            out = way.run(mode, [["query", p, "10.0.2.3", "some.example"] for p in ("udp", "tcp")])
            tap.eq(out, ["203.0.113.2"] * 2, "net=%s: a resolver on another machine" % mode)
        way.end()
        if isinstance(way, Berth):
            files(way)
            berth_ends(way, w)
            way.end()
            berth_killed(way, w)
        else:
            netbox_ends(way, w)
            killed_in_the_middle(way, w)
            lost_news(way, w)
            linked_resolver(way, w, "systemd/resolve/stub-resolv.conf")
            linked_resolver(way, w, "resolv.conf")
            failures(way)
    finally:
        os.kill(w.pid, signal.SIGKILL)
        way.end()


def missing():
    """What is not there, by its name in tests/prerequisites; a failure when BERTH_REQUIRE names it,
    else a reason to skip."""
    required = os.environ.get("BERTH_REQUIRE", "").replace(",", " ").split()
    tools = [("slirp4netns", "slirp4netns"), ("ip", "ip"), ("setpriv", "userns")]
    tools += [("newuidmap", "subids")] if sys.argv[1] == "user" else []
    tools += [("bwrap", "bwrap")] if sys.argv[1] != "netbox" else []
    lost = [package for tool, package in tools if not shutil.which(tool)]
    if os.getuid() != 0:
        lost.append("root")
    for name in lost:
        if name in required:
            tap.ok(False, name + " is required here", "and missing")
    return lost


def main():
    lost = missing()
    if lost:
        print("1..%d # SKIP needs %s" % (tap.n, ", ".join(lost)))
        return 1 if tap.failed else 0
    way = {"netbox": Netbox, "berth": Berth, "user": User, "single": Single}[sys.argv[1]](os.path.abspath(sys.argv[2]))
    try:
        everything(way)
    except Exception:  # a broken world is a failure, not silence
        tap.ok(False, "the test itself", traceback.format_exc())
    print("1..%d" % tap.n, flush=True)
    return 1 if tap.failed else 0


# Servers are daemon threads.
code = main()
sys.stdout.flush()
os._exit(code)
