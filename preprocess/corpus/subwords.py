"""From tokens to subwords: learning them, applying them, and the second part of cleaning."""

import contextlib
import functools
import importlib.metadata
import io
import sys
from pathlib import Path
from typing import Any

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import read_lines
from aiayn_plugin.text.subwords import SUBWORDS, Bpe, Subwords

from .binary import PIECES_FILE, count_pieces, read_pieces, write_pieces
from .console import say
from .merges import learn_codes
from .parallel import Batch, Counts, LinePairs, transform_files
from .stages import Stage, make_stage
from .tokens import WORDS_FILE, Cleaning, Job

#: Word-pieces spell this share of all characters of the training text. The rest are thousands of
#: different characters of foreign scripts, which would take the places of words.
CHARACTER_COVERAGE = 0.9999


def learn(job: Job, tokenised: list[Stage]) -> Stage:
    """Write the model of the subwords, learnt on the words of both languages, or of the sentences.

    Raises InputError if the text gives no subwords.
    """
    settings = job.settings

    def make(folder: Path) -> None:
        words = Counts()
        for stage in tokenised:
            for line in read_lines(stage.folder / WORDS_FILE):
                word, _, count = line.rpartition("\t")
                words[word] += int(count)
        size = settings.vocabulary or settings.merges
        say(f"learning {size:,} {settings.subword} subwords on {len(words):,} different words")
        if settings.subword == "wordpiece":
            learn_wordpieces(words, size, folder)
        else:
            learn_merges(words, size, bool(settings.vocabulary), folder / settings.codes)

    library = "sentencepiece" if settings.subword == "wordpiece" else "subword-nmt"
    made_of = [
        [stage.key for stage in tokenised],
        settings.subword,
        settings.merges,
        settings.vocabulary,
        importlib.metadata.version(library),
    ]
    return make_stage(job.work, "subwords", made_of, make)


def learn_merges(words: Counts, size: int, total: bool, codes: Path) -> None:
    """Write BPE codes with `size` merges or, if `total`, with merges for `size` pieces in all.

    Raises InputError if there is nothing to learn: no two characters come together twice.
    """
    learnt = 0
    if any(len(word) > 1 for word in words):  # subword-nmt fails if no word is longer
        # subword-nmt draws a bar on the standard error even if that is no terminal.
        plain = not sys.stderr.isatty()
        bar = contextlib.redirect_stderr(io.StringIO()) if plain else contextlib.nullcontext()
        with open(codes, "w", encoding="utf-8", newline="\n") as file, bar:
            counted = (f"{word} {count}" for word, count in words.items())
            learn_codes(counted, file, size, total)
        learnt = sum(1 for _ in read_lines(codes)) - 1  # the first line is the version
    if not learnt:
        full = ", or the characters alone fill the vocabulary" if total else ""
        raise InputError(f"no BPE merge to learn: no two characters come together twice{full}")
    exhausted = ", the text gives no more" if learnt < size and not total else ""
    say(f"learnt {learnt:,} merges{exhausted}")


def learn_wordpieces(words: Counts, size: int, folder: Path) -> None:
    """Write a vocabulary of `size` word-pieces, and the same as a dictionary of fairseq.

    Raises InputError if the text has more different characters than `size`.
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
            bos_id=-1,  # fairseq has its own marks of a sentence
            eos_id=-1,
            minloglevel=1,
        )
    except RuntimeError as error:
        raise InputError(f"sentencepiece learnt no {size} word-pieces: {error}") from None
    folder.joinpath(SUBWORDS["wordpiece"][1]).write_bytes(model.getvalue())
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    ids = [i for i in range(len(processor)) if not processor.is_unknown(i)]
    pieces = processor.id_to_piece(ids)
    (folder / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), "utf-8")
    say(f"learnt {len(pieces):,} word-pieces")


@functools.cache  # one for each process
def _subwords(kind: str, model: Path, pieces: Path | None) -> Subwords:
    return SUBWORDS[kind][0](model) if pieces is None else Bpe(model, read_pieces(pieces)[0].keys())


def encode(
    job: Job, split: str, tokenised: list[Stage], learnt: Stage, train: Stage | None = None
) -> Stage:
    """Write the subwords of a split. For training, drop unfit pairs if limits count subwords.

    train: the subwords of the training text; only they may come out.
    """
    cleaning = job.cleaning(split)
    if cleaning and not cleaning.subwords:  # then the words were cleaned
        cleaning = None
    model = learnt.folder / job.settings.codes
    known = train.folder / PIECES_FILE if train else None
    split_sides = (0,) if job.settings.holds_trees else (0, 1)
    step = functools.partial(
        encode_batch, (job.settings.subword, model, known), cleaning, split_sides, split == "train"
    )

    def make(folder: Path) -> dict[str, Any]:
        sources = [job.files(stage.folder) for stage in tokenised]
        lines = sum(
            stage.result["lines"] - sum(stage.result["dropped"].values()) for stage in tokenised
        )
        dropped, pieces = transform_files(
            job.workers, step, sources, job.files(folder), lines, f"splitting {split}"
        )
        write_pieces(folder / PIECES_FILE, pieces)
        return {"dropped": dropped, "pairs": lines - dropped.total()}

    made_of = [
        [stage.key for stage in tokenised],
        learnt.key,
        cleaning,
        PIECES_FILE,
        train.key if train else "",
    ]
    return make_stage(job.work, f"split.{split}", made_of, make)


def encode_batch(
    splitter: tuple[str, Path, Path | None],
    cleaning: Cleaning | None,
    sides: tuple[int, ...],
    counted: bool,
    pairs: LinePairs,
) -> Batch:
    """Return the tokenised pairs, with their sides 0 or 1 as subwords.

    splitter: kind of subwords, their model, and the pieces that may come out (None: all). With
    `cleaning`, drop unfit pairs. If `counted`, count the pieces of each side.
    """
    subwords = _subwords(*splitter)
    kept, dropped = list[tuple[str, str]](), Counts()
    for pair in pairs:
        source, target = (
            subwords.encode(line.decode().split()) if side in sides else line.decode()
            for side, line in enumerate(pair)
        )
        if cleaning and (flaw := cleaning.flaw(_count(source), _count(target))):
            dropped[flaw] += 1
        else:
            kept.append((source, target))
    counts = count_pieces(list(zip(*kept, strict=True))) if counted else Counts()
    return Batch.of(kept, len(pairs), dropped, counts)


def _count(pieces: str) -> int:
    return pieces.count(" ") + 1 if pieces else 0
