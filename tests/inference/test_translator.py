"""§6.1 Raw text to raw text from Python, with a barely trained model."""

import copy
import os
import re
import shutil
from argparse import Namespace
from dataclasses import fields

import pytest
from breakages import remove
from commands import LINES
from fairseq.search import PrefixConstrainedBeamSearch
from models import change_checkpoint, copy_changed, load_hub, use_sinusoids
from omegaconf import open_dict

from aiayn_plugin.checkpoints.bundle import bundle
from aiayn_plugin.errors import InputError
from aiayn_plugin.inference import Translator
from aiayn_plugin.paper import ModelSettings


def to_pipe(path):
    """Replace a file by a pipe, from which a reader would wait forever."""
    path.unlink()
    os.mkfifo(path)


def to_device(path):
    """Replace a file by a link to a device without an end."""
    path.unlink()
    path.symlink_to("/dev/zero")


def replace(path, old, new):
    """Replace text in a file."""
    path.write_text(path.read_text().replace(old, new))


def in_checkpoint(change):
    """Return a function that changes the contents of a directory's model.pt."""
    return lambda folder: change_checkpoint(folder, change)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "model.pt").write_text("hello"), "cannot be loaded safely"),
        (in_checkpoint(lambda state: state.pop("cfg")), "no settings of its model"),
        (
            in_checkpoint(lambda state: state["cfg"].update(model=Namespace(arch="transformer"))),
            "architecture transformer is not one of the plugin's",
        ),
        (
            in_checkpoint(lambda state: state["cfg"]["task"].update(_name="language_modeling")),
            "its task is language_modeling",
        ),
        (in_checkpoint(lambda state: state["cfg"]["model"].update(h=2)), "a different arch"),
        *(
            (lambda folder, name=name: to_pipe(folder / "data" / name), message)
            for name, message in {
                "text.json": "text.json is missing: give a directory made by",
                "codes.bpe": "codes.bpe is missing: give a directory made by",
                "dict.en.txt": "is not a regular file",
                "checksums.json": "not a list of checksums",
            }.items()
        ),
        (lambda folder: to_device(folder / "data" / "dict.de.txt"), "is not a regular file"),
        (
            lambda folder: replace(folder / "data" / "text.json", "codes.bpe", "../codes.bpe"),
            "codes is not a file name",
        ),
        (
            lambda folder: replace(folder / "data" / "text.json", '"en"', '"../en"'),
            "source_lang is not a file name",
        ),
        (lambda folder: (folder / "data" / "dict.en.txt").unlink(), "dict.en.txt"),
        (
            lambda folder: remove("checksums.json", "dict.de.txt")(folder / "data"),
            "dict.de.txt is missing: give a directory made by",
        ),
        (lambda folder: (folder / "data" / "dict.en.txt").open("a").write("more 1\n"), "txt has"),
    ],
)
def test_a_broken_run_directory_is_reported_in_one_line(model_dir, tmp_path, damage, message):
    shutil.copytree(model_dir, tmp_path / "broken")
    damage(tmp_path / "broken")
    with pytest.raises((ValueError, OSError), match=message) as error:
        Translator.load(tmp_path / "broken", device="cpu")
    assert "\n" not in str(error.value)


def find_error(run):
    """Load a run directory and translate; return the error, which must be one line, or None."""
    try:
        Translator.load(run, device="cpu").translate(["March 3"])
    except InputError as error:
        assert "\n" not in str(error)
        return str(error)
    return None


@pytest.mark.parametrize("name", [field.name for field in fields(ModelSettings)])
def test_invalid_model_settings_are_reported_in_one_line(model_dir, tmp_path, name):
    """The model loads if a setting does not affect translation."""
    for value in ("x", 0, 10**6):

        def change(state, value=value):
            state["cfg"]["model"][name] = value

        error = find_error(copy_changed(model_dir, tmp_path, change))
        assert error or name in ("dropout", "attention_dropout", "feed_forward_gain"), value


@pytest.mark.parametrize(
    "part, name",
    [
        ("model", "max_source_positions"),
        ("model", "max_target_positions"),
        ("task", "max_source_positions"),
    ],
)
@pytest.mark.parametrize("positions", ["sinusoids", "learned"])
def test_invalid_numbers_of_positions_are_reported_in_one_line(
    model_dir, tmp_path, part, name, positions
):
    for value in (None, "x", -1, 10**13, float("nan")):

        def change(state, value=value):
            if positions == "sinusoids":
                use_sinusoids(state)
            state["cfg"][part][name] = value

        if error := find_error(copy_changed(model_dir, tmp_path, change)):
            assert "model.pt" in error
        else:
            unused = positions == "sinusoids" and isinstance(value, int)
            assert value is None or part == "task" or unused, value


