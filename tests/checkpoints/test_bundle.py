"""A bundle contains what translation needs, and no training state."""

import json
import re
import shutil

import pytest
import safetensors.torch
import torch
from breakages import change
from commands import LINES, file_size_limit
from models import copy_changed

from aiayn_plugin.checkpoints.bundle import DEMO, bundle
from aiayn_plugin.checkpoints.safe_load import load
from aiayn_plugin.checkpoints.safetensors_file import write_weights
from aiayn_plugin.cli import main
from aiayn_plugin.errors import InputError
from aiayn_plugin.inference import Translator
from aiayn_plugin.service.about import describe_model
from aiayn_plugin.text.manifest import MANIFEST, hash_file, read_manifest


@pytest.fixture(scope="module")
def bundled(model_dir, tmp_path_factory):
    """A bundle of the barely trained model, moved to a different directory."""
    directory = tmp_path_factory.mktemp("bundles")
    size = bundle(model_dir, None, directory / "bundle")
    moved = (directory / "bundle").rename(directory / "moved")
    assert size == sum(path.stat().st_size for path in moved.iterdir())
    return moved


def test_a_bundle_keeps_weights_settings_and_identity_only(model_dir, bundled):
    names = {path.name for path in bundled.iterdir()}
    assert names == {*read_manifest(bundled), MANIFEST}
    expected = "model.safetensors config.json dict.en.txt dict.de.txt codes.bpe text.json"
    assert names == {*expected.split(), "pairs.txt", "README.txt", "checksums.json"}
    size = (bundled / "model.safetensors").stat().st_size
    assert size < 0.5 * (model_dir / "model.pt").stat().st_size  # no optimizer
    trained, shared = load(model_dir / "model.pt"), load(bundled / "model.safetensors")
    config = json.loads((bundled / "config.json").read_text())
    assert config["task_state"] == shared["task_state"] == trained["task_state"]
    assert config["task"]["source_lang"] == "en" and "data" not in config["task"]
    assert shared["cfg"]["model"] == trained["cfg"]["model"]
    assert shared["model"].keys() == trained["model"].keys()
    for name, weight in trained["model"].items():
        assert torch.equal(shared["model"][name], weight), name
    tied = trained["model"]["encoder.embedding.weight"]
    assert torch.equal(tied, trained["model"]["decoder.embedding.weight"])
    stored = safetensors.torch.load_file(bundled / "model.safetensors")
    assert stored.keys() == trained["model"].keys() - {"decoder.embedding.weight"}


def test_every_command_reads_a_bundle(succeed, model_dir, bundled, corpus, tmp_path):
    ours, theirs = (
        Translator.load(folder, device="cpu").translate_nbest(LINES)
        for folder in (bundled, model_dir)
    )
    assert ours == theirs
    weights, back = bundled / "model.safetensors", tmp_path / "model.pt"
    main(["average", "--inputs", str(weights), "--output", str(back)])
    averaged, shared = load(back), load(weights)
    assert (averaged["cfg"], averaged["task_state"]) == (shared["cfg"], shared["task_state"])
    assert all(torch.equal(averaged["model"][name], x) for name, x in shared["model"].items())
    hypotheses, losses = [], []
    for path in (model_dir / "model.pt", weights):
        flags = (corpus, "--user-dir", "aiayn_plugin", "--cpu", "--path", path)
        log = succeed("fairseq-generate", *flags, "--gen-subset", "test", "--max-len-b", "3")
        hypotheses.append(re.findall(r"^H-.*$", log.stdout, re.MULTILINE))
        log = succeed("fairseq-validate", *flags, "--max-tokens", "2000")
        losses.append(re.findall(r"loss .* ppl [0-9.]+", log.stdout + log.stderr))
    assert hypotheses[0] and hypotheses[0] == hypotheses[1]
    assert losses[0] and losses[0] == losses[1]


def test_an_existing_directory_is_not_replaced(model_dir, bundled):
    with pytest.raises(InputError, match="already exists"):
        bundle(model_dir, None, bundled)


@pytest.mark.parametrize(
    "name, damage, message",
    [
        ("model.safetensors", lambda data: data[:-1], "its checksum does not match config.json"),
        ("config.json", lambda data: b"[]", "was not written by aiayn bundle"),
        ("config.json", lambda data: b"[" * 100_000, "was not written by aiayn bundle"),
        ("config.json", lambda data: data.replace(b'"tied"', b'"tie"'), "not written by aiayn"),
        (
            "config.json",
            lambda data: data.replace(b'"tied": {', b'"tied": {"x": "encoder.embedding.weight",'),
            "ties several weights to one",
        ),
        ("config.json", lambda data: data.replace(b'"format": 1', b'"format": 2'), "format"),
        ("config.json", lambda data: data.replace(b'"en"', b'"os.getcwd()"'), "contain code"),
        (
            "config.json",
            lambda data: data.replace(b'"en"', b'"${oc.env:HOME}"'),
            "an interpolation",
        ),
    ],
)
def test_a_damaged_bundle_is_refused(bundled, tmp_path, name, damage, message):
    shutil.copytree(bundled, tmp_path / "bundle")
    path = tmp_path / "bundle" / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message) as error:
        load(tmp_path / "bundle" / "model.safetensors")
    assert "\n" not in str(error.value)


