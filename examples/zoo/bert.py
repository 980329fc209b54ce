"""BERT from `transformers`, in a configuration small enough for a laptop.

Made from a configuration alone: nothing is downloaded. Inputs are keywords
(input_ids, attention_mask, token_type_ids, labels) and the loss is the model's own.
"""

import torch
from transformers import BertConfig, BertForSequenceClassification


def small_bert(**overrides):
    options = {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 32,
        "num_labels": 3,
    }
    return BertForSequenceClassification(BertConfig(**{**options, **overrides}))


def bert_inputs(batch, seq=12, *, vocab=99, labels=3, generator=None):
    """Random sentences, the second half of each padded away by a random amount."""

    def integers(high, shape):
        return torch.randint(0, high, shape, generator=generator)

    lengths = seq // 2 + integers(seq // 2 + 1, (batch, 1))
    positions = torch.arange(seq).expand(batch, seq)
    return {
        "input_ids": integers(vocab, (batch, seq)),
        "attention_mask": (positions < lengths).long(),
        "token_type_ids": (positions >= seq // 2).long(),
        "labels": integers(labels, (batch,)),
    }
