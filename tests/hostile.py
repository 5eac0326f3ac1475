"""Malicious checkpoints. Code in some of them would create a marker file.

Other payloads try to open files or addresses, print the environment, write outside a tensor, or
use more memory or time than a file of their size should.
"""

import copy
import io
import os
import pickle
import struct
import sys
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import torch


class Calls:
    """Calls a function when it is unpickled without weights_only."""

    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def expression(mark: Path) -> str:
    """Return a Python expression that creates the mark."""
    return f"[open({str(mark)!r}, 'w').close(), (512, 3)][1:] * 2"


def pickled(plain: int | None = None, **options) -> Callable:
    """Return a function that writes a checkpoint with a hostile pickle among its weights.

    plain: the protocol of a file that is not torch's; options: those of torch.save.
    """

    def make(path: Path, good: dict, mark: Path) -> None:
        state = {**good, "model": {**good["model"], "x": Calls(eval, expression(mark))}}
        if plain is None:
            torch.save(state, path, **options)
        else:
            path.write_bytes(pickle.dumps(state, protocol=plain))

    return make


def script(path: Path, good: dict, mark: Path) -> None:
    """A TorchScript archive, whose code torch would compile."""

    class Writes(torch.nn.Module):
        def forward(self, x):
            return x + 1

    torch.jit.script(Writes()).save(str(path))


def old_tar(path: Path, good: dict, mark: Path) -> None:
    """The format of torch before 0.1.10, which unpacks a link first and then writes through it."""

    def member(tar: tarfile.TarFile, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))

    with tarfile.open(path, "w:") as tar:
        link = tarfile.TarInfo("storages")
        link.type, link.linkname = tarfile.SYMTYPE, str(mark)
        tar.addfile(link)
        member(tar, "storages", pickle.dumps(0))
        member(tar, "tensors", pickle.dumps(0))
        member(tar, "pickle", pickle.dumps(Calls(eval, expression(mark))))


def setting(part: str, **settings) -> Callable:
    """Return a function that writes a checkpoint of plain data with a setting fairseq evaluates.

    part: the place of the setting: "args", "cfg" (its model), or another group of cfg. "EVAL"
    stands for the expression, "MARK" and "FIFO" for the paths of the mark and of a FIFO.
    """

    def make(path: Path, good: dict, mark: Path) -> None:
        state = copy.deepcopy(good)
        task, fifo = state["cfg"]["task"], path.parent / "fifo"
        if "FIFO" in settings.values() and not fifo.exists():
            os.mkfifo(fifo)
        meanings = {"MARK": str(mark), "FIFO": str(fifo)}
        named = {
            name: meanings.get(value, value.replace("EVAL", expression(mark)))
            if isinstance(value, str)
            else value
            for name, value in settings.items()
        }
        if part == "args":
            state["args"] = Namespace(**{**task, "task": "translation", **named})
        elif part == "cfg":
            state["cfg"]["model"] = Namespace(**{**task, "_name": named["arch"], **named})
        else:
            state["cfg"][part] = {"_name": named.pop("name"), **named}
        torch.save(state, path)

    return make


def user_dir(path: Path, good: dict, mark: Path) -> None:
    """A checkpoint that names a Python package next to it."""
    package = path.parent / "evil_package"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(expression(mark), "utf-8")
    state = copy.deepcopy(good)
    state["cfg"]["common"]["user_dir"] = str(package)
    state["args"] = Namespace(**{**good["cfg"]["task"], "arch": "fconv", "user_dir": str(package)})
    torch.save(state, path)


def changed(change: Callable[[dict, Path], object]) -> Callable:
    """Return a function that writes a checkpoint with a change to its content."""

    def make(path: Path, good: dict, mark: Path) -> None:
        state = copy.deepcopy(good)
        change(state, mark)
        torch.save(state, path)

    return make


def in_cfg(group: str, **values) -> Callable:
    """Return a function that writes a checkpoint with these values in a group of cfg."""
    return changed(lambda state, mark: state["cfg"][group].update(values))


def with_weight(make_weight: Callable[[], torch.Tensor]) -> Callable:
    """Return a function that writes a checkpoint in which a tensor replaces the first weight."""

    def change(state: dict, mark: Path) -> None:
        state["model"][next(iter(state["model"]))] = make_weight()

    return changed(change)


