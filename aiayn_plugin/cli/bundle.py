"""`aiayn bundle`: a model directory that can be copied to another machine."""

import argparse
import shutil
from pathlib import Path
from typing import Any

from ..checkpoint import average, save, written_aside
from ..text import SETTINGS_FILE, TextPipeline
from ..translator import MODEL_FILE, checked, files

NOTE = """This directory holds a translation model for `aiayn translate` ({source} to {target}).

A model carries what it learned from its training text: before you pass it on, see whether the
licence of that text allows it. The code of aiayn-plugin is under the MIT licence; that says nothing
about this model.
"""


def add_parser(commands: Any) -> None:
    """Add `bundle` to the commands of `aiayn`."""
    parser = commands.add_parser(
        "bundle",
        help="make a model directory to copy to another machine",
        description="Put the model without the optimiser's state, dictionaries, codes and text "
        "settings into one directory, which aiayn translate takes.",
    )
    parser.add_argument("model", metavar="MODEL_DIR", type=Path,
                        help="what a recipe of examples/ leaves behind")
    parser.add_argument("--checkpoint", metavar="FILE", type=Path, default=None,
                        help=f"default: MODEL_DIR/{MODEL_FILE}")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True,
                        help="the new directory")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Make the directory, whole or not at all. Raises ValueError or OSError for input that cannot
    be used, and for an output that is there already."""
    checkpoint, data = files(args.model, args.checkpoint)
    checked(checkpoint)
    settings = TextPipeline.load(data).settings
    state = average([checkpoint])  # in float32, without the optimiser's state
    state["extra_state"] = {}
    languages = (settings.source_lang, settings.target_lang)
    with written_aside(args.output) as aside:
        save(state, aside / MODEL_FILE)
        for name in (SETTINGS_FILE, settings.codes, *(f"dict.{lang}.txt" for lang in languages)):
            shutil.copyfile(data / name, aside / name)
        note = NOTE.format(source=languages[0], target=languages[1])
        (aside / "README.txt").write_text(note, encoding="utf-8")
    size = sum(path.stat().st_size for path in args.output.iterdir())
    print(f"{args.output}: {size / 1e6:.1f} MB")
