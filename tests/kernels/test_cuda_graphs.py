"""When a step is captured. The graphs themselves need a GPU: tests/test_gpu.py."""

import pytest
import torch

from aiayn_plugin.kernels.cuda_graphs import GraphedStep

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="capturing fails without a GPU")


def test_a_step_is_eager_until_its_shapes_recur():
    model = torch.nn.Linear(3, 1, bias=False)

    def step(x):
        loss = model(x).sum()
        loss.backward()
        return (loss.detach(),)

    graphed = GraphedStep(step, model)
    small, large = torch.ones(2, 3), torch.ones(4, 3)
    for x in (small, large):
        assert graphed(x)[0] == model(x).sum()
    assert model.weight.grad.tolist() == [[6, 6, 6]] and graphed.graph_count == 0
    model.weight.grad = None  # a graph would add to the old gradient
    for x in (small, large):
        graphed(x)
    assert model.weight.grad.tolist() == [[6, 6, 6]]
    with pytest.raises(RuntimeError, match="CUDA"):
        graphed(small)
    assert model.weight.grad.tolist() == [[8, 8, 8]], "computed, and so compiled, before capture"
