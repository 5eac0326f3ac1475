"""§3.2.1: attention maps hold the weights of the model's own softmax, in every kind of layer."""

import math

import pytest
import torch
from models import build, fairseq_model, sentences
from reference import is_visible

from aiayn_plugin.fairseq_plugin.convert import settings_from_fairseq, weights_from_fairseq
from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.model.attention_maps import (
    ATTENTION_KINDS,
    compute_attention_weights,
    record_weights,
)

VARIANTS = [
    {},
    {"d_k": 3, "d_v": 5},
    {"h": 1},
    {"neighbourhood": 1},
    {"neighbourhood": 4},
    {"attention_bias": True},
    {"attention_dropout": 0.5},
]


def compute_by_loops(kind, r, attention, x, memory):
    """Return the weights (h, n, m) of one sentence from equation (1), one at a time."""
    d_k, r = attention.d_k, None if kind == "encoder_decoder" else r
    q, k = attention.W_Q(x)[0], attention.W_K(memory)[0]
    rows = torch.zeros(attention.h, len(q), len(k), dtype=q.dtype)
    for head in range(attention.h):
        columns = slice(head * d_k, (head + 1) * d_k)
        for i in range(len(q)):
            scores = {
                j: float(q[i, columns] @ k[j, columns]) / math.sqrt(d_k)
                for j in range(len(k))
                if is_visible(i, j, r, causal=kind == "decoder")
            }
            total = sum(map(math.exp, scores.values()))
            for j, score in scores.items():
                rows[head, i, j] = math.exp(score) / total
    return rows


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@torch.no_grad()
def test_weights_equal_equation_1_in_every_layer(settings):
    model = build(**settings).eval()
    (source,), (target,) = sentences(9, 7, batch=1)
    inputs = {}  # of each attention in a pass that does not record weights
    hooks = [
        module.register_forward_hook(
            lambda module, args, out: inputs.__setitem__(module, (args[0], *args[1:2]))
        )
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
    ]
    output = model(source[None], None, target[None])[0]
    for hook in hooks:
        hook.remove()
    actual = compute_attention_weights(model.encoder, model.decoder, source, target, [1, 2])
    shapes = {"encoder": (9, 9), "decoder": (7, 7), "encoder_decoder": (7, 9)}
    for kind in ATTENTION_KINDS:
        stack = model.encoder if kind == "encoder" else model.decoder
        name = "encoder_attention" if kind == "encoder_decoder" else "self_attention"
        for layer in (0, 1):
            module = getattr(stack.layers[layer], name)
            assert actual[kind][layer].shape == (module.h, *shapes[kind])
            x, *memory = inputs[module]
            r = settings.get("neighbourhood")
            expected = compute_by_loops(kind, r, module, x, memory[0] if memory else x)
            torch.testing.assert_close(actual[kind][layer], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(source[None], None, target[None])[0], output)


@torch.no_grad()
def test_converted_model_attends_as_fairseqs():
    theirs, args = fairseq_model()
    ours = build(**vars(settings_from_fairseq(args))).float().eval()
    ours.load_state_dict(weights_from_fairseq(theirs.state_dict()), strict=False)
    source, target = sentences(9, 7, batch=1)
    actual = compute_attention_weights(ours.encoder, ours.decoder, source[0], target[0], [2])
    _, extra = theirs.eval()(source, torch.tensor([9]), target)
    expected = extra["attn"][0][0]  # fairseq returns the last layer's mean over heads
    torch.testing.assert_close(
        actual["encoder_decoder"][0].mean(dim=0), expected, rtol=0, atol=1e-6
    )


@torch.no_grad()
def test_only_chosen_layers_are_recorded():
    model = build().eval()
    (source,), (target,) = sentences(batch=1)
    with record_weights([model.encoder.layers[1].self_attention]) as weights:
        model(source[None], None, target[None])
    assert list(weights) == [model.encoder.layers[1].self_attention]
    weights.clear()
    model(source[None], None, target[None])
    assert not weights
