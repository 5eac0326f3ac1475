"""The hooks of fairseq's task that its trainer and checkpoint loading call."""

import logging
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fairseq import checkpoint_utils
from fairseq.distributed.utils import is_master
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks.translation import TranslationTask

from ..checkpoints.compatibility import Identity
from ..errors import InputError
from ..kernels.compilation import without_compilation
from ..kernels.device import is_out_of_memory
from ..training.remaining_time import RemainingTime
from .batch_plan import BatchPlanner
from .gpu_training import GraphedTrainStep, can_capture
from .interrupt import STATISTIC, interrupt
from .optimizer import DIVERGENCE_ADVICE
from .recorder import record_start

logger = logging.getLogger(__name__)


class TrainingMemoryError(InputError, RuntimeError):
    """Memory ran out where fairseq must not skip the batch.

    A RuntimeError, because for other errors fairseq saves the model as crash.pt.
    """


def should_stop_early() -> Callable:
    """Return fairseq's --patience function, which keeps its counts as function attributes."""
    from fairseq_cli import train  # importing it configures logging

    # With `python -m fairseq_cli.train` __main__ is running, and this import is a second copy.
    return getattr(sys.modules["__main__"], "should_stop_early", train.should_stop_early)


def forget_earlier_runs() -> None:
    """Reset the state of earlier runs: a Hydra sweep trains several in one process."""
    vars(should_stop_early()).clear()
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    interrupt.reset()


