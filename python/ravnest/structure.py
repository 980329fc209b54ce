"""The caller's own structure of inputs and outputs, kept as torch's tree specs.

A Program's graph takes and gives flat lists. The specs in its file say how the model's
arguments and results are nested. Nothing named in a file is imported: classes are only used
when the caller's process has registered them, and come back as plain dicts otherwise.
"""

import dataclasses
import json
from collections import OrderedDict
from typing import Any

import torch.utils._pytree as pytree

_SPEC_VERSION = 1


class Structure:
    """One node of a tree spec: a leaf, or a container with children."""

    def __init__(self, kind: str | None, dumped: Any, children: list["Structure"]):
        self.kind = kind
        self.dumped = dumped  # what the container wrote about itself
        self.context = _parsed(dumped)
        self.children = children

    @classmethod
    def parse(cls, text: str) -> "Structure":
        version, root = json.loads(text)
        if version != _SPEC_VERSION:
            raise ValueError(
                f"[structure] expected tree specs of version {_SPEC_VERSION}, got {version}."
            )
        return cls._from_json(root)

    @classmethod
    def _from_json(cls, node: dict) -> "Structure":
        children = [cls._from_json(child) for child in node["children_spec"]]
        return cls(node["type"], node["context"], children)

    @property
    def num_leaves(self) -> int:
        if self.kind is None:
            return 1
        return sum(child.num_leaves for child in self.children)

    @property
    def keys(self) -> list[str]:
        """The keys of a dict node."""
        return list(self.context or [])

    def build(self, leaves: list) -> Any:
        """The nested value with these leaves."""
        value, rest = self._take(list(leaves))
        if rest:
            raise ValueError(
                f"[structure] {len(rest)} values more than the structure has room for."
            )
        return value

    def _take(self, leaves: list) -> tuple[Any, list]:
        if self.kind is None:
            return leaves[0], leaves[1:]
        values = []
        for child in self.children:
            value, leaves = child._take(leaves)
            values.append(value)
        return self._assemble(values), leaves

    def _assemble(self, values: list) -> Any:
        if self.kind == "builtins.tuple":
            return tuple(values)
        if self.kind == "builtins.list":
            return values
        if self.kind == "builtins.dict":
            return dict(zip(self.keys, values, strict=True))
        if self.kind == "collections.OrderedDict":
            return OrderedDict(zip(self.keys, values, strict=True))
        if self.kind == "builtins.NoneType":
            return None
        return self._assemble_registered(values)

    def _assemble_registered(self, values: list) -> Any:
        """Classes of the caller: namedtuples, dataclasses, transformers' outputs."""
        node_type = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(self.kind)
        if node_type is not None:
            restore = pytree.SUPPORTED_SERIALIZED_TYPES[node_type].from_dumpable_context
            try:
                context = self.context if restore is None else restore(self.dumped)
                return pytree.SUPPORTED_NODES[node_type].unflatten_fn(values, context)
            except NotImplementedError:
                pass  # a namedtuple that this process does not know
        names = self.context
        if (
            isinstance(names, list)
            and names
            and isinstance(names[0], list)
            and len(names[0]) == len(values)
        ):
            names = names[0]  # a dataclass: its fields, and those that are None
        if isinstance(names, list) and len(names) == len(values):
            return {str(name): value for name, value in zip(names, values, strict=True)}
        return tuple(values)

    def flatten(self, value: Any) -> list:
        """The leaves of a value that is nested like this; raises ValueError otherwise."""
        if self.kind in _DICTS:
            return self._flatten_dict(value)
        is_sequence = self.kind in _SEQUENCES and isinstance(value, (tuple, list))
        if is_sequence and len(value) == len(self.children):
            pairs = zip(value, self.children, strict=True)
            return [leaf for item, child in pairs for leaf in child.flatten(item)]
        leaves, spec = pytree.tree_flatten(value)
        if len(leaves) != self.num_leaves or spec.is_leaf() != (self.kind is None):
            raise ValueError(f"expected {self}, got {_described(value)}.")
        return leaves

    def _flatten_dict(self, value: Any) -> list:
        """Dicts may come in any order of keys."""
        if not isinstance(value, dict) or set(value) != set(self.keys):
            got = sorted(map(str, value)) if isinstance(value, dict) else _described(value)
            raise ValueError(f"expected a dict with {sorted(map(str, self.keys))}, got {got}.")
        pairs = zip(self.keys, self.children, strict=True)
        return [leaf for key, child in pairs for leaf in child.flatten(value[key])]

    def __str__(self) -> str:
        if self.kind is None:
            return "one value"
        name = self.kind.rsplit(".", 1)[-1]
        return f"a {name} of {len(self.children)}"


def _parsed(dumped: Any) -> Any:
    """Containers write JSON about themselves, but for those with a form of their own."""
    try:
        return json.loads(dumped)
    except (TypeError, ValueError):
        return dumped


_DICTS = ("builtins.dict", "collections.OrderedDict")
_SEQUENCES = ("builtins.tuple", "builtins.list")


def _described(value: Any) -> str:
    size = f" of {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"a {type(value).__name__}{size}"


def register_types(value: Any) -> None:
    """Makes the dataclasses and namedtuples in a value known to torch, so that models may use them.

    They get the serialized name module.qualname, under which a file finds them again.
    """
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if dataclasses.is_dataclass(value) and kind not in pytree.SUPPORTED_NODES:
        pytree.register_dataclass(kind, serialized_type_name=name)
    elif pytree.is_namedtuple_instance(value) and kind not in pytree.SUPPORTED_SERIALIZED_TYPES:
        pytree._register_namedtuple(kind, serialized_type_name=name)
    for item in _items(value):
        register_types(item)


def _items(value: Any) -> list:
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    return []
