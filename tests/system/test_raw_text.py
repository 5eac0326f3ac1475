"""Raw text in, raw text out: aiayn translate, bundle and export, and the same from Python."""

import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

LINES = ["March 3", "", "Monday, May 1, 2023", "5 hours and 3 minutes", "March 3"]


@pytest.fixture(scope="module")
def model_dir(run, corpus, tmp_path_factory):
    """What a recipe leaves behind, hardly trained."""
    folder = tmp_path_factory.mktemp("recipe")
    log = run(
        "fairseq-train", corpus, "--user-dir", "aiayn_plugin", "--arch", "aiayn_tiny", "--cpu",
        "--N", "1", "--save-dir", folder, "--max-update", "30", "--disable-validation",
        "--warmup-updates", "10", "--positions", "learned", cwd=folder,
    )  # fmt: skip
    assert log.returncode == 0, log.stderr
    (folder / "checkpoint_last.pt").rename(folder / "model.pt")
    shutil.copytree(corpus, folder / "data")
    return folder


@pytest.fixture
def translate(run, tmp_path):
    """Runs aiayn translate on bytes, as a pipe would."""

    def command(model, text, *flags):
        aiayn = Path(sys.executable).with_name("aiayn")
        return subprocess.run([aiayn, "translate", model, "--device", "cpu", *flags], input=text,
                              capture_output=True, cwd=tmp_path)  # fmt: skip

    return command


def test_order_and_number_of_lines_are_kept(translate, model_dir):
    text = "\n".join(LINES).encode()
    log = translate(model_dir, text)
    assert log.returncode == 0, log.stderr
    out = log.stdout.decode().split("\n")
    assert len(out) == len(LINES) + 1 and out[-1] == ""
    assert out[1] == "" and out[0] == out[4]
    assert "@@" not in log.stdout.decode()
    at_once = translate(model_dir, text, "--line-by-line")
    assert at_once.stdout == log.stdout
    best = translate(model_dir, text, "--nbest", "2", "--beam", "3")
    numbers = [line.split(" ||| ")[0] for line in best.stdout.decode().splitlines()]
    assert numbers == ["1", "1", "2", "3", "3", "4", "4", "5", "5"]
    scores = [float(line.split(" ||| ")[2]) for line in best.stdout.decode().splitlines()]
    assert scores[0] >= scores[1]


def test_a_bundle_translates_the_same_elsewhere(run, translate, model_dir, tmp_path):
    log = run("aiayn", "bundle", model_dir, "--output", tmp_path / "bundle")
    assert log.returncode == 0, log.stderr
    names = {path.name for path in (tmp_path / "bundle").iterdir()}
    assert names == {"model.pt", "dict.en.txt", "dict.de.txt", "codes.bpe", "text.json",
                     "README.txt"}  # fmt: skip
    size = (tmp_path / "bundle" / "model.pt").stat().st_size
    assert size < 0.5 * (model_dir / "model.pt").stat().st_size  # no optimiser
    (tmp_path / "bundle").rename(tmp_path / "moved")
    text = "\n".join(LINES).encode()
    assert translate("moved", text).stdout == translate(model_dir, text).stdout
    again = run("aiayn", "bundle", model_dir, "--output", tmp_path / "moved")
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)


def test_python_translates_the_same(translate, model_dir, monkeypatch):
    from aiayn_plugin.translator import Translator

    translator = Translator.load(model_dir, device="cpu", nbest=2)
    found = translator.translate(LINES)
    assert translate(model_dir, "\n".join(LINES).encode()).stdout.decode().splitlines() == found
    assert [len(best) for best in translator.translate_nbest(LINES)] == [2, 1, 2, 2, 2]


def test_long_lines_are_translated_in_pieces(translate, model_dir):
    # learned positions: 1,024 of them
    log = translate(model_dir, ("hours and minutes " * 700).encode(), "--beam", "1")
    assert log.returncode == 0, log.stderr
    assert b"line 1 has" in log.stderr and b"in pieces" in log.stderr
    assert log.stdout.count(b"\n") == 1