class TrainerHooks(TranslationTask):
    """A translation task that checks training and the checkpoints that it resumes from."""

    def __init__(self, cfg, src_dict, tgt_dict) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.batch_planner = BatchPlanner(cfg.tokens_per_update)
        self.training_cfg: Any = None  # fairseq's whole configuration, when training
        self.update = 0  # the update that is being computed, from 1
        self.first_update = 0  # of this run; 0 before it begins
        self.remaining_time = RemainingTime(0)  # of the whole run, once it begins
        self.settings: Any = None  # ModelSettings of our model
        self.checkpoint_identity = Identity()  # of the checkpoint being loaded
        self.graphed_step: GraphedTrainStep | None = None

    def identity(self) -> Identity:
        """Return the identity of this task's dictionaries and of the last model built."""
        words = (d.symbols[d.nspecial :] for d in (self.source_dictionary, self.target_dictionary))
        return Identity.of(words, self.settings, (self.cfg.source_lang, self.cfg.target_lang))

    def state_dict(self) -> dict[str, Any]:
        """Like fairseq's, with this task's identity."""
        return {**super().state_dict(), **self.identity().task_state()}

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """Return what --patience counts, for a checkpoint. fairseq 0.12.2 does not call this."""
        return {type(self).__name__: dict(vars(should_stop_early()))}

    def set_checkpoint_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what --patience counts from get_checkpoint_dict's values."""
        cfg = self.training_cfg.checkpoint
        is_reset = cfg.reset_optimizer or cfg.reset_meters  # like fairseq's own best value
        if is_reset or not {"best", "num_runs"} <= state.keys():
            return
        vars(should_stop_early()).update(best=state["best"], num_runs=state["num_runs"])
        if 0 < cfg.patience <= state["num_runs"] and cfg.restore_file == "checkpoint_last.pt":
            logger.info(
                "this run has finished (--patience %d): nothing left to train, unless "
                "you raise --patience or give --reset-meters",
                cfg.patience,
            )
            # fairseq-train loops while the next epoch is at most max_epoch
            self.training_cfg.optimization.max_epoch = -1

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Like fairseq's. Raises InputError if the checkpoint's dictionaries differ.

        Its settings are compared with those of the model that is built next.
        """
        self.checkpoint_identity = Identity.read(state_dict)
        self.check_dictionaries(self.checkpoint_identity)
        identity_keys = self.checkpoint_identity.task_state().keys()
        super().load_state_dict(
            {name: x for name, x in state_dict.items() if name not in identity_keys}
        )

    def check_dictionaries(self, trained: Identity) -> None:
        """Raise InputError if a checkpoint was trained with different dictionaries."""
        names = [f"dict.{lang}.txt" for lang in (self.cfg.source_lang, self.cfg.target_lang)]
        trained.check_dictionaries(self.identity(), self.cfg.data, names)

    def begin_epoch(self, epoch, model) -> None:
        """Like fairseq's; the last epoch is saved even if --save-interval does not divide it."""
        super().begin_epoch(epoch, model)
        if epoch == self.training_cfg.optimization.max_epoch:
            self.training_cfg.checkpoint.save_interval = 1

    def train_step(self, sample, model, criterion, optimizer, update_num, *args, **kwargs):
        """Like fairseq's. Raises InputError if memory runs out in the first update.

        fairseq would drop the batch, and never end if no batch fits. With several processes, later
        updates raise it too, because fairseq would skip a collective operation that the other
        processes wait for.
        """
        self._begin_update(update_num)
        try:
            loss, sample_size, log = self._step(
                sample, model, criterion, optimizer, update_num, *args, **kwargs
            )
        except RuntimeError as error:
            processes = self.training_cfg.distributed_training.distributed_world_size
            may_drop = processes == 1 and self.update > self.first_update
            if may_drop or not is_out_of_memory(error):
                raise
            # fairseq would skip the batch if the message said "out of memory"
            raise TrainingMemoryError(
                f"update {self.update}: not enough memory for a batch: run the same command with "
                "a smaller --max-tokens (--tokens-per-update keeps the size of updates)"
            ) from error
        return loss, sample_size, {**log, STATISTIC: float(interrupt.is_requested)}

    def _begin_update(self, updates: int) -> None:
        """Note that an update begins, after this number of updates; log the time remaining."""
        self.update = updates + 1
        if not self.first_update:
            self.first_update = self.update
            record_start(updates)
            interrupt.update = interrupt.resume_update = updates
            self.remaining_time = RemainingTime(self._last_update())
        if estimate := self.remaining_time.begin_update(self.update):
            logger.info("%s", estimate)

    def _step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False, **kwargs):
        """Like fairseq's train_step; on a GPU, as a CUDA graph where that is possible."""
        step, arguments = super().train_step, (model, criterion, optimizer)
        if self.graphed_step is None or self.graphed_step.arguments != arguments:
            captures = can_capture(self.training_cfg, *arguments)
            self.graphed_step = GraphedTrainStep(step, *arguments) if captures else None
        graphed = self.graphed_step
        if graphed is None or ignore_grad or kwargs or not graphed.can_replay(sample):
            return step(sample, *arguments, update_num, ignore_grad, **kwargs)
        return graphed(sample)

    def _last_update(self) -> int:
        """Return the last update's number; 0 if it is unknown, or outside the first process."""
        cfg = self.training_cfg
        known = cfg.optimization.max_epoch == 0 and is_master(cfg.distributed_training)
        return cfg.optimization.max_update if known else 0

    def valid_step(self, sample, model, criterion):
        """Like fairseq's, but uncompiled: compiling would take longer than it saves.

        fairseq-validate passes empty batches to some of several processes.
        """
        if not sample:
            return 0.0, 0, {}
        with without_compilation():
            return super().valid_step(sample, model, criterion)

    def optimizer_step(self, optimizer, model, update_num) -> None:
        """Like fairseq's, but with --amp, unscale the gradients only once.

        fairseq unscales the gradients of torch's optimizer and then steps its own wrapper, so the
        scaler unscales them again.
        """
        if isinstance(optimizer, AMPOptimizer):
            optimizer.scaler.step(optimizer.optimizer)
            optimizer.scaler.update()
        else:
            super().optimizer_step(optimizer, model, update_num)

    def reduce_metrics(self, logging_outputs, criterion) -> None:
        """Like fairseq's. Raises InputError if the training loss is NaN or infinite.

        fairseq checks the gradients only. With --fp16 and --amp the loss may overflow harmlessly.
        """
        super().reduce_metrics(logging_outputs, criterion)
        cfg = self.training_cfg
        if cfg is None or not criterion.training:
            return
        interrupt.stop_if_requested(logging_outputs, cfg)
        interrupt.update = self.update
        if cfg.common.fp16 or cfg.common.amp:
            return
        loss = float(sum(log.get("loss", 0.0) for log in logging_outputs))
        if not math.isfinite(loss):
            raise InputError(f"update {self.update}: the loss is {loss}: {DIVERGENCE_ADVICE}")
