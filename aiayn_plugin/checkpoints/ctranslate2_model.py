"""Export to CTranslate2, a fast inference engine for Transformers (extra: `export`)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..model.attention import MultiHeadAttention
from ..model.layers import AddNorm, FeedForward

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8")
#: Rows of the table of sinusoids that CTranslate2 uses.
SINUSOIDS = 2048


def import_ctranslate2() -> Any:
    """Return the ctranslate2 module. Raises InputError if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise InputError("ctranslate2 is not installed: pip install ctranslate2") from None
    return ctranslate2


def build_specification(model: Any, source: Sequence[str], target: Sequence[str]) -> Any:
    """Return the model and its dictionaries as a ctranslate2.specs.TransformerSpec.

    model: a Transformer. source, target: the entries of its dictionaries. Raises InputError
    for what CTranslate2 cannot express: restricted attention, and d_k or d_v other than
    d_model / h.
    """
    from ctranslate2.specs import TransformerSpec

    encoder, decoder = model.encoder, model.decoder
    attention = encoder.layers[0].self_attention
    if attention.neighbourhood is not None:
        raise InputError("CTranslate2 does not support attention restricted to a neighbourhood")
    width = encoder.embedding.embedding_dim // attention.h
    if not attention.d_k == attention.d_v == width:
        raise InputError(
            f"CTranslate2 needs d_k = d_v = d_model / h = {width}; the model has d_k "
            f"{attention.d_k} and d_v {attention.d_v}"
        )
    layers = len(encoder.layers), len(decoder.layers)
    transformer = TransformerSpec.from_config(layers, attention.h, pre_norm=False)
    for spec, stack in ((transformer.encoder, encoder), (transformer.decoder, decoder)):
        embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
        embeddings.weight = _to_numpy(stack.embedding.weight)
        spec.scale_embeddings = True  # by √d_model
        rows = max_positions(stack)
        positions = stack.positions(torch.arange(rows)[None], rows)[0]
        spec.position_encodings.encodings = _to_numpy(positions)
        for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
            _write_attention(layer_spec.self_attention, layer.self_attention, layer.add_norms[0])
            if stack is decoder:
                _write_attention(layer_spec.attention, layer.encoder_attention, layer.add_norms[1])
            _write_feed_forward(layer_spec.ffn, layer.feed_forward, layer.add_norms[-1])
    transformer.decoder.projection.weight = _to_numpy(decoder.projection)
    transformer.register_source_vocabulary(list(source))
    transformer.register_target_vocabulary(list(target))
    transformer.config.decoder_start_token = transformer.config.eos_token
    transformer.config.add_source_eos = True
    return transformer


def _to_numpy(tensor: Tensor):
    return tensor.detach().float().cpu().numpy()


def max_positions(stack: Any) -> int:
    """Return the number of positions that CTranslate2 has for an encoder or decoder."""
    return stack.positions.max_positions or SINUSOIDS


def _write_linear(spec: Any, *projections: torch.nn.Linear) -> None:
    """Write linear layers, concatenated, as one."""
    spec.weight = _to_numpy(torch.cat([projection.weight for projection in projections]))
    biases = tuple(projection.bias for projection in projections if projection.bias is not None)
    if biases:
        spec.bias = _to_numpy(torch.cat(biases))


def _write_norm(spec: Any, add_norm: AddNorm) -> None:
    spec.gamma, spec.beta = _to_numpy(add_norm.norm.weight), _to_numpy(add_norm.norm.bias)


def _write_attention(spec: Any, attention: MultiHeadAttention, add_norm: AddNorm) -> None:
    query, key, value = attention.W_Q, attention.W_K, attention.W_V
    projects_once = len(spec.linear) == 2  # self-attention
    groups = [(query, key, value)] if projects_once else [(query,), (key, value)]
    for linear, projections in zip(spec.linear, [*groups, (attention.W_O,)], strict=True):
        _write_linear(linear, *projections)
    _write_norm(spec.layer_norm, add_norm)


def _write_feed_forward(spec: Any, feed_forward: FeedForward, add_norm: AddNorm) -> None:
    _write_linear(spec.linear_0, feed_forward.W_1)
    _write_linear(spec.linear_1, feed_forward.W_2)
    _write_norm(spec.layer_norm, add_norm)
