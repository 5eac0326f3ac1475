"""`aiayn translate` and its input."""

import io

import pytest
import torch

from aiayn_plugin.cli import main, translate
from aiayn_plugin.inference import Translator


@pytest.fixture
def output(monkeypatch):
    """`output(text, model, …)` returns the lines that `aiayn translate` writes."""

    def command(text, *arguments):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output := io.BytesIO()))
        main(["translate", *arguments])
        return output.getvalue().decode().splitlines()

    return command


def test_nbest_numbers_lines_across_buffers(model_dir, output):
    text = "\n" * 12_000 + "March 3\n"  # empty lines need no search
    options = ["--beam", "5", "--lenpen", "0", "--nbest", "5", "--precision", "bfloat16"]
    lines = output(text, str(model_dir), "--device", "cpu", *options)
    assert [int(line.split(" ||| ")[0]) for line in lines[:-5]] == list(range(1, 12_001))
    translator = Translator.load(model_dir, "cpu", "bfloat16", beam=5, lenpen=0.0, nbest=5)
    [best] = translator.translate_nbest(["March 3"])
    assert lines[-5:] == [f"12001 ||| {each.text} ||| {each.score:.4f}" for each in best]


@pytest.mark.parametrize(
    "text, flags, message",
    [
        (b"March 3\n\xff\n", [], "standard input, line 2: not valid UTF-8 "),
        (b"March 3\n", ["--nbest", "9"], "--nbest 9 must be from 1 to --beam 4"),
        (None, [], "standard input or output is closed: the command needs both"),
    ],
)
def test_bad_input_is_reported_in_one_line(monkeypatch, error, text, flags, message):
    stream = None if text is None else io.TextIOWrapper(io.BytesIO(text))
    monkeypatch.setattr("sys.stdin", stream)
    assert error("translate", "demo", "--device", "cpu", *flags).startswith(message)


@pytest.mark.parametrize("message, expected", [("CUDA out of memory. Tried", True), ("bug", False)])
def test_too_little_memory_for_the_model_is_reported_in_one_line(monkeypatch, message, expected):
    def run(args):
        raise torch.OutOfMemoryError(message)

    monkeypatch.setattr(translate, "run", run)
    kind = SystemExit if expected else torch.OutOfMemoryError
    with pytest.raises(kind, match="not enough memory for translate" if expected else message):
        main(["translate", "demo"])


def test_ctranslate2_is_an_engine(output):
    pytest.importorskip("ctranslate2")
    options = ["--engine", "ctranslate2", "--precision", "int8", "--nbest", "2"]
    lines = output("Closed: Monday\n", "demo", *options)
    translator = Translator.load("demo", engine="ctranslate2", precision="int8", nbest=2)
    [best] = translator.translate_nbest(["Closed: Monday"])
    assert lines == [f"1 ||| {each.text} ||| {each.score:.4f}" for each in best]
