"""Checkpoints as files: read without running code, and written atomically."""

import resource
import struct
import subprocess
import sys
import zipfile
from argparse import Namespace
from collections import OrderedDict
from random import Random
from threading import Event, Thread

import pytest
import torch
from fairseq.logging.meters import AverageMeter

from aiayn_plugin.checkpoints import torch_file
from aiayn_plugin.checkpoints.safe_load import configuration, limit_memory, load, save
from aiayn_plugin.errors import InputError


@pytest.mark.parametrize("module", ["fairseq.meters", "fairseq.logging.meters"])
def test_the_meters_of_old_checkpoints_are_dropped(tmp_path, monkeypatch, module):
    """fairseq before 0.10 stored them as objects."""
    monkeypatch.setattr(AverageMeter, "__module__", module)
    (meter := AverageMeter()).update(2.5)
    extra = {"epoch": 3, "train_meters": OrderedDict(train_loss=meter)}
    torch.save({"model": {"w": torch.ones(2)}, "extra_state": extra}, tmp_path / "old.pt")
    assert load(tmp_path / "old.pt")["extra_state"] == {"epoch": 3}


@pytest.fixture
def written(tmp_path):
    """A checkpoint of some kilobytes, and its content."""
    state = {
        "model": {"w": torch.arange(500.0), "b": torch.ones(3)},
        "cfg": None,
        "args": Namespace(arch="x"),
        "extra_state": {"epoch": 3},
    }
    save(state, tmp_path / "model.pt")
    return tmp_path / "model.pt", state


def test_one_changed_bit_is_found(written):
    """Unless it has no meaning, as in padding, dates and file attributes."""
    path, state = written
    whole, found, random = path.read_bytes(), 0, Random(1)
    for place in random.sample(range(len(whole)), 400):
        changed = bytearray(whole)
        changed[place] ^= 1 << random.randrange(8)
        path.write_bytes(changed)
        try:
            loaded = load(path)
        except InputError as error:
            found += 1
            assert str(error).startswith(str(path)) and "\n" not in str(error)
        else:
            assert loaded["args"] == state["args"]
            assert loaded["extra_state"] == state["extra_state"]
            for name, weight in state["model"].items():
                assert torch.equal(loaded["model"][name], weight)
    assert found > 250


def test_a_truncated_file_is_found(written):
    path, _ = written
    whole = path.read_bytes()
    for size in (0, 1, 4, 30, 200, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="cannot be loaded safely"):
            load(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 5000,
        b"PK\3\4",
        b"PK\3\4" + b"x" * 999,
        b"\x80\x02.",
        b"text",
        Random(1).randbytes(5000),
    ],
)
def test_files_that_are_not_checkpoints_are_refused(data, tmp_path):
    (tmp_path / "a.pt").write_bytes(data)
    for with_data in (True, False):
        with pytest.raises(InputError, match="cannot be loaded safely") as error:
            load(tmp_path / "a.pt", with_data)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a.pt", "model.safetensors"])
def test_a_device_is_not_a_file(name, tmp_path):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match="it is not a regular file; use an intact copy"):
        load(tmp_path / name)


def test_a_directory_of_too_many_records_cannot_be_hidden(written, monkeypatch):
    """zipfile ignores the zip64 record that the last comment imitates, and reads the directory."""
    path, _ = written
    with zipfile.ZipFile(path, "a") as archive:
        last = zipfile.ZipInfo("archive/data/last")
        record = b"PK\6\6" + bytes(36) + struct.pack("<QQ", 7, 0)
        last.comment = bytes(4) + record[4:] + b"PK\6\7" + bytes(16)
        archive.writestr(last, b"")
    monkeypatch.setattr(torch_file, "MAX_DIRECTORY", 100)
    with pytest.raises(InputError, match="cannot be loaded safely: .*directory"):
        load(path)


@pytest.mark.parametrize("state", [[1], torch.ones(3), {"w": torch.ones(3)}, {"model": None}, 7])
def test_torch_files_without_a_model_are_refused(state, tmp_path):
    torch.save(state, tmp_path / "a.pt")
    with pytest.raises(InputError, match="not a fairseq checkpoint: it holds no model"):
        load(tmp_path / "a.pt")


def test_the_old_format_of_torch_is_loaded(tmp_path):
    """The format of fairseq's published models, without checksums."""
    state = {"model": {"w": torch.ones(2)}, "args": Namespace(arch="x")}
    torch.save(state, path := tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    for with_data in (True, False):
        assert load(path, with_data)["args"].arch == "x"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="cannot be loaded safely: it is truncated"):
        load(path)


