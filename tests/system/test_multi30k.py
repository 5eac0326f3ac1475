"""§6.1 on real sentences, with a trained model of fairseq's and the same model converted.

The converter, both rules of the search and CTranslate2 are compared on a thousand sentences.
In float32, rounding may change a few of them.
"""

import dataclasses

import pytest
import torch
from commands import STOCK_TRAINING, stock_model
from fairseq import checkpoint_utils, options, tasks, utils
from models import configuration

from aiayn_plugin.fairseq_plugin.generator import Generator

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quiet")]
FAIRSEQ = ["--task", "translation", "--beam", "4", "--lenpen", "0.6"]
FAIRSEQ_RULES = ["--length-penalty", "fairseq", "--beam", "4", "--lenpen", "0.6"]


@pytest.fixture(scope="module")
def trained(succeed, repo, tmp_path_factory):
    """Prepared Multi30k, fairseq's own model after 500 updates, and the converted model."""
    raw = repo.parent / "shared" / "data" / "multi30k"
    if not raw.is_dir():
        pytest.skip(f"needs the text of Multi30k in {raw}")
    folder = tmp_path_factory.mktemp("multi30k")
    prefixes = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    succeed(
        *("aiayn", "prepare", "-s", "en", "-t", "de", "--merges", "4000"),
        *("--destdir", folder / "data"),
        *(f"--{split}pref={raw / name}" for split, name in prefixes.items()),
    )
    succeed(
        *("fairseq-train", folder / "data", *stock_model(128, 256, 4), *STOCK_TRAINING),
        *("--lr", "0.003", "--warmup-updates", "200", "--max-tokens", "2000"),
        *("--max-update", "500", "--save-dir", folder),
    )
    stock, converted = folder / "checkpoint_last.pt", folder / "converted.pt"
    succeed("aiayn", "convert", "--input", stock, "--output", converted)
    return folder / "data", stock, converted


class Setup:
    """A model, its test set, and how fairseq-generate would search."""

    def __init__(self, data, path, *flags):
        self.cfg = configuration(
            "--path", str(path), "--cpu", *flags, data=data, parser=options.get_generation_parser
        )
        self.task = tasks.setup_task(self.cfg.task)
        self.task.load_dataset("test")
        self.test = self.task.dataset("test")
        (self.model,), _ = checkpoint_utils.load_model_ensemble([str(path)], task=self.task)

    def generator(self):
        return self.task.build_generator([self.model], self.cfg.generation)

    def search(self, dtype, size=64, generator=None):
        """Return the hypotheses of each sentence by its index, searched in batches of `size`."""
        self.model.to(dtype).eval()
        generator = generator or self.generator()
        batches = self.task.get_batch_iterator(
            self.test, max_sentences=size, required_batch_size_multiple=1
        )
        found = {}
        for sample in batches.next_epoch_itr(shuffle=False):
            results = self.task.inference_step(generator, [self.model], sample)
            found.update(zip(sample["id"].tolist(), results, strict=True))
        assert sorted(found) == list(range(1000))
        return found


def tokens(found):
    """Return the tokens of the best hypothesis of each sentence."""
    return {number: tuple(results[0]["tokens"].tolist()) for number, results in found.items()}


def differences(one, other):
    """Return the indices of the sentences in which two searches differ."""
    return [number for number in one if one[number] != other[number]]


@pytest.fixture
def exact_softmax(monkeypatch):
    """Let fairseq's softmaxes keep the precision of their input, not round it to float32."""

    def exact(function):
        return lambda x, dim, onnx_trace=False: function(x, dim=dim)

    monkeypatch.setattr(utils, "softmax", exact(torch.softmax))
    monkeypatch.setattr(utils, "log_softmax", exact(torch.log_softmax))


def test_a_converted_model_is_the_original(trained, exact_softmax):
    data, stock, ours = trained
    theirs, converted = (Setup(data, path, *FAIRSEQ) for path in (stock, ours))
    exact = [tokens(side.search(torch.float64)) for side in (theirs, converted)]
    assert len(set(exact[0].values())) > 500, "not really trained"
    assert not differences(*exact)
    single = [tokens(side.search(torch.float32)) for side in (theirs, converted)]
    assert len(differences(*single)) <= 5


def test_the_papers_search_loses_nothing_in_any_batch(trained):
    data, _, ours = trained
    setup = Setup(data, ours)
    generation = setup.cfg.generation
    assert (generation.beam, generation.lenpen, generation.max_len_b) == (4, 0.6, 50)
    settings = dataclasses.replace(setup.generator().search.settings, stop_early=False)
    to_the_limit = Generator([setup.model], setup.task.target_dictionary, settings)
    expected = setup.search(torch.float64, 64, to_the_limit)
    for size in (1, 7, 64):
        found = setup.search(torch.float64, size)
        assert tokens(found) == tokens(expected)
        for number, (best, *_) in found.items():
            assert float(best["score"]) == pytest.approx(
                float(expected[number][0]["score"]), abs=1e-9
            )
    for size in (1, 7, 64):
        single = setup.search(torch.float32, size)
        assert len(differences(tokens(single), tokens(expected))) <= 5


def test_fairseqs_rules_find_what_fairseq_finds(trained, exact_softmax):
    data, stock, ours = trained
    fast, slow = Setup(data, ours, *FAIRSEQ_RULES), Setup(data, stock, *FAIRSEQ)
    assert fast.cfg.generation.max_len_b == slow.cfg.generation.max_len_b == 200
    assert tokens(fast.search(torch.float64)) == tokens(slow.search(torch.float64))


def test_ctranslate2_finds_the_plugins_hypotheses(trained, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    from aiayn_plugin.checkpoints.ctranslate2_model import build_specification

    data, _, ours = trained
    setup = Setup(data, ours, *FAIRSEQ_RULES)
    exported = build_specification(
        setup.model, setup.task.source_dictionary.symbols, setup.task.target_dictionary.symbols
    )
    exported.validate()
    exported.save(str(tmp_path))
    words, symbols = setup.task.source_dictionary.symbols, setup.task.target_dictionary.symbols
    found = ctranslate2.Translator(str(tmp_path), device="cpu").translate_batch(
        [[words[token] for token in source[:-1]] for source in setup.test.src],
        beam_size=4,
        length_penalty=0.6,
        max_batch_size=64,
        max_decoding_length=200,
    )
    expected = tokens(setup.search(torch.float32))
    same = sum(
        result.hypotheses[0] == [symbols[token] for token in expected[number][:-1]]
        for number, result in enumerate(found)
    )
    assert same >= 995
