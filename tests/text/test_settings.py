"""`text.json`: settings that are refused, and the rules of a language."""

import json

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.settings import TextSettings, rules_language


def test_language_that_no_file_name_can_hold_is_refused():
    with pytest.raises(InputError, match="target_lang is not a file name: 'sr@latin'"):
        TextSettings("en", "sr@latin", 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 1"),
        ({"surplus": 1}, "surplus"),
        ({"merges": "8"}, "merges is not of type int"),
        ({"inputs": []}, "inputs is not of type dict"),
        ({"inputs": {"train.en": []}}, "inputs has a value of the wrong type"),
        ({"cleaning": {"max_tokens": "x"}}, "cleaning has a value of the wrong type"),
    ],
)
def test_unknown_or_malformed_settings_are_refused(data_dir, change, message):
    path = data_dir / "text.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        TextSettings.load(path)
    path.write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        TextSettings.load(path)


@pytest.mark.parametrize(
    "lang, expected",
    [
        *((code, "de") for code in ("de", "DE", "de_AT", "de-AT", "ger")),
        *(("ukr", "uk"), ("yue", "yue"), ("xx", "xx")),
    ],
)
def test_the_rules_of_a_language_follow_from_its_code(lang, expected):
    assert rules_language(lang) == expected