@pytest.mark.parametrize("part", ["args", "cfg"])
@pytest.mark.parametrize(
    "settings, message",
    [
        ({"dropout": torch.ones(1)}, "its setting dropout has type Tensor"),
        ({"encoder_layers": 3}, "encoder_layers is 3, but it has weights for fewer layers"),
        ({"N": " 0x190 "}, "its setting N is  0x190 "),
        ({"x": {"\x1b[31m": 8}}, r"it has the invalid name '\\x1b\[31m'"),
        ({"x": {None: 8}}, "it has the invalid name None"),
        ({"_name": ["a"]}, "_name has type list"),
        ({"task": {"_name": "a"}}, "task has type dict"),
        ({"x": [[b"bytes"]]}, r"x\[\]\[\] has type bytes"),
    ],
)
def test_settings_that_are_not_plain_values_are_refused(written, part, settings, message):
    path, state = written
    save({**state, part: Namespace(**settings) if part == "args" else {"model": settings}}, path)
    with pytest.raises(InputError, match=message):
        load(path)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"args": "text"}, "settings hold a str"),
        ({"cfg": [1]}, "settings hold a list"),
        ({"cfg": {"model": "a"}}, "settings hold a str"),
        ({"cfg": {"task": 7}}, "settings hold a int"),
        ({"model": {"w": "text"}}, "weight 'w'"),
        ({"model": {7: torch.ones(1)}}, "invalid name 7"),
    ],
)
def test_settings_and_weights_of_other_types_are_refused(written, change, message):
    path, state = written
    save({**state, **change}, path)
    with pytest.raises(InputError, match=message):
        load(path)


def test_names_with_a_meaning_in_python_are_settings(written):
    path, state = written
    odd = {"self": 1, "__class__": "x", "__dict__": "y", "_name": "aiayn_base"}
    save({**state, "args": None, "cfg": {"model": odd}}, path)
    assert configuration(load(path))[1] == "aiayn_base"


def test_a_checkpoint_of_fsdp_has_flat_weights(written):
    path, state = written
    save(
        {
            **state,
            "model": {"flat_param_0": torch.ones(5000)},
            "args": Namespace(encoder_layers=12, encoder_embed_dim=512),
        },
        path,
    )
    assert load(path)["args"].encoder_layers == 12


def test_recursive_settings_are_refused(written):
    """A billion laughs, and a dictionary that contains itself, cost no time or memory."""
    path, state = written
    laughs: list = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    endless: dict = {}
    endless["x"] = endless
    crowd: list = []
    crowd += [crowd] * 10_000
    for cfg in (endless, {"laughs": laughs}, {"crowd": crowd}):
        save({**state, "cfg": cfg}, path)
        with pytest.raises(InputError, match="too many values|nested too deeply"):
            load(path)


def test_the_configuration_is_that_of_fairseq(written):
    """fairseq prefers args to cfg, and args.arch to args._name."""
    args = Namespace(arch="fconv", _name="aiayn_base", task="translation")
    cfg = {"model": {"_name": "aiayn_base"}, "task": {"_name": "aiayn_translation"}}
    found, architecture = configuration({"args": args, "cfg": cfg})
    assert architecture == "fconv" and found["task"]["_name"] == "translation"


def test_settings_of_every_fairseq_version_are_read():
    """They are a Namespace, a dictionary, or an old version's command line."""
    model = {"_name": "aiayn_base", "N": 6}
    for settings in (model, Namespace(**model)):
        cfg, architecture = configuration({"cfg": {"model": settings, "task": {}}})
        assert (cfg["model"], architecture) == (Namespace(**model), "aiayn_base")
    args = Namespace(arch="transformer", source_lang="en", target_lang="de")
    cfg, architecture = configuration({"args": args, "cfg": None})
    assert (cfg["model"], architecture) == (args, "transformer")
    assert cfg["task"] == {
        "_name": "translation",
        "data": None,
        "source_lang": "en",
        "target_lang": "de",
    }
    with pytest.raises(InputError, match="neither cfg nor args"):
        configuration({"model": {}})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory on Linux only")
def test_threads_limit_the_memory_in_turn():
    """Otherwise the second would restore the limit of the first."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    first_began, second_began, leave = Event(), Event(), Event()

    def build_first():
        with limit_memory(), limit_memory():  # a model may load another
            first_began.set()
            leave.wait(60)

    def build_second():
        with limit_memory():
            second_began.set()
            first.join()

    first, second = Thread(target=build_first), Thread(target=build_second)
    first.start()
    assert first_began.wait(60)
    second.start()
    second_began.wait(0.5)
    leave.set()
    second.join()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory on Linux only")
def test_the_memory_limit_leaves_space_for_the_stacks_of_many_threads():
    """64 threads of 8 MiB, with a limit of 256 MiB: libgomp ends a process that gets no thread."""
    program = (
        "import torch; from aiayn_plugin.checkpoints.safe_load import limit_memory\n"
        "torch.set_num_threads(64)\n"
        "with limit_memory():\n    print(int(torch.zeros(1 << 21).add_(1).sum()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{1 << 21}\n"), done.stderr
