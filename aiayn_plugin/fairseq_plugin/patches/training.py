"""Patches for averaged weights, for several processes, and for threads that fairseq leaves."""

import os
import queue
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data.iterators import BackgroundConsumer

from ...errors import InputError


def drop_empty_batches(step: Callable) -> Callable:
    """Wrap Trainer.train_step: drop empty batches, so that every token of an update is counted.

    Where an epoch's batches do not divide evenly among the processes, some processes get an empty
    batch at its end. fairseq then ignores their earlier batches of that update in its count, though
    it adds their gradients: for two processes with two batches of 100 tokens each, the last one
    empty, it divides the gradient of 300 tokens by 200. The processes of sharded models
    (fully_sharded) must take equal numbers of batches, so they keep the empty ones.
    """

    def train_step(trainer: Any, samples: list, *args: Any, **kwargs: Any) -> Any:
        backend = trainer.cfg.distributed_training.ddp_backend
        if trainer.data_parallel_world_size > 1 and backend != "fully_sharded":
            samples = [sample for sample in samples if sample] or samples
        return step(trainer, samples, *args, **kwargs)

    return train_step


def average_shared_weights_once(step: Callable) -> Callable:
    """Wrap EMA._step_internal: average each tensor once, even if it has several names.

    fairseq averages in place, name by name. The embedding matrix (§3.4) has two names, so its decay
    would be squared.
    """

    def _step_internal(ema: Any, model: Any, *args: Any) -> None:
        averages = ema.fp32_params if ema.config.ema_fp32 else ema.model.state_dict()
        first_names: dict[int, str] = {}
        for name, average in averages.items():
            if torch.is_tensor(average):
                first_names.setdefault(average.data_ptr(), name)
        weights = model.state_dict()
        once = {name: weights[name] for name in first_names.values() if name in weights}
        return step(ema, SimpleNamespace(state_dict=lambda: once), *args)

    return _step_internal


def join_torchrun(args: Namespace, searches: bool) -> None:
    """Set the options with which a command started by torchrun joins the other processes.

    fairseq reads torchrun's variables only if it sees several GPUs. On CPUs, and with one GPU per
    node, each process would start its own run, and all would write the same checkpoints. On CPUs
    fairseq's default backends, which need a device, do not work either. Raises InputError for a
    command that searches, which would write parts of the output concurrently.
    """
    if getattr(args, "distributed_init_method", "") is not None:
        return  # the command has no such option, or the user has given it
    gpus, size = torch.cuda.device_count(), int(os.environ.get("WORLD_SIZE", 1))
    if not searches and args.cpu and args.distributed_world_size == gpus:
        args.distributed_world_size = 1  # its default is the number of GPUs, with --cpu too
    if "TORCHELASTIC_RUN_ID" not in os.environ or size == 1:
        return
    if searches:
        raise InputError(
            "this command runs in one process: start it without torchrun; for N processes, start "
            "fairseq-generate N times with --distributed-world-size N --distributed-rank 0, 1, …, "
            "N-1, each with its own CUDA_VISIBLE_DEVICES"
        )
    args.distributed_init_method = "env://"
    args.distributed_no_spawn = True  # torchrun has started the processes
    args.distributed_world_size, args.distributed_rank = size, int(os.environ["RANK"])
    if torch.cuda.is_available() and not args.cpu:
        args.device_id = int(os.environ["LOCAL_RANK"])
        if args.device_id >= gpus:
            raise InputError(
                f"torchrun started process {args.device_id + 1} on a machine with {gpus} "
                f"GPU{'s' * (gpus != 1)}: give --nproc_per_node {gpus}, or --cpu"
            )
        return
    if args.distributed_backend == "nccl":
        args.distributed_backend = "gloo"
    if args.ddp_backend in ("c10d", "pytorch_ddp"):
        args.ddp_backend = "legacy_ddp"


def never_use_fast_path(original: Any) -> property:
    """Replace load_to_BT of fairseq 0.12.2's encoder layer with an attribute that is False."""
    return property(lambda self: False, lambda self, loaded: None)


def finish_data_threads(timeout: float = 10.0) -> None:
    """Let the threads that prepare batches end before Python does, within timeout seconds.

    fairseq leaves them running when training stops inside an epoch. If one is preparing a batch
    when Python ends, the process aborts ("terminate called without an active exception").
    """
    end = time.monotonic() + timeout
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len = 0  # makes its current batch the last
            while thread.is_alive() and time.monotonic() < end:
                try:
                    thread._queue.get(timeout=0.05)
                except queue.Empty:
                    pass
