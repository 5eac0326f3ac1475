"""fairseq's names for the settings of the paper's model."""

import pytest
from models import parse

from aiayn_plugin.errors import InputError

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize(
    "flags, name, value",
    [
        (["--encoder-layers", "2", "--decoder-layers", "2"], "N", 2),
        (
            ["--encoder-embed-dim", "64", "--decoder-embed-dim", "64", "--d-model", "64"],
            "d_model",
            64,
        ),
        (["--encoder-ffn-embed-dim", "9", "--decoder-ffn-embed-dim", "9"], "d_ff", 9),
        (["--encoder-attention-heads", "4", "--decoder-attention-heads", "4"], "h", 4),
        (["--encoder-learned-pos", "--decoder-learned-pos"], "positions", "learned"),
        (["--share-all-embeddings"], "tie_embeddings", "all"),
        (["--share-decoder-input-output-embed"], "tie_embeddings", "target"),
        (["--share-all-embeddings", "--share-decoder-input-output-embed"], "tie_embeddings", "all"),
        (["--share-decoder-input-output-embed", "--share-all-embeddings"], "tie_embeddings", "all"),
    ],
)
def test_fairseqs_names_are_accepted(flags, name, value):
    assert getattr(parse("--arch", "aiayn_base", *flags), name) == value


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            ["--encoder-layers", "2"],
            "give --encoder-layers and --decoder-layers the same value, or give --N alone",
        ),
        (["--encoder-layers", "2", "--decoder-layers", "3"], "the same N"),
        (["--encoder-layers", "2", "--decoder-layers", "2", "--N", "3"], "means --N 2"),
        (["--encoder-learned-pos"], "--decoder-learned-pos"),
        (
            ["--encoder-learned-pos", "--decoder-learned-pos", "--positions", "sinusoids"],
            "--positions sinusoids is also given",
        ),
        (
            ["--share-all-embeddings", "--tie-embeddings", "none"],
            "--tie-embeddings none is also given",
        ),
    ],
)
def test_contradicting_names_end_with_one_line(flags, message):
    with pytest.raises(InputError, match=message):
        parse("--arch", "aiayn_base", *flags)
