"""Linear layers in int8, for inference on a CPU (--int8)."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .device import has_vnni
from .packing import InferenceLinear, replace_linear_layers

#: Without VNNI, pairs of int8 products are added in 16 bits. torch then quantises x to 7 bits, so
#: that no sum overflows.
REDUCE_RANGE = not has_vnni()
#: Minimum output features and rows of x for oneDNN to be faster than FBGEMM.
ONEDNN_MIN_OUTPUTS, ONEDNN_MIN_ROWS = 4096, 48


def quantize_linear_layers(model: nn.Module) -> None:
    """Replace all linear layers of a model with int8 ones, in place; it can no longer be trained.

    Embeddings, the residual stream and norms stay in float32. Raises InputError as
    Int8Linear does.
    """
    replace_linear_layers(model, Int8Linear)


class Int8Linear(InferenceLinear):
    """x ↦ xWᵀ + b with W and x quantised to int8, integer sums and a float32 result.

    Each row of W has its own scale: (0.5, −1, 0.25) becomes (64, −127, 32) with scale 1/127. x has
    a single scale, from its minimum and maximum, so the result for a sentence depends slightly on
    the rest of its batch. A layer with many outputs is packed twice, for few rows and for many.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Raises InputError for weights that are not finite, or not in float32 on a CPU."""
        super().__init__()
        weight = weight.detach()
        if weight.device.type != "cpu" or weight.dtype != torch.float32:
            raise InputError(
                "int8 needs a float32 model on a CPU: give --cpu (or aiayn's --device cpu), and "
                "neither --fp16 nor --bf16"
            )
        if not weight.isfinite().all():
            raise InputError(
                "the model has weights that are NaN or infinite: translate with an earlier "
                "checkpoint"
            )
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        with warnings.catch_warnings():  # deprecated, but linear_prepack takes nothing else
            warnings.simplefilter("ignore", UserWarning)
            zeros = torch.zeros_like(scales, dtype=torch.long)
            quantized = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
        bias = bias.detach() if bias is not None else None
        backend = torch.backends.quantized
        self.weight_for_few_rows = _pack(quantized, bias, backend.engine)
        self.weight_for_many_rows = self.weight_for_few_rows
        is_large = len(weight) >= ONEDNN_MIN_OUTPUTS
        if is_large and "onednn" in backend.supported_engines and not REDUCE_RANGE:
            self.weight_for_many_rows = _pack(quantized, bias, "onednn")

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, in_features) in float32 to (…, out_features)."""
        has_few_rows = x.numel() < ONEDNN_MIN_ROWS * x.size(-1)
        weight = self.weight_for_few_rows if has_few_rows else self.weight_for_many_rows
        return torch.ops.quantized.linear_dynamic(x, weight, REDUCE_RANGE)


def _pack(weight: Tensor, bias: Tensor | None, engine: str) -> Any:
    """Pack a quantised weight for FBGEMM or oneDNN."""
    backend = torch.backends.quantized
    default_engine = backend.engine
    backend.engine = engine  # a setting of the whole process, restored after packing
    try:
        return torch.ops.quantized.linear_prepack(weight, bias)
    finally:
        backend.engine = default_engine
