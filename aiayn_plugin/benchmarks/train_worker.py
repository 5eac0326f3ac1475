"""One training in a process of its own, which measures itself when it is asked.

The process is a worker of concurrent.futures: `begin` is its initialiser, and each of the other
functions answers one question about the training.
"""

import statistics
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from ..kernels.linear import linear
from ..paper import get_settings
from .measure import peak_memory, profiled, timed

#: To take some updates in float16 without an overflow: each one halves the scale of the loss.
ATTEMPTS = 20


class Training:
    """fairseq's trainer for a command line, and batches of its training set."""

    def __init__(self, argv: list[str]) -> None:
        cfg = convert_namespace_to_omegaconf(
            options.parse_args_and_arch(options.get_training_parser(), argv)
        )
        common = cfg.common
        half = torch.float16 if common.fp16 or common.amp else torch.float32
        #: The precision of matrix products. The task takes --bf16 over when it builds the model.
        self.product_dtype = torch.bfloat16 if common.bf16 else half
        utils.set_torch_seed(common.seed)
        self.task = tasks.setup_task(cfg.task)
        model = self.task.build_model(cfg.model)
        criterion = self.task.build_criterion(cfg.criterion)
        self.task.load_dataset("train")
        self.arch = cfg.model._name
        self.trainer = Trainer(cfg, self.task, model, criterion)
        self.trainer.begin_epoch(1)
        self._batches: dict[int, list[dict]] = {}  # by max_tokens

    def batches(self, max_tokens: int, count: int) -> list[dict]:
        """Return the first batches of an epoch.

        First one more is trained on if there is one, and on a GPU all of them: an update prepares
        what later ones use, there for each shape.
        """
        if len(self._batches.get(max_tokens, ())) < count:
            self.trainer.cfg.dataset.max_tokens = max_tokens
            epoch = self.trainer.get_train_iterator(
                1, load_dataset=False, disable_iterator_cache=True
            )
            batches = list(islice(epoch.next_epoch_itr(shuffle=True), count + 1))
            on_gpu = self.trainer.device.type == "cuda"
            if on_gpu:
                torch.cuda.empty_cache()  # of larger batches: the other side needs memory too
            self._prepare(batches if on_gpu else batches[-1:])
            self._batches[max_tokens] = batches
        return self._batches[max_tokens][:count]

    def _prepare(self, batches: list[dict]) -> None:
        """Take updates until each batch gives one: float16 first has to find its scale."""
        for _ in range(ATTEMPTS):
            if self.update(batches):
                return

    def update(self, batches: list[dict]) -> bool:
        """Train on each batch, and return whether each gave an update.

        One whose gradients overflow in float16 gives none, and fairseq reports it as if it had
        been very fast.
        """
        before = self.trainer.get_num_updates()
        for batch in batches:
            self.trainer.train_step([batch], raise_oom=True)
        return self.trainer.get_num_updates() == before + len(batches)


_training: Training  # of this process


def begin(argv: list[str], log: Path) -> None:
    """Build the training of a command line; its output goes to the file `log`."""
    global _training
    sys.stdout = sys.stderr = open(log, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    package = Path(__file__).resolve().parent.parent  # this copy of the plugin, not another
    _training = Training([*argv, "--user-dir", str(package)])


def speed(max_tokens: int, updates: int) -> dict[str, float]:
    """Return the seconds, tokens, operations and padding of some updates.

    Raises RuntimeError if float16 overflows again and again.
    """
    batches = _training.batches(max_tokens, updates)
    for _ in range(ATTEMPTS):
        whole, seconds = timed(partial(_training.update, batches), _training.trainer.device)
        if whole:
            return {"seconds": seconds, **_sizes(batches)}
    raise RuntimeError(f"no {updates} updates in {ATTEMPTS} attempts: float16 overflows")


def profile_table(max_tokens: int) -> str:
    """Return a table of where the time of one update goes."""
    batches = _training.batches(max_tokens, 1)
    return profiled(partial(_training.update, batches), _training.trainer.device)


def memory(max_tokens: int) -> int:
    """Return the peak bytes of one forward and backward pass."""
    trainer = _training.trainer
    batch, _ = trainer._prepare_sample(_training.batches(max_tokens, 1)[0])
    trainer.zero_grad()
    step = partial(
        _training.task.train_step, batch, trainer.model, trainer.criterion, trainer.optimizer, 0
    )
    return peak_memory(step, trainer.device)


def matrix_rate() -> float:
    """Return the operations per second of a large matrix product in the training's precision.

    It is the plugin's product, by the faster of torch's libraries, for both sides.
    """
    device, kind = _training.trainer.device, _training.product_dtype
    n = 8192 if device.type == "cuda" else 2048
    a, b = (torch.randn(n, n, device=device, dtype=kind) for _ in range(2))
    product = partial(linear, a, b)
    product()
    return 2 * n**3 / statistics.median(timed(product, device)[1] for _ in range(5))


def _sizes(batches: list[dict[str, Any]]) -> dict[str, float]:
    """Return target tokens, floating-point operations of forward and backward, and padding."""
    s = get_settings("aiayn_big" if "big" in _training.arch else "aiayn_base")
    d, vocabulary = s.d_model, len(_training.task.target_dictionary)
    flops, real, padded = 0.0, 0, 0
    for batch in batches:
        source, target = batch["net_input"]["src_tokens"], batch["target"]
        m, n = (x.ne(1).sum(dim=1).double() for x in (source, target))
        encoder = m * (4 * d * d + 2 * d * s.d_ff) + 2 * m * m * d
        decoder = n * (6 * d * d + 2 * d * s.d_ff) + 2 * m * d * d + n * n * d + 2 * m * n * d
        # A multiplication and an addition each, and the backward pass takes twice the forward's.
        flops += 6 * float((s.N * (encoder + decoder) + n * d * vocabulary).sum())
        real += int(m.sum() + n.sum())
        padded += source.numel() + target.numel()
    return {
        "tokens": sum(batch["ntokens"] for batch in batches),
        "flops": flops,
        "padding": 1 - real / padded,
    }
