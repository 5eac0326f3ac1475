"""No checkpoint runs code, whichever command reads it."""

import os
import shutil
import tarfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import fairseq_cli.eval_lm
import fairseq_cli.generate
import fairseq_cli.hydra_train
import fairseq_cli.interactive
import fairseq_cli.train
import fairseq_cli.validate
import pytest
import torch
from commands import SMALL, last_line
from forks import command, forked
from hostile import PAYLOADS

import aiayn_plugin.fairseq_plugin  # noqa: F401  it registers the plugin
from aiayn_plugin.checkpoints.safe_load import load
from aiayn_plugin.cli import main as aiayn_main
from aiayn_plugin.fairseq_plugin.hydra import CONFIG_DIRECTORY

#: Options that fairseq's commands for a model need; {model} is the checkpoint, {data} its data.
GENERATE = "{data} --cpu --path {model} --gen-subset test --max-len-b 3 --num-workers 0"
RESUME = "{data} --max-update 31 --positions learned --warmup-updates 10 --disable-validation"
HYDRA = (
    "--config-dir {configs} --config-name aiayn_base task.data={data} common.cpu=true "
    "checkpoint.save_dir={folder} model.N=1 model.d_model=32 model.d_ff=64 model.h=4 "
    "model.positions=learned optimization.max_update=31 dataset.disable_validation=true "
    "dataset.num_workers=0 common.user_dir={plugin} checkpoint.reset_dataloader=true"
)


def fairseq(name: str, options: str, model: Path, data: Path) -> Callable[[], object]:
    """Return a function that runs one of fairseq's commands."""
    words = options.format(
        model=model,
        data=data,
        folder=model.parent,
        configs=CONFIG_DIRECTORY,
        plugin=CONFIG_DIRECTORY.parent,
    ).split()
    module = name.removeprefix("fairseq-").replace("-", "_")
    return command(getattr(fairseq_cli, module).cli_main, name, *words)


def train(options: str = "--save-dir {folder}") -> Callable[[Path, Path], Callable[[], object]]:
    """Return a function that prepares resuming a training."""
    return lambda model, data: fairseq(
        "fairseq-train", " ".join([RESUME, *SMALL, options]), model, data
    )


def aiayn(name: str, options: str) -> Callable[[Path, Path], Callable[[], object]]:
    """Return a function that prepares a command of aiayn; {dir} is a model directory."""

    def make(model: Path, data: Path) -> Callable[[], object]:
        words = options.format(model=model, dir=model.parent, out=model.parent / "out").split()
        return command(aiayn_main, "aiayn", name, *words)

    return make


def python(use: Callable[[Path, Path], object]) -> Callable[[Path, Path], Callable[[], object]]:
    """Return a function that prepares a use from Python."""
    return lambda model, data: command(lambda: use(model, data), "python")


def from_pretrained(model: Path, data: Path) -> None:
    """Load the model of a directory, as README shows."""
    from aiayn_plugin.fairseq_plugin.model import Transformer

    Transformer.from_pretrained(str(model.parent), model.name, str(data)).translate("x")


def from_archive(model: Path, data: Path) -> None:
    """Load the model of an archive."""
    from fairseq import hub_utils

    with tarfile.open(model.parent / "model.tar.gz", "w:gz") as archive:
        archive.add(model.parent / "data", "model", recursive=False)
        archive.add(model, "model/model.pt")
    hub_utils.from_pretrained(str(model.parent / "model.tar.gz"), "model.pt", str(data))


def component(model: Path, data: Path) -> None:
    """Load the encoder of a checkpoint into another model, as fairseq's speech models do."""
    from fairseq import checkpoint_utils

    (other,), _ = checkpoint_utils.load_model_ensemble(
        [str(model.parent / "good.pt")], {"data": str(data)}
    )
    checkpoint_utils.load_pretrained_component_from_model(other.encoder, str(model))


def ensemble(model: Path, data: Path) -> None:
    """Load a model and its task as fairseq's own scripts do."""
    from fairseq import checkpoint_utils

    checkpoint_utils.load_model_ensemble_and_task([str(model)], {"data": str(data)})


def averaged_in_training(model: Path, data: Path) -> None:
    """Load the moving average of --store-ema."""
    from fairseq import checkpoint_utils

    checkpoint_utils.load_ema_from_checkpoint(str(model))


def translator(model: Path, data: Path) -> None:
    """Load a translator."""
    from aiayn_plugin.inference.translator import Translator

    Translator.load(model.parent).translate(["x"])


