"""Softmax over attention scores."""

import torch
import torch.nn.functional as F
from torch import Tensor

#: Minimum row length for torch's float32 softmax to use vector instructions. Shorter rows take
#: several times as long, so they are padded, except where that would more than quadruple them.
VECTOR_LENGTH = 16


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the last dimension, in the dtype of the scores.

    On a CPU, torch's bfloat16 softmax is slower than converting to float32 and back. In training
    the float32 result would also be stored, which for rows of 64 or more costs more than it saves.
    """
    if scores.device.type != "cpu":
        return scores.softmax(dim=-1)
    n = scores.size(-1)
    is_short = n < 64 or not torch.is_grad_enabled()
    x = scores.float() if is_short and scores.dtype == torch.bfloat16 else scores
    if x.dtype == torch.float32 and VECTOR_LENGTH // 4 <= n < VECTOR_LENGTH:
        x = F.pad(x, (0, VECTOR_LENGTH - n), value=-torch.inf)
    return x.softmax(dim=-1)[..., :n].to(scores.dtype)
