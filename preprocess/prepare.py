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
import fcntl
import functools
import glob
import hashlib
import importlib.metadata
import io
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from subword_nmt.learn_bpe import learn_bpe

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parallel import (  # noqa: E402
    Batch,
    Langs,
    Pairs,
    Workers,
    say,
    start_workers,
    track,
    transform_files,
)

from aiayn_plugin.text import (  # noqa: E402
    SETTINGS_FILE,
    Bpe,
    TextError,
    TextSettings,
    Tokenizer,
    clean_line,
    decode_line,
    file_sha256,
    read_lines,
)

LIBRARIES = (
    "sacremoses",
    "subword-nmt",
    "fairseq" if sys.version_info < (3, 11) else "fairseq-fixed",
)
LOCK = "prepare.lock"  # marks an unfinished directory as ours, locked as long as it is in use


class Cleaning(NamedTuple):
    """Which training pairs are kept, by their numbers of tokens."""

    min_tokens: int = 1
    max_tokens: int = 250
    max_ratio: float = 9.0

    def flaw(self, source: list[str], target: list[str]) -> str | None:
        """Return why the pair must be dropped, None for a good one."""
        shorter, longer = sorted((len(source), len(target)))
        if shorter < self.min_tokens:
            return "too short" if shorter else "empty"
        if longer > self.max_tokens:
            return "too long"
        return "ratio" if longer > self.max_ratio * shorter else None


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
    least, most, ratio = Cleaning()
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a kill cleans up too
    status = 1
    try:
        prepare(args)
        return 0
    except (TextError, OSError) as error:
        message = str(error)
    except BrokenProcessPool:
        message = "a worker process was killed, perhaps for want of memory; try fewer --workers"
    except KeyboardInterrupt:
        message, status = "interrupted; nothing was made", 130
    print(f"prepare.py: error: {message}", file=sys.stderr)
    return status


def prepare(args: argparse.Namespace) -> None:
    """Make the data directory, or find that it is there and up to date."""
    check_arguments(args)
    prefixes = find_inputs(args)
    destdir = Path(args.destdir).resolve()
    existing = load_existing(destdir)
    with start_workers(args.workers) as workers:
        lines, digests = check_inputs(prefixes, (args.source_lang, args.target_lang), workers)
        settings = TextSettings(
            source_lang=args.source_lang,
            target_lang=args.target_lang,
            merges=args.merges,
            normalize_punctuation=args.normalize_punctuation,
            cleaning=Cleaning(args.min_tokens, args.max_tokens, args.max_ratio)._asdict(),
            inputs=digests,
            versions={name: importlib.metadata.version(name) for name in LIBRARIES},
        )
        if existing:
            check_same(existing, settings, destdir)
            print(f"{args.destdir} is up to date")
        else:
            with staging(destdir) as part:
                build(part, prefixes, lines, settings, workers)
    train = f"fairseq-train {args.destdir} --user-dir aiayn_plugin --arch aiayn_base"
    print(f"data is in {args.destdir}; next: {train}")


# ---- Inputs and the directory to make


def find_inputs(args: argparse.Namespace) -> dict[str, str]:
    """Return the prefix of each split, or raise if a file is missing."""
    given = {"train": args.trainpref, "valid": args.validpref, "test": args.testpref}
    prefixes = {split: prefix for split, prefix in given.items() if prefix}
    for split, prefix in prefixes.items():
        for lang in (args.source_lang, args.target_lang):
            path = Path(f"{prefix}.{lang}")
            if not path.is_file():
                there = sorted(map(str, path.parent.glob(f"{glob.escape(path.stem)}.*")))
                found = f"; found {', '.join(there)}" if there else ""
                raise TextError(f"no file {path}: see --{split}pref and the languages{found}")
    return prefixes


def check_file(path: Path) -> tuple[int, str]:
    """Return the number of lines and the SHA-256, or raise if the file cannot be used."""
    digest, number = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            digest.update(line)
            decode_line(line, number, path)
    if not number:
        raise TextError(f"{path} is empty")
    return number, digest.hexdigest()


