"""Checkpoints as files: read without running code, and written whole or not at all."""

from argparse import Namespace

import pytest
import torch
from models import Hostile

from aiayn_plugin.checkpoints.files import configuration, load, save, written_aside
from aiayn_plugin.errors import InputError


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "new" / "model.pt"
    save({"model": {"w": torch.ones(2)}, "cfg": Namespace(d_model=8)}, path)
    state = load(path)
    assert state["model"]["w"].tolist() == [1.0, 1.0] and state["cfg"].d_model == 8
    assert [path.name for path in path.parent.iterdir()] == ["model.pt"]


def test_what_version_0_1_0_saved_is_loaded_under_todays_names(tmp_path):
    torch.save({"model": {"shapeless": torch.tensor([8, 0, 0]), "w": torch.ones(1)}},
               tmp_path / "old.pt")  # fmt: skip
    assert set(load(tmp_path / "old.pt")["model"]) == {"settings_without_shape", "w"}


def test_a_file_that_wants_to_run_code_is_refused(tmp_path, capsys):
    torch.save({"model": Hostile()}, tmp_path / "hostile.pt")
    with pytest.raises(InputError, match="loaded safely: it wants to run print$") as error:
        load(tmp_path / "hostile.pt")
    assert "\n" not in str(error.value)
    assert "this must not run" not in capsys.readouterr().out


def test_settings_of_any_version_of_fairseq():
    """They are a Namespace, a dictionary, or the command line of years ago."""
    model = {"_name": "aiayn_base", "N": 6}
    for settings in (model, Namespace(**model)):
        cfg, architecture = configuration({"cfg": {"model": settings, "task": {}}})
        assert (cfg["model"], architecture) == (Namespace(**model), "aiayn_base")
    args = Namespace(arch="transformer", source_lang="en", target_lang="de")
    cfg, architecture = configuration({"args": args, "cfg": None})
    assert (cfg["model"], architecture) == (args, "transformer")
    assert cfg["task"] == {"_name": "translation", "data": None, "source_lang": "en",
                           "target_lang": "de"}  # fmt: skip
    with pytest.raises(InputError, match="neither cfg nor args"):
        configuration({"model": {}})


def test_a_directory_appears_whole_or_not_at_all(tmp_path):
    output = tmp_path / "new" / "bundle"
    with pytest.raises(KeyError), written_aside(output) as directory:
        (directory / "a").write_text("half")
        raise KeyError
    assert list(output.parent.iterdir()) == []
    with written_aside(output) as directory:
        (directory / "a").write_text("whole")
        assert not output.exists()
    assert [path.name for path in output.parent.iterdir()] == ["bundle"]
    assert (output / "a").read_text() == "whole"
    with pytest.raises(InputError, match="is there already"), written_aside(output):
        pass
