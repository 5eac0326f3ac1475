"""Ctrl-C in a training run: it stops after the current update, once its checkpoint is saved.

The processes of a run must agree on that update, since each waits for the others' gradients: the
statistics of every batch, which fairseq sums over all processes, record whether Ctrl-C was pressed.
A second Ctrl-C stops at once, except under torchrun, which repeats the first.
"""

import functools
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fairseq.distributed.utils import is_master
from hydra.core.hydra_config import HydraConfig

from .recorder import record_save

logger = logging.getLogger(__name__)

#: The name of the statistic.
STATISTIC = "interrupted"


class Interrupt:
    """The state of this process's training."""

    def __init__(self) -> None:
        self.process = 0  #: the ID of the process that trains
        self.reset()

    def reset(self) -> None:
        """Forget an earlier run."""
        self.update = 0  #: the last update; 0 before training
        self.resume_update: int | None = None  #: the update to resume from; None before training
        self.is_requested = False  #: whether Ctrl-C was pressed
        #: How to change the command once this run has saved, such as " without --X and --Y".
        self.changes = ""
        self.has_saved = False  #: whether this run has written a checkpoint to resume from
        self.is_stopping = False  #: whether all processes stop after this update

    def install_handler(self, restart_options: Sequence[str] = ()) -> None:
        """Make Ctrl-C finish the current update, unless the program handles SIGINT itself.

        restart_options: options of this run that would start it again from the same point.
        """
        without = " and ".join(restart_options)
        self.changes = f" without {without}" if without else ""
        if HydraConfig.initialized():  # by default each command starts in a new directory
            self.changes += f" with hydra.run.dir={os.getcwd()}"
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.process = os.getpid()
            signal.signal(signal.SIGINT, self._handle_sigint)

    def _handle_sigint(self, *_: Any) -> None:
        if os.getpid() != self.process:
            return  # a data loader's process
        # torchrun repeats the signal that the terminal has already sent to its processes.
        is_second = self.is_requested and "TORCHELASTIC_RUN_ID" not in os.environ
        if self.resume_update is None or is_second:
            raise KeyboardInterrupt
        self.is_requested = True

    def stop_if_requested(self, statistics: Iterable[Mapping[str, Any]], cfg: Any) -> None:
        """If a process received Ctrl-C, make fairseq-train save and stop after this update.

        It then stops as after --stop-time-hours, without a validation.
        """
        if sum(float(log.get(STATISTIC, 0)) for log in statistics):
            self.is_stopping = True
            cfg.optimization.stop_time_hours = 1e-12
            cfg.dataset.disable_validation = True

    def message(self) -> str:
        """Return where training stopped and how to continue."""
        if self.resume_update is None:
            return "stopped"
        changes = self.changes if self.has_saved else ""
        if self.resume_update == self.update:
            return f"stopped at update {self.update}; run the same command{changes} to continue"
        start = (
            f"continue from update {self.resume_update}" if self.resume_update else "start again"
        )
        return (
            f"stopped at update {self.update}, which is not saved; run the same command{changes} "
            f"to {start}"
        )


#: The state of the training run in this process.
interrupt = Interrupt()


def stop_after_saving(save: Callable) -> Callable:
    """Wrap checkpoint_utils.save_checkpoint: after Ctrl-C, end the run once it has saved."""

    @functools.wraps(save)
    def save_checkpoint(cfg, trainer, *args, **kwargs):
        path = save(cfg, trainer, *args, **kwargs)
        if not (cfg.no_save or cfg.no_last_checkpoints):
            interrupt.resume_update = interrupt.update = trainer.get_num_updates()
            interrupt.has_saved = True
            if interrupt.is_stopping:
                record_save(interrupt.update)
        if interrupt.is_stopping:
            if multiprocessing.parent_process() and is_master(trainer.cfg.distributed_training):
                logger.info("%s", interrupt.message())  # unknown to the parent process
            raise KeyboardInterrupt
        return path

    return save_checkpoint
