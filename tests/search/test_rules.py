"""§6.1 The rules of the paper and of fairseq, with numbers worked by hand."""

import pytest
from torch import tensor

from aiayn_plugin.errors import InputError
from aiayn_plugin.paper import SearchSettings
from aiayn_plugin.search.rules import FairseqRules, PaperRules, build_rules

VOCABULARY = 30  #: entries of the target dictionary
NONE_FINISHED = tensor([0])  #: finished hypotheses of one sentence


def paper(alpha=1.0, max_len_a=1.0, max_len_b=50, kept=1, stop_early=True):
    """Return the paper's rules; with α = 1 the penalty of 7 tokens is (5 + 7) / 6 = 2."""
    return PaperRules(alpha, max_len_a, max_len_b, kept, stop_early)


def fairseq(lenpen=1.0, max_len_a=0.0, max_len_b=200, kept=1, beam=3, stop_early=True):
    """Return fairseq's rules; with an exponent of 1 the penalty of 4 tokens is 4."""
    return FairseqRules(lenpen, max_len_a, max_len_b, kept, stop_early, beam=beam)


def test_the_paper_limits_each_sentence_by_its_own_length():
    """1.5 · 4 + 3 = 9, and 1.5 · 5 + 3 = 10.5, of which 10 are whole tokens."""
    assert paper(max_len_a=1.5, max_len_b=3).limits(tensor([4, 5]), 99).tolist() == [9, 10]


def test_fairseq_limits_a_batch_by_its_width():
    """1.5 · 5 + 3 = 10.5, of which 10 are whole tokens, for both sentences, however short."""
    assert fairseq(max_len_a=1.5, max_len_b=3).limits(tensor([4, 1]), 5).tolist() == [10, 10]


def test_fairseq_accepts_ends_until_it_has_a_beam_of_them():
    """With a beam of 3, sentence 0 has none so far, sentence 1 two and sentence 2 three."""
    ended = tensor([[True, False, True, True], [False, True, True, False], [True] * 4])
    assert fairseq(beam=3).accept(ended, tensor([0, 2, 3])).tolist() == [
        [True, False, True, True],
        [False, True, False, False],
        [False] * 4,
    ]


@pytest.mark.parametrize("rules, limit", [(paper(), 6), (fairseq(), 1)])
@pytest.mark.parametrize(
    "worst, best_open, finished",
    [
        (-2.0, -5.0, True),  # at best -5 / 2 = -2.5
        (-2.0, -4.0, True),  # -2: not better
        (-2.0, -3.9, False),  # -1.95 would be better
        (-2.0, -float("inf"), True),
        (-float("inf"), -5.0, False),  # fewer than nbest are finished
    ],
)
def test_a_sentence_is_finished_once_no_open_hypothesis_can_beat_the_worst_kept(
    rules, limit, worst, best_open, finished
):
    """With its end symbol the longest translation has a penalty of 2 under both rules."""
    assert rules.penalty(limit + 1) == 2
    actual = rules.are_finished(
        tensor([worst]), tensor([best_open]), NONE_FINISHED, tensor([limit])
    )
    assert actual.tolist() == [finished]


@pytest.mark.parametrize("rules", [paper(stop_early=False), fairseq(stop_early=False)])
def test_without_stopping_early_a_sentence_is_searched_to_its_limit(rules):
    actual = rules.are_finished(tensor([-2.0]), tensor([-99.0]), NONE_FINISHED, tensor([6]))
    assert actual.tolist() == [False]


def test_fairseq_stops_at_a_beam_of_finished_hypotheses_and_the_paper_does_not():
    worst, best_open, limits = tensor([-2.0, -2.0]), tensor([-0.1, -0.1]), tensor([6, 6])
    finished = tensor([2, 3])
    assert fairseq(beam=3).are_finished(worst, best_open, finished, limits).tolist() == [
        False,
        True,
    ]
    assert paper().are_finished(worst, best_open, finished, limits).tolist() == [False, False]


def fairseq_settings(**settings):
    """Return settings with fairseq's rules and defaults."""
    defaults = {"length_penalty": "fairseq", "lenpen": 1.0, "max_len_a": 0.0, "max_len_b": 200}
    return SearchSettings(**{**defaults, **settings})


def test_rules_follow_from_the_settings():
    assert build_rules(SearchSettings(), VOCABULARY) == paper(0.6)
    assert build_rules(fairseq_settings(beam=5, nbest=2), VOCABULARY) == fairseq(kept=2, beam=5)


@pytest.mark.parametrize("settings", [SearchSettings, fairseq_settings])
@pytest.mark.parametrize(
    "options, stops_early",
    [
        ({}, True),
        ({"stop_early": False}, False),
        ({"unkpen": 0.5}, True),
        ({"unkpen": -0.5}, False),
    ],
)
def test_a_search_does_not_stop_early_if_scores_may_rise(settings, options, stops_early):
    assert build_rules(settings(**options), VOCABULARY).stop_early is stops_early


def test_a_negative_exponent_matters_only_to_normalised_scores():
    negative = fairseq_settings(lenpen=-1.0)
    assert build_rules(negative, VOCABULARY).stop_early is False
    unnormalized = fairseq_settings(lenpen=-1.0, unnormalized=True)
    assert build_rules(unnormalized, VOCABULARY).stop_early is True


@pytest.mark.parametrize("nbest, kept", [(1, 1), (4, 4), (9, 4)])
def test_at_most_a_beam_of_hypotheses_is_kept(nbest, kept):
    assert build_rules(SearchSettings(nbest=nbest), VOCABULARY).kept == kept


@pytest.mark.parametrize(
    "settings, message",
    [
        (SearchSettings(beam=0), "--beam 0 must be at least 1 and below the 30 entries"),
        (SearchSettings(beam=30), "--beam 30 must"),
        (SearchSettings(lenpen=-0.1), "--lenpen -0.1 must be from 0 to 10"),
        (SearchSettings(lenpen=float("nan")), "--lenpen nan"),
        (fairseq_settings(lenpen=-1000.0), "--lenpen -1000.0 must be from -10 to 10"),
        (SearchSettings(max_len_a=float("inf")), "must be from 0 to"),
        (fairseq_settings(nbest=0), "--nbest 0 must be at least 1"),
        (fairseq_settings(max_len_a=-1), "--max-len-a and --max-len-b must be from 0 to"),
        (SearchSettings(max_len_b=-1), "--max-len-a and --max-len-b must be from 0 to"),
        (SearchSettings(length_penalty="GNMT"), "--length-penalty GNMT must be gnmt or fairseq"),
        (SearchSettings(unkpen=float("nan")), "--unkpen nan must be finite, or inf"),
        (SearchSettings(temperature=0.0), "--temperature 0.0 must be above 0"),
    ],
)
def test_invalid_settings_are_reported_in_one_line(settings, message):
    with pytest.raises(InputError, match=message) as error:
        build_rules(settings, VOCABULARY)
    assert "\n" not in str(error.value)
