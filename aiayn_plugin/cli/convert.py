"""Convert a fairseq or transformers model for the plugin, or a plugin model for fairseq.

Converts checkpoints of fairseq's post-norm Transformers (transformer_wmt_en_de,
transformer_vaswani_wmt_en_de_big, …) for the plugin, and plugin checkpoints with --positions
fairseq or learned for fairseq. The dictionaries do not change.

Converts a directory with a MarianMTModel of Hugging Face's transformers, such as one fine-tuned
after aiayn export --format transformers, to a bundle.
"""

import argparse
from pathlib import Path

from ..checkpoints.hugging_face import import_transformers
from ..checkpoints.safe_load import limit_memory, load, save
from ..errors import InputError
from ..fairseq_plugin.convert import convert
from ..text.settings import SETTINGS_FILE


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    input_help = "checkpoint, or directory of a MarianMTModel, to convert"
    add("--input", required=True, metavar="PATH", type=Path, help=input_help)
    output_help = "converted checkpoint, or bundle to create"
    add("--output", required=True, metavar="PATH", type=Path, help=output_help)
    data_help = "directory of the dictionaries, codes and text.json (default: --input)"
    add("--data", metavar="DIR", type=Path, help=data_help)


def run(args: argparse.Namespace) -> None:
    """Convert a model. Raises InputError or OSError if it cannot be converted."""
    if args.input.is_dir():
        data = args.data or args.input
        if not (args.data or (data / SETTINGS_FILE).is_file()):
            raise InputError(
                f"{data / SETTINGS_FILE} is missing: add --data with the directory that aiayn "
                "export wrote"
            )
        import_transformers(args.input, data, args.output)
        print(f"{args.output} is a bundle: pass it to aiayn translate")
        return
    if args.data:
        raise InputError("--data applies only to a directory of a MarianMTModel")
    with limit_memory(args.input):
        state, kind = convert(load(args.input))
    save(state, args.output)
    print(f"{args.output} is a checkpoint of {kind}")
