"""§3: the whole model: what it may see, what padding may change, and how large it is."""

from types import SimpleNamespace

import pytest
import torch
from models import PAD, build, dictionary, pad_left, pad_right, sentences
from omegaconf import OmegaConf

from aiayn_plugin.benchmarks.measure import peak_memory
from aiayn_plugin.boundary.model import Transformer, TransformerConfig
from aiayn_plugin.boundary.task import AiaynTranslation, AiaynTranslationConfig
from aiayn_plugin.checkpoints.compare import BUFFER
from aiayn_plugin.errors import InputError
from aiayn_plugin.model.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward
from aiayn_plugin.paper import ARCHITECTURES, parameters, settings

MODEL_OPTIONS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "positions", "dropout")


VARIANTS = [{}, {"positions": "learned"}, {"neighbourhood": 3}, {"d_k": 3, "d_v": 5}]


def watch_target_embeddings(model):
    """The embedded target tokens of each call of the model, as leaves to differentiate by."""
    inputs = []

    def hook(module, args, out):
        inputs.append(out.detach().requires_grad_())
        return inputs[-1]

    model.decoder.embedding.register_forward_hook(hook)
    return inputs


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("padded", [None, "left", "right"])
def test_no_information_from_the_right(options, padded):
    model = build(left_pad_target=padded == "left", dropout=0.0, **options)
    source, target = sentences(6, 12)
    if padded:
        target = (pad_left if padded == "left" else pad_right)(target, 2)
    inputs = watch_target_embeddings(model)
    # one matrix embeds both sides: the hook sees the source first, then the target
    scores, _ = model(source, None, target)
    for i in range(2 if padded == "left" else 0, 12):
        (slope,) = torch.autograd.grad(scores[:, i].pow(2).sum(), inputs[1], retain_graph=True)
        assert slope[:, i + 1 :].eq(0).all(), f"position {i} sees a later one"
        assert slope[:, i].ne(0).any()


@pytest.mark.parametrize("options", VARIANTS)
def test_a_position_depends_on_the_same_inputs_in_decoding(options):
    """One position at a time, the gradient by every input is that of the whole pass."""
    model = build(dropout=0.0, **options)
    source, target = sentences(6, 12)
    inputs = watch_target_embeddings(model)
    whole, _ = model(source, None, target)
    (_, whole_input), inputs[:] = inputs[:2], []
    memory, state, scores = model.encoder(source), {}, []
    inputs.clear()
    for i in range(1, 13):
        scores.append(model.decoder(target[:, :i], memory, incremental_state=state)[0])
    for i in range(12):
        (expected,) = torch.autograd.grad(whole[:, i].pow(2).sum(), whole_input, retain_graph=True)
        found = torch.autograd.grad(
            scores[i].pow(2).sum(), inputs[: i + 1], retain_graph=True, allow_unused=True
        )
        for j, slope in enumerate(found):
            slope = torch.zeros(2, 1, 16).double() if slope is None else slope
            torch.testing.assert_close(slope[:, 0], expected[:, j], rtol=0, atol=1e-10)
        assert expected[:, i + 1 :].eq(0).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("pad, left", [(pad_left, True), (pad_right, False)])
@pytest.mark.parametrize("options", VARIANTS)
def test_padding_changes_nothing(pad, left, training, options):
    model = build(left_pad_target=left, dropout=0.0, **options).train(training)
    source, target = sentences(40, 40)
    expected, _ = model(source, None, target)
    found, _ = model(pad(source, 3), None, pad(target, 2))
    found = found[:, 2:] if left else found[:, :-2]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.isfinite().all()


@pytest.mark.parametrize("options", VARIANTS)
def test_one_position_at_a_time_equals_all_at_once(options):
    model = build(**options).eval()
    source, target = sentences(6, 12)
    source = torch.cat((source, source.flip(1)[:, :3].fill_(PAD)), dim=1)
    expected, extra = model(source, None, target)
    memory, state, steps, attention = model.encoder(source), {}, [], []
    for i in range(1, target.size(1) + 1):
        scores, step_extra = model.decoder(target[:, :i], memory, incremental_state=state)
        steps.append(scores)
        attention.append(step_extra["attn"][0])
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.cat(attention, dim=1), extra["attn"][0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [*VARIANTS, {"attention_dropout": 0.5}])
def test_attention_computed_again_changes_only_the_memory(options):
    source, target = sentences(40, 40, batch=8)
    slopes, memory = [], []
    for again in (False, True):
        model = build(checkpoint_activations=again, **options)

        def once(model=model):
            torch.manual_seed(5)  # of the dropout
            model(pad_left(source, 3), None, target)[0].pow(2).sum().backward()

        memory.append(peak_memory(once, source.device))
        slopes.append([parameter.grad for parameter in model.parameters()])
    for kept, again in zip(*slopes, strict=True):
        assert torch.equal(kept, again)
    assert memory[1] < 0.9 * memory[0]


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
    torch.testing.assert_close(encoder(x), norm(y + encoder.feed_forward(y)))
    decoder = DecoderLayer(12, 0.0, options)
    y = norm(x + decoder.self_attention(x)[0])
    y = norm(y + decoder.encoder_attention(y, memory)[0])
    found, _ = decoder(x, memory)
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
    assert torch.autograd.gradcheck(lambda x, memory: layer(x, memory)[0], inputs)


