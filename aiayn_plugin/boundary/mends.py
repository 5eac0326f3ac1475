"""Every mend of fairseq and torch, each with its reason and with when it can go."""

import argparse
import atexit
import logging
import os
import queue
import re
import shutil
import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

# If a command imports the plugin first, fairseq reports here that tensorboardX is missing. Only
# --tensorboard-logdir needs it, and reports it again. Can go when fairseq reports it only there.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from fairseq import options  # noqa: E402
from fairseq.data.iterators import BackgroundConsumer  # noqa: E402
from fairseq.distributed import utils as distributed_utils  # noqa: E402
from fairseq.file_io import PathManager  # noqa: E402
from hydra.core.hydra_config import HydraConfig  # noqa: E402

from ..errors import InputError  # noqa: E402
from ..paper import ModelSettings, table  # noqa: E402
from . import defaults, names  # noqa: E402

logger = logging.getLogger(__name__)


def mend() -> None:
    """Apply the mends that need no call, once, when the plugin is imported."""
    load_only_weights()
    end_with_one_line()
    options.parse_args_and_arch = with_paper_defaults(options.parse_args_and_arch)
    PathManager.copy = staticmethod(link_or_copy)
    distributed_utils.infer_init_method = with_torchrun(distributed_utils.infer_init_method)
    atexit.register(finish_data_threads)
    # fairseq asks for pinned memory on machines without a GPU too, and torch warns of it. Can go
    # when fairseq asks only where it helps.
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true")


# ---- Errors


def end_with_one_line() -> None:
    """End a command of fairseq with one line for an InputError.

    fairseq ends with a stack trace, and hydra adds its own. Some of fairseq's functions put another
    exception around ours, and torch puts that of a GPU's process into text. Can go when fairseq
    tells bad input from its own faults.
    """
    if "fairseq_cli" not in sys.modules:
        return  # a program of someone else's, which sees the exception
    show = sys.excepthook

    def show_input_error(kind, error, trace) -> None:
        message = input_error(error)
        if message is None:
            show(kind, error, trace)
        else:
            print(f"{os.path.basename(sys.argv[0])}: error: {message}", file=sys.stderr)

    sys.excepthook = show_input_error
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # leave the exception to the hook


def input_error(error: BaseException | None) -> str | None:
    """Return the message of the InputError behind an exception, None if there is none."""
    while error is not None:
        if isinstance(error, InputError):
            return str(error)
        if isinstance(error, torch.multiprocessing.ProcessRaisedException):
            name = re.escape(f"{InputError.__module__}.{InputError.__name__}")
            if line := re.search(rf"^{name}: (.*)$", str(error), re.MULTILINE):
                return line[1]
        error = error.__cause__ or error.__context__
    return None


# ---- Command line


def with_paper_defaults(parse: Callable) -> Callable:
    """Return fairseq's parse_args_and_arch with our task and the paper's settings as defaults.

    fairseq-generate, -interactive and -validate ignore the task of the checkpoint, and take
    `translation` if none is typed. fairseq-train's own hook for defaults, modify_parser, is not
    open to plugins. Every typed flag wins. Can go when fairseq asks plugins for defaults.
    """

    def parse_args_and_arch(parser, input_args=None, *args, modify_parser=None, **kwargs):
        trains = _has(parser, "--arch")
        paper = defaults.training_defaults(input_args) if trains else {}
        if _has(parser, "--lenpen"):
            paper = defaults.search_defaults(input_args)

        def modify(parser: argparse.ArgumentParser) -> None:
            if parser.get_default("task") in (None, "translation"):
                parser.set_defaults(task="aiayn_translation")
            parser.set_defaults(**paper)
            if trains:
                parser.formatter_class = argparse.RawDescriptionHelpFormatter
                parser.epilog = help_text()
            if modify_parser is not None:
                modify_parser(parser)

        result = parse(parser, input_args, *args, modify_parser=modify, **kwargs)
        parsed = result[0] if isinstance(result, tuple) else result
        if getattr(parsed, "bf16", False):
            # fairseq takes every --bf16 for a TPU's, and would look for torch_xla.
            parsed.tpu = "--tpu" in (sys.argv if input_args is None else input_args)
        return result

    return parse_args_and_arch


def _has(parser: argparse.ArgumentParser, option: str) -> bool:
    return any(option in action.option_strings for action in parser._actions)


