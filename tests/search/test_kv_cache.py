"""§3.1 while decoding: step by step against all at once, and the buffers' capacity and dtype."""

import pytest
import torch
from models import EOS, build

from aiayn_plugin.kernels.int8 import quantize_linear_layers
from aiayn_plugin.search import kv_cache
from aiayn_plugin.search.kv_cache import DecoderCache


@pytest.mark.parametrize("neighbourhood", [None, 1, 5])
@pytest.mark.parametrize("method", ["select", "compact"])
@torch.no_grad()
def test_search_equals_decoding_each_hypothesis_alone(neighbourhood, method):
    """Random parents, and sentences that leave or change places while their slots differ."""
    torch.manual_seed(1)
    model = build(neighbourhood=neighbourhood).eval()
    source = torch.randint(4, 30, (4, 7))
    source[1, 4:] = 1  # padding
    memory, padding = model.encoder.encode(source)
    cache = DecoderCache(model.decoder.layers, memory, padding)
    targets = torch.empty(4, 1, 0, dtype=torch.long)  # (batch, b, positions)
    for step in range(40):
        if step in (9, 14, 21, 30):
            rows = {
                9: [3, 1, 2, 0],
                14: [0, 2, 3] if method == "select" else [0, 3, 2],
                21: [2, 1, 2] if method == "select" else [2, 1, 0],
                30: [1, 0],
            }[step]
            getattr(cache, method)(torch.tensor(rows))
            targets, memory, padding = targets[rows], memory[rows], padding[rows]
        batch, b = targets.shape[:2]
        # Sentence 0 keeps all of its slots visible, the others drop different ones.
        parents = torch.randint(b, (batch, 4))
        parents[0] = torch.arange(4) % b
        tokens = torch.randint(4, 30, (batch, 4))
        cache.advance(tokens, parents if step else None)
        targets = targets.gather(1, parents[:, :, None].expand(-1, -1, step))
        targets = torch.cat((targets, tokens[:, :, None]), dim=2)
        actual, _ = model.decoder.decode(tokens, cache=cache)
        expected, _ = model.decoder.decode(
            targets.flatten(0, 1), memory.repeat_interleave(4, 0), padding.repeat_interleave(4, 0)
        )
        torch.testing.assert_close(actual.flatten(0, 1), expected[:, -1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("rows", [[0, 3, 2], [2, 0, 1, 1], [0, 1], [3, 2], []])
@torch.no_grad()
def test_compact_equals_select_without_copying_the_buffers(rows):
    source, tokens = torch.randint(4, 30, (4, 5)), torch.randint(4, 30, (4, 2))
    model, caches = build().eval(), []
    for method in ("select", "compact"):
        cache = DecoderCache(model.decoder.layers, *model.encoder.encode(source))
        cache.advance(tokens)
        model.decoder.decode(tokens, cache=cache)
        address = cache.layers[0][0].keys.data_ptr()
        getattr(cache, method)(torch.tensor(rows, dtype=torch.long))
        caches.append([x for layer in cache.layers for c in layer for x in (c.keys, c.values)])
        if rows:
            assert (caches[-1][0].data_ptr() == address) == (method == "compact")
    for selected, compacted in zip(*caches, strict=True):
        assert torch.equal(selected, compacted)


def measure_capacity(steps, **settings):
    """Return the largest capacity of any layer's buffers after steps of two hypotheses."""
    model, tokens = build(**settings).eval(), torch.tensor([[5, 6]])
    with torch.no_grad():
        cache = DecoderCache(model.decoder.layers, *model.encoder.encode(torch.tensor([[7, EOS]])))
        for _ in range(steps):
            cache.advance(tokens)
            model.decoder.decode(tokens, cache=cache)
    return max(x.size(2) for layer, _ in cache.layers for x in (layer.keys, layer.values))


def test_capacity_of_a_restricted_decoder_does_not_grow_with_the_steps():
    """2 · 3 slots and 16 free ones, rounded up to a multiple of 16."""
    assert measure_capacity(100, neighbourhood=3) == measure_capacity(300, neighbourhood=3) == 32


def test_capacity_exceeds_the_visible_slots_by_at_most_an_eighth():
    assert 1200 <= measure_capacity(600) < 1.13 * 1200 + 16


@torch.no_grad()
def test_keys_and_values_have_the_chosen_dtype(monkeypatch):
    model, tokens = build().float().eval(), torch.tensor([[5, 6]] * 3)
    memory = model.encoder.encode(torch.tensor([[7, 8, EOS]] * 3))
    features = []
    for dtype in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(kv_cache, "choose_dtype", lambda *_, dtype=dtype: dtype)
        cache = DecoderCache(model.decoder.layers, *memory)
        for _ in range(3):
            cache.advance(tokens)
            features.append(model.decoder.decode(tokens, cache=cache)[0])
        assert {x.dtype for c in cache.layers[0] for x in (c.keys, c.values)} == {dtype}
    for exact, rounded in zip(features[:3], features[3:], strict=True):
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded, exact, rtol=0, atol=0.05)


@pytest.mark.parametrize(
    "is_int8, native, batch, expected",
    [
        (True, True, 16, torch.bfloat16),
        (True, True, 15, torch.float32),
        (True, False, 16, torch.float32),
        (False, True, 16, torch.float32),
    ],
)
def test_int8_models_attend_in_bfloat16_if_the_processor_supports_it(
    is_int8, native, batch, expected, monkeypatch
):
    """Not in small batches, where the conversions cost more than they save."""
    model = build().float().eval()
    if is_int8:
        quantize_linear_layers(model)
    attention = model.decoder.layers[0].self_attention
    monkeypatch.setattr(kv_cache, "has_bfloat16", lambda: native)
    memory = torch.zeros(batch, 3, 16)
    assert kv_cache.choose_dtype(attention, memory) == expected
    attention.equation = lambda *_: None  # a user's, which may have float32 weights
    assert kv_cache.choose_dtype(attention, memory) == torch.float32
