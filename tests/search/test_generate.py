"""The encoder-decoder as a plain module, and generate, in a process that cannot import fairseq."""

import subprocess
import sys

import pytest
import torch
from models import EOS, PAD, sentences
from searches import WORDS, generator, noisy_model, sample, source_batch

from aiayn_plugin.errors import InputError
from aiayn_plugin.model import Transformer
from aiayn_plugin.paper import ModelSettings, SearchSettings
from aiayn_plugin.search import BeamSearch, generate
from aiayn_plugin.search.decoder_step import AiaynSearchModel

#: Reads settings, weights and tokens from a file, and replaces it by logits and translations.
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import torch
from aiayn_plugin.model import Transformer
from aiayn_plugin.paper import ModelSettings, SearchSettings
from aiayn_plugin.search import generate

given = torch.load(sys.argv[1])
target = given["target"]
model = Transformer(ModelSettings(**given["settings"]), given["words"], given["words"]).double()
model.load_state_dict(given["weights"])
model.eval()
results = [
    {
        "logits": model(source, target),
        **{beam: generate(model, source, SearchSettings(beam=beam)) for beam in (1, 4)},
    }
    for source in given["sources"]
]
torch.save(results, sys.argv[1])
"""


def test_without_fairseq_the_model_computes_and_translates_the_same(tmp_path, repo):
    """With padding on the left, and on the right."""
    settings = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4}
    model, sources = noisy_model(**settings), [source_batch(left=left) for left in (True, False)]
    _, target = sentences(batch=len(sources[0]))
    target %= WORDS
    given = {"settings": settings, "words": WORDS, "weights": model.state_dict()}
    torch.save({**given, "sources": sources, "target": target}, tmp_path / "given.pt")
    command = [sys.executable, "-c", PROGRAM, tmp_path / "given.pt"]
    subprocess.run(command, check=True, cwd=repo)
    for source, actual in zip(sources, torch.load(tmp_path / "given.pt"), strict=True):
        expected = model(source, None, target)[0]
        torch.testing.assert_close(actual["logits"], expected, rtol=0, atol=1e-12)
        for beam in (1, 4):
            hypotheses = generator([model], beam=beam).generate([model], sample(source))
            tokens = [best["tokens"].tolist() for best, *_ in hypotheses]
            width = max(map(len, tokens))
            assert width > min(map(len, tokens)), "the translations should differ in length"
            assert actual[beam].tolist() == [row + [PAD] * (width - len(row)) for row in tokens]


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
