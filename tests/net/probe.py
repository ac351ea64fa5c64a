# SPDX-License-Identifier: MIT
"""What a worker tries from inside of a sandbox; read by `python3 -` there, so it uses nothing else.

argv[1] is a JSON list of tasks, each a list whose first word names one of the functions below; the
answer is one JSON line per task, in order. The tasks of one list run at the same time.
"""
import errno
import fcntl
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time

SECRET = b"secret of the host"
WAIT = 1.5
TAP = struct.pack("16s", b"tap0")


def index():
    try:
        return socket.if_nametoindex("tap0")
    except OSError:
        return 1


def tricks():
    """Everything that an unprivileged socket can say about the way it wants to go."""
    own = b"10.0.2.100"
    dev = struct.pack("=I", index())
    any4 = socket.inet_aton("0.0.0.0")
    return {
        "plain": [],
        "bindtodevice": [(socket.SOL_SOCKET, 25, b"tap0")],
        "unicast_if": [(socket.IPPROTO_IP, 50, struct.pack("!I", index()))],
        "dontroute": [(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)],
        "freebind": [(socket.IPPROTO_IP, 15, 1)],
        "own source": own,
        "multicast_if": [(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, any4 + any4 + dev),
                         (socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 9)],
        # Loose source routing over the resolver, which is allowed.
        "source route": [(socket.IPPROTO_IP, socket.IP_OPTIONS,
                          bytes([131, 7, 4]) + socket.inet_aton("10.0.2.3") + b"\0")],
        "pktinfo": (socket.IPPROTO_IP, 8, dev + any4 + any4),
    }


def make(kind, address, way, wait):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, kind)
    s.settimeout(wait)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    if isinstance(way, bytes):
        s.bind((way.decode(), 0))
    if isinstance(way, list):
        for level, name, value in way:
            s.setsockopt(level, name, value)
    return s


