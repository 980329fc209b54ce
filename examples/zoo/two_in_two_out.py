"""Two inputs in a dictionary, two outputs in a dataclass: a house and its price."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Estimate:
    price: torch.Tensor
    rooms: torch.Tensor


class HouseNet(nn.Module):
    """Takes {"photo": (N, 3, S, S), "facts": (N, facts)}."""

    def __init__(self, *, facts=6, width=16, max_rooms=8):
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.read = nn.Sequential(nn.Linear(facts, width), nn.Tanh(), nn.Dropout(0.1))
        self.rooms = nn.Linear(2 * width, max_rooms)
        self.price = nn.Linear(2 * width + max_rooms, 1)

    def forward(self, inputs):
        seen = self.see(inputs["photo"])
        known = self.read(inputs["facts"])
        both = torch.cat([seen, known], dim=1)
        rooms = self.rooms(both)
        price = self.price(torch.cat([both, rooms.softmax(dim=1)], dim=1))
        return Estimate(price=price.squeeze(1), rooms=rooms)


def house_loss(estimate, target):
    """`target` is {"price": (N,) float, "rooms": (N,) int64}."""
    price = F.mse_loss(estimate.price, target["price"])
    return price + F.cross_entropy(estimate.rooms, target["rooms"])
