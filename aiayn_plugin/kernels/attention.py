"""The fastest scaled dot-product attention for the device, dtype and shape."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# On H100 and newer GPUs, torch prefers cuDNN's attention, which spends tens of milliseconds on a
# plan for each new shape, hence for nearly every batch. torch's other kernels need no plan.
torch.backends.cuda.enable_cudnn_sdp(False)

#: Maximum queries and keys for which the kernel for short sentences is faster on a GPU.
MAX_SHORT = 128
#: Computes attention over short sentences on a GPU; set by use_short_attention.
_short_attention: Callable[..., Tensor] | None = None
#: Largest batch, in sentences, for which torch's fused attention is faster in a decoding step.
MAX_FUSED_BATCH = 4


class Window(NamedTuple):
    """Position i attends to positions i − left to i + right."""

    left: int
    right: int

    def is_causal(self, n: int) -> bool:
        """Return whether each of n positions attends to itself and to all earlier ones."""
        return self.left >= n - 1 and self.right == 0

    def is_narrow(self, n: int) -> bool:
        """Return whether attention over n positions is faster in blocks (attend_in_blocks)."""
        return n > 2 * (self.left + self.right + 1)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    padding: Tensor | None,
    window: Window | None,
    dropout: float,
) -> Tensor:
    """Return softmax(QKᵀ/√d_k)V, equation (1) of the paper, (batch, h, n, d_v).

    q: (batch, h, n, d_k), k: (batch, h, m, d_k), v: (batch, h, m, d_v).
    padding: boolean (batch, m), True at padding; window: None if every position attends to all.
    """
    n, m = q.size(2), k.size(2)
    if _short_attention is not None and _is_short(q, k, v, window, dropout):
        return _short_attention(q, k, v, padding, window is not None)
    if window is not None and window.is_narrow(n):
        return attend_in_blocks(q, k, v, window, padding, dropout)
    is_causal = window is not None and window.is_causal(n)
    if is_causal and padding is None and not _is_explicit_mask_faster(q):
        return F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=True)
    mask = build_mask(n, m, padding, window, q.device)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout)


def is_equation_faster(q: Tensor, k: Tensor, window: Window | None) -> bool:
    """Return whether equation (1), step by step, is faster than attend.

    It is faster on a CPU in bfloat16, especially in the backward pass. It stores all n × m weights,
    however, so long sentences use the fused kernel.
    """
    if q.device.type != "cpu" or q.dtype != torch.bfloat16 or q.size(2) * k.size(2) > 512**2:
        return False
    return window is None or not window.is_narrow(q.size(2))


def is_fused_step_faster(q: Tensor) -> bool:
    """Return whether torch's fused attention is faster in a decoding step than equation (1).

    q: the queries (batch, h, b, d_k) of the b hypotheses of each sentence.
    """
    return q.device.type == "cpu" and len(q) <= MAX_FUSED_BATCH


def use_short_attention(enabled: bool) -> None:
    """Enable or disable the kernel for short sentences, on Ampere and newer GPUs."""
    global _short_attention
    _short_attention = None
    if enabled and torch.version.hip is None and torch.cuda.get_device_capability() >= (8, 0):
        from .short_attention import short_attention  # needs Triton

        _short_attention = short_attention


def _is_short(q: Tensor, k: Tensor, v: Tensor, window: Window | None, dropout: float) -> bool:
    """Return whether the kernel for short sentences can be used.

    On longer sentences its tiles would not fit in a multiprocessor's memory.
    """
    n, m, widths = q.size(2), k.size(2), (q.size(3), v.size(3))
    return (
        q.is_cuda
        and q.dtype in (torch.bfloat16, torch.float16)
        and dropout == 0
        and n <= MAX_SHORT
        and m <= MAX_SHORT
        and all(width in (16, 32, 64) for width in widths)
        and (window is None or window.is_causal(n))
    )


def _is_explicit_mask_faster(q: Tensor) -> bool:
    """Return whether causal attention is faster with a mask than with is_causal.

    On a GPU, is_causal selects flash attention, which works in blocks of 128 positions.
    """
    return q.is_cuda and q.size(2) < 80


def build_mask(
    n: int, m: int, padding: Tensor | None, window: Window | None, device: torch.device
) -> Tensor | None:
    """Return the mask of n queries over m keys; None if every query may attend to every key.

    It is True where a query may attend to a key, and broadcasts to (batch, h, n, m). padding:
    (batch, m), True at padding. With a window, n = m and every position attends to itself, even
    padding, so that no row is masked entirely.
    """
    not_padding = ~padding[:, None, None] if padding is not None else None
    if window is None:
        return not_padding
    offset = torch.arange(m, device=device) - torch.arange(n, device=device)[:, None]  # j − i
    in_window = (offset >= -window.left) & (offset <= window.right)
    return in_window if not_padding is None else in_window & not_padding | (offset == 0)


def attend_in_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: Window,
    padding: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Return attention restricted to a window, in time and memory O(n·r) instead of O(n²).

    q, k: (batch, h, n, d_k), v: (batch, h, n, d_v); padding: boolean (batch, n), True at padding.
    Returns (batch, h, n, d_v), equal to full attention under build_mask's mask.

    The queries are split into blocks, and each block attends to its own span of keys. With a window
    of 31 left and 32 right (r = 64), a block has 64 queries and a span 64 + 31 + 32 = 127 keys. A
    span is shorter than two blocks, so time and memory grow with n·r.
    """
    batch, _, n, _ = q.shape
    block = max(window.left + window.right + 1, 16)  # shorter blocks would leave cores idle
    span = block + window.left + window.right
    blocks = math.ceil(n / block)
    tail = blocks * block - n  # padding of the last block
    margins = (window.left, window.right + tail)

    def split_into_spans(x: Tensor) -> Tensor:  # (batch, h, n, d) to (batch·blocks, h, span, d)
        x = F.pad(x, (0, 0, *margins)).unfold(2, span, block)  # (batch, h, blocks, d, span)
        return x.permute(0, 2, 1, 4, 3).flatten(0, 1)

    q = F.pad(q, (0, 0, 0, tail)).unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)
    if padding is None:
        padding = q.new_zeros(1, n, dtype=torch.bool)
    is_masked = F.pad(padding, margins, value=True).unfold(1, span, block)[:, :, None]
    offset = torch.arange(span, device=q.device) - torch.arange(block, device=q.device)[:, None]
    in_window = (offset >= 0) & (offset <= window.left + window.right)
    mask = in_window & ~is_masked | (offset == window.left)  # (batch or 1, blocks, block, span)
    mask = mask.expand(batch, -1, -1, -1).flatten(0, 1)[:, None]
    out = F.scaled_dot_product_attention(q, split_into_spans(k), split_into_spans(v), mask, dropout)
    return out.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :n]