def help_text() -> str:
    """Return what `fairseq-train --help` ends with: fairseq shows no option of a model there."""
    model = "\n".join(
        f"  {names.flag(f.name)} {'|'.join(f.metadata['choices'] or ())}".ljust(42)
        + f.metadata["help"]
        for f in fields(ModelSettings)
    )
    return (f"architectures of aiayn_plugin (parameters with a vocabulary of 37,000):\n\n{table()}"
            f"\n\ntheir options:\n{model}")


# ---- Precision


def train_in_bfloat16(cfg: Any, model: Any) -> None:
    """Let --bf16 compute the matrix products of a training in bfloat16, and nothing else.

    fairseq would make all of the model bfloat16, its residual sums and what checkpoints hold too;
    this is torch's autocast. Can go when fairseq trains in autocast with --bf16.
    """
    if cfg.common.bf16 and not cfg.common.memory_efficient_bf16:
        cfg.common.bf16, model.product_dtype = False, torch.bfloat16
        logger.info("matrix products in bfloat16, weights and optimizer in float32")


def generate_in_bfloat16(task: Any, models: list) -> None:
    """Apply --bf16 to the models of a generating command.

    fairseq takes the flag there and forgets it. Can go when fairseq applies it.
    """
    cfg = task.cfg._get_root()
    generates = task.training_cfg is None and "common_eval" in cfg and cfg.common_eval.path
    if generates and cfg.common.bf16:
        for model in models:
            model.bfloat16()


# ---- Data


def keep_every_sentence(batch_options: dict) -> None:
    """Allow batches of any number of sentences.

    fairseq's are multiples of 8, and it drops the sentences left over: of 1,014 the last 6. Can go
    when fairseq keeps them.
    """
    batch_options["required_batch_size_multiple"] = 1


def finish_data_threads(timeout: float = 10.0) -> None:
    """Let the threads that prepare batches end before Python does, within timeout seconds.

    fairseq leaves them running when a training stops inside an epoch. If one is making a batch when
    Python ends, the process aborts ("terminate called without an active exception") after all its
    work is saved. Can go when fairseq stops its threads itself.
    """
    end = time.monotonic() + timeout
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len = 0  # its present batch is its last
            while thread.is_alive() and time.monotonic() < end:
                try:
                    thread._queue.get(timeout=0.05)
                except queue.Empty:
                    pass


# ---- Several processes


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


# ---- Checkpoints

#: Plain data types, of which none runs anything when it is loaded.
_BROADCAST = [
    DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any, dict, list, int, defaultdict,
    distributed_utils._TensorPlaceholder,
]  # fmt: skip


def load_only_weights() -> None:
    """Keep torch's weights_only on, and allow what fairseq stores: no checkpoint runs code.

    fairseq puts the command line (a Namespace) and, after --eval-bleu, numpy numbers into its
    checkpoints. The processes of a resumed run send each other the configuration and stand-ins for
    tensors. torch ≥ 2.6 refuses them all. Can go when fairseq names these itself.
    """
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if version < (2, 6):  # its default is to load everything
        os.environ.setdefault("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    numbers = [type(np.dtype(kind)) for kind in (np.int64, np.float64, np.float32)]
    core = getattr(np, "_core", None) or np.core
    rebuild = [core.multiarray._reconstruct, core.multiarray.scalar]
    torch.serialization.add_safe_globals(
        [argparse.Namespace, np.ndarray, np.dtype, *rebuild, *numbers, *_BROADCAST]
    )
    if version >= (2, 7):  # it takes names too: numpy's module was `core` before numpy 2
        torch.serialization.add_safe_globals([
            (function, f"numpy.{package}.multiarray.{function.__name__}")
            for function in rebuild for package in ("core", "_core")
        ])  # fmt: skip


def link_or_copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Put a checkpoint under a second name, at once and whole.

    fairseq copies byte by byte onto the old checkpoint_last.pt: a run that is killed meanwhile
    cannot be resumed. It never writes into a finished checkpoint, so a hard link is as good as a
    copy. Can go when fairseq writes its copies aside and renames them.
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


def complete_checkpoints(checkpoint: Any, path: str, epoch: int, num_updates: int) -> None:
    """Give the checkpoint at `path` the name of --save-interval-updates, if it should have one.

    fairseq writes none under that name if an epoch ends at that update, and the checkpoints to
    average would be one too few. checkpoint: that part of the configuration. Can go when fairseq
    writes both.
    """
    interval = checkpoint.save_interval_updates
    if interval < 1 or num_updates % interval or f"_{num_updates}" in os.path.basename(path):
        return
    name = f"checkpoint_{epoch}_{num_updates}.pt"
    link_or_copy(path, os.path.join(checkpoint.save_dir, name))
