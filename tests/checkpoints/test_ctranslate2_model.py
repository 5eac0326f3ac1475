"""Export to CTranslate2; tests/system/test_raw_text.py compares its translations."""

import pytest
from models import build

from aiayn_plugin.checkpoints.ctranslate2_model import build_specification
from aiayn_plugin.errors import InputError


def test_source_and_target_vocabularies_may_differ():
    pytest.importorskip("ctranslate2")
    model = build(words=30, symbols=26, tie_embeddings="target")
    source, target = ([str(i) for i in range(size)] for size in (30, 26))
    specification = build_specification(model, source, target)
    specification.validate()  # raises ValueError if a vocabulary does not fit its embedding
    embeddings = specification.encoder.embeddings[0], specification.decoder.embeddings
    assert [embedding.weight.shape[0] for embedding in embeddings] == [30, 26]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"d_k": 3}, "d_model / h = 4; the model has d_k 3 and d_v 4"),
        ({"neighbourhood": 3}, "restricted to a neighbourhood"),
    ],
)
def test_models_that_ctranslate2_lacks_are_refused(settings, message):
    pytest.importorskip("ctranslate2")
    with pytest.raises(InputError, match=message):
        build_specification(build(**settings), ["a"], ["b"])
