"""ResNet-18 and ResNet-50, for 32x32 and for 224x224 images.

Modules carry the usual names (conv1, bn1, layer1.0.conv1, downsample.0, fc), so
state dicts found elsewhere load.
"""

from torch import nn


def conv_bn(in_channels, out_channels, kernel, stride=1):
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)
    return conv, nn.BatchNorm2d(out_channels)


def make_downsample(in_channels, out_channels, stride):
    """Brings the skip path to the block's output shape; None where it has it already."""
    if stride == 1 and in_channels == out_channels:
        return None
    return nn.Sequential(*conv_bn(in_channels, out_channels, 1, stride))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.conv1, self.bn1 = conv_bn(in_channels, channels, 3, stride)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv_bn(channels, channels, 3)
        self.downsample = make_downsample(in_channels, channels, stride)

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += skip
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, in_channels, channels, stride):
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1, self.bn1 = conv_bn(in_channels, channels, 1)
        self.conv2, self.bn2 = conv_bn(channels, channels, 3, stride)
        self.conv3, self.bn3 = conv_bn(channels, out_channels, 1)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = make_downsample(in_channels, out_channels, stride)

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += skip
        return self.relu(out)


class ResNet(nn.Module):
    """`small_input` is the form for 32x32 images: the stem keeps the resolution."""

    def __init__(self, block, depths, *, num_classes=1000, width=64, small_input=False):
        super().__init__()
        if small_input:
            self.conv1, self.bn1 = conv_bn(3, width, 3)
            self.maxpool = nn.Identity()
        else:
            self.conv1, self.bn1 = conv_bn(3, width, 7, stride=2)
            self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self._channels = width
        self.layer1 = self._make_layer(block, width, depths[0], stride=1)
        self.layer2 = self._make_layer(block, width * 2, depths[1], stride=2)
        self.layer3 = self._make_layer(block, width * 4, depths[2], stride=2)
        self.layer4 = self._make_layer(block, width * 8, depths[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self._channels, num_classes)

    def _make_layer(self, block, channels, depth, stride):
        blocks = []
        for i in range(depth):
            blocks.append(block(self._channels, channels, stride if i == 0 else 1))
            self._channels = channels * block.expansion
        return nn.Sequential(*blocks)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(**options):
    return ResNet(BasicBlock, (2, 2, 2, 2), **options)


def resnet50(**options):
    return ResNet(Bottleneck, (3, 4, 6, 3), **options)
