"""Ravnest: train one PyTorch model on many unequal machines."""

import torch  # noqa: F401  (loads libtorch before the extension needs it)

from ravnest import _C
from ravnest._C import Error
from ravnest.capture import capture
from ravnest.fit import Run, fit
from ravnest.node import Node
from ravnest.planning import Plan, Simulation, clusterize, simulate
from ravnest.program import Program, Stages
from ravnest.seed import set_seed
from ravnest.trainer import Trainer
from ravnest.utils import model_fusion, shard

__version__ = _C.version

__all__ = [
    "Error",
    "Node",
    "Plan",
    "Program",
    "Run",
    "Simulation",
    "Stages",
    "Trainer",
    "capture",
    "clusterize",
    "fit",
    "model_fusion",
    "set_seed",
    "shard",
    "simulate",
]
