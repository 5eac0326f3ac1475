"""§6.1: which search the options of fairseq-generate ask for, and whether it can be."""

from argparse import Namespace

import pytest
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models.lstm import LSTMModel, base_architecture
from models import build, dictionary, fairseq_model

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.generation_options import (
    alignment_of,
    complete,
    other_model,
    other_search,
    search_defaults,
    search_in_int8,
)
from aiayn_plugin.search.rules import FairseqRules, PaperRules, rules_of

WORDS = 30  #: entries of the target dictionary


def options(paper=True, **given):
    """Return the options of a search of which some are given."""
    args = Namespace(**given)
    return complete(args, search_defaults(args, "gnmt" if paper else "fairseq", trees=False))


@pytest.mark.parametrize(
    "length_penalty, trees, given, expected",
    [
        ("gnmt", False, {}, (4, 0.6, 1.0, 50)),
        ("gnmt", True, {}, (21, 0.3, 1.0, 300)),
        ("gnmt", True, {"beam": 2}, (2, 0.3, 1.0, 300)),
        ("gnmt", False, {"sampling": True, "max_len_b": 9}, (5, 1, 0, 9)),
        ("fairseq", True, {"beam": 7}, (7, 1, 0, 200)),
    ],
)
def test_defaults_are_those_of_the_search_that_is_asked_for(length_penalty, trees, given, expected):
    args = Namespace(**given)
    whole = complete(args, search_defaults(args, length_penalty, trees))
    assert (whole.beam, whole.lenpen, whole.max_len_a, whole.max_len_b) == expected
    assert whole.nbest == 1


def test_a_whole_configuration_keeps_its_values():
    whole = complete(GenerationConfig(beam=7), {"beam": 4, "lenpen": 0.6})
    assert (whole.beam, whole.lenpen, whole.max_len_a, whole.max_len_b) == (7, 1, 0, 200)


@pytest.mark.parametrize(
    "typed, flag",
    [
        ({}, None),
        ({"sampling": True}, "--sampling"),
        ({"diverse_beam_groups": 2}, "--diverse-beam-groups"),
        ({"diversity_rate": 0.0}, "--diversity-rate"),
        ({"match_source_len": True}, "--match-source-len"),
        ({"constraints": "ordered"}, "--constraints"),
        ({"prefix_allowed_tokens_fn": len}, "--prefix-allowed-tokens-fn"),
        ({"beam": 7, "lenpen": 2.0, "nbest": 3}, None),
    ],
)
def test_options_of_other_searches_are_noticed(typed, flag):
    assert other_search(complete(Namespace(**typed), {})) == flag


def test_a_function_of_allowed_tokens_is_another_search():
    assert other_search(complete(Namespace(), {}), len) == "--prefix-allowed-tokens-fn"


@pytest.mark.parametrize(
    "typed, message",
    [
        ({"sampling": True, "match_source_len": True}, "--sampling and --match-source-len are two"),
        ({"sampling_topk": 3}, "--sampling-topk needs --sampling"),
        ({"print_step": True}, "--print-step is for models that refine a translation"),
        ({"retain_iter_history": True}, "--retain-iter-history is for models that refine"),
    ],
)
def test_options_that_no_search_has_together_are_one_line(typed, message):
    with pytest.raises(InputError, match=message):
        other_search(complete(Namespace(**typed), {}))


def test_our_search_takes_the_stacks_of_both_transformers_and_no_others():
    args = Namespace(criterion="cross_entropy")
    base_architecture(args)
    lstm = LSTMModel.build_model(
        args, Namespace(source_dictionary=dictionary(WORDS), target_dictionary=dictionary(WORDS))
    )
    ours, theirs = build(), fairseq_model()[0]
    assert other_model([ours, theirs]) is None
    assert other_model([ours, lstm]) == "LSTMModel"


def test_the_rules_are_those_of_the_options():
    assert rules_of(options(), True, WORDS) == PaperRules(0.6, 1.0, 50, 1, True)
    theirs = rules_of(options(paper=False, beam=4, nbest=2), False, WORDS)
    assert theirs == FairseqRules(1, 0, 200, 2, 4, True)


@pytest.mark.parametrize("paper", [True, False])
@pytest.mark.parametrize(
    "typed, early",
    [
        ({}, True),
        ({"unkpen": 0.5}, True),
        ({"unkpen": -0.5}, False),
        ({"lm_weight": -0.1}, False),
    ],
)
def test_nothing_is_decided_early_if_scores_may_rise(paper, typed, early):
    assert rules_of(options(paper, **typed), paper, WORDS).early is early


def test_a_negative_exponent_is_never_early_unless_nothing_is_normalised():
    assert rules_of(options(False, lenpen=-1.0), False, WORDS).early is False
    assert rules_of(options(False, lenpen=-1.0, unnormalized=True), False, WORDS).early is True


@pytest.mark.parametrize("nbest, kept", [(1, 1), (4, 4), (9, 4)])
def test_no_more_are_kept_than_the_beam_has(nbest, kept):
    assert rules_of(options(nbest=nbest), True, WORDS).kept == kept


def test_unnormalised_scores_have_no_penalty():
    assert rules_of(options(unnormalized=True), True, WORDS).penalty(9) == 1
    assert rules_of(options(False, unnormalized=True), False, WORDS).penalty(9) == 1


@pytest.mark.parametrize(
    "paper, typed, message",
    [
        (True, {"beam": 0}, "--beam 0 must be at least 1, and less than the 30 entries"),
        (True, {"beam": 30}, "--beam 30 must"),
        (True, {"lenpen": -0.1}, "--lenpen -0.1 must not be negative: it is α of the GNMT penalty"),
        (True, {"lenpen": float("nan")}, "--lenpen nan"),
        (True, {"lenpen": float("inf")}, "--lenpen inf"),
        (False, {"nbest": 0}, "--nbest 0 must be at least 1"),
        (False, {"max_len_a": -1}, "--max-len-a and --max-len-b must not be negative"),
        (True, {"max_len_b": -1}, "--max-len-a and --max-len-b must not be negative"),
    ],
)
def test_a_search_that_cannot_be_is_one_line(paper, typed, message):
    with pytest.raises(InputError, match=message) as error:
        rules_of(options(paper, **typed), paper, WORDS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "typed, kind",
    [
        ({}, None),
        ({"print_alignment": "soft"}, "soft"),
        ({"replace_unk": ""}, "hard"),
        ({"print_alignment": "soft", "replace_unk": ""}, "soft"),
    ],
)
def test_unknown_words_are_replaced_by_a_hard_alignment(typed, kind):
    assert alignment_of(options(**typed)) == kind


def test_only_the_plugins_models_search_in_8_bits():
    model, _ = fairseq_model()
    with pytest.raises(InputError, match="--int8 is for the plugin's models; aiayn convert"):
        search_in_int8(model)
