"""Joins two network namespaces by tun devices: what goes through is late, and some of it is lost.

For kernels without netem. Says "ready"; at the end of its input it tells what it did, as JSON, and
ends. Good for tens of Mbit/s.
"""

import argparse
import collections
import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

from network import inside

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
TCP, SYN, ACK = 6, 0x02, 0x10


def open_tun(namespace: str, device: str, address: str, peer: str) -> int:
    with inside(namespace):
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        subprocess.run(["ip", "addr", "add", address, "peer", peer, "dev", device], check=True)
        subprocess.run(["ip", "link", "set", device, "up", "mtu", "1400"], check=True)
    return tun


def opens_a_connection(packet: bytes) -> bool:
    header = (packet[0] & 0x0F) * 4
    is_tcp = packet[0] >> 4 == 4 and packet[9] == TCP and len(packet) > header + 13
    return is_tcp and packet[header + 13] & (SYN | ACK) == SYN


class Way:
    """One direction. Order is kept."""

    def __init__(self, source: int, target: int, options: argparse.Namespace, is_closed: bool):
        self.source, self.target = source, target
        self.delay, self.loss = options.delay / 1e3, options.loss
        self.is_closed = is_closed
        self.random = random.Random(options.seed)
        self.waiting: collections.deque[tuple[float, bytes]] = collections.deque()
        self.told = {"carried": 0, "lost": 0, "refused": 0}

    def take(self) -> None:
        try:
            packet = os.read(self.source, 2048)
        except BlockingIOError:
            return
        if self.is_closed and opens_a_connection(packet):
            self.told["refused"] += 1
        elif self.random.random() < self.loss:
            self.told["lost"] += 1
        else:
            self.waiting.append((time.monotonic() + self.delay, packet))

    def give(self, now: float) -> None:
        while self.waiting and self.waiting[0][0] <= now:
            try:
                os.write(self.target, self.waiting.popleft()[1])
            except OSError:  # the device is full: as a router would
                self.told["lost"] += 1
            else:
                self.told["carried"] += 1


def carry(ways: list[Way]) -> None:
    by_source = {way.source: way for way in ways}
    while True:
        now = time.monotonic()
        due = min((way.waiting[0][0] for way in ways if way.waiting), default=now + 1.0)
        ready, _, _ = select.select([*by_source, sys.stdin], [], [], max(0.0, due - now))
        for source in ready:
            if source is sys.stdin:
                return
            by_source[source].take()
        for way in ways:
            way.give(time.monotonic())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device")
    for side in ("a", "b"):
        parser.add_argument(f"--{side}", nargs=2, required=True, metavar=("NAMESPACE", "ADDRESS"))
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds, each way")
    parser.add_argument("--loss", type=float, default=0.0, help="share of packets, each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--closed", action="store_true", help="b accepts no TCP connection")
    options = parser.parse_args()
    (a, a_address), (b, b_address) = options.a, options.b
    tun_a = open_tun(a, options.device, a_address, b_address)
    tun_b = open_tun(b, options.device, b_address, a_address)
    ways = [Way(tun_a, tun_b, options, options.closed), Way(tun_b, tun_a, options, False)]
    print("ready", flush=True)
    carry(ways)
    keys = ways[0].told
    print(json.dumps({key: sum(way.told[key] for way in ways) for key in keys}), flush=True)


if __name__ == "__main__":
    main()