def check_inputs(
    prefixes: dict[str, str], langs: tuple[str, str], workers: Workers
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the lines of each split and the digest of each file, or raise if one is unfit."""
    lines: dict[str, int] = {}
    digests: dict[str, str] = {}
    names = [(split, lang) for split in prefixes for lang in langs]
    paths = [Path(f"{prefixes[split]}.{lang}") for split, lang in names]
    checked = workers.pool.map(check_file, paths)
    for (split, lang), path, (count, digest) in zip(names, paths, checked, strict=True):
        say(f"{path}: {count:,} lines")
        if lines.setdefault(split, count) != count:
            raise TextError(
                f"{path} has {count} lines, but {prefixes[split]}.{langs[0]} has {lines[split]}: "
                "each line of one must be the translation of that line of the other"
            )
        digests[f"{split}.{lang}"] = digest
    return lines, digests


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
    with open(part / LOCK, "w") as lock:
        # Inherited by fairseq-preprocess, the lock holds until that has ended as well.
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TextError(f"another prepare.py is making {destdir}") from None
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


# ---- From raw text to the data


def build(
    destdir: Path,
    prefixes: dict[str, str],
    lines: dict[str, int],
    settings: TextSettings,
    workers: Workers,
) -> None:
    """Fill destdir from the files PREFIX.LANG of each split, settings last.

    `lines` says how many lines each split has.

    Raises:
        TextError: the text gives no training pair or no merge, or fairseq-preprocess failed.
    """
    langs = settings.source_lang, settings.target_lang
    work = destdir / "work"
    work.mkdir()
    transform = functools.partial(transform_files, workers, langs)
    words: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for split, prefix in prefixes.items():
        cleaning = Cleaning(**settings.cleaning) if split == "train" else None  # type: ignore
        step = functools.partial(tokenize_batch, langs, settings.normalize_punctuation, cleaning)
        batches = transform(step, prefix, f"{work}/tok.{split}")
        for batch in track(batches, lines[split], f"tokenising {split}"):
            words.update(batch.words)
            dropped.update(batch.dropped)
    lines = lines | {"train": report_cleaning(lines["train"], dropped)}
    codes = destdir / settings.codes
    learn(words, settings.merges, codes)
    encode = functools.partial(encode_batch, codes)
    for split in prefixes:
        batches = transform(encode, f"{work}/tok.{split}", f"{work}/{split}")
        for _ in track(batches, lines[split], f"splitting {split}"):
            pass
    binarise(work, destdir, langs, list(prefixes), workers.processes)
    keep_raw(prefixes, destdir, langs)
    shutil.rmtree(work)
    replace(settings, codes_sha256=file_sha256(codes)).save(destdir / SETTINGS_FILE)


# ---- The steps


_tokenizer = functools.cache(Tokenizer)  # one for each process
_bpe = functools.cache(Bpe)


def tokenize_batch(
    langs: Langs, normalize_punctuation: bool, cleaning: Cleaning | None, pairs: Pairs
) -> Batch:
    """Return the tokenised pairs; with `cleaning`, only good ones and their words."""
    sides = [_tokenizer(lang, normalize_punctuation) for lang in langs]
    result = Batch([], len(pairs), Counter(), Counter())
    for pair in pairs:
        source, target = (side.tokenize(line) for side, line in zip(sides, pair, strict=True))
        if cleaning:
            if flaw := cleaning.flaw(source, target):
                result.dropped[flaw] += 1
                continue
            result.words.update(source)
            result.words.update(target)
        result.pairs.append((" ".join(source), " ".join(target)))
    return result


def encode_batch(codes: Path, pairs: Pairs) -> Batch:
    """Return the tokenised pairs split into subwords."""
    encode = _bpe(codes).encode
    return Batch([(encode(s.split()), encode(t.split())) for s, t in pairs], len(pairs))


def report_cleaning(pairs: int, dropped: Counter[str]) -> int:
    """Say how many training pairs cleaning dropped, and return how many are left.

    Raises:
        TextError: none is left.
    """
    kept = pairs - dropped.total()
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
    say(f"training pairs: {kept:,} of {pairs:,} kept; dropped: {reasons or 'none'}")
    if not kept:
        raise TextError(f"cleaning left no training pair ({reasons}); see the cleaning options")
    return kept


def learn(words: Counter[str], merges: int, codes: Path) -> None:
    """Write the BPE codes learnt on counted words.

    Raises:
        TextError: no two characters come together twice, so that there is nothing to learn.
    """
    say(f"learning {merges:,} merges on {len(words):,} different words")
    # subword-nmt draws its own bar, whatever stderr is.
    plain = not sys.stderr.isatty()
    bar = contextlib.redirect_stderr(io.StringIO()) if plain else contextlib.nullcontext()
    learnt = 0
    if any(len(word) > 1 for word in words):  # subword-nmt fails without one
        with open(codes, "w", encoding="utf-8", newline="\n") as file, bar:
            learn_bpe((f"{word} {n}" for word, n in words.items()), file, merges, is_dict=True)
        learnt = sum(1 for _ in read_lines(codes)) - 1
    if not learnt:
        raise TextError("no BPE merge to learn: no two characters come together twice")
    say(f"learnt {learnt:,} merges" + (", the text gives no more" if learnt < merges else ""))


def binarise(work: Path, destdir: Path, langs: Langs, splits: list[str], workers: int) -> None:
    """Have fairseq-preprocess make the dictionary and the binary files.

    Raises:
        TextError: it failed.
    """
    say("fairseq-preprocess: making the dictionary and the binary files")
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--joined-dictionary"]
    command += ["--source-lang", langs[0], "--target-lang", langs[1], "--workers", str(workers)]
    command += [f"--{split}pref={work / split}" for split in splits]
    # Without close_fds the lock on the unfinished directory holds for it too.
    done = subprocess.run(
        [*command, "--destdir", str(destdir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        close_fds=False,
    )
    if done.returncode:
        last = done.stdout.strip().rpartition("\n")[2]
        raise TextError(f"fairseq-preprocess failed with status {done.returncode}: {last}")
    (destdir / "preprocess.log").unlink()  # names paths that are gone


def keep_raw(prefixes: dict[str, str], destdir: Path, langs: Langs) -> None:
    """Copy the raw validation and test text, for scoring, with the same lines to any reader."""
    for split in prefixes.keys() - {"train"}:
        for lang in langs:
            with open(destdir / f"{split}.raw.{lang}", "w", encoding="utf-8", newline="\n") as file:
                file.writelines(
                    f"{clean_line(line)}\n" for line in read_lines(f"{prefixes[split]}.{lang}")
                )


if __name__ == "__main__":
    sys.exit(main())
