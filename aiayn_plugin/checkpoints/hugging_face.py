"""Directories of Hugging Face's transformers: written from a run directory, and read into a bundle.

Writing one needs neither transformers nor tokenizers: all of its files are JSON, text and
safetensors.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..atomic import write_directory_atomically
from ..errors import InputError
from ..text.dictionary import SPECIAL_SYMBOLS
from ..text.fast_tokenizer import TOKENIZER_CONFIG, build_fast_tokenizer, build_tokens
from ..text.lines import read_data_file
from ..text.manifest import read_verified_dictionary
from ..text.pipeline import load_subwords
from ..text.settings import SACREMOSES, TextSettings, rules_language
from ..text.subwords import Bpe
from ..text.tokenizer import PROTECTED
from .bundle import text_files, write_bundle
from .compatibility import Identity
from .loading import LoadedModel, model_settings
from .marian import GENERATION, build_config, build_weights, max_positions, read_marian
from .safe_load import configuration, load
from .safetensors_file import CONFIG_FILE, EMPTY_TRAINING_STATE, WEIGHTS_FILE, write_weights

CARD = Path(__file__).with_name("model_card.md")


def export_transformers(loaded: LoadedModel, checkpoint: Path, data: Path, output: Path) -> int:
    """Write a directory that transformers loads as a MarianMTModel and its tokenizer.

    checkpoint, data: what `loaded` comes from. Returns the number of positions. Raises InputError
    if MarianMTModel or one tokenizer cannot express them, and OSError.
    """
    text, subwords = load_subwords(data)
    if not isinstance(subwords, Bpe):
        raise InputError(
            f"{data} has wordpieces, for which no tokenizer.json is written: only BPE can be "
            "exported to transformers"
        )
    if loaded.source.symbols != loaded.target.symbols:
        raise InputError(
            f"{data} has separate dictionaries, but a transformers tokenizer has one vocabulary: "
            "only a joined dictionary can be exported"
        )
    settings = model_settings(configuration(load(checkpoint, with_data=False))[0]["model"])
    tokenizer, model_ids = build_fast_tokenizer(subwords.merges, loaded.source)
    positions = max_positions(loaded.model)
    contents = {
        CONFIG_FILE: build_config(settings, len(loaded.source) + len(model_ids), positions),
        "generation_config.json": GENERATION | {"max_length": min(256, positions)},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": TOKENIZER_CONFIG | {"model_max_length": positions},
    }
    weights = build_weights(loaded.model, settings, model_ids)
    with write_directory_atomically(output) as directory:
        write_weights(weights, directory / WEIGHTS_FILE)
        for name, content in contents.items():
            written = json.dumps(content, indent=2, ensure_ascii=False)
            (directory / name).write_text(written + "\n", "utf-8")
        for name in text_files(data, text):
            shutil.copyfile(data / name, directory / name)
        (directory / "README.md").write_text(
            _model_card(text, settings.positions, len(loaded.source)), "utf-8"
        )
    return positions


def import_transformers(directory: Path, data: Path, output: Path) -> None:
    """Write a bundle of a MarianMTModel and of the text files in `data`.

    Raises InputError if the paper's model cannot express it or it does not fit the data, and
    OSError.
    """
    text, _ = load_subwords(data)
    words = [read_verified_dictionary(data / name) for name in text.dictionaries]
    if words[0] != words[1]:
        raise InputError(
            f"{data} has separate dictionaries, but the tokenizer of a MarianMTModel has one "
            "vocabulary"
        )
    if (tokenizer := directory / "tokenizer.json").is_file():
        _check_tokenizer(tokenizer, words[0], data)
    settings, positions, weights = read_marian(directory, len(SPECIAL_SYMBOLS) + len(words[0]))
    limits = {f"max_{side}_positions": positions for side in ("source", "target")}
    state: dict[str, Any] = {
        "model": weights,
        "cfg": {
            "model": {"_name": "aiayn_transformer", **vars(settings), **limits},
            "task": {"_name": "aiayn_translation", **limits},
        },
        "task_state": Identity.of(words, settings, text.languages).task_state(),
        **EMPTY_TRAINING_STATE,
    }
    write_bundle(state, data, text, output)


def _check_tokenizer(tokenizer: Path, words: Sequence[str], data: Path) -> None:
    """Raise InputError unless the token IDs of tokenizer.json are those of the dictionary."""
    try:
        ids = json.loads(read_data_file(tokenizer))["model"]["vocab"]
        tokens = build_tokens([*SPECIAL_SYMBOLS, *words])
        matches = all(ids.get(token) == i for i, token in enumerate(tokens))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise InputError(f"{tokenizer} was not written by aiayn export") from None
    if not matches:
        raise InputError(
            f"the dictionaries in {data} do not match {tokenizer}: token IDs differ. Give the "
            "--data that the model was exported with"
        )


def _model_card(text: TextSettings, positions: str, vocabulary: int) -> str:
    """Return README.md, with code that tokenises as the data was tokenised."""
    source, target = rules_language(text.source_lang), rules_language(text.target_lang)
    options = "escape=False"
    if text.tokenizer == SACREMOSES:
        options += f", protected_patterns={list(PROTECTED)!r}"
    normalized = f'MosesPunctNormalizer("{source}").normalize(line)'
    note = ""
    if positions != "sinusoids":
        note = (
            "\n`save_pretrained` leaves out the table of positions, and transformers then replaces "
            "it with\nsinusoids, which this model was not trained with. Copy both "
            "`embed_positions.weight` tensors\nof this `model.safetensors` into the saved one.\n"
        )
    return CARD.read_text("utf-8").format(
        source=source,
        target=target,
        vocabulary=vocabulary,
        line=normalized if text.normalize_punctuation else "line",
        options=options,
        arguments=f'"{source}", {text.normalize_punctuation}, "{text.tokenizer}"',
        note=note,
    )
