#!/usr/bin/env python
"""Make a parallel English-German corpus from the Unicode CLDR (by Babel) and num2words.

    python preprocess/cldr.py --dest raw

Nothing is downloaded: both libraries contain their data. Each pair is one value (a date, an amount,
a list of countries and so on) that the libraries write in both languages.

CLDR uses no-break, narrow and thin spaces. Each of them becomes a plain space here, because fairseq
and sacreBLEU split at any white space. A reference that kept them would differ from every output,
and nobody could see the difference.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from random import Random

try:
    from babel.core import get_global
    from cldr_values import amounts, names, times
    from cldr_values.amounts import amount, words
    from cldr_values.names import Kind, Pair, labelled, list_of
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"cldr.py: error: {missing}; run: pip install babel num2words")

LIMIT = 1_000_000  # pairs in all; they fit in memory, and the generator could make far more
PATIENCE = 2_000  # after so many draws in a row without a new pair the generator is exhausted

#: For each kind of pair: its function, its share of the draws, and the labels that may precede it.
KINDS: dict[str, tuple[Kind, int, list[str]]] = {
    "date": (
        times.day,
        9,
        ["", "Date/Datum", "Delivery date/Lieferdatum", "Date of birth/Geburtsdatum"],
    ),
    "time": (times.time, 3, ["", "Departure/Abfahrt", "Arrival/Ankunft"]),
    "date and time": (
        times.day_and_time,
        7,
        ["", "Meeting/Besprechung", "Last change/Letzte Änderung"],
    ),
    "calendar": (times.dated(*times.CALENDAR), 3, [""]),
    "interval of days": (times.days, 6, ["", "Trip/Reise", "Course/Kurs"]),
    "interval of times": (times.hours, 3, ["", "Shift/Schicht"]),
    "time ago": (times.relative(-1), 2, ["", "Last change/Letzte Änderung"]),
    "time from now": (times.relative(1), 2, ["", "Next delivery/Nächste Lieferung"]),
    "duration": (times.duration, 3, ["", "Remaining time/Verbleibende Zeit"]),
    "weekdays": (list_of(names.WEEKDAYS), 1, ["", "Closed/Geschlossen"]),
    "months": (list_of(names.MONTHS), 2, ["", "Season/Saison"]),
    "number in words": (lambda rng: words(rng.randrange(10 ** rng.randint(2, 6))), 6, [""]),
    "decimal in words": (lambda rng: words(amount(rng)), 3, [""]),
    "ordinal in words": (amounts.ordinal, 3, [""]),
    "year in words": (lambda rng: words(rng.randint(1100, 2099), "year"), 1, ["", "Year/Jahr"]),
    "date in words": (times.day_in_words, 5, [""]),
    "money in words": (amounts.money_in_words, 5, [""]),
    "arithmetic in words": (amounts.arithmetic, 4, [""]),
    "decimal": (amounts.decimal, 3, [""]),
    "percentage": (amounts.percent, 2, ["", "Growth/Wachstum", "Change/Veränderung"]),
    "compact number": (amounts.compact, 3, ["", "Estimate/Schätzung"]),
    "price": (amounts.price, 5, ["", "Price/Preis", "Total/Gesamtbetrag"]),
    "money": (amounts.money, 5, ["", "Amount/Betrag"]),
    "measure": (amounts.measure, 8, [""]),
    "countries": (
        list_of(names.COUNTRIES.values()),
        8,
        ["", "Countries/Länder", "Destinations/Reiseziele"],
    ),
    # No empty label: "Nauru" alone could be a language (Nauruisch) or a country (Nauru).
    "languages": (list_of(names.LANGUAGES.values()), 6, ["Languages/Sprachen", "Course/Kurs"]),
    "languages of a country": (names.spoken, 4, [""]),
    "language and script": (names.written, 2, [""]),
}


def draw(rng: Random, kind: str) -> Pair:
    """Return one pair of that kind, with or without a label. It has no white space but spaces."""
    make, _, labels = KINDS[kind]
    english, german = labelled(rng.choice(labels), make(rng))
    return " ".join(english.split()), " ".join(german.split())


def make_corpus(count: int, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, Pair]:
    """Return `count` pairs in random order, as English sentence -> (kind, German sentence).

    Raises ValueError if these kinds cannot make so many different English sentences.
    """
    rng, pairs, misses = Random(seed), dict[str, Pair](), 0
    weights = [KINDS[kind][1] for kind in kinds]
    while len(pairs) < count:
        kind = rng.choices(kinds, weights)[0]
        english, german = draw(rng, kind)
        misses = misses + 1 if english in pairs else 0
        if misses > PATIENCE:
            exhausted = f"the generator is exhausted after {len(pairs)}"
            raise ValueError(f"{count} pairs asked for, but {exhausted}; ask for fewer")
        pairs.setdefault(english, (kind, german))
    # The small kinds are exhausted early: without a shuffle the last sentences would lack them.
    return dict(rng.sample(list(pairs.items()), count))


def write(dest: Path, splits: Mapping[str, Mapping[str, Pair]]) -> None:
    """Write each split to dest as NAME.en and NAME.de, and each file whole or not at all.

    Raises OSError if that fails.
    """
    texts = {}
    for name, pairs in splits.items():
        texts[dest / f"{name}.en"] = "".join(f"{english}\n" for english in pairs)
        texts[dest / f"{name}.de"] = "".join(f"{german}\n" for _, german in pairs.values())
    asides = {path: path.with_name(f"{path.name}.part") for path in texts}
    dest.mkdir(parents=True, exist_ok=True)
    try:
        for path, text in texts.items():
            asides[path].write_text(text, encoding="utf-8", newline="\n")
        for path, aside in asides.items():
            os.replace(aside, path)
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)


def main() -> None:
    """Write the corpus as the command line says. An error ends in one line and status 1."""
    parser = argparse.ArgumentParser(description="Make an English-German corpus from CLDR.")
    parser.add_argument("--dest", type=Path, required=True, help="folder to write the files into")
    for name, count in (("train", 40_000), ("valid", 500), ("test", 1_000)):
        text = f"pairs in {name}.en and {name}.de (default: {count})"
        parser.add_argument(f"--{name}", type=int, default=count, metavar="PAIRS", help=text)
    parser.add_argument("--seed", type=int, default=1, help="same seed, same corpus (default: 1)")
    args = parser.parse_args()
    sizes = {name: getattr(args, name) for name in ("train", "valid", "test")}
    total = sum(sizes.values())
    try:
        if min(sizes.values()) < 1:
            raise ValueError("--train, --valid and --test must each be at least 1")
        if total > LIMIT:
            raise ValueError(f"{total} pairs asked for, but {LIMIT} is the most; ask for fewer")
        if args.dest.exists() and not args.dest.is_dir():
            raise ValueError(f"{args.dest} is not a folder; name another one with --dest")
        pairs = make_corpus(total, args.seed)
        rest = iter(pairs.items())
        write(args.dest, {name: dict(islice(rest, size)) for name, size in sizes.items()})
    except (ValueError, OSError) as error:
        sys.exit(f"cldr.py: error: {error}")
    cldr = get_global("cldr").get("version", "unknown")
    print(f"Babel {version('babel')} (CLDR {cldr}), num2words {version('num2words')}")
    for kind, count in sorted(Counter(kind for kind, _ in pairs.values()).items()):
        print(f"{count:7} {kind}")
    print(f"{total:7} pairs: {', '.join(f'{size} {name}' for name, size in sizes.items())}")


if __name__ == "__main__":
    main()
