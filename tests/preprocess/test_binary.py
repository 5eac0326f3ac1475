"""Binary files and dictionaries equal those of fairseq-preprocess, byte for byte."""

import random
from collections import Counter

import pytest

from aiayn_plugin.corpus import binary
from aiayn_plugin.corpus.parallel import start_workers
from aiayn_plugin.corpus.stages import Stage
from aiayn_plugin.corpus.tokens import Job
from aiayn_plugin.text.settings import PENN, TextSettings

ODD = [
    "<s> </s> <unk> <pad>",
    "",
    "a a a",
    "\u00fc \u4e2d\u6587 \U0001f600",
    "madeupword0000 x",
    "@@ b@@ c",
]


def lines(seed, number, words):
    """Return special lines, then lines of a few frequent and many rare words."""
    rng = random.Random(seed)
    made = (
        " ".join(f"w{int(rng.paretovariate(0.5)) % words}" for _ in range(rng.randint(1, 30)))
        for _ in range(number)
    )
    return [*ODD, *made]


@pytest.fixture(params=["joined", "wide"])
def encoded(request, tmp_path):
    """Text settings, and subwords by split; "wide" has more than 2^16 different ones."""
    tokenizer = "moses" if request.param == "joined" else PENN
    settings = TextSettings("en", "de", 100, tokenizer)
    splits = {}
    for split, number in (("train", 4500), ("valid", 20)):
        folder = tmp_path / split
        folder.mkdir()
        source, target = lines(1, number, 300), lines(2, number, 70)[::-1]
        if split == "train" and request.param == "wide":
            source[100] = " ".join(f"x{i}" for i in range(70_000))
        for lang, side in (("en", source), ("de", target)):
            text = "".join(f"{line}\n" for line in side)
            (folder / f"text.{lang}").write_text(text, encoding="utf-8", newline="\n")
        splits[split] = Stage(folder, "", {"pairs": number + len(ODD)})
    return settings, splits


def test_files_are_those_of_fairseq_preprocess(encoded, succeed, tmp_path):
    settings, splits = encoded
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    options = [f"--{split}pref={stage.folder / 'text'}" for split, stage in splits.items()]
    joined = [] if settings.holds_trees else ["--joined-dictionary"]
    succeed("fairseq-preprocess", "-s", "en", "-t", "de", "--destdir", theirs, *options, *joined)
    ours.mkdir()
    counts = [
        Counter((splits["train"].folder / f"text.{lang}").read_text("utf-8").split())
        for lang in ("en", "de")
    ]
    for lang, side_counts in zip(("en", "de"), counts, strict=True):
        binary.write_dictionary(
            ours / f"dict.{lang}.txt", counts[0] + counts[1] if joined else side_counts
        )
    with start_workers(2) as workers:
        for split, stage in splits.items():
            binary.binarise(Job(tmp_path, settings, workers), split, stage, ours)
    (theirs / "preprocess.log").unlink()
    expected = {path.name: path.read_bytes() for path in theirs.iterdir()}
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == expected
    assert len(expected) == 10