ENTRIES: dict[str, Callable[[Path, Path], Callable[[], object]]] = {
    "fairseq-train, resumed": train(),
    "fairseq-train --restore-file": train("--restore-file {model} --save-dir new"),
    "fairseq-train --finetune-from-model": train("--finetune-from-model {model} --save-dir new"),
    "fairseq-hydra-train, resumed": lambda m, d: fairseq("fairseq-hydra-train", HYDRA, m, d),
    "fairseq-generate": lambda m, d: fairseq("fairseq-generate", GENERATE, m, d),
    "fairseq-generate --lm-path": lambda m, d: fairseq(
        "fairseq-generate",
        GENERATE.replace("{model}", str(m.parent / "good.pt")) + " --lm-path {model}",
        m,
        d,
    ),
    "fairseq-interactive": lambda m, d: fairseq(
        "fairseq-interactive", "{data} --cpu --path {model} -s en -t de", m, d
    ),
    "fairseq-validate": lambda m, d: fairseq(
        "fairseq-validate", "{data} --cpu --path {model} --valid-subset test --max-tokens 999", m, d
    ),
    "fairseq-eval-lm": lambda m, d: fairseq(
        "fairseq-eval-lm", "{data} --cpu --path {model} --gen-subset test", m, d
    ),
    "aiayn translate": aiayn("translate", "{dir} --device cpu"),
    "aiayn average": aiayn("average", "--inputs {model} --output {out}"),
    "aiayn convert": aiayn("convert", "--input {model} --output {out}"),
    "aiayn bundle": aiayn("bundle", "{dir} --output {out}"),
    "aiayn export": aiayn("export", "{dir} --output {out}"),
    "Translator.load": python(translator),
    "Transformer.from_pretrained": python(from_pretrained),
    "hub_utils.from_pretrained of an archive": python(from_archive),
    "load_model_ensemble_and_task": python(ensemble),
    "load_pretrained_component_from_model": python(component),
    "load_ema_from_checkpoint": python(averaged_in_training),
    "files.load": python(lambda model, data: load(model)),
}


@pytest.fixture(scope="module")
def good(model_dir) -> dict:
    return torch.load(model_dir / "checkpoint_last.pt", weights_only=False)


def attack(entry: str, payload: str, model_dir: Path, good: dict, folder: Path) -> CompletedProcess:
    """Run an entry on a payload in a separate directory; fail if the payload ran."""
    folder.mkdir()
    for path in (model_dir / "data").iterdir():
        (folder / "data").mkdir(exist_ok=True)
        os.link(path, folder / "data" / path.name)
    os.link(folder / "data" / "dict.en.txt", folder / "data" / "dict.txt")
    shutil.copy(model_dir / "model.pt", folder / "good.pt")
    mark = folder / "mark"
    (folder / "mark.py").write_text(f"open({str(mark)!r}, 'w')", "utf-8")
    PAYLOADS[payload](folder / "model.pt", good, mark)
    os.link(folder / "model.pt", folder / "checkpoint_last.pt")
    work = ENTRIES[entry](folder / "model.pt", folder / "data")
    result = forked(work, folder)
    assert not mark.exists(), f"{payload} ran under {entry}"
    assert result.returncode >= 0, f"{payload} under {entry}: {result}"
    return result


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    "entry",
    [
        "fairseq-generate",
        pytest.param(ENTRIES, marks=pytest.mark.long, id="every entry"),
    ],
)
def test_no_payload_runs(entry, payload, model_dir, good, tmp_path):
    for number, name in enumerate([entry] if isinstance(entry, str) else entry):
        result = attack(name, payload, model_dir, good, tmp_path / str(number))
        print(f"{payload:36}{name:42}{result.returncode:3}  {result.stderr.strip()[-150:]!r}")
        assert "Traceback" not in result.stderr, (payload, name, result.stderr)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_accepts_a_good_checkpoint_and_refuses_a_hostile_one(
    entry, model_dir, good, tmp_path
):
    PAYLOADS["none"] = lambda path, state, mark: torch.save(state, path)
    try:
        result = attack(entry, "none", model_dir, good, tmp_path / "good")
    finally:
        del PAYLOADS["none"]
    another_kind = "fairseq-eval-lm", "fairseq-generate --lm-path", "load_ema_from_checkpoint"
    if entry not in another_kind:
        assert result.returncode == 0, result.stderr
    hostile = attack(entry, "pickle, among the weights", model_dir, good, tmp_path / "hostile")
    assert "it would run eval" in last_line(hostile)


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
