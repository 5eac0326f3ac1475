"""§3.5 Positional encoding: sinusoids, learned positions (Table 3, row E), fairseq's sinusoids."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..paper import POSITION_KINDS


def sinusoids(length: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)).

    Returns (length, d_model) in float64; row 0 is pos = 0. Raises InputError if d_model is odd,
    because sines and cosines come in pairs.
    """
    if d_model % 2:
        raise InputError(f"sinusoidal positions need an even d_model, not {d_model}")
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = pos / 10000 ** (two_i / d_model)  # (length, d_model/2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


def fairseq_sinusoids(length: int, d_model: int) -> Tensor:
    """fairseq's table: all sines, then all cosines, of (pos + 2) · 10000^(−i/(d_model/2 − 1)).

    fairseq counts from padding_idx + 1, which is 2, and computes in float32. The steps here are the
    same, so that the result is bit-identical. Returns (length, d_model). Raises InputError if
    d_model is odd or below 4.
    """
    if d_model % 2 or d_model < 4:
        raise InputError(f"fairseq's positions need an even d_model of 4 or more, not {d_model}")
    half = d_model // 2
    rate = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10000) / (half - 1)))
    angle = torch.arange(2, length + 2, dtype=torch.float32)[:, None] * rate
    return torch.cat((angle.sin(), angle.cos()), dim=1)


def token_positions(tokens: Tensor, padding_idx: int) -> Tensor:
    """Return the position of each token of (batch, n), from 0 at the first that is not padding."""
    return (tokens.ne(padding_idx).cumsum(dim=1) - 1).clamp(min=0)


class SinusoidalPositions(nn.Module):
    """Positional encodings given by a formula, for any length: the table grows on demand."""

    table: Tensor

    def __init__(
        self, d_model: int, formula: Callable = sinusoids, max_positions: int | None = None
    ) -> None:
        super().__init__()
        self.d_model, self.formula, self.max_positions = d_model, formula, max_positions
        # fairseq's default limit, so that training does not recompile for a larger table
        self.register_buffer("table", self._compute_table(1024), persistent=False)

    def _compute_table(self, length: int) -> Tensor:
        return self.formula(length, self.d_model).float()

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Map positions (batch, n), each below length, to (batch, n, d_model)."""
        table = self.table
        if length > table.size(0):
            # A single assignment, so that concurrent searches read either the old or the new table.
            table = self.table = self._compute_table(max(length, 2 * table.size(0))).to(table)
        return table[positions]


class LearnedPositions(nn.Module):
    """Table 3, row (E): one learned vector for each of max_positions positions."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Map positions (batch, n), each below length, to (batch, n, d_model).

        Raises InputError beyond the learned positions.
        """
        if length > self.max_positions and int(positions.max()) >= self.max_positions:
            raise InputError(
                f"the model learned {self.max_positions} positions, but the input has "
                f"{int(positions.max()) + 1}: shorten it, or train with larger "
                "--max-source-positions and --max-target-positions, or with --positions sinusoids"
            )
        return self.weight[positions]


PositionalEncoding = SinusoidalPositions | LearnedPositions


def build_positions(kind: str, d_model: int, max_positions: int) -> PositionalEncoding:
    """Return the module for one of POSITION_KINDS; "sinusoids" ignores max_positions."""
    if kind == "sinusoids":
        return SinusoidalPositions(d_model)
    if kind == "learned":
        return LearnedPositions(d_model, max_positions)
    if kind == "fairseq":
        return SinusoidalPositions(d_model, fairseq_sinusoids, max_positions)
    raise InputError(f"positions {kind!r} is not one of {', '.join(POSITION_KINDS)}")
