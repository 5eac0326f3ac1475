"""Mends of how fairseq reads checkpoints."""

import argparse
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from ...checkpoints.numbers import CODES


def with_plain_data(broadcast: Callable) -> Callable:
    """Return fairseq's _broadcast_object_slow, which may send a configuration and numbers of numpy.

    The processes of a resumed run send each other what the first has loaded, with stand-ins for
    tensors, and torch ≥ 2.6 refuses to read it. Can go when fairseq names these types itself.
    """
    numbers = [type(np.dtype(code)) for code in CODES]
    core = getattr(np, "_core", None) or np.core
    types = [
        argparse.Namespace, DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any, dict,
        list, int, defaultdict, _TensorPlaceholder, np.ndarray, np.dtype, *numbers,
        core.multiarray._reconstruct, core.multiarray.scalar,
    ]  # fmt: skip

    def broadcast_object_slow(*args, **kwargs):
        with torch.serialization.safe_globals(types):
            return broadcast(*args, **kwargs)

    return broadcast_object_slow
