"""§6.1 The rules of the paper and of fairseq, with numbers worked by hand."""

import pytest
import torch
from torch import tensor

from aiayn_plugin.search.rules import FairseqRules, PaperRules

NOTHING = tensor([0])  #: finished hypotheses of one sentence


def paper(alpha=1.0, limit_a=1.0, limit_b=50, kept=1, early=True):
    """Return the paper's rules; with α = 1 the penalty of 7 tokens is (5 + 7) / 6 = 2."""
    return PaperRules(alpha, limit_a, limit_b, kept, early)


def fairseqs(lenpen=1.0, limit_a=0.0, limit_b=200, kept=1, first=3, early=True):
    """Return fairseq's rules; with an exponent of 1 the penalty of 4 tokens is 4."""
    return FairseqRules(lenpen, limit_a, limit_b, kept, first, early)


@pytest.mark.parametrize(
    "rules, length, penalty",
    [
        (paper(0.0), 9, 1.0),
        (paper(1.0), 1, 1.0),
        (paper(1.0), 7, 2.0),
        (paper(0.6), 7, 1.515716567),  # 2^0.6
        (paper(2.0), 13, 9.0),  # (18 / 6)²
        (fairseqs(0.0), 9, 1.0),
        (fairseqs(1.0), 9, 9.0),
        (fairseqs(0.5), 9, 3.0),
    ],
)
def test_penalty(rules, length, penalty):
    assert rules.penalty(length) == pytest.approx(penalty, rel=1e-9)
    found = rules.penalty(tensor([float(length)], dtype=torch.float64))
    assert found.tolist() == pytest.approx([penalty], rel=1e-9)


def test_the_paper_limits_each_sentence_by_its_own_length():
    """1.5 · 4 + 3 = 9, and 1.5 · 5 + 3 = 10.5, of which 10 are whole tokens."""
    assert paper(limit_a=1.5, limit_b=3).limits(tensor([4, 5]), 99).tolist() == [9, 10]


def test_fairseq_limits_a_batch_by_its_width():
    """1.5 · 5 + 3 = 10.5, of which 10 are whole tokens, for both sentences, however short."""
    assert fairseqs(limit_a=1.5, limit_b=3).limits(tensor([4, 1]), 5).tolist() == [10, 10]


def test_the_paper_accepts_every_end():
    ended = tensor([[True, False, True]])
    assert paper().accepted(ended, tensor([99])).tolist() == ended.tolist()


def test_fairseq_accepts_ends_until_its_places_are_taken():
    """Of three places sentence 0 has taken none, sentence 1 two and sentence 2 all."""
    ended = tensor([[True, False, True, True], [False, True, True, False], [True] * 4])
    assert fairseqs(first=3).accepted(ended, tensor([0, 2, 3])).tolist() == [
        [True, False, True, True],
        [False, True, False, False],
        [False] * 4,
    ]


@pytest.mark.parametrize("rules, limit", [(paper(), 6), (fairseqs(), 1)])
@pytest.mark.parametrize(
    "worst, best_open, done",
    [
        (-2.0, -5.0, True),  # at best -5 / 2 = -2.5
        (-2.0, -4.0, True),  # -2: no better
        (-2.0, -3.9, False),  # -1.95 would be better
        (-2.0, -float("inf"), True),
        (-float("inf"), -5.0, False),  # a place is empty
    ],
)
def test_a_sentence_is_done_when_nothing_open_can_beat_the_worst_kept(
    rules, limit, worst, best_open, done
):
    """With its end symbol the longest translation has a penalty of 2 under both rules."""
    assert rules.penalty(limit + 1) == 2
    found = rules.done(tensor([worst]), tensor([best_open]), NOTHING, tensor([limit]))
    assert found.tolist() == [done]


@pytest.mark.parametrize("rules", [paper(early=False), fairseqs(early=False)])
def test_without_an_early_stop_scores_decide_nothing(rules):
    assert rules.done(tensor([-2.0]), tensor([-99.0]), NOTHING, tensor([6])).tolist() == [False]


def test_fairseq_stops_when_all_places_are_taken_and_the_paper_does_not():
    worst, best_open, limits = tensor([-2.0, -2.0]), tensor([-0.1, -0.1]), tensor([6, 6])
    finished = tensor([2, 3])
    assert fairseqs(first=3).done(worst, best_open, finished, limits).tolist() == [False, True]
    assert paper().done(worst, best_open, finished, limits).tolist() == [False, False]
