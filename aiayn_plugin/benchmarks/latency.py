"""`aiayn benchmark translate --one-by-one`: the time to the answer of one sentence."""

import argparse
import logging
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from ..errors import InputError
from .engine import Engine
from .measure import reason, timed, write_json


class Commands:
    """What fairseq-generate does with each sentence, in a process of its own."""

    def __init__(self, argv: list[str], log: Path) -> None:
        """argv: the arguments of fairseq-generate, whose output goes to the file `log`."""
        self.log = log
        context = multiprocessing.get_context("spawn")
        self.process = ProcessPoolExecutor(1, context, _begin, (argv, log))

    def one_by_one(self, count: int) -> list[float]:
        """Return the seconds for each of the first sentences. Raises InputError if it fails."""
        try:
            return self.process.submit(_seconds, count).result()
        except Exception as error:
            said = self.log.read_text(encoding="utf-8")
            raise InputError(f"the search failed: {reason(said or str(error))}") from None


def measure(
    args: argparse.Namespace, commands: Mapping[str, list[str]], engines: Mapping[str, Engine]
) -> None:
    """Measure each way, alternating, and print and write the results.

    args: those of `aiayn benchmark translate`. commands: for each way, the arguments of
    fairseq-generate.
    """
    with tempfile.TemporaryDirectory() as directory:
        ways: dict[str, Callable[[int], list[float]]] = {
            way: Commands(argv, Path(directory) / str(number)).one_by_one
            for number, (way, argv) in enumerate(commands.items())
        }
        ways |= {way: engine.one_by_one for way, engine in engines.items()}
        for translate in ways.values():
            translate(min(3, args.one_by_one))  # the first ones take longer
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(args.runs):
            for way, translate in ways.items():
                seconds[way] += translate(args.one_by_one)
    _report(args, seconds)


def _report(args: argparse.Namespace, seconds: Mapping[str, list[float]]) -> None:
    rows, reference = [], statistics.median(seconds["fairseq"])
    print(
        f"one sentence at a time, the first {args.one_by_one} of {args.gen_subset}, "
        f"{args.runs} runs, alternating; beam {args.beam}"
    )
    for way, taken in seconds.items():
        middle, late = statistics.median(taken), float(np.quantile(taken, 0.95))
        rows.append(
            {
                "way": way,
                "median": middle,
                "percentile_95": late,
                "ratio": reference / middle,
                "seconds": taken,
            }
        )
        print(
            f"{way:<35} median {1000 * middle:8.1f} ms  95th percentile {1000 * late:8.1f} ms  "
            f"{reference / middle:5.2f} ×"
        )
    if args.output:
        write_json(rows, args.output)


class _Search:
    """A model, its search and a split, by the arguments of fairseq-generate."""

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

    def seconds(self, number: int) -> float:
        """Return how long the search for one sentence takes."""
        batch = self.dataset.collater([self.dataset[number]])
        if self.on_gpu:
            batch = utils.move_to_cuda(batch)
        find = partial(self.task.inference_step, self.generator, self.models, batch)
        return timed(find, batch["net_input"]["src_tokens"].device)[1]


_search: Any = None  #: of this process


def _begin(argv: list[str], log: Path) -> None:
    global _search
    sys.stdout = sys.stderr = open(log, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    logging.basicConfig(stream=sys.stderr, force=True)  # importing fairseq has made it another's
    _search = _Search(argv)


def _seconds(count: int) -> list[float]:
    return [_search.seconds(number) for number in range(min(count, len(_search.dataset)))]
