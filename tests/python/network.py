"""A star of network namespaces: a hub, and boxes that each have a link of their own to it."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LINK = Path(__file__).with_name("user_link.py")
HUB = "10.79.0.1"  # the hub's address, wherever one comes from
DEVICE = "rn{}"
# What tbf lets through at once, and how long a packet may wait.
SHAPE = ["burst", "128kb", "latency", "400ms"]


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)


CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is there; what it opens and whom it starts stay there."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "[tests] cannot enter a network namespace")


class Network:
    """Needs root. Boxes reach each other through the hub."""

    def __init__(self) -> None:
        assert os.geteuid() == 0, "network namespaces are made by root"
        self._names: list[str] = []
        self._links: list[subprocess.Popen] = []
        self.hub = self._add("hub")
        ip("-n", self.hub, "addr", "add", f"{HUB}/32", "dev", "lo")
        with inside(self.hub):
            subprocess.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], check=True)

    def _add(self, name: str) -> str:
        whole = f"ravnest-{os.getpid()}-{name}"
        ip("netns", "add", whole)
        self._names.append(whole)
        ip("-n", whole, "link", "set", "lo", "up")
        return whole

    def _box(self) -> tuple[str, str, str, str]:
        number = len(self._names)
        box = self._add(f"box{number}")
        return box, DEVICE.format(number), f"10.79.{number}.1", f"10.79.{number}.2"

    def add_box(self, megabits: int) -> str:
        """A box on a link of this bandwidth, both ways; gives its namespace."""
        box, device, near, far = self._box()
        there = ["type", "veth", "peer", device, "netns", box]
        ip("link", "add", device, "netns", self.hub, *there)
        for side, own, other in ((self.hub, near, far), (box, far, near)):
            ip("-n", side, "addr", "add", own, "peer", other, "dev", device)
            ip("-n", side, "link", "set", device, "up")
            shape = ["tbf", "rate", f"{megabits}mbit", *SHAPE]
            command = ["tc", "-n", side, "qdisc", "add", "dev", device, "root", *shape]
            subprocess.run(command, check=True)
        ip("-n", box, "route", "add", "default", "via", near, "dev", device)
        return box

    def add_far_box(self, *flags: object) -> str:
        """A box on a link of user_link.py, with these flags."""
        box, device, near, far = self._box()
        words = [device, "--a", self.hub, near, "--b", box, far, *flags]
        link = subprocess.Popen(
            [sys.executable, str(LINK), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._links.append(link)
        assert link.stdout is not None and link.stdout.readline() == "ready\n", "no link"
        ip("-n", box, "route", "add", "default", "via", near, "dev", device)
        return box

    def end_links(self) -> dict[str, int]:
        """What they did, all together."""
        told = []
        while self._links:
            told.append(json.loads(self._links.pop().communicate(timeout=20)[0]))
        return {key: sum(each[key] for each in told) for key in (told[0] if told else {})}

    def end(self) -> None:
        self.end_links()
        while self._names:
            ip("netns", "del", self._names.pop())
