"""The searches that `aiayn benchmark translate` compares: fairseq-generate's and CTranslate2's.

Each takes a batch size and a count, and returns the seconds of each batch and the hypotheses by
sentence number. A count above 0 translates the first `count` sentences, one at a time.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from ..checkpoints.loading import LoadedModel
from ..inference.ctranslate2_search import build_translator
from .measure import measure_time

Translate = Callable[[int, int], tuple[list[float], dict[int, str]]]


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
        self.max_positions = utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )
        self.generator = self.task.build_generator(self.models, cfg.generation)
        self.task.load_dataset(cfg.dataset.gen_subset)
        self.dataset = self.task.dataset(cfg.dataset.gen_subset)

    def translate(self, batch_size: int, count: int) -> tuple[list[float], dict[int, str]]:
        """Return the seconds of each batch, and the hypotheses."""
        if count:
            first = range(min(count, len(self.dataset)))
            batches = (self.dataset.collater([self.dataset[number]]) for number in first)
        else:
            batches = self.task.get_batch_iterator(
                self.dataset,
                max_sentences=batch_size,
                max_positions=self.max_positions,
                disable_iterator_cache=True,
            ).next_epoch_itr(shuffle=False)
        seconds, hypotheses = [], {}
        for batch in batches:
            batch = utils.move_to_cuda(batch) if self.on_gpu else batch
            search = partial(self.task.inference_step, self.generator, self.models, batch)
            results, duration = measure_time(search, batch["net_input"]["src_tokens"].device)
            seconds.append(duration)
            for number, (best, *_) in zip(batch["id"].tolist(), results, strict=True):
                hypotheses[number] = self.task.target_dictionary.string(best["tokens"])
        if self.on_gpu:
            torch.cuda.empty_cache()  # frees memory for the other systems
        return seconds, hypotheses


def load_ctranslate2(args: argparse.Namespace) -> dict[str, Translate]:
    """Return CTranslate2's search on the CPU, in each precision of --ctranslate2.

    args: of `aiayn benchmark translate`.
    """
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(args.plugin_model)], arg_overrides={"data": str(args.data)}
    )
    task.load_dataset(args.gen_subset)
    symbols = task.source_dictionary.symbols
    sources = [
        [symbols[token] for token in sentence[:-1]]
        for sentence in task.dataset(args.gen_subset).src
    ]
    search = {"beam_size": args.beam, "length_penalty": args.lenpen, "max_decoding_length": 200}
    if args.length:
        search |= {"min_decoding_length": args.length, "max_decoding_length": args.length}

    def translate(translator, batch_size: int, count: int) -> tuple[list[float], dict[int, str]]:
        batches = [[source] for source in sources[:count]] if count else [sources]
        seconds, hypotheses = [], []
        for batch in batches:
            run = partial(translator.translate_batch, batch, max_batch_size=batch_size, **search)
            results, duration = measure_time(run, torch.device("cpu"))
            seconds.append(duration)
            hypotheses += [" ".join(result.hypotheses[0]) for result in results]
        return seconds, dict(enumerate(hypotheses))

    loaded = LoadedModel(model, task.source_dictionary, task.target_dictionary, 0)
    return {
        f"CTranslate2 {precision}": partial(translate, build_translator(loaded, precision))
        for precision in args.ctranslate2
    }
