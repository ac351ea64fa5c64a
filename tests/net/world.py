# SPDX-License-Identifier: MIT
"""A host of its own for the tests of the network, and another machine beside it.

The process that calls World() gets a network and a mount namespace: they are "the host" from then
on. A child in a third namespace is the "foreign" machine at the other end of a cable (veth). What
serves on the host counts who reached it.
"""
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
PORT, BULK, SINK = 22222, 22223, 22224
SECRET = b"secret of the host"
FOREIGN = b"hello from elsewhere"
# On the cable: the host's end and the other machine's.
HOST = ["10.77.0.1/24", "203.0.113.1/24"]
HOST6 = ["fd77::1/64", "2001:db8:77::1/64"]
PRIVATE = ["10.77.0.2", "172.16.0.2", "192.168.77.2", "198.18.0.2"]
PUBLIC = ["203.0.113.2"]
METADATA = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"]
METADATA6 = ["fd00:ec2::254"]
GROUPS = ["224.0.0.1", "224.0.0.251", "239.255.255.250"]
USER = 54321
libc = ctypes.CDLL(None, use_errno=True)


def check(r):
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def ip(*args):
    subprocess.run(["ip", *args], check=True)


def unshare(flags):
    check(libc.unshare(flags))
    if flags & CLONE_NEWNS:
        check(libc.mount(b"none", b"/", None, 0x84000, None))  # MS_REC | MS_SLAVE


def answer(query, address):
    """Every name is that address."""
    end = query.index(b"\0", 12) + 5
    return (query[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0) + query[12:end]
            + struct.pack("!HHHIH", 0xc00c, 1, 1, 60, 4) + socket.inet_aton(address))


def serve_tcp(address, port, each):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND: it may get the address later
    s.bind((address, port))
    s.listen(64)

    def run():
        while True:
            c, peer = s.accept()
            threading.Thread(target=each, args=(c, peer), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()


def serve_udp(address, port, each):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IP, 15, 1)
    s.bind((address, port))

    def run():
        while True:
            data, peer = s.recvfrom(4096)
            each(s, data, peer)

    threading.Thread(target=run, daemon=True).start()
    return s


def dns(address, every="203.0.113.2"):
    def tcp(c, _):
        q = c.recv(4096)[2:]
        a = answer(q, every)
        c.sendall(struct.pack("!H", len(a)) + a)
        c.close()

    serve_udp(address, 53, lambda s, q, peer: s.sendto(answer(q, every), peer))
    serve_tcp(address, 53, tcp)


