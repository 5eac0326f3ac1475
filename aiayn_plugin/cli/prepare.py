"""Create a fairseq data directory from raw parallel text.

With `--trainpref raw/train -s en -t de`, reads raw/train.en and raw/train.de, and likewise the
other splits. Cleans the training pairs by length and ratio, and splits all text with the Moses
tokeniser and byte-pair encoding, which it learns on both languages. The binary files equal those of
fairseq-preprocess with a joined dictionary. BPE codes, settings, and raw validation and test text
are kept with them. The data directory appears only when it is complete.
"""

import argparse
import functools
import glob
import math
import re
from pathlib import Path

from ..corpus.build import build, find_versions, make_data_directory
from ..corpus.console import say
from ..corpus.parallel import Files, start_workers
from ..corpus.tokens import Cleaning, load_text
from ..errors import InputError
from ..text.lines import escape_unprintable
from ..text.settings import WITHOUT_SPACES, TextSettings, rules_language
from .preparation import add_check, add_tokenizer, add_workers, explain_interrupts, show_next_step


def add_options(parser: argparse.ArgumentParser) -> None:
    add = functools.partial(parser.add_argument, required=True)
    add("-s", "--source-lang", metavar="SRC", help="source language, such as en")
    add("-t", "--target-lang", metavar="TRG", help="target language, such as de")
    add("--trainpref", metavar="FP", help="training files are FP.SRC and FP.TRG")
    add("--validpref", metavar="FP", help="validation files, likewise")
    add("--destdir", metavar="DIR", help="data directory to create")
    add("--merges", type=int, metavar="N", help="number of BPE merges to learn")
    option = parser.add_argument
    option("--testpref", metavar="FP", help="test files, likewise (default: no test set)")
    add_workers(parser)
    add_check(parser)
    joined_help = "accepted as in fairseq-preprocess; the languages always share a dictionary"
    option("--joined-dictionary", action="store_true", help=joined_help)
    punctuation_help = (
        "normalise quotes, dashes and similar punctuation as Moses does (default: keep them)"
    )
    option("--normalize-punctuation", action="store_true", help=punctuation_help)
    add_tokenizer(parser)
    option = parser.add_argument_group("cleaning of training pairs").add_argument
    limits = Cleaning()
    option("--min-tokens", type=int, default=limits.min_tokens, help="minimum words on each side")
    option("--max-tokens", type=int, default=limits.max_tokens, help="maximum words on each side")
    ratio_help = (
        f"maximum ratio of the longer to the shorter side (default: {limits.max_ratio:g}, as in "
        "Moses, and unlimited for languages written without spaces; 1.5 is common for WMT14, but "
        "drops many short pairs of small corpora)"
    )
    option("--max-ratio", type=float, help=ratio_help)


@explain_interrupts("no data was written")
def run(args: argparse.Namespace) -> None:
    """Make the data directory. Raises InputError or OSError for unusable options or text."""
    langs = args.source_lang, args.target_lang
    if args.max_ratio is None:
        has_words = WITHOUT_SPACES.isdisjoint(map(rules_language, langs))
        args.max_ratio = Cleaning().max_ratio if has_words else max(1, args.max_tokens)
    check_arguments(args)
    files = find_inputs(args)
    with start_workers(args.workers) as workers:
        texts = {split: load_text(split, pair, workers) for split, pair in files.items()}
        for text in texts.values():
            for file in text.files:
                say(f"{file}: {text.lines:,} lines")
        settings = TextSettings(
            *langs,
            merges=args.merges,
            normalize_punctuation=args.normalize_punctuation,
            tokenizer=args.tokenizer,
            cleaning=Cleaning(args.min_tokens, args.max_tokens, args.max_ratio)._asdict(),
            inputs={
                f"{split}.{lang}": digest
                for split, text in texts.items()
                for lang, digest in zip(langs, text.key, strict=True)
            },
            versions=find_versions("bpe"),
        )
        splits = {split: [text] for split, text in texts.items()}
        make_data_directory(
            Path(args.destdir),
            "aiayn prepare",
            settings,
            workers,
            lambda job, unfinished: build(job, unfinished, splits),
        )
    show_next_step(args.destdir, note=" (for a few thousand pairs: --arch aiayn_tiny)")


def check_arguments(args: argparse.Namespace) -> None:
    """Raise InputError if an option is invalid."""
    if args.source_lang == args.target_lang:
        raise InputError(
            f"source and target language are both {args.source_lang!r}: rename the files of one, "
            f"for example to train.{args.source_lang}_simple"
        )
    for lang in (args.source_lang, args.target_lang):
        if re.search("[.-]", lang):
            raise InputError(
                f"language {lang!r} contains '.' or '-', at which fairseq splits the names of the "
                f"data's files: rename the text, for example to train.{re.sub('[.-]', '_', lang)}"
            )
    for name in ("merges", "workers", "min_tokens", "max_ratio"):
        if not getattr(args, name) >= 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1")
    if not math.isfinite(args.max_ratio):
        raise InputError(f"--max-ratio {args.max_ratio} must be finite")
    if args.max_tokens < args.min_tokens:
        raise InputError("--max-tokens must not be less than --min-tokens")


def find_inputs(args: argparse.Namespace) -> dict[str, Files]:
    """Return the two files of each split. Raises InputError if one is missing."""
    prefixes = {"train": args.trainpref, "valid": args.validpref, "test": args.testpref}
    files = {
        split: (Path(f"{prefix}.{args.source_lang}"), Path(f"{prefix}.{args.target_lang}"))
        for split, prefix in prefixes.items()
        if prefix is not None
    }
    for split, pair in files.items():
        for path in pair:
            if not path.is_file():
                similar = sorted(map(str, path.parent.glob(f"{glob.escape(path.stem)}.*")))
                existing = f"; found {escape_unprintable(', '.join(similar))}" if similar else ""
                advice = f"see --{split}pref and the languages{existing}"
                if (file := path.with_suffix("")).is_file():  # such as text/train.en
                    prefix = file.with_suffix("")
                    advice = f"give the prefix without the language: --{split}pref {prefix}"
                raise InputError(f"no file {path}: {advice}")
    return files
