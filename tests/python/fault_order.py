"""Tells a process, and those that it starts, at which named point to stop (base/fault_point.h)."""

import mmap
import os
import struct
from typing import Any

_NAME, _LEFT, _HIT, _SIZE = 56, 56, 60, 64


class FaultOrder:
    def __init__(self) -> None:
        self._descriptor = os.memfd_create("order")
        os.truncate(self._descriptor, _SIZE)
        self._memory = mmap.mmap(self._descriptor, _SIZE)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def passed(self) -> dict[str, Any]:
        """For Popen: the process has it."""
        return {
            "pass_fds": (self._descriptor,),
            "env": {**os.environ, "RAVNEST_FAULT_POINTS": str(self._descriptor)},
        }

    def give(self, point: str, times: int = 1) -> None:
        """Stop where the point is reached for the n-th time from now on."""
        self.take_back()
        self._memory[:_NAME] = point.encode().ljust(_NAME, b"\0")
        self._write(_LEFT, times)

    def take_back(self) -> None:
        """Nothing is ordered, and nothing was hit."""
        self._write(_LEFT, 0)
        self._write(_HIT, 0)

    def hit(self) -> int:
        """The process that stopped there; 0 as long as none has."""
        return struct.unpack_from("i", self._memory, _HIT)[0]

    def _write(self, place: int, number: int) -> None:
        struct.pack_into("i", self._memory, place, number)
