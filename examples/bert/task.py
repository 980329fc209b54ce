"""A small BERT and a task for it, made up: nothing is downloaded."""

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

VOCABULARY = 200
LENGTH = 24
CLASSES = 3  # which of three words is in the sentence


def make_model():
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=LENGTH,
            num_labels=CLASSES,
        )
    )


def make_sentences(count, seed):
    """Words at random, one of the three somewhere among them, padding behind."""
    random = torch.Generator().manual_seed(seed)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=random)

    ids = draw(10, VOCABULARY, count, LENGTH)
    lengths = draw(LENGTH // 2, LENGTH + 1, count)
    labels = draw(0, CLASSES, count)
    places = (torch.rand(count, generator=random) * lengths).long()
    ids[torch.arange(count), places] = 1 + labels
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    return [
        {"input_ids": i * m, "attention_mask": m, "labels": y}
        for i, m, y in zip(ids, mask, labels, strict=True)
    ]


def make_loaders():
    """The same on every provider: the generator is the loader's own."""
    generator = torch.Generator().manual_seed(42)
    train = DataLoader(
        make_sentences(1024, seed=1), batch_size=32, shuffle=True, generator=generator
    )
    return train, DataLoader(make_sentences(256, seed=2), batch_size=32)
