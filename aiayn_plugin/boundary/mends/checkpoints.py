"""Mends of how fairseq reads and writes checkpoints."""

import argparse
import os
import shutil
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

#: Plain data types, of which none runs anything when it is loaded.
_BROADCAST = [
    DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any, dict, list, int, defaultdict,
    _TensorPlaceholder,
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
