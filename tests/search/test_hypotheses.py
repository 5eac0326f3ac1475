"""§6.1 Ends that are not kept; test_beam.py and test_generator.py compare whole searches."""

import torch
from torch import tensor

from aiayn_plugin.search.hypotheses import FinishedHypotheses
from aiayn_plugin.search.rules import FairseqRules

INF = float("inf")


def test_impossible_and_surplus_hypotheses_are_not_kept():
    """log P = -inf is not kept, nor is a third hypothesis by fairseq's rules with a beam of 2."""
    kept = FinishedHypotheses(1, FairseqRules(0.0, 0, 200, kept=2, beam=2), torch.zeros(1))
    steps = [([-3.0, -INF], 1, [-3.0, -INF]), ([-4.0, -5.0], 2, [-3.0, -4.0])]
    for step, (totals, count, scores) in enumerate(steps):
        ends = tensor([[True, True]])
        kept.add(tensor([0]), tensor([totals]), tensor([[0, 1]]), ends, step)
        assert (kept.count.tolist(), kept.score.tolist()) == ([count], [scores])
