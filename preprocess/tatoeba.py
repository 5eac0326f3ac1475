#!/usr/bin/env python3
"""Split Tatoeba's sentence pairs into training and validation text, without any test sentence.

    python preprocess/tatoeba.py --pairs deu.txt --test tatoeba-test-*.* --valid 2000 --destdir raw

reads the tab-separated pairs of manythings.org/anki, English first, drops duplicates and pairs with
a side that, ignoring case and punctuation, is a line of a test set, and writes train.en, train.de,
valid.en and valid.de. Both sides of a validation pair occur only once in the corpus.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from aiayn_plugin.atomic import write_texts_atomically
from aiayn_plugin.cli.preparation import explain_interrupts
from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import read_lines

Pair = tuple[str, str]


def key(text: str) -> str:
    """Return the letters and digits of a sentence, in lower case."""
    return "".join(filter(str.isalnum, text.casefold()))


def split_pairs(
    pairs: Iterable[Pair], test: Iterable[str], valid: int
) -> tuple[list[Pair], list[Pair]]:
    """Return the training and the validation pairs, both in the order of a hash of their text.

    test: sentences of test sets, in either language. valid: the number of validation pairs.
    """
    excluded = set(map(key, test))
    kept = [pair for pair in dict.fromkeys(pairs) if excluded.isdisjoint(map(key, pair))]
    kept.sort(key=lambda pair: hashlib.sha256("\t".join(pair).encode()).digest())
    counts = [Counter(key(pair[side]) for pair in kept) for side in (0, 1)]
    unique = [pair for pair in kept if all(counts[i][key(pair[i])] == 1 for i in (0, 1))]
    held_out = dict.fromkeys(unique[:valid])
    return [pair for pair in kept if pair not in held_out], list(held_out)


def read_pairs(path: Path) -> Iterable[Pair]:
    """Yield the pairs of a tab-separated file. Raises InputError for a line with fewer columns."""
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) < 2 or not all(map(str.strip, columns[:2])):
            raise InputError(f"{path}, line {number}: expected English, a tab and German")
        yield columns[0], columns[1]


@explain_interrupts("run the same command again")
def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--pairs", type=Path, required=True, help="tab-separated file: English, then German"
    )
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="test sets, raw text")
    parser.add_argument("--valid", type=int, default=2000, help="validation pairs (default: 2000)")
    parser.add_argument("--destdir", type=Path, required=True, help="directory to write to")
    args = parser.parse_args()
    if args.valid < 1:
        parser.error("--valid must be at least 1")
    try:
        pairs = list(read_pairs(args.pairs))
        test = [line for path in args.test for line in read_lines(path)]
        splits = dict(zip(("train", "valid"), split_pairs(pairs, test, args.valid), strict=True))
        if len(splits["valid"]) < args.valid or not splits["train"]:
            raise InputError(
                f"{args.pairs} has too few pairs whose sentences occur once and in no test set "
                f"({len(splits['valid'])}) for --valid {args.valid}"
            )
        texts = {
            args.destdir / f"{split}.{lang}": "".join(f"{pair[side]}\n" for pair in kept)
            for split, kept in splits.items()
            for side, lang in enumerate(("en", "de"))
        }
        write_texts_atomically(texts)
    except (InputError, OSError) as error:
        sys.exit(f"tatoeba.py: error: {error}")
    print("pairs:", ", ".join(f"{split} {len(kept):,}" for split, kept in splits.items()))


if __name__ == "__main__":
    main()
