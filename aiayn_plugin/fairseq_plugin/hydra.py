"""Configurations for fairseq-hydra-train, generated from paper.py.

`python -m aiayn_plugin.fairseq_plugin.hydra` writes the files in aiayn_plugin/config.
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml

from ..checkpoints.loading import MAX_POSITIONS
from ..paper import ModelSettings, get_settings
from .defaults import training_defaults

CONFIG_DIRECTORY = Path(__file__).resolve().parent.parent / "config"
SHIPPED = ("aiayn_base", "aiayn_big", "aiayn_parser")
HEADER = """\
# @package _group_

# The training run of `fairseq-train --arch {arch}`, for Hydra:
#   fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name {arch} task.data=$PWD/DATA
# Generated from aiayn_plugin/paper.py by `python -m aiayn_plugin.fairseq_plugin.hydra`.

"""


def format_configuration(arch: str) -> str:
    """Return the configuration of an architecture and its training, as YAML with comments."""
    paper = get_settings(arch)
    values = {**asdict(paper), "adam_betas": str(paper.adam_betas)}
    values |= training_defaults({"arch": arch})

    def pick(*names: str) -> dict[str, Any]:
        return {name: values[name] for name in names}

    groups: dict[str, Any] = {
        "common": {"user_dir": "aiayn_plugin"},
        "task": {"_name": "aiayn_translation", "data": "???", **pick("tokens_per_update")},
        "model": {"_name": arch, **pick(*vars(ModelSettings()))},
        "criterion": {"_name": values["criterion"], **pick("label_smoothing")},
        "optimizer": {"_name": values["optimizer"], **pick("adam_betas", "adam_eps")},
        "lr_scheduler": {"_name": values["lr_scheduler"], **pick("warmup_updates")},
        "optimization": pick("max_update", "clip_norm"),
        "dataset": pick("max_tokens", "required_batch_size_multiple"),
        "checkpoint": pick(
            "save_interval_updates", "keep_interval_updates", "no_epoch_checkpoints"
        ),
    }
    for side in ("source", "target"):
        groups["model"][f"max_{side}_positions"] = MAX_POSITIONS
    groups["lr_scheduler"]["d_model"] = "${model.d_model}"
    comments = {f"  {f.name}": f.metadata["help"] for f in fields(paper) if "help" in f.metadata}
    text = HEADER.format(arch=arch)
    for line in yaml.safe_dump(groups, sort_keys=False).splitlines():
        comment = comments.get(line.partition(":")[0])
        text += f"{line}  # {comment}\n" if comment else f"{line}\n"
    return text


if __name__ == "__main__":
    for name in SHIPPED:
        (CONFIG_DIRECTORY / f"{name}.yaml").write_text(format_configuration(name), "utf-8")
