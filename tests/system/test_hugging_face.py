"""aiayn export --format transformers, the code of its model card, and aiayn convert back."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
import torch
from breakages import DICTIONARY, change
from commands import LINES
from models import change_checkpoint, copy_changed, use_sinusoids

from aiayn_plugin.corpus.subwords import learn_wordpieces
from aiayn_plugin.inference import Translator
from aiayn_plugin.text.manifest import MANIFEST, hash_file
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import SACREMOSES, SETTINGS_FILE, TextSettings

LONG = "Monday, May 1, 2023 and 5 hours"
#: Characters that a tokeniser escapes or normalises, and a word that it keeps whole.
MARKED = "“Rock” & 'Roll' at 15:05 on https://example.org/a?b=1"


@pytest.fixture(scope="module", params=["learned", "sinusoids"])
def exported(request, succeed, model_dir, tmp_path_factory):
    """A run directory, and its export."""
    if request.param == "sinusoids":
        model_dir = copy_changed(model_dir, tmp_path_factory.mktemp("run"), use_sinusoids)
        path = model_dir / "data" / SETTINGS_FILE
        changes = {"tokenizer": SACREMOSES, "normalize_punctuation": True}
        replace(TextSettings.load(path), **changes).save(path)
    output = tmp_path_factory.mktemp("export") / "marian"
    log = succeed("aiayn", "export", "--format", "transformers", model_dir, "--output", output)
    assert "MarianMTModel of 1,024 positions" in log.stdout
    assert len({path.stat().st_mode for path in output.iterdir()}) == 1, (
        "all are for the same users"
    )
    return model_dir, output


def test_the_model_card_translates_the_same(transformers, exported, corpus, monkeypatch):
    """Its code runs as it stands, in the exported directory."""
    model_dir, output = exported
    monkeypatch.chdir(output)
    code, pipeline = {}, TextPipeline.load(model_dir / "data")
    for block in re.findall(r"```python\n(.*?)```", (output / "README.md").read_text(), re.DOTALL):
        exec(block, code)
        assert code["tokenize"](MARKED) == pipeline.tokenize(MARKED)
    assert type(code["model"]) is transformers.MarianMTModel
    lines = [line for line in LINES if line] + [LONG]
    lines += (corpus / "valid.raw.en").read_text("utf-8").splitlines()[:5]
    ours = Translator.load(model_dir, device="cpu")
    found = [code["translate_as_in_the_paper"]([line])[0] for line in lines]
    assert found == ours.translate(lines)
    greedy, options = Translator.load(model_dir, device="cpu", beam=1), {"num_beams": 1}
    # one by one, since a batch has one limit on the length
    found = [code["translate"]([line], **options)[0] for line in lines]
    assert found == greedy.translate(lines)


def test_an_export_is_converted_back_to_a_bundle(transformers, run, exported, tmp_path):
    model_dir, output = exported
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(output)
    model.save_pretrained(tmp_path / "tuned")
    convert = ["aiayn", "convert", "--output", tmp_path / "bundle", "--input"]
    if json.loads((output / "config.json").read_text())["positions"] == "sinusoids":
        log = run(*convert, tmp_path / "tuned")
        assert (log.returncode, log.stderr.count("\n")) == (1, 1)
        assert (
            "text.json is missing: add --data" in log.stderr and not (tmp_path / "bundle").exists()
        )
        shutil.copy(output / "tokenizer.json", tmp_path / "tuned")
        different = shutil.copytree(output, tmp_path / "different")
        for lang, message in (("de", "has separate dictionaries"), ("en", "token IDs differ")):
            # the first two subwords change places
            first, second, *rest = (output / f"dict.{lang}.txt").read_text("utf-8").splitlines()
            (different / f"dict.{lang}.txt").write_text(
                "\n".join([second, first, *rest, ""]), "utf-8"
            )
            log = run(*convert, tmp_path / "tuned", "--data", different)
            assert log.returncode == 1 and message in log.stderr
        log = run(*convert, tmp_path / "tuned", "--data", output)
    else:
        log = run(*convert, output)
    assert log.returncode == 0, log.stderr
    expected, actual = (
        Translator.load(path, device="cpu") for path in (model_dir, tmp_path / "bundle")
    )
    lines = [*LINES, LONG]
    assert actual.translate(lines) == expected.translate(lines)
    source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[2, 8, 9]])
    with torch.no_grad():
        logits = [translator.model(source, target) for translator in (actual, expected)]
    torch.testing.assert_close(*logits, rtol=0, atol=1e-4)


def test_what_cannot_be_exported_is_refused(model_dir, tmp_path, error):
    pytest.importorskip("sentencepiece")
    shutil.copytree(model_dir, tmp_path / "run")
    data = tmp_path / "run" / "data"
    learn_wordpieces(Counter({"hours": 5, "minutes": 3, "days": 2}), 20, data)
    settings = json.loads((data / "text.json").read_text())
    settings |= {"subword": "wordpiece", "codes": "wordpieces.model"}
    settings["codes_sha256"] = hash_file(data / "wordpieces.model")
    (data / "text.json").write_text(json.dumps(settings))

    def with_two_dictionaries(tie):
        """Return a run directory whose checkpoint records none."""
        folder = shutil.copytree(model_dir, tmp_path / tie)
        (folder / "data" / MANIFEST).unlink()
        change(DICTIONARY["other order"], "dict.de.txt")(folder / "data")
        change_checkpoint(folder, lambda state: state["task_state"].pop("dictionaries"))
        change_checkpoint(folder, lambda state: state["cfg"]["model"].update(tie_embeddings=tie))
        return folder

    for directory, flags, message in (
        (tmp_path / "run", [], "has wordpieces"),
        (with_two_dictionaries("all"), [], "source and target dictionaries differ"),
        (with_two_dictionaries("target"), [], "has separate dictionaries"),
        (model_dir, ["--quantization", "int8"], "applies only to"),
    ):
        command = ("export", directory, "--output", tmp_path / "out", *flags)
        assert message in error(*command, "--format", "transformers")
        assert not (tmp_path / "out").exists()
