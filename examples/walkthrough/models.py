import torch.nn as nn


class DigitsNet(nn.Module):
    """Of 8x8 images, the share of each digit."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.BatchNorm2d(16),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.BatchNorm2d(32),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(32, 256),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.BatchNorm1d(256),
            nn.Linear(256, 10),
            nn.Softmax(dim=-1),
        )

    def forward(self, x):
        return self.head(self.features(x))
