"""No untrusted file runs code under fairseq."""

import argparse
import re
import tarfile

import pytest
import torch
from fairseq import checkpoint_utils, file_utils
from hostile import Calls, expression

from aiayn_plugin.errors import InputError


def test_the_environment_cannot_disable_the_protection(run, corpus, tmp_path):
    """LOGLEVEL=DEBUG only adds the stack trace."""
    mark = tmp_path / "mark"
    torch.save({"model": {"x": Calls(eval, expression(mark))}}, tmp_path / "a.pt")
    log = run(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--cpu"),
        *("--path", tmp_path / "a.pt"),
        env={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "LOGLEVEL": "DEBUG"},
    )
    assert not mark.exists() and log.returncode == 1
    assert "Traceback" in log.stderr
    assert re.match("fairseq-generate: error: .*it would run", log.stderr.splitlines()[-1])


def test_archives_are_not_unpacked(tmp_path):
    """fairseq would unpack them without checking their paths, and delete them."""
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../outside"))
    for name in ("a.tar.gz", "missing"):
        with pytest.raises(InputError, match=f"{name} is not a directory: unpack it first"):
            file_utils.load_archive_file(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
    assert file_utils.load_archive_file(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"arch": "no_such_arch"}, "fairseq has no model 'no_such_arch': give the --user-dir"),
        ({"arch": "transformer", "task": "no_such_task"}, "fairseq has no task 'no_such_task'"),
        ({}, "fairseq has no model 'None'"),
        ({"arch": "transformer", "encoder_layers": "two"}, "cannot be built: (Type|Value)Error: "),
        (
            {"arch": "transformer", "encoder_embed_dim": 2**50},
            "its settings require more memory than its weights need",
        ),
    ],
)
def test_invalid_model_settings_are_refused(settings, message, model_dir, tmp_path):
    state = torch.load(model_dir / "model.pt", weights_only=False)
    task = {**state["cfg"]["task"], "task": "translation"}
    state["args"] = argparse.Namespace(**{**task, **settings})
    torch.save(state, tmp_path / "a.pt")
    with pytest.raises(InputError, match=message) as error:
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "a.pt")])
    assert str(error.value).startswith(f"{tmp_path}/a.pt") and "\n" not in str(error.value)


def test_a_checkpoint_without_settings_is_refused(model_dir, tmp_path):
    state = torch.load(model_dir / "model.pt", weights_only=False)
    torch.save({**state, "cfg": None}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="a.pt: the checkpoint holds no settings of its model"):
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "a.pt")])


@pytest.mark.parametrize(
    "part, message",
    [
        ("model", "fairseq has no model 'no_such_name': give the --user-dir"),
        ("task", "fairseq has no task 'no_such_name': give the --user-dir"),
    ],
)
def test_unregistered_names_are_refused(part, message, model_dir, tmp_path):
    state = torch.load(model_dir / "model.pt", weights_only=False)
    settings = state["cfg"][part]
    (settings if isinstance(settings, dict) else vars(settings))["_name"] = "no_such_name"
    torch.save(state, tmp_path / "a.pt")
    with pytest.raises(InputError, match=message):
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "a.pt")])
