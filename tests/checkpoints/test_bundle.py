"""A bundle holds what translating needs, and nothing of the training."""

import shutil

import pytest
import torch
from breakages import change

from aiayn_plugin.checkpoints.bundle import bundle
from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import MANIFEST


def test_a_bundle_keeps_weights_settings_and_identity_only(model_dir, tmp_path):
    size = bundle(model_dir, None, tmp_path / "bundle")
    assert size == sum(path.stat().st_size for path in (tmp_path / "bundle").iterdir())
    trained, bundled = (
        torch.load(folder / "model.pt", weights_only=True)
        for folder in (model_dir, tmp_path / "bundle")
    )
    assert bundled["extra_state"] == {} and bundled["last_optimizer_state"] is None
    assert bundled["task_state"] == trained["task_state"]
    assert bundled["task_state"].keys() == {"dictionaries", "settings"}
    assert bundled["cfg"]["model"] == trained["cfg"]["model"]
    assert bundled["model"].keys() == trained["model"].keys()
    for name, weight in trained["model"].items():
        assert torch.equal(bundled["model"][name], weight), name


@pytest.mark.parametrize("language, side", [("en", "source"), ("de", "target")])
def test_a_dictionary_of_different_token_ids_is_not_bundled(model_dir, tmp_path, language, side):
    shutil.copytree(model_dir, tmp_path / "model")
    (tmp_path / "model" / "data" / MANIFEST).unlink()
    change(lambda content: content + b"new 1\n", f"dict.{language}.txt")(
        tmp_path / "model" / "data"
    )
    with pytest.raises(InputError, match=f"does not match the {side} dictionary"):
        bundle(tmp_path / "model", None, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
