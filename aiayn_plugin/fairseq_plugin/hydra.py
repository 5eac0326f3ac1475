"""The configurations for fairseq-hydra-train, written from the paper's values.

`python -m aiayn_plugin.fairseq_plugin.hydra` writes them anew.
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml

from ..paper import ModelSettings, get_settings
from .defaults import COMPONENTS

DIRECTORY = Path(__file__).resolve().parent.parent / "config"
SHIPPED = ("aiayn_base", "aiayn_big", "aiayn_parser")
HEAD = """\
# @package _group_

# The paper's training of {arch}, as `fairseq-train --arch {arch}` has it:
#   fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name {arch} task.data=$PWD/DATA
# `python -m aiayn_plugin.fairseq_plugin.hydra` writes this file from aiayn_plugin/paper.py.

"""


def configuration(arch: str) -> str:
    """Return the configuration of an architecture and its training, as YAML."""
    paper = get_settings(arch)
    model = {
        name: value
        for name, value in asdict(paper).items()
        if name in ModelSettings.__dataclass_fields__
    }
    groups: dict[str, Any] = {
        "common": {"user_dir": "aiayn_plugin"},
        "task": {
            "_name": "aiayn_translation",
            "data": "???",
            "tokens_per_update": paper.tokens_per_update,
        },
        "model": {
            "_name": arch,
            **model,
            "max_source_positions": 1024,
            "max_target_positions": 1024,
        },
        "criterion": {"_name": COMPONENTS["criterion"], "label_smoothing": paper.label_smoothing},
        "optimizer": {
            "_name": COMPONENTS["optimizer"],
            "adam_betas": str(paper.adam_betas),
            "adam_eps": paper.adam_eps,
        },
        "lr_scheduler": {
            "_name": COMPONENTS["lr_scheduler"],
            "warmup_updates": paper.warmup_updates,
            "d_model": "${model.d_model}",
        },
        "optimization": {"max_update": paper.max_update, "clip_norm": paper.clip_norm},
        "dataset": {"max_tokens": 4096, "required_batch_size_multiple": 1},
        "checkpoint": {
            "save_interval_updates": paper.save_interval_updates,
            "keep_interval_updates": paper.keep_interval_updates,
            "no_epoch_checkpoints": True,
        },
    }
    lines = yaml.safe_dump(groups, sort_keys=False).splitlines()
    meanings = {f"  {f.name}": f.metadata.get("help") for f in fields(paper)}
    for number, line in enumerate(lines):
        if meaning := meanings.get(line.partition(":")[0]):
            lines[number] = f"{line}  # {meaning}"
    return HEAD.format(arch=arch) + "\n".join(lines) + "\n"


def main() -> None:
    """Write the shipped configurations."""
    for arch in SHIPPED:
        (DIRECTORY / f"{arch}.yaml").write_text(configuration(arch), "utf-8")


if __name__ == "__main__":
    main()
