"""Every mend of fairseq and torch, each with its reason and with when it can go.

A mend stands in the file of its subject. Those that need no call are applied here, once.
"""

import atexit
import logging
import warnings

# If a command imports the plugin first, fairseq reports here that tensorboardX is missing. Only
# --tensorboard-logdir needs it, and reports it again. Can go when fairseq reports it only there.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from fairseq import checkpoint_utils, options  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.distributed import utils as distributed_utils  # noqa: E402
from fairseq.file_io import PathManager  # noqa: E402
from fairseq.logging import progress_bar  # noqa: E402
from fairseq.models.ema.ema import EMA  # noqa: E402
from fairseq.optim.amp_optimizer import AMPOptimizer  # noqa: E402
from fairseq.trainer import Trainer  # noqa: E402

from ..recorder import with_record  # noqa: E402
from . import (  # noqa: E402
    command_line,
    data,
    ema,
    errors,
    layers,
    loading,
    precision,
    processes,
    saving,
    training,
    trust,
)


def apply() -> None:
    """Apply the mends that need no call, once, when the plugin is imported."""
    trust.trust_no_file()
    errors.end_with_one_line()
    layers.without_fast_path()
    layers.without_cudnn_attention()
    options.parse_args_and_arch = command_line.with_paper_defaults(options.parse_args_and_arch)
    distributed_utils._broadcast_object_slow = processes.with_plain_data(
        distributed_utils._broadcast_object_slow
    )
    PathManager.copy = staticmethod(saving.copied(PathManager.copy))
    checkpoint_utils.torch_persistent_save = saving.whole(checkpoint_utils.torch_persistent_save)
    checkpoint_utils.verify_checkpoint_directory = saving.writable(
        checkpoint_utils.verify_checkpoint_directory
    )
    Trainer.save_checkpoint = saving.finite(Trainer.save_checkpoint)
    checkpoint_utils.load_checkpoint = training.continued(checkpoint_utils.load_checkpoint)
    Trainer.clip_grad_norm = training.finite_gradients(Trainer.clip_grad_norm)
    AMPOptimizer.step = precision.step_once_unscaled
    Trainer.train_step = training.finite_loss(
        training.memory_of_all(training.whole_updates(Trainer.train_step))
    )
    distributed_utils.infer_init_method = processes.with_torchrun(
        distributed_utils.infer_init_method
    )
    Trainer.load_checkpoint = loading.with_task_state(Trainer.load_checkpoint)
    EMA.__init__ = ema.with_whole_numbers(EMA.__init__)
    progress_bar.progress_bar = with_record(progress_bar.progress_bar)
    Dictionary.string = data.of_numbers(Dictionary.string)
    atexit.register(data.finish_data_threads)
    # fairseq asks for pinned memory on machines without a GPU too, and torch warns of it. Can go
    # when fairseq asks only where it helps.
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true")
