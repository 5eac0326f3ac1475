"""Malicious checkpoints fail, whichever command reads them."""

import os
import re
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commands import PLUGIN, TRAIN
from fairseq import checkpoint_utils
from hostile import PAYLOADS

from aiayn_plugin.checkpoints.safe_load import load
from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.hydra import CONFIG_DIRECTORY
from aiayn_plugin.fairseq_plugin.model import AiaynTransformer
from aiayn_plugin.inference import Translator

USE = f"{{data}} --user-dir {PLUGIN} --cpu --path {{model}}"
GENERATE = f"fairseq-generate {USE} --gen-subset test --max-len-b 3 --num-workers 0"
RESUME = (
    f"fairseq-train {{data}} {' '.join(TRAIN)} --max-update 31 --positions learned "
    "--warmup-updates 10 --disable-validation"
)
#: Commands that read a checkpoint; {folder} holds it, as {model} and as checkpoint_last.pt.
COMMANDS = {
    "fairseq-train, resumed": f"{RESUME} --save-dir {{folder}}",
    "fairseq-train --restore-file": f"{RESUME} --restore-file {{model}} --save-dir new",
    "fairseq-train --finetune-from-model": (
        f"{RESUME} --finetune-from-model {{model}} --save-dir new"
    ),
    "fairseq-hydra-train, resumed": (
        f"fairseq-hydra-train --config-dir {CONFIG_DIRECTORY} --config-name aiayn_base "
        f"common.user_dir={PLUGIN} task.data={{data}} common.cpu=true "
        "checkpoint.save_dir={folder} model.N=1 model.d_model=32 model.d_ff=64 model.h=4 "
        "model.positions=learned optimization.max_update=31 dataset.disable_validation=true "
        "dataset.num_workers=0 checkpoint.reset_dataloader=true"
    ),
    "fairseq-generate": GENERATE,
    "fairseq-generate --lm-path": (
        GENERATE.replace("{model}", "{folder}/good.pt") + " --lm-path {model}"
    ),
    "fairseq-interactive": f"fairseq-interactive {USE} -s en -t de",
    "fairseq-validate": f"fairseq-validate {USE} --valid-subset test --max-tokens 999",
    "fairseq-eval-lm": f"fairseq-eval-lm {USE} --gen-subset test",
    "aiayn translate": "aiayn translate {folder} --device cpu",
    "aiayn average": "aiayn average --inputs {model} --output out",
    "aiayn convert": "aiayn convert --input {model} --output out",
    "aiayn bundle": "aiayn bundle {folder} --output out",
    "aiayn export": "aiayn export {folder} --output out",
}


def component(model: Path, data: Path) -> None:
    """Load the encoder of a checkpoint into another model, as fairseq's speech models do."""
    (other,), _ = checkpoint_utils.load_model_ensemble(
        [str(model.parent / "good.pt")], {"data": str(data)}
    )
    checkpoint_utils.load_pretrained_component_from_model(other.encoder, str(model))


#: Functions of a checkpoint's path and its data.
FUNCTIONS: dict[str, Callable[[Path, Path], object]] = {
    "Translator.load": lambda model, data: Translator.load(model.parent).translate(["x"]),
    "AiaynTransformer.from_pretrained": lambda model, data: AiaynTransformer.from_pretrained(
        str(model.parent), model.name, str(data)
    ).translate("x"),
    "load_model_ensemble_and_task": lambda model, data: (
        checkpoint_utils.load_model_ensemble_and_task([str(model)], {"data": str(data)})
    ),
    "load_pretrained_component_from_model": component,
    "load_ema_from_checkpoint": lambda model, data: checkpoint_utils.load_ema_from_checkpoint(
        str(model)
    ),
    "safe_load.load": lambda model, data: load(model),
}
ENTRIES = [*COMMANDS, *FUNCTIONS]
#: Parts of a checkpoint that only some commands read.
READERS = {
    "moments": "fairseq-train, resumed",
    "criterion|predictions": "fairseq-validate",
    "alignments": "AiaynTransformer.from_pretrained",
    "user_dir": "fairseq-generate",
}
#: A line of /etc/passwd, and a value of the environment.
SECRETS = ("root:", os.environ["PATH"])
#: Peak memory of a command in kB; most of it is torch and fairseq.
MAX_MEMORY = 1 << 20


