#!/usr/bin/env python
"""Make a parallel English-German corpus from the Unicode CLDR (by Babel) and num2words.

Nothing is downloaded: both libraries carry their data with them.  Every pair is one value (a date,
an amount, a list of countries, ...) that the library writes in both languages, and the English
always determines the German, so that a perfect translation exists.

White space: CLDR separates by no-break, narrow and thin spaces.  Here each becomes one plain space,
because programs that split at white space (fairseq, sacreBLEU) take them for plain spaces anyway,
and references that keep them would differ from every output by something nobody can see.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal

try:
    from babel import Locale, dates, numbers, units
    from babel.core import get_global
    from babel.lists import format_list
    from num2words import num2words  # type: ignore[import-untyped]
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"cldr.py: error: {missing}; run: pip install babel num2words")

Pair = tuple[str, str]
Kind = Callable[[Random], Pair]

EN, DE = Locale("en"), Locale("de")
LIMIT = 1_000_000  # pairs in all: the generator is far from exhausted, and they fit in memory
PATIENCE = 2_000  # draws in a row without a new pair that show a generator to be exhausted

STYLES = ("full", "long", "short")
# Not "medium": its German (07.05.1998) would be a second one for the English "May 7, 1998".
DAYS = ("yMMMd", "yMMMEd", "yMd", "yMEd", "MMMd", "MMMEd", "MMMMd", "MEd", "Md")
CALENDAR = ("yMMM", "yMMMM", "GyMMM", "yQQQQ", "yw", "MMMMW")
PERIODS = ("yMMMd", "yMMMEd", "yMd", "MMMd", "MMMEd", "MEd", "yMMMM")
AND_OR: tuple[Literal["standard", "or"], ...] = ("standard", "standard", "or")
TIMES = (("day", 30), ("hour", 23), ("minute", 59), ("second", 59))
LENGTHS: tuple[Literal["long", "short"], ...] = ("long", "short")
WEEKDAYS = [(EN.days["format"]["wide"][i], DE.days["format"]["wide"][i]) for i in range(7)]
MONTHS = [(EN.months["format"]["wide"][i], DE.months["format"]["wide"][i]) for i in range(1, 13)]
ORDERED = [
    *(("The {} day", "Der {} Tag"), ("The {} week", "Die {} Woche")),
    *(("The {} month", "Der {} Monat"), ("The {} year", "Das {} Jahr")),
    *(("The {} page", "Die {} Seite"), ("The {} chapter", "Das {} Kapitel")),
    *(("The {} question", "Die {} Frage"), ("The {} visitor", "Der {} Besucher")),
]
MEASURES = {
    "Length/Länge": "millimeter centimeter meter kilometer inch foot yard",
    "Distance/Entfernung": "meter kilometer mile nautical-mile light-year",
    "Weight/Gewicht": "milligram gram kilogram tonne ounce pound carat",
    "Area/Fläche": "square-centimeter square-meter square-kilometer hectare acre",
    "Volume/Volumen": "milliliter liter hectoliter cubic-meter gallon pint barrel",
    # Neither days nor bars, whose long and short form are one in English but two in German.
    "Duration/Dauer": "second minute hour week month year decade century",
    "Speed/Geschwindigkeit": "kilometer-per-hour meter-per-second mile-per-hour knot",
    "Temperature/Temperatur": "celsius fahrenheit kelvin",
    "File size/Dateigröße": "byte kilobyte megabyte gigabyte terabyte",
    "Power/Leistung": "watt kilowatt megawatt gigawatt horsepower",
    "Energy/Energie": "joule kilojoule kilocalorie kilowatt-hour",
    "Pressure/Druck": "hectopascal kilopascal atmosphere",
    "Frequency/Frequenz": "hertz kilohertz megahertz gigahertz",
}


def shared(english: Mapping[str, str], german: Mapping[str, str]) -> dict[str, Pair]:
    """Return the names that both tables have by two-letter code, in the order of the codes."""
    codes = sorted(code for code in english if len(code) == 2 and code in german)
    # Parentheses tell apart what the name in the other language leaves unsaid.
    return {c: (english[c], german[c]) for c in codes if "(" not in english[c] + german[c]}


LANGUAGES = shared(EN.languages, DE.languages)
LIKELY = get_global("likely_subtags")
SPEAKERS = {
    country: sorted(LANGUAGES.keys() & LIKELY.keys() & languages.keys())
    for country, languages in get_global("territory_languages").items()
}
COUNTRIES = {
    c: names for c, names in shared(EN.territories, DE.territories).items() if SPEAKERS.get(c)
}
# Money of the present; the day is fixed so that the corpus does not depend on today's.
CURRENCIES = sorted(
    {code for c in COUNTRIES for code in numbers.get_territory_currencies(c, date(2025, 1, 1))}
    & {code for code, name in DE.currencies.items() if "(" not in name and name != code}
)
# Those with a sign of their own: behind letters CLDR wants a space (PLN 5) that Babel leaves out.
SIGNS = [code for code in CURRENCIES if not numbers.get_currency_symbol(code, EN)[-1].isalpha()]


def both(write: Callable[[Locale], str]) -> Pair:
    """Return what `write` makes of the English and of the German locale."""
    return write(EN), write(DE)


def moment(rng: Random) -> datetime:
    """Return a second of the years 1900 to 2049."""
    return datetime(1900, 1, 1) + timedelta(seconds=rng.randrange(150 * 365 * 86400))


def amount(rng: Random, digits: int = 4, places: int = 2) -> int | Decimal:
    """Return a positive number, about every second one whole, of up to so many digits."""
    whole = rng.randrange(1, 10 ** rng.randint(1, digits))
    fraction = rng.randrange(1, 10**places) if rng.random() < 0.5 else 0
    return whole + Decimal(fraction).scaleb(-places).normalize() if fraction else whole


def words(number: int | Decimal, to: str = "cardinal", **options: str) -> Pair:
    """Return the number in words: twenty-one / einundzwanzig."""
    english: str = num2words(number, lang="en", to=to, **options)
    german: str = num2words(number, lang="de", to=to, **options)
    # num2words makes 101000 "einhunderteinstausend", but inside a number "eins" loses its s.
    return english, german.replace("einstausend", "eintausend")


def listed(rng: Random, items: Sequence[Pair]) -> Pair:
    """Return one to four of the items listed: Chad and Italy / Tschad und Italien."""
    chosen = rng.sample(items, rng.randint(1, min(4, len(items))))
    english, german = ([item[side] for item in chosen] for side in (0, 1))
    style = rng.choice(AND_OR)
    return format_list(english, style, EN), format_list(german, style, DE)


def list_of(items: Iterable[Pair]) -> Kind:
    """Return the kind of pair that lists some of these items."""
    choices = list(items)
    return lambda rng: listed(rng, choices)


def dated(*forms: str) -> Kind:
    """Return the kind of pair that is a date in one of these forms: May 7 / 7. Mai."""

    def make(rng: Random) -> Pair:
        when, form = moment(rng), rng.choice(forms)
        if form in STYLES:
            return both(lambda locale: dates.format_date(when, form, locale))
        return both(lambda locale: dates.format_skeleton(form, when, locale=locale))

    return make


day = dated(*STYLES, *DAYS)


def time(rng: Random) -> Pair:
    """Return a time of day: 3:05 PM / 15:05."""
    when, form = moment(rng), rng.choice(("short", "medium"))
    return both(lambda locale: dates.format_time(when, form, locale=locale))


def day_and_time(rng: Random) -> Pair:
    """Return a date with a time: May 7 at 3:05 PM / 7. Mai um 15:05 Uhr."""
    (day_en, day_de), (time_en, time_de) = day(rng), time(rng)
    if rng.random() < 0.5:
        return f"{day_en}, {time_en}", f"{day_de}, {time_de}"
    return f"{day_en} at {time_en}", f"{day_de} um {time_de} Uhr"


def days(rng: Random) -> Pair:
    """Return an interval of days: May 7 – 10, 1998 / 7.–10. Mai 1998."""
    start, form = moment(rng), rng.choice(PERIODS)
    end = start + timedelta(days=int(10 ** rng.uniform(0, 2.3)))
    return both(lambda locale: dates.format_interval(start, end, form, locale=locale))


def hours(rng: Random) -> Pair:
    """Return an interval of times: 3:05 – 5:15 PM / 15:05–17:15 Uhr."""
    first, last = sorted(rng.sample(range(0, 24 * 60, 5), 2))
    start, end = (datetime(2000, 1, 1) + timedelta(minutes=minute) for minute in (first, last))
    english = dates.format_interval(start, end, "hm", locale=EN)
    return english, dates.format_interval(start, end, "Hm", locale=DE)


def relative(sign: int) -> Kind:
    """Return the kind of pair that is a time from now (1) or ago (-1): in 3 days / in 3 Tagen."""

    def make(rng: Random) -> Pair:
        gap = timedelta(seconds=sign * int(10 ** rng.uniform(0, 9.5)))
        return both(lambda locale: dates.format_timedelta(gap, "second", 1, True, locale=locale))

    return make


def duration(rng: Random) -> Pair:
    """Return a duration: 2 hours and 5 minutes / 2 Stunden und 5 Minuten."""
    first = rng.randrange(3)
    parts = [(unit, rng.randint(1, top)) for unit, top in TIMES[first : rng.randint(first + 2, 4)]]

    def write(locale: Locale) -> str:
        said = [units.format_unit(value, unit, locale=locale) for unit, value in parts]
        return format_list(said, locale=locale)

    return both(write)


def ordinal(rng: Random) -> Pair:
    """Return a place in a row, in words: The second week / Die zweite Woche."""
    (english, german), (frame, rahmen) = words(rng.randint(1, 999), "ordinal"), rng.choice(ORDERED)
    return frame.format(english), rahmen.format(german)


def day_in_words(rng: Random) -> Pair:
    """Return a date in words: Monday, the first of May, ... / Montag, der erste Mai ..."""
    when = moment(rng)
    weekday, month = WEEKDAYS[when.weekday()], MONTHS[when.month - 1]
    nth, year = words(when.day, "ordinal"), words(when.year, "year")
    english = f"{weekday[0]}, the {nth[0]} of {month[0]}, {year[0]}"
    return english, f"{weekday[1]}, der {nth[1]} {month[1]} {year[1]}"


def money_in_words(rng: Random) -> Pair:
    """Return an amount in words: one dollar, two cents / ein Dollar und zwei Cent."""
    value = Decimal(rng.randrange(101, 10**5)).scaleb(-2)
    return words(value, "currency", currency=rng.choice(("EUR", "USD", "GBP")))


def arithmetic(rng: Random) -> Pair:
    """Return a sum in words: two times two equals four / zwei mal zwei ist gleich vier."""
    b, a = sorted(rng.choices(range(100), k=2))  # the greater first: no result is below zero
    sums = (("plus", "plus", a + b), ("minus", "minus", a - b), ("times", "mal", a * b))
    sign, zeichen, result = rng.choice(sums)
    left, right, total = words(a), words(b), words(result)
    english = f"{left[0]} {sign} {right[0]} equals {total[0]}"
    return english, f"{left[1]} {zeichen} {right[1]} ist gleich {total[1]}"


def decimal(rng: Random) -> Pair:
    """Return a number in digits: -1,234.5 / -1.234,5."""
    value = amount(rng, 7, 3) * rng.choice((1, 1, 1, -1))
    return both(lambda locale: numbers.format_decimal(value, locale=locale))


def percent(rng: Random) -> Pair:
    """Return a percentage: 34.5% / 34,5 %."""
    value = Decimal(amount(rng, 3)).scaleb(-2)
    return both(lambda locale: numbers.format_percent(value, None, locale, False))


def compact(rng: Random) -> Pair:
    """Return a rounded large number: 1.2 million / 1,2 Millionen."""
    # From 1.1 million: below a million the short German form gives more digits than the English.
    value = Decimal(rng.randrange(11, 9999)).scaleb(rng.choice((5, 8, 11)))
    length = rng.choice(LENGTHS)
    return both(
        lambda locale: numbers.format_compact_decimal(
            value, format_type=length, locale=locale, fraction_digits=1
        )
    )


def price(rng: Random) -> Pair:
    """Return an amount with the sign of its currency: $1,234.50 / 1.234,50 $."""
    value, code = amount(rng, 5), rng.choice(SIGNS)
    return both(lambda locale: numbers.format_currency(value, code, locale=locale))


def money(rng: Random) -> Pair:
    """Return an amount with the name of its currency: 5 Thai baht / 5 Thailändische Baht."""
    value, code = rng.randrange(1, 10 ** rng.randint(1, 6)), rng.choice(CURRENCIES)
    return both(lambda locale: numbers.format_currency(value, code, "#,##0", locale, False, "name"))


def measure(rng: Random) -> Pair:
    """Return a measure, or a labelled one: Length: 5.5 m / Länge: 5,5 m."""
    label, choices = rng.choice(list(MEASURES.items()))
    value, unit, length = amount(rng), rng.choice(choices.split()), rng.choice(LENGTHS)
    said = both(lambda locale: units.format_unit(value, unit, length, locale=locale))
    return labelled(rng.choice(("", label)), said)


def spoken(rng: Random) -> Pair:
    """Return languages spoken in a country: Chad: Arabic and French / Tschad: ..."""
    country = rng.choice(list(COUNTRIES))
    english, german = listed(rng, [LANGUAGES[code] for code in SPEAKERS[country]])
    return f"{COUNTRIES[country][0]}: {english}", f"{COUNTRIES[country][1]}: {german}"


def written(rng: Random) -> Pair:
    """Return a language, its script and a country: Thai (Thai, Laos) / ..."""
    country = rng.choice(list(COUNTRIES))
    code = rng.choice(SPEAKERS[country])
    script = LIKELY.get(f"{code}_{country}", LIKELY[code]).split("_")[1]
    # A name equal to the code is left out of CLDR (German "Thai").
    english, german = EN.scripts.get(script, script), DE.scripts.get(script, script)
    return (
        f"{LANGUAGES[code][0]} ({english}, {COUNTRIES[country][0]})",
        f"{LANGUAGES[code][1]} ({german}, {COUNTRIES[country][1]})",
    )


# Kind of pair -> its function, its share of the draws, and the labels it may stand behind.
KINDS: dict[str, tuple[Kind, int, list[str]]] = {
    "date": (day, 9, ["", "Date/Datum", "Delivery date/Lieferdatum", "Date of birth/Geburtsdatum"]),
    "time": (time, 3, ["", "Departure/Abfahrt", "Arrival/Ankunft"]),
    "date and time": (day_and_time, 7, ["", "Meeting/Besprechung", "Last change/Letzte Änderung"]),
    "calendar": (dated(*CALENDAR), 3, [""]),
    "interval of days": (days, 6, ["", "Trip/Reise", "Course/Kurs"]),
    "interval of times": (hours, 3, ["", "Shift/Schicht"]),
    "time ago": (relative(-1), 2, ["", "Last change/Letzte Änderung"]),
    "time from now": (relative(1), 2, ["", "Next delivery/Nächste Lieferung"]),
    "duration": (duration, 3, ["", "Remaining time/Verbleibende Zeit"]),
    "weekdays": (list_of(WEEKDAYS), 1, ["", "Closed/Geschlossen"]),
    "months": (list_of(MONTHS), 2, ["", "Season/Saison"]),
    "number in words": (lambda rng: words(rng.randrange(10 ** rng.randint(2, 6))), 6, [""]),
    "decimal in words": (lambda rng: words(amount(rng)), 3, [""]),
    "ordinal in words": (ordinal, 3, [""]),
    "year in words": (lambda rng: words(rng.randint(1100, 2099), "year"), 1, ["", "Year/Jahr"]),
    "date in words": (day_in_words, 5, [""]),
    "money in words": (money_in_words, 5, [""]),
    "arithmetic in words": (arithmetic, 4, [""]),
    "decimal": (decimal, 3, [""]),
    "percentage": (percent, 2, ["", "Growth/Wachstum", "Change/Veränderung"]),
    "compact number": (compact, 3, ["", "Estimate/Schätzung"]),
    "price": (price, 5, ["", "Price/Preis", "Total/Gesamtbetrag"]),
    "money": (money, 5, ["", "Amount/Betrag"]),
    "measure": (measure, 8, [""]),
    "countries": (
        list_of(COUNTRIES.values()),
        8,
        ["", "Countries/Länder", "Destinations/Reiseziele"],
    ),
    # Always labelled: "Nauru" alone would be a language (Nauruisch) or a country (Nauru).
    "languages": (list_of(LANGUAGES.values()), 6, ["Languages/Sprachen", "Course/Kurs"]),
    "languages of a country": (spoken, 4, [""]),
    "language and script": (written, 2, [""]),
}


def labelled(label: str, pair: Pair) -> Pair:
    """Return the pair behind its label, which is "English/German" or empty."""
    if not label:
        return pair
    english, german = label.split("/")
    return f"{english}: {pair[0]}", f"{german}: {pair[1]}"


def draw(rng: Random, kind: str) -> Pair:
    """Return one pair of that kind, with or without a label, every white space a plain one."""
    make, _, labels = KINDS[kind]
    english, german = labelled(rng.choice(labels), make(rng))
    return " ".join(english.split()), " ".join(german.split())


def corpus(count: int, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, Pair]:
    """Return `count` pairs in random order, as English sentence -> (kind, German sentence).

    Raises ValueError if these kinds cannot make so many different English sentences.
    """
    rng, found, misses = Random(seed), dict[str, Pair](), 0
    weights = [KINDS[kind][1] for kind in kinds]
    while len(found) < count:
        kind = rng.choices(kinds, weights)[0]
        english, german = draw(rng, kind)
        misses = misses + 1 if english in found else 0
        if misses > PATIENCE:
            have = f"the generator is exhausted after {len(found)}"
            raise ValueError(f"{count} pairs asked for, but {have}; ask for fewer")
        found.setdefault(english, (kind, german))
    # The small kinds run dry early: without a shuffle the last sentences would lack them.
    return dict(rng.sample(list(found.items()), count))


def write(dest: Path, splits: Mapping[str, Mapping[str, Pair]]) -> None:
    """Write each split to dest as NAME.en and NAME.de, each file whole or not at all.

    Raises OSError if that fails.
    """
    texts = {}
    for name, part in splits.items():
        texts[dest / f"{name}.en"] = "".join(f"{english}\n" for english in part)
        texts[dest / f"{name}.de"] = "".join(f"{german}\n" for _, german in part.values())
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
    """Write the corpus as the command line says; on bad input exit with one line and status 1."""
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
        found = corpus(total, args.seed)
        rest = iter(found.items())
        write(args.dest, {name: dict(islice(rest, size)) for name, size in sizes.items()})
    except (ValueError, OSError) as error:
        sys.exit(f"cldr.py: error: {error}")
    cldr = get_global("cldr").get("version", "unknown")
    print(f"Babel {version('babel')} (CLDR {cldr}), num2words {version('num2words')}")
    for kind, count in sorted(Counter(kind for kind, _ in found.values()).items()):
        print(f"{count:7} {kind}")
    print(f"{total:7} pairs: {', '.join(f'{size} {name}' for name, size in sizes.items())}")


if __name__ == "__main__":
    main()