def beyond_its_size() -> torch.Tensor:
    """Return a sparse tensor with an index far outside it, which torch does not check."""
    indices, values = torch.tensor([[10**9]]), torch.tensor([1.0])
    return torch.ops.aten._sparse_coo_tensor_unsafe(indices, values, (4,))


def rewritten(data: Callable[[str, bytes], bytes], **options) -> Callable:
    """Return a function that writes a torch archive with the data of its records replaced."""

    def make(path: Path, good: dict, mark: Path) -> None:
        archive = io.BytesIO()
        torch.save(good, archive)
        with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w", **options) as new:
            for record in old.infolist():
                new.writestr(record.filename, data(record.filename, old.read(record)))

    return make


def two_directories(path: Path, good: dict, mark: Path) -> None:
    """An archive with a second directory: zipfile reads the last one, torch the one named."""
    torch.save(good, path)
    whole = path.read_bytes()
    end = len(whole) - 22
    size, offset = struct.unpack("<LL", whole[end + 12 : end + 20])
    path.write_bytes(whole[:end] + whole[offset : offset + size] + whole[end:])


def two_sizes(path: Path, good: dict, mark: Path) -> None:
    """A directory small in the end record but huge in that of zip64, which zipfile uses."""
    torch.save(good, path)
    whole = path.read_bytes()
    end = len(whole) - 22
    (size,) = struct.unpack("<L", whole[end + 12 : end + 16])
    zip64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 2**40, end - size)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    path.write_bytes(whole[:end] + zip64 + locator + whole[end:])


def pickle_of(*opcodes: bytes) -> Callable:
    """Return a function that writes a torch archive with a pickle of these opcodes."""
    whole = b"\x80\2" + b"".join(opcodes) + b"."
    return rewritten(lambda name, data: whole if name.endswith("data.pkl") else data)


def array(rows: int) -> bytes:
    """Return the opcodes that fill a new numpy array with rows of 30 bytes."""
    data = b"c_codecs\nencode\n(X" + struct.pack("<l", 30 * rows) + bytes(30 * rows)
    data += b"X\6\0\0\0latin1tR"
    return b"(K\1K%cK\x1e\x86cnumpy\ndtype\n(X\2\0\0\0u1tR\x89%btb" % (rows, data)


def changed_moments(change: Callable[[torch.Tensor], object]) -> Callable:
    """Return a function that writes a checkpoint with all of Adam's moments changed."""

    def change_all(state: dict, mark: Path) -> None:
        for moments in state["last_optimizer_state"]["state"].values():
            moments.update({n: change(x) for n, x in moments.items() if n != "step"})

    return changed(change_all)


def beyond_its_end(moment: torch.Tensor) -> torch.Tensor:
    """Return the end of a tensor as one that overlaps itself."""
    if moment.dim() < 2:
        return moment
    rows, columns = moment.shape
    return moment.as_strided((rows, columns), (1, 1), moment.numel() - rows - columns + 1)


