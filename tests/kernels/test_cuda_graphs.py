"""When a step is captured. The graphs themselves need a GPU: tests/test_gpu.py."""

import pytest
import torch
from torch.autograd.graph import Node, get_gradient_edge

from aiayn_plugin.kernels.cuda_graphs import GraphedStep

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="capturing fails without a GPU")


def accumulation(weight: torch.Tensor) -> Node:
    """Return the node of the autograd graph that adds to weight.grad; the graph keeps it alive."""
    return get_gradient_edge(weight).node


def test_a_step_is_eager_until_its_shapes_recur():
    model = torch.nn.Linear(3, 1, bias=False)

    def step(x):
        loss = model(x).sum()
        accumulation(model.weight).metadata["used before"] = True
        loss.backward()
        return (loss,)

    graphed = GraphedStep(step, model)
    small, large = torch.ones(2, 3), torch.ones(4, 3)
    for x in (small, large):
        assert graphed(x)[0] == model(x).sum()
    assert model.weight.grad.tolist() == [[6, 6, 6]] and graphed.graph_count == 0
    model.weight.grad = None  # a graph would add to the old gradient
    for x in (small, large):
        graphed(x)
    assert model.weight.grad.tolist() == [[6, 6, 6]]
    with pytest.raises(RuntimeError, match="CUDA") as failure:
        graphed(small)
    # The capture would fail if it reused nodes of the computation before it, which belong to
    # another stream. The failure keeps alive whatever was alive then.
    assert failure and not accumulation(model.weight).metadata
    assert model.weight.grad.tolist() == [[8, 8, 8]], "computed, and so compiled, before capture"
