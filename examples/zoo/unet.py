"""U-Net: every level of the way down is joined to its level of the way up."""

import torch
from torch import nn


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels, out_channels):
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """Sides of the image must be multiples of 2**depth."""

    def __init__(self, *, in_channels=3, classes=2, width=32, depth=3):
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.stem = DoubleConv(in_channels, width)
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList()
        self.up = nn.ModuleList()
        self.merge = nn.ModuleList()
        for shallow, deep in zip(widths, widths[1:], strict=False):
            self.down.append(DoubleConv(shallow, deep))
            self.up.insert(0, nn.ConvTranspose2d(deep, shallow, 2, stride=2))
            self.merge.insert(0, DoubleConv(2 * shallow, shallow))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(self.pool(x))
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)
