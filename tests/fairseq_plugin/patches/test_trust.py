"""No untrusted file runs code under fairseq."""

import argparse
import re
import tarfile

import pytest
import torch
from fairseq import checkpoint_utils, file_utils
from hostile import Calls, expression
from models import copy_changed

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


def put_args(**settings):
    """Return a function that puts settings in a checkpoint's args, which fairseq prefers to cfg."""

    def change(state):
        task = {**state["cfg"]["task"], "task": "translation"}
        state["args"] = argparse.Namespace(**{**task, **settings})

    return change


@pytest.mark.parametrize(
    "change, message",
    [
        (put_args(arch="no_such_arch"), "fairseq has no model 'no_such_arch': give the --user-dir"),
        (put_args(arch="transformer", task="no_such_task"), "fairseq has no task 'no_such_task'"),
        (put_args(), "fairseq has no model 'None'"),
        (put_args(arch="transformer", encoder_layers="two"), "be built: (Type|Value)Error: "),
        (
            put_args(arch="transformer", encoder_embed_dim=2**50),
            "its settings require more memory than its weights need",
        ),
        (
            lambda state: state["cfg"]["model"].update(_name="no_such_name"),
            "fairseq has no model 'no_such_name': give the --user-dir",
        ),
        (
            lambda state: state["cfg"]["task"].update(_name="no_such_name"),
            "fairseq has no task 'no_such_name': give the --user-dir",
        ),
        (lambda state: state.update(cfg=None), "the checkpoint holds no settings of its model"),
    ],
)
def test_invalid_settings_are_refused(change, message, model_dir, tmp_path):
    path = copy_changed(model_dir, tmp_path, change) / "model.pt"
    with pytest.raises(InputError, match=f"^{path}.*{message}") as error:
        checkpoint_utils.load_model_ensemble_and_task([str(path)])
    assert "\n" not in str(error.value)
