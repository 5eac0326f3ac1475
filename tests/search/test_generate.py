"""The encoder-decoder as a plain module, and generate."""

import pytest
import torch
from models import EOS, PAD, sentences
from searches import WORDS, generator, noisy_model, sample, source_batch

from aiayn_plugin.errors import InputError
from aiayn_plugin.model import Transformer
from aiayn_plugin.paper import ModelSettings, SearchSettings
from aiayn_plugin.search import BeamSearch, generate
from aiayn_plugin.search.decoder_step import AiaynSearchModel


def test_the_plain_model_computes_and_translates_as_the_plugins():
    """With padding on the left, and on the right."""
    settings = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4}
    model, plain = noisy_model(**settings), Transformer(ModelSettings(**settings), WORDS, WORDS)
    plain.double().eval().load_state_dict(model.state_dict())
    _, target = sentences(batch=5)
    target %= WORDS
    for source in (source_batch(left=left) for left in (True, False)):
        expected = model(source, None, target)[0]
        torch.testing.assert_close(plain(source, target), expected, rtol=0, atol=1e-12)
        for beam in (1, 4):
            hypotheses = generator([model], beam=beam).generate([model], sample(source))
            tokens = [best["tokens"].tolist() for best, *_ in hypotheses]
            width = max(map(len, tokens))
            assert width > min(map(len, tokens)), "the translations should differ in length"
            found = generate(plain, source, SearchSettings(beam=beam))
            assert found.tolist() == [row + [PAD] * (width - len(row)) for row in tokens]


def test_a_joined_matrix_needs_vocabularies_of_one_size():
    with pytest.raises(InputError, match='10 and 12 entries: .*tie_embeddings="target"'):
        Transformer(ModelSettings(N=1, d_model=8, h=2), 10, 12)
    model = Transformer(ModelSettings(N=1, d_model=8, h=2, tie_embeddings="target"), 10, 12).eval()
    source, settings = torch.tensor([[5, 9, 2]]), SearchSettings(beam=1)
    assert model(source, torch.tensor([[2, 11]])).shape == (1, 2, 12)
    assert generate(model, source, settings).shape[0] == 1


def test_a_search_leaves_its_model_and_its_results_usable_with_gradients():
    """The search runs in torch's inference mode, whose tensors are not."""
    model = noisy_model()
    source = source_batch((600, 3))  # longer than the position table
    [[best, *_], _] = BeamSearch(
        SearchSettings(max_len_a=0, max_len_b=8), [AiaynSearchModel(model.encoder, model.decoder)]
    ).search_batch(source)
    model.train()
    target = torch.cat((torch.tensor([EOS]), best.tokens[:-1]))[None]
    log_p = model(source[:1], None, target)[0].log_softmax(dim=-1)
    chosen = log_p.gather(2, best.tokens[None, :, None])
    (chosen.sum() * best.score * best.positional_scores.sum()).backward()
    assert all(weight.grad is not None for weight in model.parameters())