@pytest.fixture(scope="module")
def good(model_dir) -> dict:
    return torch.load(model_dir / "checkpoint_last.pt", weights_only=False)


@pytest.fixture
def attack(run, model_dir, good, tmp_path) -> Callable[[str, str], str]:
    """`attack(entry, payload)` checks that no harm is done, and returns the error, if any."""

    def attempt(entry: str, payload: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(model_dir / "data", folder / "data", copy_function=os.link)
        os.link(folder / "data" / "dict.en.txt", folder / "data" / "dict.txt")
        shutil.copy(model_dir / "model.pt", folder / "good.pt")
        mark = folder / "mark"
        if payload == "none":
            torch.save(good, folder / "model.pt")
        else:
            PAYLOADS[payload](folder / "model.pt", good, mark)
        os.link(folder / "model.pt", folder / "checkpoint_last.pt")
        paths = {"model": folder / "model.pt", "data": folder / "data"}
        if entry in COMMANDS:
            words = [word.format(folder=folder, **paths) for word in COMMANDS[entry].split()]
            log = run(*words, cwd=folder, timeout=120)
            assert log.returncode >= 0, f"{payload} under {entry}: {log}"
            assert "Traceback" not in log.stderr, (payload, entry, log.stderr)
            assert not any(secret in log.stdout + log.stderr for secret in SECRETS), log
            assert log.peak < MAX_MEMORY, (payload, entry, log.peak)
            error = log.stderr.strip() if log.returncode else ""
        else:
            try:
                FUNCTIONS[entry](**paths)
                error = ""
            except Exception as exception:
                error = str(exception)
        assert not mark.exists(), f"{payload} ran under {entry}"
        return error

    return attempt


def is_refused(payload: str, good: dict, folder: Path) -> bool:
    """Return whether a checkpoint does not even pass the check that every entry makes."""
    PAYLOADS[payload](folder / "a.pt", good, folder / "mark")
    try:
        load(folder / "a.pt")
    except InputError as error:
        assert "\n" not in str(error) and str(error).isprintable()
        assert not (folder / "mark").exists(), f"{payload} ran before it was refused"
        return True
    return False


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    "every_entry", [False, pytest.param(True, marks=pytest.mark.long)], ids=["one", "every entry"]
)
def test_no_payload_succeeds(every_entry, payload, attack, good, tmp_path_factory):
    """In the entry that uses this part of a checkpoint, and in every other one."""
    if is_refused(payload, good, tmp_path_factory.mktemp("check")):
        return
    entry = "load_model_ensemble_and_task"
    for part, command in READERS.items():
        if re.search(part, payload):
            entry = command
    for name in ENTRIES if every_entry else [entry]:
        error = attack(name, payload)
        print(f"{payload:36}{name:42}{error[-150:]!r}")
        assert not any(secret in error for secret in SECRETS)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_refuses_a_hostile_checkpoint(entry, attack):
    """Other tests show that the commands accept a good one."""
    if entry in FUNCTIONS and entry != "load_ema_from_checkpoint":
        assert attack(entry, "none") == ""
    assert "it would run" in attack(entry, "pickle, among the weights").splitlines()[-1]


def test_the_payloads_would_run(model_dir, good, tmp_path):
    """Without the patches; a payload that does not would prove nothing."""
    mark = tmp_path / "mark"
    PAYLOADS["pickle, among the weights"](tmp_path / "a.pt", good, mark)
    torch.load(tmp_path / "a.pt", weights_only=False)
    assert mark.exists()
    mark.unlink()
    PAYLOADS["args of fconv, encoder"](tmp_path / "b.pt", good, mark)
    args = torch.load(tmp_path / "b.pt", weights_only=False)["args"]
    assert isinstance(args, Namespace) and eval(args.encoder_layers) == [(512, 3)] * 2
    assert mark.exists()
