"""Mends of --store-ema."""

from collections.abc import Callable

from fairseq.models.ema.ema import EMA


def with_whole_numbers(init: Callable) -> Callable:
    """Return the beginning of fairseq's EMA for models that have buffers of whole numbers.

    fairseq multiplies every tensor of a model with the decay, and whole numbers have no mean: they
    are copied instead. Can go when fairseq averages floating-point numbers alone.
    """

    def __init__(self: EMA, model, config, device=None, skip_keys=None) -> None:
        whole = {name for name, x in model.state_dict().items() if not x.is_floating_point()}
        init(self, model, config, device, whole | set(skip_keys or ()))

    return __init__
