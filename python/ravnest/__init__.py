"""Ravnest: train one PyTorch model on many unequal machines."""

import torch  # noqa: F401  (loads libtorch before the extension needs it)

from ravnest._C import Error
from ravnest.capture import capture
from ravnest.program import Program, Stages

__all__ = ["Error", "Program", "Stages", "capture"]
