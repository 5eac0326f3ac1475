"""Packed weights: the same model, for searching only."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from models import build, sentences

from aiayn_plugin.kernels import linear as products
from aiayn_plugin.kernels.linear import PackedProjection
from aiayn_plugin.model import packing as fixed
from aiayn_plugin.search.kv_cache import DecoderCache


@pytest.fixture(autouse=True)
def amd(monkeypatch):
    """Pack as on a processor of AMD, where this torch has oneDNN."""
    if not products._has_onednn():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "_is_amd", lambda: True)


@pytest.mark.parametrize("rows", [(1,), (4,), (3, 5), (2, 50, 4), (0,)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_weight_is_the_same_for_any_number_of_rows(rows, bias):
    torch.manual_seed(1)
    x, weight = torch.randn(*rows, 64), torch.randn(96, 64)
    b = torch.randn(96) if bias else None
    found = PackedProjection(weight, b)(x)
    torch.testing.assert_close(found, F.linear(x, weight, b), rtol=0, atol=2e-5)
    columns = x.transpose(0, -1).contiguous().transpose(0, -1)  # in another order in memory
    torch.testing.assert_close(PackedProjection(weight, b)(columns), found, rtol=0, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_weight_can_be_copied(dtype):
    packed = PackedProjection(torch.randn(96, 64).to(dtype), torch.randn(96).to(dtype))
    x = torch.randn(5, 64).to(dtype)
    for other in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        torch.testing.assert_close(other(x), packed(x), rtol=0, atol=0)


def test_a_packed_weight_follows_its_model_to_another_precision():
    weight, x = torch.randn(96, 64), torch.randn(5, 64)
    packed = PackedProjection(weight, torch.randn(96))
    expected = F.linear(x.double(), weight.double(), packed.bias.double())
    torch.testing.assert_close(packed.double()(x.double()), expected, rtol=0, atol=1e-12)
    assert packed.packed is None
    torch.testing.assert_close(packed.float()(x).double(), expected, rtol=0, atol=2e-5)
    assert packed.packed is not None
    found = packed.bfloat16()(x.bfloat16())
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=0.3)


def test_a_packed_weight_works_under_autocast():
    packed = PackedProjection(torch.randn(96, 64))
    x = torch.randn(5, 64)
    with torch.autocast("cpu", torch.bfloat16):
        found = packed(x.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), packed(x), rtol=0, atol=0.3)


@pytest.mark.parametrize(
    "settings", [{}, {"attention_bias": True, "tie_embeddings": "none"}, {"neighbourhood": 3}]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_model_says_the_same(settings, dtype):
    source, target = sentences(8, 7, batch=3)
    plain, model = (build(d_model=64, d_ff=128, **settings).to(dtype).eval() for _ in range(2))
    fixed.pack(model.encoder, model.decoder)
    if not products.packing_pays(plain.projection):
        pytest.skip("this processor has no bfloat16")
    assert isinstance(model.encoder.layers[0].feed_forward.W_1, PackedProjection)
    kept = [
        module.whole is not None
        for module in model.modules()
        if isinstance(module, PackedProjection)
    ]
    assert set(kept) == {dtype == torch.float32}, "in bfloat16 no weight is there twice"
    fixed.pack(model.encoder, model.decoder)  # a second time changes nothing
    assert sum(isinstance(module, PackedProjection) for module in model.modules()) == len(kept)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    with torch.no_grad():
        expected, found = (one(source, None, target)[0] for one in (plain, model))
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * expected.abs().max())
        cache = DecoderCache(model.decoder.layers, *model.encoder.encode(source))
        for step in range(target.size(1)):
            cache.advance(target[:, step : step + 1])
            features, _ = model.decoder.decode(target[:, step : step + 1], cache=cache)
            torch.testing.assert_close(
                model.decoder.project(features)[:, 0],
                expected[:, step],
                rtol=0,
                atol=tolerance * float(expected.abs().max()),
            )


def test_what_gains_nothing_stays(monkeypatch):
    model = build().eval()  # in float64
    fixed.pack(model.encoder, model.decoder)
    assert model.decoder.W_scores is None
    monkeypatch.setattr(products, "_is_amd", lambda: False)
    fixed.pack(model.float().encoder, model.decoder)
    assert model.decoder.W_scores is None
