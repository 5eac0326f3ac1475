"""From tokens to subwords: learning and applying them, and cleaning by length in subwords."""

import functools
import io
from pathlib import Path

from subword_nmt import learn_bpe as subword_nmt

from ..errors import InputError
from ..text.subwords import SUBWORDS, Bpe, Subwords, WordPieces
from .binary import write_dictionary
from .console import say
from .parallel import Counts
from .stages import Stage, make_stage
from .tokens import Cleaning, Job, read_counts, transform

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
            for counts in read_counts(stage.folder)[: 1 if settings.holds_trees else 2]:
                words.update(counts)
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
        settings.versions[library],
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
def _load_subwords(kind: str, model: Path, train: Path | None) -> Subwords:
    return SUBWORDS[kind](model) if train is None else Bpe(model, read_counts(train)[0])


def encode(
    job: Job, split: str, tokenised: list[Stage], learned: Stage, train: Stage | None = None
) -> Stage:
    """Write the subwords of a split. For training, apply the limits if they count subwords.

    train: produce only subwords of this encoded training text.
    """
    cleaning = job.cleaning(split)
    if cleaning and not cleaning.subwords:  # already cleaned by length in words
        cleaning = None
    model = job.settings.subword, learned.folder / job.settings.codes, train and train.folder
    sides = (0,) if job.settings.holds_trees else (0, 1)
    keys = [stage.key for stage in tokenised]
    return transform(
        job,
        f"split.{split}",
        [keys, learned.key, cleaning, train.key if train else ""],
        functools.partial(split_pair, model, cleaning, sides),
        [job.files(stage.folder) for stage in tokenised],
        sum(stage.result["pairs"] for stage in tokenised),
        f"splitting {split}",
    )


def split_pair(
    model: tuple[str, Path, Path | None],
    cleaning: Cleaning | None,
    sides: tuple[int, ...],
    *pair: bytes,
) -> tuple[str, str] | str:
    """Return a tokenised pair with these sides (0, 1) as subwords, or why it is dropped.

    model: kind and file of the subwords, and the directory of the encoded training text to whose
    subwords the output is restricted (None: no restriction). With `cleaning`, apply its limits.
    """
    subwords = _load_subwords(*model)
    source, target = (
        subwords.encode(line.decode().split()) if side in sides else line.decode()
        for side, line in enumerate(pair)
    )
    if cleaning and (flaw := cleaning.find_flaw(len(source.split()), len(target.split()))):
        return flaw
    return source, target
