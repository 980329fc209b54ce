"""Cuts the model for the machines in node_data/node_configs.json: cluster_formation.py [seed]."""

import sys

import torch
from models import DigitsNet

from ravnest import clusterize, set_seed

set_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 42)

clusterize(model=DigitsNet(), example_args=(torch.rand((64, 1, 8, 8)),))
