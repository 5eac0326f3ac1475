"""§4, Table 1: the windows of restricted self-attention, which kernels/attention.py computes."""

from ..kernels.attention import Window


def centred_window(r: int) -> Window:
    """Return the encoder's window of r positions: −⌊(r−1)/2⌋ ≤ j − i ≤ ⌊r/2⌋."""
    return Window((r - 1) // 2, r // 2)


def causal_window(n: int, r: int | None = None) -> Window:
    """Return the decoder's window over n positions: the last r, i − r < j ≤ i; all if r is None."""
    return Window(n - 1 if r is None else min(r, n) - 1, 0)
