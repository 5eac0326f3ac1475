"""§5.1: subword-nmt's segmentation as `tokenizer.json`, the format of Hugging Face's tokenizers."""

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .dictionary import SPECIAL_SYMBOLS, Vocabulary

WORD_END = "</w>"
#: `tokenizer_config.json`, which transformers reads next to `tokenizer.json`.
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    **dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL_SYMBOLS, strict=True)),
    "model_input_names": ["input_ids", "attention_mask"],
    "clean_up_tokenization_spaces": False,
    "split_special_tokens": True,  # `</s>` in input is text
}


def build_fast_tokenizer(
    merges: Sequence[tuple[str, str]], vocabulary: Vocabulary
) -> tuple[dict[str, Any], list[int]]:
    """Return the content of `tokenizer.json`, and the model's ID for each token that it adds.

    A dictionary writes `he@@` and `llo` where tokenizers writes `he` and `llo</w>`; token IDs are
    the same. A merge may also yield a subword that the dictionary lacks, `<unk>` to our model.
    tokenizers needs an ID for each: new IDs follow the dictionary's, and the list holds the IDs
    that our model reads in their place. Raises InputError for a duplicate or special entry.
    """
    tokens = build_tokens(vocabulary.symbols)
    ids = {token: i for i, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        raise InputError(
            "the dictionary has a duplicate entry or a special symbol as a subword: prepare the "
            "data again"
        )
    subwords = dict.fromkeys(subword for merge in merges for subword in (*merge, "".join(merge)))
    model_ids = []
    for token in subwords:
        if token not in ids:
            ids[token] = len(ids)
            model_ids.append(vocabulary.encode([_to_symbol(token)])[0])
    end = SPECIAL_SYMBOLS[Vocabulary.eos]
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    end_symbol = {"SpecialToken": {"id": end, "type_id": 0}}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": symbol, "special": True, "normalized": False}
            | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
            for i, symbol in enumerate(SPECIAL_SYMBOLS)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [sequence, end_symbol],
            "pair": [sequence, {"Sequence": {"id": "B", "type_id": 0}}, end_symbol],
            "special_tokens": {end: {"id": end, "ids": [Vocabulary.eos], "tokens": [end]}},
        },
        "decoder": {"type": "BPEDecoder", "suffix": WORD_END},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": SPECIAL_SYMBOLS[Vocabulary.unk],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": WORD_END,
            "fuse_unk": False,
            "vocab": ids,
            "merges": [" ".join(merge) for merge in merges],
        },
    }
    return content, model_ids


def build_tokens(symbols: Sequence[str]) -> list[str]:
    """Return the tokens of a dictionary's entries, in the order of their IDs."""
    special = len(SPECIAL_SYMBOLS)
    return [*SPECIAL_SYMBOLS, *map(_to_token, symbols[special:])]


def _to_token(symbol: str) -> str:
    """Return `he` for `he@@`, and `llo</w>` for `llo`."""
    is_inside = symbol.endswith("@@") and symbol != "@@"
    return symbol[:-2] if is_inside else symbol + WORD_END


def _to_symbol(token: str) -> str:
    """Invert _to_token."""
    is_last = token.endswith(WORD_END)
    return token.removesuffix(WORD_END) if is_last else f"{token}@@"
