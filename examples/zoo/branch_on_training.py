"""A model whose forward branches on `self.training`, to be given to `torch.jit.script`.

In training a second head joins in; in evaluation the answer is a distribution.
"""

import torch
import torch.nn.functional as F
from torch import nn


class TwoFacedNet(nn.Module):
    def __init__(self, *, features=12, width=24, classes=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True)
        )
        self.deep = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)
        self.helper = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        early = self.body(x)
        late = F.dropout(torch.relu(self.deep(early)), 0.2, self.training)
        logits = self.head(late)
        if self.training:
            return logits + 0.3 * self.helper(early)
        return F.softmax(logits, dim=1)
