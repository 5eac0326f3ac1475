"""From tokens to subwords: learning and applying them, and cleaning by length in subwords."""

import functools
import importlib.metadata
import io
from pathlib import Path
from typing import Any

from subword_nmt import learn_bpe as subword_nmt

from ..errors import InputError
from ..text.subwords import SUBWORDS, Bpe, Subwords, WordPieces
from .binary import SUBWORDS_FILE, count_subwords, read_counts, write_counts, write_dictionary
from .console import say
from .parallel import Batch, Counts, LinePairs, transform_files
from .stages import Stage, make_stage
from .tokens import WORDS_FILE, Cleaning, Job

#: The share of all characters of the training text that wordpieces cover. The rest are thousands
#: of rare characters of foreign scripts, which would crowd words out of the vocabulary.
CHARACTER_COVERAGE = 0.9999


def learn(job: Job, tokenised: list[Stage]) -> Stage:
    """Write the subword model, learned on both languages or, with trees, on the sentences.

    Raises InputError if the text yields no subwords.
    """
    settings = job.settings

    def make(folder: Path) -> None:
        words = Counts()
        for stage in tokenised:
            with open(stage.folder / WORDS_FILE, encoding="utf-8", newline="\n") as file:
                for line in file:
                    word, _, count = line.rpartition("\t")
                    words[word] += int(count)
        size = settings.vocabulary or settings.merges
        say(f"learning {size:,} {settings.subword} subwords on {len(words):,} distinct words")
        if settings.subword == "wordpiece":
            # In a worker: sentencepiece delays Ctrl-C and SIGTERM until it has finished.
            job.workers.pool.submit(learn_wordpieces, words, size, folder).result()
        else:
            learn_bpe(words, size, bool(settings.vocabulary), folder / settings.codes)

    library = "sentencepiece" if settings.subword == "wordpiece" else "subword-nmt"
    inputs = [
        [stage.key for stage in tokenised],
        settings.subword,
        settings.merges,
        settings.vocabulary,
        importlib.metadata.version(library),
    ]
    return make_stage(job.work, "subwords", inputs, make)


def learn_bpe(words: Counts, size: int, total: bool, codes: Path) -> None:
    """Write `size` BPE merges or, if `total`, the merges for `size` subwords in all.

    Raises InputError if there is nothing to learn.
    """
    text = io.StringIO()
    if any(len(word) > 1 for word in words):  # otherwise subword-nmt fails
        lines = (f"{word} {count}" for word, count in words.items())
        subword_nmt.learn_bpe(lines, text, size, is_dict=True, total_symbols=total)
    merges = text.getvalue().count("\n") - 1  # the first line is the version
    if merges < 1:
        full = ", or the characters alone fill the vocabulary" if total else ""
        raise InputError(f"no BPE merges to learn: no two characters occur together twice{full}")
    codes.write_text(text.getvalue(), "utf-8")
    say(f"learned {merges:,} merges")


def learn_wordpieces(words: Counts, size: int, folder: Path) -> None:
    """Write `size` wordpieces as a sentencepiece model and as a fairseq dictionary.

    The dictionary is padded to a multiple of 8 entries, as for BPE: a GPU's matrix multiplications
    in half precision are slow for other sizes.

    Raises InputError if the text has more distinct characters than `size`.
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in words.items()),
            input_format="tsv",
            model_writer=model,
            model_type="bpe",  # builds pieces from characters, like the paper's reference 38
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=CHARACTER_COVERAGE,
            normalization_rule_name="identity",
            bos_id=-1,  # fairseq adds these symbols
            eos_id=-1,
            minloglevel=1,
        )
    except RuntimeError as error:
        raise InputError(f"sentencepiece cannot learn {size} wordpieces: {error}") from None
    (folder / WordPieces.file_name).write_bytes(model.getvalue())
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    ids = [i for i in range(len(processor)) if not processor.is_unknown(i)]
    pieces = processor.id_to_piece(ids)
    write_dictionary(folder / "dict.txt", Counts(pieces))
    say(f"learned {len(pieces):,} wordpieces")


@functools.cache  # one for each process
def _load_subwords(kind: str, model: Path, counts: Path | None) -> Subwords:
    return SUBWORDS[kind](model) if counts is None else Bpe(model, read_counts(counts)[0])


def encode(
    job: Job, split: str, tokenised: list[Stage], learned: Stage, train: Stage | None = None
) -> Stage:
    """Write the subwords of a split. For training, apply the limits if they count subwords.

    train: produce only subwords of this encoded training text.
    """
    cleaning = job.cleaning(split)
    if cleaning and not cleaning.subwords:  # already cleaned by length in words
        cleaning = None
    model = learned.folder / job.settings.codes
    allowed = train.folder / SUBWORDS_FILE if train else None
    split_sides = (0,) if job.settings.holds_trees else (0, 1)
    step = functools.partial(
        split_batch, (job.settings.subword, model, allowed), cleaning, split_sides, split == "train"
    )

    def make(folder: Path) -> dict[str, Any]:
        sources = [job.files(stage.folder) for stage in tokenised]
        lines = sum(
            stage.result["lines"] - sum(stage.result["dropped"].values()) for stage in tokenised
        )
        dropped, counts = transform_files(
            job.workers, step, sources, job.files(folder), lines, f"splitting {split}"
        )
        write_counts(folder / SUBWORDS_FILE, counts)
        return {"dropped": dropped, "pairs": lines - dropped.total()}

    inputs = [
        [stage.key for stage in tokenised],
        learned.key,
        cleaning,
        SUBWORDS_FILE,
        train.key if train else "",
    ]
    return make_stage(job.work, f"split.{split}", inputs, make)


def split_batch(
    model: tuple[str, Path, Path | None],
    cleaning: Cleaning | None,
    sides: tuple[int, ...],
    counted: bool,
    pairs: LinePairs,
) -> Batch:
    """Return the tokenised pairs with these sides (0, 1) as subwords.

    model: kind and file of the subwords, and the counts of the subwords to produce (None: all).
    With `cleaning`, apply its limits. If `counted`, count the subwords of each side.
    """
    subwords = _load_subwords(*model)
    kept, dropped = list[tuple[str, str]](), Counts()
    for pair in pairs:
        source, target = (
            subwords.encode(line.decode().split()) if side in sides else line.decode()
            for side, line in enumerate(pair)
        )
        if cleaning and (flaw := cleaning.find_flaw(_count(source), _count(target))):
            dropped[flaw] += 1
        else:
            kept.append((source, target))
    counts = count_subwords(list(zip(*kept, strict=True))) if counted else Counts()
    return Batch.join(kept, dropped, counts)


def _count(subwords: str) -> int:
    return subwords.count(" ") + 1 if subwords else 0
