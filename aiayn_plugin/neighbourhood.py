"""§4, Table 1: self-attention restricted to a neighbourhood, in time and memory of n·r, not n²."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Reach(NamedTuple):
    """Position i sees j where i − before ≤ j ≤ i + after."""

    before: int
    after: int


def centred_reach(r: int) -> Reach:
    """r positions centred on each one, as in the encoder: −⌊(r−1)/2⌋ ≤ j − i ≤ ⌊r/2⌋."""
    return Reach((r - 1) // 2, r // 2)


def causal_reach(n: int, r: int | None = None) -> Reach:
    """The last r positions up to each one, as in the decoder: i − r < j ≤ i; all n without r."""
    return Reach(n - 1 if r is None else min(r, n) - 1, 0)


def visible(
    n: int, m: int, padding: Tensor | None, reach: Reach | None, device: torch.device
) -> Tensor | None:
    """Who sees whom: boolean, broadcastable to (batch, h, n, m); None where all see all.

    padding is (batch, m), True at padding. With a reach (then n = m) every position sees itself,
    padding too, so that no row of the softmax is empty.
    """
    seen = ~padding[:, None, None] if padding is not None else None
    if reach is None:
        return seen
    ahead = torch.arange(m, device=device) - torch.arange(n, device=device)[:, None]  # j − i
    near = (ahead >= -reach.before) & (ahead <= reach.after)
    return near if seen is None else near & seen | (ahead == 0)


def restricted_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    reach: Reach,
    padding: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention in which each position sees only those within reach.

    q, k: (batch, h, n, d_k), v: (batch, h, n, d_v); padding: boolean (batch, n), True where only
    the position itself may see it. Returns (batch, h, n, d_v), equal to full attention under the
    mask of `visible`.

    The queries are cut into blocks as long as the neighbourhood; each block attends to its own
    window of the keys, fewer than two blocks of them, so time and memory grow with n·r.
    """
    batch, _, n, _ = q.shape
    block = max(reach.before + reach.after + 1, 16)  # shorter ones would waste a core's time
    window = block + reach.before + reach.after
    blocks = math.ceil(n / block)
    rest = blocks * block - n
    around = (reach.before, reach.after + rest)

    def windows(x: Tensor) -> Tensor:  # (batch, h, n, d) to (batch·blocks, h, window, d)
        x = F.pad(x, (0, 0, *around)).unfold(2, window, block)  # (batch, h, blocks, d, window)
        return x.permute(0, 2, 1, 4, 3).flatten(0, 1)

    q = F.pad(q, (0, 0, 0, rest)).unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)
    if padding is None:
        padding = q.new_zeros(1, n, dtype=torch.bool)
    hidden = F.pad(padding, around, value=True).unfold(1, window, block)[:, :, None]
    ahead = torch.arange(window, device=q.device) - torch.arange(block, device=q.device)[:, None]
    near = (ahead >= 0) & (ahead <= reach.before + reach.after)
    mask = near & ~hidden | (ahead == reach.before)  # (batch or 1, blocks, block, window)
    mask = mask.expand(batch, -1, -1, -1).flatten(0, 1)[:, None]
    out = F.scaled_dot_product_attention(q, windows(k), windows(v), mask, dropout)
    return out.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :n]
