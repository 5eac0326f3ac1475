"""Linear layers, x ↦ xWᵀ + b, by the faster of the two CPU libraries in torch: MKL or oneDNN."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .device import is_amd

#: Minimum multiplications in a matmul to outweigh oneDNN's higher overhead per call.
MIN_MULTIPLICATIONS = 2**24


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear(x, weight, bias), by MKL or oneDNN.

    x: (…, in_features), weight: (out_features, in_features), bias: (out_features,). The libraries'
    results differ only by rounding.
    """
    if not _should_use_onednn(x, weight.size(0)):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return _OneDNNLinear.apply(x, weight, bias)
    return onednn_linear(x, weight, bias)


def add_transposed_matmul(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add aᵀb to total (k, m) in place; a is (n, k) and b (n, m), all of one dtype."""
    if _should_use_onednn(a, b.size(1)):
        total += onednn_linear(a.t(), b.t())
    else:
        total.addmm_(a.t(), b)


class Linear(nn.Linear):
    """nn.Linear, computed by `linear`."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        if not bias:
            # nn.Linear registers None as the bias. fairseq's trainer would treat every None as
            # one shared parameter, and log each.
            del self._parameters["bias"]
            self.bias = None  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


@functools.cache
def prefers_onednn() -> bool:
    """Return whether oneDNN is faster than MKL for large float32 matmuls.

    On AMD processors MKL uses AVX2 only, so oneDNN is faster if they have AVX-512.
    """
    has_avx512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return torch.backends.mkldnn.is_available() and is_amd() and has_avx512


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return F.linear(x, weight, bias) by oneDNN, without gradients; weight may be packed."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _should_use_onednn(x: Tensor, out_features: int) -> bool:
    """Return whether a linear layer from x (…, in_features) to out_features should use oneDNN."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() * out_features >= MIN_MULTIPLICATIONS
        and prefers_onednn()
        and not torch.is_autocast_enabled("cpu")
    )


class _OneDNNLinear(torch.autograd.Function):
    """onednn_linear with gradients, which torch does not define for it."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        grad_x = onednn_linear(grad, weight.t()) if needs_x else None
        rows = grad.flatten(0, -2)
        grad_weight = onednn_linear(rows.t(), x.flatten(0, -2).t()) if needs_weight else None
        return grad_x, grad_weight, rows.sum(dim=0) if needs_bias else None