def test_a_spoilt_model_directory_is_one_line(translate, model_dir, tmp_path):
    shutil.copytree(model_dir, tmp_path / "spoilt")
    (tmp_path / "spoilt" / "model.pt").unlink()
    log = translate("spoilt", b"March 3\n")
    assert log.returncode == 1
    assert log.stderr == b"aiayn: error: spoilt/model.pt is missing: give a directory that a " \
                         b"recipe or aiayn bundle made\n"
    assert log.stdout == b""


class Runs:
    """What a hostile checkpoint would run when it is loaded."""

    def __reduce__(self):
        return print, ("it ran",)


def within(folder, change):
    """Change what model.pt holds."""
    state = torch.load(folder / "model.pt")
    change(state)
    torch.save(state, folder / "model.pt")


def replace(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize("spoil, message", [
    (lambda folder: (folder / "model.pt").write_bytes(b"PK"), "no checkpoint"),
    (lambda folder: (folder / "model.pt").write_bytes(b""), "no checkpoint"),
    (lambda folder: (folder / "model.pt").write_text("hello"), "no checkpoint"),
    (lambda folder: torch.save({"model": Runs()}, folder / "model.pt"), "wants to run"),
    (lambda folder: torch.save({"weights": {}}, folder / "model.pt"), "holds no model"),
    (lambda folder: torch.save({"model": {}}, folder / "model.pt"), "no settings of its model"),
    (lambda folder: within(folder, lambda state: state["cfg"].update(
        model=Namespace(arch="transformer"))), "architecture transformer, none"),
    (lambda folder: within(folder, lambda state: state["cfg"]["task"].update(
        _name="language_modeling")), "of the task language_modeling"),
    (lambda folder: within(folder, lambda state: state["cfg"]["model"].update(h=2)),
     "another architecture"),
    (lambda folder: (folder / "data" / "text.json").write_text("{"), "not valid JSON"),
    (lambda folder: replace(folder / "data" / "text.json", "codes.bpe", "../codes.bpe"),
     "codes is no plain name"),
    (lambda folder: replace(folder / "data" / "text.json", '"en"', '"../en"'),
     "source_lang is no plain name"),
    (lambda folder: (folder / "data" / "dict.en.txt").unlink(), "dict.en.txt"),
    (lambda folder: (folder / "data" / "dict.en.txt").open("a").write("more 1\n"), "dictionar"),
    (lambda folder: (folder / "data" / "codes.bpe").write_text("x"), "not the codes"),
])  # fmt: skip
def test_a_spoilt_model_directory_is_refused(model_dir, tmp_path, capsys, spoil, message):
    from aiayn_plugin.translator import Translator

    shutil.copytree(model_dir, tmp_path / "spoilt")
    spoil(tmp_path / "spoilt")
    with pytest.raises((ValueError, OSError), match=message) as error:
        Translator.load(tmp_path / "spoilt", device="cpu")
    assert "\n" not in str(error.value)
    assert "it ran" not in capsys.readouterr().out


@pytest.mark.parametrize("settings, message", [
    ({"device": "nowhere"}, "device 'nowhere' cannot be used"),
    ({"device": "cpu", "precision": "float8"}, "precision 'float8'"),
    ({"device": "cpu", "bem": 3}, "bem is no setting"),
    ({"device": "cpu", "nbest": 0}, "--nbest 0"),
    ({"device": "cpu", "lenpen": float("nan")}, "--lenpen nan"),
    ({"device": "cpu", "sampling": True}, "--sampling is another search"),
])
def test_a_search_that_cannot_be_is_refused(model_dir, settings, message):
    from aiayn_plugin.translator import Translator

    with pytest.raises(ValueError, match=message):
        Translator.load(model_dir, **settings)


def test_the_search_is_the_papers_whatever_the_model_was_trained_with(model_dir, tmp_path):
    from aiayn_plugin.translator import Translator

    shutil.copytree(model_dir, tmp_path / "other")
    within(tmp_path / "other", lambda state: state["cfg"]["task"].update(length_penalty="fairseq"))
    ours, other = (Translator.load(path, device="cpu") for path in (model_dir, tmp_path / "other"))
    assert other.translate_nbest(LINES) == ours.translate_nbest(LINES)
    with pytest.raises(TypeError):
        ours.translate("March 3")


@pytest.mark.parametrize("text, flags, message", [
    (b"March 3\n\xff\n", [], "standard input, line 2: not valid UTF-8"),
    (b"March 3\n", ["--lenpen", "-1"], "must not be negative"),
    (b"March 3\n", ["--beam", "100000"], "entries of the target dictionary"),
    (b"March 3\n", ["--beam", "0"], "--nbest 1 must be from 1 to --beam 0"),
    (b"March 3\n", ["--nbest", "9"], "--nbest 9 must be from 1 to --beam 4"),
])  # fmt: skip
def test_bad_input_is_one_line(translate, model_dir, text, flags, message):
    log = translate(model_dir, text, *flags)
    assert log.returncode == 1
    assert log.stderr.decode().count("\n") == 1 and message in log.stderr.decode()


def test_fairseqs_from_pretrained_searches_the_same(model_dir):
    from aiayn_plugin.boundary.model import Transformer
    from aiayn_plugin.translator import Translator

    hub = Transformer.from_pretrained(str(model_dir), "model.pt", str(model_dir / "data"))
    ours = Translator.load(model_dir, device="cpu")
    lines = [ours.pipeline.encode(line) for line in LINES if line]
    found = [ours.pipeline.decode(line) for line in hub.translate(lines, beam=4)]
    assert found == ours.translate([line for line in LINES if line])
    assert (hub.cfg.generation.lenpen, hub.cfg.generation.max_len_b) == (0.6, 50)
    other = Transformer.from_pretrained(str(model_dir), "model.pt", str(model_dir / "data"),
                                        lenpen=1.5)
    assert (other.cfg.generation.lenpen, other.cfg.generation.max_len_b) == (1.5, 50)


def test_what_memory_cannot_hold_is_translated_in_halves(model_dir, monkeypatch, caplog):
    from fairseq.tasks.translation import TranslationTask

    from aiayn_plugin.translator import Translator

    ours = Translator.load(model_dir, device="cpu")
    lines = ["March 3", "May 1, 2023", "5 hours", "Monday", "3 minutes"]
    expected = ours.translate_nbest(lines)
    whole = TranslationTask.inference_step

    def small(task, generator, models, sample, *args, **kwargs):
        if len(sample["id"]) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return whole(task, generator, models, sample, *args, **kwargs)

    monkeypatch.setattr(TranslationTask, "inference_step", small)
    found = ours.translate_nbest(lines)
    assert [best.text for best, in found] == [best.text for best, in expected]
    said = [record for record in caplog.records if "out of memory" in record.message]
    assert len(said) == 1


def test_ctranslate2_finds_the_same(run, model_dir, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    from aiayn_plugin.translator import Translator

    log = run("aiayn", "export", model_dir, "--output", tmp_path / "ct2")
    assert log.returncode == 0, log.stderr
    translator = Translator.load(model_dir, device="cpu")
    pieces = [translator.pipeline.encode(line).split() for line in LINES if line]
    found = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu").translate_batch(
        pieces, beam_size=4, length_penalty=0.6, max_decoding_length=60, return_scores=True
    )
    translator.task.cfg.length_penalty = "fairseq"
    theirs = Translator(translator.task, translator.model, translator.pipeline, 2000,
                        {"beam": 4, "lenpen": 0.6, "max_len_a": 0, "max_len_b": 59})
    for line, result in zip([line for line in LINES if line], found, strict=True):
        best = theirs.translate_nbest([line])[0][0]
        assert best.text == translator.pipeline.decode(" ".join(result.hypotheses[0]))


def test_what_ctranslate2_has_not_is_refused(run, corpus, tmp_path):
    log = run("fairseq-train", corpus, "--user-dir", "aiayn_plugin", "--arch", "aiayn_tiny", "--N",
              "1", "--d-k", "8", "--cpu", "--max-update", "1", "--disable-validation",
              "--save-dir", tmp_path)  # fmt: skip
    assert log.returncode == 0, log.stderr
    (tmp_path / "checkpoint_last.pt").rename(tmp_path / "model.pt")
    shutil.copytree(corpus, tmp_path / "data")
    log = run("aiayn", "export", tmp_path, "--output", tmp_path / "ct2")
    assert (log.returncode, log.stderr.count("\n")) == (1, 1)
    assert "d_k 8 and d_v 32" in log.stderr and not (tmp_path / "ct2").exists()
