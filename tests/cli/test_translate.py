"""`aiayn translate` and its input."""

import io

import pytest

from aiayn_plugin.cli import main
from aiayn_plugin.inference import Translator


def test_nbest_numbers_lines_across_buffers(model_dir, monkeypatch):
    text = "\n" * 12_000 + "March 3\n"  # empty lines need no search
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output := io.BytesIO()))
    main(["translate", str(model_dir), "--device", "cpu", "--nbest", "2"])
    numbers = [int(line.split(b" ||| ")[0]) for line in output.getvalue().splitlines()]
    assert numbers == [*range(1, 12_001), 12_001, 12_001]


def test_ctranslate2_is_an_engine(monkeypatch):
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Closed: Monday\n")))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output := io.BytesIO()))
    main(["translate", "demo", "--engine", "ctranslate2", "--precision", "int8"])
    [ours] = Translator.load("demo").translate(["Closed: Monday"])
    assert output.getvalue().decode() == f"{ours}\n"
