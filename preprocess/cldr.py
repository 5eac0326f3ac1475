#!/usr/bin/env python
"""Generate a parallel English-German corpus from the Unicode CLDR (through Babel) and num2words.

    python preprocess/cldr.py --dest raw

Nothing is downloaded: both libraries contain their data. Each pair is one value (a date, an amount,
a list of countries and so on) that the libraries format in both languages.

CLDR uses no-break, narrow and thin spaces. Each of them becomes a plain space here, because fairseq
and sacreBLEU split at any white space. A reference that kept them would differ invisibly from every
output.
"""

import argparse
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

    from aiayn_plugin.atomic import write_texts_atomically
    from aiayn_plugin.cli.preparation import explain_interrupts
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"cldr.py: error: {missing}; run bash examples/setup.sh, or pip install '.[corpus]'")

MAX_PAIRS = 1_000_000  # in all splits; they fit in memory, and the generator could make far more
MAX_MISSES = 2_000  # consecutive draws without a new pair after which the generator is exhausted

#: For each kind of pair: its function, its weight in the draws, and the labels that may precede it.
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
    """Return a pair of this kind, with or without a label; spaces are its only white space."""
    make, _, labels = KINDS[kind]
    english, german = labelled(rng.choice(labels), make(rng))
    return " ".join(english.split()), " ".join(german.split())


def make_corpus(count: int, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, Pair]:
    """Return `count` pairs in random order, as English sentence -> (kind, German sentence).

    Raises ValueError if these kinds do not yield enough distinct English sentences.
    """
    rng, pairs, misses = Random(seed), dict[str, Pair](), 0
    weights = [KINDS[kind][1] for kind in kinds]
    while len(pairs) < count:
        kind = rng.choices(kinds, weights)[0]
        english, german = draw(rng, kind)
        misses = misses + 1 if english in pairs else 0
        if misses > MAX_MISSES:
            exhausted = f"the generator is exhausted after {len(pairs)}"
            raise ValueError(f"{count} pairs requested, but {exhausted}; ask for fewer")
        pairs.setdefault(english, (kind, german))
    # Small kinds are exhausted early: without shuffling, the last sentences would lack them.
    return dict(rng.sample(list(pairs.items()), count))


def write(dest: Path, splits: Mapping[str, Mapping[str, Pair]]) -> None:
    """Write each split to dest as NAME.en and NAME.de, all files atomically.

    Raises InputError or OSError if a file cannot be written.
    """
    texts = {}
    for name, pairs in splits.items():
        texts[dest / f"{name}.en"] = "".join(f"{english}\n" for english in pairs)
        texts[dest / f"{name}.de"] = "".join(f"{german}\n" for _, german in pairs.values())
    write_texts_atomically(texts)


@explain_interrupts("run the same command again")
def main() -> None:
    """Run the command. An error prints one line and exits with status 1."""
    parser = argparse.ArgumentParser(description="Make an English-German corpus from CLDR.")
    parser.add_argument("--dest", type=Path, required=True, help="directory for the files")
    for name, count in (("train", 40_000), ("valid", 500), ("test", 1_000)):
        text = f"number of pairs in {name}.en and {name}.de (default: {count})"
        parser.add_argument(f"--{name}", type=int, default=count, metavar="PAIRS", help=text)
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    args = parser.parse_args()
    sizes = {name: getattr(args, name) for name in ("train", "valid", "test")}
    total = sum(sizes.values())
    try:
        if min(sizes.values()) < 1:
            raise ValueError("--train, --valid and --test must each be at least 1")
        if total > MAX_PAIRS:
            raise ValueError(
                f"{total} pairs requested, but {MAX_PAIRS} is the maximum; ask for fewer"
            )
        if args.dest.exists() and not args.dest.is_dir():
            raise ValueError(f"{args.dest} is not a directory; choose another --dest")
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
