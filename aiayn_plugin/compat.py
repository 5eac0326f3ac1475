"""Every mend of fairseq and torch, each with the reason and when it can go."""

import argparse
import atexit
import logging
import os
import queue
import shutil
import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

# Where a command imports the plugin first, fairseq reports that tensorboardX is missing, which
# only --tensorboard-logdir needs; there it says so again.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from fairseq import options  # noqa: E402
from fairseq.data.iterators import BackgroundConsumer  # noqa: E402
from fairseq.distributed import utils as distributed_utils  # noqa: E402
from fairseq.file_io import PathManager  # noqa: E402

from . import recipe  # noqa: E402
from .architectures import table  # noqa: E402

#: fairseq-train --help ends with this.
HELP = f"""architectures of aiayn_plugin (parameters with a vocabulary of 37,000):

{table()}

their options: --N --d-model --d-ff --h --d-k --d-v --dropout --attention-dropout --attention-bias
--positions sinusoids|learned|fairseq --neighbourhood R --tie-embeddings all|target|none
--feed-forward-gain --checkpoint-activations"""


def mend() -> None:
    """Apply all mends, once, when the plugin is imported."""
    load_only_weights()
    options.parse_args_and_arch = with_paper_defaults(options.parse_args_and_arch)
    PathManager.copy = staticmethod(link_or_copy)
    distributed_utils.infer_init_method = with_torchrun(distributed_utils.infer_init_method)
    atexit.register(finish_data_threads)
    # fairseq asks for pinned memory on machines without a GPU too, of which torch warns
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true")


#: Plain data types: none of them runs anything when it is loaded.
_BROADCAST = [
    DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any, dict, list, int, defaultdict,
    distributed_utils._TensorPlaceholder,
]


def load_only_weights() -> None:
    """A checkpoint must not run code: keep torch's weights_only, and allow what fairseq stores.

    fairseq puts the command line (a Namespace) and, after --eval-bleu, numpy numbers into its
    checkpoints, and a run of several processes that is resumed sends each other the configuration
    and stand-ins for tensors; torch ≥ 2.6 refuses them all. Can go when fairseq names these itself.
    """
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if version < (2, 6):  # has another default
        os.environ.setdefault("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    numbers = [type(np.dtype(kind)) for kind in (np.int64, np.float64, np.float32)]
    core = getattr(np, "_core", None) or np.core
    rebuild = [core.multiarray._reconstruct, core.multiarray.scalar]
    torch.serialization.add_safe_globals(
        [argparse.Namespace, np.ndarray, np.dtype, *rebuild, *numbers, *_BROADCAST]
    )
    if version >= (2, 7):  # which takes names: as numpy below 2 and as numpy from 2 on
        torch.serialization.add_safe_globals([
            (function, f"numpy.{package}.multiarray.{function.__name__}")
            for function in rebuild for package in ("core", "_core")
        ])


def with_paper_defaults(parse: Callable) -> Callable:
    """fairseq's parse_args_and_arch, with our task and the paper's settings as defaults.

    fairseq-generate, -interactive and -validate ignore the checkpoint's task and take
    `translation` where none is typed; and fairseq-train's own hook for defaults, modify_parser,
    is not open to plugins. Every typed flag wins. Can go when fairseq asks plugins for defaults.
    """

    def parse_args_and_arch(parser, input_args=None, *args, modify_parser=None, **kwargs):
        trains = _has(parser, "--arch")
        paper = recipe.defaults(input_args) if trains else {}
        if _has(parser, "--lenpen"):
            paper = recipe.search_defaults(input_args)

        def modify(parser: argparse.ArgumentParser) -> None:
            if parser.get_default("task") in (None, "translation"):
                parser.set_defaults(task="aiayn_translation")
            parser.set_defaults(**paper)
            if trains:
                parser.formatter_class = argparse.RawDescriptionHelpFormatter
                parser.epilog = HELP
            if modify_parser is not None:
                modify_parser(parser)

        found = parse(parser, input_args, *args, modify_parser=modify, **kwargs)
        parsed = found[0] if isinstance(found, tuple) else found
        if getattr(parsed, "bf16", False):
            # fairseq takes every --bf16 for a TPU's, and would look for torch_xla
            parsed.tpu = "--tpu" in (sys.argv if input_args is None else input_args)
        return found

    return parse_args_and_arch


def _has(parser: argparse.ArgumentParser, option: str) -> bool:
    return any(option in action.option_strings for action in parser._actions)


def with_torchrun(infer: Callable) -> Callable:
    """fairseq's infer_init_method, under torchrun with any number of devices per node, or none.

    fairseq looks at torchrun's variables only where it sees several GPUs: on CPUs, and with one GPU
    per node, each process would start a run of its own, all writing the same checkpoints. On CPUs
    its defaults, nccl and torch's DDP with a device, do not work either. Can go when fairseq joins
    whatever WORLD_SIZE says.
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


def link_or_copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Put a checkpoint under a second name at once and whole.

    fairseq copies checkpoint_last.pt byte by byte onto the old one: a run killed meanwhile cannot
    be resumed. It never writes into a finished checkpoint, so a hard link is as good as a copy.
    Can go when fairseq writes its copies aside and renames them.
    """
    aside = f"{dst_path}.tmp"
    if os.path.lexists(aside):
        os.remove(aside)
    try:
        os.link(src_path, aside)
    except OSError:  # a file system without hard links
        shutil.copyfile(src_path, aside)
    os.replace(aside, dst_path)
    return True


def finish_data_threads(timeout: float = 10.0) -> None:
    """Let the threads that prepare batches end before Python does, within timeout seconds.

    fairseq leaves them running when a training stops inside an epoch: where one is in the middle of
    making a batch, the process aborts ("terminate called without an active exception") after all
    its work is done and saved. Can go when fairseq stops its threads itself.
    """
    end = time.monotonic() + timeout
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len = 0  # the batch that it is at is its last
            while thread.is_alive() and time.monotonic() < end:
                try:
                    thread._queue.get(timeout=0.05)
                except queue.Empty:
                    pass
