"""CTranslate2 on the CPU, for `aiayn benchmark translate`."""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path

from fairseq import checkpoint_utils

from ..checkpoints.export import build_specification, import_ctranslate2


class Engine:
    """A CTranslate2 model in one precision, and the sentences to translate."""

    def __init__(
        self, directory: str, precision: str, sources: list[list[str]], search: Mapping[str, float]
    ) -> None:
        """directory: of the model; sources: subwords; search: options of translate_batch."""
        threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
        self.translator = import_ctranslate2().Translator(
            directory, device="cpu", compute_type=precision, intra_threads=threads
        )
        self.sources, self.search = sources, search

    def translate(self, batch_size: int) -> tuple[float, dict[str, str]]:
        """Return the seconds for all sentences, and the hypothesis of each sentence number."""
        start = time.perf_counter()
        results = self.translator.translate_batch(
            self.sources, max_batch_size=batch_size, **self.search
        )
        seconds = time.perf_counter() - start
        return seconds, {str(i): " ".join(each.hypotheses[0]) for i, each in enumerate(results)}

    def translate_singly(self, count: int) -> list[float]:
        """Return the seconds for each of the first sentences."""
        seconds = []
        for source in self.sources[:count]:
            start = time.perf_counter()
            self.translator.translate_batch([source], **self.search)
            seconds.append(time.perf_counter() - start)
        return seconds


def build_engines(args: argparse.Namespace, directory: str) -> dict[str, Engine]:
    """Return CTranslate2 in each precision of --ctranslate2.

    args: of `aiayn benchmark translate`; directory: for CTranslate2's model.
    """
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(args.converted)], arg_overrides={"data": str(args.data)}
    )
    task.load_dataset(args.gen_subset)
    symbols = task.source_dictionary.symbols
    sources = [
        [symbols[token] for token in sentence[:-1]]
        for sentence in task.dataset(args.gen_subset).src
    ]
    Path(directory).mkdir(exist_ok=True)
    transformer = build_specification(model, symbols, task.target_dictionary.symbols)
    transformer.validate()
    transformer.save(directory)
    search = {"beam_size": args.beam, "length_penalty": args.lenpen, "max_decoding_length": 200}
    if args.length:
        search |= {"min_decoding_length": args.length, "max_decoding_length": args.length}
    return {
        f"CTranslate2 {precision}": Engine(directory, precision, sources, search)
        for precision in args.ctranslate2
    }
