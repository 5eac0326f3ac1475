"""Dates, times of day, intervals and durations."""

from datetime import datetime, timedelta
from random import Random

from babel import Locale, dates, units
from babel.lists import format_list

from .amounts import words
from .names import DE, EN, MONTHS, WEEKDAYS, Kind, Pair, both

STYLES = ("full", "long", "short")
# No "medium": then "May 7, 1998" would have two German forms, 07.05.1998 and 7. Mai 1998.
DAYS = ("yMMMd", "yMMMEd", "yMd", "yMEd", "MMMd", "MMMEd", "MMMMd", "MEd", "Md")
CALENDAR = ("yMMM", "yMMMM", "GyMMM", "yQQQQ", "yw", "MMMMW")
PERIODS = ("yMMMd", "yMMMEd", "yMd", "MMMd", "MMMEd", "MEd", "yMMMM")
#: The greatest value of each unit in a duration.
UNITS = (("day", 30), ("hour", 23), ("minute", 59), ("second", 59))


def moment(rng: Random) -> datetime:
    """Return a random second from 1900 to 2049."""
    return datetime(1900, 1, 1) + timedelta(seconds=rng.randrange(150 * 365 * 86400))


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
    values = [(unit, rng.randint(1, top)) for unit, top in UNITS[first : rng.randint(first + 2, 4)]]

    def write(locale: Locale) -> str:
        texts = [units.format_unit(value, unit, locale=locale) for unit, value in values]
        return format_list(texts, locale=locale)

    return both(write)


def day_in_words(rng: Random) -> Pair:
    """Return a date in words: Monday, the first of May, ... / Montag, der erste Mai ..."""
    when = moment(rng)
    weekday, month = WEEKDAYS[when.weekday()], MONTHS[when.month - 1]
    nth, year = words(when.day, "ordinal"), words(when.year, "year")
    english = f"{weekday[0]}, the {nth[0]} of {month[0]}, {year[0]}"
    return english, f"{weekday[1]}, der {nth[1]} {month[1]} {year[1]}"
