"""§3: the whole model: what it may see, what padding may change, and how large it is."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from aiayn_plugin.architectures import ARCHITECTURES, settings
from aiayn_plugin.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward
from aiayn_plugin.transformer import Transformer, TransformerConfig

MODEL_OPTIONS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout")
PAD, EOS = 1, 2


def dictionary(words: int) -> Dictionary:
    made = Dictionary()
    for i in range(words - len(made)):
        made.add_symbol(f"w{i}")
    return made


def build(words=30, left_pad_target=False, **options) -> Transformer:
    options = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4, **options}
    task = SimpleNamespace(
        source_dictionary=(d := dictionary(words)),
        target_dictionary=d,
        cfg=SimpleNamespace(left_pad_target=left_pad_target),
    )
    torch.manual_seed(1)
    return Transformer.build_model(TransformerConfig(**options), task).double()


def sentences():
    torch.manual_seed(2)
    source, target = torch.randint(4, 30, (2, 6)), torch.randint(4, 30, (2, 5))
    source[:, -1] = EOS
    target[:, 0] = EOS  # fairseq's shifted target starts with the end symbol
    return source, target


def pad_left(tokens, n):
    return torch.cat((torch.full((tokens.size(0), n), PAD), tokens), dim=1)


def pad_right(tokens, n):
    return torch.cat((tokens, torch.full((tokens.size(0), n), PAD)), dim=1)


@pytest.mark.parametrize("left_pad_target", [False, True])
def test_no_information_from_the_right(left_pad_target):
    model = build(left_pad_target=left_pad_target, dropout=0.0)
    source, target = sentences()
    if left_pad_target:
        target = pad_left(target, 2)
    inputs = []
    model.decoder.embedding.register_forward_hook(
        lambda module, args, out: inputs.append(out.detach().requires_grad_()) or inputs[-1]
    )
    # one matrix embeds both sides: the hook sees the source first, then the target
    scores, _ = model(source, None, target)
    n = target.size(1)
    for i in range(2 if left_pad_target else 0, n):
        (slope,) = torch.autograd.grad(scores[:, i].pow(2).sum(), inputs[1], retain_graph=True)
        assert slope[:, i + 1 :].eq(0).all(), f"position {i} sees a later one"
        assert slope[:, i].ne(0).any()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("pad, left", [(pad_left, True), (pad_right, False)])
def test_padding_changes_nothing(pad, left, training):
    model = build(left_pad_target=left, dropout=0.0).train(training)
    source, target = sentences()
    expected, _ = model(source, None, target)
    found, _ = model(pad(source, 3), None, pad(target, 2))
    found = found[:, 2:] if left else found[:, :-2]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.isfinite().all()


def test_one_position_at_a_time_equals_all_at_once():
    model = build().eval()
    source, target = sentences()
    source = torch.cat((source, source.flip(1)[:, :3].fill_(PAD)), dim=1)
    expected, extra = model(source, None, target)
    memory, state, steps, attention = model.encoder(source), {}, [], []
    for i in range(1, target.size(1) + 1):
        scores, step_extra = model.decoder(target[:, :i], memory, incremental_state=state)
        steps.append(scores)
        attention.append(step_extra["attn"][0])
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.cat(attention, dim=1), extra["attn"][0], rtol=0, atol=1e-12)


def test_reordering_moves_sentences_with_their_state():
    model = build().eval()
    source, target = sentences()
    order = torch.tensor([1, 0, 1])
    memory, state = model.encoder(source), {}
    model.decoder(target[:, :1], memory, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    memory = model.encoder.reorder_encoder_out(memory, order)
    found, _ = model.decoder(target[order, :2], memory, incremental_state=state)
    expected, _ = model(source[order], None, target[order, :2])
    torch.testing.assert_close(found[:, 0], expected[:, 1], rtol=0, atol=1e-12)


def test_layers_are_post_norm():
    torch.manual_seed(1)
    options = {"d_model": 8, "h": 2, "d_k": 4, "d_v": 4}
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8)

    def norm(y):
        centred = y - y.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()

    encoder = EncoderLayer(12, 0.0, options)
    y = norm(x + encoder.self_attention(x)[0])
    torch.testing.assert_close(encoder(x, None), norm(y + encoder.feed_forward(y)))
    decoder = DecoderLayer(12, 0.0, options)
    y = norm(x + decoder.self_attention(x, causal=True)[0])
    y = norm(y + decoder.encoder_attention(y, memory)[0])
    found, _ = decoder(x, memory, None, None)
    torch.testing.assert_close(found, norm(y + decoder.feed_forward(y)))


def test_feed_forward_equals_the_formula():
    torch.manual_seed(1)
    module, x = FeedForward(3, 5), torch.randn(2, 4, 3)
    expected = (x @ module.W_1.weight.T + module.W_1.bias).clamp(min=0) @ module.W_2.weight.T
    torch.testing.assert_close(module(x), expected + module.W_2.bias)


def test_layer_gradients():
    torch.manual_seed(1)
    layer = DecoderLayer(6, 0.0, {"d_model": 4, "h": 2, "d_k": 2, "d_v": 2}).double()
    inputs = [torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(lambda x, memory: layer(x, memory, None, None)[0], inputs)


def test_dropout_acts_before_the_residual():
    module = AddNorm(8, dropout=1.0)
    x = torch.randn(2, 8)
    torch.testing.assert_close(module(x, torch.full((2, 8), 1e6)), module.norm(x))


def formula(V, N, d_model, d_ff, h, d_k=None, d_v=None, **_):
    d_k, d_v = d_k or d_model // h, d_v or d_model // h
    attention = 2 * d_model * h * d_k + 2 * d_model * h * d_v
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return V * d_model + N * (encoder + decoder)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameter_counts(arch):
    options = {name: settings(arch)[name] for name in MODEL_OPTIONS}
    count = sum(p.numel() for p in build(words=37_000, **options).parameters())
    assert count == formula(37_000, **options)
    known = {"aiayn_base": 63_045_632, "aiayn_big": 214_171_648, "aiayn_big_en_fr": 214_171_648}
    assert count == known.get(arch, count)


def test_one_matrix_embeds_both_sides_and_projects():
    model = build()
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.projection
    features = torch.randn(2, 3, 16).double()
    torch.testing.assert_close(model.output_layer(features), features @ model.projection.T)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"d_model": 18}, "d_model 18 is not divisible by h 4"),
        ({"d_model": 15, "d_k": 4, "d_v": 4}, "even d_model"),
        ({"d_k": 0}, "must be at least 1"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_different_dictionaries_are_refused():
    task = SimpleNamespace(source_dictionary=dictionary(10), target_dictionary=dictionary(11))
    with pytest.raises(ValueError, match="joined dictionary"):
        Transformer.build_model(TransformerConfig(), task)
