"""The patches of fairseq, each with its reason and the condition for its removal.

fairseq has no hook for these. Where it has one, the task, the optimizer and the model use it.
"""

import atexit
import warnings
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NamedTuple

import torch
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from ..interrupt import stop_after_saving
from ..recorder import with_record
from . import checkpoint_io, command_line, errors, messages, training, trust


class Patch(NamedTuple):
    """A name of fairseq (or Python) that the plugin replaces."""

    name: str
    wrap: Callable[[Any], Any]  #: takes the original and returns its replacement
    reason: str
    removal: str  #: the patch can be removed when this is true


PATCHES: tuple[Patch, ...] = (
    Patch(
        "sys.excepthook",
        errors.show_one_line,
        "fairseq's commands end with a stack trace for bad input",
        "fairseq distinguishes bad input from bugs",
    ),
    Patch(
        "fairseq.options.parse_args_and_arch",
        command_line.with_paper_defaults,
        "plugins cannot set defaults, --bf16 selects a TPU, and torchrun starts separate runs "
        "unless each process has its own GPU",
        "fairseq asks plugins for defaults and joins the processes of WORLD_SIZE on any device",
    ),
    Patch(
        "fairseq.checkpoint_utils.load_checkpoint_to_cpu",
        trust.check_before_loading,
        "fairseq trusts what a checkpoint contains",
        "fairseq checks it",
    ),
    Patch(
        "fairseq.checkpoint_utils.load_ema_from_checkpoint",
        trust.check_before_loading,
        "as for load_checkpoint_to_cpu, for --ema-seed-model",
        "fairseq checks it",
    ),
    Patch(
        "fairseq.checkpoint_utils.load_model_ensemble_and_task",
        trust.report_unusable_model,
        "building an unusable model raises the error of whichever library fails first",
        "fairseq says which checkpoint is wrong, and why",
    ),
    Patch(
        "fairseq.trainer.Trainer.load_checkpoint",
        checkpoint_io.resume,
        "fairseq neither checks task_state when a run resumes, nor handles broken or finished "
        "runs, and sends checkpoints to other processes as pickles, which weights_only refuses",
        "fairseq does all of this",
    ),
    Patch(
        "fairseq.checkpoint_utils.torch_persistent_save",
        checkpoint_io.save_atomically,
        "fairseq writes weights that are NaN, writes into hard links to other checkpoints, leaves "
        "half-written files when the disk is full, and skips an interval checkpoint at the end of "
        "an epoch and of the run",
        "fairseq checks the weights and writes new files that it renames",
    ),
    Patch(
        "fairseq.checkpoint_utils.save_checkpoint",
        stop_after_saving,
        "Ctrl-C loses the updates since the last checkpoint",
        "fairseq saves a checkpoint before it stops",
    ),
    Patch(
        "fairseq.file_io.PathManager.copy",
        checkpoint_io.link_or_copy,
        "fairseq copies onto the old checkpoint_last.pt, so a killed run cannot be resumed",
        "fairseq renames its copies",
    ),
    Patch(
        "fairseq.file_utils.load_archive_file",
        trust.require_directory,
        "an archive may write outside its directory, and fairseq deletes it",
        "fairseq checks the paths in an archive, and keeps it",
    ),
    Patch(
        "fairseq.trainer.Trainer.train_step",
        training.drop_empty_batches,
        "an empty batch makes fairseq miscount the tokens of an update in several processes",
        "fairseq leaves out only the empty batch",
    ),
    Patch(
        "fairseq.models.ema.ema.EMA._step_internal",
        training.average_shared_weights_once,
        "--store-ema squares the decay of weights that have two names",
        "fairseq averages each tensor once",
    ),
    Patch(
        "fairseq.logging.progress_bar.progress_bar",
        with_record,
        "only fairseq-train's progress bars receive the statistics that it logs",
        "fairseq has a hook for what it logs",
    ),
)
if "_load_from_state_dict" in vars(TransformerEncoderLayerBase):  # of fairseq 0.12.2
    PATCHES += (
        Patch(
            "fairseq.modules.transformer_layer.TransformerEncoderLayerBase.load_to_BT",
            training.never_use_fast_path,
            "after loading, fairseq 0.12.2 calls a kernel with arguments that torch refuses",
            "fairseq 0.12.2 is no longer supported",
        ),
    )


def apply() -> None:
    """Apply all patches, once, when the plugin is imported."""
    for patch in PATCHES:
        owner, _, name = patch.name.rpartition(".")
        target = resolve_name(owner)
        setattr(target, name, patch.wrap(getattr(target, name, None)))
    # fairscale's sharded models send this placeholder for tensors.
    torch.serialization.add_safe_globals([_TensorPlaceholder])
    atexit.register(training.finish_data_threads)
    messages.silence_debug_messages()
    # fairseq requests pinned memory even without a GPU, and torch warns about it.
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true")
