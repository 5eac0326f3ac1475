"""Linear layers for inference, with weights packed once into oneDNN's layout."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from .device import is_amd
from .linear import Linear, linear, onednn_linear

#: Maximum rows of x for a packed float32 weight to be faster: the beams of a few sentences.
MAX_PACKED_ROWS = 32
#: Minimum elements of a float32 weight for packing to be faster on an Intel processor, where MKL
#: has less overhead per call.
MIN_PACKED_ELEMENTS = 2**19

#: Builds an inference layer x ↦ xWᵀ + b from W (out_features, in_features), and b or None.
BuildLayer = Callable[[Tensor, Tensor | None], "InferenceLinear"]


class InferenceLinear(nn.Module):
    """Base class of linear layers x ↦ xWᵀ + b with a constant W."""


def pack_linear_layers(model: nn.Module) -> None:
    """Pack all linear layers of an inference model, in place, if that makes it faster.

    Results change only by rounding. In float32, weights then take twice the memory.
    """
    if is_packing_faster(next(model.parameters())):
        replace_linear_layers(model, PackedLinear)


def replace_linear_layers(model: nn.Module, build: BuildLayer) -> None:
    """Replace each nn.Linear of an inference model with build(weight, bias), in place.

    Also adds the layers that a module's inference_layers() returns: {attribute: (weight, bias)}.
    Skips an nn.Linear that shares its weight with an added layer, and subclasses that override
    forward. A second call changes nothing.
    """
    modules = list(model.modules())
    if any(isinstance(module, InferenceLinear) for module in modules):
        return
    for module in modules:
        extra: dict[str, Any] = getattr(module, "inference_layers", dict)()
        for name, (weight, bias) in extra.items():
            setattr(module, name, build(weight, bias))
        for name, child in list(module.named_children()):
            if not isinstance(child, nn.Linear):
                continue
            if type(child).forward not in (nn.Linear.forward, Linear.forward):
                continue
            if isinstance(child, NonDynamicallyQuantizableLinear):
                continue  # nn.MultiheadAttention reads its weight
            if not any(child.weight is weight for weight, _ in extra.values()):
                setattr(module, name, build(child.weight, child.bias))


def is_packing_faster(weight: Tensor) -> bool:
    """Return whether packing speeds up matmuls with this weight's dtype and device."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if weight.dtype != torch.float32:
        return False
    is_large = weight.numel() >= MIN_PACKED_ELEMENTS
    return is_amd() or (is_large and torch.backends.mkl.is_available())


class PackedLinear(InferenceLinear):
    """x ↦ xWᵀ + b for a constant W, which is packed if that is faster.

    In float32 the dense weight is also kept, since packing does not speed up inputs with many rows
    or a single row (greedy search for one sentence).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.bias: Tensor | None
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)
        self._pack(weight.detach())

    def _pack(self, weight: Tensor) -> None:
        is_packed = is_packing_faster(weight)
        reorder = torch.ops.mkldnn._reorder_linear_weight
        self.packed_weight: Any = reorder(weight.contiguous()) if is_packed else None
        self.dense_weight = None if is_packed and weight.dtype == torch.bfloat16 else weight

    @property
    def weight(self) -> Tensor:
        """W (out_features, in_features), unpacked."""
        return self.packed_weight.to_dense() if self.dense_weight is None else self.dense_weight

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, in_features) to (…, out_features), in the dtype of the weights."""
        if self.dense_weight is None:
            return onednn_linear(x, self.packed_weight, self.bias)
        rows = x.numel() // x.size(-1)
        is_dense = self.packed_weight is None or not 1 < rows <= MAX_PACKED_ROWS
        if is_dense or torch.is_autocast_enabled("cpu"):
            return linear(x, self.dense_weight, self.bias)
        if rows % 4 == 0:
            return onednn_linear(x, self.packed_weight, self.bias)
        # For each number of rows oneDNN caches half a megabyte of code, so pad to a multiple of 4.
        padded = F.pad(x.flatten(0, -2), (0, 0, 0, -rows % 4))
        out = onednn_linear(padded, self.packed_weight, self.bias)
        return out[:rows].unflatten(0, x.shape[:-1])

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PackedLinear":
        """Repack when the model's dtype or device changes (model.double(), model.to(…))."""
        super()._apply(fn, recurse)
        self._pack(fn(self.weight))
        return self
