"""--int8: products of 8-bit numbers, beside the same products in float32."""

import pytest
import torch
import torch.nn.functional as F
from models import build, sentences

from aiayn_plugin.errors import InputError
from aiayn_plugin.model import int8
from aiayn_plugin.model.int8 import SEVEN_BITS, Int8Projection, in_int8
from aiayn_plugin.search.kv_cache import DecoderCache


def test_no_result_is_further_off_than_rounding_can_make_it():
    """Each number of W moves by half a step of its row, each of x by half a step of x at most."""
    torch.manual_seed(1)
    W, b, x = torch.randn(40, 100), torch.randn(40), 3 * torch.randn(7, 5, 100)
    W[3] *= 1e-4  # a row of small weights has small steps
    W[4] = 0
    W_step = W.abs().amax(dim=1) / 127
    x_step = (x.max() - x.min()) / (127 if SEVEN_BITS else 255)
    exact = F.linear(x.double(), W.double(), b.double())
    error = (Int8Projection(W, b)(x) - exact).abs()
    by_W = x.abs().sum(dim=-1, keepdim=True) * W_step / 2
    by_x = W.abs().sum(dim=1) * x_step / 2
    both = 100 * W_step * x_step / 4
    assert (error <= 1.001 * (by_W + by_x + both) + 1e-5).all()
    assert error.mean() > 1e-4  # it is rounded indeed


def test_many_outputs_are_the_same_by_the_other_library(monkeypatch):
    torch.manual_seed(1)
    W, b, x = torch.randn(200, 64), torch.randn(200), torch.randn(9, 64)
    usual, engine = Int8Projection(W, b)(x), torch.backends.quantized.engine
    monkeypatch.setattr(int8, "MANY_OUTPUTS", 200)
    torch.testing.assert_close(Int8Projection(W, b)(x), usual, rtol=0, atol=1e-4)
    assert torch.backends.quantized.engine == engine


def test_whole_numbers_stay_exact():
    W = torch.tensor([[127.0, -2.0, 0.0], [3.0, 127.0, 1.0]])
    x = torch.tensor([[0.0, 1.0, 127.0 if SEVEN_BITS else 255.0], [2.0, 100.0, 7.0]])
    torch.testing.assert_close(Int8Projection(W)(x), x @ W.T)


@pytest.mark.parametrize("settings", [{}, {"attention_bias": True, "tie_embeddings": "none"}])
def test_a_model_in_8_bits_says_nearly_the_same(settings):
    source, target = sentences(8, 7, batch=3)
    exact = build(d_model=64, d_ff=128, **settings).float().eval()
    model = build(d_model=64, d_ff=128, **settings).float().eval()
    in_int8(model.encoder, model.decoder)
    in_int8(model.encoder, model.decoder)  # a second time changes nothing
    with torch.no_grad():
        expected, _ = exact(source, None, target)
        found, _ = model(source, None, target)
        memory = model.encoder.encode(source)
        cache = DecoderCache(model.decoder.layers, *memory, model.decoder.cache_dtype)
        steps = []
        for step in range(target.size(1)):
            cache.advance(target[:, step : step + 1])
            features, _ = model.decoder.decode(target[:, step : step + 1], cache=cache)
            steps.append(model.decoder.project(features))
    for scores in (found, torch.cat(steps, dim=1)):
        error = (scores - expected).norm() / expected.norm()
        assert 1e-4 < error < 0.1


@pytest.mark.parametrize("native", [True, False])
def test_a_search_attends_in_bfloat16_where_the_processor_computes_in_it(monkeypatch, native):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    model = build().float()
    in_int8(model.encoder, model.decoder)
    assert model.decoder.cache_dtype == (torch.bfloat16 if native else None)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda model: model.double(), "in float32 on a CPU"),
        (lambda model: model.half(), "in float32 on a CPU"),
        (
            lambda model: model.decoder.layers[1].feed_forward.W_1.weight.data.fill_(torch.nan),
            "NaN",
        ),
    ],
)
def test_what_has_no_8_bits(spoil, message):
    model = build().float()
    spoil(model)
    with pytest.raises(InputError, match=message):
        in_int8(model.encoder, model.decoder)