MODULUS = sys.hash_info.modulus
HUGE_BEAM = {"eval_bleu": True, "eval_bleu_args": '{"beam": 1000000000}'}
#: Each payload: a function of the path of the file, a good checkpoint, and the mark.
PAYLOADS: dict[str, Callable[[Path, dict, Path], None]] = {
    "pickle, among the weights": pickled(),
    "pickle, torch before 1.6": pickled(_use_new_zipfile_serialization=False),
    "pickle, protocol 4": pickled(pickle_protocol=4),
    "pickle, not torch's, protocol 2": pickled(plain=2),
    "TorchScript": script,
    "tar of torch before 0.1.10": old_tar,
    "args of fconv, encoder": setting("args", arch="fconv", encoder_layers="EVAL"),
    "cfg of fconv": setting("cfg", arch="fconv", encoder_layers="EVAL"),
    "user_dir": user_dir,
    "sparse weight": with_weight(beyond_its_size),
    "weight of a gigabyte in one number": with_weight(lambda: torch.zeros(1).expand(1 << 28)),
    "weight with less data than it states": rewritten(
        lambda name, data: data[:-4] if name.endswith("data/0") else data
    ),
    "compressed archive": rewritten(lambda name, data: data, compression=zipfile.ZIP_DEFLATED),
    "two directories": two_directories,
    "directory of two sizes": two_sizes,
    "pickle with a huge memo": pickle_of(b"}r\xff\xff\xff\x7f"),
    "pickle of deep lists": pickle_of(b"]" * 400_000, b"a" * 399_999),
    "pickle of a huge number": pickle_of(b"\x8b\xff\xff\xff\x7f"),
    "pickle with keys of nested tuples": pickle_of(b"}", b")", b"\x85" * 300_000, b"K\1s"),
    "pickle with keys of equal hashes": pickle_of(
        b"}(",
        *(b"\x8a\x0b%bN" % (k * MODULUS).to_bytes(11, "little") for k in range(1, 300_000)),
        b"u",
    ),
    "pickle with many numbers as keys": pickle_of(
        b"}(", *(b"J" + (5 * k).to_bytes(4, "little") + b"N" for k in range(20_001)), b"u"
    ),
    "pickle with settings of shared tuples": pickle_of(
        *(b")q\0", b"h\0h\0\x86q\0" * 40, b"cargparse\nNamespace\n)R]h\0K\1\x86ab")
    ),
    "pickle with views of replaced data": pickle_of(
        *(b"](cnumpy._core.multiarray\n_reconstruct\n)Rq\0", array(8), b"ctorch\nSize\nh\0\x85R"),
        *(b"h\0", array(2), b"e"),
    ),
    "pickle of many sizes of one list": pickle_of(
        b"](" + b"K\1" * 300_000 + b"eq\0", b"](" + b"ctorch\nSize\nh\0\x85R" * 100_000 + b"e0"
    ),
    "text of many settings": changed(
        lambda state, mark: state["cfg"]["common"].update(
            seed=[f"[{'1,' * 480}{number}]" for number in range(10_000)]
        )
    ),
    "predictions written to a file": setting(
        "criterion",
        name="sentence_ranking",
        ranking_head_name="x",
        save_predictions="MARK",
        num_classes=2,
    ),
    "criterion of no name": changed(lambda state, mark: state["cfg"].update(criterion=[1])),
    "embeddings of a nested model": in_cfg(
        "model", w2v_args={"model": {"encoder_embed_path": "/dev/zero"}}
    ),
    "dictionary in a FIFO": setting(
        "args", arch="transformer", task="translation_multi_simple_epoch", fixed_dictionary="FIFO"
    ),
    "configuration in a FIFO": setting(
        "args", arch="transformer", task="speech_to_text", config_yaml="FIFO"
    ),
    "alignments in a FIFO": changed(
        lambda state, mark: (
            os.mkfifo(mark.parent / "fifo"),
            state["cfg"]["generation"].update(replace_unk=str(mark.parent / "fifo")),
        )
    ),
    "embeddings of /etc/passwd": setting(
        "args", arch="transformer", decoder_embed_path="/etc/passwd"
    ),
    "embeddings of a FIFO": setting("args", arch="transformer", encoder_embed_path="FIFO"),
    "cfg, embeddings of /dev/zero": setting(
        "cfg", arch="transformer_iwslt_de_en", encoder_embed_path="/dev/zero"
    ),
    "pretrained model in a FIFO": setting(
        "args", arch="fconv_self_att", pretrained="True", pretrained_checkpoint="FIFO"
    ),
    "20,000,000 positions": setting(
        "args", arch="transformer", encoder_learned_pos=True, max_source_positions=20_000_000
    ),
    "as many layers as a flat weight allows": changed(
        lambda state, mark: (
            state["model"].update(flat_param_0=torch.zeros(1)),
            state["cfg"]["model"].update(N=10**7),
        )
    ),
    "environment": setting("args", arch="transformer", lr="${oc.env:PATH}"),
    "moments beyond their end": changed_moments(beyond_its_end),
    "versions of modules as a number": changed(
        lambda state, mark: setattr(state["model"], "_metadata", {"": 7})
    ),
    "criterion that divides by zero": setting(
        "criterion", name="ctc", wer_args="1/0", zero_infinity=False
    ),
    "task of fairseq with a huge beam": in_cfg("task", _name="translation", **HUGE_BEAM),
    "task with a huge beam": in_cfg("task", **HUGE_BEAM),
    "BPE that downloads": changed(
        lambda state, mark: state["cfg"].update(
            bpe={"_name": "gpt2", "gpt2_encoder_json": "http://127.0.0.1:9/encoder.json"}
        )
    ),
    "part with escape sequences": changed(lambda state, mark: state.update({"\x1b[2J": 1})),
}
