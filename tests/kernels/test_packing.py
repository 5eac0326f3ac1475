"""Packed weights: the same results, for inference only."""

import pytest
import torch
import torch.nn.functional as F
from models import build, sentences
from searches import decode_step_by_step
from torch import nn

from aiayn_plugin.kernels.packing import PackedLinear, is_packing_faster, pack_linear_layers


@pytest.fixture(autouse=True)
def onednn(monkeypatch):
    """Pack on any processor, if this torch has oneDNN."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr("aiayn_plugin.kernels.packing.is_amd", lambda: True)


@pytest.mark.parametrize("rows", [(1,), (4,), (3, 5), (2, 50, 4), (0,)])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_layer_equals_linear_for_any_number_of_rows(rows, bias):
    torch.manual_seed(1)
    x, weight = torch.randn(*rows, 64), torch.randn(96, 64)
    b = torch.randn(96) if bias else None
    expected = F.linear(x, weight, b)
    torch.testing.assert_close(PackedLinear(weight, b)(x), expected, rtol=0, atol=2e-5)
    strided = x.transpose(0, -1).contiguous().transpose(0, -1)
    torch.testing.assert_close(PackedLinear(weight, b)(strided), expected, rtol=0, atol=2e-5)


def test_packed_layer_follows_its_model_to_another_dtype():
    weight, x = torch.randn(96, 64), torch.randn(5, 64)
    packed = PackedLinear(weight, torch.randn(96))
    expected = F.linear(x.double(), weight.double(), packed.bias.double())
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5), (torch.bfloat16, 0.3)):
        actual = packed.to(dtype)(x.to(dtype))
        assert actual.dtype == packed.weight.dtype == dtype
        torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)


def test_packed_layer_works_under_autocast():
    packed = PackedLinear(torch.randn(96, 64))
    x = torch.randn(5, 64)
    with torch.autocast("cpu", torch.bfloat16):
        actual = packed(x.bfloat16())
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), packed(x), rtol=0, atol=0.3)


@pytest.mark.parametrize(
    "settings", [{}, {"attention_bias": True, "tie_embeddings": "none"}, {"neighbourhood": 3}]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_packed_model_equals_the_model(settings, dtype):
    """In a full pass and step by step; packing twice changes nothing."""
    source, target = sentences(8, 7, batch=3)
    plain, model = (build(d_model=64, d_ff=128, **settings).to(dtype).eval() for _ in range(2))
    if not is_packing_faster(plain.projection):
        pytest.skip("this processor has no bfloat16")
    for _ in range(2):
        pack_linear_layers(model)
    packed = [module for module in model.modules() if isinstance(module, PackedLinear)]
    # Per layer: 4 + 2 in the encoder and 4 + 4 + 2 + the stacked W_QKV in the decoder; projection.
    assert len(packed) == 2 * (6 + 11) + 1
    assert torch.equal(model.projection, plain.projection)
    # Only float32 keeps the dense weight as well.
    assert {layer.dense_weight is not None for layer in packed} == {dtype == torch.float32}

    expected, actual = (m(source, None, target)[0] for m in (plain, model))
    tolerance = (1e-5 if dtype == torch.float32 else 0.05) * float(expected.abs().max())
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
    stepwise = decode_step_by_step(model, source, target)
    torch.testing.assert_close(stepwise, expected, rtol=0, atol=tolerance)


class Gate(nn.Linear):
    """A user's layer that computes more than xWᵀ + b."""

    def forward(self, x):
        return super().forward(x).sigmoid()


@torch.no_grad()
def test_linear_layers_that_are_used_differently_are_kept():
    """torch's own attention reads the weight; a subclass may override forward."""
    x = torch.randn(2, 3, 8)
    model = nn.Sequential(nn.Linear(8, 8), Gate(8, 8), nn.MultiheadAttention(8, 2))
    expected, _ = model[2](x, x, x)
    pack_linear_layers(model)
    assert not isinstance(model[0], nn.Linear) and type(model[1]) is Gate
    assert model[2](x, x, x)[0].equal(expected)


def test_model_is_not_packed_where_that_is_no_faster(monkeypatch):
    model = build().eval()  # in float64
    pack_linear_layers(model)
    monkeypatch.setattr("aiayn_plugin.kernels.packing.is_amd", lambda: False)
    pack_linear_layers(model.float())
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this torch has no MKL")
def test_on_an_intel_processor_only_large_float32_weights_are_packed(monkeypatch):
    monkeypatch.setattr("aiayn_plugin.kernels.packing.is_amd", lambda: False)
    small, large = (PackedLinear(torch.randn(n, 512)) for n in (512, 1024))
    assert small.packed_weight is None and large.packed_weight is not None
    x = torch.randn(4, 512)
    torch.testing.assert_close(large(x), F.linear(x, large.weight), rtol=0, atol=1e-4)
