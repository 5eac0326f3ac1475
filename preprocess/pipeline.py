"""From raw parallel text to a fairseq data directory: tokenise, clean, learn and apply subwords,
make binary.

Each step is a `stage`, reads and writes line by line on all cores, and keeps both languages in
step: a pair is kept or dropped whole, and only a newline ends a line.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from parallel import Batch, Langs, Pairs, Workers, say, track, transform_files
from stages import Stage, stage
from subword_nmt.learn_bpe import learn_bpe

from aiayn_plugin.errors import TextError
from aiayn_plugin.lines import clean_line, decode_line, read_lines
from aiayn_plugin.subword import Subword
from aiayn_plugin.text import SETTINGS_FILE, SUBWORDS, TextSettings, file_sha256
from aiayn_plugin.tokenizer import Tokenizer

LIBRARIES = (
    "sacremoses",
    "subword-nmt",
    "fairseq" if sys.version_info < (3, 11) else "fairseq-fixed",
)
#: Of all characters of the training text, as much as word-pieces spell: the rest are thousands of
#: characters of foreign scripts in a crawled corpus, which would take the place of words.
CHARACTER_COVERAGE = 0.9999
WORDS_FILE = "words.tsv"


class Cleaning(NamedTuple):
    """Which training pairs are kept, by their numbers of tokens: words, or subwords."""

    min_tokens: int = 1
    max_tokens: int = 250
    max_ratio: float = 9.0
    subwords: bool = False

    def flaw(self, source: int, target: int) -> str | None:
        """Return why a pair of so many tokens must be dropped, None for a good one."""
        shorter, longer = sorted((source, target))
        if shorter < self.min_tokens:
            return "too short" if shorter else "empty"
        if longer > self.max_tokens:
            return "too long"
        return "ratio" if longer > self.max_ratio * shorter else None


class Text(NamedTuple):
    """A parallel text on disk: a file for each language, so many lines each, and what
    changes with what is in them."""

    name: str
    files: tuple[Path, Path]
    lines: int
    key: tuple[str, ...]


def examine(path: Path, strict: bool = True) -> tuple[int, str]:
    """Return the number of lines and the SHA-256 of a file.

    Raises:
        TextError: it has no line, or, if `strict`, one that is not UTF-8.
    """
    digest, number = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            digest.update(line)
            if strict:
                decode_line(line, number, path)
    if not number:
        raise TextError(f"{path} is empty")
    return number, digest.hexdigest()


def build(
    work: Path,
    destdir: Path,
    splits: dict[str, list[Text]],
    settings: TextSettings,
    workers: Workers,
) -> str:
    """Fill destdir from raw text, settings last; the stages before are in work.

    Returns:
        How many training pairs were kept and dropped, in words.

    Raises:
        TextError: the text gives no training pair or no subword, or fairseq-preprocess failed.
    """
    langs = settings.source_lang, settings.target_lang
    tokenised = {
        split: [tokenise(work, text, split, settings, workers) for text in texts]
        for split, texts in splits.items()
    }
    count_pairs(tokenised["train"])
    subwords = learn(work, tokenised["train"], settings)
    encoded = {
        split: encode(work, split, parts, subwords, settings, workers)
        for split, parts in tokenised.items()
    }
    summary = count_pairs([*tokenised["train"], encoded["train"]])
    prefixes = {split: made.folder / "text" for split, made in encoded.items()}
    dictionary = subwords.folder / "dict.txt" if settings.subword == "wordpiece" else None
    binarise(prefixes, destdir, langs, workers, dictionary)
    for split in splits.keys() - {"train"}:
        keep_raw(split, splits[split], destdir, langs)
    model = destdir / settings.codes
    model.write_bytes((subwords.folder / settings.codes).read_bytes())
    replace(settings, codes_sha256=file_sha256(model)).save(destdir / SETTINGS_FILE)
    return summary


def versions(subword: str) -> dict[str, str]:
    """Return the versions of the libraries on which the data depends.

    Raises:
        TextError: the library of the subwords is not installed.
    """
    more = ("sentencepiece",) if subword == "wordpiece" else ()
    if more and not importlib.util.find_spec("sentencepiece"):
        raise TextError("word-pieces need sentencepiece: pip install sentencepiece")
    return {name: importlib.metadata.version(name) for name in (*LIBRARIES, *more)}


# ---- Tokens


_tokenizer = functools.cache(Tokenizer)  # one for each process


def tokenise(
    work: Path, text: Text, split: str, settings: TextSettings, workers: Workers
) -> Stage:
    """Write the tokens of a text, for training without unfit pairs and with its words counted."""
    langs = settings.source_lang, settings.target_lang
    cleaning = Cleaning(**settings.cleaning) if split == "train" else None  # type: ignore
    step = functools.partial(tokenize_batch, langs, settings.normalize_punctuation, cleaning)

    def make(part: Path) -> dict[str, Any]:
        words: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        dests = [part / f"text.{lang}" for lang in langs]
        batches = transform_files(workers, step, [list(text.files)], dests)
        for batch in track(batches, text.lines, f"tokenising {text.name}"):
            words.update(batch.words)
            dropped.update(batch.dropped)
        with open(part / WORDS_FILE, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{word}\t{count}\n" for word, count in words.items())
        return {"lines": text.lines, "dropped": dropped}

    made_of = [text.key, langs, settings.normalize_punctuation, cleaning,
               importlib.metadata.version("sacremoses")]  # fmt: skip
    return stage(work, f"tokenised.{text.name}", made_of, make)


def tokenize_batch(
    langs: Langs, normalize_punctuation: bool, cleaning: Cleaning | None, pairs: Pairs
) -> Batch:
    """Return the tokenised pairs; with `cleaning`, only good ones and their words."""
    sides = [_tokenizer(lang, normalize_punctuation) for lang in langs]
    kept: list[tuple[str, str]] = []
    dropped: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for pair in pairs:
        try:
            lines = [line.decode() for line in pair]
        except UnicodeDecodeError:
            if not cleaning:  # a line less would be one less in the score
                raise TextError(f"a line is not UTF-8: {pair!r:.200}") from None
            dropped["not UTF-8"] += 1
            continue
        source, target = (side.tokenize(line) for side, line in zip(sides, lines, strict=True))
        if cleaning:
            flaw = None if cleaning.subwords else cleaning.flaw(len(source), len(target))
            if flaw:
                dropped[flaw] += 1
                continue
            words.update(source)
            words.update(target)
        kept.append((" ".join(source), " ".join(target)))
    return _batch(kept, len(pairs), dropped, words)


def _batch(
    kept: list[tuple[str, str]], read: int, dropped: Counter[str], words: Counter[str]
) -> Batch:
    source, target = ("".join(f"{pair[side]}\n" for pair in kept).encode() for side in (0, 1))
    return Batch((source, target), read, dropped, words)


def count_pairs(stages: list[Stage]) -> str:
    """Return how many training pairs some stages kept, in words.

    Raises:
        TextError: none is left.
    """
    dropped: Counter[str] = Counter()
    for made in stages:
        dropped.update(made.result["dropped"])
    pairs = sum(made.result.get("lines", 0) for made in stages)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
    kept = pairs - dropped.total()
    if not kept:
        raise TextError(f"cleaning left no training pair ({reasons}); see the cleaning options")
    return f"training pairs: {kept:,} of {pairs:,} kept; dropped: {reasons or 'none'}"


# ---- Subwords


def learn(work: Path, tokenised: list[Stage], settings: TextSettings) -> Stage:
    """Write the model of the subwords, learnt on the words of both languages."""

    def make(part: Path) -> None:
        words: Counter[str] = Counter()
        for made in tokenised:
            for line in read_lines(made.folder / WORDS_FILE):
                word, _, count = line.rpartition("\t")
                words[word] += int(count)
        size = settings.vocabulary or settings.merges
        say(f"learning {size:,} {settings.subword} subwords on {len(words):,} different words")
        if settings.subword == "wordpiece":
            learn_wordpieces(words, size, part)
        else:
            learn_merges(words, size, bool(settings.vocabulary), part / settings.codes)

    library = "sentencepiece" if settings.subword == "wordpiece" else "subword-nmt"
    made_of = [[made.key for made in tokenised], settings.subword, settings.merges,
               settings.vocabulary, importlib.metadata.version(library)]  # fmt: skip
    return stage(work, "subwords", made_of, make)


def learn_merges(words: Counter[str], size: int, total: bool, codes: Path) -> None:
    """Write BPE codes: `size` merges or, if `total`, as many as give so many pieces.

    Raises:
        TextError: no two characters come together twice, so that there is nothing to learn.
    """
    # subword-nmt draws its own bar, whatever stderr is.
    plain = not sys.stderr.isatty()
    bar = contextlib.redirect_stderr(io.StringIO()) if plain else contextlib.nullcontext()
    learnt = 0
    if any(len(word) > 1 for word in words):  # subword-nmt fails without one
        with open(codes, "w", encoding="utf-8", newline="\n") as file, bar:
            counted = (f"{word} {n}" for word, n in words.items())
            learn_bpe(counted, file, size, is_dict=True, total_symbols=total)
        learnt = sum(1 for _ in read_lines(codes)) - 1
    if not learnt:
        few = ", or the characters alone fill the vocabulary" if total else ""
        raise TextError(f"no BPE merge to learn: no two characters come together twice{few}")
    all_of_them = learnt < size and not total
    say(f"learnt {learnt:,} merges" + (", the text gives no more" if all_of_them else ""))


def learn_wordpieces(words: Counter[str], size: int, part: Path) -> None:
    """Write a vocabulary of word-pieces, also as a dictionary of fairseq.

    Raises:
        TextError: the text has more different characters than the vocabulary may hold.
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in words.items()),
            input_format="tsv",
            model_writer=model,
            model_type="bpe",  # grows pieces from characters, as the paper's reference 38 does
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=CHARACTER_COVERAGE,
            normalization_rule_name="identity",
            bos_id=-1,  # sentence marks are fairseq's
            eos_id=-1,
            minloglevel=1,
        )
    except RuntimeError as error:
        raise TextError(f"sentencepiece learnt no {size} word-pieces: {error}") from None
    part.joinpath(SUBWORDS["wordpiece"][1]).write_bytes(model.getvalue())
    pieces = SentencePieceProcessor(model_proto=model.getvalue())
    known = [pieces.id_to_piece(i) for i in range(len(pieces)) if not pieces.is_unknown(i)]
    (part / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in known), "utf-8")
    say(f"learnt {len(known):,} word-pieces")


