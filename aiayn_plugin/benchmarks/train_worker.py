"""fairseq's trainer in a worker process, and what is measured there."""

import statistics
from functools import partial
from typing import Any

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from ..kernels.linear import linear
from ..paper import get_settings
from ..report.cost import forward_flops
from .measure import measure_peak_memory, measure_time, profile_table

#: Attempts at float16 updates without an overflow; each overflow halves the loss scale.
MAX_ATTEMPTS = 20


class Training:
    """fairseq's trainer for a command line, and batches of its training set."""

    def __init__(self, argv: list[str]) -> None:
        cfg = convert_namespace_to_omegaconf(
            options.parse_args_and_arch(options.get_training_parser(), argv)
        )
        utils.set_torch_seed(cfg.common.seed)
        self.task = tasks.setup_task(cfg.task)
        model = self.task.build_model(cfg.model)
        criterion = self.task.build_criterion(cfg.criterion)
        self.task.load_dataset("train")
        self.settings = get_settings("aiayn_big" if "big" in cfg.model._name else "aiayn_base")
        self.trainer = Trainer(cfg, self.task, model, criterion)
        self.trainer.begin_epoch(1)
        self.device = self.trainer.device
        self._batches: dict[tuple[int, int], list[dict]] = {}  # by max_tokens and count

    def batches(self, max_tokens: int, count: int) -> list[dict]:
        """Return some of an epoch's batches, after warm-up updates.

        They are evenly spaced among all batches, sorted by their longest sentence, so both systems
        train on sentences of the same lengths. The warm-up trains on the last batch, or on a GPU
        on all of them twice: the first time compiles the layers, the second captures CUDA graphs.
        """
        if (max_tokens, count) not in self._batches:
            self.trainer.cfg.dataset.max_tokens = max_tokens
            epoch = self.trainer.get_train_iterator(
                1, load_dataset=False, disable_iterator_cache=True
            )
            dataset = self.task.dataset("train")
            by_length = sorted(
                epoch.frozen_batches, key=lambda batch: max(map(dataset.num_tokens, batch))
            )
            chosen = [by_length[(2 * k + 1) * len(by_length) // (2 * count)] for k in range(count)]
            batches = [dataset.collater([dataset[i] for i in batch]) for batch in chosen]
            on_gpu = self.device.type == "cuda"
            if on_gpu:
                torch.cuda.empty_cache()  # frees memory for the other system
            for _ in range(MAX_ATTEMPTS):
                if self.update(2 * batches if on_gpu else batches[-1:]):
                    break
            self._batches[max_tokens, count] = batches
        return self._batches[max_tokens, count]

    def update(self, batches: list[dict]) -> bool:
        """Train on each batch, and return whether no update was skipped.

        fairseq skips updates whose gradients overflow in float16; skipped updates take less time.
        """
        before = self.trainer.get_num_updates()
        for batch in batches:
            self.trainer.train_step([batch], raise_oom=True)
        return self.trainer.get_num_updates() == before + len(batches)

    def measure_speed(
        self, max_tokens: int, updates: int, run: int = 0, runs: int = 1
    ) -> dict[str, float]:
        """Return the seconds, target tokens, FLOPs and padding of some updates.

        Each of several runs has its own batches, from short to long. Raises RuntimeError if float16
        overflows every time.
        """
        batches = self.batches(max_tokens, updates * runs)[run::runs]
        for _ in range(MAX_ATTEMPTS):
            is_complete, seconds = measure_time(partial(self.update, batches), self.device)
            if is_complete:
                return {"seconds": seconds, **self._count(batches)}
        raise RuntimeError(
            f"float16 overflowed in {MAX_ATTEMPTS} attempts at {updates} updates: use float32"
        )

    def profile_update(self, max_tokens: int) -> str:
        """Return a table of the operations of one update."""
        batches = self.batches(max_tokens, 1)
        return profile_table(partial(self.update, batches), self.device)

    def measure_memory(self, max_tokens: int) -> int:
        """Return the peak bytes of one forward and backward pass; on a GPU, of whole updates.

        On a GPU, these are the bytes that torch reserves, since CUDA graphs keep their memory
        allocated.
        """
        trainer = self.trainer
        if self.device.type == "cuda":
            batches = self.batches(max_tokens, 1)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.update(2 * batches)
            return torch.cuda.max_memory_reserved()
        batch, _ = trainer._prepare_sample(self.batches(max_tokens, 1)[0])
        trainer.zero_grad()
        step = partial(
            self.task.train_step, batch, trainer.model, trainer.criterion, trainer.optimizer, 0
        )
        return measure_peak_memory(step, self.device)

    def measure_matmul(self, dtype: torch.dtype) -> float:
        """Return the FLOP/s of a large matrix multiplication.

        Both systems call `linear`, which selects the fastest of torch's libraries.
        """
        n = 8192 if self.device.type == "cuda" else 2048
        a, b = (torch.randn(n, n, device=self.device, dtype=dtype) for _ in range(2))
        matmul = partial(linear, a, b)
        matmul()
        return 2 * n**3 / statistics.median(measure_time(matmul, self.device)[1] for _ in range(5))

    def _count(self, batches: list[dict[str, Any]]) -> dict[str, float]:
        """Return the target tokens, the FLOPs of forward and backward pass, and the padding."""
        vocabulary = len(self.task.target_dictionary)
        flops, tokens, padded_tokens = 0.0, 0, 0
        for batch in batches:
            source, target = batch["net_input"]["src_tokens"], batch["target"]
            lengths = (x.ne(1).sum(dim=1).tolist() for x in (source, target))
            for m, n in zip(*lengths, strict=True):
                # the backward pass takes twice the forward pass
                flops += 3 * forward_flops(self.settings, vocabulary, m, n)
                tokens += m + n
            padded_tokens += source.numel() + target.numel()
        return {
            "tokens": sum(batch["ntokens"] for batch in batches),
            "flops": flops,
            "padding": 1 - tokens / padded_tokens,
        }
