"""Logs of trainings, for the tests: numbers as fairseq's own progress bars print them."""

import io
import logging
from collections.abc import Sequence

from fairseq.logging.progress_bar import progress_bar

#: The heads of fairseq-train's lines.
FORMAT = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
HYDRA = "[%(asctime)s,123][%(name)s][%(levelname)s] - %(message)s"
CONFIGURATION = "{'_name': None, 'common': {'_name': None, 'seed': 7, 'cpu': True}}"


class TrainLog:
    """A log that grows. form: a --log-format; head: of a line ("%(message)s" is --log-file's)."""

    def __init__(self, form: str = "simple", head: str = FORMAT) -> None:
        self.text = io.StringIO()
        self.form = form
        self.second = 0
        handler = logging.StreamHandler(self.text)
        handler.setFormatter(logging.Formatter(head))
        # A record's time is the log's own.
        handler.formatter.formatTime = lambda record, datefmt=None: self.time()  # type: ignore
        self.logger = logging.getLogger("fairseq.logging.progress_bar")
        self.handler = handler

    def time(self) -> str:
        """Return the time stamp of the next line."""
        hours, rest = divmod(self.second, 3600)
        return f"2026-01-01 {hours:02}:{rest // 60:02}:{rest % 60:02}"

    def say(self, message: str, name: str = "fairseq_cli.train") -> None:
        """Log a message."""
        self.handler.emit(logging.LogRecord(name, logging.INFO, "", 0, message, None, None))

    def start(self, restored: int | None = None) -> None:
        """Log what a start of fairseq-train begins with."""
        self.say(CONFIGURATION)
        self.say("[en] dictionary: 1000 types")
        self.say("[de] dictionary: 1200 types")
        self.say("training on 2 devices (GPUs/TPUs)")
        if restored is None:
            self.say("No existing checkpoint found x/checkpoint_last.pt")
        else:
            self.say(f"Loaded checkpoint x/checkpoint_last.pt (epoch 1 @ {restored} updates)")

    def inner(self, update: int, wall: int, **more: float) -> None:
        """Log the training's numbers after an update."""
        self._progress("log", "train_inner", None, update, wall=wall, **more)

    def valid(self, update: int, subset: str = "valid", **more: float) -> None:
        """Log a validation's numbers."""
        self._progress("print", subset, f"valid on '{subset}' subset", update, **more)

    def epoch(self, update: int, wall: int, **more: float) -> None:
        """Log the numbers of an epoch."""
        self._progress("print", "train", None, update, wall=wall, **more)

    def _progress(self, way: str, tag: str, prefix: str | None, update: int, **more) -> None:
        bar = progress_bar(range(9), log_format=self.form, log_interval=1, epoch=3, prefix=prefix)
        next(iter(bar))
        stats = {"loss": 9 - update / 100, "ppl": 2.5, **more, "num_updates": update}
        level, propagates = self.logger.level, self.logger.propagate
        self.logger.addHandler(self.handler)
        self.logger.propagate = False
        self.logger.setLevel(logging.INFO)
        try:
            getattr(bar, way)(stats, tag=tag, **({"step": 1} if way == "log" else {}))
        finally:
            self.logger.removeHandler(self.handler)
            self.logger.propagate = propagates
            self.logger.setLevel(level)

    def bytes(self) -> bytes:
        """Return the log so far."""
        return self.text.getvalue().encode()


def whole_log(
    form: str = "simple", head: str = FORMAT, updates: Sequence[int] = (10, 20, 30, 40)
) -> TrainLog:
    """Return the log of a training that was stopped after 40 updates, and goes on after 20."""
    log = TrainLog(form, head)
    log.start()
    for update in updates:
        log.second += 600
        log.inner(update, wall=60 * update, lr=update * 1e-5, gnorm=1.5, wps=1000, wpb=50, bsz=4)
        if update == 20:
            log.second += 60
            log.valid(update, wps=5)
    log.second += 40_000
    log.start(restored=20)
    for update, wall in ((30, 600), (40, 1200), (50, 1800)):
        log.second += 600
        log.inner(update, wall=wall, lr=update * 1e-5, gnorm=1.5, wps=1000, wpb=50, bsz=4)
    log.second += 30
    log.valid(50, bleu=33.3)
    log.epoch(50, wall=1840)
    log.say("done training in 1845.0 seconds")
    return log