@functools.cache  # one for each process
def _subword(kind: str, model: Path) -> Subword:
    return SUBWORDS[kind][0](model)


def encode(
    work: Path,
    split: str,
    tokenised: list[Stage],
    subwords: Stage,
    settings: TextSettings,
    workers: Workers,
) -> Stage:
    """Write the subwords of a split, for training without unfit pairs if these count subwords."""
    langs = settings.source_lang, settings.target_lang
    cleaning = Cleaning(**settings.cleaning)  # type: ignore[arg-type]
    unfit = cleaning if split == "train" and cleaning.subwords else None
    model = subwords.folder / settings.codes
    step = functools.partial(encode_batch, settings.subword, model, unfit)

    def make(part: Path) -> dict[str, Any]:
        dropped: Counter[str] = Counter()
        sources = [[made.folder / f"text.{lang}" for lang in langs] for made in tokenised]
        kept = sum(made.result["lines"] - sum(made.result["dropped"].values())
                   for made in tokenised)  # fmt: skip
        batches = transform_files(workers, step, sources, [part / f"text.{lang}" for lang in langs])
        for batch in track(batches, kept, f"splitting {split}"):
            dropped.update(batch.dropped)
        return {"dropped": dropped}

    made_of = [[made.key for made in tokenised], subwords.key, unfit]
    return stage(work, f"split.{split}", made_of, make)


