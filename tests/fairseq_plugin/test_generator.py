"""§6.1 The search behind fairseq's interface: against fairseq's own, and in threads."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.models.transformer_lm import TransformerLanguageModel, base_lm_architecture
from fairseq.sequence_generator import SequenceGenerator
from models import EOS, PAD, dictionary, fairseq_model
from searches import VARIANTS, WORDS, assert_same, batch, ending_model, search, unsettled

from aiayn_plugin.errors import InputError
from aiayn_plugin.search.rules import FairseqRules, PaperRules

FAIRSEQ = [
    {},
    {"len_penalty": 0.5},
    {"unk_penalty": 0.7},
    {"unk_penalty": -2.0},
    {"min_len": 5},
    {"temperature": 0.7},
    {"beam_size": 1},
    {"beam_size": 6},
    {"beam_size": WORDS - 3},
    {"normalize_scores": False},
    {"tokens_to_suppress": ("w3",)},
    {"max_len_b": 3},
]


def both(models, data, kept=None, **options):
    """Return the plugin's generator under fairseq's rules, and fairseq's own."""
    options = {"beam_size": 4, "max_len_a": 1, "max_len_b": 5, **options}
    theirs = SequenceGenerator(models, dictionary(WORDS), **options)
    exponent = options.get("len_penalty", 1.0) if options.get("normalize_scores", True) else 0.0
    rules = FairseqRules(
        exponent,
        options["max_len_a"],
        options["max_len_b"],
        kept or options["beam_size"],
        first=options["beam_size"],
    )
    ours = search(models, rules, alignment="soft", **options)
    return ours, theirs


def fairseqs_model(seed=5, **settings):
    """Return a model of fairseq's own whose sentences end after lengths that differ."""
    return unsettled(fairseq_model(WORDS, **settings)[0], seed).double().eval()


@pytest.mark.parametrize("options", FAIRSEQ)
def test_fairseqs_search_is_fairseqs(options):
    models, data = [ending_model()], batch()
    ours, theirs = both(models, data, **options)
    assert_same(ours.generate(models, data), theirs.generate(models, data))


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("lenpen", [0.0, 0.6, 1.0])
def test_a_stop_before_fairseqs_changes_nothing(kept, lenpen):
    steps, saved = [], 0
    for seed in range(1, 6):
        models, data = [ending_model(seed)], batch()
        models[0].decoder.embedding.register_forward_hook(
            lambda module, tokens, out: steps.append(out.numel())
        )
        ours, theirs = both(models, data, kept=kept, len_penalty=lenpen, max_len_b=20)
        searched = []
        for generator in (ours, theirs):
            steps.clear()
            found = generator.generate(models, data)
            searched.append((sum(steps), [hypotheses[:kept] for hypotheses in found]))
        assert_same(searched[0][1], searched[1][1])
        saved += searched[1][0] - searched[0][0]
    assert saved > 0


@pytest.mark.parametrize("options", VARIANTS)
def test_fairseqs_search_is_fairseqs_for_every_model(options):
    models, data = [ending_model(**options)], batch()
    ours, theirs = both(models, data)
    assert_same(ours.generate(models, data), theirs.generate(models, data))


def test_ensembles_prefixes_and_attention_are_fairseqs():
    models, data = [ending_model(seed) for seed in (1, 2, 3)], batch()
    ours, theirs = both(models, data)
    # fairseq forgets --min-len for a sentence without a prefix beside one with: all have one.
    prefix = torch.tensor([[5, 6], [7, PAD], [8, 9], [6, PAD], [4, 4]])
    for prefix_tokens in (None, prefix[:, :1], prefix):
        found = ours.generate(models, data, prefix_tokens=prefix_tokens)
        expected = theirs.generate(models, data, prefix_tokens=prefix_tokens)
        assert_same(found, expected)
        for one, other in zip(sum(found, []), sum(expected, []), strict=True):
            torch.testing.assert_close(
                one["attention"], other["attention"].to(one["attention"]), rtol=0, atol=1e-6
            )
            assert one["alignment"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: [fairseqs_model()],
        lambda: [fairseqs_model(), ending_model(), fairseqs_model(6, share_all_embeddings=False)],
        lambda: [fairseqs_model(share_all_embeddings=False, adaptive_softmax_cutoff="6")],
    ],
    ids=["alone", "with ours", "adaptive softmax"],
)
def test_other_models_are_searched_too(make):
    models, data = make(), batch()
    for options in ({}, {"temperature": 0.7}):
        ours, theirs = both(models, data, **options)
        assert_same(ours.generate(models, data), theirs.generate(models, data))
    prefix = torch.tensor([[5], [7], [8], [6], [4]])
    assert_same(*(search.generate(models, data, prefix_tokens=prefix) for search in (ours, theirs)))


def test_a_language_model_is_fused_as_fairseqs():
    args = SimpleNamespace(
        decoder_layers=1,
        decoder_embed_dim=16,
        decoder_ffn_embed_dim=16,
        decoder_attention_heads=2,
        max_target_positions=64,
        tokens_per_sample=64,
        share_decoder_input_output_embed=True,
    )
    base_lm_architecture(args)
    words = dictionary(WORDS)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    lm = TransformerLanguageModel.build_model(args, task).double().eval()
    models, data = [ending_model()], batch()
    for weight in (0.5, 2.0):
        ours, theirs = both(models, data, lm_model=lm, lm_weight=weight)
        assert_same(ours.generate(models, data), theirs.generate(models, data))


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_change_nothing(threads):
    """A batch is searched in parts, and no sentence, prefix or alignment gets lost."""
    models = [ending_model(seed=seed, positions="learned").double() for seed in (2, 3)]
    data = batch([n % 7 for n in range(130)])
    prefix = torch.randint(4, WORDS, (130, 2))
    prefix[::3] = PAD
    rules = FairseqRules(1.0, 0, 20, 4, 4)

    def found(number):
        torch.set_num_threads(number)
        return search(models, rules, alignment="soft").generate(models, data, prefix_tokens=prefix)

    before = torch.get_num_threads()
    try:
        expected, hypotheses = found(1), found(threads)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert_same(hypotheses, expected)
    for one, other in zip(sum(hypotheses, []), sum(expected, []), strict=True):
        torch.testing.assert_close(one["attention"], other["attention"])
        assert one["alignment"] == other["alignment"]


def test_an_error_in_a_thread_ends_the_command():
    model, before = ending_model(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        generator = search([model], PaperRules(0.6, 1, 20, 4), min_len=60)
        with pytest.raises(InputError, match="--min-len 60 is more than the limit"):
            generator.generate([model], batch([5] * 70))
    finally:
        torch.set_num_threads(before)


def test_no_ngram_comes_twice():
    """On a CPU fairseq's own also finds n-grams in the padding that follows a hypothesis."""
    models, data = [ending_model()], batch()
    ours, _ = both(models, data, no_repeat_ngram_size=2)
    for hypothesis in sum(ours.generate(models, data), []):
        tokens = [EOS, *hypothesis["tokens"].tolist()]
        pairs = list(zip(tokens, tokens[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


def test_nothing_finite_is_an_error():
    model = ending_model()
    model.decoder.embedding.weight.data.fill_(math.nan)
    with pytest.raises(InputError, match="sentence 0"):
        search([model], PaperRules(0.6, 1, 5, 1)).generate([model], batch())
