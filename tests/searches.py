"""Models whose outputs differ in length, and searches of small batches."""

import torch
from models import EOS, PAD, build, dictionary

from aiayn_plugin.fairseq_plugin.generator import Generator, search_model
from aiayn_plugin.paper import SearchSettings
from aiayn_plugin.search import BeamSearch
from aiayn_plugin.search.kv_cache import DecoderCache

WORDS = 12
#: Settings of models that the search must support.
MODEL_VARIANTS = [
    {},
    {"positions": "learned"},
    {"neighbourhood": 3},
    {"d_k": 3, "d_v": 5},
    {"attention_bias": True, "positions": "fairseq"},
    {"tie_embeddings": "none"},
]


def add_noise(model, seed):
    """Return the model with noise in its matrices, so that its sentences differ in length."""
    torch.manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data += 0.3 * torch.randn_like(weight)
    return model


def noisy_model(seed=2, **settings):
    """Return a plugin model whose outputs differ in length."""
    return add_noise(build(words=WORDS, **settings).eval(), seed)


def decode_step_by_step(model, source, target):
    """Return the logits (batch, n, V) of the target, decoded with a cache."""
    cache, steps = DecoderCache(model.decoder.layers, *model.encoder.encode(source)), []
    for tokens in target.split(1, dim=1):
        cache.advance(tokens)
        steps.append(model.decoder.project(model.decoder.decode(tokens, cache=cache)[0]))
    return torch.cat(steps, dim=1)


def source_batch(lengths=(4, 1, 9, 6, 0), left=True):
    """Return sentences (batch, m) of these lengths, plus the end symbol, padded on one side."""
    torch.manual_seed(3)
    width = max(lengths) + 1
    rows = []
    for n in lengths:
        words, pad = torch.randint(4, WORDS, (n,)), torch.full((width - n - 1,), PAD)
        parts = (pad, words, torch.tensor([EOS])) if left else (words, torch.tensor([EOS]), pad)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def sample(source):
    """Return source tokens (batch, m) as one of fairseq's batches."""
    return {
        "id": torch.arange(len(source)),
        "net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(dim=1)},
    }


def beam_search(models, settings=None, **options):
    """Return a search with some models; settings: fields of SearchSettings, default: the paper's.

    options: further arguments of BeamSearch.
    """
    return BeamSearch(SearchSettings(**settings or {}), list(map(search_model, models)), **options)


def generator(models, alignment=None, **settings):
    """Return fairseq's interface to a search with some models; settings: as for beam_search."""
    return Generator(models, dictionary(WORDS), SearchSettings(**settings), alignment=alignment)


def assert_same(actual, expected):
    """Check that two searches found the same tokens, and the same scores to float32 precision.

    Each gives Hypothesis objects, or fairseq's dictionaries of the same names.
    """
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        ours, theirs = (
            [h if isinstance(h, dict) else vars(h) for h in hypotheses]
            for hypotheses in (ours, theirs)
        )
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        for name in ("score", "positional_scores"):
            for one, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(
                    one[name].double(), other[name].double(), rtol=0, atol=1e-5
                )  # fairseq keeps float32
