"""CTranslate2 on the CPU, as the benchmarks use it."""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path

from fairseq import checkpoint_utils

from ..checkpoints.export import imported_ctranslate2, specification


class Engine:
    """A model in CTranslate2, in one precision, and the sentences to translate."""

    def __init__(
        self, directory: str, precision: str, sources: list[list[str]], search: Mapping[str, float]
    ) -> None:
        """directory: of the model; sources: pieces; search: options of translate_batch."""
        threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
        self.engine = imported_ctranslate2().Translator(
            directory, device="cpu", compute_type=precision, intra_threads=threads
        )
        self.sources, self.search = sources, search

    def translate(self, sources: list[list[str]], **options: int) -> tuple[float, list[str]]:
        """Return the seconds, and the best hypothesis of each sentence."""
        start = time.perf_counter()
        results = self.engine.translate_batch(sources, **self.search, **options)
        return time.perf_counter() - start, [" ".join(found.hypotheses[0]) for found in results]

    def all_in_batches(self, size: int) -> tuple[float, dict[str, str]]:
        """Return the seconds for all sentences, and the hypothesis of each number."""
        seconds, found = self.translate(self.sources, max_batch_size=size)
        return seconds, {str(number): text for number, text in enumerate(found)}

    def one_by_one(self, count: int) -> list[float]:
        """Return the seconds for each of the first sentences."""
        return [self.translate([source])[0] for source in self.sources[:count]]


def engines(args: argparse.Namespace, directory: str) -> dict[str, Engine]:
    """Return CTranslate2 in each of --ctranslate2's precisions; its model goes into a directory.

    args: those of `aiayn benchmark translate`.
    """
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(args.converted)], arg_overrides={"data": str(args.data)}
    )
    task.load_dataset(args.gen_subset)
    words = task.source_dictionary.symbols
    sources = [
        [words[token] for token in sentence[:-1]] for sentence in task.dataset(args.gen_subset).src
    ]
    Path(directory).mkdir(exist_ok=True)
    transformer = specification(model, words, task.target_dictionary.symbols)
    transformer.validate()
    transformer.save(directory)
    search = {"beam_size": args.beam, "length_penalty": args.lenpen, "max_decoding_length": 200}
    if args.length:
        search |= {"min_decoding_length": args.length, "max_decoding_length": args.length}
    return {
        f"CTranslate2 {precision}": Engine(directory, precision, sources, search)
        for precision in args.ctranslate2
    }
