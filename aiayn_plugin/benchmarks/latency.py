"""`aiayn benchmark translate --one-by-one`: the time per sentence without batching."""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from .engine import Engine
from .measure import timed, write_json
from .worker import Worker


class Search:
    """The models and the search of a fairseq-generate command line."""

    def __init__(self, argv: list[str]) -> None:
        cfg = convert_namespace_to_omegaconf(
            options.parse_args_and_arch(options.get_generation_parser(), argv)
        )
        self.task = tasks.setup_task(cfg.task)
        self.models, _ = checkpoint_utils.load_model_ensemble(
            [cfg.common_eval.path], task=self.task
        )
        self.on_gpu = torch.cuda.is_available() and not cfg.common.cpu
        for model in self.models:
            if cfg.common.fp16:
                model.half()
            if self.on_gpu:
                model.cuda()
            model.prepare_for_inference_(cfg)
        self.generator = self.task.build_generator(self.models, cfg.generation)
        self.task.load_dataset(cfg.dataset.gen_subset)
        self.dataset = self.task.dataset(cfg.dataset.gen_subset)

    def translate_singly(self, count: int) -> list[float]:
        """Return the seconds for each of the first sentences."""
        seconds = []
        for number in range(min(count, len(self.dataset))):
            batch = self.dataset.collater([self.dataset[number]])
            if self.on_gpu:
                batch = utils.move_to_cuda(batch)
            search = partial(self.task.inference_step, self.generator, self.models, batch)
            seconds.append(timed(search, batch["net_input"]["src_tokens"].device)[1])
        return seconds


def measure_latency(
    args: argparse.Namespace, commands: Mapping[str, list[str]], engines: Mapping[str, Engine]
) -> None:
    """Measure each system, alternating, and print and write the results.

    args: of `aiayn benchmark translate`; commands: the arguments of fairseq-generate per system.
    """
    with tempfile.TemporaryDirectory() as directory:
        workers = [
            Worker(Search, argv, Path(directory) / str(number))
            for number, argv in enumerate(commands.values())
        ]
        systems: dict[str, Callable[[int], list[float]]] = {
            name: partial(worker.call, Search.translate_singly)
            for name, worker in zip(commands, workers, strict=True)
        }
        systems |= {name: engine.translate_singly for name, engine in engines.items()}
        for translate in systems.values():
            translate(min(3, args.one_by_one))  # warm-up
        seconds: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(args.runs):
            for name, translate in systems.items():
                seconds[name] += translate(args.one_by_one)
        for worker in workers:
            worker.close()
    _report(args, seconds)


def _report(args: argparse.Namespace, seconds: Mapping[str, list[float]]) -> None:
    print(
        f"one sentence at a time, the first {args.one_by_one} of {args.gen_subset}, "
        f"{args.runs} runs, alternating; beam {args.beam}"
    )
    rows, fairseq_median = [], statistics.median(seconds["fairseq"])
    for name, of_system in seconds.items():
        median, percentile_95 = statistics.median(of_system), float(np.quantile(of_system, 0.95))
        rows.append(
            {
                "system": name,
                "median": median,
                "percentile_95": percentile_95,
                "ratio": fairseq_median / median,
                "seconds": of_system,
            }
        )
        print(
            f"{name:<35} median {1000 * median:8.1f} ms  "
            f"95th percentile {1000 * percentile_95:8.1f} ms  {fairseq_median / median:5.2f} ×"
        )
    if args.output:
        write_json(rows, args.output)
