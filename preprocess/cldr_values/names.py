"""The two languages, and their names of weekdays, months, languages and countries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Literal

from babel import Locale
from babel.core import get_global
from babel.lists import format_list

Pair = tuple[str, str]
#: A function that draws one value.
Kind = Callable[[Random], Pair]

EN, DE = Locale("en"), Locale("de")
AND_OR: tuple[Literal["standard", "or"], ...] = ("standard", "standard", "or")
WEEKDAYS = [(EN.days["format"]["wide"][i], DE.days["format"]["wide"][i]) for i in range(7)]
MONTHS = [(EN.months["format"]["wide"][i], DE.months["format"]["wide"][i]) for i in range(1, 13)]


def both(write: Callable[[Locale], str]) -> Pair:
    """Return what `write` gives for the English and for the German locale."""
    return write(EN), write(DE)


def labelled(label: str, pair: Pair) -> Pair:
    """Return the pair after its label, which is "English/German" or empty."""
    if not label:
        return pair
    english, german = label.split("/")
    return f"{english}: {pair[0]}", f"{german}: {pair[1]}"


def _shared(english: Mapping[str, str], german: Mapping[str, str]) -> dict[str, Pair]:
    """Return the names that both tables have, in the order of their two-letter codes.

    A name with parentheses is left out: in the other language the same name may lack them.
    """
    codes = sorted(code for code in english if len(code) == 2 and code in german)
    return {c: (english[c], german[c]) for c in codes if "(" not in english[c] + german[c]}


LANGUAGES = _shared(EN.languages, DE.languages)
_LIKELY = get_global("likely_subtags")
_SPEAKERS = {
    country: sorted(LANGUAGES.keys() & _LIKELY.keys() & languages.keys())
    for country, languages in get_global("territory_languages").items()
}
COUNTRIES = {
    c: names for c, names in _shared(EN.territories, DE.territories).items() if _SPEAKERS.get(c)
}


def listed(rng: Random, items: Sequence[Pair]) -> Pair:
    """Return one to four of the items as a list: Chad and Italy / Tschad und Italien."""
    chosen = rng.sample(items, rng.randint(1, min(4, len(items))))
    english, german = ([item[side] for item in chosen] for side in (0, 1))
    style = rng.choice(AND_OR)
    return format_list(english, style, EN), format_list(german, style, DE)


def list_of(items: Iterable[Pair]) -> Kind:
    """Return the kind of pair that lists some of these items."""
    choices = list(items)
    return lambda rng: listed(rng, choices)


def spoken(rng: Random) -> Pair:
    """Return languages spoken in a country: Chad: Arabic and French / Tschad: ..."""
    country = rng.choice(list(COUNTRIES))
    english, german = listed(rng, [LANGUAGES[code] for code in _SPEAKERS[country]])
    return f"{COUNTRIES[country][0]}: {english}", f"{COUNTRIES[country][1]}: {german}"


def written(rng: Random) -> Pair:
    """Return a language, its script and a country: Thai (Thai, Laos) / ..."""
    country = rng.choice(list(COUNTRIES))
    code = rng.choice(_SPEAKERS[country])
    script = _LIKELY.get(f"{code}_{country}", _LIKELY[code]).split("_")[1]
    # CLDR leaves out a name that equals its code, such as the German "Thai".
    english, german = EN.scripts.get(script, script), DE.scripts.get(script, script)
    return (
        f"{LANGUAGES[code][0]} ({english}, {COUNTRIES[country][0]})",
        f"{LANGUAGES[code][1]} ({german}, {COUNTRIES[country][1]})",
    )
