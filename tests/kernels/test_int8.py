"""int8 linear layers, compared with the same layers in float32 and float64."""

import pytest
import torch
import torch.nn.functional as F
from models import build, sentences
from searches import decode_step_by_step

from aiayn_plugin.errors import InputError
from aiayn_plugin.kernels.int8 import (
    ONEDNN_MIN_ROWS,
    REDUCE_RANGE,
    Int8Linear,
    quantize_linear_layers,
)

#: The largest quantised value of x.
X_LEVELS = 127 if REDUCE_RANGE else 255


def test_error_is_within_the_rounding_of_both_operands():
    """Each element of W moves by at most half a step of its row, each of x by half a step of x."""
    torch.manual_seed(1)
    W, b, x = torch.randn(40, 100), torch.randn(40), 3 * torch.randn(7, 5, 100)
    W[3] *= 1e-4  # a row of small weights has a small step
    W[4] = 0
    W_step = W.abs().amax(dim=1) / 127
    x_step = (x.max() - x.min()) / X_LEVELS
    exact = F.linear(x.double(), W.double(), b.double())
    error = (Int8Linear(W, b)(x) - exact).abs()
    error_of_W = x.abs().sum(dim=-1, keepdim=True) * W_step / 2
    error_of_x = W.abs().sum(dim=1) * x_step / 2
    error_of_both = 100 * W_step * x_step / 4
    assert (error <= 1.001 * (error_of_W + error_of_x + error_of_both) + 1e-5).all()
    assert error.mean() > 1e-4, "not quantised"


def test_both_libraries_agree(monkeypatch):
    """For any number of rows; packing leaves torch's setting as it was."""
    torch.manual_seed(1)
    W, b = torch.randn(200, 64), torch.randn(200)
    engine = torch.backends.quantized.engine
    by_fbgemm = Int8Linear(W, b)
    monkeypatch.setattr("aiayn_plugin.kernels.int8.ONEDNN_MIN_OUTPUTS", 200)
    by_onednn = Int8Linear(W, b)
    for rows in (1, ONEDNN_MIN_ROWS - 1, ONEDNN_MIN_ROWS, 100):
        x = torch.randn(rows, 64)
        error = (by_onednn(x) - by_fbgemm(x)).abs()
        assert error.mean() < 2e-3  # where a value of x lies between two integers, both may differ
        assert (error <= (x.max() - x.min()) / X_LEVELS * W.abs().amax(dim=1) + 1e-4).all()
    assert torch.backends.quantized.engine == engine


def test_small_integers_are_exact():
    W = torch.tensor([[127.0, -2.0, 0.0], [3.0, 127.0, 1.0]])
    x = torch.tensor([[0.0, 1.0, float(X_LEVELS)], [2.0, 100.0, 7.0]])
    torch.testing.assert_close(Int8Linear(W)(x), x @ W.T)


@pytest.mark.parametrize("settings", [{}, {"attention_bias": True, "tie_embeddings": "none"}])
@torch.no_grad()
def test_int8_model_is_close_to_the_float32_model(settings):
    """In a full pass and step by step; quantising twice changes nothing."""
    source, target = sentences(8, 7, batch=3)
    exact, model = (build(d_model=64, d_ff=128, **settings).float().eval() for _ in range(2))
    for _ in range(2):
        quantize_linear_layers(model)
    expected, _ = exact(source, None, target)
    stepwise = decode_step_by_step(model, source, target)
    for actual in (model(source, None, target)[0], stepwise):
        error = (actual - expected).norm() / expected.norm()
        assert 1e-4 < error < 0.1


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda model: model.double(), "float32 model on a CPU"),
        (
            lambda model: model.decoder.layers[1].feed_forward.W_1.weight.data.fill_(torch.nan),
            "NaN",
        ),
    ],
)
def test_model_that_cannot_be_quantised_is_refused(spoil, message):
    model = build().float()
    spoil(model)
    with pytest.raises(InputError, match=message):
        quantize_linear_layers(model)
