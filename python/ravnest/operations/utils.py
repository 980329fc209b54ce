"""`from ravnest.operations.utils import clusterize`, as scripts of the Python Ravnest have it."""

from ravnest.planning import clusterize
from ravnest.seed import set_seed

__all__ = ["clusterize", "set_seed"]