def test_an_error_prints_no_escape_sequences(bundled, tmp_path, error):
    shutil.copytree(bundled, tmp_path / "bundle")
    path = tmp_path / "bundle" / "config.json"
    config = json.loads(path.read_text())
    config["task_state"]["settings"]["h"] = "\x1b[2J"
    path.write_text(json.dumps(config))
    assert r"h is \x1b[2J, not 4" in error("translate", tmp_path / "bundle", "--device", "cpu")


def test_weights_that_are_not_safetensors_are_refused(bundled, tmp_path):
    shutil.copytree(bundled, tmp_path / "bundle")
    path = tmp_path / "bundle" / "model.safetensors"
    before = hash_file(path)
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])
    config = path.with_name("config.json")
    config.write_text(config.read_text().replace(before, hash_file(path)))
    with pytest.raises(InputError, match="it is damaged, or has too many tensors"):
        load(path)


def test_a_dictionary_of_different_token_ids_is_not_bundled(model_dir, tmp_path):
    shutil.copytree(model_dir, tmp_path / "model")
    (tmp_path / "model" / "data" / MANIFEST).unlink()
    change(lambda content: content + b"new 1\n", "dict.de.txt")(tmp_path / "model" / "data")
    with pytest.raises(InputError, match="does not match the target dictionary"):
        bundle(tmp_path / "model", None, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_a_bundle_in_float16_has_half_the_size_and_loads_in_float32(model_dir, bundled, tmp_path):
    examples = tmp_path / "examples.txt"
    examples.write_text("March 3, 2027\n")
    options = ("--examples", str(examples), "--output", str(tmp_path / "half"))
    main(["bundle", str(model_dir), "--precision", "float16", *options])
    sizes = [(path / "model.safetensors").stat().st_size for path in (tmp_path / "half", bundled)]
    assert sizes[0] < 0.51 * sizes[1]
    shared = load(tmp_path / "half" / "model.safetensors")["model"]
    for name, weight in load(model_dir / "model.pt")["model"].items():
        assert torch.equal(shared[name], weight.half()), name
    translator = Translator.load(tmp_path / "half", device="cpu")
    assert translator.model.encoder.embedding.weight.dtype == torch.float32
    about = describe_model(tmp_path / "half", translator.pipeline.settings, 90)
    assert about["examples"] == ["March 3, 2027"]
    readable = [path.stat().st_mode & 0o777 for path in (tmp_path / "half").iterdir()]
    assert len(set(readable)) == 1


def test_the_model_in_the_package_translates_shows_attention_and_is_small(
    run, tmp_path, monkeypatch
):
    assert sum(path.stat().st_size for path in DEMO.iterdir()) < 3e6
    sentence = "Departure: Thursday, June 10, 2027 at 3:45 PM"
    translation = "Abfahrt: Donnerstag, 10. Juni 2027 um 15:45 Uhr"
    (tmp_path / "text.en").write_text(f"{sentence}\n")
    command = ("aiayn", "translate", "demo", "--precision", "int8")
    done = run(*command, input=f"{sentence}\n", cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{translation}\n", "")
    monkeypatch.chdir(tmp_path)
    assert Translator.load("demo", device="cpu").translate([sentence]) == [translation]
    main(["attention", "demo", "--input", "text.en"])
    assert (tmp_path / "attention.html").is_file()
    (tmp_path / "demo").mkdir()
    with pytest.raises(InputError, match="demo/model.pt is missing"):
        Translator.load("demo")


def test_weights_that_share_memory_are_each_bundled(tmp_path, model_dir):
    first, second = (f"encoder.layers.0.self_attention.W_{name}.weight" for name in "QK")

    def share(state):
        state["model"][second] = state["model"][first]

    bundle(copy_changed(model_dir, tmp_path, share), None, tmp_path / "bundle")
    weights = load(tmp_path / "bundle" / "model.safetensors")["model"]
    assert weights[first].equal(weights[second])


def test_a_full_disk_is_an_os_error(tmp_path):
    with file_size_limit(1000), pytest.raises(OSError, match="File too large"):
        write_weights({"w": torch.ones(1000)}, tmp_path / "model.safetensors")
