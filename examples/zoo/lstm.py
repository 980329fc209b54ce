"""A two-layer LSTM that classifies sequences of tokens."""

from torch import nn


class LSTMClassifier(nn.Module):
    def __init__(self, *, vocab=1000, width=64, hidden=128, layers=2, classes=5, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=layers, dropout=dropout, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, tokens):
        states, (last, _) = self.lstm(self.embedding(tokens))
        return self.fc(self.norm(last[-1] + states.mean(dim=1)))
