"""§6.1 How finished hypotheses are kept, and traced back from their ends."""

import pytest
import torch
from torch import tensor

from aiayn_plugin.search.hypotheses import Choices, FinishedHypotheses, History
from aiayn_plugin.search.rules import FairseqRules, PaperRules

END, A, B, C, D = 2, 4, 5, 6, 7
INF = float("inf")


def finished(sentences=1, kept=1, alpha=0.0):
    """Return no finished hypotheses of a batch; with α = 0 the score of one is its log P."""
    rules = PaperRules(alpha, 1, 50, kept)
    return FinishedHypotheses(sentences, rules, torch.zeros(1, dtype=torch.float64))


def choices(sentence, token, parent, score):
    """Return the choices of a step from lists."""
    return Choices(
        tensor(sentence), tensor(token), tensor(parent), tensor(score, dtype=torch.float64)
    )


def add(kept, sentence, total, parent, end, step):
    """Call FinishedHypotheses.add with lists."""
    kept.add(tensor(sentence), tensor(total).to(kept.score), tensor(parent), tensor(end), step)


def example():
    """Return the example in the docstring of trace_back: finished hypotheses and history."""
    kept = finished(alpha=1.0)
    add(kept, [0], [[-5.0, -9.0]], [[0, 1]], [[True, False]], step=2)
    steps = [
        choices([0], [[A, B]], [[0, 0]], [[-1.0, -2.0]]),
        choices([0], [[C, D]], [[1, 0]], [[-3.0, -4.0]]),
    ]
    return kept, History(steps)


def test_a_hypothesis_is_traced_back_through_its_parents():
    """b, c, end: log P is -2, then -3, then -5; the penalty of 3 tokens is (5 + 3) / 6 = 4 / 3."""
    kept, history = example()
    ((hypothesis,),) = kept.trace_back(history)
    assert hypothesis.tokens.tolist() == [B, C, END]
    assert hypothesis.positional_scores.tolist() == [-2.0, -1.0, -2.0]
    assert hypothesis.score.item() == pytest.approx(-5 * 3 / 4)
    assert hypothesis.attention is None


def test_attention_follows_the_parents_too():
    """b was chosen at beam 0 of step 0, c after b at beam 1, the end after c at beam 0."""
    kept, history = example()
    # The weight on the only source token is 10 · step + beam index.
    history.attention = [
        (tensor([0]), tensor([[[10.0 * step], [10.0 * step + 1]]])) for step in range(3)
    ]
    ((hypothesis,),) = kept.trace_back(history)
    assert hypothesis.attention.tolist() == [[0.0, 11.0, 20.0]]


def test_the_first_step_has_a_single_hypothesis():
    """Its attention has one beam, whatever the beam index of the end."""
    kept = finished()
    add(kept, [0], [[-9.0, -1.0]], [[0, 3]], [[False, True]], step=0)
    history = History(attention=[(tensor([0]), tensor([[[0.5, 0.25]]]))])
    ((hypothesis,),) = kept.trace_back(history)
    assert hypothesis.attention.tolist() == [[0.5], [0.25]]


def test_a_sentence_that_finished_early_is_absent_from_later_steps():
    """Sentence 0 ends after b at step 1 and leaves; sentence 1 is the example."""
    kept = finished(sentences=2)
    history = History(
        [
            choices([0, 1], [[A, B], [A, B]], [[0, 0], [0, 0]], [[-1.0, -2.0], [-1.0, -2.0]]),
            choices([1], [[C, D]], [[1, 0]], [[-3.0, -4.0]]),
        ],
        [
            (tensor([0, 1]), torch.zeros(2, 1, 1)),
            (tensor([1, 0]), tensor([[[6.0], [7.0]], [[8.0], [9.0]]])),
            (tensor([1]), tensor([[[1.0], [2.0]]])),
        ],
    )
    totals, parents, ends = [[-2.5, -3.0], [-3.0, -4.0]], [[1, 0]] * 2, [[True, False], [False] * 2]
    add(kept, [0, 1], totals, parents, ends, step=1)
    add(kept, [1], [[-5.0, -9.0]], [[0, 1]], [[True, False]], step=2)
    (one,), (other,) = kept.trace_back(history)
    assert (one.tokens.tolist(), one.positional_scores.tolist()) == ([B, END], [-2.0, -0.5])
    assert one.attention.tolist() == [[0.0, 9.0]]
    assert other.tokens.tolist() == [B, C, END]
    assert other.positional_scores.tolist() == [-2.0, -1.0, -2.0]
    assert other.attention.tolist() == [[0.0, 7.0, 1.0]]


def test_the_best_are_kept():
    """Of -3, -1 at step 0 and -2, -4 at step 1, two are kept: -1 and -2."""
    kept = finished(kept=2)
    add(kept, [0], [[-3.0, -1.0]], [[0, 1]], [[True, True]], step=0)
    assert kept.score.tolist() == [[-1.0, -3.0]]
    add(kept, [0], [[-2.0, -4.0, -0.5]], [[2, 1, 0]], [[True, True, False]], step=1)
    assert kept.score.tolist() == kept.total.tolist() == [[-1.0, -2.0]]
    assert (kept.parent.tolist(), kept.step.tolist()) == ([[1, 2]], [[0, 1]])
    assert kept.count.tolist() == [4]


def test_a_longer_hypothesis_is_kept_for_its_penalty():
    """α = 1: -3 with 1 token scores -3 / 1, and -5 with 7 tokens -5 / 2."""
    kept = finished(kept=1, alpha=1.0)
    add(kept, [0], [[-3.0]], [[0]], [[True]], step=0)
    add(kept, [0], [[-5.0]], [[1]], [[True]], step=6)
    assert (kept.score.tolist(), kept.total.tolist()) == ([[-2.5]], [[-5.0]])


def test_impossible_and_late_hypotheses_are_not_kept():
    """log P = -inf is not kept, nor is a third hypothesis by fairseq's rules with a beam of 2."""
    kept = FinishedHypotheses(1, FairseqRules(0.0, 0, 200, kept=2, beam=2), torch.zeros(1))
    add(kept, [0], [[-3.0, -INF]], [[0, 1]], [[True, True]], step=0)
    assert (kept.count.tolist(), kept.score.tolist()) == ([1], [[-3.0, -INF]])
    add(kept, [0], [[-4.0, -5.0]], [[0, 1]], [[True, True]], step=1)
    assert (kept.count.tolist(), kept.score.tolist()) == ([2], [[-3.0, -4.0]])


def test_a_sentence_may_have_fewer_hypotheses_than_are_kept():
    kept = finished(sentences=2, kept=2)
    add(kept, [1], [[-1.0]], [[0]], [[True]], step=0)
    none, (hypothesis,) = kept.trace_back(History())
    assert none == [] and hypothesis.tokens.tolist() == [END]