@pytest.mark.parametrize(
    "part, change, message",
    [
        ("settings", {"h": 2}, "model.pt: .*h is 2, not 4"),
        ("settings", {"positions": [1]}, "model.pt: .*the checkpoint is damaged"),
        ("dictionaries", {"target": "0"}, "does not match the target dictionary of the checkpoint"),
        # The languages share a dictionary, so it would silently read the wrong language.
        ("languages", {"source": "de", "target": "en"}, "the checkpoint was trained from de to en"),
    ],
)
def test_a_checkpoint_of_a_different_run_is_refused(model_dir, tmp_path, part, change, message):
    run = copy_changed(model_dir, tmp_path, lambda state: state["task_state"][part].update(change))
    assert re.search(message, find_error(run))
    if part == "languages":
        with pytest.raises(InputError, match=message):
            bundle(run, None, tmp_path / "bundle")


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"device": "nowhere"}, "--device nowhere cannot be used .*: give cpu, or cuda"),
        ({"device": "meta"}, "--device meta cannot be used"),
        ({"device": "cpu", "max_tokens": 0}, "--max-tokens 0 must be at least 1"),
        ({"device": "cpu", "precision": "float8"}, "precision 'float8'"),
        ({"device": "cpu", "bem": 3}, "bem is not an option of the search"),
        ({"device": "cpu", "nbest": 0}, "--nbest 0"),
    ],
)
def test_invalid_settings_are_reported_in_one_line(model_dir, settings, message):
    with pytest.raises(ValueError, match=message) as error:
        Translator.load(model_dir, **settings)
    assert "\n" not in str(error.value)


def test_sinusoids_are_bounded_by_memory_alone(model_dir, tmp_path, caplog):
    """fairseq's limit of 1,024 applies to neither side; if it did, min_len 1,120 would fail."""
    run = copy_changed(model_dir, tmp_path, use_sinusoids)
    translator = Translator.load(run, device="cpu", beam=1, min_len=1120)
    [[hypothesis]] = translator.search([translator.token_ids(["1"] * 1100)])
    assert 1120 <= len(hypothesis.tokens) - 1 <= 1150
    assert translator.max_subwords == 4095
    short = Translator.load(run, device="cpu", beam=1, max_len_a=0, max_len_b=1)
    short.translate(["1 " * 4095])
    assert "segments" not in caplog.text
    short.translate_nbest(["1 " * 4096], first=7)
    assert "line 7 has 4096 tokens, more than the limit of 4095: it is translated" in caplog.text


def test_a_long_line_keeps_all_its_segments(model_dir):
    """Learned positions limit each of them to 1,023 tokens."""
    translator = Translator.load(model_dir, device="cpu", nbest=2, max_len_a=0, max_len_b=5)
    first, second = "1 " * 600, "5 " * 600
    found = translator.translate_nbest([first, second, first + second])
    for start, end, whole in zip(*found, strict=True):
        assert whole.text == f"{start.text} {end.text}"
        assert whole.score == pytest.approx(start.score + end.score)


def test_the_search_is_the_papers_whatever_the_training_used(model_dir, tmp_path):
    run = copy_changed(
        model_dir, tmp_path, lambda state: state["cfg"]["task"].update(length_penalty="fairseq")
    )
    ours, other = (Translator.load(path, device="cpu") for path in (model_dir, run))
    assert other.translate_nbest(LINES) == ours.translate_nbest(LINES)
    with pytest.raises(TypeError):
        ours.translate("March 3")


def test_from_pretrained_of_fairseq_searches_the_same(model_dir):
    hub = load_hub(model_dir)
    ours = Translator.load(model_dir, device="cpu")
    lines = [line for line in LINES if line]
    assert hub.translate(lines) == ours.translate(lines)
    other = load_hub(model_dir, lenpen=1.5)
    nested = load_hub(model_dir, generation_args={"lenpen": 1.5, "max_len_b": 9})
    # A sampled translation has fairseq's defaults unless they are given.
    for model, settings, lenpen, max_len_b in (
        (hub, {}, 0.6, 50),
        (hub, {"sampling": True}, 1, 200),
        (other, {"max_len_b": 9}, 1.5, 9),
        (other, {"sampling": True}, 1.5, 200),
        (hub, {"length_penalty": "fairseq"}, 1, 200),
        (other, {"length_penalty": "fairseq"}, 1.5, 200),
        (nested, {}, 1.5, 9),
    ):
        with open_dict(args := copy.deepcopy(model.cfg.generation)):
            args.update(settings)
        generator = model.task.build_generator([*model.models], args)
        if "sampling" in settings:  # a generator of fairseq's
            assert (generator.len_penalty, generator.max_len_b) == (lenpen, max_len_b)
        else:
            actual = generator.search.settings
            assert (actual.lenpen, actual.max_len_b) == (lenpen, max_len_b)
    with open_dict(args):
        args.retain_dropout = True
    with pytest.raises(InputError, match="--retain-dropout has no effect"):
        hub.task.build_generator([*hub.models], args)
    generator = hub.task.build_generator(
        [*hub.models], hub.cfg.generation, prefix_allowed_tokens_fn=lambda sentence, tokens: [2]
    )
    assert isinstance(generator.search, PrefixConstrainedBeamSearch), "only fairseq's search has it"


@pytest.mark.parametrize("precision", ["int8", "bfloat16", "float16"])
def test_a_lower_precision_finds_translations_that_are_nearly_as_good(model_dir, precision):
    exact, rounded = (
        Translator.load(model_dir, device="cpu", precision=name) for name in ("float32", precision)
    )
    both = zip(exact.translate_nbest(LINES), rounded.translate_nbest(LINES), strict=True)
    differences = [found[0].score - expected[0].score for expected, found in both]
    assert max(map(abs, differences)) < 0.1
    assert any(differences)
