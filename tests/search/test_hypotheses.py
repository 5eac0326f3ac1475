"""§6.1 How finished hypotheses are kept, and read backwards from their ends."""

import pytest
import torch
from torch import tensor

from aiayn_plugin.search.hypotheses import Choices, Finished, History, _at_places
from aiayn_plugin.search.rules import FairseqRules, PaperRules

END, A, B, C, D = 2, 4, 5, 6, 7


def finished(sentences=1, kept=1, alpha=0.0):
    """Return the empty places of a batch; with α = 0 the score of a hypothesis is its log P."""
    return Finished(sentences, PaperRules(alpha, 1, 50, kept), torch.zeros(1, dtype=torch.float64))


def choices(sentence, token, parent, score):
    """Return what was chosen at a step, from lists."""
    return Choices(
        tensor(sentence), tensor(token), tensor(parent), tensor(score, dtype=torch.float64)
    )


def take(places, sentence, total, parent, end, step):
    """Call Finished.take with lists."""
    places.take(tensor(sentence), tensor(total).to(places.score), tensor(parent), tensor(end), step)


def example():
    """Return the example in the docstring of Finished.read: places and history of one sentence."""
    places = finished(alpha=1.0)
    take(places, [0], [[-5.0, -9.0]], [[0, 1]], [[True, False]], step=2)
    steps = [
        choices([0], [[A, B]], [[0, 0]], [[-1.0, -2.0]]),
        choices([0], [[C, D]], [[1, 0]], [[-3.0, -4.0]]),
    ]
    return places, History(steps)


def test_a_hypothesis_is_read_backwards_through_its_parents():
    """b, c, end: log P is -2, then -3, then -5; the penalty of 3 tokens is (5 + 3) / 6 = 4 / 3."""
    places, history = example()
    ((hypothesis,),) = places.read(history, END)
    assert hypothesis["tokens"].tolist() == [B, C, END]
    assert hypothesis["positional_scores"].tolist() == [-2.0, -1.0, -2.0]
    assert hypothesis["score"].item() == pytest.approx(-5 * 3 / 4)
    assert hypothesis["attention"].tolist() == hypothesis["alignment"].tolist() == []


def test_attention_is_that_of_the_places_on_the_way():
    """b was chosen at place 0 of step 0, c after b at place 1, the end after c at place 0."""
    places, history = example()
    # Weight 10 · step + place on the only source token.
    history.attention = [
        (tensor([0]), tensor([[[10.0 * step], [10.0 * step + 1]]])) for step in range(3)
    ]
    ((hypothesis,),) = places.read(history, END)
    assert hypothesis["attention"].tolist() == [[0.0, 11.0, 20.0]]


def test_a_sentence_that_is_done_earlier_is_not_in_the_later_steps():
    """Sentence 0 ends after b at step 1 and leaves; sentence 1 is the example."""
    places = finished(sentences=2)
    history = History(
        [
            choices([0, 1], [[A, B], [A, B]], [[0, 0], [0, 0]], [[-1.0, -2.0], [-1.0, -2.0]]),
            choices([1], [[C, D]], [[1, 0]], [[-3.0, -4.0]]),
        ]
    )
    take(
        places,
        [0, 1],
        [[-2.5, -3.0], [-3.0, -4.0]],
        [[1, 0], [1, 0]],
        [[True, False], [False, False]],
        step=1,
    )
    take(places, [1], [[-5.0, -9.0]], [[0, 1]], [[True, False]], step=2)
    (one,), (other,) = places.read(history, END)
    assert (one["tokens"].tolist(), one["positional_scores"].tolist()) == ([B, END], [-2.0, -0.5])
    assert other["tokens"].tolist() == [B, C, END]
    assert other["positional_scores"].tolist() == [-2.0, -1.0, -2.0]


def test_the_best_are_kept():
    """Of -3, -1 at step 0 and -2, -4 at step 1, two are kept: -1 and -2, with where they ended."""
    places = finished(kept=2)
    take(places, [0], [[-3.0, -1.0]], [[0, 1]], [[True, True]], step=0)
    assert places.score.tolist() == [[-1.0, -3.0]]
    take(places, [0], [[-2.0, -4.0, -0.5]], [[2, 1, 0]], [[True, True, False]], step=1)
    assert places.score.tolist() == places.total.tolist() == [[-1.0, -2.0]]
    assert (places.parent.tolist(), places.step.tolist()) == ([[1, 2]], [[0, 1]])
    assert places.count.tolist() == [4]


def test_a_longer_hypothesis_is_kept_for_its_penalty():
    """α = 1: -3 with 1 token scores -3 / 1, and -5 with 7 tokens -5 / 2."""
    places = finished(kept=1, alpha=1.0)
    take(places, [0], [[-3.0]], [[0]], [[True]], step=0)
    take(places, [0], [[-5.0]], [[1]], [[True]], step=6)
    assert (places.score.tolist(), places.total.tolist()) == ([[-2.5]], [[-5.0]])


def test_what_is_impossible_or_comes_too_late_is_not_taken():
    """log P of -inf is no hypothesis; and of two places of fairseq the third end gets none."""
    places = Finished(1, FairseqRules(0.0, 0, 200, kept=2, first=2), torch.zeros(1))
    take(places, [0], [[-3.0, -float("inf")]], [[0, 1]], [[True, True]], step=0)
    assert (places.count.tolist(), places.score.tolist()) == ([1], [[-3.0, -float("inf")]])
    take(places, [0], [[-4.0, -5.0]], [[0, 1]], [[True, True]], step=1)
    assert (places.count.tolist(), places.score.tolist()) == ([2], [[-3.0, -4.0]])


def test_a_place_that_stayed_empty_is_no_hypothesis():
    places = finished(sentences=2, kept=2)
    take(places, [1], [[-1.0]], [[0]], [[True]], step=0)
    none, (hypothesis,) = places.read(History(), END)
    assert none == [] and hypothesis["tokens"].tolist() == [END]


def test_values_at_places():
    """The example in the docstring of _at_places: sentence 0 of two is done."""
    sentence, place = tensor([1]), tensor([[0], [1]])
    assert _at_places(sentence, tensor([[5, 6]]), place).tolist() == [[0], [6]]
    weights = tensor([[[5, 50], [6, 60]]])
    assert _at_places(sentence, weights, place).tolist() == [[[0, 0]], [[6, 60]]]
    assert _at_places(sentence, tensor([[5]]), tensor([[3], [3]])).tolist() == [[0], [5]]
