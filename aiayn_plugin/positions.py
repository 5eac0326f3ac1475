"""§3.5 Positional encoding."""

import torch
from torch import Tensor, nn

from .errors import SettingError


def sinusoids(length: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same).

    Returns (length, d_model) in float64, the first row for pos = 0.
    Raises SettingError for an odd d_model, which has no such pairs.
    """
    if d_model % 2:
        raise SettingError(f"sinusoidal positions need an even d_model, not {d_model}")
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = pos / 10000 ** (two_i / d_model)  # (length, d_model/2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


def positions_of(tokens: Tensor, padding_idx: int) -> Tensor:
    """The position of each token of (batch, n), counted from 0 at the first that is no padding."""
    return (tokens.ne(padding_idx).cumsum(dim=1) - 1).clamp(min=0)


class SinusoidalPositions(nn.Module):
    """The sinusoids, at any length: the table is a cache that grows when a longer input comes."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoids(512, d_model).float(), persistent=False)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """positions (batch, n), each below length, to (batch, n, d_model)."""
        if length > self.table.size(0):
            size = max(length, 2 * self.table.size(0))
            self.table = sinusoids(size, self.d_model).to(self.table)
        return self.table[positions]
