"""Mixed precision: torch's autocast runs matmuls in bfloat16 or float16."""

import torch
from torch import Tensor


def cast_for_autocast(x: Tensor) -> Tensor:
    """Return x in autocast's dtype, or x itself if autocast is off.

    Left to autocast, x would be converted again for every matmul that reads it.
    """
    device = x.device.type
    # On the meta device even querying autocast raises an error.
    if x.is_meta or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device))