def encode_batch(kind: str, model: Path, cleaning: Cleaning | None, pairs: Pairs) -> Batch:
    """Return the tokenised pairs split into subwords; with `cleaning`, only good ones."""
    split = _subword(kind, model).encode
    kept: list[tuple[str, str]] = []
    dropped: Counter[str] = Counter()
    for pair in pairs:
        source, target = (split(line.decode().split()) for line in pair)
        if cleaning and (flaw := cleaning.flaw(_count(source), _count(target))):
            dropped[flaw] += 1
        else:
            kept.append((source, target))
    return _batch(kept, len(pairs), dropped, Counter())


def _count(pieces: str) -> int:
    return pieces.count(" ") + 1 if pieces else 0


# ---- The data directory


def binarise(
    encoded: dict[str, Path], destdir: Path, langs: Langs, workers: Workers, dictionary: Path | None
) -> None:
    """Have fairseq-preprocess make the dictionary and the binary files.

    Raises:
        TextError: it failed.
    """
    say("fairseq-preprocess: making the dictionary and the binary files")
    command = [sys.executable, str(Path(__file__).with_name("follow.py")), "preprocess"]
    command += ["--joined-dictionary", "--source-lang", langs[0], "--target-lang", langs[1]]
    # fairseq makes the first of so many parts by itself when all others are done: small parts.
    parts = 4 * workers.processes if workers.processes > 1 else 1
    command += ["--workers", str(parts), "--destdir", str(destdir)]
    command += ["--srcdict", str(dictionary)] if dictionary else []
    command += [f"--{split}pref={prefix}" for split, prefix in encoded.items()]
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        # Without close_fds the lock on the unfinished directory holds for it too.
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, close_fds=False
        ) as process:
            status = process.wait()
        log.seek(0)
        last = log.read().strip().rpartition("\n")[2]
    if status:
        raise TextError(f"fairseq-preprocess failed with status {status}: {last}")
    (destdir / "preprocess.log").unlink(missing_ok=True)  # names paths that are gone


def keep_raw(split: str, texts: list[Text], destdir: Path, langs: Langs) -> None:
    """Copy the raw validation or test text, for scoring, with the same lines to any reader."""
    for side, lang in enumerate(langs):
        with open(destdir / f"{split}.raw.{lang}", "w", encoding="utf-8", newline="\n") as file:
            for text in texts:
                file.writelines(f"{clean_line(line)}\n" for line in read_lines(text.files[side]))
