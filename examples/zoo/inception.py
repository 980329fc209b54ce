"""Inception-V3 with its auxiliary head.

In training the forward returns `InceptionOutputs(logits, aux_logits)`, in
evaluation the logits alone: the two graphs differ in structure. Blocks carry the
paper's usual names (Conv2d_1a_3x3, Mixed_5b ... Mixed_7c, AuxLogits).
"""

from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])


class ConvBN(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


def chain(in_channels, *layers):
    """A row of ConvBN from (channels, kernel[, stride[, padding]]), named 1, 2, ..."""
    row = nn.Sequential()
    for number, (out_channels, *shape) in enumerate(layers, start=1):
        row.add_module(str(number), ConvBN(in_channels, out_channels, *shape))
        in_channels = out_channels
    return row


def pool(x):
    return F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)


def shrink(x):
    return F.max_pool2d(x, kernel_size=3, stride=2)


class InceptionA(nn.Module):
    def __init__(self, c_in, pool_features, c):
        super().__init__()
        self.branch1x1 = ConvBN(c_in, c(64), 1)
        self.branch5x5 = chain(c_in, (c(48), 1), (c(64), 5, 1, 2))
        self.branch3x3dbl = chain(c_in, (c(64), 1), (c(96), 3, 1, 1), (c(96), 3, 1, 1))
        self.branch_pool = ConvBN(c_in, pool_features, 1)
        self.out_channels = c(64) + c(64) + c(96) + pool_features

    def forward(self, x):
        branches = [self.branch1x1(x), self.branch5x5(x), self.branch3x3dbl(x)]
        return torch.cat([*branches, self.branch_pool(pool(x))], 1)


class InceptionB(nn.Module):
    def __init__(self, c_in, c):
        super().__init__()
        self.branch3x3 = ConvBN(c_in, c(384), 3, 2)
        self.branch3x3dbl = chain(c_in, (c(64), 1), (c(96), 3, 1, 1), (c(96), 3, 2))
        self.out_channels = c(384) + c(96) + c_in

    def forward(self, x):
        return torch.cat([self.branch3x3(x), self.branch3x3dbl(x), shrink(x)], 1)


class InceptionC(nn.Module):
    def __init__(self, c_in, mid, c):
        super().__init__()
        wide, tall = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
        last = c(192)
        self.branch1x1 = ConvBN(c_in, last, 1)
        self.branch7x7 = chain(c_in, (mid, 1), (mid, *wide), (last, *tall))
        self.branch7x7dbl = chain(
            c_in, (mid, 1), (mid, *tall), (mid, *wide), (mid, *tall), (last, *wide)
        )
        self.branch_pool = ConvBN(c_in, last, 1)
        self.out_channels = 4 * last

    def forward(self, x):
        branches = [self.branch1x1(x), self.branch7x7(x), self.branch7x7dbl(x)]
        return torch.cat([*branches, self.branch_pool(pool(x))], 1)


class InceptionD(nn.Module):
    def __init__(self, c_in, c):
        super().__init__()
        mid = c(192)
        self.branch3x3 = chain(c_in, (mid, 1), (c(320), 3, 2))
        self.branch7x7x3 = chain(
            c_in, (mid, 1), (mid, (1, 7), 1, (0, 3)), (mid, (7, 1), 1, (3, 0)), (mid, 3, 2)
        )
        self.out_channels = c(320) + mid + c_in

    def forward(self, x):
        return torch.cat([self.branch3x3(x), self.branch7x7x3(x), shrink(x)], 1)


class InceptionE(nn.Module):
    def __init__(self, c_in, c):
        super().__init__()
        mid = c(384)
        self.branch1x1 = ConvBN(c_in, c(320), 1)
        self.branch3x3_1 = ConvBN(c_in, mid, 1)
        self.branch3x3_2a = ConvBN(mid, mid, (1, 3), 1, (0, 1))
        self.branch3x3_2b = ConvBN(mid, mid, (3, 1), 1, (1, 0))
        self.branch3x3dbl = chain(c_in, (c(448), 1), (mid, 3, 1, 1))
        self.branch3x3dbl_3a = ConvBN(mid, mid, (1, 3), 1, (0, 1))
        self.branch3x3dbl_3b = ConvBN(mid, mid, (3, 1), 1, (1, 0))
        self.branch_pool = ConvBN(c_in, c(192), 1)
        self.out_channels = c(320) + 4 * mid + c(192)

    def forward(self, x):
        single = self.branch3x3_1(x)
        double = self.branch3x3dbl(x)
        branches = [
            self.branch1x1(x),
            self.branch3x3_2a(single),
            self.branch3x3_2b(single),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
            self.branch_pool(pool(x)),
        ]
        return torch.cat(branches, 1)


class InceptionAux(nn.Module):
    def __init__(self, c_in, num_classes, c, *, pool_size, kernel):
        super().__init__()
        self.pool_size = pool_size
        self.conv0 = ConvBN(c_in, c(128), 1)
        self.conv1 = ConvBN(c(128), c(768), kernel)
        self.fc = nn.Linear(c(768), num_classes)

    def forward(self, x):
        x = F.avg_pool2d(x, kernel_size=self.pool_size, stride=3)
        x = F.adaptive_avg_pool2d(self.conv1(self.conv0(x)), (1, 1))
        return self.fc(torch.flatten(x, 1))


class Inception3(nn.Module):
    """`width` scales every layer. `small_input` gives the auxiliary head a smaller
    window: images from 75x75 then fit, where the paper's head needs 299x299.
    """

    def __init__(self, *, num_classes=1000, width=1.0, small_input=False, dropout=0.5):
        super().__init__()

        def c(channels):
            return max(4, int(channels * width))

        self.Conv2d_1a_3x3 = ConvBN(3, c(32), 3, 2)
        self.Conv2d_2a_3x3 = ConvBN(c(32), c(32), 3)
        self.Conv2d_2b_3x3 = ConvBN(c(32), c(64), 3, 1, 1)
        self.Conv2d_3b_1x1 = ConvBN(c(64), c(80), 1)
        self.Conv2d_4a_3x3 = ConvBN(c(80), c(192), 3)
        channels = c(192)
        for name, pool_features in (("5b", 32), ("5c", 64), ("5d", 64)):
            channels = self._add(name, InceptionA(channels, c(pool_features), c))
        channels = self._add("6a", InceptionB(channels, c))
        for name, mid in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
            channels = self._add(name, InceptionC(channels, c(mid), c))
        window = {"pool_size": 3, "kernel": 1} if small_input else {"pool_size": 5, "kernel": 5}
        self.AuxLogits = InceptionAux(channels, num_classes, c, **window)
        channels = self._add("7a", InceptionD(channels, c))
        for name in ("7b", "7c"):
            channels = self._add(name, InceptionE(channels, c))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)

    def _add(self, name, block):
        self.add_module(f"Mixed_{name}", block)
        return block.out_channels

    def forward(self, x):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(shrink(x)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(shrink(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        aux_logits = self.AuxLogits(x) if self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.dropout(F.adaptive_avg_pool2d(x, (1, 1)))
        logits = self.fc(torch.flatten(x, 1))
        return InceptionOutputs(logits, aux_logits) if self.training else logits


def inception_loss(output, target):
    """Cross entropy; in training the auxiliary head adds with the paper's weight."""
    if isinstance(output, InceptionOutputs):
        main = F.cross_entropy(output.logits, target)
        return main + 0.4 * F.cross_entropy(output.aux_logits, target)
    return F.cross_entropy(output, target)


def inception_v3(**options):
    return Inception3(**options)
