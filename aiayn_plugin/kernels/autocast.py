"""--bf16: matrix products in bfloat16; weights, sums and the optimiser stay in float32."""

import torch
from torch import Tensor


def autocast_once(x: Tensor) -> Tensor:
    """Return x in the precision of torch's autocast, or x itself if autocast is off.

    autocast would convert x for each product; an x that several products read is converted once.
    """
    device = x.device.type
    # The device "meta", which has shapes and no numbers, has no autocast to ask for.
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device))
