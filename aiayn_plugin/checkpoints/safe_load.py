"""fairseq's checkpoints as files: read without running code, and written atomically."""

import re
import resource
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..atomic import write_file_atomically
from ..errors import InputError
from . import safetensors_file, schema, torch_file

ADVICE = "use an intact copy, or a different checkpoint"
#: Bytes that building a model may take beyond an amount proportional to its weights.
MEMORY_ALLOWANCE = 256 << 20
_LIMIT_LOCK = threading.RLock()  # the limit is per process; building one model may load another

# fairseq stores its settings as a Namespace, which is as safe as a dictionary. It is allowed
# globally, so that a user's own torch.load can read a checkpoint.
torch.serialization.add_safe_globals([Namespace])


def load(path: Path, with_data: bool = True) -> dict:
    """Return a fairseq checkpoint on the CPU, without running any code in it.

    with_data: if False, neither verify the weights nor read their data from a .pt.

    Raises InputError if the file is broken, unsafe or not a fairseq checkpoint, and OSError if
    it cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise torch_file.FileError("it is not a regular file")
        is_bundle = path.suffix == safetensors_file.WEIGHTS_SUFFIX
        state = (safetensors_file if is_bundle else torch_file).read(path, with_data)
        if isinstance(state, dict) and isinstance(extra := state.get("extra_state"), dict):
            extra.pop("train_meters", None)  # fairseq before 0.10 stored objects
        schema.check(state)
    except (InputError, OSError):
        raise
    except Exception as error:  # settings and state may be malformed in any way
        is_expected = isinstance(error, torch_file.FileError)
        reason = str(error) if is_expected else f"its content is malformed ({type(error).__name__})"
        raise InputError(f"{path} cannot be loaded safely: {reason}; {ADVICE}") from None
    return state


@contextmanager
def limit_memory(*checkpoints: Path) -> Iterator[None]:
    """Bound the memory for building the models of checkpoints in proportion to their files.

    Settings may ask for any width. Linux then refuses the memory, which raises MemoryError or
    torch's RuntimeError; other systems have no such limit.
    """
    with _LIMIT_LOCK:
        torch.zeros(1 << 20).add_(1)  # starts torch's threads, whose stacks count as data
        status = Path("/proc/self/status")
        text = status.read_text("ascii") if status.exists() else ""
        size = re.search(r"^VmData:\s*(\d+) kB", text, re.MULTILINE)
        if size is None:
            yield
            return
        # the file's content, and two copies in float32 of what may be float16 in it
        contents = 5 * sum(path.stat().st_size for path in checkpoints)
        limit = 1024 * int(size[1]) + contents + MEMORY_ALLOWANCE
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limits = [number for number in (limit, soft, hard) if number != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def configuration(state: dict) -> tuple[dict[str, Any], str | None]:
    """Return the configuration in a checkpoint, and the name of the architecture.

    Its "model" is a Namespace. Older versions of fairseq stored their command line as `args`
    instead, which fairseq prefers where it exists. Raises InputError if both are missing.
    """
    if (args := state.get("args")) is not None:
        args = _namespace(args)
        task = {"_name": getattr(args, "task", "translation")}
        task |= {name: getattr(args, name, None) for name in ("data", "source_lang", "target_lang")}
        return {"model": args, "task": task}, getattr(args, "arch", None)
    if isinstance(state.get("cfg"), dict) and "model" in state["cfg"]:
        model = _namespace(state["cfg"]["model"])
        architecture = getattr(model, "_name", None) or getattr(model, "arch", None)
        task = vars(_namespace(state["cfg"].get("task")))
        return {**state["cfg"], "model": model, "task": task}, architecture
    raise InputError("the checkpoint holds no settings of its model (neither cfg nor args)")


def _namespace(settings: Any) -> Namespace:
    if isinstance(settings, Namespace):
        return settings
    if not isinstance(settings or {}, dict):
        raise InputError(f"the checkpoint has a {type(settings).__name__} in place of settings")
    namespace = Namespace()
    vars(namespace).update(settings or {})
    return namespace


def save(state: dict, path: Path, check: Callable[[Path], object] | None = None) -> None:
    """Write a checkpoint atomically, and create its directory.

    check: receives the new file, and raises an error if it must not replace an earlier one.

    Raises InputError if the disk is full, or if the path ends in .safetensors.
    """
    if path.suffix == safetensors_file.WEIGHTS_SUFFIX:
        raise InputError(f"{path}: checkpoints end in .pt; aiayn bundle writes {path.suffix}")
    with write_file_atomically(path) as temporary:
        with open(temporary, "wb") as file:
            torch.save(state, file)
        if check is not None:
            check(temporary)
