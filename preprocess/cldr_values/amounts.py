"""Numbers in words and in digits, money and measures."""

from datetime import date
from decimal import Decimal
from random import Random
from typing import Literal

from babel import numbers, units
from num2words import num2words  # type: ignore[import-untyped]

from .names import COUNTRIES, DE, EN, Pair, both, labelled

LENGTHS: tuple[Literal["long", "short"], ...] = ("long", "short")
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
    # No days and no bars: their long and short forms are equal in English but differ in German.
    "Duration/Dauer": "second minute hour week month year decade century",
    "Speed/Geschwindigkeit": "kilometer-per-hour meter-per-second mile-per-hour knot",
    "Temperature/Temperatur": "celsius fahrenheit kelvin",
    "File size/Dateigröße": "byte kilobyte megabyte gigabyte terabyte",
    "Power/Leistung": "watt kilowatt megawatt gigawatt horsepower",
    "Energy/Energie": "joule kilojoule kilocalorie kilowatt-hour",
    "Pressure/Druck": "hectopascal kilopascal atmosphere",
    "Frequency/Frequenz": "hertz kilohertz megahertz gigahertz",
}
# Current currencies, as of a fixed day, so that the corpus does not depend on the date.
CURRENCIES = sorted(
    {code for c in COUNTRIES for code in numbers.get_territory_currencies(c, date(2025, 1, 1))}
    & {code for code, name in DE.currencies.items() if "(" not in name and name != code}
)
# Currencies with a sign such as $. CLDR wants a space after letters (PLN 5), but Babel omits it.
SIGNS = [code for code in CURRENCIES if not numbers.get_currency_symbol(code, EN)[-1].isalpha()]


def amount(rng: Random, digits: int = 4, places: int = 2) -> int | Decimal:
    """Return a positive number with up to `digits` digits before the point and `places` after it.

    About half of the numbers are whole.
    """
    whole = rng.randrange(1, 10 ** rng.randint(1, digits))
    fraction = rng.randrange(1, 10**places) if rng.random() < 0.5 else 0
    return whole + Decimal(fraction).scaleb(-places).normalize() if fraction else whole


def words(number: int | Decimal, to: str = "cardinal", **options: str) -> Pair:
    """Return the number in words: twenty-one / einundzwanzig."""
    english: str = num2words(number, lang="en", to=to, **options)
    german: str = num2words(number, lang="de", to=to, **options)
    # num2words gives "einhunderteinstausend" for 101000, instead of "einhunderteintausend".
    return english, german.replace("einstausend", "eintausend")


def ordinal(rng: Random) -> Pair:
    """Return an ordinal with its noun, in words: The second week / Die zweite Woche."""
    (english, german), (frame, frame_de) = (
        words(rng.randint(1, 999), "ordinal"),
        rng.choice(ORDERED),
    )
    return frame.format(english), frame_de.format(german)


def money_in_words(rng: Random) -> Pair:
    """Return an amount in words: one dollar, two cents / ein Dollar und zwei Cent."""
    value = Decimal(rng.randrange(101, 10**5)).scaleb(-2)
    return words(value, "currency", currency=rng.choice(("EUR", "USD", "GBP")))


def arithmetic(rng: Random) -> Pair:
    """Return an equation in words: two times two equals four / zwei mal zwei ist gleich vier."""
    b, a = sorted(rng.choices(range(100), k=2))  # a is greater, so that no result is negative
    results = (("plus", "plus", a + b), ("minus", "minus", a - b), ("times", "mal", a * b))
    sign, sign_de, result = rng.choice(results)
    left, right, total = words(a), words(b), words(result)
    english = f"{left[0]} {sign} {right[0]} equals {total[0]}"
    return english, f"{left[1]} {sign_de} {right[1]} ist gleich {total[1]}"


def decimal(rng: Random) -> Pair:
    """Return a number in digits: -1,234.5 / -1.234,5."""
    value = amount(rng, 7, 3) * rng.choice((1, 1, 1, -1))
    return both(lambda locale: numbers.format_decimal(value, locale=locale))


def percent(rng: Random) -> Pair:
    """Return a percentage: 34.5% / 34,5 %."""
    value = Decimal(amount(rng, 3)).scaleb(-2)
    return both(lambda locale: numbers.format_percent(value, None, locale, False))


def compact(rng: Random) -> Pair:
    """Return a rounded large number: 1.2 million / 1,2 Millionen.

    The smallest is 1.1 million: below a million the short German form has more digits.
    """
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
    """Return a measure, with or without a label: Length: 5.5 m / Länge: 5,5 m."""
    label, choices = rng.choice(list(MEASURES.items()))
    value, unit, length = amount(rng), rng.choice(choices.split()), rng.choice(LENGTHS)
    pair = both(lambda locale: units.format_unit(value, unit, length, locale=locale))
    return labelled(rng.choice(("", label)), pair)
