"""`preprocess/tatoeba.py`: no sentence of a test set is in the training text."""

import subprocess
import sys

import pytest
import tatoeba

PAIRS = """\
Good morning!\tGuten Morgen!
Good morning!\tMorgen!
I see.\tIch verstehe.
I see.\tIch verstehe.
We won.\tWir haben gewonnen.
They lost.\tSie haben verloren.
"""


def run(tmp_path, pairs, *options):
    (tmp_path / "deu.txt").write_text(pairs, encoding="utf-8")
    (tmp_path / "test.en").write_text("we WON\nWho knows?\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("Wer weiß?\nich verstehe\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, tatoeba.__file__, "--pairs", "deu.txt", "--destdir", "raw", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


def test_pairs_with_a_test_sentence_are_dropped_and_validation_pairs_are_unique(tmp_path):
    done = run(tmp_path, PAIRS, "--test", "test.en", "test.de", "--valid", "1")
    assert done.stdout == "pairs: train 2, valid 1\n", done.stderr
    read = {
        path.name: path.read_text("utf-8").splitlines() for path in (tmp_path / "raw").iterdir()
    }
    assert read["valid.en"] == ["They lost."] and read["valid.de"] == ["Sie haben verloren."]
    assert read["train.en"] == ["Good morning!"] * 2
    assert set(read["train.de"]) == {"Guten Morgen!", "Morgen!"}
    (tmp_path / "raw" / "valid.de").unlink()
    (tmp_path / "raw" / "valid.de").mkdir()
    done = run(tmp_path, "New.\tNeu.\nOld.\tAlt.\n", "--test", "test.en", "--valid", "1")
    assert "raw/valid.de is not a regular file" in done.stderr
    train = (tmp_path / "raw" / "train.en").read_text("utf-8").splitlines()
    assert train == read["train.en"], "all files are replaced, or none"


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ("no translation\n", ["test.en"], "deu.txt, line 7: expected English, a tab and German"),
        (
            "",
            ["test.en", "test.de", "--valid", "2"],
            "deu.txt has too few pairs whose sentences occur once and in no test set (1) for "
            "--valid 2",
        ),
        ("", ["test.fr"], "[Errno 2] No such file or directory: 'test.fr'"),
    ],
)
def test_unusable_input_is_reported_in_one_line(tmp_path, more, options, message):
    done = run(tmp_path, PAIRS + more, "--test", *options)
    assert (done.returncode, done.stderr) == (1, f"tatoeba.py: error: {message}\n")
    assert not (tmp_path / "raw").exists()