def bulk(n):
    block = bytes(range(251)) * 4178  # 251 is a prime: no page is like another
    whole = block * (n // len(block) + 1)
    return whole[:n]


def foreign(ready, size):
    """The other machine; ends with its parent."""
    data = bulk(size)

    def send(c, _):
        c.sendall(data)
        c.close()

    def sink(c, _):
        h = hashlib.sha256()
        while b := c.recv(1 << 20):
            h.update(b)
        c.sendall(h.hexdigest().encode())
        c.close()

    def hello(c, _):
        c.sendall(FOREIGN)
        c.close()

    for a in ["0.0.0.0", "::"]:
        serve_udp(a, PORT, lambda s, d, peer: s.sendto(FOREIGN, peer))
    serve_tcp("0.0.0.0", PORT, hello)
    serve_tcp("0.0.0.0", BULK, send)
    serve_tcp("0.0.0.0", SINK, sink)
    dns("10.77.0.2")
    os.write(ready, b"1")
    signal.pause()


class World:
    """hits: what reached the host, as "tcp 10.77.0.1" or "udp …"."""

    def __init__(self, size):
        self.hits = []
        unshare(CLONE_NEWNS | CLONE_NEWNET)
        ip("link", "set", "lo", "up")
        ip("address", "add", "127.0.0.2/8", "dev", "lo")
        self.pid = self.start_foreign(size)
        ip("route", "add", "local", "198.51.100.0/24", "dev", "lo")
        self.addresses = ["127.0.0.1", "127.0.0.2", "198.51.100.7"]
        self.addresses += [a.split("/")[0] for a in HOST]
        self.addresses6 = ["::1"] + [a.split("/")[0] for a in HOST6]
        for a in self.addresses + self.addresses6 + ["203.0.113.9"]:
            self.serve(a)
        s = serve_udp("0.0.0.0", PORT, self.on_udp("wildcard"))
        for g in GROUPS:
            for i in HOST[:1] + ["127.0.0.1/8"]:
                s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                             socket.inet_aton(g) + socket.inet_aton(i.split("/")[0]))

    def start_foreign(self, size):
        tell, ready = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            unshare(CLONE_NEWNET)
            os.write(tell[1], b"1")
            os.read(ready[0], 1)
            ip("link", "set", "lo", "up")
            ip("link", "set", "m0", "up")
            for a in PRIVATE + PUBLIC + METADATA:
                ip("address", "add", a + "/24", "dev", "m0")
            for a in METADATA6 + ["fd77::2"]:
                ip("address", "add", a + "/64", "dev", "m0", "nodad")
            foreign(tell[1], size)
            os._exit(1)
        os.read(tell[0], 1)
        ip("link", "add", "h0", "type", "veth", "peer", "name", "m0", "netns", str(pid))
        ip("link", "set", "h0", "up")
        for a in HOST:
            ip("address", "add", a, "brd", "+", "dev", "h0")
        for a in HOST6:
            ip("address", "add", a, "dev", "h0", "nodad")
        for a in PRIVATE + PUBLIC + METADATA:
            if a not in ("10.77.0.2", "203.0.113.2"):
                ip("route", "add", a, "dev", "h0", "src", "10.77.0.1")
        ip("route", "add", "224.0.0.0/4", "dev", "h0")
        ip("route", "add", "fd00:ec2::254", "dev", "h0", "src", "fd77::1")
        os.write(ready[1], b"1")
        os.read(tell[0], 1)
        return pid

    def on_udp(self, name):
        def each(s, data, peer):
            self.hits.append("udp %s: %s" % (name, data.decode("latin-1")))
            s.sendto(SECRET, peer)
        return each

    def serve(self, address):
        def tcp(c, _):
            self.hits.append("tcp " + address)
            c.sendall(SECRET)
            c.close()

        serve_tcp(address, PORT, tcp)
        serve_udp(address, PORT, self.on_udp(address))

    def resolver(self, address):
        """Makes address the resolver of the host: a file over the host's own, here alone."""
        name = os.path.join(os.environ.get("TMPDIR", "/tmp"), "resolv." + address)
        with open(name, "w", encoding="ascii") as f:
            f.write("search example.test\nnameserver %s\n" % address)
        os.chmod(name, 0o644)
        target = os.path.realpath("/etc/resolv.conf")
        check(libc.mount(name.encode(), target.encode(), None, 0x1000, None))  # MS_BIND

    def resolver_link(self, where, address):
        """The same, as systemd and others have it: a link to a file below /run, whose sockets are
        nobody's business. A copy of /etc carries the link."""
        etc = os.path.join(os.environ.get("TMPDIR", "/tmp"), "etc-" + where.replace("/", "-"))
        os.mkdir(etc, 0o755)
        subprocess.run(["cp", "-a", "/etc/.", etc], check=True)
        if os.path.lexists(etc + "/resolv.conf"):
            os.unlink(etc + "/resolv.conf")
        os.symlink("../run/" + where, etc + "/resolv.conf")
        check(libc.mount(etc.encode(), b"/etc", None, 0x1000, None))
        check(libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, b"mode=0755"))
        os.makedirs(os.path.dirname("/run/" + where), exist_ok=True)
        os.mkdir("/run/secret")
        self.resolver_change(where, address)

    def resolver_change(self, where, address):
        """As those do it who write it: by a rename."""
        with open("/run/" + where + ".new", "w", encoding="ascii") as f:
            f.write("nameserver %s\n" % address)
        os.rename("/run/" + where + ".new", "/run/" + where)

    def user(self, program):
        """An ordinary user with ranges of ids, and program where he can run it; all of it in this
        mount namespace. Where /dev/net/tun is for root alone it is for all, as elsewhere."""
        check(libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, b"mode=0755"))
        shutil.copy(program, "/mnt/berth")
        os.mkdir("/mnt/home")
        os.chown("/mnt/home", USER, USER)
        for name, line in (("passwd", "user%d:x:%d:%d::/mnt/home:/bin/sh" % (USER, USER, USER)),
                           ("group", "user%d:x:%d:" % (USER, USER)),
                           ("subuid", "user%d:1700000000:65536" % USER),
                           ("subgid", "user%d:1700000000:65536" % USER)):
            with open("/etc/" + name, encoding="utf-8") as f:
                text = f.read()
            with open("/mnt/" + name, "w", encoding="utf-8") as f:
                f.write(text + line + "\n")
            os.chmod("/mnt/" + name, 0o644)
            check(libc.mount(b"/mnt/" + name.encode(), b"/etc/" + name.encode(), None, 0x1000, None))
        check(libc.mount(b"tmpfs", b"/dev/net", b"tmpfs", 0, b"mode=0755"))
        os.mknod("/dev/net/tun", 0o20666, os.makedev(10, 200))
        os.chmod("/dev/net/tun", 0o666)

    def others(self):
        """{pid: name} of all other processes on this host (zombies have no namespaces)."""
        own, out = os.readlink("/proc/self/ns/net"), {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if int(pid) != os.getpid() and os.readlink("/proc/%s/ns/net" % pid) == own:
                    with open("/proc/%s/comm" % pid, encoding="utf-8") as f:
                        out[int(pid)] = f.read().strip()
            except OSError:
                pass
        return out

    def slirps(self):
        return [pid for pid, name in self.others().items() if name == "slirp4netns"]


if __name__ == "__main__":
    sys.exit("a part of net_test.py")
