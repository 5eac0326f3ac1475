"""Models whose sentences end now and then, and the plugin's generator of small batches."""

import torch
from models import EOS, PAD, build, dictionary

from aiayn_plugin.fairseq_plugin.generator import Generator

WORDS = 12
VARIANTS = [
    {},
    {"positions": "learned"},
    {"neighbourhood": 3},
    {"d_k": 3, "d_v": 5},
    {"attention_bias": True, "positions": "fairseq"},
    {"tie_embeddings": "none"},
]


def unsettled(model, seed):
    """Return the model with noise in its matrices, so that the lengths of its sentences differ."""
    torch.manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data += 0.3 * torch.randn_like(weight)
    return model


def ending_model(seed=2, **settings):
    """Return a model of the plugin whose sentences end after lengths that differ."""
    return unsettled(build(words=WORDS, **settings).eval(), seed)


def batch(lengths=(4, 1, 9, 6, 0), left=True):
    """Return source sentences of these lengths, without the end symbol, as fairseq pads them."""
    torch.manual_seed(3)
    width = max(lengths) + 1
    rows = []
    for n in lengths:
        words, pad = torch.randint(4, WORDS, (n,)), torch.full((width - n - 1,), PAD)
        parts = (pad, words, torch.tensor([EOS])) if left else (words, torch.tensor([EOS]), pad)
        rows.append(torch.cat(parts))
    return sample(torch.stack(rows))


def sample(source):
    """Return source tokens (batch, m) as one of fairseq's batches."""
    return {
        "id": torch.arange(len(source)),
        "net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(dim=1)},
    }


def search(models, rules, **options):
    """Return the plugin's generator under these rules, with a beam of 4."""
    options = {"beam_size": 4, **options}
    return Generator(models, dictionary(WORDS), rules=rules, **options)


def assert_same(found, expected):
    """Check that two searches found the same: tokens, and scores as float32 has them."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        for name in ("score", "positional_scores"):
            for one, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(
                    one[name].double(), other[name].double(), rtol=0, atol=1e-5
                )  # fairseq keeps float32
