"""Softmax over attention scores."""

import torch
from torch import Tensor


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the last dimension, in the dtype of the scores.

    On a CPU, torch's bfloat16 softmax is slower than converting to float32 and back. In training
    the float32 result would also be stored, which for rows of 64 or more costs more than it saves.
    """
    is_short = scores.size(-1) < 64 or not torch.is_grad_enabled()
    if is_short and scores.dtype == torch.bfloat16 and scores.device.type == "cpu":
        return scores.float().softmax(dim=-1).to(scores.dtype)
    return scores.softmax(dim=-1)
