"""Mends of training in several processes."""

import os
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from ...checkpoints.numpy_unpickling import CODES
from ...errors import InputError


def with_torchrun(infer: Callable) -> Callable:
    """Return fairseq's infer_init_method for torchrun with any number of devices on a node.

    fairseq reads torchrun's variables only if it sees several GPUs. On CPUs, and with one GPU on a
    node, each process would start a run of its own, and all would write the same checkpoints. On
    CPUs its defaults, nccl and torch's DDP with a device, do not work either. Can go when fairseq
    joins whatever WORLD_SIZE says.
    """

    def infer_init_method(cfg, force_distributed=False):
        size = int(os.environ.get("WORLD_SIZE", 1))
        if (
            cfg.distributed_init_method is not None
            or "TORCHELASTIC_RUN_ID" not in os.environ
            or size == 1
        ):
            return infer(cfg, force_distributed)
        cfg.distributed_init_method = "env://"
        cfg.distributed_no_spawn = True  # torchrun has started the processes
        cfg.distributed_world_size, cfg.distributed_rank = size, int(os.environ["RANK"])
        if torch.cuda.is_available() and not cfg._get_root().common.cpu:
            cfg.device_id = own_gpu(int(os.environ["LOCAL_RANK"]), torch.cuda.device_count())
            torch.cuda.set_device(cfg.device_id)
            return None
        if cfg.distributed_backend == "nccl":
            cfg.distributed_backend = "gloo"
        if cfg.ddp_backend in ("c10d", "pytorch_ddp"):
            cfg.ddp_backend = "legacy_ddp"
        return None

    return infer_init_method


def own_gpu(process: int, gpus: int) -> int:
    """Return the GPU of a node's process, which no other process has.

    process counts from 0. Raises InputError if there are more processes than GPUs.
    """
    if process >= gpus:
        raise InputError(
            f"torchrun started a process {process + 1} on a machine with {gpus} "
            f"GPU{'s' * (gpus != 1)}: give --nproc_per_node {gpus}, or --cpu"
        )
    return process


def with_plain_data(broadcast: Callable) -> Callable:
    """Return fairseq's _broadcast_object_slow, which may send a configuration and numbers of numpy.

    The processes of a resumed run send each other what the first has loaded, with stand-ins for
    tensors, and torch ≥ 2.6 refuses to read it. Can go when fairseq names these types itself.
    """
    numbers = [type(np.dtype(code)) for code in CODES]
    core = getattr(np, "_core", None) or np.core
    types = [
        DictConfig,
        ListConfig,
        AnyNode,
        ContainerMetadata,
        Metadata,
        Any,
        dict,
        list,
        int,
        defaultdict,
        _TensorPlaceholder,
        np.ndarray,
        np.dtype,
        *numbers,
        core.multiarray._reconstruct,
        core.multiarray.scalar,
    ]

    def broadcast_object_slow(*args, **kwargs):
        with torch.serialization.safe_globals(types):
            return broadcast(*args, **kwargs)

    return broadcast_object_slow
