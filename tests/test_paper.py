"""Architectures, their numbers of parameters and the table that lists them."""

from dataclasses import fields

import pytest
import torch
from models import build, parse

from aiayn_plugin.errors import InputError
from aiayn_plugin.paper import (
    ModelSettings,
    count_parameters,
    format_architectures,
    get_settings,
)

#: Parameters with a shared vocabulary of 37,000, from the specification.
EXPECTED = {
    "aiayn_base": 63_045_632,
    "aiayn_a_h32": 63_045_632,
    "aiayn_e_learned": 63_045_632 + 2 * 1024 * 512,
    "aiayn_big": 214_171_648,
    "aiayn_big_en_fr": 214_171_648,
    # (37,000 + 100) · 1,024 embeddings, and 4 layers of 8,395,776 and 12,592,128
    "aiayn_parser": 121_942_016,
}


def count(model):
    """Return the number of parameters of a built model."""
    return sum(parameter.numel() for parameter in model.parameters())


def build_architecture(arch, **changes):
    """Build an architecture with 37,000 words on the meta device; a parser gets 100 symbols too."""
    settings = {f.name: getattr(get_settings(arch), f.name) for f in fields(ModelSettings)}
    symbols = 100 if "parser" in arch else None
    positions = {"max_source_positions": 1024, "max_target_positions": 1024}
    with torch.device("meta"):
        return build(37_000, symbols=symbols, **{**settings, **positions, **changes})


@pytest.mark.parametrize("arch", EXPECTED)
def test_parameter_counts(arch):
    assert count(build_architecture(arch)) == EXPECTED[arch]
    [row] = [row for row in format_architectures().splitlines() if row.startswith(f"{arch} ")]
    assert f" {EXPECTED[arch]:,} " in f"{row} "


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_embeddings": "all"},
        {"tie_embeddings": "target"},
        {"tie_embeddings": "none"},
        {"attention_bias": True, "d_k": 3, "d_v": 5},
        {"positions": "learned"},
        {"neighbourhood": 4, "positions": "fairseq"},
        {"N": 3, "d_ff": 40, "h": 2},
    ],
)
def test_parameter_counts_of_other_settings(changes):
    """These small models have max_positions 64."""
    sizes = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4, **changes}
    assert count(build(**sizes, words=30)) == count_parameters(ModelSettings(**sizes), 30, 30, 64)


def test_head_widths_follow_from_d_model_and_h():
    assert ModelSettings().head_widths() == (64, 64)
    assert ModelSettings(d_k=16).head_widths() == (16, 64)
    assert ModelSettings(d_model=10, h=4, d_k=3, d_v=5).head_widths() == (3, 5)
    message = "d_model 10 is not divisible by h 4: change one of them, or give --d-k and --d-v"
    with pytest.raises(InputError, match=message):
        ModelSettings(d_model=10, h=4, d_k=3).head_widths()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"N": 0}, "N 0 must be at least 1"),
        ({"d_ff": 0}, "d_ff 0 must be at least 1"),
        ({"h": 0}, "h 0 must be at least 1"),
        ({"d_v": -1}, "must be at least 1"),
        ({"neighbourhood": 0}, "neighbourhood 0 must be at least 1"),
        ({"d_model": 15, "d_k": 4, "d_v": 4}, "even d_model"),
        ({"positions": "fairseq", "d_model": 2, "h": 1}, "even d_model of 4 or more"),
        ({"dropout": 10.0}, "dropout 10.0 must be from 0 to 1"),  # a percentage
        ({"attention_dropout": -0.1}, "attention_dropout -0.1 must be from 0 to 1"),
    ],
)
def test_a_model_with_a_value_out_of_range_is_not_built(settings, message):
    with pytest.raises(InputError, match=message):
        build(**settings)


@pytest.mark.usefixtures("quiet")
def test_help_and_readme_list_the_architectures(repo, capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    text = capsys.readouterr().out
    assert format_architectures() in text
    for option in ("--d-model", "--warmup-updates", "--int8", "--length-penalty gnmt|fairseq"):
        assert f"\n  {option} " in text
    assert "SUPPRESS" not in text
    assert format_architectures() in (repo / "examples" / "guide.md").read_text(encoding="utf-8")
