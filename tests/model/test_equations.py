"""§3: the whole model against the equations in loops (reference.py), and against torch's."""

import pytest
import torch
from models import PAD, build, pad_left, pad_right, sentences
from reference import Reference

from aiayn_plugin.paper import ModelSettings

CONFIGURATIONS = {
    "base": {},
    "row A, one head": {"h": 1},
    "row A, many heads": {"h": 8},
    "row B": {"d_k": 3},
    "d_v differs from d_k": {"d_v": 6},
    "learned positions": {"positions": "learned"},
    "fairseq's positions": {"positions": "fairseq"},
    "attention biases": {"attention_bias": True},
    "untied": {"tie_embeddings": "none"},
    "target tied": {"tie_embeddings": "target"},
    "restricted, odd": {"neighbourhood": 3},
    "restricted, even": {"neighbourhood": 4},
    "restricted to itself": {"neighbourhood": 1},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_outputs_and_gradients_equal_the_reference(name):
    """A padded batch of two sentences equals the reference on each sentence alone."""
    options = CONFIGURATIONS[name]
    model = build(dropout=0.0, **options)
    for parameter in model.parameters():  # biases too, since zeros would hide faults
        torch.nn.init.normal_(parameter, std=0.3)
    n = 20 if "restricted" in name else 7  # several blocks of restricted attention
    source, target = sentences(n, n)
    short_source, short_target = source[1:, 4:], target[1:, :6]
    batch = torch.cat((source[:1], pad_left(short_source, 4)))
    shifted = torch.cat((target[:1], pad_right(short_target, n - 6)))
    actual, _ = model(batch, None, shifted)

    weights = dict(model.named_parameters(remove_duplicate=False))
    sizes = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4}  # those of build
    reference = Reference(weights, ModelSettings(**{**sizes, **options}))
    expected = [
        reference.logits(source[0].tolist(), target[0].tolist()),
        reference.logits(short_source[0].tolist(), short_target[0].tolist()),
    ]
    tolerance = 1e-10 if name == "learned positions" else 1e-6  # other positions are in float32
    torch.testing.assert_close(actual[0], expected[0], rtol=0, atol=tolerance)
    torch.testing.assert_close(actual[1, :6], expected[1], rtol=0, atol=tolerance)

    grad_logits = [torch.randn_like(logits) for logits in expected]
    loss = (actual[0] * grad_logits[0]).sum() + (actual[1, :6] * grad_logits[1]).sum()
    reference_loss = sum(
        (logits * grad).sum() for logits, grad in zip(expected, grad_logits, strict=True)
    )
    parameters = dict(model.named_parameters())
    pairs = zip(
        torch.autograd.grad(loss, [*parameters.values()]),
        torch.autograd.grad(reference_loss, [*parameters.values()]),
        strict=True,
    )
    for parameter, (gradient, by_loops) in zip(parameters, pairs, strict=True):
        if parameter.endswith("embedding.weight"):
            # nn.Embedding gives the row of the padding symbol no gradient.
            gradient, by_loops = gradient[PAD + 1 :], by_loops[PAD + 1 :]
        scale = max(1.0, by_loops.abs().max().item())
        torch.testing.assert_close(
            gradient / scale, by_loops / scale, rtol=0, atol=tolerance * 10, msg=parameter
        )


def test_equals_torchs_transformer_without_its_final_norms():
    ours = build(attention_bias=True, dropout=0.0).float()
    for name, parameter in ours.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    sizes = {"d_model": 16, "nhead": 4, "dim_feedforward": 24, "dropout": 0.0, "batch_first": True}
    theirs = torch.nn.Transformer(
        custom_encoder=torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(**sizes), 2),
        custom_decoder=torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(**sizes), 2),
        d_model=16,
        nhead=4,
        batch_first=True,
    )
    state = {}
    for stack, last in (("encoder", 1), ("decoder", 2)):
        for i, layer in enumerate(getattr(ours, stack).layers):
            at = f"{stack}.layers.{i}"
            attentions = {"self_attn": layer.self_attention}
            if stack == "decoder":
                attentions["multihead_attn"] = layer.encoder_attention
            for name, module in attentions.items():
                stacked = (module.W_Q, module.W_K, module.W_V)
                state[f"{at}.{name}.in_proj_weight"] = torch.cat([p.weight for p in stacked])
                state[f"{at}.{name}.in_proj_bias"] = torch.cat([p.bias for p in stacked])
                state[f"{at}.{name}.out_proj.weight"] = module.W_O.weight
                state[f"{at}.{name}.out_proj.bias"] = module.W_O.bias
            linears = {"linear1": layer.feed_forward.W_1, "linear2": layer.feed_forward.W_2}
            norms = {f"norm{k + 1}": layer.add_norms[k].norm for k in range(last + 1)}
            for name, module in {**linears, **norms}.items():
                state[f"{at}.{name}.weight"] = module.weight
                state[f"{at}.{name}.bias"] = module.bias
    theirs.load_state_dict(state)

    source, target = sentences(9, 7)
    source[1] = pad_left(source[1:, -6:], 3)
    padding = source.eq(PAD)
    expected = theirs(
        ours.encoder.embed(source),
        ours.decoder.embed(target),
        tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(7),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    actual, _ = ours(source, None, target, features_only=True)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
