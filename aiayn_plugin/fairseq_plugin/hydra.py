"""Configurations for fairseq-hydra-train, generated from paper.py.

`python -m aiayn_plugin.fairseq_plugin.hydra` writes the files in aiayn_plugin/config.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from ..checkpoints.loading import MAX_POSITIONS
from ..paper import ModelSettings, get_settings
from .defaults import COMPONENTS, MAX_TOKENS

CONFIG_DIRECTORY = Path(__file__).resolve().parent.parent / "config"
SHIPPED = ("aiayn_base", "aiayn_big", "aiayn_parser")
HEADER = """\
# @package _group_

# The training of `fairseq-train --arch {arch}`, for Hydra:
#   fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name {arch} task.data=$PWD/DATA
# Generated from aiayn_plugin/paper.py by `python -m aiayn_plugin.fairseq_plugin.hydra`.

"""


def format_configuration(arch: str) -> str:
    """Return the configuration of an architecture and its training, as YAML with comments."""
    paper = get_settings(arch)
    model = {name: getattr(paper, name) for name in vars(ModelSettings())}
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
            "max_source_positions": MAX_POSITIONS,
            "max_target_positions": MAX_POSITIONS,
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
        "dataset": {"max_tokens": MAX_TOKENS, "required_batch_size_multiple": 1},
        "checkpoint": {
            "save_interval_updates": paper.save_interval_updates,
            "keep_interval_updates": paper.keep_interval_updates,
            "no_epoch_checkpoints": True,
        },
    }
    comments = {f"  {f.name}": f.metadata["help"] for f in fields(paper) if "help" in f.metadata}
    lines = []
    for line in yaml.safe_dump(groups, sort_keys=False).splitlines():
        comment = comments.get(line.partition(":")[0])
        lines.append(f"{line}  # {comment}" if comment else line)
    return HEADER.format(arch=arch) + "\n".join(lines) + "\n"


def main() -> None:
    """Write the configurations that the package ships."""
    for arch in SHIPPED:
        (CONFIG_DIRECTORY / f"{arch}.yaml").write_text(format_configuration(arch), "utf-8")


if __name__ == "__main__":
    main()
