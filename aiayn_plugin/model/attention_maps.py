"""§3.2.1: the attention weights of a sentence, recorded from the model's own softmax."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from .attention import MultiHeadAttention
from .transformer import Decoder, Encoder

#: The three kinds of attention (§3.2.3).
ATTENTION_KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "encoder_decoder": "encoder-decoder attention",
}


@torch.inference_mode()
def compute_attention_weights(
    encoder: Encoder, decoder: Decoder, source: Tensor, target: Tensor, layers: Sequence[int]
) -> dict[str, Tensor]:
    """Return the attention weights of the chosen layers for one sentence, by kind of attention.

    source: tokens (m,); target: tokens (n,), shifted right; layers: counted from 1. "encoder" is
    (layers, h, m, m), "decoder" (layers, h, n, n), "encoder_decoder" (layers, h, n, m): row i
    contains the weights with which position i attends to each position.
    """
    modules: dict[str, list[Any]] = {
        "encoder": [encoder.layers[layer - 1].self_attention for layer in layers],
        "decoder": [decoder.layers[layer - 1].self_attention for layer in layers],
        "encoder_decoder": [decoder.layers[layer - 1].encoder_attention for layer in layers],
    }
    with record_weights(module for group in modules.values() for module in group) as weights:
        decoder.decode(target[None], *encoder.encode(source[None]))
    return {
        kind: torch.stack([weights[module][0] for module in group])
        for kind, group in modules.items()
    }


@contextmanager
def record_weights(
    modules: Iterable[MultiHeadAttention],
) -> Iterator[dict[MultiHeadAttention, Tensor]]:
    """Yield a dictionary that receives the weights (batch, h, n, m) of each module's next call.

    Inside `with`, these modules compute equation (1) step by step, since torch's fused attention
    does not return its weights.
    """
    weights: dict[MultiHeadAttention, Tensor] = {}

    def request_weights(module, args, kwargs):
        return args, {**kwargs, "need_weights": True}

    def store_weights(module, args, output):
        weights[module] = output[1]

    with ExitStack() as hooks:
        for module in modules:
            request = module.register_forward_pre_hook(request_weights, with_kwargs=True)
            hooks.enter_context(request)
            hooks.enter_context(module.register_forward_hook(store_weights))
        yield weights
