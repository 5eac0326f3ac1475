#!/usr/bin/env python3
r"""Make a fairseq data directory out of raw parallel text.

    python preprocess/prepare.py -s en -t de --trainpref raw/train --validpref raw/valid \
        --testpref raw/test --destdir data --merges 8000

reads raw/train.en, raw/train.de and so on. Training pairs are cleaned by length and ratio; all
text is split by the Moses tokeniser and by byte-pair encoding learnt on both languages, and
made binary by fairseq-preprocess with one dictionary. The BPE codes, the settings and the raw
validation and test text are kept beside the data. The directory appears whole or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import glob
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parallel import Workers, run_command, say, start_workers  # noqa: E402
from pipeline import Cleaning, Text, build, examine, versions  # noqa: E402
from stages import locked  # noqa: E402

from aiayn_plugin.errors import TextError  # noqa: E402
from aiayn_plugin.text import SETTINGS_FILE, TextSettings  # noqa: E402

LOCK = "prepare.lock"  # marks an unfinished directory as ours, locked as long as it is in use


# ---- Command line


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="prepare.py", description="Make a fairseq data directory out of raw parallel text."
    )
    add = functools.partial(parser.add_argument, required=True)
    add("-s", "--source-lang", metavar="SRC", help="source language, such as en")
    add("-t", "--target-lang", metavar="TRG", help="target language, such as de")
    add("--trainpref", metavar="FP", help="training files are FP.SRC and FP.TRG")
    add("--validpref", metavar="FP", help="validation files, likewise")
    add("--destdir", metavar="DIR", help="data directory to make")
    add("--merges", type=int, metavar="N", help="number of BPE merges to learn")
    option = parser.add_argument
    option("--testpref", metavar="FP", help="test files, likewise (default: no test set)")
    cores = len(os.sched_getaffinity(0))
    option("--workers", type=int, default=cores, help="processes to use (default: all cores)")
    joined = "one dictionary for both languages (always on)"
    option("--joined-dictionary", action="store_true", default=True, help=joined)
    uniform = "make quotes, dashes and the like uniform as Moses does (default: leave them)"
    option("--normalize-punctuation", action="store_true", help=uniform)
    option = parser.add_argument_group("cleaning of training pairs").add_argument
    least, most, ratio, _ = Cleaning()
    option("--min-tokens", type=int, default=least, help="on each side (default: %(default)s)")
    option("--max-tokens", type=int, default=most, help="on each side (default: %(default)s)")
    why = (
        "longer side to shorter (default: %(default)s as in Moses; the 1.5 that is usual for "
        "WMT14 drops short pairs for a token or two, much of a small corpus)"
    )
    option("--max-ratio", type=float, default=ratio, help=why)
    return parser.parse_args(argv)


def check_arguments(args: argparse.Namespace) -> None:
    if args.source_lang == args.target_lang:
        raise TextError(f"source and target language are both {args.source_lang!r}")
    for name in ("merges", "workers", "min_tokens", "max_ratio"):
        if not getattr(args, name) >= 1:
            raise TextError(f"--{name.replace('_', '-')} must be 1 or more")
    if args.max_tokens < args.min_tokens:
        raise TextError("--max-tokens must not be less than --min-tokens")


def main(argv: list[str] | None = None) -> int:
    """Prepare the data as the command line says; return the exit status."""
    args = parse_args(argv)
    return run_command("prepare.py", lambda: prepare(args), "nothing was made")


def prepare(args: argparse.Namespace) -> None:
    """Make the data directory, or find that it is there and up to date."""
    check_arguments(args)
    files = find_inputs(args)
    destdir = Path(args.destdir).resolve()
    existing = load_existing(destdir)
    with start_workers(args.workers) as workers:
        texts = check_inputs(files, workers)
        langs = args.source_lang, args.target_lang
        digests = {
            f"{split}.{lang}": digest
            for split, text in texts.items()
            for lang, digest in zip(langs, text.key, strict=True)
        }
        settings = TextSettings(
            source_lang=args.source_lang,
            target_lang=args.target_lang,
            merges=args.merges,
            normalize_punctuation=args.normalize_punctuation,
            cleaning=Cleaning(args.min_tokens, args.max_tokens, args.max_ratio)._asdict(),
            inputs=digests,
            versions=versions("bpe"),
        )
        if existing:
            check_same(existing, settings, destdir)
            print(f"{args.destdir} is up to date")
        else:
            splits = {split: [text] for split, text in texts.items()}
            with staging(destdir) as part:
                say(build(part / "work", part, splits, settings, workers))
                shutil.rmtree(part / "work")
    train = f"fairseq-train {args.destdir} --user-dir aiayn_plugin --arch aiayn_base"
    print(f"data is in {args.destdir}; next: {train}")


# ---- Inputs and the directory to make


def find_inputs(args: argparse.Namespace) -> dict[str, tuple[Path, Path]]:
    """Return the two files of each split, or raise if one is missing."""
    given = {"train": args.trainpref, "valid": args.validpref, "test": args.testpref}
    files: dict[str, tuple[Path, Path]] = {}
    for split, prefix in given.items():
        if not prefix:
            continue
        files[split] = Path(f"{prefix}.{args.source_lang}"), Path(f"{prefix}.{args.target_lang}")
        for path in files[split]:
            if not path.is_file():
                there = sorted(map(str, path.parent.glob(f"{glob.escape(path.stem)}.*")))
                found = f"; found {', '.join(there)}" if there else ""
                raise TextError(f"no file {path}: see --{split}pref and the languages{found}")
    return files


def check_inputs(files: dict[str, tuple[Path, Path]], workers: Workers) -> dict[str, Text]:
    """Return the text of each split, or raise if one is unfit."""
    texts: dict[str, Text] = {}
    paths = [path for split in files.values() for path in split]
    checked = dict(zip(paths, workers.pool.map(examine, paths), strict=True))
    for split, (source, target) in files.items():
        (lines, digest), (others, other_digest) = checked[source], checked[target]
        for path in (source, target):
            say(f"{path}: {checked[path][0]:,} lines")
        if lines != others:
            raise TextError(
                f"{target} has {others} lines, but {source} has {lines}: "
                "each line of one must be the translation of that line of the other"
            )
        texts[split] = Text(split, (source, target), lines, (digest, other_digest))
    return texts


def load_existing(destdir: Path) -> TextSettings | None:
    """Return the settings of a finished destdir, None if there is nothing; raise if not ours."""
    if not destdir.exists() or (destdir.is_dir() and not any(destdir.iterdir())):
        return None
    if not (destdir / SETTINGS_FILE).is_file():
        raise TextError(f"{destdir} is there, but not made by prepare.py; choose another --destdir")
    return TextSettings.load(destdir / SETTINGS_FILE)


def check_same(existing: TextSettings, wanted: TextSettings, destdir: Path) -> None:
    """Raise unless destdir is whole and was made with the wanted settings and inputs."""
    there, here = asdict(existing), asdict(wanted)
    for settings in (there, here):  # an older version may not have written all of them
        settings["cleaning"] = Cleaning(**settings["cleaning"])._asdict()
    differ = [
        f"{name} ({there[name]} there, {here[name]} now)"
        for name in here
        if name not in ("inputs", "codes_sha256", "versions") and there[name] != here[name]
    ]
    inputs = existing.inputs.items() ^ wanted.inputs.items()
    differ += sorted(f"input {name}" for name in {name for name, _ in inputs})
    pair = f"{wanted.source_lang}-{wanted.target_lang}"
    binary = [name.replace(".", f".{pair}.") for name in wanted.inputs]
    files = [existing.codes, *(name + end for name in binary for end in (".bin", ".idx"))]
    advice = "choose another --destdir or delete this one"
    if differ:
        raise TextError(f"{destdir} belongs to other settings: {', '.join(differ)}; {advice}")
    missing = [name for name in files if not (destdir / name).is_file()]
    if missing:
        raise TextError(f"{destdir} lacks {', '.join(missing)}; {advice}")


@contextlib.contextmanager
def staging(destdir: Path) -> Iterator[Path]:
    """Give a directory that becomes destdir if all goes well, and goes away if not."""
    part = destdir.with_name(destdir.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    if any(part.iterdir()) and not (part / LOCK).exists():
        raise TextError(f"{part} is there, but not made by prepare.py; remove it")
    with locked(part / LOCK, f"another prepare.py is making {destdir}"):
        try:
            for left in part.iterdir():
                if left.name != LOCK:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield part
            part.rename(destdir)
            (destdir / LOCK).unlink()
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


if __name__ == "__main__":
    sys.exit(main())
