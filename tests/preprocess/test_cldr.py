"""`preprocess/cldr.py`: a corpus without a download."""

import os
import subprocess
import sys
import unicodedata
import venv
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import cldr
import pytest
from babel.units import format_unit
from cldr_values import amounts, names, times
from cldr_values.amounts import words

SIZES = {"train": 300, "valid": 30, "test": 60}
FILES = [f"{name}.{lang}" for name in SIZES for lang in ("en", "de")]


def run(dest, *options, python=sys.executable, **env):
    """Run the command as a user does. The corpus is small unless `options` say otherwise."""
    sizes = [f"--{name}={size}" for name, size in SIZES.items()]
    command = [python, cldr.__file__, f"--dest={dest}", *sizes, *options]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True)


def lines(path):
    """Return the lines of a file that ends in a newline."""
    text = Path(path).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a corpus, and what the command printed."""
    dest = tmp_path_factory.mktemp("cldr") / "new" / "folder"
    done = run(dest, PYTHONHASHSEED="1", TZ="Asia/Tokyo", LANG="C", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    return dest, done.stdout


@pytest.fixture(scope="module")
def sample():
    """Many draws of every kind, as (kind, English, German)."""
    rng = Random(5)
    return [(kind, *cldr.draw(rng, kind)) for kind in cldr.KINDS for _ in range(400)]


def test_splits_have_their_sizes_aligned_lines_and_no_source_twice(made):
    dest, _ = made
    assert sorted(os.listdir(dest)) == sorted(FILES)
    for name, size in SIZES.items():
        assert len(lines(dest / f"{name}.en")) == len(lines(dest / f"{name}.de")) == size
    # Most kinds have the same digits on both sides. If one side lost a line, few would match.
    same = sum(
        sorted(filter(str.isdigit, english)) == sorted(filter(str.isdigit, german))
        for english, german in zip(lines(dest / "train.en"), lines(dest / "train.de"), strict=True)
    )
    assert same > 0.6 * SIZES["train"]
    sources = [line for name in SIZES for line in lines(dest / f"{name}.en")]
    assert len(set(sources)) == sum(SIZES.values())


def test_files_depend_only_on_the_seed_and_are_replaced_atomically(made, tmp_path):
    dest, _ = made
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "train.en").write_text("old\n")
    os.link(tmp_path / "a" / "train.en", tmp_path / "reader")  # as of a reader of the old file
    again = run(tmp_path / "a", PYTHONHASHSEED="2", TZ="America/Lima", LC_ALL="de_DE.UTF-8")
    other = run(tmp_path / "b", "--seed=2")
    assert again.returncode == other.returncode == 0
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (dest / name).read_bytes()
        assert (tmp_path / "b" / name).read_bytes() != (dest / name).read_bytes()
    assert lines(tmp_path / "reader") == ["old"]


def test_the_summary_counts_kinds_and_names_versions(made):
    _, printed = made
    head, *counts, total = printed.splitlines()
    assert head.startswith("Babel 2.") and "num2words 0." in head and "CLDR" in head
    assert sum(int(line.split()[0]) for line in counts) == sum(SIZES.values())
    assert {line.strip().split(maxsplit=1)[1] for line in counts} <= set(cldr.KINDS)
    assert total.split()[0] == "390"


def test_every_kind_occurs_in_the_corpus():
    assert {kind for kind, _ in cldr.make_corpus(2_000, seed=1).values()} == set(cldr.KINDS)


def test_the_english_determines_the_german(sample):
    known = {}
    for kind, english, german in sample:
        assert known.setdefault(english, german) == german, (kind, english)


def test_no_two_measures_share_their_english():
    known = {}
    for unit in {unit for choices in amounts.MEASURES.values() for unit in choices.split()}:
        for length in amounts.LENGTHS:
            for value in (1, 2, Decimal("5.5")):
                english, german = (format_unit(value, unit, length, locale=x) for x in ("en", "de"))
                assert known.setdefault(english, german) == german, unit


def test_no_name_without_a_label_has_two_meanings():
    tables = {
        "countries": names.COUNTRIES.values(),
        "languages": names.LANGUAGES.values(),
        "weekdays": names.WEEKDAYS,
        "months": names.MONTHS,
    }
    known = {}
    for kind, pairs in tables.items():
        for english, german in pairs if "" in cldr.KINDS[kind][2] else ():
            assert known.setdefault(english, german) == german


def test_sentences_are_short_and_clean(sample):
    for _, *pair in sample:
        for text in pair:
            assert text == " ".join(text.split(" ")) == text.strip() != ""
            unclean = {char for char in text if unicodedata.category(char)[0] in "CZ"} - {" "}
            assert not unclean and len(text.split()) <= 25, text


def test_no_german_number_has_einstausend_inside(sample):
    assert not [german for _, _, german in sample if "einstausend" in german]
    assert words(101_000)[1] == "einhunderteintausend"


def test_spot_values():
    """The values are from a grammar and a calendar, not from the libraries."""
    assert words(1998, "year") == ("nineteen ninety-eight", "neunzehnhundertachtundneunzig")
    assert names.COUNTRIES["DE"] == ("Germany", "Deutschland")
    assert (names.WEEKDAYS[0], names.MONTHS[2]) == (("Monday", "Montag"), ("March", "März"))


TAGE = "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split()
MONATE = (
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
)


FORMS = [  # how Python reads the English, the kind of pair, and how Germans write that date
    ("%m/%d/%Y", times.dated("yMd"), "{0.day}.{0.month}.{0.year}"),
    ("%A, %B %d, %Y", times.dated("full"), "{weekday}, {0.day}. {month} {0.year}"),
]


@pytest.mark.parametrize(("form", "kind", "german"), FORMS)
def test_both_sides_name_the_same_day(form, kind, german):
    rng = Random(1)
    for _ in range(50):
        english, actual = kind(rng)
        when = datetime.strptime(english, form)
        in_german = {"weekday": TAGE[when.weekday()], "month": MONATE[when.month - 1]}
        assert actual == german.format(when, **in_german)


def test_both_sides_name_the_same_time():
    rng = Random(1)
    for _ in range(100):
        english, german = cldr.draw(rng, "time")
        english, german = english.split(": ")[-1], german.split(": ")[-1]
        form = "%H:%M:%S" if english.count(":") == 2 else "%H:%M"
        assert f"{datetime.strptime(english, form.replace('H', 'I') + ' %p'):{form}}" == german


def test_point_and_comma_are_swapped():
    rng, swap = Random(1), str.maketrans(".,", ",.")
    for _ in range(200):
        english, german = cldr.draw(rng, "decimal")
        assert english.translate(swap) == german
        english, german = cldr.draw(rng, "price")
        number = "".join(char for char in english if char.isdigit() or char in ".,")
        assert number.translate(swap) in german.split()


def test_arithmetic_is_right():
    rng, number = Random(1), {words(n)[1]: n for n in range(100)}
    sign = {"plus": int.__add__, "minus": int.__sub__, "mal": int.__mul__}
    for _ in range(100):
        left, how, right, _, _, result = amounts.arithmetic(rng)[1].split()
        assert words(sign[how](number[left], number[right]))[1] == result


def test_exhausted_generator_is_an_error():
    with pytest.raises(ValueError, match="exhausted after .* ask for fewer"):
        cldr.make_corpus(5_000, seed=1, kinds=["time ago"])


def one_line(done, *parts):
    """Return whether the run failed with status 1 and one line with these parts."""
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("cldr.py: error: ")
    return all(part in done.stderr for part in parts)


@pytest.mark.parametrize(
    "option, message", [("--valid=0", "at least 1"), ("--train=10000000000", "ask for fewer")]
)
def test_an_impossible_size_is_refused(tmp_path, option, message):
    assert one_line(run(tmp_path / "x", option), message)
    assert not (tmp_path / "x").exists()


def test_file_instead_of_the_directory_is_refused(tmp_path):
    (tmp_path / "x").write_text("mine")
    assert one_line(run(tmp_path / "x"), "not a directory", str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "mine"


def test_missing_library_is_reported_in_one_line(tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    done = run(tmp_path / "x", python=tmp_path / "bare" / "bin" / "python", PYTHONPATH="")
    assert one_line(done, "babel", "run bash examples/setup.sh")
    assert not (tmp_path / "x").exists()


def test_a_failure_while_writing_leaves_nothing_under_the_final_names(tmp_path):
    (tmp_path / "test.de").mkdir()  # so the last file cannot be written
    assert one_line(run(tmp_path), "test.de")
    assert os.listdir(tmp_path) == ["test.de"]
