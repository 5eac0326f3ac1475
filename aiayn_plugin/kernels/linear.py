"""x ↦ xWᵀ + b, by the faster of torch's two libraries."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: Multiplications from which a product is worth the other library's longer way to begin.
MANY = 2**24
#: Rows up to which a packed weight in float32 is worth it: the beams of some sentences.
FEW_ROWS = 32


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Map (…, inner) by weight (outer, inner) and bias (outer) to (…, outer), as F.linear does.

    In float32 on a processor of AMD torch takes Intel's library MKL, which uses less of what the
    processor can; torch has oneDNN too. On an EPYC (Zen 5) 2,500 × 512 by 512 × 512 comes to 115
    GFLOP/s of a core with the one and to 270 with the other. Only the order of the sums differs.
    """
    if not _by_onednn(x, weight.size(0)):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return _Linear.apply(x, weight, bias)
    return _onednn(x, weight, bias)


def add_transposed_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add aᵀ b to total (k, m), for a (n, k) and b (n, m) of the same precision."""
    if _by_onednn(a, b.size(1)):
        total += _onednn(a.t(), b.t())
    else:
        total.addmm_(a.t(), b)


class Linear(nn.Linear):
    """torch's nn.Linear, by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class PackedProjection(nn.Module):
    """x ↦ xW + b for a W that changes no more, in the order in which oneDNN reads it.

    A step of the search of one sentence has 4 rows: with a W of 512 × 1,536 they take 123 µs by
    F.linear and 43 µs packed in float32, and 48 and 28 µs in bfloat16 (a core of an EPYC, Zen 5).
    In float32 W is kept as it was too, for products of many rows, which gain nothing. In a
    precision or on a device where packing does not pay, W is only kept as it was.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.bias: Tensor | None
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)
        self._keep(weight.detach())

    def _keep(self, weight: Tensor) -> None:
        pays = packing_pays(weight)
        reorder = torch.ops.mkldnn._reorder_linear_weight
        self.packed: Any = reorder(weight.contiguous()) if pays else None
        self.whole = None if pays and weight.dtype == torch.bfloat16 else weight

    @property
    def weight(self) -> Tensor:
        """W as it was (outer, inner)."""
        return self.packed.to_dense() if self.whole is None else self.whole

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, inner) to (…, outer), in the precision of the weights."""
        if self.whole is None:
            return _onednn(x, self.packed, self.bias)
        rows = x.numel() // x.size(-1)
        if self.packed is None or rows > FEW_ROWS or torch.is_autocast_enabled("cpu"):
            return linear(x, self.whole, self.bias)
        # oneDNN keeps half a megabyte of code for each number of rows: so these are 4, 8, 12, ….
        padded = F.pad(x.flatten(0, -2), (0, 0, 0, -rows % 4))
        return _onednn(padded, self.packed, self.bias)[:rows].unflatten(0, x.shape[:-1])

    def __reduce__(self) -> tuple:
        """Let copy and pickle, which cannot read a packed weight, pack it again."""
        return PackedProjection, (self.weight, self.bias)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PackedProjection":
        """Follow the model to another precision or device (model.double(), model.to(…))."""
        super()._apply(fn, recurse)
        self._keep(fn(self.weight))
        return self


def packing_pays(weight: Tensor) -> bool:
    """Whether products with this weight are faster packed, without gradients."""
    if weight.device.type != "cpu" or not _has_onednn():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 and _is_amd()


def _by_onednn(x: Tensor, outer: int) -> bool:
    """Whether a product of x (…, inner) that comes to (…, outer) is oneDNN's."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() * outer >= MANY
        and _is_amd()
        and _has_onednn()
        and not torch.is_autocast_enabled("cpu")
    )


@functools.cache
def _has_onednn() -> bool:
    """Whether this torch has oneDNN's product."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def _is_amd() -> bool:
    """Whether this is a processor of AMD."""
    described = Path("/proc/cpuinfo")
    return described.is_file() and "AuthenticAMD" in described.read_text(errors="replace")


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    """The product with its gradients, which oneDNN's function does not have."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        grad_x = _onednn(grad, weight.t()) if needs_x else None
        rows = grad.flatten(0, -2)
        grad_weight = _onednn(rows.t(), x.flatten(0, -2).t()) if needs_weight else None
        return grad_x, grad_weight, rows.sum(dim=0) if needs_bias else None
