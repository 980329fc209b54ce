"""Machines for plans: addresses of this one that nobody uses, and the file that lists them."""

import contextlib
import json
import socket
from collections.abc import Sequence
from pathlib import Path


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def write_pool(folder: str, hosts: Sequence[str], machine: dict) -> Path:
    """Machines that are all alike."""
    path = Path(folder, "node_configs.json")
    pool = {i: {"IP": each, "benchmarks": machine} for i, each in enumerate(hosts)}
    path.write_text(json.dumps(pool))
    return path
