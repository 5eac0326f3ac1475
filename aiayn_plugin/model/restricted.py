"""§4, Table 1: self-attention restricted to a neighbourhood, in time and memory of n·r, not n²."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Reach(NamedTuple):
    """Position i sees position j if i − before ≤ j ≤ i + after."""

    before: int
    after: int


def centred_reach(r: int) -> Reach:
    """Return the reach of r positions around each one (encoder): −⌊(r−1)/2⌋ ≤ j − i ≤ ⌊r/2⌋."""
    return Reach((r - 1) // 2, r // 2)


def causal_reach(n: int, r: int | None = None) -> Reach:
    """Return the reach of the last r positions (decoder): i − r < j ≤ i; without r, of all n."""
    return Reach(n - 1 if r is None else min(r, n) - 1, 0)


def visible(
    n: int, m: int, padding: Tensor | None, reach: Reach | None, device: torch.device
) -> Tensor | None:
    """Return who sees whom: boolean, broadcastable to (batch, h, n, m); None if all see all.

    padding is (batch, m), True at padding. With a reach, n = m and every position sees itself, even
    padding, so that no row of the softmax is empty.
    """
    not_padding = ~padding[:, None, None] if padding is not None else None
    if reach is None:
        return not_padding
    ahead = torch.arange(m, device=device) - torch.arange(n, device=device)[:, None]  # j − i
    near = (ahead >= -reach.before) & (ahead <= reach.after)
    return near if not_padding is None else near & not_padding | (ahead == 0)


def restricted_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    reach: Reach,
    padding: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Return scaled dot-product attention in which each position sees only those within reach.

    q, k: (batch, h, n, d_k), v: (batch, h, n, d_v); padding: boolean (batch, n), True at positions
    that only they themselves see. Returns (batch, h, n, d_v), equal to full attention under the
    mask of `visible`.

    The queries are cut into blocks, and each block attends to its own window of the keys. With a
    reach of 31 before and 32 after, blocks have 64 queries and windows 64 + 31 + 32 = 127 keys. A
    window is shorter than two blocks, so time and memory grow with n·r.
    """
    batch, _, n, _ = q.shape
    block = max(reach.before + reach.after + 1, 16)  # shorter blocks would leave a core idle
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
