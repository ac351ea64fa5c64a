#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""on_terminal.py BERTH: berth on a terminal that this program holds. Exit 0, or a message."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

BERTH = sys.argv[1]
DEADLINE = 20


def winsize(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


class Terminal:
    def __init__(self, *args, rows=31, cols=97):
        self.master, self.slave = pty.openpty()
        winsize(self.master, rows, cols)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.master)
            os.login_tty(self.slave) if hasattr(os, "login_tty") else self.login()
            os.execv(BERTH, [BERTH, *args])

    def login(self):
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(self.slave, fd)

    def send(self, data):
        os.write(self.master, data)

    def expect(self, what):
        end = time.monotonic() + DEADLINE
        while what not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit(f"waited for {what!r}, saw {self.seen!r}")
            self.seen += os.read(self.master, 65536)
        self.seen = self.seen.split(what, 1)[1]

    def end(self):
        """The exit status; what is written meanwhile is taken, so that nobody is held up."""
        fd = os.pidfd_open(self.pid)
        end = time.monotonic() + DEADLINE
        while True:
            ready, _, _ = select.select([fd, self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit(f"no end; saw {self.seen!r}")
            if self.master in ready:
                self.seen += os.read(self.master, 65536)
            elif fd in ready:
                break
        os.close(fd)
        _, status = os.waitpid(self.pid, 0)
        if termios.tcgetattr(self.slave) != self.before:
            sys.exit("the terminal was not put back")
        return os.waitstatus_to_exitcode(status)

    def vanish(self):
        """Takes the terminal away; the exit status."""
        fd = os.pidfd_open(self.pid)
        os.close(self.master)
        if not select.select([fd], [], [], DEADLINE)[0]:
            sys.exit("it does not end at the hang-up")
        os.close(fd)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def is_equal(got, want, what):
    if got != want:
        sys.exit(f"{what}: {got!r}, wanted {want!r}")


def plain():
    t = Terminal("exec", "-it", "--", "sh", "-c", "stty size; exec sh -i")
    t.expect(b"31 97")
    t.send(b"echo a-$((40 + 2))\n")
    t.expect(b"a-42")
    winsize(t.master, 50, 120)
    # The size arrives as an event: it is asked until it is there.
    t.send(b"until [ \"$(stty size)\" = '50 120' ]; do :; done; echo resized-$((1 + 1))\n")
    t.expect(b"resized-2")
    # Raw mode: ctrl-c is a byte for the terminal inside, and ends only what runs there.
    # (It speaks from within: before it is in the foreground there is nothing to interrupt.)
    t.send(b"sh -c 'echo wait-$((1 + 2)); exec sleep 1000'\n")
    t.expect(b"wait-3")
    t.send(b"\x03")
    t.send(b"echo alive-$((2 + 2))\n")
    t.expect(b"alive-4")
    t.send(b"exit 7\n")
    is_equal(t.end(), 7, "exit code")


def killed():
    t = Terminal("exec", "-it", "--", "sh", "-c", "echo up; exec cat")
    t.expect(b"up")
    os.kill(t.pid, signal.SIGQUIT)
    is_equal(t.end(), -signal.SIGQUIT, "after SIGQUIT")


def session():
    t = Terminal("exec", "-it", "--session", "s1", "--", "sh", "-i")
    t.send(b"X=kept; echo up-$((1 + 0))\n")
    t.expect(b"up-1")
    t.send(b"\x10\x11")
    is_equal(t.end(), 0, "detach")
    if b"--attach s1" not in t.seen:
        sys.exit(f"no hint how to attach: {t.seen!r}")
    t = Terminal("exec", "-it", "--attach", "s1")
    t.send(b"echo $X-again\n")
    t.expect(b"kept-again")
    t.send(b"exit 9\n")
    is_equal(t.end(), 9, "exit code after attach")
    # A terminal that goes away is no end of a session.
    t = Terminal("exec", "-it", "--session", "s2", "--", "sh", "-i")
    t.send(b"Y=still; echo up-$((1 + 0))\n")
    t.expect(b"up-1")
    is_equal(t.vanish(), 129, "exit code after a hang-up")
    t = Terminal("exec", "-it", "--attach", "s2")
    t.send(b"echo $Y-there\n")
    t.expect(b"still-there")
    t.send(b"exit 0\n")
    is_equal(t.end(), 0, "exit code")
    t = Terminal("exec", "-it", "--attach", "nope")
    is_equal(t.end(), 125, "attach to nothing")


def hangup():
    """A terminal that goes away leaves a run running."""
    t = Terminal("run", "art", "--id", "h", "--", "sh", "-c",
                 "echo up; while :; do echo more; done")
    t.expect(b"up")
    is_equal(t.vanish(), 129, "exit code after a hang-up")
    state = subprocess.run([BERTH, "status", "h", "--json"], stdout=subprocess.PIPE, check=True)
    is_equal(json.loads(state.stdout)["state"], "running", "state after a hang-up")
    subprocess.run([BERTH, "cancel", "h", "--grace", "0"], stdout=subprocess.DEVNULL, check=True)


for case in (plain, killed, session, hangup):
    case()
