"""Tokens and detokenised texts equal those of Moses's own scripts, on real text.

The scripts are those in the folder MOSES_SCRIPTS (scripts/tokenizer of a checkout of Moses), or
else those in the package mosestokenizer.
"""

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

from aiayn_plugin.text.tokenizer import Tokenizer

#: The files of each folder of the real texts. WMT's are tokenised already.
SOME = (("multi30k", ("test_2016_flickr",)), ("wmt_sample", ("valid",)))
EVERY = (
    ("multi30k", ("train", "val", "test_2016_flickr")),
    ("wmt_sample", ("train", "valid", "test")),
)
on_real_lines = pytest.mark.parametrize(
    ("lang", "texts"),
    [
        *((lang, SOME) for lang in ("en", "de")),
        ("fr", ()),
        *(pytest.param(lang, EVERY, marks=pytest.mark.long) for lang in ("en", "de")),
    ],
    ids=["en", "de", "fr", "en, every line", "de, every line"],
)


@functools.cache
def scripts():
    """Return the folders of the scripts and of the lists of abbreviations."""
    if not shutil.which("perl"):
        pytest.skip("needs perl")
    if named := os.environ.get("MOSES_SCRIPTS"):
        return Path(named), Path(named).parent / "share" / "nonbreaking_prefixes"
    try:
        package = importlib.metadata.distribution("mosestokenizer")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs Moses's scripts: MOSES_SCRIPTS, or pip install mosestokenizer")
    folder = Path(str(package.locate_file("mosestokenizer")))
    return folder, folder / "nonbreaking_prefixes"


def perl(name, lang, lines, *options):
    """Return a script's output for the lines."""
    folder = scripts()[0]
    script = folder / f"{name}-v1.1.perl"  # as mosestokenizer calls its tokeniser
    command = ["perl", str(script if script.exists() else folder / f"{name}.perl"), *options]
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run([*command, "-l", lang], check=True, input=text, capture_output=True)
    made = done.stdout.decode().split("\n")
    assert made.pop() == "" and len(made) == len(lines)
    return made


@functools.cache
def moses_tokens(lang, lines):
    """Return the script's tokens of a tuple of lines."""
    return [line.split() for line in perl("tokenizer", lang, lines, "-q", "-no-escape")]


@functools.cache
def real_lines(repo, lang, texts):
    """Return a tuple of the lines of the texts, those of WMT detokenised; or French names."""
    if lang == "fr":
        return tuple(french())
    data = repo.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip(f"needs the texts in {data}")
    lines, detokenize = [], Tokenizer(lang).detokenize
    for folder, names in texts:
        for name in names:
            read = (data / folder / f"{name}.{lang}").read_text("utf-8").split("\n")[:-1]
            if folder == "wmt_sample":
                read = [detokenize(line.split()) for line in read]
            lines += read
    return tuple(lines)


def french():
    """Return what CLDR has in French, with both kinds of apostrophes, alone and as lists."""
    locale = pytest.importorskip("babel").Locale("fr")
    tables = "territories languages scripts variants currencies datetime_skeletons".split()
    names = [str(name) for table in tables for name in getattr(locale, table).values()]
    names += [name.replace("’", "'") for name in names]
    return [*names, *(f"«\u00a0{a}\u00a0», d’{b}." for a, b in zip(names, names[1:], strict=False))]


def without_versions(lang):
    """Return a function that removes from tokens what differs between versions of the script.

    The tokens of the plugin are those of June 2017, when the paper was written.

    - The lists of abbreviations have changed: `Inc.`, `Rs.`, and in French `a.`
    - Since March 2016, `.'` and `5,` have been split at the end of a line. mosestokenizer's script
      is older.
    - Since November 2018, the script splits the full stop from a final `U.S.` too.
    """
    text = (scripts()[1] / f"nonbreaking_prefix.{lang}").read_text("utf-8")
    listed = {line.strip() for line in text.split("\n") if line.strip() and line[0] != "#"}
    changed = {f"{word}." for word in listed ^ set(MosesTokenizer(lang).NONBREAKING_PREFIXES)}

    def function(tokens):
        text = " ".join(f"{word[:-1]} ." if word in changed else word for word in tokens)
        return re.sub(r"(?<=[^ .])(\.|\.'|,)$", r" \1", text).replace(" .'", " . '")

    return function


def check_tokens(lang, lines, ours):
    """Compare tokens of the lines with the script's; few may differ by its version."""
    theirs, common = moses_tokens(lang, tuple(lines)), without_versions(lang)
    differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert [pair for pair in differing if common(pair[0]) != common(pair[1])] == []
    assert len(differing) <= 0.01 * len(lines)


@on_real_lines
def test_tokens_are_those_of_the_script(repo, lang, texts):
    lines = real_lines(repo, lang, texts)
    assert len(lines) > 1000
    check_tokens(lang, lines, list(map(Tokenizer(lang).tokenize, lines)))


@on_real_lines
def test_normalised_tokens_are_those_of_the_scripts(repo, lang, texts):
    lines = real_lines(repo, lang, texts)
    lines += tuple(line.replace('"', "’") for line in lines[::20])
    normalised = perl("normalize-punctuation", lang, lines)
    # Since November 2019 the script turns these into apostrophes, not quotes.
    kept = [i for i, line in enumerate(lines) if not re.search("[‘‚]", line)]
    tokenize = Tokenizer(lang, normalize_punctuation=True).tokenize
    check_tokens(lang, [normalised[i] for i in kept], [tokenize(lines[i]) for i in kept])


@pytest.mark.parametrize("lang", ["en", "de", "fr"])
def test_control_characters_are_those_of_the_scripts(lang):
    texts = ["a|b", "(a|) b", 'he said "yes"|.', '|"word." | b', "5| %", "a | b", "a|'s '|'"]
    texts.append('a, "b",|')
    lines = [text.replace("|", c) for text in texts for c in "\r\x01\t\x1c\x7f\x85\u2028"]
    normalised = perl("normalize-punctuation", lang, lines)
    tokenize = Tokenizer(lang, normalize_punctuation=True).tokenize
    assert list(map(tokenize, lines)) == moses_tokens(lang, tuple(normalised))
    assert list(map(Tokenizer(lang).tokenize, lines)) == moses_tokens(lang, tuple(lines))


@on_real_lines
def test_detokenised_text_is_that_of_the_script(repo, lang, texts):
    tokens = moses_tokens(lang, real_lines(repo, lang, texts))
    tokens = [line for line in tokens if "&" not in line]  # the script turns `&lt;` into `<`
    wanted = perl("detokenizer", lang, [" ".join(line) for line in tokens], "-q")
    assert list(map(Tokenizer(lang).detokenize, tokens)) == wanted


def test_letters_and_digits_are_those_of_perl():
    # Not the combining marks: which of them are letters depends on the version of Unicode.
    codes = [*range(0x20, 0x3400), *range(0x4E00, 0x4F00), *range(0xAC00, 0xAD00)]
    known = [c for c in map(chr, codes) if unicodedata.category(c) not in ("Cn", "Mn", "Mc", "Zs")]
    lines = [f"a{c}b {c}'{c},5,{c} x. {c}" for c in known]
    tokenize = Tokenizer("en").tokenize
    pairs = zip(known, map(tokenize, lines), moses_tokens("en", tuple(lines)), strict=True)
    differing = [c for c, ours, theirs in pairs if ours != theirs]
    assert len(known) > 9000 and len(differing) < 10, differing  # `ʕ` has changed its case
