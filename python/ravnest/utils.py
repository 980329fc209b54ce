"""`from ravnest.utils import model_fusion`, as scripts of the Python Ravnest have it."""

import os

import torch
from torch.utils.data import Dataset, Subset

from ravnest import _C


def model_fusion(
    cluster_id: int = 0,
    node_data: str | os.PathLike = "node_data",
    out: str | os.PathLike = "trained/trained_state_dict.pt",
) -> dict[str, torch.Tensor]:
    """Puts the trained weights of a cluster together as one state dict, and returns it.

    It is written to `out` and, as `.safetensors`, beside it: names, dtypes, shapes and order are
    those of the model's own `state_dict()`.

    Raises:
        ValueError: If there is no plan or no such cluster, if a provider has not saved its
            weights, or if they are of different plans, runs or passes.
    """
    if isinstance(cluster_id, bool) or not isinstance(cluster_id, int) or cluster_id < 0:
        raise ValueError(
            f"[fuse] expected cluster_id to be a whole number of 0 or more, got {cluster_id!r}."
        )
    _C.fuse_cluster(os.fspath(node_data), cluster_id, os.fspath(out))
    return torch.load(out, weights_only=True)


def shard(data: Dataset, name: str, node_data: str | os.PathLike = "node_data") -> Subset:
    """The part of a data set that the cluster of a node trains on.

    The clusters' parts do not overlap, together they are the whole, and their sizes differ by one
    at most. All nodes of a cluster have the same part, so that root and leaf see the same batches.

    Raises:
        ValueError: If the plan has no such node, or there are fewer samples than clusters.
    """
    node = _C.read_node(os.fspath(node_data), name)
    size, clusters = len(data), node["clusters"]
    if size < clusters:
        raise ValueError(
            f"[shard] expected a sample or more for each of {clusters} clusters, got {size}."
        )
    return Subset(data, range(node["cluster"], size, clusters))
