"""Mends of training in several processes."""

import os
from collections.abc import Callable

import torch


def with_torchrun(infer: Callable) -> Callable:
    """Return fairseq's infer_init_method for torchrun with any number of devices on a node.

    fairseq reads torchrun's variables only if it sees several GPUs. On CPUs, and with one GPU on a
    node, each process would start a run of its own, and all would write the same checkpoints. On
    CPUs its defaults, nccl and torch's DDP with a device, do not work either. Can go when fairseq
    joins whatever WORLD_SIZE says.
    """

    def infer_init_method(cfg, force_distributed=False):
        size = int(os.environ.get("WORLD_SIZE", 1))
        if cfg.distributed_init_method is not None or "TORCHELASTIC_RUN_ID" not in os.environ \
                or size == 1:
            return infer(cfg, force_distributed)
        cfg.distributed_init_method = "env://"
        cfg.distributed_no_spawn = True  # torchrun has started the processes
        cfg.distributed_world_size, cfg.distributed_rank = size, int(os.environ["RANK"])
        if torch.cuda.is_available() and not cfg._get_root().common.cpu:
            cfg.device_id = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
            torch.cuda.set_device(cfg.device_id)
            return None
        if cfg.distributed_backend == "nccl":
            cfg.distributed_backend = "gloo"
        if cfg.ddp_backend in ("c10d", "pytorch_ddp"):
            cfg.ddp_backend = "legacy_ddp"
        return None

    return infer_init_method