def test_dropout_acts_before_the_residual():
    module = AddNorm(8, dropout=1.0)
    x = torch.randn(2, 8)
    torch.testing.assert_close(module(x, torch.full((2, 8), 1e6)), module.norm(x))


KNOWN = {  # spec: with a shared vocabulary of 37,000
    "aiayn_base": 63_045_632,
    "aiayn_a_h32": 63_045_632,
    "aiayn_e_learned": 63_045_632 + 2 * 1024 * 512,
    "aiayn_big": 214_171_648,
    "aiayn_big_en_fr": 214_171_648,
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameter_counts(arch):
    options = {name: getattr(settings(arch), name) for name in MODEL_OPTIONS}
    with torch.device("meta"):
        model = build(37_000, max_source_positions=1024, max_target_positions=1024, **options)
    count = sum(p.numel() for p in model.parameters())
    assert count == parameters(arch, 37_000) == KNOWN.get(arch, count)


def test_attention_biases_are_counted():
    with torch.device("meta"):
        model = build(37_000, attention_bias=True,
                      **{n: getattr(settings("aiayn_base"), n) for n in MODEL_OPTIONS})  # fmt: skip
    assert sum(p.numel() for p in model.parameters()) == 63_082_496  # spec


def test_one_matrix_embeds_both_sides_and_projects():
    model = build()
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.projection
    features = torch.randn(2, 3, 16).double()
    torch.testing.assert_close(model.output_layer(features), features @ model.projection.T)


def test_embeddings_can_be_untied():
    model = build(tie_embeddings="target")
    assert model.encoder.embedding.weight is not model.decoder.embedding.weight is model.projection
    model = build(tie_embeddings="none")
    matrices = (model.encoder.embedding.weight, model.decoder.embedding.weight, model.projection)
    assert len({id(matrix) for matrix in matrices}) == 3


def test_learned_positions_are_as_many_as_trained():
    model = build(positions="learned", max_source_positions=8, max_target_positions=7)
    assert model.max_positions() == (8, 7)
    source, target = sentences(8, 7)
    model(pad_left(source, 3), None, target)  # padding takes no position
    with pytest.raises(ValueError, match="learned 8 positions, and the input has 9"):
        model(torch.cat((source, source[:, :1]), dim=1), None, target)
    with pytest.raises(ValueError, match="learned 7 positions"):
        model(source, None, torch.cat((target, target[:, :1]), dim=1))


def test_sinusoids_have_no_limit():
    source, target = sentences(1500, 3)
    model = build()
    assert min(model.max_positions()) >= 100_000
    assert model(source, None, target)[0].isfinite().all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"d_model": 18}, "d_model 18 is not divisible by h 4"),
        ({"d_model": 15, "d_k": 4, "d_v": 4}, "even d_model"),
        ({"d_k": 0}, "must be at least 1"),
        ({"d_v": -1}, "must be at least 1"),
        ({"h": 0}, "h 0 must be at least 1"),
        ({"neighbourhood": 0}, "neighbourhood 0 must be at least 1"),
        ({"positions": "fairseq", "d_model": 2, "h": 1}, "even d_model of 4 or more"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(InputError, match=message):
        build(**options)


def test_different_dictionaries_are_refused():
    task = SimpleNamespace(source_dictionary=dictionary(10), target_dictionary=dictionary(11))
    with pytest.raises(InputError, match="joined dictionary"):
        Transformer.build_model(TransformerConfig(), task)


def test_a_training_with_bad_settings_ends_with_one_line():
    task = AiaynTranslation(AiaynTranslationConfig(), dictionary(10), dictionary(11))
    with pytest.raises(InputError, match="source and target dictionaries differ"):
        task.build_model(OmegaConf.create({"model": {"_name": "aiayn_transformer"}}).model)


@pytest.mark.parametrize("trained, other, message", [
    ({"h": 4}, {"h": 2}, "h is 4 in it and 2 here"),
    ({}, {"neighbourhood": 3}, "neighbourhood is None in it and 3 here"),
    ({"positions": "fairseq"}, {}, "positions is fairseq in it and sinusoids here"),
    ({"d_ff": 24}, {"d_ff": 32}, "W_1.bias is .24,. in it and .32,. here"),
    ({"words": 30}, {"words": 31}, "dictionary of 30 entries, the data one of 31"),
])
def test_weights_of_another_architecture_are_refused(trained, other, message):
    with pytest.raises(InputError, match=message):
        build(**other).load_state_dict(build(**trained).state_dict())


def test_weights_from_before_a_checkpoint_said_its_architecture_load():
    model = build()
    old = {name: weight for name, weight in model.state_dict().items() if name != BUFFER}
    loaded = build()
    for weight in loaded.parameters():
        torch.nn.init.zeros_(weight)
    loaded.load_state_dict(old)
    assert all(torch.equal(weight, old[name]) for name, weight in loaded.named_parameters())