def reach(kind, address, port, name, wait=WAIT):
    way = tricks()[name]
    try:
        s = make(socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM, address, way, wait)
        if kind == "tcp":
            s.connect((address, port))
            got = s.recv(100)
        else:
            s.sendmsg([b"to " + address.encode()], [way] if isinstance(way, tuple) else [], 0,
                      (address, port))
            got = s.recvfrom(100)[0]
        return "REACHED" if SECRET in got else "answered %r" % got
    except TimeoutError:
        return "nothing came"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def every(kind, address, port):
    """By all the tricks at once: {trick: outcome}."""
    out = {}

    def one(name):
        out[name] = reach(kind, address, port, name)

    names = list(tricks())
    if ":" in address:
        names = ["plain", "bindtodevice"]
    threads = [threading.Thread(target=one, args=(n,)) for n in names]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def later(kind, address, port):
    """Waits until the route to address is there (whoever adds it), then tries it."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.bind((0, 0x40))  # RTMGRP_IPV4_ROUTE
    s.settimeout(20)
    sys.stdout.write(json.dumps("armed") + "\n")
    sys.stdout.flush()
    want = socket.inet_aton(address)
    while want not in s.recv(65536):
        pass
    return every(kind, address, port)


def denied_soon(addresses):
    """Until no route leads to any of them (asked by connect(2), which sends nothing); or why not."""
    end, left = time.monotonic() + 10, list(addresses)
    sys.stdout.write(json.dumps("armed") + "\n")
    sys.stdout.flush()
    while left and time.monotonic() < end:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            s.connect((left[0], 9))
            time.sleep(0.02)
        except OSError:
            left.pop(0)
        s.close()
    return left


def query(proto, server, name):
    """One A query by hand; the address, or why not. As with every resolver, a datagram may get lost."""
    q = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0)
    q += b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0\0\1\0\1"
    try:
        s = socket.socket(type=socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM)
        s.settimeout(5)
        s.connect((server, 53))
        if proto == "udp":
            s.settimeout(1)
        for left in range(4 if proto == "udp" else 0, -1, -1):
            s.send(q if proto == "udp" else struct.pack("!H", len(q)) + q)
            try:
                a = s.recv(512)
                break
            except socket.timeout:
                if left == 0:
                    raise
        return socket.inet_ntoa(a[-4:]) if len(a) > len(q) else "no answer in %r" % a
    except OSError as e:
        return str(e)


def query_until(server, name, want):
    """Asks until the answer is want, or for 20 s."""
    end = time.monotonic() + 20
    while (got := query("udp", server, name)) != want and time.monotonic() < end:
        time.sleep(0.1)
    return got


def lookup(name):
    try:
        return socket.gethostbyname(name)
    except OSError as e:
        return str(e)


def down(address, port):
    s = socket.create_connection((address, port), 10)
    h, n = hashlib.sha256(), 0
    while data := s.recv(1 << 20):
        h.update(data)
        n += len(data)
    return [n, h.hexdigest()]


def up(address, port, n):
    s = socket.create_connection((address, port), 10)
    block, h = bytes(range(256)) * 4096, hashlib.sha256()
    while n:
        s.sendall(block[:n])
        h.update(block[:n])
        n -= min(n, len(block))
    s.shutdown(socket.SHUT_WR)
    return [s.recv(100).decode(), h.hexdigest()]


def own_loopback():
    a = socket.create_server(("127.0.0.1", 0))
    b = socket.create_connection(a.getsockname(), 5)
    c = a.accept()[0]
    c.sendall(b"hello")
    return b.recv(5).decode()


def devices():
    return sorted(name for _, name in socket.if_nameindex())


def outcome(f):
    try:
        f()
        return "DONE"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def request(kind, flags, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body)
    err = -struct.unpack_from("=i", s.recv(4096), 16)[0]
    if err:
        raise OSError(err, "")


def tun():
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454ca, struct.pack("16sH22x", b"tap0", 0x1002))


def tamper():
    """The network itself; everything here wants CAP_NET_ADMIN or CAP_NET_RAW."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host = struct.pack("=2H4s8x", socket.AF_INET, 0, socket.inet_aton("10.77.0.1"))
    anywhere = struct.pack("=2H4s8x", socket.AF_INET, 0, b"\0" * 4)
    entry = struct.pack("=8x16s16s16sH", host, anywhere, anywhere, 5).ljust(120, b"\0")
    route = struct.pack("=8BI", socket.AF_INET, 32, 0, 0, 254, 4, 0, 1, 0)
    route += struct.pack("=HH4s", 8, 1, socket.inet_aton("10.77.0.1"))
    rule = struct.pack("=8BI", socket.AF_INET, 0, 0, 0, 254, 0, 0, 1, 0)
    link = struct.pack("=BxHiII", 0, 0, index(), 0, 1)
    neighbour = struct.pack("=BxxxiHBB", socket.AF_INET, index(), 128, 0, 1)
    neighbour += struct.pack("=HH4s", 8, 1, socket.inet_aton("10.77.0.1"))
    neighbour += struct.pack("=HH6sxx", 10, 2, bytes([0x52, 0x55, 10, 0, 2, 2]))
    return {
        "delete a route": outcome(lambda: request(25, 0, route)),
        "delete a route by ioctl": outcome(lambda: fcntl.ioctl(s, 0x890c, entry)),
        "add a rule": outcome(lambda: request(32, 0x400, rule)),
        "take tap0 down": outcome(lambda: request(16, 0, link)),
        "add a neighbour": outcome(lambda: request(28, 0x400, neighbour)),
        "open the device": outcome(tun),
        "a raw socket": outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
        "a packet socket": outcome(lambda: socket.socket(17, socket.SOCK_RAW, 0x300)),
        "a mark": outcome(lambda: s.setsockopt(socket.SOL_SOCKET, 36, 1)),
        "another network namespace": outcome(lambda: fcntl.ioctl(s, 0x894c)),
    }


def main():
    tasks = json.loads(sys.argv[1])
    out = [None] * len(tasks)

    def one(i):
        try:
            out[i] = globals()[tasks[i][0]](*tasks[i][1:])
        except OSError as e:
            out[i] = "failed: %s" % e

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(tasks))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for o in out:
        print(json.dumps(o), flush=True)


main()
