"""A node's place in a plan: its role, its stage, and what it knows of the whole model."""

import functools
import json
import os
from pathlib import Path
from typing import Any

from torch import nn

from ravnest import _C
from ravnest.capture import capture
from ravnest.program import Program, _Signature
from ravnest.structure import Structure


class Place:
    """What `node_data` says of one node.

    Raises:
        ValueError: If there is no plan, or no such node in it.
    """

    def __init__(self, node_data: str | os.PathLike, name: str):
        self.node_data = os.fspath(node_data)
        self.name = name
        config = _C.read_node(self.node_data, name)
        self.role: str = config["role"]
        self.stage: int = config["stage"]
        self.stages: int = config["stages"]
        self.clusters: int = config["clusters"]
        self.address: str = config["address"]

    @property
    def is_root(self) -> bool:
        return self.stage == 0

    @property
    def is_leaf(self) -> bool:
        return self.stage + 1 == self.stages

    @property
    def checkpoint(self) -> Path:
        return Path(_C.checkpoint_path(self.node_data, self.name))

    @functools.cached_property
    def has_loss(self) -> bool:
        """The model was captured with its loss."""
        return self._read().metadata.get("loss") == "true"

    @functools.cached_property
    def signature(self) -> _Signature:
        """Between calls of the whole model and its flat inputs and outputs, at the root."""
        return _Signature(_WholeModel(self), False)

    def capture(self, model: nn.Module) -> Program:
        """A module for the stage in place of the stored one, which takes and gives the same."""
        stored = self._read()
        examples = _C.example_inputs(stored)
        args, kwargs = tuple(examples), {}
        if self.stages == 1 and stored.in_spec(True):
            args, kwargs = Structure.parse(stored.in_spec(True)).build(examples)
        program = capture(model, args, kwargs)
        found, wanted = _C.num_outputs(program._core), _C.num_outputs(stored)
        if found != wanted:
            raise ValueError(
                f"[node] expected a model with the {wanted} outputs of {self.name}'s sub-model, "
                f"got one with {found}."
            )
        return program

    def _read(self) -> "_C.BoundProgram":
        """Not kept: its weights would stay in memory beside those that are trained."""
        return _C.read_stage(self.node_data, self.name)


class _WholeModel:
    """The root's model_inputs.json, as a signature reads it."""

    def __init__(self, place: Place):
        path = Path(_C.stage_folder(place.node_data, place.name)) / "model_inputs.json"
        with open(path, encoding="utf-8") as file:
            self._file = json.load(file)
        self.metadata = {"arguments": self._file.get("arguments", "")}

    def inputs(self, training: bool) -> list[tuple[str, bool, Any]]:
        return [(entry["name"], False, None) for entry in self._file["inputs"]]

    def in_spec(self, training: bool) -> str:
        return self._file["in_spec"]

    def out_spec(self, training: bool) -> str:
        return self._file.get("out_spec", "")
