"""Fuses both clusters' weights, which are the same, and sorts what no training has seen."""

import torch
from task import percent_sorted

import ravnest

states = [ravnest.model_fusion(cluster_id=cluster) for cluster in (0, 1)]
assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
print(f"{percent_sorted(states[0]):.2f} % of unseen sequences are sorted exactly")
