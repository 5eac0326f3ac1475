"""§3.2.1: the weights of attention, as the model's own softmax gives them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .attention import MultiHeadAttention
from .transformer import Decoder, Encoder

#: The three kinds of attention (§3.2.3).
KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "encoder_decoder": "encoder-decoder attention",
}


@torch.inference_mode()
def attention_weights(
    encoder: Encoder, decoder: Decoder, source: Tensor, read: Tensor, layers: Sequence[int]
) -> dict[str, Tensor]:
    """Return the weights of the chosen layers for one sentence, by KINDS.

    source: (m,) tokens; read: (n,) tokens of the target, shifted right; layers: counted from 1.
    "encoder" is (layers, h, m, m), "decoder" (layers, h, n, n), "encoder_decoder"
    (layers, h, n, m): row i is what position i attends to.
    """
    modules: dict[str, list[Any]] = {
        "encoder": [encoder.layers[layer - 1].self_attention for layer in layers],
        "decoder": [decoder.layers[layer - 1].self_attention for layer in layers],
        "encoder_decoder": [decoder.layers[layer - 1].encoder_attention for layer in layers],
    }
    with recorded(module for of_kind in modules.values() for module in of_kind) as weights:
        decoder.decode(read[None], *encoder.encode(source[None]))
    return {
        kind: torch.stack([weights[module][0] for module in of_kind])
        for kind, of_kind in modules.items()
    }


@contextmanager
def recorded(modules: Iterable[MultiHeadAttention]) -> Iterator[dict[MultiHeadAttention, Tensor]]:
    """Give a dictionary that gets the weights (batch, h, n, m) of each module's next call.

    torch's fused attention keeps no weights, so these modules compute equation (1) step by step
    while inside `with`. The others go their usual way.
    """
    weights: dict[MultiHeadAttention, Tensor] = {}
    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_pre_hook(_ask, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(partial(_keep, weights)))
        yield weights


def _ask(module: MultiHeadAttention, args: tuple, kwargs: dict) -> tuple[tuple, dict[str, Any]]:
    return args, {**kwargs, "need_weights": True}


def _keep(weights: dict, module: MultiHeadAttention, args: tuple, output: tuple) -> None:
    weights[module] = output[1]
