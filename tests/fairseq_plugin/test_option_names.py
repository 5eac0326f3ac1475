"""fairseq's names for the settings of the paper's model."""

import pytest
from models import parse

from aiayn_plugin.errors import InputError

pytestmark = pytest.mark.usefixtures("quiet")
#: fairseq's names for every setting of both stacks; d_model is also given by our name.
BOTH_STACKS = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 64 --decoder-embed-dim 64 "
    "--d-model 64 --encoder-ffn-embed-dim 9 --decoder-ffn-embed-dim 9 "
    "--encoder-attention-heads 4 --decoder-attention-heads 4 "
    "--encoder-learned-pos --decoder-learned-pos --share-decoder-input-output-embed"
)


def test_fairseqs_names_are_accepted():
    for more, tie_embeddings in (("", "target"), (" --share-all-embeddings", "all")):
        args = parse("--arch", "aiayn_base", *(BOTH_STACKS + more).split())
        actual = (args.N, args.d_model, args.d_ff, args.h, args.positions, args.tie_embeddings)
        assert actual == (2, 64, 9, 4, "learned", tie_embeddings)


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            "--encoder-layers 2",
            "give --encoder-layers and --decoder-layers the same value, or give --N alone",
        ),
        ("--encoder-layers 2 --decoder-layers 2 --N 3", "means --N 2"),
        ("--encoder-learned-pos", "--decoder-learned-pos"),
        ("--share-all-embeddings --tie-embeddings none", "--tie-embeddings none is also given"),
    ],
)
def test_contradicting_names_end_with_one_line(flags, message):
    with pytest.raises(InputError, match=message):
        parse("--arch", "aiayn_base", *flags.split())
