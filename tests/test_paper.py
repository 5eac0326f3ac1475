"""The paper's values: architectures, their parameters and their table."""

import pytest
import torch
from models import build, parse

from aiayn_plugin.errors import InputError
from aiayn_plugin.paper import (
    ARCHITECTURES,
    ModelSettings,
    parameters,
    settings,
    table,
    weights,
)

MODEL_SETTINGS = (
    "N",
    "d_model",
    "d_ff",
    "h",
    "d_k",
    "d_v",
    "positions",
    "dropout",
    "tie_embeddings",
)
#: Parameters with a shared vocabulary of 37,000, from the specification.
KNOWN = {
    "aiayn_base": 63_045_632,
    "aiayn_a_h32": 63_045_632,
    "aiayn_e_learned": 63_045_632 + 2 * 1024 * 512,
    "aiayn_big": 214_171_648,
    "aiayn_big_en_fr": 214_171_648,
    # (37,000 + 100) · 1,024 embeddings, and 4 layers of 8,395,776 and 12,592,128
    "aiayn_parser": 121_942_016,
}


def model_of(arch, **more):
    """Return a model of an architecture, with 37,000 words and without memory for its weights.

    A parser has 100 symbols of trees too.
    """
    chosen = {name: getattr(settings(arch), name) for name in MODEL_SETTINGS}
    more = {**({"symbols": 100} if "parser" in arch else {}), **more}
    with torch.device("meta"):
        return build(37_000, max_source_positions=1024, max_target_positions=1024, **chosen, **more)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameter_counts(arch):
    count = sum(p.numel() for p in model_of(arch).parameters())
    assert count == parameters(arch, 37_000) == KNOWN.get(arch, count)


def test_attention_biases_are_counted():
    model = model_of("aiayn_base", attention_bias=True)
    assert sum(p.numel() for p in model.parameters()) == 63_082_496


@pytest.mark.parametrize(
    "changed",
    [
        {"tie_embeddings": "all"},
        {"tie_embeddings": "target"},
        {"tie_embeddings": "none"},
        {"attention_bias": True, "d_k": 3, "d_v": 5},
        {"positions": "learned"},
        {"neighbourhood": 4, "positions": "fairseq"},
    ],
)
def test_weights_of_any_settings(changed):
    """max_positions are 64 in these small models."""
    sizes = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4, **changed}
    model = build(**sizes, words=30)
    settings = ModelSettings(**sizes)
    assert sum(p.numel() for p in model.parameters()) == weights(settings, 30, 30, 64)


@pytest.mark.parametrize("arch", [a for a in ARCHITECTURES if settings(a).paper_millions])
def test_parameters_are_about_the_papers(arch):
    """The paper counts another vocabulary, and rounds."""
    assert parameters(arch, 37_000) == pytest.approx(settings(arch).paper_millions * 1e6, rel=0.07)


def test_head_widths_follow_from_d_model_and_h():
    assert ModelSettings().head_widths() == (64, 64)
    assert ModelSettings(d_k=16).head_widths() == (16, 64)
    assert ModelSettings(d_model=10, h=4, d_k=3, d_v=5).head_widths() == (3, 5)
    with pytest.raises(InputError, match="d_model 10 is not divisible by h 4"):
        ModelSettings(d_model=10, h=4, d_k=3).head_widths()


@pytest.mark.usefixtures("quiet")
def test_help_and_readme_list_the_architectures(repo, capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    assert table() in shown
    for option in ("--d-model", "--tokens-per-update", "--int8", "--length-penalty gnmt|fairseq"):
        assert f"\n  {option} " in shown
    assert "SUPPRESS" not in shown
    assert table() in (repo / "examples" / "README.md").read_text(encoding="utf-8")
