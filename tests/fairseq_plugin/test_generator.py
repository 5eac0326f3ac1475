"""§6.1 The search behind fairseq's interface, compared with fairseq's own."""

import math
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import tasks
from fairseq.models.transformer_lm import TransformerLanguageModel, base_lm_architecture
from fairseq.sequence_generator import SequenceGenerator
from models import EOS, PAD, configuration, dictionary, fairseq_model
from searches import (
    MODEL_VARIANTS,
    WORDS,
    add_noise,
    assert_same,
    generator,
    noisy_model,
    sample,
    source_batch,
)

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.generator import Generator
from aiayn_plugin.paper import SearchSettings

#: Options under SearchSettings's names; SequenceGenerator has other names for some.
FAIRSEQ_NAMES = {"beam": "beam_size", "lenpen": "len_penalty", "unkpen": "unk_penalty"}
OPTIONS = [
    {"lenpen": 0.5},
    {"unkpen": 0.7},
    {"unkpen": -2.0},
    {"unkpen": math.inf},
    {"min_len": 5},
    {"temperature": 0.7},
    {"beam": 1, "nbest": 1},
    {"beam": 6, "nbest": 6},
    {"beam": WORDS - 3, "nbest": WORDS - 3},
    {"unnormalized": True},
    {"max_len_b": 3},
]


def both(models, **options):
    """Return the plugin's generator with fairseq's rules, and fairseq's own."""
    options = {"beam": 4, "lenpen": 1.0, "max_len_a": 1, "max_len_b": 5, **options}
    ours = generator(models, alignment="soft", **{"nbest": 4, **options}, length_penalty="fairseq")
    options.pop("nbest", None)
    options["normalize_scores"] = not options.pop("unnormalized", False)
    options = {FAIRSEQ_NAMES.get(name, name): value for name, value in options.items()}
    return ours, SequenceGenerator(models, dictionary(WORDS), **options)


def noisy_fairseq_model(seed=5, **settings):
    """Return a fairseq model whose outputs differ in length."""
    return add_noise(fairseq_model(WORDS, **settings)[0], seed).double().eval()


def assert_generators_agree(ours, theirs, models, **arguments):
    data = sample(source_batch())
    assert_same(
        ours.generate(models, data, **arguments), theirs.generate(models, data, **arguments)
    )


@pytest.mark.parametrize(
    "options, settings",
    [*((options, {}) for options in OPTIONS), *(({}, settings) for settings in MODEL_VARIANTS)],
)
def test_fairseqs_rules_give_fairseqs_hypotheses(options, settings):
    models = [noisy_model(**settings)]
    assert_generators_agree(*both(models, **options), models)


@pytest.mark.parametrize("nbest, lenpen", [(1, 0.0), (2, 0.6), (1, 1.0)])
def test_stopping_before_fairseq_saves_work_and_changes_nothing(nbest, lenpen):
    embedded, saved = [], 0
    data = sample(source_batch())
    for seed in range(1, 6):
        models = [noisy_model(seed)]
        models[0].decoder.embedding.register_forward_hook(
            lambda module, tokens, out: embedded.append(out.numel())
        )
        hypotheses, work = [], []
        for search in both(models, nbest=nbest, lenpen=lenpen, max_len_b=20):
            embedded.clear()
            hypotheses.append([found[:nbest] for found in search.generate(models, data)])
            work.append(sum(embedded))
        assert_same(*hypotheses)
        saved += work[1] - work[0]
    assert saved > 0


def test_ensembles_prefixes_and_attention_are_fairseqs():
    models, data = [noisy_model(seed) for seed in (1, 2, 3)], sample(source_batch())
    ours, theirs = both(models)
    # fairseq forgets --min-len for sentences without a prefix if another one has a prefix.
    prefix = torch.tensor([[5, 6], [7, PAD], [8, 9], [6, PAD], [4, 4]])
    for prefix_tokens in (None, prefix[:, :1], prefix):
        actual = ours.generate(models, data, prefix_tokens=prefix_tokens)
        expected = theirs.generate(models, data, prefix_tokens=prefix_tokens)
        assert_same(actual, expected)
        for one, other in zip(sum(actual, []), sum(expected, []), strict=True):
            torch.testing.assert_close(
                one["attention"], other["attention"].to(one["attention"]), rtol=0, atol=1e-6
            )
            assert one["alignment"]


@pytest.mark.parametrize(
    "build_models",
    [
        lambda: [noisy_fairseq_model()],
        lambda: [
            noisy_fairseq_model(),
            noisy_model(),
            noisy_fairseq_model(6, share_all_embeddings=False),
        ],
        lambda: [noisy_fairseq_model(share_all_embeddings=False, adaptive_softmax_cutoff="6")],
    ],
    ids=["alone", "with ours", "adaptive softmax"],
)
def test_fairseqs_transformer_is_searched_too(build_models):
    models = build_models()
    for options in ({}, {"temperature": 0.7}):
        assert_generators_agree(*both(models, **options), models)
    prefix = torch.tensor([[5], [7], [8], [6], [4]])
    assert_generators_agree(*both(models), models, prefix_tokens=prefix)


def test_a_language_model_is_fused_as_in_fairseq(corpus):
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
    lm = TransformerLanguageModel.build_model(args, task).double()
    models = [noisy_model()]
    for weight in (0.5, 2.0):
        fusion = {"lm_model": lm, "lm_weight": weight}
        limits = {"max_len_a": 1, "max_len_b": 5}
        settings = SearchSettings(lenpen=1.0, nbest=4, length_penalty="fairseq", **limits)
        ours = Generator(models, words, settings, **fusion)
        assert not lm.training
        theirs = SequenceGenerator(models, words, beam_size=4, **limits, **fusion)
        assert_generators_agree(ours, theirs, models)
    translation = tasks.setup_task(configuration("--arch", "aiayn_tiny", data=corpus).task)
    with pytest.raises(InputError, match="--lm-path has a different dictionary"):
        translation.build_generator(models, Namespace(), extra_gen_cls_kwargs={"lm_model": lm})


@pytest.mark.parametrize("n", [1, 2])
def test_no_ngram_is_repeated(n):
    """On a CPU fairseq's own search also finds n-grams in the padding after a hypothesis."""
    models, data = [noisy_model()], sample(source_batch())
    settings = SearchSettings(nbest=4, max_len_b=5)
    ours = Generator(models, dictionary(WORDS), settings, no_repeat_ngram_size=n)
    for hypothesis in sum(ours.generate(models, data), []):
        tokens = [EOS, *hypothesis["tokens"].tolist()]
        ngrams = list(zip(*(tokens[i:] for i in range(n)), strict=False))[2 - n :]
        assert len(set(ngrams)) == len(ngrams)


def test_a_model_in_training_mode_is_searched_without_dropout():
    """fairseq-generate loads models in training mode."""
    model, data = noisy_model(dropout=0.5), sample(source_batch())
    expected = generator([model]).generate([model], data)
    model.train()
    assert_same(generator([model]).generate([model], data), expected)


def test_constraints_need_fairseqs_search():
    models = [noisy_model()]
    with pytest.raises(InputError, match="give --constraints"):
        generator(models).generate(models, sample(source_batch()), constraints=torch.zeros(5, 1))
