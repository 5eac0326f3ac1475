"""No untrusted file runs code under fairseq."""

import argparse
import io
import re
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, file_utils
from hostile import Calls, expression

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.trust import UNSAFE_LOADING


def test_numpys_numbers_are_loaded(model_dir, tmp_path):
    """fairseq stores them after --eval-bleu."""
    state = torch.load(model_dir / "model.pt", weights_only=False)
    stored = {
        "best": np.float64(37.5),
        "counts": np.array([[3, 4], [5, 6]]),
        "n": [np.int64(3)],
        "last": np.asfortranarray(np.eye(3)[:, :2]),
    }
    state["extra_state"]["numbers"] = stored
    torch.save(state, tmp_path / "a.pt")
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "a.pt"))
    loaded = loaded["extra_state"]["numbers"]
    assert loaded["best"] == 37.5 and loaded["n"] == [3]
    for name in ("counts", "last"):
        assert np.array_equal(loaded[name], stored[name])
        assert loaded[name].dtype == stored[name].dtype


def test_the_environment_cannot_disable_the_protection(run, corpus, tmp_path):
    """LOGLEVEL=DEBUG only adds the stack trace."""
    mark = tmp_path / "mark"
    torch.save({"model": {"x": Calls(eval, expression(mark))}}, tmp_path / "a.pt")
    log = run(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--cpu"),
        *("--path", tmp_path / "a.pt"),
        env={UNSAFE_LOADING: "1", "LOGLEVEL": "DEBUG"},
    )
    assert not mark.exists() and log.returncode == 1
    assert log.stderr.count(f"{UNSAFE_LOADING} is ignored") == 1
    assert "Traceback" in log.stderr
    assert re.match("fairseq-generate: error: .*it would run", log.stderr.splitlines()[-1])


def test_an_archive_moves_no_directory_of_the_user(tmp_path, monkeypatch):
    """fairseq moves the common prefix of all names."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "precious").touch()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for name in ("a", "b"):
            archive.addfile(tarfile.TarInfo(f"{tmp_path}/home/{name}"))
    with pytest.raises(InputError, match="it holds the path"):
        file_utils.load_archive_file(str(tmp_path / "a.tar.gz"))
    assert (tmp_path / "home" / "precious").exists() and (tmp_path / "a.tar.gz").is_file()
    assert not list((tmp_path / "temporary").iterdir()), "nothing half-unpacked is left"


def test_a_users_own_archive_filter_is_kept(tmp_path, monkeypatch):
    kept = staticmethod(lambda member, path: member)
    monkeypatch.setattr(tarfile.TarFile, "extraction_filter", kept)
    file_utils.load_archive_file(str(tmp_path))
    assert vars(tarfile.TarFile)["extraction_filter"] is kept


def test_an_archive_unpacks_only_into_its_directory(tmp_path):
    outside = tmp_path / "outside"
    for name in ("../../outside", str(outside), "..outside", "a/../../outside"):
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
        with pytest.raises(InputError, match="cannot be unpacked as an archive.*outside"):
            file_utils.load_archive_file(str(tmp_path / "a.tar.gz"))
        assert not outside.exists()
    outside.mkdir()
    link, inside = tarfile.TarInfo("a"), tarfile.TarInfo("a/x")
    link.type, link.linkname = tarfile.SYMTYPE, str(outside)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.addfile(link)
        archive.addfile(inside)
    with pytest.raises(InputError, match="cannot be unpacked as an archive"):
        file_utils.load_archive_file(str(tmp_path / "a.tar.gz"))
    assert not list(outside.iterdir())


@pytest.mark.parametrize("names", [("data", "dict.txt"), ("model.pt", "dict.txt")])
def test_an_archive_without_a_single_directory_loses_nothing(tmp_path, names):
    """fairseq deletes it before it moves the common prefix of the names, here "d" or nothing."""
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(InputError, match="no single directory .* its content is in") as error:
        file_utils.load_archive_file(str(tmp_path / "a.tar.gz"))
    folder = Path(re.search("its content is in (.*): pass", str(error.value))[1])
    assert {path.name for path in folder.iterdir()} == set(names)


def test_what_is_not_a_directory_nor_an_archive_is_refused(tmp_path):
    assert vars(tarfile.TarFile)["extraction_filter"] is None
    with pytest.raises(InputError, match="neither a directory nor an archive"):
        file_utils.load_archive_file(str(tmp_path / "missing"))
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
def test_settings_of_no_model_are_refused(settings, message, model_dir, tmp_path):
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
